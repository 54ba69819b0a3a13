/* SPDX-License-Identifier: Apache-2.0 */
/* A scalar, a flag or an argument differs while every tensor before it agrees. */
#include <string.h>

#include "daemon/engine/verdict/verdict.h"

static const char *const MODE_WORDS[] = {"training",     "requires_grad", "autocast",
                                         "grad_enabled", "eval",          NULL};
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

static bool is_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strcasestr(text, word); at; at = strcasestr(at + 1, word)) {
        bool starts = at == text || !strchr("abcdefghijklmnopqrstuvwxyz", at[-1] | 0x20);
        bool ends = !at[length] || !strchr("abcdefghijklmnopqrstuvwxyz", at[length] | 0x20);
        if (starts && ends)
            return true;
    }
    return false;
}

static const char *detail_of(const char *text)
{
    static const char *const decay[] = {"weight_decay", "weight-decay", NULL};
    static const char *const scale[] = {"loss_scale", "grad_scale", "loss-scale", NULL};
    if (is_word(text, "lr") || is_word(text, "learning_rate"))
        return "lr";
    if (text_has(text, decay) || is_word(text, "wd"))
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

bool rule_mode(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first))
        return false;
    static const char *const argument_words[] = {"train", "autocast", "no_grad", NULL};
    bool flag = is_scalar(evidence, evidence->first) && text_has(evidence->site->name, MODE_WORDS);
    const char *argument = differing_argument(evidence);
    bool in_argument = evidence->finding->inputs.differ == 0 && text_has(argument, argument_words);
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
    ruling_next(evidence, ret, "model.train() after every evaluation");
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
    const char *what = evidence_what(evidence, scalar);
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
    if (strcmp(detail, "lr") == 0)
        ruling_next(evidence, ret, "how often does the scheduler step in each run?");
    return true;
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
    ruling_set(ret, "hyperparameter", detail_of(what), ENGINE_CERTAIN,
               "An op got another argument; its inputs agree.");
    ruling_evidence(evidence, ret, "%s: %s", evidence_what(evidence, first),
                    what[0] ? what : "the digests of its arguments differ");
    return true;
}
