/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one run against each other: copies agree, shards and partial values are none. */
#include "tests/unit/daemon/engine/check.h"

#include <diverge/error.h>

#include "daemon/engine/replicas.h"

enum { RANKS = 4, STEPS = 5, NEVER = -1 };

/* What a rank of the run does otherwise than the others. */
struct plan {
    int64_t weight_at, buffer_at, moment_at, statistic_at; /* boundary from which it differs */
    int64_t skips_at;                                      /* step without its all_reduce */
    int64_t gap_at, stop_at;                               /* step */
    bool same_data;                                        /* reads rank 0's part */
    bool own_generator;
    bool is_partial; /* its differing weight is declared partial */
};

#define PLAN_INIT                                                                                  \
    {                                                                                              \
        .weight_at = NEVER, .buffer_at = NEVER, .moment_at = NEVER, .statistic_at = NEVER,         \
        .skips_at = NEVER, .gap_at = NEVER, .stop_at = NEVER, .own_generator = true                \
    }

static bool since(int64_t at, uint64_t k)
{
    return at != NEVER && k >= (uint64_t)at;
}

static void in_group(struct tb_record *record, enum diverge_placement placement, const char *group)
{
    record->placement = placement;
    record->group = group;
}

static void write_boundary(struct tb *tb, const struct plan *plan, uint32_t rank, uint64_t k)
{
    tb_boundary(tb, k);
    tb_rng(tb, "global", 0, plan->own_generator ? 100 * k + rank : 100 * k);
    struct tb_record *weight = tb_param(tb, "fc.weight", tb_mix(k, since(plan->weight_at, k)));
    in_group(weight, plan->is_partial ? DIVERGE_PLACEMENT_PARTIAL : DIVERGE_PLACEMENT_REPLICA,
             "dp");
    /* Two halves of the model: each is a copy within its own pair of ranks. */
    struct tb_record *half = tb_param(tb, "half.weight", tb_mix(k, 50 + rank / 2));
    in_group(half, DIVERGE_PLACEMENT_REPLICA, rank / 2 ? "pair1" : "pair0");
    struct tb_record *shard = tb_param(tb, "shard.weight", tb_mix(k, 90 + rank));
    in_group(shard, DIVERGE_PLACEMENT_SHARD, "dp");
    struct tb_record *mean =
        tb_param(tb, "bn.running_mean", tb_mix(k, 70 + (since(plan->statistic_at, k) ? rank : 0)));
    mean->role = DIVERGE_ROLE_BUFFER;
    struct tb_record *buffer = tb_param(tb, "mask", tb_mix(k, 60 + since(plan->buffer_at, k)));
    buffer->role = DIVERGE_ROLE_BUFFER;
    tb_optstate(tb, "fc.weight.exp_avg", tb_mix(k, 80 + since(plan->moment_at, k)));
}

static void write_step(struct tb *tb, const struct plan *plan, uint32_t rank, uint64_t k)
{
    tb_step(tb, k);
    tb_phase(tb, DIVERGE_PHASE_DATA);
    struct tb_record *batch = tb_batch(tb, "tokens", tb_mix(k, plan->same_data ? 0 : rank));
    in_group(batch, DIVERGE_PLACEMENT_SHARD, "dp");
    tb_phase(tb, DIVERGE_PHASE_BACKWARD);
    tb_op(tb, "mm_backward", 0, NULL);
    tb_out(tb, 0, tb_mix(k, rank));
    tb_close(tb);
    tb_grad(tb, "fc.weight", tb_mix(k, rank));
    tb_phase(tb, DIVERGE_PHASE_SYNC);
    if (plan->skips_at != (int64_t)k) {
        tb_scope(tb, "fc.weight");
        tb_op(tb, "all_reduce", DIVERGE_FLAG_COLLECTIVE, NULL);
        tb_out(tb, 0, tb_mix(k, 1));
        tb_close(tb);
        tb_scope(tb, "");
    }
    if (plan->gap_at == (int64_t)k)
        tb_gap(tb, DIVERGE_TIER_STEP, 1);
}

static struct tb *write_run(const struct plan *plans, uint32_t ranks)
{
    struct tb *tb = tb_new("run");
    tb_world(tb, ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool stopped = false;
        tb_rank(tb, rank);
        for (uint64_t k = 0; k <= STEPS && !stopped; k++) {
            write_boundary(tb, &plans[rank], rank, k);
            if (k == STEPS)
                break;
            write_step(tb, &plans[rank], rank, k);
            stopped = plans[rank].stop_at == (int64_t)k;
        }
        if (stopped)
            tb_unsealed(tb);
        else
            tb_end(tb);
    }
    return tb;
}

static struct replicas *check(struct tb *tb)
{
    struct replicas *replicas = NULL;
    assert_int_equal(replicas_check(tb_source(tb), tb_run(tb), NULL, NULL, &replicas), 0);
    return replicas;
}

static void finish(struct tb *tb, struct replicas *replicas)
{
    replicas_free(replicas);
    tb_free(tb);
}

static bool says(const char *const *texts, size_t n, const char *part)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(texts[i], part))
            return true;
    return false;
}

static void expect_desync(const struct replicas *replicas, const char *class_name,
                          const char *detail)
{
    assert_int_equal(replicas->result, ENGINE_DIFFER);
    assert_string_equal(replicas->verdict.class_name, class_name);
    assert_string_equal(replicas->verdict.detail, detail);
}

#define PLANS                                                                                      \
    {                                                                                              \
        PLAN_INIT, PLAN_INIT, PLAN_INIT, PLAN_INIT                                                 \
    }

/* ---- agreement ------------------------------------------------------------------------------ */

static void copies_that_agree_are_the_same(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    assert_int_equal(replicas->result, ENGINE_SAME);
    assert_string_equal(replicas->verdict.class_name, "none");
    assert_null(replicas->first);
    assert_true(replicas->has_agree);
    assert_int_equal(replicas->agree_boundary, STEPS);
    assert_int_equal(replicas->boundaries, STEPS + 1);
    assert_true(replicas->records > 0);
    assert_true(replicas->shards > 0);
    assert_int_equal(replicas->n_notes, 0);
    assert_int_equal(replicas->n_groups, 4);
    finish(tb, replicas);
}

static void statistics_of_batch_norm_are_a_note(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    for (int i = 0; i < RANKS; i++)
        plans[i].statistic_at = 1;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    assert_int_equal(replicas->result, ENGINE_SAME);
    assert_true(says(replicas->notes, replicas->n_notes, "bn.running_mean"));
    assert_int_equal(replicas->n_notes, 1);
    finish(tb, replicas);
}

static void partial_values_are_not_compared(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    plans[2].weight_at = 2;
    for (int i = 0; i < RANKS; i++)
        plans[i].is_partial = true;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    assert_int_equal(replicas->result, ENGINE_SAME);
    assert_true(replicas->partials > 0);
    finish(tb, replicas);
}

static void generators_in_one_state_are_a_note(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    for (int i = 0; i < RANKS; i++)
        plans[i].own_generator = false;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    assert_int_equal(replicas->result, ENGINE_SAME);
    assert_true(says(replicas->notes, replicas->n_notes, "generator global is in one state"));
    finish(tb, replicas);
}

/* ---- the odd one ---------------------------------------------------------------------------- */

static void the_odd_rank_is_told_from_the_many(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < RANKS; odd++) {
        struct plan plans[RANKS] = PLANS;
        plans[odd].weight_at = 3;
        struct tb *tb = write_run(plans, RANKS);
        struct replicas *replicas = check(tb);
        expect_desync(replicas, "desync", "parameter");
        assert_int_equal(replicas->verdict.confidence, ENGINE_CERTAIN);
        assert_int_equal(replicas->first->segment, SEGMENT_BOUNDARY(3));
        assert_string_equal(replicas->first->site->name, "fc.weight");
        assert_int_equal(replicas->first->rank, odd);
        assert_int_equal(replicas->rank_a, odd == 0 ? 1 : 0);
        assert_int_equal(replicas->n_classes, 2);
        assert_int_equal(replicas->classes[0].n_ranks, RANKS - 1);
        assert_int_equal(replicas->classes[1].ranks[0], odd);
        assert_int_equal(replicas->agree_boundary, 2);
        finish(tb, replicas);
    }
}

static void buffers_and_moments_are_told_by_what_they_are(void **state)
{
    (void)state;
    struct plan buffer[RANKS] = PLANS, moment[RANKS] = PLANS;
    buffer[1].buffer_at = 2;
    moment[3].moment_at = 2;
    moment[3].weight_at = 3; /* follows */
    struct tb *tb = write_run(buffer, RANKS);
    struct replicas *replicas = check(tb);
    expect_desync(replicas, "desync", "buffer");
    assert_string_equal(replicas->first->site->name, "mask");
    finish(tb, replicas);
    tb = write_run(moment, RANKS);
    replicas = check(tb);
    expect_desync(replicas, "desync", "optimizer");
    assert_int_equal(replicas->first->segment, SEGMENT_BOUNDARY(2));
    finish(tb, replicas);
}

static void a_skipped_collective_explains_the_state(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    plans[1].skips_at = 2;
    plans[1].weight_at = 3;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    expect_desync(replicas, "desync", "missing-collective");
    assert_int_equal(replicas->first->segment, SEGMENT_STEP(2));
    assert_string_equal(replicas->first->site->op, "all_reduce");
    assert_true(says(replicas->verdict.evidence, replicas->verdict.n_evidence,
                     "is made by rank 0 and not by rank 1"));
    finish(tb, replicas);
}

/* One fact short: the collective is skipped in another step than the one before the difference. */
static void a_collective_of_another_step_explains_nothing(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    plans[1].skips_at = 3;
    plans[1].weight_at = 3;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    expect_desync(replicas, "desync", "parameter");
    finish(tb, replicas);
}

static void data_that_is_shared_out_must_differ(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    plans[2].same_data = true;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    expect_desync(replicas, "data", "replay");
    assert_string_equal(replicas->first->site->name, "tokens");
    assert_int_equal(replicas->first->rank, 2);
    finish(tb, replicas);
}

/* ---- failing closed ------------------------------------------------------------------------- */

static void what_is_missing_is_unverified(void **state)
{
    (void)state;
    struct plan stopped[RANKS] = PLANS, gap[RANKS] = PLANS;
    stopped[2].stop_at = 3;
    gap[1].gap_at = 2;
    struct {
        struct tb *tb;
        const char *reason;
    } cases[] = {
        {write_run(stopped, RANKS), "rank 2 did not end properly"},
        {write_run(gap, RANKS), "rank 1 has a gap"},
        {write_run(gap, 1), "there is one rank"},
        {write_run(stopped, 2), "4 ranks were declared, 2 recorded"},
    };
    tb_world(cases[3].tb, 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct replicas *replicas = check(cases[i].tb);
        assert_int_equal(replicas->result, ENGINE_UNVERIFIED);
        assert_string_equal(replicas->verdict.class_name, "unverified");
        assert_true(says(replicas->reasons, replicas->n_reasons, cases[i].reason));
        finish(cases[i].tb, replicas);
    }
}

static void a_difference_after_a_gap_is_possible(void **state)
{
    (void)state;
    struct plan plans[RANKS] = PLANS;
    plans[1].gap_at = 1;
    plans[1].weight_at = 4;
    struct tb *tb = write_run(plans, RANKS);
    struct replicas *replicas = check(tb);
    expect_desync(replicas, "desync", "parameter");
    assert_true(replicas->after_gap);
    assert_int_equal(replicas->verdict.confidence, ENGINE_POSSIBLE);
    finish(tb, replicas);
}

static void runs_without_state_are_unverified(void **state)
{
    (void)state;
    struct tb *tb = tb_new("stateless");
    tb_world(tb, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        tb_rank(tb, rank);
        tb_step(tb, 0);
        tb_loss(tb, 1);
        tb_end(tb);
    }
    struct replicas *replicas = check(tb);
    assert_int_equal(replicas->result, ENGINE_UNVERIFIED);
    assert_true(says(replicas->reasons, replicas->n_reasons, "nothing was compared"));
    finish(tb, replicas);
}

/* Each call of the source fails once; tb_free checks that no chunk is left behind. */
static void a_source_that_fails_fails_the_check(void **state)
{
    (void)state;
    int status = DIVERGE_EIO;
    for (long nth = 1; status == DIVERGE_EIO; nth++) {
        struct plan plans[RANKS] = PLANS;
        struct replicas *replicas = NULL;
        plans[3].weight_at = 2;
        struct tb *tb = write_run(plans, RANKS);
        tb_break(tb, DIVERGE_EIO, nth);
        status = replicas_check(tb_source(tb), tb_run(tb), NULL, NULL, &replicas);
        assert_true(status == 0 || status == DIVERGE_EIO);
        assert_true(nth > 10 || status == DIVERGE_EIO);
        finish(tb, replicas);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_that_agree_are_the_same),
        cmocka_unit_test(statistics_of_batch_norm_are_a_note),
        cmocka_unit_test(partial_values_are_not_compared),
        cmocka_unit_test(generators_in_one_state_are_a_note),
        cmocka_unit_test(the_odd_rank_is_told_from_the_many),
        cmocka_unit_test(buffers_and_moments_are_told_by_what_they_are),
        cmocka_unit_test(a_skipped_collective_explains_the_state),
        cmocka_unit_test(a_collective_of_another_step_explains_nothing),
        cmocka_unit_test(data_that_is_shared_out_must_differ),
        cmocka_unit_test(what_is_missing_is_unverified),
        cmocka_unit_test(a_difference_after_a_gap_is_possible),
        cmocka_unit_test(runs_without_state_are_unverified),
        cmocka_unit_test(a_source_that_fails_fails_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
