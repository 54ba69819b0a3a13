/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed all at once: a list of blocks, some kept for the next use. One thread. */
#ifndef DAEMON_STORE_ARENA_H
#define DAEMON_STORE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
    struct arena_block *used;
    struct arena_block *spare;
    size_t keep;  /* bytes of blocks kept by clear */
    size_t bytes; /* handed out since clear */
};

void arena_fini(struct arena *arena);
/* Everything handed out is invalid from here on. */
void arena_clear(struct arena *arena);
/* 16-byte aligned, not zeroed; NULL: out of memory. */
void *arena_alloc(struct arena *arena, size_t size);
/* Gives back the end of the latest allocation, of which `used` bytes stay. */
void arena_shrink(struct arena *arena, const void *latest, size_t used);
void *arena_copy(struct arena *arena, const void *bytes, size_t size);
/* A NUL-terminated copy. */
char *arena_text(struct arena *arena, const void *bytes, size_t size);

#endif
