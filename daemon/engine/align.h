/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which record of A is which record of B, within one tier of a segment. Equal layouts: record by
 * record. Otherwise calls are matched inside each group of equal (lane, phase, region, micro-step,
 * scope): first as many as possible in order, then, among equally good ways, the one that pairs
 * equal values, so that an inserted op is told from its neighbours of the same name.
 */
#ifndef DAEMON_ENGINE_ALIGN_H
#define DAEMON_ENGINE_ALIGN_H

#include "daemon/engine/context.h"

struct alignment {
    struct pool arena;
    enum diverge_tier tier;
    struct trace_digest layout[SIDES];
    bool identity; /* map is not set: index i is index i */
    uint32_t count[SIDES];
    uint32_t *map[SIDES]; /* map[SIDE_A][i]: B's index, or NO_INDEX */
    bool fresh;           /* made for the chunks at hand, not found in the cache */
};

/*
 * Owned by the engine, valid until ALIGNMENT_CACHE more were made. One alignment a pair of layouts
 * is kept; `again`: make it anew for these chunks' values.
 */
const struct alignment *align_chunks(struct engine *engine, enum diverge_tier tier,
                                     const struct trace_chunk *a, const struct trace_chunk *b,
                                     bool again);
void align_free_all(struct engine *engine);

static inline uint32_t align_other(const struct alignment *alignment, int side, uint32_t index)
{
    if (alignment->identity)
        return index;
    return alignment->map[side][index];
}

/* `text` of side B with the --map prefixes of the options applied, as pieces: prefix and rest. */
struct renamed {
    const char *prefix;
    const char *rest;
};
struct renamed align_rename(const struct engine_options *options, int side, const char *text);

#endif
