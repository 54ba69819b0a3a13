/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The miniature training run of the cases: 40 samples, 8 steps, Adam, one thread. Each option
 * plants one real cause of divergence.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/names.h>

#include "tests/cases/mini/adam.h"
#include "tests/cases/mini/dataset.h"
#include "tests/cases/mini/sum.h"

struct options {
    const char *data;
    const char *save; /* write a checkpoint at boundary `save_at` */
    uint64_t save_at;
    const char *load;  /* resume from this checkpoint */
    bool fresh_adam;   /* do not restore the optimizer */
    bool swap_moments; /* restore ln.weight's and ln.bias's moments exchanged */
    bool reverse;
    int schedule_calls;
    int sum_threads;  /* not 0: step 0 sums 2^20 floats with so many threads */
    uint64_t stop_at; /* die by SIGKILL in the middle of this step; UINT64_MAX: never */
    uint64_t steps;
    bool extra_log; /* one more op that has no effect, in step 2 */
    struct model_options model;
};

struct checkpoint {
    uint64_t step;
    struct generator generator;
    float lr;
    int64_t adam_step;
};

static bool transfer(FILE *file, bool save, void *data, size_t size)
{
    return (save ? fwrite(data, 1, size, file) : fread(data, 1, size, file)) == size;
}

static bool transfer_tensor(FILE *file, bool save, struct tensor *tensor)
{
    return transfer(file, save, tensor->data, (size_t)tensor_numel(tensor) * sizeof(float));
}

static bool transfer_all(FILE *file, bool save, struct checkpoint *checkpoint, struct model *model,
                         struct adam *adam)
{
    bool ok = transfer(file, save, checkpoint, sizeof(*checkpoint));
    for (int i = 0; i < PARAMETERS && ok; i++)
        ok = transfer_tensor(file, save, &model->parameters[i].value) &&
             transfer_tensor(file, save, &adam->exp_avg[i]) &&
             transfer_tensor(file, save, &adam->exp_avg_sq[i]);
    return ok;
}

static bool checkpoint_save(const char *path, uint64_t step, struct model *model, struct adam *adam)
{
    struct checkpoint checkpoint = {
        .step = step, .generator = *model->generator, .lr = adam->lr, .adam_step = adam->step};
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool ok = transfer_all(file, true, &checkpoint, model, adam);
    return fclose(file) == 0 && ok;
}

static void swap_tensors(struct tensor *a, struct tensor *b)
{
    float *kept = a->data;
    a->data = b->data;
    b->data = kept;
}

static bool checkpoint_load(const struct options *options, uint64_t *step, struct model *model,
                            struct adam *adam)
{
    struct checkpoint checkpoint;
    FILE *file = fopen(options->load, "rb");
    if (!file)
        return false;
    bool ok = transfer_all(file, false, &checkpoint, model, adam);
    fclose(file);
    if (!ok)
        return false;
    *step = checkpoint.step;
    *model->generator = checkpoint.generator;
    adam->step = checkpoint.adam_step;
    adam->fresh = false;
    adam->lr = checkpoint.lr;
    if (options->fresh_adam) {
        float lr = adam->lr;
        adam_fini(adam);
        adam_init(adam, model, 0.01f);
        adam->lr = lr;
    }
    if (options->swap_moments) {
        swap_tensors(&adam->exp_avg[LN_WEIGHT], &adam->exp_avg[LN_BIAS]);
        swap_tensors(&adam->exp_avg_sq[LN_WEIGHT], &adam->exp_avg_sq[LN_BIAS]);
    }
    return true;
}

static void record_generator(struct model *model, uint16_t slot)
{
    struct diverge_observation what = {.role = DIVERGE_ROLE_RNG,
                                       .slot = slot,
                                       .tier = DIVERGE_TIER_DEFAULT,
                                       .name = diverge_name(model->session, "global")};
    diverge_record_bytes(model->lane, &what, model->generator->state,
                         sizeof(model->generator->state));
}

static void record_boundary(struct model *model, const struct adam *adam, uint64_t k)
{
    diverge_boundary(model->session, k);
    record_generator(model, 0);
    for (int i = 0; i < PARAMETERS; i++)
        record_state(model->lane, DIVERGE_ROLE_PARAM,
                     diverge_name(model->session, model->parameters[i].name),
                     &model->parameters[i].value);
    adam_record(adam, model);
    diverge_counter(model->session, "global_step", (int64_t)k);
    record_generator(model, 1);
}

static void log_norm(struct model *model)
{
    diverge_phase(model->lane, DIVERGE_PHASE_FORWARD);
    diverge_op_begin(model->lane, diverge_name(model->session, "norm"), 0, NULL, 0);
    record_input(model->lane, 0, &model->parameters[FC1_WEIGHT].value);
    struct tensor norm = tensor_new(0, 0, 0);
    norm.data[0] = model->parameters[FC1_WEIGHT].value.data[0];
    record_output(model->lane, 0, &norm);
    diverge_op_end(model->lane);
    diverge_phase(model->lane, DIVERGE_PHASE_LOSS);
    tensor_free(&norm);
}

static void train_step(const struct options *options, const struct dataset *dataset,
                       struct model *model, struct adam *adam, uint64_t step)
{
    struct batch batch;
    diverge_step(model->session, step);
    dataset_batch(dataset, 0, step, &batch);
    dataset_record(dataset, model->session, model->lane, &batch, step);
    if (step == 0 && options->sum_threads)
        sum_record(model->session, model->lane, options->sum_threads);
    float loss = model_forward(model, &batch);
    if (options->extra_log && step == 2)
        log_norm(model);
    struct diverge_observation what = {.role = DIVERGE_ROLE_LOSS,
                                       .tier = DIVERGE_TIER_DEFAULT,
                                       .name = diverge_name(model->session, DIVERGE_NAME_LOSS)};
    diverge_record_float(model->lane, &what, (double)loss);
    if (step == options->stop_at) {
        diverge_flush(model->session, 5000);
        raise(SIGKILL);
    }
    model_backward(model, &batch);
    adam_step(adam, model);
    for (int i = 0; i < options->schedule_calls; i++)
        adam_schedule(adam);
}

static int train(const struct options *options, struct diverge_session *session)
{
    struct diverge_lane *lane = diverge_lane_open(session, "main");
    struct generator generator;
    generator_seed(&generator, 0);
    struct dataset dataset;
    if (!dataset_load(&dataset, options->data, options->reverse)) {
        fprintf(stderr, "mini: cannot read %s\n", options->data);
        return 1;
    }
    struct model model = {.session = session, .lane = lane, .generator = &generator};
    record_generator(&model, 0);
    model_init(&model, session, lane, &generator, &options->model);
    record_generator(&model, 1);
    struct adam adam;
    adam_init(&adam, &model, 0.01f);
    uint64_t first = 0;
    if (options->load && !checkpoint_load(options, &first, &model, &adam)) {
        fprintf(stderr, "mini: cannot load %s\n", options->load);
        return 1;
    }
    record_boundary(&model, &adam, first);
    for (uint64_t step = first; step < options->steps; step++) {
        train_step(options, &dataset, &model, &adam, step);
        record_boundary(&model, &adam, step + 1);
        if (options->save && step + 1 == options->save_at &&
            !checkpoint_save(options->save, step + 1, &model, &adam))
            return 1;
    }
    adam_fini(&adam);
    model_fini(&model);
    return 0;
}

static const struct option LONG_OPTIONS[] = {
    {"data", required_argument, NULL, 'd'},
    {"head-seed", required_argument, NULL, 'h'},
    {"dirty-bias", required_argument, NULL, 'u'},
    {"reverse", no_argument, NULL, 'r'},
    {"schedule-calls", required_argument, NULL, 'c'},
    {"sum-threads", required_argument, NULL, 't'},
    {"save", required_argument, NULL, 's'},
    {"save-at", required_argument, NULL, 'a'},
    {"load", required_argument, NULL, 'l'},
    {"fresh-adam", no_argument, NULL, 'f'},
    {"swap-moments", no_argument, NULL, 'w'},
    {"steps", required_argument, NULL, 'n'},
    {"stop-at", required_argument, NULL, 'x'},
    {"extra-log", no_argument, NULL, 'e'},
    {NULL, 0, NULL, 0},
};

static bool parse_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){.schedule_calls = 1, .steps = 8, .stop_at = UINT64_MAX};
    int flag;
    while ((flag = getopt_long(argc, argv, "", LONG_OPTIONS, NULL)) != -1) {
        switch (flag) {
        case 'd':
            options->data = optarg;
            break;
        case 'h':
            options->model.head_seed = atoll(optarg);
            break;
        case 'u':
            options->model.dirty_bias = atoll(optarg);
            break;
        case 'r':
            options->reverse = true;
            break;
        case 'c':
            options->schedule_calls = atoi(optarg);
            break;
        case 't':
            options->sum_threads = atoi(optarg);
            break;
        case 's':
            options->save = optarg;
            break;
        case 'a':
            options->save_at = (uint64_t)atoll(optarg);
            break;
        case 'l':
            options->load = optarg;
            break;
        case 'f':
            options->fresh_adam = true;
            break;
        case 'w':
            options->swap_moments = true;
            break;
        case 'n':
            options->steps = (uint64_t)atoll(optarg);
            break;
        case 'x':
            options->stop_at = (uint64_t)atoll(optarg);
            break;
        case 'e':
            options->extra_log = true;
            break;
        default:
            return false;
        }
    }
    return options->data != NULL;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!parse_options(argc, argv, &options)) {
        fprintf(stderr, "usage: mini --data FILE [options]\n");
        return 64;
    }
    char threads[16];
    snprintf(threads, sizeof(threads), "%d", options.sum_threads ? options.sum_threads : 1);
    struct diverge_metadata metadata[] = {{"num_threads", threads}};
    struct diverge_options session_options = DIVERGE_OPTIONS_INIT;
    session_options.name = "mini";
    session_options.metadata = metadata;
    session_options.n_metadata = 1;
    struct diverge_session *session = NULL;
    diverge_session_open(&session_options, &session);
    int status = train(&options, session);
    diverge_session_close(session, status ? DIVERGE_OUTCOME_FAILED : DIVERGE_OUTCOME_COMPLETE);
    return status;
}
