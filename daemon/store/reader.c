/* SPDX-License-Identifier: Apache-2.0 */
/* The reader as a whole, and heads of segments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/store/pending.h"
#include "daemon/store/reader_internal.h"

const size_t reader_max_bytes = (size_t)4 << 30;

const char *reader_text(struct reader *reader, sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    int size = sqlite3_column_bytes(row, column);
    return arena_text(&reader->arena, text, text ? (size_t)size : 0);
}

bool reader_digest(sqlite3_stmt *row, int column, struct trace_digest *ret)
{
    const void *bytes = sqlite3_column_blob(row, column);
    if (!bytes || sqlite3_column_bytes(row, column) != 16) {
        *ret = (struct trace_digest){{0}};
        return false;
    }
    memcpy(ret->bytes, bytes, 16);
    return true;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static int head(struct reader *reader, enum statement which, uint64_t stream,
                enum diverge_tier tier, uint64_t segment, struct trace_head *ret)
{
    sqlite3_stmt *statement = database_statement(&reader->db, which);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, (int64_t)stream);
    sqlite3_bind_int(statement, 2, (int)tier);
    sqlite3_bind_int64(statement, 3, segment > INT64_MAX ? INT64_MAX : (int64_t)segment);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : DIVERGE_ENOTFOUND;
    struct trace_head row = {
        .segment = (uint64_t)sqlite3_column_int64(statement, 0),
        .records = (uint64_t)sqlite3_column_int64(statement, 4),
        .dropped = (uint64_t)sqlite3_column_int64(statement, 5),
    };
    row.rows_through = (uint64_t)sqlite3_column_int64(statement, 7);
    row.records_through = (uint64_t)sqlite3_column_int64(statement, 8);
    row.unix_us = (uint64_t)sqlite3_column_int64(statement, 9);
    int flags = sqlite3_column_int(statement, 6);
    row.sealed = flags & SEGMENT_SEALED;
    row.gap = flags & (SEGMENT_LOST | SEGMENT_UNREAD);
    struct trace_digest *digests[3] = {&row.layout, &row.digest, &row.chain};
    bool whole = true;
    for (int i = 0; i < 3; i++)
        if (!reader_digest(statement, 1 + i, digests[i]))
            whole = false;
    sqlite3_reset(statement);
    if (row.sealed && !whole)
        return database_error(&reader->db, DIVERGE_ECORRUPT, "%s: segment %llu has no digest",
                              reader->db.path, (unsigned long long)row.segment);
    *ret = row;
    return 0;
}

static int head_at(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                   struct trace_head *ret)
{
    return head(ctx, STATEMENT_SEGMENT_AT, stream, tier, segment, ret);
}

static int head_from(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                     struct trace_head *ret)
{
    if (segment > INT64_MAX)
        return DIVERGE_ENOTFOUND;
    return head(ctx, STATEMENT_SEGMENT_FROM, stream, tier, segment, ret);
}

/* ---- open and close -------------------------------------------------------------------------- */

int reader_open(const char *path, struct reader **ret, struct store_error *error)
{
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        snprintf(error->text, sizeof error->text, "out of memory");
        return DIVERGE_ENOMEM;
    }
    int rc = database_open_reader(&reader->db, path);
    if (!rc && codec_decoder_new(&reader->decoder))
        rc = database_error(&reader->db, DIVERGE_ENOMEM, "out of memory");
    if (rc) {
        *error = reader->db.error;
        if (!error->text[0])
            snprintf(error->text, sizeof error->text, "%s: out of memory", path);
        reader_close(reader);
        return rc;
    }
    reader->source = (struct trace_source){
        .ctx = reader,
        .head_at = head_at,
        .head_from = head_from,
        .load = reader_chunk_load,
        .release = reader_chunk_release,
        .argument_text = reader_argument,
    };
    *ret = reader;
    return 0;
}

void reader_close(struct reader *reader)
{
    if (!reader)
        return;
    struct map *maps[] = {&reader->strings, &reader->sites, &reader->types, &reader->layouts,
                          &reader->arguments};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        map_fini(maps[i]);
    arena_fini(&reader->arena);
    codec_decoder_free(reader->decoder);
    database_fini(&reader->db);
    free(reader);
}

const struct trace_source *reader_source(struct reader *reader)
{
    return &reader->source;
}

const char *reader_error_text(const struct reader *reader)
{
    return reader->db.error.text;
}

struct sqlite3 *reader_database(struct reader *reader)
{
    return reader->db.handle;
}

/* ---- totals ---------------------------------------------------------------------------------- */

int reader_totals(struct reader *reader, struct reader_totals *ret)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_TOTALS);
    if (!statement)
        return reader->db.failure;
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : DIVERGE_ECORRUPT;
    struct reader_totals totals = {
        .runs = (uint64_t)sqlite3_column_int64(statement, 0),
        .chunks = (uint64_t)sqlite3_column_int64(statement, 1),
        .layouts = (uint64_t)sqlite3_column_int64(statement, 2),
        .sites = (uint64_t)sqlite3_column_int64(statement, 3),
        .records = (uint64_t)sqlite3_column_int64(statement, 4),
        .wal_bytes = database_wal_bytes(&reader->db),
    };
    sqlite3_reset(statement);
    struct stat info;
    if (stat(reader->db.path, &info) == 0)
        totals.file_bytes = (uint64_t)info.st_size;
    *ret = totals;
    return 0;
}
