/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <diverge/error.h>

#define FORMAT(line, ...)                                                                          \
    log_format(line, sizeof(line), LOG_WARNING, "thing",                                           \
               (const struct log_field[]){__VA_ARGS__, {0}})

static void plain_values_stand_bare(void **state)
{
    (void)state;
    char line[256];
    FORMAT(line, log_text("path", "/a/b"), log_number("n", -5));
    assert_string_equal(line, "level=warning event=thing path=/a/b n=-5");
}

static void control_characters_and_quotes_are_escaped(void **state)
{
    (void)state;
    char line[256];
    FORMAT(line, log_text("a", "x\ny"), log_text("b", "say \"\\\""), log_text("c", ""),
           log_text("d", "\x1b[31m"), log_text("e", NULL), log_text("f", "k=v"));
    assert_string_equal(line,
                        "level=warning event=thing a=\"x\\x0ay\" b=\"say \\\"\\\\\\\"\" c=\"\" "
                        "d=\"\\x1b[31m\" e=\"\" f=\"k=v\"");
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    char line[32];
    memset(line, 'z', sizeof(line));
    size_t len = FORMAT(line, log_text("text", "0123456789012345678901234567890123456789"));
    assert_int_equal(len, 31);
    assert_int_equal(line[31], '\0');
    assert_int_equal(strlen(line), 31);
}

static void levels_are_read_by_name(void **state)
{
    (void)state;
    enum log_level level = LOG_INFO;
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("Debug", &level), DIVERGE_EINVAL);
    assert_int_equal(log_level_parse("", &level), DIVERGE_EINVAL);
    assert_int_equal(level, LOG_DEBUG);
}

static void limit_allows_a_burst_then_counts(void **state)
{
    (void)state;
    struct log_limit limit = {0};
    uint64_t now = 1000 * LOG_REFILL_NS;
    uint32_t suppressed = 99;
    for (int i = 0; i < LOG_BURST; i++)
        assert_true(log_limit_allow(&limit, now, &suppressed));
    assert_int_equal(suppressed, 0);
    for (int i = 0; i < 100; i++)
        assert_false(log_limit_allow(&limit, now, &suppressed));
    assert_true(log_limit_allow(&limit, now + LOG_REFILL_NS, &suppressed));
    assert_int_equal(suppressed, 100);
    assert_false(log_limit_allow(&limit, now + LOG_REFILL_NS, &suppressed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_values_stand_bare),
        cmocka_unit_test(control_characters_and_quotes_are_escaped),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(levels_are_read_by_name),
        cmocka_unit_test(limit_allows_a_burst_then_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
