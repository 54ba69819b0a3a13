/* SPDX-License-Identifier: Apache-2.0 */
/* Alignment: of sequences, and of segments whose layouts differ. */
#include "tests/unit/daemon/engine/check.h"

#include <stdlib.h>

#include "daemon/engine/sequence.h"

static void no_memory(void *ctx)
{
    (void)ctx;
    abort();
}

/* Tokens of "abca": kind is the letter; value tells equal letters apart when given. */
static struct sequence sequence_of(struct pool *pool, const char *kinds, const uint64_t *values)
{
    struct sequence sequence = {.tokens = POOL_ARRAY(pool, struct token, strlen(kinds)),
                                .count = strlen(kinds)};
    for (size_t i = 0; kinds[i]; i++)
        sequence.tokens[i] = (struct token){.kind = (uint64_t)kinds[i],
                                            .exact = (uint64_t)kinds[i],
                                            .value = values ? values[i] : 0};
    return sequence;
}

static void expect_match(const char *a, const uint64_t *values_a, const char *b,
                         const uint64_t *values_b, const int *wanted)
{
    struct pool pool;
    pool_init(&pool, no_memory, NULL);
    struct sequence x = sequence_of(&pool, a, values_a), y = sequence_of(&pool, b, values_b);
    uint32_t *match = sequence_match(&pool, &x, &y);
    for (size_t i = 0; i < x.count; i++)
        assert_int_equal((int)match[i], wanted[i]);
    uint32_t *back = sequence_match(&pool, &y, &x);
    for (size_t i = 0; i < x.count; i++)
        if (match[i] != UINT32_MAX)
            assert_int_equal(back[match[i]], i);
    pool_fini(&pool);
}

static void equal_sequences_match_one_by_one(void **state)
{
    (void)state;
    expect_match("abc", NULL, "abc", NULL, (int[]){0, 1, 2});
    expect_match("", NULL, "", NULL, NULL);
    expect_match("abc", NULL, "", NULL, (int[]){-1, -1, -1});
}

/*
 * Values do not matter when the structure is the same: a difference must not become an insertion.
 */
static void equal_structure_ignores_values(void **state)
{
    (void)state;
    expect_match("aaa", (uint64_t[]){1, 2, 3}, "aaa", (uint64_t[]){2, 3, 4}, (int[]){0, 1, 2});
}

static void insertions_and_deletions(void **state)
{
    (void)state;
    expect_match("abcd", NULL, "abxcd", NULL, (int[]){0, 1, 3, 4});
    expect_match("abcd", NULL, "acd", NULL, (int[]){0, -1, 1, 2});
    expect_match("ab", NULL, "xaby", NULL, (int[]){1, 2});
}

/* Which of three equal ops is the new one? The values tell. */
static void values_tell_equal_ops_apart(void **state)
{
    (void)state;
    expect_match("aa", (uint64_t[]){1, 2}, "aaa", (uint64_t[]){9, 1, 2}, (int[]){1, 2});
    expect_match("aa", (uint64_t[]){1, 2}, "aaa", (uint64_t[]){1, 9, 2}, (int[]){0, 2});
    expect_match("aa", (uint64_t[]){1, 2}, "aaa", (uint64_t[]){1, 2, 9}, (int[]){0, 1});
}

static size_t count_matches(const uint32_t *match, size_t count)
{
    size_t n = 0;
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++)
        if (match[i] != UINT32_MAX) {
            assert_true(n == 0 || match[i] > last);
            last = match[i];
            n++;
        }
    return n;
}

/* Longest common subsequence by the textbook. */
static size_t lcs(const struct sequence *a, const struct sequence *b)
{
    size_t width = b->count + 1;
    size_t *table = calloc((a->count + 1) * width, sizeof(*table));
    assert_non_null(table);
    for (size_t i = a->count; i-- > 0;)
        for (size_t j = b->count; j-- > 0;) {
            size_t down = table[(i + 1) * width + j], right = table[i * width + j + 1];
            table[i * width + j] = a->tokens[i].kind == b->tokens[j].kind
                                       ? table[(i + 1) * width + j + 1] + 1
                                   : down > right ? down
                                                  : right;
        }
    size_t length = table[0];
    free(table);
    return length;
}

static struct sequence random_sequence(struct pool *pool, uint64_t seed, size_t count,
                                       uint64_t kinds)
{
    struct sequence sequence = {.tokens = POOL_ARRAY(pool, struct token, count), .count = count};
    for (size_t i = 0; i < count; i++) {
        uint64_t kind = tb_mix(seed, i) % kinds;
        sequence.tokens[i] = (struct token){.kind = kind, .exact = kind};
    }
    return sequence;
}

static struct sequence edited(struct pool *pool, const struct sequence *from, uint64_t seed,
                              uint64_t edits)
{
    struct sequence sequence = {.tokens = POOL_ARRAY(pool, struct token, from->count * 2 + 1)};
    for (size_t i = 0; i < from->count; i++) {
        uint64_t roll = tb_mix(seed, i) % (from->count + 1);
        if (roll < edits / 2)
            continue;
        if (roll < edits) {
            uint64_t kind = 1000 + tb_mix(seed, roll) % 3;
            sequence.tokens[sequence.count++] = (struct token){.kind = kind, .exact = kind};
        }
        sequence.tokens[sequence.count++] = from->tokens[i];
    }
    return sequence;
}

/*
 * Small ones go by the table, the large ones by Myers: both are as long as can be, and symmetric.
 */
static void matches_are_longest(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 40, 300, 1500};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (uint64_t seed = 0; seed < (sizes[s] > 1000 ? 4 : 20); seed++) {
            struct pool pool;
            pool_init(&pool, no_memory, NULL);
            struct sequence a = random_sequence(&pool, seed, sizes[s], 2 + seed % 30);
            struct sequence b = edited(&pool, &a, seed + 100, 12);
            uint32_t *match = sequence_match(&pool, &a, &b);
            assert_int_equal(count_matches(match, a.count), lcs(&a, &b));
            for (size_t i = 0; i < a.count; i++)
                if (match[i] != UINT32_MAX)
                    assert_int_equal(a.tokens[i].kind, b.tokens[match[i]].kind);
            uint32_t *back = sequence_match(&pool, &b, &a);
            for (size_t i = 0; i < a.count; i++)
                if (match[i] != UINT32_MAX)
                    assert_int_equal(back[match[i]], i);
            pool_fini(&pool);
        }
}

/* Nothing in common and too long for the table: still an answer, in order. */
static void hopeless_sequences_end(void **state)
{
    (void)state;
    struct pool pool;
    pool_init(&pool, no_memory, NULL);
    struct sequence a = random_sequence(&pool, 1, 6000, 50);
    struct sequence b = random_sequence(&pool, 2, 7000, 60);
    uint32_t *match = sequence_match(&pool, &a, &b);
    assert_true(count_matches(match, a.count) > 100);
    pool_fini(&pool);
}

/*
 * ---- segments with other layouts ---------------------------------------------------------------
 */

enum { OPS = 60 };

/*
 * A step of OPS ops in three scopes; about `edits` of them are left out, or have another before
 * them (of the same kind, or in runs that also leave some out, of a kind of its own: an op in
 * place of another of its kind is a difference, not an edit), by a seed; op `planted` gives
 * another value.
 */
static struct tb *edited_run(uint64_t seed, uint64_t edits, long planted)
{
    static const char *const scopes[] = {"emb", "fc1", "head"};
    static const char *const names[] = {"add", "mul", "mm", "relu"};
    struct tb *tb = tb_new("edited");
    tb_rank(tb, 0);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    for (long i = 0; i < OPS; i++) {
        uint64_t roll = tb_mix(seed, (uint64_t)i) % OPS;
        const char *op = names[tb_mix(77, (uint64_t)i) % 4];
        tb_scope(tb, scopes[i / (OPS / 3)]);
        bool leave_out = seed % 3 == 1 || (seed % 3 == 2 && roll % 2);
        if (i != planted && roll < edits && leave_out)
            continue;
        if (roll < edits && !leave_out) {
            tb_op(tb, seed % 3 == 2 ? "log" : op, 0, NULL);
            tb_in(tb, 0, tb_mix(5000, (uint64_t)i));
            tb_out(tb, 0, tb_mix(6000 + seed, (uint64_t)i));
            tb_close(tb);
        }
        tb_op(tb, op, 0, NULL);
        tb_in(tb, 0, tb_mix(1, (uint64_t)i));
        tb_out(tb, 0, tb_mix(2, (uint64_t)i) + (i == planted && seed));
        tb_close(tb);
    }
    tb_end(tb);
    return tb;
}

static void random_edits_are_notes_and_no_difference(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 120; seed++) {
        struct tb *a = edited_run(0, 0, -1), *b = edited_run(seed, 1 + seed % 10, -1);
        struct engine_answer *answer = diff(a, b), *swapped = diff(b, a);
        expect_result(answer, ENGINE_SAME);
        expect_result(swapped, ENGINE_SAME);
        assert_int_equal(answer->compared.only_a, swapped->compared.only_b);
        assert_int_equal(answer->compared.records, swapped->compared.records);
        engine_answer_free(answer);
        engine_answer_free(swapped);
        tb_free(a);
        tb_free(b);
    }
}

static void a_difference_is_found_between_random_edits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 120; seed++) {
        long planted = (long)(seed * 7 % OPS);
        struct tb *a = edited_run(0, 0, planted), *b = edited_run(seed, 1 + seed % 10, planted);
        struct engine_answer *answer = diff(a, b);
        expect_result(answer, ENGINE_DIFFER);
        CHECK(answer, answer->first->a.value == tb_mix(2, (uint64_t)planted));
        CHECK(answer, answer->first->b.value == tb_mix(2, (uint64_t)planted) + 1);
        CHECK(answer, answer->first->relation == ENGINE_ORIGIN);
        engine_answer_free(answer);
        tb_free(a);
        tb_free(b);
    }
}

/*
 * The alignment of a pair of layouts is kept; values that differ later are not judged by it
 * unseen.
 */
static void the_kept_alignment_does_not_judge_other_values(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new("kept");
        tb_rank(tb, 0);
        for (uint64_t k = 0; k < 6; k++) {
            tb_boundary(tb, k);
            tb_param(tb, "w", k);
            tb_step(tb, k);
            /* B has one more add: at the front in even steps, at the end in odd ones */
            for (uint64_t n = 0; n < 3 + i; n++) {
                bool extra = i && n == (k % 2 ? 3 : 0);
                uint64_t index = n - (i && !(k % 2));
                tb_op(tb, "add", 0, NULL);
                tb_in(tb, 0, extra ? 900 : 10 * k + index);
                tb_out(tb, 0, extra ? 901 : tb_mix(k, index));
                tb_close(tb);
            }
        }
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->n_structure, 6);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

static void notes_are_capped(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (int i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new("capped");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, "w", 1);
        tb_step(tb, 0);
        for (int n = 0; n < 500; n++) {
            tb_scope(tb, tb_text(tb, "s%d", n));
            tb_op(tb, "mm", 0, NULL);
            tb_out(tb, 0, 1);
            tb_close(tb);
            if (i == 0)
                continue;
            tb_op(tb, "log", 0, NULL);
            tb_out(tb, 0, 2);
            tb_close(tb);
        }
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->n_structure, 100);
    assert_int_equal(answer->compared.only_b, 500);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

static void thousands_of_sites_are_compared(void **state)
{
    (void)state;
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new("many");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, "w", 1);
        tb_step(tb, 0);
        for (uint64_t n = 0; n < 4000; n++) {
            tb_op(tb, n % 2 ? "mm" : "add", 0, NULL);
            tb_in(tb, 0, n);
            tb_out(tb, 0, tb_mix(n, 0) + (i && n >= 3000));
            tb_close(tb);
            if (i && n == 1500) {
                tb_op(tb, "add", 0, NULL);
                tb_out(tb, 0, 5);
                tb_close(tb);
            }
        }
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_place(answer, SEGMENT_STEP(0), "", "add", "");
    assert_int_equal(answer->first->a.value, tb_mix(3000, 0));
    assert_int_equal(answer->first->order, 6000 + 1);
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_sequences_match_one_by_one),
        cmocka_unit_test(equal_structure_ignores_values),
        cmocka_unit_test(insertions_and_deletions),
        cmocka_unit_test(values_tell_equal_ops_apart),
        cmocka_unit_test(matches_are_longest),
        cmocka_unit_test(hopeless_sequences_end),
        cmocka_unit_test(random_edits_are_notes_and_no_difference),
        cmocka_unit_test(a_difference_is_found_between_random_edits),
        cmocka_unit_test(the_kept_alignment_does_not_judge_other_values),
        cmocka_unit_test(notes_are_capped),
        cmocka_unit_test(thousands_of_sites_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
