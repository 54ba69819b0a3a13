/* SPDX-License-Identifier: Apache-2.0 */
/* What is there on one side only, what has another form, and what nothing recorded explains. */
#include <string.h>

#include "client/wire/message.h"
#include "daemon/engine/verdict/verdict.h"

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
    if (!first || evidence_is_pair(first) || !site_is_collective(evidence->site))
        return false;
    ruling_set(
        ret, "desync", "missing-collective", ENGINE_CERTAIN,
        "A collective that one run makes is missing in the other: its replicas drift apart.");
    ruling_evidence(evidence, ret, "%s at %s is in %c only; everything before agrees",
                    evidence_what(evidence, first), evidence_place(evidence), side_of(first));
    ruling_next(evidence, ret, "which condition skips it in %c, and on which ranks?",
                item_has(first, SIDE_A) ? 'B' : 'A');
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

/* A flag of which tensors share their memory. */
static bool is_alias(const struct trace_site *site)
{
    static const char *const words[] = {"alias", "aliases", "tied", "shares", NULL};
    return (site->role == DIVERGE_ROLE_ATTR || site->role == DIVERGE_ROLE_SCALAR) &&
           text_has_word(site->name, words);
}

/* What only the other side has and holds the same: the record by another name. NULL: nothing. */
static const struct item *other_name(const struct view *view, const struct item *first)
{
    int side = item_has(first, SIDE_A) ? SIDE_A : SIDE_B, other = side == SIDE_A ? SIDE_B : SIDE_A;
    const struct trace_type *type = item_type(view, first, side);
    if (type->kind != DIVERGE_KIND_TENSOR)
        return NULL;
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        if (!item_has(item, side) && item_has(item, other) &&
            item_site(view, item)->role == item_site(view, first)->role &&
            item_value(view, item, other) == item_value(view, first, side) &&
            type_equal(item_type(view, item, other), type))
            return item;
    }
    return NULL;
}

static void describe_single(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    const struct item *other = other_name(evidence->view, first);
    ruling_evidence(evidence, ret, "%s at %s is in %c only", evidence_what(evidence, first),
                    evidence_place(evidence), side_of(first));
    if (!other)
        return;
    ruling_evidence(evidence, ret, "%s, in %c only, holds the same value",
                    evidence_what(evidence, other), side_of(other));
    ruling_next(evidence, ret, "when it was only renamed: --map FILE compares it by the new name");
}

bool rule_structure(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first)
        return false;
    const char *detail = evidence_is_pair(first)   ? other_form(evidence->view, first)
                         : item_has(first, SIDE_A) ? "missing"
                                                   : "extra";
    if (!detail && is_alias(evidence->site))
        detail = "alias";
    if (!detail)
        return false;
    ruling_set(ret, "structure", detail, ENGINE_CERTAIN,
               "The runs differ in structure; values up to there agree.");
    if (!evidence_is_pair(first))
        describe_single(evidence, ret);
    else if (strcmp(detail, "missing") == 0 || strcmp(detail, "extra") == 0)
        ruling_evidence(evidence, ret, "there is no %s at %s in %c, and one in the other run",
                        evidence_what(evidence, first), evidence_place(evidence),
                        strcmp(detail, "missing") == 0 ? 'B' : 'A');
    else
        ruling_evidence(evidence, ret, "%s at %s has another %s on each side",
                        evidence_what(evidence, first), evidence_place(evidence),
                        strcmp(detail, "shape") == 0   ? "shape"
                        : strcmp(detail, "alias") == 0 ? "value"
                                                       : "kind or dtype");
    ruling_next(evidence, ret, "compare the code and the configuration of both runs at %s",
                evidence_what(evidence, first));
    return true;
}

/*
 * ---- where a differing input comes from -------------------------------------------------------
 */

static void feeds(const struct evidence *evidence, const struct item *input,
                  const struct item *producer, int side, struct ruling *ret)
{
    ruling_evidence(
        evidence, ret, "%s, in %c%s, makes input %u of %s", evidence_what(evidence, producer),
        side == SIDE_A ? 'A' : 'B', evidence_is_pair(producer) ? "" : " only",
        item_site(evidence->view, input)->slot, evidence_what(evidence, evidence->first));
}

/* A record that only one side has made this input there, or each side takes it from somewhere else.
 */
bool rule_structure_feeds(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    const struct item *input = evidence_differing_input(evidence);
    const struct item *producer[SIDES] = {NULL, NULL};
    bool certain[SIDES] = {false, false};
    for (int side = 0; input && side < SIDES; side++)
        producer[side] = evidence_producer(evidence, input, side, &certain[side]);
    bool single[SIDES];
    for (int side = 0; side < SIDES; side++)
        single[side] = producer[side] && !evidence_is_pair(producer[side]);
    bool elsewhere = producer[SIDE_A] && producer[SIDE_B] && producer[SIDE_A] != producer[SIDE_B];
    if (!single[SIDE_A] && !single[SIDE_B] && !elsewhere)
        return false;
    const char *detail = single[SIDE_A] == single[SIDE_B] ? "control-flow"
                         : single[SIDE_A]                 ? "missing"
                                                          : "extra";
    bool known = (!producer[SIDE_A] || certain[SIDE_A]) && (!producer[SIDE_B] || certain[SIDE_B]);
    ruling_set(ret, "structure", detail, known ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               elsewhere && !single[SIDE_A] && !single[SIDE_B]
                   ? "An op takes its input from another op in each run."
                   : "An op that only one run has feeds the first value that differs.");
    for (int side = 0; side < SIDES; side++)
        if (single[side] || (elsewhere && !single[SIDE_A] && !single[SIDE_B]))
            feeds(evidence, input, producer[side], side, ret);
    if (!known)
        ruling_evidence(evidence, ret, "told by equal values: producers were not recorded");
    ruling_next(evidence, ret, "compare the code and the configuration of both runs before %s",
                evidence_what(evidence, evidence->first));
    return true;
}

static bool is_measured(const struct view *view, const struct item *item)
{
    for (int side = 0; side < SIDES; side++)
        if (!item_has(item, side) ||
            (item_state_bits(view, item, side) & (DVG_STATE_INHERITED | DVG_STATE_UNREAD)))
            return false;
    return true;
}

/*
 * The record that made the input on one side and is the same on both: what it made is not what the
 * other side's op got.
 */
static const struct item *equal_producer(const struct evidence *evidence, const struct item *input,
                                         bool *ret_certain)
{
    const struct item *producer[SIDES];
    bool certain[SIDES] = {false, false};
    for (int side = 0; side < SIDES; side++)
        producer[side] = evidence_producer(evidence, input, side, &certain[side]);
    const struct item *made = producer[SIDE_A] ? producer[SIDE_A] : producer[SIDE_B];
    bool same = producer[SIDE_A] == producer[SIDE_B] || !producer[SIDE_A] || !producer[SIDE_B];
    *ret_certain = certain[SIDE_A] && certain[SIDE_B];
    return same && made && made->state == ITEM_EQUAL ? made : NULL;
}

/* The side whose input is not what `producer` made; -1: none or both. */
static int changed_side(const struct evidence *evidence, const struct item *input,
                        const struct item *producer)
{
    bool kept[SIDES];
    for (int side = 0; side < SIDES; side++)
        kept[side] =
            item_value(evidence->view, producer, side) == item_value(evidence->view, input, side);
    return kept[SIDE_A] == kept[SIDE_B] ? -1 : kept[SIDE_A] ? SIDE_B : SIDE_A;
}

/* A measured input that differs although what made it does not; NULL: none. */
static const struct item *changed_input(const struct evidence *evidence,
                                        const struct item **ret_producer, bool *ret_certain)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return NULL;
    const struct item *input = evidence_differing_input(evidence);
    if (!input || !is_measured(evidence->view, input) ||
        !type_equal(item_type(evidence->view, input, SIDE_A),
                    item_type(evidence->view, input, SIDE_B)))
        return NULL;
    *ret_producer = equal_producer(evidence, input, ret_certain);
    return *ret_producer ? input : NULL;
}

enum { RACE_STEPS = 64 };

/* The step near this one in which the side has a batch of this value; NO_SEGMENT: none. */
static uint64_t batch_of(const struct evidence *evidence, int side, uint64_t value,
                         const struct trace_type *type)
{
    struct engine *engine = evidence->engine;
    const struct trace_stream *stream = evidence->pairing->stream[side];
    for (uint64_t n = 1; n <= 2 * RACE_STEPS; n++) { /* one after, one before, two after, … */
        uint64_t away = (n + 1) / 2 * 2, segment = evidence->view->segment;
        if (n % 2 == 0 && away > segment)
            continue;
        segment = n % 2 ? segment + away : segment - away;
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk =
            side_load(engine, side, stream, DIVERGE_TIER_PULSE, segment);
        bool found = false;
        for (uint32_t i = 0; chunk && !chunk->pruned && i < chunk->count && !found; i++)
            found = chunk->layout->sites[i]->role == DIVERGE_ROLE_BATCH &&
                    chunk_value(chunk, i) == value && type_equal(chunk_type(chunk, i), type);
        engine_release(engine, mark);
        if (found)
            return segment;
    }
    return NO_SEGMENT;
}

/* What the op reads is not this step's batch, which both recorded alike, but another step's. */
bool rule_race(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *producer;
    bool certain;
    const struct item *input = changed_input(evidence, &producer, &certain);
    if (!input)
        return false;
    int side = changed_side(evidence, input, producer);
    uint64_t other = side < 0 ? NO_SEGMENT
                              : batch_of(evidence, side, item_value(evidence->view, input, side),
                                         item_type(evidence->view, input, side));
    if (other == NO_SEGMENT)
        return false;
    ruling_set(
        ret, "race", NULL, certain ? ENGINE_CERTAIN : ENGINE_LIKELY,
        "A buffer was written while it was still read: an op got the batch of another step.");
    ruling_evidence(evidence, ret,
                    "%s of %s is equal on both sides; in %c input %u of %s, measured, is the batch "
                    "of %s",
                    evidence_what(evidence, producer), evidence_place(evidence),
                    side == SIDE_A ? 'A' : 'B', item_site(evidence->view, input)->slot,
                    evidence_what(evidence, input), segment_text(evidence->engine->keep, other));
    ruling_next(evidence, ret,
                "wait for the copy before the buffer is filled again, or give each batch its own");
    return true;
}

/* The parameter or buffer of the boundary before that is this input on `side`; NULL: none. */
static const char *state_before(const struct evidence *evidence, const struct item *input, int side)
{
    struct engine *engine = evidence->engine;
    const struct trace_type *type = item_type(evidence->view, input, side);
    const char *name = NULL;
    uint64_t segment = evidence->view->segment;
    if (!segment_is_step(segment) || type->kind != DIVERGE_KIND_TENSOR || type_numel(type) < 2)
        return NULL;
    size_t mark = engine_mark(engine);
    const struct trace_chunk *chunk =
        side_load(engine, side, evidence->pairing->stream[side], DIVERGE_TIER_STEP, segment - 1);
    for (uint32_t i = 0; chunk && !chunk->pruned && i < chunk->count && !name; i++) {
        const struct trace_site *site = chunk->layout->sites[i];
        if ((site->role == DIVERGE_ROLE_PARAM || site->role == DIVERGE_ROLE_BUFFER) &&
            chunk_value(chunk, i) == item_value(evidence->view, input, side) &&
            type_equal(chunk_type(chunk, i), type))
            name = pool_string(engine->keep, site->name);
    }
    engine_release(engine, mark);
    return name;
}

/* State that agreed at the boundary before, as nothing differs up to here, and that one op got
 * otherwise. */
static bool state_changed(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    const struct item *input = evidence_differing_input(evidence);
    if (!input || !evidence_is_pair(input) || !is_measured(evidence->view, input))
        return false;
    const char *name[SIDES];
    for (int side = 0; side < SIDES; side++)
        name[side] = state_before(evidence, input, side);
    if (!name[SIDE_A] == !name[SIDE_B])
        return false;
    int kept = name[SIDE_A] ? SIDE_A : SIDE_B;
    ruling_set(ret, "unobserved", NULL, ENGINE_LIKELY,
               "A tensor of the state changed between the boundary and the op that reads it.");
    ruling_evidence(
        evidence, ret,
        "%s agrees at boundary %llu; input %u of %s, measured, is that in %c and not in %c",
        name[kept], (unsigned long long)segment_number(evidence->view->segment),
        item_site(evidence->view, input)->slot, evidence_what(evidence, input),
        kept == SIDE_A ? 'A' : 'B', kept == SIDE_A ? 'B' : 'A');
    ruling_next(evidence, ret, "look for writes to %s that are not recorded", name[kept]);
    return true;
}

bool rule_unobserved(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *producer;
    bool certain;
    const struct item *input = changed_input(evidence, &producer, &certain);
    if (!input)
        return state_changed(evidence, ret);
    int side = changed_side(evidence, input, producer);
    ruling_set(
        ret, "unobserved", NULL, certain ? ENGINE_CERTAIN : ENGINE_LIKELY,
        "A tensor changed between two recorded ops: something outside the capture wrote it.");
    ruling_evidence(evidence, ret,
                    "%s made it, equal on both sides; input %u of %s, measured, "
                    "differs",
                    evidence_what(evidence, producer), item_site(evidence->view, input)->slot,
                    evidence_what(evidence, input));
    if (side >= 0)
        ruling_evidence(evidence, ret, "in %c the input is not what its producer made",
                        side == SIDE_A ? 'A' : 'B');
    if (!certain)
        ruling_evidence(evidence, ret, "told by equal values: producers were not recorded");
    ruling_next(evidence, ret,
                evidence_uses(evidence, "torch")
                    ? "look for writes through .data, NumPy or raw pointers before %s"
                    : "look for writes that are not recorded, before %s",
                evidence_what(evidence, input));
    return true;
}
