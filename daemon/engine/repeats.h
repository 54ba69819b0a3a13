/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What repeats of A and of B say about the first difference: an op whose inputs are equal in two
 * runs of one job and whose output is not is nondeterministic, and one that repeats itself is not.
 */
#ifndef DAEMON_ENGINE_REPEATS_H
#define DAEMON_ENGINE_REPEATS_H

#include "daemon/engine/verdict/verdict.h"

struct repeats {
    size_t recorded;  /* repeats that have the rank */
    size_t agree;     /* equal up to and with the segment of the first difference */
    size_t disagree;  /* the same site gave something else there, or earlier, from equal inputs */
    uint64_t segment; /* where the first that disagrees does */
    const struct trace_run *run; /* it */
};

void repeats_look(const struct evidence *evidence, int side, struct repeats *ret);
/* Lifts or changes the verdicts that rest on whether the sides repeat themselves. */
void repeats_weigh(const struct evidence *evidence, struct ruling *ruling);

#endif
