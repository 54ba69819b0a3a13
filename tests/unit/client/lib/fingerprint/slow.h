/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fingerprint once more, one component at a time, straight from its definition and sharing no
 * code with the kernels but the decoding of elements (which has its own vectors). And what the
 * tests need besides: seeded random numbers and the list of kernels this machine runs.
 */
#ifndef DVG_TESTS_FINGERPRINT_SLOW_H
#define DVG_TESTS_FINGERPRINT_SLOW_H

#include <stddef.h>
#include <stdint.h>

#include <diverge/fingerprint.h>

#include "client/lib/fingerprint/kernel.h"

struct slow {
    uint64_t checksum;
    uint64_t numel;
    uint64_t nan;
    uint64_t pinf;
    uint64_t ninf;
    uint64_t zero;
    long double min;
    long double max;
    long double sum;
    long double l1;
    long double l2;
    float sketch[64];
};

/*
 * Of `count` components at `data`, the first at global component `start`. A sketch's half blocks
 * are summed in ascending order.
 */
struct slow slow_fingerprint(enum diverge_dtype component, const uint8_t *data, size_t count,
                             uint64_t start, unsigned sketch_size);

uint64_t slow_checksum(const uint8_t *bytes, size_t size, uint64_t offset);

/* Component i as it is; 64-bit integers are exact in it. */
long double slow_element(enum diverge_dtype component, const uint8_t *data, size_t i);

/* Fails the test where `got` is not what `want` says, in the tolerance each part has. */
void assert_statistics(const struct diverge_statistics *got, const struct slow *want,
                       enum diverge_dtype dtype);

/* Same bits, or both NaN. */
void assert_sketch(const float *got, const float *want, unsigned size);

/* All parts equal, sums included: for one tensor read in two ways by one kernel. */
void assert_same(const struct diverge_fingerprint *a, const struct diverge_fingerprint *b);

/* splitmix64. */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t limit);

/* Random bytes; when `calm`, float components are made finite by one bit of their exponent. */
void random_fill(uint64_t *state, enum diverge_dtype dtype, uint8_t *data, size_t bytes, int calm);

/* Kernel i of those that run here, NULL behind the last. */
const struct dvg_kernel *kernel_at(unsigned i);

#endif
