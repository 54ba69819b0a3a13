/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/digest.h"

#include <string.h>

#include "daemon/store/hash.h"
#include "daemon/store/store.h"

enum {
    SEGMENT_VERSION = 1,
    RECORD_BYTES = 32, /* type identity 16, value 8, argument 8 */
    BLOCK = 128,
};

struct trace_digest digest_bytes(const void *bytes, size_t size)
{
    struct trace_digest digest;
    hash_ops()->bytes(bytes, size, digest.bytes);
    return digest;
}

static struct trace_digest finish(const struct hash_state *state)
{
    struct trace_digest digest;
    hash_ops()->digest(state, digest.bytes);
    return digest;
}

static void update(struct hash_state *state, const void *bytes, size_t size)
{
    hash_ops()->update(state, bytes, size);
}

struct trace_digest digest_site(const struct store_site *site, const struct trace_digest strings[5])
{
    uint8_t text[20 + 5 * 16] = {site->tier, site->phase, site->role, 0};
    dvg_store_u16(text + 4, site->slot);
    dvg_store_u32(text + 8, site->flags);
    dvg_store_u32(text + 12, site->micro_step);
    dvg_store_u32(text + 16, site->occurrence);
    memcpy(text + 20, strings, 5 * sizeof strings[0]);
    return digest_bytes(text, sizeof text);
}

struct trace_digest digest_type_identity(const struct dvg_type *type)
{
    uint8_t text[8 + DIVERGE_MAX_NDIM * 8] = {type->kind, type->dtype, type->ndim};
    size_t size = (size_t)type->ndim * 8;
    if (size)
        memcpy(text + 8, type->sizes, size);
    return digest_bytes(text, 8 + size);
}

struct trace_digest digest_type(const struct dvg_type *type, const struct trace_digest *group)
{
    struct hash_state state;
    hash_ops()->reset(&state);
    uint8_t head[12] = {type->kind,      type->dtype,       type->ndim,
                        type->placement, type->has_strides, type->global_ndim};
    dvg_store_u32(head + 8, type->n_extents);
    update(&state, head, sizeof head);
    update(&state, group->bytes, sizeof group->bytes);
    update(&state, type->sizes, (size_t)type->ndim * 8);
    if (type->has_strides)
        update(&state, type->strides, (size_t)type->ndim * 8);
    update(&state, type->global_sizes, (size_t)type->global_ndim * 8);
    update(&state, type->extents, (size_t)type->n_extents * 16);
    return finish(&state);
}

struct trace_digest digest_chain_start(enum diverge_tier tier, const char *spec,
                                       const char *fingerprint_id)
{
    struct hash_state state;
    hash_ops()->reset(&state);
    const char *texts[2] = {spec, fingerprint_id};
    uint8_t number[4];
    dvg_store_u32(number, (uint32_t)tier);
    update(&state, number, sizeof number);
    for (int i = 0; i < 2; i++) {
        size_t size = strlen(texts[i]);
        dvg_store_u32(number, (uint32_t)size);
        update(&state, number, sizeof number);
        update(&state, texts[i], size);
    }
    return finish(&state);
}

struct trace_digest digest_chain_next(const struct trace_digest *chain,
                                      const struct trace_digest *digest)
{
    uint8_t text[32];
    memcpy(text, chain->bytes, 16);
    memcpy(text + 16, digest->bytes, 16);
    return digest_bytes(text, sizeof text);
}

/* An unread record counts as value 0 under a type that no read record has. */
static void mark_unread(uint8_t *record)
{
    for (int i = 0; i < 16; i++)
        record[i] = (uint8_t)~record[i];
    memset(record + 16, 0, 8);
}

/* Counts types that are not known: all identities but that of type 0 have a bit set. */
static uint32_t fill_block(uint8_t *block, const struct digest_records *records, uint32_t from,
                           uint32_t count)
{
    static const uint32_t no_types[BLOCK];
    static const uint64_t zeros[BLOCK];
    const uint32_t *type = records->type ? records->type + from : no_types;
    const uint64_t *value = records->value ? records->value + from : zeros;
    const uint64_t *argument = records->argument ? records->argument + from : zeros;
    uint32_t unknown = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *record = block + (size_t)i * RECORD_BYTES;
        const uint8_t *identity = records->identities[type[i]].bytes;
        memcpy(record, identity, 16);
        dvg_store_u64(record + 16, value[i]);
        dvg_store_u64(record + 24, argument[i]);
        unknown += (type[i] != 0) & ((dvg_load_u64(identity) | dvg_load_u64(identity + 8)) == 0);
    }
    if (records->excluded)
        for (uint32_t i = 0; i < count; i++)
            if (records->excluded[from + i])
                memset(block + (size_t)i * RECORD_BYTES + 16, 0, 8);
    if (records->any_unread)
        for (uint32_t i = 0; i < count; i++)
            if (records->state[from + i] & DVG_STATE_UNREAD)
                mark_unread(block + (size_t)i * RECORD_BYTES);
    return unknown;
}

bool digest_segment(const struct trace_digest *layout, const struct digest_records *records,
                    struct trace_digest *ret)
{
    struct hash_state state;
    hash_ops()->reset(&state);
    uint8_t version[8] = {SEGMENT_VERSION};
    update(&state, version, sizeof version);
    update(&state, layout->bytes, sizeof layout->bytes);
    uint8_t block[BLOCK * RECORD_BYTES];
    for (uint32_t from = 0; from < records->count; from += BLOCK) {
        uint32_t count = records->count - from < BLOCK ? records->count - from : BLOCK;
        if (fill_block(block, records, from, count))
            return false;
        update(&state, block, (size_t)count * RECORD_BYTES);
    }
    *ret = finish(&state);
    return true;
}

static bool outside_digest(const struct digest_records *records, uint32_t i)
{
    return (records->excluded && records->excluded[i]) ||
           (records->any_unread && (records->state[i] & DVG_STATE_UNREAD));
}

struct trace_digest digest_address(const struct trace_digest *digest, uint32_t columns,
                                   const struct digest_records *records)
{
    struct hash_state state;
    hash_ops()->reset(&state);
    update(&state, digest->bytes, sizeof digest->bytes);
    uint8_t number[8];
    dvg_store_u32(number, columns);
    update(&state, number, 4);
    if (records->state)
        update(&state, records->state, records->count);
    if (!records->excluded && !records->any_unread)
        return finish(&state);
    for (uint32_t i = 0; i < records->count; i++) {
        if (!outside_digest(records, i))
            continue;
        dvg_store_u64(number, records->value ? records->value[i] : 0);
        update(&state, number, sizeof number);
    }
    return finish(&state);
}
