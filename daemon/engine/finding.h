/* SPDX-License-Identifier: Apache-2.0 */
/* A difference as the answer shows it: both sides, the call's inputs, how it stands to them. */
#ifndef DAEMON_ENGINE_FINDING_H
#define DAEMON_ENGINE_FINDING_H

#include "daemon/engine/segment.h"

/* In the keep arena: nothing of it is borrowed from chunks. */
struct engine_finding *finding_new(struct engine *engine, const struct view *view,
                                   const struct item *item);
/* Of a segment whose records were removed: only the place is known. */
struct engine_finding *finding_of_pruned(struct engine *engine, const struct view *view);

enum engine_relation finding_relation(const struct view *view, const struct item *item);
struct engine_inputs finding_inputs(const struct view *view, const struct item *item);
/* Whether its call has inputs to look at. */
bool finding_has_inputs(const struct view *view, const struct item *item);
/* Relative L2 distance from the sketches; NaN: unknown. */
double finding_distance(const struct view *view, const struct item *item);
/* Spacing of the dtype's numbers relative to their size; 0: not a floating dtype. */
double dtype_epsilon(enum diverge_dtype dtype);
bool dtype_is_float(enum diverge_dtype dtype);
/* 1 when a side's record holds NaN or infinity. */
bool item_is_nonfinite(const struct view *view, const struct item *item, int side);

/* The record's sketch of chunk->sketch_size, and its counts of NaN and infinities; NULL: none. */
const float *chunk_sketch(const struct trace_chunk *chunk, uint32_t index);
const struct trace_nonfinite *chunk_nonfinite(const struct trace_chunk *chunk, uint32_t index);

struct trace_site *site_copy(struct engine *engine, const struct trace_site *site);

#endif
