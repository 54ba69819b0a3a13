/* SPDX-License-Identifier: Apache-2.0 */
/* N runs as a tree: which stay together, where branches part, and what cannot be told. */
#include "tests/unit/daemon/engine/check.h"

#include <math.h>

#include <diverge/error.h>

#include "daemon/engine/tree.h"

enum { MAX_PLANS = 64, MAX_EVENTS = 4 };

/* A run with one op a step. An event changes that step's output and all state after it. */
struct plan {
    const char *name;
    uint64_t steps; /* 0: 8 */
    uint32_t ranks; /* 0: 1 */
    uint32_t rank;  /* the one that events happen in */
    struct {
        bool is_set;
        uint64_t step;
        uint64_t how;
    } events[MAX_EVENTS];
    bool transient;  /* events change the step's output alone */
    bool has_log;    /* one more op in step 1 */
    int64_t gap_at;  /* step that lost a record; 0: none */
    int64_t stop_at; /* killed in this step; 0: never */
    bool lacks_last; /* its last rank was not recorded */
};

static uint64_t happened(const struct plan *plan, uint32_t rank, uint64_t step)
{
    for (int i = 0; i < MAX_EVENTS; i++)
        if (plan->events[i].is_set && plan->events[i].step == step && plan->rank == rank)
            return 1 + plan->events[i].how;
    return 0;
}

static void write_step(struct tb *tb, const struct plan *plan, uint64_t step, uint64_t out)
{
    tb_step(tb, step);
    tb_phase(tb, DIVERGE_PHASE_FORWARD);
    tb_scope(tb, "fc1");
    tb_op(tb, "mm", 0, NULL);
    tb_in(tb, 0, step);
    tb_out(tb, 0, out);
    tb_close(tb);
    if (plan->has_log && step == 1) {
        tb_op(tb, "log", 0, NULL);
        tb_out(tb, 0, 5);
        tb_close(tb);
    }
    tb_scope(tb, "");
    if (plan->gap_at && (uint64_t)plan->gap_at == step)
        tb_gap(tb, DIVERGE_TIER_OP, 1);
}

static void write_rank(struct tb *tb, const struct plan *plan, uint32_t rank)
{
    uint64_t state = 7, steps = plan->steps ? plan->steps : 8;
    tb_rank(tb, rank);
    for (uint64_t step = 0; step <= steps; step++) {
        tb_boundary(tb, step);
        tb_param(tb, "w", state);
        if (step == steps)
            break;
        uint64_t event = happened(plan, rank, step);
        write_step(tb, plan, step, tb_mix(state, event));
        if (plan->stop_at && (uint64_t)plan->stop_at == step) {
            tb_unsealed(tb);
            return;
        }
        state = tb_mix(tb_mix(state, step), plan->transient ? 0 : event);
    }
    tb_end(tb);
}

static struct tb *write_run(const struct plan *plan)
{
    uint32_t ranks = plan->ranks ? plan->ranks : 1;
    struct tb *tb = tb_new(plan->name ? plan->name : "run");
    tb_world(tb, ranks);
    for (uint32_t rank = 0; rank + plan->lacks_last < ranks; rank++)
        write_rank(tb, plan, rank);
    return tb;
}

/* ---- asking --------------------------------------------------------------------------------- */

struct forest {
    struct tb *runs[MAX_PLANS];
    struct tree_input inputs[MAX_PLANS];
    size_t n;
    struct tree *tree;
};

static void write_runs(struct forest *forest, const struct plan *plans, size_t n)
{
    static char names[MAX_PLANS][8];
    *forest = (struct forest){.n = n};
    assert_true(n <= MAX_PLANS);
    for (size_t i = 0; i < n; i++) {
        forest->runs[i] = write_run(&plans[i]);
        snprintf(names[i], sizeof(names[i]), "r%zu", i);
        forest->inputs[i] = (struct tree_input){
            .source = tb_source(forest->runs[i]), .run = tb_run(forest->runs[i]), .name = names[i]};
    }
}

static void grow_with(struct forest *forest, const struct plan *plans, size_t n,
                      const struct tree_options *options)
{
    write_runs(forest, plans, n);
    assert_int_equal(tree_build(forest->inputs, n, options, &forest->tree), 0);
}

#define GROW(forest, plans) grow_with((forest), (plans), sizeof(plans) / sizeof((plans)[0]), NULL)

static void fell(struct forest *forest)
{
    tree_free(forest->tree);
    for (size_t i = 0; i < forest->n; i++)
        tb_free(forest->runs[i]);
}

static void expect_runs(const uint32_t *runs, uint32_t n, const char *expected)
{
    char text[512] = "";
    for (uint32_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? " " : "", runs[i]);
    assert_string_equal(text, expected);
}

#define EXPECT_RUNS(branch, expected) expect_runs((branch)->runs, (branch)->n_runs, expected)
#define EXPECT_UNDECIDED(branch, expected)                                                         \
    expect_runs((branch)->undecided, (branch)->n_undecided, expected)

static bool tree_says(const struct tree *tree, const char *part)
{
    for (size_t i = 0; i < tree->n_reasons; i++)
        if (strstr(tree->reasons[i], part))
            return true;
    return false;
}

#define EVENT(at, which)                                                                           \
    {                                                                                              \
        .is_set = true, .step = (at), .how = (which)                                               \
    }

/* ---- shapes --------------------------------------------------------------------------------- */

static void equal_runs_are_one_branch_and_one_end_state(void **state)
{
    (void)state;
    struct plan plans[4] = {{.name = "a"}};
    struct forest forest;
    GROW(&forest, plans);
    const struct tree *tree = forest.tree;
    assert_int_equal(tree->result, ENGINE_SAME);
    EXPECT_RUNS(tree->root, "0 1 2 3");
    assert_int_equal(tree->root->n_children, 0);
    assert_int_equal(tree->root->n_undecided, 0);
    assert_true(tree->root->has_agree);
    assert_int_equal(tree->root->agree_boundary, 8);
    assert_int_equal(tree->n_end_states, 1);
    assert_int_equal(tree->end_states[0].n_runs, 4);
    assert_int_equal(tree->end_states[0].boundary, 8);
    assert_int_equal(tree->n_reasons, 0);
    fell(&forest);
}

static void branches_part_at_their_own_steps(void **state)
{
    (void)state;
    struct plan plans[7] = {
        [1] = {.events = {EVENT(4, 0)}},
        [4] = {.events = {EVENT(2, 0)}},
        [6] = {.events = {EVENT(4, 0)}},
    };
    struct forest forest;
    GROW(&forest, plans);
    const struct tree_branch *root = forest.tree->root;
    assert_int_equal(forest.tree->result, ENGINE_DIFFER);
    assert_int_equal(root->split, SEGMENT_STEP(2));
    assert_int_equal(root->agree_boundary, 2);
    assert_int_equal(root->n_children, 2);
    EXPECT_RUNS(root->children[0], "0 1 2 3 5 6");
    EXPECT_RUNS(root->children[1], "4");
    assert_int_equal(root->children[1]->of, 7);
    assert_null(root->children[0]->parts);
    const struct engine_answer *parts = root->children[1]->parts;
    assert_int_equal(parts->first->segment, SEGMENT_STEP(2));
    assert_string_equal(parts->first->site->op, "mm");
    assert_string_equal(parts->first->site->scope, "fc1");
    assert_int_equal(parts->first->relation, ENGINE_ORIGIN);
    const struct tree_branch *rest = root->children[0];
    assert_int_equal(rest->split, SEGMENT_STEP(4));
    EXPECT_RUNS(rest->children[0], "0 2 3 5");
    EXPECT_RUNS(rest->children[1], "1 6");
    assert_int_equal(rest->children[1]->of, 6);
    assert_int_equal(rest->children[1]->parts->first->segment, SEGMENT_STEP(4));
    fell(&forest);
}

static void runs_that_leave_in_one_step_are_told_apart_by_how(void **state)
{
    (void)state;
    struct plan plans[6] = {
        [1] = {.events = {EVENT(3, 1)}},
        [2] = {.events = {EVENT(3, 2)}},
        [3] = {.events = {EVENT(3, 1)}},
        [4] = {.events = {EVENT(3, 1)}},
    };
    struct forest forest;
    GROW(&forest, plans);
    const struct tree_branch *root = forest.tree->root;
    assert_int_equal(root->split, SEGMENT_STEP(3));
    assert_int_equal(root->n_children, 3);
    EXPECT_RUNS(root->children[0], "1 3 4");
    EXPECT_RUNS(root->children[1], "0 5");
    EXPECT_RUNS(root->children[2], "2");
    for (uint32_t i = 1; i < 3; i++)
        assert_int_equal(root->children[i]->parts->first->segment, SEGMENT_STEP(3));
    assert_int_equal(forest.tree->n_end_states, 3);
    assert_int_equal(forest.tree->end_states[0].n_runs, 3);
    assert_int_equal(root->children[2]->end_state, 2);
    fell(&forest);
}

static void a_branch_can_split_again(void **state)
{
    (void)state;
    struct plan plans[5] = {
        [0] = {.events = {EVENT(1, 0)}},
        [1] = {.events = {EVENT(1, 0), EVENT(6, 0)}},
    };
    struct forest forest;
    GROW(&forest, plans);
    const struct tree_branch *branch = forest.tree->root->children[1];
    EXPECT_RUNS(branch, "0 1");
    assert_int_equal(branch->split, SEGMENT_STEP(6));
    assert_int_equal(branch->agree_boundary, 6);
    EXPECT_RUNS(branch->children[0], "0");
    EXPECT_RUNS(branch->children[1], "1");
    assert_int_equal(branch->children[1]->of, 2);
    fell(&forest);
}

static void another_rank_parts_as_well(void **state)
{
    (void)state;
    struct plan plans[3] = {
        {.ranks = 3},
        {.ranks = 3},
        {.ranks = 3, .rank = 2, .events = {EVENT(5, 0)}},
    };
    struct forest forest;
    GROW(&forest, plans);
    const struct tree_branch *root = forest.tree->root;
    assert_int_equal(root->split, SEGMENT_STEP(5));
    assert_int_equal(root->children[1]->parts->first->rank, 2);
    fell(&forest);
    struct tree_options options = TREE_OPTIONS_INIT;
    options.rank = 1;
    grow_with(&forest, plans, 3, &options);
    assert_int_equal(forest.tree->result, ENGINE_SAME);
    fell(&forest);
}

static void ways_that_meet_again_are_one_end_state(void **state)
{
    (void)state;
    struct plan plans[4] = {
        [1] = {.transient = true, .events = {EVENT(3, 0)}},
        [3] = {.events = {EVENT(5, 0)}},
    };
    struct forest forest;
    GROW(&forest, plans);
    const struct tree *tree = forest.tree;
    assert_int_equal(tree->root->split, SEGMENT_STEP(3));
    assert_int_equal(tree->n_end_states, 2);
    assert_int_equal(tree->end_states[0].n_runs, 3);
    assert_int_equal(tree->end_states[0].branches, 2);
    assert_int_equal(tree->end_states[1].n_runs, 1);
    fell(&forest);
}

static void an_extra_op_is_no_branch(void **state)
{
    (void)state;
    struct plan plans[4] = {[1] = {.has_log = true}, [2] = {.has_log = true}};
    struct forest forest;
    GROW(&forest, plans);
    assert_int_equal(forest.tree->result, ENGINE_SAME);
    assert_int_equal(forest.tree->root->n_children, 0);
    fell(&forest);
}

/* Chains differ between those that leave, and the records say that they left the same way. */
static void an_extra_op_is_no_branch_of_those_that_leave(void **state)
{
    (void)state;
    struct plan plans[5] = {
        [3] = {.has_log = true, .events = {EVENT(1, 0)}},
        [4] = {.events = {EVENT(1, 0)}},
    };
    struct forest forest;
    GROW(&forest, plans);
    const struct tree_branch *root = forest.tree->root;
    assert_int_equal(root->n_children, 2);
    EXPECT_RUNS(root->children[1], "3 4");
    assert_int_equal(root->children[1]->n_children, 0);
    assert_int_equal(forest.tree->n_end_states, 2);
    fell(&forest);
}

/* ---- failing closed ------------------------------------------------------------------------- */

static void a_run_killed_before_the_split_is_in_no_branch(void **state)
{
    (void)state;
    struct plan plans[5] = {
        [1] = {.stop_at = 2},
        [2] = {.events = {EVENT(4, 0)}},
        [3] = {.stop_at = 6},
    };
    struct forest forest;
    GROW(&forest, plans);
    const struct tree_branch *root = forest.tree->root;
    EXPECT_UNDECIDED(root, "1");
    EXPECT_RUNS(root->children[0], "0 3 4");
    EXPECT_UNDECIDED(root->children[0], "3");
    EXPECT_RUNS(root->children[1], "2");
    assert_int_equal(root->children[1]->of, 4);
    assert_true(tree_says(forest.tree, "rank 0 of r1 did not end"));
    assert_true(tree_says(forest.tree, "rank 0 of r3 did not end"));
    assert_int_equal(forest.tree->n_ended, 3);
    fell(&forest);
}

static void runs_that_agree_but_are_not_whole_are_unverified(void **state)
{
    (void)state;
    struct plan killed[2] = {[1] = {.stop_at = 3}}, gap[3] = {[2] = {.gap_at = 4}},
                shorter[2] = {[1] = {.steps = 5}},
                lacks[2] = {{.ranks = 2}, {.ranks = 2, .lacks_last = true}};
    const struct {
        struct plan *plans;
        size_t n;
        const char *undecided, *reason;
    } cases[] = {
        {killed, 2, "1", "did not end"},
        {gap, 3, "2", "has a gap"},
        {shorter, 2, NULL, "rank 0 of r1 goes to boundary 5, of r0 to boundary 8"},
        {lacks, 2, "1", "rank 1 of r1 was not recorded"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct forest forest;
        grow_with(&forest, cases[i].plans, cases[i].n, NULL);
        assert_int_equal(forest.tree->result, ENGINE_UNVERIFIED);
        assert_int_equal(forest.tree->root->n_children, 0);
        assert_true(forest.tree->root->n_undecided > 0);
        if (cases[i].undecided)
            EXPECT_UNDECIDED(forest.tree->root, cases[i].undecided);
        assert_true(tree_says(forest.tree, cases[i].reason));
        fell(&forest);
    }
}

static void a_missing_rank_is_not_placed_by_the_others(void **state)
{
    (void)state;
    struct plan plans[3] = {
        {.ranks = 2},
        {.ranks = 2, .rank = 1, .events = {EVENT(3, 0)}},
        {.ranks = 2, .lacks_last = true},
    };
    struct forest forest;
    GROW(&forest, plans);
    EXPECT_UNDECIDED(forest.tree->root, "2");
    assert_int_equal(forest.tree->root->children[1]->of, 2);
    fell(&forest);
}

static void a_difference_after_a_gap_is_the_first_observed(void **state)
{
    (void)state;
    struct plan plans[3] = {[2] = {.gap_at = 2, .events = {EVENT(5, 0)}}};
    struct forest forest;
    GROW(&forest, plans);
    const struct tree_branch *child = forest.tree->root->children[1];
    EXPECT_RUNS(child, "2");
    assert_true(child->parts->after_gap);
    assert_int_equal(child->parts->verdict.confidence, ENGINE_POSSIBLE);
    fell(&forest);
}

static void no_run_is_whole_and_none_is_called_the_same(void **state)
{
    (void)state;
    struct plan plans[3] = {{.stop_at = 3}, {.stop_at = 5}, {.stop_at = 5}};
    struct forest forest;
    GROW(&forest, plans);
    assert_int_equal(forest.tree->result, ENGINE_UNVERIFIED);
    EXPECT_UNDECIDED(forest.tree->root, "0 1 2");
    assert_int_equal(forest.tree->n_end_states, 0);
    fell(&forest);
}

/* ---- work ----------------------------------------------------------------------------------- */

static void runs_that_all_leave_in_one_step_are_not_compared_with_each_other(void **state)
{
    (void)state;
    struct plan plans[MAX_PLANS] = {{.name = "a"}};
    for (size_t i = 0; i < MAX_PLANS; i++)
        plans[i].events[0] = (__typeof__(plans[i].events[0]))EVENT(1, i);
    struct forest forest;
    GROW(&forest, plans);
    assert_int_equal(forest.tree->root->n_children, MAX_PLANS);
    assert_int_equal(forest.tree->n_end_states, MAX_PLANS);
    assert_true(forest.tree->pairs <= 4 * MAX_PLANS);
    fell(&forest);
}

static void runs_that_leave_one_after_the_other_are_halved(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct plan plans[MAX_PLANS] = {{.name = "a"}};
        for (size_t i = 0; i < MAX_PLANS; i++) {
            size_t step = order ? MAX_PLANS - 1 - i : i;
            plans[i].steps = MAX_PLANS;
            plans[i].events[0] = (__typeof__(plans[i].events[0]))EVENT(step, 0);
        }
        struct forest forest;
        GROW(&forest, plans);
        assert_int_equal(forest.tree->n_end_states, MAX_PLANS);
        assert_true(forest.tree->pairs <= 12 * MAX_PLANS);
        fell(&forest);
    }
}

static void equal_segments_are_not_looked_at(void **state)
{
    (void)state;
    struct plan plans[8] = {{.name = "a"}};
    struct forest forest;
    uint64_t heads, loads, all_heads = 0, all_loads = 0;
    for (size_t i = 0; i < 8; i++) {
        plans[i].steps = 2000;
        plans[i].events[0] = (__typeof__(plans[i].events[0]))EVENT(1900 + i % 4, 0);
    }
    GROW(&forest, plans);
    for (size_t i = 0; i < 8; i++) {
        tb_calls(forest.runs[i], &heads, &loads);
        all_heads += heads;
        all_loads += loads;
    }
    assert_int_equal(forest.tree->n_end_states, 4);
    assert_true(all_heads < forest.tree->pairs * 300);
    assert_true(all_loads < forest.tree->pairs * 16);
    fell(&forest);
}

/* ---- random trees --------------------------------------------------------------------------- */

static bool holds(const struct tree_branch *branch, uint32_t run)
{
    for (uint32_t i = 0; i < branch->n_runs; i++)
        if (branch->runs[i] == run)
            return true;
    return false;
}

/* Where two runs part in the tree; 0: they do not. */
static uint64_t parting(const struct tree_branch *branch, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < branch->n_children; i++)
        if (holds(branch->children[i], a) && holds(branch->children[i], b))
            return parting(branch->children[i], a, b);
    return branch->split;
}

static uint64_t planted_parting(const struct plan *a, const struct plan *b)
{
    for (uint64_t step = 0; step < 8; step++)
        if (happened(a, 0, step) != happened(b, 0, step))
            return SEGMENT_STEP(step);
    return 0;
}

static void random_trees_are_found_as_they_were_planted(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct plan plans[12] = {{.name = "a"}};
        size_t n = 2 + tb_mix(seed, 1) % 11;
        for (size_t i = 0; i < n; i++)
            for (int e = 0; e < MAX_EVENTS; e++) {
                uint64_t r = tb_mix(tb_mix(seed, i), (uint64_t)e + 10);
                plans[i].events[e].is_set = r % 3 == 0;
                plans[i].events[e].step = 2 * (uint64_t)e + r / 3 % 2;
                plans[i].events[e].how = r / 6 % 2;
            }
        struct forest forest;
        grow_with(&forest, plans, n, NULL);
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < a; b++)
                assert_int_equal(parting(forest.tree->root, a, b),
                                 planted_parting(&plans[a], &plans[b]));
        fell(&forest);
    }
}

/* ---- rates and errors ----------------------------------------------------------------------- */

static void expect_rate(uint64_t runs, uint64_t of, double low, double high)
{
    struct tree_rate rate = tree_rate(runs, of);
    assert_true(fabs(rate.low - low) < 5e-5);
    assert_true(fabs(rate.high - high) < 5e-5);
}

/* The formula in decimal arithmetic, to four digits. */
static void rates_have_wilson_intervals(void **state)
{
    (void)state;
    assert_true(fabs(tree_rate(3, 7).rate - 3.0 / 7) < 1e-12);
    expect_rate(3, 7, 0.1582, 0.7495);
    expect_rate(0, 10, 0, 0.2775);
    expect_rate(10, 10, 0.7225, 1);
    expect_rate(0, 0, 0, 1);
}

static bool refuse(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    assert_true(done <= total);
    return done < 3;
}

static void bad_calls_and_cancelled_ones_are_errors(void **state)
{
    (void)state;
    struct plan plans[3] = {[1] = {.events = {EVENT(1, 0)}}};
    struct forest forest;
    struct tree_options options = TREE_OPTIONS_INIT;
    write_runs(&forest, plans, 3);
    assert_int_equal(tree_build(forest.inputs, 1, NULL, &forest.tree), DIVERGE_EINVAL);
    assert_int_equal(tree_build(forest.inputs, TREE_MAX_RUNS + 1, NULL, &forest.tree),
                     DIVERGE_ELIMIT);
    options.progress = refuse;
    assert_int_equal(tree_build(forest.inputs, 3, &options, &forest.tree), DIVERGE_ECLOSED);
    assert_null(forest.tree);
    fell(&forest);
}

/* Each call of a source fails once; tb_free checks that no chunk is left behind. */
static void a_source_that_fails_fails_the_tree(void **state)
{
    (void)state;
    struct plan plans[3] = {[1] = {.events = {EVENT(1, 0)}}, [2] = {.has_log = true}};
    struct forest forest;
    int status = DIVERGE_EIO;
    for (long nth = 1; status == DIVERGE_EIO; nth++) {
        write_runs(&forest, plans, 3);
        tb_break(forest.runs[1], DIVERGE_EIO, nth);
        status = tree_build(forest.inputs, 3, NULL, &forest.tree);
        assert_true(status == 0 || status == DIVERGE_EIO);
        assert_true(nth > 10 || status == DIVERGE_EIO);
        fell(&forest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_runs_are_one_branch_and_one_end_state),
        cmocka_unit_test(branches_part_at_their_own_steps),
        cmocka_unit_test(runs_that_leave_in_one_step_are_told_apart_by_how),
        cmocka_unit_test(a_branch_can_split_again),
        cmocka_unit_test(another_rank_parts_as_well),
        cmocka_unit_test(ways_that_meet_again_are_one_end_state),
        cmocka_unit_test(an_extra_op_is_no_branch),
        cmocka_unit_test(an_extra_op_is_no_branch_of_those_that_leave),
        cmocka_unit_test(a_run_killed_before_the_split_is_in_no_branch),
        cmocka_unit_test(runs_that_agree_but_are_not_whole_are_unverified),
        cmocka_unit_test(a_missing_rank_is_not_placed_by_the_others),
        cmocka_unit_test(a_difference_after_a_gap_is_the_first_observed),
        cmocka_unit_test(no_run_is_whole_and_none_is_called_the_same),
        cmocka_unit_test(runs_that_all_leave_in_one_step_are_not_compared_with_each_other),
        cmocka_unit_test(runs_that_leave_one_after_the_other_are_halved),
        cmocka_unit_test(equal_segments_are_not_looked_at),
        cmocka_unit_test(random_trees_are_found_as_they_were_planted),
        cmocka_unit_test(rates_have_wilson_intervals),
        cmocka_unit_test(bad_calls_and_cancelled_ones_are_errors),
        cmocka_unit_test(a_source_that_fails_fails_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
