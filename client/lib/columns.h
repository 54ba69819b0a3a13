/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the records of one (lane, tier) from rows into columns, and those into PART frames. Sender
 * only.
 */
#ifndef CLIENT_LIB_COLUMNS_H
#define CLIENT_LIB_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/ring.h"
#include "client/wire/buffer.h"
#include "client/wire/message.h"

enum {
    DVG_PART_ROWS = 8192,         /* of one part at most */
    DVG_PART_BYTES = 768 * 1024,  /* a part that has reached this is full */
    DVG_PAYLOAD_MAX = 1024 * 1024 /* no frame of this library is larger */
};

struct dvg_columns {
    uint32_t lane; /* string number */
    uint8_t tier;
    uint32_t count;
    uint32_t capacity;
    uint64_t first; /* index in (segment, tier, lane) of the part's first record */
    uint32_t last_site;
    uint32_t sketch_size;
    uint8_t *data[DVG_COLUMN_COUNT]; /* capacity values each, owned */
    struct dvg_buffer runs;
    struct dvg_buffer nonfinite;
    struct dvg_buffer sketches;
};

void dvg_columns_init(struct dvg_columns *columns, uint32_t lane, uint8_t tier);
void dvg_columns_fini(struct dvg_columns *columns);
/* What the part's frame has at most. */
size_t dvg_columns_bytes(const struct dvg_columns *columns);
/* Whether the part should go before another record comes. */
bool dvg_columns_full(const struct dvg_columns *columns);
/* A new segment: the next record is its first. There must be none left. */
void dvg_columns_begin(struct dvg_columns *columns);
/* Adds one record; ENOMEM leaves the part as it was. */
int dvg_columns_append(struct dvg_columns *columns, const struct dvg_entry *entry);
/* Appends the records as a PART frame to `out` (if there are any) and starts the next part. */
int dvg_columns_encode(struct dvg_columns *columns, uint64_t segment, uint64_t seq,
                       struct dvg_buffer *out);
/* Forgets the records that are there: they were dropped. */
void dvg_columns_discard(struct dvg_columns *columns);

#endif
