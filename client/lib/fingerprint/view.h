/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the elements of a view in logical (C) order, whatever its strides. */
#ifndef DVG_FINGERPRINT_VIEW_H
#define DVG_FINGERPRINT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <diverge/fingerprint.h>

/* No tensor, and no place in a global tensor, is beyond this. */
#define DVG_MAX_BYTES (UINT64_C(1) << 60)

/* A dimension of the walk; strides in bytes. */
struct dvg_dim {
    uint64_t size;
    int64_t stride;
    uint64_t at;
};

/*
 * A walk over a view. Dimensions of one element are left out, and neighbours that one stride covers
 * are merged, so a contiguous tensor has one dimension, or none.
 */
struct dvg_walk {
    const uint8_t *cursor; /* the next element */
    size_t item;           /* bytes of an element */
    uint64_t left;         /* elements */
    int n_dims;
    struct dvg_dim dims[DIVERGE_MAX_NDIM];
};

/* Checks `view` and begins a walk over it. DIVERGE_EINVAL when its parts do not fit together. */
int dvg_walk_init(struct dvg_walk *walk, const struct diverge_view *view);

/* Elements from the cursor on that are contiguous in memory. */
uint64_t dvg_walk_span(const struct dvg_walk *walk);

/* Passes over `count` elements, at most dvg_walk_span. */
void dvg_walk_skip(struct dvg_walk *walk, uint64_t count);

/* Copies the next `count` elements, at most `left`, to `target`. */
void dvg_walk_copy(struct dvg_walk *walk, uint8_t *target, uint64_t count);

/*
 * Elements in a panel: some rows of the walk that lie side by side in memory although they follow
 * one another in logical order, as those of a transposed matrix do. 0 when the view has none that
 * fit `bytes`, or the cursor is not where one begins.
 */
uint64_t dvg_walk_panel(const struct dvg_walk *walk, size_t bytes);

/* Copies a panel of `count` elements, as dvg_walk_panel gave it. */
void dvg_walk_copy_panel(struct dvg_walk *walk, uint8_t *target, uint64_t count);

#endif
