/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/tree_rows.h"

#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/context.h"

enum { LEVEL_TIERS = DIVERGE_TIER_OP + 1 };

static bool is_wanted(const struct trace_stream *stream, int64_t rank)
{
    return rank < 0 || stream->rank == rank;
}

static bool is_whole(const struct trace_track *track, uint64_t segment)
{
    return !(track->has_gap && track->first_gap <= segment) &&
           !(track->unread > 0 && track->first_unread <= segment);
}

static int load_row(const struct trace_source *source, struct tree_row *row, uint64_t segment)
{
    const struct trace_track *track = &row->stream->tiers[row->tier];
    if (!track->present || track->segments == 0)
        return 0;
    int status = source->head_at(source->ctx, row->stream->id, row->tier, segment, &row->head);
    row->present = status == 0;
    row->whole = is_whole(track, segment);
    return status == DIVERGE_ENOTFOUND ? 0 : status;
}

int tree_rows_load(struct pool *arena, const struct tree_input *input, int64_t rank,
                   uint64_t segment, struct tree_rows *ret)
{
    const struct trace_run *run = input->run;
    struct tree_rows rows = {
        .segment = segment,
        .rows = POOL_ARRAY(arena, struct tree_row, (size_t)run->n_streams * LEVEL_TIERS)};
    for (uint32_t i = 0; i < run->n_streams; i++)
        for (int tier = 0; is_wanted(&run->streams[i], rank) && tier < LEVEL_TIERS; tier++) {
            struct tree_row *row = &rows.rows[rows.count++];
            row->stream = &run->streams[i];
            row->tier = (enum diverge_tier)tier;
            int status = load_row(input->source, row, segment);
            if (status < 0)
                return status;
        }
    *ret = rows;
    return 0;
}

static bool same_place(const struct tree_row *a, const struct tree_row *b)
{
    return a->stream->rank == b->stream->rank && a->tier == b->tier &&
           strcmp(a->stream->fingerprint_id, b->stream->fingerprint_id) == 0;
}

/* Chains mean the same only from an equal start on. */
static bool row_equal(const struct tree_row *a, const struct tree_row *b)
{
    const struct trace_track *track_a = &a->stream->tiers[a->tier];
    const struct trace_track *track_b = &b->stream->tiers[b->tier];
    if (track_a->present != track_b->present || a->present != b->present)
        return false;
    if (!a->present)
        return true;
    return a->whole && b->whole && strcmp(a->stream->spec, b->stream->spec) == 0 &&
           digest_equal(&track_a->start, &track_b->start) && track_a->first == track_b->first &&
           a->head.segment == b->head.segment && !digest_is_none(&a->head.chain) &&
           digest_equal(&a->head.chain, &b->head.chain);
}

bool tree_rows_equal(const struct tree_rows *a, const struct tree_rows *b)
{
    bool compared = false;
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (!same_place(&a->rows[i], &b->rows[i]) || !row_equal(&a->rows[i], &b->rows[i]))
            return false;
        compared = compared || a->rows[i].present;
    }
    return compared;
}

static bool is_sound(const struct tree_row *row, uint64_t segment)
{
    const struct trace_head *head = &row->head;
    return row->present && head->segment == segment && head->sealed && !head->gap &&
           head->unread == 0 && !digest_is_none(&head->digest) && !digest_is_none(&head->layout);
}

bool tree_rows_differ(const struct tree_rows *a, const struct tree_rows *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct tree_row *x = &a->rows[i], *y = &b->rows[i];
        if (same_place(x, y) && is_sound(x, a->segment) && is_sound(y, b->segment) &&
            digest_equal(&x->head.layout, &y->head.layout) &&
            !digest_equal(&x->head.digest, &y->head.digest))
            return true;
    }
    return false;
}

int tree_rows_end(struct pool *arena, const struct tree_input *input, int64_t rank,
                  struct trace_head **ret, uint32_t *ret_count)
{
    const struct trace_run *run = input->run;
    struct trace_head *heads = POOL_ARRAY(arena, struct trace_head, run->n_streams);
    uint32_t count = 0;
    *ret_count = 0;
    for (uint32_t i = 0; i < run->n_streams; i++) {
        struct tree_row row = {.stream = &run->streams[i], .tier = DIVERGE_TIER_STEP};
        if (!is_wanted(row.stream, rank))
            continue;
        int status = load_row(input->source, &row, row.stream->tiers[DIVERGE_TIER_STEP].last);
        if (status < 0)
            return status;
        if (!is_sound(&row, row.head.segment) || !segment_is_boundary(row.head.segment) ||
            row.head.records == 0)
            return 0;
        heads[count++] = row.head;
    }
    *ret = heads;
    *ret_count = count;
    return 0;
}
