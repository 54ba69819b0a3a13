/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection that divergectl uses: a request is JSON text, so is the reply. Not part of
 * the exported library. One connection, one thread; calls block up to their timeout.
 */
#ifndef CLIENT_LIB_CONTROL_H
#define CLIENT_LIB_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "client/wire/buffer.h"

struct dvg_control_link {
    int fd;
    uint32_t request; /* number of the last request */
    struct dvg_buffer in;
    size_t in_used;
};

/* EUNAVAIL: nobody listens at `path`; EPERM; EINVAL: the path is longer than a socket's can be. */
int dvg_control_open(struct dvg_control_link *link, const char *path);
void dvg_control_close(struct dvg_control_link *link);

/*
 * Sends `json` (size bytes) and waits for the reply: *ret borrows it until the next call (not
 * NUL-terminated). EAGAIN: none within `timeout_ms` (the connection can still be used), EUNAVAIL:
 * the daemon went away, EPROTO, or the status of the daemon's ERROR message.
 */
int dvg_control_call(struct dvg_control_link *link, const char *json, size_t size, int timeout_ms,
                     const char **ret, size_t *ret_size);

#endif
