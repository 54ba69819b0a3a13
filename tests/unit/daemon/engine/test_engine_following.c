/* SPDX-License-Identifier: Apache-2.0 */
/* --all: origins of their own behind the first one, told from what follows from it. */
#include "tests/unit/daemon/engine/check.h"

#include "client/wire/message.h"

/* What the op of the later step is like; its input agrees but for RECEIVES. */
enum later {
    MEASURED,
    INHERITED,
    UNREAD,
    RANDOM,
    COLLECTIVE,
    ARGUMENT,
    RECEIVES,
    NO_INPUT,
    AGREES,
};

static void add_op(struct tb *tb, const char *op, uint64_t in, uint64_t out)
{
    tb_op(tb, op, 0, NULL);
    tb_in(tb, 0, in);
    tb_out(tb, 0, out);
    tb_close(tb);
}

static void add_later(struct tb *tb, uint64_t i, enum later later)
{
    uint32_t flags = later == RANDOM       ? DIVERGE_FLAG_RANDOM
                     : later == COLLECTIVE ? DIVERGE_FLAG_COLLECTIVE
                                           : 0;
    tb_op(tb, "late", flags, later == ARGUMENT && i ? "p=1" : "p=0");
    if (later != NO_INPUT) {
        struct tb_record *in = tb_in(tb, 0, later == RECEIVES ? 70 + i : 70);
        if (later == INHERITED)
            in->state = DVG_STATE_INHERITED;
        if (later == UNREAD)
            in->state = DVG_STATE_UNREAD;
    }
    tb_out(tb, 0, later == AGREES ? 80 : 80 + i);
    tb_out(tb, 1, later == AGREES ? 90 : 90 + i);
    tb_close(tb);
}

/* `follow` ops a step receive what the first origin, in step 1, made. */
static void record_rank(struct tb *tb, uint32_t rank, uint64_t i, size_t follow, enum later later)
{
    tb_rank(tb, rank);
    for (uint64_t k = 0; k < 4; k++) {
        uint64_t differs = k >= 1 ? i : 0;
        tb_boundary(tb, k);
        tb_param(tb, "w", 10 + (k > 1 ? i : 0));
        tb_step(tb, k);
        add_op(tb, "first", 20, k == 1 ? 30 + i : 30);
        for (size_t f = 0; f < follow; f++)
            add_op(tb, "follows", 40 + differs, 50 + differs);
        if (k == 3)
            add_later(tb, i, later);
    }
    tb_boundary(tb, 4);
    tb_param(tb, "w", 10 + i);
    tb_end(tb);
}

static struct tb *record(uint64_t i, size_t follow, enum later later)
{
    struct tb *tb = tb_new(i ? "b" : "a");
    record_rank(tb, 0, i, follow, later);
    return tb;
}

static struct engine_answer *compare(struct tb *runs[2], size_t max_notes)
{
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.all = true;
    options.max_notes = max_notes;
    return diff_with(runs[0], runs[1], &options);
}

static size_t count_independent(const struct engine_answer *answer)
{
    size_t n = 0;
    for (size_t i = 0; i < answer->n_also; i++)
        n += answer->also[i]->independent;
    return n;
}

static size_t independent_of(enum later later)
{
    struct tb *runs[2] = {record(0, 2, later), record(1, 2, later)};
    struct engine_answer *answer = compare(runs, 100);
    expect_place(answer, SEGMENT_STEP(1), "", "first", "");
    size_t n = count_independent(answer);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
    return n;
}

static void an_op_whose_measured_inputs_agree_again_is_an_origin_of_its_own(void **state)
{
    (void)state;
    struct tb *runs[2] = {record(0, 2, MEASURED), record(1, 2, MEASURED)};
    struct engine_answer *answer = compare(runs, 100);
    expect_place(answer, SEGMENT_STEP(1), "", "first", "");
    assert_int_equal(count_independent(answer), 1); /* one call, though both outputs differ */
    for (size_t i = 0; i < answer->n_also; i++) {
        const struct engine_finding *finding = answer->also[i];
        assert_int_equal(finding->independent,
                         strcmp(finding->site->op, "late") == 0 && finding->site->slot == 0);
        if (finding->independent)
            assert_int_equal(finding->segment, SEGMENT_STEP(3));
        assert_true(i == 0 || finding->segment >= answer->also[i - 1]->segment);
    }
    assert_false(answer->first->independent);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

static void what_does_not_prove_it_is_not_independent(void **state)
{
    (void)state;
    assert_int_equal(independent_of(MEASURED), 1);
    assert_int_equal(independent_of(INHERITED), 0);
    assert_int_equal(independent_of(UNREAD), 0);
    assert_int_equal(independent_of(RANDOM), 0);
    assert_int_equal(independent_of(COLLECTIVE), 0);
    assert_int_equal(independent_of(ARGUMENT), 0);
    assert_int_equal(independent_of(RECEIVES), 0);
    assert_int_equal(independent_of(NO_INPUT), 0);
    assert_int_equal(independent_of(AGREES), 0);
}

static void a_crowd_of_consequences_does_not_hide_an_origin(void **state)
{
    (void)state;
    struct tb *runs[2] = {record(0, 300, MEASURED), record(1, 300, MEASURED)};
    struct engine_answer *answer = compare(runs, 7);
    assert_int_equal(answer->n_also, 7);
    assert_int_equal(count_independent(answer), 1);
    assert_true(answer->also[6]->independent); /* it comes last, in order of place */
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

static void without_all_nothing_is_listed(void **state)
{
    (void)state;
    struct tb *runs[2] = {record(0, 2, MEASURED), record(1, 2, MEASURED)};
    struct engine_answer *answer = diff(runs[0], runs[1]);
    assert_int_equal(answer->n_also, 0);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

static void another_rank_has_independent_origins_too(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        runs[i] = tb_new(i ? "b" : "a");
        tb_world(runs[i], 2);
        record_rank(runs[i], 0, i, 2, AGREES);
        record_rank(runs[i], 1, i, 2, MEASURED);
    }
    struct engine_answer *answer = compare(runs, 100);
    assert_int_equal(answer->n_candidates, 2);
    assert_int_equal(count_independent(answer), 1);
    for (size_t i = 0; i < answer->n_also; i++)
        assert_int_equal(answer->also[i]->rank, answer->also[i]->independent);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

/* Swapping the sides changes nothing of which are independent. */
static void the_sides_can_be_exchanged(void **state)
{
    (void)state;
    struct tb *runs[2] = {record(1, 3, MEASURED), record(0, 3, MEASURED)};
    struct engine_answer *answer = compare(runs, 100);
    assert_int_equal(count_independent(answer), 1);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_whose_measured_inputs_agree_again_is_an_origin_of_its_own),
        cmocka_unit_test(what_does_not_prove_it_is_not_independent),
        cmocka_unit_test(a_crowd_of_consequences_does_not_hide_an_origin),
        cmocka_unit_test(without_all_nothing_is_listed),
        cmocka_unit_test(another_rank_has_independent_origins_too),
        cmocka_unit_test(the_sides_can_be_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
