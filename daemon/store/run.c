/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: get or create, names, metadata, status, pins, removal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/store/internal.h"
#include "daemon/store/metadata.h"

enum { MAX_COLLISIONS = 100000 };

struct run_state *run_state_find(struct store *store, int64_t run)
{
    for (struct run_state *state = store->runs; state; state = state->next)
        if (state->id == run && !state->removed)
            return state;
    return NULL;
}

static bool run_state_removed(const struct store *store, int64_t run)
{
    for (const struct run_state *state = store->runs; state; state = state->next)
        if (state->id == run && state->removed)
            return true;
    return false;
}

struct run_state *run_state_get(struct store *store, int64_t run)
{
    struct run_state *state = run_state_find(store, run);
    if (state)
        return state;
    state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    state->id = run;
    state->next = store->runs;
    store->runs = state;
    return state;
}

void runs_free(struct store *store)
{
    while (store->runs) {
        struct run_state *next = store->runs->next;
        free(store->runs);
        store->runs = next;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* [A-Za-z0-9][A-Za-z0-9._-]*, at most 127 bytes; "run" when nothing is left. */
static void clean_name(const char *name, char ret[128])
{
    size_t at = 0;
    for (const char *p = name ? name : ""; *p && at < 127; p++) {
        bool good = name_char(*p) || (at && (*p == '.' || *p == '_' || *p == '-'));
        /* What cannot begin a name is left out there. */
        if (good || at)
            ret[at++] = good ? *p : '-';
    }
    ret[at] = '\0';
    if (!at)
        snprintf(ret, 128, "run");
}

/* 1 taken, 0 free, negative failed. */
static int name_taken(struct store *store, const char *name)
{
    for (struct run_state *state = store->runs; state; state = state->next)
        if (!state->removed && strcmp(state->name, name) == 0)
            return 1;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_RUN_NAME);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    int rc = database_step(&store->db, statement);
    sqlite3_reset(statement);
    return rc < 0 ? store_failed(store, rc) : rc;
}

static int free_name(struct store *store, const char *wanted, char ret[128])
{
    char base[128];
    clean_name(wanted, base);
    memcpy(ret, base, sizeof base);
    for (int i = 2; i < MAX_COLLISIONS; i++) {
        int rc = name_taken(store, ret);
        if (rc <= 0)
            return rc;
        char suffix[16];
        int size = snprintf(suffix, sizeof suffix, ".%d", i);
        snprintf(ret, 128, "%.*s%s", 127 - size, base, suffix);
    }
    return store_fail(store, DIVERGE_ELIMIT, "too many runs are named %s", base);
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct run_state *find_by_run_id(struct store *store, const uint8_t run_id[16])
{
    for (struct run_state *state = store->runs; state; state = state->next)
        if (!state->removed && state->world && memcmp(state->run_id, run_id, 16) == 0)
            return state;
    return NULL;
}

/* 1: loaded from the file, 0: not there. */
static int load_run(struct store *store, const uint8_t run_id[16], struct run_state **ret)
{
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_RUN_FIND);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_blob(statement, 1, run_id, 16, SQLITE_STATIC);
    int rc = database_step(&store->db, statement);
    if (rc != 1)
        return rc ? store_failed(store, rc) : 0;
    int64_t id = sqlite3_column_int64(statement, 0);
    if (run_state_removed(store, id)) {
        sqlite3_reset(statement);
        return store_fail(store, DIVERGE_EBUSY, "the run is being removed: try again");
    }
    struct run_state *state = run_state_get(store, id);
    if (state) {
        memcpy(state->run_id, run_id, 16);
        snprintf(state->name, sizeof state->name, "%s",
                 (const char *)sqlite3_column_text(statement, 1));
        state->world = (uint32_t)sqlite3_column_int64(statement, 2);
        *ret = state;
    }
    sqlite3_reset(statement);
    return state ? 1 : store_no_memory(store);
}

int run_find(struct store *store, const uint8_t run_id[16], int64_t *ret)
{
    struct run_state *state = find_by_run_id(store, run_id);
    int rc = state ? 1 : load_run(store, run_id, &state);
    if (rc == 1)
        *ret = state->id;
    return rc;
}

static int new_run(struct store *store, const uint8_t run_id[16], const char *name, uint32_t world,
                   struct run_state **ret)
{
    struct pending_run run = {.world = world, .started_unix_us = store_now_us()};
    memcpy(run.run_id, run_id, 16);
    char settled[128];
    int rc = free_name(store, name, settled);
    if (rc)
        return rc;
    run.name = arena_text(&store->arena, settled, strlen(settled));
    const struct pending_run *kept = run.name ? arena_copy(&store->arena, &run, sizeof run) : NULL;
    struct run_state *state = NULL;
    if (kept && pending_reserve(&store->pending, 1) == 0)
        state = run_state_get(store, store->next_run);
    if (!state)
        return store_no_memory(store);
    memcpy(state->run_id, run_id, 16);
    memcpy(state->name, settled, sizeof settled);
    state->world = world;
    state->dirty = true;
    pending_add(&store->pending,
                &(struct pending_op){.kind = PENDING_RUN, .id = store->next_run++, .run = kept});
    *ret = state;
    return 0;
}

int store_run_open(struct store *store, const uint8_t run_id[16], const char *name, uint32_t world,
                   struct store_run *ret)
{
    struct run_state *state = find_by_run_id(store, run_id);
    bool created = false;
    world = world ? world : 1;
    if (!state) {
        int rc = load_run(store, run_id, &state);
        if (rc == 0) {
            rc = new_run(store, run_id, name, world, &state);
            created = rc == 0;
        }
        if (rc < 0)
            return rc;
    }
    /* Ranks may disagree; a run is complete when the largest world that was declared is. */
    if (world > state->world) {
        int rc = pending_push(
            &store->pending,
            &(struct pending_op){.kind = PENDING_RUN_WORLD, .id = state->id, .number = world});
        if (rc)
            return store_no_memory(store);
        state->world = world;
    }
    *ret = (struct store_run){.id = state->id, .created = created};
    memcpy(ret->name, state->name, sizeof ret->name);
    return 0;
}

/* "2026-11-30T14:42:13Z" as microseconds; 0 when it is none. */
static int64_t parse_time(const char *text)
{
    struct tm utc = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    time_t seconds = end && !*end ? timegm(&utc) : 0;
    return seconds > 0 && seconds < INT64_MAX / 1000000 ? (int64_t)seconds * 1000000 : 0;
}

/* The producer knows best when it started: a spooled or imported run did so before it got here. */
static int set_started(struct store *store, int64_t run, const char *value)
{
    int64_t started = parse_time(value);
    struct pending_op op = {.kind = PENDING_RUN_STARTED, .id = run, .number = (uint64_t)started};
    return started && pending_push(&store->pending, &op) ? store_no_memory(store) : 0;
}

int store_run_metadata(struct store *store, int64_t run, uint32_t rank, const char *key,
                       const char *value)
{
    int rc = run_require(store, run);
    if (rc)
        return rc;
    struct pending_op op = {.kind = PENDING_METADATA, .id = run};
    op.metadata.rank = rank;
    op.metadata.class_ = metadata_class_name(metadata_classify(key));
    op.metadata.key = arena_text(&store->arena, key, strlen(key));
    op.metadata.value = arena_text(&store->arena, value, strlen(value));
    if (!op.metadata.key || !op.metadata.value || pending_push(&store->pending, &op))
        return store_no_memory(store);
    return strcmp(key, "started") == 0 ? set_started(store, run, value) : 0;
}

/* ---- status ---------------------------------------------------------------------------------- */

struct tally { /* of the newest stream of each rank */
    int64_t ranks, ended, failed, live;
};

static int tally_streams(struct store *store, int64_t run, struct tally *ret)
{
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_RUN_TALLY);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, run);
    int rc = database_step(&store->db, statement);
    if (rc != 1)
        return store_failed(store, rc ? rc : DIVERGE_ECORRUPT);
    *ret = (struct tally){
        .ranks = sqlite3_column_int64(statement, 0),
        .ended = sqlite3_column_int64(statement, 1),
        .failed = sqlite3_column_int64(statement, 2),
        .live = sqlite3_column_int64(statement, 3),
    };
    sqlite3_reset(statement);
    return 0;
}

static const char *status_of(const struct tally *tally, uint32_t world)
{
    if (tally->live)
        return "recording";
    if (tally->failed)
        return "failed";
    if (tally->ended < tally->ranks)
        return "lost";
    /* Ranks that never came may still come; a daemon's start gives them up. */
    return tally->ended >= world ? "complete" : "recording";
}

/* When a run that is over ended. */
static int find_end(struct store *store, int64_t run, int64_t *ret)
{
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_RUN_ENDED);
    if (!statement)
        return store_failed(store, store->db.failure);
    *ret = store_now_us();
    sqlite3_bind_int64(statement, 1, run);
    sqlite3_bind_int64(statement, 2, *ret);
    int rc = database_step(&store->db, statement);
    if (rc == 1 && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        *ret = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return rc < 0 ? store_failed(store, rc) : 0;
}

static int set_status(struct store *store, int64_t run, const char *status)
{
    bool over = strcmp(status, "recording") != 0;
    int64_t ended = 0;
    int rc = over ? find_end(store, run, &ended) : 0;
    if (rc)
        return rc;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_RUN_STATUS);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, run);
    sqlite3_bind_text(statement, 2, status, -1, SQLITE_STATIC);
    if (over)
        sqlite3_bind_int64(statement, 3, ended);
    rc = database_run(&store->db, statement);
    return rc ? store_failed(store, rc) : 0;
}

int runs_write(struct store *store)
{
    for (struct run_state *state = store->runs; state; state = state->next) {
        if (!state->dirty || state->removed)
            continue;
        struct tally tally = {0};
        int rc = tally_streams(store, state->id, &tally);
        if (!rc)
            rc = set_status(store, state->id, status_of(&tally, state->world));
        if (rc)
            return rc;
    }
    return 0;
}

static bool has_stream(const struct store *store, int64_t run)
{
    for (const struct stream_state *stream = store->streams; stream; stream = stream->next)
        if (stream->run == run)
            return true;
    return false;
}

/* Forgets runs that no stream needs: the file knows them. */
void runs_written(struct store *store)
{
    struct run_state **at = &store->runs;
    while (*at) {
        struct run_state *state = *at;
        state->dirty = false;
        if (state->removed || !has_stream(store, state->id)) {
            *at = state->next;
            free(state);
        } else {
            at = &state->next;
        }
    }
}

/* ---- upkeep ---------------------------------------------------------------------------------- */

int run_require(struct store *store, int64_t run)
{
    if (run_state_find(store, run))
        return 0;
    if (run_state_removed(store, run))
        return store_fail(store, DIVERGE_ENOTFOUND, "the run was removed");
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_RUN_GET);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, run);
    int rc = database_step(&store->db, statement);
    sqlite3_reset(statement);
    if (rc < 0)
        return store_failed(store, rc);
    return rc ? 0 : store_fail(store, DIVERGE_ENOTFOUND, "there is no such run");
}

static int run_op(struct store *store, const struct pending_op *op)
{
    int rc = pending_push(&store->pending, op);
    return rc ? store_no_memory(store) : 0;
}

/* 1 pinned, 0 not; negative failed. What was asked for and is not committed yet counts. */
static int run_pinned(struct store *store, int64_t run)
{
    for (size_t i = store->pending.count; i-- > 0;) {
        const struct pending_op *op = &store->pending.ops[i];
        if (op->kind == PENDING_RUN_PIN && op->id == run)
            return op->number != 0;
    }
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_RUN_GET);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, run);
    int rc = database_step(&store->db, statement);
    if (rc == 1)
        rc = sqlite3_column_int(statement, 2) != 0;
    sqlite3_reset(statement);
    return rc < 0 ? store_failed(store, rc) : rc;
}

int store_run_remove(struct store *store, int64_t run)
{
    for (struct stream_state *stream = store->streams; stream; stream = stream->next)
        if (stream->run == run && (stream->handle || stream->dirty))
            return store_fail(store, DIVERGE_EBUSY, "the run is being recorded");
    int rc = run_require(store, run);
    if (!rc)
        rc = run_pinned(store, run);
    if (rc)
        return rc < 0 ? rc : store_fail(store, DIVERGE_ESTATE, "the run is pinned");
    struct run_state *state = run_state_get(store, run);
    rc = state ? run_op(store, &(struct pending_op){.kind = PENDING_RUN_REMOVE, .id = run})
               : store_no_memory(store);
    if (!rc)
        state->removed = true;
    return rc;
}

int store_run_pin(struct store *store, int64_t run, bool pinned)
{
    int rc = run_require(store, run);
    return rc ? rc
              : run_op(store,
                       &(struct pending_op){.kind = PENDING_RUN_PIN, .id = run, .number = pinned});
}

int store_difference_add(struct store *store, int64_t run_a, int64_t run_b, uint64_t segment)
{
    int rc = segment > INT64_MAX ? DIVERGE_EINVAL : run_require(store, run_a);
    if (!rc)
        rc = run_require(store, run_b);
    if (rc)
        return rc;
    struct pending_op op = {.kind = PENDING_DIFFERENCE, .id = run_a};
    op.difference.run_b = run_b;
    op.difference.segment = segment;
    op.difference.unix_us = store_now_us();
    return run_op(store, &op);
}
