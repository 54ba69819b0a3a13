/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/mini/generator.h"

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

void generator_seed(struct generator *generator, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9E3779B97F4A7C15));
        z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
        generator->state[i] = z ^ (z >> 31);
    }
}

uint64_t generator_next(struct generator *generator)
{
    uint64_t *s = generator->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

float generator_uniform(struct generator *generator, float low, float high)
{
    float unit = (float)(generator_next(generator) >> 40) * 0x1p-24f;
    return low + (high - low) * unit;
}

void generator_permutation(struct generator *generator, int n, int *order)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(generator_next(generator) % (uint64_t)(i + 1));
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
