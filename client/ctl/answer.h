/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's answer, for people and for programs. */
#ifndef CLIENT_CTL_ANSWER_H
#define CLIENT_CTL_ANSWER_H

#include <stdio.h>

#include "client/ctl/emit.h"
#include "daemon/engine/engine.h"

struct answer_counter {
    const char *name;
    bool has_a, has_b;
    int64_t a, b;
};

struct answer_runs {
    const struct trace_run *a, *b;
    const char *a_as, *b_as;               /* as they are shown; escaped */
    const char *a_said, *b_said;           /* as the user named them; escaped */
    const struct answer_counter *counters; /* where answer->first is */
    size_t n_counters;
    const char *const *repeats, *const *repeats_b; /* names of those that noise is known from */
    size_t n_repeats, n_repeats_b;
    double tolerance; /* 0: none */
};

/* Prints the whole answer; `all`: every note, too. */
void answer_text(FILE *file, const struct engine_answer *answer, const struct answer_runs *runs,
                 bool all, int width);
/* The table of differing metadata. */
void answer_environment(FILE *file, const struct engine_answer *answer, int width);

void answer_emit(struct emit *emit, const struct engine_answer *answer,
                 const struct answer_runs *runs);
void answer_emit_environment(struct emit *emit, const struct engine_answer *answer);
void answer_emit_verdict(struct emit *emit, const struct engine_verdict *verdict);
/* NULL: null. */
void answer_emit_finding(struct emit *emit, const char *key, const struct engine_finding *finding);
/* Members "at" and "step" of an object. */
void answer_emit_place(struct emit *emit, uint64_t segment);
void answer_emit_run(struct emit *emit, const char *key, const struct trace_run *run);

/*
 * Members of an object: a site; one record's dtype, shape, checksum and so on (scalars, not pairs).
 */
void answer_emit_site(struct emit *emit, const struct trace_site *site);
void answer_emit_side(struct emit *emit, const struct engine_side *side);

/* "step 2, forward, record 12: mm, output 0": a place in a line; `ranks` of the run. */
const char *answer_brief(const struct engine_finding *finding, uint64_t ranks);

/*
 * A record's value for a person: checksum, number, "absent", "unread"; and its type. Used by show
 * as well.
 */
const char *answer_value(const struct engine_side *side);
const char *answer_type(const struct engine_side *side);

#endif
