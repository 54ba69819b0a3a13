/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/mini/sum.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/cases/mini/generator.h"

enum { ELEMENTS = 1 << 20, MAX_THREADS = 16 };

struct part {
    const float *data;
    int64_t count;
    float sum;
};

static void *sum_part(void *argument)
{
    struct part *part = argument;
    for (int64_t i = 0; i < part->count; i++)
        part->sum += part->data[i];
    return NULL;
}

/* Partial sums are added in the order of the parts: each number of threads repeats itself. */
static float sum_threads(const float *data, int threads)
{
    struct part parts[MAX_THREADS] = {0};
    pthread_t running[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        parts[i] = (struct part){.data = data + (int64_t)i * (ELEMENTS / threads),
                                 .count = ELEMENTS / threads};
        if (pthread_create(&running[i], NULL, sum_part, &parts[i]) != 0)
            abort();
    }
    float total = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(running[i], NULL);
        total += parts[i].sum;
    }
    return total;
}

void sum_record(struct diverge_session *session, struct diverge_lane *lane, int threads)
{
    struct tensor data = tensor_new(ELEMENTS, 0, 0);
    struct tensor total = tensor_new(0, 0, 0);
    struct generator generator;
    generator_seed(&generator, 7);
    for (int i = 0; i < ELEMENTS; i++)
        data.data[i] = generator_uniform(&generator, 0, 1);
    diverge_phase(lane, DIVERGE_PHASE_FORWARD);
    diverge_scope(lane, diverge_name(session, "monitor"));
    diverge_op_begin(lane, diverge_name(session, "sum"), 0, NULL, 0);
    record_input(lane, 0, &data);
    total.data[0] = sum_threads(data.data, threads > MAX_THREADS ? MAX_THREADS : threads);
    record_output(lane, 0, &total);
    diverge_op_end(lane);
    diverge_scope(lane, 0);
    tensor_free(&data);
    tensor_free(&total);
}
