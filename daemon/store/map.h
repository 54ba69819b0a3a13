/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from 128-bit digests to 64-bit numbers. Keys are well mixed already. One thread. */
#ifndef DAEMON_STORE_MAP_H
#define DAEMON_STORE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/trace.h"

struct map_entry {
    struct trace_digest key;
    uint64_t value;
    uint8_t used;
};

struct map {
    struct map_entry *entries; /* owned; a power of two */
    size_t capacity;
    size_t count;
};

void map_fini(struct map *map);
/* Forgets all; frees the memory when it is large. */
void map_clear(struct map *map);
bool map_find(const struct map *map, const struct trace_digest *key, uint64_t *ret);
/* Adds or replaces. ENOMEM leaves the map as it was. */
int map_put(struct map *map, const struct trace_digest *key, uint64_t value);

/* A key of a number, for maps by id. */
struct trace_digest map_key(uint64_t number);

#endif
