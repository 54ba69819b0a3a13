/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/noise.h"

#include <math.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/message.h"
#include "daemon/engine/align.h"
#include "daemon/engine/bands.h"
#include "daemon/engine/finding.h"
#include "daemon/engine/measure.h"
#include "daemon/engine/noise_layout.h"

enum {
    LEVEL_TIERS = DIVERGE_TIER_OP + 1,
    LAYOUTS = 32,
    GROWTH_POINTS = 64,
    FOREACH = 8,              /* operands; a call with more works on each by itself */
    TELL_RECORDS = 1000000,   /* between two calls of the progress function */
    UNASKED_RECORDS = 8000000 /* looked at when nobody asked to excuse noise */
};

/* By how much the next repeat may exceed the largest of so many: one sample says little. */
static const double MARGINS[] = {0, 16, 6, 4, 3};

enum { VARIED_VALUE = 1, VARIED_ARGUMENT = 2 };

struct envelope { /* of a site: what repeats of A differ from A by, relative to its norm */
    float sketched, statistics;
    uint8_t varied; /* VARIED_*: in bits */
};

/* What two types are to each other; kept, as neighbours mostly have the same. */
struct kinship {
    const struct trace_type *a, *b;
    bool equal;
    bool plain;      /* tensors of floating-point numbers, of one shape */
    bool exact;      /* there are no distances: bits */
    const char *why; /* what of them is beyond noise; NULL: nothing */
    double rounding;
};

struct noise {
    struct kinship kinship;
    struct pool arena;
    struct pool temporary; /* of one segment */
    struct noise_layout layouts[LAYOUTS];
    size_t next_layout;
    struct noise_sites sites;
    struct envelope *envelopes;
    size_t n_envelopes;
    const struct trace_stream *streams[ENGINE_MAX_REPEATS]; /* of the rank; NULL: not recorded */
    size_t n_repeats;
    double margin;
    uint64_t told;                       /* records when progress was last told */
    uint32_t *where[ENGINE_MAX_REPEATS]; /* by site number: 1 + index in the repeat's chunk */
    size_t n_where[ENGINE_MAX_REPEATS];
    uint64_t *negligible; /* parameters whose gradient is rounding error */
    size_t n_negligible, negligible_capacity;
};

/* ---- memory --------------------------------------------------------------------------------- */

static struct noise *noise_get(struct engine *engine)
{
    if (engine->noise)
        return engine->noise;
    struct noise *noise = POOL_NEW(&engine->scratch, struct noise);
    void (*on_failure)(void *ctx) = engine->scratch.on_failure;
    pool_init(&noise->arena, on_failure, engine);
    pool_init(&noise->temporary, on_failure, engine);
    engine->noise = noise;
    return noise;
}

void noise_free(struct engine *engine)
{
    struct noise *noise = engine->noise;
    if (!noise)
        return;
    pool_fini(&noise->arena);
    pool_fini(&noise->temporary);
    for (size_t i = 0; i < LAYOUTS; i++)
        if (noise->layouts[i].used)
            pool_fini(&noise->layouts[i].arena);
    engine->noise = NULL;
}

static void clear_temporary(struct engine *engine)
{
    pool_fini(&engine->noise->temporary);
    pool_init(&engine->noise->temporary, engine->scratch.on_failure, engine);
}

static void grow_envelopes(struct noise *noise)
{
    if (noise->sites.count <= noise->n_envelopes)
        return;
    size_t count = (size_t)noise->sites.count * 2;
    struct envelope *envelopes = POOL_ARRAY(&noise->arena, struct envelope, count);
    if (noise->n_envelopes)
        memcpy(envelopes, noise->envelopes, noise->n_envelopes * sizeof(envelopes[0]));
    noise->envelopes = envelopes;
    noise->n_envelopes = count;
}

/* Valid until LAYOUTS more were made. */
static const struct noise_layout *layout_of(struct engine *engine, enum diverge_tier tier,
                                            const struct trace_layout *from)
{
    struct noise *noise = engine->noise;
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct noise_layout *layout = &noise->layouts[i];
        if (layout->used && layout->tier == tier && layout->count == from->count &&
            digest_equal(&layout->digest, &from->digest))
            return layout;
    }
    struct noise_layout *layout = &noise->layouts[noise->next_layout++ % LAYOUTS];
    if (layout->used)
        pool_fini(&layout->arena);
    *layout = (struct noise_layout){.used = true};
    pool_init(&layout->arena, engine->scratch.on_failure, engine);
    noise_layout_make(layout, &noise->sites, &noise->arena, tier, from);
    grow_envelopes(noise);
    return layout;
}

/* ---- one pair of records --------------------------------------------------------------------- */

static bool is_negligible(const struct noise *noise, uint64_t owner)
{
    for (size_t i = 0; owner && i < noise->n_negligible; i++)
        if (noise->negligible[i] == owner)
            return true;
    return false;
}

/*
 * The norm that the record's rounding errors are made of: the largest of its call, but no more than
 * the product of its operands, which bounds what a product's terms can be.
 */
static double operand_norm(const struct noise_layout *layout, const struct trace_chunk *chunk,
                           uint32_t index)
{
    uint32_t group = layout->group[index];
    double largest = 0, product = 1;
    uint32_t operands = 0;
    if (group == NO_INDEX)
        return 0;
    for (uint32_t m = layout->start[group]; m < layout->start[group + 1]; m++) {
        uint32_t i = layout->members[m];
        double norm = measure_norm(chunk, i);
        bool input = chunk->layout->sites[i]->role == DIVERGE_ROLE_INPUT;
        if (i == index || !(norm > 0) || !dtype_is_float(chunk_type(chunk, i)->dtype))
            continue;
        largest = norm > largest ? norm : largest;
        product = input ? product * norm : product;
        operands += input;
    }
    if (operands > FOREACH)
        return 0;
    return operands > 1 && product < largest ? product : largest;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

struct pair {
    const struct noise_layout *layout; /* A's */
    const struct trace_chunk *a, *b;
    uint32_t i, j;
    double root;
};

static double rounding_of(const struct trace_type *a, const struct trace_type *b)
{
    if (a->kind == DIVERGE_KIND_INTEGER)
        return 0;
    if (a->kind == DIVERGE_KIND_FLOAT)
        return band_rounding(DIVERGE_F32); /* most numbers come from there */
    double one = band_rounding(a->dtype), other = band_rounding(b->dtype);
    return one > other ? one : other;
}

static const struct kinship *kinship_of(struct noise *noise, const struct trace_type *a,
                                        const struct trace_type *b)
{
    struct kinship *kinship = &noise->kinship;
    if (kinship->a == a && kinship->b == b)
        return kinship;
    *kinship =
        (struct kinship){.a = a, .b = b, .equal = type_equal(a, b), .rounding = rounding_of(a, b)};
    kinship->exact = a->kind == DIVERGE_KIND_ABSENT ||
                     (a->kind == DIVERGE_KIND_TENSOR && !dtype_is_float(a->dtype));
    if (a->kind != b->kind || !type_same_shape(a, b))
        kinship->why = "shape";
    else if (a->dtype != b->dtype && !(dtype_is_float(a->dtype) && dtype_is_float(b->dtype)))
        kinship->why = "dtype";
    kinship->plain = a->kind == DIVERGE_KIND_TENSOR && !kinship->exact && !kinship->why;
    return kinship;
}

/* Types live as long as their chunks. */
static void forget_types(struct noise *noise)
{
    noise->kinship = (struct kinship){0};
}

/* What cannot be measured: NULL, or why it is beyond noise. */
static const char *exact_difference(const struct pair *pair, const struct kinship *kinship,
                                    const struct envelope *envelope)
{
    if (kinship->why)
        return kinship->why;
    if (chunk_argument(pair->a, pair->i) != chunk_argument(pair->b, pair->j) &&
        !(envelope->varied & VARIED_ARGUMENT))
        return "argument";
    if (kinship->a->kind == DIVERGE_KIND_TENSOR &&
        !measure_same_nonfinite(pair->a, pair->i, pair->b, pair->j))
        return "non-finite";
    return NULL;
}

static void mark_negligible(struct noise *noise, const struct pair *pair)
{
    uint64_t owner = pair->layout->owner[pair->i];
    if (pair->a->layout->sites[pair->i]->role == DIVERGE_ROLE_GRAD && owner &&
        !is_negligible(noise, owner))
        POOL_PUSH(&noise->arena, noise->negligible, noise->n_negligible, noise->negligible_capacity,
                  owner);
}

/* What its operands excuse; NULL: nothing. */
static const char *excused_by_operands(struct noise *noise, const struct pair *pair,
                                       const struct measure *m, double rounding, double tolerance,
                                       double *ret_allowed)
{
    double scale = operand_norm(pair->layout, pair->a, pair->i);
    double other = pair->b->layout->count == pair->layout->count && pair->i == pair->j
                       ? operand_norm(pair->layout, pair->b, pair->j)
                       : scale;
    double limit = rounding > tolerance ? rounding : tolerance;
    scale = other < scale ? other : scale;
    if (rounding * scale > *ret_allowed)
        *ret_allowed = rounding * scale;
    if (m->norm <= limit * scale) {
        mark_negligible(noise, pair);
        return "operands";
    }
    if (m->distance <= rounding * scale)
        return "rounding";
    if (pair->a->layout->sites[pair->i]->role != DIVERGE_ROLE_GRAD &&
        is_negligible(noise, pair->layout->owner[pair->i]))
        return "its gradient is rounding error";
    return NULL;
}

/* True: within noise. *ret is for those who want to tell it. */
static bool judge_measured(struct engine *engine, const struct pair *pair, double rounding,
                           const struct envelope *envelope, struct engine_judgement *ret)
{
    struct noise *noise = engine->noise;
    const struct trace_type *type = chunk_type(pair->a, pair->i);
    bool number = type->kind != DIVERGE_KIND_TENSOR;
    struct measure m =
        number ? measure_numbers(type, chunk_value(pair->a, pair->i), chunk_value(pair->b, pair->j))
               : measure_tensors(pair->a, pair->i, pair->b, pair->j, pair->root, false);
    double noisy = m.sketched && envelope->sketched > envelope->statistics
                       ? (double)envelope->sketched
                       : (double)envelope->statistics;
    double tolerance = type->kind == DIVERGE_KIND_INTEGER ? 0 : engine->options->tolerance;
    if (isnan(m.distance)) {
        ret->why = envelope->varied & VARIED_VALUE ? "repeats differ here too" : "not measured";
        return envelope->varied & VARIED_VALUE;
    }
    const char *why = NULL;
    double allowed = noisy * noise->margin * m.norm;
    if (m.distance <= rounding * m.norm)
        why = "rounding";
    else if (m.distance <= allowed)
        why = "noise";
    else if (m.distance <= tolerance * m.norm)
        why = "tolerance";
    allowed = larger(allowed, larger(tolerance, rounding) * m.norm);
    if (!why && !number)
        why = excused_by_operands(noise, pair, &m, rounding, tolerance, &allowed);
    engine->answer->noise.statistics |= why && !number && !m.sketched;
    *ret = (struct engine_judgement){.distance = m.distance,
                                     .allowed = allowed,
                                     .norm = m.norm,
                                     .sketched = m.sketched,
                                     .why = why ? why : "beyond"};
    return why != NULL;
}

static bool judge_pair(struct engine *engine, const struct pair *pair, struct engine_judgement *ret)
{
    const struct envelope *envelope = &engine->noise->envelopes[pair->layout->site[pair->i]];
    *ret = (struct engine_judgement){.distance = NAN, .allowed = NAN};
    const struct kinship *kinship =
        kinship_of(engine->noise, chunk_type(pair->a, pair->i), chunk_type(pair->b, pair->j));
    ret->why = exact_difference(pair, kinship, envelope);
    if (ret->why)
        return false;
    if (kinship->equal && chunk_value(pair->a, pair->i) == chunk_value(pair->b, pair->j)) {
        ret->why = "repeats differ here too"; /* in their arguments */
        return true;
    }
    if (kinship->exact || pair->layout->rule[pair->i] == NOISE_EXACT) {
        ret->why = envelope->varied & VARIED_VALUE ? "repeats differ here too" : "exact";
        return envelope->varied & VARIED_VALUE;
    }
    return judge_measured(engine, pair, kinship->rounding, envelope, ret);
}

/* ---- what repeats differ by ------------------------------------------------------------------ */

static double *roots_of(struct noise *noise, const struct trace_chunk *chunk)
{
    double *roots = POOL_ARRAY(&noise->temporary, double, (size_t)chunk->n_types + 1);
    for (uint32_t t = 0; t < chunk->n_types; t++)
        roots[t] = measure_root(chunk->types[t]);
    return roots;
}

static void widen(float *envelope, double distance)
{
    /* Rounded up: what a repeat differs by is within the envelope. */
    float wide = (float)(distance * (1 + 0x1p-22));
    if (wide > *envelope)
        *envelope = wide;
}

static void observe_pair(struct noise *noise, const struct trace_chunk *a, uint32_t i,
                         const struct trace_chunk *r, uint32_t j, double root,
                         struct envelope *envelope)
{
    const struct trace_type *type = chunk_type(a, i), *other = chunk_type(r, j);
    if (chunk_argument(a, i) != chunk_argument(r, j))
        envelope->varied |= VARIED_ARGUMENT;
    if (chunk_value(a, i) == chunk_value(r, j) || !kinship_of(noise, type, other)->equal)
        return;
    envelope->varied |= VARIED_VALUE;
    bool number = type->kind != DIVERGE_KIND_TENSOR;
    if (!number && !measure_same_nonfinite(a, i, r, j))
        return;
    struct measure m = number ? measure_numbers(type, chunk_value(a, i), chunk_value(r, j))
                              : measure_tensors(a, i, r, j, root, true);
    if (isfinite(m.distance) && m.norm > 0)
        widen(&envelope->statistics, m.distance / m.norm);
    if (number || !a->sketch_size)
        return;
    m = measure_tensors(a, i, r, j, root, false);
    if (m.sketched && m.norm > 0)
        widen(&envelope->sketched, m.distance / m.norm);
}

/* Where the repeat's chunk has A's sites, when layouts differ. */
static const uint32_t *find_sites(struct noise *noise, size_t n, const struct noise_layout *layout)
{
    if (noise->n_where[n] < noise->sites.count) {
        noise->n_where[n] = (size_t)noise->sites.count * 2;
        noise->where[n] = POOL_ARRAY(&noise->arena, uint32_t, noise->n_where[n]);
    }
    memset(noise->where[n], 0, noise->n_where[n] * sizeof(noise->where[n][0]));
    for (uint32_t i = 0; i < layout->count; i++)
        noise->where[n][layout->site[i]] = i + 1;
    return noise->where[n];
}

static void observe(struct engine *engine, size_t n, enum diverge_tier tier, uint64_t segment,
                    const struct noise_layout *layout, const struct trace_chunk *a,
                    const double *roots)
{
    struct noise *noise = engine->noise;
    int side = repeat_side(SIDE_A, n);
    const struct trace_chunk *r = side_load(engine, side, noise->streams[n], tier, segment);
    const uint32_t *where = NULL;
    if (!r || r->pruned)
        return;
    if (r->count != a->count || !digest_equal(&r->layout->digest, &a->layout->digest))
        where = find_sites(noise, n, layout_of(engine, tier, r->layout));
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t j = where ? where[layout->site[i]] - 1 : i; /* NO_INDEX when it is not there */
        if (layout->rule[i] == NOISE_SKIP || j == NO_INDEX)
            continue;
        if (a->value[i] == r->value[j] && chunk_argument(a, i) == chunk_argument(r, j))
            continue;
        struct envelope *envelope = &noise->envelopes[layout->site[i]];
        if ((chunk_state(a, i) | chunk_state(r, j)) & DVG_STATE_UNREAD)
            continue;
        observe_pair(noise, a, i, r, j, roots[a->type[i]], envelope);
        engine->answer->noise.noisy++;
    }
    forget_types(noise);
}

/* ---- one segment ---------------------------------------------------------------------------- */

/* Whether a record that only one side has is a difference. */
static bool has_single(const struct alignment *alignment, const struct trace_chunk *const chunk[])
{
    if (alignment->identity)
        return false;
    for (int side = 0; side < SIDES; side++)
        for (uint32_t i = 0; i < chunk[side]->count; i++)
            if (alignment->map[side][i] == NO_INDEX &&
                site_must_exist(chunk[side]->layout->sites[i]))
                return true;
    return false;
}

/*
 * The way most records go: tensors of numbers without sketches, well within. False says nothing:
 * judge_pair then decides, and would have said the same.
 */
static bool is_plainly_within(const struct engine *engine, const struct pair *pair,
                              const struct kinship *kinship)
{
    const struct noise *noise = engine->noise;
    const struct trace_chunk *a = pair->a, *b = pair->b;
    if (!kinship->plain || pair->layout->rule[pair->i] != NOISE_VALUE || a->n_nonfinite ||
        b->n_nonfinite || (a->n_sketches && b->n_sketches) ||
        chunk_argument(a, pair->i) != chunk_argument(b, pair->j))
        return false;
    struct measure m = measure_tensors(a, pair->i, b, pair->j, pair->root, true);
    double envelope = (double)noise->envelopes[pair->layout->site[pair->i]].statistics;
    double limit = larger(envelope * noise->margin, kinship->rounding);
    return m.distance <= larger(limit, engine->options->tolerance) * m.norm;
}

/* True: every difference is within noise. */
static bool judge_chunks(struct engine *engine, const struct noise_layout *layout,
                         const struct alignment *alignment, const struct trace_chunk *const chunk[],
                         const double *roots)
{
    const struct trace_chunk *a = chunk[SIDE_A], *b = chunk[SIDE_B];
    struct engine_judgement judgement;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t j = alignment->identity ? i : alignment->map[SIDE_A][i];
        if (layout->rule[i] == NOISE_SKIP || j == NO_INDEX)
            continue;
        if ((chunk_state(a, i) | chunk_state(b, j)) & DVG_STATE_UNREAD)
            continue;
        const struct trace_type *one = chunk_type(a, i), *other = chunk_type(b, j);
        if (a->value[i] == b->value[j] && chunk_argument(a, i) == chunk_argument(b, j) &&
            (one == other || kinship_of(engine->noise, one, other)->equal))
            continue;
        const struct pair pair = {
            .layout = layout, .a = a, .b = b, .i = i, .j = j, .root = roots[a->type[i]]};
        if (is_plainly_within(engine, &pair, kinship_of(engine->noise, one, other)))
            engine->answer->noise.statistics = true;
        else if (!judge_pair(engine, &pair, &judgement))
            return false;
    }
    return true;
}

/* False: something in it needs a closer look. */
static bool judge_tier(struct engine *engine, const struct pairing *pairing, enum diverge_tier tier,
                       uint64_t segment)
{
    struct noise *noise = engine->noise;
    struct trace_head head[SIDES];
    const struct trace_chunk *chunk[SIDES];
    for (int side = 0; side < SIDES; side++)
        if (!pairing->tier[tier] ||
            !side_head(engine, side, pairing->stream[side], tier, segment, &head[side]))
            return true;
    if (head[SIDE_A].sealed && head[SIDE_B].sealed && !digest_is_none(&head[SIDE_A].digest) &&
        digest_equal(&head[SIDE_A].digest, &head[SIDE_B].digest))
        return true;
    for (int side = 0; side < SIDES; side++) {
        chunk[side] = side_load(engine, side, pairing->stream[side], tier, segment);
        if (!chunk[side] || chunk[side]->pruned)
            return false;
    }
    const struct noise_layout *layout = layout_of(engine, tier, chunk[SIDE_A]->layout);
    const double *roots = roots_of(noise, chunk[SIDE_A]);
    for (size_t n = 0; n < noise->n_repeats; n++)
        if (noise->streams[n])
            observe(engine, n, tier, segment, layout, chunk[SIDE_A], roots);
    const struct alignment *alignment =
        align_chunks(engine, tier, chunk[SIDE_A], chunk[SIDE_B], false);
    engine->answer->noise.records += chunk[SIDE_A]->count;
    return !has_single(alignment, chunk) && judge_chunks(engine, layout, alignment, chunk, roots);
}

static bool judge_segment(struct engine *engine, const struct pairing *pairing, uint64_t segment)
{
    size_t mark = engine_mark(engine);
    bool within = true;
    for (int tier = 0; tier < LEVEL_TIERS; tier++)
        within = judge_tier(engine, pairing, (enum diverge_tier)tier, segment) && within;
    engine_release(engine, mark);
    clear_temporary(engine);
    forget_types(engine->noise);
    return within && !engine->options->strict_structure;
}

/* ---- the first beyond noise ------------------------------------------------------------------ */

static bool item_is_within(struct engine *engine, const struct view *view, const struct item *item,
                           struct engine_judgement *ret)
{
    const struct trace_chunk *a = view->chunk[SIDE_A][item->tier];
    const struct trace_chunk *b = view->chunk[SIDE_B][item->tier];
    *ret = (struct engine_judgement){.distance = NAN, .allowed = NAN, .why = "structure"};
    if (!item_has(item, SIDE_A) || !item_has(item, SIDE_B))
        return false;
    const struct noise_layout *layout = layout_of(engine, (enum diverge_tier)item->tier, a->layout);
    uint32_t i = item->index[SIDE_A];
    const struct pair pair = {.layout = layout,
                              .a = a,
                              .b = b,
                              .i = i,
                              .j = item->index[SIDE_B],
                              .root = measure_root(chunk_type(a, i))};
    forget_types(engine->noise);
    bool within = judge_pair(engine, &pair, ret);
    forget_types(engine->noise);
    if (ret->norm > 0) {
        ret->distance /= ret->norm;
        ret->allowed /= ret->norm;
    }
    const struct band *band = band_of(ret->distance);
    ret->band = band ? band->name : NULL;
    return within;
}

void noise_describe(struct engine *engine, const struct view *view, const struct item *item,
                    struct engine_judgement *ret)
{
    if (item)
        item_is_within(engine, view, item, ret);
}

static const struct item *first_beyond(struct engine *engine, const struct view *view,
                                       struct engine_judgement *ret)
{
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        const struct trace_site *site = item_site(view, item);
        if (item_has(item, SIDE_A) && item_has(item, SIDE_B) && site->role == DIVERGE_ROLE_INPUT &&
            !(site->flags & DIVERGE_FLAG_COLLECTIVE))
            continue;
        if (!item_is_within(engine, view, item, ret))
            return item;
    }
    if (engine->options->strict_structure && view->n_notes > 0) {
        *ret = (struct engine_judgement){.distance = NAN, .allowed = NAN, .why = "structure"};
        return view->notes[0];
    }
    return NULL;
}

/* True: found. */
static bool look_closer(struct engine *engine, const struct pairing *pairing, uint64_t segment)
{
    struct engine_answer *answer = engine->answer;
    struct engine_judgement judgement = {.distance = NAN, .allowed = NAN, .why = "not recorded"};
    struct view *view = view_load(engine, pairing, segment);
    const struct item *item = first_beyond(engine, view, &judgement);
    bool found = item || view->pruned;
    if (found && (!answer->beyond_noise || segment < answer->beyond_noise->segment)) {
        answer->beyond_noise =
            item ? finding_new(engine, view, item) : finding_of_pruned(engine, view);
        answer->noise.beyond = judgement;
    }
    view_release(engine, view);
    return found;
}

static uint64_t next_segment(struct engine *engine, const struct pairing *pairing, uint64_t from)
{
    uint64_t next = NO_SEGMENT;
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        struct trace_head head;
        if (pairing->tier[tier] &&
            side_head_from(engine, SIDE_A, pairing->stream[SIDE_A], (enum diverge_tier)tier, from,
                           &head) &&
            head.segment < next)
            next = head.segment;
    }
    return next;
}

static const struct trace_stream *stream_of(const struct trace_run *run, uint32_t rank)
{
    for (uint32_t i = 0; i < run->n_streams; i++)
        if (run->streams[i].rank == rank)
            return &run->streams[i];
    return NULL;
}

static void find_streams(struct engine *engine, const struct pairing *pairing)
{
    struct noise *noise = engine->noise;
    size_t used = 0;
    noise->n_repeats = engine->n_repeats[SIDE_A];
    for (size_t n = 0; n < noise->n_repeats; n++) {
        const struct trace_stream *stream =
            stream_of(engine->sides[repeat_side(SIDE_A, n)].run, pairing->rank);
        if (stream && strcmp(stream->fingerprint_id, pairing->stream[SIDE_A]->fingerprint_id) != 0)
            stream = NULL;
        noise->streams[n] = stream;
        used += stream != NULL;
    }
    size_t last = sizeof(MARGINS) / sizeof(MARGINS[0]) - 1;
    noise->margin = MARGINS[used < last ? used : last];
    engine->answer->noise.repeats = used;
    engine->answer->noise.margin = noise->margin;
}

/* Called for every segment, tells the caller about every millionth record. */
static void tick(struct engine *engine, uint64_t done, uint64_t total)
{
    const struct engine_options *options = engine->options;
    struct noise *noise = engine->noise;
    uint64_t records = engine->answer->noise.records;
    if (!options->progress || records - noise->told < TELL_RECORDS)
        return;
    noise->told = records;
    if (!options->progress(options->progress_ctx, done, total))
        engine_fail(engine, DIVERGE_ECLOSED);
}

bool noise_is_known(const struct engine *engine)
{
    return engine->n_repeats[SIDE_A] > 0 || engine->options->tolerance > 0;
}

void noise_judge(struct engine *engine, const struct pairing *pairing, uint64_t from)
{
    struct engine_noise *said = &engine->answer->noise;
    bool first = !said->known;
    noise_get(engine);
    find_streams(engine, pairing);
    said->known = true;
    said->complete = first || said->complete;
    uint64_t segment = next_segment(engine, pairing, from);
    for (; segment != NO_SEGMENT && segment <= pairing->high;
         segment = next_segment(engine, pairing, segment + 1)) {
        tick(engine, segment - from, pairing->high - from);
        said->through = segment;
        if (!judge_segment(engine, pairing, segment) && look_closer(engine, pairing, segment))
            return;
        if (!engine->options->excuse_noise && said->records > UNASKED_RECORDS) {
            said->complete = false;
            return;
        }
    }
}

/* ---- growth --------------------------------------------------------------------------------- */

struct squares {
    double distance, norm;
    bool sketched;
};

/* Parameters of the boundary, `side` against A. */
static struct squares state_distance(struct engine *engine, const struct trace_chunk *a, int side,
                                     const struct trace_stream *stream, uint64_t segment)
{
    struct squares sum = {.sketched = true};
    const struct trace_chunk *b = side_load(engine, side, stream, DIVERGE_TIER_STEP, segment);
    if (!b || b->pruned)
        return sum;
    const uint32_t *map = NULL;
    if (side == SIDE_B) {
        const struct alignment *alignment = align_chunks(engine, DIVERGE_TIER_STEP, a, b, false);
        map = alignment->identity ? NULL : alignment->map[SIDE_A];
    } else if (!digest_equal(&a->layout->digest, &b->layout->digest)) {
        return sum;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t j = map ? map[i] : i;
        const struct trace_type *type = chunk_type(a, i);
        if (j >= b->count || a->layout->sites[i]->role != DIVERGE_ROLE_PARAM ||
            !dtype_is_float(type->dtype) || !type_same_shape(type, chunk_type(b, j)))
            continue;
        double norm = measure_norm(a, i);
        struct measure m = {.norm = norm, .sketched = true};
        if (a->value[i] != b->value[j])
            m = measure_tensors(a, i, b, j, measure_root(type), false);
        if (isnan(m.distance) || !(norm > 0))
            continue;
        sum.distance += m.distance * m.distance;
        sum.norm += norm * norm;
        sum.sketched = sum.sketched && m.sketched;
    }
    return sum;
}

static bool growth_at(struct engine *engine, const struct pairing *pairing, uint64_t segment,
                      struct engine_growth *ret)
{
    struct noise *noise = engine->noise;
    size_t mark = engine_mark(engine);
    const struct trace_chunk *a =
        side_load(engine, SIDE_A, pairing->stream[SIDE_A], DIVERGE_TIER_STEP, segment);
    bool known = a && !a->pruned;
    if (known) {
        struct squares b = state_distance(engine, a, SIDE_B, pairing->stream[SIDE_B], segment);
        *ret = (struct engine_growth){.boundary = segment_number(segment),
                                      .rel_l2 = sqrt(b.distance / b.norm),
                                      .noise = NAN,
                                      .sketched = b.sketched};
        known = b.norm > 0;
        for (size_t n = 0; known && n < noise->n_repeats; n++) {
            if (!noise->streams[n])
                continue;
            struct squares r =
                state_distance(engine, a, repeat_side(SIDE_A, n), noise->streams[n], segment);
            double relative = sqrt(r.distance / r.norm);
            if (r.norm > 0 && !(ret->noise >= relative))
                ret->noise = relative;
        }
    }
    engine_release(engine, mark);
    return known;
}

void noise_growth(struct engine *engine, const struct pairing *pairing, uint64_t from)
{
    struct engine_noise *said = &engine->answer->noise;
    size_t capacity = 0;
    uint64_t first = from | 1; /* the boundary at or after it */
    if (!pairing->tier[DIVERGE_TIER_STEP] || first > pairing->high || pairing->high == NO_SEGMENT)
        return;
    noise_get(engine);
    find_streams(engine, pairing);
    uint64_t boundaries = (pairing->high - first) / 2 + 1;
    uint64_t stride = 2 * ((boundaries + GROWTH_POINTS - 1) / GROWTH_POINTS);
    uint64_t wanted = first;
    while (wanted <= pairing->high) {
        struct trace_head head;
        struct engine_growth point;
        if (!side_head_from(engine, SIDE_A, pairing->stream[SIDE_A], DIVERGE_TIER_STEP, wanted,
                            &head) ||
            head.segment > pairing->high)
            return;
        if (segment_is_boundary(head.segment) && growth_at(engine, pairing, head.segment, &point))
            POOL_PUSH(engine->keep, said->growth, said->n_growth, capacity, point);
        engine_tick(engine, pairing->high);
        wanted = segment_is_boundary(head.segment) ? head.segment + stride : head.segment + 1;
    }
}
