/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-128 with the widest vectors that this processor has: the same results, chosen once at run
 * time. All digests of the store go through here.
 */
#ifndef DAEMON_STORE_HASH_H
#define DAEMON_STORE_HASH_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

/* Room for XXH3_state_t. */
struct hash_state {
    alignas(64) uint8_t opaque[1024];
};

struct hash_ops {
    void (*bytes)(const void *bytes, size_t size, uint8_t ret[16]);
    void (*reset)(struct hash_state *state);
    void (*update)(struct hash_state *state, const void *bytes, size_t size);
    void (*digest)(const struct hash_state *state, uint8_t ret[16]);
};

/* Any thread. */
const struct hash_ops *hash_ops(void);

extern const struct hash_ops hash_portable;
#ifdef __x86_64__
extern const struct hash_ops hash_avx2;
#endif

#endif
