/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/records.h"

static const char *run;
static struct records_where where;

static void a_name_alone_means_the_run(void **state)
{
    (void)state;
    assert_int_equal(records_parse("base.2", &run, &where), EX_OK);
    assert_string_equal(run, "base.2");
    assert_true(where.whole);
    assert_int_equal(records_parse("@last", &run, &where), EX_OK);
    assert_string_equal(run, "@last");
    assert_true(where.whole);
}

static void segments_and_ranks_are_split_off(void **state)
{
    (void)state;
    assert_int_equal(records_parse("base.2@12", &run, &where), EX_OK);
    assert_string_equal(run, "base.2");
    assert_false(where.whole);
    assert_int_equal(where.segment, diverge_segment_of_step(12));
    assert_int_equal(where.rank, -1);
    assert_int_equal(records_parse("@last@b3.1", &run, &where), EX_OK);
    assert_string_equal(run, "@last");
    assert_int_equal(where.segment, diverge_segment_of_boundary(3));
    assert_int_equal(where.rank, 1);
    assert_int_equal(records_parse("base@init", &run, &where), EX_OK);
    assert_int_equal(where.segment, 0);
}

static void nonsense_is_usage(void **state)
{
    static const char *const bad[] = {
        "base@",   "base@x", "base@-1",           "base@1.x",
        "base@1.", "base@b", "base@1.4294967296", "base@18446744073709551615"};

    (void)state;
    for (size_t i = 0; i < CMD_COUNT(bad); i++)
        assert_int_equal(records_parse(bad[i], &run, &where), EX_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_alone_means_the_run),
        cmocka_unit_test(segments_and_ranks_are_split_off),
        cmocka_unit_test(nonsense_is_usage),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    mem_free_all();
    return failed;
}
