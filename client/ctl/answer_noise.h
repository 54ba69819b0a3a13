/* SPDX-License-Identifier: Apache-2.0 */
/* The part of an answer that is about noise. */
#ifndef CLIENT_CTL_ANSWER_NOISE_H
#define CLIENT_CTL_ANSWER_NOISE_H

#include "client/ctl/answer.h"

struct answer_line {
    const char *label; /* "" on lines that go on */
    const char *text;
};

enum { ANSWER_NOISE_LINES = 4 };

/* For people; how many lines there are. */
size_t answer_noise_lines(const struct engine_answer *answer, const struct answer_runs *runs,
                          struct answer_line ret[ANSWER_NOISE_LINES]);
/* The member "noise". */
void answer_emit_noise(struct emit *emit, const struct engine_answer *answer,
                       const struct answer_runs *runs);

#endif
