/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as people name them, and as the engine reads them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/store/metadata.h"
#include "daemon/store/reader_internal.h"

static int no_memory(struct reader *reader)
{
    return database_error(&reader->db, DIVERGE_ENOMEM, "out of memory");
}

/* ---- listing --------------------------------------------------------------------------------- */

static void copy_column(char *to, size_t size, sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    snprintf(to, size, "%s", text ? (const char *)text : "");
}

static uint64_t count_column(sqlite3_stmt *row, int column)
{
    int64_t value = sqlite3_column_int64(row, column);
    return value < 0 ? 0 : (uint64_t)value;
}

/* The boundary before or at a sealed segment; there is none before init's end. */
static uint64_t boundary_of(sqlite3_stmt *row, int column)
{
    int64_t segment = sqlite3_column_int64(row, column);
    return segment <= 0 ? UINT64_MAX : ((uint64_t)segment - 1) / 2;
}

static void read_run(sqlite3_stmt *row, struct reader_run *run)
{
    struct trace_digest id = {{0}};
    *run = (struct reader_run){
        .id = sqlite3_column_int64(row, 0),
        .started_unix_us = sqlite3_column_int64(row, 4),
        .ended_unix_us = sqlite3_column_int64(row, 5),
        .world = (uint32_t)count_column(row, 6),
        .pinned = sqlite3_column_int(row, 7) != 0,
        .ranks = (uint32_t)count_column(row, 8),
        .records = count_column(row, 9),
        .dropped = count_column(row, 10),
        .last_boundary = boundary_of(row, 11),
    };
    if (reader_digest(row, 1, &id))
        memcpy(run->run_id, id.bytes, sizeof run->run_id);
    copy_column(run->name, sizeof run->name, row, 2);
    copy_column(run->status, sizeof run->status, row, 3);
}

int reader_runs(struct reader *reader, struct reader_run **ret, size_t *ret_count)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_RUN_LIST);
    if (!statement)
        return reader->db.failure;
    struct reader_run *runs = malloc(sizeof *runs);
    size_t capacity = 1;
    size_t count = 0;
    int rc = runs ? 1 : no_memory(reader);
    while (rc == 1 && (rc = database_step(&reader->db, statement)) == 1) {
        if (count == capacity) {
            capacity *= 2;
            struct reader_run *grown = realloc(runs, capacity * sizeof *runs);
            if (!grown) {
                rc = no_memory(reader);
                break;
            }
            runs = grown;
        }
        read_run(statement, &runs[count++]);
    }
    sqlite3_reset(statement);
    if (rc) {
        free(runs);
        return rc;
    }
    *ret = runs;
    *ret_count = count;
    return 0;
}

/* ---- finding --------------------------------------------------------------------------------- */

static void hex_id(const uint8_t run_id[16], char ret[33])
{
    for (int i = 0; i < 16; i++)
        snprintf(ret + 2 * (size_t)i, 3, "%02x", run_id[i]);
}

enum match { MATCH_NONE, MATCH_PREFIX, MATCH_EXACT };

static enum match match_run(const struct reader_run *run, const char *who)
{
    char id[33];
    hex_id(run->run_id, id);
    size_t size = strlen(who);
    if (strcmp(run->name, who) == 0 || strcasecmp(id, who) == 0)
        return MATCH_EXACT;
    bool prefix = strncmp(run->name, who, size) == 0 ||
                  (size >= 4 && size < 32 && strncasecmp(id, who, size) == 0);
    return prefix ? MATCH_PREFIX : MATCH_NONE;
}

/* How many characters to change to make `b` of `a`; both are cut at 63. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[64];
    size_t width = strlen(b) < 63 ? strlen(b) : 63;
    for (size_t j = 0; j <= width; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i] && i < 63; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 1; j <= width; j++) {
            unsigned replaced = corner + (a[i] != b[j - 1]);
            unsigned least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            corner = row[j];
            row[j] = replaced < least ? replaced : least;
        }
    }
    return row[width];
}

static void append_name(struct store_error *error, const char *between, const char *name)
{
    size_t at = strlen(error->text);
    snprintf(error->text + at, sizeof error->text - at, "%s%s", between, name);
}

static int not_found(const struct reader_run *runs, size_t count, const char *who,
                     struct store_error *error)
{
    snprintf(error->text, sizeof error->text, "no run is named %.100s", who);
    if (!count) {
        append_name(error, "", ": the store has no runs");
        return DIVERGE_ENOTFOUND;
    }
    /* The three nearest names, each time the best of those that are worse than the last. */
    unsigned last = 0;
    size_t last_index = 0;
    for (int n = 0; n < 3; n++) {
        size_t best = count;
        unsigned best_distance = 0;
        for (size_t i = 0; i < count; i++) {
            unsigned distance = edit_distance(who, runs[i].name);
            bool after = n == 0 || distance > last || (distance == last && i > last_index);
            if (after && (best == count || distance < best_distance)) {
                best = i;
                best_distance = distance;
            }
        }
        if (best == count)
            break;
        append_name(error, n ? ", " : "; nearest: ", runs[best].name);
        last = best_distance;
        last_index = best;
    }
    return DIVERGE_ENOTFOUND;
}

static int ambiguous(const struct reader_run *runs, size_t count, const char *who,
                     struct store_error *error)
{
    snprintf(error->text, sizeof error->text, "%.100s could be", who);
    int listed = 0;
    for (size_t i = 0; i < count; i++)
        if (match_run(&runs[i], who) == MATCH_PREFIX) {
            if (++listed > 8) {
                append_name(error, ", ", "…");
                break;
            }
            append_name(error, listed == 1 ? " " : ", ", runs[i].name);
        }
    return DIVERGE_EAMBIGUOUS;
}

static int pick(const struct reader_run *runs, size_t count, const char *who,
                struct reader_run *ret, struct store_error *error)
{
    size_t found = count;
    size_t prefixes = 0;
    if (who[0] == '@') {
        found = strcmp(who, "@last") == 0 ? 0 : strcmp(who, "@prev") == 0 ? 1 : count;
    } else {
        for (size_t i = 0; i < count; i++) {
            enum match match = match_run(&runs[i], who);
            if (match == MATCH_EXACT) {
                *ret = runs[i];
                return 0;
            }
            if (match == MATCH_PREFIX) {
                found = i;
                prefixes++;
            }
        }
        if (prefixes > 1)
            return ambiguous(runs, count, who, error);
    }
    if (found >= count)
        return not_found(runs, count, who, error);
    *ret = runs[found];
    return 0;
}

int reader_find(struct reader *reader, const char *who, struct reader_run *ret,
                struct store_error *error)
{
    struct reader_run *runs = NULL;
    size_t count = 0;
    int rc = reader_runs(reader, &runs, &count);
    if (rc) {
        *error = reader->db.error;
        return rc;
    }
    rc = *who ? pick(runs, count, who, ret, error) : not_found(runs, count, who, error);
    free(runs);
    return rc;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* First and last segment with a row, sealed or not. */
static int track_range(struct reader *reader, uint64_t stream, int tier, struct trace_track *track)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_TRACK_RANGE);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, (int64_t)stream);
    sqlite3_bind_int(statement, 2, tier);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc;
    track->present = sqlite3_column_type(statement, 0) != SQLITE_NULL;
    track->first = count_column(statement, 0);
    track->last = count_column(statement, 1);
    sqlite3_reset(statement);
    return 0;
}

static void add_gap(struct trace_track *track, sqlite3_stmt *row, int column)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return;
    uint64_t segment = count_column(row, column);
    if (!track->has_gap || segment < track->first_gap)
        track->first_gap = segment;
    track->has_gap = true;
}

static int load_tracks(struct reader *reader, struct trace_stream *stream)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_TRACK_LIST);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, (int64_t)stream->id);
    int rc;
    while ((rc = database_step(&reader->db, statement)) == 1) {
        int tier = sqlite3_column_int(statement, 0);
        if (tier < 0 || tier >= DIVERGE_TIER_COUNT)
            continue;
        struct trace_track *track = &stream->tiers[tier];
        reader_digest(statement, 1, &track->start);
        add_gap(track, statement, 5);
        add_gap(track, statement, 6);
        track->segments = count_column(statement, 7);
        track->records = count_column(statement, 8);
        track->dropped = count_column(statement, 9);
        rc = track_range(reader, stream->id, tier, track);
        if (rc)
            break;
    }
    sqlite3_reset(statement);
    return rc;
}

static int read_stream(struct reader *reader, sqlite3_stmt *row, struct trace_stream *stream)
{
    int level = sqlite3_column_int(row, 3);
    *stream = (struct trace_stream){
        .id = (uint64_t)sqlite3_column_int64(row, 0),
        .rank = (uint32_t)count_column(row, 1),
        .ended = sqlite3_column_type(row, 2) != SQLITE_NULL,
        .outcome = (uint32_t)count_column(row, 2),
        .level = level >= 0 && level < DIVERGE_TIER_COUNT ? (uint8_t)level : 0,
        .dropped = count_column(row, 4),
        .spec = reader_text(reader, row, 5),
        .fingerprint_id = reader_text(reader, row, 6),
        .at_once = (uint32_t)count_column(row, 7),
    };
    if (!stream->spec || !stream->fingerprint_id)
        return no_memory(reader);
    return load_tracks(reader, stream);
}

/* Moves a list into one twice as long of the arena when it is full. NULL: out of memory. */
static void *grow(struct reader *reader, void *items, size_t count, size_t *capacity, size_t item)
{
    if (count < *capacity)
        return items;
    size_t larger = *capacity ? *capacity * 2 : 8;
    void *grown = arena_alloc(&reader->arena, larger * item);
    if (!grown)
        return NULL;
    if (count)
        memcpy(grown, items, count * item);
    *capacity = larger;
    return grown;
}

static int load_streams(struct reader *reader, int64_t id, struct trace_run *run)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_RUN_STREAMS);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, id);
    struct trace_stream *streams = NULL;
    size_t count = 0;
    size_t capacity = 0;
    int rc;
    while ((rc = database_step(&reader->db, statement)) == 1) {
        streams = grow(reader, streams, count, &capacity, sizeof *streams);
        rc = streams ? read_stream(reader, statement, &streams[count]) : no_memory(reader);
        if (rc)
            break;
        count++;
    }
    sqlite3_reset(statement);
    run->streams = streams;
    run->n_streams = (uint32_t)count;
    return rc;
}

static const char *class_of(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    for (int c = METADATA_CAUSE; c <= METADATA_VOLATILE; c++) {
        const char *name = metadata_class_name((enum metadata_class)c);
        if (text && strcmp((const char *)text, name) == 0)
            return name;
    }
    return metadata_class_name(METADATA_CONTEXT);
}

/* A key's value of its lowest rank; of other ranks, as key@rank, what differs and is not volatile.
 */
static int read_metadata(struct reader *reader, sqlite3_stmt *row, struct trace_metadata *items,
                         size_t *count, size_t *first)
{
    struct trace_metadata item = {
        .key = reader_text(reader, row, 0),
        .class_name = class_of(row, 2),
        .value = reader_text(reader, row, 3),
    };
    if (!item.key || !item.value)
        return no_memory(reader);
    if (*count && strcmp(items[*first].key, item.key) == 0) {
        if (strcmp(items[*first].value, item.value) == 0 ||
            item.class_name == metadata_class_name(METADATA_VOLATILE))
            return 0;
        char key[512];
        int size = snprintf(key, sizeof key, "%.480s@%llu", item.key,
                            (unsigned long long)count_column(row, 1));
        item.key = arena_text(&reader->arena, key, (size_t)size);
        if (!item.key)
            return no_memory(reader);
    } else {
        *first = *count;
    }
    items[(*count)++] = item;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct trace_metadata *)a)->key, ((const struct trace_metadata *)b)->key);
}

static int load_metadata(struct reader *reader, int64_t id, struct trace_run *run)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_RUN_METADATA);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, id);
    struct trace_metadata *items = NULL;
    size_t count = 0;
    size_t capacity = 0;
    size_t first = 0;
    int rc;
    while ((rc = database_step(&reader->db, statement)) == 1) {
        items = grow(reader, items, count, &capacity, sizeof *items);
        rc = items ? read_metadata(reader, statement, items, &count, &first) : no_memory(reader);
        if (rc)
            break;
    }
    sqlite3_reset(statement);
    if (count)
        qsort(items, count, sizeof *items, by_key);
    run->metadata = items;
    run->n_metadata = (uint32_t)count;
    return rc;
}

static int load_run(struct reader *reader, int64_t id, struct trace_run *run)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_RUN_LOAD);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, id);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : database_error(&reader->db, DIVERGE_ENOTFOUND, "there is no such run");
    struct trace_digest run_id;
    reader_digest(statement, 0, &run_id);
    memcpy(run->run_id, run_id.bytes, sizeof run->run_id);
    run->name = reader_text(reader, statement, 1);
    run->status = reader_text(reader, statement, 2);
    run->world = (uint32_t)count_column(statement, 3);
    sqlite3_reset(statement);
    if (!run->name || !run->status)
        return no_memory(reader);
    rc = load_streams(reader, id, run);
    return rc ? rc : load_metadata(reader, id, run);
}

int reader_load(struct reader *reader, int64_t id, const struct trace_run **ret)
{
    struct trace_run *run = arena_alloc(&reader->arena, sizeof *run);
    if (!run)
        return no_memory(reader);
    *run = (struct trace_run){0};
    int rc = load_run(reader, id, run);
    if (!rc)
        *ret = run;
    return rc;
}
