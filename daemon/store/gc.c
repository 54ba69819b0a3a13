/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage and retention, in slices of time:
 *
 *     MARK_SEGMENTS -> MARK_CHUNKS -> SWEEP_CHUNKS -> SWEEP_LAYOUTS -> SWEEP_COLUMNS -> THIN ->
 *     SHRINK
 *
 * Marks live in memory, by row id. Recording goes on between slices: what it uses is marked as it
 * is used (gc_use), and rows that are younger than the marks are never looked at.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "daemon/store/internal.h"

enum {
    SLICE_ROWS = 4096,
    SLICE_PAGES = 64,
    NEAR = 2, /* segments on each side of a known difference that stay */
};
static const uint64_t most_bytes = UINT64_C(20) << 30;

enum phase {
    MARK_SEGMENTS,
    MARK_CHUNKS,
    SWEEP_CHUNKS,
    SWEEP_LAYOUTS,
    SWEEP_COLUMNS,
    THIN,
    SHRINK,
    DONE,
};

struct chunk_mark {
    uint32_t newest; /* 1 + index of the youngest run that refers to it; 0: none */
    uint8_t tier;    /* greatest retention: the lowest tier that refers to it */
    bool kept;       /* of a pinned run, or near a difference */
};

struct gc_run { /* by age, oldest first */
    int64_t id;
    bool pinned;
};

struct gc_stream {
    int64_t id;
    uint32_t run; /* index of runs */
};

struct gc_difference {
    int64_t run;
    int64_t segment;
};

struct gc_state {
    enum phase phase;
    int64_t n_chunks, n_layouts, n_columns; /* first row id that is younger than the marks */
    struct chunk_mark *chunks;
    uint8_t *layouts, *columns; /* 1: in use */
    struct gc_run *runs;
    size_t n_runs;
    struct gc_stream *streams;
    size_t n_streams;
    struct gc_difference *differences;
    size_t n_differences;
    int64_t stream, tier, segment; /* where MARK_SEGMENTS is */
    int64_t at;                    /* where the other phases are */
    int64_t *candidates;           /* of THIN, in the order of thinning */
    size_t n_candidates, next_candidate;
    uint64_t goal; /* bytes in use to come down to */
    struct store_gc result;
};

void gc_free(struct store *store)
{
    struct gc_state *gc = store->gc;
    if (!gc)
        return;
    free(gc->chunks);
    free(gc->layouts);
    free(gc->columns);
    free(gc->runs);
    free(gc->streams);
    free(gc->differences);
    free(gc->candidates);
    free(gc);
    store->gc = NULL;
}

void gc_use(struct store *store, enum gc_kind kind, int64_t id)
{
    struct gc_state *gc = store->gc;
    if (!gc || !id)
        return;
    if (kind == GC_CHUNK && id < gc->n_chunks) {
        gc->chunks[id].newest = (uint32_t)gc->n_runs + 1;
        gc->chunks[id].kept = true; /* until the next collection */
    } else if (kind == GC_LAYOUT && id < gc->n_layouts) {
        gc->layouts[id] = 1;
    } else if (kind == GC_COLUMN && id < gc->n_columns) {
        gc->columns[id] = 1;
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int sizes(struct store *store, uint64_t *ret_used, uint64_t *ret_file)
{
    int64_t pages = 0;
    int64_t unused = 0;
    int64_t bytes = 0;
    int rc = database_pragma(&store->db, "page_count", &pages);
    if (!rc)
        rc = database_pragma(&store->db, "freelist_count", &unused);
    if (!rc)
        rc = database_pragma(&store->db, "page_size", &bytes);
    if (rc)
        return store_failed(store, rc);
    *ret_used = (uint64_t)(pages - unused) * (uint64_t)bytes;
    *ret_file = (uint64_t)pages * (uint64_t)bytes;
    return 0;
}

static uint64_t cap_bytes(const struct store *store)
{
    if (store->options.max_bytes)
        return store->options.max_bytes;
    struct statvfs info;
    if (statvfs(store->db.path, &info) != 0)
        return most_bytes;
    uint64_t tenth = (uint64_t)info.f_blocks * info.f_frsize / 10;
    return tenth < most_bytes ? tenth : most_bytes;
}

/* ---- start ----------------------------------------------------------------------------------- */

/* All rows of a query of up to three numbers; *ret is an array to free. */
static int load_rows(struct store *store, const char *sql, int64_t (**ret)[3], size_t *ret_count)
{
    sqlite3_stmt *statement = NULL;
    int64_t(*rows)[3] = NULL;
    size_t count = 0;
    size_t capacity = 0;
    int rc = sqlite3_prepare_v2(store->db.handle, sql, -1, &statement, NULL);
    int columns = rc == SQLITE_OK ? sqlite3_column_count(statement) : 0;
    while (statement && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 64;
            int64_t(*grown)[3] = realloc(rows, capacity * sizeof *rows);
            if (!grown) {
                rc = SQLITE_NOMEM;
                break;
            }
            rows = grown;
        }
        for (int i = 0; i < 3; i++)
            rows[count][i] = i < columns ? sqlite3_column_int64(statement, i) : 0;
        count++;
    }
    sqlite3_finalize(statement);
    if (rc != SQLITE_DONE) {
        free(rows);
        return store_failed(store, database_fail(&store->db, rc));
    }
    *ret = rows;
    *ret_count = count;
    return 0;
}

static int load_runs(struct store *store, struct gc_state *gc)
{
    int64_t(*rows)[3];
    size_t count;
    int rc =
        load_rows(store, "SELECT id, pinned FROM runs ORDER BY started_unix_us, id", &rows, &count);
    if (rc)
        return rc;
    gc->runs = malloc((count + 1) * sizeof *gc->runs);
    for (size_t i = 0; gc->runs && i < count; i++)
        gc->runs[i] = (struct gc_run){.id = rows[i][0], .pinned = rows[i][1] != 0};
    gc->n_runs = count;
    free(rows);
    return gc->runs ? 0 : DIVERGE_ENOMEM;
}

static int load_streams(struct store *store, struct gc_state *gc)
{
    int64_t(*rows)[3];
    size_t count;
    int rc = load_rows(store, "SELECT id, run FROM streams ORDER BY id", &rows, &count);
    if (rc)
        return rc;
    gc->streams = malloc((count + 1) * sizeof *gc->streams);
    for (size_t i = 0; gc->streams && i < count; i++) {
        uint32_t run = 0;
        while (run < gc->n_runs && gc->runs[run].id != rows[i][1])
            run++;
        gc->streams[i] = (struct gc_stream){.id = rows[i][0], .run = run};
    }
    gc->n_streams = count;
    free(rows);
    return gc->streams ? 0 : DIVERGE_ENOMEM;
}

static int load_differences(struct store *store, struct gc_state *gc)
{
    int64_t(*rows)[3];
    size_t count;
    int rc = load_rows(store,
                       "SELECT run_a, segment FROM differences"
                       " UNION SELECT run_b, segment FROM differences",
                       &rows, &count);
    if (rc)
        return rc;
    gc->differences = malloc((count + 1) * sizeof *gc->differences);
    for (size_t i = 0; gc->differences && i < count; i++)
        gc->differences[i] = (struct gc_difference){.run = rows[i][0], .segment = rows[i][1]};
    gc->n_differences = count;
    free(rows);
    return gc->differences ? 0 : DIVERGE_ENOMEM;
}

static int start(struct store *store)
{
    struct gc_state *gc = calloc(1, sizeof *gc);
    if (!gc)
        return store_no_memory(store);
    store->gc = gc;
    gc->stream = gc->tier = gc->segment = -1;
    gc->n_chunks = store->content.next_chunk;
    gc->n_layouts = store->content.next_layout;
    gc->n_columns = store->content.next_column;
    gc->chunks = calloc((size_t)gc->n_chunks, sizeof *gc->chunks);
    gc->layouts = calloc((size_t)gc->n_layouts, 1);
    gc->columns = calloc((size_t)gc->n_columns, 1);
    uint64_t used;
    int rc = gc->chunks && gc->layouts && gc->columns ? 0 : DIVERGE_ENOMEM;
    if (!rc)
        rc = load_runs(store, gc);
    if (!rc)
        rc = load_streams(store, gc);
    if (!rc)
        rc = load_differences(store, gc);
    if (!rc)
        rc = sizes(store, &used, &gc->result.bytes_before);
    if (rc == DIVERGE_ENOMEM)
        store_no_memory(store);
    return rc;
}

/* ---- marking --------------------------------------------------------------------------------- */

static void mark(uint8_t *marks, int64_t limit, int64_t id)
{
    if (id > 0 && id < limit)
        marks[id] = 1;
}

static const struct gc_stream *find_stream(const struct gc_state *gc, int64_t id)
{
    size_t low = 0;
    size_t high = gc->n_streams;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gc->streams[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < gc->n_streams && gc->streams[low].id == id ? &gc->streams[low] : NULL;
}

static bool near_difference(const struct gc_state *gc, int64_t run, int64_t segment)
{
    for (size_t i = 0; i < gc->n_differences; i++) {
        int64_t apart = gc->differences[i].segment - segment;
        if (gc->differences[i].run == run && apart >= -NEAR && apart <= NEAR)
            return true;
    }
    return false;
}

/* A stream that came after the start is younger than all. */
static void mark_chunk(struct gc_state *gc, int64_t id, int64_t stream_id, int tier,
                       int64_t segment)
{
    if (id <= 0 || id >= gc->n_chunks)
        return;
    struct chunk_mark *chunk = &gc->chunks[id];
    const struct gc_stream *stream = find_stream(gc, stream_id);
    uint32_t run = stream ? stream->run : (uint32_t)gc->n_runs;
    if (!chunk->newest || (uint8_t)tier < chunk->tier)
        chunk->tier = (uint8_t)tier;
    if (run + 1 > chunk->newest)
        chunk->newest = run + 1;
    if (run < gc->n_runs &&
        (gc->runs[run].pinned || near_difference(gc, gc->runs[run].id, segment)))
        chunk->kept = true;
}

/* 1: more to do, 0: the phase is done. */
static int mark_segments(struct store *store)
{
    struct gc_state *gc = store->gc;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_GC_SEGMENTS);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, gc->stream);
    sqlite3_bind_int64(statement, 2, gc->tier);
    sqlite3_bind_int64(statement, 3, gc->segment);
    sqlite3_bind_int(statement, 4, SLICE_ROWS);
    int rows = 0;
    int rc;
    while ((rc = database_step(&store->db, statement)) == 1) {
        gc->stream = sqlite3_column_int64(statement, 0);
        gc->tier = sqlite3_column_int64(statement, 1);
        gc->segment = sqlite3_column_int64(statement, 2);
        mark(gc->layouts, gc->n_layouts, sqlite3_column_int64(statement, 3));
        mark_chunk(gc, sqlite3_column_int64(statement, 4), gc->stream, (int)gc->tier, gc->segment);
        for (int i = 0; i < 3; i++)
            mark(gc->columns, gc->n_columns, sqlite3_column_int64(statement, 5 + i));
        rows++;
    }
    return rc ? store_failed(store, rc) : rows == SLICE_ROWS;
}

static int mark_chunks(struct store *store)
{
    struct gc_state *gc = store->gc;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_GC_CHUNKS);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, gc->at);
    sqlite3_bind_int(statement, 2, SLICE_ROWS);
    int rows = 0;
    int rc;
    while ((rc = database_step(&store->db, statement)) == 1) {
        gc->at = sqlite3_column_int64(statement, 0);
        bool used = gc->at >= gc->n_chunks || gc->at <= 0 || gc->chunks[gc->at].newest;
        for (int i = 0; i < 3 && used; i++)
            mark(gc->columns, gc->n_columns, sqlite3_column_int64(statement, 1 + i));
        rows++;
    }
    return rc ? store_failed(store, rc) : rows == SLICE_ROWS;
}

/* ---- removing -------------------------------------------------------------------------------- */

static int run_on(struct store *store, enum statement which, int64_t id)
{
    sqlite3_stmt *statement = database_statement(&store->db, which);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, id);
    int rc = database_run(&store->db, statement);
    return rc ? store_failed(store, rc) : 0;
}

static bool in_use(const struct gc_state *gc, enum phase phase, int64_t id)
{
    switch (phase) {
    case SWEEP_CHUNKS:
        return gc->chunks[id].newest != 0;
    case SWEEP_LAYOUTS:
        return gc->layouts[id] != 0;
    default:
        return gc->columns[id] != 0;
    }
}

static int sweep(struct store *store, int64_t limit, enum statement remove)
{
    struct gc_state *gc = store->gc;
    int removed = 0;
    for (; gc->at < limit && removed < SLICE_PAGES; gc->at++) {
        if (gc->at <= 0 || in_use(gc, gc->phase, gc->at))
            continue;
        int rc = gc->phase == SWEEP_CHUNKS ? run_on(store, STATEMENT_GC_REMOVE_BLOB, gc->at) : 0;
        if (!rc)
            rc = run_on(store, remove, gc->at);
        if (rc)
            return rc;
        removed++;
        if (gc->phase == SWEEP_CHUNKS)
            gc->result.chunks_removed += (uint64_t)sqlite3_changes(store->db.handle);
    }
    return gc->at < limit;
}

/* ---- thinning -------------------------------------------------------------------------------- */

struct candidate {
    int64_t id;
    uint32_t newest;
    uint8_t tier;
};

/* Op before layer; then of older runs; then earlier ones. */
static int by_retention(const void *a, const void *b)
{
    const struct candidate *left = a;
    const struct candidate *right = b;
    if (left->tier != right->tier)
        return left->tier > right->tier ? -1 : 1;
    if (left->newest != right->newest)
        return left->newest < right->newest ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static int find_candidates(struct store *store)
{
    struct gc_state *gc = store->gc;
    struct candidate *list = malloc((size_t)gc->n_chunks * sizeof *list + 1);
    gc->candidates = malloc((size_t)gc->n_chunks * sizeof *gc->candidates + 1);
    if (!list || !gc->candidates) {
        free(list);
        return store_no_memory(store);
    }
    size_t n = 0;
    for (int64_t id = 1; id < gc->n_chunks; id++) {
        const struct chunk_mark *chunk = &gc->chunks[id];
        if (chunk->newest && !chunk->kept &&
            (chunk->tier == DIVERGE_TIER_OP || chunk->tier == DIVERGE_TIER_LAYER))
            list[n++] = (struct candidate){id, chunk->newest, chunk->tier};
    }
    qsort(list, n, sizeof *list, by_retention);
    for (size_t i = 0; i < n; i++)
        gc->candidates[i] = list[i].id;
    gc->n_candidates = n;
    free(list);
    return 0;
}

static int thin(struct store *store)
{
    struct gc_state *gc = store->gc;
    uint64_t used;
    uint64_t file;
    int rc = sizes(store, &used, &file);
    if (rc)
        return rc;
    if (!gc->candidates) {
        uint64_t cap = cap_bytes(store);
        if (used <= cap)
            return 0;
        /* A little further down than the cap, so that the next record is not over it again. */
        gc->goal = cap - cap / 10;
        rc = find_candidates(store);
        if (rc)
            return rc;
    }
    for (int n = 0; n < SLICE_PAGES && used > gc->goal; n++) {
        if (gc->next_candidate == gc->n_candidates)
            return 0;
        int64_t id = gc->candidates[gc->next_candidate++];
        if (gc->chunks[id].kept) /* used again in the meantime */
            continue;
        rc = run_on(store, STATEMENT_GC_REMOVE_BLOB, id);
        if (!rc)
            rc = run_on(store, STATEMENT_GC_THIN, id);
        if (rc)
            return rc;
        gc->result.segments_thinned += (uint64_t)sqlite3_changes(store->db.handle);
        if (n % 8 == 7 && (rc = sizes(store, &used, &file)))
            return rc;
    }
    return used > gc->goal && gc->next_candidate < gc->n_candidates;
}

static int shrink(struct store *store)
{
    int64_t unused = 0;
    int rc = database_pragma(&store->db, "freelist_count", &unused);
    if (!rc && unused)
        rc = database_execute(&store->db, "PRAGMA incremental_vacuum(256)");
    if (rc)
        return store_failed(store, rc);
    return unused > 256;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static int one_slice(struct store *store)
{
    struct gc_state *gc = store->gc;
    switch (gc->phase) {
    case MARK_SEGMENTS:
        return mark_segments(store);
    case MARK_CHUNKS:
        return mark_chunks(store);
    case SWEEP_CHUNKS:
        return sweep(store, gc->n_chunks, STATEMENT_GC_REMOVE_CHUNK);
    case SWEEP_LAYOUTS:
        return sweep(store, gc->n_layouts, STATEMENT_GC_REMOVE_LAYOUT);
    case SWEEP_COLUMNS:
        return sweep(store, gc->n_columns, STATEMENT_GC_REMOVE_COLUMN);
    case THIN:
        return thin(store);
    case SHRINK:
        return shrink(store);
    case DONE:
        break;
    }
    return 0;
}

/*
 * A slice that changes rows is a transaction, and caches must not name what it removed. Foreign
 * keys are not checked meanwhile: the marks are that check, and SQLite's would read all segments
 * for each row.
 */
static int writing_slice(struct store *store)
{
    int rc = database_execute(&store->db, "PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE");
    int more = rc ? store_failed(store, rc) : one_slice(store);
    content_forget(&store->content);
    if (more >= 0 && (rc = database_execute(&store->db, "COMMIT")))
        more = store_failed(store, rc);
    if (more < 0)
        sqlite3_exec(store->db.handle, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_exec(store->db.handle, "PRAGMA foreign_keys = ON", NULL, NULL, NULL);
    return more;
}

static int slice(struct store *store)
{
    bool writes = store->gc->phase >= SWEEP_CHUNKS && store->gc->phase <= THIN;
    return writes ? writing_slice(store) : one_slice(store);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int store_gc(struct store *store, int budget_ms, struct store_gc *ret)
{
    int64_t end = now_ms() + budget_ms;
    int rc = store_commit(store);
    if (!rc && !store->gc)
        rc = start(store);
    while (!rc && store->gc->phase != DONE) {
        int more = slice(store);
        if (more < 0) {
            rc = more;
        } else if (more == 0) {
            store->gc->phase++;
            store->gc->at = 0;
        }
        if (!rc && store->gc->phase != DONE && budget_ms > 0 && now_ms() >= end)
            return DIVERGE_EAGAIN;
    }
    uint64_t used;
    if (!rc)
        rc = sizes(store, &used, &store->gc->result.bytes_after);
    if (!rc)
        *ret = store->gc->result;
    gc_free(store);
    return rc;
}
