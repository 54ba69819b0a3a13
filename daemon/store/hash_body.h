/* SPDX-License-Identifier: Apache-2.0 */
/* Included once by each variant, which defines HASH_OPS and is compiled for its instructions. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/store/hash.h"

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct hash_state), "the state has room");

static void canonical(XXH128_hash_t hash, uint8_t ret[16])
{
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, hash);
    __builtin_memcpy(ret, bytes.digest, 16);
}

static void hash_bytes(const void *bytes, size_t size, uint8_t ret[16])
{
    canonical(XXH3_128bits(bytes, size), ret);
}

static void hash_reset(struct hash_state *state)
{
    XXH3_128bits_reset((XXH3_state_t *)(void *)state);
}

static void hash_update(struct hash_state *state, const void *bytes, size_t size)
{
    if (size)
        XXH3_128bits_update((XXH3_state_t *)(void *)state, bytes, size);
}

static void hash_digest(const struct hash_state *state, uint8_t ret[16])
{
    canonical(XXH3_128bits_digest((const XXH3_state_t *)(const void *)state), ret);
}

const struct hash_ops HASH_OPS = {
    .bytes = hash_bytes,
    .reset = hash_reset,
    .update = hash_update,
    .digest = hash_digest,
};
