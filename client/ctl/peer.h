/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blocking connection to the daemon that sends and receives frames; replay.h sends recordings
 * over it.
 */
#ifndef CLIENT_CTL_PEER_H
#define CLIENT_CTL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/buffer.h"
#include "client/wire/frame.h"

struct peer {
    int fd; /* owned; -1: closed */
    struct dvg_buffer in;
    size_t taken; /* bytes at the front of `in` that were given out already */
};

/* EUNAVAIL when nobody listens; EPERM; ELIMIT (path too long). */
int peer_connect(struct peer *peer, const char *socket_path);
/* Says that no more is sent, and waits until the daemon closes its end too. */
void peer_finish(struct peer *peer, int timeout_ms);
void peer_close(struct peer *peer); /* fine on a closed or zeroed-with-fd -1 one */

/*
 * Sends `bytes`; whole frames that arrive meanwhile are kept for peer_receive, so that neither side
 * waits for the other with full buffers. timeout_ms counts from the last progress; -1: none.
 * EUNAVAIL: gone, EAGAIN: timeout.
 */
int peer_send(struct peer *peer, const void *bytes, size_t size, int timeout_ms);
/*
 * The next frame, valid until the next call: 0, EAGAIN (timeout), EUNAVAIL (closed), EPROTO,
 * ELIMIT.
 */
int peer_receive(struct peer *peer, struct dvg_frame *ret, int timeout_ms);

#endif
