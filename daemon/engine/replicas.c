/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/replicas.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>
#include <diverge/names.h>

#include "daemon/engine/align.h"
#include "daemon/engine/finding.h"
#include "daemon/engine/search.h"

enum { DATA_STEPS = 8, MAX_NOTES = 100 };

struct owned_replicas {
    struct replicas replicas;
    struct pool arena;
};

/* A copy that differs: the place, and how early it is. */
struct odd {
    uint64_t segment; /* NO_SEGMENT: none */
    uint32_t index;   /* of the record in its boundary, on the first rank */
    uint32_t category;
    const struct trace_stream *a, *b;
    bool after_gap;
};

struct checker {
    struct engine engine;
    struct engine_answer answer; /* the engine writes its reasons here */
    struct owned_replicas *owned;
    struct replicas *to;
    const struct trace_run *run;
    struct odd first;
    size_t notes_capacity, groups_capacity, classes_capacity;
};

static struct checker *checker_of(struct engine *engine)
{
    return (struct checker *)engine; /* its first member */
}

static void out_of_memory(void *ctx)
{
    engine_fail(ctx, DIVERGE_ENOMEM);
}

static void no_more_memory(void *ctx)
{
    (void)ctx;
    abort(); /* complete: nothing allocates from it any more */
}

static void add_note(struct checker *checker, const char *text)
{
    struct replicas *to = checker->to;
    for (size_t i = 0; i < to->n_notes; i++)
        if (strcmp(to->notes[i], text) == 0)
            return;
    if (to->n_notes < MAX_NOTES)
        POOL_PUSH(checker->engine.keep, to->notes, to->n_notes, checker->notes_capacity, text);
}

/* ---- what is a copy -------------------------------------------------------------------------- */

static bool is_state(const struct trace_site *site)
{
    return site->role == DIVERGE_ROLE_PARAM || site->role == DIVERGE_ROLE_BUFFER ||
           site->role == DIVERGE_ROLE_OPTSTATE;
}

static const char *group_of(const struct trace_type *type)
{
    return type->group ? type->group : "";
}

static bool is_copy(const struct trace_type *type)
{
    return type->placement == DIVERGE_PLACEMENT_WHOLE ||
           type->placement == DIVERGE_PLACEMENT_REPLICA;
}

/* Both ranks declare to hold the same value. */
static bool are_replicas(const struct view *view, const struct item *item)
{
    if (!item_has(item, SIDE_A) || !item_has(item, SIDE_B))
        return false;
    const struct trace_type *a = item_type(view, item, SIDE_A);
    const struct trace_type *b = item_type(view, item, SIDE_B);
    uint32_t flags = item_site(view, item)->flags;
    return is_copy(a) && is_copy(b) && !(flags & DIVERGE_FLAG_PARTIAL) &&
           strcmp(group_of(a), group_of(b)) == 0;
}

/* BatchNorm without synchronisation: each rank sees its own batches, by design. */
static bool is_batch_statistic(const struct trace_site *site)
{
    static const char *const names[] = {"running_mean", "running_var", "num_batches_tracked"};
    size_t length = strlen(site->name);
    if (site->role != DIVERGE_ROLE_BUFFER)
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);
        const char *end = site->name + length - n;
        if (length >= n && strcmp(end, names[i]) == 0 && (length == n || end[-1] == '.'))
            return true;
    }
    return false;
}

static const char *name_of(const struct trace_site *site)
{
    return site->name[0] ? site->name : site->op[0] ? site->op : site->scope;
}

/* ---- two ranks ------------------------------------------------------------------------------- */

static struct pairing pair_of(struct checker *checker, const struct trace_stream *a,
                              const struct trace_stream *b)
{
    struct pairing pairing = {.rank = b->rank, .stream = {a, b}};
    pairing_init(&checker->engine, &pairing);
    return pairing;
}

static void count(struct checker *checker, const struct view *view)
{
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        const struct trace_site *site = item_site(view, item);
        int side = item_has(item, SIDE_A) ? SIDE_A : SIDE_B;
        enum diverge_placement placement = item_type(view, item, side)->placement;
        if (!is_state(site))
            continue;
        if (placement == DIVERGE_PLACEMENT_SHARD)
            checker->to->shards++;
        else if (placement == DIVERGE_PLACEMENT_PARTIAL || (site->flags & DIVERGE_FLAG_PARTIAL))
            checker->to->partials++;
        else if (are_replicas(view, item))
            checker->to->records++;
    }
}

static void note_statistic(struct checker *checker, const struct trace_site *site)
{
    add_note(checker,
             pool_format(checker->engine.keep,
                         "%s differs between ranks: BatchNorm statistics follow each rank's own "
                         "batches unless they are synchronised",
                         name_of(site)));
}

/* The first copy of a boundary that differs; NULL: none does. */
static const struct item *first_odd(struct checker *checker, const struct view *view)
{
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        const struct trace_site *site = item_site(view, item);
        if (!is_state(site) || !are_replicas(view, item))
            continue;
        if (!is_batch_statistic(site))
            return item;
        note_statistic(checker, site);
    }
    return NULL;
}

static void take(struct checker *checker, const struct pairing *pairing, const struct view *view,
                 const struct item *item)
{
    struct odd *first = &checker->first;
    uint32_t index = item->index[SIDE_A];
    if (view->segment > first->segment)
        return;
    if (view->segment == first->segment &&
        (item->category > first->category ||
         (item->category == first->category && index >= first->index)))
        return;
    *first = (struct odd){.segment = view->segment,
                          .index = index,
                          .category = item->category,
                          .a = pairing->stream[SIDE_A],
                          .b = pairing->stream[SIDE_B],
                          .after_gap = view->segment >= pairing->first_gap ||
                                       view->segment > pairing->first_unread};
}

static void reason_unread(struct checker *checker, const struct view *view)
{
    if (view->unread > 0)
        engine_reason(&checker->engine,
                      pool_format(checker->engine.keep,
                                  "records of ranks %u and %u could not be compared: they could "
                                  "not be read on a side",
                                  view->pairing->stream[SIDE_A]->rank, view->pairing->rank));
    if (view->pruned)
        engine_reason(&checker->engine, "records were removed where the ranks' digests differ");
}

/* Every boundary in which the digests of the two differ, up to where a difference is known. */
static void compare_ranks(struct checker *checker, const struct trace_stream *a,
                          const struct trace_stream *b)
{
    struct engine *engine = &checker->engine;
    struct pairing pairing = pair_of(checker, a, b);
    struct scan scan;
    if (!pairing.tier[DIVERGE_TIER_STEP] || pairing.low > pairing.high)
        return;
    struct pairing state = pairing;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        state.tier[tier] = tier == DIVERGE_TIER_STEP;
    scan_start(engine, &state, DIVERGE_TIER_STEP, NO_SEGMENT, &scan);
    while (scan.next != NO_SEGMENT && scan.next <= checker->first.segment) {
        if (segment_is_boundary(scan.next)) {
            struct view *view = view_load(engine, &state, scan.next);
            const struct item *odd = first_odd(checker, view);
            count(checker, view);
            reason_unread(checker, view);
            if (odd)
                take(checker, &pairing, view, odd);
            view_release(engine, view);
            if (odd)
                break;
        }
        scan_advance(engine, &state, &scan);
    }
    uint64_t end = scan.next < pairing.high ? scan.next : pairing.high + 1;
    scan_count(engine, &state, &scan, end);
    checker->to->records += scan.records;
    if (scan.boundaries > checker->to->boundaries)
        checker->to->boundaries = scan.boundaries;
}

/* ---- groups ---------------------------------------------------------------------------------- */

struct member {
    const char *group;
    const struct trace_stream *first; /* the group's lowest rank */
    uint32_t *ranks;
    uint32_t n_ranks;
};

struct members {
    struct member *items;
    size_t count, capacity;
};

static void join_group(struct checker *checker, struct members *members, const char *group,
                       const struct trace_stream *stream)
{
    struct pool *keep = checker->engine.keep;
    struct member *member = NULL;
    for (size_t i = 0; i < members->count && !member; i++)
        if (strcmp(members->items[i].group, group) == 0)
            member = &members->items[i];
    if (!member) {
        struct member new = {.group = pool_string(keep, group),
                             .first = stream,
                             .ranks = POOL_ARRAY(keep, uint32_t, checker->run->n_streams)};
        POOL_PUSH(&checker->engine.scratch, members->items, members->count, members->capacity, new);
        member = &members->items[members->count - 1];
    }
    if (member->n_ranks == 0 || member->ranks[member->n_ranks - 1] != stream->rank)
        member->ranks[member->n_ranks++] = stream->rank;
}

/* The groups that a rank's first boundary names. */
static void find_groups(struct checker *checker, struct members *members,
                        const struct trace_stream *stream)
{
    struct engine *engine = &checker->engine;
    struct trace_head head;
    uint64_t from = diverge_segment_of_boundary(0);
    while (side_head_from(engine, SIDE_A, stream, DIVERGE_TIER_STEP, from, &head)) {
        from = head.segment + 1;
        if (!segment_is_boundary(head.segment))
            continue;
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk =
            side_load(engine, SIDE_A, stream, DIVERGE_TIER_STEP, head.segment);
        for (uint32_t i = 0; chunk && !chunk->pruned && i < chunk->count; i++)
            if (is_state(chunk->layout->sites[i]) && is_copy(chunk_type(chunk, i)))
                join_group(checker, members, group_of(chunk_type(chunk, i)), stream);
        engine_release(engine, mark);
        return;
    }
}

static const struct trace_stream *stream_of(const struct checker *checker, uint32_t rank)
{
    for (uint32_t i = 0; i < checker->run->n_streams; i++)
        if (checker->run->streams[i].rank == rank)
            return &checker->run->streams[i];
    return NULL;
}

/* Each rank against the first of each of its groups; two that share several are compared once. */
static void compare_groups(struct checker *checker, const struct members *members)
{
    for (size_t g = 0; g < members->count; g++) {
        const struct member *member = &members->items[g];
        struct replicas_group group = {
            .name = member->group, .ranks = member->ranks, .n_ranks = member->n_ranks};
        POOL_PUSH(checker->engine.keep, checker->to->groups, checker->to->n_groups,
                  checker->groups_capacity, group);
        for (uint32_t i = 1; i < member->n_ranks; i++) {
            bool done = false;
            for (size_t h = 0; h < g && !done; h++)
                for (uint32_t j = 1; j < members->items[h].n_ranks && !done; j++)
                    done = members->items[h].first == member->first &&
                           members->items[h].ranks[j] == member->ranks[i];
            if (!done)
                compare_ranks(checker, member->first, stream_of(checker, member->ranks[i]));
        }
    }
}

/* ---- the first difference -------------------------------------------------------------------- */

static bool same_site(const struct trace_site *a, const struct trace_site *b)
{
    return a->role == b->role && a->slot == b->slot && a->occurrence == b->occurrence &&
           strcmp(a->scope, b->scope) == 0 && strcmp(a->op, b->op) == 0 &&
           strcmp(a->name, b->name) == 0;
}

/* The value that a rank of the group holds at the place; false: none that was read. */
static bool read_copy(struct checker *checker, const struct trace_stream *stream,
                      const struct trace_site *site, const char *group, uint64_t *ret)
{
    struct engine *engine = &checker->engine;
    struct trace_head head;
    size_t mark = engine_mark(engine);
    bool found = false;
    if (!side_head(engine, SIDE_A, stream, DIVERGE_TIER_STEP, checker->first.segment, &head))
        return false;
    const struct trace_chunk *chunk =
        side_load(engine, SIDE_A, stream, DIVERGE_TIER_STEP, checker->first.segment);
    for (uint32_t i = 0; chunk && !chunk->pruned && i < chunk->count && !found; i++) {
        const struct trace_type *type = chunk_type(chunk, i);
        found = same_site(chunk->layout->sites[i], site) && is_copy(type) &&
                strcmp(group_of(type), group) == 0;
        if (found)
            *ret = chunk_value(chunk, i) ^ ((uint64_t)type->dtype << 61) ^ type_numel(type);
    }
    engine_release(engine, mark);
    return found;
}

static void add_to_class(struct checker *checker, uint64_t *values, uint64_t value, uint32_t rank)
{
    struct replicas *to = checker->to;
    size_t at = 0;
    while (at < to->n_classes && values[at] != value)
        at++;
    if (at == to->n_classes) {
        struct replicas_class class = {
            .ranks = POOL_ARRAY(checker->engine.keep, uint32_t, checker->run->n_streams)};
        values[at] = value;
        POOL_PUSH(checker->engine.keep, to->classes, to->n_classes, checker->classes_capacity,
                  class);
    }
    uint32_t *ranks = (uint32_t *)(uintptr_t)to->classes[at].ranks;
    ranks[to->classes[at].n_ranks++] = rank;
}

static int by_size(const void *a, const void *b)
{
    const struct replicas_class *x = a, *y = b;
    if (x->n_ranks != y->n_ranks)
        return x->n_ranks > y->n_ranks ? -1 : 1;
    return x->ranks[0] < y->ranks[0] ? -1 : 1;
}

static void find_classes(struct checker *checker, const struct trace_site *site, const char *group)
{
    const struct trace_run *run = checker->run;
    uint64_t *values = POOL_ARRAY(&checker->engine.scratch, uint64_t, run->n_streams);
    uint64_t value;
    for (uint32_t i = 0; i < run->n_streams; i++)
        if (read_copy(checker, &run->streams[i], site, group, &value))
            add_to_class(checker, values, value, run->streams[i].rank);
    qsort(checker->to->classes, checker->to->n_classes, sizeof(checker->to->classes[0]), by_size);
}

static const struct item *missing_collective(const struct view *view)
{
    for (size_t i = 0; i < view->n_differences; i++) {
        const struct item *item = view->differences[i];
        const struct trace_site *site = item_site(view, item);
        if (item->state == ITEM_MISSING &&
            (site->role == DIVERGE_ROLE_COLLECTIVE || (site->flags & DIVERGE_FLAG_COLLECTIVE)))
            return item;
    }
    return NULL;
}

static const char *list_ranks(struct pool *arena, const uint32_t *ranks, uint32_t n)
{
    const char *text = pool_format(arena, "%u", ranks[0]);
    for (uint32_t i = 1; i < n && i < 8; i++)
        text = pool_format(arena, "%s, %u", text, ranks[i]);
    return n > 8 ? pool_format(arena, "%s and %u more", text, n - 8) : text;
}

static void set_verdict(struct checker *checker, const char *class_name, const char *detail,
                        const char *text, const char *evidence, const char *next)
{
    struct pool *keep = checker->engine.keep;
    const char **evidences = POOL_ARRAY(keep, const char *, 1);
    const char **nexts = POOL_ARRAY(keep, const char *, 1);
    evidences[0] = evidence;
    nexts[0] = next;
    checker->to->verdict = (struct engine_verdict){
        .class_name = class_name,
        .detail = detail,
        .confidence = checker->to->after_gap ? ENGINE_POSSIBLE : ENGINE_CERTAIN,
        .text = text,
        .evidence = evidences,
        .n_evidence = evidence ? 1 : 0,
        .next = nexts,
        .n_next = next ? 1 : 0};
}

static void judge_state(struct checker *checker, const struct trace_site *site)
{
    const struct replicas *to = checker->to;
    struct pool *keep = checker->engine.keep;
    const char *evidence =
        to->n_classes > 1
            ? pool_format(keep, "%s: %u ranks agree, %s differ", name_of(site),
                          to->classes[0].n_ranks,
                          list_ranks(keep, to->classes[1].ranks, to->classes[1].n_ranks))
            : NULL;
    const char *detail = site->role == DIVERGE_ROLE_PARAM    ? "parameter"
                         : site->role == DIVERGE_ROLE_BUFFER ? "buffer"
                                                             : "optimizer";
    bool at_start = checker->first.segment == diverge_segment_of_boundary(0);
    set_verdict(checker, "desync", detail,
                "Ranks that hold copies of one value do not agree on it.", evidence,
                at_start ? "broadcast the state from one rank before the first step"
                         : "look for what takes no part in the reduction: a parameter that the "
                           "wrapper does not know, a step that one rank skips, another seed");
}

/* A collective that one of the two did not make in the step before explains the state. */
static bool judge_collective(struct checker *checker, const struct pairing *pairing)
{
    struct engine *engine = &checker->engine;
    if (checker->first.segment <= diverge_segment_of_boundary(0))
        return false;
    struct view *view = view_load(engine, pairing, checker->first.segment - 1);
    const struct item *item = missing_collective(view);
    if (item) {
        const struct trace_site *site = item_site(view, item);
        int side = item_has(item, SIDE_A) ? SIDE_A : SIDE_B;
        checker->to->first = finding_new(engine, view, item);
        set_verdict(checker, "desync", "missing-collective",
                    "A rank makes a collective that another does not: their copies drift apart.",
                    pool_format(engine->keep, "%s%s%s is made by rank %u and not by rank %u",
                                site->op[0] ? site->op : "a collective",
                                site->scope[0] ? " of " : "", site->scope,
                                pairing->stream[side]->rank,
                                pairing->stream[side == SIDE_A ? SIDE_B : SIDE_A]->rank),
                    "look for a branch that depends on the rank before this collective");
    }
    view_release(engine, view);
    return item != NULL;
}

static void explain(struct checker *checker)
{
    struct engine *engine = &checker->engine;
    struct replicas *to = checker->to;
    struct odd *odd = &checker->first;
    struct pairing pairing = pair_of(checker, odd->a, odd->b);
    to->after_gap = odd->after_gap;
    struct view *view = view_load(engine, &pairing, odd->segment);
    const struct item *item = first_odd(checker, view);
    if (!item) /* it was there a moment ago: the source does not keep to what it says */
        engine_fail(engine, DIVERGE_ECORRUPT);
    struct trace_site *site = site_copy(engine, item_site(view, item));
    const char *group = pool_string(engine->keep, group_of(item_type(view, item, SIDE_A)));
    to->first = finding_new(engine, view, item);
    view_release(engine, view);
    find_classes(checker, site, group);
    to->rank_a = odd->a->rank;
    if (to->n_classes > 1 &&
        (to->classes[0].ranks[0] != odd->a->rank || to->classes[1].ranks[0] != odd->b->rank)) {
        /* Shown from the side of the many. */
        struct pairing other = pair_of(checker, stream_of(checker, to->classes[0].ranks[0]),
                                       stream_of(checker, to->classes[1].ranks[0]));
        view = view_load(engine, &other, odd->segment);
        item = first_odd(checker, view);
        if (item && same_site(item_site(view, item), site)) {
            to->first = finding_new(engine, view, item);
            to->rank_a = to->classes[0].ranks[0];
            pairing = other;
        }
        view_release(engine, view);
    }
    if (!judge_collective(checker, &pairing))
        judge_state(checker, site);
}

/* ---- generators and data --------------------------------------------------------------------- */

static bool is_derived(const struct trace_site *site)
{
    size_t length = strlen(site->name);
    return strstr(site->name, DIVERGE_SUFFIX_ROWS) ||
           (length > 4 && strcmp(site->name + length - 4, ".set") == 0);
}

/* Rows' checksums know nothing of where in the whole they stand: they tell a batch read twice. */
static bool rows_equal(const struct view *view, const struct item *field)
{
    const struct trace_site *site = item_site(view, field);
    size_t length = strlen(site->name);
    for (size_t i = 0; i < view->n_items; i++) {
        const struct trace_site *other = item_site(view, &view->items[i]);
        if (other->role == DIVERGE_ROLE_BATCH && strncmp(other->name, site->name, length) == 0 &&
            strcmp(other->name + length, DIVERGE_SUFFIX_ROWS) == 0)
            return view->items[i].state == ITEM_EQUAL;
    }
    return false;
}

static bool is_shared_out(const struct view *view, const struct item *item)
{
    return item_type(view, item, SIDE_A)->placement == DIVERGE_PLACEMENT_SHARD &&
           item_type(view, item, SIDE_B)->placement == DIVERGE_PLACEMENT_SHARD;
}

/* Says whether a field that is shared out was read twice. */
static void check_batch(struct checker *checker, const struct view *view, uint32_t *fields,
                        uint32_t *equal)
{
    struct replicas *to = checker->to;
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        const struct trace_site *site = item_site(view, item);
        if (site->role != DIVERGE_ROLE_BATCH || is_derived(site) || !item_has(item, SIDE_A) ||
            !item_has(item, SIDE_B))
            continue;
        bool same = item->state == ITEM_EQUAL || rows_equal(view, item);
        ++*fields;
        *equal += same;
        if (!same || !is_shared_out(view, item) || to->first)
            continue;
        to->first = finding_new(&checker->engine, view, item);
        to->rank_a = view->pairing->stream[SIDE_A]->rank;
        set_verdict(checker, "data", "replay",
                    "Ranks that share the data out read the same part of it.",
                    pool_format(checker->engine.keep, "%s of ranks %u and %u has the same rows",
                                site->name, to->rank_a, view->pairing->rank),
                    "give the sampler the rank and the number of ranks");
    }
}

static void note_generators(struct checker *checker, const struct view *view)
{
    for (size_t i = 0; i < view->n_items; i++) {
        const struct item *item = &view->items[i];
        const struct trace_site *site = item_site(view, item);
        if (site->role == DIVERGE_ROLE_RNG && item->state == ITEM_EQUAL)
            add_note(checker, pool_format(checker->engine.keep,
                                          "generator %s is in one state on several ranks at the "
                                          "first boundary: they draw the same numbers",
                                          site->name));
    }
}

static void check_generators(struct checker *checker, const struct pairing *pairing)
{
    struct pairing evidence = *pairing;
    uint64_t start = pairing->first_boundary[SIDE_A];
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        evidence.tier[tier] = pairing->tier[tier] && tier == DIVERGE_TIER_EVIDENCE;
    if (start == NO_SEGMENT)
        return;
    struct view *view = view_load(&checker->engine, &evidence, start);
    note_generators(checker, view);
    view_release(&checker->engine, view);
}

/* Each rank's first steps against the first rank's. */
static void check_independence(struct checker *checker, const struct trace_stream *a,
                               const struct trace_stream *b)
{
    struct engine *engine = &checker->engine;
    struct pairing pairing = pair_of(checker, a, b);
    uint32_t fields = 0, equal = 0;
    struct trace_head head;
    check_generators(checker, &pairing);
    struct pairing pulse = pairing;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        pulse.tier[tier] = pairing.tier[tier] && tier == DIVERGE_TIER_PULSE;
    uint64_t from = diverge_segment_of_step(0);
    for (int n = 0; n < DATA_STEPS && pulse.tier[DIVERGE_TIER_PULSE] &&
                    side_head_from(engine, SIDE_A, a, DIVERGE_TIER_PULSE, from, &head);) {
        from = head.segment + 1;
        if (!segment_is_step(head.segment))
            continue;
        struct view *view = view_load(engine, &pulse, head.segment);
        check_batch(checker, view, &fields, &equal);
        view_release(engine, view);
        n++;
    }
    if (fields > 0 && fields == equal && !checker->to->first)
        add_note(checker, pool_format(engine->keep,
                                      "ranks %u and %u read the same data in their first steps",
                                      a->rank, b->rank));
}

/* ---- what is missing ------------------------------------------------------------------------- */

static uint64_t last_segment(const struct trace_stream *stream)
{
    uint64_t last = 0;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        if (stream->tiers[tier].present && stream->tiers[tier].segments > 0 &&
            stream->tiers[tier].last > last)
            last = stream->tiers[tier].last;
    return last;
}

static void reason_about(struct checker *checker, const struct trace_stream *stream)
{
    struct engine *engine = &checker->engine;
    uint64_t dropped = stream->dropped;
    bool gap = false, unread = false;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        dropped += stream->tiers[tier].dropped;
        gap = gap || stream->tiers[tier].has_gap;
        unread = unread || stream->tiers[tier].unread > 0;
    }
    if (!stream->ended)
        engine_reason(engine,
                      pool_format(engine->keep, "rank %u did not end properly", stream->rank));
    else if (stream->outcome != DIVERGE_OUTCOME_COMPLETE)
        engine_reason(engine, pool_format(engine->keep, "rank %u failed", stream->rank));
    if (dropped > 0)
        engine_reason(engine, pool_format(engine->keep, "rank %u dropped %llu records",
                                          stream->rank, (unsigned long long)dropped));
    if (gap)
        engine_reason(engine,
                      pool_format(engine->keep, "rank %u has a gap: a segment is not complete",
                                  stream->rank));
    if (unread)
        engine_reason(engine, pool_format(engine->keep, "records of rank %u could not be read",
                                          stream->rank));
    if (last_segment(stream) != last_segment(&checker->run->streams[0]))
        engine_reason(
            engine,
            pool_format(engine->keep, "rank %u goes to %s, rank %u to %s",
                        checker->run->streams[0].rank,
                        segment_text(&engine->scratch, last_segment(&checker->run->streams[0])),
                        stream->rank, segment_text(&engine->scratch, last_segment(stream))));
    if (strcmp(stream->fingerprint_id, checker->run->streams[0].fingerprint_id) != 0)
        engine_reason(engine, pool_format(engine->keep, "rank %u has fingerprints of another kind",
                                          stream->rank));
}

static void find_reasons(struct checker *checker)
{
    struct engine *engine = &checker->engine;
    const struct trace_run *run = checker->run;
    for (uint32_t i = 0; i < run->n_streams; i++)
        reason_about(checker, &run->streams[i]);
    if (run->world > run->n_streams)
        engine_reason(engine, pool_format(engine->keep, "%u ranks were declared, %u recorded",
                                          run->world, run->n_streams));
    if (run->n_streams < 2)
        engine_reason(engine, "there is one rank: nothing to compare it with");
    else if (!checker->to->first && (checker->to->records == 0 || checker->to->boundaries == 0))
        engine_reason(engine, "nothing was compared: no state was recorded that two ranks hold");
}

/* ---- entry ----------------------------------------------------------------------------------- */

static void set_agreement(struct checker *checker)
{
    const struct trace_stream *stream = &checker->run->streams[0];
    struct trace_head head;
    uint64_t at =
        checker->first.segment == NO_SEGMENT ? last_segment(stream) : checker->first.segment - 1;
    while (checker->to->records > 0 &&
           side_head_at(&checker->engine, SIDE_A, stream, DIVERGE_TIER_STEP, at, &head)) {
        if (segment_is_boundary(head.segment)) {
            checker->to->has_agree = true;
            checker->to->agree_boundary = segment_number(head.segment);
            return;
        }
        if (head.segment == 0)
            return;
        at = head.segment - 1;
    }
}

static void settle(struct checker *checker)
{
    struct replicas *to = checker->to;
    bool differs = to->first != NULL;
    to->result = differs                     ? ENGINE_DIFFER
                 : checker->answer.n_reasons ? ENGINE_UNVERIFIED
                                             : ENGINE_SAME;
    to->reasons = checker->answer.reasons;
    to->n_reasons = checker->answer.n_reasons;
    if (!differs)
        set_verdict(checker, to->n_reasons ? "unverified" : "none", NULL,
                    to->n_reasons ? "What was compared agrees, but not all of it was there."
                                  : "All copies agree.",
                    NULL, NULL);
}

/* In a frame of its own: setjmp may clobber what is kept in its caller's. */
__attribute__((noinline)) static void check(struct engine *engine)
{
    struct checker *checker = checker_of(engine);
    const struct trace_run *run = checker->run;
    struct members members = {0};
    checker->first.segment = NO_SEGMENT;
    checker->to->ranks = run->n_streams;
    for (uint32_t i = 0; i < run->n_streams; i++)
        find_groups(checker, &members, &run->streams[i]);
    compare_groups(checker, &members);
    if (checker->first.segment != NO_SEGMENT)
        explain(checker);
    for (uint32_t i = 1; i < run->n_streams; i++)
        check_independence(checker, &run->streams[0], &run->streams[i]);
    find_reasons(checker);
    if (run->n_streams > 0)
        set_agreement(checker);
    settle(checker);
}

static int check_guarded(struct checker *checker)
{
    if (setjmp(checker->engine.unwind) == 0)
        check(&checker->engine);
    return checker->engine.status;
}

static void checker_fini(struct checker *checker)
{
    struct engine *engine = &checker->engine;
    engine_release(engine, 0);
    while (engine->n_views > 0)
        pool_fini(&engine->view_arenas[--engine->n_views]);
    align_free_all(engine);
    pool_fini(&engine->scratch);
}

int replicas_check(const struct trace_source *source, const struct trace_run *run,
                   bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                   struct replicas **ret)
{
    struct engine_options options = ENGINE_OPTIONS_INIT;
    if (!source || !run || !ret)
        return DIVERGE_EINVAL;
    struct owned_replicas *owned = calloc(1, sizeof(*owned));
    if (!owned)
        return DIVERGE_ENOMEM;
    options.progress = progress;
    options.progress_ctx = ctx;
    struct checker checker = {.owned = owned, .to = &owned->replicas, .run = run};
    checker.engine.options = &options;
    checker.engine.sides[SIDE_A] = checker.engine.sides[SIDE_B] =
        (struct side){.source = source, .run = run};
    checker.engine.answer = &checker.answer;
    checker.engine.keep = &owned->arena;
    pool_init(&owned->arena, out_of_memory, &checker.engine);
    pool_init(&checker.engine.scratch, out_of_memory, &checker.engine);
    int status = check_guarded(&checker);
    checker_fini(&checker);
    if (status < 0) {
        replicas_free(&owned->replicas);
        return status;
    }
    owned->arena.on_failure = no_more_memory;
    owned->arena.ctx = NULL;
    *ret = &owned->replicas;
    return 0;
}

void replicas_free(struct replicas *replicas)
{
    if (!replicas)
        return;
    struct owned_replicas *owned = (struct owned_replicas *)replicas; /* its first member */
    pool_fini(&owned->arena);
    free(owned);
}
