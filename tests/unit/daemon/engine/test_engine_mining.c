/* SPDX-License-Identifier: Apache-2.0 */
/* Mining: same op, arguments and inputs, other output; and everything that must not pass for it. */
#include "tests/unit/daemon/engine/check.h"

#include <diverge/error.h>

#include "client/wire/message.h"
#include "daemon/engine/mining.h"

enum { MAX_RUNS = 32 };

/* A run at a place, in which `op` with one input made `output`, once a step. */
struct plan {
    const char *host;
    const char *cause;
    uint64_t outputs[8];
    size_t steps;
};

static struct tb *begin(const char *name, const char *host, const char *cause)
{
    struct tb *tb = tb_new(name);
    if (cause)
        tb_metadata(tb, "argv", "cause", cause);
    if (host)
        tb_metadata(tb, "host", "context", host);
    tb_rank(tb, 0);
    return tb;
}

static struct tb *record(const char *name, const struct plan *plan)
{
    struct tb *tb = begin(name, plan->host, plan->cause);
    for (size_t k = 0; k < plan->steps; k++) {
        tb_step(tb, k);
        tb_phase(tb, DIVERGE_PHASE_BACKWARD);
        tb_scope(tb, "emb");
        tb_op(tb, "scatter", 0, "dim=0");
        tb_in(tb, 0, 100 + k);
        tb_out(tb, 0, plan->outputs[k]);
        tb_close(tb);
        tb_op(tb, "mm", 0, NULL);
        tb_in(tb, 0, plan->outputs[k]);
        tb_out(tb, 0, tb_mix(plan->outputs[k], 1));
        tb_close(tb);
    }
    tb_end(tb);
    return tb;
}

struct lab {
    struct tb *runs[MAX_RUNS];
    size_t n;
    struct mining *mining;
    const struct mining_result *result;
};

static void scan_with(struct lab *lab, const struct mining_options *options)
{
    lab->mining = mining_new(options);
    assert_non_null(lab->mining);
    for (size_t i = 0; i < lab->n; i++)
        assert_int_equal(mining_add(lab->mining, tb_source(lab->runs[i]), tb_run(lab->runs[i])), 0);
    assert_int_equal(mining_scan(lab->mining, &lab->result), 0);
}

static void record_all(struct lab *lab, const struct plan *plans, size_t n)
{
    static const char *const names[] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7",
                                        "r8", "r9", "ra", "rb", "rc", "rd", "re", "rf"};
    *lab = (struct lab){.n = n};
    for (size_t i = 0; i < n; i++)
        lab->runs[i] = record(names[i], &plans[i]);
    scan_with(lab, NULL);
}

static void finish(struct lab *lab)
{
    mining_free(lab->mining);
    for (size_t i = 0; i < lab->n; i++)
        tb_free(lab->runs[i]);
}

/* ---- what is found -------------------------------------------------------------------------- */

static void an_op_with_equal_inputs_and_another_output_is_a_suspect(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"h", "x", {1, 2, 3, 4}, 4}, {"h", "x", {1, 20, 3, 40}, 4}, {"h", "x", {1, 2, 3, 41}, 4}};
    struct lab lab;
    record_all(&lab, plans, 3);
    const struct mining_result *result = lab.result;
    assert_int_equal(result->runs, 3);
    assert_int_equal(result->segments, 12);
    assert_int_equal(result->calls, 24);
    assert_int_equal(result->n_suspects, 1); /* mm follows its inputs: each gives one output */
    const struct mining_suspect *suspect = &result->suspects[0];
    assert_string_equal(suspect->op, "scatter");
    assert_int_equal(suspect->calls, 12);
    assert_int_equal(suspect->repeated, 4);
    assert_int_equal(suspect->differing, 2);
    assert_int_equal(suspect->same_causes, 2);
    assert_int_equal(suspect->inherited, 0);
    assert_int_equal(suspect->blame, MINING_ONE_PLACE);
    assert_true(suspect->low > 0.14 && suspect->low < 0.16);
    assert_true(suspect->high > 0.84 && suspect->high < 0.86);
    finish(&lab);
}

static void the_example_is_two_places_with_their_values(void **state)
{
    (void)state;
    static const struct plan plans[] = {{"h", "x", {1, 2}, 2}, {"h", "x", {1, 20}, 2}};
    struct lab lab;
    record_all(&lab, plans, 2);
    assert_int_equal(lab.result->n_suspects, 1);
    const struct mining_suspect *suspect = &lab.result->suspects[0];
    assert_true(suspect->has_example);
    const struct mining_place *a = &suspect->example[0], *b = &suspect->example[1];
    assert_string_equal(a->run->name, "r0");
    assert_string_equal(b->run->name, "r1");
    assert_int_equal(a->segment, SEGMENT_STEP(1));
    assert_int_equal(b->segment, SEGMENT_STEP(1));
    assert_string_equal(a->scope, "emb");
    assert_int_equal(a->phase, DIVERGE_PHASE_BACKWARD);
    assert_int_equal(a->value, 2);
    assert_int_equal(b->value, 20);
    finish(&lab);
}

static void the_second_of_two_outputs_is_the_one_shown(void **state)
{
    (void)state;
    struct lab lab = {.n = 2};
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = lab.runs[i] = begin(i ? "b" : "a", "h", "x");
        tb_step(tb, 0);
        tb_op(tb, "max", 0, NULL);
        tb_in(tb, 0, 5);
        tb_out(tb, 0, 6);
        tb_out(tb, 1, 7 + i);
        tb_close(tb);
        tb_end(tb);
    }
    scan_with(&lab, NULL);
    assert_int_equal(lab.result->n_suspects, 1);
    assert_int_equal(lab.result->suspects[0].example[0].slot, 1);
    assert_int_equal(lab.result->suspects[0].example[1].value, 8);
    finish(&lab);
}

static void two_calls_of_one_run_are_a_group(void **state)
{
    (void)state;
    struct lab lab = {.n = 1};
    struct tb *tb = lab.runs[0] = begin("a", NULL, NULL);
    tb_step(tb, 0);
    for (uint64_t i = 0; i < 2; i++) {
        tb_op(tb, "scatter", 0, NULL);
        tb_in(tb, 0, 5);
        tb_out(tb, 0, 6 + i);
        tb_close(tb);
    }
    tb_end(tb);
    scan_with(&lab, NULL);
    assert_int_equal(lab.result->n_suspects, 1);
    assert_int_equal(lab.result->suspects[0].same_causes, 1);
    finish(&lab);
}

static void equal_segments_are_read_once_and_counted_each_time(void **state)
{
    (void)state;
    struct plan plans[10];
    for (size_t i = 0; i < 10; i++)
        plans[i] = (struct plan){"h", "x", {1, 2, 3, 4}, 4};
    plans[9].outputs[3] = 44;
    struct lab lab = {.n = 10};
    for (size_t i = 0; i < 10; i++)
        lab.runs[i] = record("r", &plans[i]);
    for (size_t i = 0; i < 10; i++) {
        tb_run(lab.runs[i]);
        tb_calls(lab.runs[i], &(uint64_t){0}, &(uint64_t){0});
    }
    scan_with(&lab, NULL);
    uint64_t loads = 0;
    for (size_t i = 0; i < 10; i++) {
        uint64_t heads, more;
        tb_calls(lab.runs[i], &heads, &more);
        loads += more;
    }
    assert_int_equal(lab.result->segments, 40);
    assert_int_equal(lab.result->shared, 35);
    assert_int_equal(loads, 5 + 2); /* five distinct segments, and the example's two */
    assert_int_equal(lab.result->suspects[0].calls, 40);
    assert_int_equal(lab.result->suspects[0].repeated, 4);
    assert_int_equal(lab.result->suspects[0].differing, 1);
    finish(&lab);
}

static void inherited_inputs_count_and_are_told(void **state)
{
    (void)state;
    struct lab lab = {.n = 2};
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = lab.runs[i] = begin(i ? "b" : "a", "h", "x");
        tb_step(tb, 0);
        tb_op(tb, "scatter", 0, NULL);
        tb_in(tb, 0, 5)->state = DVG_STATE_INHERITED;
        tb_out(tb, 0, 6 + i);
        tb_close(tb);
        tb_end(tb);
    }
    scan_with(&lab, NULL);
    assert_int_equal(lab.result->n_suspects, 1);
    assert_int_equal(lab.result->suspects[0].inherited, 1);
    finish(&lab);
}

/* ---- near misses ---------------------------------------------------------------------------- */

enum miss {
    NOTHING,
    ARGUMENT,
    RANDOM,
    COLLECTIVE,
    UNINITIALISED,
    UNREAD_INPUT,
    UNREAD_OUTPUT,
    NO_INPUT,
    ABSENT_INPUT,
    OTHER_INPUT,
    INPUT_DTYPE,
    INPUT_SHAPE,
    OUTPUT_DTYPE,
    ATTRIBUTE,
    GAP,
    UNSEALED,
    PRUNED,
    FINGERPRINT,
    LAYER,
    MISSES,
};

/* A module: its parameters are no inputs of the record. */
static void add_module(struct tb *tb, uint64_t i)
{
    struct tb_record record = {.tier = DIVERGE_TIER_LAYER,
                               .role = DIVERGE_ROLE_INPUT,
                               .kind = DIVERGE_KIND_TENSOR,
                               .dtype = DIVERGE_F32,
                               .ndim = 1,
                               .sizes = {4},
                               .value = 5};
    tb_op(tb, "Linear", 0, NULL);
    tb_add(tb, record);
    record.role = DIVERGE_ROLE_OUTPUT;
    record.value = 6 + i;
    tb_add(tb, record);
    tb_close(tb);
}

static void miss_call(struct tb *tb, uint64_t i, enum miss miss)
{
    if (miss == LAYER) {
        add_module(tb, i);
        return;
    }
    uint32_t flags = miss == RANDOM          ? DIVERGE_FLAG_RANDOM
                     : miss == COLLECTIVE    ? DIVERGE_FLAG_COLLECTIVE
                     : miss == UNINITIALISED ? DIVERGE_FLAG_UNINITIALISED
                                             : 0;
    tb_op(tb, "scatter", flags, miss == ARGUMENT && i ? "dim=1" : "dim=0");
    if (miss != NO_INPUT) {
        struct tb_record *in = tb_in(tb, 0, miss == OTHER_INPUT ? 5 + i : 5);
        if (miss == UNREAD_INPUT)
            in->state = DVG_STATE_UNREAD;
        if (miss == ABSENT_INPUT)
            in->kind = DIVERGE_KIND_ABSENT;
        if (miss == INPUT_DTYPE && i)
            in->dtype = DIVERGE_BF16;
        if (miss == INPUT_SHAPE && i) {
            in->ndim = 2;
            in->sizes[0] = in->sizes[1] = 2;
        }
    }
    if (miss == ATTRIBUTE)
        tb_add(tb, (struct tb_record){.tier = DIVERGE_TIER_OP,
                                      .role = DIVERGE_ROLE_ATTR,
                                      .name = "algorithm",
                                      .kind = DIVERGE_KIND_INTEGER,
                                      .value = i});
    struct tb_record *out = tb_out(tb, 0, 6 + i);
    if (miss == UNREAD_OUTPUT)
        out->state = DVG_STATE_UNREAD;
    if (miss == OUTPUT_DTYPE && i)
        out->dtype = DIVERGE_BF16;
    tb_close(tb);
}

static size_t suspects_of(enum miss miss)
{
    struct lab lab = {.n = 2};
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = lab.runs[i] = begin(i ? "b" : "a", "h", "x");
        if (miss == FINGERPRINT && i)
            tb_fingerprint(tb, "other/1");
        tb_step(tb, 0);
        miss_call(tb, i, miss);
        if (miss == GAP && i)
            tb_gap(tb, DIVERGE_TIER_OP, 1);
        if (miss == UNSEALED && i)
            tb_unsealed(tb);
        if (miss == PRUNED && i)
            tb_pruned(tb, DIVERGE_TIER_OP);
        tb_end(tb);
    }
    scan_with(&lab, NULL);
    size_t n = lab.result->n_suspects;
    if (miss == PRUNED)
        assert_int_equal(lab.result->pruned, 1);
    if (miss == GAP || miss == UNSEALED)
        assert_int_equal(lab.result->incomplete, 1);
    if (miss == RANDOM)
        assert_int_equal(lab.result->left_out, 2);
    finish(&lab);
    return n;
}

static void near_misses_are_no_suspects(void **state)
{
    (void)state;
    assert_int_equal(suspects_of(NOTHING), 1);
    for (int miss = NOTHING + 1; miss < MISSES; miss++) {
        if (suspects_of((enum miss)miss) != 0)
            fail_msg("near miss %d is a suspect", miss);
    }
}

static void an_op_that_repeats_itself_is_no_suspect(void **state)
{
    (void)state;
    static const struct plan plans[] = {{"h", "x", {1, 2}, 2}, {"g", "y", {1, 2}, 2}};
    struct lab lab;
    record_all(&lab, plans, 2);
    assert_int_equal(lab.result->n_suspects, 0);
    assert_int_equal(lab.result->repeated, 4);
    finish(&lab);
}

static void other_causes_are_told_from_equal_ones(void **state)
{
    (void)state;
    static const struct plan plans[] = {{"h", "x", {1}, 1}, {"h", "y", {2}, 1}};
    struct lab lab;
    record_all(&lab, plans, 2);
    assert_int_equal(lab.result->n_suspects, 1);
    assert_int_equal(lab.result->suspects[0].same_causes, 0);
    finish(&lab);
}

/* ---- who is to blame ------------------------------------------------------------------------ */

static enum mining_blame blame_of(const struct plan *plans, size_t n, const char *culprit)
{
    struct lab lab;
    record_all(&lab, plans, n);
    assert_int_equal(lab.result->n_suspects, 1);
    const struct mining_suspect *suspect = &lab.result->suspects[0];
    enum mining_blame blame = suspect->blame;
    if (culprit) {
        assert_non_null(suspect->culprit);
        assert_string_equal(suspect->culprit, culprit);
        assert_true(suspect->chance > 0 && suspect->chance < 0.01);
    } else {
        assert_null(suspect->culprit);
    }
    finish(&lab);
    return blame;
}

static void one_host_that_departs_from_the_others_is_named(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"h1", "x", {1, 2, 3, 4}, 4},     {"h2", "x", {1, 2, 3, 4}, 4},
        {"bad", "x", {1, 20, 30, 40}, 4}, {"h3", "x", {1, 2, 3, 4}, 4},
        {"h5", "x", {1, 2, 3, 4}, 4},     {"h4", "x", {1, 2, 3, 4}, 4},
        {"bad", "x", {10, 2, 30, 4}, 4},
    };
    assert_int_equal(blame_of(plans, 7, "bad"), MINING_ALONE);
}

static void once_is_too_little_to_blame_a_host(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"h1", "x", {1}, 1}, {"h2", "x", {1}, 1}, {"bad", "x", {9}, 1}};
    assert_int_equal(blame_of(plans, 3, NULL), MINING_UNDECIDED);
}

static void an_op_that_varies_on_two_hosts_is_not_a_hosts_fault(void **state)
{
    (void)state;
    static const struct plan plans[] = {{"h1", "x", {1, 2, 3, 4}, 4},
                                        {"h1", "x", {11, 2, 3, 4}, 4},
                                        {"h2", "x", {1, 2, 3, 4}, 4},
                                        {"h2", "x", {1, 2, 13, 4}, 4}};
    assert_int_equal(blame_of(plans, 4, NULL), MINING_ANYWHERE);
}

static void hosts_that_repeat_themselves_and_disagree_are_told(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"h1", "x", {1, 2, 3, 4, 5}, 5},
        {"h2", "x", {11, 12, 13, 14, 15}, 5},
        {"h1", "x", {1, 2, 3, 4, 5}, 5},
        {"h2", "x", {11, 12, 13, 14, 15}, 5},
    };
    assert_int_equal(blame_of(plans, 4, NULL), MINING_FOLLOWS);
}

/* Outputs that are never the same twice say nothing of hosts that ran once each. */
static void singletons_say_nothing_of_hosts(void **state)
{
    (void)state;
    static const struct plan plans[] = {
        {"h1", "x", {1, 2, 3, 4, 5, 6, 7, 8}, 8},
        {"h2", "x", {11, 12, 13, 14, 15, 16, 17, 18}, 8},
    };
    assert_int_equal(blame_of(plans, 2, NULL), MINING_UNDECIDED);
}

static void ranks_have_hosts_of_their_own(void **state)
{
    (void)state;
    struct lab lab = {.n = 1};
    struct tb *tb = lab.runs[0] = tb_new("a");
    tb_metadata(tb, "host", "context", "h0");
    tb_metadata(tb, "host@1", "context", "h1");
    tb_world(tb, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        tb_rank(tb, rank);
        tb_step(tb, 0);
        tb_op(tb, "scatter", 0, NULL);
        tb_in(tb, 0, 5);
        tb_out(tb, 0, 6 + rank);
        tb_close(tb);
        tb_end(tb);
    }
    scan_with(&lab, NULL);
    assert_int_equal(lab.result->places, 2);
    assert_int_equal(lab.result->suspects[0].blame, MINING_UNDECIDED);
    finish(&lab);
}

/* ---- bounds --------------------------------------------------------------------------------- */

static struct tb *many_calls(const char *name, uint64_t n, uint64_t salt)
{
    struct tb *tb = begin(name, "h", "x");
    tb_step(tb, 0);
    for (uint64_t i = 0; i < n; i++) {
        tb_op(tb, "scatter", 0, NULL);
        tb_in(tb, 0, 1000 + i);
        tb_out(tb, 0, i == 7 ? salt : i);
        tb_close(tb);
    }
    tb_end(tb);
    return tb;
}

static void memory_has_a_cap_and_what_had_no_room_is_counted(void **state)
{
    (void)state;
    enum { CALLS = 40000 };
    struct lab lab = {.n = 2};
    lab.runs[0] = many_calls("a", CALLS, 1);
    lab.runs[1] = many_calls("b", CALLS, 2);
    struct mining_options options = MINING_OPTIONS_INIT;
    options.max_bytes = (size_t)2 << 20;
    scan_with(&lab, &options);
    assert_true(lab.result->groups >= 4096 && lab.result->groups < CALLS);
    assert_int_equal(lab.result->over_cap, 2 * (CALLS - lab.result->groups));
    assert_int_equal(lab.result->n_suspects, 1); /* groups that had room go on */
    assert_int_equal(lab.result->suspects[0].differing, 1);
    finish(&lab);
}

static void a_great_many_groups_are_told_apart(void **state)
{
    (void)state;
    enum { CALLS = 40000 };
    struct lab lab = {.n = 2};
    lab.runs[0] = many_calls("a", CALLS, 1);
    lab.runs[1] = many_calls("b", CALLS, 2);
    scan_with(&lab, NULL);
    assert_int_equal(lab.result->groups, CALLS);
    assert_int_equal(lab.result->repeated, CALLS);
    assert_int_equal(lab.result->over_cap, 0);
    assert_int_equal(lab.result->suspects[0].differing, 1);
    finish(&lab);
}

static void a_thousand_outputs_of_one_call_are_one_group(void **state)
{
    (void)state;
    struct lab lab = {.n = 1};
    struct tb *tb = lab.runs[0] = begin("a", "h", "x");
    tb_step(tb, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        tb_op(tb, "scatter", 0, NULL);
        tb_in(tb, 0, 5);
        tb_out(tb, 0, i);
        tb_close(tb);
    }
    tb_end(tb);
    scan_with(&lab, NULL);
    assert_int_equal(lab.result->groups, 1);
    assert_int_equal(lab.result->suspects[0].calls, 1000);
    finish(&lab);
}

static bool refuse(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    assert_true(done <= total);
    return false;
}

static void a_scan_can_be_cancelled(void **state)
{
    (void)state;
    static const struct plan plan = {"h", "x", {1, 2, 3, 4, 5, 6, 7, 8}, 8};
    struct tb *tb = record("a", &plan);
    struct mining_options options = MINING_OPTIONS_INIT;
    options.progress = refuse;
    struct mining *mining = mining_new(&options);
    const struct mining_result *result;
    assert_int_equal(mining_add(mining, tb_source(tb), tb_run(tb)), 0);
    assert_int_equal(mining_add(mining, tb_source(tb), tb_run(tb)), 0);
    assert_int_equal(mining_scan(mining, &result), DIVERGE_ECLOSED);
    mining_free(mining);
    tb_free(tb);
}

static void a_source_that_fails_ends_the_scan(void **state)
{
    (void)state;
    static const struct plan plan = {"h", "x", {1, 2, 3}, 3};
    for (long nth = 1; nth < 12; nth++) {
        struct tb *tb = record("a", &plan);
        struct mining *mining = mining_new(NULL);
        const struct mining_result *result;
        assert_int_equal(mining_add(mining, tb_source(tb), tb_run(tb)), 0);
        tb_break(tb, DIVERGE_EIO, nth);
        int status = mining_scan(mining, &result);
        assert_true(status == DIVERGE_EIO || (nth > 10 && status == 0));
        mining_free(mining);
        tb_free(tb);
    }
}

static void break_types(struct trace_chunk *chunk, void *ctx)
{
    (void)ctx;
    chunk->n_types = 0;
}

static void a_chunk_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct plan plan = {"h", "x", {1, 2, 3}, 3};
    struct tb *tb = record("a", &plan);
    struct mining *mining = mining_new(NULL);
    const struct mining_result *result;
    tb_damage(tb, break_types, NULL);
    assert_int_equal(mining_add(mining, tb_source(tb), tb_run(tb)), 0);
    assert_int_equal(mining_scan(mining, &result), DIVERGE_ECORRUPT);
    mining_free(mining);
    tb_free(tb);
}

/* Against values worked out with another program: n, m, low, high. */
static void wilson_intervals_are_right(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, m;
        double low, high;
    } rows[] = {{0, 0, 0, 1},
                {0, 10, 0, 0.277533},
                {10, 10, 0.722467, 1},
                {3, 7, 0.158220, 0.749542},
                {1, 1000, 0.000177, 0.005643}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double low, high;
        mining_wilson(rows[i].n, rows[i].m, &low, &high);
        assert_float_equal(low, rows[i].low, 1e-5);
        assert_float_equal(high, rows[i].high, 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_with_equal_inputs_and_another_output_is_a_suspect),
        cmocka_unit_test(the_example_is_two_places_with_their_values),
        cmocka_unit_test(the_second_of_two_outputs_is_the_one_shown),
        cmocka_unit_test(two_calls_of_one_run_are_a_group),
        cmocka_unit_test(equal_segments_are_read_once_and_counted_each_time),
        cmocka_unit_test(inherited_inputs_count_and_are_told),
        cmocka_unit_test(near_misses_are_no_suspects),
        cmocka_unit_test(an_op_that_repeats_itself_is_no_suspect),
        cmocka_unit_test(other_causes_are_told_from_equal_ones),
        cmocka_unit_test(one_host_that_departs_from_the_others_is_named),
        cmocka_unit_test(once_is_too_little_to_blame_a_host),
        cmocka_unit_test(an_op_that_varies_on_two_hosts_is_not_a_hosts_fault),
        cmocka_unit_test(hosts_that_repeat_themselves_and_disagree_are_told),
        cmocka_unit_test(singletons_say_nothing_of_hosts),
        cmocka_unit_test(ranks_have_hosts_of_their_own),
        cmocka_unit_test(memory_has_a_cap_and_what_had_no_room_is_counted),
        cmocka_unit_test(a_great_many_groups_are_told_apart),
        cmocka_unit_test(a_thousand_outputs_of_one_call_are_one_group),
        cmocka_unit_test(a_scan_can_be_cancelled),
        cmocka_unit_test(a_source_that_fails_ends_the_scan),
        cmocka_unit_test(a_chunk_that_does_not_fit_is_refused),
        cmocka_unit_test(wilson_intervals_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
