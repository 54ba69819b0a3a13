/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/frame.h"

#include <assert.h>
#include <string.h>

#include <diverge/error.h>

/* Offsets of the header's fields; frame.h draws it. */
enum {
    AT_MAGIC = 0,
    AT_TYPE = 4,
    AT_FLAGS = 6,
    AT_LENGTH = 8,
    AT_CRC = 12,
    AT_SEQ = 16,
    AT_RESERVED = 24,
};

const uint8_t dvg_file_header[DVG_FILE_HEADER] = {'D', 'V', 'G', 'R', 'E', 'C', 0, 1};

static uint32_t frame_crc(const uint8_t *header, const uint8_t *payload, size_t size)
{
    uint32_t crc = dvg_crc32c(0, header, AT_CRC);
    crc = dvg_crc32c(crc, header + AT_SEQ, DVG_FRAME_HEADER - AT_SEQ);
    return dvg_crc32c(crc, payload, size);
}

/* Checks what stands in a header by itself. */
static int check_header(const uint8_t *header)
{
    uint16_t flags = dvg_load_u16(header + AT_FLAGS);
    if (dvg_load_u32(header + AT_MAGIC) != DVG_FRAME_MAGIC)
        return DIVERGE_EPROTO;
    if (flags & ~DVG_FRAME_CRC)
        return DIVERGE_EPROTO;
    if (!(flags & DVG_FRAME_CRC) && dvg_load_u32(header + AT_CRC))
        return DIVERGE_EPROTO;
    if (dvg_load_u64(header + AT_RESERVED))
        return DIVERGE_EPROTO;
    return 0;
}

/*
 * A peer that speaks something else is refused at its first bytes, not when 32 of them are there.
 */
static int check_magic(struct dvg_bytes bytes)
{
    static const uint8_t magic[4] = {'D', 'V', 'G', '1'};
    size_t size = bytes.size < sizeof(magic) ? bytes.size : sizeof(magic);
    return size && memcmp(bytes.data, magic, size) ? DIVERGE_EPROTO : 0;
}

int dvg_frame_decode(struct dvg_bytes bytes, size_t max_payload, struct dvg_frame *ret,
                     size_t *ret_size)
{
    int rc = check_magic(bytes);
    if (rc)
        return rc;
    if (bytes.size < DVG_FRAME_HEADER) {
        *ret_size = DVG_FRAME_HEADER;
        return 0;
    }
    rc = check_header(bytes.data);
    if (rc)
        return rc;
    uint32_t length = dvg_load_u32(bytes.data + AT_LENGTH);
    if (length > max_payload)
        return DIVERGE_ELIMIT;
    size_t size = DVG_FRAME_HEADER + (size_t)length;
    if (bytes.size < size) {
        *ret_size = size;
        return 0;
    }

    const uint8_t *payload = bytes.data + DVG_FRAME_HEADER;
    struct dvg_frame frame = {
        .type = dvg_load_u16(bytes.data + AT_TYPE),
        .flags = dvg_load_u16(bytes.data + AT_FLAGS),
        .crc = dvg_load_u32(bytes.data + AT_CRC),
        .seq = dvg_load_u64(bytes.data + AT_SEQ),
        .payload = {.data = payload, .size = length},
    };
    if ((frame.flags & DVG_FRAME_CRC) && frame_crc(bytes.data, payload, length) != frame.crc)
        return DIVERGE_EPROTO;
    *ret = frame;
    *ret_size = size;
    return 1;
}

void dvg_frame_set_crc(uint8_t *frame, size_t size)
{
    assert(size >= DVG_FRAME_HEADER);
    dvg_store_u16(frame + AT_FLAGS, DVG_FRAME_CRC);
    dvg_store_u32(frame + AT_CRC,
                  frame_crc(frame, frame + DVG_FRAME_HEADER, size - DVG_FRAME_HEADER));
}

/* A CRC that was set before is set again by whoever wants one. */
void dvg_frame_set_seq(uint8_t *frame, uint64_t seq)
{
    dvg_store_u16(frame + AT_FLAGS, 0);
    dvg_store_u32(frame + AT_CRC, 0);
    dvg_store_u64(frame + AT_SEQ, seq);
}
