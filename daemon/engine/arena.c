/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024, ALIGNMENT = 16 };

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t size;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

void arena_init(struct arena *arena, void (*on_failure)(void *ctx), void *ctx)
{
    *arena = (struct arena){.on_failure = on_failure, .ctx = ctx};
}

void arena_fini(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
}

static struct arena_block *add_block(struct arena *arena, size_t size)
{
    size_t wanted = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    struct arena_block *block = NULL;
    if (wanted < SIZE_MAX / 2)
        block = malloc(sizeof(*block) + wanted);
    if (!block) {
        arena->on_failure(arena->ctx);
        abort();
    }
    block->used = 0;
    block->size = wanted;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        arena->on_failure(arena->ctx);
        abort();
    }
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes)
        block = add_block(arena, bytes);
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memset(memory, 0, bytes);
}

char *arena_string(struct arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(arena_alloc(arena, size, 1), text, size);
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    char *text = arena_alloc(arena, size, 1);
    if (length > 0)
        vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}

void *arena_grow(struct arena *arena, void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = arena_alloc(arena, wanted, size);
    if (count)
        memcpy(grown, items, count * size);
    *capacity = wanted;
    return grown;
}
