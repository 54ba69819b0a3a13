/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel in plain C: the one every machine can run, and the one others are checked against. */
#include <math.h>
#include <string.h>

#include "client/lib/fingerprint/element.h"
#include "client/lib/fingerprint/kernel.h"
#include "client/lib/fingerprint/keys.h"

static bool always(void)
{
    return true;
}

/* Products are below 2^93, so a block's 1024 fit 128 bits; two sums shorten the chain of adds. */
static uint64_t block_sum(const uint8_t *bytes, size_t words, unsigned first)
{
    const uint64_t *key = &dvg_key[first];
    dvg_u128 even = 0;
    dvg_u128 odd = 0;
    uint32_t word;
    size_t i = 0;

    for (; i + 2 <= words; i += 2) {
        memcpy(&word, bytes + 4 * i, sizeof(word));
        even += (dvg_u128)key[i] * word;
        memcpy(&word, bytes + 4 * i + 4, sizeof(word));
        odd += (dvg_u128)key[i + 1] * word;
    }
    if (i < words) {
        memcpy(&word, bytes + 4 * i, sizeof(word));
        even += (dvg_u128)key[i] * word;
    }
    return dvg_residue128(even + odd);
}

/* Signed lane sums of values that start at element `first` of their half block. */
static void add_lanes(const double *values, size_t count, uint64_t start, float *lanes)
{
    for (size_t i = 0; i < count; i++) {
        unsigned r = (unsigned)((start + i) % DVG_BLOCK);
        float value = (float)values[i];

        if (!isfinite(value))
            value = 0;
        lanes[r % DVG_LANES] += dvg_sign[r] ? -value : value;
    }
}

/* At most one half block. */
static void measure_half(enum diverge_dtype dtype, const uint8_t *data, size_t count,
                         uint64_t start, struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    double values[DVG_HALF];

    for (size_t i = 0; i < count; i++)
        values[i] = dvg_element(dtype, data, i);
    if (stats) {
        dvg_stats_add(stats, values, count);
        dvg_integer_range(dtype, data, count, stats);
    }
    if (sketch) {
        float lanes[DVG_LANES] = {0};

        add_lanes(values, count, start, lanes);
        dvg_sketch_add(sketch, start / DVG_HALF, lanes);
    }
}

static void measure(enum diverge_dtype dtype, const void *data, size_t count, uint64_t start,
                    struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    const uint8_t *at = data;

    while (count) {
        size_t left = DVG_HALF - start % DVG_HALF;
        size_t now = count < left ? count : left;

        measure_half(dtype, at, now, start, stats, sketch);
        at += now * dvg_component_bytes(dtype);
        start += now;
        count -= now;
    }
}

const struct dvg_kernel dvg_kernel_scalar = {
    .name = "scalar",
    .supported = always,
    .block_sum = block_sum,
    .measure = measure,
};
