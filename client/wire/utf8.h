/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WIRE_UTF8_H
#define CLIENT_WIRE_UTF8_H

#include <stdbool.h>

#include "client/wire/message.h"

/*
 * Whether `text` is UTF-8 by RFC 3629 (shortest forms, no surrogates, at most U+10FFFF) without
 * NUL. Other control characters pass: escaping is for whoever shows the text.
 */
bool dvg_utf8_is_text(struct dvg_bytes text);

#endif
