/* SPDX-License-Identifier: Apache-2.0 */
/* Failing closed: what is not fully compared is never called the same. */
#include "tests/unit/daemon/engine/check.h"

#include <diverge/error.h>

#include "client/wire/message.h"

static struct tb *plain(const char *name)
{
    struct training training = TRAINING_INIT;
    return training_new(name, &training);
}

static void finish(struct engine_answer *answer, struct tb *a, struct tb *b)
{
    engine_answer_free(answer);
    tb_free(a);
    tb_free(b);
}

/* Both orders give an unverified answer with this reason. */
static void expect_unverified(struct tb *a, struct tb *b, const char *reason)
{
    for (int i = 0; i < 2; i++) {
        struct engine_answer *answer = i ? diff(b, a) : diff(a, b);
        expect_result(answer, ENGINE_UNVERIFIED);
        expect_verdict(answer, "unverified", NULL);
        expect_reason(answer, reason);
        assert_null(answer->first);
        engine_answer_free(answer);
    }
    tb_free(a);
    tb_free(b);
}

static struct tb *counting(uint64_t steps, void (*at)(struct tb *tb, uint64_t k), bool end)
{
    struct tb *tb = tb_new("counting");
    tb_rank(tb, 0);
    for (uint64_t k = 0; k <= steps; k++) {
        tb_boundary(tb, k);
        tb_param(tb, "w", tb_mix(k, 0));
        if (k == steps)
            break;
        tb_step(tb, k);
        tb_loss(tb, (double)k);
        tb_scope(tb, "fc1");
        tb_op(tb, "mm", 0, NULL);
        tb_in(tb, 0, k);
        tb_out(tb, 0, k + 1);
        tb_close(tb);
        if (at)
            at(tb, k);
    }
    if (end)
        tb_end(tb);
    return tb;
}

static void a_killed_run_is_unverified(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    training.stop_at = 3;
    struct tb *a = plain("a"), *b = training_new("b", &training);
    struct engine_answer *answer = diff(a, b);
    assert_true(answer->has_agree);
    assert_int_equal(answer->agree_boundary, 3);
    assert_int_equal(answer->n_structure, 0); /* what is missing of the torn step is no structure */
    engine_answer_free(answer);
    expect_unverified(a, b, "did not end properly");
}

static void a_killed_run_differs_where_it_differs(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    training.stop_at = 5;
    training.kernel_at = 2;
    struct tb *a = plain("a"), *b = training_new("b", &training);
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(2), "emb", "linear", "");
    assert_int_equal(answer->verdict.confidence, ENGINE_LIKELY);
    finish(answer, a, b);
}

static void other_lengths_are_unverified(void **state)
{
    (void)state;
    expect_unverified(counting(5, NULL, true), counting(7, NULL, true), "rank 0 of ");
}

static void a_run_without_end_is_unverified(void **state)
{
    (void)state;
    expect_unverified(counting(5, NULL, true), counting(5, NULL, false), "did not end properly");
}

static void a_failed_run_is_unverified(void **state)
{
    (void)state;
    struct tb *b = counting(5, NULL, false);
    tb_fail(b);
    expect_unverified(counting(5, NULL, true), b, "failed");
}

static void drops_without_a_place_are_unverified(void **state)
{
    (void)state;
    struct tb *b = counting(5, NULL, true);
    tb_dropped(b, 17);
    struct tb *a = counting(5, NULL, true);
    struct engine_answer *answer = diff(a, b);
    assert_int_equal(answer->compared.dropped, 17);
    engine_answer_free(answer);
    expect_unverified(a, b, "dropped 17 records");
}

static void gap_at_2(struct tb *tb, uint64_t k)
{
    if (k == 2)
        tb_gap(tb, DIVERGE_TIER_OP, 4);
}

static void other_at_4(struct tb *tb, uint64_t k)
{
    if (k == 4)
        tb_param(tb, "w", 99);
}

static void gap_at_2_other_at_4(struct tb *tb, uint64_t k)
{
    gap_at_2(tb, k);
    other_at_4(tb, k);
}

static void add_param(struct tb *tb, uint64_t k)
{
    if (k == 4)
        tb_param(tb, "w", 98);
}

static void add_param_0(struct tb *tb, uint64_t k)
{
    if (k == 0)
        tb_param(tb, "w", 98);
}

static void gap_at_2_param_0(struct tb *tb, uint64_t k)
{
    gap_at_2(tb, k);
    if (k == 0)
        tb_param(tb, "w", 99);
}

static void a_gap_is_unverified(void **state)
{
    (void)state;
    expect_unverified(counting(5, NULL, true), counting(5, gap_at_2, true), "gap");
}

static void a_difference_after_a_gap_is_first_observed(void **state)
{
    (void)state;
    struct tb *a = counting(6, add_param, true), *b = counting(6, gap_at_2_other_at_4, true);
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(4), "fc1", "", "w");
    assert_int_equal(answer->verdict.confidence, ENGINE_POSSIBLE);
    CHECK(answer, has_evidence(answer, "first observed"));
    expect_reason(answer, "gap");
    finish(answer, a, b);
}

static void a_difference_before_a_gap_is_a_difference(void **state)
{
    (void)state;
    struct tb *a = counting(6, add_param_0, true), *b = counting(6, gap_at_2_param_0, true);
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(0), "fc1", "", "w");
    CHECK(answer, !has_evidence(answer, "first observed"));
    finish(answer, a, b);
}

static void unread_at_3(struct tb *tb, uint64_t k)
{
    struct tb_record *record = tb_grad(tb, "w", 5);
    if (k == 3) {
        record->state = DVG_STATE_UNREAD;
        record->value = 0;
    }
}

static void all_read(struct tb *tb, uint64_t k)
{
    (void)k;
    tb_grad(tb, "w", 5);
}

/* Unread equals nothing, not even another unread; it differs from nothing either. */
static void unread_records_equal_nothing(void **state)
{
    (void)state;
    expect_unverified(counting(5, unread_at_3, true), counting(5, unread_at_3, true), "be read");
    expect_unverified(counting(5, all_read, true), counting(5, unread_at_3, true), "be read");
}

static void another_fingerprint_cannot_be_compared(void **state)
{
    (void)state;
    struct tb *b = counting(5, NULL, true);
    tb_fingerprint(b, "l61.2");
    expect_unverified(counting(5, NULL, true), b, "fingerprints are of another kind");
}

static void nothing(struct tb *tb)
{
    tb_rank(tb, 0);
    tb_end(tb);
}

static void empty_runs_are_unverified(void **state)
{
    (void)state;
    struct tb *a = tb_new("a"), *b = tb_new("b");
    expect_unverified(a, b, "nothing was compared");
    a = tb_new("a");
    b = tb_new("b");
    nothing(a);
    nothing(b);
    expect_unverified(a, b, "nothing was compared");
    b = tb_new("b");
    nothing(b);
    expect_unverified(counting(3, NULL, true), b, "nothing was compared");
    a = tb_new("a"); /* rows, but no records */
    b = tb_new("b");
    for (int i = 0; i < 2; i++) {
        struct tb *tb = i ? a : b;
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_empty_tier(tb, DIVERGE_TIER_STEP);
        tb_end(tb);
    }
    expect_unverified(a, b, "nothing was compared");
}

static void a_missing_rank_is_unverified(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a = plain("a"), *b = plain("b");
    training.rank = 1;
    training_record(a, &training);
    expect_unverified(a, b, "rank 1 of ");
    a = plain("a");
    b = plain("b");
    tb_world(a, 2);
    expect_unverified(a, b, "declared 2 ranks, 1 was recorded");
}

static void a_rank_that_was_not_asked_for_may_be_missing(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a = plain("a"), *b = plain("b");
    training.rank = 1;
    training_record(a, &training);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.rank = 0;
    struct engine_answer *answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_SAME);
    engine_answer_free(answer);
    options.rank = 1;
    answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_UNVERIFIED);
    expect_reason(answer, "rank 1 of B was not recorded");
    engine_answer_free(answer);
    options.rank = 7;
    answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_UNVERIFIED);
    expect_reason(answer, "nothing was compared");
    finish(answer, a, b);
}

static void pruned_records_differ_by_their_digest(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        struct tb *a = tb_new("a"), *b = tb_new("b");
        for (uint64_t i = 0; i < 2; i++) {
            struct tb *tb = i ? b : a;
            tb_rank(tb, 0);
            for (uint64_t k = 0; k < 4; k++) {
                tb_boundary(tb, k);
                tb_param(tb, "w", k);
                tb_step(tb, k);
                tb_op(tb, "mm", 0, NULL);
                tb_in(tb, 0, k);
                tb_out(tb, 0, k + (k >= 2 ? i : 0));
                tb_close(tb);
                if (i || both)
                    tb_pruned(tb, DIVERGE_TIER_OP);
            }
            tb_end(tb);
        }
        struct engine_answer *answer = diff(a, b);
        expect_result(answer, ENGINE_DIFFER);
        assert_int_equal(answer->first->segment, SEGMENT_STEP(2));
        assert_false(answer->first->a.present || answer->first->b.present);
        assert_int_equal(answer->verdict.confidence, ENGINE_POSSIBLE);
        finish(answer, a, b);
    }
}

static void equal_pruned_runs_are_the_same(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (int i = 0; i < 2; i++) {
        runs[i] = counting(4, NULL, true);
        tb_pruned(runs[i], DIVERGE_TIER_STEP);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_result(answer, ENGINE_SAME);
    finish(answer, runs[0], runs[1]);
}

/* The steps that were asked for are complete: what the run lost after them does not matter. */
static void a_loss_after_the_steps_that_were_asked_for_does_no_harm(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    training.stop_at = 4;
    struct tb *a = plain("a"), *b = training_new("b", &training);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.last_step = 3;
    struct engine_answer *answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->compared.steps, 4);
    engine_answer_free(answer);
    options.last_step = 4;
    answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_UNVERIFIED);
    finish(answer, a, b);
}

/* A gap that lies before the part that is compared does no harm. */
static void a_gap_before_the_resume_does_not_hide_a_difference(void **state)
{
    (void)state;
    struct tb *a = tb_new("a"), *b = tb_new("b");
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = i ? b : a;
        tb_rank(tb, 0);
        for (uint64_t k = i ? 3 : 0; k < 6; k++) {
            tb_boundary(tb, k);
            tb_param(tb, "w", k);
            tb_step(tb, k);
            tb_op(tb, "mm", 0, NULL);
            tb_in(tb, 0, k);
            tb_out(tb, 0, k + (k >= 4 ? i : 0));
            tb_close(tb);
            if (!i && k == 1)
                tb_gap(tb, DIVERGE_TIER_OP, 3);
        }
        tb_end(tb);
    }
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(4), "", "mm", "");
    CHECK(answer, !has_evidence(answer, "first observed"));
    finish(answer, a, b);
}

/* Property: wherever a gap is, runs without a difference are never the same. */
static uint64_t gap_step;
static int gap_tier;

static void gap_anywhere(struct tb *tb, uint64_t k)
{
    if (k == gap_step)
        tb_gap(tb, (enum diverge_tier)gap_tier, 1);
}

static void same_is_never_said_over_a_gap(void **state)
{
    (void)state;
    static const int tiers[] = {DIVERGE_TIER_PULSE, DIVERGE_TIER_OP};
    for (size_t t = 0; t < 2; t++)
        for (gap_step = 0; gap_step < 6; gap_step++) {
            gap_tier = tiers[t];
            expect_unverified(counting(6, NULL, true), counting(6, gap_anywhere, true), "gap");
            expect_unverified(counting(6, gap_anywhere, true), counting(6, gap_anywhere, true),
                              "gap");
        }
}

static void a_source_that_fails_is_reported(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    training.kernel_at = 5;
    bool finished = false;
    for (long nth = 0; nth < 2000 && !finished; nth++) {
        struct tb *a = plain("a"), *b = training_new("b", &training);
        struct engine_answer *answer = NULL;
        tb_run(b);
        tb_break(b, DIVERGE_EIO, nth);
        int status =
            engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), NULL, &answer);
        finished = status == 0;
        assert_true(status == 0 || status == DIVERGE_EIO);
        assert_true((answer != NULL) == (status == 0));
        finish(answer, a, b);
    }
    assert_true(finished);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    struct tb *a = plain("a"), *b = plain("b");
    struct engine_answer *answer = NULL;
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.first_step = 5;
    options.last_step = 4;
    assert_int_equal(
        engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), &options, &answer),
        DIVERGE_EINVAL);
    options = (struct engine_options)ENGINE_OPTIONS_INIT;
    options.offset = INT64_MAX;
    assert_int_equal(
        engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), &options, &answer),
        DIVERGE_EINVAL);
    options.offset = 1000000;
    answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_UNVERIFIED);
    finish(answer, a, b);
    engine_answer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_run_is_unverified),
        cmocka_unit_test(a_killed_run_differs_where_it_differs),
        cmocka_unit_test(other_lengths_are_unverified),
        cmocka_unit_test(a_run_without_end_is_unverified),
        cmocka_unit_test(a_failed_run_is_unverified),
        cmocka_unit_test(drops_without_a_place_are_unverified),
        cmocka_unit_test(a_gap_is_unverified),
        cmocka_unit_test(a_difference_after_a_gap_is_first_observed),
        cmocka_unit_test(a_difference_before_a_gap_is_a_difference),
        cmocka_unit_test(unread_records_equal_nothing),
        cmocka_unit_test(another_fingerprint_cannot_be_compared),
        cmocka_unit_test(empty_runs_are_unverified),
        cmocka_unit_test(a_missing_rank_is_unverified),
        cmocka_unit_test(a_rank_that_was_not_asked_for_may_be_missing),
        cmocka_unit_test(pruned_records_differ_by_their_digest),
        cmocka_unit_test(equal_pruned_runs_are_the_same),
        cmocka_unit_test(a_loss_after_the_steps_that_were_asked_for_does_no_harm),
        cmocka_unit_test(a_gap_before_the_resume_does_not_hide_a_difference),
        cmocka_unit_test(same_is_never_said_over_a_gap),
        cmocka_unit_test(a_source_that_fails_is_reported),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
