/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generators. A state that differs proves nothing by itself: the first value that differs has to
 * be drawn from it. An op says so by its flag; without op records, a generator that moved in the
 * step may have been drawn from.
 */
#include <string.h>

#include "daemon/engine/verdict/verdict.h"

/* How sure it is that the call drew from `generator`. */
static enum engine_confidence sureness(const struct generators *generators,
                                       const struct generator *generator)
{
    size_t others = 0;
    for (size_t i = 0; i < generators->count; i++) {
        const struct generator *other = &generators->items[i];
        others +=
            other != generator && !other->aside && other->differs != YES && other->drawn != NO;
    }
    if (generator->drawn == NO)
        return ENGINE_POSSIBLE;
    return others == 0 ? ENGINE_CERTAIN : ENGINE_LIKELY;
}

static void describe(const struct evidence *evidence, const struct generator *generator,
                     struct ruling *ret)
{
    ruling_evidence(evidence, ret, "generator %s differs before %s; every tensor before agrees",
                    generator->name, evidence_what(evidence, evidence->first));
    if (generator->drawn == YES)
        ruling_evidence(evidence, ret, "its state changes in this step: something draws from it");
    ruling_next(evidence, ret, "what draws from %s in one run and not in the other, before %s?",
                generator->name, evidence_place(evidence));
}

static const char *const RANDOM_WORDS[] = {
    "dropout", "drop",    "rand",    "randn",       "randint", "randperm", "bernoulli",
    "normal",  "uniform", "shuffle", "multinomial", "noise",   "sample",   NULL};

static bool is_random(const struct trace_site *site)
{
    return (site->flags & DIVERGE_FLAG_RANDOM) || text_has_word(site->op, RANDOM_WORDS);
}

static bool draws(const struct evidence *evidence)
{
    return is_random(evidence->site) && evidence_inputs_equal(evidence);
}

/* Nothing says which ops of the segment are random: then any may be. */
static bool nothing_is_marked(const struct view *view)
{
    for (size_t i = 0; i < view->n_items; i++)
        if (is_random(item_site(view, &view->items[i])))
            return false;
    return true;
}

/* No op was recorded here, so what drew is not known. */
static bool is_shallow(const struct evidence *evidence)
{
    return !evidence->view->both[DIVERGE_TIER_OP] && evidence->finding->relation == ENGINE_STATE &&
           segment_is_step(evidence->view->segment);
}

/*
 * The same samples come with other contents, and a generator that differs is drawn from in the
 * step: what augments them draws from it.
 */
bool rule_augmentation(const struct evidence *evidence, struct ruling *ret)
{
    const struct generator *generator = generators_first_differing(&evidence->generators);
    struct ruling content = {0};
    if (!generator || generator->drawn != YES || !rule_data(evidence, &content) ||
        !content.detail || strcmp(content.detail, "content") != 0)
        return false;
    ruling_set(
        ret, "rng", "offset", ENGINE_LIKELY,
        "The same samples, changed by random numbers of a generator that was in another state.");
    describe(evidence, generator, ret);
    ruling_evidence(evidence, ret, "the sample ids of the batch are equal, its content is not");
    return true;
}

bool rule_rng(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    const struct generator *generator = generators_first_differing(&evidence->generators);
    bool differs = generator && (!generator->aside || generator->drawn == YES);
    if (draws(evidence) && differs) {
        ruling_set(ret, "rng", "offset", sureness(&evidence->generators, generator),
                   "A random generator was in another state, and the first value that differs is "
                   "drawn from it.");
        describe(evidence, generator, ret);
        if (!(evidence->site->flags & DIVERGE_FLAG_RANDOM) && ret->confidence == ENGINE_CERTAIN) {
            ret->confidence = ENGINE_LIKELY;
            ruling_evidence(evidence, ret, "that %s is random is told by its name",
                            evidence->site->op);
        }
        return true;
    }
    if (evidence_inputs_equal(evidence) && differs && generator->drawn == YES &&
        nothing_is_marked(evidence->view)) {
        ruling_set(
            ret, "rng", "offset", ENGINE_POSSIBLE,
            "A random generator was in another state, and the first op that differs may draw "
            "from it.");
        describe(evidence, generator, ret);
        ruling_next(evidence, ret, "mark random ops with DIVERGE_FLAG_RANDOM to be sure");
        return true;
    }
    if (draws(evidence)) {
        ruling_set(
            ret, "rng", "other-generator", ENGINE_POSSIBLE,
            "A random op differs although no recorded generator that it may draw from does.");
        ruling_evidence(evidence, ret, "%s is random, its inputs agree",
                        evidence_what(evidence, evidence->first));
        ruling_next(evidence, ret, "record the generator that is passed to it");
        return true;
    }
    if (!is_shallow(evidence) || !differs || generator->drawn == NO)
        return false;
    ruling_set(ret, "rng", "offset", generator->drawn == YES ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               "A random generator was in another state before the first value that differs.");
    describe(evidence, generator, ret);
    ruling_next_ops(evidence, ret);
    return true;
}

/* The call of the forward pass that this one does again; NULL: none. */
static const struct item *first_pass(const struct view *view, const struct item *again)
{
    const struct trace_site *site = item_site(view, again);
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        const struct trace_site *other = item_site(view, item);
        if (item != again && evidence_is_pair(item) && other->role == site->role &&
            other->slot == site->slot && other->occurrence == site->occurrence &&
            other->micro_step == site->micro_step && other->region[0] == '\0' &&
            !(other->flags & DIVERGE_FLAG_RECOMPUTE) && strcmp(other->op, site->op) == 0 &&
            strcmp(other->scope, site->scope) == 0)
            return item;
    }
    return NULL;
}

/* A random op of a recomputation gives what it gave in the forward pass in one run only. */
bool rule_recompute(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first || !evidence_is_pair(first) || !draws(evidence) ||
        (!(evidence->site->flags & DIVERGE_FLAG_RECOMPUTE) && !evidence->site->region[0]))
        return false;
    const struct item *before = first_pass(evidence->view, first);
    bool kept[SIDES];
    if (!before || before->state != ITEM_EQUAL)
        return false;
    for (int side = 0; side < SIDES; side++)
        kept[side] =
            item_value(evidence->view, before, side) == item_value(evidence->view, first, side);
    if (kept[SIDE_A] == kept[SIDE_B])
        return false;
    ruling_set(
        ret, "rng", "recompute-mismatch", ENGINE_CERTAIN,
        "Recomputing a part of the forward pass drew other random numbers than the first time.");
    ruling_evidence(
        evidence, ret, "%s gives in %c what it gave in the forward pass, in %c it does not",
        evidence_what(evidence, first), kept[SIDE_A] ? 'A' : 'B', kept[SIDE_A] ? 'B' : 'A');
    ruling_next(evidence, ret, "keep the generator's state with the checkpointed region");
    return true;
}

bool rule_resume_rng(const struct evidence *evidence, struct ruling *ret)
{
    const struct pairing *pairing = evidence->pairing;
    if (pairing->resumed < 0 || !evidence->first)
        return false;
    struct generators start =
        generators_at(evidence->engine, pairing, pairing->first_boundary[pairing->resumed], true);
    const struct generator *generator = generators_first_differing(&start);
    if (!generator || generator->aside || !rule_rng(evidence, ret))
        return false;
    ruling_set(ret, "resume", "rng", ret->confidence,
               "The run that resumed did not restore a random generator.");
    ruling_evidence(evidence, ret, "generator %s differs right after the resume", generator->name);
    ruling_next(evidence, ret, "save and restore the generators' states with the checkpoint");
    return true;
}
