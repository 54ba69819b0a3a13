/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/fingerprint/keys.h"

/* The tables are constant expressions: read-only data, ready before any code runs. */
#define MIX1(z) (((z) ^ ((z) >> 30)) * UINT64_C(0xBF58476D1CE4E5B9))
#define MIX2(z) (((z) ^ ((z) >> 27)) * UINT64_C(0x94D049BB133111EB))
#define MIX3(z) ((z) ^ ((z) >> 31))
#define COUNTER(seed, i) MIX3(MIX2(MIX1((seed) + ((i) + UINT64_C(1)) * DVG_GOLDEN)))

/* At most 0.875 * 2^28, so that 16 products with 32-bit words and a folded rest fit 64 bits. */
#define LIMB(x) ((x) - ((x) >> 3))
#define LOW(i) LIMB(COUNTER(DVG_SEED_K, i) & 0xFFFFFFF)
#define HIGH(i) LIMB(COUNTER(DVG_SEED_K, i) >> 32 & 0xFFFFFFF)
#define KEY(i) (LOW(i) + (HIGH(i) << 32))
#define SIGN(i) ((uint32_t)(COUNTER(DVG_SEED_U, i) >> 63) << 31)
#define LOW32(i) ((uint32_t)LOW(i))
#define HIGH32(i) ((uint32_t)HIGH(i))

#define X4(F, i) F(i), F((i) + 1), F((i) + 2), F((i) + 3)
#define X16(F, i) X4(F, i), X4(F, (i) + 4), X4(F, (i) + 8), X4(F, (i) + 12)
#define X64(F, i) X16(F, i), X16(F, (i) + 16), X16(F, (i) + 32), X16(F, (i) + 48)
#define X256(F, i) X64(F, i), X64(F, (i) + 64), X64(F, (i) + 128), X64(F, (i) + 192)
#define X1024(F) X256(F, 0), X256(F, 256), X256(F, 512), X256(F, 768)
#define ALIGNED __attribute__((aligned(64)))

ALIGNED const uint32_t dvg_key_low[DVG_BLOCK + DVG_SPARE] = {X1024(LOW32)};
ALIGNED const uint32_t dvg_key_high[DVG_BLOCK + DVG_SPARE] = {X1024(HIGH32)};
ALIGNED const uint64_t dvg_key[DVG_BLOCK] = {X1024(KEY)};
ALIGNED const uint32_t dvg_sign[DVG_BLOCK] = {X1024(SIGN)};
