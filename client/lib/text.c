/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/text.h"

#include <stdio.h>
#include <string.h>

uint64_t dvg_hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
    const uint64_t multiplier = UINT64_C(0x9e3779b97f4a7c15);
    const uint8_t *p = bytes;
    uint64_t hash = (seed ^ size) * multiplier;
    for (; size >= 8; p += 8, size -= 8) {
        hash = (hash ^ dvg_load_u64(p)) * multiplier;
        hash ^= hash >> 32;
    }
    if (size) {
        uint64_t last = 0;
        memcpy(&last, p, size);
        hash = (hash ^ last) * multiplier;
        hash ^= hash >> 32;
    }
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

/* Bytes of the UTF-8 character at `p` (RFC 3629), 0 when there is none. */
static size_t character(const uint8_t *p, size_t left)
{
    if (p[0] < 0x80)
        return p[0] ? 1 : 0;
    size_t size = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (!size || size > left)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates, beyond U+10FFFF. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return size;
}

size_t dvg_utf8_clean(const char *text, size_t size, char ret[DVG_TEXT_MAX])
{
    static const char replacement[3] = "\xef\xbf\xbd";
    size_t written = 0;
    for (size_t at = 0; at < size;) {
        size_t bytes = character((const uint8_t *)text + at, size - at);
        const char *from = bytes ? text + at : replacement;
        size_t count = bytes ? bytes : sizeof(replacement);
        if (written + count > DVG_TEXT_MAX)
            break;
        memcpy(ret + written, from, count);
        written += count;
        at += bytes ? bytes : 1;
    }
    return written;
}

int dvg_json_string(struct dvg_buffer *out, const char *text)
{
    char clean[DVG_TEXT_MAX];
    size_t size = dvg_utf8_clean(text, strlen(text), clean);
    int rc = dvg_buffer_append(out, "\"", 1);
    for (size_t i = 0; !rc && i < size; i++) {
        char c = clean[i];
        char escaped[8];
        if (c == '"' || c == '\\') {
            snprintf(escaped, sizeof(escaped), "\\%c", c);
            rc = dvg_buffer_append(out, escaped, 2);
        } else if ((unsigned char)c < 0x20) {
            snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned)c);
            rc = dvg_buffer_append(out, escaped, 6);
        } else {
            rc = dvg_buffer_append(out, &c, 1);
        }
    }
    return rc ? rc : dvg_buffer_append(out, "\"", 1);
}
