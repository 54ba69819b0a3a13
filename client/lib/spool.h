/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of frames (client/wire/frame.h): where data waits while no daemon takes it, and the
 * recording of a session without a daemon. It stands alone: HELLO, then data frames with every
 * definition before its use.
 *
 * Sender only. A failed write leaves the file as it was.
 */
#ifndef CLIENT_LIB_SPOOL_H
#define CLIENT_LIB_SPOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/lib/define.h"
#include "client/wire/frame.h"

struct dvg_spool {
    char path[PATH_MAX];
    int fd;         /* -1: there is no file */
    uint64_t cap;   /* bytes of the file, 0: none */
    uint64_t size;  /* of the file */
    uint64_t first; /* sequence numbers in it; first > last: none */
    uint64_t last;
    uint64_t read_at; /* offset of the next frame to read back */
    struct dvg_define *define;
    struct dvg_cursor cursor;  /* definitions in the file */
    struct dvg_buffer scratch; /* frames on their way into the file */
};

void dvg_spool_init(struct dvg_spool *spool, struct dvg_define *define, uint64_t cap);
void dvg_spool_fini(struct dvg_spool *spool); /* closes the file, keeps it */

/*
 * Starts the file, 0600, which must not exist, with HELLO; EIO, EEXIST, EPERM with errno set. Takes
 * the process registry's lock, since a fork must not happen between open and noting the descriptor.
 */
int dvg_spool_create(struct dvg_spool *spool, const struct dvg_hello *hello);
/* Appends a sequenced frame, with what it needs defined: 0, EFULL (cap or disk), EIO, ENOMEM. */
int dvg_spool_append(struct dvg_spool *spool, const uint8_t *frame, size_t size, uint64_t seq);
/*
 * Reads the next frame with a number above `after` into `out` (appended), or 0 when there is none;
 * 1 with *ret_seq; EIO, ECORRUPT.
 */
int dvg_spool_read(struct dvg_spool *spool, uint64_t after, struct dvg_buffer *out,
                   uint64_t *ret_seq);
/* Reading begins at the front again. */
void dvg_spool_rewind(struct dvg_spool *spool);
/* Closes the file and removes it. */
void dvg_spool_remove(struct dvg_spool *spool);
int dvg_spool_sync(struct dvg_spool *spool);

#endif
