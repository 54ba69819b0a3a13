/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each stream becomes HELLO, definitions before their use, PARTs, END a sealed segment, BYE when it
 * had one. The stream's id is made from the run, the rank and how much there is, so that importing
 * a file twice changes nothing, and a later export of a run that went on counts as the newer stream
 * of its rank.
 */
#include "client/ctl/encode.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/intern.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/text.h"
#include "client/wire/frame.h"
#include "client/wire/message.h"
#include "daemon/proto/json.h"

enum {
    PENDING_MAX = 512 * 1024, /* bytes of one kind of definitions before they are written */
    PART_BYTES_MAX = 2 * 1024 * 1024,
    RECORD_BYTES = 64, /* all columns of a record, at most */
    METADATA_ENTRIES = 32,
    ITEM_KINDS = 4,
};

/* Definitions not yet written, in the order they are written: later ones refer to earlier ones. */
enum item_kind { ITEM_STRING, ITEM_TYPE, ITEM_SITE, ITEM_ARGUMENT };

struct pending {
    struct dvg_buffer items;
    uint32_t first;
    uint32_t count;
};

struct encoder {
    const struct trace_run *run;
    const struct trace_source *source;
    FILE *file;
    struct encode_result *result;
    struct dvg_buffer frame;
    uint64_t seq;
    uint64_t total; /* records there are */
    struct intern interns[ITEM_KINDS];
    struct pending pending[ITEM_KINDS];
    int status; /* the first failure; everything after it does nothing */
};

/* ---- frames --------------------------------------------------------------------------------- */

/* Writes the frame that was just encoded, if it could be. */
static void put_frame(struct encoder *encoder, int status)
{
    struct dvg_buffer *frame = &encoder->frame;

    if (!encoder->status)
        encoder->status = status;
    if (!encoder->status) {
        dvg_frame_set_crc(frame->data, frame->size);
        if (fwrite(frame->data, 1, frame->size, encoder->file) != frame->size)
            encoder->status = DIVERGE_EIO;
        encoder->result->bytes += frame->size;
    }
    dvg_buffer_clear(frame);
}

static void flush_one(struct encoder *encoder, enum item_kind kind)
{
    static const enum dvg_message types[] = {
        [ITEM_STRING] = DVG_MESSAGE_STRINGS,
        [ITEM_TYPE] = DVG_MESSAGE_TYPES,
        [ITEM_SITE] = DVG_MESSAGE_SITES,
        [ITEM_ARGUMENT] = DVG_MESSAGE_ARGUMENTS,
    };
    struct pending *pending = &encoder->pending[kind];
    const struct dvg_definitions definitions = {
        .first = kind == ITEM_ARGUMENT ? 0 : pending->first,
        .count = pending->count,
        .items = {.data = pending->items.data, .size = pending->items.size},
    };

    if (!pending->count)
        return;
    put_frame(encoder, dvg_definitions_encode(&encoder->frame, types[kind], &definitions));
    dvg_buffer_clear(&pending->items);
    pending->count = 0;
}

static void flush_definitions(struct encoder *encoder)
{
    for (int kind = 0; kind < ITEM_KINDS; kind++)
        flush_one(encoder, (enum item_kind)kind);
}

/* An item was packed as `number`. */
static void added(struct encoder *encoder, enum item_kind kind, uint32_t number, int status)
{
    struct pending *pending = &encoder->pending[kind];

    if (!encoder->status)
        encoder->status = status;
    if (!pending->count)
        pending->first = number;
    pending->count++;
    if (pending->items.size > PENDING_MAX)
        flush_definitions(encoder);
}

/* ---- definitions ---------------------------------------------------------------------------- */

static uint32_t string_number(struct encoder *encoder, const char *text)
{
    bool is_new = false;

    if (!text || !*text)
        return 0;
    struct dvg_bytes bytes = {.data = (const uint8_t *)text, .size = strlen(text)};
    uint32_t number = intern_number(&encoder->interns[ITEM_STRING], text, bytes.size, &is_new);

    if (is_new)
        added(encoder, ITEM_STRING, number,
              dvg_string_pack(&encoder->pending[ITEM_STRING].items, bytes));
    return number;
}

/* What it is packed as tells types apart; a type that is known is taken off again. */
static uint32_t type_number(struct encoder *encoder, const struct trace_type *type)
{
    struct dvg_buffer *items = &encoder->pending[ITEM_TYPE].items;
    struct dvg_type wire = {
        .kind = (uint8_t)type->kind,
        .dtype = (uint8_t)type->dtype,
        .ndim = (uint8_t)type->ndim,
        .placement = (uint8_t)type->placement,
        .group = string_number(encoder, type->group),
        .n_extents = type->n_extents,
        .sizes = (const uint8_t *)type->sizes,
        .global_ndim = (uint8_t)type->global_ndim,
        .global_sizes = (const uint8_t *)type->global_sizes,
        .extents = (const uint8_t *)type->extents,
    };
    size_t before = items->size;
    int status = dvg_type_pack(items, &wire);
    bool is_new = false;

    if (status) {
        if (!encoder->status)
            encoder->status = status;
        return 0;
    }
    uint32_t number = intern_number(&encoder->interns[ITEM_TYPE], items->data + before,
                                    items->size - before, &is_new);

    if (is_new)
        added(encoder, ITEM_TYPE, number, 0);
    else
        items->size = before;
    return number;
}

static uint32_t site_number(struct encoder *encoder, const struct trace_site *site,
                            const char *source)
{
    struct {
        struct trace_digest digest;
        uint32_t source;
    } key;
    bool is_new = false;

    memset(&key, 0, sizeof(key));
    key.digest = site->digest;
    key.source = string_number(encoder, source);
    uint32_t number = intern_number(&encoder->interns[ITEM_SITE], &key, sizeof(key), &is_new);

    if (!is_new)
        return number;
    const struct dvg_site wire = {
        .tier = (uint8_t)site->tier,
        .phase = (uint8_t)site->phase,
        .role = (uint8_t)site->role,
        .slot = site->slot,
        .flags = site->flags,
        .micro_step = site->micro_step,
        .occurrence = site->occurrence,
        .lane = string_number(encoder, site->lane),
        .region = string_number(encoder, site->region),
        .scope = string_number(encoder, site->scope),
        .op = string_number(encoder, site->op),
        .name = string_number(encoder, site->name),
        .source = key.source,
    };

    added(encoder, ITEM_SITE, number, dvg_site_pack(&encoder->pending[ITEM_SITE].items, &wire));
    return number;
}

static void define_argument(struct encoder *encoder, uint64_t digest)
{
    const char *text = NULL;
    bool is_new = false;

    if (!digest)
        return;
    intern_number(&encoder->interns[ITEM_ARGUMENT], &digest, sizeof(digest), &is_new);
    if (!is_new)
        return;
    int status = encoder->source->argument_text(encoder->source->ctx, digest, &text);

    if (status && status != DIVERGE_ENOTFOUND && !encoder->status)
        encoder->status = status;
    if (status || !text)
        return;
    const struct dvg_argument wire = {
        .digest = digest,
        .text = {.data = (const uint8_t *)text, .size = strlen(text)},
    };

    added(encoder, ITEM_ARGUMENT, 0,
          dvg_argument_pack(&encoder->pending[ITEM_ARGUMENT].items, &wire));
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* A chunk with its definitions' numbers. */
struct numbered {
    const struct trace_chunk *chunk;
    uint64_t segment;
    enum diverge_tier tier;
    uint32_t *sites; /* a record */
    uint32_t *types; /* a record */
};

static void *allocate(size_t size)
{
    void *data = calloc(1, size ? size : 1);

    if (!data)
        exit(ctl_fail(EX_SOFTWARE, "out of memory"));
    return data;
}

static void number_chunk(struct encoder *encoder, struct numbered *numbered)
{
    const struct trace_chunk *chunk = numbered->chunk;
    uint32_t *of_type = allocate(chunk->n_types * sizeof(*of_type));

    numbered->sites = allocate(chunk->count * sizeof(*numbered->sites));
    numbered->types = allocate(chunk->count * sizeof(*numbered->types));
    for (uint32_t i = 0; i < chunk->count; i++) {
        uint32_t type = chunk->type ? chunk->type[i] : 0;

        if (!of_type[type])
            of_type[type] = type_number(encoder, chunk->types[type]);
        numbered->types[i] = of_type[type];
        numbered->sites[i] =
            site_number(encoder, chunk->layout->sites[i], chunk->source ? chunk->source[i] : NULL);
        if (chunk->argument)
            define_argument(encoder, chunk->argument[i]);
    }
    free(of_type);
}

/*
 * `count` values from `first` on; one alone when they are all equal; nothing when there is no
 * column.
 */
static struct dvg_bytes column(const void *data, size_t width, uint32_t first, uint32_t count)
{
    if (!data || !count)
        return (struct dvg_bytes){0};
    const uint8_t *from = (const uint8_t *)data + first * width;
    /* Equal to itself, shifted by one. */
    bool constant = !memcmp(from, from + width, (count - 1) * width);

    return (struct dvg_bytes){.data = from, .size = constant ? width : count * width};
}

static void set_columns(struct dvg_part *part, const struct numbered *numbered, uint32_t first)
{
    const struct trace_chunk *chunk = numbered->chunk;
    const void *const data[DVG_COLUMN_COUNT] = {
        [DVG_COLUMN_VALUE] = chunk->value,       [DVG_COLUMN_TYPE] = numbered->types,
        [DVG_COLUMN_ARGUMENT] = chunk->argument, [DVG_COLUMN_STATE] = chunk->state,
        [DVG_COLUMN_ORDER] = chunk->order,       [DVG_COLUMN_PRODUCER] = chunk->producer,
        [DVG_COLUMN_SUM] = chunk->sum,           [DVG_COLUMN_L2] = chunk->l2,
        [DVG_COLUMN_MIN] = chunk->min,           [DVG_COLUMN_MAX] = chunk->max,
        [DVG_COLUMN_ZERO] = chunk->zero,
    };

    for (int i = 0; i < DVG_COLUMN_COUNT; i++)
        part->columns[i] =
            column(data[i], dvg_column_width((enum dvg_column)i), first, part->count);
}

static struct dvg_bytes pack_site_runs(const uint32_t *sites, uint32_t count, uint8_t *to)
{
    size_t size = 0;

    for (uint32_t i = 0; i < count;) {
        uint32_t n = 1;

        while (i + n < count && sites[i + n] == sites[i] + n)
            n++;
        dvg_store_u32(to + size, sites[i]);
        dvg_store_u32(to + size + 4, n);
        size += 8;
        i += n;
    }
    return (struct dvg_bytes){.data = to, .size = size};
}

static struct dvg_bytes pack_nonfinite(const struct trace_chunk *chunk, uint32_t first,
                                       uint32_t count, uint8_t *to)
{
    size_t size = 0;

    for (uint32_t i = 0; i < chunk->n_nonfinite; i++) {
        const struct trace_nonfinite *entry = &chunk->nonfinite[i];

        if (entry->index < first || entry->index >= first + count)
            continue;
        dvg_store_u32(to + size, entry->index - first);
        dvg_store_u32(to + size + 4, 0);
        dvg_store_u64(to + size + 8, entry->nan);
        dvg_store_u64(to + size + 16, entry->pinf);
        dvg_store_u64(to + size + 24, entry->ninf);
        size += 32;
    }
    return (struct dvg_bytes){.data = to, .size = size};
}

static struct dvg_bytes pack_sketches(const struct trace_chunk *chunk, uint32_t first,
                                      uint32_t count, uint8_t *to)
{
    size_t floats = chunk->sketch_size * sizeof(float);
    size_t size = 0;

    for (uint32_t i = 0; i < chunk->n_sketches; i++) {
        uint32_t index = chunk->sketch_index[i];

        if (index < first || index >= first + count)
            continue;
        dvg_store_u32(to + size, index - first);
        dvg_store_u32(to + size + 4, 0);
        memcpy(to + size + 8, chunk->sketches + (size_t)i * chunk->sketch_size, floats);
        size += 8 + floats;
    }
    return (struct dvg_bytes){.data = to, .size = size};
}

/* One PART: records [first, first + count) of the chunk, whose lane begins at `lane_first`. */
static void put_part(struct encoder *encoder, const struct numbered *numbered, uint32_t lane_first,
                     uint32_t first, uint32_t count)
{
    const struct trace_chunk *chunk = numbered->chunk;
    struct dvg_part part = {
        .segment = numbered->segment,
        .tier = (uint8_t)numbered->tier,
        .lane = string_number(encoder, chunk->layout->sites[first]->lane),
        .count = count,
        .first = first - lane_first,
    };
    uint8_t *runs = allocate((size_t)count * 8);
    uint8_t *nonfinite = allocate((size_t)chunk->n_nonfinite * 32);
    uint8_t *sketches = allocate((size_t)chunk->n_sketches * (8 + chunk->sketch_size * 4));

    flush_definitions(encoder);
    part.site_runs = pack_site_runs(numbered->sites + first, count, runs);
    set_columns(&part, numbered, first);
    part.nonfinite = pack_nonfinite(chunk, first, count, nonfinite);
    part.sketches = pack_sketches(chunk, first, count, sketches);
    part.sketch_size = part.sketches.size ? chunk->sketch_size : 0;
    put_frame(encoder, dvg_part_encode(&encoder->frame, encoder->seq++, &part));
    free(runs);
    free(nonfinite);
    free(sketches);
    encoder->result->records += count;
}

static void put_chunk(struct encoder *encoder, const struct trace_chunk *chunk, uint64_t segment,
                      enum diverge_tier tier)
{
    struct numbered numbered = {.chunk = chunk, .segment = segment, .tier = tier};
    uint32_t most =
        PART_BYTES_MAX / (RECORD_BYTES + 40 + (chunk->n_sketches ? 4 * chunk->sketch_size : 0));
    uint32_t lane_first = 0;

    number_chunk(encoder, &numbered);
    for (uint32_t first = 0; first < chunk->count && !encoder->status;) {
        uint32_t end = first;

        if (strcmp(chunk->layout->sites[first]->lane, chunk->layout->sites[lane_first]->lane) != 0)
            lane_first = first;
        while (end < chunk->count && end - first < most &&
               !strcmp(chunk->layout->sites[end]->lane, chunk->layout->sites[first]->lane))
            end++;
        put_part(encoder, &numbered, lane_first, first, end - first);
        first = end;
    }
    free(numbered.sites);
    free(numbered.types);
}

/* ---- segments ------------------------------------------------------------------------------- */

/* The next segment with a row on any tier, with those rows; false: none. */
static bool next_segment(struct encoder *encoder, const struct trace_stream *stream, uint64_t from,
                         struct trace_head heads[DIVERGE_TIER_COUNT], uint64_t *ret)
{
    bool has[DIVERGE_TIER_COUNT] = {false};
    uint64_t least = UINT64_MAX;

    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        int status = stream->tiers[tier].present
                         ? encoder->source->head_from(encoder->source->ctx, stream->id,
                                                      (enum diverge_tier)tier, from, &heads[tier])
                         : DIVERGE_ENOTFOUND;

        has[tier] = status == 0;
        if (status && status != DIVERGE_ENOTFOUND && !encoder->status)
            encoder->status = status;
        if (has[tier] && heads[tier].segment < least)
            least = heads[tier].segment;
    }
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        if (!has[tier] || heads[tier].segment != least)
            heads[tier] = (struct trace_head){.segment = UINT64_MAX};
    *ret = least;
    return least != UINT64_MAX && !encoder->status;
}

/* The records of a tier; what retention removed is counted as dropped. */
static void put_tier(struct encoder *encoder, const struct trace_stream *stream,
                     enum diverge_tier tier, const struct trace_head *head, struct dvg_end *end)
{
    struct trace_chunk *chunk = NULL;
    int status =
        encoder->source->load(encoder->source->ctx, stream->id, tier, head->segment, &chunk);

    end->wanted |= (uint8_t)(1u << tier);
    if (head->unix_us <= DVG_SEQ_MAX)
        end->unix_us = head->unix_us;
    end->dropped[tier] = head->dropped;
    if (head->gap && !head->dropped) /* lost without a count */
        end->dropped[tier] = 1;
    if (status) {
        if (!encoder->status)
            encoder->status = status;
        return;
    }
    if (chunk->pruned) {
        end->dropped[tier] += head->records;
        encoder->result->pruned += head->records;
    } else {
        put_chunk(encoder, chunk, head->segment, tier);
        end->records[tier] = chunk->count;
    }
    encoder->source->release(encoder->source->ctx, chunk);
}

static void put_segment(struct encoder *encoder, const struct trace_stream *stream,
                        uint64_t segment, const struct trace_head heads[DIVERGE_TIER_COUNT])
{
    struct dvg_end end = {.segment = segment};
    bool sealed = true;

    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        if (heads[tier].segment != segment)
            continue;
        sealed = sealed && heads[tier].sealed;
        put_tier(encoder, stream, (enum diverge_tier)tier, &heads[tier], &end);
    }
    if (sealed && !encoder->status)
        put_frame(encoder, dvg_end_encode(&encoder->frame, encoder->seq++, &end));
    encoder->result->segments++;
}

/* ---- streams -------------------------------------------------------------------------------- */

static void make_stream_id(const struct trace_run *run, const struct trace_stream *stream,
                           uint8_t ret[16])
{
    uint64_t extent = stream->ended ? 1 : 0;
    uint64_t low;
    uint64_t high;

    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        extent = extent * UINT64_C(0x9e3779b97f4a7c15) + stream->tiers[tier].records +
                 (stream->tiers[tier].segments << 32);
    memcpy(&low, run->run_id, 8);
    memcpy(&high, run->run_id + 8, 8);
    low ^= UINT64_C(0x74726f7078652f67) ^ ((uint64_t)stream->rank << 20); /* "g/export" */
    high ^= extent * UINT64_C(0xbf58476d1ce4e5b9);
    memcpy(ret, &low, 8);
    memcpy(ret + 8, &high, 8);
}

static struct dvg_bytes bytes_of(const char *text)
{
    return (struct dvg_bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

static void put_hello(struct encoder *encoder, const struct trace_stream *stream)
{
    const struct trace_run *run = encoder->run;
    struct dvg_hello hello = {
        .major = DVG_PROTOCOL_MAJOR,
        .minor = DVG_PROTOCOL_MINOR,
        .epoch = 1,
        .rank = stream->rank,
        .world = run->world,
        .level = stream->level,
        .next_seq = 1,
        .run_name = bytes_of(run->name),
        .fingerprint_id = bytes_of(stream->fingerprint_id),
        .spec = bytes_of(stream->spec),
        .client = bytes_of("divergectl export " DIVERGE_VERSION),
    };

    memcpy(hello.run_id, run->run_id, sizeof(hello.run_id));
    make_stream_id(run, stream, hello.stream_id);
    put_frame(encoder, dvg_hello_encode(&encoder->frame, &hello));
}

/*
 * The rank that a key KEY@RANK belongs to: the reader names so what other ranks have otherwise. 0
 * for other keys; *ret_size is the size of KEY.
 */
static uint32_t rank_of_key(const struct trace_run *run, uint32_t at, size_t *ret_size)
{
    const char *key = run->metadata[at].key;
    const char *sign = strrchr(key, '@');
    uint64_t rank = 0;

    *ret_size = strlen(key);
    if (!sign || text_parse_u64(sign + 1, &rank) || rank > UINT32_MAX)
        return 0;
    for (uint32_t i = 0; i < run->n_metadata; i++) {
        const char *other = run->metadata[i].key;

        if (strlen(other) == (size_t)(sign - key) && !memcmp(other, key, (size_t)(sign - key))) {
            *ret_size = (size_t)(sign - key);
            return (uint32_t)rank;
        }
    }
    return 0;
}

static void put_object(struct encoder *encoder, const cJSON *object)
{
    struct dvg_buffer text;

    dvg_buffer_init(&text, DVG_CONTROL_MAX);
    int status = json_print(object, &text);
    const struct dvg_metadata message = {.json = {.data = text.data, .size = text.size}};

    put_frame(encoder,
              status ? status : dvg_metadata_encode(&encoder->frame, encoder->seq++, &message));
    dvg_buffer_fini(&text);
}

/* What the run has of this stream's rank; of the first stream also what has no rank. */
static void put_metadata(struct encoder *encoder, uint32_t rank, bool first)
{
    const struct trace_run *run = encoder->run;
    cJSON *object = cJSON_CreateObject();
    int status = object ? 0 : DIVERGE_ENOMEM;
    int entries = 0;

    for (uint32_t i = 0; i < run->n_metadata && !status; i++) {
        size_t size = 0;
        uint32_t of = rank_of_key(run, i, &size);

        if (run->metadata[i].key[size] == '@' ? of != rank : !first)
            continue;
        status =
            json_add_string(object, mem_copy(run->metadata[i].key, size), run->metadata[i].value);
        if (++entries % METADATA_ENTRIES != 0 || status)
            continue;
        put_object(encoder, object);
        cJSON_Delete(object);
        object = cJSON_CreateObject();
        status = object ? 0 : DIVERGE_ENOMEM;
    }
    if (!status && entries % METADATA_ENTRIES)
        put_object(encoder, object);
    if (status && !encoder->status)
        encoder->status = status;
    cJSON_Delete(object);
}

static void begin_stream(struct encoder *encoder)
{
    encoder->seq = 1;
    for (int kind = 0; kind < ITEM_KINDS; kind++) {
        intern_fini(&encoder->interns[kind]);
        dvg_buffer_clear(&encoder->pending[kind].items);
        encoder->pending[kind].count = 0;
    }
}

static void put_stream(struct encoder *encoder, const struct trace_stream *stream, bool first)
{
    struct trace_head heads[DIVERGE_TIER_COUNT];
    const struct dvg_bye bye = {.outcome = (uint8_t)stream->outcome, .dropped = stream->dropped};
    uint64_t segment = 0;

    begin_stream(encoder);
    put_hello(encoder, stream);
    put_metadata(encoder, stream->rank, first);
    while (!encoder->status && next_segment(encoder, stream, segment, heads, &segment)) {
        put_segment(encoder, stream, segment, heads);
        segment++;
        progress_update(encoder->result->records, encoder->total);
    }
    if (stream->ended)
        put_frame(encoder, dvg_bye_encode(&encoder->frame, encoder->seq++, &bye));
    encoder->result->streams++;
}

static uint64_t count_records(const struct trace_run *run)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < run->n_streams; i++)
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            total += run->streams[i].tiers[tier].records;
    return total;
}

int encode_run(const struct source_run *run, FILE *file, struct encode_result *ret)
{
    struct encoder encoder = {.run = run->trace,
                              .source = run->source,
                              .file = file,
                              .result = ret,
                              .total = count_records(run->trace)};

    *ret = (struct encode_result){.bytes = DVG_FILE_HEADER};
    dvg_buffer_init(&encoder.frame, DVG_FRAME_MAX + DVG_FRAME_HEADER);
    for (int kind = 0; kind < ITEM_KINDS; kind++)
        dvg_buffer_init(&encoder.pending[kind].items, DVG_FRAME_MAX);
    if (fwrite(dvg_file_header, 1, DVG_FILE_HEADER, file) != DVG_FILE_HEADER)
        encoder.status = DIVERGE_EIO;
    for (uint32_t i = 0; i < run->trace->n_streams && !encoder.status; i++)
        put_stream(&encoder, &run->trace->streams[i], i == 0);
    begin_stream(&encoder);
    for (int kind = 0; kind < ITEM_KINDS; kind++)
        dvg_buffer_fini(&encoder.pending[kind].items);
    dvg_buffer_fini(&encoder.frame);
    return encoder.status;
}
