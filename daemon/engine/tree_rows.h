/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a whole run at one segment: what chains alone say of two runs. */
#ifndef DAEMON_ENGINE_TREE_ROWS_H
#define DAEMON_ENGINE_TREE_ROWS_H

#include "daemon/engine/pool.h"
#include "daemon/engine/tree.h"

struct tree_row {
    const struct trace_stream *stream;
    enum diverge_tier tier;
    bool present;           /* there is a row at the segment or before it */
    bool whole;             /* nothing up to there is missing or unread */
    struct trace_head head; /* of the greatest segment up to there */
};

struct tree_rows {
    uint64_t segment;
    struct tree_row *rows; /* by rank, then by tier: all but evidence */
    uint32_t count;
};

/* In `arena`. 0 or the source's error. */
int tree_rows_load(struct pool *arena, const struct tree_input *input, int64_t rank,
                   uint64_t segment, struct tree_rows *ret);
/* Proven by the chains: the runs are equal through the segment. */
bool tree_rows_equal(const struct tree_rows *a, const struct tree_rows *b);
/* Proven by the digests: they differ in this segment, and not in structure alone. */
bool tree_rows_differ(const struct tree_rows *a, const struct tree_rows *b);

/*
 * Rows of the state at the last boundary of each rank; *ret_count 0 when a rank has none, or one
 * that is not whole.
 */
int tree_rows_end(struct pool *arena, const struct tree_input *input, int64_t rank,
                  struct trace_head **ret, uint32_t *ret_count);

#endif
