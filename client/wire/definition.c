/* SPDX-License-Identifier: Apache-2.0 */
/* The packed items of definition messages. Layouts: schema/PROTOCOL.md, "Definitions". */

#include <stdbool.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/extent.h"
#include "client/wire/message.h"
#include "client/wire/utf8.h"

enum {
    STRING_HEADER = 4,
    STRING_ALIGN = 4,
    SITE_SIZE = 48,
    TYPE_HEADER = 16,
    TYPE_HAS_STRIDES = 1,
    ARGUMENT_HEADER = 12,
    ARGUMENT_ALIGN = 8,
};

static const uint32_t known_flags = 0
#define X(bit, NAME, name) | (bit)
    DIVERGE_FLAGS(X)
#undef X
    ;

static size_t aligned(size_t size, size_t align)
{
    return (size + align - 1) & ~(align - 1);
}

/* Makes `size` zeroed bytes at the end of `items`: where they are, or NULL with *ret_rc. */
static uint8_t *extend(struct dvg_buffer *items, size_t size, int *ret_rc)
{
    *ret_rc = dvg_buffer_reserve(items, size);
    if (*ret_rc)
        return NULL;
    uint8_t *at = items->data + items->size;
    memset(at, 0, size);
    items->size += size;
    return at;
}

/* Takes `size` bytes off the front of `items`; false when there are fewer. */
static bool take(struct dvg_bytes *items, size_t size, const uint8_t **ret)
{
    if (items->size < size)
        return false;
    *ret = items->data;
    items->data += size;
    items->size -= size;
    return true;
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
    uint8_t any = 0;
    for (size_t i = 0; i < size; i++)
        any |= bytes[i];
    return !any;
}

/* Takes a text of `size` bytes with zeros up to `span`. */
static int take_text(struct dvg_bytes *items, size_t size, size_t span, struct dvg_bytes *ret)
{
    const uint8_t *at;
    if (size > DVG_STRING_MAX)
        return DIVERGE_ELIMIT;
    if (!take(items, span, &at) || !all_zero(at + size, span - size))
        return DIVERGE_EPROTO;
    struct dvg_bytes text = {.data = at, .size = size};
    if (!dvg_utf8_is_text(text))
        return DIVERGE_EPROTO;
    *ret = text;
    return 0;
}

/* ---- strings ---- */

int dvg_string_pack(struct dvg_buffer *items, struct dvg_bytes text)
{
    if (text.size > DVG_STRING_MAX)
        return DIVERGE_ELIMIT;
    int rc;
    uint8_t *at = extend(items, STRING_HEADER + aligned(text.size, STRING_ALIGN), &rc);
    if (!at)
        return rc;
    dvg_store_u32(at, (uint32_t)text.size);
    if (text.size)
        memcpy(at + STRING_HEADER, text.data, text.size);
    return 0;
}

int dvg_string_next(struct dvg_bytes *items, struct dvg_bytes *ret)
{
    if (!items->size)
        return 0;
    const uint8_t *at;
    if (!take(items, STRING_HEADER, &at))
        return DIVERGE_EPROTO;
    size_t size = dvg_load_u32(at);
    int rc = take_text(items, size, aligned(size, STRING_ALIGN), ret);
    return rc ? rc : 1;
}

/* ---- sites ---- */

int dvg_site_pack(struct dvg_buffer *items, const struct dvg_site *site)
{
    int rc;
    uint8_t *at = extend(items, SITE_SIZE, &rc);
    if (!at)
        return rc;
    at[0] = site->tier;
    at[1] = site->phase;
    at[2] = site->role;
    dvg_store_u16(at + 4, site->slot);
    dvg_store_u32(at + 8, site->flags);
    dvg_store_u32(at + 12, site->micro_step);
    dvg_store_u32(at + 16, site->occurrence);
    dvg_store_u32(at + 20, site->lane);
    dvg_store_u32(at + 24, site->region);
    dvg_store_u32(at + 28, site->scope);
    dvg_store_u32(at + 32, site->op);
    dvg_store_u32(at + 36, site->name);
    dvg_store_u32(at + 40, site->source);
    return 0;
}

static int check_site(const struct dvg_site *site)
{
    if (site->tier >= DIVERGE_TIER_COUNT || site->phase >= DIVERGE_PHASE_COUNT ||
        site->role >= DIVERGE_ROLE_COUNT)
        return DIVERGE_EPROTO;
    return (site->flags & ~known_flags) || !site->lane ? DIVERGE_EPROTO : 0;
}

int dvg_site_next(struct dvg_bytes *items, struct dvg_site *ret)
{
    if (!items->size)
        return 0;
    const uint8_t *at;
    if (!take(items, SITE_SIZE, &at) || at[3] || dvg_load_u16(at + 6) || dvg_load_u32(at + 44))
        return DIVERGE_EPROTO;
    struct dvg_site site = {
        .tier = at[0],
        .phase = at[1],
        .role = at[2],
        .slot = dvg_load_u16(at + 4),
        .flags = dvg_load_u32(at + 8),
        .micro_step = dvg_load_u32(at + 12),
        .occurrence = dvg_load_u32(at + 16),
        .lane = dvg_load_u32(at + 20),
        .region = dvg_load_u32(at + 24),
        .scope = dvg_load_u32(at + 28),
        .op = dvg_load_u32(at + 32),
        .name = dvg_load_u32(at + 36),
        .source = dvg_load_u32(at + 40),
    };
    int rc = check_site(&site);
    if (rc)
        return rc;
    *ret = site;
    return 1;
}

/* ---- types ---- */

int dvg_type_pack(struct dvg_buffer *items, const struct dvg_type *type)
{
    size_t sizes = 8 * (size_t)type->ndim;
    size_t strides = type->has_strides ? sizes : 0;
    size_t global = 8 * (size_t)type->global_ndim;
    size_t extents = DVG_EXTENT_SIZE * (size_t)type->n_extents;
    int rc;
    uint8_t *at = extend(items, TYPE_HEADER + sizes + strides + global + extents, &rc);
    if (!at)
        return rc;
    at[0] = type->kind;
    at[1] = type->dtype;
    at[2] = type->ndim;
    at[3] = type->placement;
    at[4] = type->has_strides ? TYPE_HAS_STRIDES : 0;
    at[5] = type->global_ndim;
    dvg_store_u32(at + 8, type->group);
    dvg_store_u32(at + 12, type->n_extents);
    at += TYPE_HEADER;
    if (sizes)
        memcpy(at, type->sizes, sizes);
    if (strides)
        memcpy(at + sizes, type->strides, strides);
    if (global)
        memcpy(at + sizes + strides, type->global_sizes, global);
    if (extents)
        memcpy(at + sizes + strides + global, type->extents, extents);
    return 0;
}

/*
 * Number of elements of `ndim` sizes: 0 with *ret, or EPROTO when a size is negative, or when the
 * sizes other than 0 multiply to 2^60 or more.
 */
static int count_elements(const uint8_t *sizes, unsigned ndim, uint64_t *ret)
{
    uint64_t product = 1;
    bool empty = false;
    for (unsigned i = 0; i < ndim; i++) {
        uint64_t size = dvg_load_u64(sizes + 8 * i);
        if (!size) {
            empty = true;
            continue;
        }
        if (size >= DVG_ELEMENTS_END || __builtin_mul_overflow(product, size, &product) ||
            product >= DVG_ELEMENTS_END)
            return DIVERGE_EPROTO;
    }
    *ret = empty ? 0 : product;
    return 0;
}

static int check_tensor(const struct dvg_type *type)
{
    uint64_t local;
    uint64_t global;
    int rc = count_elements(type->sizes, type->ndim, &local);
    if (!rc)
        rc = count_elements(type->global_sizes, type->global_ndim, &global);
    if (rc)
        return rc;
    /* Without global sizes the whole is unknown; it is below the bound all the same. */
    uint64_t end = type->global_ndim ? global : DVG_ELEMENTS_END;
    if (!type->n_extents)
        return local <= end ? 0 : DIVERGE_EPROTO;
    return dvg_extents_check(type->extents, type->n_extents, local, end);
}

static int check_type(const struct dvg_type *type)
{
    if (type->kind > DIVERGE_KIND_ABSENT || type->dtype >= DIVERGE_DTYPE_COUNT ||
        type->placement > DIVERGE_PLACEMENT_PARTIAL)
        return DIVERGE_EPROTO;
    if (type->kind == DIVERGE_KIND_TENSOR)
        return type->dtype ? check_tensor(type) : DIVERGE_EPROTO;
    return type->ndim || type->has_strides || type->global_ndim || type->n_extents ? DIVERGE_EPROTO
                                                                                   : 0;
}

/* The arrays behind a type's header. */
static int take_arrays(struct dvg_bytes *items, struct dvg_type *type)
{
    size_t sizes = 8 * (size_t)type->ndim;
    if (type->n_extents > items->size / DVG_EXTENT_SIZE || !take(items, sizes, &type->sizes) ||
        (type->has_strides && !take(items, sizes, &type->strides)) ||
        !take(items, 8 * (size_t)type->global_ndim, &type->global_sizes) ||
        !take(items, DVG_EXTENT_SIZE * (size_t)type->n_extents, &type->extents))
        return DIVERGE_EPROTO;
    return 0;
}

int dvg_type_next(struct dvg_bytes *items, struct dvg_type *ret)
{
    if (!items->size)
        return 0;
    const uint8_t *at;
    if (!take(items, TYPE_HEADER, &at) || (at[4] & ~TYPE_HAS_STRIDES) || dvg_load_u16(at + 6))
        return DIVERGE_EPROTO;
    struct dvg_type type = {
        .kind = at[0],
        .dtype = at[1],
        .ndim = at[2],
        .placement = at[3],
        .has_strides = at[4],
        .global_ndim = at[5],
        .group = dvg_load_u32(at + 8),
        .n_extents = dvg_load_u32(at + 12),
    };
    if (type.ndim > DIVERGE_MAX_NDIM || type.global_ndim > DIVERGE_MAX_NDIM)
        return DIVERGE_EPROTO;
    int rc = take_arrays(items, &type);
    if (!rc)
        rc = check_type(&type);
    if (rc)
        return rc;
    *ret = type;
    return 1;
}

/* ---- arguments ---- */

int dvg_argument_pack(struct dvg_buffer *items, const struct dvg_argument *argument)
{
    if (argument->text.size > DVG_STRING_MAX)
        return DIVERGE_ELIMIT;
    int rc;
    size_t size = aligned(ARGUMENT_HEADER + argument->text.size, ARGUMENT_ALIGN);
    uint8_t *at = extend(items, size, &rc);
    if (!at)
        return rc;
    dvg_store_u64(at, argument->digest);
    dvg_store_u32(at + 8, (uint32_t)argument->text.size);
    if (argument->text.size)
        memcpy(at + ARGUMENT_HEADER, argument->text.data, argument->text.size);
    return 0;
}

int dvg_argument_next(struct dvg_bytes *items, struct dvg_argument *ret)
{
    if (!items->size)
        return 0;
    const uint8_t *at;
    if (!take(items, ARGUMENT_HEADER, &at))
        return DIVERGE_EPROTO;
    size_t size = dvg_load_u32(at + 8);
    struct dvg_argument argument = {.digest = dvg_load_u64(at)};
    if (!argument.digest)
        return DIVERGE_EPROTO;
    size_t span = aligned(ARGUMENT_HEADER + size, ARGUMENT_ALIGN) - ARGUMENT_HEADER;
    int rc = take_text(items, size, span, &argument.text);
    if (rc)
        return rc;
    *ret = argument;
    return 1;
}
