/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Case c1: a run that is equal to every other run of itself although nothing that may differ is
 * equal: wall times, pids, the interleaving of its threads, pointer-valued outputs, what
 * uninitialised memory holds.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/cases/mini/generator.h"
#include "tests/cases/mini/tensor.h"

enum { STEPS = 6, OPS = 50, THREADS = 2 };

struct worker {
    struct diverge_session *session;
    struct diverge_lane *lane;
    uint64_t step;
    int index;
};

static void record_volatile(struct worker *worker, int64_t value)
{
    struct diverge_observation what = {.role = DIVERGE_ROLE_OUTPUT,
                                       .slot = 1,
                                       .tier = DIVERGE_TIER_DEFAULT,
                                       .flags = DIVERGE_FLAG_VOLATILE};
    diverge_record_integer(worker->lane, &what, value);
}

static void record_empty(struct worker *worker)
{
    struct tensor empty = tensor_new(16, 0, 0);
    for (int i = 0; i < 16; i++)
        empty.data[i] = (float)getpid() + (float)time(NULL);
    diverge_op_begin(worker->lane, diverge_name(worker->session, "empty"),
                     DIVERGE_FLAG_UNINITIALISED, NULL, 0);
    record_output(worker->lane, 0, &empty);
    diverge_op_end(worker->lane);
    tensor_free(&empty);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct generator values;
    generator_seed(&values, worker->step * 10 + (uint64_t)worker->index);
    struct tensor x = tensor_new(8, 0, 0);
    for (int i = 0; i < OPS; i++) {
        for (int j = 0; j < 8; j++)
            x.data[j] = generator_uniform(&values, -1, 1);
        diverge_op_begin(worker->lane, diverge_name(worker->session, "draw"), 0, NULL, 0);
        record_output(worker->lane, 0, &x);
        record_volatile(worker, (int64_t)(intptr_t)x.data + getpid());
        diverge_op_end(worker->lane);
        record_empty(worker);
        if (rand() % 4 == 0)
            sched_yield();
    }
    tensor_free(&x);
    return NULL;
}

int main(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    srand((unsigned)(now.tv_nsec ^ getpid()));
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    struct diverge_session *session = NULL;
    diverge_session_open(&options, &session);
    struct worker workers[THREADS] = {
        {.session = session, .lane = diverge_lane_open(session, "first"), .index = 0},
        {.session = session, .lane = diverge_lane_open(session, "second"), .index = 1},
    };
    for (uint64_t step = 0; step < STEPS; step++) {
        diverge_boundary(session, step);
        diverge_step(session, step);
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++) {
            workers[t].step = step;
            if (pthread_create(&threads[t], NULL, work, &workers[t]) != 0)
                abort();
        }
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
    }
    diverge_boundary(session, STEPS);
    return diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE) == 0 ? 0 : 1;
}
