/* SPDX-License-Identifier: Apache-2.0 */
/* Segments that are still open: their records in memory, and their parts in the file. */
#include <stdlib.h>
#include <string.h>

#include "daemon/store/internal.h"

enum { SPARE_BYTES = 64 << 20 };

/* ---- memory ---------------------------------------------------------------------------------- */

static void release_lane(struct store *store, struct open_lane *lane)
{
    size_t bytes = columns_bytes(&lane->columns);
    store->open_bytes -= bytes;
    if (store->spare_bytes + bytes > SPARE_BYTES) {
        columns_fini(&lane->columns);
        free(lane);
        return;
    }
    columns_clear(&lane->columns);
    lane->next = store->spare_lanes;
    store->spare_lanes = lane;
    store->spare_bytes += bytes;
}

static struct open_lane *take_lane(struct store *store)
{
    struct open_lane *lane = store->spare_lanes;
    if (!lane)
        return calloc(1, sizeof *lane);
    store->spare_lanes = lane->next;
    size_t bytes = columns_bytes(&lane->columns);
    store->spare_bytes -= bytes;
    store->open_bytes += bytes;
    struct columns columns = lane->columns;
    *lane = (struct open_lane){.columns = columns};
    return lane;
}

void open_lanes_release(struct store *store, struct open_segment *open, unsigned tier)
{
    while (open->tiers[tier]) {
        struct open_lane *lane = open->tiers[tier];
        open->tiers[tier] = lane->next;
        release_lane(store, lane);
    }
}

void open_segment_free(struct store *store, struct open_segment *open)
{
    for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        open_lanes_release(store, open, tier);
    free(open);
}

struct open_segment *open_segment_find(struct stream_state *stream, uint64_t segment)
{
    for (struct open_segment *open = stream->open; open; open = open->next)
        if (open->segment == segment)
            return open;
    return NULL;
}

int open_segment_get(struct stream_state *stream, uint64_t segment, struct open_segment **ret)
{
    struct open_segment **at = &stream->open;
    size_t count = 0;
    for (; *at && (*at)->segment < segment; at = &(*at)->next)
        count++;
    if (*at && (*at)->segment == segment) {
        *ret = *at;
        return 0;
    }
    for (struct open_segment *after = *at; after; after = after->next)
        count++;
    if (count >= STORE_MAX_OPEN_SEGMENTS)
        return store_fail(stream->store, DIVERGE_ELIMIT, "a stream has more than %d open segments",
                          STORE_MAX_OPEN_SEGMENTS);
    struct open_segment *open = calloc(1, sizeof *open);
    if (!open)
        return store_no_memory(stream->store);
    open->segment = segment;
    open->next = *at;
    *at = open;
    *ret = open;
    return 0;
}

int open_lane_get(struct store *store, struct open_segment *open, unsigned tier, uint32_t lane,
                  struct open_lane **ret)
{
    size_t count = 0;
    for (struct open_lane *known = open->tiers[tier]; known; known = known->next, count++)
        if (known->lane == lane) {
            *ret = known;
            return 0;
        }
    if (count >= STORE_MAX_LANES)
        return store_fail(store, DIVERGE_ELIMIT, "a segment has more than %d lanes",
                          STORE_MAX_LANES);
    const char *name;
    int rc = content_lane_name(store, lane, &name);
    if (rc)
        return rc;
    struct open_lane *made = take_lane(store);
    if (!made)
        return store_no_memory(store);
    made->lane = lane;
    made->name = name;
    /* Lanes lie in the order of their names: that is the order of the segment's records. */
    struct open_lane **at = &open->tiers[tier];
    while (*at && strcmp((*at)->name, name) < 0)
        at = &(*at)->next;
    made->next = *at;
    *at = made;
    *ret = made;
    return 0;
}

/* ---- parts in the file ----------------------------------------------------------------------- */

/* First sparse entry of a record that is not in the file yet. */
static uint32_t sparse_from(const uint32_t *index, uint32_t items, uint32_t written)
{
    uint32_t low = 0;
    uint32_t high = items;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (index[middle] < written)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Indices count from the part's first record. */
static const uint32_t *shifted(struct arena *scratch, const uint32_t *index, uint32_t items,
                               uint32_t by)
{
    uint32_t *moved = arena_alloc(scratch, (size_t)items * 4 + 1);
    for (uint32_t i = 0; moved && i < items; i++)
        moved[i] = index[i] - by;
    return moved;
}

/* The columns of the records from lane->written on. */
static int part_columns(struct store *store, const struct open_lane *lane,
                        struct codec_column *columns, size_t *ret_count)
{
    const struct columns *from = &lane->columns;
    const uint32_t *nonfinite = columns_get(from, COLUMN_NONFINITE_INDEX);
    const uint32_t *sketches = columns_get(from, COLUMN_SKETCH_INDEX);
    uint32_t skip_nonfinite = sparse_from(nonfinite, from->n_nonfinite, lane->written);
    uint32_t skip_sketches = sparse_from(sketches, from->n_sketches, lane->written);
    size_t n = 0;
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const uint8_t *data = columns_get(from, (enum column)c);
        uint32_t skip = c < COLUMN_RECORD_COUNT    ? lane->written
                        : c < COLUMN_SKETCH_INDEX  ? skip_nonfinite
                        : c == COLUMN_SKETCH_INDEX ? skip_sketches
                                                   : skip_sketches * from->sketch_size;
        uint32_t items = columns_items(from, (enum column)c) - skip;
        if (!data || !items)
            continue;
        data += skip * column_width((enum column)c);
        if (c == COLUMN_NONFINITE_INDEX || c == COLUMN_SKETCH_INDEX) {
            data = (const uint8_t *)shifted(&store->scratch, (const uint32_t *)data, items,
                                            lane->written);
            if (!data)
                return store_no_memory(store);
        }
        columns[n++] =
            (struct codec_column){.column = (enum column)c, .items = items, .data = data};
    }
    *ret_count = n;
    return 0;
}

static int write_part(struct stream_state *stream, const struct open_segment *open, unsigned tier,
                      struct open_lane *lane)
{
    struct store *store = stream->store;
    struct codec_column columns[COLUMN_COUNT];
    size_t n_columns = 0;
    uint32_t count = lane->columns.count - lane->written;
    int rc = part_columns(store, lane, columns, &n_columns);
    if (rc)
        return rc;
    uint8_t *blob = arena_alloc(&store->scratch, codec_bound(columns, n_columns));
    size_t size = 0;
    if (!blob || codec_encode(store->encoder, CODEC_RAW, count, columns, n_columns, blob, &size))
        return store_no_memory(store);
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_PART_ADD);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, stream->id);
    sqlite3_bind_int64(statement, 2, (int64_t)open->segment);
    sqlite3_bind_int(statement, 3, (int)tier);
    sqlite3_bind_int64(statement, 4, lane->lane);
    sqlite3_bind_int64(statement, 5, lane->written);
    sqlite3_bind_int64(statement, 6, count);
    sqlite3_bind_blob64(statement, 7, blob, size, SQLITE_STATIC);
    rc = database_run(&store->db, statement);
    lane->writing = lane->columns.count;
    arena_shrink(&store->scratch, blob, 0);
    return rc ? store_failed(store, rc) : 0;
}

static int write_unsealed_row(struct stream_state *stream, const struct open_segment *open,
                              unsigned tier)
{
    struct pending_segment row = {
        .stream = stream->id,
        .segment = open->segment,
        .tier = (uint8_t)tier,
        .records = open->records[tier],
        .in_file = true,
        .unix_us = store_now_us(),
    };
    int rc = pending_write_segment(&stream->store->db, &row);
    return rc ? store_failed(stream->store, rc) : 0;
}

int open_segments_write(struct stream_state *stream)
{
    for (struct open_segment *open = stream->open; open; open = open->next)
        for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
            bool changed = false;
            for (struct open_lane *lane = open->tiers[tier]; lane; lane = lane->next) {
                if (lane->written == lane->columns.count)
                    continue;
                int rc = write_part(stream, open, tier, lane);
                if (rc)
                    return rc;
                changed = true;
            }
            int rc = changed ? write_unsealed_row(stream, open, tier) : 0;
            if (rc)
                return rc;
        }
    return 0;
}

void open_segments_written(struct stream_state *stream)
{
    struct open_segment **at = &stream->open;
    while (*at) {
        struct open_segment *open = *at;
        for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            for (struct open_lane *lane = open->tiers[tier]; lane; lane = lane->next) {
                open->in_file = true;
                lane->written = lane->columns.count;
            }
        if (open->abandoned) {
            *at = open->next;
            open_segment_free(stream->store, open);
        } else {
            at = &open->next;
        }
    }
}

/* ---- loading --------------------------------------------------------------------------------- */

static int load_part(struct stream_state *stream, sqlite3_stmt *row)
{
    struct store *store = stream->store;
    uint64_t segment = (uint64_t)sqlite3_column_int64(row, 0);
    int tier = sqlite3_column_int(row, 1);
    uint32_t lane_row = (uint32_t)sqlite3_column_int64(row, 2);
    int64_t first = sqlite3_column_int64(row, 3);
    /* Parts of segments before a sealed one never get their END. */
    if (stream->any_sealed && segment <= stream->last_sealed)
        return 0;
    struct open_segment *open = NULL;
    struct open_lane *lane = NULL;
    struct codec_blob blob;
    int rc = tier < 0 || tier >= DIVERGE_TIER_COUNT ? DIVERGE_ECORRUPT
                                                    : open_segment_get(stream, segment, &open);
    if (!rc)
        rc = open_lane_get(store, open, (unsigned)tier, lane_row, &lane);
    if (!rc && first != lane->columns.count)
        rc = DIVERGE_ECORRUPT;
    if (!rc)
        rc = codec_decode(store->decoder, sqlite3_column_blob(row, 5),
                          (size_t)sqlite3_column_bytes(row, 5), store->options.max_open_bytes,
                          &blob);
    if (rc)
        return rc == DIVERGE_ECORRUPT
                   ? store_fail(store, rc, "a part of an open segment is damaged")
                   : rc;
    size_t before = columns_bytes(&lane->columns);
    rc = codec_blob_append(&blob, &lane->columns);
    store->open_bytes += columns_bytes(&lane->columns) - before;
    open->records[tier] += blob.count;
    open->in_file = true;
    lane->written = lane->columns.count;
    codec_blob_fini(&blob);
    return rc ? store_fail(store, rc, "an open segment cannot be loaded") : 0;
}

int open_segments_load(struct stream_state *stream)
{
    struct store *store = stream->store;
    sqlite3_stmt *statement = NULL;
    /* A statement of its own: loading looks strings up while it runs. */
    int rc = sqlite3_prepare_v2(store->db.handle,
                                "SELECT segment, tier, lane, first, records, data FROM parts"
                                " WHERE stream = ?1 ORDER BY segment, tier, lane, first",
                                -1, &statement, NULL);
    if (rc != SQLITE_OK)
        return store_failed(store, database_fail(&store->db, rc));
    sqlite3_bind_int64(statement, 1, stream->id);
    int status = 0;
    while (!status && (rc = sqlite3_step(statement)) == SQLITE_ROW)
        status = load_part(stream, statement);
    if (!status && rc != SQLITE_DONE)
        status = store_failed(store, database_fail(&store->db, rc));
    sqlite3_finalize(statement);
    return status;
}
