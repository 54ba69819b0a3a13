/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the daemon: a non-blocking Unix socket, what waits to be written, what has
 * come.
 *
 *     DOWN ── dvg_link_start ──▶ GREETING ── WELCOME ──▶ UP
 *      ▲                            │ refused, 1 s over    │ end, error
 *      └────────────────────────────┴──────────────────────┘
 *
 * After an end it tries again in 50 ms, then twice as long each time, up to 2 s.
 * Sender thread only, and diverge_session_open before that thread runs.
 */
#ifndef CLIENT_LIB_LINK_H
#define CLIENT_LIB_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/buffer.h"
#include "client/wire/frame.h"

enum dvg_link_state { DVG_LINK_DOWN, DVG_LINK_GREETING, DVG_LINK_UP };

struct dvg_link {
    const char *path; /* borrowed */
    int fd;           /* -1 when DOWN */
    enum dvg_link_state state;
    struct dvg_buffer in;
    size_t in_used; /* bytes of `in` that were handled */
    struct dvg_buffer out;
    size_t out_sent;
    uint64_t retry_ns; /* DOWN: when to try again */
    uint64_t backoff_ns;
    uint64_t deadline_ns; /* GREETING: when to give up */
};

void dvg_link_init(struct dvg_link *link, const char *path);
void dvg_link_fini(struct dvg_link *link);

/* Connects and queues HELLO: GREETING. EUNAVAIL: nobody listens there, EPERM: not allowed to; still
 * DOWN. */
int dvg_link_start(struct dvg_link *link, const struct dvg_hello *hello, uint64_t now_ns);
/* The connection is over; the next try comes after the back-off. */
void dvg_link_drop(struct dvg_link *link, uint64_t now_ns);
/* WELCOME came. */
void dvg_link_greeted(struct dvg_link *link);

static inline bool dvg_link_has_output(const struct dvg_link *link)
{
    return link->out_sent < link->out.size;
}

/* Writes what the socket takes of `out`: 0, or EUNAVAIL when the connection broke. */
int dvg_link_write(struct dvg_link *link);
/* Reads what is there: 0, or EUNAVAIL at the end of the stream, EPROTO when the peer sends too
 * much. */
int dvg_link_read(struct dvg_link *link);
/* The next whole frame that was read: 1, 0 none, or EPROTO, ELIMIT. Valid until the next read. */
int dvg_link_next(struct dvg_link *link, struct dvg_frame *ret);

#endif
