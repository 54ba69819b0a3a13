/* SPDX-License-Identifier: Apache-2.0 */
/* Items of definition messages: strings, sites, types, arguments. Layouts: schema/PROTOCOL.md. */
#ifndef CLIENT_WIRE_DEFINITION_H
#define CLIENT_WIRE_DEFINITION_H

#include <stddef.h>
#include <stdint.h>

#include "client/wire/buffer.h"

struct dvg_site { /* 48 bytes packed */
    uint8_t tier;
    uint8_t phase;
    uint8_t role;
    uint16_t slot;
    uint32_t flags; /* DIVERGE_FLAG_* */
    uint32_t micro_step;
    uint32_t occurrence;
    uint32_t lane; /* string numbers from here on */
    uint32_t region;
    uint32_t scope;
    uint32_t op;
    uint32_t name;
    uint32_t source; /* annotation */
};

struct dvg_type { /* variable */
    uint8_t kind; /* enum diverge_kind */
    uint8_t dtype;
    uint8_t ndim;
    uint8_t placement;
    uint8_t has_strides; /* annotation */
    uint32_t group;      /* string */
    uint32_t n_extents;
    const uint8_t *sizes;   /* ndim i64, little endian, maybe unaligned */
    const uint8_t *strides; /* ndim i64 or NULL */
    uint8_t global_ndim;
    const uint8_t *global_sizes; /* global_ndim i64 */
    const uint8_t *extents;      /* n_extents pairs of u64 */
};

struct dvg_argument {
    uint64_t digest;
    struct dvg_bytes text;
};

/* Packs one item of a definition message. */
int dvg_string_pack(struct dvg_buffer *items, struct dvg_bytes text);
int dvg_site_pack(struct dvg_buffer *items, const struct dvg_site *site);
int dvg_type_pack(struct dvg_buffer *items, const struct dvg_type *type);
int dvg_argument_pack(struct dvg_buffer *items, const struct dvg_argument *argument);
/*
 * Takes the next item off `items`: 1, 0 at the end, or negative when malformed. Strings are valid
 * UTF-8 without control characters' meaning attached: escaping is for whoever shows them.
 */
int dvg_string_next(struct dvg_bytes *items, struct dvg_bytes *ret);
int dvg_site_next(struct dvg_bytes *items, struct dvg_site *ret);
int dvg_type_next(struct dvg_bytes *items, struct dvg_type *ret);
int dvg_argument_next(struct dvg_bytes *items, struct dvg_argument *ret);

#endif
