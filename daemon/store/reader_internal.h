/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reading side's files share. Files come from anywhere: numbers, lengths and blobs are
 * checked before they are used. What is looked up (strings, sites, types, layouts, runs) lives
 * until the reader is closed.
 */
#ifndef DAEMON_STORE_READER_INTERNAL_H
#define DAEMON_STORE_READER_INTERNAL_H

#include "daemon/store/arena.h"
#include "daemon/store/codec.h"
#include "daemon/store/database.h"
#include "daemon/store/map.h"
#include "daemon/store/reader.h"

struct reader {
    struct database db;
    struct store_error error;
    struct codec_decoder *decoder;
    struct arena arena;
    struct map strings;   /* row -> const char * */
    struct map sites;     /* row -> const struct trace_site * */
    struct map types;     /* row -> const struct trace_type * */
    struct map layouts;   /* row -> const struct trace_layout * */
    struct map arguments; /* digest -> const char * */
    struct trace_source source;
};

/* Most bytes that one blob may decode to. */
extern const size_t reader_max_bytes;

/* A text column, copied; "" for NULL. NULL: out of memory. */
const char *reader_text(struct reader *reader, sqlite3_stmt *row, int column);
/* 16 bytes or nothing: false. */
bool reader_digest(sqlite3_stmt *row, int column, struct trace_digest *ret);

/* reader_content.c: row to what it is. ECORRUPT when it is not there. */
int reader_string(struct reader *reader, uint32_t row, const char **ret);
int reader_type(struct reader *reader, uint32_t row, const struct trace_type **ret);
/* `count` sites, as pointers of the arena. */
int reader_sites(struct reader *reader, const uint32_t *rows, uint32_t count,
                 const struct trace_site ***ret);
int reader_layout(struct reader *reader, int64_t row, const struct trace_layout **ret);
int reader_argument(void *ctx, uint64_t digest, const char **ret);

/* reader_chunk.c */
int reader_chunk_load(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                      struct trace_chunk **ret);
void reader_chunk_release(void *ctx, struct trace_chunk *chunk);

#endif
