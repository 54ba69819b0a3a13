/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads recording and spool files: a file header, then frames with CRC (frame.h). Pure: the bytes
 * are the caller's, mapped or read, and stay in place while the reader and the frames it gave are
 * in use.
 *
 * Writers append, so a crash can leave the last frame incomplete (or zeros in its place): a torn
 * tail, where the file simply ends. A complete frame that does not check, or an incomplete one with
 * a whole frame behind it, was not left by a crash: that is corruption.
 */
#ifndef CLIENT_WIRE_RECORDING_H
#define CLIENT_WIRE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>

#include "client/wire/frame.h"

struct dvg_recording {
    struct dvg_bytes bytes; /* borrowed */
    size_t offset;          /* of the next frame; after ECORRUPT, of the one that is damaged */
    bool torn;              /* bytes from `offset` on are an incomplete frame */
};

/*
 * Whether the bytes begin as such a file: 0, EPROTO (something else), EVERSION (a format of later
 * years).
 */
int dvg_recording_init(struct dvg_recording *recording, struct dvg_bytes bytes);

/*
 * The next frame: 1 with *ret, 0 at the end (torn or not), ECORRUPT. Further calls repeat the
 * answer.
 */
int dvg_recording_next(struct dvg_recording *recording, struct dvg_frame *ret);

#endif
