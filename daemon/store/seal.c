/* SPDX-License-Identifier: Apache-2.0 */
/* Appending records to open segments, and sealing: layout, digest, chunk, chain. */
#include <string.h>

#include "daemon/store/internal.h"

enum { RECORD_ESTIMATE = 80 }; /* bytes of memory a record may take without sketches */

/* ---- appending ------------------------------------------------------------------------------- */

static int check_open(struct stream_state *stream, uint64_t segment)
{
    struct store *store = stream->store;
    if (stream->ended)
        return store_fail(store, DIVERGE_ESTATE, "the stream has ended");
    if (segment > INT64_MAX)
        return store_fail(store, DIVERGE_EPROTO, "a segment number is out of range");
    if (stream->any_sealed && segment <= stream->last_sealed)
        return store_fail(store, DIVERGE_ESTATE,
                          "segment %llu is sealed, or older than one that is (%llu)",
                          (unsigned long long)segment, (unsigned long long)stream->last_sealed);
    return 0;
}

static int check_room(struct store *store, const struct open_segment *open,
                      const struct dvg_part *wire)
{
    uint64_t records = 0;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        records += open->records[tier];
    if (records + wire->count > store->options.max_segment_records)
        return store_fail(store, DIVERGE_ELIMIT, "a segment has more than %llu records",
                          (unsigned long long)store->options.max_segment_records);
    uint64_t bytes = (uint64_t)wire->count * RECORD_ESTIMATE + wire->sketches.size;
    uint64_t used = store->open_bytes + store->arena.bytes;
    if (used + bytes > store->options.max_open_bytes)
        return store_fail(store, DIVERGE_ELIMIT, "open segments take more than %llu MiB of memory",
                          (unsigned long long)(store->options.max_open_bytes >> 20));
    return 0;
}

/* Lanes are put one behind the other, so their sketches must be alike. */
static bool sketches_fit(const struct open_segment *open, const struct dvg_part *wire)
{
    if (!wire->sketches.size)
        return true;
    for (struct open_lane *lane = open->tiers[wire->tier]; lane; lane = lane->next)
        if (lane->columns.n_sketches && lane->columns.sketch_size != wire->sketch_size)
            return false;
    return true;
}

static int append(struct store *store, struct open_segment *open, struct open_lane *lane,
                  const struct store_part *part)
{
    const struct dvg_part *wire = part->wire;
    if (wire->first != lane->columns.count)
        return store_fail(store, DIVERGE_EGAP, "a part begins at record %llu where %u is next",
                          (unsigned long long)wire->first, lane->columns.count);
    struct columns_part records = {
        .wire = wire,
        .sites = part->sites,
        .sources = part->sources,
        .types = part->types,
        .n_types = part->n_types,
    };
    size_t before = columns_bytes(&lane->columns);
    int rc = columns_append_part(&lane->columns, &records);
    store->open_bytes += columns_bytes(&lane->columns) - before;
    if (rc)
        return store_fail(store, rc,
                          rc == DIVERGE_ENOMEM ? "out of memory"
                                               : "a part's columns do not fit together");
    open->records[wire->tier] += wire->count;
    return 0;
}

int store_part_append(struct store_stream *handle, const struct store_part *part)
{
    struct stream_state *stream = handle->state;
    const struct dvg_part *wire = part->wire;
    if (!stream)
        return DIVERGE_ECLOSED;
    struct store *store = stream->store;
    if (wire->tier >= DIVERGE_TIER_COUNT)
        return store_fail(store, DIVERGE_EPROTO, "a part names a tier that there is not");
    struct open_segment *open = NULL;
    struct open_lane *lane = NULL;
    int rc = check_open(stream, wire->segment);
    if (!rc)
        rc = open_segment_get(stream, wire->segment, &open);
    if (!rc)
        rc = check_room(store, open, wire);
    if (!rc && !sketches_fit(open, wire))
        rc = store_fail(store, DIVERGE_EPROTO, "sketches of one segment differ in size");
    if (!rc)
        rc = open_lane_get(store, open, wire->tier, part->lane, &lane);
    if (!rc)
        rc = append(store, open, lane, part);
    if (!rc)
        stream->dirty = stream->tracks[wire->tier].dirty = stream->tracks[wire->tier].present =
            true;
    return rc;
}

/* ---- sealing --------------------------------------------------------------------------------- */

/* All lanes of a tier as one: that of the only lane, or a copy. Lanes lie sorted by name. */
static int merge_lanes(struct store *store, const struct open_segment *open, unsigned tier,
                       const struct columns **ret)
{
    columns_clear(&store->merged);
    *ret = &store->merged;
    const struct open_lane *first = open ? open->tiers[tier] : NULL;
    if (!first)
        return 0;
    if (!first->next) {
        *ret = &first->columns;
        return 0;
    }
    for (const struct open_lane *lane = first; lane; lane = lane->next) {
        int rc = columns_append(&store->merged, &lane->columns);
        if (rc)
            return store_fail(store, rc, "lanes of a segment cannot be merged");
    }
    return 0;
}

static bool any_unread(const uint8_t *state, uint32_t count)
{
    uint8_t any = 0;
    for (uint32_t i = 0; state && i < count; i++)
        any |= state[i];
    return any & DVG_STATE_UNREAD;
}

/* Which columns lie in the chunk's own blob; types, arguments and states are shared ones. */
static const uint32_t chunk_columns =
    1u << COLUMN_VALUE | 1u << COLUMN_SUM | 1u << COLUMN_L2 | 1u << COLUMN_MIN | 1u << COLUMN_MAX |
    1u << COLUMN_ZERO | 1u << COLUMN_NONFINITE_INDEX | 1u << COLUMN_NAN | 1u << COLUMN_PINF |
    1u << COLUMN_NINF | 1u << COLUMN_SKETCH_INDEX | 1u << COLUMN_SKETCH;
static const uint32_t address_columns =
    1u << COLUMN_VALUE | 1u << COLUMN_TYPE | 1u << COLUMN_ARGUMENT | 1u << COLUMN_STATE |
    1u << COLUMN_SUM | 1u << COLUMN_L2 | 1u << COLUMN_MIN | 1u << COLUMN_MAX | 1u << COLUMN_ZERO |
    1u << COLUMN_NONFINITE_INDEX | 1u << COLUMN_NAN | 1u << COLUMN_PINF | 1u << COLUMN_NINF |
    1u << COLUMN_SKETCH_INDEX | 1u << COLUMN_SKETCH;

static int encode_chunk(struct store *store, const struct columns *columns,
                        struct pending_chunk *ret)
{
    struct codec_column list[COLUMN_COUNT];
    size_t n = 0;
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const void *data = columns_get(columns, (enum column)c);
        if (data && chunk_columns & (1u << c))
            list[n++] = (struct codec_column){.column = (enum column)c,
                                              .items = columns_items(columns, (enum column)c),
                                              .data = data};
    }
    static const enum column shared[3] = {COLUMN_TYPE, COLUMN_ARGUMENT, COLUMN_STATE};
    for (int i = 0; i < 3; i++) {
        int rc = content_column(store, shared[i], columns_get(columns, shared[i]), columns->count,
                                &ret->columns[i]);
        if (rc)
            return rc;
    }
    uint8_t *blob = arena_alloc(&store->arena, codec_bound(list, n));
    size_t size = 0;
    if (!blob || codec_encode(store->encoder, CODEC_SAMPLE, columns->count, list, n, blob, &size))
        return store_no_memory(store);
    arena_shrink(&store->arena, blob, size);
    ret->records = columns->count;
    ret->data = (struct pending_text){.data = blob, .size = size};
    store->chunks_encoded++;
    return 0;
}

/* 1: there, with its records; 0: not there, or pruned (*ret_id is its row then, else 0). */
static int find_chunk(struct store *store, const struct trace_digest *address, int64_t *ret_id)
{
    uint64_t cached;
    *ret_id = 0;
    if (map_find(&store->content.chunks, address, &cached)) {
        *ret_id = (int64_t)cached;
        return 1;
    }
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_CHUNK_FIND);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_blob(statement, 1, address->bytes, 16, SQLITE_STATIC);
    int rc = database_step(&store->db, statement);
    if (rc != 1)
        return rc ? store_failed(store, rc) : 0;
    *ret_id = sqlite3_column_int64(statement, 0);
    bool pruned = sqlite3_column_int(statement, 1);
    sqlite3_reset(statement);
    return pruned ? 0 : 1;
}

/* The row of the chunk with this address: an equal one, or a new one. */
static int chunk_row(struct store *store, const struct columns *columns,
                     const struct trace_digest *address, int64_t *ret)
{
    struct pending_op op = {.kind = PENDING_CHUNK, .digest = *address};
    int found = find_chunk(store, address, &op.id);
    if (found < 0)
        return found;
    if (found == 0) {
        int rc = encode_chunk(store, columns, &op.chunk);
        if (!rc && pending_reserve(&store->pending, 1))
            rc = store_no_memory(store);
        if (rc)
            return rc;
        if (op.id)
            op.kind = PENDING_CHUNK_REFILL;
        else
            op.id = store->content.next_chunk++;
    } else {
        store->chunks_shared++;
    }
    int rc = store_map_put(store, &store->content.chunks, address, (uint64_t)op.id);
    if (rc)
        return store_no_memory(store);
    if (found == 0)
        pending_add(&store->pending, &op);
    gc_use(store, GC_CHUNK, op.id);
    *ret = op.id;
    return 0;
}

/* Identities are found by the row of the type: those of connections since the start are there. */
static int segment_digest(struct store *store, const struct layout_info *layout,
                          struct digest_records *records, struct trace_digest *ret)
{
    const struct content *content = &store->content;
    static const uint32_t none;
    int rc = 0;
    if (!content->identities_capacity)
        rc = content_load_types(store, &none, 1);
    if (rc)
        return rc;
    uint32_t greatest = 0;
    for (uint32_t i = 0; records->type && i < records->count; i++)
        greatest = records->type[i] > greatest ? records->type[i] : greatest;
    records->identities = content->identities;
    if (greatest < content->identities_capacity && digest_segment(&layout->digest, records, ret))
        return 0;
    rc = content_load_types(store, records->type, records->count);
    records->identities = content->identities;
    if (!rc && !digest_segment(&layout->digest, records, ret))
        rc = store_fail(store, DIVERGE_EINVAL, "a type is not in the store");
    return rc;
}

static int seal_records(struct store *store, const struct columns *columns,
                        struct pending_segment *row)
{
    const struct layout_info *layout;
    const uint32_t *sites = columns_get(columns, COLUMN_SITE);
    int rc = content_layout(store, sites, sites ? columns->count : 0, &layout);
    if (rc)
        return rc;
    const uint8_t *state = columns_get(columns, COLUMN_STATE);
    struct digest_records records = {
        .count = columns->count,
        .type = columns_get(columns, COLUMN_TYPE),
        .value = columns_get(columns, COLUMN_VALUE),
        .argument = columns_get(columns, COLUMN_ARGUMENT),
        .state = state,
        .any_unread = any_unread(state, columns->count),
        .excluded = layout->excluded,
    };
    rc = segment_digest(store, layout, &records, &row->digest);
    if (rc)
        return rc;
    row->layout = layout->id;
    if (records.any_unread)
        row->flags |= SEGMENT_UNREAD;
    static const enum column annotations[3] = {COLUMN_ORDER, COLUMN_PRODUCER, COLUMN_SOURCE};
    for (int i = 0; i < 3 && !rc; i++)
        rc = content_column(store, annotations[i], columns_get(columns, annotations[i]),
                            columns->count, &row->columns[i]);
    if (rc || !columns->count)
        return rc;
    struct trace_digest address =
        digest_address(&row->digest, columns->present & address_columns, &records);
    return chunk_row(store, columns, &address, &row->chunk);
}

/* Counts of END against what arrived. */
static void judge(struct pending_segment *row, const struct dvg_end *end, unsigned tier)
{
    uint64_t sent = end->records[tier];
    row->dropped = end->dropped[tier];
    if (sent > row->records && row->dropped <= UINT64_MAX - (sent - row->records))
        row->dropped += sent - row->records;
    if (row->dropped > INT64_MAX)
        row->dropped = INT64_MAX;
    if (end->dropped[tier] || sent != row->records)
        row->flags |= SEGMENT_LOST;
}

static int seal_tier(struct stream_state *stream, const struct open_segment *open,
                     const struct dvg_end *end, unsigned tier, struct pending_segment *ret)
{
    const struct columns *columns;
    int rc = merge_lanes(stream->store, open, tier, &columns);
    if (rc)
        return rc;
    struct pending_segment row = {
        .stream = stream->id,
        .segment = end->segment,
        .tier = (uint8_t)tier,
        .flags = SEGMENT_SEALED,
        .in_file = open && open->in_file,
        .records = columns->count,
        .unix_us = (int64_t)(end->unix_us > INT64_MAX ? 0 : end->unix_us),
    };
    judge(&row, end, tier);
    rc = seal_records(stream->store, columns, &row);
    if (rc)
        return rc;
    row.chain = digest_chain_next(&stream->tracks[tier].chain, &row.digest);
    row.rows_through = stream->tracks[tier].segments + 1;
    row.records_through = stream->tracks[tier].records + row.records;
    *ret = row;
    return 0;
}

static void track_gap(struct track *track, uint64_t segment)
{
    if (!track->has_gap || segment < track->first_gap)
        track->first_gap = segment;
    track->has_gap = true;
}

/* Sums that peers can make grow stay in what the file can hold. */
static uint64_t saturated(uint64_t a, uint64_t b)
{
    return b > INT64_MAX - a ? INT64_MAX : a + b;
}

static void track_add(struct track *track, const struct pending_segment *row)
{
    track->present = track->dirty = true;
    track->chain = row->chain;
    if (!track->any)
        track->first = row->segment;
    track->any = true;
    track->last = row->segment;
    track->segments++;
    track->records += row->records;
    track->dropped = saturated(track->dropped, row->dropped);
    if (row->flags & (SEGMENT_LOST | SEGMENT_UNREAD))
        track_gap(track, row->segment);
}

/* Segments before the sealed one that are still open stay open for ever. */
static void abandon_before(struct stream_state *stream, uint64_t segment)
{
    for (struct open_segment *open = stream->open; open && open->segment < segment;
         open = open->next) {
        open->abandoned = true;
        for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            if (open->records[tier]) {
                track_gap(&stream->tracks[tier], open->segment);
                stream->tracks[tier].dirty = true;
            }
    }
}

static void remove_open(struct stream_state *stream, struct open_segment *open)
{
    struct open_segment **at = &stream->open;
    while (*at != open)
        at = &(*at)->next;
    *at = open->next;
    open_segment_free(stream->store, open);
}

int store_segment_seal(struct store_stream *handle, const struct dvg_end *end)
{
    struct stream_state *stream = handle->state;
    if (!stream)
        return DIVERGE_ECLOSED;
    struct store *store = stream->store;
    struct pending_segment rows[DIVERGE_TIER_COUNT];
    size_t n_rows = 0;
    int rc = check_open(stream, end->segment);
    if (rc)
        return rc;
    struct open_segment *open = open_segment_find(stream, end->segment);
    for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        bool has = (open && open->records[tier]) || end->dropped[tier] || end->records[tier];
        if (!has && !(end->wanted & (1u << tier)))
            continue;
        rc = seal_tier(stream, open, end, tier, &rows[n_rows]);
        if (rc)
            return rc;
        n_rows++;
    }
    if (pending_reserve(&store->pending, n_rows + 1))
        return store_no_memory(store);
    /* Nothing fails from here on. */
    if (open && open->in_file)
        pending_add(&store->pending, &(struct pending_op){.kind = PENDING_PARTS_REMOVE,
                                                          .id = stream->id,
                                                          .number = end->segment});
    for (size_t i = 0; i < n_rows; i++) {
        pending_add(&store->pending,
                    &(struct pending_op){.kind = PENDING_SEGMENT, .segment = rows[i]});
        track_add(&stream->tracks[rows[i].tier], &rows[i]);
    }
    stream->any_sealed = true;
    stream->last_sealed = end->segment;
    stream->dirty = true;
    if (open)
        remove_open(stream, open);
    abandon_before(stream, end->segment);
    return 0;
}
