/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in memory, column by column: what a lane of an open segment gathers. A record column that
 * is not present is zero for every record. One thread.
 */
#ifndef DAEMON_STORE_COLUMNS_H
#define DAEMON_STORE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/message.h"

/*
 * X(NAME, number in blobs, width). The first eleven are the wire's, in enum dvg_column's order and
 * with its field ids. Numbers are frozen.
 */
#define STORE_COLUMNS(X)                                                                           \
    X(VALUE, 32, 8)                                                                                \
    X(TYPE, 33, 4) /* rows of types */                                                             \
    X(ARGUMENT, 34, 8)                                                                             \
    X(STATE, 35, 1)                                                                                \
    X(ORDER, 36, 4)                                                                                \
    X(PRODUCER, 37, 4)                                                                             \
    X(SUM, 38, 4)                                                                                  \
    X(L2, 39, 4)                                                                                   \
    X(MIN, 40, 8)                                                                                  \
    X(MAX, 41, 8)                                                                                  \
    X(ZERO, 42, 8)                                                                                 \
    X(SITE, 64, 4)   /* rows of sites */                                                           \
    X(SOURCE, 65, 4) /* rows of strings */                                                         \
    /* Sparse: one item a record that has it. */                                                   \
    X(NONFINITE_INDEX, 70, 4)                                                                      \
    X(NAN, 71, 8)                                                                                  \
    X(PINF, 72, 8)                                                                                 \
    X(NINF, 73, 8)                                                                                 \
    X(SKETCH_INDEX, 80, 4)                                                                         \
    X(SKETCH, 81, 4) /* sketch_size items a sketch */

enum column {
#define X(NAME, number, width) COLUMN_##NAME,
    STORE_COLUMNS(X)
#undef X
        COLUMN_COUNT,
    COLUMN_RECORD_COUNT = COLUMN_NONFINITE_INDEX, /* columns before have one item a record */
};

uint8_t column_number(enum column column);
size_t column_width(enum column column);

struct columns {
    uint32_t count; /* records */
    uint32_t n_nonfinite;
    uint32_t n_sketches;
    uint32_t sketch_size;
    uint32_t present;              /* bit a column that has data; the others' memory is stale */
    uint8_t *data[COLUMN_COUNT];   /* owned */
    size_t capacity[COLUMN_COUNT]; /* bytes */
};

void columns_fini(struct columns *columns);
/* No records; keeps the memory. */
void columns_clear(struct columns *columns);
/* Bytes allocated. */
size_t columns_bytes(const struct columns *columns);
/* How many items a column has: count, n_nonfinite, n_sketches or their floats. */
uint32_t columns_items(const struct columns *columns, enum column column);
/* The items; NULL: all zero, or none. */
const void *columns_get(const struct columns *columns, enum column column);

/* Records to append, rows resolved. Arrays have part->count entries. */
struct columns_part {
    const struct dvg_part *wire;
    const uint32_t *sites;
    const uint32_t *sources; /* NULL: unknown */
    const uint32_t *types;   /* row of a type number */
    uint32_t n_types;
};
/* ENOMEM, EPROTO (type number, sketch size, index, order that goes back): nothing was appended. */
int columns_append_part(struct columns *columns, const struct columns_part *part);
/* All of `from` behind what is there. */
int columns_append(struct columns *columns, const struct columns *from);
#endif
