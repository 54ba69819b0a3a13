/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements as numbers, the classes of dtypes, and where a sketch puts them. */
#ifndef DVG_FINGERPRINT_ELEMENT_H
#define DVG_FINGERPRINT_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <diverge/types.h>

#include "client/lib/fingerprint/kernel.h"
#include "client/lib/fingerprint/keys.h"

/* The class letters of DIVERGE_DTYPES. */
enum dvg_class {
    DVG_CLASS_NONE,
    DVG_CLASS_B,
    DVG_CLASS_U,
    DVG_CLASS_I,
    DVG_CLASS_F,
    DVG_CLASS_C,
    DVG_CLASS_O,
};

struct dvg_dtype {
    const char *name;
    enum dvg_class class_;
    uint8_t bytes;
    uint8_t components;
    enum diverge_dtype component; /* dtype of a component: itself but for complex ones */
};

/* NULL when it is no dtype. */
const struct dvg_dtype *dvg_dtype_get(enum diverge_dtype dtype);

/* Whether components are wider than 32 bits and so measured in float64. */
static inline bool dvg_is_wide(enum diverge_dtype component)
{
    return component == DIVERGE_F64 || component == DIVERGE_I64 || component == DIVERGE_U64;
}

/* Bytes of a component's dtype. */
static inline size_t dvg_component_bytes(enum diverge_dtype component)
{
    return dvg_dtype_get(component)->bytes;
}

/* Component i of those at `data` as float64: exact but for 64-bit integers, which are rounded. */
double dvg_element(enum diverge_dtype component, const uint8_t *data, size_t i);

/* Adds the exact min and max of integers whose values do not fit the floats they are measured in.
 */
void dvg_integer_range(enum diverge_dtype component, const uint8_t *data, size_t count,
                       struct dvg_stats *stats);

void dvg_stats_init(struct dvg_stats *stats);

/* Adds `count` values one by one, exactly as defined: whatever they are. */
void dvg_stats_add(struct dvg_stats *stats, const double *values, size_t count);

/* What people get. `dtype` is the tensor's. */
void dvg_stats_finish(const struct dvg_stats *stats, enum diverge_dtype dtype,
                      struct diverge_statistics *ret);

/* Where the lanes of half block `half` (global component index / 512) go. */
struct dvg_placement {
    unsigned group; /* first bucket */
    unsigned flip;  /* lane j goes to bucket group + (j ^ flip) */
    bool negative;
};

static inline struct dvg_placement dvg_sketch_place(uint64_t half, unsigned size)
{
    uint64_t c = dvg_counter(DVG_SEED_V, half >> 1);
    unsigned second = half & 1;

    return (struct dvg_placement){
        .group = size == 64 ? DVG_LANES * (((c >> 5) & 1) ^ second) : 0,
        .flip = (second ? c >> 8 : c) & 31,
        .negative = (second ? c >> 62 : c >> 63) & 1,
    };
}

/* Adds the 32 lanes of one half block. */
void dvg_sketch_add(struct dvg_sketch *sketch, uint64_t half, const float *lanes);

#endif
