/* SPDX-License-Identifier: Apache-2.0 */
/* Ways a chunk can lie, for the hostile tests and the fuzzer. */
#ifndef TESTS_ENGINE_HOSTILE_H
#define TESTS_ENGINE_HOSTILE_H

#include <stdint.h>

#include "daemon/engine/trace.h"

struct hostile {
    unsigned kind;   /* below HOSTILE_KINDS: which damage */
    uint64_t number; /* of what, and how much */
    unsigned chunk;  /* the nth chunk that is loaded is hit; UINT_MAX: all */
    unsigned seen;
};

enum { HOSTILE_KINDS = 24 };

/* A tb_damage function; `ctx` is a struct hostile. */
void hostile_damage(struct trace_chunk *chunk, void *ctx);

#endif
