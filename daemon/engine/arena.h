/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed all at once. An allocation that fails does not return: it jumps to the place the
 * arena's owner set, which frees everything. That keeps the engine's code free of a test after each
 * allocation, and is safe because the engine holds nothing but arenas and chunks, both listed in one struct.
 */
#ifndef DAEMON_ENGINE_ARENA_H
#define DAEMON_ENGINE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
    struct arena_block *blocks;
    void (*on_failure)(void *ctx); /* must not return */
    void *ctx;
};

void arena_init(struct arena *arena, void (*on_failure)(void *ctx), void *ctx);
void arena_fini(struct arena *arena);
/* Zeroed, aligned for every type, never NULL. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);
char *arena_string(struct arena *arena, const char *text);
char *arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define ARENA_NEW(arena, type) ((type *)arena_alloc((arena), 1, sizeof(type)))
#define ARENA_ARRAY(arena, type, count) ((type *)arena_alloc((arena), (count), sizeof(type)))

/* Room for one more item of a growing array; the old array stays in the arena. */
void *arena_grow(struct arena *arena, void *items, size_t count, size_t *capacity, size_t size);
#define ARENA_PUSH(arena, items, count, capacity, item)                                            \
    do {                                                                                           \
        (items) = arena_grow((arena), (items), (count), &(capacity), sizeof((items)[0]));          \
        (items)[(count)++] = (item);                                                               \
    } while (0)

#endif
