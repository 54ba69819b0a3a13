/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the fingerprint and arithmetic mod p = 2^61 - 1.
 *
 * Everything comes from splitmix64 counters: value i of a stream is mix64(seed + (i + 1) * G). The
 * tables hold the 1024 in-block values; values of blocks are made when they are needed.
 */
#ifndef DVG_FINGERPRINT_KEYS_H
#define DVG_FINGERPRINT_KEYS_H

#include <stdint.h>

#define DVG_PRIME ((UINT64_C(1) << 61) - 1)
#define DVG_GOLDEN UINT64_C(0x9E3779B97F4A7C15)
#define DVG_SEED_K UINT64_C(0x6469766572676531) /* "diverge1": in-block keys */
#define DVG_SEED_S UINT64_C(0x6469766572676532) /* "diverge2": block keys */
#define DVG_SEED_U UINT64_C(0x6469766572676533) /* "diverge3": in-block signs of the sketch */
#define DVG_SEED_V UINT64_C(0x6469766572676534) /* "diverge4": block placement of the sketch */

enum {
    DVG_BLOCK = 1024,       /* words in a checksum block; elements in a sketch block */
    DVG_BLOCK_BYTES = 4096, /* of the checksum */
    DVG_HALF = 512,         /* elements in half a sketch block, which are placed together */
    DVG_LANES = 32,         /* buckets that one half fills */
    DVG_SPARE = 16,         /* entries behind the tables of limbs */
};

__extension__ typedef unsigned __int128 dvg_u128;

/* Limbs are at most 0.875 * 2^28. Those past the block are 0: vectors are loaded one word further.
 */
extern const uint32_t dvg_key_low[DVG_BLOCK + DVG_SPARE];
extern const uint32_t dvg_key_high[DVG_BLOCK + DVG_SPARE];
extern const uint64_t dvg_key[DVG_BLOCK];  /* low + high * 2^32 */
extern const uint32_t dvg_sign[DVG_BLOCK]; /* sign bit of a float32, set: subtract */

static inline uint64_t dvg_mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t dvg_counter(uint64_t seed, uint64_t i)
{
    return dvg_mix64(seed + (i + 1) * DVG_GOLDEN);
}

/* Any 64-bit value to its residue in [0, p). */
static inline uint64_t dvg_residue(uint64_t x)
{
    x = (x & DVG_PRIME) + (x >> 61);
    return x >= DVG_PRIME ? x - DVG_PRIME : x;
}

/* Values below 2^122 to their residue in [0, p). */
static inline uint64_t dvg_residue128(dvg_u128 x)
{
    return dvg_residue((uint64_t)(x & DVG_PRIME) + (uint64_t)(x >> 61));
}

static inline uint64_t dvg_multiply(uint64_t a, uint64_t b)
{
    return dvg_residue128((dvg_u128)a * b);
}

/* Of residues. */
static inline uint64_t dvg_add(uint64_t a, uint64_t b)
{
    uint64_t sum = a + b;

    return sum >= DVG_PRIME ? sum - DVG_PRIME : sum;
}

/* Key of block b: in [1, p). */
static inline uint64_t dvg_block_key(uint64_t b)
{
    uint64_t s = dvg_counter(DVG_SEED_S, b) >> 3;

    return s >= DVG_PRIME - 1 ? 1 : s + 1;
}

#endif
