/* SPDX-License-Identifier: Apache-2.0 */
/* Round trips of random messages, and everything that can be wrong with a payload's fields. */

#include "client/wire/message.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/frame.h"
#include "tests/unit/client/wire/cmocka_all.h"
#include "tests/unit/client/wire/golden.h"

enum { ROUNDS = 2000 };

static uint64_t noise = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t rnd(void)
{
    noise ^= noise << 13;
    noise ^= noise >> 7;
    noise ^= noise << 17;
    return noise;
}

/* Of any magnitude, and often 0. */
static uint64_t rnd_u64(uint64_t max)
{
    uint64_t value = rnd() >> (rnd() % 64);
    return rnd() % 4 == 0 ? 0 : max == UINT64_MAX ? value : value % (max + 1);
}

static struct dvg_bytes rnd_text(size_t max)
{
    static const char letters[] = "model.layers_0-attention/weight \xc3\xa4\xe2\x82\xac";
    static char texts[8][64];
    static unsigned next;
    char *text = texts[next++ % 8];
    size_t size = rnd() % (max < 48 ? max + 1 : 48);
    for (size_t i = 0; i < size; i++)
        text[i] = letters[rnd() % 32];
    return (struct dvg_bytes){.data = (const uint8_t *)text, .size = size};
}

static struct dvg_bytes rnd_json(void)
{
    return (struct dvg_bytes){.data = (const uint8_t *)"{\"k\":1}", .size = 7};
}

static struct dvg_bytes take_payload(const struct dvg_buffer *out, unsigned type, uint64_t seq)
{
    struct dvg_frame frame;
    size_t size;
    struct dvg_bytes bytes = {.data = out->data, .size = out->size};
    assert_int_equal(dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size), 1);
    assert_int_equal(size, out->size);
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.seq, seq);
    assert_int_equal(size % 8, 0);
    return frame.payload;
}

static void assert_same_bytes(struct dvg_bytes a, struct dvg_bytes b)
{
    assert_int_equal(a.size, b.size);
    if (a.size)
        assert_memory_equal(a.data, b.data, a.size);
}

#define SAME(member) assert_true(sent.member == got.member)
#define SAME_BYTES(member) assert_same_bytes(sent.member, got.member)

static void hello_round_trips(void **state)
{
    struct dvg_buffer *out = *state;
    for (int i = 0; i < ROUNDS; i++) {
        struct dvg_hello sent = {
            .major = DVG_PROTOCOL_MAJOR,
            .minor = (uint16_t)rnd_u64(UINT16_MAX),
            .epoch = rnd_u64(DVG_SEQ_MAX),
            .rank = (uint32_t)rnd_u64(DVG_RANKS_MAX - 1),
            .world = 1 + (uint32_t)rnd_u64(DVG_RANKS_MAX - 1),
            .level = (uint8_t)(rnd() % 4),
            .next_seq = rnd_u64(DVG_SEQ_MAX),
            .run_name = rnd_text(40),
            .fingerprint_id = {(const uint8_t *)"l61.1", 5},
            .spec = rnd_text(40),
            .client = rnd_text(40),
        };
        for (int k = 0; k < 16; k++) {
            sent.stream_id[k] = (uint8_t)rnd();
            sent.run_id[k] = (uint8_t)rnd();
        }
        dvg_buffer_clear(out);
        assert_int_equal(dvg_hello_encode(out, &sent), 0);
        struct dvg_hello got;
        assert_int_equal(dvg_hello_decode(take_payload(out, DVG_MESSAGE_HELLO, 0), &got), 0);
        SAME(major);
        SAME(minor);
        SAME(epoch);
        SAME(rank);
        SAME(world);
        SAME(level);
        SAME(next_seq);
        SAME_BYTES(run_name);
        SAME_BYTES(fingerprint_id);
        SAME_BYTES(spec);
        SAME_BYTES(client);
        assert_memory_equal(sent.stream_id, got.stream_id, 16);
        assert_memory_equal(sent.run_id, got.run_id, 16);
    }
}

static void welcome_round_trips(void **state)
{
    struct dvg_buffer *out = *state;
    for (int i = 0; i < ROUNDS; i++) {
        struct dvg_welcome sent = {
            .major = DVG_PROTOCOL_MAJOR,
            .minor = (uint16_t)rnd(),
            .committed_seq = rnd_u64(DVG_SEQ_MAX),
            .max_frame = (uint32_t)rnd_u64(UINT32_MAX),
            .max_segment_records = rnd_u64(UINT64_MAX),
            .run_name = rnd_text(40),
            .read_only = rnd() % 2,
        };
        for (int k = 0; k < 16; k++)
            sent.run_id[k] = (uint8_t)rnd();
        dvg_buffer_clear(out);
        assert_int_equal(dvg_welcome_encode(out, &sent), 0);
        struct dvg_welcome got;
        assert_int_equal(dvg_welcome_decode(take_payload(out, DVG_MESSAGE_WELCOME, 0), &got), 0);
        SAME(minor);
        SAME(committed_seq);
        SAME(max_frame);
        SAME(max_segment_records);
        SAME(read_only);
        SAME_BYTES(run_name);
        assert_memory_equal(sent.run_id, got.run_id, 16);
    }
}

static void end_and_bye_round_trip(void **state)
{
    struct dvg_buffer *out = *state;
    for (int i = 0; i < ROUNDS; i++) {
        struct dvg_end sent = {
            .segment = rnd_u64(DVG_SEGMENT_MAX),
            .volatile_count = rnd_u64(DVG_SEQ_MAX),
            .unix_us = rnd_u64(DVG_SEQ_MAX),
            .wanted = (uint8_t)(rnd() % (1 << DIVERGE_TIER_COUNT)),
        };
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
            sent.records[tier] = rnd_u64(DVG_SEQ_MAX);
            sent.dropped[tier] = rnd_u64(DVG_SEQ_MAX);
        }
        uint64_t seq = rnd_u64(DVG_SEQ_MAX);
        dvg_buffer_clear(out);
        assert_int_equal(dvg_end_encode(out, seq, &sent), 0);
        struct dvg_end got;
        assert_int_equal(dvg_end_decode(take_payload(out, DVG_MESSAGE_END, seq), &got), 0);
        SAME(segment);
        SAME(volatile_count);
        SAME(unix_us);
        SAME(wanted);
        assert_memory_equal(sent.records, got.records, sizeof(sent.records));
        assert_memory_equal(sent.dropped, got.dropped, sizeof(sent.dropped));

        struct dvg_bye bye = {.outcome = rnd() % 2, .dropped = rnd_u64(DVG_SEQ_MAX)};
        struct dvg_bye bye_got;
        dvg_buffer_clear(out);
        assert_int_equal(dvg_bye_encode(out, seq, &bye), 0);
        assert_int_equal(dvg_bye_decode(take_payload(out, DVG_MESSAGE_BYE, seq), &bye_got), 0);
        assert_int_equal(bye.outcome, bye_got.outcome);
        assert_true(bye.dropped == bye_got.dropped);
    }
}

static void answers_round_trip(void **state)
{
    struct dvg_buffer *out = *state;
    for (int i = 0; i < ROUNDS; i++) {
        struct dvg_error_message sent = {
            .status = -1 - (int32_t)(rnd() % 1000),
            .fatal = rnd() % 2,
            .text = rnd_text(40),
        };
        dvg_buffer_clear(out);
        assert_int_equal(dvg_error_encode(out, &sent), 0);
        struct dvg_error_message got;
        assert_int_equal(dvg_error_decode(take_payload(out, DVG_MESSAGE_ERROR, 0), &got), 0);
        SAME(status);
        SAME(fatal);
        SAME_BYTES(text);

        struct dvg_state read_only = {.read_only = rnd() % 2, .text = rnd_text(40)};
        struct dvg_state read_only_got;
        dvg_buffer_clear(out);
        assert_int_equal(dvg_state_encode(out, &read_only), 0);
        assert_int_equal(dvg_state_decode(take_payload(out, DVG_MESSAGE_STATE, 0), &read_only_got),
                         0);
        assert_int_equal(read_only.read_only, read_only_got.read_only);
        assert_same_bytes(read_only.text, read_only_got.text);

        struct dvg_ack ack = {.committed_seq = rnd_u64(DVG_SEQ_MAX)};
        struct dvg_ack ack_got;
        dvg_buffer_clear(out);
        assert_int_equal(dvg_ack_encode(out, &ack), 0);
        assert_int_equal(dvg_ack_decode(take_payload(out, DVG_MESSAGE_ACK, 0), &ack_got), 0);
        assert_true(ack.committed_seq == ack_got.committed_seq);
    }
}

static void metadata_and_control_round_trip(void **state)
{
    struct dvg_buffer *out = *state;
    struct dvg_metadata metadata = {.json = rnd_json()};
    struct dvg_metadata metadata_got;
    assert_int_equal(dvg_metadata_encode(out, 5, &metadata), 0);
    assert_int_equal(dvg_metadata_decode(take_payload(out, DVG_MESSAGE_METADATA, 5), &metadata_got),
                     0);
    assert_same_bytes(metadata.json, metadata_got.json);

    static const enum dvg_message types[] = {DVG_MESSAGE_CONTROL_REQUEST,
                                             DVG_MESSAGE_CONTROL_REPLY};
    for (int i = 0; i < 2; i++) {
        struct dvg_control sent = {.request = (uint32_t)rnd(), .json = rnd_json()};
        struct dvg_control got;
        dvg_buffer_clear(out);
        assert_int_equal(dvg_control_encode(out, types[i], &sent), 0);
        assert_int_equal(dvg_control_decode(take_payload(out, types[i], 0), &got), 0);
        SAME(request);
        SAME_BYTES(json);
    }
}

static void a_message_over_the_frame_cap_is_not_encoded(void **state)
{
    (void)state;
    struct dvg_buffer out;
    dvg_buffer_init(&out, SIZE_MAX);
    static uint8_t big[DVG_FRAME_MAX + 1];
    struct dvg_definitions message = {.count = 1, .items = {big, sizeof(big)}};
    assert_int_equal(dvg_definitions_encode(&out, DVG_MESSAGE_STRINGS, &message), DIVERGE_ELIMIT);
    message.items.size = DVG_FRAME_MAX; /* the field headers are too much */
    assert_int_equal(dvg_definitions_encode(&out, DVG_MESSAGE_STRINGS, &message), DIVERGE_ELIMIT);
    assert_int_equal(out.size, 0);
    dvg_buffer_fini(&out);
}

/* ---- every golden message, damaged ---- */

union any_message {
    struct dvg_hello hello;
    struct dvg_welcome welcome;
    struct dvg_definitions definitions;
    struct dvg_part part;
    struct dvg_end end;
    struct dvg_metadata metadata;
    struct dvg_bye bye;
    struct dvg_ack ack;
    struct dvg_error_message error;
    struct dvg_state state;
    struct dvg_control control;
};

static int decode_any(unsigned type, struct dvg_bytes payload)
{
    union any_message any;
    switch (type) {
    case DVG_MESSAGE_HELLO:
        return dvg_hello_decode(payload, &any.hello);
    case DVG_MESSAGE_WELCOME:
        return dvg_welcome_decode(payload, &any.welcome);
    case DVG_MESSAGE_PART:
        return dvg_part_decode(payload, &any.part);
    case DVG_MESSAGE_END:
        return dvg_end_decode(payload, &any.end);
    case DVG_MESSAGE_METADATA:
        return dvg_metadata_decode(payload, &any.metadata);
    case DVG_MESSAGE_BYE:
        return dvg_bye_decode(payload, &any.bye);
    case DVG_MESSAGE_ACK:
        return dvg_ack_decode(payload, &any.ack);
    case DVG_MESSAGE_ERROR:
        return dvg_error_decode(payload, &any.error);
    case DVG_MESSAGE_STATE:
        return dvg_state_decode(payload, &any.state);
    case DVG_MESSAGE_CONTROL_REQUEST:
    case DVG_MESSAGE_CONTROL_REPLY:
        return dvg_control_decode(payload, &any.control);
    default:
        return dvg_definitions_decode(payload, &any.definitions);
    }
}

/* A payload of its own size exactly, so that a sanitizer sees a byte read past it. */
static int decode_copy(unsigned type, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size)
        memcpy(copy, bytes, size);
    int rc = decode_any(type, (struct dvg_bytes){copy, size});
    free(copy);
    return rc;
}

/* Calls `check` with each golden message's payload. */
static void each_golden(void (*check)(unsigned type, const uint8_t *payload, size_t size))
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_FRAME_MAX);
    const char *title;
    for (unsigned i = 0; golden_frame(i, &out, &title); i++) {
        unsigned type = dvg_load_u16(out.data + 4);
        assert_int_equal(
            decode_copy(type, out.data + DVG_FRAME_HEADER, out.size - DVG_FRAME_HEADER), 0);
        check(type, out.data + DVG_FRAME_HEADER, out.size - DVG_FRAME_HEADER);
        dvg_buffer_clear(&out);
    }
    dvg_buffer_fini(&out);
}

static size_t field_span(const uint8_t *field)
{
    return 8 + ((dvg_load_u32(field + 4) + 7U) & ~7U);
}

static void check_cut(unsigned type, const uint8_t *payload, size_t size)
{
    for (size_t cut = 0; cut < size; cut++) {
        int rc = decode_copy(type, payload, cut);
        bool at_field = false;
        for (size_t at = 0; at < size; at += field_span(payload + at))
            at_field = at_field || at == cut;
        /*
         * A cut between fields can only be told when a required one, or one that fits to it, is
         * gone.
         */
        if (!at_field)
            assert_int_equal(rc, DIVERGE_EPROTO);
        else
            assert_true(rc <= 0);
    }
    assert_int_equal(decode_copy(type, payload, 0), DIVERGE_EPROTO);
}

static void truncated_payloads_are_refused(void **state)
{
    (void)state;
    each_golden(check_cut);
}

/* Inserts one more field behind the others. */
static int decode_with(unsigned type, const uint8_t *payload, size_t size, uint16_t id,
                       uint16_t flags, uint32_t length)
{
    uint8_t *grown = calloc(1, size + 32);
    memcpy(grown, payload, size);
    dvg_store_u16(grown + size, id);
    dvg_store_u16(grown + size + 2, flags);
    dvg_store_u32(grown + size + 4, length);
    int rc = decode_copy(type, grown, size + 8 + ((length + 7) & ~7U));
    free(grown);
    return rc;
}

static void check_unknown(unsigned type, const uint8_t *payload, size_t size)
{
    assert_int_equal(decode_with(type, payload, size, 999, 0, 0), 0);
    assert_int_equal(decode_with(type, payload, size, 999, 0, 11), 0);
    assert_int_equal(decode_with(type, payload, size, 999, 1, 11), DIVERGE_EUNSUPPORTED);
    assert_int_equal(decode_with(type, payload, size, 999, 2, 11), DIVERGE_EPROTO);
}

static void unknown_fields_are_skipped_unless_critical(void **state)
{
    (void)state;
    each_golden(check_unknown);
}

static void check_duplicate(unsigned type, const uint8_t *payload, size_t size)
{
    for (size_t at = 0; at < size; at += field_span(payload + at)) {
        size_t span = field_span(payload + at);
        uint8_t *grown = malloc(size + span);
        memcpy(grown, payload, size);
        memcpy(grown + size, payload + at, span);
        assert_int_equal(decode_copy(type, grown, size + span), DIVERGE_EPROTO);
        free(grown);
    }
}

static void duplicate_fields_are_refused(void **state)
{
    (void)state;
    each_golden(check_duplicate);
}

/* Moves the first field behind the others. */
static void check_order(unsigned type, const uint8_t *payload, size_t size)
{
    size_t span = field_span(payload);
    uint8_t *turned = malloc(size);
    memcpy(turned, payload + span, size - span);
    memcpy(turned + size - span, payload, span);
    assert_int_equal(decode_copy(type, turned, size), 0);
    free(turned);
}

static void fields_may_come_in_any_order(void **state)
{
    (void)state;
    each_golden(check_order);
}

static void check_required(unsigned type, const uint8_t *payload, size_t size)
{
    size_t span =
        field_span(payload); /* the first field of each message is required, but in definitions */
    if (type >= DVG_MESSAGE_STRINGS && type <= DVG_MESSAGE_ARGUMENTS)
        return;
    assert_int_equal(decode_copy(type, payload + span, size - span), DIVERGE_EPROTO);
}

static void missing_fields_are_refused(void **state)
{
    (void)state;
    each_golden(check_required);
}

static void check_padding(unsigned type, const uint8_t *payload, size_t size)
{
    uint8_t *copy = malloc(size);
    memcpy(copy, payload, size);
    for (size_t at = 0; at < size; at += field_span(payload + at)) {
        size_t end = at + 8 + dvg_load_u32(payload + at + 4);
        for (size_t pad = end; pad < at + field_span(payload + at); pad++) {
            copy[pad] = 1;
            assert_int_equal(decode_copy(type, copy, size), DIVERGE_EPROTO);
            copy[pad] = 0;
        }
    }
    free(copy);
}

static void padding_that_is_not_zero_is_refused(void **state)
{
    (void)state;
    each_golden(check_padding);
}

static void check_length(unsigned type, const uint8_t *payload, size_t size)
{
    uint8_t *copy = malloc(size);
    for (size_t at = 0; at < size; at += field_span(payload + at)) {
        static const uint32_t lengths[] = {UINT32_MAX, UINT32_MAX - 7, 0x80000000, 1 << 24};
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            memcpy(copy, payload, size);
            dvg_store_u32(copy + at + 4, lengths[i]);
            assert_int_equal(decode_copy(type, copy, size), DIVERGE_EPROTO);
        }
    }
    free(copy);
}

static void lengths_past_the_end_are_refused(void **state)
{
    (void)state;
    each_golden(check_length);
}

/* ---- values out of range ---- */

#define ENCODED(name, message)                                                                     \
    (dvg_buffer_clear(out), dvg_##name##_encode(out, &(message)),                                  \
     (struct dvg_bytes){out->data + DVG_FRAME_HEADER, out->size - DVG_FRAME_HEADER})

static struct dvg_hello good_hello(void)
{
    return (struct dvg_hello){
        .major = 1,
        .world = 1,
        .fingerprint_id = {(const uint8_t *)"l61.1", 5},
    };
}

static int hello_rc(struct dvg_buffer *out, const struct dvg_hello *hello)
{
    struct dvg_hello got;
    return dvg_hello_decode(ENCODED(hello, *hello), &got);
}

static void hello_out_of_range_is_refused(void **state)
{
    struct dvg_buffer *out = *state;
    struct dvg_hello hello = good_hello();
    assert_int_equal(hello_rc(out, &hello), 0);
    hello.level = DIVERGE_TIER_EVIDENCE; /* not a level */
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello = good_hello();
    hello.world = 0;
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello.world = DVG_RANKS_MAX + 1;
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello = good_hello();
    hello.rank = DVG_RANKS_MAX;
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello = good_hello();
    hello.epoch = UINT64_MAX;
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello = good_hello();
    hello.fingerprint_id.size = 0;
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello = good_hello();
    hello.run_name = (struct dvg_bytes){(const uint8_t *)"a\0b", 3};
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello.run_name = (struct dvg_bytes){(const uint8_t *)"\xff\xfe", 2};
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    static uint8_t huge[DVG_STRING_MAX + 1];
    memset(huge, 'n', sizeof(huge));
    hello.run_name = (struct dvg_bytes){huge, sizeof(huge)};
    assert_int_equal(hello_rc(out, &hello), DIVERGE_ELIMIT);
    hello.run_name.size--;
    assert_int_equal(hello_rc(out, &hello), 0);
}

static void another_major_version_is_said_before_other_faults(void **state)
{
    struct dvg_buffer *out = *state;
    struct dvg_hello hello = good_hello();
    hello.major = 2;
    hello.world = 0;
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EVERSION);
    /* Its other fields may be unknown to us, critical ones too. */
    struct dvg_bytes payload = ENCODED(hello, hello);
    assert_int_equal(decode_with(DVG_MESSAGE_HELLO, payload.data, payload.size, 77, 1, 4),
                     DIVERGE_EVERSION);
    hello.major = 0;
    assert_int_equal(hello_rc(out, &hello), DIVERGE_EPROTO);
    hello = good_hello();
    hello.minor = 9; /* a later minor version is accepted */
    assert_int_equal(hello_rc(out, &hello), 0);
}

static void answers_out_of_range_are_refused(void **state)
{
    struct dvg_buffer *out = *state;
    struct dvg_error_message error = {.status = 0};
    struct dvg_error_message error_got;
    assert_int_equal(dvg_error_decode(ENCODED(error, error), &error_got), DIVERGE_EPROTO);
    error.status = -1;
    error.fatal = 2;
    assert_int_equal(dvg_error_decode(ENCODED(error, error), &error_got), DIVERGE_EPROTO);
    struct dvg_state read_only = {.read_only = 2};
    struct dvg_state read_only_got;
    assert_int_equal(dvg_state_decode(ENCODED(state, read_only), &read_only_got), DIVERGE_EPROTO);
    struct dvg_ack ack = {.committed_seq = UINT64_MAX};
    assert_int_equal(dvg_ack_decode(ENCODED(ack, ack), &ack), DIVERGE_EPROTO);
}

static int end_rc(struct dvg_buffer *out, const struct dvg_end *end)
{
    struct dvg_end got;
    dvg_buffer_clear(out);
    assert_int_equal(dvg_end_encode(out, 1, end), 0);
    return dvg_end_decode(take_payload(out, DVG_MESSAGE_END, 1), &got);
}

static void end_and_bye_out_of_range_are_refused(void **state)
{
    struct dvg_buffer *out = *state;
    struct dvg_end end = {.segment = UINT64_MAX};
    assert_int_equal(end_rc(out, &end), DIVERGE_EPROTO);
    end = (struct dvg_end){.wanted = 1 << DIVERGE_TIER_COUNT};
    assert_int_equal(end_rc(out, &end), DIVERGE_EPROTO);
    end = (struct dvg_end){.records = {0, UINT64_MAX}};
    assert_int_equal(end_rc(out, &end), DIVERGE_EPROTO);
    end = (struct dvg_end){.dropped = {0, UINT64_MAX}};
    assert_int_equal(end_rc(out, &end), DIVERGE_EPROTO);
    struct dvg_bye bye = {.outcome = 2};
    dvg_buffer_clear(out);
    assert_int_equal(dvg_bye_encode(out, 1, &bye), 0);
    assert_int_equal(dvg_bye_decode(take_payload(out, DVG_MESSAGE_BYE, 1), &bye), DIVERGE_EPROTO);
}

static void definitions_that_cannot_be_are_refused(void **state)
{
    struct dvg_buffer *out = *state;
    static const uint8_t items[8];
    static const struct {
        uint32_t first;
        uint32_t count;
        size_t size;
        int rc;
    } cases[] = {
        {1, 2, 8, 0},
        {1, 0, 8, DIVERGE_EPROTO},
        {1, 3, 8, DIVERGE_EPROTO}, /* no item is that short */
        {UINT32_MAX, 1, 8, DIVERGE_EPROTO},
        {1, UINT32_MAX, 8, DIVERGE_EPROTO},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dvg_definitions message = {
            .first = cases[i].first,
            .count = cases[i].count,
            .items = {items, cases[i].size},
        };
        dvg_buffer_clear(out);
        assert_int_equal(dvg_definitions_encode(out, DVG_MESSAGE_SITES, &message), 0);
        struct dvg_definitions got;
        assert_int_equal(dvg_definitions_decode(take_payload(out, DVG_MESSAGE_SITES, 0), &got),
                         cases[i].rc);
    }
}

static void failed_decoders_leave_the_result_alone(void **state)
{
    (void)state;
    struct dvg_ack ack = {.committed_seq = 4711};
    assert_int_equal(dvg_ack_decode((struct dvg_bytes){0}, &ack), DIVERGE_EPROTO);
    assert_int_equal(ack.committed_seq, 4711);
}

static void messages_have_names(void **state)
{
    (void)state;
    assert_string_equal(dvg_message_name(DVG_MESSAGE_HELLO), "HELLO");
    assert_string_equal(dvg_message_name(DVG_MESSAGE_CONTROL_REPLY), "CONTROL_REPLY");
    assert_null(dvg_message_name(0));
    assert_null(dvg_message_name(16));
    assert_null(dvg_message_name(UINT16_MAX));
}

static int set_up(void **state)
{
    struct dvg_buffer *out = malloc(sizeof(*out));
    dvg_buffer_init(out, DVG_FRAME_MAX + 1024);
    *state = out;
    return 0;
}

static int tear_down(void **state)
{
    dvg_buffer_fini(*state);
    free(*state);
    return 0;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(hello_round_trips),
        CASE(welcome_round_trips),
        CASE(end_and_bye_round_trip),
        CASE(answers_round_trip),
        CASE(metadata_and_control_round_trip),
        CASE(a_message_over_the_frame_cap_is_not_encoded),
        CASE(truncated_payloads_are_refused),
        CASE(unknown_fields_are_skipped_unless_critical),
        CASE(duplicate_fields_are_refused),
        CASE(fields_may_come_in_any_order),
        CASE(missing_fields_are_refused),
        CASE(padding_that_is_not_zero_is_refused),
        CASE(lengths_past_the_end_are_refused),
        CASE(hello_out_of_range_is_refused),
        CASE(another_major_version_is_said_before_other_faults),
        CASE(answers_out_of_range_are_refused),
        CASE(end_and_bye_out_of_range_are_refused),
        CASE(definitions_that_cannot_be_are_refused),
        CASE(failed_decoders_leave_the_result_alone),
        CASE(messages_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
