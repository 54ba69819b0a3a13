/* SPDX-License-Identifier: Apache-2.0 */
/* A scalar, a flag or an argument differs while every tensor before it agrees. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "client/wire/message.h"
#include "daemon/engine/verdict/verdict.h"

static const char *const MODE_WORDS[] = {"training",       "train",    "requires_grad",
                                         "grad_enabled",   "no_grad",  "eval",
                                         "inference_mode", "autocast", NULL};
/* Scalars that are results, not settings. */
static const char *const MEASURED_WORDS[] = {"norm",       "accuracy",   "metric", "error",
                                             "perplexity", "throughput", NULL};

/*
 * ---- argument texts: "p=0.1, train=True" ------------------------------------------------------
 */

struct part {
    const char *text;
    size_t length;
};

static struct part next_part(const char **at)
{
    int depth = 0;
    *at += strspn(*at, " ");
    struct part part = {.text = *at};
    const char *end = *at;
    for (; *end && !(depth == 0 && *end == ','); end++) {
        if (strchr("([{", *end))
            depth++;
        else if (strchr(")]}", *end))
            depth--;
    }
    part.length = (size_t)(end - part.text);
    *at = *end ? end + 1 : end;
    return part;
}

/* The first part of each text that is not the same on the other side. */
static bool differing_part(const char *a, const char *b, struct part *ret_a, struct part *ret_b)
{
    while (*a || *b) {
        struct part x = next_part(&a), y = next_part(&b);
        if (x.length != y.length || memcmp(x.text, y.text, x.length) != 0) {
            *ret_a = x;
            *ret_b = y;
            return true;
        }
    }
    return false;
}

/* What differs between the arguments, as text; "" when unknown. */
static const char *differing_argument(const struct evidence *evidence)
{
    const struct engine_finding *finding = evidence->finding;
    struct part a, b;
    if (!finding->a.argument_text || !finding->b.argument_text ||
        !differing_part(finding->a.argument_text, finding->b.argument_text, &a, &b))
        return "";
    if (a.length > 200 || b.length > 200)
        return "";
    return pool_format(evidence->engine->keep, "%.*s against %.*s", (int)a.length, a.text,
                       (int)b.length, b.text);
}

/* ---- details -------------------------------------------------------------------------------- */

static const char *detail_of(const char *text)
{
    static const char *const rate[] = {"lr", "learning_rate", "learning-rate", NULL};
    static const char *const wd[] = {"wd", NULL};
    static const char *const decay[] = {"weight_decay", "weight-decay", NULL};
    static const char *const scale[] = {"loss_scale", "grad_scale", "loss-scale", NULL};
    if (text_has_word(text, rate))
        return "lr";
    if (text_has(text, decay) || text_has_word(text, wd))
        return "weight-decay";
    return text_has(text, scale) ? "loss-scale" : "argument";
}

static bool is_scalar(const struct evidence *evidence, const struct item *item)
{
    const struct trace_site *site = item_site(evidence->view, item);
    if (site->role != DIVERGE_ROLE_SCALAR && site->role != DIVERGE_ROLE_ATTR)
        return false;
    if (!evidence_is_pair(item))
        return false;
    enum diverge_kind a = item_type(evidence->view, item, SIDE_A)->kind;
    return a == DIVERGE_KIND_FLOAT || a == DIVERGE_KIND_INTEGER || a == DIVERGE_KIND_TENSOR;
}

/* ---- mode ----------------------------------------------------------------------------------- */

/* "training", "encoder.training", "is_training", "autocast.cpu"; not "training_loss". */
static bool is_mode_name(const char *name)
{
    const char *last = name + strlen(name);
    while (last > name && !strchr("./", last[-1]))
        last--;
    if (strncmp(last, "is_", 3) == 0)
        last += 3;
    if (strncmp(name, "autocast", 8) == 0 && !isalpha((unsigned char)name[8]))
        return true;
    for (size_t i = 0; MODE_WORDS[i]; i++)
        if (strcmp(last, MODE_WORDS[i]) == 0)
            return true;
    return false;
}

/* "True against False" of an op that trains and evaluates in two ways. */
static bool is_mode_argument(const char *op, const char *argument)
{
    static const char *const ops[] = {"dropout", "batch_norm", "batchnorm", "instance_norm", NULL};
    static const char *const words[] = {"train", "training", "autocast", "no_grad", NULL};
    static const char *const switches[] = {"True against False", "False against True",
                                           "true against false", "false against true", NULL};
    if (text_has_word(argument, words))
        return true;
    return text_has(op, ops) && text_has(argument, switches) && !strchr(argument, '=');
}

bool rule_mode(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    bool flag = is_scalar(evidence, evidence->first) && is_mode_name(evidence->site->name);
    const char *argument = differing_argument(evidence);
    bool in_argument =
        evidence->finding->inputs.differ == 0 && is_mode_argument(evidence->site->op, argument);
    const char *evident = flag || in_argument || !segment_is_step(evidence->view->segment)
                              ? NULL
                              : evidence_attribute(evidence, MODE_WORDS);
    if (!flag && !in_argument && !evident)
        return false;
    ruling_set(ret, "mode", NULL, flag ? ENGINE_CERTAIN : ENGINE_LIKELY,
               "One run was in another mode: training or evaluation, gradients or none.");
    if (flag)
        ruling_evidence(evidence, ret, "%s differs at %s; every value before agrees",
                        evidence_what(evidence, evidence->first), evidence_place(evidence));
    else if (in_argument)
        ruling_evidence(evidence, ret, "%s: %s", evidence_what(evidence, evidence->first),
                        argument);
    else
        ruling_evidence(evidence, ret, "the flag %s differs", evident);
    if (evidence_uses(evidence, "torch"))
        ruling_next(evidence, ret, "model.train() after every evaluation");
    else
        ruling_next(evidence, ret, "what sets the mode in one run and not in the other?");
    return true;
}

/* ---- hyperparameter ------------------------------------------------------------------------- */

static double as_double(const struct view *view, const struct item *item, int side)
{
    uint64_t bits = item_value(view, item, side);
    double value;
    if (item_type(view, item, side)->kind == DIVERGE_KIND_INTEGER)
        return (double)(int64_t)bits;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static bool is_number(const struct view *view, const struct item *item, int side)
{
    enum diverge_kind kind = item_type(view, item, side)->kind;
    return kind == DIVERGE_KIND_FLOAT || kind == DIVERGE_KIND_INTEGER;
}

/* The scalar's value a boundary earlier, where both sides still agreed. */
static bool earlier_value(const struct evidence *evidence, const struct item *scalar, double *ret)
{
    struct engine *engine = evidence->engine;
    const struct trace_site *site = item_site(evidence->view, scalar);
    uint64_t segment = evidence->view->segment;
    bool found = false;
    if (segment < 3)
        return false;
    size_t mark = engine_mark(engine);
    const struct trace_chunk *chunk = side_load(engine, SIDE_A, evidence->pairing->stream[SIDE_A],
                                                (enum diverge_tier)scalar->tier, segment - 2);
    for (uint32_t i = 0; chunk && !chunk->pruned && i < chunk->count && !found; i++) {
        const struct trace_site *other = chunk->layout->sites[i];
        found = other->role == site->role && strcmp(other->name, site->name) == 0 &&
                strcmp(other->scope, site->scope) == 0 &&
                chunk_type(chunk, i)->kind == DIVERGE_KIND_FLOAT;
        uint64_t bits = chunk_value(chunk, i);
        if (found)
            memcpy(ret, &bits, sizeof(*ret));
    }
    engine_release(engine, mark);
    return found;
}

static void describe_scalar(const struct evidence *evidence, const struct item *scalar,
                            struct ruling *ret)
{
    const struct view *view = evidence->view;
    const struct trace_site *site = item_site(view, scalar);
    const char *what = evidence_what(evidence, scalar);
    if (site->op[0] && site->name[0])
        what = pool_format(evidence->engine->keep, "%s of %s", site->name, what);
    if (!is_number(view, scalar, SIDE_A) || !is_number(view, scalar, SIDE_B))
        return;
    double a = as_double(view, scalar, SIDE_A), b = as_double(view, scalar, SIDE_B), before;
    ruling_evidence(evidence, ret, "%s is %.9g in A and %.9g in B at %s", what, a, b,
                    evidence_place(evidence));
    if (earlier_value(evidence, scalar, &before) && a != before && b != before)
        ruling_evidence(evidence, ret,
                        "it was %.9g in both a %s earlier: it changed by %.9g in A "
                        "and %.9g in B, a ratio of %.6g",
                        before, segment_is_boundary(view->segment) ? "boundary" : "step",
                        a - before, b - before, (b - before) / (a - before));
}

static bool is_setting(const struct evidence *evidence, const struct item *item)
{
    const struct trace_site *site = item_site(evidence->view, item);
    static const char *const scale[] = {"scale", NULL};
    if (!is_scalar(evidence, item))
        return false;
    return !text_has(site->name, MEASURED_WORDS) || text_has(site->name, scale);
}

/*
 * Parameters and a setting first differ at the same boundary: the setting came first in the step.
 */
static const struct item *setting_beside(const struct evidence *evidence)
{
    const struct view *view = evidence->view;
    if (!segment_is_boundary(view->segment) || evidence->at_start)
        return NULL;
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        if (is_setting(evidence, item) &&
            strcmp(detail_of(item_site(view, item)->name), "argument"))
            return item;
    }
    return NULL;
}

bool rule_hyperparameter_scalar(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    const struct item *scalar = evidence->first;
    enum engine_confidence confidence = ENGINE_CERTAIN;
    if (!is_setting(evidence, scalar)) {
        scalar = setting_beside(evidence);
        confidence = ENGINE_LIKELY;
    }
    if (!scalar)
        return false;
    const struct trace_site *site = item_site(evidence->view, scalar);
    const char *detail = detail_of(site->name);
    bool named = strcmp(detail, "argument") != 0;
    bool in_place = segment_is_boundary(evidence->view->segment) ||
                    site->phase == DIVERGE_PHASE_OPTIMIZER || site->role == DIVERGE_ROLE_ATTR;
    if (!named && !in_place)
        return false;
    ruling_set(ret, "hyperparameter", detail, confidence,
               "A setting of the training differs while everything before it agrees.");
    describe_scalar(evidence, scalar, ret);
    if (strcmp(detail, "lr") == 0 && !evidence->at_start)
        ruling_next(evidence, ret, "how often does the scheduler step in each run?");
    else
        ruling_next(evidence, ret, "where is %s set in each run?", site->name);
    return true;
}

static bool has_micro_steps(const struct view *view)
{
    for (size_t i = 0; i < view->n_items; i++)
        if (item_site(view, &view->items[i])->micro_step > 0)
            return true;
    return false;
}

bool rule_hyperparameter_argument(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first || !evidence_is_pair(first) || evidence->site->op[0] == '\0' ||
        evidence->finding->inputs.differ > 0 ||
        item_argument(evidence->view, first, SIDE_A) ==
            item_argument(evidence->view, first, SIDE_B))
        return false;
    const char *what = differing_argument(evidence);
    bool averages = evidence->site->phase == DIVERGE_PHASE_LOSS && has_micro_steps(evidence->view);
    ruling_set(ret, "hyperparameter", averages ? "normalisation" : detail_of(what), ENGINE_CERTAIN,
               "An op got another argument; its inputs agree.");
    ruling_evidence(evidence, ret, "%s: %s", evidence_what(evidence, first),
                    what[0] ? what : "the digests of its arguments differ");
    ruling_next(evidence, ret, "which configuration do the arguments of %s come from in each run?",
                evidence_what(evidence, first));
    return true;
}

/* ---- settings that are not recorded ---------------------------------------------------------- */

/* How many times A's B's tensor is, by norm and sum; 0: not by a constant factor, or unknown. */
static double factor_of(const struct view *view, const struct item *item)
{
    double l2[SIDES], sum[SIDES];
    if (!evidence_is_pair(item) ||
        !type_equal(item_type(view, item, SIDE_A), item_type(view, item, SIDE_B)))
        return 0;
    for (int side = 0; side < SIDES; side++) {
        const struct trace_chunk *chunk = view->chunk[side][item->tier];
        uint8_t known = chunk_state(chunk, item->index[side]);
        if (!(known & DVG_STATE_L2) || !(known & DVG_STATE_SUM) || !chunk->l2 || !chunk->sum)
            return 0;
        l2[side] = (double)chunk->l2[item->index[side]];
        sum[side] = (double)chunk->sum[item->index[side]];
    }
    double factor = l2[SIDE_B] / l2[SIDE_A];
    bool agree = fabs(sum[SIDE_B] - factor * sum[SIDE_A]) <= 1e-4 * l2[SIDE_B];
    return isfinite(factor) && agree ? factor : 0;
}

/* Every gradient that differs is the same number of times the other run's: the loss was scaled. */
bool rule_loss_scale(const struct evidence *evidence, struct ruling *ret)
{
    const struct view *view = evidence->view;
    double factor = 0;
    size_t count = 0;
    if (!evidence->first || evidence->site->role != DIVERGE_ROLE_GRAD)
        return false;
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        if (item_site(view, item)->role != DIVERGE_ROLE_GRAD)
            continue;
        double one = factor_of(view, item);
        if (one == 0 || fabs(one - 1) < 1e-3 || (count && fabs(one - factor) > 1e-4 * factor))
            return false;
        factor = one;
        count++;
    }
    ruling_set(ret, "hyperparameter", "loss-scale", count > 1 ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               "The gradients of one run are a constant times those of the other.");
    ruling_evidence(evidence, ret, "%s of B %s %.6g times A's, by norm and by sum",
                    evidence_count(evidence, count, "gradient"), count == 1 ? "is" : "are each",
                    factor);
    ruling_next(evidence, ret, "compare loss scales and how the loss is averaged");
    return true;
}

static bool has_batch(const struct view *view)
{
    for (size_t i = 0; i < view->n_items; i++)
        if (item_site(view, &view->items[i])->role == DIVERGE_ROLE_BATCH &&
            view->items[i].state == ITEM_EQUAL)
            return true;
    return false;
}

/* Far more than rounding, and less than what could be told from another model. */
#define FAR_ABOVE_ROUNDING 1e-4

/*
 * The same micro-batches, and a loss or gradients far apart: they are averaged in another way.
 * Where ops are recorded they would have told more.
 */
bool rule_normalisation(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || evidence->view->both[DIVERGE_TIER_OP] ||
        !segment_is_step(evidence->view->segment) ||
        (evidence->site->role != DIVERGE_ROLE_LOSS && evidence->site->role != DIVERGE_ROLE_GRAD) ||
        !has_micro_steps(evidence->view) || !has_batch(evidence->view))
        return false;
    double apart = finding_at_least_apart(evidence->finding);
    struct ruling scale = {0};
    if (apart < FAR_ABOVE_ROUNDING || rule_loss_scale(evidence, &scale))
        return false;
    ruling_set(
        ret, "hyperparameter", "normalisation", ENGINE_POSSIBLE,
        "The same micro-batches give another loss or other gradients: they seem to be averaged "
        "in another way.");
    ruling_evidence(evidence, ret,
                    "%s differs by %.2g relatively, far more than rounding; the batch of %s agrees",
                    evidence_what(evidence, evidence->first), apart, evidence_place(evidence));
    ruling_next(evidence, ret,
                "is the loss divided by what is in the micro-batch, or by what is in the step?");
    ruling_next_ops(evidence, ret);
    return true;
}

static bool is_parameter(const struct trace_site *site)
{
    return site->role == DIVERGE_ROLE_PARAM;
}

/* Whether the step that led to this boundary has gradients on both sides; equal ones, as nothing
 * differs before. */
static bool has_gradients(const struct evidence *evidence)
{
    struct engine *engine = evidence->engine;
    bool found[SIDES] = {false, false};
    for (int side = 0; side < SIDES; side++) {
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk = side_load(engine, side, evidence->pairing->stream[side],
                                                    DIVERGE_TIER_STEP, evidence->view->segment - 1);
        for (uint32_t i = 0; chunk && !chunk->pruned && i < chunk->count; i++)
            found[side] = found[side] || chunk->layout->sites[i]->role == DIVERGE_ROLE_GRAD;
        engine_release(engine, mark);
    }
    return found[SIDE_A] && found[SIDE_B];
}

/* A cause that differs and is about the optimizer, and what it is about. */
static const struct engine_environment *setting_cause(const struct evidence *evidence,
                                                      const char **ret_detail)
{
    static const struct {
        const char *detail;
        const char *words[6];
    } settings[] = {
        {"lr", {"lr", "learning_rate", "learning-rate", NULL}},
        {"weight-decay", {"weight_decay", "weight-decay", "wd", NULL}},
        {"argument", {"momentum", "beta", "betas", "eps", "optimizer", NULL}},
        {NULL, {"config", "hyperparameter", "argv", NULL}},
    };
    *ret_detail = NULL;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const struct engine_environment *cause =
            environment_cause(evidence->answer, settings[i].words);
        if (cause) {
            *ret_detail = settings[i].detail;
            return cause;
        }
    }
    return NULL;
}

/*
 * Gradients agree and all updates differ: what made the updates of one run others? One kernel would
 * not touch them all, a setting would.
 */
bool rule_updates(const struct evidence *evidence, struct ruling *ret)
{
    const struct view *view = evidence->view;
    size_t differ = evidence_differing(evidence, DIVERGE_ROLE_PARAM), all = 0;
    if (!evidence->first || !segment_is_boundary(view->segment) || evidence->at_start ||
        !is_parameter(evidence->site) || !evidence_is_pair(evidence->first))
        return false;
    for (size_t i = 0; i < view->n_items; i++)
        all += evidence_is_pair(&view->items[i]) && is_parameter(item_site(view, &view->items[i]));
    if (differ < 2 || differ < all || !has_gradients(evidence))
        return false;
    const char *detail;
    const struct engine_environment *cause = setting_cause(evidence, &detail);
    ruling_set(ret, "hyperparameter", detail, detail ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               "All updates of a step differ while its gradients agree, as another setting of the "
               "optimizer would make it.");
    ruling_evidence(evidence, ret, "all %s differ at %s, the gradients of the step before agree",
                    evidence_count(evidence, differ, "parameter"), evidence_place(evidence));
    if (cause)
        ruling_evidence(evidence, ret, "%s", environment_text(evidence->engine, cause));
    ruling_next(evidence, ret,
                "record the optimizer's settings: learning rate, weight decay, momentum");
    return true;
}
