/* SPDX-License-Identifier: Apache-2.0 */
/* Row to content: strings, sites, types, layouts, argument texts. Each is looked up once. */
#include <string.h>

#include "daemon/store/reader_internal.h"

enum { MAX_SPARSE = 4 }; /* a range of site rows is read whole when a quarter of it is wanted */

static void *cached(const struct map *map, uint64_t row)
{
    struct trace_digest key = map_key(row);
    uint64_t value;
    return map_find(map, &key, &value) ? (void *)(uintptr_t)value : NULL;
}

static int remember(struct map *map, uint64_t row, const void *pointer)
{
    struct trace_digest key = map_key(row);
    return map_put(map, &key, (uint64_t)(uintptr_t)pointer);
}

static int missing(struct reader *reader, const char *what, uint64_t row)
{
    return database_error(&reader->db, DIVERGE_ECORRUPT,
                          "%s: %s %llu is missing or damaged; \"sqlite3 FILE 'PRAGMA"
                          " integrity_check'\" says more",
                          reader->db.path, what, (unsigned long long)row);
}

static int no_memory(struct reader *reader)
{
    return database_error(&reader->db, DIVERGE_ENOMEM, "out of memory");
}

/* The row of a statement with one number: 0 with the row in *ret. */
static int fetch(struct reader *reader, enum statement which, int64_t number, const char *what,
                 sqlite3_stmt **ret)
{
    sqlite3_stmt *statement = database_statement(&reader->db, which);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, number);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : missing(reader, what, (uint64_t)number);
    *ret = statement;
    return 0;
}

int reader_string(struct reader *reader, uint32_t row, const char **ret)
{
    if (!row) {
        *ret = "";
        return 0;
    }
    const char *known = cached(&reader->strings, row);
    if (known) {
        *ret = known;
        return 0;
    }
    sqlite3_stmt *statement = NULL;
    int rc = fetch(reader, STATEMENT_STRING_GET, row, "string", &statement);
    if (rc)
        return rc;
    const char *text = reader_text(reader, statement, 0);
    sqlite3_reset(statement);
    if (!text || remember(&reader->strings, row, text))
        return no_memory(reader);
    *ret = text;
    return 0;
}

int reader_argument(void *ctx, uint64_t digest, const char **ret)
{
    struct reader *reader = ctx;
    const char *known = cached(&reader->arguments, digest);
    if (known) {
        *ret = known;
        return 0;
    }
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_ARGUMENT_GET);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, (int64_t)digest);
    int rc = database_step(&reader->db, statement);
    if (rc != 1)
        return rc ? rc : DIVERGE_ENOTFOUND;
    const char *text = reader_text(reader, statement, 0);
    sqlite3_reset(statement);
    if (!text || remember(&reader->arguments, digest, text))
        return no_memory(reader);
    *ret = text;
    return 0;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* A copy of a blob of at most `limit` 64-bit numbers; NULL when it is none. */
static const void *copy_numbers(struct reader *reader, sqlite3_stmt *row, int column, size_t limit,
                                size_t *ret_count)
{
    const void *bytes = sqlite3_column_blob(row, column);
    size_t size = (size_t)sqlite3_column_bytes(row, column);
    if (size % 8 || size / 8 > limit)
        return NULL;
    *ret_count = size / 8;
    return arena_copy(&reader->arena, bytes, size);
}

static bool good_sizes(const int64_t *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sizes[i] < 0)
            return false;
    return true;
}

static bool read_type(struct reader *reader, sqlite3_stmt *row, struct trace_type *type)
{
    int kind = sqlite3_column_int(row, 0);
    int dtype = sqlite3_column_int(row, 1);
    int placement = sqlite3_column_int(row, 2);
    if (kind < 0 || kind > DIVERGE_KIND_ABSENT || dtype < 0 || dtype >= DIVERGE_DTYPE_COUNT ||
        placement < 0 || placement > DIVERGE_PLACEMENT_PARTIAL)
        return false;
    size_t ndim = 0;
    size_t global_ndim = 0;
    size_t extents = 0;
    type->sizes = copy_numbers(reader, row, 4, DIVERGE_MAX_NDIM, &ndim);
    type->global_sizes = copy_numbers(reader, row, 5, DIVERGE_MAX_NDIM, &global_ndim);
    type->extents = copy_numbers(reader, row, 6, (size_t)1 << 24, &extents);
    if (!type->sizes || !type->global_sizes || !type->extents || extents % 2)
        return false;
    type->kind = (enum diverge_kind)kind;
    type->dtype = (enum diverge_dtype)dtype;
    type->placement = (enum diverge_placement)placement;
    type->ndim = (int32_t)ndim;
    type->global_ndim = (int32_t)global_ndim;
    type->n_extents = (uint32_t)(extents / 2);
    return good_sizes(type->sizes, ndim) && good_sizes(type->global_sizes, global_ndim);
}

int reader_type(struct reader *reader, uint32_t row, const struct trace_type **ret)
{
    static const struct trace_type none = {.kind = DIVERGE_KIND_ABSENT, .group = ""};
    if (!row) {
        *ret = &none;
        return 0;
    }
    const struct trace_type *known = cached(&reader->types, row);
    if (known) {
        *ret = known;
        return 0;
    }
    sqlite3_stmt *statement = NULL;
    int rc = fetch(reader, STATEMENT_TYPE_GET, row, "type", &statement);
    if (rc)
        return rc;
    struct trace_type *type = arena_alloc(&reader->arena, sizeof *type);
    if (!type) {
        sqlite3_reset(statement);
        return no_memory(reader);
    }
    *type = (struct trace_type){.group = ""};
    uint32_t team = (uint32_t)sqlite3_column_int64(statement, 3);
    bool good = read_type(reader, statement, type);
    sqlite3_reset(statement);
    if (!good)
        return missing(reader, "type", row);
    rc = reader_string(reader, team, &type->group);
    if (!rc && remember(&reader->types, row, type))
        rc = no_memory(reader);
    if (!rc)
        *ret = type;
    return rc;
}

/* ---- sites ----------------------------------------------------------------------------------- */

static int read_site(struct reader *reader, sqlite3_stmt *row, struct trace_site *site)
{
    int64_t tier = sqlite3_column_int64(row, 2);
    int64_t phase = sqlite3_column_int64(row, 3);
    int64_t role = sqlite3_column_int64(row, 4);
    if (!reader_digest(row, 1, &site->digest) || tier < 0 || tier >= DIVERGE_TIER_COUNT ||
        phase < 0 || phase >= DIVERGE_PHASE_COUNT || role < 0 || role >= DIVERGE_ROLE_COUNT)
        return missing(reader, "site", (uint64_t)sqlite3_column_int64(row, 0));
    site->tier = (enum diverge_tier)tier;
    site->phase = (enum diverge_phase)phase;
    site->role = (enum diverge_role)role;
    site->slot = (uint16_t)sqlite3_column_int64(row, 5);
    site->flags = (uint32_t)sqlite3_column_int64(row, 6);
    site->micro_step = (uint32_t)sqlite3_column_int64(row, 7);
    site->occurrence = (uint32_t)sqlite3_column_int64(row, 8);
    const char **texts[5] = {&site->lane, &site->region, &site->scope, &site->op, &site->name};
    for (int i = 0; i < 5; i++) {
        int rc = reader_string(reader, (uint32_t)sqlite3_column_int64(row, 9 + i), texts[i]);
        if (rc)
            return rc;
    }
    return 0;
}

/* Reads the sites of rows low..high that are not known yet. */
static int load_sites(struct reader *reader, uint32_t low, uint32_t high)
{
    sqlite3_stmt *statement = database_statement(&reader->db, STATEMENT_SITE_RANGE);
    if (!statement)
        return reader->db.failure;
    sqlite3_bind_int64(statement, 1, low);
    sqlite3_bind_int64(statement, 2, high);
    int rc;
    while ((rc = database_step(&reader->db, statement)) == 1) {
        uint64_t row = (uint64_t)sqlite3_column_int64(statement, 0);
        if (cached(&reader->sites, row))
            continue;
        struct trace_site *site = arena_alloc(&reader->arena, sizeof *site);
        rc = site ? read_site(reader, statement, site) : no_memory(reader);
        if (!rc && remember(&reader->sites, row, site))
            rc = no_memory(reader);
        if (rc)
            break;
    }
    sqlite3_reset(statement);
    return rc;
}

static int find_site(struct reader *reader, uint32_t row, const struct trace_site **ret)
{
    const struct trace_site *site = cached(&reader->sites, row);
    int rc = site ? 0 : load_sites(reader, row, row);
    if (rc)
        return rc;
    site = cached(&reader->sites, row);
    if (!site)
        return missing(reader, "site", row);
    *ret = site;
    return 0;
}

int reader_sites(struct reader *reader, const uint32_t *rows, uint32_t count,
                 const struct trace_site ***ret)
{
    const struct trace_site **sites =
        arena_alloc(&reader->arena, ((size_t)count + 1) * sizeof *sites);
    if (!sites)
        return no_memory(reader);
    uint32_t low = UINT32_MAX;
    uint32_t high = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (cached(&reader->sites, rows[i]))
            continue;
        low = rows[i] < low ? rows[i] : low;
        high = rows[i] > high ? rows[i] : high;
    }
    int rc = 0;
    if (low <= high && (uint64_t)high - low < (uint64_t)MAX_SPARSE * count)
        rc = load_sites(reader, low, high);
    for (uint32_t i = 0; i < count && !rc; i++)
        rc = find_site(reader, rows[i], &sites[i]);
    if (!rc)
        *ret = sites;
    return rc;
}

/* ---- layouts --------------------------------------------------------------------------------- */

static int read_layout(struct reader *reader, sqlite3_stmt *row, struct trace_layout *layout)
{
    struct codec_blob blob;
    int64_t records = sqlite3_column_int64(row, 1);
    if (!reader_digest(row, 0, &layout->digest))
        return DIVERGE_ECORRUPT;
    int rc = codec_decode(reader->decoder, sqlite3_column_blob(row, 2),
                          (size_t)sqlite3_column_bytes(row, 2), reader_max_bytes, &blob);
    if (rc)
        return rc;
    const struct trace_site **sites = NULL;
    if (blob.count != records || (blob.count && !blob.data[COLUMN_SITE]))
        rc = DIVERGE_ECORRUPT;
    else
        rc = reader_sites(reader, blob.data[COLUMN_SITE], blob.count, &sites);
    layout->count = blob.count;
    layout->sites = sites;
    codec_blob_fini(&blob);
    return rc;
}

int reader_layout(struct reader *reader, int64_t row, const struct trace_layout **ret)
{
    const struct trace_layout *known = cached(&reader->layouts, (uint64_t)row);
    if (known) {
        *ret = known;
        return 0;
    }
    sqlite3_stmt *statement = NULL;
    int rc = fetch(reader, STATEMENT_LAYOUT_GET, row, "layout", &statement);
    if (rc)
        return rc;
    struct trace_layout *layout = arena_alloc(&reader->arena, sizeof *layout);
    rc = layout ? read_layout(reader, statement, layout) : no_memory(reader);
    sqlite3_reset(statement);
    if (rc == DIVERGE_ECORRUPT || rc == DIVERGE_ELIMIT)
        rc = missing(reader, "layout", (uint64_t)row);
    if (!rc && remember(&reader->layouts, (uint64_t)row, layout))
        rc = no_memory(reader);
    if (!rc)
        *ret = layout;
    return rc;
}
