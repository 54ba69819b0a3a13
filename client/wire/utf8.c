/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/utf8.h"

/* Bytes of `p`, of at least `left`, that are plain ASCII without NUL, in steps of 8. */
static size_t ascii_prefix(const uint8_t *p, size_t left)
{
    const uint64_t high = UINT64_C(0x8080808080808080);
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t done = 0;
    for (; left - done >= 8; done += 8) {
        uint64_t word = dvg_load_u64(p + done);
        if ((word & high) || ((word - ones) & ~word & high))
            break;
    }
    return done;
}

static bool is_tail(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/*
 * Length of the well-formed sequence of two to four bytes at `p`, 0 when there is none. RFC 3629,
 * section 4.
 */
static size_t sequence_length(const uint8_t *p, size_t left)
{
    uint8_t lead = p[0];
    size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                    : lead >= 0xe0 && lead <= 0xef ? 3
                    : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                   : 0;
    if (!length || left < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if (!is_tail(p[i]))
            return 0;
    }
    if ((lead == 0xe0 && p[1] < 0xa0) || (lead == 0xed && p[1] > 0x9f) ||
        (lead == 0xf0 && p[1] < 0x90) || (lead == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

bool dvg_utf8_is_text(struct dvg_bytes text)
{
    size_t at = 0;
    while (at < text.size) {
        at += ascii_prefix(text.data + at, text.size - at);
        if (at == text.size)
            break;
        uint8_t byte = text.data[at];
        size_t length = byte >= 0x80 ? sequence_length(text.data + at, text.size - at) : byte != 0;
        if (!length)
            return false;
        at += length;
    }
    return true;
}
