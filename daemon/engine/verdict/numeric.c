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

/* The first value of the segment that is finite on one side only; it counts when finite ones made
 * it. */
const struct item *nonfinite_onset(const struct view *view, int *ret_side)
{
    const struct pairing *pairing = view->pairing;
    bool start =
        segment_is_boundary(view->segment) && (view->segment == pairing->first_boundary[SIDE_A] ||
                                               view->segment == pairing->first_boundary[SIDE_B]);
    if (view->segment == 0 || start)
        return NULL;
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        if (!evidence_is_pair(item))
            continue;
        bool a = item_is_nonfinite(view, item, SIDE_A), b = item_is_nonfinite(view, item, SIDE_B);
        if (a == b)
            continue;
        int side = a ? SIDE_A : SIDE_B;
        enum diverge_role role = item_site(view, item)->role;
        if (role == DIVERGE_ROLE_INPUT || role == DIVERGE_ROLE_BATCH ||
            !inputs_are_finite(view, item, side))
            return NULL;
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
    const struct item *input;
    bool has_inputs = view_call(evidence->view, onset, DIVERGE_ROLE_INPUT, &input, 1) > 0;
    ruling_evidence(evidence, ret, "%s is not finite in %c%s", evidence_what(evidence, onset),
                    side == SIDE_A ? 'A' : 'B',
                    has_inputs ? "; its inputs are" : "; every earlier record is");
    if (onset != evidence->first)
        ruling_evidence(evidence, ret, "the first difference of the step is before it: %s",
                        evidence_what(evidence, evidence->first));
    if (evidence->finding->a.argument != evidence->finding->b.argument &&
        evidence->finding->a.argument_text && evidence->finding->b.argument_text)
        ruling_evidence(evidence, ret, "there the argument is %.200s in A and %.200s in B",
                        evidence->finding->a.argument_text, evidence->finding->b.argument_text);
    ruling_next(evidence, ret, "hold the range of what goes into %s against its data type",
                evidence_what(evidence, onset));
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

/*
 * +0 and -0 are other bits and the same number: told by the one word that explains the two
 * checksums, or by sketches, which know numbers only.
 */
bool evidence_only_zero_signs(const struct evidence *evidence)
{
    const struct engine_side *a = &evidence->finding->a, *b = &evidence->finding->b;
    struct diverge_located located[2];
    if (!evidence->first || !evidence_is_pair(evidence->first) || evidence->first->argument_only ||
        a->kind != DIVERGE_KIND_TENSOR || !dtype_is_float(a->dtype) || a->dtype != b->dtype ||
        !a->has_stats || !b->has_stats || a->zero == 0 || a->zero != b->zero || a->min != b->min ||
        a->max != b->max || a->l2 != b->l2 || a->sum != b->sum)
        return false;
    if (differing_buckets(evidence) == 0)
        return true;
    uint64_t words = words_of(item_type(evidence->view, evidence->first, SIDE_A));
    if (words == 0 || words > MAX_WORDS || a->value >= DIVERGE_CHECKSUM_PRIME ||
        b->value >= DIVERGE_CHECKSUM_PRIME ||
        diverge_locate(diverge_checksum_subtract(b->value, a->value), 0, words, located, 2) != 1)
        return false;
    uint64_t change =
        located[0].change < 0 ? -(uint64_t)located[0].change : (uint64_t)located[0].change;
    return change == UINT64_C(1) << 31 ||
           (diverge_dtype_size(a->dtype) == 2 && change == UINT64_C(1) << 15);
}

/* Twice, half or minus the value is one bit of it too: in an input a write by the program explains
 * it better. */
static bool is_arithmetic(enum diverge_dtype dtype, const struct diverge_located *located)
{
    static const struct {
        enum diverge_dtype dtype;
        int exponent, sign; /* bits within a word */
    } formats[] = {{DIVERGE_F32, 23, 31}, {DIVERGE_F64, 20, 31}, {DIVERGE_BF16, 7, 15},
                   {DIVERGE_F16, 10, 15}, {DIVERGE_C64, 23, 31}, {DIVERGE_C128, 20, 31}};
    uint64_t change = located->change < 0 ? -(uint64_t)located->change : (uint64_t)located->change;
    int bit = __builtin_ctzll(change);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (formats[i].dtype == dtype) {
            int within = diverge_dtype_size(dtype) == 2 ? bit % 16 : bit;
            return within == formats[i].exponent || within == formats[i].sign;
        }
    return false;
}

static bool is_measured(const struct view *view, const struct item *item)
{
    for (int side = 0; side < SIDES; side++)
        if (item_state_bits(view, item, side) & (DVG_STATE_INHERITED | DVG_STATE_UNREAD))
            return false;
    return true;
}

bool rule_bit_flip(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first || !evidence_is_pair(first))
        return false;
    bool input = evidence->site->role == DIVERGE_ROLE_INPUT;
    if (input ? first->argument_only || !is_measured(evidence->view, first)
              : evidence->finding->inputs.differ > 0)
        return false;
    const struct trace_type *type = item_type(evidence->view, first, SIDE_A);
    struct diverge_located located;
    if (type->kind != DIVERGE_KIND_TENSOR ||
        !type_equal(type, item_type(evidence->view, first, SIDE_B)) ||
        !one_bit(evidence, &located) || (input && is_arithmetic(type->dtype, &located)))
        return false;
    int buckets = differing_buckets(evidence);
    if (buckets > 1 || evidence_only_zero_signs(evidence))
        return false;
    uint64_t change = located.change < 0 ? -(uint64_t)located.change : (uint64_t)located.change;
    ruling_set(ret, "corruption", "bit-flip", buckets == 1 ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               "Exactly one bit of one tensor differs: memory or a wire may be at fault.");
    uint64_t size = diverge_dtype_size(type->dtype) ? diverge_dtype_size(type->dtype) : 1;
    uint64_t at = located.word * 32 + (uint64_t)__builtin_ctzll(change);
    ruling_evidence(
        evidence, ret,
        "element %llu of %s%s, counted in C order, bit %llu; no other single word "
        "explains the two checksums",
        (unsigned long long)(at / (8 * size)),
        input ? pool_format(evidence->engine->keep, "input %u of ", evidence->site->slot) : "",
        evidence_what(evidence, first), (unsigned long long)(at % (8 * size)));
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
    size_t length = strlen(evidence->first ? evidence->site->op : "");
    if (!first || !length || !evidence_inputs_equal(evidence) ||
        (!(evidence->site->flags & DIVERGE_FLAG_INPLACE) && evidence->site->op[length - 1] != '_'))
        return false;
    size_t n = view_call(evidence->view, first, DIVERGE_ROLE_INPUT, inputs, MAX_CALL);
    for (size_t i = 0; i < n; i++) {
        if (!evidence_is_pair(inputs[i]) ||
            !type_equal(item_type(evidence->view, inputs[i], SIDE_A),
                        item_type(evidence->view, first, SIDE_A)))
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
        ruling_next_repeat(evidence, ret);
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
    {"threads", {"thread", "threads", "omp", "workers", NULL}},
    {"sharding", {"world", "shard", "sharding", "parallel", "fsdp", "ranks", NULL}},
    {"fusion", {"compile", "fusion", "inductor", "xla", "jit", NULL}},
    {"device", {"device", "gpu", "cuda.name", "cpu", "machine", "arch", NULL}},
    {"batch-shape", {"batch_size", "micro", "accumulation", NULL}},
    {NULL, {"version", "library", "package", "compiler", "blas", "mkl", "cudnn", NULL}},
};

/* 1: a flag of one of these words is on both sides and differs; 0: is there and equal; -1: is not
 * there. */
static int compare_attributes(struct engine *engine, const struct trace_chunk *a,
                              const struct trace_chunk *b, const char *const *words,
                              const char **ret)
{
    int found = -1;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t j = 0; j < b->count; j++) {
            const struct trace_site *x = a->layout->sites[i], *y = b->layout->sites[j];
            if (x->role != DIVERGE_ROLE_ATTR || y->role != x->role ||
                !text_has_word(x->name, words) || strcmp(x->name, y->name) != 0 ||
                strcmp(x->scope, y->scope) != 0)
                continue;
            if (chunk_value(a, i) != chunk_value(b, j)) {
                *ret = pool_string(engine->keep, x->name);
                return 1;
            }
            found = 0;
        }
    return found;
}

enum { ATTRIBUTE_ROWS = 64 };

const char *evidence_attribute(const struct evidence *evidence, const char *const *words)
{
    struct engine *engine = evidence->engine;
    const struct pairing *pairing = evidence->pairing;
    const char *name = NULL;
    uint64_t segment = evidence->view->segment;
    int found = -1;
    for (int n = 0; n < ATTRIBUTE_ROWS && found < 0; n++) { /* the latest that is known counts */
        struct trace_head head[SIDES];
        const struct trace_chunk *chunk[SIDES];
        size_t mark = engine_mark(engine);
        for (int side = 0; side < SIDES; side++)
            if (!side_head_at(engine, side, pairing->stream[side], DIVERGE_TIER_EVIDENCE, segment,
                              &head[side]))
                return NULL;
        for (int side = 0; side < SIDES; side++)
            chunk[side] = side_load(engine, side, pairing->stream[side], DIVERGE_TIER_EVIDENCE,
                                    head[side].segment);
        if (chunk[SIDE_A] && chunk[SIDE_B] && !chunk[SIDE_A]->pruned && !chunk[SIDE_B]->pruned)
            found = compare_attributes(engine, chunk[SIDE_A], chunk[SIDE_B], words, &name);
        engine_release(engine, mark);
        uint64_t least = head[SIDE_A].segment < head[SIDE_B].segment ? head[SIDE_A].segment
                                                                     : head[SIDE_B].segment;
        if (least == 0)
            break;
        segment = least - 1;
    }
    return name;
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
            ruling_evidence(evidence, ret, "%s", environment_text(evidence->engine, cause));
        else
            ruling_evidence(evidence, ret, "%s differs", attribute);
        return true;
    }
    return false;
}

enum { ROUNDING_ULP = 1024 };

/* At least this far apart, relatively: norms never differ by more than what they are norms of. */
double finding_at_least_apart(const struct engine_finding *finding)
{
    const struct engine_side *a = &finding->a, *b = &finding->b;
    if (!isnan(finding->rel_l2))
        return finding->rel_l2;
    if (a->kind == DIVERGE_KIND_FLOAT && b->kind == DIVERGE_KIND_FLOAT) {
        double x, y;
        memcpy(&x, &a->value, sizeof(x));
        memcpy(&y, &b->value, sizeof(y));
        return isfinite(x) && isfinite(y) && x != 0 ? fabs(y - x) / fabs(x) : 0;
    }
    if (!a->has_stats || !b->has_stats || !(a->state & DVG_STATE_L2) ||
        !(b->state & DVG_STATE_L2) || !(a->l2 > 0) || a->nan != b->nan || a->pinf != b->pinf ||
        a->ninf != b->ninf)
        return 0;
    return fabs((double)b->l2 - (double)a->l2) / (double)a->l2;
}

/* More than any order of additions makes of it. */
static bool is_beyond_rounding(const struct engine_finding *finding)
{
    double limit = ROUNDING_ULP * dtype_epsilon(finding->a.dtype);
    return finding_at_least_apart(finding) > (limit > 1e-4 ? limit : 1e-4);
}

bool rule_reduction_order(const struct evidence *evidence, struct ruling *ret)
{
    const struct engine_finding *finding = evidence->finding;
    if (!evidence->first || !evidence_inputs_equal(evidence) ||
        (evidence->site->flags & DIVERGE_FLAG_RANDOM) ||
        (!dtype_is_float(finding->a.dtype) && finding->a.kind != DIVERGE_KIND_FLOAT) ||
        finding->ulp > ROUNDING_ULP || is_beyond_rounding(finding) ||
        !reduction_cause(evidence, ret))
        return false;
    if (isnan(finding->ulp) && finding->a.numel == 1 && finding->a.has_stats) {
        ruling_evidence(evidence, ret, "the outputs are %.2g apart, relatively",
                        finding_at_least_apart(finding));
    } else if (isnan(finding->ulp)) {
        ruling_evidence(evidence, ret,
                        "how far apart the outputs are is not known: there are no sketches");
    } else {
        ret->confidence = ENGINE_LIKELY;
        ruling_evidence(evidence, ret, "the outputs are about %.3g ulp apart", finding->ulp);
    }
    ruling_next_repeat(evidence, ret);
    return true;
}

/* What the op's library says of it, or what helps in general. */
void ruling_next_determinism(const struct evidence *evidence, struct ruling *ret)
{
    const char *library = known_op_library(evidence->engine->sides[SIDE_A].run);
    if (!library)
        library = known_op_library(evidence->engine->sides[SIDE_B].run);
    const struct known_op *known = known_op_advice(evidence->site->op, library);
    if (known)
        ruling_next(evidence, ret,
                    "%s documents an op of this name as nondeterministic (%s): %s [%s; %s]",
                    known->library, known->device, known->remedy, known->versions, known->source);
    else if (evidence_uses(evidence, "torch"))
        ruling_next(evidence, ret, "torch.use_deterministic_algorithms(True), or one thread");
}

/* Beyond what any format's rounding makes, and the runs' causes differ. */
#define FAR_APART 1e-2

bool rule_far(const struct evidence *evidence, struct ruling *ret)
{
    const struct engine_finding *finding = evidence->finding;
    if (!evidence->first || !evidence_inputs_equal(evidence) ||
        (evidence->site->flags & DIVERGE_FLAG_RANDOM) ||
        !(finding_at_least_apart(finding) > FAR_APART) || environment_causes(evidence->answer) == 0)
        return false;
    ruling_set(
        ret, "kernel-mismatch", NULL, ENGINE_POSSIBLE,
        "Same inputs, same arguments, and results that no rounding explains: two kernels that "
        "do not compute the same.");
    ruling_evidence(evidence, ret, "the outputs are %s%.2g apart, relatively",
                    isnan(finding->rel_l2) ? "at least " : "", finding_at_least_apart(finding));
    ruling_evidence(evidence, ret, "%s",
                    environment_causes(evidence->answer) == 1
                        ? "a recorded cause differs"
                        : pool_format(evidence->engine->keep, "%s differ",
                                      evidence_count(evidence, environment_causes(evidence->answer),
                                                     "recorded cause")));
    ruling_next_repeat(evidence, ret);
    return true;
}

/* ---- choices of the kernel ------------------------------------------------------------------- */

static const char *const TUNING[] = {"algo", "algorithm", "autotune", "tactic", "heuristic", NULL};

/* The call's record of which algorithm it took differs; NULL: none. */
static const struct item *other_algorithm(const struct evidence *evidence)
{
    const struct item *attributes[MAX_CALL];
    size_t n = view_call(evidence->view, evidence->first, DIVERGE_ROLE_ATTR, attributes, MAX_CALL);
    for (size_t i = 0; i < n; i++)
        if (attributes[i]->state == ITEM_DIFFERS || attributes[i]->state == ITEM_EVIDENCE)
            if (text_has_word(item_site(evidence->view, attributes[i])->name, TUNING))
                return attributes[i];
    return NULL;
}

bool rule_autotune(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first) || !evidence->site->op[0] ||
        evidence->finding->inputs.differ > 0)
        return false;
    const struct item *choice = other_algorithm(evidence);
    if (!choice)
        return false;
    ruling_set(ret, "nondeterministic-kernel", "autotune", ENGINE_LIKELY,
               "The op's inputs agree, but it took another algorithm in each run.");
    ruling_evidence(evidence, ret, "%s of %s differs", item_site(evidence->view, choice)->name,
                    evidence_what(evidence, evidence->first));
    if (evidence_uses(evidence, "torch"))
        ruling_next(evidence, ret, "torch.backends.cudnn.benchmark = False");
    else
        ruling_next(evidence, ret, "fix the choice of algorithm, or turn benchmarking off");
    return true;
}

/* Other outputs of the call, floating-point ones, agree: values equal and indices differ. */
static bool is_tie(const struct evidence *evidence)
{
    const struct item *outputs[MAX_CALL];
    size_t n = view_call(evidence->view, evidence->first, DIVERGE_ROLE_OUTPUT, outputs, MAX_CALL);
    bool values = false;
    if (evidence->finding->a.kind != DIVERGE_KIND_TENSOR ||
        evidence->finding->a.dtype > DIVERGE_I64)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!evidence_is_pair(outputs[i]) ||
            !dtype_is_float(item_type(evidence->view, outputs[i], SIDE_A)->dtype))
            continue;
        if (outputs[i]->state != ITEM_EQUAL)
            return false;
        values = true;
    }
    return values;
}

static void describe_causes(const struct evidence *evidence, bool same, struct ruling *ret)
{
    size_t differ = environment_causes(evidence->answer);
    uint64_t equal = evidence->answer->environment_equal_causes;
    if (same)
        ruling_evidence(evidence, ret, "%s%s %s equal", equal > 1 ? "all " : "",
                        evidence_count(evidence, equal, "recorded cause"),
                        equal > 1 ? "are" : "is");
    else if (differ > 0)
        ruling_evidence(evidence, ret, "%s %s", evidence_count(evidence, differ, "recorded cause"),
                        differ == 1 ? "differs" : "differ");
    else
        ruling_evidence(evidence, ret, "no cause was recorded that could differ");
}

bool rule_nondeterministic(const struct evidence *evidence, struct ruling *ret)
{
    const struct engine_finding *finding = evidence->finding;
    if (!evidence->first || !evidence_inputs_equal(evidence))
        return false;
    bool same_causes =
        environment_causes(evidence->answer) == 0 && evidence->answer->environment_equal_causes > 0;
    const struct engine_inputs *inputs = &finding->inputs;
    bool module = evidence->site->op[0] == '\0'; /* what it is made of was not recorded */
    bool likely = same_causes && inputs->equal > 0 && !module;
    ruling_set(ret, "nondeterministic-kernel", is_tie(evidence) ? "ties" : NULL,
               likely ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               same_causes
                   ? "Same inputs, same arguments, same program and machine; another output."
                   : "Same inputs, same arguments; another output.");
    ruling_evidence(evidence, ret,
                    "%u of %u inputs equal (%u measured, %u inherited); every "
                    "earlier record agrees",
                    inputs->equal, inputs->measured + inputs->inherited, inputs->measured,
                    inputs->inherited);
    describe_causes(evidence, same_causes, ret);
    if (ret->detail)
        ruling_evidence(evidence, ret, "its values are equal, its indices are not");
    if (module)
        ruling_next_ops(evidence, ret);
    ruling_evidence(evidence, ret, "no repeats: certain only when two runs of one side disagree");
    ruling_next_determinism(evidence, ret);
    ruling_next_repeat(evidence, ret);
    return true;
}

/* ---- what remains --------------------------------------------------------------------------- */

/* In the step of the difference, or the one that led to this boundary. */
static bool ops_were_recorded(const struct evidence *evidence)
{
    uint64_t segment = evidence->view->segment;
    if (segment_is_boundary(segment) && segment > 1)
        segment--;
    for (int side = 0; side < SIDES; side++) {
        struct trace_head head;
        if (!evidence->pairing->tier[DIVERGE_TIER_OP] ||
            !side_head(evidence->engine, side, evidence->pairing->stream[side], DIVERGE_TIER_OP,
                       segment, &head) ||
            head.records == 0)
            return false;
    }
    return true;
}

bool rule_unexplained(const struct evidence *evidence, struct ruling *ret)
{
    if (evidence->finding->relation == ENGINE_RECEIVER) {
        ruling_set(ret, "unobserved", NULL, ENGINE_POSSIBLE,
                   "The first op that differs got other inputs, and no record says where from.");
        ruling_evidence(evidence, ret,
                        "%u of its inputs %s; what made %s was not recorded "
                        "or only inherited",
                        evidence->finding->inputs.differ,
                        evidence->finding->inputs.differ == 1 ? "differs" : "differ",
                        evidence->finding->inputs.differ == 1 ? "it" : "them");
        return true;
    }
    if (evidence->view->segment == 0) {
        ruling_set(ret, "init", NULL, ENGINE_POSSIBLE,
                   "The initialisation differs, but nothing after it does.");
        return true;
    }
    bool shallow = !ops_were_recorded(evidence);
    if (!reduction_cause(evidence, ret))
        ruling_set(ret, "nondeterministic-kernel", NULL, ENGINE_POSSIBLE,
                   shallow
                       ? "Everything recorded before agrees; the ops in between were not recorded."
                       : "Every op that was recorded before agrees; something else wrote it.");
    ret->confidence = ENGINE_POSSIBLE;
    ruling_evidence(evidence, ret,
                    shallow
                        ? "%s is the first record that differs; ops before it were not "
                          "recorded, so the origin is not known"
                        : "%s is the first record that differs; no op that was recorded made it",
                    evidence_what(evidence, evidence->first));
    if (shallow)
        ruling_next_ops(evidence, ret);
    else
        ruling_next_repeat(evidence, ret);
    return true;
}
