/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/arena.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t capacity;
    size_t used;
    size_t unused; /* keeps data 16-byte aligned */
    uint8_t data[];
};

static void free_list(struct arena_block *block)
{
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
}

void arena_fini(struct arena *arena)
{
    free_list(arena->used);
    free_list(arena->spare);
    arena->used = arena->spare = NULL;
    arena->bytes = 0;
}

void arena_clear(struct arena *arena)
{
    size_t kept = 0;
    for (struct arena_block *block = arena->spare; block; block = block->next)
        kept += block->capacity;
    while (arena->used) {
        struct arena_block *block = arena->used;
        arena->used = block->next;
        if (block->capacity == BLOCK_BYTES && kept + block->capacity <= arena->keep) {
            kept += block->capacity;
            block->next = arena->spare;
            arena->spare = block;
        } else {
            free(block);
        }
    }
    arena->bytes = 0;
}

static struct arena_block *new_block(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->spare;
    if (block && size <= BLOCK_BYTES) {
        arena->spare = block->next;
    } else {
        size_t capacity = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = malloc(sizeof *block + capacity);
        if (!block)
            return NULL;
        block->capacity = capacity;
    }
    block->used = 0;
    block->next = arena->used;
    arena->used = block;
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct arena_block *block = arena->used;
    if (!block || block->capacity - block->used < size) {
        block = new_block(arena, size);
        if (!block)
            return NULL;
    }
    void *memory = block->data + block->used;
    block->used += size;
    arena->bytes += size;
    return memory;
}

void arena_shrink(struct arena *arena, const void *latest, size_t used)
{
    struct arena_block *block = arena->used;
    size_t start = (size_t)((const uint8_t *)latest - block->data);
    used = (used + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (start + used > block->used)
        return;
    arena->bytes -= block->used - (start + used);
    block->used = start + used;
}

void *arena_copy(struct arena *arena, const void *bytes, size_t size)
{
    void *copy = arena_alloc(arena, size);
    if (copy && size)
        memcpy(copy, bytes, size);
    return copy;
}

char *arena_text(struct arena *arena, const void *bytes, size_t size)
{
    char *copy = arena_alloc(arena, size + 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}
