/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: open, take-over, sequence numbers, BYE, close. */
#include <stdlib.h>
#include <string.h>

#include "daemon/store/internal.h"

static struct stream_state *find_state(struct store *store, const uint8_t stream_id[16])
{
    for (struct stream_state *state = store->streams; state; state = state->next)
        if (memcmp(state->stream_id, stream_id, 16) == 0)
            return state;
    return NULL;
}

static void free_state(struct stream_state *state)
{
    while (state->open) {
        struct open_segment *next = state->open->next;
        open_segment_free(state->store, state->open);
        state->open = next;
    }
    free(state->handle);
    free(state);
}

void streams_free(struct store *store)
{
    while (store->streams) {
        struct stream_state *next = store->streams->next;
        free_state(store->streams);
        store->streams = next;
    }
}

static void mark_run(struct stream_state *state)
{
    struct run_state *run = run_state_find(state->store, state->run);
    if (run)
        run->dirty = true;
    state->dirty = true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int load_tracks(struct stream_state *state)
{
    struct store *store = state->store;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_TRACK_LIST);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, state->id);
    int rc;
    while ((rc = database_step(&store->db, statement)) == 1) {
        int tier = sqlite3_column_int(statement, 0);
        if (tier < 0 || tier >= DIVERGE_TIER_COUNT || sqlite3_column_bytes(statement, 2) != 16)
            continue;
        struct track *track = &state->tracks[tier];
        track->present = true;
        memcpy(track->chain.bytes, sqlite3_column_blob(statement, 2), 16);
        track->any = sqlite3_column_type(statement, 3) != SQLITE_NULL;
        track->first = (uint64_t)sqlite3_column_int64(statement, 3);
        track->last = (uint64_t)sqlite3_column_int64(statement, 4);
        track->has_gap = sqlite3_column_type(statement, 5) != SQLITE_NULL;
        track->first_gap = (uint64_t)sqlite3_column_int64(statement, 5);
        track->segments = (uint64_t)sqlite3_column_int64(statement, 7);
        track->records = (uint64_t)sqlite3_column_int64(statement, 8);
        track->dropped = (uint64_t)sqlite3_column_int64(statement, 9);
    }
    return rc ? store_failed(store, rc) : 0;
}

static void read_stream(struct stream_state *state, sqlite3_stmt *row)
{
    state->id = sqlite3_column_int64(row, 0);
    state->run = sqlite3_column_int64(row, 1);
    state->rank = (uint32_t)sqlite3_column_int64(row, 2);
    state->epoch = (uint64_t)sqlite3_column_int64(row, 3);
    state->seq = state->committed_seq = (uint64_t)sqlite3_column_int64(row, 4);
    state->any_sealed = sqlite3_column_type(row, 5) != SQLITE_NULL;
    state->last_sealed = (uint64_t)sqlite3_column_int64(row, 5);
    state->ended = sqlite3_column_type(row, 6) != SQLITE_NULL;
    state->outcome = (enum diverge_outcome)sqlite3_column_int(row, 6);
    state->dropped = (uint64_t)sqlite3_column_int64(row, 7);
}

/* 1: known to the file and loaded, 0: not known. */
static int load_state(struct stream_state *state)
{
    struct store *store = state->store;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_STREAM_FIND);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_blob(statement, 1, state->stream_id, 16, SQLITE_STATIC);
    int rc = database_step(&store->db, statement);
    if (rc != 1)
        return rc ? store_failed(store, rc) : 0;
    read_stream(state, statement);
    sqlite3_reset(statement);
    rc = load_tracks(state);
    if (!rc)
        rc = open_segments_load(state);
    return rc ? rc : 1;
}

static void set_starts(struct stream_state *state, const struct store_stream_options *options)
{
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        struct track *track = &state->tracks[tier];
        track->start =
            digest_chain_start((enum diverge_tier)tier, options->spec, options->fingerprint_id);
        if (!track->present)
            track->chain = track->start;
    }
}

static int push_stream(struct store *store, struct stream_state *state,
                       const struct store_stream_options *options)
{
    struct pending_stream stream = {.options = *options, .opened_unix_us = store_now_us()};
    stream.options.spec = arena_text(&store->arena, options->spec, strlen(options->spec));
    stream.options.fingerprint_id =
        arena_text(&store->arena, options->fingerprint_id, strlen(options->fingerprint_id));
    stream.options.client = arena_text(&store->arena, options->client, strlen(options->client));
    const struct pending_stream *kept = arena_copy(&store->arena, &stream, sizeof stream);
    if (!stream.options.spec || !stream.options.fingerprint_id || !stream.options.client || !kept ||
        pending_reserve(&store->pending, 1))
        return store_no_memory(store);
    state->id = store->next_stream++;
    state->run = options->run;
    state->rank = options->rank;
    pending_add(&store->pending,
                &(struct pending_op){.kind = PENDING_STREAM, .id = state->id, .stream = kept});
    return 0;
}

/* The stream's state, from memory, from the file, or new. */
static int make_state(struct store *store, const struct store_stream_options *options,
                      struct stream_state **ret)
{
    struct stream_state *state = calloc(1, sizeof *state);
    if (!state)
        return store_no_memory(store);
    state->store = store;
    memcpy(state->stream_id, options->stream_id, 16);
    int rc = load_state(state);
    if (rc == 1 && (state->run != options->run || state->rank != options->rank))
        rc = store_fail(store, DIVERGE_EEXIST, "the stream id belongs to another run or rank");
    if (rc == 0)
        rc = push_stream(store, state, options);
    if (rc < 0) {
        free_state(state);
        return rc;
    }
    set_starts(state, options);
    state->next = store->streams;
    store->streams = state;
    *ret = state;
    return 0;
}

int store_stream_check(struct store *store, const uint8_t stream_id[16], const uint8_t run_id[16],
                       uint32_t rank)
{
    struct stream_state found = {0};
    const struct stream_state *state = find_state(store, stream_id);
    if (!state) {
        sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_STREAM_FIND);
        if (!statement)
            return store_failed(store, store->db.failure);
        sqlite3_bind_blob(statement, 1, stream_id, 16, SQLITE_STATIC);
        int rc = database_step(&store->db, statement);
        if (rc != 1)
            return rc ? store_failed(store, rc) : 0;
        read_stream(&found, statement);
        sqlite3_reset(statement);
        state = &found;
    }
    int64_t run = 0;
    int rc = run_find(store, run_id, &run);
    if (rc < 0)
        return rc;
    if (rc == 0 || state->run != run || state->rank != rank)
        return store_fail(store, DIVERGE_EEXIST, "the stream id belongs to another run or rank");
    return 0;
}

/* A stream that is in memory already: its own, not taken by a connection that is as new. */
static int check_state(struct store *store, const struct stream_state *state,
                       const struct store_stream_options *options)
{
    if (state->run != options->run || state->rank != options->rank)
        return store_fail(store, DIVERGE_EEXIST, "the stream id belongs to another run or rank");
    if (state->handle && options->epoch <= state->epoch)
        return store_fail(store, DIVERGE_EBUSY, "the stream is open with an equal or higher epoch");
    return 0;
}

int store_stream_open(struct store *store, const struct store_stream_options *options,
                      struct store_stream **ret, uint64_t *committed_seq)
{
    int rc =
        options->level < DIVERGE_TIER_COUNT ? run_require(store, options->run) : DIVERGE_EINVAL;
    struct stream_state *state = find_state(store, options->stream_id);
    if (!rc && state)
        rc = check_state(store, state, options);
    /* What the former connection sent and is not committed must not be sent again. */
    if (!rc && state && state->seq != state->committed_seq)
        rc = store_commit(store);
    if (!rc && state)
        state = find_state(store, options->stream_id); /* a closed one is freed by a commit */
    struct store_stream *handle = rc ? NULL : calloc(1, sizeof *handle);
    struct run_state *run = handle ? run_state_get(store, options->run) : NULL;
    if (!rc && !run)
        rc = store_no_memory(store);
    if (!rc && !state)
        rc = make_state(store, options, &state);
    if (rc) {
        free(handle);
        return rc;
    }
    if (state->handle)
        state->handle->state = NULL;
    handle->state = state;
    state->handle = handle;
    state->epoch = options->epoch;
    state->closed_unix_us = 0;
    run->dirty = true;
    state->dirty = true;
    *committed_seq = state->committed_seq;
    *ret = handle;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

void store_stream_set_seq(struct store_stream *handle, uint64_t seq)
{
    if (!handle->state)
        return;
    handle->state->seq = seq;
    handle->state->dirty = true;
}

int store_stream_end(struct store_stream *handle, enum diverge_outcome outcome, uint64_t dropped)
{
    struct stream_state *state = handle->state;
    if (!state)
        return DIVERGE_ECLOSED;
    if (state->ended)
        return store_fail(state->store, DIVERGE_ESTATE, "the stream has ended");
    if (outcome != DIVERGE_OUTCOME_COMPLETE && outcome != DIVERGE_OUTCOME_FAILED)
        return store_fail(state->store, DIVERGE_EPROTO, "the outcome is not one of the known");
    state->ended = true;
    state->outcome = outcome;
    state->dropped = dropped > INT64_MAX ? INT64_MAX : dropped;
    mark_run(state);
    return 0;
}

void store_stream_close(struct store_stream *handle)
{
    struct stream_state *state = handle->state;
    if (state) {
        state->handle = NULL;
        state->closed_unix_us = store_now_us();
        mark_run(state);
    }
    free(handle);
}

/* ---- commit ---------------------------------------------------------------------------------- */

static void bind_segment(sqlite3_stmt *statement, int at, bool is, uint64_t segment)
{
    if (is)
        sqlite3_bind_int64(statement, at, (int64_t)segment);
}

static int write_track(struct stream_state *state, unsigned tier)
{
    struct store *store = state->store;
    const struct track *track = &state->tracks[tier];
    const struct open_segment *open = state->open;
    while (open && !open->records[tier])
        open = open->next;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_TRACK_SET);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, state->id);
    sqlite3_bind_int(statement, 2, (int)tier);
    sqlite3_bind_blob(statement, 3, track->start.bytes, 16, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 4, track->chain.bytes, 16, SQLITE_STATIC);
    bind_segment(statement, 5, track->any, track->first);
    bind_segment(statement, 6, track->any, track->last);
    bind_segment(statement, 7, track->has_gap, track->first_gap);
    bind_segment(statement, 8, open != NULL, open ? open->segment : 0);
    sqlite3_bind_int64(statement, 9, (int64_t)track->segments);
    sqlite3_bind_int64(statement, 10, (int64_t)track->records);
    sqlite3_bind_int64(statement, 11, (int64_t)track->dropped);
    int rc = database_run(&store->db, statement);
    return rc ? store_failed(store, rc) : 0;
}

static int write_stream(struct stream_state *state)
{
    struct store *store = state->store;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_STREAM_SET);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, state->id);
    sqlite3_bind_int64(statement, 2, (int64_t)state->epoch);
    sqlite3_bind_int64(statement, 3, (int64_t)state->seq);
    bind_segment(statement, 4, state->any_sealed, state->last_sealed);
    if (state->ended)
        sqlite3_bind_int(statement, 5, (int)state->outcome);
    sqlite3_bind_int64(statement, 6, (int64_t)state->dropped);
    if (state->closed_unix_us)
        sqlite3_bind_int64(statement, 7, state->closed_unix_us);
    int rc = database_run(&store->db, statement);
    return rc ? store_failed(store, rc) : 0;
}

int streams_write(struct store *store)
{
    for (struct stream_state *state = store->streams; state; state = state->next) {
        if (!state->dirty)
            continue;
        int rc = write_stream(state);
        for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT && !rc; tier++)
            if (state->tracks[tier].dirty)
                rc = write_track(state, tier);
        if (!rc)
            rc = open_segments_write(state);
        if (rc)
            return rc;
    }
    return 0;
}

void streams_written(struct store *store)
{
    struct stream_state **at = &store->streams;
    while (*at) {
        struct stream_state *state = *at;
        open_segments_written(state);
        state->committed_seq = state->seq;
        state->dirty = false;
        for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            state->tracks[tier].dirty = false;
        if (state->handle) {
            at = &state->next;
        } else {
            *at = state->next;
            free_state(state);
        }
    }
}
