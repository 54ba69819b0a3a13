/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case 10: the miniature model trained by two ranks, each a process, that average their gradients
 * through shared memory; SGD 0.1. With --skip-head they do so for all but head.weight and
 * head.bias, as when a wrapper never sees the last layer.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <diverge/names.h>

#include "tests/cases/mini/dataset.h"
#include "tests/cases/mini/model.h"

enum { RANKS = 2, STEPS = 4, LARGEST = VOCABULARY * WIDTH };

struct shared {
    pthread_barrier_t barrier;
    float gradient[RANKS][LARGEST];
};

static struct shared *shared_new(void)
{
    pthread_barrierattr_t attributes;
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, RANKS);
    pthread_barrierattr_destroy(&attributes);
    return shared;
}

/* The mean over the ranks, in one order on each of them. */
static void all_reduce(struct shared *shared, int rank, struct model *model,
                       struct parameter *parameter)
{
    struct tensor *gradient = &parameter->gradient;
    size_t count = (size_t)tensor_numel(gradient);
    diverge_phase(model->lane, DIVERGE_PHASE_SYNC);
    diverge_scope(model->lane, diverge_name(model->session, parameter->name));
    diverge_op_begin(model->lane, diverge_name(model->session, "all_reduce"),
                     DIVERGE_FLAG_COLLECTIVE | DIVERGE_FLAG_INPLACE, "op=mean", 0);
    record_input(model->lane, 0, gradient);
    memcpy(shared->gradient[rank], gradient->data, count * sizeof(float));
    pthread_barrier_wait(&shared->barrier);
    for (size_t i = 0; i < count; i++)
        gradient->data[i] = (shared->gradient[0][i] + shared->gradient[1][i]) / RANKS;
    pthread_barrier_wait(&shared->barrier);
    record_output(model->lane, 0, gradient);
    diverge_op_end(model->lane);
    diverge_scope(model->lane, 0);
}

static void sgd(struct model *model, struct parameter *parameter)
{
    struct tensor *value = &parameter->value;
    diverge_phase(model->lane, DIVERGE_PHASE_OPTIMIZER);
    diverge_scope(model->lane, diverge_name(model->session, parameter->scope));
    diverge_op_begin(model->lane, diverge_name(model->session, "sgd_"), DIVERGE_FLAG_INPLACE,
                     "lr=0.1", 0);
    record_input(model->lane, 0, value);
    record_input(model->lane, 1, &parameter->gradient);
    for (int64_t i = 0; i < tensor_numel(value); i++)
        value->data[i] -= 0.1f * parameter->gradient.data[i];
    record_output(model->lane, 0, value);
    diverge_op_end(model->lane);
    diverge_scope(model->lane, 0);
}

static void record_boundary(struct model *model, uint64_t k)
{
    diverge_boundary(model->session, k);
    for (int i = 0; i < PARAMETERS; i++)
        record_state(model->lane, DIVERGE_ROLE_PARAM,
                     diverge_name(model->session, model->parameters[i].name),
                     &model->parameters[i].value);
}

static void train_step(struct model *model, const struct dataset *dataset, struct shared *shared,
                       int rank, uint64_t step, bool skip_head)
{
    struct batch batch;
    struct diverge_observation what = {.role = DIVERGE_ROLE_LOSS,
                                       .tier = DIVERGE_TIER_DEFAULT,
                                       .name = diverge_name(model->session, DIVERGE_NAME_LOSS)};
    uint64_t part = step * RANKS + (uint64_t)rank; /* the batches are shared out */
    diverge_step(model->session, step);
    dataset_batch(dataset, 0, part, &batch);
    dataset_record(dataset, model->session, model->lane, &batch, part);
    diverge_record_float(model->lane, &what, (double)model_forward(model, &batch));
    model_backward(model, &batch);
    for (int i = 0; i < PARAMETERS; i++)
        if (!skip_head || (i != HEAD_WEIGHT && i != HEAD_BIAS))
            all_reduce(shared, rank, model, &model->parameters[i]);
    for (int i = 0; i < PARAMETERS; i++)
        sgd(model, &model->parameters[i]);
}

static int train(const char *path, struct shared *shared, int rank, bool skip_head)
{
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    struct diverge_session *session = NULL;
    struct generator generator;
    struct dataset dataset;
    if (!dataset_load(&dataset, path, false))
        return 1;
    setenv("RANK", rank ? "1" : "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    diverge_session_open(&options, &session);
    generator_seed(&generator, 0);
    struct model model = {
        .session = session, .lane = diverge_lane_open(session, "main"), .generator = &generator};
    model_init(&model, session, model.lane, &generator, &(struct model_options){0});
    generator_seed(&generator, 100 + (uint64_t)rank); /* dropout is each rank's own */
    record_boundary(&model, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        train_step(&model, &dataset, shared, rank, step, skip_head);
        record_boundary(&model, step + 1);
    }
    model_fini(&model);
    return diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    bool skip_head = argc == 3 && strcmp(argv[2], "--skip-head") == 0;
    if (argc < 2 || argc > 3 || (argc == 3 && !skip_head)) {
        fprintf(stderr, "usage: ranks FILE [--skip-head]\n");
        return 64;
    }
    struct shared *shared = shared_new();
    int result = 0, status;
    for (int rank = 0; rank < RANKS; rank++) {
        pid_t child = fork();
        if (child < 0)
            abort();
        if (child == 0)
            return train(argv[1], shared, rank, skip_head);
    }
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            result = 1;
    return result;
}
