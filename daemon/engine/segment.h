/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment of one rank, both sides side by side: every record with its counterpart, whether
 * they differ, and the differences in the order of evidence: data first, then lanes by name and
 * each in its order, then the optimizer's scalars, then its ops; in a boundary parameters and
 * buffers, then the optimizer's state, then the rest.
 */
#ifndef DAEMON_ENGINE_SEGMENT_H
#define DAEMON_ENGINE_SEGMENT_H

#include "daemon/engine/align.h"
#include "daemon/engine/context.h"

enum item_state {
    ITEM_EQUAL,
    ITEM_DIFFERS,
    ITEM_UNREAD,   /* at least one side could not be read: equals nothing, differs from nothing */
    ITEM_EXCLUDED, /* uninitialised or volatile: there is nothing to compare */
    ITEM_EVIDENCE, /* an evidence record that differs */
    ITEM_MISSING,  /* on one side only, and that is a difference */
    ITEM_NOTE,     /* on one side only, and that is a note */
};

/* In a step, and in a boundary: what counts first when it differs. */
enum category {
    CATEGORY_DATA,
    CATEGORY_DATA_DIGEST, /* order-free digests follow from the fields */
    CATEGORY_OPS,
    CATEGORY_OPTIMIZER_SCALAR,
    CATEGORY_OPTIMIZER,
    CATEGORY_PARAMETERS,
    CATEGORY_OPTSTATE,
    CATEGORY_OTHER_STATE,
};

struct item {
    uint8_t tier;
    uint8_t state;         /* enum item_state */
    bool argument_only;    /* equal but for the call's arguments */
    uint32_t index[SIDES]; /* in the tier's chunk, or NO_INDEX */
    /* Place, set for what differs and for notes. */
    uint32_t category;
    uint32_t lane;
    uint64_t position;
    uint32_t sub;
};

struct view {
    uint64_t segment;
    const struct pairing *pairing;
    const struct trace_chunk *chunk[SIDES][DIVERGE_TIER_COUNT]; /* NULL: none or pruned */
    bool both[DIVERGE_TIER_COUNT];
    bool pruned; /* a tier that both sides have, with other digests, lost its records */
    enum diverge_tier pruned_tier;
    bool incomplete[DIVERGE_TIER_COUNT]; /* records are missing: one-sided ones prove nothing */
    struct item *items;                  /* by tier, in the order of A, then what only B has */
    size_t n_items;
    struct item **differences; /* in the order of evidence */
    size_t n_differences;
    struct item **evidence; /* evidence that differs, in the same order */
    size_t n_evidence;
    struct item **notes; /* one-sided records that are no difference, in their own order */
    size_t n_notes;
    uint64_t matched[DIVERGE_TIER_COUNT]; /* records with a counterpart */
    uint64_t only[SIDES][DIVERGE_TIER_COUNT];
    uint64_t unread;
    size_t mark;
};

/*
 * Loads and compares. Memory and chunks are held until view_release; views are released last
 * first.
 */
struct view *view_load(struct engine *engine, const struct pairing *pairing, uint64_t segment);
void view_release(struct engine *engine, struct view *view);

/* The site on A's side, else on B's. */
const struct trace_site *item_site(const struct view *view, const struct item *item);
const struct trace_site *item_site_of(const struct view *view, const struct item *item, int side);
bool item_has(const struct item *item, int side);

/* A record of such a site that only one side has is a difference, not a note. */
bool site_must_exist(const struct trace_site *site);

/* Columns; a column that is missing reads as zero. */
static inline uint64_t chunk_value(const struct trace_chunk *chunk, uint32_t i)
{
    return chunk->value ? chunk->value[i] : 0;
}

static inline uint64_t chunk_argument(const struct trace_chunk *chunk, uint32_t i)
{
    return chunk->argument ? chunk->argument[i] : 0;
}

static inline uint8_t chunk_state(const struct trace_chunk *chunk, uint32_t i)
{
    return chunk->state ? chunk->state[i] : 0;
}

static inline uint32_t chunk_order(const struct trace_chunk *chunk, uint32_t i)
{
    return chunk->order ? chunk->order[i] : i;
}

static inline uint32_t chunk_producer(const struct trace_chunk *chunk, uint32_t i)
{
    return chunk->producer ? chunk->producer[i] : 0;
}

static inline const struct trace_type *chunk_type(const struct trace_chunk *chunk, uint32_t i)
{
    return chunk->types[chunk->type[i]];
}

static inline uint64_t item_value(const struct view *view, const struct item *item, int side)
{
    return chunk_value(view->chunk[side][item->tier], item->index[side]);
}

static inline const struct trace_type *item_type(const struct view *view, const struct item *item,
                                                 int side)
{
    return chunk_type(view->chunk[side][item->tier], item->index[side]);
}

static inline uint8_t item_state_bits(const struct view *view, const struct item *item, int side)
{
    return chunk_state(view->chunk[side][item->tier], item->index[side]);
}

static inline uint64_t item_argument(const struct view *view, const struct item *item, int side)
{
    return chunk_argument(view->chunk[side][item->tier], item->index[side]);
}

static inline uint32_t item_order(const struct view *view, const struct item *item, int side)
{
    return chunk_order(view->chunk[side][item->tier], item->index[side]);
}

/* By role, flag, or name: work of several ranks. */
bool site_is_collective(const struct trace_site *site);
bool type_same_shape(const struct trace_type *a, const struct trace_type *b);
bool type_equal(const struct trace_type *a, const struct trace_type *b);
/* Elements, or 0 when it overflows. */
uint64_t type_numel(const struct trace_type *type);

/* The records of `item`'s call that have `role`; at most `capacity`, returns how many. */
size_t view_call(const struct view *view, const struct item *item, enum diverge_role role,
                 const struct item **ret, size_t capacity);
/* The record of `side` that made this input, NULL when unknown. */
const struct item *view_producer(const struct view *view, const struct item *input, int side);

#endif
