/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/segment.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/message.h"

static struct pool *view_arena(struct engine *engine)
{
    return &engine->view_arenas[engine->n_views - 1];
}

/* ---- access --------------------------------------------------------------------------------- */

bool item_has(const struct item *item, int side)
{
    return item->index[side] != NO_INDEX;
}

const struct trace_site *item_site_of(const struct view *view, const struct item *item, int side)
{
    return view->chunk[side][item->tier]->layout->sites[item->index[side]];
}

const struct trace_site *item_site(const struct view *view, const struct item *item)
{
    return item_site_of(view, item, item_has(item, SIDE_A) ? SIDE_A : SIDE_B);
}

bool type_same_shape(const struct trace_type *a, const struct trace_type *b)
{
    return a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof(a->sizes[0])) == 0);
}

bool type_equal(const struct trace_type *a, const struct trace_type *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && type_same_shape(a, b);
}

uint64_t type_numel(const struct trace_type *type)
{
    uint64_t numel = 1;
    for (int32_t i = 0; i < type->ndim; i++)
        if (type->sizes[i] < 0 || __builtin_mul_overflow(numel, (uint64_t)type->sizes[i], &numel))
            return 0;
    return numel;
}

/* ---- comparing one pair of records ----------------------------------------------------------- */

static bool is_evidence(const struct view *view, const struct item *item)
{
    return item->tier == DIVERGE_TIER_EVIDENCE ||
           (item_site(view, item)->flags & DIVERGE_FLAG_EVIDENCE);
}

static enum item_state compare_pair(const struct view *view, const struct item *item)
{
    const struct trace_site *site = item_site(view, item);
    bool same_type = type_equal(item_type(view, item, SIDE_A), item_type(view, item, SIDE_B));
    if (site->flags & DIVERGE_FLAG_VOLATILE)
        return ITEM_EXCLUDED;
    if ((item_state_bits(view, item, SIDE_A) | item_state_bits(view, item, SIDE_B)) &
        DVG_STATE_UNREAD)
        return same_type ? ITEM_UNREAD : ITEM_DIFFERS;
    if (site->flags & DIVERGE_FLAG_UNINITIALISED)
        return same_type ? ITEM_EXCLUDED : ITEM_DIFFERS;
    bool equal = same_type && item_value(view, item, SIDE_A) == item_value(view, item, SIDE_B) &&
                 item_argument(view, item, SIDE_A) == item_argument(view, item, SIDE_B);
    return equal ? ITEM_EQUAL : ITEM_DIFFERS;
}

bool site_is_collective(const struct trace_site *site)
{
    static const char *const ops[] = {"all_reduce",         "allreduce",  "all_gather",
                                      "allgather",          "all_to_all", "reduce_scatter",
                                      "broadcast_coalesced"};
    if (site->role == DIVERGE_ROLE_COLLECTIVE || (site->flags & DIVERGE_FLAG_COLLECTIVE))
        return true;
    if (site->phase == DIVERGE_PHASE_SYNC && strcasestr(site->op, "broadcast"))
        return true;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcasestr(site->op, ops[i]))
            return true;
    return false;
}

/* State, data and collectives must be there; ops, logged scalars and evidence may be missing. */
bool site_must_exist(const struct trace_site *site)
{
    switch (site->role) {
    case DIVERGE_ROLE_PARAM:
    case DIVERGE_ROLE_BUFFER:
    case DIVERGE_ROLE_GRAD:
    case DIVERGE_ROLE_OPTSTATE:
    case DIVERGE_ROLE_BATCH:
    case DIVERGE_ROLE_LOSS:
    case DIVERGE_ROLE_COLLECTIVE:
        return true;
    case DIVERGE_ROLE_INPUT:
    case DIVERGE_ROLE_OUTPUT:
        return site_is_collective(site);
    case DIVERGE_ROLE_RNG:
    case DIVERGE_ROLE_SCALAR:
    case DIVERGE_ROLE_ATTR:
        return false;
    }
    return false;
}

/*
 * A process that resumed makes its optimizer state and accumulators anew: these ops come or go in
 * the first step after a resume and mean nothing.
 */
static bool is_benign(const struct view *view, const struct trace_site *site)
{
    static const char *const ops[] = {"zero_", "zeros", "add_", "ccumulate"};
    const struct pairing *pairing = view->pairing;
    if (pairing->resumed < 0 || view->segment != pairing->first_boundary[pairing->resumed] + 1)
        return false;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strstr(site->op, ops[i]))
            return true;
    return false;
}

static enum item_state judge_single(const struct view *view, const struct item *item)
{
    const struct trace_site *site = item_site(view, item);
    if (view->incomplete[item->tier] || (site->flags & DIVERGE_FLAG_VOLATILE) ||
        is_evidence(view, item))
        return ITEM_EXCLUDED;
    if (site_must_exist(site) && view->pairing->same_spec)
        return ITEM_MISSING;
    return is_benign(view, site) ? ITEM_EXCLUDED : ITEM_NOTE;
}

static void judge(struct view *view, struct item *item)
{
    if (!item_has(item, SIDE_A) || !item_has(item, SIDE_B)) {
        view->only[item_has(item, SIDE_A) ? SIDE_A : SIDE_B][item->tier]++;
        item->state = (uint8_t)judge_single(view, item);
        return;
    }
    view->matched[item->tier]++;
    item->state = (uint8_t)compare_pair(view, item);
    item->argument_only = item->state == ITEM_DIFFERS &&
                          item_value(view, item, SIDE_A) == item_value(view, item, SIDE_B) &&
                          type_equal(item_type(view, item, SIDE_A), item_type(view, item, SIDE_B));
    if (is_evidence(view, item) && item->state == ITEM_DIFFERS)
        item->state = ITEM_EVIDENCE;
    if (item->state == ITEM_UNREAD)
        view->unread++;
}

/* ---- the order of evidence ------------------------------------------------------------------- */

static bool is_derived(const struct trace_site *site)
{
    size_t length = strlen(site->name);
    return length > 4 && strcmp(site->name + length - 4, ".set") == 0;
}

static uint32_t category_in_boundary(const struct trace_site *site)
{
    if (site->role == DIVERGE_ROLE_PARAM || site->role == DIVERGE_ROLE_BUFFER)
        return CATEGORY_PARAMETERS;
    return site->role == DIVERGE_ROLE_OPTSTATE ? CATEGORY_OPTSTATE : CATEGORY_OTHER_STATE;
}

static uint32_t category_in_step(const struct trace_site *site)
{
    if (site->role == DIVERGE_ROLE_BATCH || site->phase == DIVERGE_PHASE_DATA)
        return is_derived(site) ? CATEGORY_DATA_DIGEST : CATEGORY_DATA;
    if (site->phase != DIVERGE_PHASE_OPTIMIZER)
        return CATEGORY_OPS;
    return site->role == DIVERGE_ROLE_SCALAR ? CATEGORY_OPTIMIZER_SCALAR : CATEGORY_OPTIMIZER;
}

/* Lanes of both sides by name: a small sorted list without duplicates. */
struct lanes {
    const char **names;
    size_t count, capacity;
};

static uint32_t lane_number(struct engine *engine, struct lanes *lanes, const char *name)
{
    for (size_t i = 0; i < lanes->count; i++)
        if (lanes->names[i] == name || strcmp(lanes->names[i], name) == 0)
            return (uint32_t)i;
    POOL_PUSH(view_arena(engine), lanes->names, lanes->count, lanes->capacity, name);
    return (uint32_t)lanes->count - 1;
}

static int by_item_place(const void *a, const void *b)
{
    const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;
    if (x->category != y->category)
        return x->category < y->category ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    if (x->sub != y->sub)
        return x->sub < y->sub ? -1 : 1;
    return (x->tier > y->tier) - (x->tier < y->tier);
}

struct anchor { /* a matched record, seen from one side */
    uint32_t lane;
    uint32_t order;
    uint64_t position;
};

static int by_anchor(const void *a, const void *b)
{
    const struct anchor *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static struct anchor *make_anchors(struct engine *engine, struct view *view, struct lanes *lanes,
                                   int side, size_t *ret_count)
{
    struct anchor *anchors = POOL_ARRAY(view_arena(engine), struct anchor, view->n_items);
    size_t count = 0;
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        if (!item_has(item, SIDE_A) || !item_has(item, SIDE_B))
            continue;
        uint64_t position =
            (uint64_t)item_order(view, item, SIDE_A) + item_order(view, item, SIDE_B);
        anchors[count++] = (struct anchor){
            .lane = lane_number(engine, lanes, item_site_of(view, item, side)->lane),
            .order = item_order(view, item, side),
            .position = position};
    }
    if (count)
        qsort(anchors, count, sizeof(anchors[0]), by_anchor);
    *ret_count = count;
    return anchors;
}

/* The last anchor of the lane before `order`; NULL: none. */
static const struct anchor *find_anchor(const struct anchor *anchors, size_t count, uint32_t lane,
                                        uint32_t order)
{
    struct anchor wanted = {.lane = lane, .order = order};
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_anchor(&anchors[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && anchors[low - 1].lane == lane ? &anchors[low - 1] : NULL;
}

struct placing {
    struct engine *engine;
    struct view *view;
    struct lanes lanes;
    struct anchor *anchors[SIDES];
    size_t n_anchors[SIDES];
    bool have_anchors;
};

/* A one-sided record stands right after the matched record that precedes it in its own lane. */
static void place_single(struct placing *placing, struct item *item)
{
    struct view *view = placing->view;
    if (!placing->have_anchors)
        for (int side = 0; side < SIDES; side++)
            placing->anchors[side] = make_anchors(placing->engine, view, &placing->lanes, side,
                                                  &placing->n_anchors[side]);
    placing->have_anchors = true;
    int side = item_has(item, SIDE_A) ? SIDE_A : SIDE_B;
    uint32_t order = item_order(view, item, side);
    const struct anchor *anchor =
        find_anchor(placing->anchors[side], placing->n_anchors[side], item->lane, order);
    item->position = anchor ? anchor->position : 0;
    item->sub = anchor ? order - anchor->order : order + 1;
}

static void place(struct placing *placing, struct item *item)
{
    struct view *view = placing->view;
    const struct trace_site *site = item_site(view, item);
    item->category =
        segment_is_boundary(view->segment) ? category_in_boundary(site) : category_in_step(site);
    item->lane = lane_number(placing->engine, &placing->lanes, site->lane);
    if (item_has(item, SIDE_A) && item_has(item, SIDE_B))
        item->position = (uint64_t)item_order(view, item, SIDE_A) + item_order(view, item, SIDE_B);
    else
        place_single(placing, item);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lane numbers were given as met; now they follow the names. */
static void renumber_lanes(struct placing *placing)
{
    struct lanes *lanes = &placing->lanes;
    struct view *view = placing->view;
    if (lanes->count < 2)
        return;
    const char **sorted = POOL_ARRAY(view_arena(placing->engine), const char *, lanes->count);
    memcpy(sorted, lanes->names, lanes->count * sizeof(sorted[0]));
    qsort(sorted, lanes->count, sizeof(sorted[0]), by_name);
    uint32_t *rank = POOL_ARRAY(view_arena(placing->engine), uint32_t, lanes->count);
    for (size_t i = 0; i < lanes->count; i++) {
        const char **at =
            bsearch(&lanes->names[i], sorted, lanes->count, sizeof(sorted[0]), by_name);
        rank[i] = (uint32_t)(at - sorted);
    }
    for (size_t i = 0; i < view->n_items; i++)
        view->items[i].lane = rank[view->items[i].lane];
}

static struct item **select_items(struct engine *engine, struct view *view, unsigned states,
                                  size_t *ret_count)
{
    struct item **list = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < view->n_items; i++)
        if (states & (1u << view->items[i].state))
            POOL_PUSH(view_arena(engine), list, count, capacity, &view->items[i]);
    *ret_count = count;
    return list;
}

static void order_items(struct engine *engine, struct view *view)
{
    view->differences =
        select_items(engine, view, 1u << ITEM_DIFFERS | 1u << ITEM_MISSING, &view->n_differences);
    view->evidence = select_items(engine, view, 1u << ITEM_EVIDENCE, &view->n_evidence);
    view->notes = select_items(engine, view, 1u << ITEM_NOTE, &view->n_notes);
    struct placing placing = {.engine = engine, .view = view};
    struct item **lists[] = {view->differences, view->evidence, view->notes};
    size_t counts[] = {view->n_differences, view->n_evidence, view->n_notes};
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < counts[l]; i++)
            place(&placing, lists[l][i]);
    renumber_lanes(&placing);
    for (size_t l = 0; l < 2; l++)
        if (counts[l])
            qsort(lists[l], counts[l], sizeof(struct item *), by_item_place);
}

/* ---- loading -------------------------------------------------------------------------------- */

static size_t count_items(const struct view *view)
{
    size_t count = 0;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        if (view->both[tier])
            count += (size_t)view->chunk[SIDE_A][tier]->count + view->chunk[SIDE_B][tier]->count;
    return count;
}

static size_t add_items(struct view *view, int tier, const struct alignment *alignment, size_t from)
{
    uint32_t n_a = view->chunk[SIDE_A][tier]->count, n_b = view->chunk[SIDE_B][tier]->count;
    size_t n = from;
    for (uint32_t i = 0; i < n_a; i++)
        view->items[n++] =
            (struct item){.tier = (uint8_t)tier, .index = {i, align_other(alignment, SIDE_A, i)}};
    for (uint32_t j = 0; j < n_b; j++)
        if (align_other(alignment, SIDE_B, j) == NO_INDEX)
            view->items[n++] = (struct item){.tier = (uint8_t)tier, .index = {NO_INDEX, j}};
    return n;
}

static bool tier_differs(const struct view *view, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (view->items[i].state == ITEM_DIFFERS || view->items[i].state == ITEM_MISSING)
            return true;
    return false;
}

static void forget_counts(struct view *view, int tier)
{
    view->matched[tier] = 0;
    view->only[SIDE_A][tier] = 0;
    view->only[SIDE_B][tier] = 0;
}

static void compare_tier(struct engine *engine, struct view *view, enum diverge_tier tier)
{
    size_t from = view->n_items;
    bool again = false;
    for (;;) {
        uint64_t unread = view->unread;
        const struct alignment *alignment =
            align_chunks(engine, tier, view->chunk[SIDE_A][tier], view->chunk[SIDE_B][tier], again);
        view->n_items = add_items(view, (int)tier, alignment, from);
        for (size_t i = from; i < view->n_items; i++)
            judge(view, &view->items[i]);
        /*
         * A kept alignment knows nothing of these values: before it may claim a difference, ask
         * again.
         */
        if (again || alignment->fresh || !tier_differs(view, from, view->n_items))
            return;
        again = true;
        view->unread = unread;
        forget_counts(view, (int)tier);
    }
}

static void load_tier(struct engine *engine, struct view *view, enum diverge_tier tier)
{
    const struct pairing *pairing = view->pairing;
    struct trace_head head[SIDES];
    bool pruned = false;
    if (!pairing->tier[tier])
        return;
    for (int side = 0; side < SIDES; side++)
        if (!side_head(engine, side, pairing->stream[side], tier, view->segment, &head[side]))
            return;
    for (int side = 0; side < SIDES; side++) {
        const struct trace_chunk *chunk =
            side_load(engine, side, pairing->stream[side], tier, view->segment);
        if (!head[side].sealed || head[side].gap)
            view->incomplete[tier] = true;
        pruned = pruned || !chunk || chunk->pruned;
        view->chunk[side][tier] = chunk && !chunk->pruned ? chunk : NULL;
    }
    view->both[tier] = !pruned;
    if (!pruned || tier == DIVERGE_TIER_EVIDENCE || view->pruned)
        return;
    bool known = head[SIDE_A].sealed && head[SIDE_B].sealed &&
                 !digest_is_none(&head[SIDE_A].digest) && !digest_is_none(&head[SIDE_B].digest);
    view->pruned = known && !digest_equal(&head[SIDE_A].digest, &head[SIDE_B].digest);
    view->pruned_tier = tier;
}

struct view *view_load(struct engine *engine, const struct pairing *pairing, uint64_t segment)
{
    if (engine->n_views == ENGINE_MAX_VIEWS)
        engine_fail(engine, DIVERGE_EINTERNAL);
    pool_init(&engine->view_arenas[engine->n_views++], engine->scratch.on_failure, engine);
    struct view *view = POOL_NEW(view_arena(engine), struct view);
    view->segment = segment;
    view->pairing = pairing;
    view->mark = engine_mark(engine);
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        load_tier(engine, view, (enum diverge_tier)tier);
    view->items = POOL_ARRAY(view_arena(engine), struct item, count_items(view));
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        if (view->both[tier])
            compare_tier(engine, view, (enum diverge_tier)tier);
    order_items(engine, view);
    return view;
}

void view_release(struct engine *engine, struct view *view)
{
    engine_release(engine, view->mark);
    pool_fini(&engine->view_arenas[--engine->n_views]);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || strcmp(a, b) == 0;
}

static bool same_call(const struct trace_site *a, const struct trace_site *b)
{
    return a->occurrence == b->occurrence && a->phase == b->phase &&
           a->micro_step == b->micro_step && same_text(a->op, b->op) &&
           same_text(a->scope, b->scope) && same_text(a->lane, b->lane) &&
           same_text(a->region, b->region);
}

/*
 * A call's records stand close together in their tier, with at most some nested calls between
 * them; a record of another tier may belong to a call anywhere.
 */
enum { CALL_REACH = 1024 };

size_t view_call(const struct view *view, const struct item *item, enum diverge_role role,
                 const struct item **ret, size_t capacity)
{
    int side = item_has(item, SIDE_A) ? SIDE_A : SIDE_B;
    const struct trace_site *call = item_site_of(view, item, side);
    size_t at = (size_t)(item - view->items), count = 0;
    bool near = item->tier == DIVERGE_TIER_OP || call->op[0] == '\0';
    size_t first = near && at > CALL_REACH ? at - CALL_REACH : 0;
    size_t end = near && view->n_items - at > CALL_REACH ? at + CALL_REACH : view->n_items;
    for (size_t i = first; i < end && count < capacity; i++) {
        const struct item *other = &view->items[i];
        if (!item_has(other, side))
            continue;
        const struct trace_site *site = item_site_of(view, other, side);
        if (site->role == role && same_call(call, site))
            ret[count++] = other;
    }
    return count;
}

const struct item *view_producer(const struct view *view, const struct item *input, int side)
{
    if (!item_has(input, side))
        return NULL;
    uint32_t producer = chunk_producer(view->chunk[side][input->tier], input->index[side]);
    const char *lane = item_site_of(view, input, side)->lane;
    if (producer == 0)
        return NULL;
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        if (item != input && item_has(item, side) && item_order(view, item, side) == producer - 1 &&
            same_text(item_site_of(view, item, side)->lane, lane))
            return item;
    }
    return NULL;
}
