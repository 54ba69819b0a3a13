/* SPDX-License-Identifier: Apache-2.0 */
/* Where: the segment, the record, its relation to its inputs; what is counted on the way. */
#include "tests/unit/daemon/engine/check.h"

#include <stdlib.h>

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

static void equal_runs_are_the_same(void **state)
{
    (void)state;
    struct tb *a = plain("a"), *b = plain("b");
    struct engine_answer *answer = diff(a, b);
    expect_result(answer, ENGINE_SAME);
    expect_verdict(answer, "none", NULL);
    assert_null(answer->first);
    assert_int_equal(answer->n_reasons, 0);
    assert_int_equal(answer->compared.boundaries, 9);
    assert_int_equal(answer->compared.steps, 8);
    assert_int_equal(answer->compared.ranks, 1);
    assert_int_equal(answer->compared.only_a + answer->compared.only_b, 0);
    assert_true(answer->has_agree);
    assert_int_equal(answer->agree_boundary, 8);
    assert_false(answer->has_bracket);
    uint64_t records = 0;
    for (int tier = 0; tier < DIVERGE_TIER_EVIDENCE; tier++)
        records += tb_run(a)->streams[0].tiers[tier].records;
    assert_int_equal(answer->compared.records, records);
    finish(answer, a, b);
}

static void counts_do_not_need_running_sums(void **state)
{
    (void)state;
    struct tb *a = plain("a"), *b = plain("b");
    struct training training = TRAINING_INIT;
    training.kernel_at = 5;
    struct tb *c = training_new("c", &training), *d = training_new("d", &training);
    struct engine_answer *with = diff(a, c);
    tb_no_sums(b);
    tb_no_sums(d);
    struct engine_answer *without = diff(b, d);
    assert_int_equal(with->compared.records, without->compared.records);
    assert_int_equal(with->compared.boundaries, without->compared.boundaries);
    assert_int_equal(with->compared.steps, without->compared.steps);
    finish(with, a, b);
    finish(without, c, d);
}

static void a_kernel_is_an_origin(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    training.kernel_at = 5;
    training.layer = 1;
    struct tb *a = plain("a"), *b = training_new("b", &training);
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(5), "fc1", "linear", "");
    expect_relation(answer, ENGINE_ORIGIN);
    assert_int_equal(answer->first->site->role, DIVERGE_ROLE_OUTPUT);
    assert_int_equal(answer->first->inputs.equal, 2);
    assert_int_equal(answer->first->inputs.differ, 0);
    assert_int_equal(answer->agree_boundary, 5);
    assert_int_equal(answer->loss_segment, SEGMENT_STEP(5));
    assert_false(answer->has_bracket);
    assert_int_equal(answer->compared.steps, 6);
    assert_int_equal(answer->compared.boundaries, 6);
    finish(answer, a, b);
}

/* At step level the same fault is seen where it first shows: the loss. */
static void without_ops_the_first_state_is_the_place(void **state)
{
    (void)state;
    struct training plain_training = TRAINING_INIT, training = TRAINING_INIT;
    plain_training.level = training.level = DIVERGE_TIER_STEP;
    training.kernel_at = 5;
    struct tb *a = training_new("a", &plain_training), *b = training_new("b", &training);
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(5), "", "", "loss");
    expect_relation(answer, ENGINE_STATE);
    assert_int_equal(answer->verdict.confidence, ENGINE_POSSIBLE);
    assert_false(answer->has_bracket);
    finish(answer, a, b);
}

static void sparse_state_gives_a_bracket(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT, other = TRAINING_INIT;
    training.level = other.level = DIVERGE_TIER_STEP;
    training.steps = other.steps = 16;
    other.state_every = 4;
    other.update_at = 9;
    training.state_every = 4;
    struct tb *a = training_new("a", &training), *b = training_new("b", &other);
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(10), "", "", "loss");
    assert_true(answer->has_bracket && answer->bracket_has_last);
    assert_int_equal(answer->bracket_last_equal, SEGMENT_BOUNDARY(8));
    assert_int_equal(answer->bracket_first_differ, SEGMENT_STEP(10));
    assert_int_equal(answer->agree_boundary, 8);
    finish(answer, a, b);
}

static void a_tier_on_one_side_only_is_a_matter_of_the_bracket(void **state)
{
    (void)state;
    struct training full = TRAINING_INIT, sparse = TRAINING_INIT;
    full.steps = sparse.steps = 16;
    full.level = sparse.level = DIVERGE_TIER_STEP;
    sparse.state_every = 8;
    struct tb *a = training_new("a", &full), *b = training_new("b", &sparse);
    struct engine_answer *answer = diff(a, b);
    expect_result(answer, ENGINE_SAME);
    assert_true(answer->compared.only_a > 0);
    assert_int_equal(answer->compared.only_b, 0);
    engine_answer_free(answer);
    tb_free(b);
    sparse.update_at = 11;
    sparse.level = DIVERGE_TIER_STEP;
    b = training_new("b", &sparse);
    answer = diff(a, b);
    assert_int_equal(answer->bracket_last_equal, SEGMENT_BOUNDARY(8));
    assert_int_equal(answer->bracket_first_differ, answer->first->segment);
    finish(answer, a, b);
}

/* Data before ops, whatever the lanes are called. */
static void data_comes_before_ops_of_an_earlier_lane(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new(i ? "b" : "a");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, "w", 1);
        tb_step(tb, 0);
        tb_lane(tb, "a-first");
        tb_op(tb, "mm", 0, NULL);
        tb_in(tb, 0, 10 + i);
        tb_out(tb, 0, 20 + i);
        tb_close(tb);
        tb_lane(tb, "z-last");
        tb_phase(tb, DIVERGE_PHASE_DATA);
        tb_batch(tb, "tokens", 5 + i);
        tb_lane(tb, "main");
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_place(answer, SEGMENT_STEP(0), "", "", "tokens");
    assert_string_equal(answer->first->site->lane, "z-last");
    finish(answer, runs[0], runs[1]);
}

/* The lane "aux" sorts first and receives what "main" made. */
static void an_origin_in_another_lane_explains_a_receiver(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new(i ? "b" : "a");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, "w", 1);
        tb_step(tb, 0);
        tb_lane(tb, "aux");
        tb_op(tb, "copy", 0, NULL);
        tb_in(tb, 0, 20 + i);
        tb_out(tb, 0, 30 + i);
        tb_close(tb);
        tb_lane(tb, "main");
        tb_op(tb, "mm", 0, NULL);
        tb_in(tb, 0, 10);
        tb_out(tb, 0, 20 + i);
        tb_close(tb);
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_place(answer, SEGMENT_STEP(0), "", "mm", "");
    expect_relation(answer, ENGINE_ORIGIN);
    finish(answer, runs[0], runs[1]);
}

static void lanes_are_ordered_by_name(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new(i ? "b" : "a");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, "w", 1);
        tb_step(tb, 0);
        static const char *const lanes[] = {"zeta", "beta", "alpha"};
        for (int l = 0; l < 3; l++) {
            tb_lane(tb, lanes[l]);
            tb_op(tb, "sum", 0, NULL);
            tb_in(tb, 0, 10);
            tb_out(tb, 0, 20 + (l < 2 ? i : 0));
            tb_close(tb);
        }
        tb_lane(tb, "main");
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    assert_string_equal(answer->first->site->lane, "beta");
    finish(answer, runs[0], runs[1]);
}

static void candidates_are_one_a_rank(void **state)
{
    (void)state;
    struct tb *a = tb_new("a"), *b = tb_new("b");
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct training training = TRAINING_INIT;
        training.rank = rank;
        training_record(a, &training);
        training.layer = 1;
        if (rank == 2)
            training.kernel_at = 3;
        if (rank == 3)
            training.kernel_at = 5;
        training_record(b, &training);
    }
    struct engine_answer *answer = diff(a, b);
    assert_int_equal(answer->compared.ranks, 4);
    assert_int_equal(answer->n_candidates, 2);
    expect_place(answer, SEGMENT_STEP(3), "fc1", "linear", "");
    assert_int_equal(answer->first->rank, 2);
    assert_int_equal(answer->candidates[1]->rank, 3);
    assert_int_equal(answer->agree_boundary, 3);
    engine_answer_free(answer);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.rank = 3;
    answer = diff_with(a, b, &options);
    expect_place(answer, SEGMENT_STEP(5), "fc1", "linear", "");
    assert_int_equal(answer->compared.ranks, 1);
    engine_answer_free(answer);
    options.rank = 0;
    answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_SAME);
    finish(answer, a, b);
}

static void steps_can_be_limited(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    training.kernel_at = 5;
    struct tb *a = plain("a"), *b = training_new("b", &training);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.last_step = 4;
    struct engine_answer *answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->compared.steps, 5);
    assert_int_equal(answer->agree_boundary, 5);
    engine_answer_free(answer);
    options.first_step = 7;
    options.last_step = UINT64_MAX;
    answer = diff_with(a, b, &options);
    expect_place(answer, SEGMENT_BOUNDARY(7), "", "", "emb.weight");
    engine_answer_free(answer);
    options.first_step = 3;
    answer = diff_with(a, b, &options);
    expect_place(answer, SEGMENT_STEP(5), "emb", "linear", "");
    assert_int_equal(answer->compared.steps, 3);
    finish(answer, a, b);
}

static void all_lists_what_follows(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    training.kernel_at = 6;
    struct tb *a = plain("a"), *b = training_new("b", &training);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.all = true;
    options.max_notes = 1000;
    struct engine_answer *answer = diff_with(a, b, &options);
    assert_true(answer->n_also > 10);
    uint64_t last = 0;
    for (size_t i = 0; i < answer->n_also; i++) {
        if (answer->also[i]->site->tier == DIVERGE_TIER_EVIDENCE)
            continue;
        assert_true(answer->also[i]->segment >= last);
        last = answer->also[i]->segment;
    }
    assert_int_equal(last, SEGMENT_BOUNDARY(8));
    engine_answer_free(answer);
    options.max_notes = 7;
    answer = diff_with(a, b, &options);
    assert_int_equal(answer->n_also, 7);
    finish(answer, a, b);
}

static void renamed_scopes_are_mapped(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new(i ? "b" : "a");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, i ? "net.fc1.w" : "model.fc1.w", 1);
        tb_step(tb, 0);
        tb_scope(tb, i ? "net.fc1" : "model.fc1");
        tb_op(tb, "mm", 0, NULL);
        tb_in(tb, 0, 10);
        tb_out(tb, 0, 20 + i);
        tb_close(tb);
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_relation(answer, ENGINE_STRUCTURE);
    engine_answer_free(answer);
    static const char *const map[][2] = {{"net.", "model."}};
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.map = map;
    options.n_map = 1;
    answer = diff_with(runs[0], runs[1], &options);
    expect_place(answer, SEGMENT_STEP(0), "model.fc1", "mm", "");
    expect_relation(answer, ENGINE_ORIGIN);
    finish(answer, runs[0], runs[1]);
}

/* ---- resumed runs --------------------------------------------------------------------------- */

static void a_run_that_resumed_says_its_first_boundary(void **state)
{
    (void)state;
    struct training resumed = TRAINING_INIT;
    resumed.first = 4;
    for (int without_init = 0; without_init < 2; without_init++) {
        resumed.no_init = without_init;
        struct tb *a = plain("a"), *b = training_new("b", &resumed);
        struct engine_answer *answer = diff(a, b);
        CHECK(answer, !has_reason(answer, "rank 0"));
        struct training later = resumed;
        later.kernel_at = 6;
        struct tb *c = training_new("c", &later);
        struct engine_answer *differs = diff(a, c);
        expect_place(differs, SEGMENT_STEP(6), "emb", "linear", "");
        assert_int_equal(differs->agree_boundary, 6);
        engine_answer_free(differs);
        tb_free(c);
        finish(answer, a, b);
    }
}

static void an_offset_is_found_by_the_parameters(void **state)
{
    (void)state;
    struct training resumed = TRAINING_INIT;
    resumed.first = resumed.renumber = 3;
    resumed.kernel_at = 6;
    resumed.layer = 2;
    struct tb *a = plain("a"), *b = training_new("b", &resumed);
    struct engine_answer *answer = diff(a, b);
    assert_int_equal(answer->offset, 3);
    expect_place(answer, SEGMENT_STEP(6), "head", "linear", "");
    engine_answer_free(answer);
    answer = diff(b, a);
    assert_int_equal(answer->offset, -3);
    expect_place(answer, SEGMENT_STEP(3), "head", "linear", "");
    engine_answer_free(answer);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.offset = 3;
    answer = diff_with(a, b, &options);
    expect_place(answer, SEGMENT_STEP(6), "head", "linear", "");
    engine_answer_free(answer);
    options.offset = 0; /* said by hand, and wrong */
    answer = diff_with(a, b, &options);
    assert_int_equal(answer->first->segment, SEGMENT_BOUNDARY(0));
    finish(answer, a, b);
}

static void a_faithful_resume_with_offset_is_the_same(void **state)
{
    (void)state;
    struct training resumed = TRAINING_INIT;
    resumed.first = resumed.renumber = 3;
    struct tb *a = plain("a"), *b = training_new("b", &resumed);
    struct engine_answer *answer = diff(a, b);
    assert_int_equal(answer->offset, 3);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->compared.steps, 5);
    assert_int_equal(answer->compared.boundaries, 6);
    assert_int_equal(answer->agree_boundary, 8);
    engine_answer_free(answer);
    answer = diff(b, a);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->offset, -3);
    assert_int_equal(answer->compared.steps, 5);
    finish(answer, a, b);
}

/* ---- search --------------------------------------------------------------------------------- */

static struct tb *long_run(uint64_t steps, uint64_t differs_at)
{
    struct tb *tb = tb_new("long");
    tb_rank(tb, 0);
    for (uint64_t k = 0; k <= steps; k++) {
        uint64_t tainted = k > differs_at;
        tb_boundary(tb, k);
        tb_param(tb, "w", tb_mix(k, tainted));
        if (k == steps)
            break;
        tb_step(tb, k);
        tb_loss(tb, (double)(k * 2 + (k >= differs_at)));
    }
    tb_end(tb);
    return tb;
}

static void the_search_is_logarithmic(void **state)
{
    (void)state;
    uint64_t heads[2], loads[2];
    static const uint64_t steps[2] = {1000, 100000};
    for (int i = 0; i < 2; i++) {
        struct tb *a = long_run(steps[i], UINT64_MAX), *b = long_run(steps[i], steps[i] / 3);
        struct engine_answer *answer = diff(a, b);
        expect_place(answer, SEGMENT_STEP(steps[i] / 3), "", "", "loss");
        assert_int_equal(answer->compared.boundaries, steps[i] / 3 + 1);
        tb_calls(a, &heads[i], &loads[i]);
        finish(answer, a, b);
    }
    assert_true(loads[0] < 32 && loads[1] < 32);
    assert_true(heads[1] < 200);
    assert_true(heads[1] < heads[0] * 2);
}

static void other_specs_are_scanned(void **state)
{
    (void)state;
    struct tb *a = long_run(50, UINT64_MAX), *b = long_run(50, 31);
    tb_spec(b, "modules=.*");
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(31), "", "", "loss");
    engine_answer_free(answer);
    struct tb *c = long_run(50, UINT64_MAX);
    tb_spec(c, "other");
    answer = diff(a, c);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->compared.steps, 50);
    engine_answer_free(answer);
    tb_free(a);
    tb_free(b);
    tb_free(c);
}

static bool count_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return --*(int *)ctx > 0;
}

static void a_scan_can_be_cancelled(void **state)
{
    (void)state;
    struct tb *a = long_run(20000, UINT64_MAX), *b = long_run(20000, UINT64_MAX);
    tb_spec(b, "other");
    int left = 3;
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.progress = count_progress;
    options.progress_ctx = &left;
    struct engine_answer *answer = NULL;
    assert_int_equal(
        engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), &options, &answer),
        -16);
    assert_null(answer);
    assert_int_equal(left, 0);
    tb_free(a);
    tb_free(b);
}

/* ---- properties ----------------------------------------------------------------------------- */

/* One record of a random trace is changed: exactly that one is found. */
static struct tb *random_trace(unsigned seed, long planted, char *where, size_t size)
{
    struct tb *tb = tb_new("random");
    uint64_t steps = 3 + tb_mix(seed, 1) % 6;
    long n = 0;
    tb_rank(tb, 0);
    for (uint64_t k = 0; k <= steps; k++) {
        tb_boundary(tb, k);
        uint64_t params = 1 + tb_mix(seed, 2) % 4;
        for (uint64_t p = 0; p < params; p++, n++) {
            uint64_t value = tb_mix(tb_mix(seed, k), p);
            tb_param(tb, tb_text(tb, "p%llu", (unsigned long long)p), value + (n == planted));
            if (n == planted)
                snprintf(where, size, "%llu//p%llu", (unsigned long long)SEGMENT_BOUNDARY(k),
                         (unsigned long long)p);
        }
        if (k == steps)
            break;
        tb_step(tb, k);
        uint64_t ops = 1 + tb_mix(seed, k) % 12;
        for (uint64_t o = 0; o < ops; o++, n++) {
            const char *lane = tb_mix(seed, o) % 3 ? "main" : "aux";
            const char *op = tb_text(tb, "op%llu", (unsigned long long)(tb_mix(seed + 1, o) % 3));
            tb_lane(tb, lane);
            tb_op(tb, op, 0, NULL);
            tb_in(tb, 0, tb_mix(k, o));
            struct tb_record *out = tb_out(tb, 0, tb_mix(tb_mix(k, o), 9) + (n == planted));
            if (n == planted)
                snprintf(where, size, "%llu/%s/%s%u", (unsigned long long)SEGMENT_STEP(k), lane, op,
                         out->occurrence);
            tb_close(tb);
        }
        tb_lane(tb, "main");
    }
    tb_end(tb);
    return tb;
}

static void a_planted_difference_is_found_exactly(void **state)
{
    (void)state;
    char where[64], found[64];
    for (unsigned seed = 0; seed < 40; seed++)
        for (long planted = 0; planted < 24; planted += 1 + (long)(seed % 3)) {
            where[0] = '\0';
            struct tb *a = random_trace(seed, -1, NULL, 0);
            struct tb *b = random_trace(seed, planted, where, sizeof(where));
            struct engine_answer *answer = diff(a, b), *swapped = diff(b, a);
            assert_int_equal(answer->result, where[0] ? ENGINE_DIFFER : ENGINE_SAME);
            assert_int_equal(swapped->result, answer->result);
            for (int i = 0; where[0] && i < 2; i++) {
                const struct engine_finding *first = (i ? swapped : answer)->first;
                const struct trace_site *site = first->site;
                if (site->role == DIVERGE_ROLE_PARAM)
                    snprintf(found, sizeof(found), "%llu//%s", (unsigned long long)first->segment,
                             site->name);
                else
                    snprintf(found, sizeof(found), "%llu/%s/%s%u",
                             (unsigned long long)first->segment, site->lane, site->op,
                             site->occurrence);
                assert_string_equal(found, where);
            }
            if (where[0]) {
                assert_int_equal(answer->first->a.value, swapped->first->b.value);
                assert_int_equal(answer->first->b.value, swapped->first->a.value);
                assert_string_equal(answer->verdict.class_name, swapped->verdict.class_name);
            }
            engine_answer_free(answer);
            engine_answer_free(swapped);
            tb_free(a);
            tb_free(b);
        }
}

static void one_word_changes_are_all_told(void **state)
{
    (void)state;
    struct training plants[10];
    for (size_t i = 0; i < 10; i++) {
        plants[i] = (struct training)TRAINING_INIT;
        plants[i].layer = 1;
    }
    plants[0].kernel_at = 2;
    plants[1].data_at = 2;
    plants[2].lr_at = 2;
    plants[3].draw_at = 2;
    plants[4].skip_reduce_at = 2;
    plants[5].raw_write_at = 2;
    plants[6].update_at = 2;
    plants[7].nan_at = 2;
    plants[8].argument_at = 2;
    plants[9].seed = 9;
    for (size_t i = 0; i < 10; i++) {
        struct tb *a = plain("a"), *b = training_new("b", &plants[i]);
        struct engine_answer *answer = diff(a, b), *swapped = diff(b, a);
        expect_result(answer, ENGINE_DIFFER);
        expect_result(swapped, ENGINE_DIFFER);
        assert_int_equal(answer->first->segment, swapped->first->segment);
        assert_string_equal(answer->first->site->op, swapped->first->site->op);
        assert_string_equal(answer->first->site->scope, swapped->first->site->scope);
        assert_int_equal(answer->first->relation, swapped->first->relation);
        assert_int_equal(answer->first->a.value, swapped->first->b.value);
        assert_string_equal(answer->verdict.class_name, swapped->verdict.class_name);
        assert_int_equal(answer->verdict.confidence, swapped->verdict.confidence);
        assert_int_equal(answer->compared.records, swapped->compared.records);
        assert_int_equal(answer->compared.only_a, swapped->compared.only_b);
        engine_answer_free(swapped);
        finish(answer, a, b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_runs_are_the_same),
        cmocka_unit_test(counts_do_not_need_running_sums),
        cmocka_unit_test(a_kernel_is_an_origin),
        cmocka_unit_test(without_ops_the_first_state_is_the_place),
        cmocka_unit_test(sparse_state_gives_a_bracket),
        cmocka_unit_test(a_tier_on_one_side_only_is_a_matter_of_the_bracket),
        cmocka_unit_test(data_comes_before_ops_of_an_earlier_lane),
        cmocka_unit_test(an_origin_in_another_lane_explains_a_receiver),
        cmocka_unit_test(lanes_are_ordered_by_name),
        cmocka_unit_test(candidates_are_one_a_rank),
        cmocka_unit_test(steps_can_be_limited),
        cmocka_unit_test(all_lists_what_follows),
        cmocka_unit_test(renamed_scopes_are_mapped),
        cmocka_unit_test(a_run_that_resumed_says_its_first_boundary),
        cmocka_unit_test(an_offset_is_found_by_the_parameters),
        cmocka_unit_test(a_faithful_resume_with_offset_is_the_same),
        cmocka_unit_test(the_search_is_logarithmic),
        cmocka_unit_test(other_specs_are_scanned),
        cmocka_unit_test(a_scan_can_be_cancelled),
        cmocka_unit_test(a_planted_difference_is_found_exactly),
        cmocka_unit_test(one_word_changes_are_all_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
