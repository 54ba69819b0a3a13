/* SPDX-License-Identifier: Apache-2.0 */
/* The store as a whole: open, group commit, recovery, close. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/store/internal.h"

enum { ARENA_KEEP = 64 << 20, SCRATCH_KEEP = 8 << 20 };
static const uint64_t default_segment_records = UINT64_C(16) << 20;
static const uint64_t default_open_bytes = UINT64_C(1) << 30;

int store_failed(struct store *store, int rc)
{
    store->error = store->db.error;
    return rc;
}

int store_fail(struct store *store, int rc, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(store->error.text, sizeof store->error.text, format, arguments);
    va_end(arguments);
    return rc;
}

int store_no_memory(struct store *store)
{
    return store_fail(store, DIVERGE_ENOMEM, "out of memory");
}

int store_map_put(struct store *store, struct map *map, const struct trace_digest *key,
                  uint64_t value)
{
    return map_put(map, key, value) ? store_no_memory(store) : 0;
}

const char *store_error_text(const struct store *store)
{
    return store->error.text;
}

int64_t store_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* A number that changes when another connection writes. */
static int data_version(struct store *store, int64_t *ret)
{
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_DATA_VERSION);
    if (!statement)
        return store_failed(store, store->db.failure);
    int rc = database_step(&store->db, statement);
    if (rc == 1) {
        *ret = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
        return 0;
    }
    return store_failed(store, rc ? rc : DIVERGE_EINTERNAL);
}

/* The log's file keeps its size when it begins anew, so its frames are what counts. */
static int count_wal(void *ctx, sqlite3 *handle, const char *name, int pages)
{
    (void)handle;
    (void)name;
    struct store *store = ctx;
    store->wal_bytes = (uint64_t)pages * DATABASE_PAGE_BYTES;
    return SQLITE_OK;
}

static int open_parts(struct store *store, const char *path)
{
    struct database_options options = {
        .synchronous_full = store->options.synchronous_full,
        .busy_timeout_ms = store->options.busy_timeout_ms,
    };
    int rc = database_open_writer(&store->db, path, &options);
    if (rc)
        return store_failed(store, rc);
    sqlite3_wal_hook(store->db.handle, count_wal, store);
    store->wal_bytes = database_wal_bytes(&store->db);
    rc = codec_encoder_new(&store->encoder);
    if (!rc)
        rc = codec_decoder_new(&store->decoder);
    if (rc)
        return store_fail(store, rc, "out of memory");
    rc = data_version(store, &store->data_version);
    return rc ? rc : content_open(store);
}

int store_open(const char *path, const struct store_options *options, struct store **ret,
               struct store_error *error)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store) {
        snprintf(error->text, sizeof error->text, "out of memory");
        return DIVERGE_ENOMEM;
    }
    if (options)
        store->options = *options;
    if (!store->options.max_segment_records)
        store->options.max_segment_records = default_segment_records;
    if (!store->options.max_open_bytes)
        store->options.max_open_bytes = default_open_bytes;
    store->arena.keep = ARENA_KEEP;
    store->scratch.keep = SCRATCH_KEEP;
    int rc = open_parts(store, path);
    if (rc) {
        *error = store->error;
        if (!error->text[0])
            snprintf(error->text, sizeof error->text, "%s: out of memory", path);
        store_close(store);
        return rc;
    }
    *ret = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    streams_free(store);
    runs_free(store);
    gc_free(store);
    pending_fini(&store->pending);
    content_fini(&store->content);
    while (store->spare_lanes) {
        struct open_lane *next = store->spare_lanes->next;
        columns_fini(&store->spare_lanes->columns);
        free(store->spare_lanes);
        store->spare_lanes = next;
    }
    columns_fini(&store->merged);
    arena_fini(&store->arena);
    arena_fini(&store->scratch);
    codec_encoder_free(store->encoder);
    codec_decoder_free(store->decoder);
    if (store->db.handle)
        sqlite3_wal_checkpoint_v2(store->db.handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    database_fini(&store->db);
    free(store);
}

int store_recover(struct store *store)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE;"
             "UPDATE streams SET closed_unix_us = %lld WHERE closed_unix_us IS NULL;"
             "UPDATE runs SET status = 'lost', ended_unix_us = %lld WHERE status = 'recording';"
             "COMMIT",
             (long long)store_now_us(), (long long)store_now_us());
    if (store->streams || store->pending.count)
        return store_fail(store, DIVERGE_ESTATE, "recovery comes before the first stream");
    int rc = database_execute(&store->db, sql);
    if (rc) {
        store_failed(store, rc);
        sqlite3_exec(store->db.handle, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Changes gather in memory: a group needs nothing to begin. */
int store_begin(struct store *store)
{
    (void)store;
    return 0;
}

/*
 * Row ids are given in memory, so a second writer that adds rows would be fatal to both. Somebody
 * who only changed or removed some (a pin, SQL by hand) is no harm.
 */
static int check_only_writer(struct store *store)
{
    int64_t version = 0;
    int64_t ids[CONTENT_TABLES];
    int rc = data_version(store, &version);
    if (rc || version == store->data_version)
        return rc;
    rc = content_ids_in_file(store, ids);
    for (int i = 0; i < CONTENT_TABLES && !rc; i++)
        if (ids[i] > store->committed_ids[i])
            rc = store_fail(store, DIVERGE_EBUSY,
                            "another program records into %s: stop one of the two and start again",
                            store->db.path);
    if (!rc)
        store->data_version = version;
    return rc;
}

static int run_statement(struct store *store, enum statement which)
{
    sqlite3_stmt *statement = database_statement(&store->db, which);
    if (!statement)
        return store_failed(store, store->db.failure);
    int rc = database_run(&store->db, statement);
    return rc ? store_failed(store, rc) : 0;
}

static int write_group(struct store *store)
{
    int rc = check_only_writer(store);
    if (!rc) {
        rc = pending_write(&store->pending, &store->db);
        if (rc)
            store_failed(store, rc);
    }
    if (!rc)
        rc = streams_write(store);
    if (!rc)
        rc = runs_write(store);
    return rc ? rc : run_statement(store, STATEMENT_COMMIT);
}

static bool anything_to_write(const struct store *store)
{
    if (store->pending.count)
        return true;
    for (const struct run_state *run = store->runs; run; run = run->next)
        if (run->dirty)
            return true;
    for (const struct stream_state *stream = store->streams; stream; stream = stream->next)
        if (stream->dirty || !stream->handle)
            return true;
    return false;
}

static void group_written(struct store *store)
{
    streams_written(store);
    runs_written(store);
    store->pending.count = 0;
    content_ids(store, store->committed_ids);
    arena_clear(&store->arena);
    content_trim(&store->content);
}

int store_commit(struct store *store)
{
    if (!anything_to_write(store))
        return 0;
    int rc = run_statement(store, STATEMENT_BEGIN);
    if (rc)
        return rc;
    rc = write_group(store);
    arena_clear(&store->scratch);
    if (rc) {
        /* SQLite has rolled back by itself after some failures; then this does nothing. */
        sqlite3_exec(store->db.handle, "ROLLBACK", NULL, NULL, NULL);
        return rc;
    }
    group_written(store);
    return 0;
}

int store_checkpoint(struct store *store, uint64_t bytes)
{
    if (store->wal_bytes <= bytes)
        return 0;
    int logged = 0;
    int moved = 0;
    int rc = sqlite3_wal_checkpoint_v2(store->db.handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &logged,
                                       &moved);
    /* What readers still look at is moved next time. */
    if (rc == SQLITE_OK && moved == logged)
        store->wal_bytes = 0;
    if (rc == SQLITE_OK || rc == SQLITE_BUSY)
        return 0;
    return store_failed(store, database_fail(&store->db, rc));
}
