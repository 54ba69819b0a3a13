/* SPDX-License-Identifier: Apache-2.0 */
/* What is there on one side only, what has another form, and what nothing recorded explains. */
#include <string.h>

#include "client/wire/message.h"
#include "daemon/engine/verdict/verdict.h"

enum { MAX_CALL = 64 };

bool rule_pruned(const struct evidence *evidence, struct ruling *ret)
{
    if (evidence->first)
        return false;
    ruling_set(
        ret, "unverified", NULL, ENGINE_POSSIBLE,
        "The runs differ in this segment; its records were removed, so the cause cannot be told.");
    ruling_evidence(evidence, ret, "the digests of %s differ; retention removed its records",
                    evidence_place(evidence));
    ruling_next(evidence, ret, "record again around %s, and pin the runs",
                evidence_place(evidence));
    return true;
}

static char side_of(const struct item *item)
{
    return item_has(item, SIDE_A) ? 'A' : 'B';
}

bool rule_missing_collective(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first || evidence_is_pair(first) ||
        (evidence->site->role != DIVERGE_ROLE_COLLECTIVE &&
         !(evidence->site->flags & DIVERGE_FLAG_COLLECTIVE)))
        return false;
    ruling_set(
        ret, "desync", "missing-collective", ENGINE_CERTAIN,
        "A collective that one run makes is missing in the other: its replicas drift apart.");
    ruling_evidence(evidence, ret, "%s at %s is in %c only; everything before agrees",
                    evidence_what(evidence, first), evidence_place(evidence), side_of(first));
    ruling_next(evidence, ret, "divergectl replicas RUN tells which tensors differ between ranks");
    return true;
}

/* ---- form ----------------------------------------------------------------------------------- */

static const char *other_form(const struct view *view, const struct item *item)
{
    const struct trace_type *a = item_type(view, item, SIDE_A);
    const struct trace_type *b = item_type(view, item, SIDE_B);
    if (a->kind != b->kind) {
        if (a->kind == DIVERGE_KIND_ABSENT)
            return "extra";
        return b->kind == DIVERGE_KIND_ABSENT ? "missing" : "dtype";
    }
    if (!type_same_shape(a, b))
        return "shape";
    return a->dtype != b->dtype ? "dtype" : NULL;
}

bool rule_structure(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first)
        return false;
    const char *detail = evidence_is_pair(first)   ? other_form(evidence->view, first)
                         : item_has(first, SIDE_A) ? "missing"
                                                   : "extra";
    if (!detail)
        return false;
    ruling_set(ret, "structure", detail, ENGINE_CERTAIN,
               "The runs differ in structure; values up to there agree.");
    if (!evidence_is_pair(first))
        ruling_evidence(evidence, ret, "%s at %s is in %c only", evidence_what(evidence, first),
                        evidence_place(evidence), side_of(first));
    else
        ruling_evidence(evidence, ret, "%s at %s has another %s on each side",
                        evidence_what(evidence, first), evidence_place(evidence),
                        strcmp(detail, "shape") == 0 ? "shape" : "kind or dtype");
    return true;
}

/*
 * ---- where a differing input comes from -------------------------------------------------------
 */

/* The first differing input of the call, or `first` itself when it is one; NULL: none. */
static const struct item *differing_input(const struct evidence *evidence)
{
    const struct item *inputs[MAX_CALL];
    if (evidence->site->role == DIVERGE_ROLE_INPUT)
        return evidence->first->argument_only ? NULL : evidence->first;
    size_t n = view_call(evidence->view, evidence->first, DIVERGE_ROLE_INPUT, inputs, MAX_CALL);
    for (size_t i = 0; i < n; i++)
        if (inputs[i]->state == ITEM_DIFFERS && !inputs[i]->argument_only)
            return inputs[i];
    return NULL;
}

/* A record that only one side has made this input there. */
bool rule_structure_feeds(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    const struct item *input = differing_input(evidence);
    const struct item *producer[SIDES] = {NULL, NULL};
    for (int side = 0; input && side < SIDES; side++)
        producer[side] = view_producer(evidence->view, input, side);
    for (int side = 0; side < SIDES; side++) {
        if (!producer[side] || evidence_is_pair(producer[side]))
            continue;
        const struct item *other = producer[side == SIDE_A ? SIDE_B : SIDE_A];
        bool both = other && !evidence_is_pair(other);
        ruling_set(ret, "structure",
                   both             ? "control-flow"
                   : side == SIDE_A ? "missing"
                                    : "extra",
                   ENGINE_LIKELY,
                   "An op that only one run has feeds the first value that differs.");
        ruling_evidence(evidence, ret, "%s, in %c only, makes input %u of %s",
                        evidence_what(evidence, producer[side]), side == SIDE_A ? 'A' : 'B',
                        item_site(evidence->view, input)->slot,
                        evidence_what(evidence, evidence->first));
        return true;
    }
    return false;
}

static bool is_measured(const struct view *view, const struct item *item)
{
    for (int side = 0; side < SIDES; side++)
        if (!item_has(item, side) ||
            (item_state_bits(view, item, side) & (DVG_STATE_INHERITED | DVG_STATE_UNREAD)))
            return false;
    return true;
}

/* The side whose input is not what its producer made; -1: none or both. */
static int changed_side(const struct evidence *evidence, const struct item *input)
{
    int changed = -1;
    for (int side = 0; side < SIDES; side++) {
        const struct item *producer = view_producer(evidence->view, input, side);
        if (!producer ||
            !type_equal(item_type(evidence->view, producer, side),
                        item_type(evidence->view, input, side)) ||
            item_value(evidence->view, producer, side) == item_value(evidence->view, input, side))
            continue;
        changed = changed < 0 ? side : SIDES;
    }
    return changed == SIDES ? -1 : changed;
}

bool rule_unobserved(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    const struct item *input = differing_input(evidence);
    if (!input || !is_measured(evidence->view, input))
        return false;
    const struct item *producer = view_producer(evidence->view, input, SIDE_A);
    if (!producer || producer != view_producer(evidence->view, input, SIDE_B) ||
        producer->state != ITEM_EQUAL)
        return false;
    int side = changed_side(evidence, input);
    ruling_set(
        ret, "unobserved", NULL, ENGINE_CERTAIN,
        "A tensor changed between two recorded ops: something outside the capture wrote it.");
    ruling_evidence(evidence, ret,
                    "%s made it, equal on both sides; input %u of %s, measured, "
                    "differs",
                    evidence_what(evidence, producer), item_site(evidence->view, input)->slot,
                    evidence_what(evidence, input));
    if (side >= 0)
        ruling_evidence(evidence, ret, "in %c the input is not what its producer made",
                        side == SIDE_A ? 'A' : 'B');
    ruling_next(evidence, ret, "look for writes through .data, NumPy or raw pointers before %s",
                evidence_what(evidence, input));
    return true;
}
