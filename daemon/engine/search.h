/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first segment in which two streams differ. Where chains compare, a binary search over them;
 * from where they do not (another start, a gap, a resume, another stride, after a structural
 * note), the digests of the rows one by one. Equal segments are counted, not loaded.
 */
#ifndef DAEMON_ENGINE_SEARCH_H
#define DAEMON_ENGINE_SEARCH_H

#include "daemon/engine/context.h"

/* One tier of a pairing on its way through the segments. */
struct scan {
    enum diverge_tier tier;
    uint64_t next; /* the next segment whose digests differ; NO_SEGMENT: none up to the end */
    uint64_t equal_through; /* equal by chain from low to here; NO_SEGMENT: nothing is */
    bool deferred;          /* looked at up to equal_through only; scan_resume goes on */
    uint64_t rows;
    uint64_t boundaries, steps; /* compared, without `next` */
    uint64_t records;
    uint64_t only[SIDES];
};

/* Fills streams, tiers, limits and where the comparison starts. */
void pairing_init(struct engine *engine, struct pairing *pairing);
/*
 * B's boundary 0 as a boundary of A: the shift of segments (2 * offset), from the options or found
 * by the parameters' checksums. 0 when nothing says otherwise.
 */
int64_t search_shift(struct engine *engine, const struct trace_stream *a,
                     const struct trace_stream *b);

/*
 * To the first segment of [low, high] that differs. When chains compare, nothing after `end` needs
 * to be known yet: the scan is then deferred.
 */
void scan_start(struct engine *engine, const struct pairing *pairing, enum diverge_tier tier,
                uint64_t end, struct scan *ret);
void scan_resume(struct engine *engine, const struct pairing *pairing, struct scan *scan);
/* On from scan->next, which has been looked at. */
void scan_advance(struct engine *engine, const struct pairing *pairing, struct scan *scan);
/*
 * Counts what is equal before `end` (exclusive), once the search is over. Equal chains are counted
 * by the running sums of the rows, without visiting them.
 */
void scan_count(struct engine *engine, const struct pairing *pairing, struct scan *scan,
                uint64_t end);

/* The last boundary before `end` at which both sides have a row of `tier`; NO_SEGMENT: none. */
uint64_t search_last_boundary(struct engine *engine, const struct pairing *pairing,
                              enum diverge_tier tier, uint64_t end);

#endif
