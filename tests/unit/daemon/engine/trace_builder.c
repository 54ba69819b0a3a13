/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/daemon/engine/trace_builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>
#include <diverge/fingerprint.h>

#include "client/wire/message.h"

struct chunk_data { /* one row: a (stream, segment, tier) */
    uint64_t segment;
    struct tb_record **records;
    uint32_t count, capacity;
    bool present, unsealed, gap, pruned;
    uint64_t dropped, unread;
    struct trace_digest layout, digest, chain;
    uint64_t rows_through, records_through;
};

struct rows {
    struct chunk_data *items;
    size_t count, capacity;
};

struct tb_stream {
    struct trace_stream stream;
    struct rows tiers[DIVERGE_TIER_COUNT];
    const char *spec, *fingerprint;
};

struct lane_state {
    const char *name;
    uint32_t next_order;
};

struct call_count { /* how often a call was made in a segment */
    uint64_t key;
    uint32_t count;
};

struct tb {
    char name[64];
    struct trace_run run;
    struct tb_stream *streams[64];
    size_t n_streams;
    struct trace_stream *public_streams;
    struct trace_metadata metadata[64];
    size_t n_metadata;
    struct trace_source source;
    /* context */
    struct tb_stream *at;
    uint64_t segment;
    const char *lane, *scope, *op, *argument;
    enum diverge_phase phase;
    uint32_t flags, occurrence;
    struct lane_state lanes[64];
    size_t n_lanes;
    struct call_count *calls;
    size_t n_calls, calls_capacity;
    /* memory */
    void **owned;
    size_t n_owned, owned_capacity;
    bool finished, no_sums;
    /* what the source did */
    long outstanding;
    uint64_t n_heads, n_loads;
    int break_status;
    long break_after;
    void (*damage)(struct trace_chunk *chunk, void *ctx);
    void *damage_ctx;
};

/* ---- memory --------------------------------------------------------------------------------- */

static void *checked(void *memory)
{
    if (!memory) {
        fprintf(stderr, "trace_builder: out of memory\n");
        abort();
    }
    return memory;
}

static void *own(struct tb *tb, void *memory)
{
    checked(memory);
    if (tb->n_owned == tb->owned_capacity) {
        tb->owned_capacity = tb->owned_capacity ? tb->owned_capacity * 2 : 64;
        tb->owned = checked(realloc(tb->owned, tb->owned_capacity * sizeof(void *)));
    }
    tb->owned[tb->n_owned++] = memory;
    return memory;
}

const char *tb_text(struct tb *tb, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return own(tb, strdup(text));
}

/* ---- hashing -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + UINT64_C(0x2545f4914f6cdd1d);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t tb_mix(uint64_t a, uint64_t b)
{
    return mix(a, b) % DIVERGE_CHECKSUM_PRIME;
}

static uint64_t text_hash(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = mix(hash, (unsigned char)*text);
    return mix(hash, 0x1000);
}

static struct trace_digest digest_of(uint64_t hash)
{
    struct trace_digest digest;
    uint64_t words[2] = {mix(hash, 1), mix(hash, 2)};
    memcpy(digest.bytes, words, sizeof(words));
    return digest;
}

static uint64_t digest_word(const struct trace_digest *digest)
{
    uint64_t word;
    memcpy(&word, digest->bytes, sizeof(word));
    return word;
}

static uint64_t argument_digest(const struct tb_record *record)
{
    return record->argument ? text_hash(7, record->argument) : 0;
}

static uint64_t site_hash(const struct tb_record *r)
{
    uint64_t hash = mix(mix(r->tier, r->phase), mix(r->role, r->slot));
    hash = mix(hash, mix(r->flags, mix(r->micro_step, r->occurrence)));
    const char *texts[] = {r->lane, r->region, r->scope, r->op, r->name};
    for (size_t i = 0; i < 5; i++)
        hash = text_hash(hash, texts[i]);
    return hash;
}

static uint64_t record_hash(const struct tb_record *r)
{
    uint64_t hash = mix(mix(r->kind, r->dtype), (uint64_t)r->ndim);
    for (int32_t i = 0; i < r->ndim && i < 4; i++)
        hash = mix(hash, (uint64_t)r->sizes[i]);
    bool unread = r->state & DVG_STATE_UNREAD;
    if (r->flags & (DIVERGE_FLAG_UNINITIALISED | DIVERGE_FLAG_VOLATILE))
        return mix(hash, 3);
    return mix(mix(hash, unread ? 0 : r->value), mix(argument_digest(r), unread));
}

/* ---- making --------------------------------------------------------------------------------- */

static int source_head_at(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                          struct trace_head *ret);
static int source_head_from(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                            struct trace_head *ret);
static int source_load(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                       struct trace_chunk **ret);
static void source_release(void *ctx, struct trace_chunk *chunk);
static int source_argument(void *ctx, uint64_t digest, const char **ret);

struct tb *tb_new(const char *name)
{
    struct tb *tb = checked(calloc(1, sizeof(*tb)));
    snprintf(tb->name, sizeof(tb->name), "%s", name);
    tb->run.name = tb->name;
    tb->run.status = "complete";
    snprintf((char *)tb->run.run_id, sizeof(tb->run.run_id), "%s", name);
    tb->source = (struct trace_source){.ctx = tb,
                                       .head_at = source_head_at,
                                       .head_from = source_head_from,
                                       .load = source_load,
                                       .release = source_release,
                                       .argument_text = source_argument};
    tb->lane = "main";
    tb->scope = tb->op = "";
    return tb;
}

void tb_free(struct tb *tb)
{
    if (tb->outstanding != 0) {
        fprintf(stderr, "trace_builder: %ld chunks of %s were not released\n", tb->outstanding,
                tb->name);
        abort();
    }
    for (size_t s = 0; s < tb->n_streams; s++) {
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
            struct rows *rows = &tb->streams[s]->tiers[tier];
            for (size_t i = 0; i < rows->count; i++)
                free(rows->items[i].records);
            free(rows->items);
        }
        free(tb->streams[s]);
    }
    for (size_t i = 0; i < tb->n_owned; i++)
        free(tb->owned[i]);
    free(tb->owned);
    free(tb->calls);
    free(tb->public_streams);
    free(tb);
}

void tb_rank(struct tb *tb, uint32_t rank)
{
    struct tb_stream *stream = checked(calloc(1, sizeof(*stream)));
    stream->stream.id = tb->n_streams;
    stream->stream.rank = rank;
    stream->stream.level = DIVERGE_TIER_OP;
    stream->spec = "";
    stream->fingerprint = "l61.1";
    tb->streams[tb->n_streams++] = stream;
    tb->at = stream;
}

void tb_end(struct tb *tb)
{
    tb->at->stream.ended = true;
    tb->at->stream.outcome = DIVERGE_OUTCOME_COMPLETE;
}

void tb_fail(struct tb *tb)
{
    tb->at->stream.ended = true;
    tb->at->stream.outcome = DIVERGE_OUTCOME_FAILED;
}

void tb_world(struct tb *tb, uint32_t world)
{
    tb->run.world = world;
}

void tb_spec(struct tb *tb, const char *spec)
{
    tb->at->spec = spec;
}

void tb_fingerprint(struct tb *tb, const char *id)
{
    tb->at->fingerprint = id;
}

void tb_metadata(struct tb *tb, const char *key, const char *class_name, const char *value)
{
    tb->metadata[tb->n_metadata++] =
        (struct trace_metadata){.key = key, .class_name = class_name, .value = value};
}

void tb_dropped(struct tb *tb, uint64_t records)
{
    tb->at->stream.dropped = records;
}

static void begin(struct tb *tb, uint64_t segment, enum diverge_phase phase)
{
    tb->segment = segment;
    tb->phase = phase;
    tb->scope = tb->op = "";
    tb->argument = NULL;
    tb->flags = 0;
    tb->n_lanes = 0;
    tb->n_calls = 0;
}

void tb_init(struct tb *tb)
{
    begin(tb, 0, DIVERGE_PHASE_INIT);
}

void tb_boundary(struct tb *tb, uint64_t k)
{
    begin(tb, diverge_segment_of_boundary(k), DIVERGE_PHASE_BOUNDARY);
}

void tb_step(struct tb *tb, uint64_t k)
{
    begin(tb, diverge_segment_of_step(k), DIVERGE_PHASE_FORWARD);
}

static struct chunk_data *row(struct tb *tb, enum diverge_tier tier)
{
    struct rows *rows = &tb->at->tiers[tier];
    if (rows->count && rows->items[rows->count - 1].segment == tb->segment)
        return &rows->items[rows->count - 1];
    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity ? rows->capacity * 2 : 16;
        rows->items = checked(realloc(rows->items, rows->capacity * sizeof(rows->items[0])));
    }
    rows->items[rows->count] = (struct chunk_data){.segment = tb->segment, .present = true};
    return &rows->items[rows->count++];
}

void tb_unsealed(struct tb *tb)
{
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        struct rows *rows = &tb->at->tiers[tier];
        if (rows->count && rows->items[rows->count - 1].segment == tb->segment)
            rows->items[rows->count - 1].unsealed = true;
    }
}

void tb_gap(struct tb *tb, enum diverge_tier tier, uint64_t dropped)
{
    struct chunk_data *data = row(tb, tier);
    data->gap = true;
    data->dropped = dropped;
}

void tb_pruned(struct tb *tb, enum diverge_tier tier)
{
    row(tb, tier)->pruned = true;
}

void tb_empty_tier(struct tb *tb, enum diverge_tier tier)
{
    row(tb, tier);
}

void tb_lane(struct tb *tb, const char *lane)
{
    tb->lane = lane;
}

void tb_phase(struct tb *tb, enum diverge_phase phase)
{
    tb->phase = phase;
}

void tb_scope(struct tb *tb, const char *scope)
{
    tb->scope = scope;
}

static uint32_t count_call(struct tb *tb, uint64_t key)
{
    for (size_t i = 0; i < tb->n_calls; i++)
        if (tb->calls[i].key == key)
            return tb->calls[i].count++;
    if (tb->n_calls == tb->calls_capacity) {
        tb->calls_capacity = tb->calls_capacity ? tb->calls_capacity * 2 : 64;
        tb->calls = checked(realloc(tb->calls, tb->calls_capacity * sizeof(tb->calls[0])));
    }
    tb->calls[tb->n_calls++] = (struct call_count){.key = key, .count = 1};
    return 0;
}

void tb_op(struct tb *tb, const char *op, uint32_t flags, const char *argument)
{
    tb->op = op;
    tb->flags = flags;
    tb->argument = argument;
    uint64_t key = text_hash(text_hash(text_hash(tb->phase, tb->lane), tb->scope), op);
    tb->occurrence = count_call(tb, key);
}

void tb_close(struct tb *tb)
{
    tb->op = "";
    tb->flags = 0;
    tb->argument = NULL;
    tb->occurrence = 0;
}

static uint32_t next_order(struct tb *tb)
{
    for (size_t i = 0; i < tb->n_lanes; i++)
        if (strcmp(tb->lanes[i].name, tb->lane) == 0)
            return tb->lanes[i].next_order++;
    tb->lanes[tb->n_lanes++] = (struct lane_state){.name = tb->lane, .next_order = 1};
    return 0;
}

struct tb_record *tb_add(struct tb *tb, struct tb_record record)
{
    struct chunk_data *data = row(tb, record.tier);
    struct tb_record *kept = own(tb, malloc(sizeof(*kept)));
    *kept = record;
    kept->phase = tb->phase;
    kept->lane = tb->lane;
    kept->region = "";
    kept->scope = tb->scope;
    kept->op = tb->op;
    kept->name = record.name ? record.name : "";
    kept->occurrence = tb->op[0] ? tb->occurrence : 0;
    kept->argument = tb->op[0] ? tb->argument : NULL;
    kept->flags = record.flags | tb->flags;
    kept->order = next_order(tb);
    if (data->count == data->capacity) {
        data->capacity = data->capacity ? data->capacity * 2 : 8;
        data->records = checked(realloc(data->records, data->capacity * sizeof(data->records[0])));
    }
    data->records[data->count++] = kept;
    return kept;
}

static struct tb_record tensor(enum diverge_tier tier, enum diverge_role role, const char *name,
                               uint64_t value)
{
    return (struct tb_record){.tier = tier,
                              .role = role,
                              .name = name,
                              .kind = DIVERGE_KIND_TENSOR,
                              .dtype = DIVERGE_F32,
                              .ndim = 2,
                              .sizes = {16, 16},
                              .value = value};
}

struct tb_record *tb_in(struct tb *tb, uint16_t slot, uint64_t value)
{
    struct tb_record *record = tb_add(tb, tensor(DIVERGE_TIER_OP, DIVERGE_ROLE_INPUT, NULL, value));
    record->slot = slot;
    record->flags = 0;
    record->argument = NULL;
    return record;
}

struct tb_record *tb_in_of(struct tb *tb, uint16_t slot, const struct tb_record *producer)
{
    struct tb_record *record = tb_in(tb, slot, producer->value);
    record->dtype = producer->dtype;
    record->ndim = producer->ndim;
    memcpy(record->sizes, producer->sizes, sizeof(record->sizes));
    record->producer = producer->order + 1;
    record->nan = producer->nan;
    return record;
}

struct tb_record *tb_out(struct tb *tb, uint16_t slot, uint64_t value)
{
    struct tb_record *record =
        tb_add(tb, tensor(DIVERGE_TIER_OP, DIVERGE_ROLE_OUTPUT, NULL, value));
    record->slot = slot;
    return record;
}

struct tb_record *tb_param(struct tb *tb, const char *name, uint64_t value)
{
    return tb_add(tb, tensor(DIVERGE_TIER_STEP, DIVERGE_ROLE_PARAM, name, value));
}

struct tb_record *tb_optstate(struct tb *tb, const char *name, uint64_t value)
{
    return tb_add(tb, tensor(DIVERGE_TIER_STEP, DIVERGE_ROLE_OPTSTATE, name, value));
}

struct tb_record *tb_grad(struct tb *tb, const char *name, uint64_t value)
{
    return tb_add(tb, tensor(DIVERGE_TIER_STEP, DIVERGE_ROLE_GRAD, name, value));
}

struct tb_record *tb_batch(struct tb *tb, const char *name, uint64_t value)
{
    struct tb_record record = tensor(DIVERGE_TIER_PULSE, DIVERGE_ROLE_BATCH, name, value);
    record.dtype = DIVERGE_I64;
    return tb_add(tb, record);
}

static struct tb_record number(enum diverge_tier tier, enum diverge_role role, const char *name,
                               enum diverge_kind kind, uint64_t bits)
{
    return (struct tb_record){
        .tier = tier, .role = role, .name = name, .kind = kind, .value = bits};
}

struct tb_record *tb_batch_integer(struct tb *tb, const char *name, uint64_t value)
{
    return tb_add(
        tb, number(DIVERGE_TIER_PULSE, DIVERGE_ROLE_BATCH, name, DIVERGE_KIND_INTEGER, value));
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

struct tb_record *tb_loss(struct tb *tb, double value)
{
    return tb_add(tb, number(DIVERGE_TIER_PULSE, DIVERGE_ROLE_LOSS, "loss", DIVERGE_KIND_FLOAT,
                             bits_of(value)));
}

struct tb_record *tb_scalar(struct tb *tb, const char *name, double value)
{
    return tb_add(tb, number(DIVERGE_TIER_PULSE, DIVERGE_ROLE_SCALAR, name, DIVERGE_KIND_FLOAT,
                             bits_of(value)));
}

struct tb_record *tb_attr(struct tb *tb, const char *name, int64_t value)
{
    return tb_add(tb, number(DIVERGE_TIER_PULSE, DIVERGE_ROLE_ATTR, name, DIVERGE_KIND_INTEGER,
                             (uint64_t)value));
}

struct tb_record *tb_rng(struct tb *tb, const char *name, uint16_t slot, uint64_t state)
{
    struct tb_record record = tensor(DIVERGE_TIER_EVIDENCE, DIVERGE_ROLE_RNG, name, state);
    record.dtype = DIVERGE_OPAQUE;
    record.slot = slot;
    return tb_add(tb, record);
}

/* ---- finishing ------------------------------------------------------------------------------ */

static int by_lane(const void *a, const void *b)
{
    const struct tb_record *x = *(struct tb_record *const *)a, *y = *(struct tb_record *const *)b;
    int order = strcmp(x->lane, y->lane);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

static void finish_row(struct chunk_data *data)
{
    uint64_t layout = 11, digest = 13;
    if (data->count)
        qsort(data->records, data->count, sizeof(data->records[0]), by_lane);
    data->unread = 0;
    for (uint32_t i = 0; i < data->count; i++) {
        layout = mix(layout, site_hash(data->records[i]));
        data->unread += (data->records[i]->state & DVG_STATE_UNREAD) != 0;
    }
    data->layout = digest_of(layout);
    digest = mix(digest, layout);
    for (uint32_t i = 0; i < data->count; i++)
        digest = mix(digest, record_hash(data->records[i]));
    data->digest = data->unsealed ? (struct trace_digest){{0}} : digest_of(digest);
}

static void finish_track(struct tb *tb, struct tb_stream *stream, int tier)
{
    struct trace_track *track = &stream->stream.tiers[tier];
    struct rows *rows = &stream->tiers[tier];
    uint64_t chain =
        text_hash(text_hash(mix(17, (uint64_t)tier), stream->spec), stream->fingerprint);
    *track = (struct trace_track){.present = rows->count > 0, .start = digest_of(chain)};
    for (size_t i = 0; i < rows->count; i++) {
        struct chunk_data *data = &rows->items[i];
        finish_row(data);
        chain = mix(chain, digest_word(&data->digest));
        data->chain = data->unsealed ? (struct trace_digest){{0}} : digest_of(chain);
        track->first = i == 0 ? data->segment : track->first;
        track->last = data->segment;
        track->segments++;
        track->records += data->count;
        track->dropped += data->dropped;
        if ((data->unsealed || data->gap) && !track->has_gap) {
            track->has_gap = true;
            track->first_gap = data->segment;
        }
        if (data->unread && !track->unread)
            track->first_unread = data->segment;
        track->unread += data->unread;
        data->rows_through = tb->no_sums ? 0 : track->segments;
        data->records_through = tb->no_sums ? 0 : track->records;
    }
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct trace_metadata *)a)->key, ((const struct trace_metadata *)b)->key);
}

const struct trace_run *tb_run(struct tb *tb)
{
    if (tb->finished)
        return &tb->run;
    tb->finished = true;
    tb->public_streams = checked(calloc(tb->n_streams + 1, sizeof(tb->public_streams[0])));
    for (size_t s = 0; s < tb->n_streams; s++) {
        struct tb_stream *stream = tb->streams[s];
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            finish_track(tb, stream, tier);
        stream->stream.spec = stream->spec;
        stream->stream.fingerprint_id = stream->fingerprint;
        tb->public_streams[s] = stream->stream;
    }
    if (tb->n_metadata)
        qsort(tb->metadata, tb->n_metadata, sizeof(tb->metadata[0]), by_key);
    tb->run.n_streams = (uint32_t)tb->n_streams;
    tb->run.streams = tb->public_streams;
    tb->run.metadata = tb->metadata;
    tb->run.n_metadata = (uint32_t)tb->n_metadata;
    if (tb->run.world == 0)
        tb->run.world = (uint32_t)tb->n_streams;
    return &tb->run;
}

/* ---- the source ----------------------------------------------------------------------------- */

const struct trace_source *tb_source(struct tb *tb)
{
    tb_run(tb);
    return &tb->source;
}

void tb_damage(struct tb *tb, void (*damage)(struct trace_chunk *chunk, void *ctx), void *ctx)
{
    tb->damage = damage;
    tb->damage_ctx = ctx;
}

void tb_break(struct tb *tb, int status, long nth)
{
    tb->break_status = status;
    tb->break_after = nth;
}

void tb_calls(struct tb *tb, uint64_t *heads, uint64_t *loads)
{
    *heads = tb->n_heads;
    *loads = tb->n_loads;
    tb->n_heads = tb->n_loads = 0;
}

void tb_no_sums(struct tb *tb)
{
    tb->no_sums = true;
}

static bool breaks(struct tb *tb)
{
    return tb->break_status && tb->break_after-- <= 0;
}

/* Rows with a segment below `segment`. */
static size_t rows_before(const struct rows *rows, uint64_t segment)
{
    size_t low = 0, high = rows->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows->items[middle].segment < segment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void fill_head(const struct chunk_data *data, struct trace_head *ret)
{
    *ret = (struct trace_head){.segment = data->segment,
                               .layout = data->layout,
                               .digest = data->digest,
                               .chain = data->chain,
                               .records = data->count,
                               .dropped = data->dropped,
                               .sealed = !data->unsealed,
                               .gap = data->gap || data->unread > 0,
                               .unread = data->unread,
                               .rows_through = data->rows_through,
                               .records_through = data->records_through};
}

static int source_head_at(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                          struct trace_head *ret)
{
    struct tb *tb = ctx;
    const struct rows *rows = &tb->streams[stream]->tiers[tier];
    tb->n_heads++;
    if (breaks(tb))
        return tb->break_status;
    size_t n = segment == UINT64_MAX ? rows->count : rows_before(rows, segment + 1);
    if (n == 0)
        return DIVERGE_ENOTFOUND;
    fill_head(&rows->items[n - 1], ret);
    return 0;
}

static int source_head_from(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                            struct trace_head *ret)
{
    struct tb *tb = ctx;
    const struct rows *rows = &tb->streams[stream]->tiers[tier];
    tb->n_heads++;
    if (breaks(tb))
        return tb->break_status;
    size_t n = rows_before(rows, segment);
    if (n == rows->count)
        return DIVERGE_ENOTFOUND;
    fill_head(&rows->items[n], ret);
    return 0;
}

/* A chunk and everything it points at. */
struct built {
    struct trace_chunk chunk;
    struct trace_layout layout;
    struct trace_site *sites;
    const struct trace_site **site_list;
    struct trace_type *types;
    const struct trace_type **type_list;
    uint64_t *value, *argument, *min, *max, *zero;
    uint32_t *type, *order, *producer, *sketch_index;
    uint8_t *state;
    float *l2, *sketches;
    struct trace_nonfinite *nonfinite;
};

static void fill_record(struct built *b, uint32_t i, const struct tb_record *r)
{
    b->sites[i] = (struct trace_site){.digest = digest_of(site_hash(r)),
                                      .tier = r->tier,
                                      .phase = r->phase,
                                      .role = r->role,
                                      .slot = r->slot,
                                      .flags = r->flags,
                                      .micro_step = r->micro_step,
                                      .occurrence = r->occurrence,
                                      .lane = r->lane,
                                      .region = r->region,
                                      .scope = r->scope,
                                      .op = r->op,
                                      .name = r->name};
    b->site_list[i] = &b->sites[i];
    b->types[i] = (struct trace_type){.kind = r->kind,
                                      .dtype = r->dtype,
                                      .ndim = r->ndim,
                                      .sizes = r->sizes,
                                      .placement = r->placement,
                                      .group = r->group ? r->group : ""};
    b->type_list[i] = &b->types[i];
    b->type[i] = i;
    b->value[i] = r->value;
    b->argument[i] = argument_digest(r);
    b->state[i] =
        (uint8_t)(r->state | (r->nan ? DVG_STATE_NONFINITE : 0) | (r->l2 > 0 ? DVG_STATE_L2 : 0));
    b->order[i] = r->order;
    b->producer[i] = r->producer;
    b->l2[i] = r->l2;
    b->min[i] = r->min;
    b->max[i] = r->max;
    if (r->nan)
        b->nonfinite[b->chunk.n_nonfinite++] = (struct trace_nonfinite){.index = i, .nan = r->nan};
    if (r->sketch) {
        memcpy(&b->sketches[(size_t)b->chunk.n_sketches * 64], r->sketch, 64 * sizeof(float));
        b->sketch_index[b->chunk.n_sketches++] = i;
    }
}

static void free_built(struct built *b)
{
    free(b->sites);
    free(b->site_list);
    free(b->types);
    free(b->type_list);
    free(b->value);
    free(b->type);
    free(b->state);
    free(b->l2);
    free(b->sketches);
    free(b->nonfinite);
    free(b);
}

/* NULL when there is no memory, as the engine's fault sweep wants to see. */
static struct built *build(const struct chunk_data *data)
{
    size_t n = data->count + 1;
    struct built *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->sites = calloc(n, sizeof(b->sites[0]));
    b->site_list = calloc(n, sizeof(b->site_list[0]));
    b->types = calloc(n, sizeof(b->types[0]));
    b->type_list = calloc(n, sizeof(b->type_list[0]));
    b->value = calloc(n * 5, sizeof(b->value[0]));
    b->type = calloc(n * 4, sizeof(b->type[0]));
    b->state = calloc(n, 1);
    b->l2 = calloc(n, sizeof(b->l2[0]));
    b->sketches = calloc(n * 64, sizeof(b->sketches[0]));
    b->nonfinite = calloc(n, sizeof(b->nonfinite[0]));
    if (!b->sites || !b->site_list || !b->types || !b->type_list || !b->value || !b->type ||
        !b->state || !b->l2 || !b->sketches || !b->nonfinite) {
        free_built(b);
        return NULL;
    }
    b->argument = b->value + n;
    b->min = b->value + 2 * n;
    b->max = b->value + 3 * n;
    b->zero = b->value + 4 * n;
    b->order = b->type + n;
    b->producer = b->type + 2 * n;
    b->sketch_index = b->type + 3 * n;
    for (uint32_t i = 0; i < data->count; i++)
        fill_record(b, i, data->records[i]);
    return b;
}

static void connect(struct built *b, const struct chunk_data *data)
{
    struct trace_chunk *chunk = &b->chunk;
    b->layout =
        (struct trace_layout){.digest = data->layout, .count = data->count, .sites = b->site_list};
    chunk->layout = &b->layout;
    chunk->count = data->count;
    chunk->pruned = data->pruned;
    chunk->owner = b;
    if (data->pruned)
        return;
    chunk->value = b->value;
    chunk->type = b->type;
    chunk->types = b->type_list;
    chunk->n_types = data->count;
    chunk->argument = b->argument;
    chunk->state = b->state;
    chunk->order = b->order;
    chunk->producer = b->producer;
    chunk->l2 = b->l2;
    chunk->sum = b->l2;
    chunk->min = b->min;
    chunk->max = b->max;
    chunk->zero = b->zero;
    chunk->nonfinite = b->nonfinite;
    chunk->sketch_size = chunk->n_sketches ? 64 : 0;
    chunk->sketch_index = b->sketch_index;
    chunk->sketches = b->sketches;
}

static int source_load(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                       struct trace_chunk **ret)
{
    struct tb *tb = ctx;
    const struct rows *rows = &tb->streams[stream]->tiers[tier];
    size_t n = rows_before(rows, segment);
    tb->n_loads++;
    if (breaks(tb))
        return tb->break_status;
    if (n == rows->count || rows->items[n].segment != segment)
        return DIVERGE_ENOTFOUND;
    struct built *built = build(&rows->items[n]);
    if (!built)
        return DIVERGE_ENOMEM;
    connect(built, &rows->items[n]);
    if (tb->damage)
        tb->damage(&built->chunk, tb->damage_ctx);
    tb->outstanding++;
    *ret = &built->chunk;
    return 0;
}

static void source_release(void *ctx, struct trace_chunk *chunk)
{
    struct tb *tb = ctx;
    struct built *b = chunk->owner;
    tb->outstanding--;
    free_built(b);
}

static int source_argument(void *ctx, uint64_t digest, const char **ret)
{
    struct tb *tb = ctx;
    for (size_t s = 0; s < tb->n_streams; s++)
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            for (size_t i = 0; i < tb->streams[s]->tiers[tier].count; i++) {
                const struct chunk_data *data = &tb->streams[s]->tiers[tier].items[i];
                for (uint32_t r = 0; r < data->count; r++)
                    if (data->records[r]->argument && argument_digest(data->records[r]) == digest) {
                        *ret = data->records[r]->argument;
                        return 0;
                    }
            }
    return DIVERGE_ENOTFOUND;
}
