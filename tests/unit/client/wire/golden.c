/* SPDX-License-Identifier: Apache-2.0 */

#include "tests/unit/client/wire/golden.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/frame.h"
#include "client/wire/message.h"

static struct dvg_bytes text(const char *s)
{
    return (struct dvg_bytes){.data = (const uint8_t *)s, .size = strlen(s)};
}

static void must(int rc)
{
    if (rc) {
        fprintf(stderr, "golden: an encoder failed with %d\n", rc);
        abort();
    }
}

static void hello(struct dvg_buffer *out)
{
    struct dvg_hello message = {
        .major = 1,
        .minor = 0,
        .epoch = 1,
        .rank = 0,
        .world = 1,
        .level = DIVERGE_TIER_OP,
        .next_seq = 1,
        .run_name = text("digits"),
        .fingerprint_id = text("l61.1"),
        .client = text("example 1.0"),
    };
    for (uint8_t i = 0; i < 16; i++) {
        message.stream_id[i] = (uint8_t)(0x10 + i);
        message.run_id[i] = (uint8_t)(0xa0 + i);
    }
    must(dvg_hello_encode(out, &message));
}

static void welcome(struct dvg_buffer *out)
{
    struct dvg_welcome message = {
        .major = 1,
        .minor = 0,
        .committed_seq = 0,
        .max_frame = DVG_FRAME_MAX,
        .max_segment_records = 16 << 20,
        .run_name = text("digits.2"),
    };
    for (uint8_t i = 0; i < 16; i++)
        message.run_id[i] = (uint8_t)(0xa0 + i);
    must(dvg_welcome_encode(out, &message));
}

static void define(struct dvg_buffer *out, enum dvg_message type, uint32_t first, uint32_t count,
                   struct dvg_buffer *items)
{
    const struct dvg_definitions message = {
        .first = first,
        .count = count,
        .items = {.data = items->data, .size = items->size},
    };
    must(dvg_definitions_encode(out, type, &message));
    dvg_buffer_fini(items);
}

static void strings(struct dvg_buffer *out)
{
    struct dvg_buffer items;
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    must(dvg_string_pack(&items, text("main")));
    must(dvg_string_pack(&items, text("fc1")));
    must(dvg_string_pack(&items, text("linear")));
    must(dvg_string_pack(&items, text("train.c:88")));
    define(out, DVG_MESSAGE_STRINGS, 1, 4, &items);
}

static void sites(struct dvg_buffer *out)
{
    const struct dvg_site input = {
        .tier = DIVERGE_TIER_OP,
        .phase = DIVERGE_PHASE_FORWARD,
        .role = DIVERGE_ROLE_INPUT,
        .lane = 1,
        .scope = 2,
        .op = 3,
        .source = 4,
    };
    struct dvg_site output = input;
    output.role = DIVERGE_ROLE_OUTPUT;
    output.flags = DIVERGE_FLAG_INPLACE;
    struct dvg_buffer items;
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    must(dvg_site_pack(&items, &input));
    must(dvg_site_pack(&items, &output));
    define(out, DVG_MESSAGE_SITES, 1, 2, &items);
}

static void types(struct dvg_buffer *out)
{
    uint8_t sizes[16];
    dvg_store_u64(sizes, 32);
    dvg_store_u64(sizes + 8, 64);
    uint8_t global[16];
    dvg_store_u64(global, 64);
    dvg_store_u64(global + 8, 64);
    uint8_t extent[16];
    dvg_store_u64(extent, 2048);
    dvg_store_u64(extent + 8, 2048);
    const struct dvg_type whole = {
        .kind = DIVERGE_KIND_TENSOR,
        .dtype = DIVERGE_F32,
        .ndim = 2,
        .sizes = sizes,
    };
    const struct dvg_type shard = {
        .kind = DIVERGE_KIND_TENSOR,
        .dtype = DIVERGE_BF16,
        .ndim = 2,
        .placement = DIVERGE_PLACEMENT_SHARD,
        .n_extents = 1,
        .sizes = sizes,
        .global_ndim = 2,
        .global_sizes = global,
        .extents = extent,
    };
    struct dvg_buffer items;
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    must(dvg_type_pack(&items, &whole));
    must(dvg_type_pack(&items, &shard));
    define(out, DVG_MESSAGE_TYPES, 1, 2, &items);
}

static void arguments(struct dvg_buffer *out)
{
    struct dvg_buffer items;
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    const struct dvg_argument argument = {
        .digest = UINT64_C(0x1122334455667788),
        .text = text("bias=true"),
    };
    must(dvg_argument_pack(&items, &argument));
    define(out, DVG_MESSAGE_ARGUMENTS, 0, 1, &items);
}

/* Two records of step 0: the input shares its columns' single values where it can. */
static void part(struct dvg_buffer *out)
{
    static const uint32_t runs[2] = {1, 2};
    static const uint64_t values[2] = {UINT64_C(0x09c4ab37f20155e1), UINT64_C(0x17130f92cc4e8a0a)};
    static const uint32_t type[2] = {1, 2};
    static const uint64_t argument = UINT64_C(0x1122334455667788);
    static const uint8_t state[2] = {
        DVG_STATE_INHERITED,
        DVG_STATE_STATS | DVG_STATE_RANGE | DVG_STATE_SUM | DVG_STATE_L2 | DVG_STATE_NONFINITE,
    };
    static const uint32_t order[2] = {0, 1};
    static const float l2[2] = {0, 2.5F};
    uint8_t nonfinite[32] = {0};
    dvg_store_u32(nonfinite, 1);
    dvg_store_u64(nonfinite + 8, 3);
    struct dvg_part message = {
        .segment = 2,
        .tier = DIVERGE_TIER_OP,
        .lane = 1,
        .count = 2,
        .site_runs = {(const uint8_t *)runs, sizeof(runs)},
        .nonfinite = {nonfinite, sizeof(nonfinite)},
    };
    message.columns[DVG_COLUMN_VALUE] = (struct dvg_bytes){(const uint8_t *)values, sizeof(values)};
    message.columns[DVG_COLUMN_TYPE] = (struct dvg_bytes){(const uint8_t *)type, sizeof(type)};
    message.columns[DVG_COLUMN_ARGUMENT] =
        (struct dvg_bytes){(const uint8_t *)&argument, sizeof(argument)};
    message.columns[DVG_COLUMN_STATE] = (struct dvg_bytes){state, sizeof(state)};
    message.columns[DVG_COLUMN_ORDER] = (struct dvg_bytes){(const uint8_t *)order, sizeof(order)};
    message.columns[DVG_COLUMN_L2] = (struct dvg_bytes){(const uint8_t *)l2, sizeof(l2)};
    must(dvg_part_encode(out, 2, &message));
}

static void end(struct dvg_buffer *out)
{
    const struct dvg_end message = {
        .segment = 2,
        .records = {0, 0, 0, 2, 0},
        .unix_us = UINT64_C(1764500000000000),
        .wanted = 1 << DIVERGE_TIER_OP,
    };
    must(dvg_end_encode(out, 3, &message));
}

static void metadata(struct dvg_buffer *out)
{
    const struct dvg_metadata message = {.json =
                                             text("{\"torch.version\":\"2.5.1\",\"seed\":\"7\"}")};
    must(dvg_metadata_encode(out, 1, &message));
}

static void bye(struct dvg_buffer *out)
{
    const struct dvg_bye message = {.outcome = DIVERGE_OUTCOME_COMPLETE};
    must(dvg_bye_encode(out, 4, &message));
}

static void ack(struct dvg_buffer *out)
{
    must(dvg_ack_encode(out, &(struct dvg_ack){.committed_seq = 4}));
}

static void error(struct dvg_buffer *out)
{
    const struct dvg_error_message message = {
        .status = -20,
        .fatal = 1,
        .text = text("sequence number 9 where 5 comes next; connect again and send from there"),
    };
    must(dvg_error_encode(out, &message));
}

static void state(struct dvg_buffer *out)
{
    const struct dvg_state message = {
        .read_only = 1,
        .text = text("the store's disk is full: free space, or run divergectl gc; keep what is not "
                     "acknowledged"),
    };
    must(dvg_state_encode(out, &message));
}

static void request(struct dvg_buffer *out)
{
    const struct dvg_control message = {
        .request = 7,
        .json = text("{\"command\":\"pin\",\"run\":12}"),
    };
    must(dvg_control_encode(out, DVG_MESSAGE_CONTROL_REQUEST, &message));
}

static void reply(struct dvg_buffer *out)
{
    const struct dvg_control message = {.request = 7, .json = text("{\"ok\":true}")};
    must(dvg_control_encode(out, DVG_MESSAGE_CONTROL_REPLY, &message));
}

static const struct {
    const char *title;
    void (*write)(struct dvg_buffer *out);
    bool recorded;
} conversation[] = {
    {"producer: HELLO", hello, true},
    {"daemon: WELCOME", welcome, false},
    {"producer: METADATA, sequence number 1", metadata, true},
    {"producer: STRINGS 1 to 4", strings, true},
    {"producer: SITES 1 and 2", sites, true},
    {"producer: TYPES 1 and 2", types, true},
    {"producer: ARGUMENTS", arguments, true},
    {"producer: PART, sequence number 2", part, true},
    {"producer: END, sequence number 3", end, true},
    {"producer: BYE, sequence number 4", bye, true},
    {"daemon: ACK through 4", ack, false},
    {"daemon, instead: ERROR", error, false},
    {"daemon, when its disk is full: STATE", state, false},
    {"control: CONTROL_REQUEST", request, false},
    {"daemon: CONTROL_REPLY", reply, false},
};

bool golden_frame(unsigned index, struct dvg_buffer *out, const char **ret_title)
{
    if (index >= sizeof(conversation) / sizeof(conversation[0]))
        return false;
    conversation[index].write(out);
    *ret_title = conversation[index].title;
    return true;
}

void golden_recording(struct dvg_buffer *out)
{
    must(dvg_buffer_append(out, dvg_file_header, DVG_FILE_HEADER));
    for (size_t i = 0; i < sizeof(conversation) / sizeof(conversation[0]); i++) {
        if (!conversation[i].recorded)
            continue;
        size_t at = out->size;
        conversation[i].write(out);
        dvg_frame_set_crc(out->data + at, out->size - at);
    }
}

static void append_line(struct dvg_buffer *out, const uint8_t *bytes, size_t offset, size_t size)
{
    char line[80];
    int at = snprintf(line, sizeof(line), "%04zx ", offset);
    for (size_t i = 0; i < size; i++)
        at += snprintf(line + at, sizeof(line) - (size_t)at, i == 8 ? "  %02x" : " %02x", bytes[i]);
    line[at++] = '\n';
    must(dvg_buffer_append(out, line, (size_t)at));
}

void golden_text(struct dvg_buffer *out)
{
    struct dvg_buffer frame;
    dvg_buffer_init(&frame, DVG_FRAME_MAX);
    const char *title;
    for (unsigned i = 0; golden_frame(i, &frame, &title); i++) {
        must(dvg_buffer_append(out, "# ", 2));
        must(dvg_buffer_append(out, title, strlen(title)));
        must(dvg_buffer_append(out, "\n", 1));
        for (size_t at = 0; at < frame.size; at += 16)
            append_line(out, frame.data + at, at, frame.size - at < 16 ? frame.size - at : 16);
        dvg_buffer_clear(&frame);
    }
    dvg_buffer_fini(&frame);
}
