/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first difference beyond noise. Noise of a site is what repeats of A (other executions of the
 * same job) differ by there, over all steps up to the one that is judged: its envelope, widened by
 * a margin that is larger the fewer repeats there are. Distances are relative L2: from sketches
 * where both sides have them, else from statistics (norm, sum and extremes each give a lower
 * bound). A pair of records is within noise when its distance is at most
 *
 *   - the site's envelope times the margin, or the tolerance, of its own norm;
 *   - what rounding does to its operands, more the more terms it sums up: a gradient that is
 *     zero in exact arithmetic is the rounding error of what was added up, and its relative
 *     error means nothing;
 *   - anything, when it is smaller on both sides than the tolerance is of its operands.
 *
 * Batches, integers, arguments, shapes and counts of NaN and infinities are exact: they are within
 * noise only where repeats differ in them as well. Inputs are not judged: what an op makes of them
 * is.
 */
#ifndef DAEMON_ENGINE_NOISE_H
#define DAEMON_ENGINE_NOISE_H

#include "daemon/engine/segment.h"

/* Whether there is anything to judge by: repeats of A or a tolerance. */
bool noise_is_known(const struct engine *engine);
/*
 * Judges one rank from segment `from`, its first difference, on; fills answer->noise and, when it
 * is the earliest yet, answer->beyond_noise.
 */
void noise_judge(struct engine *engine, const struct pairing *pairing, uint64_t from);
/* How `item` of a view stands to noise as known so far. */
void noise_describe(struct engine *engine, const struct view *view, const struct item *item,
                    struct engine_judgement *ret);
/* The growth curve: the state at boundaries from segment `from` on. */
void noise_growth(struct engine *engine, const struct pairing *pairing, uint64_t from);
void noise_free(struct engine *engine);

#endif
