/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/verdict/verdict.h"

#include <stdio.h>
#include <string.h>

#include "daemon/engine/repeats.h"

/*
 * In the order asked. Earlier rules need stronger or earlier evidence: what is missing or removed,
 * data, state at the start, scalars and arguments, structure, generators; then what can be said of
 * an op whose inputs agree; last what remains.
 */
static const struct {
    const char *name;
    rule_function rule;
} RULES[] = {
    {"pruned", rule_pruned},
    {"nonfinite", rule_nonfinite},
    {"missing-collective", rule_missing_collective},
    {"precision", rule_precision},
    {"replicas", rule_replicas},
    {"resume-data", rule_resume_data},
    {"augmentation", rule_augmentation},
    {"data", rule_data},
    {"mode", rule_mode},
    {"resume", rule_resume},
    {"structure", rule_structure},
    {"uninitialised", rule_uninitialised},
    {"init", rule_init},
    {"autotune", rule_autotune},
    {"hyperparameter-scalar", rule_hyperparameter_scalar},
    {"hyperparameter-argument", rule_hyperparameter_argument},
    {"resume-rng", rule_resume_rng},
    {"recompute", rule_recompute},
    {"rng", rule_rng},
    {"structure-feeds", rule_structure_feeds},
    {"bit-flip", rule_bit_flip},
    {"race", rule_race},
    {"unobserved", rule_unobserved},
    {"dropped-write", rule_dropped_write},
    {"normalisation", rule_normalisation},
    {"loss-scale", rule_loss_scale},
    {"reduction-order", rule_reduction_order},
    {"implicit", rule_implicit},
    {"far", rule_far},
    {"nondeterministic-kernel", rule_nondeterministic},
    {"updates", rule_updates},
    {"unexplained", rule_unexplained},
};

/* ---- helpers -------------------------------------------------------------------------------- */

void ruling_set(struct ruling *ruling, const char *class_name, const char *detail,
                enum engine_confidence confidence, const char *text)
{
    ruling->class_name = class_name;
    ruling->detail = detail;
    ruling->confidence = confidence;
    ruling->text = text;
}

__attribute__((format(printf, 2, 0))) static const char *format_list(
    const struct evidence *evidence, const char *format, va_list list)
{
    char text[1024];
    vsnprintf(text, sizeof(text), format, list);
    return pool_string(evidence->engine->keep, text);
}

void ruling_evidence(const struct evidence *evidence, struct ruling *ruling, const char *format,
                     ...)
{
    va_list list;
    va_start(list, format);
    if (ruling->n_evidence < sizeof(ruling->evidence) / sizeof(ruling->evidence[0]))
        ruling->evidence[ruling->n_evidence++] = format_list(evidence, format, list);
    va_end(list);
}

void ruling_next(const struct evidence *evidence, struct ruling *ruling, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (ruling->n_next < sizeof(ruling->next) / sizeof(ruling->next[0]))
        ruling->next[ruling->n_next++] = format_list(evidence, format, list);
    va_end(list);
}

const char *evidence_count(const struct evidence *evidence, uint64_t n, const char *one)
{
    return count_text(evidence->engine->keep, n, one);
}

void ruling_next_repeat(const struct evidence *evidence, struct ruling *ruling)
{
    const char *name = evidence->engine->sides[SIDE_A].run->name;
    if (!name || !name[0])
        name = "A";
    ruling_next(evidence, ruling,
                "does A repeat itself? divergectl run --like %s -- …, then divergectl first-diff "
                "%s @last",
                name, name);
}

void ruling_next_ops(const struct evidence *evidence, struct ruling *ruling)
{
    const struct engine_answer *answer = evidence->answer;
    uint64_t segment = evidence->view->segment, k = segment_number(segment), first;
    if (segment_is_boundary(segment) && k > 0)
        k--;
    first = !answer->has_bracket       ? k
            : answer->bracket_has_last ? segment_number(answer->bracket_last_equal)
                                       : 0;
    if (segment == 0 || evidence->engine->shift != 0)
        ruling_next(evidence, ruling,
                    "record both again with their ops: divergectl run --level op");
    else if (first < k)
        ruling_next(evidence, ruling,
                    "record both again with the ops of steps %llu to %llu: divergectl run --level "
                    "op --steps %llu:%llu -- …",
                    (unsigned long long)first, (unsigned long long)k, (unsigned long long)first,
                    (unsigned long long)k);
    else
        ruling_next(evidence, ruling,
                    "record both again with the ops of step %llu: divergectl run --level op "
                    "--steps %llu -- …",
                    (unsigned long long)k, (unsigned long long)k);
}

static bool run_uses(const struct trace_run *run, const char *library)
{
    size_t length = strlen(library);
    for (uint32_t i = 0; i < run->n_metadata; i++) {
        const char *key = run->metadata[i].key;
        if (strncmp(key, "library.", 8) == 0 && strcmp(key + 8, library) == 0)
            return true;
        if (strncmp(key, library, length) == 0 && (key[length] == '.' || key[length] == '\0'))
            return true;
    }
    return false;
}

bool evidence_uses(const struct evidence *evidence, const char *library)
{
    return run_uses(evidence->engine->sides[SIDE_A].run, library) ||
           run_uses(evidence->engine->sides[SIDE_B].run, library);
}

/* Records that hold what ops read. */
static bool is_made(const struct trace_site *site)
{
    return site->role == DIVERGE_ROLE_OUTPUT || site->role == DIVERGE_ROLE_BATCH ||
           site->role == DIVERGE_ROLE_COLLECTIVE;
}

static const struct item *maker_by_value(const struct view *view, const struct item *input,
                                         int side)
{
    const struct trace_type *type = item_type(view, input, side);
    const char *lane = item_site_of(view, input, side)->lane;
    uint64_t value = item_value(view, input, side);
    uint32_t order = item_order(view, input, side);
    const struct item *found = NULL;
    if (type->kind != DIVERGE_KIND_TENSOR || type_numel(type) < 2)
        return NULL;
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        if (!item_has(item, side) || item_value(view, item, side) != value ||
            !is_made(item_site_of(view, item, side)) || item_order(view, item, side) >= order ||
            !type_equal(item_type(view, item, side), type) ||
            strcmp(item_site_of(view, item, side)->lane, lane) != 0)
            continue;
        if (!found || item_order(view, item, side) > item_order(view, found, side))
            found = item;
    }
    return found;
}

const struct item *evidence_producer(const struct evidence *evidence, const struct item *input,
                                     int side, bool *ret_certain)
{
    if (!item_has(input, side))
        return NULL;
    const struct item *producer = view_producer(evidence->view, input, side);
    *ret_certain = producer != NULL;
    return producer ? producer : maker_by_value(evidence->view, input, side);
}

enum { MAX_CALL = 64 };

const struct item *evidence_differing_input(const struct evidence *evidence)
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

const char *evidence_what(const struct evidence *evidence, const struct item *item)
{
    const struct trace_site *site = item_site(evidence->view, item);
    struct pool *arena = evidence->engine->keep;
    if (site->op[0] && site->scope[0])
        return pool_format(arena, "%s in %s", site->op, site->scope);
    if (site->op[0])
        return pool_string(arena, site->op);
    if (site->name[0] && site->scope[0])
        return pool_format(arena, "%s of %s", site->name, site->scope);
    if (site->name[0])
        return pool_string(arena, site->name);
    return site->scope[0] ? pool_string(arena, site->scope) : "a record";
}

const char *evidence_place(const struct evidence *evidence)
{
    return segment_text(evidence->engine->keep, evidence->view->segment);
}

bool evidence_is_pair(const struct item *item)
{
    return item_has(item, SIDE_A) && item_has(item, SIDE_B);
}

bool evidence_is_origin(const struct evidence *evidence)
{
    return evidence->finding->relation == ENGINE_ORIGIN;
}

bool evidence_inputs_equal(const struct evidence *evidence)
{
    const struct item *first = evidence->first;
    const struct engine_inputs *inputs = &evidence->finding->inputs;
    return evidence_is_origin(evidence) && inputs->differ == 0 &&
           inputs->equal == inputs->measured + inputs->inherited &&
           item_argument(evidence->view, first, SIDE_A) ==
               item_argument(evidence->view, first, SIDE_B);
}

size_t evidence_differing(const struct evidence *evidence, enum diverge_role role)
{
    size_t count = 0;
    for (size_t i = 0; i < evidence->view->n_differences; i++)
        count += item_site(evidence->view, evidence->view->differences[i])->role == role;
    return count;
}

bool text_has(const char *text, const char *const *words)
{
    for (size_t i = 0; text && words[i]; i++)
        if (strcasestr(text, words[i]))
            return true;
    return false;
}

/* ---- deciding ------------------------------------------------------------------------------- */

static void copy_ruling(struct engine *engine, const struct ruling *ruling,
                        struct engine_verdict *to)
{
    const char **evidence = POOL_ARRAY(engine->keep, const char *, ruling->n_evidence);
    const char **next = POOL_ARRAY(engine->keep, const char *, ruling->n_next);
    memcpy(evidence, ruling->evidence, ruling->n_evidence * sizeof(evidence[0]));
    memcpy(next, ruling->next, ruling->n_next * sizeof(next[0]));
    *to = (struct engine_verdict){.class_name = ruling->class_name,
                                  .detail = ruling->detail,
                                  .confidence = ruling->confidence,
                                  .text = ruling->text,
                                  .evidence = evidence,
                                  .n_evidence = ruling->n_evidence,
                                  .next = next,
                                  .n_next = ruling->n_next};
}

void verdict_decide(struct evidence *evidence, struct engine_answer *answer, bool after_gap)
{
    struct ruling ruling = {0};
    const char *rule = "";
    for (size_t i = 0; i < sizeof(RULES) / sizeof(RULES[0]); i++) {
        ruling = (struct ruling){0};
        rule = RULES[i].name;
        if (RULES[i].rule(evidence, &ruling))
            break;
    }
    repeats_weigh(evidence, &ruling);
    if (evidence_only_zero_signs(evidence))
        ruling_evidence(evidence, &ruling,
                        "only the sign of zeros differs: other bits, but the same numbers");
    if (after_gap) {
        ruling.confidence = ENGINE_POSSIBLE;
        ruling_evidence(evidence, &ruling,
                        "first observed at %s: records before it are missing or could not be read",
                        evidence_place(evidence));
    }
    ruling_evidence(evidence, &ruling, "rule: %s, %s", rule,
                    engine_confidence_name(ruling.confidence));
    copy_ruling(evidence->engine, &ruling, &answer->verdict);
}

void verdict_without_difference(struct engine *engine, struct engine_answer *answer)
{
    struct ruling ruling = {.confidence = ENGINE_CERTAIN};
    if (answer->result == ENGINE_SAME) {
        ruling_set(&ruling, "none", NULL, ENGINE_CERTAIN,
                   "Everything that both runs recorded was compared and is equal.");
        ruling.evidence[ruling.n_evidence++] =
            pool_format(engine->keep, "%s on each side, none dropped",
                        count_text(engine->keep, answer->compared.records, "record"));
    } else {
        ruling_set(&ruling, "unverified", NULL, ENGINE_CERTAIN,
                   "No difference was seen, but not everything could be compared.");
        for (size_t i = 0; i < answer->n_reasons && ruling.n_evidence < 15; i++)
            ruling.evidence[ruling.n_evidence++] = answer->reasons[i];
    }
    copy_ruling(engine, &ruling, &answer->verdict);
}
