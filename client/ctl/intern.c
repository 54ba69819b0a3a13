/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/intern.h"

#include <stdlib.h>
#include <string.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"

/* FNV-1a, finished by a multiply so that the low bits depend on all of it. */
static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The entry of these bytes, or the free one where they belong. */
static struct intern_entry *find(const struct intern *intern, uint64_t hash, const void *bytes,
                                 size_t size)
{
    size_t mask = intern->capacity - 1;
    size_t at = (size_t)(hash >> 20) & mask;

    for (;; at = (at + 1) & mask) {
        struct intern_entry *entry = &intern->entries[at];

        if (!entry->number ||
            (entry->hash == hash && entry->size == size && !memcmp(entry->bytes, bytes, size)))
            return entry;
    }
}

static void grow(struct intern *intern)
{
    struct intern wider = {.capacity = intern->capacity ? intern->capacity * 2 : 1024,
                           .count = intern->count};

    wider.entries = calloc(wider.capacity, sizeof(*wider.entries));
    if (!wider.entries)
        exit(ctl_fail(EX_SOFTWARE, "out of memory"));
    for (size_t i = 0; i < intern->capacity; i++) {
        const struct intern_entry *old = &intern->entries[i];

        if (old->number)
            *find(&wider, old->hash, old->bytes, old->size) = *old;
    }
    free(intern->entries);
    *intern = wider;
}

uint32_t intern_number(struct intern *intern, const void *bytes, size_t size, bool *ret_new)
{
    if (2 * (size_t)intern->count >= intern->capacity)
        grow(intern);
    uint64_t hash = hash_of(bytes, size);
    struct intern_entry *entry = find(intern, hash, bytes, size);

    *ret_new = !entry->number;
    if (*ret_new)
        *entry = (struct intern_entry){
            .bytes = (const uint8_t *)mem_copy(bytes, size),
            .size = size,
            .hash = hash,
            .number = ++intern->count,
        };
    return entry->number;
}

void intern_fini(struct intern *intern)
{
    free(intern->entries);
    *intern = (struct intern){0};
}
