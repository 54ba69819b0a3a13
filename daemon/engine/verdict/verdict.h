/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From evidence to a verdict. Each class is one rule: a function that looks at the evidence and
 * says yes or no. The table in rules.c is asked in order; the first yes wins. A new class is a
 * function and a line.
 */
#ifndef DAEMON_ENGINE_VERDICT_VERDICT_H
#define DAEMON_ENGINE_VERDICT_VERDICT_H

#include "daemon/engine/environment.h"
#include "daemon/engine/finding.h"
#include "daemon/engine/generators.h"
#include "daemon/engine/segment.h"

/* What rules look at. Everything is there but `first` in a pruned segment. */
struct evidence {
    struct engine *engine;
    const struct engine_answer *answer;
    const struct pairing *pairing;
    const struct view *view;       /* the segment of the first difference */
    const struct item *first;      /* NULL: its records were removed */
    const struct trace_site *site; /* of `first` */
    const struct engine_finding *finding;
    struct generators generators; /* right before `first` */
    bool at_start;                /* the first boundary that both sides have */
};

struct ruling {
    const char *class_name;
    const char *detail;
    enum engine_confidence confidence;
    const char *text;
    const char *evidence[16];
    size_t n_evidence;
    const char *next[8];
    size_t n_next;
};

typedef bool (*rule_function)(const struct evidence *evidence, struct ruling *ret);

/* Decides the answer's verdict for a difference; `evidence` describes it. */
void verdict_decide(struct evidence *evidence, struct engine_answer *answer, bool after_gap);
/* For answers without a difference: none or unverified. */
void verdict_without_difference(struct engine *engine, struct engine_answer *answer);

/* ---- for rules ------------------------------------------------------------------------------ */

void ruling_set(struct ruling *ruling, const char *class_name, const char *detail,
                enum engine_confidence confidence, const char *text);
/* Both format into the answer's memory. */
void ruling_evidence(const struct evidence *evidence, struct ruling *ruling, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));
void ruling_next(const struct evidence *evidence, struct ruling *ruling, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "1 parameter", "12 345 parameters". */
const char *evidence_count(const struct evidence *evidence, uint64_t n, const char *one);
/* Advice that exists as a command: a repeat of A to compare with, and both runs again with their
 * ops. */
void ruling_next_repeat(const struct evidence *evidence, struct ruling *ruling);
/* What the op's library says against its nondeterminism (known_ops.h), or what helps in general. */
void ruling_next_determinism(const struct evidence *evidence, struct ruling *ruling);
void ruling_next_ops(const struct evidence *evidence, struct ruling *ruling);
/* Whether a run says that it uses this library (metadata library.NAME or NAME.…). */
bool evidence_uses(const struct evidence *evidence, const char *library);

/* "aten::mm in layer.0", "fc1.weight": what a record is called. */
const char *evidence_what(const struct evidence *evidence, const struct item *item);
const char *evidence_place(const struct evidence *evidence);
bool evidence_is_pair(const struct item *item);
bool evidence_is_origin(const struct evidence *evidence);
/* Inputs are all there, read and equal, arguments too. */
bool evidence_inputs_equal(const struct evidence *evidence);
/*
 * What made this input on the side: its recorded producer, else the last record before it, in its
 * lane, that holds the same value. *ret_certain: the former. NULL: neither.
 */
const struct item *evidence_producer(const struct evidence *evidence, const struct item *input,
                                     int side, bool *ret_certain);
/* The first differing input of the call of `first`, or `first` itself when it is one; NULL: none.
 */
const struct item *evidence_differing_input(const struct evidence *evidence);
/* The differing records of the segment with this role; how many. */
size_t evidence_differing(const struct evidence *evidence, enum diverge_role role);
/*
 * Threads and flags are recorded as evidence too: the name of one that differs, in this segment or
 * before it.
 */
const char *evidence_attribute(const struct evidence *evidence, const char *const *words);
/* A lower bound of how far the two sides are apart, relatively; 0: nothing is known. */
double finding_at_least_apart(const struct engine_finding *finding);
/* Only the sign of zeros differs: other bits, the same numbers. */
bool evidence_only_zero_signs(const struct evidence *evidence);
bool text_has(const char *text, const char *const *words); /* also within words */

/* ---- rules ---------------------------------------------------------------------------------- */

bool rule_pruned(const struct evidence *evidence, struct ruling *ret);
bool rule_nonfinite(const struct evidence *evidence, struct ruling *ret);
bool rule_replicas(const struct evidence *evidence, struct ruling *ret);
bool rule_missing_collective(const struct evidence *evidence, struct ruling *ret);
bool rule_precision(const struct evidence *evidence, struct ruling *ret);
bool rule_data(const struct evidence *evidence, struct ruling *ret);
bool rule_resume_data(const struct evidence *evidence, struct ruling *ret);
bool rule_uninitialised(const struct evidence *evidence, struct ruling *ret);
bool rule_resume(const struct evidence *evidence, struct ruling *ret);
bool rule_resume_rng(const struct evidence *evidence, struct ruling *ret);
bool rule_mode(const struct evidence *evidence, struct ruling *ret);
bool rule_autotune(const struct evidence *evidence, struct ruling *ret);
bool rule_hyperparameter_scalar(const struct evidence *evidence, struct ruling *ret);
bool rule_hyperparameter_argument(const struct evidence *evidence, struct ruling *ret);
bool rule_structure(const struct evidence *evidence, struct ruling *ret);
bool rule_init(const struct evidence *evidence, struct ruling *ret);
bool rule_recompute(const struct evidence *evidence, struct ruling *ret);
bool rule_augmentation(const struct evidence *evidence, struct ruling *ret);
bool rule_rng(const struct evidence *evidence, struct ruling *ret);
bool rule_structure_feeds(const struct evidence *evidence, struct ruling *ret);
bool rule_race(const struct evidence *evidence, struct ruling *ret);
bool rule_unobserved(const struct evidence *evidence, struct ruling *ret);
bool rule_bit_flip(const struct evidence *evidence, struct ruling *ret);
bool rule_dropped_write(const struct evidence *evidence, struct ruling *ret);
bool rule_normalisation(const struct evidence *evidence, struct ruling *ret);
bool rule_loss_scale(const struct evidence *evidence, struct ruling *ret);
bool rule_implicit(const struct evidence *evidence, struct ruling *ret);
bool rule_reduction_order(const struct evidence *evidence, struct ruling *ret);
bool rule_far(const struct evidence *evidence, struct ruling *ret);
bool rule_nondeterministic(const struct evidence *evidence, struct ruling *ret);
bool rule_updates(const struct evidence *evidence, struct ruling *ret);
bool rule_unexplained(const struct evidence *evidence, struct ruling *ret);

/*
 * The first item of the segment, from the first difference on, that turns non-finite from finite
 * inputs.
 */
const struct item *nonfinite_onset(const struct view *view, int *ret_side);

#endif
