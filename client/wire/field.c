/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/field.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/frame.h"
#include "client/wire/utf8.h"

static const uint8_t wire_sizes[] = {
#define X(KIND, wire, member) [DVG_FIELD_##KIND] = (wire),
    DVG_FIELD_KINDS(X)
#undef X
};

static size_t padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

static struct dvg_bytes field_value(const struct dvg_field *field, const void *message)
{
    const void *member = (const char *)message + field->offset;
    if (wire_sizes[field->kind])
        return (struct dvg_bytes){.data = member, .size = wire_sizes[field->kind]};
    return *(const struct dvg_bytes *)member;
}

/* Absent and zero mean the same, so zeros of optional fields are not sent. */
static bool is_left_out(const struct dvg_field *field, struct dvg_bytes value)
{
    if (field->presence == DVG_REQUIRED)
        return false;
    if (!wire_sizes[field->kind])
        return value.size == 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i])
            return false;
    }
    return true;
}

static size_t encoded_size(const struct dvg_schema *schema, const void *message)
{
    size_t total = 0;
    for (size_t i = 0; i < schema->n_fields; i++) {
        struct dvg_bytes value = field_value(&schema->fields[i], message);
        if (is_left_out(&schema->fields[i], value))
            continue;
        if (value.size > DVG_FRAME_MAX)
            return SIZE_MAX;
        total += DVG_FIELD_HEADER + padded(value.size);
    }
    return total;
}

static uint8_t *put_field(uint8_t *at, const struct dvg_field *field, struct dvg_bytes value)
{
    dvg_store_u16(at, field->id);
    dvg_store_u16(at + 2, field->presence == DVG_OPTIONAL ? 0 : DVG_FIELD_FLAG_CRITICAL);
    dvg_store_u32(at + 4, (uint32_t)value.size);
    at += DVG_FIELD_HEADER;
    if (value.size)
        memcpy(at, value.data, value.size);
    memset(at + value.size, 0, padded(value.size) - value.size);
    return at + padded(value.size);
}

int dvg_fields_encode(struct dvg_buffer *out, enum dvg_message type, uint64_t seq,
                      const struct dvg_schema *schema, const void *message)
{
    size_t size = encoded_size(schema, message);
    if (size > DVG_FRAME_MAX)
        return DIVERGE_ELIMIT;
    int rc = dvg_buffer_reserve(out, DVG_FRAME_HEADER + size);
    if (rc)
        return rc;

    uint8_t *at = out->data + out->size;
    memset(at, 0, DVG_FRAME_HEADER);
    dvg_store_u32(at, DVG_FRAME_MAGIC);
    dvg_store_u16(at + 4, (uint16_t)type);
    dvg_store_u32(at + 8, (uint32_t)size);
    dvg_store_u64(at + 16, seq);
    at += DVG_FRAME_HEADER;
    for (size_t i = 0; i < schema->n_fields; i++) {
        struct dvg_bytes value = field_value(&schema->fields[i], message);
        if (!is_left_out(&schema->fields[i], value))
            at = put_field(at, &schema->fields[i], value);
    }
    out->size += DVG_FRAME_HEADER + size;
    return 0;
}

/* Senders keep to the table's order mostly, so the search begins where the last one ended. */
static size_t find_field(const struct dvg_schema *schema, size_t hint, uint16_t id)
{
    for (size_t i = 0; i < schema->n_fields; i++) {
        size_t at = hint + i < schema->n_fields ? hint + i : hint + i - schema->n_fields;
        if (schema->fields[at].id == id)
            return at;
    }
    return schema->n_fields;
}

static int set_field(const struct dvg_field *field, struct dvg_bytes value, void *message)
{
    void *member = (char *)message + field->offset;
    size_t size = wire_sizes[field->kind];
    if (size) {
        if (value.size != size)
            return DIVERGE_EPROTO;
        memcpy(member, value.data, size);
        return 0;
    }
    if (field->kind != DVG_FIELD_BYTES) {
        size_t max = field->kind == DVG_FIELD_STRING ? DVG_STRING_MAX : DVG_CONTROL_MAX;
        if (value.size > max)
            return DIVERGE_ELIMIT;
        if (!dvg_utf8_is_text(value))
            return DIVERGE_EPROTO;
    }
    *(struct dvg_bytes *)member = value;
    return 0;
}

/* Takes the next field off *rest: 0, or EPROTO. *rest is not empty. */
static int take_field(struct dvg_bytes *rest, uint16_t *ret_id, uint16_t *ret_flags,
                      struct dvg_bytes *ret_value)
{
    if (rest->size < DVG_FIELD_HEADER)
        return DIVERGE_EPROTO;
    size_t left = rest->size - DVG_FIELD_HEADER;
    uint32_t length = dvg_load_u32(rest->data + 4);
    if (length > left || padded(length) > left)
        return DIVERGE_EPROTO;
    const uint8_t *value = rest->data + DVG_FIELD_HEADER;
    for (size_t i = length; i < padded(length); i++) {
        if (value[i])
            return DIVERGE_EPROTO;
    }
    *ret_id = dvg_load_u16(rest->data);
    *ret_flags = dvg_load_u16(rest->data + 2);
    *ret_value = (struct dvg_bytes){.data = value, .size = length};
    rest->data = value + padded(length);
    rest->size = left - padded(length);
    return 0;
}

static int check_required(const struct dvg_schema *schema, uint32_t seen)
{
    for (size_t i = 0; i < schema->n_fields; i++) {
        if (schema->fields[i].presence == DVG_REQUIRED && !(seen & (UINT32_C(1) << i)))
            return DIVERGE_EPROTO;
    }
    return 0;
}

int dvg_fields_decode(struct dvg_bytes payload, const struct dvg_schema *schema, void *message)
{
    assert(schema->n_fields <= DVG_FIELDS_MAX);
    uint32_t seen = 0;
    size_t hint = 0;
    while (payload.size) {
        uint16_t id;
        uint16_t flags;
        struct dvg_bytes value;
        int rc = take_field(&payload, &id, &flags, &value);
        if (rc)
            return rc;
        if (flags & ~DVG_FIELD_FLAG_CRITICAL)
            return DIVERGE_EPROTO;
        size_t at = find_field(schema, hint, id);
        if (at == schema->n_fields) {
            if (flags & DVG_FIELD_FLAG_CRITICAL)
                return DIVERGE_EUNSUPPORTED;
            continue;
        }
        if (seen & (UINT32_C(1) << at))
            return DIVERGE_EPROTO;
        seen |= UINT32_C(1) << at;
        hint = at + 1;
        rc = set_field(&schema->fields[at], value, message);
        if (rc)
            return rc;
    }
    return check_required(schema, seen);
}
