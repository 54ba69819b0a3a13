/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/compare.h"

#include <math.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/following.h"
#include "daemon/engine/noise.h"
#include "daemon/engine/search.h"
#include "daemon/engine/verdict/verdict.h"

enum { LEVEL_TIERS = DIVERGE_TIER_OP + 1, LOSS_ROWS = 4096, MAX_NOTES = 100 };

/* What the comparison of one rank came to. */
struct outcome {
    struct pairing pairing;
    struct scan scans[LEVEL_TIERS];
    bool differs;
    uint64_t segment;  /* of the first difference */
    uint32_t category; /* place in the segment, to choose between ranks */
    bool pruned;
    bool after_gap;
    bool init_differs; /* the initialisation does, whatever comes later */
    uint64_t matched;  /* records compared one by one */
    uint64_t only[SIDES];
    uint64_t unread;
    uint64_t boundaries, steps; /* segments looked at one by one */
    struct engine_finding *finding;
    struct view *view; /* of the difference, when it was kept */
};

static size_t note_limit(const struct engine *engine)
{
    return engine->options->max_notes ? engine->options->max_notes : MAX_NOTES;
}

/* ---- findings ------------------------------------------------------------------------------- */

static void add_also(struct engine *engine, struct engine_finding *finding)
{
    struct engine_answer *answer = engine->answer;
    if (answer->n_also < note_limit(engine))
        POOL_PUSH(engine->keep, answer->also, answer->n_also, engine->also_capacity, finding);
}

static bool continues(const struct view *view, const struct item *last, const struct item *next)
{
    int side = item_has(last, SIDE_A) ? SIDE_A : SIDE_B;
    (void)view;
    return next->tier == last->tier && item_has(next, side) &&
           next->index[side] == last->index[side] + 1;
}

static void add_notes(struct engine *engine, const struct view *view)
{
    struct engine_answer *answer = engine->answer;
    for (size_t i = 0; i < view->n_notes && answer->n_structure < note_limit(engine);) {
        const struct item *first = view->notes[i];
        bool in_a = item_has(first, SIDE_A);
        struct engine_note note = {.segment = view->segment,
                                   .rank = view->pairing->rank,
                                   .what = in_a ? "missing" : "extra",
                                   .side = in_a ? 'a' : 'b',
                                   .site = site_copy(engine, item_site(view, first)),
                                   .count = 1};
        for (i++; i < view->n_notes && continues(view, view->notes[i - 1], view->notes[i]); i++)
            note.count++;
        POOL_PUSH(engine->keep, answer->structure, answer->n_structure, engine->notes_capacity,
                  note);
    }
}

/*
 * An input that differs in its call's arguments alone, or is there because the whole call is on one
 * side only, stands for the call: its output is the place.
 */
static const struct item *stand_for_call(const struct view *view, const struct item *first)
{
    static const enum diverge_role roles[] = {DIVERGE_ROLE_ATTR, DIVERGE_ROLE_OUTPUT,
                                              DIVERGE_ROLE_COLLECTIVE};
    const struct item *made;
    bool single = !item_has(first, SIDE_A) || !item_has(first, SIDE_B);
    if ((!first->argument_only && !single) || item_site(view, first)->role != DIVERGE_ROLE_INPUT)
        return first;
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (view_call(view, first, roles[i], &made, 1) == 0)
            continue;
        bool made_single = !item_has(made, SIDE_A) || !item_has(made, SIDE_B);
        if (single ? made_single && made->state == first->state : made->state == ITEM_DIFFERS)
            return made;
    }
    return first;
}

/*
 * The first difference of a segment. Lanes have no order among each other: where the first in lane
 * order only received its difference, an origin in another lane explains it better.
 */
static const struct item *first_item(const struct engine *engine, const struct view *view)
{
    if (view->n_differences == 0)
        return engine->options->strict_structure && view->n_notes
                   ? stand_for_call(view, view->notes[0])
                   : NULL;
    const struct item *first = stand_for_call(view, view->differences[0]);
    if (first->category <= CATEGORY_DATA_DIGEST || finding_relation(view, first) != ENGINE_RECEIVER)
        return first;
    uint32_t lane = first->lane;
    for (size_t i = 1; i < view->n_differences; i++) {
        const struct item *other = view->differences[i];
        if (other->category != first->category)
            break;
        if (other->lane == lane)
            continue;
        lane = other->lane; /* only the first of each lane: later ones follow from it */
        if (finding_relation(view, other) == ENGINE_ORIGIN)
            return other;
    }
    return first;
}

/* ---- one rank ------------------------------------------------------------------------------- */

static void note_view(struct engine *engine, struct outcome *outcome, const struct view *view)
{
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        outcome->matched += view->matched[tier];
        if (view->incomplete[tier] && view->segment < outcome->pairing.first_gap)
            outcome->pairing.first_gap = view->segment;
        for (int side = 0; side < SIDES; side++)
            outcome->only[side] += view->only[side][tier];
    }
    outcome->unread += view->unread;
    add_notes(engine, view);
}

static void take_difference(struct engine *engine, struct outcome *outcome, const struct view *view)
{
    const struct item *first = first_item(engine, view);
    if (!first && !view->pruned)
        return;
    const struct pairing *pairing = &outcome->pairing;
    outcome->differs = true;
    outcome->segment = view->segment;
    outcome->pruned = !first;
    outcome->category = first ? first->category : 0;
    outcome->after_gap =
        view->segment >= pairing->first_gap || view->segment > pairing->first_unread;
    outcome->finding = first ? finding_new(engine, view, first) : finding_of_pruned(engine, view);
}

static uint64_t next_segment(const struct outcome *outcome)
{
    uint64_t next = NO_SEGMENT;
    for (int tier = 0; tier < LEVEL_TIERS; tier++)
        if (outcome->pairing.tier[tier] && outcome->scans[tier].next < next)
            next = outcome->scans[tier].next;
    return next;
}

/* The initialisation is looked at by itself: what counts is the state that it leaves. */
static void look_at_init(struct engine *engine, struct outcome *outcome)
{
    struct pairing *pairing = &outcome->pairing;
    if (pairing->low > 0 || pairing->low > pairing->high)
        return;
    struct pairing init = *pairing;
    init.high = 0;
    bool equal = true;
    for (int tier = 0; tier < LEVEL_TIERS && equal; tier++) {
        struct scan scan;
        if (!pairing->tier[tier])
            continue;
        scan_start(engine, &init, (enum diverge_tier)tier, NO_SEGMENT, &scan);
        equal = scan.next == NO_SEGMENT;
    }
    if (equal)
        return;
    pairing->low = 1;
    struct view *view = view_load(engine, pairing, 0);
    note_view(engine, outcome, view);
    outcome->init_differs = first_item(engine, view) != NULL || view->pruned;
    view_release(engine, view);
}

/*
 * Whether the state at the first boundary is known on both sides: only then does it judge the
 * initialisation.
 */
static bool has_first_state(struct engine *engine, const struct pairing *pairing)
{
    uint64_t segment = pairing->first_boundary[SIDE_A];
    struct trace_head head;
    if (segment == NO_SEGMENT || !pairing->tier[DIVERGE_TIER_STEP])
        return false;
    for (int side = 0; side < SIDES; side++)
        if (!side_head(engine, side, pairing->stream[side], DIVERGE_TIER_STEP, segment, &head) ||
            head.records == 0)
            return false;
    return true;
}

static void take_init(struct engine *engine, struct outcome *outcome)
{
    struct view *view = view_load(engine, &outcome->pairing, 0);
    take_difference(engine, outcome, view);
    view_release(engine, view);
}

static void search_rank(struct engine *engine, struct outcome *outcome)
{
    const struct pairing *pairing = &outcome->pairing;
    uint64_t end =
        NO_SEGMENT; /* once a tier differs, the others need to be searched up to there only */
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        struct scan *scan = &outcome->scans[tier];
        if (!pairing->tier[tier])
            continue;
        scan_start(engine, pairing, (enum diverge_tier)tier, end, scan);
        end = scan->next < end ? scan->next : end;
    }
    for (;;) {
        uint64_t segment = next_segment(outcome);
        if (segment == NO_SEGMENT)
            return;
        struct view *view = view_load(engine, pairing, segment);
        note_view(engine, outcome, view);
        take_difference(engine, outcome, view);
        if (outcome->differs && engine->only_rank) {
            outcome->view = view; /* explained right away: no need to load it again */
            return;
        }
        view_release(engine, view);
        if (outcome->differs)
            return;
        for (int tier = 0; tier < LEVEL_TIERS; tier++)
            if (pairing->tier[tier] && outcome->scans[tier].deferred)
                scan_resume(engine, pairing, &outcome->scans[tier]);
        for (int tier = 0; tier < LEVEL_TIERS; tier++)
            if (pairing->tier[tier] && outcome->scans[tier].next == segment)
                scan_advance(engine, pairing, &outcome->scans[tier]);
    }
}

/*
 * Equal rows before the end count in full; what view_load matched record by record was added
 * before.
 */
static void count_rank(struct engine *engine, struct outcome *outcome)
{
    struct engine_answer *answer = engine->answer;
    const struct pairing *pairing = &outcome->pairing;
    uint64_t end = outcome->differs && outcome->segment > 0 ? outcome->segment : pairing->high + 1;
    uint64_t boundaries = 0, steps = 0;
    if (pairing->low > pairing->high)
        return;
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        struct scan *scan = &outcome->scans[tier];
        if (!pairing->tier[tier])
            continue;
        scan_count(engine, pairing, scan, end);
        if (outcome->differs && scan->next == outcome->segment) {
            scan->boundaries += segment_is_boundary(scan->next);
            scan->steps += segment_is_step(scan->next);
        }
        boundaries = scan->boundaries > boundaries ? scan->boundaries : boundaries;
        steps = scan->steps > steps ? scan->steps : steps;
        answer->compared.records += scan->records;
        answer->compared.only_a += scan->only[SIDE_A];
        answer->compared.only_b += scan->only[SIDE_B];
    }
    if (boundaries > answer->compared.boundaries)
        answer->compared.boundaries = boundaries;
    if (steps > answer->compared.steps)
        answer->compared.steps = steps;
}

static void count_one_sided(struct engine *engine, const struct outcome *outcome)
{
    struct engine_answer *answer = engine->answer;
    const struct pairing *pairing = &outcome->pairing;
    answer->compared.records += outcome->matched;
    answer->compared.only_a += outcome->only[SIDE_A];
    answer->compared.only_b += outcome->only[SIDE_B];
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        if (pairing->tier[tier])
            continue;
        answer->compared.only_a += pairing->stream[SIDE_A]->tiers[tier].records;
        answer->compared.only_b += pairing->stream[SIDE_B]->tiers[tier].records;
    }
}

/* ---- reasons -------------------------------------------------------------------------------- */

static const char *side_name(const struct engine *engine, int side)
{
    static const char *const names[SIDES] = {"A", "B"};
    const char *said = engine->options->names[side];
    return said ? said : names[side];
}

static uint64_t end_of(const struct engine *engine, const struct pairing *pairing, int side)
{
    uint64_t end = 0;
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        const struct trace_track *track = &pairing->stream[side]->tiers[tier];
        uint64_t last = side_number(engine, side, track->last);
        if (track->present && track->segments > 0 && last != NO_SEGMENT && last > end)
            end = last;
    }
    return end;
}

/* Only the steps that were asked for matter: what a run lost after them takes nothing away. */
static bool is_beyond(const struct engine *engine, const struct pairing *pairing, uint64_t segment)
{
    uint64_t last = engine->options->last_step;
    return last < NO_SEGMENT / 4 && pairing->high == diverge_segment_of_boundary(last + 1) &&
           segment > pairing->high;
}

static void reason_about_end(struct engine *engine, int side, const struct pairing *pairing)
{
    const struct trace_stream *stream = pairing->stream[side];
    const char *name = side_name(engine, side);
    if (is_beyond(engine, pairing, end_of(engine, pairing, side)))
        return;
    if (!stream->ended)
        engine_reason(engine, pool_format(engine->keep,
                                          "rank %u of %s did not end properly: records after its "
                                          "last boundary may be missing",
                                          pairing->rank, name));
    else if (stream->outcome != DIVERGE_OUTCOME_COMPLETE)
        engine_reason(engine,
                      pool_format(engine->keep, "rank %u of %s failed", pairing->rank, name));
}

static void reason_about_stream(struct engine *engine, int side, const struct pairing *pairing)
{
    const struct trace_stream *stream = pairing->stream[side];
    const char *name = side_name(engine, side);
    uint64_t dropped = stream->dropped, unread = 0;
    bool gap = false;
    /* Evidence is no difference, but a run that lost some of it is not whole. */
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        const struct trace_track *track = &stream->tiers[tier];
        if (track->has_gap &&
            !is_beyond(engine, pairing, side_number(engine, side, track->first_gap))) {
            gap = true;
            dropped += track->dropped;
        } else if (!track->has_gap) {
            dropped += track->dropped;
        }
        if (!is_beyond(engine, pairing, side_number(engine, side, track->first_unread)))
            unread += track->unread;
    }
    reason_about_end(engine, side, pairing);
    if (stream->at_once > 1)
        engine_reason(engine, pool_format(engine->keep,
                                          "rank %u of %s was recorded by %u processes at once; "
                                          "the newest complete one is compared: set RANK",
                                          pairing->rank, name, stream->at_once));
    if (dropped > 0)
        engine_reason(engine, pool_format(engine->keep, "rank %u of %s dropped %s", pairing->rank,
                                          name, count_text(engine->keep, dropped, "record")));
    if (gap)
        engine_reason(engine, pool_format(engine->keep,
                                          "rank %u of %s has a gap: a segment is "
                                          "not complete",
                                          pairing->rank, name));
    if (unread > 0)
        engine_reason(engine, pool_format(engine->keep,
                                          "%s of rank %u of %s could not "
                                          "be read when %s taken",
                                          count_text(engine->keep, unread, "record"), pairing->rank,
                                          name, unread == 1 ? "it was" : "they were"));
}

static void reason_about_length(struct engine *engine, const struct pairing *pairing)
{
    uint64_t wanted = engine->options->last_step < NO_SEGMENT / 4
                          ? diverge_segment_of_boundary(engine->options->last_step + 1)
                          : NO_SEGMENT;
    uint64_t a = end_of(engine, pairing, SIDE_A), b = end_of(engine, pairing, SIDE_B);
    a = a < wanted ? a : wanted;
    b = b < wanted ? b : wanted;
    if (a != b)
        engine_reason(engine,
                      pool_format(engine->keep, "rank %u of %s goes to %s, of %s to %s",
                                  pairing->rank, side_name(engine, SIDE_A),
                                  segment_text(&engine->scratch, a), side_name(engine, SIDE_B),
                                  segment_text(&engine->scratch, b)));
}

static void reason_about_rank(struct engine *engine, const struct outcome *outcome)
{
    const struct pairing *pairing = &outcome->pairing;
    for (int side = 0; side < SIDES; side++)
        reason_about_stream(engine, side, pairing);
    reason_about_length(engine, pairing);
    if (outcome->unread > 0)
        engine_reason(engine, pool_format(engine->keep,
                                          "%s of rank %u could not be compared: not read on a side",
                                          count_text(engine->keep, outcome->unread, "record"),
                                          pairing->rank));
}

/* ---- agreement and bracket ------------------------------------------------------------------- */

/* The deepest tier that both have and that holds the state. */
static int state_tier(const struct pairing *pairing)
{
    for (int tier = DIVERGE_TIER_STEP; tier >= 0; tier--)
        if (pairing->tier[tier])
            return tier;
    return -1;
}

static uint64_t agreed_boundary(struct engine *engine, const struct outcome *outcome)
{
    const struct pairing *pairing = &outcome->pairing;
    uint64_t end = outcome->differs ? outcome->segment : pairing->high + 1;
    int tier = state_tier(pairing);
    if (pairing->low > pairing->high)
        return NO_SEGMENT;
    if (end > pairing->first_gap)
        end = pairing->first_gap;
    if (end > pairing->high + 1)
        end = pairing->high + 1;
    if (tier >= 0) {
        uint64_t found = search_last_boundary(engine, pairing, (enum diverge_tier)tier, end);
        if (found != NO_SEGMENT)
            return found;
        struct trace_head head; /* a tier without boundary rows says nothing about boundaries */
        for (int side = 0; side < SIDES; side++)
            if (side_head_from(engine, side, pairing->stream[side], (enum diverge_tier)tier, 1,
                               &head) &&
                segment_is_boundary(head.segment))
                return NO_SEGMENT;
    }
    if (end <= 1 || end <= pairing->low)
        return NO_SEGMENT;
    uint64_t last = (end - 1) | 1;
    last = last > end - 1 ? last - 2 : last;
    return last >= pairing->low && last < end ? last : NO_SEGMENT;
}

static void set_agreement(struct engine *engine, const struct outcome *outcomes, size_t count)
{
    struct engine_answer *answer = engine->answer;
    uint64_t least = NO_SEGMENT;
    for (size_t i = 0; i < count; i++) {
        uint64_t boundary = agreed_boundary(engine, &outcomes[i]);
        if (boundary == NO_SEGMENT)
            return;
        least = boundary < least ? boundary : least;
    }
    if (least == NO_SEGMENT)
        return;
    answer->has_agree = true;
    answer->agree_boundary = segment_number(least);
}

static bool both_have(struct engine *engine, const struct pairing *pairing, int tier,
                      uint64_t segment)
{
    struct trace_head head;
    return pairing->tier[tier] &&
           side_head(engine, SIDE_A, pairing->stream[SIDE_A], (enum diverge_tier)tier, segment,
                     &head) &&
           side_head(engine, SIDE_B, pairing->stream[SIDE_B], (enum diverge_tier)tier, segment,
                     &head);
}

static bool any_tier(struct engine *engine, const struct pairing *pairing, uint64_t segment)
{
    for (int tier = 0; tier < LEVEL_TIERS; tier++)
        if (both_have(engine, pairing, tier, segment))
            return true;
    return false;
}

/* A side recorded the step and the other did not: what happened in it cannot be compared. */
static bool step_is_one_sided(struct engine *engine, const struct pairing *pairing,
                              uint64_t segment)
{
    struct trace_head head;
    if (any_tier(engine, pairing, segment))
        return false;
    for (int tier = 0; tier < LEVEL_TIERS; tier++)
        for (int side = 0; side < SIDES; side++)
            if (pairing->stream[side]->tiers[tier].present &&
                side_head(engine, side, pairing->stream[side], (enum diverge_tier)tier, segment,
                          &head))
                return true;
    return false;
}

/*
 * Where the state was not recorded at the boundary right before the difference, the difference
 * arose somewhere since the last one that was.
 */
static void set_bracket(struct engine *engine, const struct outcome *outcome)
{
    struct engine_answer *answer = engine->answer;
    const struct pairing *pairing = &outcome->pairing;
    uint64_t segment = outcome->segment;
    int tier = state_tier(pairing);
    uint64_t before = segment_is_step(segment) ? segment - 1 : segment - 2;
    const struct engine_finding *first = outcome->finding;
    if (first->relation == ENGINE_ORIGIN || first->relation == ENGINE_STRUCTURE ||
        (first->site->role == DIVERGE_ROLE_BATCH && first->relation == ENGINE_STATE))
        return; /* it arose right here */
    if (segment <= 1 || segment == pairing->low || tier < 0 || before < pairing->low)
        return;
    bool step_known = segment_is_step(segment) || !step_is_one_sided(engine, pairing, segment - 1);
    uint64_t last = search_last_boundary(engine, pairing, (enum diverge_tier)tier, segment);
    if (both_have(engine, pairing, tier, before) && step_known)
        return;
    if (last == NO_SEGMENT && any_tier(engine, pairing, before) && step_known &&
        tier != DIVERGE_TIER_STEP)
        return;
    answer->has_bracket = true;
    answer->bracket_has_last = last != NO_SEGMENT;
    answer->bracket_last_equal = last != NO_SEGMENT ? last : 0;
    answer->bracket_first_differ = segment;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

static const struct trace_stream *stream_of(const struct trace_run *run, uint32_t rank)
{
    for (uint32_t i = 0; i < run->n_streams; i++)
        if (run->streams[i].rank == rank)
            return &run->streams[i];
    return NULL;
}

static bool is_wanted(const struct engine *engine, uint32_t rank)
{
    return engine->options->rank < 0 || engine->options->rank == (int64_t)rank;
}

static bool same_fingerprint(struct engine *engine, const struct trace_stream *a,
                             const struct trace_stream *b)
{
    if (strcmp(a->fingerprint_id, b->fingerprint_id) == 0)
        return true;
    engine_reason(engine, pool_format(engine->keep,
                                      "rank %u: fingerprints are of another kind: "
                                      "%s in %s, %s in %s",
                                      a->rank, a->fingerprint_id, side_name(engine, SIDE_A),
                                      b->fingerprint_id, side_name(engine, SIDE_B)));
    return false;
}

static void reason_about_missing(struct engine *engine, int side)
{
    const struct trace_run *run = engine->sides[side].run;
    const struct trace_run *other = engine->sides[side == SIDE_A ? SIDE_B : SIDE_A].run;
    for (uint32_t i = 0; i < other->n_streams; i++) {
        uint32_t rank = other->streams[i].rank;
        if (is_wanted(engine, rank) && !stream_of(run, rank))
            engine_reason(engine, pool_format(engine->keep, "rank %u of %s was not recorded", rank,
                                              side_name(engine, side)));
    }
    if (engine->options->rank < 0 && run->world > run->n_streams)
        engine_reason(engine, pool_format(engine->keep, "%s declared %s, %u %s recorded",
                                          side_name(engine, side),
                                          count_text(engine->keep, run->world, "rank"),
                                          run->n_streams, run->n_streams == 1 ? "was" : "were"));
    if (engine->options->rank >= 0 &&
        (engine->options->rank > UINT32_MAX || !stream_of(run, (uint32_t)engine->options->rank)))
        engine_reason(engine,
                      pool_format(engine->keep, "rank %lld of %s was not recorded",
                                  (long long)engine->options->rank, side_name(engine, side)));
}

static void compare_rank(struct engine *engine, struct outcome *outcome)
{
    pairing_init(engine, &outcome->pairing);
    look_at_init(engine, outcome);
    if (outcome->init_differs && !has_first_state(engine, &outcome->pairing))
        take_init(engine, outcome);
    else
        search_rank(engine, outcome);
    if (outcome->init_differs && !outcome->differs)
        take_init(engine, outcome);
    count_rank(engine, outcome);
    count_one_sided(engine, outcome);
    reason_about_rank(engine, outcome);
}

static struct outcome *compare_ranks(struct engine *engine, size_t *ret_count)
{
    const struct trace_run *a = engine->sides[SIDE_A].run, *b = engine->sides[SIDE_B].run;
    struct outcome *outcomes = POOL_ARRAY(&engine->scratch, struct outcome, a->n_streams);
    size_t count = 0;
    bool shifted = false;
    engine->only_rank = a->n_streams == 1;
    for (uint32_t i = 0; i < a->n_streams; i++) {
        const struct trace_stream *stream = &a->streams[i];
        const struct trace_stream *other = stream_of(b, stream->rank);
        if (!other || !is_wanted(engine, stream->rank) || stream_of(a, stream->rank) != stream ||
            !same_fingerprint(engine, stream, other))
            continue;
        if (!shifted) /* one offset for all ranks: they load one checkpoint */
            engine->shift = search_shift(engine, stream, other);
        shifted = true;
        struct outcome *outcome = &outcomes[count++];
        outcome->pairing = (struct pairing){.rank = stream->rank, .stream = {stream, other}};
        compare_rank(engine, outcome);
    }
    *ret_count = count;
    return outcomes;
}

/* Origins before receivers, and what a rank did itself before what a collective brought it. */
static int weight(const struct outcome *outcome)
{
    const struct engine_finding *finding = outcome->finding;
    bool collective = site_is_collective(finding->site);
    if (finding->relation == ENGINE_RECEIVER)
        return collective ? 3 : 2;
    return collective && finding->relation != ENGINE_STRUCTURE ? 1 : 0;
}

static bool is_earlier(const struct outcome *x, const struct outcome *y)
{
    if (x->segment != y->segment)
        return x->segment < y->segment;
    if ((x->category <= CATEGORY_DATA_DIGEST) != (y->category <= CATEGORY_DATA_DIGEST))
        return x->category <= CATEGORY_DATA_DIGEST;
    if (weight(x) != weight(y))
        return weight(x) < weight(y);
    return x->pairing.rank < y->pairing.rank;
}

static struct outcome *choose_first(struct engine *engine, struct outcome *outcomes, size_t count)
{
    struct engine_answer *answer = engine->answer;
    struct outcome *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!outcomes[i].differs)
            continue;
        POOL_PUSH(engine->keep, answer->candidates, answer->n_candidates,
                  engine->candidates_capacity, outcomes[i].finding);
        if (!first || is_earlier(&outcomes[i], first))
            first = &outcomes[i];
    }
    return first;
}

/*
 * ---- what else the answer says ----------------------------------------------------------------
 */

/* Generators, counters and flags that differ first: notes, never a difference. */
static void note_evidence(struct engine *engine, const struct outcome *outcome)
{
    const struct pairing *pairing = &outcome->pairing;
    struct scan scan;
    if (!pairing->tier[DIVERGE_TIER_EVIDENCE] || pairing->low > pairing->high)
        return;
    struct pairing whole = *pairing;
    if (pairing->resumed < 0 && engine->options->first_step == 0)
        whole.low = 0;
    if (outcome->differs && outcome->segment < whole.high)
        whole.high = outcome->segment;
    scan_start(engine, &whole, DIVERGE_TIER_EVIDENCE, NO_SEGMENT, &scan);
    for (int n = 0; n < 8 && scan.next != NO_SEGMENT; n++) {
        struct view *view = view_load(engine, pairing, scan.next);
        size_t found = view->n_evidence;
        for (size_t i = 0; i < view->n_evidence; i++)
            add_also(engine, finding_new(engine, view, view->evidence[i]));
        view_release(engine, view);
        if (found > 0)
            return;
        scan_advance(engine, &whole, &scan);
    }
}

static bool loss_differs(const struct view *view)
{
    for (size_t i = 0; i < view->n_differences; i++)
        if (item_site(view, view->differences[i])->role == DIVERGE_ROLE_LOSS)
            return true;
    return false;
}

static void find_loss(struct engine *engine, const struct outcome *outcome,
                      const struct view *first)
{
    struct pairing pairing = outcome->pairing;
    struct scan scan = outcome->scans[DIVERGE_TIER_PULSE];
    if (!pairing.tier[DIVERGE_TIER_PULSE] || outcome->segment == 0)
        return;
    if (segment_is_step(first->segment) && loss_differs(first)) {
        engine->answer->loss_segment = first->segment;
        return;
    }
    if (scan.deferred)
        scan_resume(engine, &pairing, &scan);
    for (int n = 0; n < LOSS_ROWS && scan.next != NO_SEGMENT; n++) {
        struct view *view = view_load(engine, &pairing, scan.next);
        bool found = segment_is_step(view->segment) && loss_differs(view);
        view_release(engine, view);
        if (found) {
            engine->answer->loss_segment = scan.next;
            return;
        }
        scan_advance(engine, &pairing, &scan);
    }
}

/* On past the first difference; of the other ranks, what is independent there. */
static void list_following(struct engine *engine, const struct outcome *outcome,
                           const struct view *view, const struct item *first, bool independent)
{
    struct following following = {.pairing = &outcome->pairing,
                                  .view = view,
                                  .first = first,
                                  .scans = outcome->segment ? outcome->scans : NULL,
                                  .limit = note_limit(engine),
                                  .independent = independent};
    following_list(engine, &following);
}

static void note_init(struct engine *engine, const struct outcome *outcome)
{
    if (!outcome->init_differs || outcome->segment == 0)
        return;
    struct view *view = view_load(engine, &outcome->pairing, 0);
    const struct item *item = first_item(engine, view);
    if (item)
        add_also(engine, finding_new(engine, view, item));
    view_release(engine, view);
}

/* The first difference is known: look at its segment again, decide, and add what belongs to it. */
static void explain(struct engine *engine, const struct outcome *outcome)
{
    struct engine_answer *answer = engine->answer;
    const struct pairing *pairing = &outcome->pairing;
    struct view *view =
        outcome->view ? outcome->view : view_load(engine, pairing, outcome->segment);
    const struct item *first = first_item(engine, view);
    struct evidence evidence = {.engine = engine,
                                .answer = answer,
                                .pairing = pairing,
                                .view = view,
                                .first = first,
                                .site = first ? item_site(view, first) : NULL,
                                .finding = outcome->finding};
    uint64_t a = pairing->first_boundary[SIDE_A], b = pairing->first_boundary[SIDE_B];
    evidence.at_start = outcome->segment == (a > b ? a : b);
    evidence.generators = generators_before(engine, view, first);
    answer->first = outcome->finding;
    set_bracket(engine, outcome);
    verdict_decide(&evidence, answer, outcome->after_gap);
    int side;
    const struct item *onset = first ? nonfinite_onset(view, &side) : NULL;
    if (onset && onset != first)
        add_also(engine, finding_new(engine, view, onset));
    note_init(engine, outcome);
    if (engine->options->all)
        list_following(engine, outcome, view, first, false);
    find_loss(engine, outcome, view);
    view_release(engine, view);
}

static void explain_others(struct engine *engine, const struct outcome *outcomes, size_t count,
                           const struct outcome *first)
{
    for (size_t i = 0; i < count; i++) {
        if (!outcomes[i].differs || &outcomes[i] == first)
            continue;
        struct view *view = view_load(engine, &outcomes[i].pairing, outcomes[i].segment);
        list_following(engine, &outcomes[i], view, first_item(engine, view), true);
        view_release(engine, view);
    }
}

static bool same_finding(const struct engine_finding *a, const struct engine_finding *b)
{
    return a->segment == b->segment && a->rank == b->rank && a->order == b->order &&
           digest_equal(&a->site->digest, &b->site->digest);
}

/* What the first difference is against noise; it may be elsewhere that they differ by more. */
static void judge_noise(struct engine *engine, struct outcome *outcomes, size_t count,
                        const struct outcome *first)
{
    struct engine_answer *answer = engine->answer;
    if (!noise_is_known(engine))
        return;
    for (size_t i = 0; i < count; i++)
        if (outcomes[i].differs)
            noise_judge(engine, &outcomes[i].pairing, outcomes[i].segment);
    struct view *view = view_load(engine, &first->pairing, first->segment);
    noise_describe(engine, view, first_item(engine, view), &answer->noise.first);
    view_release(engine, view);
    noise_growth(engine, &first->pairing, first->segment);
    if (answer->beyond_noise && same_finding(answer->beyond_noise, answer->first))
        answer->beyond_noise = answer->first;
    if (!answer->beyond_noise && engine->options->excuse_noise && answer->noise.complete)
        answer->result = answer->n_reasons ? ENGINE_UNVERIFIED : ENGINE_WITHIN_NOISE;
}

static bool has_value(const struct trace_chunk *chunk)
{
    for (uint32_t i = 0; i < chunk->count; i++)
        if (!(chunk->layout->sites[i]->flags &
              (DIVERGE_FLAG_VOLATILE | DIVERGE_FLAG_UNINITIALISED | DIVERGE_FLAG_EVIDENCE)))
            return true;
    return false;
}

enum { VALUE_ROWS = 64 };

/*
 * Whether equal records hold anything: what an allocation left, and handles, are counted and never
 * compared. Mostly the first row tells; after many without a value the question is given up, and
 * the benefit of the doubt with it.
 */
static bool has_values(struct engine *engine, const struct pairing *pairing)
{
    int rows = 0;
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        struct trace_head head;
        uint64_t from = pairing->low;
        while (pairing->tier[tier] && rows < VALUE_ROWS &&
               side_head_from(engine, SIDE_A, pairing->stream[SIDE_A], (enum diverge_tier)tier,
                              from, &head) &&
               head.segment <= pairing->high) {
            size_t mark = engine_mark(engine);
            const struct trace_chunk *chunk = side_load(engine, SIDE_A, pairing->stream[SIDE_A],
                                                        (enum diverge_tier)tier, head.segment);
            bool found = head.records > 0 && (!chunk || chunk->pruned || has_value(chunk));
            engine_release(engine, mark);
            if (found)
                return true;
            rows += head.records > 0;
            from = head.segment + 1;
        }
    }
    return false;
}

static void settle_result(struct engine *engine, const struct outcome *outcomes, size_t count,
                          bool differs)
{
    struct engine_answer *answer = engine->answer;
    bool values = false;
    if (!differs && answer->compared.records == 0)
        engine_reason(engine, "nothing was compared: no segment was recorded on both sides");
    else if (!differs && answer->n_reasons == 0) {
        for (size_t i = 0; i < count && !values; i++)
            values = has_values(engine, &outcomes[i].pairing);
        if (!values)
            engine_reason(engine, "nothing was compared: the records hold no values, only handles "
                                  "and memory that nobody wrote");
    }
    answer->result = differs ? ENGINE_DIFFER : answer->n_reasons ? ENGINE_UNVERIFIED : ENGINE_SAME;
}

void compare_runs(struct engine *engine)
{
    struct engine_answer *answer = engine->answer;
    const struct trace_run *a = engine->sides[SIDE_A].run, *b = engine->sides[SIDE_B].run;
    size_t count;
    if (!engine->options->place_only)
        environment_compare(engine, a, b);
    struct outcome *outcomes = compare_ranks(engine, &count);
    for (int side = 0; side < SIDES; side++)
        reason_about_missing(engine, side);
    answer->compared.ranks = count;
    for (size_t i = 0; i < count; i++)
        for (int side = 0; side < SIDES; side++) {
            const struct trace_stream *stream = outcomes[i].pairing.stream[side];
            answer->compared.dropped += stream->dropped;
            for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
                answer->compared.dropped += stream->tiers[tier].dropped;
        }
    answer->offset = engine->shift / 2;
    struct outcome *first = choose_first(engine, outcomes, count);
    settle_result(engine, outcomes, count, first != NULL);
    set_agreement(engine, outcomes, count);
    answer->first = first ? first->finding : NULL;
    answer->after_gap = first && first->after_gap;
    if (engine->options->place_only)
        return;
    if (first) {
        explain(engine, first);
        if (engine->options->all)
            explain_others(engine, outcomes, count, first);
        judge_noise(engine, outcomes, count, first);
    }
    for (size_t i = 0; i < count; i++)
        note_evidence(engine, &outcomes[i]);
    if (!first)
        verdict_without_difference(engine, answer);
}
