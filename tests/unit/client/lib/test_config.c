/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/config.h"

static struct dvg_config config;
static struct dvg_error error;
static struct diverge_options options;

static const char *const variables[] = {
    "DIVERGE_RUN_NAME",    "DIVERGE_RUN_ID",  "RANK",           "WORLD_SIZE",
    "DIVERGE_LEVEL",       "DIVERGE_STEPS",   "DIVERGE_SOCKET", "DIVERGE_SPOOL",
    "DIVERGE_SPOOL_BYTES", "DIVERGE_WAIT_MS", "DIVERGE_SKETCH", "DIVERGE_RECORDING",
    "DIVERGE_DISABLE",     "XDG_RUNTIME_DIR",
};

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    options = (struct diverge_options)DIVERGE_OPTIONS_INIT;
    memset(&error, 0, sizeof(error));
    return 0;
}

static int init(void)
{
    return dvg_config_init(&config, &options, &error);
}

static void defaults_need_no_options(void **state)
{
    (void)state;
    assert_int_equal(dvg_config_init(&config, NULL, &error), 0);
    assert_string_equal(config.name, "test_config");
    assert_int_equal(config.rank, 0);
    assert_int_equal(config.world, 1);
    assert_int_equal(config.level, DIVERGE_TIER_OP);
    assert_int_equal(config.wait_ns, 100000000);
    assert_int_equal(config.spool_bytes, 1 << 30);
    assert_int_equal(config.sketch, 0);
    char expected[64];
    snprintf(expected, sizeof(expected), "/tmp/diverge-%lu", (unsigned long)getuid());
    assert_string_equal(config.spool_dir, expected);
    strcat(expected, "/diverged.sock");
    assert_string_equal(config.socket_path, expected);
}

static void environment_fills_what_the_caller_left(void **state)
{
    (void)state;
    setenv("DIVERGE_RUN_NAME", "from-env", 1);
    setenv("DIVERGE_RUN_ID", "00112233445566778899AABBCCDDEEFF", 1);
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "4", 1);
    setenv("DIVERGE_LEVEL", "layer", 1);
    setenv("DIVERGE_STEPS", "5", 1);
    setenv("DIVERGE_WAIT_MS", "0", 1);
    setenv("DIVERGE_SKETCH", "64", 1);
    setenv("DIVERGE_SPOOL_BYTES", "12345", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("DIVERGE_SPOOL", "/var/spool/x", 1);
    assert_int_equal(init(), 0);
    assert_string_equal(config.name, "from-env");
    assert_int_equal(config.run_id[15], 0xff);
    assert_int_equal(config.rank, 3);
    assert_int_equal(config.world, 4);
    assert_int_equal(config.level, DIVERGE_TIER_LAYER);
    assert_int_equal(config.n_steps, 1);
    assert_int_equal(config.wait_ns, 0);
    assert_int_equal(config.sketch, 64);
    assert_int_equal(config.spool_bytes, 12345);
    assert_string_equal(config.socket_path, "/run/user/7/diverge/diverged.sock");
    assert_string_equal(config.spool_dir, "/var/spool/x");
}

static void caller_comes_before_the_environment(void **state)
{
    (void)state;
    setenv("DIVERGE_SOCKET", "/from/env", 1);
    setenv("DIVERGE_WAIT_MS", "7", 1);
    setenv("DIVERGE_SKETCH", "64", 1);
    setenv("RANK", "0", 1);
    options.socket_path = "/given/sock";
    options.wait_ms = DIVERGE_NO_WAIT;
    options.sketch = 32;
    options.rank = 1;
    options.world = 2;
    assert_int_equal(init(), 0);
    assert_string_equal(config.socket_path, "/given/sock");
    assert_string_equal(config.spool_dir, "/given");
    assert_int_equal(config.wait_ns, 0);
    assert_int_equal(config.sketch, 32);
    assert_int_equal(config.rank, 1);
}

static void launcher_decides_what_the_run_is(void **state)
{
    (void)state;
    setenv("DIVERGE_RUN_NAME", "from-env", 1);
    setenv("DIVERGE_RUN_ID", "00112233445566778899aabbccddeeff", 1);
    setenv("DIVERGE_LEVEL", "layer", 1);
    setenv("DIVERGE_STEPS", "9", 1);
    options.name = "given";
    options.run_id = "ff112233445566778899aabbccddeeff";
    options.level = DIVERGE_TIER_PULSE;
    options.steps = "1,2";
    assert_int_equal(init(), 0);
    assert_string_equal(config.name, "from-env");
    assert_int_equal(config.run_id[0], 0);
    assert_int_equal(config.level, DIVERGE_TIER_LAYER);
    assert_int_equal(config.n_steps, 1);
    set_up(NULL);
    options.name = "given";
    options.level = DIVERGE_TIER_PULSE;
    options.steps = "1,2";
    assert_int_equal(init(), 0);
    assert_string_equal(config.name, "given");
    assert_int_equal(config.level, DIVERGE_TIER_PULSE);
    assert_int_equal(config.n_steps, 2);
}

/* Each must be refused with a text that names what is wrong. */
static void nonsense_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        const char *value;
        const char *says;
    } cases[] = {
        {"DIVERGE_RUN_ID", "123", "32 hex digits"},
        {"DIVERGE_RUN_ID", "zz112233445566778899aabbccddeeff", "32 hex digits"},
        {"RANK", "-1", "RANK"},
        {"RANK", "1", "rank 1 of 1"},
        {"WORLD_SIZE", "0", "ranks"},
        {"WORLD_SIZE", "99999999", "WORLD_SIZE"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up(NULL);
        setenv(cases[i].variable, cases[i].value, 1);
        assert_int_equal(init(), DIVERGE_EINVAL);
        assert_non_null(strstr(error.text, cases[i].says));
    }
}

static void a_variable_of_nonsense_is_told_and_passed_over(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        const char *value;
        const char *says;
    } cases[] = {
        {"DIVERGE_RUN_NAME", "-x", "run name"},
        {"DIVERGE_RUN_NAME", "a b", "run name"},
        {"DIVERGE_LEVEL", "all", "pulse, step, layer or op"},
        {"DIVERGE_STEPS", "5-7", "ranges"},
        {"DIVERGE_STEPS", "7:5", "ranges"},
        {"DIVERGE_STEPS", "1,,2", "ranges"},
        {"DIVERGE_STEPS", "1,", "ranges"},
        {"DIVERGE_STEPS", "::0", "ranges"},
        {"DIVERGE_STEPS", "99999999999999999999999", "ranges"},
        {"DIVERGE_SKETCH", "33", "sketch"},
        {"DIVERGE_SKETCH", "many", "a number"},
        {"DIVERGE_SPOOL_BYTES", "1X", "bytes"},
        {"DIVERGE_SPOOL_BYTES", "G", "bytes"},
        {"DIVERGE_SPOOL_BYTES", "-1", "bytes"},
        {"DIVERGE_SPOOL_BYTES", "1GB", "bytes"},
        {"DIVERGE_SPOOL_BYTES", "16777216T", "bytes"},
        {"DIVERGE_WAIT_MS", "soon", "a number"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up(NULL);
        setenv(cases[i].variable, cases[i].value, 1);
        assert_int_equal(init(), 0);
        assert_non_null(strstr(error.passed_over, cases[i].variable));
        assert_non_null(strstr(error.passed_over, cases[i].says));
        assert_string_equal(config.name, "test_config");
        assert_int_equal(config.level, DIVERGE_TIER_OP);
        assert_int_equal(config.n_steps, 0);
        assert_int_equal(config.sketch, 0);
        assert_int_equal(config.spool_bytes, 1 << 30);
        assert_int_equal(config.wait_ns, 100000000);
    }
}

static void what_the_program_says_stands_when_the_variable_is_nonsense(void **state)
{
    (void)state;
    setenv("DIVERGE_RUN_NAME", "ab/c", 1);
    setenv("DIVERGE_STEPS", "1,2,x", 1);
    setenv("DIVERGE_LEVEL", "all", 1);
    options.name = "g";
    options.steps = "7";
    options.level = DIVERGE_TIER_STEP;
    assert_int_equal(init(), 0);
    assert_string_equal(config.name, "g");
    assert_int_equal(config.n_steps, 1);
    assert_int_equal(config.level, DIVERGE_TIER_STEP);
    options.name = "-";
    assert_int_equal(init(), DIVERGE_EINVAL);
    set_up(NULL);
    assert_int_equal(init(), 0);
    assert_string_equal(error.passed_over, "");
}

static void paths_too_long_are_passed_over(void **state)
{
    (void)state;
    char path[PATH_MAX + 1];
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[PATH_MAX] = '\0';
    setenv("DIVERGE_SPOOL", path, 1);
    path[DVG_SOCKET_PATH_MAX + 1] = '\0';
    setenv("DIVERGE_SOCKET", path, 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(init(), 0);
    assert_string_equal(config.socket_path, "/run/user/7/diverge/diverged.sock");
    assert_string_equal(config.spool_dir, "/run/user/7/diverge");
    assert_non_null(strstr(error.passed_over, "DIVERGE_SOCKET is passed over"));
    assert_non_null(strstr(error.passed_over, "DIVERGE_SPOOL is passed over"));
}

static void spool_bytes_take_binary_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        uint64_t bytes;
    } cases[] = {
        {"4096", 4096},
        {"3K", 3072},
        {"64m", UINT64_C(64) << 20},
        {"2G", UINT64_C(2) << 30},
        {"1TiB", UINT64_C(1) << 40},
        {"16777215T", UINT64_C(16777215) << 40},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("DIVERGE_SPOOL_BYTES", cases[i].value, 1);
        assert_int_equal(init(), 0);
        assert_true(config.spool_bytes == cases[i].bytes);
        assert_string_equal(error.passed_over, "");
    }
}

static void long_socket_path_is_refused_not_cut(void **state)
{
    (void)state;
    char path[200];
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[107] = '\0';
    options.socket_path = path;
    assert_int_equal(init(), 0);
    path[107] = 'x';
    path[108] = '\0';
    assert_int_equal(init(), DIVERGE_EINVAL);
    assert_non_null(strstr(error.text, "108 bytes"));
    assert_non_null(strstr(error.text, "DIVERGE_SOCKET"));
}

static void options_without_size_are_refused(void **state)
{
    (void)state;
    memset(&options, 0, sizeof(options));
    assert_int_equal(init(), DIVERGE_EINVAL);
    assert_non_null(strstr(error.text, "DIVERGE_OPTIONS_INIT"));
}

static void program_name_becomes_a_run_name(void **state)
{
    (void)state;
    char *before = program_invocation_short_name;
    program_invocation_short_name = (char *)"__my train (1).py";
    assert_int_equal(init(), 0);
    assert_string_equal(config.name, "my-train--1-.py");
    program_invocation_short_name = (char *)"___";
    assert_int_equal(init(), 0);
    assert_string_equal(config.name, "run");
    program_invocation_short_name = before;
}

static uint8_t wanted_step(uint64_t k)
{
    return dvg_config_wanted(&config, diverge_segment_of_step(k));
}

static void ranges_include_both_ends_and_strides(void **state)
{
    (void)state;
    const uint8_t all = 0x1f;
    const uint8_t pulse = 0x11;
    options.steps = "3:5,8,20::10";
    assert_int_equal(init(), 0);
    const uint64_t in[] = {3, 4, 5, 8, 20, 30, 1000};
    const uint64_t out[] = {0, 2, 6, 7, 9, 19, 25, 1001};
    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
        assert_int_equal(wanted_step(in[i]), all);
    for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
        assert_int_equal(wanted_step(out[i]), pulse);
    assert_int_equal(dvg_config_wanted(&config, diverge_segment_of_boundary(3)), all);
    assert_int_equal(dvg_config_wanted(&config, diverge_segment_of_boundary(6)), all);
    assert_int_equal(dvg_config_wanted(&config, diverge_segment_of_boundary(7)), pulse);
    assert_int_equal(dvg_config_wanted(&config, 0), pulse);
    options.steps = ":1";
    assert_int_equal(init(), 0);
    assert_int_equal(dvg_config_wanted(&config, 0), all);
}

static void disabled_is_its_own_status(void **state)
{
    (void)state;
    setenv("DIVERGE_DISABLE", "1", 1);
    assert_int_equal(init(), DIVERGE_ECLOSED);
    setenv("DIVERGE_DISABLE", "0", 1);
    assert_int_equal(init(), 0);
}

static void folder_must_be_private(void **state)
{
    (void)state;
    char dir[64];
    char path[96];
    snprintf(dir, sizeof(dir), "/tmp/dvg-config-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(dvg_folder_check(dir, false, &error), 0);
    snprintf(path, sizeof(path), "%s/new", dir);
    assert_int_equal(dvg_folder_check(path, false, &error), DIVERGE_ENOTFOUND);
    assert_int_equal(dvg_folder_check(path, true, &error), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(chmod(path, 0702), 0);
    assert_int_equal(dvg_folder_check(path, true, &error), DIVERGE_EPERM);
    assert_non_null(strstr(error.text, "everybody can write"));
    rmdir(path);
    assert_int_equal(symlink(dir, path), 0);
    assert_int_equal(dvg_folder_check(path, false, &error), DIVERGE_EPERM);
    assert_non_null(strstr(error.text, "symbolic link"));
    unlink(path);
    rmdir(dir);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        CASE(defaults_need_no_options),
        CASE(environment_fills_what_the_caller_left),
        CASE(caller_comes_before_the_environment),
        CASE(launcher_decides_what_the_run_is),
        CASE(nonsense_is_refused_with_a_reason),
        CASE(a_variable_of_nonsense_is_told_and_passed_over),
        CASE(what_the_program_says_stands_when_the_variable_is_nonsense),
        CASE(paths_too_long_are_passed_over),
        CASE(spool_bytes_take_binary_suffixes),
        CASE(long_socket_path_is_refused_not_cut),
        CASE(options_without_size_are_refused),
        CASE(program_name_becomes_a_run_name),
        CASE(ranges_include_both_ends_and_strides),
        CASE(disabled_is_its_own_status),
        CASE(folder_must_be_private),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
