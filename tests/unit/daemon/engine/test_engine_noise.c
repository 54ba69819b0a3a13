/* SPDX-License-Identifier: Apache-2.0 */
/* The first difference beyond noise: what repeats, a tolerance and the operands excuse. */
#include "tests/unit/daemon/engine/check.h"

#include <math.h>

#include "client/wire/message.h"
#include "daemon/engine/bands.h"

enum { STEPS = 4, SITES = 3 };

/* A run of three ops a step; each output's norm is given relative to 1. */
struct plan {
    double norm[STEPS][SITES];
    double weight_norm; /* of the ops' other operand; 0: there is none */
    uint64_t nan[STEPS][SITES];
    int64_t ids[STEPS];
    const char *argument;
    const char *threads;
    bool extra_gradient; /* one that only this run has */
};

static struct plan plan_new(void)
{
    struct plan plan = {.threads = "1"};
    for (int k = 0; k < STEPS; k++)
        for (int s = 0; s < SITES; s++)
            plan.norm[k][s] = 1;
    return plan;
}

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return tb_mix(bits, 1);
}

static struct tb_record *tensor(struct tb_record *record, double norm)
{
    record->dtype = DIVERGE_F32;
    record->ndim = 1;
    record->sizes[0] = 4096;
    record->state |= DVG_STATE_STATS | DVG_STATE_L2 | DVG_STATE_SUM;
    record->l2 = (float)norm;
    return record;
}

static void record_step(struct tb *tb, const struct plan *plan, int k)
{
    static const char *const ops[SITES] = {"mm", "gelu", "sum"};
    tb_step(tb, (uint64_t)k);
    tb_batch_integer(tb, "ids", (uint64_t)plan->ids[k]);
    tb_phase(tb, DIVERGE_PHASE_FORWARD);
    for (int s = 0; s < SITES; s++) {
        tb_op(tb, ops[s], 0, plan->argument ? plan->argument : "x");
        tensor(tb_in(tb, 0, 77), 1);
        if (plan->weight_norm > 0)
            tensor(tb_in(tb, 1, 78), plan->weight_norm);
        struct tb_record *out = tensor(tb_out(tb, 0, bits_of(plan->norm[k][s])), plan->norm[k][s]);
        out->nan = plan->nan[k][s];
        tb_close(tb);
    }
    tensor(tb_grad(tb, "w", 5), 1);
    if (plan->extra_gradient)
        tensor(tb_grad(tb, "more.weight", 5), 1);
}

static struct tb *make(const char *name, const struct plan *plan)
{
    struct tb *tb = tb_new(name);
    tb_metadata(tb, "seed", "cause", "0");
    tb_metadata(tb, "num_threads", "cause", plan->threads);
    tb_rank(tb, 0);
    tb_boundary(tb, 0);
    tensor(tb_param(tb, "w", 1), 1);
    for (int k = 0; k < STEPS; k++) {
        record_step(tb, plan, k);
        tb_boundary(tb, (uint64_t)k + 1);
        tensor(tb_param(tb, "w", bits_of(plan->norm[k][0])), plan->norm[k][0]);
    }
    tb_end(tb);
    return tb;
}

struct trial {
    struct plan a, b, repeats[4], repeats_b[2];
    size_t n_repeats, n_repeats_b;
    double tolerance;
    struct tb *runs[8];
    size_t n_runs;
    struct engine_answer *answer;
};

static struct trial trial_new(size_t n_repeats)
{
    struct trial trial = {.n_repeats = n_repeats};
    trial.a = trial.b = plan_new();
    for (size_t i = 0; i < 4; i++)
        trial.repeats[i] = plan_new();
    for (size_t i = 0; i < 2; i++)
        trial.repeats_b[i] = plan_new();
    return trial;
}

static struct tb *add_run(struct trial *trial, const char *name, const struct plan *plan)
{
    return trial->runs[trial->n_runs++] = make(name, plan);
}

static const struct engine_answer *run_trial(struct trial *trial, bool excuse)
{
    struct engine_options options = ENGINE_OPTIONS_INIT;
    struct engine_repeat repeats[2][4];
    struct tb *a = add_run(trial, "a", &trial->a), *b = add_run(trial, "b", &trial->b);
    for (size_t i = 0; i < trial->n_repeats + trial->n_repeats_b; i++) {
        bool of_b = i >= trial->n_repeats;
        size_t n = of_b ? i - trial->n_repeats : i;
        struct tb *tb = add_run(trial, of_b ? "again-b" : "again",
                                of_b ? &trial->repeats_b[n] : &trial->repeats[n]);
        repeats[of_b][n] = (struct engine_repeat){.source = tb_source(tb), .run = tb_run(tb)};
    }
    options.repeats[0] = repeats[0];
    options.repeats[1] = repeats[1];
    options.n_repeats[0] = trial->n_repeats;
    options.n_repeats[1] = trial->n_repeats_b;
    options.tolerance = trial->tolerance;
    options.excuse_noise = excuse;
    trial->answer = diff_with(a, b, &options);
    return trial->answer;
}

static void trial_free(struct trial *trial)
{
    engine_answer_free(trial->answer);
    for (size_t i = 0; i < trial->n_runs; i++)
        tb_free(trial->runs[i]);
}

static void expect_beyond(const struct engine_answer *answer, uint64_t segment, const char *op)
{
    expect_result(answer, ENGINE_DIFFER);
    CHECK(answer, answer->beyond_noise != NULL);
    CHECK(answer, answer->beyond_noise->segment == segment);
    CHECK(answer, strcmp(answer->beyond_noise->site->op, op) == 0);
}

static void expect_within(const struct engine_answer *answer)
{
    expect_result(answer, ENGINE_WITHIN_NOISE);
    CHECK(answer, answer->first != NULL);
    CHECK(answer, answer->beyond_noise == NULL);
    CHECK(answer, answer->noise.complete);
}

/* ---- the envelope ---------------------------------------------------------------------------- */

static void a_difference_like_that_of_repeats_is_within_noise(void **state)
{
    (void)state;
    struct trial trial = trial_new(3);
    trial.b.norm[1][1] = 1.001;
    trial.repeats[0].norm[1][1] = 1.0008;
    trial.repeats[2].norm[1][1] = 0.9991;
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_within(answer);
    assert_int_equal(answer->first->segment, SEGMENT_STEP(1));
    assert_string_equal(answer->noise.first.why, "noise");
    assert_true(answer->noise.statistics);
    assert_int_equal(answer->noise.repeats, 3);
    trial_free(&trial);
}

static void without_asking_noise_excuses_nothing(void **state)
{
    (void)state;
    struct trial trial = trial_new(3);
    trial.b.norm[1][1] = 1.001;
    trial.repeats[0].norm[1][1] = 1.0008;
    const struct engine_answer *answer = run_trial(&trial, false);
    expect_result(answer, ENGINE_DIFFER);
    assert_null(answer->beyond_noise);
    trial_free(&trial);
}

static void noise_of_a_site_does_not_excuse_another(void **state)
{
    (void)state;
    struct trial trial = trial_new(3);
    trial.b.norm[1][2] = 1.001;
    trial.repeats[0].norm[1][1] = 1.0008;
    trial.repeats[1].norm[1][1] = 1.01;
    expect_beyond(run_trial(&trial, true), SEGMENT_STEP(1), "sum");
    trial_free(&trial);
}

static void the_first_bit_difference_stands_beside_the_first_beyond_noise(void **state)
{
    (void)state;
    struct trial trial = trial_new(2);
    trial.b.norm[0][1] = 1.0001;
    trial.repeats[0].norm[0][1] = 1.0002;
    trial.b.norm[2][2] = 1.5;
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_beyond(answer, SEGMENT_STEP(2), "sum");
    expect_place(answer, SEGMENT_STEP(0), "", "gelu", "");
    assert_ptr_not_equal(answer->first, answer->beyond_noise);
    assert_string_equal(answer->noise.beyond.why, "beyond");
    assert_true(answer->noise.beyond.distance > 0.3);
    trial_free(&trial);
}

static void noise_seen_in_earlier_steps_counts(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    trial.b.norm[0][1] = 1.0001;
    trial.repeats[0].norm[0][1] = 1.0002;
    trial.b.norm[3][1] = 1.0003; /* the repeat happens to be equal there */
    expect_within(run_trial(&trial, true));
    trial_free(&trial);
}

static void far_beyond_the_envelope_is_beyond(void **state)
{
    (void)state;
    struct trial trial = trial_new(4);
    trial.b.norm[1][1] = 1.01;
    for (size_t i = 0; i < 4; i++)
        trial.repeats[i].norm[1][1] = 1 + 1e-4 * (double)i;
    expect_beyond(run_trial(&trial, true), SEGMENT_STEP(1), "gelu");
    trial_free(&trial);
}

/* ---- what is exact --------------------------------------------------------------------------- */

static void other_counts_of_nan_are_beyond_noise(void **state)
{
    (void)state;
    struct trial trial = trial_new(2);
    trial.b.norm[1][1] = trial.repeats[0].norm[1][1] = 1.001;
    trial.b.nan[1][1] = 1;
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_beyond(answer, SEGMENT_STEP(1), "gelu");
    assert_string_equal(answer->noise.beyond.why, "non-finite");
    trial_free(&trial);
}

static void other_samples_are_beyond_any_tolerance(void **state)
{
    (void)state;
    struct trial trial = trial_new(0);
    trial.tolerance = 0.5;
    trial.a.ids[1] = 1000000;
    trial.b.ids[1] = 1000001;
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_result(answer, ENGINE_DIFFER);
    assert_ptr_equal(answer->beyond_noise, answer->first);
    assert_string_equal(answer->noise.beyond.why, "exact");
    trial_free(&trial);
}

static void another_argument_is_beyond_noise(void **state)
{
    (void)state;
    struct trial trial = trial_new(0);
    trial.tolerance = 0.5;
    trial.b.argument = "y";
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_beyond(answer, SEGMENT_STEP(0), "mm");
    assert_string_equal(answer->noise.beyond.why, "argument");
    trial_free(&trial);
}

static void a_record_that_is_missing_is_beyond_noise(void **state)
{
    (void)state;
    struct trial trial = trial_new(0);
    trial.tolerance = 0.5;
    trial.b.extra_gradient = true;
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_result(answer, ENGINE_DIFFER);
    assert_string_equal(answer->noise.beyond.why, "structure");
    trial_free(&trial);
}

/* ---- tolerance and floors -------------------------------------------------------------------- */

static void a_tolerance_excuses_up_to_itself(void **state)
{
    (void)state;
    struct trial trial = trial_new(0);
    trial.tolerance = 1e-3;
    trial.b.norm[1][1] = 1.0009;
    expect_within(run_trial(&trial, true));
    trial_free(&trial);
    trial = trial_new(0);
    trial.tolerance = 1e-3;
    trial.b.norm[1][1] = 1.0011;
    expect_beyond(run_trial(&trial, true), SEGMENT_STEP(1), "gelu");
    trial_free(&trial);
}

static void what_is_zero_but_for_rounding_has_no_relative_error(void **state)
{
    (void)state;
    struct trial trial = trial_new(1); /* that repeats A exactly */
    trial.a.norm[1][2] = trial.repeats[0].norm[1][2] = 1e-7;
    trial.b.norm[1][2] = 3e-7; /* of operands of norm 1 */
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_within(answer);
    assert_string_equal(answer->noise.first.why, "operands");
    trial_free(&trial);
}

static void the_floor_does_not_hide_a_small_tensors_change(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    trial.a.norm[1][2] = trial.repeats[0].norm[1][2] = 1e-4;
    trial.b.norm[1][2] = 1.1e-4;
    expect_beyond(run_trial(&trial, true), SEGMENT_STEP(1), "sum");
    trial_free(&trial);
}

static void a_large_operand_does_not_hide_what_a_small_one_makes(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    trial.a.weight_norm = trial.b.weight_norm = trial.repeats[0].weight_norm = 1e6;
    trial.a.norm[1][2] = trial.repeats[0].norm[1][2] = 3;
    trial.b.norm[1][2] = 8;
    /* The factors' norms allow terms of 1e6, and 8 ulp of that: 0.95. */
    expect_beyond(run_trial(&trial, true), SEGMENT_STEP(1), "sum");
    trial_free(&trial);
}

static void rounding_is_within_noise_when_a_repeats_itself(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    trial.b.norm[1][1] = 1 + 2.5e-7;
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_within(answer);
    assert_string_equal(answer->noise.first.why, "rounding");
    trial_free(&trial);
}

/* Of attention: the key's bias has no effect, so its gradient is what rounding left over. */
static struct tb *attention(const char *name, uint64_t i, double bias_gradient)
{
    struct tb *tb = tb_new(name);
    tb_rank(tb, 0);
    for (uint64_t k = 0; k < 2; k++) {
        tb_boundary(tb, k);
        tensor(tb_param(tb, "key.weight", 11 + k), 4);
        /* Adam makes a step of lr from any gradient. */
        tensor(tb_param(tb, "key.bias", 12 + k * (1 + i)), k ? 0.01 + 0.001 * (double)i : 0.005);
        tensor(tb_optstate(tb, "key.bias.exp_avg", 13 + k * (1 + i)), 1e-8 * (double)(1 + k + i));
        tb_step(tb, k);
        tb_phase(tb, DIVERGE_PHASE_BACKWARD);
        tensor(tb_grad(tb, "key.weight", 20 + k), 0.5);
        tensor(tb_grad(tb, "key.bias", 30 + i), bias_gradient * (double)(1 + i));
    }
    tb_boundary(tb, 2);
    tb_end(tb);
    return tb;
}

static void a_parameter_without_a_real_gradient_is_excused(void **state)
{
    (void)state;
    static const double gradients[] = {1e-8, 1e-3}; /* rounding error of 0.5, and a real one */
    for (int n = 0; n < 2; n++) {
        struct tb *a = attention("a", 0, gradients[n]), *b = attention("b", 1, gradients[n]);
        struct tb *again = attention("again", 0, gradients[n]);
        struct engine_options options = ENGINE_OPTIONS_INIT;
        const struct engine_repeat repeat = {.source = tb_source(again), .run = tb_run(again)};
        options.repeats[0] = &repeat;
        options.n_repeats[0] = 1;
        options.excuse_noise = true;
        struct engine_answer *answer = diff_with(a, b, &options);
        CHECK(answer, strcmp(answer->first->site->name, "key.bias") == 0);
        if (n == 0)
            expect_within(answer);
        else
            CHECK(answer, answer->beyond_noise == answer->first);
        engine_answer_free(answer);
        tb_free(a);
        tb_free(b);
        tb_free(again);
    }
}

/* ---- sketches -------------------------------------------------------------------------------- */

static struct tb *sketched(const char *name, float first)
{
    static float sketches[8][64];
    static size_t next;
    float *sketch = sketches[next++ % 8];
    for (int i = 0; i < 64; i++)
        sketch[i] = 0.125F;
    sketch[0] = first;
    struct tb *tb = tb_new(name);
    tb_rank(tb, 0);
    tb_boundary(tb, 0);
    struct tb_record *record = tensor(tb_param(tb, "w", bits_of((double)first)), 1);
    record->sketch = sketch;
    tb_end(tb);
    return tb;
}

static void sketches_see_what_statistics_do_not(void **state)
{
    (void)state;
    struct tb *a = sketched("a", 0.125F), *b = sketched("b", 0.625F);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.tolerance = 0.1;
    options.excuse_noise = true;
    struct engine_answer *answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_DIFFER);
    assert_true(answer->noise.beyond.sketched);
    assert_true(fabs(answer->noise.beyond.distance - 0.5) < 1e-6);
    assert_false(answer->noise.statistics);
    engine_answer_free(answer);
    options.tolerance = 0.6;
    answer = diff_with(a, b, &options);
    expect_result(answer, ENGINE_WITHIN_NOISE);
    engine_answer_free(answer);
    tb_free(a);
    tb_free(b);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static void a_repeat_that_disagrees_makes_it_certain(void **state)
{
    (void)state;
    struct trial trial = trial_new(2);
    trial.b.norm[2][1] = 1.0001;
    trial.repeats[1].norm[1][1] = 1.0002; /* the same op, a step earlier */
    const struct engine_answer *answer = run_trial(&trial, false);
    expect_verdict(answer, "nondeterministic-kernel", NULL);
    assert_int_equal(answer->verdict.confidence, ENGINE_CERTAIN);
    CHECK(answer, has_evidence(answer, "repeats of A disagree here as well"));
    CHECK(answer, !has_evidence(answer, "no repeats"));
    trial_free(&trial);
}

static void a_repeat_that_disagrees_elsewhere_proves_nothing(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    trial.b.norm[2][1] = 1.0001;
    trial.repeats[0].norm[1][0] = 1.0002;
    const struct engine_answer *answer = run_trial(&trial, false);
    CHECK(answer, answer->verdict.confidence != ENGINE_CERTAIN);
    CHECK(answer, !has_evidence(answer, "disagree here as well"));
    trial_free(&trial);
}

static void other_threads_with_sides_that_repeat_are_reduction_order(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    trial.n_repeats_b = 1;
    trial.b.norm[2][2] = trial.repeats_b[0].norm[2][2] = 1.0000005;
    trial.b.threads = trial.repeats_b[0].threads = "2";
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_verdict(answer, "reduction-order", "threads");
    CHECK(answer, has_evidence(answer, "A repeats itself"));
    CHECK(answer, has_evidence(answer, "B repeats itself"));
    expect_within(answer);
    trial_free(&trial);
}

static void other_threads_with_a_side_that_does_not_repeat_are_no_reduction_order(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    trial.n_repeats_b = 1;
    trial.b.norm[2][2] = 1.0000005;
    trial.repeats_b[0].norm[2][2] = 1.0000010;
    trial.b.threads = trial.repeats_b[0].threads = "2";
    const struct engine_answer *answer = run_trial(&trial, true);
    expect_verdict(answer, "nondeterministic-kernel", NULL);
    assert_int_equal(answer->verdict.confidence, ENGINE_CERTAIN);
    trial_free(&trial);
}

/* ---- growth, symmetry ------------------------------------------------------------------------ */

static void growth_is_told_at_each_boundary(void **state)
{
    (void)state;
    struct trial trial = trial_new(1);
    for (int k = 1; k < STEPS; k++)
        trial.b.norm[k][0] = 1 + 0.01 * k;
    trial.repeats[0].norm[3][0] = 1.001;
    const struct engine_answer *answer = run_trial(&trial, true);
    assert_int_equal(answer->noise.n_growth, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct engine_growth *point = &answer->noise.growth[i];
        assert_int_equal(point->boundary, i + 2);
        assert_true(fabs(point->rel_l2 - 0.01 * (double)(i + 1)) < 1e-4);
        assert_false(point->sketched);
    }
    assert_true(answer->noise.growth[0].noise == 0);
    assert_true(fabs(answer->noise.growth[2].noise - 0.001) < 1e-5);
    trial_free(&trial);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Noise anywhere, one real change: that is the answer, from either side. */
static void a_planted_change_is_found_in_noise_from_both_sides(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < 200; round++) {
        struct trial trial = trial_new(3), swapped;
        for (int k = 0; k < STEPS; k++)
            for (int s = 0; s < SITES; s++) {
                double noise = 1e-5 * (double)(1 + next_random(&random) % 100) / 100;
                trial.b.norm[k][s] += noise;
                trial.repeats[0].norm[k][s] += 1e-5;
                trial.repeats[1].norm[k][s] -= 1e-5 * (double)(next_random(&random) % 100) / 100;
            }
        int k = (int)(next_random(&random) % STEPS), s = (int)(next_random(&random) % SITES);
        trial.b.norm[k][s] += 0.01;
        swapped = trial;
        swapped.a = trial.b;
        swapped.b = trial.a;
        for (size_t i = 0; i < 3; i++)
            swapped.repeats[i].norm[k][s] += 0.01;
        static const char *const ops[SITES] = {"mm", "gelu", "sum"};
        const struct engine_answer *answer = run_trial(&trial, true);
        expect_beyond(answer, SEGMENT_STEP(k), ops[s]);
        expect_beyond(run_trial(&swapped, true), SEGMENT_STEP(k), ops[s]);
        trial_free(&trial);
        trial_free(&swapped);
    }
}

static void noise_alone_is_never_beyond(void **state)
{
    (void)state;
    uint64_t random = 99;
    for (int round = 0; round < 100; round++) {
        struct trial trial = trial_new(4);
        for (int k = 0; k < STEPS; k++)
            for (int s = 0; s < SITES; s++) {
                for (size_t i = 0; i < 4; i++)
                    trial.repeats[i].norm[k][s] += 1e-6 * (double)(50 + next_random(&random) % 51);
                trial.b.norm[k][s] += 1e-6 * (double)(next_random(&random) % 101);
            }
        trial.b.norm[0][0] = 1.00005;
        expect_within(run_trial(&trial, true));
        trial_free(&trial);
    }
}

/* ---- bands, options -------------------------------------------------------------------------- */

static void errors_of_each_format_have_a_band(void **state)
{
    (void)state;
    assert_null(band_of(0));
    assert_null(band_of(NAN));
    assert_null(band_of(1));
    assert_string_equal(band_of(3e-16)->name, "a few ulp of float64");
    assert_string_equal(band_of(0x1p-23)->name, "a few ulp of float32");
    assert_string_equal(band_of(0.29 * 0x1p-10)->name, "float16 or TF32 rounding");
    assert_string_equal(band_of(0.29 * 0x1p-7)->name, "bfloat16 rounding");
    assert_string_equal(band_of(0.29 * 0x1p-3)->name, "float8 e4m3 rounding");
    assert_string_equal(band_of(0.29 * 0x1p-2)->name, "float8 e5m2 rounding");
    assert_true(band_rounding(DIVERGE_I64) == 0);
}

static void a_tolerance_that_is_no_number_is_refused(void **state)
{
    (void)state;
    struct plan plan = plan_new();
    struct tb *a = make("a", &plan);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    struct engine_answer *answer = NULL;
    options.tolerance = NAN;
    assert_true(
        engine_first_diff(tb_source(a), tb_run(a), tb_source(a), tb_run(a), &options, &answer) < 0);
    options.tolerance = -1;
    assert_true(
        engine_first_diff(tb_source(a), tb_run(a), tb_source(a), tb_run(a), &options, &answer) < 0);
    assert_null(answer);
    tb_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_difference_like_that_of_repeats_is_within_noise),
        cmocka_unit_test(without_asking_noise_excuses_nothing),
        cmocka_unit_test(noise_of_a_site_does_not_excuse_another),
        cmocka_unit_test(the_first_bit_difference_stands_beside_the_first_beyond_noise),
        cmocka_unit_test(noise_seen_in_earlier_steps_counts),
        cmocka_unit_test(far_beyond_the_envelope_is_beyond),
        cmocka_unit_test(other_counts_of_nan_are_beyond_noise),
        cmocka_unit_test(other_samples_are_beyond_any_tolerance),
        cmocka_unit_test(another_argument_is_beyond_noise),
        cmocka_unit_test(a_record_that_is_missing_is_beyond_noise),
        cmocka_unit_test(a_tolerance_excuses_up_to_itself),
        cmocka_unit_test(what_is_zero_but_for_rounding_has_no_relative_error),
        cmocka_unit_test(the_floor_does_not_hide_a_small_tensors_change),
        cmocka_unit_test(a_large_operand_does_not_hide_what_a_small_one_makes),
        cmocka_unit_test(rounding_is_within_noise_when_a_repeats_itself),
        cmocka_unit_test(a_parameter_without_a_real_gradient_is_excused),
        cmocka_unit_test(sketches_see_what_statistics_do_not),
        cmocka_unit_test(a_repeat_that_disagrees_makes_it_certain),
        cmocka_unit_test(a_repeat_that_disagrees_elsewhere_proves_nothing),
        cmocka_unit_test(other_threads_with_sides_that_repeat_are_reduction_order),
        cmocka_unit_test(other_threads_with_a_side_that_does_not_repeat_are_no_reduction_order),
        cmocka_unit_test(growth_is_told_at_each_boundary),
        cmocka_unit_test(a_planted_change_is_found_in_noise_from_both_sides),
        cmocka_unit_test(noise_alone_is_never_beyond),
        cmocka_unit_test(errors_of_each_format_have_a_band),
        cmocka_unit_test(a_tolerance_that_is_no_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
