/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking connection to the daemon: control requests, and replay of recorded frames. */
#ifndef CLIENT_CTL_PEER_H
#define CLIENT_CTL_PEER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/wire/buffer.h"
#include "client/wire/frame.h"

struct peer {
    int fd; /* owned; -1: closed */
    struct dvg_buffer in;
    size_t taken; /* bytes at the front of `in` that were given out already */
    uint32_t request;
};

/* EUNAVAIL when nobody listens; EPERM; ELIMIT (path too long). */
int peer_connect(struct peer *peer, const char *socket_path);
void peer_close(struct peer *peer); /* fine on a closed or zeroed-with-fd -1 one */

/*
 * Sends `bytes`; whole frames that arrive meanwhile are kept for peer_receive, so that neither side waits for the
 * other with full buffers. timeout_ms counts from the last progress; -1: none. EUNAVAIL: gone, EAGAIN: timeout.
 */
int peer_send(struct peer *peer, const void *bytes, size_t size, int timeout_ms);
/* The next frame, valid until the next call: 0, EAGAIN (timeout), EUNAVAIL (closed), EPROTO, ELIMIT. */
int peer_receive(struct peer *peer, struct dvg_frame *ret, int timeout_ms);

/*
 * One request of control.h and its reply. Takes `request`. 0 with *ret (the caller's, cJSON_Delete) when the reply says
 * ok, else the reply's status with its text in error[512].
 */
int peer_control(struct peer *peer, cJSON *request, int timeout_ms, cJSON **ret, char error[512]);

/* Numbers and texts of a reply; 0 and "" when missing or of another type. */
uint64_t peer_u64(const cJSON *object, const char *key);
const char *peer_text(const cJSON *object, const char *key);

#endif
