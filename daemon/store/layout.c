/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: the ordered sites of a (segment, tier), stored once. */
#include <stdlib.h>
#include <string.h>

#include "daemon/store/internal.h"

static const uint32_t excluded_flags = DIVERGE_FLAG_UNINITIALISED | DIVERGE_FLAG_VOLATILE;

/* Digest of the sites' digests in order; also which records' values do not count. */
static int describe(struct store *store, const uint32_t *sites, uint32_t count,
                    struct layout_info *info)
{
    struct trace_digest *digests = malloc((size_t)count * sizeof *digests + 1);
    uint8_t *excluded = malloc((size_t)count + 1);
    bool any = false;
    int rc = digests && excluded ? 0 : store_no_memory(store);
    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = content_load_site(store, sites[i]);
        if (rc)
            break;
        const struct site_info *site = &store->content.site_infos[sites[i]];
        digests[i] = site->digest;
        excluded[i] = (site->flags & excluded_flags) != 0;
        any = any || excluded[i];
    }
    if (!rc) {
        info->digest = digest_bytes(digests, (size_t)count * sizeof *digests);
        info->count = count;
    }
    free(digests);
    if (rc || !any) {
        free(excluded);
        excluded = NULL;
    }
    info->excluded = excluded;
    return rc;
}

static int new_layout(struct store *store, const uint32_t *sites, uint32_t count,
                      const struct trace_digest *digest, struct pending_op *ret)
{
    struct codec_column column = {
        .column = COLUMN_SITE, .delta = true, .items = count, .data = sites};
    uint8_t *blob = arena_alloc(&store->arena, codec_bound(&column, 1));
    if (!blob || pending_reserve(&store->pending, 1))
        return store_no_memory(store);
    size_t size = 0;
    int rc = codec_encode(store->encoder, CODEC_ALWAYS, count, &column, 1, blob, &size);
    if (rc)
        return store_no_memory(store);
    arena_shrink(&store->arena, blob, size);
    *ret = (struct pending_op){.kind = PENDING_LAYOUT,
                               .id = store->content.next_layout++,
                               .digest = *digest,
                               .layout = {.records = count, .data = {.data = blob, .size = size}}};
    return 0;
}

/* Row of a digest: cached, in the file, or new. */
static int find_layout(struct store *store, const uint32_t *sites, uint32_t count,
                       const struct trace_digest *digest, int64_t *ret)
{
    uint64_t cached;
    if (map_find(&store->content.layouts, digest, &cached)) {
        *ret = (int64_t)cached;
        return 0;
    }
    sqlite3_stmt *statement = database_statement(&store->db, STATEMENT_LAYOUT_FIND);
    if (!statement)
        return store_failed(store, store->db.failure);
    sqlite3_bind_blob(statement, 1, digest->bytes, 16, SQLITE_STATIC);
    struct pending_op op = {.id = 0};
    int found = database_step(&store->db, statement);
    if (found == 1) {
        op.id = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
    }
    int rc = found == 0  ? new_layout(store, sites, count, digest, &op)
             : found < 0 ? store_failed(store, found)
                         : 0;
    if (!rc)
        rc = store_map_put(store, &store->content.layouts, digest, (uint64_t)op.id);
    if (rc)
        return rc;
    if (found == 0)
        pending_add(&store->pending, &op);
    *ret = op.id;
    return 0;
}

static int remember(struct store *store, const struct trace_digest *sequence,
                    const struct layout_info *info)
{
    struct content *content = &store->content;
    if (content->n_infos == content->infos_capacity) {
        size_t capacity = content->infos_capacity ? content->infos_capacity * 2 : 64;
        struct layout_info *infos = realloc(content->infos, capacity * sizeof *infos);
        if (!infos)
            return store_no_memory(store);
        content->infos = infos;
        content->infos_capacity = capacity;
    }
    int rc = store_map_put(store, &content->sequences, sequence, content->n_infos);
    if (rc)
        return store_no_memory(store);
    content->infos[content->n_infos++] = *info;
    content->infos_bytes += sizeof *info + (info->excluded ? info->count : 0);
    return 0;
}

int content_layout(struct store *store, const uint32_t *sites, uint32_t count,
                   const struct layout_info **ret)
{
    struct content *content = &store->content;
    struct trace_digest sequence = digest_bytes(sites, (size_t)count * 4);
    uint64_t index;
    if (map_find(&content->sequences, &sequence, &index)) {
        gc_use(store, GC_LAYOUT, content->infos[index].id);
        *ret = &content->infos[index];
        return 0;
    }
    struct layout_info info = {0};
    int rc = describe(store, sites, count, &info);
    if (!rc)
        rc = find_layout(store, sites, count, &info.digest, &info.id);
    if (!rc)
        rc = remember(store, &sequence, &info);
    if (rc) {
        free(info.excluded);
        return rc;
    }
    gc_use(store, GC_LAYOUT, info.id);
    *ret = &content->infos[content->n_infos - 1];
    return 0;
}
