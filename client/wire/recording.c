/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/recording.h"

#include <string.h>

#include <diverge/error.h>

enum {
    FORMAT_BYTE = 7,     /* of the file header: the format's number */
    FORMAT_RESERVED = 8, /* from here on zeros */
    FRAME_ALIGN = 8,
    /*
     * Whole frames are looked for at so many places at most: a payload can be full of false starts.
     */
    RESYNC_TRIES = 64,
};

int dvg_recording_init(struct dvg_recording *recording, struct dvg_bytes bytes)
{
    if (bytes.size < DVG_FILE_HEADER || memcmp(bytes.data, dvg_file_header, FORMAT_BYTE))
        return DIVERGE_EPROTO;
    if (memcmp(bytes.data + FORMAT_BYTE, dvg_file_header + FORMAT_BYTE,
               DVG_FILE_HEADER - FORMAT_BYTE))
        return DIVERGE_EVERSION;
    *recording = (struct dvg_recording){.bytes = bytes, .offset = DVG_FILE_HEADER};
    return 0;
}

/* As dvg_frame_decode; in files a frame has a CRC and its length is a multiple of 8. */
static int decode_frame(struct dvg_bytes rest, struct dvg_frame *ret, size_t *ret_size)
{
    struct dvg_frame frame;
    int rc = dvg_frame_decode(rest, DVG_FRAME_MAX, &frame, ret_size);
    if (rc != 1)
        return rc;
    if (!(frame.flags & DVG_FRAME_CRC) || *ret_size % FRAME_ALIGN)
        return DIVERGE_EPROTO;
    *ret = frame;
    return 1;
}

static bool all_zero(struct dvg_bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        if (bytes.data[i])
            return false;
    }
    return true;
}

/* Whether a whole frame stands somewhere in `rest` behind its first bytes. */
static bool has_later_frame(struct dvg_bytes rest)
{
    int tries = 0;
    for (size_t at = FRAME_ALIGN; at + DVG_FRAME_HEADER <= rest.size; at += FRAME_ALIGN) {
        if (dvg_load_u32(rest.data + at) != DVG_FRAME_MAGIC)
            continue;
        struct dvg_bytes tail = {.data = rest.data + at, .size = rest.size - at};
        struct dvg_frame frame;
        size_t size;
        if (decode_frame(tail, &frame, &size) == 1)
            return true;
        if (++tries == RESYNC_TRIES)
            break;
    }
    return false;
}

int dvg_recording_next(struct dvg_recording *recording, struct dvg_frame *ret)
{
    struct dvg_bytes rest = {
        .data = recording->bytes.data + recording->offset,
        .size = recording->bytes.size - recording->offset,
    };
    if (!rest.size || recording->torn)
        return 0;
    size_t size;
    int rc = decode_frame(rest, ret, &size);
    if (rc == 1) {
        recording->offset += size;
        return 1;
    }
    /* A damaged length can reach past the end too; then whole frames follow. */
    bool is_torn = rc == 0 ? !has_later_frame(rest) : all_zero(rest);
    if (!is_torn)
        return DIVERGE_ECORRUPT;
    recording->torn = true;
    return 0;
}
