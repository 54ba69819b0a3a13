/* SPDX-License-Identifier: Apache-2.0 */
/* How far apart two records are: from sketches, else from what statistics tell at least. */
#ifndef DAEMON_ENGINE_MEASURE_H
#define DAEMON_ENGINE_MEASURE_H

#include "daemon/engine/segment.h"

struct measure {
    double distance; /* L2 norm of the difference; NaN: unknown */
    double norm;     /* the larger of both norms; NaN: unknown */
    bool sketched;
};

/*
 * Of tensors of one shape and of floating-point numbers. `root`: 1 / sqrt of the number of
 * elements. With `statistics` sketches are left alone.
 */
struct measure measure_tensors(const struct trace_chunk *a, uint32_t i, const struct trace_chunk *b,
                               uint32_t j, double root, bool statistics);
struct measure measure_numbers(const struct trace_type *type, uint64_t a, uint64_t b);
double measure_root(const struct trace_type *type);
/* The record's L2 norm; 0: unknown. */
double measure_norm(const struct trace_chunk *chunk, uint32_t index);
/* Both have as many NaN, +Inf and -Inf. */
bool measure_same_nonfinite(const struct trace_chunk *a, uint32_t i, const struct trace_chunk *b,
                            uint32_t j);

#endif
