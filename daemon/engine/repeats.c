/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/repeats.h"

#include <math.h>
#include <string.h>

#include "client/wire/message.h"

enum { ROUNDING_ULP = 1024 };

/* One side and a repeat of it, on the tier of the first difference. */
struct twins {
    struct engine *engine;
    int side[2];
    const struct trace_stream *stream[2];
    enum diverge_tier tier;
};

/* ---- where they part ------------------------------------------------------------------------- */

static bool equal_through(const struct twins *twins, uint64_t segment)
{
    struct trace_head head[2];
    for (int i = 0; i < 2; i++)
        if (!side_head_at(twins->engine, twins->side[i], twins->stream[i], twins->tier, segment,
                          &head[i]))
            return false;
    return head[0].segment == head[1].segment && !digest_is_none(&head[0].chain) &&
           digest_equal(&head[0].chain, &head[1].chain);
}

/* The first segment up to `last` in which they differ; NO_SEGMENT: none does. */
static uint64_t part_at(const struct twins *twins, uint64_t last)
{
    struct trace_head head;
    if (equal_through(twins, last))
        return NO_SEGMENT;
    if (!side_head_from(twins->engine, twins->side[0], twins->stream[0], twins->tier, 0, &head) ||
        head.segment >= last)
        return last;
    if (!equal_through(twins, head.segment))
        return head.segment;
    uint64_t equal = head.segment, differs = last;
    while (differs - equal > 1) {
        uint64_t middle = equal + (differs - equal) / 2;
        *(equal_through(twins, middle) ? &equal : &differs) = middle;
    }
    return differs;
}

/* ---- what they do there ---------------------------------------------------------------------- */

static bool same_site(const struct trace_site *a, const struct trace_site *b)
{
    return digest_equal(&a->digest, &b->digest);
}

static bool same_call(const struct trace_site *a, const struct trace_site *b)
{
    return a->phase == b->phase && a->micro_step == b->micro_step &&
           a->occurrence == b->occurrence && strcmp(a->op, b->op) == 0 &&
           strcmp(a->scope, b->scope) == 0 && strcmp(a->lane, b->lane) == 0 &&
           strcmp(a->region, b->region) == 0;
}

static bool same_record(const struct trace_chunk *a, const struct trace_chunk *b, uint32_t i)
{
    return chunk_value(a, i) == chunk_value(b, i) && chunk_argument(a, i) == chunk_argument(b, i) &&
           type_equal(chunk_type(a, i), chunk_type(b, i)) &&
           !((chunk_state(a, i) | chunk_state(b, i)) & DVG_STATE_UNREAD);
}

/*
 * The site's output differs and everything its call read is equal. Chunks of one layout only: a
 * repeat does the same things.
 */
static bool disagree_in(const struct trace_chunk *a, const struct trace_chunk *b,
                        const struct trace_site *site)
{
    uint32_t at = NO_INDEX;
    if (!digest_equal(&a->layout->digest, &b->layout->digest) || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count && at == NO_INDEX; i++)
        if (same_site(a->layout->sites[i], site))
            at = i;
    if (at == NO_INDEX || same_record(a, b, at) ||
        ((chunk_state(a, at) | chunk_state(b, at)) & DVG_STATE_UNREAD) ||
        chunk_argument(a, at) != chunk_argument(b, at))
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct trace_site *other = a->layout->sites[i];
        /* Without inputs, what stands before it must agree. */
        bool before = site->op[0] ? other->role == DIVERGE_ROLE_INPUT && same_call(other, site)
                                  : i < at && !(other->flags & DIVERGE_FLAG_UNINITIALISED);
        if (before && !same_record(a, b, i))
            return false;
    }
    return true;
}

static bool disagree_at(const struct twins *twins, uint64_t segment, const struct trace_site *site)
{
    const struct trace_chunk *chunk[2];
    size_t mark = engine_mark(twins->engine);
    bool known = true, disagree = false;
    for (int i = 0; i < 2; i++) {
        chunk[i] = side_load(twins->engine, twins->side[i], twins->stream[i], twins->tier, segment);
        known = known && chunk[i] && !chunk[i]->pruned;
    }
    if (known)
        disagree = disagree_in(chunk[0], chunk[1], site);
    engine_release(twins->engine, mark);
    return disagree;
}

static const struct trace_stream *stream_of(const struct trace_run *run, uint32_t rank)
{
    for (uint32_t i = 0; i < run->n_streams; i++)
        if (run->streams[i].rank == rank)
            return &run->streams[i];
    return NULL;
}

void repeats_look(const struct evidence *evidence, int side, struct repeats *ret)
{
    struct engine *engine = evidence->engine;
    *ret = (struct repeats){0};
    if (!evidence->first || !item_has(evidence->first, side))
        return;
    const struct trace_site *site = item_site_of(evidence->view, evidence->first, side);
    for (size_t n = 0; n < engine->n_repeats[side]; n++) {
        int other = repeat_side(side, n);
        const struct trace_run *run = engine->sides[other].run;
        const struct twins twins = {
            .engine = engine,
            .side = {side, other},
            .stream = {evidence->pairing->stream[side], stream_of(run, evidence->pairing->rank)},
            .tier = (enum diverge_tier)evidence->first->tier};
        if (!twins.stream[1])
            continue;
        ret->recorded++;
        uint64_t segment = part_at(&twins, evidence->view->segment);
        if (segment == NO_SEGMENT) {
            ret->agree++;
        } else if (disagree_at(&twins, segment, site)) {
            ret->segment = ret->disagree ? ret->segment : segment;
            ret->run = ret->disagree ? ret->run : run;
            ret->disagree++;
        }
    }
}

/* ---- what it means --------------------------------------------------------------------------- */

/* Lines that begin so go. */
static void drop(const char **lines, size_t *count, const char *start)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (strncmp(lines[i], start, strlen(start)) != 0)
            lines[kept++] = lines[i];
    *count = kept;
}

/* In ulp; NaN: unknown. The statistics of one element are its value. */
static double distance_of(const struct engine_finding *finding)
{
    const struct engine_side *a = &finding->a, *b = &finding->b;
    double epsilon = dtype_epsilon(a->dtype), one = (double)a->sum, other = (double)b->sum;
    if (!isnan(finding->ulp) || !(epsilon > 0) || a->dtype != b->dtype || a->numel != 1 ||
        b->numel != 1 || !(a->state & b->state & DVG_STATE_SUM) || !isfinite(one) ||
        !isfinite(other) || one == 0)
        return finding->ulp;
    return fabs(one - other) / fabs(one) / epsilon;
}

static void say(const struct evidence *evidence, struct ruling *ruling, char name,
                const struct repeats *repeats)
{
    if (repeats->disagree)
        ruling_evidence(evidence, ruling,
                        "repeats of %c disagree here as well: %zu of %zu, %s first at %s", name,
                        repeats->disagree, repeats->recorded, repeats->run->name,
                        segment_text(evidence->engine->keep, repeats->segment));
    else if (repeats->agree)
        ruling_evidence(evidence, ruling,
                        "%c repeats itself: %zu of %zu repeat%s agree%s up to here", name,
                        repeats->agree, repeats->recorded, repeats->recorded == 1 ? "" : "s",
                        repeats->agree == 1 ? "s" : "");
}

static void is_nondeterministic(const struct evidence *evidence, struct ruling *ruling)
{
    if (strcmp(ruling->class_name, "nondeterministic-kernel") != 0) {
        ruling_set(ruling, "nondeterministic-kernel", NULL, ruling->confidence, NULL);
        ruling->n_next = 0;
        ruling_next_determinism(evidence, ruling);
    }
    bool whole = evidence_inputs_equal(evidence);
    ruling->text =
        whole ? "Same inputs, same arguments; another output, also between runs of one job."
              : "Runs of one job differ here as well.";
    ruling->confidence = whole ? ENGINE_CERTAIN : ENGINE_LIKELY;
}

static void both_repeat(const struct evidence *evidence, struct ruling *ruling)
{
    double ulp = distance_of(evidence->finding);
    bool causes = environment_causes(evidence->answer) > 0;
    bool rounding = ulp <= ROUNDING_ULP; /* false when it is not known */
    if (strcmp(ruling->class_name, "reduction-order") == 0) {
        if (rounding && evidence_inputs_equal(evidence))
            ruling->confidence = ENGINE_CERTAIN;
    } else if (causes && (rounding || isnan(ulp)) && evidence_inputs_equal(evidence)) {
        ruling_set(ruling, "reduction-order", NULL, rounding ? ENGINE_LIKELY : ENGINE_POSSIBLE,
                   "Each side repeats itself: what differs in the environment makes the op compute "
                   "in another order.");
    } else {
        ruling->confidence = ENGINE_POSSIBLE;
    }
}

void repeats_weigh(const struct evidence *evidence, struct ruling *ruling)
{
    struct repeats side[SIDES];
    bool weighs = evidence->first && ruling->class_name &&
                  (strcmp(ruling->class_name, "nondeterministic-kernel") == 0 ||
                   strcmp(ruling->class_name, "reduction-order") == 0);
    if (!weighs)
        return;
    for (int i = 0; i < SIDES; i++)
        repeats_look(evidence, i, &side[i]);
    if (side[SIDE_A].recorded + side[SIDE_B].recorded == 0)
        return;
    drop(ruling->evidence, &ruling->n_evidence, "no repeats:");
    drop(ruling->next, &ruling->n_next, "does A repeat itself?");
    for (int i = 0; i < SIDES; i++)
        say(evidence, ruling, "AB"[i], &side[i]);
    if (side[SIDE_A].disagree + side[SIDE_B].disagree > 0)
        is_nondeterministic(evidence, ruling);
    else if (side[SIDE_A].agree > 0 && side[SIDE_B].agree > 0)
        both_repeat(evidence, ruling);
}
