/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One short conversation with every message in it: the golden bytes of the protocol, the transcript
 * of schema/PROTOCOL.md, and the seeds of the fuzz corpora all come from here.
 */
#ifndef TESTS_UNIT_CLIENT_WIRE_GOLDEN_H
#define TESTS_UNIT_CLIENT_WIRE_GOLDEN_H

#include <stdbool.h>

#include "client/wire/buffer.h"

/*
 * Appends frame number `index` of the conversation to `out`: false past the last one. Aborts when
 * it cannot.
 */
bool golden_frame(unsigned index, struct dvg_buffer *out, const char **ret_title);

/* The producer's frames as a recording file. */
void golden_recording(struct dvg_buffer *out);

/* The whole conversation as text: "# title", then lines of 16 bytes "offset  hex". */
void golden_text(struct dvg_buffer *out);

#endif
