/* SPDX-License-Identifier: Apache-2.0 */
/* An op's inputs agree and its output does not: precision, order of reduction, kernels, memory. */
#include <math.h>
#include <string.h>

#include <diverge/fingerprint.h>

#include "client/wire/message.h"
#include "daemon/engine/known_ops.h"
#include "daemon/engine/verdict/verdict.h"

enum { MAX_CALL = 64 };

/* ---- nonfinite ------------------------------------------------------------------------------ */

static bool inputs_are_finite(const struct view *view, const struct item *item, int side)
{
    const struct item *inputs[MAX_CALL];
    size_t n = view_call(view, item, DIVERGE_ROLE_INPUT, inputs, MAX_CALL);
    for (size_t i = 0; i < n; i++)
        if (item_has(inputs[i], side) && item_is_nonfinite(view, inputs[i], side))
            return false;
    return true;
}

const struct item *nonfinite_onset(const struct view *view, int *ret_side)
{
    if (!segment_is_step(view->segment))
        return NULL;
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        if (!evidence_is_pair(item) || item_site(view, item)->role == DIVERGE_ROLE_INPUT)
            continue;
        bool a = item_is_nonfinite(view, item, SIDE_A), b = item_is_nonfinite(view, item, SIDE_B);
        if (a == b)
            continue;
        int side = a ? SIDE_A : SIDE_B;
        if (!inputs_are_finite(view, item, side))
            continue;
        *ret_side = side;
        return item;
    }
    return NULL;
}

bool rule_nonfinite(const struct evidence *evidence, struct ruling *ret)
{
    int side;
    const struct item *onset = evidence->first ? nonfinite_onset(evidence->view, &side) : NULL;
    if (!onset)
        return false;
    ruling_set(ret, "nonfinite", NULL, ENGINE_CERTAIN,
               "One run gets NaN or infinity from finite inputs in the step where the runs part.");
    ruling_evidence(evidence, ret, "%s is not finite in %c; its inputs are",
                    evidence_what(evidence, onset), side == SIDE_A ? 'A' : 'B');
    if (onset != evidence->first)
        ruling_evidence(evidence, ret, "the first difference of the step is before it: %s",
                        evidence_what(evidence, evidence->first));
    if (evidence->finding->a.argument != evidence->finding->b.argument &&
        evidence->finding->a.argument_text && evidence->finding->b.argument_text)
        ruling_evidence(evidence, ret, "there the argument is %.200s in A and %.200s in B",
                        evidence->finding->a.argument_text, evidence->finding->b.argument_text);
    return true;
}

/* ---- precision ------------------------------------------------------------------------------ */

static bool is_cast(const struct trace_site *site)
{
    static const char *const words[] = {"cast", "_to_copy", NULL};
    return text_has(site->op, words) || strcmp(site->op, "aten::to") == 0 ||
           strcmp(site->op, "to") == 0;
}

/* A cast that only one side has and that made the input; NULL: none. */
static const struct item *cast_before(const struct evidence *evidence, const struct item *input)
{
    for (int side = 0; side < SIDES; side++) {
        const struct item *producer = view_producer(evidence->view, input, side);
        if (producer && !evidence_is_pair(producer) && is_cast(item_site(evidence->view, producer)))
            return producer;
    }
    return NULL;
}

/* The last one-sided cast before the first difference, in its lane. */
static const struct item *nearest_cast(const struct evidence *evidence)
{
    const struct view *view = evidence->view;
    const struct item *found = NULL;
    for (size_t i = 0; i < view->n_notes; i++) {
        const struct item *note = view->notes[i];
        if (is_cast(item_site(view, note)) && note->lane == evidence->first->lane &&
            note->position <= evidence->first->position &&
            (!found || note->position >= found->position))
            found = note;
    }
    return found;
}

static const struct item *find_cast(const struct evidence *evidence)
{
    const struct item *inputs[MAX_CALL];
    if (evidence->site->role == DIVERGE_ROLE_INPUT) {
        const struct item *cast = cast_before(evidence, evidence->first);
        if (cast)
            return cast;
    }
    size_t n = view_call(evidence->view, evidence->first, DIVERGE_ROLE_INPUT, inputs, MAX_CALL);
    for (size_t i = 0; i < n; i++) {
        const struct item *cast = cast_before(evidence, inputs[i]);
        if (cast)
            return cast;
    }
    return NULL;
}

static void name_cast(const struct evidence *evidence, const struct item *cast, struct ruling *ret)
{
    const struct view *view = evidence->view;
    int side = item_has(cast, SIDE_A) ? SIDE_A : SIDE_B;
    const char *text = side_argument(evidence->engine, side, item_argument(view, cast, side));
    ruling_evidence(evidence, ret, "%s, in %c only, converts to %s%s%.200s",
                    evidence_what(evidence, cast), side == SIDE_A ? 'A' : 'B',
                    diverge_dtype_name(item_type(view, cast, side)->dtype)
                        ? diverge_dtype_name(item_type(view, cast, side)->dtype)
                        : "another dtype",
                    text ? ": " : "", text ? text : "");
}

bool rule_precision(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first || !evidence_is_pair(first))
        return false;
    const struct trace_type *a = item_type(evidence->view, first, SIDE_A);
    const struct trace_type *b = item_type(evidence->view, first, SIDE_B);
    bool differ = a->kind == DIVERGE_KIND_TENSOR && b->kind == DIVERGE_KIND_TENSOR &&
                  a->dtype != b->dtype && dtype_is_float(a->dtype) && dtype_is_float(b->dtype) &&
                  type_same_shape(a, b);
    const struct item *cast = find_cast(evidence);
    if (!differ && !cast)
        return false;
    ruling_set(ret, "precision", "cast", differ ? ENGINE_CERTAIN : ENGINE_LIKELY,
               "One run computes in another floating-point format from here on.");
    if (differ)
        ruling_evidence(evidence, ret, "%s: %s in A, %s in B", evidence_what(evidence, first),
                        diverge_dtype_name(a->dtype), diverge_dtype_name(b->dtype));
    if (!cast)
        cast = nearest_cast(evidence);
    if (cast)
        name_cast(evidence, cast, ret);
    ruling_next(evidence, ret, "compare autocast settings and default dtypes");
    return true;
}

/* ---- corruption: one bit --------------------------------------------------------------------- */

enum { MIN_WORDS = 64, MIN_BIT = 5 };
#define MAX_WORDS (UINT64_C(1) << 28)

static uint64_t words_of(const struct trace_type *type)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(type_numel(type), diverge_dtype_size(type->dtype), &bytes))
        return 0;
    return (bytes + 3) / 4;
}

/* Bit within the element above 16 ulp, so that rounding is no explanation. */
static bool is_high_bit(enum diverge_dtype dtype, uint64_t word, int bit)
{
    int bits = (int)diverge_dtype_size(dtype) * 8;
    if (!dtype_is_float(dtype))
        return true;
    if (bits < 32)
        return bit % bits >= MIN_BIT;
    bool two_words = dtype == DIVERGE_F64 || dtype == DIVERGE_C128;
    return bit >= MIN_BIT || (two_words && word % 2 == 1);
}

/*
 * How many sketch buckets differ; -1: there are no sketches. One changed element moves one bucket.
 */
static int differing_buckets(const struct evidence *evidence)
{
    const struct trace_chunk *chunk[SIDES];
    const float *sketch[SIDES] = {NULL, NULL};
    for (int side = 0; side < SIDES; side++) {
        chunk[side] = evidence->view->chunk[side][evidence->first->tier];
        for (uint32_t i = 0; i < chunk[side]->n_sketches; i++)
            if (chunk[side]->sketch_index[i] == evidence->first->index[side])
                sketch[side] = &chunk[side]->sketches[(size_t)i * chunk[side]->sketch_size];
    }
    if (!sketch[SIDE_A] || !sketch[SIDE_B] ||
        chunk[SIDE_A]->sketch_size != chunk[SIDE_B]->sketch_size)
        return -1;
    int count = 0;
    for (uint32_t i = 0; i < chunk[SIDE_A]->sketch_size; i++)
        count += memcmp(&sketch[SIDE_A][i], &sketch[SIDE_B][i], sizeof(float)) != 0;
    return count;
}

static bool one_bit(const struct evidence *evidence, struct diverge_located *ret)
{
    const struct trace_type *type = item_type(evidence->view, evidence->first, SIDE_A);
    uint64_t words = words_of(type);
    uint64_t a = item_value(evidence->view, evidence->first, SIDE_A);
    uint64_t b = item_value(evidence->view, evidence->first, SIDE_B);
    if (words < MIN_WORDS || words > MAX_WORDS || a >= DIVERGE_CHECKSUM_PRIME ||
        b >= DIVERGE_CHECKSUM_PRIME || type->n_extents > 0 ||
        type->placement == DIVERGE_PLACEMENT_SHARD)
        return false;
    if (diverge_locate(diverge_checksum_subtract(b, a), 0, words, ret, 1) != 1)
        return false;
    uint64_t change = ret->change < 0 ? -(uint64_t)ret->change : (uint64_t)ret->change;
    return (change & (change - 1)) == 0 &&
           is_high_bit(type->dtype, ret->word, __builtin_ctzll(change));
}

bool rule_bit_flip(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first || !evidence_is_pair(first) || evidence->finding->inputs.differ > 0 ||
        evidence->site->role == DIVERGE_ROLE_INPUT)
        return false;
    const struct trace_type *type = item_type(evidence->view, first, SIDE_A);
    struct diverge_located located;
    if (type->kind != DIVERGE_KIND_TENSOR ||
        !type_equal(type, item_type(evidence->view, first, SIDE_B)) || !one_bit(evidence, &located))
        return false;
    int buckets = differing_buckets(evidence);
    if (buckets > 1)
        return false;
    uint64_t change = located.change < 0 ? -(uint64_t)located.change : (uint64_t)located.change;
    ruling_set(ret, "corruption", "bit-flip", buckets == 1 ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               "Exactly one bit of one tensor differs: memory or a wire may be at fault.");
    ruling_evidence(evidence, ret,
                    "32-bit word %llu of %s, bit %d; no other single word explains "
                    "the two checksums",
                    (unsigned long long)located.word, evidence_what(evidence, first),
                    __builtin_ctzll(change));
    if (buckets == 1)
        ruling_evidence(evidence, ret, "the sketches differ in one bucket, as one element would");
    ruling_next(evidence, ret, "check ECC counters; run again on other hardware");
    return true;
}

/* ---- kernels -------------------------------------------------------------------------------- */

bool rule_dropped_write(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *inputs[MAX_CALL];
    const struct item *first = evidence->first;
    if (!first || !(evidence->site->flags & DIVERGE_FLAG_INPLACE) ||
        !evidence_inputs_equal(evidence))
        return false;
    size_t n = view_call(evidence->view, first, DIVERGE_ROLE_INPUT, inputs, MAX_CALL);
    for (size_t i = 0; i < n; i++) {
        if (!evidence_is_pair(inputs[i]) ||
            !type_equal(item_type(evidence->view, inputs[i], SIDE_A),
                        item_type(evidence->view, first, SIDE_A)) ||
            item_site(evidence->view, inputs[i])->slot != evidence->site->slot)
            continue;
        uint64_t old = item_value(evidence->view, inputs[i], SIDE_A);
        bool kept_a = item_value(evidence->view, first, SIDE_A) == old;
        bool kept_b = item_value(evidence->view, first, SIDE_B) == old;
        if (kept_a == kept_b)
            continue;
        ruling_set(ret, "kernel-mismatch", "dropped-write", ENGINE_LIKELY,
                   "An op that writes in place left its tensor as it was in one run.");
        ruling_evidence(evidence, ret, "in %c the output of %s equals its input %u",
                        kept_a ? 'A' : 'B', evidence_what(evidence, first),
                        item_site(evidence->view, inputs[i])->slot);
        return true;
    }
    return false;
}

struct cause {
    const char *detail;
    const char *words[8];
};

/* Which differing cause makes another order of additions. */
static const struct cause CAUSES[] = {
    {"threads", {"thread", "omp", "workers", NULL}},
    {"sharding", {"world", "shard", "tensor_parallel", "fsdp", "ranks", NULL}},
    {"fusion", {"compile", "fusion", "inductor", "xla", "jit", NULL}},
    {"device", {"device", "gpu", "cuda.name", "cpu", "machine", "arch", NULL}},
    {"batch-shape", {"batch_size", "micro", "accumulation", NULL}},
    {NULL, {"version", "blas", "mkl", "cudnn", "torch", NULL}},
};

const char *evidence_attribute(const struct evidence *evidence, const char *const *words)
{
    struct engine *engine = evidence->engine;
    const struct pairing *pairing = evidence->pairing;
    const struct trace_chunk *chunk[SIDES] = {NULL, NULL};
    const char *found = NULL;
    uint64_t segment = evidence->view->segment;
    size_t mark = engine_mark(engine);
    for (int side = 0; side < SIDES; side++) {
        struct trace_head head;
        if (side_head_at(engine, side, pairing->stream[side], DIVERGE_TIER_EVIDENCE, segment,
                         &head))
            chunk[side] =
                side_load(engine, side, pairing->stream[side], DIVERGE_TIER_EVIDENCE, head.segment);
    }
    if (chunk[SIDE_A] && chunk[SIDE_B] && !chunk[SIDE_A]->pruned && !chunk[SIDE_B]->pruned)
        for (uint32_t i = 0; i < chunk[SIDE_A]->count && !found; i++)
            for (uint32_t j = 0; j < chunk[SIDE_B]->count && !found; j++) {
                const struct trace_site *a = chunk[SIDE_A]->layout->sites[i];
                const struct trace_site *b = chunk[SIDE_B]->layout->sites[j];
                if (a->role == DIVERGE_ROLE_ATTR && b->role == a->role &&
                    text_has(a->name, words) && strcmp(a->name, b->name) == 0 &&
                    strcmp(a->scope, b->scope) == 0 &&
                    chunk_value(chunk[SIDE_A], i) != chunk_value(chunk[SIDE_B], j))
                    found = pool_string(engine->keep, a->name);
            }
    engine_release(engine, mark);
    return found;
}

/* Sets class and detail when a recorded cause of another order differs. */
static bool reduction_cause(const struct evidence *evidence, struct ruling *ret)
{
    for (size_t i = 0; i < sizeof(CAUSES) / sizeof(CAUSES[0]); i++) {
        const struct engine_environment *cause =
            environment_cause(evidence->answer, CAUSES[i].words);
        const char *attribute = cause ? NULL : evidence_attribute(evidence, CAUSES[i].words);
        if (!cause && !attribute)
            continue;
        ruling_set(ret, "reduction-order", CAUSES[i].detail, ENGINE_POSSIBLE,
                   "The same inputs were added up in another order, as one would expect from what "
                   "differs in the environment.");
        if (cause)
            ruling_evidence(evidence, ret, "%s: %s against %s", cause->key,
                            cause->a ? cause->a : "none", cause->b ? cause->b : "none");
        else
            ruling_evidence(evidence, ret, "%s differs", attribute);
        return true;
    }
    return false;
}

enum { ROUNDING_ULP = 1024 };

bool rule_reduction_order(const struct evidence *evidence, struct ruling *ret)
{
    const struct engine_finding *finding = evidence->finding;
    if (!evidence->first || !evidence_inputs_equal(evidence) ||
        (evidence->site->flags & DIVERGE_FLAG_RANDOM) ||
        (!dtype_is_float(finding->a.dtype) && finding->a.kind != DIVERGE_KIND_FLOAT) ||
        finding->ulp > ROUNDING_ULP || !reduction_cause(evidence, ret))
        return false;
    if (isnan(finding->ulp)) {
        ruling_evidence(evidence, ret,
                        "how far apart the outputs are is not known: there are no sketches");
    } else {
        ret->confidence = ENGINE_LIKELY;
        ruling_evidence(evidence, ret, "the outputs are about %.3g ulp apart", finding->ulp);
    }
    ruling_next(evidence, ret, "does each side repeat itself? divergectl run --like A");
    return true;
}

/* What the op's library says of it, or what helps in general. */
static void advise_op(const struct evidence *evidence, struct ruling *ret)
{
    const char *library = known_op_library(evidence->engine->sides[SIDE_A].run);
    const struct known_op *known = known_op_advice(evidence->site->op, library);
    if (known)
        ruling_next(evidence, ret,
                    "%s documents an op of this name as nondeterministic (%s): %s [%s; %s]",
                    known->library, known->device, known->remedy, known->versions, known->source);
    else
        ruling_next(evidence, ret, "torch.use_deterministic_algorithms(True), or one thread");
}

bool rule_nondeterministic(const struct evidence *evidence, struct ruling *ret)
{
    const struct engine_finding *finding = evidence->finding;
    if (!evidence->first || !evidence_inputs_equal(evidence))
        return false;
    bool same_causes =
        environment_causes(evidence->answer) == 0 && evidence->answer->environment_equal_causes > 0;
    const struct engine_inputs *inputs = &finding->inputs;
    bool likely = same_causes && inputs->equal > 0;
    ruling_set(ret, "nondeterministic-kernel", NULL, likely ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               same_causes
                   ? "Same inputs, same arguments, same program and machine; another output."
                   : "Same inputs, same arguments; another output.");
    ruling_evidence(evidence, ret,
                    "%u of %u inputs equal (%u measured, %u inherited); every "
                    "earlier record agrees",
                    inputs->equal, inputs->measured + inputs->inherited, inputs->measured,
                    inputs->inherited);
    if (same_causes)
        ruling_evidence(evidence, ret, "all %llu recorded causes are equal",
                        (unsigned long long)evidence->answer->environment_equal_causes);
    else
        ruling_evidence(evidence, ret, "%zu recorded causes differ",
                        environment_causes(evidence->answer));
    ruling_evidence(evidence, ret, "no repeats: certain only when two runs of one side disagree");
    advise_op(evidence, ret);
    ruling_next(evidence, ret, "how often: divergectl check --repeat 5 -- …");
    return true;
}

/* ---- what remains --------------------------------------------------------------------------- */

bool rule_unexplained(const struct evidence *evidence, struct ruling *ret)
{
    if (evidence->finding->relation == ENGINE_RECEIVER) {
        ruling_set(ret, "unobserved", NULL, ENGINE_POSSIBLE,
                   "The first op that differs got other inputs, and no record says where from.");
        ruling_evidence(evidence, ret,
                        "%u of its inputs differ; what made them was not recorded "
                        "or only inherited",
                        evidence->finding->inputs.differ);
        return true;
    }
    if (evidence->view->segment == 0) {
        ruling_set(ret, "init", NULL, ENGINE_POSSIBLE,
                   "The initialisation differs, but nothing after it does.");
        return true;
    }
    if (!reduction_cause(evidence, ret))
        ruling_set(ret, "nondeterministic-kernel", NULL, ENGINE_POSSIBLE,
                   "Everything recorded before agrees; the ops in between were not recorded.");
    ret->confidence = ENGINE_POSSIBLE;
    ruling_evidence(evidence, ret,
                    "%s is the first record that differs; ops before it were not "
                    "recorded, so the origin is not known",
                    evidence_what(evidence, evidence->first));
    ruling_next(evidence, ret, "record ops around %s: divergectl zoom A B",
                evidence_place(evidence));
    return true;
}
