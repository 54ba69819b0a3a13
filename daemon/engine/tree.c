/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/tree.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/context.h"
#include "daemon/engine/tree_rows.h"

#define NO_RUN UINT32_MAX

/* What is known of a run against the one that its group is compared with. */
struct relation {
    uint32_t with; /* NO_RUN: nothing yet */
    enum engine_result result;
    uint64_t split; /* first segment that differs; NO_SEGMENT: none does */
    bool has_agree;
    uint64_t agree_boundary;
    bool all_ranks; /* each rank of the other was compared */
};

/* The tree, its memory, and the answers that it shows, freed together. */
struct owned_tree {
    struct tree tree;
    struct pool arena;
    struct engine_answer **answers;
    size_t n_answers, answers_capacity;
};

struct builder {
    const struct tree_input *inputs;
    uint32_t n;
    const struct tree_options *options;
    struct owned_tree *owned;
    struct pool *keep; /* the tree's */
    struct pool scratch;
    struct relation *relations;
    bool *whole;    /* a run against itself is the same: nothing of it is missing */
    uint32_t *twin; /* the first run that is equal from start to end by its chains, or itself */
    struct engine_answer *open;
    size_t reasons_capacity, ends_capacity;
    jmp_buf unwind;
    int status;
};

_Noreturn static void fail(struct builder *builder, int status)
{
    builder->status = status;
    longjmp(builder->unwind, 1);
}

static void out_of_memory(void *ctx)
{
    fail(ctx, DIVERGE_ENOMEM);
}

static void no_more_memory(void *ctx)
{
    (void)ctx;
    abort(); /* the tree is complete: nothing allocates from it any more */
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static void add_reason(struct builder *builder, const char *text)
{
    struct tree *tree = &builder->owned->tree;
    for (size_t i = 0; i < tree->n_reasons; i++)
        if (strcmp(tree->reasons[i], text) == 0)
            return;
    POOL_PUSH(builder->keep, tree->reasons, tree->n_reasons, builder->reasons_capacity,
              pool_string(builder->keep, text));
}

static void tick(struct builder *builder)
{
    const struct tree_options *options = builder->options;
    uint64_t done = ++builder->owned->tree.pairs, expected = 3 * (uint64_t)builder->n;
    if (options->progress &&
        !options->progress(options->progress_ctx, done, done > expected ? done : expected))
        fail(builder, DIVERGE_ECLOSED);
}

/* Left in builder->open, which owns it. */
static void compare(struct builder *builder, uint32_t a, uint32_t b, bool place_only)
{
    const struct tree_input *x = &builder->inputs[a], *y = &builder->inputs[b];
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.rank = builder->options->rank;
    options.offset = 0; /* segments are numbered alike in all runs */
    options.place_only = place_only;
    options.names[0] = x->name;
    options.names[1] = y->name;
    tick(builder);
    engine_answer_free(builder->open);
    builder->open = NULL;
    int status = engine_first_diff(x->source, x->run, y->source, y->run, &options, &builder->open);
    if (status < 0)
        fail(builder, status);
}

static uint32_t count_ranks(const struct builder *builder, uint32_t run)
{
    const struct trace_run *trace = builder->inputs[run].run;
    uint32_t count = 0;
    for (uint32_t i = 0; i < trace->n_streams; i++)
        count += builder->options->rank < 0 || trace->streams[i].rank == builder->options->rank;
    return count;
}

static void relate(struct builder *builder, uint32_t run, uint32_t with)
{
    struct relation *relation = &builder->relations[run];
    uint32_t twin = builder->twin[run];
    if (relation->with == with)
        return;
    if (twin != run && run != with) { /* what holds for its twin holds for it */
        relate(builder, twin, with);
        *relation = builder->relations[twin];
        return;
    }
    compare(builder, with, run, true);
    const struct engine_answer *answer = builder->open;
    *relation =
        (struct relation){.with = with,
                          .result = answer->result,
                          .split = answer->first ? answer->first->segment : NO_SEGMENT,
                          .has_agree = answer->has_agree,
                          .agree_boundary = answer->agree_boundary,
                          .all_ranks = answer->compared.ranks == count_ranks(builder, with)};
    for (size_t i = 0; i < answer->n_reasons; i++)
        add_reason(builder, answer->reasons[i]);
    if (run == with)
        builder->whole[run] = answer->result == ENGINE_SAME;
}

/* Whether the run is known to be equal to its counterpart through `segment`. */
static bool reaches(const struct relation *relation, uint64_t segment)
{
    if (relation->result == ENGINE_SAME)
        return true;
    return relation->all_ranks && relation->has_agree &&
           diverge_segment_of_boundary(relation->agree_boundary) >= segment;
}

/* ---- lists of runs -------------------------------------------------------------------------- */

struct list {
    uint32_t *runs;
    uint32_t count;
};

static struct list list_new(struct builder *builder, uint32_t capacity)
{
    return (struct list){.runs = POOL_ARRAY(builder->keep, uint32_t, capacity)};
}

static void list_add(struct list *list, uint32_t run)
{
    list->runs[list->count++] = run;
}

/*
 * The one to compare a group with: whole when there is one, and from the middle, so that runs that
 * leave one after the other in the order given are halved, not taken off one by one.
 */
static uint32_t choose(const struct builder *builder, const struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t run = list->runs[(list->count / 2 + i) % list->count];
        if (builder->whole[run])
            return run;
    }
    return list->runs[list->count / 2];
}

/* ---- splitting a group ---------------------------------------------------------------------- */

struct part {
    struct list list;
    struct tree_rows rows; /* of its first run, at the segment of the split */
    uint32_t leader;
};

struct parts {
    struct part *items;
    size_t count, capacity;
    uint32_t limit; /* runs in all */
    struct list undecided;
};

static struct part *add_part(struct builder *builder, struct parts *parts, uint32_t leader)
{
    struct part part = {.list = list_new(builder, parts->limit), .leader = leader};
    POOL_PUSH(&builder->scratch, parts->items, parts->count, parts->capacity, part);
    return &parts->items[parts->count - 1];
}

/* What has to be asked of the records: chains that differ may differ in structure alone. */
enum same { SAME, OTHER, UNKNOWN_SAME };

static enum same compare_at(struct builder *builder, uint32_t a, uint32_t b, uint64_t segment)
{
    compare(builder, a, b, true);
    const struct engine_answer *answer = builder->open;
    if (answer->first && answer->first->segment <= segment)
        return OTHER;
    struct relation relation = {.result = answer->result,
                                .has_agree = answer->has_agree,
                                .agree_boundary = answer->agree_boundary,
                                .all_ranks = answer->compared.ranks == count_ranks(builder, a)};
    return answer->first || reaches(&relation, segment) ? SAME : UNKNOWN_SAME;
}

/* Puts a run that leaves at this segment to those that leave the same way. */
static void place_leaver(struct builder *builder, struct parts *parts, uint32_t run,
                         uint64_t segment)
{
    struct tree_rows rows;
    int status = tree_rows_load(&builder->scratch, &builder->inputs[run], builder->options->rank,
                                segment, &rows);
    if (status < 0)
        fail(builder, status);
    for (size_t i = 1; i < parts->count; i++)
        if (tree_rows_equal(&parts->items[i].rows, &rows)) {
            list_add(&parts->items[i].list, run);
            return;
        }
    for (size_t i = 1; i < parts->count; i++) {
        if (tree_rows_differ(&parts->items[i].rows, &rows))
            continue;
        enum same same = compare_at(builder, parts->items[i].leader, run, segment);
        if (same == OTHER)
            continue;
        list_add(same == SAME ? &parts->items[i].list : &parts->undecided, run);
        return;
    }
    struct part *part = add_part(builder, parts, run);
    part->rows = rows;
    list_add(&part->list, run);
}

static struct parts divide(struct builder *builder, const struct tree_branch *branch,
                           uint32_t leader)
{
    struct parts parts = {.limit = branch->n_runs, .undecided = list_new(builder, branch->n_runs)};
    add_part(builder, &parts, leader);
    for (uint32_t i = 0; i < branch->n_runs; i++) {
        uint32_t run = branch->runs[i];
        const struct relation *relation = &builder->relations[run];
        if (relation->split == branch->split && run != leader)
            place_leaver(builder, &parts, run, branch->split);
        else if (run == leader || relation->split != NO_SEGMENT || reaches(relation, branch->split))
            list_add(&parts.items[0].list, run);
        else
            list_add(&parts.undecided, run);
    }
    for (size_t i = 1; i < parts.count; i++)
        parts.items[i].leader = choose(builder, &parts.items[i].list);
    return parts;
}

static int by_size(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->list.count != y->list.count)
        return x->list.count > y->list.count ? -1 : 1;
    return x->list.runs[0] < y->list.runs[0] ? -1 : 1;
}

static const struct engine_answer *explain(struct builder *builder, uint32_t a, uint32_t b)
{
    struct owned_tree *owned = builder->owned;
    /* Room first: the answer is never without an owner. */
    owned->answers = pool_grow(builder->keep, owned->answers, owned->n_answers,
                               &owned->answers_capacity, sizeof(owned->answers[0]));
    compare(builder, a, b, false);
    owned->answers[owned->n_answers++] = builder->open;
    builder->open = NULL;
    return owned->answers[owned->n_answers - 1];
}

static struct tree_branch *new_branch(struct builder *builder, const struct list *list, uint32_t of)
{
    struct tree_branch *branch = POOL_NEW(builder->keep, struct tree_branch);
    *branch =
        (struct tree_branch){.runs = list->runs, .n_runs = list->count, .of = of, .end_state = -1};
    return branch;
}

/* ---- refinement ----------------------------------------------------------------------------- */

/* Compares the group with its leader: where it splits first, and through what it agrees. */
static void look(struct builder *builder, struct tree_branch *branch, uint32_t leader)
{
    uint64_t split = NO_SEGMENT;
    for (uint32_t i = 0; i < branch->n_runs; i++) {
        uint32_t run = branch->runs[i];
        if (run == leader)
            continue;
        relate(builder, run, leader);
        uint64_t at = builder->relations[run].split;
        split = at < split ? at : split;
    }
    if (split == NO_SEGMENT)
        relate(builder, leader, leader);
    bool any = false;
    for (uint32_t i = 0; i < branch->n_runs; i++) {
        const struct relation *relation = &builder->relations[branch->runs[i]];
        if (relation->with != leader || !relation->has_agree || relation->split != split)
            continue;
        if (!any || relation->agree_boundary < branch->agree_boundary)
            branch->agree_boundary = relation->agree_boundary;
        any = true;
    }
    branch->has_agree = any;
    branch->split = split == NO_SEGMENT ? 0 : split;
}

static void refine(struct builder *builder, struct tree_branch *branch, uint32_t leader);

static void add_children(struct builder *builder, struct tree_branch *branch, struct parts *parts)
{
    uint32_t of = 0;
    qsort(parts->items, parts->count, sizeof(parts->items[0]), by_size);
    branch->children = POOL_ARRAY(builder->keep, struct tree_branch *, parts->count);
    for (size_t i = 0; i < parts->count; i++)
        of += parts->items[i].list.count;
    for (size_t i = 0; i < parts->count; i++) {
        struct part *part = &parts->items[i];
        struct tree_branch *child = new_branch(builder, &part->list, of);
        if (i > 0)
            child->parts = explain(builder, parts->items[0].leader, part->leader);
        branch->children[branch->n_children++] = child;
        refine(builder, child, part->leader);
    }
}

/* Nobody leaves: those of whom something is missing are not known to be equal to the end. */
static void end_branch(struct builder *builder, struct tree_branch *branch, uint32_t leader)
{
    struct list undecided = list_new(builder, branch->n_runs);
    for (uint32_t i = 0; i < branch->n_runs; i++) {
        uint32_t run = branch->runs[i];
        if (run == leader ? !builder->whole[leader] : builder->relations[run].result != ENGINE_SAME)
            list_add(&undecided, run);
    }
    branch->undecided = undecided.runs;
    branch->n_undecided = undecided.count;
}

static void refine(struct builder *builder, struct tree_branch *branch, uint32_t leader)
{
    look(builder, branch, leader);
    if (branch->split == 0) {
        end_branch(builder, branch, leader);
        return;
    }
    struct parts parts = divide(builder, branch, leader);
    branch->undecided = parts.undecided.runs;
    branch->n_undecided = parts.undecided.count;
    add_children(builder, branch, &parts);
}

/* ---- end states ----------------------------------------------------------------------------- */

struct end {
    struct trace_head *heads;
    uint32_t count;
    const char *fingerprint_id;
};

static bool same_end(const struct end *a, const struct end *b)
{
    if (a->count == 0 || a->count != b->count || strcmp(a->fingerprint_id, b->fingerprint_id) != 0)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->heads[i].segment != b->heads[i].segment ||
            !digest_equal(&a->heads[i].digest, &b->heads[i].digest))
            return false;
    return true;
}

struct ends {
    struct tree_branch **branches; /* without children, with a run that is whole */
    struct end *ends;
    size_t count;
};

static bool is_undecided(const struct tree_branch *branch, uint32_t run)
{
    for (uint32_t i = 0; i < branch->n_undecided; i++)
        if (branch->undecided[i] == run)
            return true;
    return false;
}

static void collect_ends(struct builder *builder, struct tree_branch *branch, struct ends *ends)
{
    for (uint32_t i = 0; i < branch->n_children; i++)
        collect_ends(builder, branch->children[i], ends);
    if (branch->n_children > 0 || branch->n_undecided == branch->n_runs)
        return;
    uint32_t run = 0;
    while (is_undecided(branch, branch->runs[run]))
        run++;
    run = branch->runs[run];
    struct end *end = &ends->ends[ends->count];
    const struct tree_input *input = &builder->inputs[run];
    end->fingerprint_id = input->run->n_streams ? input->run->streams[0].fingerprint_id : "";
    int status =
        tree_rows_end(&builder->scratch, input, builder->options->rank, &end->heads, &end->count);
    if (status < 0)
        fail(builder, status);
    ends->branches[ends->count++] = branch;
}

static int by_state_size(const void *a, const void *b)
{
    const struct tree_end_state *x = a, *y = b;
    return (x->n_runs < y->n_runs) - (x->n_runs > y->n_runs);
}

/* Numbers the states by size; branches follow. */
static void order_states(struct builder *builder, const struct ends *ends)
{
    struct tree *tree = &builder->owned->tree;
    uint32_t n = tree->n_end_states, *of = POOL_ARRAY(&builder->scratch, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) { /* n is small, and qsort is not stable */
        uint32_t best = NO_RUN;
        for (uint32_t j = 0; j < n; j++)
            if (of[j] == 0 && (best == NO_RUN ||
                               by_state_size(&tree->end_states[j], &tree->end_states[best]) < 0))
                best = j;
        of[best] = i + 1;
    }
    struct tree_end_state *sorted = POOL_ARRAY(builder->keep, struct tree_end_state, n);
    for (uint32_t i = 0; i < n; i++)
        sorted[of[i] - 1] = tree->end_states[i];
    tree->end_states = sorted;
    for (size_t i = 0; i < ends->count; i++)
        ends->branches[i]->end_state = of[ends->branches[i]->end_state] - 1;
}

static void find_end_states(struct builder *builder)
{
    struct tree *tree = &builder->owned->tree;
    struct ends ends = {.branches = POOL_ARRAY(&builder->scratch, struct tree_branch *, builder->n),
                        .ends = POOL_ARRAY(&builder->scratch, struct end, builder->n)};
    collect_ends(builder, tree->root, &ends);
    tree->end_states = POOL_ARRAY(builder->keep, struct tree_end_state, ends.count);
    for (size_t i = 0; i < ends.count; i++) {
        struct tree_branch *branch = ends.branches[i];
        size_t like = 0;
        while (like < i && !same_end(&ends.ends[like], &ends.ends[i]))
            like++;
        branch->end_state = like < i ? ends.branches[like]->end_state : tree->n_end_states++;
        struct tree_end_state *state = &tree->end_states[branch->end_state];
        uint32_t runs = branch->n_runs - branch->n_undecided;
        state->n_runs += runs;
        state->branches++;
        tree->n_ended += runs;
        state->has_boundary = ends.ends[i].count > 0;
        state->boundary = state->has_boundary ? segment_number(ends.ends[i].heads[0].segment) : 0;
    }
    order_states(builder, &ends);
}

/* ---- twins ---------------------------------------------------------------------------------- */

/*
 * Runs that are equal as a whole are compared once for all of them: that is most of the work when
 * many runs land in a few end states.
 */
static void find_twins(struct builder *builder)
{
    struct tree_rows *ends = POOL_ARRAY(&builder->scratch, struct tree_rows, builder->n);
    for (uint32_t i = 0; i < builder->n; i++) {
        builder->twin[i] = i;
        if (!builder->whole[i])
            continue;
        int status = tree_rows_load(&builder->scratch, &builder->inputs[i], builder->options->rank,
                                    INT64_MAX, &ends[i]);
        if (status < 0)
            fail(builder, status);
        for (uint32_t j = 0; j < i && builder->twin[i] == i; j++)
            if (builder->whole[j] && builder->twin[j] == j && tree_rows_equal(&ends[j], &ends[i]))
                builder->twin[i] = j;
    }
}

/* ---- entry ---------------------------------------------------------------------------------- */

/* In a frame of its own: setjmp may clobber what is kept in its caller's. */
__attribute__((noinline)) static void build(struct builder *builder)
{
    struct tree *tree = &builder->owned->tree;
    struct list all = list_new(builder, builder->n);
    builder->relations = POOL_ARRAY(&builder->scratch, struct relation, builder->n);
    builder->whole = POOL_ARRAY(&builder->scratch, bool, builder->n);
    builder->twin = POOL_ARRAY(&builder->scratch, uint32_t, builder->n);
    for (uint32_t i = 0; i < builder->n; i++) {
        builder->relations[i].with = NO_RUN;
        builder->twin[i] = i;
        list_add(&all, i);
        relate(builder, i, i);
    }
    find_twins(builder);
    tree->n_runs = builder->n;
    tree->root = new_branch(builder, &all, builder->n);
    refine(builder, tree->root, choose(builder, &all));
    find_end_states(builder);
    bool split = tree->root->n_children > 0;
    tree->result = split ? ENGINE_DIFFER : tree->n_reasons ? ENGINE_UNVERIFIED : ENGINE_SAME;
}

/* The builder lives in the caller's frame, as setjmp wants it. */
static int build_guarded(struct builder *builder)
{
    if (setjmp(builder->unwind) == 0)
        build(builder);
    return builder->status;
}

int tree_build(const struct tree_input *inputs, size_t n_inputs, const struct tree_options *options,
               struct tree **ret)
{
    static const struct tree_options defaults = TREE_OPTIONS_INIT;
    if (!inputs || n_inputs < 2 || !ret)
        return DIVERGE_EINVAL;
    if (n_inputs > TREE_MAX_RUNS)
        return DIVERGE_ELIMIT;
    struct owned_tree *owned = calloc(1, sizeof(*owned));
    if (!owned)
        return DIVERGE_ENOMEM;
    struct builder builder = {.inputs = inputs,
                              .n = (uint32_t)n_inputs,
                              .options = options ? options : &defaults,
                              .owned = owned,
                              .keep = &owned->arena};
    pool_init(&owned->arena, out_of_memory, &builder);
    pool_init(&builder.scratch, out_of_memory, &builder);
    int status = build_guarded(&builder);
    engine_answer_free(builder.open);
    pool_fini(&builder.scratch);
    if (status < 0) {
        tree_free(&owned->tree);
        return status;
    }
    owned->arena.on_failure = no_more_memory;
    owned->arena.ctx = NULL;
    *ret = &owned->tree;
    return 0;
}

void tree_free(struct tree *tree)
{
    if (!tree)
        return;
    struct owned_tree *owned = (struct owned_tree *)tree; /* its first member */
    for (size_t i = 0; i < owned->n_answers; i++)
        engine_answer_free(owned->answers[i]);
    pool_fini(&owned->arena);
    free(owned);
}

/* Wilson, E. B.: Probable inference, the law of succession, and statistical inference (1927). */
struct tree_rate tree_rate(uint64_t runs, uint64_t of)
{
    const double z = 1.959963984540054; /* of a normal distribution, 97.5 % */
    if (of == 0)
        return (struct tree_rate){.high = 1};
    double n = (double)of, p = (double)runs / n;
    double middle = p + z * z / (2 * n), spread = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    double low = (middle - spread) / (1 + z * z / n), high = (middle + spread) / (1 + z * z / n);
    return (struct tree_rate){.rate = p,
                              .low = runs == 0 || low < 0 ? 0 : low,
                              .high = runs == of || high > 1 ? 1 : high};
}
