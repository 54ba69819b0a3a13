/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that lie, memory that runs out: an error or an answer, never a crash, a leak or a hang.
 */
#include "tests/unit/daemon/engine/check.h"

#include <errno.h>
#include <limits.h>
#include <math.h>

#include <diverge/error.h>

#include "client/wire/message.h"
#include "tests/support/fault.h"
#include "tests/unit/daemon/engine/hostile.h"

static struct training plant(unsigned n)
{
    struct training training = TRAINING_INIT;
    training.steps = 4;
    training.layer = 1;
    switch (n % 10) {
    case 0:
        training.kernel_at = 2;
        break;
    case 1:
        training.data_at = 2;
        break;
    case 2:
        training.lr_at = 1;
        break;
    case 3:
        training.draw_at = 2;
        break;
    case 4:
        training.extra_op_at = 1;
        break;
    case 5:
        training.skip_reduce_at = 1;
        break;
    case 6:
        training.raw_write_at = 2;
        break;
    case 7:
        training.seed = 2;
        break;
    case 8:
        training.first = 2;
        training.fresh_optimizer = true;
        break;
    default:
        training.nan_at = 2;
        break;
    }
    return training;
}

static int run(struct tb *a, struct tb *b, const struct engine_options *options)
{
    struct engine_answer *answer = NULL;
    int status =
        engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), options, &answer);
    assert_true((status == 0) == (answer != NULL));
    engine_answer_free(answer);
    return status;
}

/* Judged by noise as well, with a repeat of both. */
static int run_noisy(struct tb *a, struct tb *b, struct tb *again)
{
    const struct engine_repeat repeat = {.source = tb_source(again), .run = tb_run(again)};
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.repeats[0] = options.repeats[1] = &repeat;
    options.n_repeats[0] = options.n_repeats[1] = 1;
    options.tolerance = 0.5;
    options.excuse_noise = true;
    return run(a, b, &options);
}

static void chunks_that_lie_are_refused_or_survived(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 7, 255, UINT32_MAX, UINT64_MAX, 0x8000000000000000u};
    struct training plain = TRAINING_INIT;
    plain.steps = 4;
    unsigned refused = 0;
    for (unsigned kind = 0; kind < HOSTILE_KINDS; kind++)
        for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++)
            for (unsigned chunk = 0; chunk < 4; chunk++) {
                struct training planted = plant(kind + chunk);
                struct tb *a = training_new("a", &plain), *b = training_new("b", &planted);
                struct hostile hostile = {
                    .kind = kind, .number = numbers[n], .chunk = chunk == 3 ? UINT_MAX : chunk};
                tb_damage(b, hostile_damage, &hostile);
                int status = run(a, b, NULL);
                assert_true(status == 0 || status == DIVERGE_ECORRUPT);
                refused += status == DIVERGE_ECORRUPT;
                status = run_noisy(a, b, b);
                assert_true(status == 0 || status == DIVERGE_ECORRUPT);
                status = run_noisy(b, a, b);
                assert_true(status == 0 || status == DIVERGE_ECORRUPT);
                tb_free(a);
                tb_free(b);
            }
    assert_true(refused > 100);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 10; n++) {
        struct training plain = TRAINING_INIT, planted = plant(n);
        plain.steps = 4;
        struct tb *a = training_new("a", &plain), *b = training_new("b", &planted);
        tb_run(a);
        tb_run(b);
        struct dvg_fault_sweep sweep = {.kind = DVG_FAULT_ALLOC, .error = ENOMEM};
        while (dvg_fault_sweep_next(&sweep)) {
            struct engine_answer *answer = NULL;
            int status =
                engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), NULL, &answer);
            dvg_fault_disarm();
            assert_true(status == 0 || status == DIVERGE_ENOMEM);
            assert_true((status == 0) == (answer != NULL));
            engine_answer_free(answer);
        }
        assert_true(sweep.rounds > 10);
        sweep = (struct dvg_fault_sweep){.kind = DVG_FAULT_ALLOC, .error = ENOMEM};
        while (dvg_fault_sweep_next(&sweep)) {
            int status = run_noisy(a, b, b);
            dvg_fault_disarm();
            assert_true(status == 0 || status == DIVERGE_ENOMEM);
        }
        tb_free(a);
        tb_free(b);
    }
}

static struct tb *extreme(uint64_t i)
{
    struct tb *tb = tb_new(i ? "b" : "a");
    tb_rank(tb, UINT32_MAX);
    tb_boundary(tb, 0);
    tb_param(tb, "w", UINT64_MAX - i)->sizes[0] = INT64_MAX;
    tb_scalar(tb, "lr", NAN);
    tb_step(tb, 0);
    tb_loss(tb, i ? NAN : INFINITY);
    tb_op(tb, "mm", UINT32_MAX & ~(uint32_t)(DIVERGE_FLAG_VOLATILE | DIVERGE_FLAG_UNINITIALISED),
          "");
    struct tb_record *in = tb_in(tb, UINT16_MAX, UINT64_MAX);
    in->l2 = NAN;
    in->producer = UINT32_MAX;
    in->nan = UINT64_MAX;
    struct tb_record *out = tb_out(tb, 0, UINT64_MAX - i);
    out->sizes[0] = out->sizes[1] = INT64_MAX;
    out->nan = UINT64_MAX;
    out->l2 = INFINITY;
    tb_close(tb);
    tb_boundary(tb, UINT64_MAX / 4 - 1);
    tb_param(tb, "w", 3);
    tb_end(tb);
    return tb;
}

static void extreme_numbers_are_survived(void **state)
{
    (void)state;
    struct tb *a = extreme(0), *b = extreme(1);
    assert_int_equal(run(a, b, NULL), 0);
    assert_int_equal(run_noisy(a, b, b), 0);
    assert_int_equal(run_noisy(b, a, a), 0);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.all = true;
    for (int64_t offset = -3; offset < 4; offset++) {
        options.offset = offset;
        assert_int_equal(run(a, b, &options), 0);
        options.offset = offset * (INT64_MAX / 16);
        assert_int_equal(run(a, b, &options), 0);
    }
    options = (struct engine_options)ENGINE_OPTIONS_INIT;
    options.first_step = options.last_step = UINT64_MAX;
    assert_int_equal(run(a, b, &options), 0);
    options.first_step = UINT64_MAX / 4;
    options.last_step = UINT64_MAX / 2;
    assert_int_equal(run(a, b, &options), 0);
    tb_free(a);
    tb_free(b);
}

/* Tracks that say other things than the rows. */
static void tracks_that_lie_are_survived(void **state)
{
    (void)state;
    struct training plain = TRAINING_INIT, planted = plant(0);
    static const uint64_t numbers[] = {0, 1, 5, UINT64_MAX, UINT64_MAX - 1, INT64_MAX};
    for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++)
        for (int field = 0; field < 6; field++) {
            struct tb *a = training_new("a", &plain), *b = training_new("b", &planted);
            struct trace_run copy = *tb_run(b);
            struct trace_stream stream = copy.streams[0];
            for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
                struct trace_track *track = &stream.tiers[tier];
                track->has_gap = track->has_gap || field == 2;
                *(uint64_t *[]){&track->first,    &track->last,    &track->first_gap,
                                &track->segments, &track->records, &track->unread}[field] =
                    numbers[n];
            }
            copy.streams = &stream;
            struct engine_answer *answer = NULL;
            int status =
                engine_first_diff(tb_source(a), tb_run(a), tb_source(b), &copy, NULL, &answer);
            assert_int_equal(status, 0);
            assert_true(answer->result != ENGINE_SAME);
            engine_answer_free(answer);
            tb_free(a);
            tb_free(b);
        }
}

static void long_names_are_survived(void **state)
{
    (void)state;
    static char name[5000];
    memset(name, '\xff', sizeof(name) - 1);
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new("long");
        tb_metadata(tb, name, "cause", i ? name : "");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, name, 1);
        tb_step(tb, 0);
        tb_phase(tb, DIVERGE_PHASE_DATA);
        tb_batch(tb, name, 5 + i);
        tb_end(tb);
    }
    assert_int_equal(run(runs[0], runs[1], NULL), 0);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_that_lie_are_refused_or_survived),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
        cmocka_unit_test(extreme_numbers_are_survived),
        cmocka_unit_test(tracks_that_lie_are_survived),
        cmocka_unit_test(long_names_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
