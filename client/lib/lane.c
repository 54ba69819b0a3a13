/* SPDX-License-Identifier: Apache-2.0 */
/* A lane's context, ops, and the one path by which records enter its ring. */
#include "client/lib/lane.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/session.h"
#include "client/lib/value.h"

/* ---- references ------------------------------------------------------------------------------ */

/* epoch (20 bits), lane (12 bits), 1 + order (32 bits). */
enum { REF_LANE_SHIFT = 32, REF_EPOCH_SHIFT = 44, REF_EPOCH_MASK = 0xfffff };
_Static_assert(DVG_LANES_MAX <= 1 << (REF_EPOCH_SHIFT - REF_LANE_SHIFT), "lane bits of a ref");

/* What a reference to this lane's records of this segment begins with. */
static uint64_t ref_base(const struct diverge_lane *lane)
{
    return (uint64_t)(lane->sites.epoch & REF_EPOCH_MASK) << REF_EPOCH_SHIFT |
           (uint64_t)lane->index << REF_LANE_SHIFT;
}

/* 1 + order of a producer in this lane and segment, 0 for any other. */
static uint32_t producer_of(const struct diverge_lane *lane, diverge_ref_t ref)
{
    return (ref ^ ref_base(lane)) >> REF_LANE_SHIFT ? 0 : (uint32_t)ref;
}

/* ---- types ----------------------------------------------------------------------------------- */

static inline bool same_sizes(const uint8_t *known, const int64_t *given, int ndim)
{
    uint64_t differ = 0;
    for (int i = 0; i < ndim; i++)
        differ |= dvg_load_u64(known + 8 * i) ^ (uint64_t)given[i];
    return !differ;
}

static bool same_sharding(const struct dvg_type *type, const struct diverge_sharding *sharding)
{
    return sharding
               ? type->placement == (uint8_t)sharding->placement &&
                     type->group == sharding->group && sharding->ndim == type->global_ndim &&
                     same_sizes(type->global_sizes, sharding->global_sizes, sharding->ndim)
               : type->placement == DIVERGE_PLACEMENT_WHOLE && !type->global_ndim && !type->group;
}

/* Whether the record is of the same type as the last one at its site. */
static inline bool type_matches(const struct dvg_type_entry *entry, const struct dvg_draft *draft)
{
    if (!entry || entry->type.kind != (uint8_t)draft->kind)
        return false;
    if (draft->kind != DIVERGE_KIND_TENSOR)
        return true;
    const struct dvg_type *type = &entry->type;
    const struct diverge_view *view = &draft->tensor->view;
    if (type->dtype != (uint8_t)view->dtype || type->ndim != view->ndim ||
        type->n_extents != view->n_extents || !same_sizes(type->sizes, view->sizes, view->ndim))
        return false;
    if (view->strides ? !same_sizes(type->strides, view->strides, view->ndim) : type->has_strides)
        return false;
    if (view->n_extents &&
        memcmp(type->extents, view->extents, view->n_extents * sizeof(struct diverge_extent)) != 0)
        return false;
    return same_sharding(type, draft->tensor->sharding);
}

/* Whether the strides are those of C order, which is what no strides mean. */
static bool is_c_order(const struct diverge_view *view)
{
    uint64_t stride = 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        if ((uint64_t)view->strides[i] != stride)
            return false;
        stride *= (uint64_t)view->sizes[i];
    }
    return true;
}

static int tensor_type(const struct diverge_tensor *tensor, struct dvg_type *ret)
{
    const struct diverge_view *view = &tensor->view;
    const struct diverge_sharding *sharding = tensor->sharding;
    if (view->ndim < 0 || view->ndim > DIVERGE_MAX_NDIM || (view->ndim && !view->sizes) ||
        (unsigned)view->dtype >= DIVERGE_DTYPE_COUNT || view->n_extents > DVG_DEFINE_EXTENTS_MAX ||
        (view->n_extents && !view->extents))
        return DIVERGE_EINVAL;
    if (sharding && (sharding->ndim < 0 || sharding->ndim > DIVERGE_MAX_NDIM ||
                     (sharding->ndim && !sharding->global_sizes) ||
                     (unsigned)sharding->placement > DIVERGE_PLACEMENT_PARTIAL))
        return DIVERGE_EINVAL;
    *ret = (struct dvg_type){
        .kind = DIVERGE_KIND_TENSOR,
        .dtype = (uint8_t)view->dtype,
        .ndim = (uint8_t)view->ndim,
        .has_strides = view->strides && !is_c_order(view),
        .sizes = (const uint8_t *)view->sizes,
        .strides = (const uint8_t *)view->strides,
        .n_extents = (uint32_t)view->n_extents,
        .extents = (const uint8_t *)view->extents,
    };
    if (sharding) {
        if (sharding->group == DVG_STRING_LOST)
            return DIVERGE_ENOMEM;
        ret->placement = (uint8_t)sharding->placement;
        ret->group = sharding->group;
        ret->global_ndim = (uint8_t)sharding->ndim;
        ret->global_sizes = (const uint8_t *)sharding->global_sizes;
    }
    return 0;
}

static int type_find(struct diverge_session *session, const struct dvg_draft *draft,
                     const struct dvg_type_entry **ret)
{
    struct dvg_type type = {.kind = (uint8_t)draft->kind};
    int rc = draft->tensor ? tensor_type(draft->tensor, &type) : 0;
    return rc ? rc : dvg_define_type(&session->define, &type, ret);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* More of the segment's records, as far as the daemon takes them; false: no more. */
static bool more_quota(struct diverge_lane *lane)
{
    struct diverge_session *session = lane->session;
    uint64_t max = atomic_load_explicit(&session->max_records, memory_order_relaxed);
    uint64_t given = atomic_load_explicit(&session->quota_given, memory_order_relaxed);
    uint64_t more;
    do {
        more = given < max ? max - given : 0;
        more = more < DVG_QUOTA ? more : DVG_QUOTA;
    } while (!atomic_compare_exchange_weak_explicit(&session->quota_given, &given, given + more,
                                                    memory_order_relaxed, memory_order_relaxed));
    lane->quota += (uint32_t)more;
    return more != 0;
}

/* Waits for room, at most what is left of the segment's bound. NULL: drop. */
static struct dvg_entry *wait_for_room(struct diverge_lane *lane, size_t size)
{
    struct diverge_session *session = lane->session;
    while (dvg_session_is_open(session)) {
        int64_t left = atomic_load_explicit(&session->wait_left_ns, memory_order_relaxed);
        if (left <= 0)
            return NULL;
        uint64_t start = dvg_now_ns();
        dvg_session_kick(session);
        dvg_ring_wait(&lane->ring, size, left);
        uint64_t waited = dvg_now_ns() - start;
        atomic_fetch_sub_explicit(&session->wait_left_ns, (int64_t)waited, memory_order_relaxed);
        atomic_fetch_add_explicit(&session->waited_ns, waited, memory_order_relaxed);
        struct dvg_entry *entry = dvg_ring_reserve(&lane->ring, size);
        if (entry)
            return entry;
    }
    return NULL;
}

/* A place for the record in the ring, or NULL: it is dropped. */
static struct dvg_entry *find_room(struct diverge_lane *lane, const struct dvg_call *call,
                                   size_t size)
{
    if (call->dropping || (lane->order == lane->quota && !more_quota(lane)))
        return NULL;
    struct dvg_entry *entry = dvg_ring_reserve(&lane->ring, size);
    return entry ? entry : wait_for_room(lane, size);
}

/* ---- records --------------------------------------------------------------------------------- */

static void count_up(_Atomic uint64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
}

/* A call is taken whole or not: half of one would look like another op. */
static int drop(struct diverge_lane *lane, struct dvg_call *call, uint8_t tier, int status)
{
    if (status == DIVERGE_EINVAL)
        return status;
    if (status == DIVERGE_ELIMIT)
        dvg_warn(lane->session, DVG_WARN_LIMIT,
                 "more different records than a run can have (names that change every step?); new "
                 "ones are dropped");
    call->dropping = call != &lane->calls[0];
    lane->dropped[tier]++;
    count_up(&lane->dropped_ever);
    return status;
}

/* An input: who made it, and its value when that is taken over. Measures what must be measured. */
static int input_value(struct diverge_lane *lane, const struct dvg_draft *draft,
                       const struct dvg_identity *identity, uint32_t *ret_producer,
                       struct diverge_fingerprint *scratch,
                       const struct diverge_fingerprint **ret_fingerprint)
{
    struct dvg_value known;
    diverge_ref_t ref;
    bool found = dvg_producers_find(&lane->session->producers, identity, &ref, &known);
    if (found && !draft->what->producer)
        *ret_producer = producer_of(lane, ref);
    if (!draft->measure)
        return 0;
    if (found) {
        *draft->value = known;
        draft->value->state |= DVG_STATE_INHERITED;
        *ret_fingerprint = NULL;
        return 0;
    }
    *ret_fingerprint = scratch;
    return diverge_fingerprint(&draft->tensor->view, lane->session->compute[draft->tier], scratch);
}

/* Bytes after which the sender is told: often enough to keep room, seldom enough to cost nothing.
 */
static uint64_t wake_distance(const struct diverge_lane *lane)
{
    const uint64_t most = 256 * 1024;
    return lane->ring.bytes / 4 < most ? lane->ring.bytes / 4 : most;
}

/* Lets the sender have the entry. */
static void publish(struct diverge_lane *lane)
{
    dvg_ring_publish(&lane->ring);
    lane->order++;
    count_up(&lane->recorded);
    if (lane->ring.next >= lane->ring.wake_at) {
        lane->ring.wake_at = lane->ring.next + wake_distance(lane);
        dvg_session_kick(lane->session);
    } else {
        dvg_session_nudge(lane->session);
    }
}

/* The record's site and type, from its call. */
static int resolve(struct diverge_lane *lane, const struct dvg_call *call,
                   const struct dvg_draft *draft, uint32_t flags, uint32_t *ret_site,
                   const struct dvg_type_entry **ret_type)
{
    const struct diverge_observation *what = draft->what;
    struct dvg_key key = call->key;
    key.kind |= draft->tier | (uint64_t)what->role << DVG_KEY_ROLE_SHIFT |
                (uint64_t)what->slot << DVG_KEY_HIGH;
    key.flags_micro |= flags;
    key.op_name |= (uint64_t)what->name << DVG_KEY_HIGH;
    uint32_t index;
    int rc = dvg_sites_find(&lane->sites, &lane->session->define, &key, call->source, &index);
    if (rc)
        return rc;
    struct dvg_site_entry *site = &lane->sites.entries[index];
    if (!type_matches(site->type, draft)) {
        rc = type_find(lane->session, draft, &site->type);
        if (rc)
            return rc;
    }
    *ret_site = site->number;
    *ret_type = site->type;
    return 0;
}

static bool wants_sketch(const struct diverge_lane *lane, const struct dvg_draft *draft)
{
    return lane->session->compute[draft->tier] & (DIVERGE_WITH_SKETCH32 | DIVERGE_WITH_SKETCH64);
}

/* The sketch that goes into the record, if any. */
static const float *sketch_of(const struct diverge_lane *lane, const struct dvg_draft *draft,
                              const struct diverge_fingerprint *fingerprint)
{
    return fingerprint && wants_sketch(lane, draft) &&
                   fingerprint->sketch_size == lane->session->config.sketch
               ? fingerprint->sketch
               : NULL;
}

static bool makes_bytes(const struct dvg_draft *draft)
{
    return draft->tensor && draft->tensor->storage && !draft->token &&
           draft->what->role != DIVERGE_ROLE_INPUT;
}

/* What the record says, and who may look into it when. */
static void fill(struct diverge_lane *lane, struct dvg_entry *entry, const struct dvg_draft *draft,
                 const struct diverge_fingerprint *fingerprint, bool with_sketch)
{
    bool deferred = draft->token != 0;
    if (fingerprint)
        dvg_entry_measure(entry, draft->tensor->view.dtype, fingerprint, with_sketch);
    else
        dvg_entry_fill(entry, draft->value, NULL);
    atomic_store_explicit(&entry->pending, deferred, memory_order_relaxed);
    if (deferred)
        dvg_deferred_set(&lane->session->deferred, draft->token, entry, draft->tensor->view.dtype);
}

/* Remembers who made these bytes. */
static void note_producer(struct diverge_lane *lane, const struct dvg_draft *draft,
                          const struct dvg_identity *identity,
                          const struct diverge_fingerprint *fingerprint, diverge_ref_t ref)
{
    if (fingerprint)
        dvg_value_from(draft->value, draft->tensor->view.dtype, fingerprint);
    dvg_producers_put(&lane->session->producers, identity, ref, draft->value);
}

/* With the record's value known: room, entry, producer table. */
static int commit(struct diverge_lane *lane, struct dvg_call *call, const struct dvg_draft *draft,
                  uint32_t site, uint32_t producer, const struct dvg_identity *identity,
                  const struct diverge_fingerprint *fingerprint, diverge_ref_t *ret_ref)
{
    bool deferred = draft->token != 0;
    bool nonfinite = fingerprint ? dvg_fingerprint_is_nonfinite(fingerprint)
                                 : deferred || (draft->value->state & DVG_STATE_NONFINITE);
    bool has_sketch =
        deferred ? wants_sketch(lane, draft) : sketch_of(lane, draft, fingerprint) != NULL;
    uint32_t sketch_size = has_sketch ? lane->session->config.sketch : 0;
    size_t size = dvg_entry_size(nonfinite, sketch_size);
    struct dvg_entry *entry = find_room(lane, call, size);
    if (!entry)
        return drop(lane, call, draft->tier, DIVERGE_EDROPPED);
    entry->size = (uint16_t)size;
    entry->kind = DVG_ENTRY_RECORD;
    entry->tier = draft->tier;
    entry->nonfinite = nonfinite;
    entry->sketch_size = (uint8_t)sketch_size;
    entry->site = site;
    entry->type = identity->type;
    entry->order = lane->order;
    entry->producer = producer;
    entry->argument = call->argument;
    diverge_ref_t ref = ref_base(lane) | (lane->order + 1);
    fill(lane, entry, draft, fingerprint, has_sketch);
    publish(lane);
    if (makes_bytes(draft))
        note_producer(lane, draft, identity, fingerprint, ref);
    if (ret_ref)
        *ret_ref = ref;
    return 0;
}

/* An input whose memory has an identity, or that is to be inherited. */
__attribute__((noinline)) static int take_input(struct diverge_lane *lane, struct dvg_call *call,
                                                const struct dvg_draft *draft, uint32_t site,
                                                uint32_t producer,
                                                const struct dvg_identity *identity,
                                                diverge_ref_t *ret_ref)
{
    const struct diverge_fingerprint *fingerprint = draft->fingerprint;
    struct diverge_fingerprint scratch;
    int rc = input_value(lane, draft, identity, &producer, &scratch, &fingerprint);
    return rc ? rc : commit(lane, call, draft, site, producer, identity, fingerprint, ret_ref);
}

static int take(struct diverge_lane *lane, struct dvg_call *call, struct dvg_draft *draft,
                diverge_ref_t *ret_ref)
{
    const struct diverge_observation *what = draft->what;
    const struct diverge_tensor *tensor = draft->tensor;
    uint32_t flags = what->flags;
    if (what->role == DIVERGE_ROLE_OUTPUT)
        flags |= call->output_flags;
    if (flags & DIVERGE_FLAG_VOLATILE) {
        lane->volatile_count++;
        return 0;
    }
    uint32_t site;
    const struct dvg_type_entry *type;
    int rc = resolve(lane, call, draft, flags, &site, &type);
    if (rc)
        return drop(lane, call, draft->tier, rc);

    struct dvg_identity identity = {.type = type->number};
    if (tensor) {
        identity.storage = tensor->storage;
        identity.version = tensor->version;
        identity.offset = tensor->offset;
    }
    uint32_t producer = what->producer ? producer_of(lane, what->producer) : 0;
    if (what->role == DIVERGE_ROLE_INPUT && identity.storage)
        return take_input(lane, call, draft, site, producer, &identity, ret_ref);
    return commit(lane, call, draft, site, producer, &identity, draft->fingerprint, ret_ref);
}

int dvg_lane_take(struct diverge_lane *lane, struct dvg_draft *draft, diverge_ref_t *ret_ref)
{
    dvg_biased_take(&lane->lock);
    uint32_t depth = atomic_load_explicit(&lane->depth, memory_order_relaxed);
    int rc = take(lane, &lane->calls[depth], draft, ret_ref);
    dvg_biased_release(&lane->lock);
    return rc;
}

int dvg_lane_lose(struct diverge_lane *lane, uint8_t tier)
{
    dvg_biased_take(&lane->lock);
    uint32_t depth = atomic_load_explicit(&lane->depth, memory_order_relaxed);
    int rc = drop(lane, &lane->calls[depth], tier, DIVERGE_ENOMEM);
    dvg_biased_release(&lane->lock);
    return rc;
}

int dvg_lane_take_outside(struct diverge_lane *lane, struct dvg_draft *draft)
{
    dvg_biased_take(&lane->lock);
    int rc = take(lane, &lane->calls[0], draft, NULL);
    dvg_biased_release(&lane->lock);
    return rc;
}

struct diverge_session *diverge_lane_session(struct diverge_lane *lane)
{
    return lane ? lane->session : NULL;
}

/* ---- context --------------------------------------------------------------------------------- */

/* Sets the bits of `mask` in one word of the context. */
static int set_context(struct diverge_lane *lane, size_t offset, uint64_t mask, uint64_t value)
{
    if (!lane || !dvg_session_is_open(lane->session))
        return DIVERGE_ECLOSED;
    dvg_biased_take(&lane->lock);
    uint64_t *word = (uint64_t *)(void *)((char *)&lane->calls[0].key + offset);
    *word = (*word & ~mask) | value;
    dvg_biased_release(&lane->lock);
    return 0;
}

int diverge_phase(struct diverge_lane *lane, enum diverge_phase phase)
{
    if (lane && (unsigned)phase >= DIVERGE_PHASE_COUNT)
        return DIVERGE_EINVAL;
    return set_context(lane, offsetof(struct dvg_key, kind), DVG_KEY_PHASE_MASK,
                       (uint64_t)phase << DVG_KEY_PHASE_SHIFT);
}

int diverge_micro_step(struct diverge_lane *lane, uint32_t micro_step)
{
    return set_context(lane, offsetof(struct dvg_key, flags_micro), ~DVG_KEY_LOW,
                       (uint64_t)micro_step << DVG_KEY_HIGH);
}

int diverge_region(struct diverge_lane *lane, diverge_name_t region)
{
    return set_context(lane, offsetof(struct dvg_key, region_scope), DVG_KEY_LOW, region);
}

int diverge_scope(struct diverge_lane *lane, diverge_name_t scope)
{
    return set_context(lane, offsetof(struct dvg_key, region_scope), ~DVG_KEY_LOW,
                       (uint64_t)scope << DVG_KEY_HIGH);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* A well-mixed number of the text, never 0. */
static uint64_t argument_digest(const char *text, size_t size)
{
    uint64_t checksum = diverge_checksum_bytes(text, size, 0);
    uint64_t digest = diverge_mix64(checksum) ^ diverge_mix64(size + 1);
    return digest ? digest : 1;
}

static int op_begin(struct diverge_lane *lane, diverge_name_t op, uint32_t flags,
                    const char *arguments, size_t size, uint64_t digest, diverge_name_t source)
{
    uint32_t depth = atomic_load_explicit(&lane->depth, memory_order_relaxed);
    if (depth == DVG_OPS_MAX)
        return DIVERGE_ELIMIT;
    struct dvg_call *call = &lane->calls[depth + 1];
    *call = (struct dvg_call){
        .key = lane->calls[0].key,
        .argument = digest,
        .output_flags = flags,
        .source = source == DVG_STRING_LOST ? 0 : source, /* an annotation */
    };
    call->key.op_name = op;
    uint32_t counter;
    int rc = dvg_sites_call(&lane->sites, &call->key, &counter);
    if (rc)
        call->dropping = true; /* its place among equal calls is unknown */
    else if (digest && lane->sites.counters[counter].argument != digest) {
        dvg_define_argument(&lane->session->define, digest, arguments, size);
        lane->sites.counters[counter].argument = digest;
    }
    atomic_store_explicit(&lane->depth, depth + 1, memory_order_relaxed);
    return 0;
}

int diverge_op_begin(struct diverge_lane *lane, diverge_name_t op, uint32_t flags,
                     const char *arguments, diverge_name_t source)
{
    if (!lane || !dvg_session_is_open(lane->session))
        return DIVERGE_ECLOSED;
    if (!op || (flags & ~(uint32_t)DVG_FLAGS_KNOWN))
        return DIVERGE_EINVAL;
    size_t size = arguments ? strlen(arguments) : 0;
    uint64_t digest = arguments ? argument_digest(arguments, size) : 0;
    dvg_biased_take(&lane->lock);
    int rc = op_begin(lane, op, flags, arguments, size, digest, source);
    dvg_biased_release(&lane->lock);
    return rc;
}

int diverge_op_end(struct diverge_lane *lane)
{
    if (!lane || !dvg_session_is_open(lane->session))
        return DIVERGE_ECLOSED;
    dvg_biased_take(&lane->lock);
    uint32_t depth = atomic_load_explicit(&lane->depth, memory_order_relaxed);
    if (depth)
        atomic_store_explicit(&lane->depth, depth - 1, memory_order_relaxed);
    dvg_biased_release(&lane->lock);
    return depth ? 0 : DIVERGE_ESTATE;
}

/* ---- life ------------------------------------------------------------------------------------ */

void dvg_lane_begin_segment(struct diverge_lane *lane, uint64_t segment)
{
    int kind = !segment ? DVG_SEGMENT_INIT : segment & 1 ? DVG_SEGMENT_BOUNDARY : DVG_SEGMENT_STEP;
    static const uint8_t phases[DVG_SEGMENT_KINDS] = {
        [DVG_SEGMENT_INIT] = DIVERGE_PHASE_INIT,
        [DVG_SEGMENT_BOUNDARY] = DIVERGE_PHASE_BOUNDARY,
        [DVG_SEGMENT_STEP] = DIVERGE_PHASE_FORWARD,
    };
    lane->calls[0] =
        (struct dvg_call){.key = {.kind = (uint64_t)phases[kind] << DVG_KEY_PHASE_SHIFT}};
    atomic_store_explicit(&lane->depth, 0, memory_order_relaxed);
    lane->order = 0;
    lane->quota = 0;
    memset(lane->dropped, 0, sizeof(lane->dropped));
    lane->volatile_count = 0;
    dvg_sites_begin(&lane->sites, kind);
}

int dvg_lane_new(struct diverge_session *session, const char *name, size_t ring_bytes,
                 uint32_t index, struct diverge_lane **ret)
{
    uint32_t number = dvg_define_string(&session->define, name, strlen(name));
    struct diverge_lane *lane = NULL;
    if (number != DVG_STRING_LOST)
        lane = aligned_alloc(_Alignof(struct diverge_lane), sizeof(*lane));
    if (!lane)
        return DIVERGE_ENOMEM;
    memset(lane, 0, sizeof(*lane));
    lane->session = session;
    lane->index = index;
    lane->name = number;
    dvg_biased_init(&lane->lock);
    if (dvg_sites_init(&lane->sites, number) || dvg_ring_init(&lane->ring, ring_bytes)) {
        dvg_lane_free(lane);
        return DIVERGE_ENOMEM;
    }
    lane->ring.wake_at = wake_distance(lane);
    *ret = lane;
    return 0;
}

void dvg_lane_free(struct diverge_lane *lane)
{
    if (!lane)
        return;
    dvg_sites_fini(&lane->sites);
    dvg_ring_fini(&lane->ring);
    free(lane);
}
