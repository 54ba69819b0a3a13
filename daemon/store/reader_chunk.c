/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: a sealed segment's from its blobs, an open one's from its parts, lane after lane. */
#include <stdlib.h>
#include <string.h>

#include "daemon/store/reader_internal.h"

enum { MAX_BLOBS = 7 }; /* the chunk's and six shared columns */

struct loaded {               /* what a chunk owns */
    struct trace_chunk chunk; /* first: the caller's pointer */
    struct codec_blob blobs[MAX_BLOBS];
    size_t n_blobs;
    struct columns columns; /* of an open segment */
    struct trace_layout layout;
    void *zeros;
    uint32_t *type;
    const struct trace_type **types;
    const char **source;
    struct trace_nonfinite *nonfinite;
};

static int damaged(struct reader *reader, uint64_t segment)
{
    return database_error(&reader->db, DIVERGE_ECORRUPT,
                          "%s: the records of segment %llu are damaged; \"sqlite3 FILE 'PRAGMA"
                          " integrity_check'\" says more",
                          reader->db.path, (unsigned long long)segment);
}

static int no_memory(struct reader *reader)
{
    return database_error(&reader->db, DIVERGE_ENOMEM, "out of memory");
}

void reader_chunk_release(void *ctx, struct trace_chunk *chunk)
{
    (void)ctx;
    struct loaded *loaded = (struct loaded *)chunk;
    if (!loaded)
        return;
    for (size_t i = 0; i < loaded->n_blobs; i++)
        codec_blob_fini(&loaded->blobs[i]);
    columns_fini(&loaded->columns);
    free(loaded->zeros);
    free(loaded->type);
    free(loaded->types);
    free(loaded->source);
    free(loaded->nonfinite);
    free(loaded);
}

/* ---- from columns to a chunk ----------------------------------------------------------------- */

struct sources { /* where the columns lie, whoever owns them */
    uint32_t count;
    uint32_t n_nonfinite;
    uint32_t n_sketches;
    uint32_t sketch_size;
    const void *data[COLUMN_COUNT];
};

/* Rows of types become indices of the chunk's own list. */
static int map_types(struct reader *reader, struct loaded *loaded, const uint32_t *rows)
{
    uint32_t count = loaded->chunk.count;
    loaded->type = malloc((size_t)count * sizeof *loaded->type + 1);
    size_t capacity = 64;
    loaded->types = malloc(capacity * sizeof *loaded->types);
    if (!loaded->type || !loaded->types)
        return no_memory(reader);
    struct map seen = {0};
    uint32_t n_types = 0;
    int rc = 0;
    for (uint32_t i = 0; i < count && !rc; i++) {
        uint32_t row = rows ? rows[i] : 0;
        if (i && row == (rows ? rows[i - 1] : 0)) {
            loaded->type[i] = loaded->type[i - 1];
            continue;
        }
        struct trace_digest key = map_key(row);
        uint64_t index = n_types;
        if (!map_find(&seen, &key, &index)) {
            if (n_types == capacity) {
                capacity *= 2;
                void *grown = realloc(loaded->types, capacity * sizeof *loaded->types);
                if (!grown) {
                    rc = no_memory(reader);
                    break;
                }
                loaded->types = grown;
            }
            rc = reader_type(reader, row, &loaded->types[n_types]);
            if (!rc && map_put(&seen, &key, index))
                rc = no_memory(reader);
            n_types++;
        }
        loaded->type[i] = (uint32_t)index;
    }
    map_fini(&seen);
    loaded->chunk.type = loaded->type;
    loaded->chunk.types = loaded->types;
    loaded->chunk.n_types = n_types;
    return rc;
}

static int map_sources(struct reader *reader, struct loaded *loaded, const uint32_t *rows)
{
    if (!rows)
        return 0;
    uint32_t count = loaded->chunk.count;
    loaded->source = malloc((size_t)count * sizeof *loaded->source + 1);
    if (!loaded->source)
        return no_memory(reader);
    for (uint32_t i = 0; i < count; i++) {
        if (i && rows[i] == rows[i - 1]) {
            loaded->source[i] = loaded->source[i - 1];
            continue;
        }
        int rc = reader_string(reader, rows[i], &loaded->source[i]);
        if (rc)
            return rc;
    }
    loaded->chunk.source = loaded->source;
    return 0;
}

static int map_nonfinite(struct reader *reader, struct loaded *loaded, const struct sources *from)
{
    if (!from->n_nonfinite)
        return 0;
    loaded->nonfinite = malloc(from->n_nonfinite * sizeof *loaded->nonfinite);
    if (!loaded->nonfinite)
        return no_memory(reader);
    const uint32_t *index = from->data[COLUMN_NONFINITE_INDEX];
    const uint64_t *nan = from->data[COLUMN_NAN];
    const uint64_t *pinf = from->data[COLUMN_PINF];
    const uint64_t *ninf = from->data[COLUMN_NINF];
    for (uint32_t i = 0; i < from->n_nonfinite; i++)
        loaded->nonfinite[i] = (struct trace_nonfinite){
            .index = index[i],
            .nan = nan ? nan[i] : 0,
            .pinf = pinf ? pinf[i] : 0,
            .ninf = ninf ? ninf[i] : 0,
        };
    loaded->chunk.nonfinite = loaded->nonfinite;
    loaded->chunk.n_nonfinite = from->n_nonfinite;
    return 0;
}

static const void *column_or(const struct sources *from, enum column column, const void *zeros)
{
    return from->data[column] ? from->data[column] : zeros;
}

static int fill_chunk(struct reader *reader, struct loaded *loaded, const struct sources *from)
{
    struct trace_chunk *chunk = &loaded->chunk;
    chunk->count = from->count;
    /* Columns that are not stored are zero throughout. */
    loaded->zeros = calloc((size_t)from->count + 1, 8);
    if (!loaded->zeros)
        return no_memory(reader);
    chunk->value = column_or(from, COLUMN_VALUE, loaded->zeros);
    chunk->argument = column_or(from, COLUMN_ARGUMENT, loaded->zeros);
    chunk->state = column_or(from, COLUMN_STATE, loaded->zeros);
    chunk->order = column_or(from, COLUMN_ORDER, loaded->zeros);
    chunk->producer = column_or(from, COLUMN_PRODUCER, loaded->zeros);
    chunk->sum = column_or(from, COLUMN_SUM, loaded->zeros);
    chunk->l2 = column_or(from, COLUMN_L2, loaded->zeros);
    chunk->min = column_or(from, COLUMN_MIN, loaded->zeros);
    chunk->max = column_or(from, COLUMN_MAX, loaded->zeros);
    chunk->zero = column_or(from, COLUMN_ZERO, loaded->zeros);
    chunk->sketch_size = from->sketch_size;
    chunk->n_sketches = from->n_sketches;
    chunk->sketch_index = from->data[COLUMN_SKETCH_INDEX];
    chunk->sketches = from->data[COLUMN_SKETCH];
    int rc = map_types(reader, loaded, from->data[COLUMN_TYPE]);
    if (!rc)
        rc = map_sources(reader, loaded, from->data[COLUMN_SOURCE]);
    return rc ? rc : map_nonfinite(reader, loaded, from);
}

/* ---- sealed segments ------------------------------------------------------------------------- */

struct row { /* of segments */
    bool sealed;
    int64_t records;
    int64_t layout;
    int64_t chunk;
    int64_t columns[3]; /* order, producer, source */
};

static int read_row(struct reader *reader, uint64_t stream, enum diverge_tier tier,
                    uint64_t segment, struct row *ret)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_SEGMENT_GET);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, (int64_t)stream);
    sqlite3_bind_int(statement, 2, (int)tier);
    sqlite3_bind_int64(statement, 3, (int64_t)segment);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : DIVERGE_ENOTFOUND;
    ret->sealed = sqlite3_column_int(statement, 0) & 1;
    ret->records = sqlite3_column_int64(statement, 1);
    ret->layout = sqlite3_column_int64(statement, 2);
    ret->chunk = sqlite3_column_int64(statement, 3);
    for (int i = 0; i < 3; i++)
        ret->columns[i] = sqlite3_column_int64(statement, 4 + i);
    sqlite3_reset(statement);
    return 0;
}

/* Decodes a blob that the chunk then owns and adds its columns to `into`. */
static int take_blob(struct reader *reader, struct loaded *loaded, sqlite3_stmt *row, int column,
                     struct sources *into)
{
    struct codec_blob *blob = &loaded->blobs[loaded->n_blobs];
    int rc = codec_decode(reader->decoder, sqlite3_column_blob(row, column),
                          (size_t)sqlite3_column_bytes(row, column), reader_max_bytes, blob);
    if (rc)
        return rc;
    loaded->n_blobs++;
    if (blob->count != into->count)
        return DIVERGE_ECORRUPT;
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (blob->items[c])
            into->data[c] = blob->data[c];
    if (blob->items[COLUMN_NONFINITE_INDEX])
        into->n_nonfinite = blob->items[COLUMN_NONFINITE_INDEX];
    if (blob->items[COLUMN_SKETCH_INDEX]) {
        into->n_sketches = blob->items[COLUMN_SKETCH_INDEX];
        into->sketch_size = blob->items[COLUMN_SKETCH] / into->n_sketches;
    }
    return 0;
}

static int take_column(struct reader *reader, struct loaded *loaded, int64_t id,
                       struct sources *into)
{
    if (!id)
        return 0;
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_COLUMN_GET);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, id);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : DIVERGE_ECORRUPT;
    rc = take_blob(reader, loaded, statement, 0, into);
    sqlite3_reset(statement);
    return rc;
}

/* The chunk's own columns and those it shares. pruned: there are none any more. */
static int take_chunk(struct reader *reader, struct loaded *loaded, int64_t id,
                      struct sources *into)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_CHUNK_GET);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, id);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : DIVERGE_ECORRUPT;
    int64_t columns[3];
    for (int i = 0; i < 3; i++)
        columns[i] = sqlite3_column_int64(statement, 1 + i);
    loaded->chunk.pruned = sqlite3_column_type(statement, 4) == SQLITE_NULL;
    if (!loaded->chunk.pruned)
        rc = sqlite3_column_int64(statement, 0) == into->count
                 ? take_blob(reader, loaded, statement, 4, into)
                 : DIVERGE_ECORRUPT;
    sqlite3_reset(statement);
    if (rc == 1)
        rc = 0;
    for (int i = 0; i < 3 && !rc && !loaded->chunk.pruned; i++)
        rc = take_column(reader, loaded, columns[i], into);
    return rc;
}

static int load_sealed(struct reader *reader, struct loaded *loaded, const struct row *row)
{
    const struct trace_layout *layout = NULL;
    int rc = reader_layout(reader, row->layout, &layout);
    if (rc)
        return rc;
    struct sources from = {.count = layout->count};
    loaded->chunk.layout = layout;
    if (row->records != layout->count || (row->records && !row->chunk))
        return DIVERGE_ECORRUPT;
    if (row->chunk)
        rc = take_chunk(reader, loaded, row->chunk, &from);
    if (loaded->chunk.pruned) {
        loaded->chunk.count = layout->count;
        return rc;
    }
    for (int i = 0; i < 3 && !rc; i++)
        rc = take_column(reader, loaded, row->columns[i], &from);
    return rc ? rc : fill_chunk(reader, loaded, &from);
}

/* ---- open segments --------------------------------------------------------------------------- */

struct lane { /* the parts of one lane */
    uint32_t row;
    const char *name;
    struct columns columns;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lane *)a)->name, ((const struct lane *)b)->name);
}

static int add_part(struct reader *reader, struct lane **lanes, size_t *n_lanes, uint32_t row,
                    int64_t first, const struct codec_blob *blob)
{
    struct lane *lane = *n_lanes ? &(*lanes)[*n_lanes - 1] : NULL;
    if (!lane || lane->row != row) {
        struct lane *grown = realloc(*lanes, (*n_lanes + 1) * sizeof **lanes);
        if (!grown)
            return no_memory(reader);
        *lanes = grown;
        lane = &grown[*n_lanes];
        *lane = (struct lane){.row = row};
        int rc = reader_string(reader, row, &lane->name);
        if (rc)
            return rc;
        (*n_lanes)++;
    }
    if (first != lane->columns.count)
        return DIVERGE_ECORRUPT;
    return codec_blob_append(blob, &lane->columns);
}

static int read_parts(struct reader *reader, uint64_t stream, enum diverge_tier tier,
                      uint64_t segment, struct lane **lanes, size_t *n_lanes)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_PART_SEGMENT);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, (int64_t)stream);
    sqlite3_bind_int64(statement, 2, (int64_t)segment);
    sqlite3_bind_int(statement, 3, (int)tier);
    int rc;
    while ((rc = database_step(&reader->db, statement)) == 1) {
        struct codec_blob blob;
        rc = codec_decode(reader->decoder, sqlite3_column_blob(statement, 3),
                          (size_t)sqlite3_column_bytes(statement, 3), reader_max_bytes, &blob);
        if (rc)
            break;
        rc = blob.count && blob.items[COLUMN_SITE]
                 ? add_part(reader, lanes, n_lanes, (uint32_t)sqlite3_column_int64(statement, 0),
                            sqlite3_column_int64(statement, 1), &blob)
                 : DIVERGE_ECORRUPT;
        codec_blob_fini(&blob);
        if (rc)
            break;
    }
    sqlite3_reset(statement);
    return rc;
}

static int load_open(struct reader *reader, struct loaded *loaded, uint64_t stream,
                     enum diverge_tier tier, uint64_t segment)
{
    struct lane *lanes = NULL;
    size_t n_lanes = 0;
    int rc = read_parts(reader, stream, tier, segment, &lanes, &n_lanes);
    if (!rc && n_lanes)
        qsort(lanes, n_lanes, sizeof *lanes, by_name);
    for (size_t i = 0; i < n_lanes; i++) {
        if (!rc)
            rc = columns_append(&loaded->columns, &lanes[i].columns);
        columns_fini(&lanes[i].columns);
    }
    free(lanes);
    if (rc)
        return rc == DIVERGE_EPROTO ? DIVERGE_ECORRUPT : rc;
    const struct columns *columns = &loaded->columns;
    struct sources from = {
        .count = columns->count,
        .n_nonfinite = columns->n_nonfinite,
        .n_sketches = columns->n_sketches,
        .sketch_size = columns->sketch_size,
    };
    for (int c = 0; c < COLUMN_COUNT; c++)
        from.data[c] = columns_get(columns, (enum column)c);
    const struct trace_site **sites = NULL;
    rc = reader_sites(reader, from.data[COLUMN_SITE], from.count, &sites);
    if (rc)
        return rc;
    loaded->layout = (struct trace_layout){.count = from.count, .sites = sites};
    loaded->chunk.layout = &loaded->layout;
    return fill_chunk(reader, loaded, &from);
}

int reader_chunk_load(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                      struct trace_chunk **ret)
{
    struct reader *reader = ctx;
    struct row row = {0};
    int rc =
        segment > INT64_MAX ? DIVERGE_ENOTFOUND : read_row(reader, stream, tier, segment, &row);
    if (rc)
        return rc;
    struct loaded *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return no_memory(reader);
    loaded->chunk.owner = reader;
    rc = row.sealed ? load_sealed(reader, loaded, &row)
                    : load_open(reader, loaded, stream, tier, segment);
    if (rc == DIVERGE_ECORRUPT || rc == DIVERGE_ELIMIT)
        rc = damaged(reader, segment);
    if (rc) {
        reader_chunk_release(reader, &loaded->chunk);
        return rc;
    }
    *ret = &loaded->chunk;
    return 0;
}
