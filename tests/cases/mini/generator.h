/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256**, seeded by splitmix64 (Blackman and Vigna, https://prng.di.unimi.it/): a generator
 * whose whole state can be recorded, saved and restored. */
#ifndef TESTS_CASES_MINI_GENERATOR_H
#define TESTS_CASES_MINI_GENERATOR_H

#include <stdint.h>

struct generator {
    uint64_t state[4];
};

void generator_seed(struct generator *generator, uint64_t seed);
uint64_t generator_next(struct generator *generator);
/* Uniform in [low, high). */
float generator_uniform(struct generator *generator, float low, float high);
/* A random order of 0..n-1. */
void generator_permutation(struct generator *generator, int n, int *order);

#endif
