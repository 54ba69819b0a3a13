/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/daemon/engine/hostile.h"

#include <limits.h>
#include <string.h>

/* The builder's chunks are its own memory: writing into them is allowed here. */
#define WRITABLE(type, pointer) ((type *)(uintptr_t)(pointer))

static void damage_layout(struct trace_chunk *chunk, unsigned kind, uint64_t number)
{
    struct trace_layout *layout = WRITABLE(struct trace_layout, chunk->layout);
    uint32_t at = chunk->count ? (uint32_t)(number % chunk->count) : 0;
    struct trace_site *site = chunk->count ? WRITABLE(struct trace_site, layout->sites[at]) : NULL;
    switch (kind) {
    case 0:
        layout->count = (uint32_t)number;
        break;
    case 1:
        chunk->layout = NULL;
        break;
    case 2:
        layout->sites = NULL;
        break;
    case 3:
        memset(&layout->digest, 0, sizeof(layout->digest));
        break;
    case 4:
        if (site)
            site->role = (enum diverge_role)number;
        break;
    case 5:
        if (site)
            site->phase = (enum diverge_phase)number;
        break;
    case 6:
        if (site)
            site->lane = NULL;
        break;
    case 7:
        if (site)
            site->op = "";
        break;
    case 8:
        if (site)
            site->flags = (uint32_t)number;
        break;
    case 9:
        if (site)
            WRITABLE(const struct trace_site *, layout->sites)[at] = NULL;
        break;
    default:
        break;
    }
    /*
     * A count that is larger than the list would read past it: only smaller lies can be told here.
     */
    if (kind == 0 && chunk->count && layout->count > chunk->count)
        layout->count = chunk->count - 1;
}

static void damage_types(struct trace_chunk *chunk, unsigned kind, uint64_t number)
{
    uint32_t at = chunk->count ? (uint32_t)(number % chunk->count) : 0;
    struct trace_type *type = chunk->count ? WRITABLE(struct trace_type, chunk->types[at]) : NULL;
    switch (kind) {
    case 10:
        if (chunk->count)
            WRITABLE(uint32_t, chunk->type)[at] = (uint32_t)number;
        break;
    case 11:
        chunk->n_types = 0;
        break;
    case 12:
        if (type)
            type->ndim = (int32_t)number;
        break;
    case 13:
        if (type)
            type->sizes = NULL;
        break;
    case 14:
        if (type)
            type->dtype = (enum diverge_dtype)number;
        break;
    case 15:
        if (type)
            type->kind = (enum diverge_kind)number;
        break;
    default:
        break;
    }
    if (kind == 12 && type && type->ndim > 4 && type->ndim <= 32)
        type->ndim = 33; /* the builder has four sizes */
}

static void damage_columns(struct trace_chunk *chunk, unsigned kind, uint64_t number)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        if (kind == 16)
            WRITABLE(uint64_t, chunk->value)[i] = number;
        if (kind == 17)
            WRITABLE(uint32_t, chunk->order)[i] = (uint32_t)(number * i);
        if (kind == 18)
            WRITABLE(uint32_t, chunk->producer)[i] = (uint32_t)number;
        if (kind == 19)
            WRITABLE(uint8_t, chunk->state)[i] = (uint8_t)number;
        if (kind == 20)
            memset(WRITABLE(float, &chunk->l2[i]), (int)number, sizeof(float));
    }
    if (kind == 21)
        chunk->value = NULL;
    if (kind == 22)
        chunk->sketch_size = (uint32_t)number;
    if (kind == 23) {
        chunk->order = chunk->producer = NULL;
        chunk->argument = NULL;
        chunk->state = NULL;
        chunk->min = chunk->max = chunk->zero = NULL;
        chunk->l2 = chunk->sum = NULL;
    }
}

void hostile_damage(struct trace_chunk *chunk, void *ctx)
{
    struct hostile *hostile = ctx;
    unsigned seen = hostile->seen++;
    if (hostile->chunk != UINT_MAX && hostile->chunk != seen)
        return;
    if (chunk->pruned)
        return;
    damage_layout(chunk, hostile->kind, hostile->number);
    damage_types(chunk, hostile->kind, hostile->number);
    damage_columns(chunk, hostile->kind, hostile->number);
}
