/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case 5: the gradient of a small embedding (4x16 = 64 cells) is added up from 12 500 rows by two
 * threads, by compare-and-swap and in no fixed order: a real race of the kind that makes scatter
 * kernels nondeterministic.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/names.h>

#include "tests/cases/mini/generator.h"
#include "tests/cases/mini/tensor.h"

enum { ROWS = 12500, WIDTH = 16, VOCABULARY = 4, THREADS = 2, STEPS = 4 };

struct work {
    _Atomic uint32_t *cells;
    const int64_t *tokens;
    const float *gradient;
    int first, last;
    pthread_barrier_t *start;
};

static void add(_Atomic uint32_t *cell, float value)
{
    uint32_t seen = atomic_load(cell);
    for (;;) {
        float sum;
        memcpy(&sum, &seen, sizeof(sum));
        sum += value;
        uint32_t wanted;
        memcpy(&wanted, &sum, sizeof(wanted));
        if (atomic_compare_exchange_weak(cell, &seen, wanted))
            return;
    }
}

static void *scatter(void *argument)
{
    struct work *work = argument;
    pthread_barrier_wait(work->start);
    for (int i = work->first; i < work->last; i++)
        for (int c = 0; c < WIDTH; c++)
            add(&work->cells[work->tokens[i] * WIDTH + c], work->gradient[i * WIDTH + c]);
    return NULL;
}

static void embedding_backward(float *d_weight, const int64_t *tokens, const float *gradient)
{
    static _Atomic uint32_t cells[VOCABULARY * WIDTH];
    for (int i = 0; i < VOCABULARY * WIDTH; i++)
        atomic_store(&cells[i], 0);
    pthread_t threads[THREADS];
    struct work work[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) {
        work[t] = (struct work){.cells = cells,
                                .tokens = tokens,
                                .gradient = gradient,
                                .first = t * ROWS / THREADS,
                                .last = (t + 1) * ROWS / THREADS,
                                .start = &start};
        if (pthread_create(&threads[t], NULL, scatter, &work[t]) != 0)
            abort();
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < VOCABULARY * WIDTH; i++) {
        uint32_t bits = atomic_load(&cells[i]);
        memcpy(&d_weight[i], &bits, sizeof(bits));
    }
}

static void train_step(struct diverge_session *session, struct diverge_lane *lane, uint64_t step,
                       struct tensor *weight, struct tensor *d_weight, struct tensor *gradient,
                       const int64_t *tokens)
{
    diverge_step(session, step);
    diverge_scope(lane, diverge_name(session, "emb"));
    diverge_phase(lane, DIVERGE_PHASE_FORWARD);
    diverge_op_begin(lane, diverge_name(session, "embedding"), 0, NULL, 0);
    record_input(lane, 0, weight);
    record_int64(lane, DIVERGE_ROLE_INPUT, 1, 0, tokens, ROWS, 0);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < WIDTH; c++)
            gradient->data[i * WIDTH + c] =
                weight->data[tokens[i] * WIDTH + c] * (float)(i % 13) / ROWS;
    record_output(lane, 0, gradient);
    diverge_op_end(lane);
    diverge_phase(lane, DIVERGE_PHASE_BACKWARD);
    diverge_op_begin(lane, diverge_name(session, "embedding_backward"), 0, NULL, 0);
    record_input(lane, 0, gradient);
    record_int64(lane, DIVERGE_ROLE_INPUT, 1, 0, tokens, ROWS, 0);
    embedding_backward(d_weight->data, tokens, gradient->data);
    record_output(lane, 0, d_weight);
    diverge_op_end(lane);
    record_state(lane, DIVERGE_ROLE_GRAD, diverge_name(session, "emb.weight"), d_weight);
    diverge_phase(lane, DIVERGE_PHASE_OPTIMIZER);
    for (int i = 0; i < VOCABULARY * WIDTH; i++)
        weight->data[i] -= 0.1f * d_weight->data[i];
    diverge_scope(lane, 0);
}

int main(void)
{
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.name = "race";
    struct diverge_session *session = NULL;
    diverge_session_open(&options, &session);
    struct diverge_lane *lane = diverge_lane_open(session, "main");
    struct generator generator;
    generator_seed(&generator, 3);
    struct tensor weight = tensor_new(VOCABULARY, WIDTH, 0);
    struct tensor d_weight = tensor_new(VOCABULARY, WIDTH, 0);
    struct tensor gradient = tensor_new(ROWS, WIDTH, 0);
    static int64_t tokens[ROWS];
    for (int i = 0; i < VOCABULARY * WIDTH; i++)
        weight.data[i] = generator_uniform(&generator, -1, 1);
    for (int i = 0; i < ROWS; i++)
        tokens[i] = (int64_t)(generator_next(&generator) % VOCABULARY);
    for (uint64_t step = 0; step <= STEPS; step++) {
        diverge_boundary(session, step);
        record_state(lane, DIVERGE_ROLE_PARAM, diverge_name(session, "emb.weight"), &weight);
        if (step < STEPS)
            train_step(session, lane, step, &weight, &d_weight, &gradient, tokens);
    }
    tensor_free(&weight);
    tensor_free(&d_weight);
    tensor_free(&gradient);
    return diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE) == 0 ? 0 : 1;
}
