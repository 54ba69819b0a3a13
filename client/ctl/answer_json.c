/* SPDX-License-Identifier: Apache-2.0 */
/* The contract: schema/first-diff.schema.json. */
#include <math.h>
#include <string.h>

#include <diverge/fingerprint.h>

#include "client/ctl/answer.h"
#include "client/ctl/answer_noise.h"
#include "client/ctl/text.h"
#include "client/wire/message.h"

void answer_emit_run(struct emit *emit, const char *key, const struct trace_run *run)
{
    emit_object(emit, key);
    emit_string(emit, "run", text_id(run->run_id));
    emit_string(emit, "name", run->name);
    emit_object_end(emit);
}

static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static double float_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- the pairs ------------------------------------------------------------------------------ */

static void emit_dtype(struct emit *emit, const char *key, const struct engine_side *side)
{
    if (!side->present || side->kind == DIVERGE_KIND_ABSENT)
        emit_null(emit, key);
    else if (side->kind == DIVERGE_KIND_TENSOR)
        emit_string(emit, key, diverge_dtype_name(side->dtype));
    else
        emit_string(emit, key, side->kind == DIVERGE_KIND_FLOAT ? "float64" : "int64");
}

static void emit_shape(struct emit *emit, const char *key, const struct engine_side *side)
{
    if (!side->present || side->kind == DIVERGE_KIND_ABSENT) {
        emit_null(emit, key);
        return;
    }
    emit_array(emit, key);
    for (int32_t i = 0; side->kind == DIVERGE_KIND_TENSOR && i < side->ndim; i++)
        emit_i64(emit, NULL, side->sizes[i]);
    emit_array_end(emit);
}

static void emit_checksum(struct emit *emit, const char *key, const struct engine_side *side)
{
    if (side->present && side->kind == DIVERGE_KIND_TENSOR && !side->unread)
        emit_string(emit, key, text_checksum(side->value));
    else
        emit_null(emit, key);
}

/* A min or max: integers exactly. */
static void emit_extreme(struct emit *emit, const char *key, const struct engine_side *side,
                         uint64_t bits)
{
    if (!(side->state & DVG_STATE_RANGE))
        emit_null(emit, key);
    else if (side->dtype == DIVERGE_U64)
        emit_u64(emit, key, bits);
    else if (side->dtype == DIVERGE_I64)
        emit_i64(emit, key, (int64_t)bits);
    else
        emit_number(emit, key, text_value(side->dtype, bits));
}

static void emit_tensor_stats(struct emit *emit, const struct engine_side *side)
{
    emit_u64(emit, "numel", side->numel);
    emit_u64(emit, "nan", side->nan);
    emit_u64(emit, "pinf", side->pinf);
    emit_u64(emit, "ninf", side->ninf);
    emit_u64(emit, "zero", side->zero);
    emit_extreme(emit, "min", side, side->min);
    emit_extreme(emit, "max", side, side->max);
    emit_number(emit, "sum", side->state & DVG_STATE_SUM ? (double)side->sum : NAN);
    emit_number(emit, "l2", side->state & DVG_STATE_L2 ? (double)side->l2 : NAN);
}

static void emit_stats(struct emit *emit, const char *key, const struct engine_side *side)
{
    bool scalar = side->kind == DIVERGE_KIND_FLOAT || side->kind == DIVERGE_KIND_INTEGER;

    if (!side->present || side->unread || (!scalar && !side->has_stats)) {
        emit_null(emit, key);
        return;
    }
    emit_object(emit, key);
    if (side->kind == DIVERGE_KIND_FLOAT) {
        double value = float_of(side->value);

        emit_number(emit, "value", value);
        if (!isfinite(value)) /* null alone would not say which */
            emit_string(emit, "text", text_number(value));
        emit_string(emit, "bits", text_checksum(side->value));
    } else if (side->kind == DIVERGE_KIND_INTEGER) {
        emit_i64(emit, "value", (int64_t)side->value);
    } else {
        emit_tensor_stats(emit, side);
    }
    emit_object_end(emit);
}

static void emit_pair(struct emit *emit, const char *key, const struct engine_finding *finding,
                      void (*one)(struct emit *, const char *, const struct engine_side *))
{
    emit_array(emit, key);
    one(emit, NULL, &finding->a);
    one(emit, NULL, &finding->b);
    emit_array_end(emit);
}

/* ---- findings ------------------------------------------------------------------------------- */

void answer_emit_place(struct emit *emit, uint64_t segment)
{
    emit_string(emit, "at", segment == 0 ? "init" : segment % 2 ? "boundary" : "step");
    emit_u64(emit, "step", segment == 0 ? 0 : (segment - 1) / 2);
}

void answer_emit_site(struct emit *emit, const struct trace_site *site)
{
    emit_string(emit, "lane", site->lane);
    emit_string(emit, "phase", text_phase(site->phase));
    emit_u64(emit, "micro_step", site->micro_step);
    emit_string(emit, "scope", site->scope);
    emit_string(emit, "op", or_null(site->op));
    emit_u64(emit, "occurrence", site->occurrence);
    emit_string(emit, "role", text_role(site->role));
    emit_u64(emit, "slot", site->slot);
    emit_string(emit, "name", site->name);
}

static void emit_inputs(struct emit *emit, const struct engine_finding *finding)
{
    if (!finding->has_inputs) {
        emit_null(emit, "inputs");
        return;
    }
    emit_object(emit, "inputs");
    emit_u64(emit, "equal", finding->inputs.equal);
    emit_u64(emit, "differ", finding->inputs.differ);
    emit_u64(emit, "measured", finding->inputs.measured);
    emit_u64(emit, "inherited", finding->inputs.inherited);
    emit_object_end(emit);
}

static void emit_arguments(struct emit *emit, const char *key, const struct engine_side *side)
{
    emit_string(emit, key, side->argument_text);
}

void answer_emit_side(struct emit *emit, const struct engine_side *side)
{
    emit_string(emit, "source", or_null(side->source));
    emit_dtype(emit, "dtype", side);
    emit_shape(emit, "shape", side);
    emit_checksum(emit, "checksum", side);
    emit_stats(emit, "stats", side);
    emit_arguments(emit, "arguments", side);
    emit_bool(emit, "inherited", side->state & DVG_STATE_INHERITED);
    emit_bool(emit, "unread", side->unread);
}

static void emit_counter(struct emit *emit, bool has, int64_t value)
{
    if (has)
        emit_i64(emit, NULL, value);
    else
        emit_null(emit, NULL);
}

static void emit_counters(struct emit *emit, const struct answer_runs *runs)
{
    emit_object(emit, "counters");
    for (size_t i = 0; i < runs->n_counters; i++) {
        const struct answer_counter *counter = &runs->counters[i];

        emit_array(emit, counter->name);
        emit_counter(emit, counter->has_a, counter->a);
        emit_counter(emit, counter->has_b, counter->b);
        emit_array_end(emit);
    }
    emit_object_end(emit);
}

/* `runs` of the first finding alone: its counters were looked up. */
static void emit_finding(struct emit *emit, const char *key, const struct engine_finding *finding,
                         const struct answer_runs *runs)
{
    if (!finding) {
        emit_null(emit, key);
        return;
    }
    const char *source = or_null(finding->a.source);

    emit_object(emit, key);
    answer_emit_place(emit, finding->segment);
    emit_u64(emit, "rank", finding->rank);
    emit_u64(emit, "seq", finding->order);
    answer_emit_site(emit, finding->site);
    emit_string(emit, "source", source ? source : or_null(finding->b.source));
    emit_string(emit, "relation", engine_relation_name(finding->relation));
    if (finding->independent)
        emit_bool(emit, "independent", true);
    emit_pair(emit, "dtype", finding, emit_dtype);
    emit_pair(emit, "shape", finding, emit_shape);
    emit_pair(emit, "checksum", finding, emit_checksum);
    emit_pair(emit, "stats", finding, emit_stats);
    emit_pair(emit, "arguments", finding, emit_arguments);
    emit_inputs(emit, finding);
    emit_number(emit, "rel_l2", finding->rel_l2);
    emit_number(emit, "ulp", finding->ulp);
    if (runs)
        emit_counters(emit, runs);
    emit_object_end(emit);
}

void answer_emit_finding(struct emit *emit, const char *key, const struct engine_finding *finding)
{
    emit_finding(emit, key, finding, NULL);
}

static void emit_findings(struct emit *emit, const char *key,
                          struct engine_finding *const *findings, size_t count)
{
    emit_array(emit, key);
    for (size_t i = 0; i < count; i++)
        emit_finding(emit, NULL, findings[i], NULL);
    emit_array_end(emit);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void emit_strings(struct emit *emit, const char *key, const char *const *texts, size_t count)
{
    emit_array(emit, key);
    for (size_t i = 0; i < count; i++)
        emit_string(emit, NULL, texts[i]);
    emit_array_end(emit);
}

static void emit_compared(struct emit *emit, const struct engine_answer *answer)
{
    emit_object(emit, "compared");
    emit_u64(emit, "boundaries", answer->compared.boundaries);
    emit_u64(emit, "steps", answer->compared.steps);
    emit_u64(emit, "ranks", answer->compared.ranks);
    emit_u64(emit, "records", answer->compared.records);
    emit_u64(emit, "dropped", answer->compared.dropped);
    emit_u64(emit, "only_a", answer->compared.only_a);
    emit_u64(emit, "only_b", answer->compared.only_b);
    emit_object_end(emit);
}

static void emit_agreement(struct emit *emit, const struct engine_answer *answer)
{
    emit_object(emit, "agree_through");
    if (answer->has_agree)
        emit_u64(emit, "boundary", answer->agree_boundary);
    else
        emit_null(emit, "boundary");
    emit_object_end(emit);
    if (!answer->has_bracket) {
        emit_null(emit, "bracket");
        return;
    }
    emit_object(emit, "bracket");
    if (answer->bracket_has_last)
        emit_u64(emit, "last_equal", answer->bracket_last_equal);
    else
        emit_null(emit, "last_equal");
    emit_u64(emit, "first_differ", answer->bracket_first_differ);
    emit_object_end(emit);
}

void answer_emit_verdict(struct emit *emit, const struct engine_verdict *verdict)
{
    emit_object(emit, "verdict");
    emit_string(emit, "class", verdict->class_name);
    emit_string(emit, "detail", or_null(verdict->detail));
    emit_string(emit, "confidence", engine_confidence_name(verdict->confidence));
    emit_string(emit, "text", verdict->text ? verdict->text : "");
    emit_strings(emit, "evidence", verdict->evidence, verdict->n_evidence);
    emit_strings(emit, "next", verdict->next, verdict->n_next);
    emit_object_end(emit);
}

static void emit_notes(struct emit *emit, const struct engine_answer *answer)
{
    emit_array(emit, "structure");
    for (size_t i = 0; i < answer->n_structure; i++) {
        const struct engine_note *note = &answer->structure[i];

        emit_object(emit, NULL);
        emit_string(emit, "what", note->what);
        emit_string(emit, "side", note->side == 'a' ? "a" : "b");
        answer_emit_place(emit, note->segment);
        emit_u64(emit, "rank", note->rank);
        emit_u64(emit, "count", note->count);
        if (note->site)
            answer_emit_site(emit, note->site);
        emit_object_end(emit);
    }
    emit_array_end(emit);
}

void answer_emit_environment(struct emit *emit, const struct engine_answer *answer)
{
    emit_array(emit, "environment");
    for (size_t i = 0; i < answer->n_environment; i++) {
        const struct engine_environment *entry = &answer->environment[i];

        emit_object(emit, NULL);
        emit_string(emit, "key", entry->key);
        emit_string(emit, "class", entry->class_name);
        emit_string(emit, "a", entry->a);
        emit_string(emit, "b", entry->b);
        emit_object_end(emit);
    }
    emit_array_end(emit);
}

void answer_emit(struct emit *emit, const struct engine_answer *answer,
                 const struct answer_runs *runs)
{
    emit_string(emit, "result", engine_result_name(answer->result));
    answer_emit_run(emit, "a", runs->a);
    answer_emit_run(emit, "b", runs->b);
    emit_compared(emit, answer);
    emit_agreement(emit, answer);
    emit_finding(emit, "first", answer->first, runs);
    emit_finding(emit, "beyond_noise", answer->beyond_noise, NULL);
    answer_emit_noise(emit, answer, runs);
    emit_findings(emit, "candidates", answer->candidates, answer->n_candidates);
    answer_emit_verdict(emit, &answer->verdict);
    emit_notes(emit, answer);
    emit_findings(emit, "also", answer->also, answer->n_also);
    answer_emit_environment(emit, answer);
    emit_u64(emit, "environment_equal_causes", answer->environment_equal_causes);
    emit_strings(emit, "reasons", answer->reasons, answer->n_reasons);
    emit_i64(emit, "offset", answer->offset);
    if (answer->loss_segment)
        emit_u64(emit, "loss_step", (answer->loss_segment - 1) / 2);
    else
        emit_null(emit, "loss_step");
}
