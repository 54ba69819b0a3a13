/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one codec that all messages share: a payload is a list of fields, a message's table says
 * which fields it has and where they sit in its struct. message.c holds the tables.
 */
#ifndef CLIENT_WIRE_FIELD_H
#define CLIENT_WIRE_FIELD_H

#include "client/wire/message.h"

/* X(KIND, bytes on the wire; 0: variable, bytes of the member in the struct) */
#define DVG_FIELD_KINDS(X)                                                                         \
    X(U8, 1, 1)                                                                                    \
    X(U16, 2, 2)                                                                                   \
    X(U32, 4, 4)                                                                                   \
    X(I32, 4, 4)                                                                                   \
    X(U64, 8, 8)                                                                                   \
    X(ID, 16, 16)                                            /* 128-bit id, as bytes */            \
    X(TIERS, 8 * DIVERGE_TIER_COUNT, 8 * DIVERGE_TIER_COUNT) /* a u64 a tier */                    \
    X(STRING, 0, sizeof(struct dvg_bytes)) /* UTF-8 without NUL, DVG_STRING_MAX */                 \
    X(TEXT, 0, sizeof(struct dvg_bytes))   /* the same, DVG_CONTROL_MAX: JSON */                   \
    X(BYTES, 0, sizeof(struct dvg_bytes))  /* anything */

enum dvg_field_kind {
#define X(KIND, wire, member) DVG_FIELD_##KIND,
    DVG_FIELD_KINDS(X)
#undef X
};

enum {
#define X(KIND, wire, member) DVG_FIELD_SIZE_##KIND = (int)(member),
    DVG_FIELD_KINDS(X)
#undef X
};

enum dvg_presence {
    DVG_REQUIRED, /* always sent, critical */
    DVG_CRITICAL, /* left out when zero or empty; who does not know it must refuse the message */
    DVG_OPTIONAL, /* left out when zero or empty; who does not know it may skip it */
};

struct dvg_field {
    uint16_t id;
    uint8_t kind;
    uint8_t presence;
    uint32_t offset;  /* in the message's struct */
    const char *name; /* of the member, for those who compare tables with documents */
};

enum {
    DVG_FIELD_HEADER = 8,
    DVG_FIELD_FLAG_CRITICAL = 1,
    DVG_FIELDS_MAX = 32, /* in one table: the decoder keeps a bit for each */
};

struct dvg_schema {
    const struct dvg_field *fields; /* ids rising */
    size_t n_fields;
};

/* The table of a message, NULL when there is no such message. */
const struct dvg_schema *dvg_schema_find(unsigned type);

/* Appends a whole frame: header, then the fields of *message. */
int dvg_fields_encode(struct dvg_buffer *out, enum dvg_message type, uint64_t seq,
                      const struct dvg_schema *schema, const void *message);

/* Fills *message, which is all zeros before; on failure it holds what had been read. */
int dvg_fields_decode(struct dvg_bytes payload, const struct dvg_schema *schema, void *message);

#endif
