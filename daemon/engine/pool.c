/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024, ALIGNMENT = 16 };

struct pool_block {
    struct pool_block *next;
    size_t used;
    size_t size;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

void pool_init(struct pool *pool, void (*on_failure)(void *ctx), void *ctx)
{
    *pool = (struct pool){.on_failure = on_failure, .ctx = ctx};
}

void pool_fini(struct pool *pool)
{
    while (pool->blocks) {
        struct pool_block *block = pool->blocks;
        pool->blocks = block->next;
        free(block);
    }
}

static struct pool_block *add_block(struct pool *pool, size_t size)
{
    size_t wanted = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    struct pool_block *block = NULL;
    if (wanted < SIZE_MAX / 2)
        block = malloc(sizeof(*block) + wanted);
    if (!block) {
        pool->on_failure(pool->ctx);
        abort();
    }
    block->used = 0;
    block->size = wanted;
    block->next = pool->blocks;
    pool->blocks = block;
    return block;
}

void *pool_alloc(struct pool *pool, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        pool->on_failure(pool->ctx);
        abort();
    }
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct pool_block *block = pool->blocks;
    if (!block || block->size - block->used < bytes)
        block = add_block(pool, bytes);
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memset(memory, 0, bytes);
}

char *pool_string(struct pool *pool, const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(pool_alloc(pool, size, 1), text, size);
}

char *pool_format(struct pool *pool, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    char *text = pool_alloc(pool, size, 1);
    if (length > 0)
        vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}

void *pool_grow(struct pool *pool, void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = pool_alloc(pool, wanted, size);
    if (count)
        memcpy(grown, items, count * size);
    *capacity = wanted;
    return grown;
}
