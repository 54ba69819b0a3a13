/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/map.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

enum { FIRST_CAPACITY = 64, KEEP_CAPACITY = 4096 };

void map_fini(struct map *map)
{
    free(map->entries);
    *map = (struct map){0};
}

void map_clear(struct map *map)
{
    if (map->capacity > KEEP_CAPACITY) {
        map_fini(map);
        return;
    }
    if (map->entries)
        memset(map->entries, 0, map->capacity * sizeof map->entries[0]);
    map->count = 0;
}

static uint64_t hash_of(const struct trace_digest *key)
{
    uint64_t hash;
    memcpy(&hash, key->bytes, sizeof hash);
    return hash;
}

/* The entry of `key`, or the empty one where it belongs. There always is an empty one. */
static struct map_entry *locate(const struct map *map, const struct trace_digest *key)
{
    size_t mask = map->capacity - 1;
    size_t at = hash_of(key) & mask;
    while (map->entries[at].used && memcmp(&map->entries[at].key, key, sizeof *key) != 0)
        at = (at + 1) & mask;
    return &map->entries[at];
}

bool map_find(const struct map *map, const struct trace_digest *key, uint64_t *ret)
{
    if (!map->count)
        return false;
    const struct map_entry *entry = locate(map, key);
    if (!entry->used)
        return false;
    *ret = entry->value;
    return true;
}

static int grow(struct map *map)
{
    struct map larger = {.capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY};
    larger.entries = calloc(larger.capacity, sizeof larger.entries[0]);
    if (!larger.entries)
        return DIVERGE_ENOMEM;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].used)
            *locate(&larger, &map->entries[i].key) = map->entries[i];
    larger.count = map->count;
    free(map->entries);
    *map = larger;
    return 0;
}

int map_put(struct map *map, const struct trace_digest *key, uint64_t value)
{
    if (map->count >= map->capacity / 2) {
        int rc = grow(map);
        if (rc)
            return rc;
    }
    struct map_entry *entry = locate(map, key);
    if (!entry->used)
        map->count++;
    *entry = (struct map_entry){.key = *key, .value = value, .used = 1};
    return 0;
}

struct trace_digest map_key(uint64_t number)
{
    /* splitmix64's finisher: neighbours spread over the table. */
    uint64_t mixed = number + UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    mixed ^= mixed >> 31;
    struct trace_digest key;
    memcpy(key.bytes, &mixed, 8);
    memcpy(key.bytes + 8, &number, 8);
    return key;
}
