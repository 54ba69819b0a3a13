/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes after the first difference: origins of their own, and what follows from it. An op
 * whose measured inputs agree again and whose output differs does not follow from anything before
 * it.
 */
#ifndef DAEMON_ENGINE_FOLLOWING_H
#define DAEMON_ENGINE_FOLLOWING_H

#include "daemon/engine/search.h"
#include "daemon/engine/segment.h"

struct following {
    const struct pairing *pairing;
    const struct view *view;  /* of the first difference */
    const struct item *first; /* NULL: its records were removed */
    const struct scan *scans; /* one a tier, at the first difference; NULL: not started */
    size_t limit;             /* of all in `also` */
    bool independent;         /* these alone */
};

/* Adds to `also`, in order. When there is no room for all, independent origins come first. */
void following_list(struct engine *engine, const struct following *following);

#endif
