/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of all messages, and what their fields must obey. A new field is one line in its table
 * (with an id that was never used in that message), one member in message.h, one row in
 * schema/PROTOCOL.md; a new message is one table more.
 */

#include "client/wire/message.h"

#include <stdbool.h>

#include <diverge/error.h>

#include "client/wire/field.h"
#include "client/wire/frame.h"
#include "client/wire/part.h"

/* F(struct, id, KIND, member, PRESENCE) */
#define HELLO_FIELDS(F, S)                                                                         \
    F(S, 1, U16, major, REQUIRED)                                                                  \
    F(S, 2, U16, minor, REQUIRED)                                                                  \
    F(S, 3, ID, stream_id, REQUIRED)                                                               \
    F(S, 4, ID, run_id, REQUIRED)                                                                  \
    F(S, 5, U64, epoch, REQUIRED)                                                                  \
    F(S, 6, U32, rank, REQUIRED)                                                                   \
    F(S, 7, U32, world, REQUIRED)                                                                  \
    F(S, 8, U8, level, REQUIRED)                                                                   \
    F(S, 9, U64, next_seq, REQUIRED)                                                               \
    F(S, 10, STRING, run_name, OPTIONAL)                                                           \
    F(S, 11, STRING, fingerprint_id, REQUIRED)                                                     \
    F(S, 12, STRING, spec, OPTIONAL)                                                               \
    F(S, 13, STRING, client, OPTIONAL)

#define WELCOME_FIELDS(F, S)                                                                       \
    F(S, 1, U16, major, REQUIRED)                                                                  \
    F(S, 2, U16, minor, REQUIRED)                                                                  \
    F(S, 3, U64, committed_seq, REQUIRED)                                                          \
    F(S, 4, U32, max_frame, REQUIRED)                                                              \
    F(S, 5, U64, max_segment_records, REQUIRED)                                                    \
    F(S, 6, ID, run_id, REQUIRED)                                                                  \
    F(S, 7, STRING, run_name, REQUIRED)                                                            \
    F(S, 8, U8, read_only, OPTIONAL)

#define DEFINITIONS_FIELDS(F, S)                                                                   \
    F(S, 1, U32, first, CRITICAL)                                                                  \
    F(S, 2, U32, count, REQUIRED)                                                                  \
    F(S, 3, BYTES, items, REQUIRED)

#define PART_FIELDS(F, S)                                                                          \
    F(S, 1, U64, segment, REQUIRED)                                                                \
    F(S, 2, U8, tier, REQUIRED)                                                                    \
    F(S, 3, U32, lane, REQUIRED)                                                                   \
    F(S, 4, U32, count, REQUIRED)                                                                  \
    F(S, 5, U64, first, CRITICAL)                                                                  \
    F(S, 6, BYTES, site_runs, REQUIRED)                                                            \
    F(S, 7, BYTES, nonfinite, CRITICAL)                                                            \
    F(S, 8, U32, sketch_size, OPTIONAL)                                                            \
    F(S, 9, BYTES, sketches, OPTIONAL)                                                             \
    F(S, 32, BYTES, columns[DVG_COLUMN_VALUE], CRITICAL)                                           \
    F(S, 33, BYTES, columns[DVG_COLUMN_TYPE], REQUIRED)                                            \
    F(S, 34, BYTES, columns[DVG_COLUMN_ARGUMENT], CRITICAL)                                        \
    F(S, 35, BYTES, columns[DVG_COLUMN_STATE], CRITICAL)                                           \
    F(S, 36, BYTES, columns[DVG_COLUMN_ORDER], OPTIONAL)                                           \
    F(S, 37, BYTES, columns[DVG_COLUMN_PRODUCER], OPTIONAL)                                        \
    F(S, 38, BYTES, columns[DVG_COLUMN_SUM], OPTIONAL)                                             \
    F(S, 39, BYTES, columns[DVG_COLUMN_L2], OPTIONAL)                                              \
    F(S, 40, BYTES, columns[DVG_COLUMN_MIN], OPTIONAL)                                             \
    F(S, 41, BYTES, columns[DVG_COLUMN_MAX], OPTIONAL)                                             \
    F(S, 42, BYTES, columns[DVG_COLUMN_ZERO], OPTIONAL)

#define END_FIELDS(F, S)                                                                           \
    F(S, 1, U64, segment, REQUIRED)                                                                \
    F(S, 2, TIERS, records, REQUIRED)                                                              \
    F(S, 3, TIERS, dropped, CRITICAL)                                                              \
    F(S, 4, U64, volatile_count, OPTIONAL)                                                         \
    F(S, 5, U64, unix_us, OPTIONAL)                                                                \
    F(S, 6, U8, wanted, REQUIRED)

#define METADATA_FIELDS(F, S) F(S, 1, TEXT, json, REQUIRED)

#define BYE_FIELDS(F, S)                                                                           \
    F(S, 1, U8, outcome, REQUIRED)                                                                 \
    F(S, 2, U64, dropped, OPTIONAL)

#define ACK_FIELDS(F, S) F(S, 1, U64, committed_seq, REQUIRED)

#define ERROR_FIELDS(F, S)                                                                         \
    F(S, 1, I32, status, REQUIRED)                                                                 \
    F(S, 2, U8, fatal, OPTIONAL)                                                                   \
    F(S, 3, STRING, text, OPTIONAL)

#define STATE_FIELDS(F, S)                                                                         \
    F(S, 1, U8, read_only, REQUIRED)                                                               \
    F(S, 2, STRING, text, OPTIONAL)

#define CONTROL_FIELDS(F, S)                                                                       \
    F(S, 1, U32, request, REQUIRED)                                                                \
    F(S, 2, TEXT, json, REQUIRED)

/* M(name in functions, struct, TABLE) */
#define TABLES(M)                                                                                  \
    M(hello, dvg_hello, HELLO_FIELDS)                                                              \
    M(welcome, dvg_welcome, WELCOME_FIELDS)                                                        \
    M(definitions, dvg_definitions, DEFINITIONS_FIELDS)                                            \
    M(part, dvg_part, PART_FIELDS)                                                                 \
    M(end, dvg_end, END_FIELDS)                                                                    \
    M(metadata, dvg_metadata, METADATA_FIELDS)                                                     \
    M(bye, dvg_bye, BYE_FIELDS)                                                                    \
    M(ack, dvg_ack, ACK_FIELDS)                                                                    \
    M(error, dvg_error_message, ERROR_FIELDS)                                                      \
    M(state, dvg_state, STATE_FIELDS)                                                              \
    M(control, dvg_control, CONTROL_FIELDS)

/* Every member is as wide as its kind says. */
#define F(S, id_, KIND, member_, PRESENCE)                                                         \
    _Static_assert(sizeof(((struct S *)0)->member_) == DVG_FIELD_SIZE_##KIND, #member_);
#define M(name, S, TABLE) TABLE(F, S)
TABLES(M)
#undef M
#undef F

#define F(S, id_, KIND, member_, PRESENCE)                                                         \
    {.id = (id_),                                                                                  \
     .kind = DVG_FIELD_##KIND,                                                                     \
     .presence = DVG_##PRESENCE,                                                                   \
     .offset = offsetof(struct S, member_),                                                        \
     .name = #member_},
#define M(name, S, TABLE)                                                                          \
    static const struct dvg_field name##_fields[] = {TABLE(F, S)};                                 \
    static const struct dvg_schema name##_schema = {                                               \
        .fields = name##_fields,                                                                   \
        .n_fields = sizeof(name##_fields) / sizeof(name##_fields[0]),                              \
    };
TABLES(M)
#undef M
#undef F

/* Sequence numbers and segments are stored as signed 64-bit integers. */
static bool is_segment(uint64_t segment)
{
    return segment <= DVG_SEGMENT_MAX;
}

static int check_hello(const struct dvg_hello *message)
{
    if (message->level > DIVERGE_TIER_OP || message->rank >= DVG_RANKS_MAX || message->world < 1 ||
        message->world > DVG_RANKS_MAX || message->next_seq > DVG_SEQ_MAX ||
        message->epoch > DVG_SEQ_MAX)
        return DIVERGE_EPROTO;
    return message->fingerprint_id.size ? 0 : DIVERGE_EPROTO;
}

static int check_welcome(const struct dvg_welcome *message)
{
    return message->committed_seq > DVG_SEQ_MAX || message->read_only > 1 ? DIVERGE_EPROTO : 0;
}

static int check_definitions(const struct dvg_definitions *message)
{
    if (!message->count || message->count > UINT32_MAX - message->first)
        return DIVERGE_EPROTO;
    /* No item is shorter than a string's length. */
    return message->items.size / sizeof(uint32_t) < message->count ? DIVERGE_EPROTO : 0;
}

static int check_part(const struct dvg_part *message)
{
    return dvg_part_check(message);
}

static int check_end(const struct dvg_end *message)
{
    if (!is_segment(message->segment) || message->wanted >> DIVERGE_TIER_COUNT)
        return DIVERGE_EPROTO;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        if (message->records[tier] > DVG_SEQ_MAX || message->dropped[tier] > DVG_SEQ_MAX)
            return DIVERGE_EPROTO;
    }
    return message->volatile_count > DVG_SEQ_MAX || message->unix_us > DVG_SEQ_MAX ? DIVERGE_EPROTO
                                                                                   : 0;
}

static int check_metadata(const struct dvg_metadata *message)
{
    return message->json.size ? 0 : DIVERGE_EPROTO;
}

static int check_bye(const struct dvg_bye *message)
{
    return message->outcome > DIVERGE_OUTCOME_FAILED || message->dropped > DVG_SEQ_MAX
               ? DIVERGE_EPROTO
               : 0;
}

static int check_ack(const struct dvg_ack *message)
{
    return message->committed_seq > DVG_SEQ_MAX ? DIVERGE_EPROTO : 0;
}

static int check_error(const struct dvg_error_message *message)
{
    return message->status >= 0 || message->fatal > 1 ? DIVERGE_EPROTO : 0;
}

static int check_state(const struct dvg_state *message)
{
    return message->read_only > 1 ? DIVERGE_EPROTO : 0;
}

static int check_control(const struct dvg_control *message)
{
    return message->json.size ? 0 : DIVERGE_EPROTO;
}

#define DECODER(name, S)                                                                           \
    int dvg_##name##_decode(struct dvg_bytes payload, struct S *ret)                               \
    {                                                                                              \
        struct S message = {0};                                                                    \
        int rc = dvg_fields_decode(payload, &name##_schema, &message);                             \
        if (!rc)                                                                                   \
            rc = check_##name(&message);                                                           \
        if (rc)                                                                                    \
            return rc;                                                                             \
        *ret = message;                                                                            \
        return 0;                                                                                  \
    }
DECODER(definitions, dvg_definitions)
DECODER(part, dvg_part)
DECODER(end, dvg_end)
DECODER(metadata, dvg_metadata)
DECODER(bye, dvg_bye)
DECODER(ack, dvg_ack)
DECODER(error, dvg_error_message)
DECODER(state, dvg_state)
DECODER(control, dvg_control)

/*
 * In these two only `major` and `minor` mean the same in every version, so another major version is
 * said before anything else is found wrong.
 */
#define GREETING_DECODER(name, S)                                                                  \
    int dvg_##name##_decode(struct dvg_bytes payload, struct S *ret)                               \
    {                                                                                              \
        struct S message = {0};                                                                    \
        int rc = dvg_fields_decode(payload, &name##_schema, &message);                             \
        if (message.major && message.major != DVG_PROTOCOL_MAJOR)                                  \
            return DIVERGE_EVERSION;                                                               \
        if (!rc)                                                                                   \
            rc = message.major ? check_##name(&message) : DIVERGE_EPROTO;                          \
        if (rc)                                                                                    \
            return rc;                                                                             \
        *ret = message;                                                                            \
        return 0;                                                                                  \
    }
GREETING_DECODER(hello, dvg_hello)
GREETING_DECODER(welcome, dvg_welcome)

#define ENCODER(NAME, name, S)                                                                     \
    int dvg_##name##_encode(struct dvg_buffer *out, const struct S *message)                       \
    {                                                                                              \
        return dvg_fields_encode(out, DVG_MESSAGE_##NAME, 0, &name##_schema, message);             \
    }
ENCODER(HELLO, hello, dvg_hello)
ENCODER(WELCOME, welcome, dvg_welcome)
ENCODER(ACK, ack, dvg_ack)
ENCODER(ERROR, error, dvg_error_message)
ENCODER(STATE, state, dvg_state)

#define SEQUENCED_ENCODER(NAME, name, S)                                                           \
    int dvg_##name##_encode(struct dvg_buffer *out, uint64_t seq, const struct S *message)         \
    {                                                                                              \
        return dvg_fields_encode(out, DVG_MESSAGE_##NAME, seq, &name##_schema, message);           \
    }
SEQUENCED_ENCODER(PART, part, dvg_part)
SEQUENCED_ENCODER(END, end, dvg_end)
SEQUENCED_ENCODER(METADATA, metadata, dvg_metadata)
SEQUENCED_ENCODER(BYE, bye, dvg_bye)

int dvg_definitions_encode(struct dvg_buffer *out, enum dvg_message type,
                           const struct dvg_definitions *message)
{
    return dvg_fields_encode(out, type, 0, &definitions_schema, message);
}

int dvg_control_encode(struct dvg_buffer *out, enum dvg_message type,
                       const struct dvg_control *message)
{
    return dvg_fields_encode(out, type, 0, &control_schema, message);
}

const struct dvg_schema *dvg_schema_find(unsigned type)
{
#define strings_schema definitions_schema
#define sites_schema definitions_schema
#define types_schema definitions_schema
#define arguments_schema definitions_schema
    static const struct dvg_schema *const schemas[] = {
#define X(number, NAME, name, direction, sequenced) [number] = &name##_schema,
        DVG_MESSAGES(X)
#undef X
    };
    return type < sizeof(schemas) / sizeof(schemas[0]) ? schemas[type] : NULL;
}

const char *dvg_message_name(unsigned type)
{
    switch (type) {
#define X(number, NAME, name, direction, sequenced)                                                \
    case number:                                                                                   \
        return #NAME;
        DVG_MESSAGES(X)
#undef X
    default:
        return NULL;
    }
}

size_t dvg_column_width(enum dvg_column column)
{
    static const uint8_t widths[] = {
#define X(id, NAME, width) [DVG_COLUMN_##NAME] = (width),
        DVG_COLUMNS(X)
#undef X
    };
    return widths[column];
}
