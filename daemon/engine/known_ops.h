/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops that their libraries document as nondeterministic, with what to do about it:
 * schema/known_ops.tsv, compiled in.
 */
#ifndef DAEMON_ENGINE_KNOWN_OPS_H
#define DAEMON_ENGINE_KNOWN_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/engine/trace.h"

struct known_op { /* "-" for nothing */
    const char *library;
    const char *op;
    const char *device;
    const char *when;
    const char *remedy;
    const char *versions;
    const char *source;
};

extern const struct known_op known_ops[];
extern const size_t n_known_ops;

/*
 * The row of an op as it was recorded ("aten::scatter_add_.out" is "scatter_add"); NULL: none.
 * `library` NULL: what the name's namespace says, for a name alone says little: a program of one
 * library is not told what another's op of that name needs.
 */
const struct known_op *known_op_advice(const char *op, const char *library);
/* What a run used, by its metadata; NULL: not known. */
const char *known_op_library(const struct trace_run *run);

#endif
