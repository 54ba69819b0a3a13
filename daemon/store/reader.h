/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's reading side: read-only, no daemon needed, any thread (one reader a thread).
 */
#ifndef DAEMON_STORE_READER_H
#define DAEMON_STORE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/trace.h"
#include "daemon/store/store.h"

struct reader;

/*
 * Opens read-only (DEFENSIVE, untrusted schema). Retries `immutable` only when no non-empty -wal
 * exists. ENOTFOUND, EVERSION (newer), ECORRUPT, EPERM.
 */
int reader_open(const char *path, struct reader **ret, struct store_error *error);
void reader_close(struct reader *reader);

struct reader_run {
    int64_t id;
    uint8_t run_id[16];
    char name[128];
    char status[16];
    int64_t started_unix_us;
    int64_t ended_unix_us; /* 0: not ended */
    uint32_t world;
    uint32_t ranks; /* seen */
    uint64_t records;
    uint64_t dropped;
    uint64_t last_boundary; /* UINT64_MAX: none */
    bool pinned;
};
/* All runs, newest first; *ret is an array to free(). */
int reader_runs(struct reader *reader, struct reader_run **ret, size_t *ret_count);
/*
 * By name, id, unique prefix of either, `@last`, `@prev`. ENOTFOUND, EAMBIGUOUS; error->text lists
 * the candidates or the nearest names.
 */
int reader_find(struct reader *reader, const char *who, struct reader_run *ret,
                struct store_error *error);

/* The run with its streams and metadata; owned by the reader until reader_close. */
int reader_load(struct reader *reader, int64_t run, const struct trace_run **ret);
/* Reads heads and chunks of streams of loaded runs. Valid while the reader is. */
const struct trace_source *reader_source(struct reader *reader);

/* Counts for `status`: file size, WAL size, runs, chunks. */
struct reader_totals {
    uint64_t file_bytes, wal_bytes, runs, chunks, layouts, sites, records;
};
int reader_totals(struct reader *reader, struct reader_totals *ret);

/* Of the last failure. */
const char *reader_error_text(const struct reader *reader);
/* The connection, for SQL of the user's; stays the reader's. */
struct sqlite3 *reader_database(struct reader *reader);

#endif
