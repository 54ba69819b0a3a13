/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generators. A state that differs proves nothing by itself: the first value that differs has to
 * be drawn from it. An op says so by its flag; without op records, a generator that moved in the
 * step may have been drawn from.
 */
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

static bool draws(const struct evidence *evidence)
{
    return (evidence->site->flags & DIVERGE_FLAG_RANDOM) && evidence_inputs_equal(evidence);
}

/* No op was recorded here, so what drew is not known. */
static bool is_shallow(const struct evidence *evidence)
{
    return !evidence->view->both[DIVERGE_TIER_OP] && evidence->finding->relation == ENGINE_STATE &&
           segment_is_step(evidence->view->segment);
}

bool rule_rng(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    const struct generator *generator = generators_first_differing(&evidence->generators);
    bool differs = generator && !generator->aside;
    if (draws(evidence) && differs) {
        ruling_set(ret, "rng", "offset", sureness(&evidence->generators, generator),
                   "A random generator was in another state, and the first value that differs is "
                   "drawn from it.");
        describe(evidence, generator, ret);
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
    ruling_next(evidence, ret, "record ops to see which one draws: --level op");
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
