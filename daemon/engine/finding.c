/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/finding.h"

#include <math.h>
#include <string.h>

#include <diverge/fingerprint.h>

#include "client/wire/message.h"

enum { MAX_INPUTS = 256 };

/* ---- dtypes --------------------------------------------------------------------------------- */

double dtype_epsilon(enum diverge_dtype dtype)
{
    switch (dtype) {
    case DIVERGE_F16:
        return 0x1p-10;
    case DIVERGE_BF16:
        return 0x1p-7;
    case DIVERGE_F32:
    case DIVERGE_C64:
        return 0x1p-23;
    case DIVERGE_F64:
    case DIVERGE_C128:
        return 0x1p-52;
    case DIVERGE_F8E4M3FN:
    case DIVERGE_F8E4M3FNUZ:
        return 0x1p-3;
    case DIVERGE_F8E5M2:
    case DIVERGE_F8E5M2FNUZ:
        return 0x1p-2;
    default:
        return 0;
    }
}

bool dtype_is_float(enum diverge_dtype dtype)
{
    return dtype_epsilon(dtype) > 0;
}

/* ---- one record ----------------------------------------------------------------------------- */

const struct trace_nonfinite *chunk_nonfinite(const struct trace_chunk *chunk, uint32_t index)
{
    uint32_t low = 0, high = chunk->n_nonfinite;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (chunk->nonfinite[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < chunk->n_nonfinite && chunk->nonfinite[low].index == index ? &chunk->nonfinite[low]
                                                                            : NULL;
}

bool item_is_nonfinite(const struct view *view, const struct item *item, int side)
{
    const struct trace_chunk *chunk = view->chunk[side][item->tier];
    if (item_type(view, item, side)->kind == DIVERGE_KIND_FLOAT) {
        uint64_t bits = item_value(view, item, side);
        return (bits & UINT64_C(0x7ff0000000000000)) == UINT64_C(0x7ff0000000000000);
    }
    const struct trace_nonfinite *counts = chunk_nonfinite(chunk, item->index[side]);
    return counts && (counts->nan || counts->pinf || counts->ninf);
}

static const int64_t *copy_sizes(struct engine *engine, const struct trace_type *type)
{
    int64_t *sizes = POOL_ARRAY(engine->keep, int64_t, (size_t)type->ndim);
    if (type->ndim)
        memcpy(sizes, type->sizes, (size_t)type->ndim * sizeof(*sizes));
    return sizes;
}

static void fill_statistics(struct engine_side *to, const struct trace_chunk *chunk, uint32_t index,
                            const struct trace_type *type)
{
    const struct trace_nonfinite *counts = chunk_nonfinite(chunk, index);
    to->numel = type_numel(type);
    if (type->dtype == DIVERGE_C64 || type->dtype == DIVERGE_C128)
        to->numel *= 2;
    to->has_stats = type->kind == DIVERGE_KIND_TENSOR && (to->state & DVG_STATE_STATS);
    if (counts) {
        to->nan = counts->nan;
        to->pinf = counts->pinf;
        to->ninf = counts->ninf;
    }
    to->zero = chunk->zero ? chunk->zero[index] : 0;
    to->min = chunk->min ? chunk->min[index] : 0;
    to->max = chunk->max ? chunk->max[index] : 0;
    to->sum = chunk->sum ? chunk->sum[index] : 0;
    to->l2 = chunk->l2 ? chunk->l2[index] : 0;
}

static void fill_side(struct engine *engine, const struct view *view, const struct item *item,
                      int side, struct engine_side *to)
{
    if (!item_has(item, side))
        return;
    const struct trace_chunk *chunk = view->chunk[side][item->tier];
    uint32_t index = item->index[side];
    const struct trace_type *type = chunk_type(chunk, index);
    to->present = true;
    to->state = chunk_state(chunk, index);
    to->unread = (to->state & DVG_STATE_UNREAD) != 0;
    to->kind = type->kind;
    to->dtype = type->dtype;
    to->ndim = type->ndim;
    to->sizes = copy_sizes(engine, type);
    to->value = chunk_value(chunk, index);
    to->argument = chunk_argument(chunk, index);
    to->argument_text = side_argument(engine, side, to->argument);
    if (chunk->source && chunk->source[index] && chunk->source[index][0])
        to->source = pool_string(engine->keep, chunk->source[index]);
    fill_statistics(to, chunk, index, type);
}

struct trace_site *site_copy(struct engine *engine, const struct trace_site *site)
{
    struct trace_site *copy = POOL_NEW(engine->keep, struct trace_site);
    *copy = *site;
    copy->lane = pool_string(engine->keep, site->lane);
    copy->region = pool_string(engine->keep, site->region);
    copy->scope = pool_string(engine->keep, site->scope);
    copy->op = pool_string(engine->keep, site->op);
    copy->name = pool_string(engine->keep, site->name);
    return copy;
}

/* ---- distance ------------------------------------------------------------------------------- */

const float *chunk_sketch(const struct trace_chunk *chunk, uint32_t index)
{
    uint32_t low = 0, high = chunk->n_sketches;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (chunk->sketch_index[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < chunk->n_sketches && chunk->sketch_index[low] == index
               ? &chunk->sketches[(size_t)low * chunk->sketch_size]
               : NULL;
}

static uint64_t count_nonfinite(const struct trace_chunk *chunk, uint32_t index)
{
    const struct trace_nonfinite *counts = chunk_nonfinite(chunk, index);
    return counts ? counts->nan + counts->pinf + counts->ninf : 0;
}

double finding_distance(const struct view *view, const struct item *item)
{
    if (!item_has(item, SIDE_A) || !item_has(item, SIDE_B))
        return NAN;
    const struct trace_chunk *a = view->chunk[SIDE_A][item->tier];
    const struct trace_chunk *b = view->chunk[SIDE_B][item->tier];
    uint32_t i = item->index[SIDE_A], j = item->index[SIDE_B];
    const float *sketch_a = chunk_sketch(a, i), *sketch_b = chunk_sketch(b, j);
    if (!sketch_a || !sketch_b || a->sketch_size != b->sketch_size || !a->l2 ||
        !(chunk_state(a, i) & DVG_STATE_L2) || count_nonfinite(a, i) != count_nonfinite(b, j) ||
        (a->sketch_size != 32 && a->sketch_size != 64) ||
        !type_same_shape(chunk_type(a, i), chunk_type(b, j)))
        return NAN;
    double distance = diverge_sketch_distance(sketch_a, sketch_b, a->sketch_size, (double)a->l2[i]);
    return isfinite(distance) ? distance : NAN;
}

/* ---- relation ------------------------------------------------------------------------------- */

bool finding_has_inputs(const struct view *view, const struct item *item)
{
    const struct item *input;
    const struct trace_site *site = item_site(view, item);
    return site->op[0] != '\0' || view_call(view, item, DIVERGE_ROLE_INPUT, &input, 1) > 0;
}

struct engine_inputs finding_inputs(const struct view *view, const struct item *item)
{
    const struct item *inputs[MAX_INPUTS];
    struct engine_inputs counts = {0};
    size_t n = view_call(view, item, DIVERGE_ROLE_INPUT, inputs, MAX_INPUTS);
    for (size_t i = 0; i < n; i++) {
        if (inputs[i]->state == ITEM_EQUAL || inputs[i]->argument_only)
            counts.equal++;
        else if (inputs[i]->state != ITEM_UNREAD && inputs[i]->state != ITEM_EXCLUDED)
            counts.differ++;
        int side = item_has(inputs[i], SIDE_A) ? SIDE_A : SIDE_B;
        if (item_state_bits(view, inputs[i], side) & DVG_STATE_INHERITED)
            counts.inherited++;
        else
            counts.measured++;
    }
    return counts;
}

enum engine_relation finding_relation(const struct view *view, const struct item *item)
{
    const struct trace_site *site = item_site(view, item);
    if (!item_has(item, SIDE_A) || !item_has(item, SIDE_B))
        return ENGINE_STRUCTURE;
    if (site->role == DIVERGE_ROLE_INPUT && !item->argument_only)
        return ENGINE_RECEIVER;
    if (!finding_has_inputs(view, item))
        return ENGINE_STATE;
    return finding_inputs(view, item).differ ? ENGINE_RECEIVER : ENGINE_ORIGIN;
}

struct engine_finding *finding_new(struct engine *engine, const struct view *view,
                                   const struct item *item)
{
    struct engine_finding *finding = POOL_NEW(engine->keep, struct engine_finding);
    finding->segment = view->segment;
    finding->rank = view->pairing->rank;
    finding->order = item_order(view, item, item_has(item, SIDE_A) ? SIDE_A : SIDE_B);
    finding->site = site_copy(engine, item_site(view, item));
    finding->relation = finding_relation(view, item);
    fill_side(engine, view, item, SIDE_A, &finding->a);
    fill_side(engine, view, item, SIDE_B, &finding->b);
    finding->has_inputs = finding->relation != ENGINE_STRUCTURE && finding_has_inputs(view, item);
    if (finding->has_inputs)
        finding->inputs = finding_inputs(view, item);
    finding->rel_l2 = finding_distance(view, item);
    double epsilon = dtype_epsilon(finding->a.dtype);
    bool same = finding->a.dtype == finding->b.dtype;
    finding->ulp = epsilon > 0 && same ? finding->rel_l2 / epsilon : NAN;
    return finding;
}

static enum diverge_role role_of_tier(enum diverge_tier tier)
{
    switch (tier) {
    case DIVERGE_TIER_PULSE:
        return DIVERGE_ROLE_SCALAR;
    case DIVERGE_TIER_STEP:
        return DIVERGE_ROLE_PARAM;
    case DIVERGE_TIER_LAYER:
    case DIVERGE_TIER_OP:
        return DIVERGE_ROLE_OUTPUT;
    case DIVERGE_TIER_EVIDENCE:
        return DIVERGE_ROLE_ATTR;
    }
    return DIVERGE_ROLE_OUTPUT;
}

struct engine_finding *finding_of_pruned(struct engine *engine, const struct view *view)
{
    struct engine_finding *finding = POOL_NEW(engine->keep, struct engine_finding);
    struct trace_site site = {.tier = view->pruned_tier,
                              .role = role_of_tier(view->pruned_tier),
                              .phase = view->segment == 0                   ? DIVERGE_PHASE_INIT
                                       : segment_is_boundary(view->segment) ? DIVERGE_PHASE_BOUNDARY
                                                                            : DIVERGE_PHASE_FORWARD,
                              .lane = "",
                              .region = "",
                              .scope = "",
                              .op = "",
                              .name = ""};
    finding->segment = view->segment;
    finding->rank = view->pairing->rank;
    finding->site = site_copy(engine, &site);
    finding->relation = ENGINE_STATE;
    finding->rel_l2 = finding->ulp = NAN;
    return finding;
}
