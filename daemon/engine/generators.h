/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the random generators around a place, from evidence records. */
#ifndef DAEMON_ENGINE_GENERATORS_H
#define DAEMON_ENGINE_GENERATORS_H

#include "daemon/engine/segment.h"

enum known { UNKNOWN, NO, YES };

struct generator {
    const char *name; /* in the keep arena */
    uint64_t value[SIDES];
    bool has[SIDES];
    uint32_t reads[SIDES]; /* how often it was recorded, where the value is from */
    enum known differs;    /* before the place */
    enum known drawn;      /* its state changes over the step, on either side */
    bool aside;            /* one that libraries reseed and mostly nothing draws from */
};

struct generators {
    struct generator *items;
    size_t count;
};

/*
 * States right before `item` of the view's segment (NULL: before the segment), and whether they
 * change in it.
 */
struct generators generators_before(struct engine *engine, const struct view *view,
                                    const struct item *item);
/* States that a segment recorded: `last` ones, or the first. */
struct generators generators_at(struct engine *engine, const struct pairing *pairing,
                                uint64_t segment, bool last);

/* How many differ; `aside` ones count only when there are no others. */
size_t generators_differing(const struct generators *generators);
/* NULL: none. */
const struct generator *generators_first_differing(const struct generators *generators);

#endif
