/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the store and finding runs in it, or in recordings. */
#ifndef CLIENT_CTL_SOURCE_H
#define CLIENT_CTL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/engine/trace.h"
#include "daemon/proto/ingest.h"
#include "daemon/store/reader.h"

/* All functions return an exit status, after saying what failed. */

/* The path of the store in use: --store, DIVERGE_STORE, default. */
int source_path(const char **ret);
bool source_exists(const char *path); /* not an exit status */
/* The store in use, opened once; closed by source_close. */
int source_reader(struct reader **ret);

struct source_run {
    struct reader_run info;
    struct reader *reader;         /* borrowed */
    const struct trace_run *trace; /* borrowed */
    const struct trace_source *source;
    const char *as; /* as it is shown: the name, escaped; a recording's file name */
    bool recording;
};
/* Of the store in use, by name, id, prefix, @last, @prev. */
int source_find(const char *who, struct source_run *ret);
/*
 * The same, or a recording file (a path with '/', or the name of a file that is one): put into a
 * private temporary store.
 */
int source_open(const char *who, struct source_run *ret);
/* What is known of the run of that row in the store at `path`. */
int source_by_row(const char *path, int64_t row, struct reader_run *ret);
void source_close(void); /* removes temporary stores */

/* A file's bytes, mapped till source_close. */
int source_map(const char *path, struct dvg_bytes *ret);

/*
 * Opens a store for writing without a daemon: takes its lock (EX_UNAVAILABLE when a daemon has it).
 * Ended by source_store_close.
 */
int source_store_open(const char *path, struct store **ret, int *ret_lock);
void source_store_close(struct store *store, int lock);
/* Puts a recording into it. */
int source_store_import(struct store *store, const char *path, struct ingest_import *ret);

#endif
