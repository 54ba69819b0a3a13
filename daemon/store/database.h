/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An SQLite connection as the store needs it: where the file may lie, settings, migrations,
 * prepared statements, errors turned into ours. Both the writer and readers stand on it. One
 * thread.
 */
#ifndef DAEMON_STORE_DATABASE_H
#define DAEMON_STORE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "daemon/store/statements.h"
#include "daemon/store/store.h"

#define DATABASE_APPLICATION_ID 0x44564744 /* "DVGD" */

enum { DATABASE_PAGE_BYTES = 32768 };

struct migration {
    int version; /* rising from 1 */
    const char *name;
    const char *sql;
};
extern const struct migration database_migrations[]; /* generated; ends with version 0 */

struct database {
    sqlite3 *handle;
    char *path; /* owned */
    bool read_only;
    int64_t watch_since_ms; /* since when one statement runs, as far as the WAL guard knows */
    int64_t watch_last_ms;
    sqlite3_stmt *statements[STATEMENT_COUNT]; /* a reader's are prepared on first use */
    struct store_error error;                  /* of the last failure */
    int failure;                               /* its status */
};

struct database_options {
    bool synchronous_full;
    int busy_timeout_ms;
};

/* Creates folder and file, checks the file system, migrates. `database` is zeroed; fini on failure
 * too. */
int database_open_writer(struct database *database, const char *path,
                         const struct database_options *options);
/* Read-only, DEFENSIVE, schema not trusted. */
int database_open_reader(struct database *database, const char *path);
void database_fini(struct database *database);

/* The prepared statement, reset and unbound; NULL: error is set. */
sqlite3_stmt *database_statement(struct database *database, enum statement which);
/* Runs a statement that gives no rows, then resets it. */
int database_run(struct database *database, sqlite3_stmt *statement);
/* 1: a row, 0: the end (reset), negative: failed (reset). */
int database_step(struct database *database, sqlite3_stmt *statement);
int database_execute(struct database *database, const char *sql);
/* A pragma's integer. */
int database_pragma(struct database *database, const char *name, int64_t *ret);

/* Turns SQLite's status into ours and keeps its text. Never 0. */
int database_fail(struct database *database, int sqlite_rc);
/* Sets the text; returns rc. */
int database_error(struct database *database, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes of the -wal file; 0: none. */
uint64_t database_wal_bytes(const struct database *database);

/*
 * The file system type that a store's folder is on (statfs f_type). A seam for tests: they say that
 * a folder is on NFS.
 */
extern int (*database_filesystem)(const char *folder, long *ret_type);
/* The name of a network file system of this type; NULL: local as far as we know. */
const char *database_network_filesystem(const char *folder, long type);

#endif
