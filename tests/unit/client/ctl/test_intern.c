/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/ctl/intern.h"
#include "client/ctl/mem.h"

static void numbers_rise_from_one_and_stay(void **state)
{
    struct intern intern = {0};
    bool is_new = false;

    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(intern_number(&intern, &i, sizeof(i), &is_new), i + 1);
        assert_true(is_new);
    }
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(intern_number(&intern, &i, sizeof(i), &is_new), i + 1);
        assert_false(is_new);
    }
    intern_fini(&intern);
}

static void length_is_part_of_a_string(void **state)
{
    struct intern intern = {0};
    bool is_new = false;

    (void)state;
    assert_int_equal(intern_number(&intern, "a\0b", 3, &is_new), 1);
    assert_int_equal(intern_number(&intern, "a\0c", 3, &is_new), 2);
    assert_int_equal(intern_number(&intern, "a", 1, &is_new), 3);
    assert_int_equal(intern_number(&intern, "", 0, &is_new), 4);
    assert_int_equal(intern_number(&intern, "a\0b", 3, &is_new), 1);
    intern_fini(&intern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_rise_from_one_and_stay),
        cmocka_unit_test(length_is_part_of_a_string),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    mem_free_all();
    return failed;
}
