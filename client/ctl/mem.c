/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/mem.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { BLOCK = 64 * 1024 };

struct block {
    struct block *next;
    size_t used;
    size_t size;
    max_align_t data[];
};

static struct block *blocks;

static _Noreturn void out_of_memory(void)
{
    fputs("divergectl: out of memory\n", stderr);
    exit(EX_SOFTWARE);
}

static struct block *block_new(size_t size)
{
    struct block *block = calloc(1, sizeof(*block) + size);

    if (!block)
        out_of_memory();
    block->size = size;
    return block;
}

void *mem_alloc(size_t size)
{
    if (size > SIZE_MAX / 2)
        out_of_memory();
    size = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    if (blocks && blocks->size - blocks->used >= size) {
        void *data = (char *)blocks->data + blocks->used;

        blocks->used += size;
        return data;
    }
    struct block *block = block_new(size > BLOCK / 4 ? size : BLOCK);

    block->used = size;
    if (blocks &&
        block->size == size) { /* a large one: goes behind the block that still has room */
        block->next = blocks->next;
        blocks->next = block;
    } else {
        block->next = blocks;
        blocks = block;
    }
    return block->data;
}

char *mem_copy(const void *text, size_t size)
{
    char *copy = mem_alloc(size + 1);

    if (size)
        memcpy(copy, text, size);
    return copy;
}

char *mem_string(const char *text)
{
    return mem_copy(text, strlen(text));
}

char *mem_printf(const char *format, ...)
{
    va_list list;
    char *text = NULL;

    va_start(list, format);
    int length = vasprintf(&text, format, list);
    va_end(list);
    if (length < 0)
        out_of_memory();
    char *copy = mem_copy(text, (size_t)length);

    free(text);
    return copy;
}

void mem_free_all(void)
{
    while (blocks) {
        struct block *next = blocks->next;

        free(blocks);
        blocks = next;
    }
}
