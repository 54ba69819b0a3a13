/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/records.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"
#include "client/wire/message.h"

/* ---- RUN[@STEP[.RANK]] ---------------------------------------------------------------------- */

static bool parse_segment(const char *text, uint64_t *ret)
{
    bool boundary = *text == 'b';
    uint64_t k = 0;

    if (!strcmp(text, "init")) {
        *ret = 0;
        return true;
    }
    if (text_parse_u64(text + boundary, &k) || k > UINT64_MAX / 4)
        return false;
    *ret = boundary ? diverge_segment_of_boundary(k) : diverge_segment_of_step(k);
    return true;
}

int records_parse(const char *text, const char **ret_run, struct records_where *ret)
{
    const char *at = strrchr(text, '@');

    *ret = (struct records_where){.whole = true, .rank = -1, .tier = -1};
    *ret_run = text;
    if (!at || at == text) /* @last and @prev begin with one */
        return EX_OK;
    char *segment = mem_string(at + 1);
    char *dot = strchr(segment, '.');
    uint64_t rank = 0;

    if (dot) {
        *dot = '\0';
        if (text_parse_u64(dot + 1, &rank) || rank > UINT32_MAX)
            return ctl_fail(EX_USAGE, "\"%s\" is no rank, in \"%s\"", text_escape(dot + 1),
                            text_escape(text));
        ret->rank = (int64_t)rank;
    }
    if (!parse_segment(segment, &ret->segment))
        return ctl_fail(EX_USAGE,
                        "\"%s\" is no segment: a step is a number, a boundary b and a number, "
                        "the initialisation init",
                        text_escape(segment));
    ret->whole = false;
    *ret_run = mem_copy(text, (size_t)(at - text));
    return EX_OK;
}

const struct trace_track *records_longest_track(const struct trace_stream *stream)
{
    const struct trace_track *best = NULL;

    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        const struct trace_track *track = &stream->tiers[tier];

        if (track->present && (!best || track->last > best->last))
            best = track;
    }
    return best;
}

/* ---- loading -------------------------------------------------------------------------------- */

static uint64_t elements(const struct trace_type *type)
{
    uint64_t count = 1;

    for (int32_t i = 0; i < type->ndim; i++)
        count *= (uint64_t)type->sizes[i];
    return count;
}

static void add_non_finite(const struct trace_chunk *chunk, uint32_t index,
                           struct engine_side *side)
{
    uint32_t low = 0;
    uint32_t high = chunk->n_nonfinite;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (chunk->nonfinite[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == chunk->n_nonfinite || chunk->nonfinite[low].index != index)
        return;
    side->nan = chunk->nonfinite[low].nan;
    side->pinf = chunk->nonfinite[low].pinf;
    side->ninf = chunk->nonfinite[low].ninf;
}

int records_side(const struct trace_source *source, const struct trace_chunk *chunk, uint32_t index,
                 struct engine_side *ret)
{
    const struct trace_type *type = chunk->types[chunk->type[index]];
    struct engine_side side = {
        .present = true,
        .state = chunk->state ? chunk->state[index] : 0,
        .kind = type->kind,
        .dtype = type->dtype,
        .ndim = type->ndim,
        .sizes = type->sizes,
        .value = chunk->value[index],
        .argument = chunk->argument ? chunk->argument[index] : 0,
        .source = chunk->source && *chunk->source[index] ? chunk->source[index] : NULL,
    };

    side.unread = side.state & DVG_STATE_UNREAD;
    side.has_stats = side.state & DVG_STATE_STATS;
    side.numel = type->kind == DIVERGE_KIND_TENSOR ? elements(type) : 0;
    if (type->dtype == DIVERGE_C64 || type->dtype == DIVERGE_C128)
        side.numel *= 2; /* statistics are over components */
    side.min = chunk->min ? chunk->min[index] : 0;
    side.max = chunk->max ? chunk->max[index] : 0;
    side.zero = chunk->zero ? chunk->zero[index] : 0;
    side.sum = chunk->sum ? chunk->sum[index] : 0;
    side.l2 = chunk->l2 ? chunk->l2[index] : 0;
    if (side.state & DVG_STATE_NONFINITE)
        add_non_finite(chunk, index, &side);
    int status =
        side.argument ? source->argument_text(source->ctx, side.argument, &side.argument_text) : 0;

    if (status && status != DIVERGE_ENOTFOUND)
        return status;
    *ret = side;
    return 0;
}

static int append(struct record_list *list, const struct trace_stream *stream,
                  const struct trace_chunk *chunk)
{
    size_t total = list->count + chunk->count;
    struct record *records = realloc(list->records, (total ? total : 1) * sizeof(*records));

    if (!records)
        exit(ctl_fail(EX_SOFTWARE, "out of memory"));
    list->records = records;
    for (uint32_t i = 0; i < chunk->count; i++) {
        struct record *record = &records[list->count + i];

        *record = (struct record){
            .rank = stream->rank,
            .order = chunk->order ? chunk->order[i] : i,
            .site = chunk->layout->sites[i],
        };
        int status = records_side(list->source, chunk, i, &record->side);

        if (status)
            return status;
    }
    list->count = total;
    return 0;
}

static int load_tier(struct record_list *list, const struct trace_stream *stream,
                     enum diverge_tier tier, uint64_t segment)
{
    struct trace_chunk *chunk = NULL;
    int status = list->source->load(list->source->ctx, stream->id, tier, segment, &chunk);

    if (status == DIVERGE_ENOTFOUND)
        return 0;
    if (status)
        return status;
    list->chunks[list->n_chunks++] = chunk;
    if (!chunk->pruned)
        return append(list, stream, chunk);
    list->pruned += chunk->count;
    return 0;
}

static int by_lane_order(const void *left, const void *right)
{
    const struct record *a = left;
    const struct record *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int lanes = strcmp(a->site->lane, b->site->lane);

    if (lanes)
        return lanes;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    return (int)a->site->tier - (int)b->site->tier;
}

int records_load(const struct source_run *run, const struct records_where *where,
                 struct record_list *ret)
{
    const struct trace_run *trace = run->trace;
    int status = 0;

    *ret = (struct record_list){.source = run->source};
    ret->chunks =
        mem_alloc((size_t)trace->n_streams * DIVERGE_TIER_COUNT * sizeof(struct trace_chunk *) + 1);
    for (uint32_t i = 0; i < trace->n_streams && !status; i++) {
        const struct trace_stream *stream = &trace->streams[i];

        if (where->rank >= 0 && stream->rank != (uint32_t)where->rank)
            continue;
        for (int tier = 0; tier < DIVERGE_TIER_COUNT && !status; tier++)
            if (where->tier < 0 || where->tier == tier)
                status = load_tier(ret, stream, (enum diverge_tier)tier, where->segment);
    }
    if (status) {
        records_free(ret);
        return ctl_fail_error(status, text_segment(where->segment), NULL);
    }
    if (!ret->n_chunks)
        return ctl_fail(EX_NOINPUT, "%s has nothing recorded at %s%s", run->as,
                        text_segment(where->segment),
                        where->rank >= 0 ? mem_printf(", rank %lld", (long long)where->rank) : "");
    if (ret->count)
        qsort(ret->records, ret->count, sizeof(*ret->records), by_lane_order);
    return EX_OK;
}

void records_free(struct record_list *list)
{
    for (size_t i = 0; i < list->n_chunks; i++)
        list->source->release(list->source->ctx, list->chunks[i]);
    free(list->records);
    *list = (struct record_list){0};
}
