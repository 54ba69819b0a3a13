/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/client/lib/fingerprint/slow.h"

enum {
    WORDS = 5000,
    CAPACITY = 16,
};

static uint64_t checksum(const uint32_t *words, size_t count, uint64_t first)
{
    return diverge_checksum_bytes(words, count * 4, first * 4);
}

static bool names(const struct diverge_located *found, size_t n, uint64_t word, int64_t change)
{
    for (size_t i = 0; i < n && i < CAPACITY; i++) {
        if (found[i].word == word && found[i].change == change)
            return true;
    }
    return false;
}

static void finds_the_reference_s_word(void **state)
{
    uint32_t words[WORDS];
    struct diverge_located found[CAPACITY];
    uint64_t before;

    (void)state;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i * UINT32_C(2654435761);
    before = checksum(words, WORDS, 0);
    ((uint8_t *)words)[4 * 3234 + 1] ^= 0x10;

    uint64_t delta = diverge_checksum_subtract(checksum(words, WORDS, 0), before);

    assert_int_equal(diverge_locate(delta, 0, WORDS, found, CAPACITY), 1);
    assert_int_equal(found[0].word, 3234);
    assert_int_equal(found[0].change, 4096);
}

/* Any word, any change of it up to all 32 bits, up or down, wherever the words begin. */
static void names_every_single_word_change(void **state)
{
    uint64_t random = 11;

    (void)state;
    for (int round = 0; round < 300; round++) {
        uint64_t first = round & 1 ? random_below(&random, UINT64_C(1) << 40) : 0;
        uint64_t words = 1 + random_below(&random, 20000);
        uint64_t word = first + random_below(&random, words);
        uint32_t old = (uint32_t)random_next(&random);
        uint32_t new = round % 3 ? (uint32_t)random_next(&random)
                                 : old ^ UINT32_C(1) << random_below(&random, 32);
        uint64_t delta =
            diverge_checksum_subtract(checksum(&new, 1, word), checksum(&old, 1, word));
        struct diverge_located found[CAPACITY];
        size_t n = diverge_locate(delta, first, words, found, CAPACITY);

        if (old == new)
            assert_int_equal(n, 0);
        else
            assert_true(n <= CAPACITY && names(found, n, word, (int64_t) new - (int64_t)old));
    }
}

static void names_the_extreme_changes(void **state)
{
    static const uint64_t at[] = {0, 1023, 1024, 262143, 262144, 999999};

    (void)state;
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        uint32_t all = UINT32_MAX;
        uint64_t h = checksum(&all, 1, at[i]);
        struct diverge_located found[CAPACITY];
        size_t n = diverge_locate(h, at[i], 1, found, CAPACITY);

        assert_int_equal(n, 1);
        assert_int_equal(found[0].change, (int64_t)UINT32_MAX);
        n = diverge_locate(diverge_checksum_subtract(0, h), at[i], 1, found, CAPACITY);
        assert_int_equal(n, 1);
        assert_int_equal(found[0].change, -(int64_t)UINT32_MAX);
    }
}

static void finds_nothing_where_nothing_is(void **state)
{
    uint32_t changes[] = {5, 77};
    uint64_t two =
        diverge_checksum_add(checksum(&changes[0], 1, 10), checksum(&changes[1], 1, 900));
    struct diverge_located found[CAPACITY];

    (void)state;
    assert_int_equal(diverge_locate(0, 0, WORDS, found, CAPACITY), 0);
    assert_int_equal(diverge_locate(DIVERGE_CHECKSUM_PRIME, 0, WORDS, found, CAPACITY), 0);
    assert_int_equal(diverge_locate(1234567, 0, 0, found, CAPACITY), 0);
    assert_int_equal(diverge_locate(1234567, UINT64_MAX, 5, found, CAPACITY), 0);
    assert_int_equal(diverge_locate(two, 0, 1000, found, CAPACITY), 0);
    /* The word is there, but just outside. */
    assert_int_equal(diverge_locate(checksum(&changes[0], 1, 10), 11, 1000, found, CAPACITY), 0);
    assert_int_equal(diverge_locate(checksum(&changes[0], 1, 10), 0, 10, found, CAPACITY), 0);
}

static void counts_what_it_has_no_room_for(void **state)
{
    struct diverge_located found = {.word = 7, .change = 7};
    uint32_t change = 1;
    uint64_t delta = checksum(&change, 1, 4321);

    (void)state;
    assert_int_equal(diverge_locate(delta, 0, WORDS, &found, 0), 1);
    assert_int_equal(found.word, 7);
    assert_int_equal(found.change, 7);
    assert_int_equal(diverge_locate(delta, 0, WORDS, NULL, CAPACITY), 1);
    assert_int_equal(diverge_locate(delta, 0, WORDS, &found, 1), 1);
    assert_int_equal(found.word, 4321);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_reference_s_word),
        cmocka_unit_test(names_every_single_word_change),
        cmocka_unit_test(names_the_extreme_changes),
        cmocka_unit_test(finds_nothing_where_nothing_is),
        cmocka_unit_test(counts_what_it_has_no_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
