/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was done and is not in the file yet: operations in order, with row ids already given. A
 * commit writes them all in one transaction; when that fails it is rolled back and the list stays,
 * so that the next try writes the same. Memory of texts and blobs is the store's arena, cleared
 * after a commit.
 */
#ifndef DAEMON_STORE_PENDING_H
#define DAEMON_STORE_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/trace.h"
#include "daemon/store/database.h"

enum pending_kind {
    PENDING_STRING,
    PENDING_SITE,
    PENDING_TYPE,
    PENDING_ARGUMENT,
    PENDING_COLUMN,
    PENDING_LAYOUT,
    PENDING_CHUNK,
    PENDING_CHUNK_REFILL,
    PENDING_RUN,
    PENDING_RUN_WORLD,
    PENDING_RUN_STARTED,
    PENDING_RUN_PIN,
    PENDING_RUN_REMOVE,
    PENDING_METADATA,
    PENDING_DIFFERENCE,
    PENDING_STREAM,
    PENDING_SEGMENT,
    PENDING_PARTS_REMOVE,
};

struct pending_text { /* in the arena */
    const void *data;
    size_t size;
};

struct pending_type {
    struct trace_digest identity;
    struct pending_text label, shape, strides, global_shape, extents; /* strides.data NULL: none */
    uint32_t team;
    uint8_t kind, dtype, placement;
};

struct pending_run {
    uint8_t run_id[16];
    const char *name;
    uint32_t world;
    int64_t started_unix_us;
};

struct pending_stream {
    struct store_stream_options options; /* texts in the arena */
    int64_t opened_unix_us;
};

struct pending_chunk {
    uint32_t records;
    int64_t columns[3]; /* type, argument, state; 0: none */
    struct pending_text data;
};

struct pending_segment {
    int64_t stream;
    uint64_t segment;
    uint64_t records;
    uint64_t dropped;
    int64_t layout, chunk; /* 0: none */
    int64_t columns[3];    /* order, producer, source; 0: none */
    struct trace_digest digest, chain;
    int64_t unix_us;
    uint8_t tier;
    uint8_t flags; /* SEGMENT_* */
    /* Of the track up to and with this one, when sealed. */
    uint64_t rows_through, records_through;
    bool in_file; /* there may be a row of the open segment */
};

enum {
    SEGMENT_SEALED = 1,
    SEGMENT_LOST = 2,   /* records were dropped or are not all there */
    SEGMENT_UNREAD = 4, /* has records that could not be read */
};

struct pending_op {
    enum pending_kind kind;
    int64_t id;
    struct trace_digest digest; /* of content */
    union {
        struct pending_text text;
        const struct store_site *site;
        const struct pending_type *type;
        struct {
            uint32_t records;
            struct pending_text data;
        } layout;
        struct pending_chunk chunk;
        const struct pending_run *run;
        struct {
            uint32_t rank;
            const char *key, *class_, *value;
        } metadata;
        struct {
            int64_t run_b;
            uint64_t segment;
            int64_t unix_us;
        } difference;
        const struct pending_stream *stream;
        struct pending_segment segment;
        uint64_t number; /* pin, world, start, segment of parts */
    };
};

struct pending {
    struct pending_op *ops; /* owned */
    size_t count;
    size_t capacity;
};

void pending_fini(struct pending *pending);
/* Room for `more` operations: pushes cannot fail then. */
int pending_reserve(struct pending *pending, size_t more);
int pending_push(struct pending *pending, const struct pending_op *op);
/* A push into room that was reserved. */
void pending_add(struct pending *pending, const struct pending_op *op);
/* Writes all, inside the transaction that is open. */
int pending_write(const struct pending *pending, struct database *database);
int pending_write_segment(struct database *database, const struct pending_segment *segment);

#endif
