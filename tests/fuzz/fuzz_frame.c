/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames one after the other, each payload through its decoder and through the item walkers. What
 * decodes is encoded and decoded again: both must succeed, and every borrowed byte must lie within
 * the input.
 */

#include <stdlib.h>

#include <diverge/error.h>

#include "client/wire/frame.h"
#include "client/wire/message.h"

static void require(int truth)
{
    if (!truth)
        abort();
}

static void walk_items(unsigned type, struct dvg_bytes items)
{
    struct dvg_bytes text;
    struct dvg_site site;
    struct dvg_type shape;
    struct dvg_argument argument;
    size_t before = items.size + 1;
    int more = 1;
    while (more == 1) {
        require(items.size < before);
        before = items.size;
        if (type == DVG_MESSAGE_STRINGS)
            more = dvg_string_next(&items, &text);
        else if (type == DVG_MESSAGE_SITES)
            more = dvg_site_next(&items, &site);
        else if (type == DVG_MESSAGE_TYPES)
            more = dvg_type_next(&items, &shape);
        else
            more = dvg_argument_next(&items, &argument);
    }
}

/* Reads all that a part lends, so that a sanitizer sees what lies outside. */
static void touch(struct dvg_bytes bytes)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < bytes.size; i++)
        sum = (uint8_t)(sum + bytes.data[i]);
}

static struct dvg_bytes payload_of(const struct dvg_buffer *out)
{
    struct dvg_frame frame;
    size_t size;
    struct dvg_bytes bytes = {.data = out->data, .size = out->size};
    require(dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size) == 1);
    return frame.payload;
}

#define AGAIN(name, S, ...)                                                                        \
    do {                                                                                           \
        struct S message;                                                                          \
        if (dvg_##name##_decode(payload, &message))                                                \
            break;                                                                                 \
        require(dvg_##name##_encode(out, __VA_ARGS__) == 0);                                       \
        require(dvg_##name##_decode(payload_of(out), &message) == 0);                              \
    } while (0)

static void decode_part(struct dvg_bytes payload, struct dvg_buffer *out)
{
    struct dvg_part part;
    if (dvg_part_decode(payload, &part))
        return;
    touch(part.site_runs);
    touch(part.nonfinite);
    touch(part.sketches);
    for (int i = 0; i < DVG_COLUMN_COUNT; i++)
        touch(part.columns[i]);
    AGAIN(part, dvg_part, 1, &message);
}

static void decode_payload(unsigned type, struct dvg_bytes payload, struct dvg_buffer *out)
{
    switch (type) {
    case DVG_MESSAGE_HELLO:
        AGAIN(hello, dvg_hello, &message);
        break;
    case DVG_MESSAGE_WELCOME:
        AGAIN(welcome, dvg_welcome, &message);
        break;
    case DVG_MESSAGE_PART:
        decode_part(payload, out);
        break;
    case DVG_MESSAGE_END:
        AGAIN(end, dvg_end, 1, &message);
        break;
    case DVG_MESSAGE_METADATA:
        AGAIN(metadata, dvg_metadata, 1, &message);
        break;
    case DVG_MESSAGE_BYE:
        AGAIN(bye, dvg_bye, 1, &message);
        break;
    case DVG_MESSAGE_ACK:
        AGAIN(ack, dvg_ack, &message);
        break;
    case DVG_MESSAGE_ERROR:
        AGAIN(error, dvg_error_message, &message);
        break;
    case DVG_MESSAGE_STATE:
        AGAIN(state, dvg_state, &message);
        break;
    case DVG_MESSAGE_CONTROL_REQUEST:
    case DVG_MESSAGE_CONTROL_REPLY:
        AGAIN(control, dvg_control, (enum dvg_message)type, &message);
        break;
    default: {
        struct dvg_definitions message;
        if (!dvg_definitions_decode(payload, &message))
            walk_items(type, message.items);
        break;
    }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, 2 * DVG_FRAME_MAX);
    struct dvg_bytes rest = {.data = data, .size = size};
    struct dvg_frame frame;
    size_t whole;
    while (dvg_frame_decode(rest, DVG_FRAME_MAX, &frame, &whole) == 1) {
        dvg_buffer_clear(&out);
        decode_payload(frame.type, frame.payload, &out);
        rest.data += whole;
        rest.size -= whole;
    }
    dvg_buffer_fini(&out);
    return 0;
}
