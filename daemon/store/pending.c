/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/pending.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void pending_fini(struct pending *pending)
{
    free(pending->ops);
    *pending = (struct pending){0};
}

int pending_reserve(struct pending *pending, size_t more)
{
    if (pending->capacity - pending->count >= more)
        return 0;
    size_t capacity = pending->capacity ? pending->capacity * 2 : 64;
    while (capacity - pending->count < more)
        capacity *= 2;
    struct pending_op *ops = realloc(pending->ops, capacity * sizeof *ops);
    if (!ops)
        return DIVERGE_ENOMEM;
    pending->ops = ops;
    pending->capacity = capacity;
    return 0;
}

void pending_add(struct pending *pending, const struct pending_op *op)
{
    assert(pending->count < pending->capacity);
    pending->ops[pending->count++] = *op;
}

int pending_push(struct pending *pending, const struct pending_op *op)
{
    int rc = pending_reserve(pending, 1);
    if (!rc)
        pending_add(pending, op);
    return rc;
}

/* ---- binding --------------------------------------------------------------------------------- */

static void bind_digest(sqlite3_stmt *statement, int at, const struct trace_digest *digest)
{
    sqlite3_bind_blob(statement, at, digest->bytes, sizeof digest->bytes, SQLITE_STATIC);
}

/* An empty blob, not NULL, when there are no bytes. */
static void bind_blob(sqlite3_stmt *statement, int at, const struct pending_text *blob)
{
    sqlite3_bind_blob64(statement, at, blob->size ? blob->data : "", blob->size, SQLITE_STATIC);
}

static void bind_text(sqlite3_stmt *statement, int at, const struct pending_text *text)
{
    sqlite3_bind_text64(statement, at, text->size ? text->data : "", text->size, SQLITE_STATIC,
                        SQLITE_UTF8);
}

static void bind_string(sqlite3_stmt *statement, int at, const char *text)
{
    sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static void bind_reference(sqlite3_stmt *statement, int at, int64_t id)
{
    if (id)
        sqlite3_bind_int64(statement, at, id);
}

static void bind_site(sqlite3_stmt *statement, const struct store_site *site)
{
    const uint32_t values[] = {site->tier,   site->phase,      site->role,       site->slot,
                               site->flags,  site->micro_step, site->occurrence, site->lane,
                               site->region, site->scope,      site->op,         site->name};
    for (int i = 0; i < 12; i++)
        sqlite3_bind_int64(statement, 3 + i, values[i]);
}

static void bind_type(sqlite3_stmt *statement, const struct pending_type *type)
{
    bind_digest(statement, 3, &type->identity);
    bind_text(statement, 4, &type->label);
    sqlite3_bind_int(statement, 5, type->kind);
    sqlite3_bind_int(statement, 6, type->dtype);
    sqlite3_bind_int(statement, 7, type->placement);
    sqlite3_bind_int64(statement, 8, type->team);
    bind_blob(statement, 9, &type->shape);
    if (type->strides.data)
        bind_blob(statement, 10, &type->strides);
    bind_blob(statement, 11, &type->global_shape);
    bind_blob(statement, 12, &type->extents);
}

static void bind_chunk(sqlite3_stmt *statement, int at, const struct pending_chunk *chunk)
{
    sqlite3_bind_int64(statement, at, (int64_t)chunk->data.size);
    for (int i = 0; i < 3; i++)
        bind_reference(statement, at + 1 + i, chunk->columns[i]);
}

static void bind_stream(sqlite3_stmt *statement, const struct pending_stream *stream)
{
    const struct store_stream_options *options = &stream->options;
    sqlite3_bind_blob(statement, 2, options->stream_id, 16, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, options->run);
    sqlite3_bind_int64(statement, 4, options->rank);
    sqlite3_bind_int64(statement, 5, (int64_t)options->epoch);
    sqlite3_bind_int(statement, 6, options->level);
    bind_string(statement, 7, options->spec);
    bind_string(statement, 8, options->fingerprint_id);
    bind_string(statement, 9, options->client);
    sqlite3_bind_int64(statement, 10, options->peer_uid);
    sqlite3_bind_int64(statement, 11, options->peer_pid);
    sqlite3_bind_int64(statement, 12, stream->opened_unix_us);
}

/* ---- writing --------------------------------------------------------------------------------- */

int pending_write_segment(struct database *database, const struct pending_segment *segment)
{
    sqlite3_stmt *statement = database_statement(
        database, segment->in_file ? STATEMENT_SEGMENT_SET : STATEMENT_SEGMENT_ADD);
    if (!statement)
        return database->failure;
    sqlite3_bind_int64(statement, 1, segment->stream);
    sqlite3_bind_int(statement, 2, segment->tier);
    sqlite3_bind_int64(statement, 3, (int64_t)segment->segment);
    sqlite3_bind_int(statement, 4, segment->flags);
    sqlite3_bind_int64(statement, 5, (int64_t)segment->records);
    sqlite3_bind_int64(statement, 6, (int64_t)segment->dropped);
    bind_reference(statement, 7, segment->layout);
    bind_reference(statement, 8, segment->chunk);
    for (int i = 0; i < 3; i++)
        bind_reference(statement, 9 + i, segment->columns[i]);
    if (segment->flags & SEGMENT_SEALED) {
        bind_digest(statement, 12, &segment->digest);
        bind_digest(statement, 13, &segment->chain);
        sqlite3_bind_int64(statement, 15, (int64_t)segment->rows_through);
        sqlite3_bind_int64(statement, 16, (int64_t)segment->records_through);
    }
    sqlite3_bind_int64(statement, 14, segment->unix_us);
    return database_run(database, statement);
}

static int write_blob(struct database *database, const struct pending_op *op)
{
    sqlite3_stmt *statement = database_statement(database, STATEMENT_CHUNK_BLOB_ADD);
    if (!statement)
        return database->failure;
    sqlite3_bind_int64(statement, 1, op->id);
    bind_blob(statement, 2, &op->chunk.data);
    return database_run(database, statement);
}

static int remove_run(struct database *database, int64_t run)
{
    static const enum statement order[] = {
        STATEMENT_RUN_REMOVE_SEGMENTS, STATEMENT_RUN_REMOVE_PARTS,
        STATEMENT_RUN_REMOVE_TRACKS,   STATEMENT_RUN_REMOVE_STREAMS,
        STATEMENT_RUN_REMOVE_METADATA, STATEMENT_RUN_REMOVE_DIFFERENCES,
        STATEMENT_RUN_REMOVE,
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof order / sizeof order[0] && !rc; i++) {
        sqlite3_stmt *statement = database_statement(database, order[i]);
        if (!statement)
            return database->failure;
        sqlite3_bind_int64(statement, 1, run);
        rc = database_run(database, statement);
    }
    return rc;
}

static enum statement statement_of(enum pending_kind kind)
{
    static const enum statement statements[] = {
        [PENDING_STRING] = STATEMENT_STRING_ADD,
        [PENDING_SITE] = STATEMENT_SITE_ADD,
        [PENDING_TYPE] = STATEMENT_TYPE_ADD,
        [PENDING_ARGUMENT] = STATEMENT_ARGUMENT_ADD,
        [PENDING_COLUMN] = STATEMENT_COLUMN_ADD,
        [PENDING_LAYOUT] = STATEMENT_LAYOUT_ADD,
        [PENDING_CHUNK] = STATEMENT_CHUNK_ADD,
        [PENDING_CHUNK_REFILL] = STATEMENT_CHUNK_REFILL,
        [PENDING_RUN] = STATEMENT_RUN_ADD,
        [PENDING_RUN_WORLD] = STATEMENT_RUN_WORLD,
        [PENDING_RUN_STARTED] = STATEMENT_RUN_STARTED,
        [PENDING_RUN_PIN] = STATEMENT_RUN_PIN,
        [PENDING_RUN_REMOVE] = STATEMENT_RUN_REMOVE,
        [PENDING_METADATA] = STATEMENT_METADATA_SET,
        [PENDING_DIFFERENCE] = STATEMENT_DIFFERENCE_ADD,
        [PENDING_STREAM] = STATEMENT_STREAM_ADD,
        [PENDING_SEGMENT] = STATEMENT_SEGMENT_SET,
        [PENDING_PARTS_REMOVE] = STATEMENT_PARTS_REMOVE,
    };
    return statements[kind];
}

static void bind_run(sqlite3_stmt *statement, const struct pending_run *run)
{
    sqlite3_bind_blob(statement, 2, run->run_id, 16, SQLITE_STATIC);
    bind_string(statement, 3, run->name);
    sqlite3_bind_int64(statement, 4, run->world);
    sqlite3_bind_int64(statement, 5, run->started_unix_us);
}

static void bind_op(sqlite3_stmt *statement, const struct pending_op *op)
{
    sqlite3_bind_int64(statement, 1, op->id);
    switch (op->kind) {
    case PENDING_STRING:
    case PENDING_ARGUMENT:
        bind_text(statement, 2, &op->text);
        break;
    case PENDING_SITE:
        bind_digest(statement, 2, &op->digest);
        bind_site(statement, op->site);
        break;
    case PENDING_TYPE:
        bind_digest(statement, 2, &op->digest);
        bind_type(statement, op->type);
        break;
    case PENDING_COLUMN:
        bind_digest(statement, 2, &op->digest);
        bind_blob(statement, 3, &op->text);
        break;
    case PENDING_LAYOUT:
        bind_digest(statement, 2, &op->digest);
        sqlite3_bind_int64(statement, 3, op->layout.records);
        bind_blob(statement, 4, &op->layout.data);
        break;
    case PENDING_CHUNK:
        bind_digest(statement, 2, &op->digest);
        sqlite3_bind_int64(statement, 3, op->chunk.records);
        bind_chunk(statement, 4, &op->chunk);
        break;
    case PENDING_CHUNK_REFILL:
        bind_chunk(statement, 2, &op->chunk);
        break;
    case PENDING_RUN:
        bind_run(statement, op->run);
        break;
    case PENDING_RUN_WORLD:
    case PENDING_RUN_STARTED:
    case PENDING_RUN_PIN:
    case PENDING_PARTS_REMOVE:
        sqlite3_bind_int64(statement, 2, (int64_t)op->number);
        break;
    case PENDING_METADATA:
        bind_string(statement, 2, op->metadata.key);
        sqlite3_bind_int64(statement, 3, op->metadata.rank);
        bind_string(statement, 4, op->metadata.class_);
        bind_string(statement, 5, op->metadata.value);
        break;
    case PENDING_DIFFERENCE:
        sqlite3_bind_int64(statement, 2, op->difference.run_b);
        sqlite3_bind_int64(statement, 3, (int64_t)op->difference.segment);
        sqlite3_bind_int64(statement, 4, op->difference.unix_us);
        break;
    case PENDING_STREAM:
        bind_stream(statement, op->stream);
        break;
    case PENDING_RUN_REMOVE:
    case PENDING_SEGMENT:
        break; /* written by functions of their own */
    }
}

static int write_op(struct database *database, const struct pending_op *op)
{
    if (op->kind == PENDING_SEGMENT)
        return pending_write_segment(database, &op->segment);
    if (op->kind == PENDING_RUN_REMOVE)
        return remove_run(database, op->id);
    sqlite3_stmt *statement = database_statement(database, statement_of(op->kind));
    if (!statement)
        return database->failure;
    bind_op(statement, op);
    int rc = database_run(database, statement);
    bool chunk = op->kind == PENDING_CHUNK || op->kind == PENDING_CHUNK_REFILL;
    return rc || !chunk ? rc : write_blob(database, op);
}

int pending_write(const struct pending *pending, struct database *database)
{
    for (size_t i = 0; i < pending->count; i++) {
        int rc = write_op(database, &pending->ops[i]);
        if (rc)
            return rc;
    }
    return 0;
}
