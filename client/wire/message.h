/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the wire protocol, from one table. schema/PROTOCOL.md is the normative text; this is
 * the same in C. Pure: no I/O, no allocation; encoders write into a capped buffer (buffer.h),
 * decoders borrow from the frame they are given.
 *
 * A frame is a 32-byte header (frame.h) and a payload of TLV fields. Field: u16 id, u16 flags (bit
 * 0: critical), u32 length, then `length` bytes, padded with zeros to a multiple of 8. An unknown
 * field is skipped, unless it is critical (DIVERGE_EUNSUPPORTED). A known field with a wrong
 * length, a duplicate of a non-repeatable one, or a missing required one is DIVERGE_EPROTO. Ids are
 * never reused.
 *
 * Conversation (producer P, daemon D):
 *
 *   P HELLO: versions, stream, run, rank, epoch
 *   D   WELCOME (last committed seq, limits) or ERROR
 *   P STRINGS, SITES, TYPES, ARGUMENTS: connection-scoped, unsequenced, resent after reconnect
 *   P PART, END, METADATA, BYE: data, sequenced
 *   D   ACK (committed through seq) | ERROR | STATE (read-only …)
 *   ctl CONTROL_REQUEST (JSON)
 *   D   CONTROL_REPLY (JSON)
 *
 * Numbers of strings, sites and types count up from 1 in a stream, without holes: 0 is "none".
 */
#ifndef CLIENT_WIRE_MESSAGE_H
#define CLIENT_WIRE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <diverge/types.h>

#include "client/wire/buffer.h"
#include "client/wire/definition.h"

#define DVG_PROTOCOL_MAJOR 1
#define DVG_PROTOCOL_MINOR 0

enum {
    DVG_STRING_MAX = 4096,          /* bytes of a string or of an argument's text */
    DVG_PART_RECORDS_MAX = 1 << 18, /* records of one PART */
    DVG_RANKS_MAX = 1 << 20,
    DVG_LOOSE_EXTENTS_MAX = 4096, /* extents of a type that are not in rising order */
};
/* Sequence numbers, counts and segments are kept as signed 64-bit integers. */
#define DVG_SEQ_MAX (INT64_MAX / 2)
#define DVG_SEGMENT_MAX (INT64_MAX / 2)

/* X(number, NAME, struct/function name, direction, sequenced) */
#define DVG_MESSAGES(X)                                                                            \
    X(1, HELLO, hello, PRODUCER, 0)                                                                \
    X(2, WELCOME, welcome, DAEMON, 0)                                                              \
    X(3, STRINGS, strings, PRODUCER, 0)                                                            \
    X(4, SITES, sites, PRODUCER, 0)                                                                \
    X(5, TYPES, types, PRODUCER, 0)                                                                \
    X(6, ARGUMENTS, arguments, PRODUCER, 0)                                                        \
    X(7, PART, part, PRODUCER, 1)                                                                  \
    X(8, END, end, PRODUCER, 1)                                                                    \
    X(9, METADATA, metadata, PRODUCER, 1)                                                          \
    X(10, BYE, bye, PRODUCER, 1)                                                                   \
    X(11, ACK, ack, DAEMON, 0)                                                                     \
    X(12, ERROR, error, DAEMON, 0)                                                                 \
    X(13, STATE, state, DAEMON, 0)                                                                 \
    X(14, CONTROL_REQUEST, control, PRODUCER, 0)                                                   \
    X(15, CONTROL_REPLY, control, DAEMON, 0)

enum dvg_message {
#define X(number, NAME, name, direction, sequenced) DVG_MESSAGE_##NAME = (number),
    DVG_MESSAGES(X)
#undef X
};

struct dvg_hello {
    uint16_t major;
    uint16_t minor;
    uint8_t stream_id[16]; /* random, one a (run, rank, process) */
    uint8_t run_id[16];
    uint64_t epoch; /* counts this stream's connections; a higher one takes over */
    uint32_t rank;
    uint32_t world;    /* declared number of ranks */
    uint8_t level;     /* enum diverge_tier */
    uint64_t next_seq; /* of the first sequenced message that this connection can still send */
    struct dvg_bytes run_name;       /* wanted name */
    struct dvg_bytes fingerprint_id; /* "l61.1" */
    struct dvg_bytes spec;           /* capture spec: equal specs make chains comparable */
    struct dvg_bytes client;         /* "libdiverge 0.1.0" */
};

struct dvg_welcome {
    uint16_t major;
    uint16_t minor;
    uint64_t committed_seq; /* last sequence number in the store for this stream; 0: none */
    uint32_t max_frame;     /* payload bytes a frame may have */
    uint64_t max_segment_records;
    uint8_t run_id[16];        /* as settled (run_id of HELLO) */
    struct dvg_bytes run_name; /* as settled */
    uint8_t read_only;         /* 1: the store takes nothing now; keep the data */
};

/* Definitions: `first` is the number of the first item, then packed items; see PROTOCOL.md. */
struct dvg_definitions {
    uint32_t first; /* 0 for ARGUMENTS, which are named by their digest */
    uint32_t count;
    struct dvg_bytes items; /* packed; walk with definition.h */
};

/*
 * Columns of a PART: id, bytes a record. A column has count * width bytes, or width bytes (the same
 * value for every record); a missing one means zero. X(field id, NAME, width, in digest)
 */
#define DVG_COLUMNS(X)                                                                             \
    X(32, VALUE, 8)    /* checksum, or bits of the scalar */                                       \
    X(33, TYPE, 4)     /* type number */                                                           \
    X(34, ARGUMENT, 8) /* digest of the call's arguments, 0: none */                               \
    X(35, STATE, 1)    /* DVG_STATE_* */                                                           \
    X(36, ORDER, 4)    /* index in (segment, lane) over all tiers */                               \
    X(37, PRODUCER,                                                                                \
      4)          /* 1 + ORDER of the record that made this input, in the same lane; 0: none */    \
    X(38, SUM, 4) /* float32 */                                                                    \
    X(39, L2, 4)  /* float32 */                                                                    \
    X(40, MIN, 8) /* bits in the dtype's own width, zero-extended */                               \
    X(41, MAX, 8)                                                                                  \
    X(42, ZERO, 8) /* count */

enum dvg_column {
#define X(id, NAME, width) DVG_COLUMN_##NAME,
    DVG_COLUMNS(X)
#undef X
        DVG_COLUMN_COUNT
};

enum {
    DVG_STATE_INHERITED = 0x01, /* not measured here: the producer's value */
    DVG_STATE_STATS = 0x02,     /* statistics were computed */
    DVG_STATE_RANGE = 0x04,     /* MIN and MAX are set */
    DVG_STATE_SUM = 0x08,
    DVG_STATE_L2 = 0x10,
    DVG_STATE_NONFINITE = 0x20, /* has an entry in `nonfinite` */
    DVG_STATE_SKETCH = 0x40,    /* has an entry in `sketches` */
    DVG_STATE_UNREAD = 0x80,    /* could not be read: VALUE is 0 and equals nothing */
};

/* A run of consecutive site numbers; consecutive runs give the order of the part's records. */
struct dvg_site_run { /* packed 8 bytes */
    uint32_t first;
    uint32_t count;
};

/* Records of one (segment, tier, lane), in order. Parts of a segment follow each other. */
struct dvg_part {
    uint64_t segment;
    uint8_t tier;
    uint32_t lane;  /* string number */
    uint32_t count; /* records */
    uint64_t first; /* index of the first record in its (segment, tier, lane): detects gaps */
    struct dvg_bytes site_runs; /* packed struct dvg_site_run; counts add up to count */
    struct dvg_bytes columns[DVG_COLUMN_COUNT]; /* size 0, width, or count * width */
    struct dvg_bytes
        nonfinite;        /* packed {u32 index, u32 0, u64 nan, u64 pinf, u64 ninf}, index rising */
    uint32_t sketch_size; /* 32 or 64; 0: no sketches */
    struct dvg_bytes sketches; /* packed {u32 index, u32 0, f32[sketch_size]}, index rising */
};

/* Seals a segment on all tiers: what the sender counted, so that the receiver can tell a gap. */
struct dvg_end {
    uint64_t segment;
    uint64_t records[DIVERGE_TIER_COUNT]; /* sent, per tier */
    uint64_t dropped[DIVERGE_TIER_COUNT]; /* not sent: a gap */
    uint64_t volatile_count;              /* counted, not stored */
    uint64_t unix_us;
    uint8_t wanted; /* bit per tier: recorded in this segment (level, step filter) */
};

struct dvg_metadata { /* one JSON object, UTF-8; keys replace earlier ones */
    struct dvg_bytes json;
};

struct dvg_bye {
    uint8_t outcome; /* enum diverge_outcome */
    uint64_t dropped;
};

struct dvg_ack {
    uint64_t committed_seq;
};

struct dvg_error_message {
    int32_t status; /* DIVERGE_E… */
    uint8_t fatal;  /* 1: the daemon closes the connection */
    struct dvg_bytes text;
};

struct dvg_state {
    uint8_t read_only; /* 1: nothing is committed until a STATE with 0 */
    struct dvg_bytes text;
};

struct dvg_control {
    uint32_t request; /* echoed in the reply */
    struct dvg_bytes json;
};

/* Encoders append a whole frame (header and payload) to `out`; seq is 0 for unsequenced ones. */
int dvg_hello_encode(struct dvg_buffer *out, const struct dvg_hello *message);
int dvg_welcome_encode(struct dvg_buffer *out, const struct dvg_welcome *message);
int dvg_part_encode(struct dvg_buffer *out, uint64_t seq, const struct dvg_part *message);
int dvg_end_encode(struct dvg_buffer *out, uint64_t seq, const struct dvg_end *message);
int dvg_metadata_encode(struct dvg_buffer *out, uint64_t seq, const struct dvg_metadata *message);
int dvg_bye_encode(struct dvg_buffer *out, uint64_t seq, const struct dvg_bye *message);
int dvg_ack_encode(struct dvg_buffer *out, const struct dvg_ack *message);
int dvg_error_encode(struct dvg_buffer *out, const struct dvg_error_message *message);
int dvg_state_encode(struct dvg_buffer *out, const struct dvg_state *message);
int dvg_control_encode(struct dvg_buffer *out, enum dvg_message type,
                       const struct dvg_control *message);
/* type: STRINGS, SITES, TYPES or ARGUMENTS; items packed with the dvg_*_pack functions. */
int dvg_definitions_encode(struct dvg_buffer *out, enum dvg_message type,
                           const struct dvg_definitions *message);

/*
 * Decoders check everything that can be checked without the stream's state. Results borrow
 * `payload`.
 */
int dvg_hello_decode(struct dvg_bytes payload, struct dvg_hello *ret);
int dvg_welcome_decode(struct dvg_bytes payload, struct dvg_welcome *ret);
int dvg_definitions_decode(struct dvg_bytes payload, struct dvg_definitions *ret);
int dvg_part_decode(struct dvg_bytes payload, struct dvg_part *ret);
int dvg_end_decode(struct dvg_bytes payload, struct dvg_end *ret);
int dvg_metadata_decode(struct dvg_bytes payload, struct dvg_metadata *ret);
int dvg_bye_decode(struct dvg_bytes payload, struct dvg_bye *ret);
int dvg_ack_decode(struct dvg_bytes payload, struct dvg_ack *ret);
int dvg_error_decode(struct dvg_bytes payload, struct dvg_error_message *ret);
int dvg_state_decode(struct dvg_bytes payload, struct dvg_state *ret);
int dvg_control_decode(struct dvg_bytes payload, struct dvg_control *ret);

const char *dvg_message_name(unsigned type); /* NULL: unknown */
size_t dvg_column_width(enum dvg_column column);

#endif
