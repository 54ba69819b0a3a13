/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/fingerprint/view.h"

#include <string.h>

enum {
    LINE_BYTES = 64, /* what one memory access brings; a panel's rows share it */
};

/* Counts the elements; -1 when sizes are negative or there are too many. */
static int count_elements(const struct diverge_view *view, size_t item, uint64_t *ret)
{
    uint64_t count = 1;
    bool empty = false;

    for (int i = 0; i < view->ndim; i++) {
        if (view->sizes[i] < 0)
            return -1;
        empty = empty || view->sizes[i] == 0;
    }
    for (int i = 0; i < view->ndim && !empty; i++) {
        if (__builtin_mul_overflow(count, (uint64_t)view->sizes[i], &count))
            return -1;
    }
    if (!empty && count > DVG_MAX_BYTES >> __builtin_ctzll(item))
        return -1;
    *ret = empty ? 0 : count;
    return 0;
}

/* Whether the extents tile exactly `count` elements and end within bounds. */
static bool extents_fit(const struct diverge_view *view, size_t item, uint64_t count)
{
    uint64_t limit = DVG_MAX_BYTES >> __builtin_ctzll(item);

    if (!view->extents)
        return view->n_extents == 0;
    for (size_t i = 0; i < view->n_extents; i++) {
        const struct diverge_extent *extent = &view->extents[i];

        if (extent->length > count || extent->start > limit ||
            extent->length > limit - extent->start)
            return false;
        count -= extent->length;
    }
    return count == 0;
}

/* Takes dimension i of a non-empty view, from the innermost outwards. */
static int push_dim(struct dvg_walk *walk, uint64_t size, int64_t stride)
{
    int64_t reach;

    if (size == 1)
        return 0;
    if (__builtin_mul_overflow(stride, (int64_t)walk->item, &stride) ||
        __builtin_mul_overflow(stride, (int64_t)size, &reach) ||
        reach > (int64_t)DVG_MAX_BYTES || reach < -(int64_t)DVG_MAX_BYTES)
        return -1;

    struct dvg_dim *inner = walk->n_dims ? &walk->dims[walk->n_dims - 1] : NULL;

    if (inner && stride == inner->stride * (int64_t)inner->size)
        inner->size *= size;
    else
        walk->dims[walk->n_dims++] = (struct dvg_dim){.size = size, .stride = stride};
    return 0;
}

int dvg_walk_init(struct dvg_walk *walk, const struct diverge_view *view)
{
    size_t item = diverge_dtype_size(view->dtype);
    uint64_t count;
    int64_t dense = 1;

    if (item == 0 || view->ndim < 0 || view->ndim > DIVERGE_MAX_NDIM ||
        (view->ndim > 0 && !view->sizes) || count_elements(view, item, &count) ||
        !extents_fit(view, item, count) || (count > 0 && !view->data))
        return DIVERGE_EINVAL;
    walk->cursor = view->data;
    walk->item = item;
    walk->left = count;
    walk->n_dims = 0;
    for (int i = view->ndim - 1; i >= 0 && count; i--) {
        int64_t stride = view->strides ? view->strides[i] : dense;

        if (push_dim(walk, (uint64_t)view->sizes[i], stride))
            return DIVERGE_EINVAL;
        dense *= view->sizes[i];
    }
    return 0;
}

/* dims[0] is the innermost. */
static bool is_dense(const struct dvg_walk *walk)
{
    return walk->n_dims > 0 && walk->dims[0].stride == (int64_t)walk->item;
}

uint64_t dvg_walk_span(const struct dvg_walk *walk)
{
    if (walk->n_dims == 0 || !is_dense(walk))
        return walk->left > 0;
    return walk->dims[0].size - walk->dims[0].at;
}

/* Moves the cursor `count` elements within dimension `d` and carries into the outer ones. */
static void advance(struct dvg_walk *walk, int d, uint64_t count)
{
    for (; d < walk->n_dims; d++, count = 1) {
        struct dvg_dim *dim = &walk->dims[d];

        dim->at += count;
        walk->cursor += (int64_t)count * dim->stride;
        if (dim->at < dim->size)
            return;
        walk->cursor -= (int64_t)dim->size * dim->stride;
        dim->at = 0;
    }
}

void dvg_walk_skip(struct dvg_walk *walk, uint64_t count)
{
    walk->left -= count;
    advance(walk, 0, count);
}

/* Copies single elements from a row of `count` that are `stride` bytes apart. */
static void copy_strided(uint8_t *target, size_t step, const uint8_t *source, int64_t stride,
                         uint64_t count, size_t item)
{
#define LOOP(BYTES)                                                                                \
    for (uint64_t i = 0; i < count; i++)                                                           \
        memcpy(target + i * step, source + (int64_t)i * stride, BYTES);                            \
    break

    switch (item) {
    case 1:
        LOOP(1);
    case 2:
        LOOP(2);
    case 4:
        LOOP(4);
    case 8:
        LOOP(8);
    case 16:
        LOOP(16);
    }
#undef LOOP
}

void dvg_walk_copy(struct dvg_walk *walk, uint8_t *target, uint64_t count)
{
    while (count) {
        uint64_t row = walk->n_dims ? walk->dims[0].size - walk->dims[0].at : 1;
        uint64_t now = count < row ? count : row;

        if (walk->n_dims == 0 || is_dense(walk))
            memcpy(target, walk->cursor, now * walk->item);
        else
            copy_strided(target, walk->item, walk->cursor, walk->dims[0].stride, now, walk->item);
        target += now * walk->item;
        count -= now;
        dvg_walk_skip(walk, now);
    }
}

/* The dimension whose neighbours share a cache line though it is not the innermost; 0: none. */
static int panel_dim(const struct dvg_walk *walk)
{
    if (walk->n_dims < 2 || walk->dims[0].stride == 0 || is_dense(walk))
        return 0;
    for (int d = 1; d < walk->n_dims; d++) {
        if (walk->dims[d].stride == (int64_t)walk->item)
            return d;
    }
    return 0;
}

uint64_t dvg_walk_panel(const struct dvg_walk *walk, size_t bytes)
{
    int d = panel_dim(walk);
    uint64_t inner = walk->item;

    if (d == 0)
        return 0;
    for (int i = 0; i < d; i++) {
        if (walk->dims[i].at || walk->dims[i].size > bytes / inner)
            return 0;
        inner *= walk->dims[i].size;
    }

    uint64_t rows = walk->dims[d].size - walk->dims[d].at;
    uint64_t most = bytes / inner;
    uint64_t lines = most - most % (LINE_BYTES / walk->item);

    if (rows > most)
        rows = lines ? lines : most;
    return rows > 1 ? rows * (inner / walk->item) : 0;
}

/* Copies `rows` neighbours of dimension d for every index of the dimensions inside it. */
static void copy_tiles(const struct dvg_walk *walk, int d, uint8_t *target, uint64_t rows,
                       uint64_t inner)
{
    uint64_t at[DIVERGE_MAX_NDIM] = {0};
    const uint8_t *source = walk->cursor;

    for (uint64_t i = 0; i < inner; i++) {
        copy_strided(target + i * walk->item, inner * walk->item, source, (int64_t)walk->item,
                     rows, walk->item);
        for (int k = 0; k < d; k++) {
            source += walk->dims[k].stride;
            if (++at[k] < walk->dims[k].size)
                break;
            source -= (int64_t)walk->dims[k].size * walk->dims[k].stride;
            at[k] = 0;
        }
    }
}

void dvg_walk_copy_panel(struct dvg_walk *walk, uint8_t *target, uint64_t count)
{
    int d = panel_dim(walk);
    uint64_t inner = 1;

    for (int i = 0; i < d; i++)
        inner *= walk->dims[i].size;
    copy_tiles(walk, d, target, count / inner, inner);
    walk->left -= count;
    advance(walk, d, count / inner);
}
