/* SPDX-License-Identifier: Apache-2.0 */
/* The state at the first common boundary differs: initialisation, or what a resume restored. */
#include <string.h>

#include "client/wire/message.h"
#include "daemon/engine/verdict/verdict.h"

static bool is_parameter(const struct trace_site *site)
{
    return site->role == DIVERGE_ROLE_PARAM || site->role == DIVERGE_ROLE_BUFFER;
}

/* ---- init ----------------------------------------------------------------------------------- */

/* All elements equal, as in a bias of zeros: the same whatever the seed. */
static bool is_constant(const struct view *view, const struct item *item)
{
    const struct trace_chunk *chunk = view->chunk[SIDE_A][item->tier];
    uint32_t index = item->index[SIDE_A];
    return (chunk_state(chunk, index) & DVG_STATE_RANGE) && chunk->min && chunk->max &&
           chunk->min[index] == chunk->max[index] && type_numel(chunk_type(chunk, index)) > 1;
}

struct spread { /* of the difference over the parameters, in construction order */
    size_t differ, equal;
    bool suffix; /* nothing equal after the first that differs */
};

static struct spread measure_spread(const struct view *view)
{
    struct spread spread = {.suffix = true};
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        if (!evidence_is_pair(item) || item_site(view, item)->role != DIVERGE_ROLE_PARAM)
            continue;
        if (item->state == ITEM_DIFFERS) {
            spread.differ++;
        } else if (!is_constant(view, item)) {
            spread.equal++;
            spread.suffix = spread.suffix && spread.differ == 0;
        }
    }
    return spread;
}

static enum known differ(const struct generators *generators)
{
    bool known = false;
    for (size_t i = 0; i < generators->count; i++)
        known = known || (generators->items[i].differs != UNKNOWN && !generators->items[i].aside);
    const struct generator *first = generators_first_differing(generators);
    if (first && !first->aside)
        return YES;
    return known ? NO : UNKNOWN;
}

/* As the first boundary has them, or as the initialisation left them. */
static struct generators generators_after_init(const struct evidence *evidence)
{
    struct generators list =
        generators_at(evidence->engine, evidence->pairing, evidence->view->segment, false);
    if (list.count > 0)
        return list;
    list = generators_at(evidence->engine, evidence->pairing, 0, true);
    for (size_t i = 0; i < list.count; i++) /* read once: before construction */
        if (list.items[i].reads[SIDE_A] < 2 || list.items[i].reads[SIDE_B] < 2)
            list.items[i].differs = UNKNOWN;
    return list;
}

/*
 * Generators tell: another state before construction is another seed; another state only after it,
 * from some parameter on, is an extra draw; no trace in them means that the tensors came from
 * elsewhere.
 */
static const char *init_detail(enum known before, enum known after, const struct spread *spread,
                               bool seed_key)
{
    if (before == YES || (seed_key && before != NO))
        return "seed";
    if (after == NO)
        return "fresh-tensors";
    if (spread->equal == 0)
        return before == NO ? "offset" : "seed";
    bool moved = after == YES || (after == UNKNOWN && before == NO);
    return moved && spread->suffix ? "offset" : "fresh-tensors";
}

static void next_of_init(const struct evidence *evidence, struct ruling *ret)
{
    const char *what = evidence_what(evidence, evidence->first);
    if (strcmp(ret->detail, "seed") == 0)
        ruling_next(evidence, ret, "give both runs one seed before the model is made");
    else if (strcmp(ret->detail, "offset") == 0)
        ruling_next(evidence, ret, "what draws a random number right before %s is made?", what);
    else
        ruling_next(evidence, ret, "which code fills %s, and from which generator?", what);
}

bool rule_init(const struct evidence *evidence, struct ruling *ret)
{
    static const char *const seed_words[] = {"seed", NULL};
    struct engine *engine = evidence->engine;
    if (!evidence->first || !evidence->at_start || evidence->pairing->resumed >= 0 ||
        !is_parameter(evidence->site) || !evidence_is_pair(evidence->first))
        return false;
    struct generators first = generators_at(engine, evidence->pairing, 0, false);
    struct generators last = generators_after_init(evidence);
    enum known before = differ(&first), after = differ(&last);
    const struct engine_environment *seed = environment_cause(evidence->answer, seed_words);
    struct spread spread = measure_spread(evidence->view);
    ruling_set(ret, "init", init_detail(before, after, &spread, seed != NULL),
               before == UNKNOWN && after == UNKNOWN && !seed ? ENGINE_LIKELY : ENGINE_CERTAIN,
               "The parameters differ before the first step.");
    ruling_evidence(evidence, ret, "%s %s at boundary %llu, %zu %s (constant ones not counted)",
                    evidence_count(evidence, spread.differ, "parameter"),
                    spread.differ == 1 ? "differs" : "differ",
                    (unsigned long long)segment_number(evidence->view->segment), spread.equal,
                    spread.equal == 1 ? "agrees" : "agree");
    if (spread.differ == 0)
        ruling_evidence(
            evidence, ret, "%s %s",
            evidence_count(evidence, evidence_differing(evidence, DIVERGE_ROLE_BUFFER), "buffer"),
            evidence_differing(evidence, DIVERGE_ROLE_BUFFER) == 1 ? "differs" : "differ");
    if (before != UNKNOWN)
        ruling_evidence(evidence, ret, "the generators before construction are %s",
                        before == YES ? "different" : "equal");
    if (after != UNKNOWN)
        ruling_evidence(evidence, ret, "the generators after construction are %s",
                        after == YES ? "different" : "equal");
    if (seed)
        ruling_evidence(evidence, ret, "%s", environment_text(engine, seed));
    next_of_init(evidence, ret);
    return true;
}

/* ---- uninitialised -------------------------------------------------------------------------- */

struct writers {            /* records of the initialisation about one tensor */
    bool written;           /* an op's output has its value */
    bool allocated;         /* an uninitialised allocation has its shape */
    bool same_as_allocated; /* … and its value */
};

static struct writers find_writers(const struct view *init, int side, uint64_t value,
                                   const struct trace_type *type)
{
    struct writers writers = {0};
    for (size_t i = 0; i < init->n_items; i++) {
        const struct item *item = &init->items[i];
        if (!item_has(item, side))
            continue;
        const struct trace_site *site = item_site_of(init, item, side);
        if (site->role != DIVERGE_ROLE_OUTPUT)
            continue;
        bool same_value = item_value(init, item, side) == value;
        bool fits = type_equal(item_type(init, item, side), type);
        if (!(site->flags & DIVERGE_FLAG_UNINITIALISED))
            writers.written = writers.written || (same_value && fits);
        else if (fits) {
            writers.allocated = true;
            writers.same_as_allocated = writers.same_as_allocated || same_value;
        }
    }
    return writers;
}

/*
 * Every other parameter has its value from a recorded op of the initialisation, on both sides: then
 * one that has not was left out by the program, not by the recording.
 */
static bool others_are_written(const struct evidence *evidence)
{
    const struct view *view = evidence->view;
    struct view *init = view_load(evidence->engine, evidence->pairing, 0);
    size_t others = 0;
    bool all = true;
    for (size_t i = 0; i < view->n_items && all; i++) {
        const struct item *item = &view->items[i];
        if (item == evidence->first || !evidence_is_pair(item) ||
            item_site(view, item)->role != DIVERGE_ROLE_PARAM)
            continue;
        for (int side = 0; side < SIDES && all; side++) {
            struct writers writers =
                find_writers(init, side, item_value(view, item, side), item_type(view, item, side));
            all = writers.written;
        }
        others++;
    }
    view_release(evidence->engine, init);
    return all && others > 0;
}

static bool never_written(const struct evidence *evidence, struct ruling *ret)
{
    struct engine *engine = evidence->engine;
    const struct pairing *pairing = evidence->pairing;
    struct view *init = view_load(engine, pairing, 0);
    struct writers writers[SIDES];
    for (int side = 0; side < SIDES; side++)
        writers[side] = find_writers(init, side, item_value(evidence->view, evidence->first, side),
                                     item_type(evidence->view, evidence->first, side));
    view_release(engine, init);
    if (writers[SIDE_A].written || writers[SIDE_B].written)
        return false;
    if ((!writers[SIDE_A].allocated || !writers[SIDE_B].allocated) && !others_are_written(evidence))
        return false;
    bool exact = writers[SIDE_A].same_as_allocated && writers[SIDE_B].same_as_allocated;
    ruling_set(ret, "corruption", "uninitialised", exact ? ENGINE_CERTAIN : ENGINE_LIKELY,
               "A tensor was allocated and never written: it holds what the memory held before.");
    ruling_evidence(evidence, ret, "no record of the initialisation wrote %s, in either run",
                    evidence_what(evidence, evidence->first));
    if (exact)
        ruling_evidence(evidence, ret, "its values are those of the allocation");
    return true;
}

/* An op reads what an uninitialised allocation left. */
static bool reads_unwritten(const struct evidence *evidence, struct ruling *ret)
{
    if (evidence->site->role != DIVERGE_ROLE_INPUT)
        return false;
    for (int side = 0; side < SIDES; side++) {
        bool certain;
        const struct item *producer = evidence_producer(evidence, evidence->first, side, &certain);
        if (!producer || !(item_site(evidence->view, producer)->flags & DIVERGE_FLAG_UNINITIALISED))
            continue;
        ruling_set(ret, "corruption", "uninitialised", ENGINE_LIKELY,
                   "An op reads memory that was allocated and never written.");
        ruling_evidence(evidence, ret, "%s takes its input from %s, which only allocates",
                        evidence_what(evidence, evidence->first),
                        evidence_what(evidence, producer));
        return true;
    }
    return false;
}

bool rule_uninitialised(const struct evidence *evidence, struct ruling *ret)
{
    const struct pairing *pairing = evidence->pairing;
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    if (reads_unwritten(evidence, ret))
        return true;
    if (!evidence->at_start || pairing->resumed >= 0 || !pairing->tier[DIVERGE_TIER_OP] ||
        (!is_parameter(evidence->site) && evidence->site->role != DIVERGE_ROLE_OPTSTATE))
        return false;
    struct generators first = generators_at(evidence->engine, pairing, 0, false);
    struct generators last = generators_after_init(evidence);
    if (differ(&first) == YES || differ(&last) == YES || !never_written(evidence, ret))
        return false;
    if (differ(&first) == NO && differ(&last) == NO)
        ruling_evidence(evidence, ret, "the generators are equal before and after construction");
    else
        ret->confidence = ENGINE_LIKELY;
    ruling_next(evidence, ret, "initialise it; valgrind or MemorySanitizer name the allocation");
    return true;
}

/* ---- resume --------------------------------------------------------------------------------- */

static bool is_state(const struct trace_site *site)
{
    return is_parameter(site) || site->role == DIVERGE_ROLE_OPTSTATE;
}

/* Every differing tensor of the state is found under another name on the other side. */
static size_t count_permuted(const struct view *view, size_t *ret_tensors)
{
    size_t permuted = 0, tensors = 0;
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        const struct trace_site *site = item_site(view, item);
        if (!is_state(site) || !evidence_is_pair(item) ||
            item_type(view, item, SIDE_A)->kind != DIVERGE_KIND_TENSOR ||
            item_type(view, item, SIDE_B)->kind != DIVERGE_KIND_TENSOR)
            continue;
        tensors++;
        for (size_t j = 0; j < view->n_differences; j++) {
            const struct item *other = view->differences[j];
            if (i != j && evidence_is_pair(other) && item_site(view, other)->role == site->role &&
                type_equal(item_type(view, other, SIDE_A), item_type(view, item, SIDE_B)) &&
                item_value(view, other, SIDE_A) == item_value(view, item, SIDE_B)) {
                permuted++;
                break;
            }
        }
    }
    *ret_tensors = tensors;
    return permuted;
}

/* Missing, recorded as absent, or all zeros. */
static bool is_blank(const struct view *view, const struct item *item, int side)
{
    if (!item_has(item, side))
        return true;
    const struct trace_type *type = item_type(view, item, side);
    return type->kind == DIVERGE_KIND_ABSENT || item_value(view, item, side) == 0;
}

struct losses {
    size_t optstate, blank, parameters, scalars;
};

static struct losses count_losses(const struct evidence *evidence)
{
    struct losses losses = {0};
    const struct view *view = evidence->view;
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        const struct trace_site *site = item_site(view, item);
        if (site->role == DIVERGE_ROLE_OPTSTATE) {
            losses.optstate++;
            losses.blank += is_blank(view, item, evidence->pairing->resumed);
        } else if (is_parameter(site)) {
            losses.parameters++;
        } else {
            losses.scalars++;
        }
    }
    return losses;
}

static void rule_on_scalar(const struct evidence *evidence, struct ruling *ret)
{
    static const struct {
        const char *detail;
        const char *words[8];
        const char *next;
    } kinds[] = {
        {"scaler", {"scale", "scaler", NULL}, "save and load the gradient scaler's state"},
        {"scheduler",
         {"lr", "learning_rate", "scheduler", "schedule", "warmup", NULL},
         "save and load the scheduler's state"},
        {"data-position",
         {"position", "sampler", "epoch", "batch", NULL},
         "save and restore the sampler's position and epoch"},
        {"optimizer",
         {"decay", "weight_decay", "momentum", "beta", "betas", "eps", NULL},
         "save and load the optimizer's settings with its state"},
    };
    const size_t n = sizeof(kinds) / sizeof(kinds[0]);
    size_t i = 0;
    while (i < n && !text_has_word(evidence->site->name, kinds[i].words))
        i++;
    ruling_set(ret, "resume", i < n ? kinds[i].detail : "scheduler",
               i < n ? ENGINE_CERTAIN : ENGINE_POSSIBLE,
               "The run that resumed has another scalar than the checkpoint's run had.");
    if (i < n)
        ruling_next(evidence, ret, "%s", kinds[i].next);
}

bool rule_resume(const struct evidence *evidence, struct ruling *ret)
{
    const struct pairing *pairing = evidence->pairing;
    if (!evidence->first || pairing->resumed < 0 || !evidence->at_start)
        return false;
    struct losses losses = count_losses(evidence);
    size_t tensors, permuted = count_permuted(evidence->view, &tensors);
    char side = pairing->resumed == SIDE_A ? 'A' : 'B';
    if (permuted >= 2 && permuted == tensors) {
        ruling_set(ret, "resume", "permuted", ENGINE_CERTAIN,
                   "The checkpoint's items were restored under other names.");
        ruling_evidence(evidence, ret,
                        "each of the %zu differing tensors is found under another "
                        "name on the other side",
                        tensors);
        ruling_next(evidence, ret, "restore by name, not by position");
    } else if (losses.parameters > 0) {
        ruling_set(ret, "resume", "parameter", ENGINE_CERTAIN,
                   "Parameters or buffers are not those of the checkpoint's run.");
        ruling_evidence(evidence, ret, "%s of parameters and buffers %s",
                        evidence_count(evidence, losses.parameters, "tensor"),
                        losses.parameters == 1 ? "differs" : "differ");
        ruling_next(
            evidence, ret,
            "compare the checkpoint's list of tensors with the model's: which are not loaded?");
    } else if (losses.optstate > 0) {
        bool blank = losses.blank == losses.optstate;
        ruling_set(ret, "resume", "optimizer", blank ? ENGINE_CERTAIN : ENGINE_LIKELY,
                   "The optimizer's state was not restored.");
        ruling_evidence(evidence, ret,
                        "%s of the optimizer's state %s: %zu missing or zero in %c; all parameters "
                        "agree",
                        evidence_count(evidence, losses.optstate, "item"),
                        losses.optstate == 1 ? "differs" : "differ", losses.blank, side);
        ruling_next(evidence, ret, "save and load the optimizer's state with the checkpoint");
    } else {
        rule_on_scalar(evidence, ret);
        ruling_evidence(evidence, ret, "%s differs; all tensors agree",
                        evidence_what(evidence, evidence->first));
    }
    ruling_evidence(evidence, ret, "%c starts at boundary %llu of the other run", side,
                    (unsigned long long)segment_number(evidence->view->segment));
    return true;
}
