/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/search.h"

#include <string.h>

#include <diverge/error.h>

/* ---- what a pairing compares ----------------------------------------------------------------- */

static bool track_is_present(const struct trace_stream *stream, int tier)
{
    return stream->tiers[tier].present && stream->tiers[tier].segments > 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The first boundary of a side with a row on any tier. */
static uint64_t first_boundary(struct engine *engine, int side, const struct trace_stream *stream)
{
    uint64_t first = NO_SEGMENT;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        struct trace_head head;
        if (!track_is_present(stream, tier))
            continue;
        uint64_t start = side_number(engine, side, stream->tiers[tier].first);
        if (stream->tiers[tier].first == 0 || start == NO_SEGMENT)
            start = side_head_from(engine, side, stream, (enum diverge_tier)tier, 1, &head)
                        ? head.segment
                        : NO_SEGMENT;
        first = least(first, start);
    }
    /* Steps before any boundary row: the boundary before them has no records of its own. */
    return first != NO_SEGMENT && segment_is_step(first) ? first - 1 : first;
}

static uint64_t last_segment(const struct engine *engine, int side,
                             const struct trace_stream *stream)
{
    uint64_t last = NO_SEGMENT;
    for (int tier = 0; tier <= DIVERGE_TIER_OP; tier++) {
        if (!track_is_present(stream, tier))
            continue;
        uint64_t number = side_number(engine, side, stream->tiers[tier].last);
        if (number != NO_SEGMENT && (last == NO_SEGMENT || number > last))
            last = number;
    }
    return last;
}

/* Gaps before the comparison starts do not matter; later ones are met row by row. */
static void find_gaps(const struct engine *engine, struct pairing *pairing)
{
    pairing->first_gap = pairing->first_unread = NO_SEGMENT;
    for (int side = 0; side < SIDES; side++)
        for (int tier = 0; tier <= DIVERGE_TIER_OP; tier++) {
            const struct trace_track *track = &pairing->stream[side]->tiers[tier];
            if (!pairing->tier[tier])
                continue;
            uint64_t gap = side_number(engine, side, track->first_gap);
            uint64_t unread = side_number(engine, side, track->first_unread);
            if (track->has_gap && gap >= pairing->low)
                pairing->first_gap = least(pairing->first_gap, gap);
            if (track->unread > 0 && unread >= pairing->low)
                pairing->first_unread = least(pairing->first_unread, unread);
        }
}

static void find_limits(struct engine *engine, struct pairing *pairing)
{
    const struct engine_options *options = engine->options;
    uint64_t a = pairing->first_boundary[SIDE_A], b = pairing->first_boundary[SIDE_B];
    pairing->low = pairing->resumed >= 0 ? pairing->first_boundary[pairing->resumed] : 0;
    if (options->first_step > 0 && options->first_step < NO_SEGMENT / 4) {
        uint64_t wanted = diverge_segment_of_boundary(options->first_step);
        pairing->low = wanted > pairing->low ? wanted : pairing->low;
    }
    uint64_t end_a = last_segment(engine, SIDE_A, pairing->stream[SIDE_A]);
    uint64_t end_b = last_segment(engine, SIDE_B, pairing->stream[SIDE_B]);
    pairing->high = least(end_a, end_b);
    if (options->last_step < NO_SEGMENT / 4)
        pairing->high = least(pairing->high, diverge_segment_of_boundary(options->last_step + 1));
    bool nothing = end_a == NO_SEGMENT || end_b == NO_SEGMENT ||
                   (pairing->resumed >= 0 && (a == NO_SEGMENT || b == NO_SEGMENT));
    if (nothing) {
        pairing->low = 1;
        pairing->high = 0;
    }
}

void pairing_init(struct engine *engine, struct pairing *pairing)
{
    const struct trace_stream *a = pairing->stream[SIDE_A], *b = pairing->stream[SIDE_B];
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        pairing->tier[tier] = track_is_present(a, tier) && track_is_present(b, tier);
    pairing->same_spec = strcmp(a->spec, b->spec) == 0;
    pairing->comparable_chains =
        pairing->same_spec && engine->shift == 0 && engine->options->n_map == 0;
    pairing->first_boundary[SIDE_A] = first_boundary(engine, SIDE_A, a);
    pairing->first_boundary[SIDE_B] = first_boundary(engine, SIDE_B, b);
    pairing->resumed = -1;
    if (pairing->first_boundary[SIDE_A] != pairing->first_boundary[SIDE_B])
        pairing->resumed =
            pairing->first_boundary[SIDE_A] > pairing->first_boundary[SIDE_B] ? SIDE_A : SIDE_B;
    else if (engine->shift != 0)
        pairing->resumed = engine->shift > 0 ? SIDE_B : SIDE_A;
    find_limits(engine, pairing);
    find_gaps(engine, pairing);
}

/* ---- chains --------------------------------------------------------------------------------- */

static bool chains_equal_through(struct engine *engine, const struct pairing *pairing,
                                 enum diverge_tier tier, uint64_t segment)
{
    struct trace_head a, b;
    bool has_a = side_head_at(engine, SIDE_A, pairing->stream[SIDE_A], tier, segment, &a);
    bool has_b = side_head_at(engine, SIDE_B, pairing->stream[SIDE_B], tier, segment, &b);
    if (!has_a || !has_b)
        return has_a == has_b;
    return a.segment == b.segment && !digest_is_none(&a.chain) &&
           digest_equal(&a.chain, &b.chain) && a.rows_through == b.rows_through;
}

/* How far chains may be compared; false: not at all. */
static bool chain_limit(const struct pairing *pairing, enum diverge_tier tier, uint64_t *ret)
{
    const struct trace_track *a = &pairing->stream[SIDE_A]->tiers[tier];
    const struct trace_track *b = &pairing->stream[SIDE_B]->tiers[tier];
    uint64_t limit = pairing->high;
    if (!pairing->comparable_chains || digest_is_none(&a->start) ||
        !digest_equal(&a->start, &b->start) || a->first != b->first)
        return false;
    for (int side = 0; side < SIDES; side++) {
        const struct trace_track *track = side == SIDE_A ? a : b;
        if (track->has_gap && track->first_gap == 0)
            return false;
        if (track->has_gap)
            limit = least(limit, track->first_gap - 1);
    }
    *ret = limit;
    return limit >= pairing->low;
}

/*
 * The last segment of [low, limit] through which chains are equal; NO_SEGMENT: not even low. The
 * end is tried first, then the segment before it: tiers that differ mostly do so in the same
 * segment.
 */
static uint64_t search_chains(struct engine *engine, const struct pairing *pairing,
                              enum diverge_tier tier, uint64_t low, uint64_t limit)
{
    if (low > 0 && !chains_equal_through(engine, pairing, tier, low - 1))
        return NO_SEGMENT;
    if (chains_equal_through(engine, pairing, tier, limit))
        return limit;
    if (limit > low && chains_equal_through(engine, pairing, tier, limit - 1))
        return limit - 1;
    if (!chains_equal_through(engine, pairing, tier, low))
        return NO_SEGMENT;
    uint64_t equal = low, differs = limit;
    while (differs - equal > 1) {
        uint64_t middle = equal + (differs - equal) / 2;
        if (chains_equal_through(engine, pairing, tier, middle))
            equal = middle;
        else
            differs = middle;
    }
    return equal;
}

/* ---- rows one by one ------------------------------------------------------------------------- */

static bool rows_equal(const struct trace_head *a, const struct trace_head *b)
{
    return a->sealed && b->sealed && !a->gap && !b->gap && !digest_is_none(&a->digest) &&
           digest_equal(&a->digest, &b->digest);
}

static void count_segment(struct scan *scan, uint64_t segment)
{
    scan->rows++;
    if (segment_is_boundary(segment))
        scan->boundaries++;
    else if (segment != 0)
        scan->steps++;
}

static void scan_rows(struct engine *engine, const struct pairing *pairing, struct scan *scan,
                      uint64_t from)
{
    scan->next = NO_SEGMENT;
    while (from <= pairing->high) {
        struct trace_head head[SIDES];
        bool has[SIDES];
        uint64_t segment = NO_SEGMENT;
        for (int side = 0; side < SIDES; side++) {
            has[side] =
                side_head_from(engine, side, pairing->stream[side], scan->tier, from, &head[side]);
            if (has[side])
                segment = least(segment, head[side].segment);
        }
        if (segment > pairing->high)
            return;
        engine_tick(engine, pairing->high);
        for (int side = 0; side < SIDES; side++)
            has[side] = has[side] && head[side].segment == segment;
        if (has[SIDE_A] && has[SIDE_B] && !rows_equal(&head[SIDE_A], &head[SIDE_B])) {
            scan->next = segment;
            return;
        }
        if (has[SIDE_A] && has[SIDE_B]) {
            count_segment(scan, segment);
            scan->records += head[SIDE_A].records;
        } else {
            scan->only[has[SIDE_A] ? SIDE_A : SIDE_B] +=
                head[has[SIDE_A] ? SIDE_A : SIDE_B].records;
        }
        from = segment + 1;
    }
}

void scan_start(struct engine *engine, const struct pairing *pairing, enum diverge_tier tier,
                uint64_t end, struct scan *ret)
{
    *ret = (struct scan){.tier = tier, .next = NO_SEGMENT, .equal_through = NO_SEGMENT};
    uint64_t limit;
    if (pairing->low > pairing->high)
        return;
    if (chain_limit(pairing, tier, &limit)) {
        uint64_t near = end >= pairing->low ? least(limit, end) : limit;
        ret->equal_through = search_chains(engine, pairing, tier, pairing->low, near);
        ret->deferred = near < limit && ret->equal_through == near;
        if (ret->deferred)
            return;
    }
    scan_rows(engine, pairing, ret,
              ret->equal_through == NO_SEGMENT ? pairing->low : ret->equal_through + 1);
}

void scan_advance(struct engine *engine, const struct pairing *pairing, struct scan *scan)
{
    count_segment(scan, scan->next);
    scan_rows(engine, pairing, scan, scan->next + 1);
}

void scan_resume(struct engine *engine, const struct pairing *pairing, struct scan *scan)
{
    uint64_t limit;
    scan->deferred = false;
    if (chain_limit(pairing, scan->tier, &limit)) {
        uint64_t equal = search_chains(engine, pairing, scan->tier, scan->equal_through + 1, limit);
        scan->equal_through = equal == NO_SEGMENT ? scan->equal_through : equal;
    }
    scan_rows(engine, pairing, scan, scan->equal_through + 1);
}

/* ---- counting ------------------------------------------------------------------------------- */

static void count_by_walking(struct engine *engine, const struct pairing *pairing,
                             struct scan *scan, uint64_t end)
{
    struct trace_head head;
    uint64_t from = pairing->low;
    while (from < end &&
           side_head_from(engine, SIDE_A, pairing->stream[SIDE_A], scan->tier, from, &head) &&
           head.segment < end) {
        engine_tick(engine, end);
        count_segment(scan, head.segment);
        scan->records += head.records;
        from = head.segment + 1;
    }
}

/*
 * Rows of [first, last] without holes, or all of one kind: how many are boundaries is arithmetic.
 */
static bool split_rows(struct scan *scan, uint64_t first, uint64_t last, uint64_t rows)
{
    uint64_t span = last - first + 1;
    if (rows == span) {
        uint64_t boundaries = (last + 1) / 2 - first / 2;
        scan->boundaries += boundaries;
        scan->steps += span - boundaries - (first == 0);
        scan->rows += rows;
        return true;
    }
    if (first > 0 && rows > 0 && (first & 1) == (last & 1) && rows - 1 == (last - first) / 2 &&
        !((last - first) & 1)) {
        *(segment_is_boundary(first) ? &scan->boundaries : &scan->steps) += rows;
        scan->rows += rows;
        return true;
    }
    return false;
}

void scan_count(struct engine *engine, const struct pairing *pairing, struct scan *scan,
                uint64_t end)
{
    const struct trace_stream *stream = pairing->stream[SIDE_A];
    struct trace_head first, last, before;
    if (scan->equal_through == NO_SEGMENT || pairing->low >= end)
        return;
    end = least(end, scan->equal_through + 1);
    if (!side_head_from(engine, SIDE_A, stream, scan->tier, pairing->low, &first) ||
        first.segment >= end || !side_head_at(engine, SIDE_A, stream, scan->tier, end - 1, &last))
        return;
    uint64_t rows = last.rows_through, records = last.records_through;
    if (pairing->low > 0 &&
        side_head_at(engine, SIDE_A, stream, scan->tier, pairing->low - 1, &before)) {
        rows -= before.rows_through;
        records -= before.records_through;
    }
    if (last.rows_through == 0 || !split_rows(scan, first.segment, last.segment, rows))
        count_by_walking(engine, pairing, scan, end);
    else
        scan->records += records;
}

uint64_t search_last_boundary(struct engine *engine, const struct pairing *pairing,
                              enum diverge_tier tier, uint64_t end)
{
    uint64_t at = end;
    while (at > pairing->low && at > 0) {
        struct trace_head a, b;
        if (!side_head_at(engine, SIDE_A, pairing->stream[SIDE_A], tier, at - 1, &a) ||
            !side_head_at(engine, SIDE_B, pairing->stream[SIDE_B], tier, at - 1, &b))
            return NO_SEGMENT;
        uint64_t segment = least(a.segment, b.segment);
        if (a.segment == b.segment && segment_is_boundary(segment))
            return segment >= pairing->low ? segment : NO_SEGMENT;
        at = a.segment == b.segment ? segment : segment + 1;
    }
    return NO_SEGMENT;
}

/* ---- the offset of a resumed run ------------------------------------------------------------- */

/*
 * Boundaries loaded before giving up: two fresh runs of other seeds must not wait for a search
 * through all of their boundaries. --offset says it for runs that resumed later than that.
 */
enum { SHIFT_BOUNDARIES = 1024 };

static uint64_t parameter_name(const struct trace_site *site)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const char *texts[] = {site->scope, site->name};
    for (int i = 0; i < 2; i++) {
        for (const char *text = texts[i]; *text; text++)
            hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        hash = (hash ^ 0x1f) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Parameters of a boundary as (name, checksum); order matters only between equal names. */
struct parameters {
    uint64_t *names, *values;
    size_t count;
};

static bool read_parameters(struct engine *engine, int side, const struct trace_stream *stream,
                            uint64_t segment, struct parameters *ret)
{
    const struct trace_chunk *chunk = side_load(engine, side, stream, DIVERGE_TIER_STEP, segment);
    if (!chunk || chunk->pruned)
        return false;
    *ret = (struct parameters){.names = POOL_ARRAY(&engine->scratch, uint64_t, chunk->count),
                               .values = POOL_ARRAY(&engine->scratch, uint64_t, chunk->count)};
    for (uint32_t i = 0; i < chunk->count; i++) {
        const struct trace_site *site = chunk->layout->sites[i];
        if (site->role != DIVERGE_ROLE_PARAM)
            continue;
        ret->names[ret->count] = parameter_name(site);
        ret->values[ret->count++] = chunk->value[i];
    }
    return ret->count > 0;
}

/* How many of the wanted parameters this chunk has; it is looked at in their order, which hardly
 * ever changes. */
static size_t count_parameters(const struct trace_chunk *chunk, const struct parameters *wanted)
{
    size_t n = 0, equal = 0;
    for (uint32_t i = 0; i < chunk->count && n < wanted->count; i++) {
        const struct trace_site *site = chunk->layout->sites[i];
        if (site->role != DIVERGE_ROLE_PARAM)
            continue;
        equal += wanted->names[n] == parameter_name(site) && wanted->values[n] == chunk->value[i];
        n++;
    }
    return equal;
}

/*
 * The boundary that has all the parameters; else the one that has most of them, where that is more
 * than half of all and more than `known`, which the start has: a resume that left some as they were
 * initialised.
 */
static uint64_t find_parameters(struct engine *engine, int side, const struct trace_stream *stream,
                                uint64_t from, const struct parameters *wanted, size_t known)
{
    struct trace_head head;
    uint64_t found = NO_SEGMENT;
    size_t most = known > wanted->count / 2 ? known : wanted->count / 2;
    for (int n = 0; n < SHIFT_BOUNDARIES; n++) {
        if (!side_head_from(engine, side, stream, DIVERGE_TIER_STEP, from, &head))
            return found;
        engine_tick(engine, stream->tiers[DIVERGE_TIER_STEP].last);
        from = head.segment + 1;
        if (!segment_is_boundary(head.segment))
            continue;
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk =
            side_load(engine, side, stream, DIVERGE_TIER_STEP, head.segment);
        size_t equal = chunk && !chunk->pruned ? count_parameters(chunk, wanted) : 0;
        engine_release(engine, mark);
        if (equal == wanted->count)
            return head.segment;
        if (equal > most) {
            most = equal;
            found = head.segment;
        }
    }
    return found;
}

/*
 * A parameter that both sides start with and that training changes right away on `side`: both are
 * at the start of training, so neither resumed.
 */
static bool starts_afresh(struct engine *engine, int side, const struct trace_stream *stream,
                          const struct parameters first[SIDES])
{
    struct trace_head head;
    struct parameters next;
    uint64_t from = diverge_segment_of_boundary(0) + 1;
    do {
        if (!side_head_from(engine, side, stream, DIVERGE_TIER_STEP, from, &head))
            return false;
        from = head.segment + 1;
    } while (!segment_is_boundary(head.segment));
    if (!read_parameters(engine, side, stream, head.segment, &next))
        return false;
    size_t n =
        first[SIDE_A].count < first[SIDE_B].count ? first[SIDE_A].count : first[SIDE_B].count;
    for (size_t i = 0; i < n && i < next.count; i++)
        if (first[SIDE_A].names[i] == first[SIDE_B].names[i] &&
            first[SIDE_A].values[i] == first[SIDE_B].values[i] &&
            next.names[i] == first[SIDE_A].names[i] && next.values[i] != first[SIDE_A].values[i])
            return true;
    return false;
}

static bool both_are_fresh(struct engine *engine, const struct trace_stream *const streams[SIDES],
                           const struct parameters first[SIDES])
{
    for (int side = 0; side < SIDES; side++)
        if (starts_afresh(engine, side, streams[side], first))
            return true;
    return false;
}

/*
 * How far behind its start each side has what the other one starts with. Where both have it (a
 * state that comes back), the nearer one counts, and neither when they are as near: A and B may be
 * exchanged.
 */
static int64_t resumed_at(struct engine *engine, const struct trace_stream *const streams[SIDES],
                          const struct parameters first[SIDES], size_t equal)
{
    uint64_t start = diverge_segment_of_boundary(0);
    uint64_t in_a =
        find_parameters(engine, SIDE_A, streams[SIDE_A], start + 1, &first[SIDE_B], equal);
    uint64_t in_b =
        find_parameters(engine, SIDE_B, streams[SIDE_B], start + 1, &first[SIDE_A], equal);
    if (in_a == in_b)
        return 0;
    if (in_b == NO_SEGMENT || (in_a != NO_SEGMENT && in_a < in_b))
        return (int64_t)(in_a - start);
    return -(int64_t)(in_b - start);
}

/* Whether B's boundary 0 is a later boundary of A, or the other way round. */
static int64_t find_shift(struct engine *engine, const struct trace_stream *a,
                          const struct trace_stream *b)
{
    const struct trace_stream *const streams[SIDES] = {a, b};
    struct parameters first[SIDES];
    uint64_t start = diverge_segment_of_boundary(0);
    struct trace_head head[SIDES];
    if (side_head(engine, SIDE_A, a, DIVERGE_TIER_STEP, start, &head[SIDE_A]) &&
        side_head(engine, SIDE_B, b, DIVERGE_TIER_STEP, start, &head[SIDE_B]) &&
        !digest_is_none(&head[SIDE_A].digest) &&
        digest_equal(&head[SIDE_A].digest, &head[SIDE_B].digest))
        return 0;
    for (int side = 0; side < SIDES; side++)
        if (!read_parameters(engine, side, streams[side], start, &first[side]))
            return 0;
    size_t count = first[SIDE_A].count, equal = 0;
    if (count > first[SIDE_B].count)
        count = first[SIDE_B].count;
    for (size_t i = 0; i < count; i++)
        equal += first[SIDE_A].names[i] == first[SIDE_B].names[i] &&
                 first[SIDE_A].values[i] == first[SIDE_B].values[i];
    if (equal == count || (2 * equal > count && both_are_fresh(engine, streams, first)))
        return 0;
    return resumed_at(engine, streams, first, equal);
}

int64_t search_shift(struct engine *engine, const struct trace_stream *a,
                     const struct trace_stream *b)
{
    const struct engine_options *options = engine->options;
    if (options->offset != INT64_MIN)
        return options->offset * 2;
    if (!track_is_present(a, DIVERGE_TIER_STEP) || !track_is_present(b, DIVERGE_TIER_STEP))
        return 0;
    size_t mark = engine_mark(engine);
    engine->shift = 0;
    int64_t shift = find_shift(engine, a, b);
    engine_release(engine, mark);
    return shift;
}
