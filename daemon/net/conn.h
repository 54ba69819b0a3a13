/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: cuts its bytes into frames, knows its phase, hands whole frames to the writer.
 * What frames mean is decided there (daemon/proto). Loop thread.
 *
 *     FIRST ──HELLO──────────▶ PRODUCER ──┐
 *       │ └──CONTROL_REQUEST─▶ CONTROL ───┼─ refused, or told to ─▶ CLOSING ─▶ GONE
 *       └────time over, anything else─────┘              (output left, or time over)
 *
 *   any phase: the peer closes or cannot be written to ▶ GONE. The memory goes when the socket is
 *   closed, the timer is, and the writer let go of the link.
 */
#ifndef DAEMON_NET_CONN_H
#define DAEMON_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/net/config.h"
#include "daemon/net/log.h"
#include "daemon/net/queue.h"
#include "daemon/net/transport.h"

enum conn_phase {
    CONN_FIRST,
    CONN_PRODUCER,
    CONN_CONTROL,
    CONN_CLOSING,
    CONN_GONE,
};

struct conn;

/* May the connection say what it is for? */
enum conn_place {
    CONN_PLACE_FREE,
    CONN_PLACE_CONTROL, /* only requests: the daemon is full of other connections */
    CONN_PLACE_NONE,
};

/* What connections need of their owner. */
struct conn_host {
    void *context;
    const struct config *config;
    struct transport_budget *budget; /* of all connections */
    /* Takes the batch; counts its bytes as pending. May pause the connection. */
    void (*push)(void *context, struct conn *conn, struct batch *batch);
    /* The last call for this connection: the owner frees it with conn_free. */
    void (*gone)(void *context, struct conn *conn);
    /* Where lines about this peer are counted. */
    struct log_limit *(*log_limit)(void *context, struct conn *conn);
};

struct conn {
    struct transport transport;
    uv_timer_t timer;             /* of the handshake, later of closing */
    const struct conn_host *host; /* borrowed */
    struct link link;
    struct batch *closed_batch; /* made beforehand, so that closing cannot fail */
    enum conn_phase phase;
    enum conn_place place;
    int handles;         /* open uv handles */
    bool at_writer;      /* the writer knows the link */
    bool writer_is_gone; /* nobody will answer any more */
    bool paused;         /* by back-pressure */
    size_t pending;      /* bytes the writer has not done with */
    struct conn *next_paused;
};

/* NULL: no memory. `host` outlives it. */
struct conn *conn_new(const struct conn_host *host, uv_loop_t *loop, uint64_t id);

/* Then one of these two, once. A failure or a refusal has the connection closed: `gone` follows in
 * any case. */
void conn_accept(struct conn *conn, uv_stream_t *listener, enum conn_place place);
void conn_adopt(struct conn *conn, int fd);

/* Sends whole frames; `close`: and nothing after them. */
void conn_send(struct conn *conn, const void *data, size_t size, bool close);
/* Sends an ERROR with this text, then closes. */
void conn_refuse(struct conn *conn, int status, const char *text);
/* Closes when the output has left. */
void conn_close(struct conn *conn);

/* Back-pressure. */
void conn_pause(struct conn *conn);
void conn_resume(struct conn *conn);

/* The writer let go of the link, or (all == true) has ended. */
void conn_let_go(struct conn *conn, bool writer_ended);

/* Only from `gone`. */
void conn_free(struct conn *conn);

#endif
