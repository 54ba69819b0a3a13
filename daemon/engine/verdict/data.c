/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch is the first thing that differs: which batch, and how. Names are those of
 * diverge/names.h.
 */
#include <string.h>

#include <diverge/fingerprint.h>
#include <diverge/names.h>

#include "client/wire/message.h"
#include "daemon/engine/verdict/verdict.h"

enum { LOOK_AHEAD = 256, LOOK_BACK = 4096 };

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool is_set(const char *name)
{
    return ends_with(name, ".set");
}

/* "tokens" of "tokens", "tokens.rows" and "tokens.rows.set". */
static size_t base_length(const char *name)
{
    if (ends_with(name, DIVERGE_SUFFIX_ROWS_SET))
        return strlen(name) - strlen(DIVERGE_SUFFIX_ROWS_SET);
    if (ends_with(name, DIVERGE_SUFFIX_ROWS))
        return strlen(name) - strlen(DIVERGE_SUFFIX_ROWS);
    return strlen(name);
}

static bool same_base(const char *a, const char *b)
{
    size_t length = base_length(a);
    return length == base_length(b) && memcmp(a, b, length) == 0;
}

/* A field itself: neither ids nor something derived from a field. */
static bool is_field(const char *name)
{
    return base_length(name) == strlen(name) && !is_set(name) &&
           strcmp(name, DIVERGE_NAME_IDS) != 0;
}

static const struct item *find_batch(const struct evidence *evidence, const char *name)
{
    const struct view *view = evidence->view;
    for (size_t i = 0; i < view->n_items; i++) {
        const struct trace_site *site = item_site(view, &view->items[i]);
        if (site->role == DIVERGE_ROLE_BATCH && strcmp(site->name, name) == 0 &&
            site->micro_step == evidence->site->micro_step)
            return &view->items[i];
    }
    return NULL;
}

static enum known batch_differs(const struct evidence *evidence, const char *name)
{
    const struct item *item = find_batch(evidence, name);
    if (!item || !evidence_is_pair(item) || item->state == ITEM_UNREAD)
        return UNKNOWN;
    return item->state == ITEM_DIFFERS ? YES : NO;
}

/* ---- replay --------------------------------------------------------------------------------- */

/* How many tensors of the batch at `segment` are those of `chunk`; -1 when one is not. */
static int same_batch(const struct view *view, int side, const struct trace_chunk *chunk)
{
    const struct trace_chunk *now = view->chunk[side][DIVERGE_TIER_PULSE];
    int same = 0;
    for (uint32_t i = 0; now && i < now->count; i++) {
        const struct trace_site *site = now->layout->sites[i];
        if (site->role != DIVERGE_ROLE_BATCH || is_set(site->name) ||
            chunk_type(now, i)->kind != DIVERGE_KIND_TENSOR)
            continue;
        bool found = false;
        for (uint32_t j = 0; j < chunk->count && !found; j++) {
            const struct trace_site *other = chunk->layout->sites[j];
            found = other->role == DIVERGE_ROLE_BATCH && other->slot == site->slot &&
                    other->micro_step == site->micro_step && strcmp(other->name, site->name) == 0 &&
                    type_equal(chunk_type(now, i), chunk_type(chunk, j)) &&
                    chunk_value(now, i) == chunk_value(chunk, j) &&
                    !((chunk_state(now, i) | chunk_state(chunk, j)) & 0x80);
        }
        if (!found)
            return -1;
        same++;
    }
    return same;
}

/* The latest earlier step of the side whose batch is this one; NO_SEGMENT: none. */
static uint64_t earlier_batch(const struct evidence *evidence, int side)
{
    struct engine *engine = evidence->engine;
    const struct trace_stream *stream = evidence->pairing->stream[side];
    uint64_t at = evidence->view->segment;
    for (int n = 0; n < LOOK_BACK && at > 0; n++) {
        struct trace_head head;
        if (!side_head_at(engine, side, stream, DIVERGE_TIER_PULSE, at - 1, &head))
            return NO_SEGMENT;
        at = head.segment;
        if (!segment_is_step(at))
            continue;
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk = side_load(engine, side, stream, DIVERGE_TIER_PULSE, at);
        int same = chunk && !chunk->pruned ? same_batch(evidence->view, side, chunk) : 0;
        engine_release(engine, mark);
        if (same > 0)
            return at;
    }
    return NO_SEGMENT;
}

static bool is_replay(const struct evidence *evidence, struct ruling *ret)
{
    uint64_t earlier[SIDES];
    for (int side = 0; side < SIDES; side++)
        earlier[side] = earlier_batch(evidence, side);
    if ((earlier[SIDE_A] == NO_SEGMENT) == (earlier[SIDE_B] == NO_SEGMENT))
        return false;
    int side = earlier[SIDE_A] == NO_SEGMENT ? SIDE_B : SIDE_A;
    ruling_set(ret, "data", "replay", ENGINE_CERTAIN,
               "A batch comes a second time in one of the runs, and a new one in the other.");
    ruling_evidence(evidence, ret, "%c's batch at %s is its own batch of %s, every tensor of it",
                    side == SIDE_A ? 'A' : 'B', evidence_place(evidence),
                    segment_text(evidence->engine->keep, earlier[side]));
    ruling_next(evidence, ret,
                "does the sampler get the epoch (set_epoch), or a new seed each epoch?");
    return true;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Sums over a window of steps: equal sums of order-free digests mean the same samples. */
struct window {
    uint64_t rows[SIDES], ids[SIDES], batches[SIDES];
    bool has_rows, has_ids;
    enum known epoch_differs;
    uint64_t epoch[SIDES];
    bool has_epoch[SIDES];
};

static void add_batch(struct window *window, int side, const struct trace_chunk *chunk,
                      const char *field)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        const struct trace_site *site = chunk->layout->sites[i];
        if (site->role != DIVERGE_ROLE_BATCH)
            continue;
        uint64_t value = chunk_value(chunk, i);
        if (strcmp(site->name, DIVERGE_NAME_EPOCH_SET) == 0) {
            window->has_epoch[side] = true;
            window->epoch[side] = value;
        } else if (strcmp(site->name, DIVERGE_NAME_IDS_SET) == 0) {
            window->has_ids = true;
            window->ids[side] += value;
        } else if (ends_with(site->name, DIVERGE_SUFFIX_ROWS_SET) && same_base(site->name, field)) {
            window->has_rows = true;
            window->rows[side] += value;
        } else if (strcmp(site->name, field) == 0) {
            window->batches[side] += diverge_mix64(value);
        }
    }
}

static bool window_is_equal(const struct window *window)
{
    return (window->has_rows && window->rows[SIDE_A] == window->rows[SIDE_B]) ||
           (window->has_ids && window->ids[SIDE_A] == window->ids[SIDE_B] && !window->has_rows) ||
           window->batches[SIDE_A] == window->batches[SIDE_B];
}

static bool add_step(const struct evidence *evidence, struct window *window, uint64_t segment,
                     const char *field)
{
    struct engine *engine = evidence->engine;
    bool complete = true;
    for (int side = 0; side < SIDES; side++) {
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk =
            side_load(engine, side, evidence->pairing->stream[side], DIVERGE_TIER_PULSE, segment);
        if (chunk && !chunk->pruned)
            add_batch(window, side, chunk, field);
        else
            complete = false;
        engine_release(engine, mark);
    }
    return complete;
}

/*
 * From this step on: when do both runs have seen the same samples? True also when the whole
 * epoch's order-free digest, recorded at this step or at the epoch's end, is equal.
 */
static bool same_samples_later(const struct evidence *evidence, struct ruling *ret)
{
    struct window window = {0};
    char field[256] = "";
    size_t length = base_length(evidence->site->name);
    if (length < sizeof(field))
        memcpy(field, evidence->site->name, length);
    uint64_t segment = evidence->view->segment;
    for (int n = 0; n < LOOK_AHEAD && segment <= evidence->pairing->high; n++, segment += 2) {
        if (!add_step(evidence, &window, segment, field))
            return false;
        if (window.has_epoch[SIDE_A] && window.has_epoch[SIDE_B]) {
            if (window.epoch[SIDE_A] == window.epoch[SIDE_B])
                ruling_evidence(
                    evidence, ret,
                    "the order-free digest of the epoch's samples, recorded at %s, is equal",
                    segment_text(evidence->engine->keep, segment));
            return window.epoch[SIDE_A] == window.epoch[SIDE_B];
        }
        if (window_is_equal(&window)) {
            ruling_evidence(evidence, ret,
                            "through %s both runs saw the same samples, by their "
                            "order-free digests",
                            segment_text(evidence->engine->keep, segment));
            return true;
        }
    }
    return false;
}

/* The order-free digest of a field's rows that is equal while the field differs; NULL: none. */
static const char *permuted_rows(const struct evidence *evidence)
{
    const struct view *view = evidence->view;
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct trace_site *field = item_site(view, view->differences[i]);
        if (field->role != DIVERGE_ROLE_BATCH || !is_field(field->name))
            continue;
        const char *set =
            pool_format(evidence->engine->keep, "%s" DIVERGE_SUFFIX_ROWS_SET, field->name);
        if (batch_differs(evidence, set) == NO)
            return set;
    }
    return NULL;
}

static bool is_order(const struct evidence *evidence, struct ruling *ret)
{
    const char *rows_same = permuted_rows(evidence);
    bool ids_same = batch_differs(evidence, DIVERGE_NAME_IDS) == YES &&
                    batch_differs(evidence, DIVERGE_NAME_IDS_SET) == NO;
    if (rows_same)
        ruling_evidence(evidence, ret, "the same rows in another order: %s is equal", rows_same);
    if (ids_same)
        ruling_evidence(evidence, ret, "the same sample ids in another order");
    if (!rows_same && !ids_same && !same_samples_later(evidence, ret))
        return false;
    ruling_set(ret, "data", "order", ENGINE_CERTAIN, "The same samples come in another order.");
    if (batch_differs(evidence, DIVERGE_NAME_IDS) == NO)
        ruling_evidence(evidence, ret,
                        "the sample ids are equal: the files behind them are listed "
                        "in another order");
    ruling_next(evidence, ret, "sort the file list; seed the shuffle; fix the number of workers");
    return true;
}

/* All elements equal, as labels of one class: any order of them is the same. */
static bool is_constant(const struct view *view, const struct item *item)
{
    const struct trace_chunk *chunk = view->chunk[SIDE_A][item->tier];
    uint32_t index = item->index[SIDE_A];
    return (chunk_state(chunk, index) & DVG_STATE_RANGE) && chunk->min && chunk->max &&
           chunk->min[index] == chunk->max[index];
}

/* One field is permuted against the others: rows no longer belong together. */
static bool is_pairing(const struct evidence *evidence, struct ruling *ret)
{
    const struct view *view = evidence->view;
    bool another_equal = false, permuted = false;
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        const struct trace_site *site = item_site(view, item);
        if (site->role != DIVERGE_ROLE_BATCH || !evidence_is_pair(item))
            continue;
        if (item->state == ITEM_EQUAL && is_field(site->name) && !is_constant(view, item) &&
            !same_base(site->name, evidence->site->name))
            another_equal = true;
        if (item->state == ITEM_EQUAL && ends_with(site->name, DIVERGE_SUFFIX_ROWS_SET) &&
            same_base(site->name, evidence->site->name))
            permuted = true;
    }
    if (!another_equal || !permuted || strcmp(evidence->site->name, DIVERGE_NAME_IDS) == 0)
        return false;
    ruling_set(ret, "data", "pairing", ENGINE_CERTAIN,
               "One field of the batch has its rows in another order than the other fields.");
    ruling_evidence(evidence, ret, "%s has the same rows in another order; other fields are equal",
                    evidence_what(evidence, evidence->first));
    ruling_next(evidence, ret, "shuffle all fields with one permutation");
    return true;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static bool is_data(const struct evidence *evidence)
{
    return evidence->first && segment_is_step(evidence->view->segment) &&
           (evidence->site->role == DIVERGE_ROLE_BATCH ||
            (evidence->site->phase == DIVERGE_PHASE_DATA && evidence->site->op[0] == '\0')) &&
           evidence_is_pair(evidence->first);
}

static bool other_shape(const struct evidence *evidence)
{
    return !type_same_shape(item_type(evidence->view, evidence->first, SIDE_A),
                            item_type(evidence->view, evidence->first, SIDE_B));
}

static void describe_other(const struct evidence *evidence, struct ruling *ret)
{
    enum known ids = batch_differs(evidence, DIVERGE_NAME_IDS);
    if (other_shape(evidence)) {
        ruling_set(ret, "data", ids == NO ? "padding" : "shape", ENGINE_CERTAIN,
                   "The batch has another shape.");
        if (ids == NO)
            ruling_evidence(evidence, ret,
                            "the sample ids are equal: the same samples, padded "
                            "or cut in another way");
    } else if (ids == NO) {
        ruling_set(ret, "data", "content", ENGINE_CERTAIN,
                   "The same sample ids, but other bytes in the batch.");
        ruling_evidence(evidence, ret, "the sample ids of the batch are equal");
        ruling_next(evidence, ret,
                    "compare the files; is an augmentation drawn from an unseeded generator?");
    } else {
        ruling_set(ret, "data", NULL, ENGINE_CERTAIN, "The batch differs.");
        if (ids == UNKNOWN)
            ruling_next(evidence, ret,
                        "record sample ids to tell another order from other content");
    }
}

bool rule_data(const struct evidence *evidence, struct ruling *ret)
{
    if (!is_data(evidence))
        return false;
    if (other_shape(evidence) ||
        (!is_replay(evidence, ret) && !is_pairing(evidence, ret) && !is_order(evidence, ret)))
        describe_other(evidence, ret);
    ruling_evidence(evidence, ret, "%s differs in the batch of %s; everything before agrees",
                    evidence_what(evidence, evidence->first), evidence_place(evidence));
    return true;
}

bool rule_resume_data(const struct evidence *evidence, struct ruling *ret)
{
    const struct pairing *pairing = evidence->pairing;
    if (!is_data(evidence) || pairing->resumed < 0 ||
        evidence->view->segment != pairing->first_boundary[pairing->resumed] + 1)
        return false;
    ruling_set(ret, "resume", "data-position", ENGINE_CERTAIN,
               "The run that resumed does not go on with the data where the checkpoint left off.");
    ruling_evidence(evidence, ret,
                    "%s differs in the first step after the resume; the state at "
                    "boundary %llu agrees",
                    evidence_what(evidence, evidence->first),
                    (unsigned long long)segment_number(evidence->view->segment));
    ruling_next(evidence, ret, "save and restore the sampler's position and epoch");
    return true;
}
