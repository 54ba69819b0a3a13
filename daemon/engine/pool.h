/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed all at once. An allocation that fails does not return: it jumps to the
 * place the pool's owner set, which frees everything. That keeps the engine's code free of a test
 * after each allocation, and is safe because the engine holds nothing but arenas and chunks, both
 * listed in one struct.
 */
#ifndef DAEMON_ENGINE_POOL_H
#define DAEMON_ENGINE_POOL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct pool_block;

struct pool {
    struct pool_block *blocks;
    void (*on_failure)(void *ctx); /* must not return */
    void *ctx;
};

void pool_init(struct pool *pool, void (*on_failure)(void *ctx), void *ctx);
void pool_fini(struct pool *pool);
/* Zeroed, aligned for every type, never NULL. */
void *pool_alloc(struct pool *pool, size_t count, size_t size);
char *pool_string(struct pool *pool, const char *text);
char *pool_format(struct pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define POOL_NEW(pool, type) ((type *)pool_alloc((pool), 1, sizeof(type)))
#define POOL_ARRAY(pool, type, count) ((type *)pool_alloc((pool), (count), sizeof(type)))

/* Room for one more item of a growing array; the old array stays in the pool. */
void *pool_grow(struct pool *pool, void *items, size_t count, size_t *capacity, size_t size);
#define POOL_PUSH(pool, items, count, capacity, item)                                              \
    do {                                                                                           \
        (items) = pool_grow((pool), (items), (count), &(capacity), sizeof(__typeof__(*(items))));  \
        (items)[(count)++] = (item);                                                               \
    } while (0)

#endif
