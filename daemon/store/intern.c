/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content to row id: strings, sites, types, arguments and shared columns. What is new is prepared
 * in full, then remembered, then pushed, and the push cannot fail: a half-known item would be added
 * twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/store/internal.h"

enum {
    CAP_ENTRIES = 1 << 18, /* of one map, before it is forgotten */
    CAP_CHUNKS = 1 << 20,
    CAP_INFO_BYTES = 32 << 20,
};

/* ---- opening and trimming -------------------------------------------------------------------- */

static int next_id(struct store *store, const char *table, int64_t *ret)
{
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT coalesce(max(id), 0) + 1 FROM %s", table);
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(store->db.handle, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        *ret = sqlite3_column_int64(statement, 0);
        sqlite3_finalize(statement);
        return 0;
    }
    rc = database_fail(&store->db, sqlite3_extended_errcode(store->db.handle));
    sqlite3_finalize(statement);
    return store_failed(store, rc);
}

int content_ids_in_file(struct store *store, int64_t ret[CONTENT_TABLES])
{
    static const char *const tables[CONTENT_TABLES] = {"strings", "sites",  "types", "columns",
                                                       "layouts", "chunks", "runs",  "streams"};
    int rc = 0;
    for (size_t i = 0; i < CONTENT_TABLES && !rc; i++)
        rc = next_id(store, tables[i], &ret[i]);
    return rc;
}

void content_ids(const struct store *store, int64_t ret[CONTENT_TABLES])
{
    const struct content *content = &store->content;
    const int64_t ids[CONTENT_TABLES] = {
        content->next_string, content->next_site,  content->next_type, content->next_column,
        content->next_layout, content->next_chunk, store->next_run,    store->next_stream};
    memcpy(ret, ids, sizeof ids);
}

int content_open(struct store *store)
{
    struct content *content = &store->content;
    int64_t ids[CONTENT_TABLES];
    int rc = content_ids_in_file(store, ids);
    if (rc)
        return rc;
    content->next_string = ids[0];
    content->next_site = ids[1];
    content->next_type = ids[2];
    content->next_column = ids[3];
    content->next_layout = ids[4];
    content->next_chunk = ids[5];
    store->next_run = ids[6];
    store->next_stream = ids[7];
    memcpy(store->committed_ids, ids, sizeof ids);
    return 0;
}

static void forget_infos(struct content *content)
{
    for (size_t i = 0; i < content->n_infos; i++)
        free(content->infos[i].excluded);
    content->n_infos = 0;
    content->infos_bytes = 0;
    map_clear(&content->sequences);
}

static void forget_names(struct content *content)
{
    for (size_t i = 0; i < content->n_names; i++)
        free(content->names[i]);
    content->n_names = 0;
    map_clear(&content->lane_names);
}

static void forget_strings(struct content *content)
{
    map_clear(&content->strings);
    map_clear(&content->string_digests);
    content->n_digests = 0;
}

void content_fini(struct content *content)
{
    forget_infos(content);
    forget_names(content);
    free(content->infos);
    free(content->names);
    free(content->digests);
    free(content->site_infos);
    free(content->identities);
    struct map *maps[] = {&content->strings,   &content->string_digests, &content->sites,
                          &content->types,     &content->arguments,      &content->columns,
                          &content->layouts,   &content->chunks,         &content->sequences,
                          &content->lane_names};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        map_fini(maps[i]);
}

/* Everything is in the file by now, so what a full cache forgets is found there again. */
void content_trim(struct content *content)
{
    if (content->strings.count > CAP_ENTRIES || content->string_digests.count > CAP_ENTRIES)
        forget_strings(content);
    struct map *maps[] = {&content->sites, &content->types, &content->arguments, &content->columns,
                          &content->layouts};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (maps[i]->count > CAP_ENTRIES)
            map_clear(maps[i]);
    if (content->chunks.count > CAP_CHUNKS)
        map_clear(&content->chunks);
    if (content->infos_bytes > CAP_INFO_BYTES || content->n_infos > CAP_ENTRIES)
        forget_infos(content);
}

/* Definitions are never removed, so what refers to them stays. */
void content_forget(struct content *content)
{
    forget_infos(content);
    map_clear(&content->columns);
    map_clear(&content->layouts);
    map_clear(&content->chunks);
}

/* Room for one more item; arrays double. */
static int grow(void **items, size_t *capacity, size_t need, size_t item)
{
    if (need <= *capacity)
        return 0;
    size_t larger = *capacity ? *capacity : 64;
    while (larger < need)
        larger *= 2;
    void *grown = realloc(*items, larger * item);
    if (!grown)
        return DIVERGE_ENOMEM;
    memset((uint8_t *)grown + *capacity * item, 0, (larger - *capacity) * item);
    *items = grown;
    *capacity = larger;
    return 0;
}

/* Looks a digest up in the file: 1 found, 0 not, negative failed. */
static int find_row(struct store *store, enum statement which, const struct trace_digest *digest,
                    int64_t *ret)
{
    sqlite3_stmt *statement = database_statement(&store->db, which);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_blob(statement, 1, digest->bytes, sizeof digest->bytes, SQLITE_STATIC);
    int rc = database_step(&store->db, statement);
    if (rc == 1) {
        *ret = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
    }
    return rc < 0 ? store_failed(store, rc) : rc;
}

/* Row ids are 32-bit numbers outside. */
static int take_id(struct store *store, int64_t *next, int64_t *ret)
{
    if (*next > (int64_t)UINT32_MAX)
        return store_fail(store, DIVERGE_ELIMIT, "the store has no more row ids for definitions");
    *ret = (*next)++;
    return 0;
}

/* ---- strings --------------------------------------------------------------------------------- */

static int remember_string(struct store *store, const struct trace_digest *digest, uint32_t row)
{
    struct content *content = &store->content;
    int rc = grow((void **)&content->digests, &content->digests_capacity, content->n_digests + 1,
                  sizeof content->digests[0]);
    struct trace_digest key = map_key(row);
    if (!rc)
        rc = store_map_put(store, &content->string_digests, &key, content->n_digests);
    if (!rc)
        rc = store_map_put(store, &content->strings, digest, row);
    if (rc)
        return store_no_memory(store);
    content->digests[content->n_digests++] = *digest;
    return 0;
}

static int find_string(struct store *store, struct dvg_bytes text, int64_t *ret)
{
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_STRING_FIND);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_text64(statement, 1, (const char *)text.data, text.size, SQLITE_STATIC,
                        SQLITE_UTF8);
    int rc = database_step(&store->db, statement);
    if (rc == 1) {
        *ret = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
    }
    return rc < 0 ? store_failed(store, rc) : rc;
}

static int new_string(struct store *store, struct dvg_bytes text, struct pending_op *ret)
{
    void *copy = arena_copy(&store->arena, text.data, text.size);
    if (!copy || pending_reserve(&store->pending, 1))
        return store_no_memory(store);
    *ret = (struct pending_op){.kind = PENDING_STRING, .text = {.data = copy, .size = text.size}};
    return take_id(store, &store->content.next_string, &ret->id);
}

int store_string(struct store *store, struct dvg_bytes text, uint32_t *ret)
{
    if (!text.size) {
        *ret = 0;
        return 0;
    }
    struct trace_digest digest = digest_bytes(text.data, text.size);
    uint64_t cached;
    if (map_find(&store->content.strings, &digest, &cached)) {
        *ret = (uint32_t)cached;
        return 0;
    }
    struct pending_op op = {.id = 0};
    int found = find_string(store, text, &op.id);
    int rc = found == 0 ? new_string(store, text, &op) : found;
    if (rc < 0)
        return rc;
    rc = remember_string(store, &digest, (uint32_t)op.id);
    if (rc)
        return rc;
    if (found == 0)
        pending_add(&store->pending, &op);
    *ret = (uint32_t)op.id;
    return 0;
}

/* Text of a row that is in the file; free(*ret). */
static int load_string(struct store *store, uint32_t row, char **ret)
{
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_STRING_GET);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, row);
    int rc = database_step(&store->db, statement);
    if (rc < 0)
        return store_failed(store, rc);
    if (rc == 0)
        return store_fail(store, DIVERGE_EINVAL, "string %u is not in the store", row);
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    *ret = strndup(text ? text : "", (size_t)sqlite3_column_bytes(statement, 0));
    sqlite3_reset(statement);
    return *ret ? 0 : store_no_memory(store);
}

/* Digest of a string's text, by row. */
static int string_digest(struct store *store, uint32_t row, struct trace_digest *ret)
{
    uint64_t index;
    struct trace_digest key = map_key(row);
    if (!row) {
        *ret = digest_bytes("", 0);
        return 0;
    }
    if (map_find(&store->content.string_digests, &key, &index)) {
        *ret = store->content.digests[index];
        return 0;
    }
    char *text;
    int rc = load_string(store, row, &text);
    if (rc)
        return rc;
    *ret = digest_bytes(text, strlen(text));
    free(text);
    return remember_string(store, ret, row);
}

/* The text of a string, pending or in the file; free(*ret). */
static int string_text(struct store *store, uint32_t row, char **ret)
{
    for (size_t i = 0; i < store->pending.count; i++) {
        const struct pending_op *op = &store->pending.ops[i];
        if (op->kind != PENDING_STRING || op->id != row)
            continue;
        *ret = strndup(op->text.data, op->text.size);
        return *ret ? 0 : store_no_memory(store);
    }
    return load_string(store, row, ret);
}

int content_lane_name(struct store *store, uint32_t lane, const char **ret)
{
    struct content *content = &store->content;
    if (!lane) {
        *ret = "";
        return 0;
    }
    struct trace_digest key = map_key(lane);
    uint64_t index;
    if (map_find(&content->lane_names, &key, &index)) {
        *ret = content->names[index];
        return 0;
    }
    char *name = NULL;
    int rc = string_text(store, lane, &name);
    if (rc)
        return rc;
    if (grow((void **)&content->names, &content->names_capacity, content->n_names + 1,
             sizeof content->names[0]) ||
        store_map_put(store, &content->lane_names, &key, content->n_names)) {
        free(name);
        return store_no_memory(store);
    }
    content->names[content->n_names++] = name;
    *ret = name;
    return 0;
}

/* ---- sites ----------------------------------------------------------------------------------- */

static int remember_site(struct store *store, uint32_t row, const struct trace_digest *digest,
                         uint32_t flags)
{
    struct content *content = &store->content;
    int rc = grow((void **)&content->site_infos, &content->site_infos_capacity, (size_t)row + 1,
                  sizeof content->site_infos[0]);
    if (rc)
        return store_no_memory(store);
    content->site_infos[row] = (struct site_info){.digest = *digest, .flags = flags};
    return 0;
}

int content_load_site(struct store *store, uint32_t site)
{
    static const struct trace_digest none;
    const struct content *content = &store->content;
    if (site < content->site_infos_capacity &&
        memcmp(&content->site_infos[site].digest, &none, sizeof none) != 0)
        return 0;
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_SITE_GET);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, site);
    int rc = database_step(&store->db, statement);
    if (rc < 0)
        return store_failed(store, rc);
    if (rc == 0 || sqlite3_column_bytes(statement, 0) != 16)
        return store_fail(store, DIVERGE_EINVAL, "site %u is not in the store", site);
    struct trace_digest digest;
    memcpy(digest.bytes, sqlite3_column_blob(statement, 0), 16);
    uint32_t flags = (uint32_t)sqlite3_column_int64(statement, 1);
    sqlite3_reset(statement);
    return remember_site(store, site, &digest, flags);
}

static int new_site(struct store *store, const struct store_site *site,
                    const struct trace_digest *digest, struct pending_op *ret)
{
    const struct store_site *copy = arena_copy(&store->arena, site, sizeof *site);
    if (!copy || pending_reserve(&store->pending, 1))
        return store_no_memory(store);
    *ret = (struct pending_op){.kind = PENDING_SITE, .digest = *digest, .site = copy};
    return take_id(store, &store->content.next_site, &ret->id);
}

int store_site(struct store *store, const struct store_site *site, uint32_t *ret)
{
    const uint32_t rows[5] = {site->lane, site->region, site->scope, site->op, site->name};
    struct trace_digest strings[5];
    for (int i = 0; i < 5; i++) {
        int rc = string_digest(store, rows[i], &strings[i]);
        if (rc)
            return rc;
    }
    struct trace_digest digest = digest_site(site, strings);
    uint64_t cached;
    if (map_find(&store->content.sites, &digest, &cached)) {
        *ret = (uint32_t)cached;
        return 0;
    }
    struct pending_op op = {.id = 0};
    int found = find_row(store, STATEMENT_SITE_FIND, &digest, &op.id);
    int rc = found == 0 ? new_site(store, site, &digest, &op) : found;
    if (rc < 0)
        return rc;
    rc = remember_site(store, (uint32_t)op.id, &digest, site->flags);
    if (!rc)
        rc = store_map_put(store, &store->content.sites, &digest, (uint64_t)op.id);
    if (rc)
        return rc;
    if (found == 0)
        pending_add(&store->pending, &op);
    *ret = (uint32_t)op.id;
    return 0;
}

/* ---- types ----------------------------------------------------------------------------------- */

static int remember_type(struct store *store, uint32_t row, const struct trace_digest *identity)
{
    struct content *content = &store->content;
    int rc = grow((void **)&content->identities, &content->identities_capacity, (size_t)row + 1,
                  sizeof content->identities[0]);
    if (rc)
        return store_no_memory(store);
    content->identities[row] = *identity;
    return 0;
}

static int load_type(struct store *store, uint32_t row)
{
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_TYPE_IDENTITY);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_int64(statement, 1, row);
    int rc = database_step(&store->db, statement);
    if (rc < 0)
        return store_failed(store, rc);
    if (rc == 0 || sqlite3_column_bytes(statement, 0) != 16)
        return store_fail(store, DIVERGE_EINVAL, "type %u is not in the store", row);
    struct trace_digest identity;
    memcpy(identity.bytes, sqlite3_column_blob(statement, 0), 16);
    sqlite3_reset(statement);
    return remember_type(store, row, &identity);
}

int content_load_types(struct store *store, const uint32_t *types, uint32_t count)
{
    static const struct trace_digest none;
    const struct content *content = &store->content;
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (types[i] == last)
            continue;
        last = types[i];
        if (last < content->identities_capacity &&
            memcmp(&content->identities[last], &none, sizeof none) != 0)
            continue;
        /* Type 0 is "none": all zero is what it counts as. */
        int rc = last ? load_type(store, last) : remember_type(store, 0, &none);
        if (rc)
            return rc;
    }
    return 0;
}

/* "float32[768,768]", for people who look with SQL. */
static size_t label_type(const struct dvg_type *type, char *label, size_t size)
{
    static const char *const kinds[] = {
#define X(number, NAME, name) [number] = name,
        DIVERGE_KINDS(X)
#undef X
    };
    static const char *const dtypes[] = {
#define X(number, NAME, name, bytes, class_, components) [number] = name,
        DIVERGE_DTYPES(X)
#undef X
    };
    size_t n_kinds = sizeof kinds / sizeof kinds[0];
    size_t n_dtypes = sizeof dtypes / sizeof dtypes[0];
    const char *name = type->dtype && type->dtype < n_dtypes ? dtypes[type->dtype]
                       : type->kind < n_kinds                ? kinds[type->kind]
                                                             : "unknown";
    size_t at = (size_t)snprintf(label, size, "%s", name);
    if (type->kind != DIVERGE_KIND_TENSOR)
        return at;
    for (int i = 0; i < type->ndim; i++)
        at += (size_t)snprintf(label + at, size - at, "%c%lld", i ? ',' : '[',
                               (long long)dvg_load_u64(type->sizes + 8 * (size_t)i));
    return at + (size_t)snprintf(label + at, size - at, type->ndim ? "]" : "[]");
}

static int copy_text(struct store *store, const void *data, size_t size, struct pending_text *ret)
{
    ret->data = arena_copy(&store->arena, data, size);
    ret->size = size;
    return ret->data ? 0 : store_no_memory(store);
}

static int new_type(struct store *store, const struct dvg_type *type,
                    const struct trace_digest *digest, const struct trace_digest *identity,
                    struct pending_op *ret)
{
    struct pending_type copy = {.identity = *identity,
                                .team = type->group,
                                .kind = type->kind,
                                .dtype = type->dtype,
                                .placement = type->placement};
    char label[64 + DIVERGE_MAX_NDIM * 24];
    int rc = copy_text(store, label, label_type(type, label, sizeof label), &copy.label);
    if (!rc)
        rc = copy_text(store, type->sizes, (size_t)type->ndim * 8, &copy.shape);
    if (!rc && type->has_strides)
        rc = copy_text(store, type->strides, (size_t)type->ndim * 8, &copy.strides);
    if (!rc)
        rc =
            copy_text(store, type->global_sizes, (size_t)type->global_ndim * 8, &copy.global_shape);
    if (!rc)
        rc = copy_text(store, type->extents, (size_t)type->n_extents * 16, &copy.extents);
    const struct pending_type *kept = rc ? NULL : arena_copy(&store->arena, &copy, sizeof copy);
    if (!kept || pending_reserve(&store->pending, 1))
        return rc ? rc : store_no_memory(store);
    *ret = (struct pending_op){.kind = PENDING_TYPE, .digest = *digest, .type = kept};
    return take_id(store, &store->content.next_type, &ret->id);
}

int store_type(struct store *store, const struct dvg_type *type, uint32_t *ret)
{
    if (type->ndim > DIVERGE_MAX_NDIM || type->global_ndim > DIVERGE_MAX_NDIM)
        return store_fail(store, DIVERGE_EPROTO, "a type has more than %d dimensions",
                          DIVERGE_MAX_NDIM);
    struct trace_digest group;
    int rc = string_digest(store, type->group, &group);
    if (rc)
        return rc;
    struct trace_digest digest = digest_type(type, &group);
    uint64_t cached;
    if (map_find(&store->content.types, &digest, &cached)) {
        *ret = (uint32_t)cached;
        return 0;
    }
    struct trace_digest identity = digest_type_identity(type);
    struct pending_op op = {.id = 0};
    int found = find_row(store, STATEMENT_TYPE_FIND, &digest, &op.id);
    rc = found == 0 ? new_type(store, type, &digest, &identity, &op) : found;
    if (rc < 0)
        return rc;
    rc = remember_type(store, (uint32_t)op.id, &identity);
    if (!rc)
        rc = store_map_put(store, &store->content.types, &digest, (uint64_t)op.id);
    if (rc)
        return rc;
    if (found == 0)
        pending_add(&store->pending, &op);
    *ret = (uint32_t)op.id;
    return 0;
}

/* ---- arguments ------------------------------------------------------------------------------- */

int store_argument(struct store *store, uint64_t digest, struct dvg_bytes text)
{
    struct trace_digest key = map_key(digest);
    uint64_t cached;
    if (!digest || map_find(&store->content.arguments, &key, &cached))
        return 0;
    struct pending_op op = {.kind = PENDING_ARGUMENT, .id = (int64_t)digest};
    int rc = copy_text(store, text.data, text.size, &op.text);
    if (rc)
        return rc;
    if (pending_push(&store->pending, &op))
        return store_no_memory(store);
    return store_map_put(store, &store->content.arguments, &key, 1);
}

/* ---- shared columns -------------------------------------------------------------------------- */

static int new_column(struct store *store, const struct codec_column *column,
                      const struct trace_digest *digest, struct pending_op *ret)
{
    size_t bound = codec_bound(column, 1);
    uint8_t *blob = arena_alloc(&store->arena, bound);
    if (!blob || pending_reserve(&store->pending, 1))
        return store_no_memory(store);
    size_t size = 0;
    int rc = codec_encode(store->encoder, CODEC_ALWAYS, column->items, column, 1, blob, &size);
    if (rc)
        return store_no_memory(store);
    arena_shrink(&store->arena, blob, size);
    *ret = (struct pending_op){.kind = PENDING_COLUMN,
                               .id = store->content.next_column++,
                               .digest = *digest,
                               .text = {.data = blob, .size = size}};
    return 0;
}

int content_column(struct store *store, enum column column, const void *data, uint32_t count,
                   int64_t *ret)
{
    if (!data || !count) {
        *ret = 0;
        return 0;
    }
    struct trace_digest of_data = digest_bytes(data, count * column_width(column));
    uint8_t text[24] = {column_number(column)};
    dvg_store_u32(text + 4, count);
    memcpy(text + 8, of_data.bytes, 16);
    struct trace_digest digest = digest_bytes(text, sizeof text);
    uint64_t cached;
    if (map_find(&store->content.columns, &digest, &cached)) {
        gc_use(store, GC_COLUMN, (int64_t)cached);
        *ret = (int64_t)cached;
        return 0;
    }
    struct pending_op op = {.id = 0};
    int found = find_row(store, STATEMENT_COLUMN_FIND, &digest, &op.id);
    struct codec_column encode = {
        .column = column, .items = count, .data = data, .delta = column == COLUMN_ORDER};
    int rc = found == 0 ? new_column(store, &encode, &digest, &op) : found;
    if (rc < 0)
        return rc;
    rc = store_map_put(store, &store->content.columns, &digest, (uint64_t)op.id);
    if (rc)
        return store_no_memory(store);
    if (found == 0)
        pending_add(&store->pending, &op);
    gc_use(store, GC_COLUMN, op.id);
    *ret = op.id;
    return 0;
}
