/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame header: 32 bytes, little endian.
 *
 *   0  u32 magic "DVG1"     4  u16 type        6  u16 flags (bit 0: crc is set; others 0)
 *   8  u32 payload length  12  u32 crc32c of header bytes 0..11, 16..31 and the payload, or 0
 *  16  u64 sequence number 24  u64 reserved, 0
 *
 * Sockets leave the CRC out; files (spool, recording) carry it.
 */
#ifndef CLIENT_WIRE_FRAME_H
#define CLIENT_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "client/wire/message.h"

enum {
    DVG_FRAME_HEADER = 32,
    DVG_FRAME_CRC = 1,
    /* Payload caps by phase: before WELCOME, after it. */
    DVG_HELLO_MAX = 8 * 1024,
    DVG_FRAME_MAX = 4 * 1024 * 1024,
    DVG_CONTROL_MAX = 1024 * 1024,
};
#define DVG_FRAME_MAGIC UINT32_C(0x31475644)

struct dvg_frame {
    uint16_t type;
    uint16_t flags;
    uint32_t crc;
    uint64_t seq;
    struct dvg_bytes payload; /* borrowed */
};

/*
 * Looks at the start of `bytes`: 1 with *ret and *ret_size (whole frame) when a whole frame is
 * there, 0 when more bytes are needed (*ret_size: how many in all, when the header is there, else
 * DVG_FRAME_HEADER), or EPROTO (magic, flags, reserved, crc), ELIMIT (payload longer than
 * max_payload).
 */
int dvg_frame_decode(struct dvg_bytes bytes, size_t max_payload, struct dvg_frame *ret,
                     size_t *ret_size);

/* Sets the CRC of the frame that starts at `frame` (header and payload, `size` bytes in all). */
void dvg_frame_set_crc(uint8_t *frame, size_t size);
/* Sets the sequence number of the frame that starts at `frame`; takes its CRC off. */
void dvg_frame_set_seq(uint8_t *frame, uint64_t seq);

uint32_t dvg_crc32c(uint32_t crc, const void *bytes, size_t size);

/*
 * Recording and spool files: 16-byte file header "DVGREC\0\1" + u64 reserved, then frames with CRC,
 * beginning with HELLO; definitions come before their use. A torn last frame is the end of the
 * file.
 */
enum { DVG_FILE_HEADER = 16 };
extern const uint8_t dvg_file_header[DVG_FILE_HEADER]; /* recording.h reads such files */

#endif
