/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <diverge/error.h>

enum { MAX_WORDS = 16 };

static struct config config;
static struct config_error error;

/* Words end with NULL; the program's name is added. */
static int read_words(const char *const *words)
{
    char *argv[MAX_WORDS] = {(char *)"diverged"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    error = (struct config_error){{0}};
    return config_read(&config, argc, argv, &error);
}
#define READ(...) read_words((const char *const[]){__VA_ARGS__, NULL})

static int clean_environment(void **state)
{
    (void)state;
#define X(field, KIND, flag, variable, ...)                                                        \
    if (variable)                                                                                  \
        unsetenv(variable ? variable : "");
    CONFIG_OPTIONS(X)
#undef X
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("XDG_STATE_HOME", "/tmp/state", 1);
    return 0;
}

static void unknown_flags_and_words_are_refused(void **state)
{
    (void)state;
    assert_int_equal(READ("--nonsense"), DIVERGE_EINVAL);
    assert_non_null(strstr(error.text, "--nonsense"));
    assert_int_equal(READ("store"), DIVERGE_EINVAL);
    assert_int_equal(READ("--"), DIVERGE_EINVAL);
    assert_int_equal(READ("--stor", "x"), DIVERGE_EINVAL);
    assert_int_equal(READ("--stores", "x"), DIVERGE_EINVAL);
    assert_int_equal(READ("--idle-exit"), DIVERGE_EINVAL);
    assert_non_null(strstr(error.text, "SECONDS"));
}

static void bad_values_name_the_option_and_the_range(void **state)
{
    (void)state;
    assert_int_equal(READ("--idle-exit", "soon"), DIVERGE_EINVAL);
    assert_non_null(strstr(error.text, "--idle-exit"));
    assert_int_equal(READ("--idle-exit", "-1"), DIVERGE_EINVAL);
    assert_int_equal(READ("--max-connections", "0"), DIVERGE_EINVAL);
    assert_non_null(strstr(error.text, "65536"));
    assert_int_equal(READ("--max-frame=1G"), DIVERGE_EINVAL);
    assert_int_equal(READ("--queue-bytes=12Q"), DIVERGE_EINVAL);
    assert_int_equal(READ("--queue-bytes="), DIVERGE_EINVAL);
    assert_int_equal(READ("--queue-bytes=99999999999999999999"), DIVERGE_EINVAL);
    assert_int_equal(READ("--log-level=loud"), DIVERGE_EINVAL);
    assert_int_equal(READ("--replace=maybe"), DIVERGE_EINVAL);
    assert_int_equal(READ("--store="), DIVERGE_EINVAL);
    setenv("DIVERGE_COMMIT_MS", "often", 1);
    assert_int_equal(READ("--replace"), DIVERGE_EINVAL);
    assert_non_null(strstr(error.text, "DIVERGE_COMMIT_MS"));
}

static void flag_beats_environment_beats_default(void **state)
{
    (void)state;
    assert_int_equal(READ("--replace"), 0);
    assert_int_equal(config.idle_exit_s, 0);
    assert_int_equal(config.origins[CONFIG_idle_exit_s], CONFIG_DEFAULT);
    assert_true(config.replace);
    assert_string_equal(config.socket, "/run/user/7/diverge/diverged.sock");
    assert_string_equal(config.store, "/tmp/state/diverge/diverge.db");
    assert_string_equal(config.spool, "/run/user/7/diverge");

    setenv("DIVERGE_IDLE_EXIT", "5", 1);
    setenv("DIVERGE_STORE", "/tmp/env.db", 1);
    assert_int_equal(READ("--socket", "/tmp/x/s"), 0);
    assert_int_equal(config.idle_exit_s, 5);
    assert_int_equal(config.origins[CONFIG_idle_exit_s], CONFIG_ENVIRONMENT);
    assert_string_equal(config.store, "/tmp/env.db");
    assert_string_equal(config.spool, "/tmp/x");

    assert_int_equal(READ("--idle-exit=7", "--store", "/tmp/flag.db"), 0);
    assert_int_equal(config.idle_exit_s, 7);
    assert_int_equal(config.origins[CONFIG_idle_exit_s], CONFIG_FLAG);
    assert_string_equal(config.store, "/tmp/flag.db");
}

static void sizes_take_binary_suffixes(void **state)
{
    (void)state;
    int64_t size = 0;
    assert_int_equal(config_parse_size("4096", &size), 0);
    assert_int_equal(size, 4096);
    assert_int_equal(config_parse_size("64M", &size), 0);
    assert_int_equal(size, 64 << 20);
    assert_int_equal(config_parse_size("2kiB", &size), 0);
    assert_int_equal(size, 2048);
    assert_int_equal(config_parse_size("1T", &size), 0);
    assert_int_equal(size, INT64_C(1) << 40);
    assert_int_equal(config_parse_size("9999999T", &size), DIVERGE_ELIMIT);
    assert_int_equal(config_parse_size("-1", &size), DIVERGE_EINVAL);
    assert_int_equal(config_parse_size("1MB", &size), DIVERGE_EINVAL);
    assert_int_equal(config_parse_size("1\xcb", &size), DIVERGE_EINVAL);
}

static void socket_over_107_bytes_is_refused_with_advice(void **state)
{
    (void)state;
    char path[128] = "/tmp/";
    memset(path + 5, 'x', 103);
    assert_int_equal(strlen(path), 108);
    assert_int_equal(READ("--socket", path), DIVERGE_ELIMIT);
    assert_non_null(strstr(error.text, "107"));
    assert_non_null(strstr(error.text, "DIVERGE_SOCKET"));
    path[107] = '\0';
    assert_int_equal(READ("--socket", path), 0);
}

static void help_is_given_even_when_the_environment_is_wrong(void **state)
{
    (void)state;
    setenv("DIVERGE_COMMIT_MS", "often", 1);
    assert_int_equal(READ("--help"), 0);
    assert_int_equal(config.action, CONFIG_HELP);
    assert_int_equal(READ("--version"), 0);
    assert_int_equal(config.action, CONFIG_VERSION);
}

static void print_config_tells_value_and_origin_of_every_option(void **state)
{
    (void)state;
    setenv("DIVERGE_LOG", "debug", 1);
    assert_int_equal(READ("--print-config", "--queue-bytes=1M"), 0);
    assert_int_equal(config.action, CONFIG_PRINT);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_print(&config, out);
    fclose(out);
    assert_non_null(strstr(text, "queue-bytes=1048576  # flag\n"));
    assert_non_null(strstr(text, "log-level=debug  # environment DIVERGE_LOG\n"));
    assert_non_null(strstr(text, "linger-ms=20  # default\n"));
    int lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, CONFIG_COUNT);
    free(text);
}

static void help_names_every_flag_and_variable(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_help(out);
    fclose(out);
#define X(field, KIND, flag, variable, ...)                                                        \
    assert_non_null(strstr(text, "--" flag));                                                      \
    assert_true(!variable || strstr(text, variable ? variable : ""));
    CONFIG_OPTIONS(X)
#undef X
    free(text);
}

#define TEST(name) cmocka_unit_test_setup(name, clean_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unknown_flags_and_words_are_refused),
        TEST(bad_values_name_the_option_and_the_range),
        TEST(flag_beats_environment_beats_default),
        TEST(sizes_take_binary_suffixes),
        TEST(socket_over_107_bytes_is_refused_with_advice),
        TEST(help_is_given_even_when_the_environment_is_wrong),
        TEST(print_config_tells_value_and_origin_of_every_option),
        TEST(help_names_every_flag_and_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
