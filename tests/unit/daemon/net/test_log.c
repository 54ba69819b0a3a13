/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* journald names the stream that it reads by device and inode. */
static void journal_gets_a_priority_and_no_time(void **state)
{
    (void)state;
    char stream[64];
    struct stat st;
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    assert_int_equal(fstat(fileno(file), &st), 0);
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    dup2(fileno(file), STDERR_FILENO);
    setenv("JOURNAL_STREAM", stream, 1);
    log_init(LOG_INFO);
    log_event(LOG_ERROR, "thing", log_number("n", 1));
    log_event(LOG_DEBUG, "unwanted", log_number("n", 2));
    setenv("JOURNAL_STREAM", "1:1", 1);
    log_init(LOG_INFO);
    log_event(LOG_INFO, "other", log_number("n", 3));
    dup2(saved, STDERR_FILENO);
    close(saved);
    char line[256];
    rewind(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, "<3>level=error event=thing n=1\n");
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(strchr(line, ' '), " level=info event=other n=3\n");
    assert_null(fgets(line, sizeof(line), file));
    fclose(file);
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
        cmocka_unit_test(journal_gets_a_priority_and_no_time),
        cmocka_unit_test(levels_are_read_by_name),
        cmocka_unit_test(limit_allows_a_burst_then_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
