/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequence alignment: an order-keeping matching of two lists of tokens with as many matches as
 * possible. Symmetric: exchanging the lists exchanges the answer.
 */
#ifndef DAEMON_ENGINE_SEQUENCE_H
#define DAEMON_ENGINE_SEQUENCE_H

#include "daemon/engine/context.h"

struct token {
    uint64_t kind;  /* only tokens of equal kind match */
    uint64_t exact; /* matches of equal `exact` are better */
    /* Break ties: of equally good matchings, the one with more equal values, and equal inputs. */
    uint64_t value;
    uint64_t inputs;
};

struct sequence {
    struct token *tokens;
    size_t count;
};

/* For each token of `a` the index of its match in `b`, or NO_INDEX; in `arena`. */
uint32_t *sequence_match(struct pool *arena, const struct sequence *a, const struct sequence *b);

#endif
