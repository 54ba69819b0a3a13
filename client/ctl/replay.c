/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/replay.h"

#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/peer.h"
#include "client/ctl/progress.h"
#include "client/wire/recording.h"

enum {
    HANDSHAKE_MS = 30000,
    FOREVER = -1, /* a full disk makes the daemon wait; ^C is the way out */
};

struct replay {
    const char *socket_path;
    struct peer peer; /* fd -1: between streams */
    uint64_t committed;
    uint64_t sent; /* last sequence number sent */
    uint32_t max_frame;
    bool ended; /* the stream said BYE */
    bool told;  /* that the daemon's disk is full */
    struct replay_result *result;
};

static const uint8_t *sequenced(uint16_t type)
{
    static const uint8_t table[] = {
#define X(number, NAME, name, direction, is_sequenced) [number] = is_sequenced,
        DVG_MESSAGES(X)
#undef X
    };

    return type < sizeof(table) ? &table[type] : NULL;
}

static void keep_text(struct replay_result *result, struct dvg_bytes text)
{
    size_t size = text.size < sizeof(result->error) ? text.size : sizeof(result->error) - 1;

    memcpy(result->error, text.data, size);
    result->error[size] = '\0';
}

/* What the daemon said: 0, or the status of its ERROR. */
static int handle(struct replay *replay, const struct dvg_frame *frame)
{
    struct dvg_ack ack;
    struct dvg_error_message error;
    struct dvg_state state;

    switch (frame->type) {
    case DVG_MESSAGE_ACK:
        if (dvg_ack_decode(frame->payload, &ack))
            return DIVERGE_EPROTO;
        replay->committed = ack.committed_seq;
        return 0;
    case DVG_MESSAGE_ERROR:
        if (dvg_error_decode(frame->payload, &error) || error.status >= 0)
            return DIVERGE_EPROTO;
        keep_text(replay->result, error.text);
        return error.status;
    case DVG_MESSAGE_STATE:
        if (dvg_state_decode(frame->payload, &state))
            return DIVERGE_EPROTO;
        if (state.read_only && !replay->told)
            ctl_note("the store's disk is full: waiting until there is space");
        replay->told = state.read_only;
        return 0;
    default:
        return DIVERGE_EPROTO;
    }
}

/* Handles what has arrived. After a failed send too: the daemon says why before it closes. */
static int drain(struct replay *replay, int timeout_ms)
{
    struct dvg_frame frame;
    int status;

    while ((status = peer_receive(&replay->peer, &frame, timeout_ms)) == 0) {
        status = handle(replay, &frame);
        if (status)
            return status;
        timeout_ms = 0;
    }
    return status == DIVERGE_EAGAIN ? 0 : status;
}

static int send_bytes(struct replay *replay, const void *bytes, size_t size)
{
    int status = peer_send(&replay->peer, bytes, size, FOREVER);
    int heard = drain(replay, 0);

    return heard ? heard : status;
}

static int finish_stream(struct replay *replay)
{
    int status = 0;

    while (!status && replay->committed < replay->sent)
        status = drain(replay, FOREVER);
    if (!status)
        peer_finish(&replay->peer, HANDSHAKE_MS);
    peer_close(&replay->peer);
    if (!status && !replay->ended)
        replay->result->complete = false;
    return status;
}

static int welcome(struct replay *replay, const struct dvg_frame *frame)
{
    struct dvg_welcome message;
    int size;

    if (frame->type != DVG_MESSAGE_WELCOME) {
        int status = handle(replay, frame);

        return status ? status : DIVERGE_EPROTO;
    }
    if (dvg_welcome_decode(frame->payload, &message))
        return DIVERGE_EPROTO;
    replay->committed = message.committed_seq;
    replay->max_frame = message.max_frame;
    memcpy(replay->result->run_id, message.run_id, sizeof(message.run_id));
    size = (int)(message.run_name.size < 127 ? message.run_name.size : 127);
    snprintf(replay->result->run_name, sizeof(replay->result->run_name), "%.*s", size,
             (const char *)message.run_name.data);
    return 0;
}

static int begin_stream(struct replay *replay, const void *hello, size_t size)
{
    struct dvg_frame frame;
    int status = peer_connect(&replay->peer, replay->socket_path);

    if (status)
        return status;
    replay->committed = replay->sent = 0;
    replay->ended = false;
    replay->result->streams++;
    status = peer_send(&replay->peer, hello, size, HANDSHAKE_MS);
    if (!status)
        status = peer_receive(&replay->peer, &frame, HANDSHAKE_MS);
    return status ? status : welcome(replay, &frame);
}

static int take_frame(struct replay *replay, const struct dvg_frame *frame, const uint8_t *whole,
                      size_t size)
{
    const uint8_t *is_sequenced = sequenced(frame->type);

    replay->result->frames++;
    if (frame->type == DVG_MESSAGE_HELLO) {
        int status = replay->peer.fd >= 0 ? finish_stream(replay) : 0;

        return status ? status : begin_stream(replay, whole, size);
    }
    if (replay->peer.fd < 0 || !is_sequenced)
        return DIVERGE_EPROTO;
    if (frame->payload.size > replay->max_frame)
        return DIVERGE_ELIMIT;
    if (*is_sequenced && frame->type == DVG_MESSAGE_BYE)
        replay->ended = true;
    if (*is_sequenced) {
        replay->sent = frame->seq;
        if (frame->seq <= replay->committed) {
            replay->result->repeated++;
            return 0;
        }
    }
    return send_bytes(replay, whole, size);
}

int replay_file(const char *socket_path, struct dvg_bytes file, struct replay_result *ret)
{
    struct replay replay = {.socket_path = socket_path, .peer = {.fd = -1}, .result = ret};
    struct dvg_recording recording = {0};
    struct dvg_frame frame;
    int more = 0;

    *ret = (struct replay_result){.complete = true};
    int status = dvg_recording_init(&recording, file);

    while (!status) {
        size_t from = recording.offset;

        more = dvg_recording_next(&recording, &frame);
        if (more <= 0)
            break;
        status = take_frame(&replay, &frame, file.data + from, recording.offset - from);
        progress_update(recording.offset, file.size);
    }
    if (!status && replay.peer.fd >= 0)
        status = finish_stream(&replay); /* what stands before damage is kept */
    peer_close(&replay.peer);
    ret->torn = recording.torn;
    if (!status && more < 0) {
        snprintf(ret->error, sizeof(ret->error),
                 "damaged at byte %zu; what stands before it was "
                 "taken",
                 recording.offset);
        status = more;
    }
    return status;
}
