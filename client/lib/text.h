/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers on text: hashing, making it UTF-8, writing JSON. */
#ifndef CLIENT_LIB_TEXT_H
#define CLIENT_LIB_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "client/wire/buffer.h"

enum { DVG_TEXT_MAX = 4096 };

/* For tables in memory only; never stored or sent. */
uint64_t dvg_hash_bytes(const void *bytes, size_t size, uint64_t seed);

/*
 * Copies `text` (size bytes) to `ret` (DVG_TEXT_MAX bytes), each byte that is not UTF-8 as U+FFFD,
 * cut before a character that does not fit. Returns the bytes written. NUL counts as not UTF-8.
 */
size_t dvg_utf8_clean(const char *text, size_t size, char ret[DVG_TEXT_MAX]);

/* Appends `"text"` with JSON's escapes; what is not UTF-8 is replaced, at most DVG_TEXT_MAX bytes.
 */
int dvg_json_string(struct dvg_buffer *out, const char *text);
#endif
