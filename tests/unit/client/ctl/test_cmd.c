/* SPDX-License-Identifier: Apache-2.0 */
/* The tables are sound, and parsing follows them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"

static struct {
    bool flag;
    bool given;
    const char *text;
    const char *choice;
    uint64_t u;
    int64_t i;
} values;

static const char *const choices[] = {"red", "green", NULL};

static const struct cmd_option rows[] = {
    {.name = "flag", .letter = 'f', .type = CMD_FLAG, .value = &values.flag, .help = "a flag"},
    {.name = "text", .type = CMD_STRING, .value = &values.text, .argument = "TEXT", .help = "text"},
    {.name = "choice",
     .type = CMD_CHOICE,
     .value = &values.choice,
     .argument = "C",
     .choices = choices,
     .help = "a choice"},
    {.name = "count", .type = CMD_U64, .value = &values.u, .argument = "N", .help = "a count"},
    {.name = "offset",
     .type = CMD_I64,
     .value = &values.i,
     .given = &values.given,
     .argument = "K",
     .help = "an offset"},
};

static const struct cmd sample = {
    .name = "sample",
    .summary = "A sample",
    .synopsis = "",
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .max_arguments = -1,
};

static const struct cmd stopping = {
    .name = "stopping",
    .summary = "Stops",
    .synopsis = "",
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .max_arguments = -1,
    .stops = true,
};

static int left;
static const char *const *arguments;

static int setup(void **state)
{
    (void)state;
    memset(&values, 0, sizeof(values));
    ctl.json = false;
    return 0;
}

#define PARSE(cmd, ...) parse(cmd, (const char *const[]){"sample", __VA_ARGS__, NULL})

static int parse(const struct cmd *cmd, const char *const *argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    return cmd_parse(cmd, argc, argv, &left, &arguments);
}

static void options_are_taken_wherever_they_stand(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&sample, "one", "--flag", "--text=t", "two", "--json"), 0);
    assert_true(values.flag);
    assert_true(ctl.json);
    assert_string_equal(values.text, "t");
    assert_int_equal(left, 2);
    assert_string_equal(arguments[0], "one");
    assert_string_equal(arguments[1], "two");
}

static void numbers_are_checked(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&sample, "--count", "18446744073709551615", "--offset", "-3"), 0);
    assert_true(values.u == UINT64_MAX);
    assert_true(values.i == -3);
    assert_true(values.given);
    assert_int_equal(PARSE(&sample, "--count", "-1"), EX_USAGE);
    assert_int_equal(PARSE(&sample, "--count", "1.5"), EX_USAGE);
    assert_int_equal(PARSE(&sample, "--offset", "9223372036854775808"), EX_USAGE);
    assert_int_equal(PARSE(&sample, "--offset", ""), EX_USAGE);
}

static void choices_are_closed(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&sample, "--choice", "green"), 0);
    assert_string_equal(values.choice, "green");
    assert_int_equal(PARSE(&sample, "--choice", "blue"), EX_USAGE);
}

static void unknown_and_incomplete_options_are_usage(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&sample, "--colour", "x"), EX_USAGE);
    assert_int_equal(PARSE(&sample, "-Z"), EX_USAGE);
    assert_int_equal(PARSE(&sample, "--text"), EX_USAGE);
    assert_int_equal(PARSE(&sample, "--flag=1"), EX_USAGE);
}

static void a_command_line_that_follows_is_not_parsed(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&stopping, "--flag", "--", "train", "--text", "x"), 0);
    assert_int_equal(left, 3);
    assert_string_equal(arguments[0], "train");
    assert_string_equal(arguments[1], "--text");
    assert_null(values.text);
    assert_int_equal(PARSE(&stopping, "train", "--flag", "-Z"), 0);
    assert_int_equal(left, 3);
    assert_string_equal(arguments[2], "-Z");
}

static void check_rows(const struct cmd_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct cmd_option *row = &options[i];

        assert_true(strlen(row->name) >= 2);
        assert_non_null(row->value);
        assert_true(strlen(row->help) > 10);
        assert_false(row->help[strlen(row->help) - 1] == '.');
        assert_true((row->type == CMD_FLAG) == (row->argument == NULL));
        assert_true((row->type == CMD_CHOICE) == (row->choices != NULL));
    }
}

static bool names_option(const struct cmd *cmd, const struct cmd_option *option)
{
    for (size_t i = 0; i < cmd->n_options; i++)
        if (!strcmp(cmd->options[i].name, option->name) ||
            (option->letter && cmd->options[i].letter == option->letter))
            return true;
    return false;
}

static void tables_are_sound(void **state)
{
    (void)state;
    check_rows(cmd_global_options, cmd_n_global_options);
    for (size_t i = 0; cmd_all[i]; i++) {
        const struct cmd *cmd = cmd_all[i];

        check_rows(cmd->options, cmd->n_options);
        assert_ptr_equal(cmd_find(cmd->name), cmd);
        assert_non_null(cmd->run);
        assert_non_null(cmd->synopsis);
        assert_true(isupper((unsigned char)cmd->summary[0]));
        assert_true((cmd->words == CMD_WORDS_ACTION) == (cmd->actions != NULL));
        assert_true(cmd->max_arguments == -1 || cmd->max_arguments >= cmd->min_arguments);
        assert_true((cmd->max_arguments == 0) == (*cmd->synopsis == '\0'));
        for (size_t j = 0; j < cmd_n_global_options; j++)
            assert_false(names_option(cmd, &cmd_global_options[j]));
    }
    assert_null(cmd_find("no-such-command"));
}

static void errors_have_exit_statuses(void **state)
{
    (void)state;
    assert_int_equal(ctl_exit_status(DIVERGE_EINVAL), 64);
    assert_int_equal(ctl_exit_status(DIVERGE_ECORRUPT), 65);
    assert_int_equal(ctl_exit_status(DIVERGE_EVERSION), 65);
    assert_int_equal(ctl_exit_status(DIVERGE_ENOTFOUND), 66);
    assert_int_equal(ctl_exit_status(DIVERGE_EUNAVAIL), 69);
    assert_int_equal(ctl_exit_status(DIVERGE_EINTERNAL), 70);
    assert_int_equal(ctl_exit_status(DIVERGE_EPERM), 77);
    assert_int_equal(ctl_exit_status(DIVERGE_EUNSUPPORTED), 78);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_are_taken_wherever_they_stand, setup),
        cmocka_unit_test_setup(numbers_are_checked, setup),
        cmocka_unit_test_setup(choices_are_closed, setup),
        cmocka_unit_test_setup(unknown_and_incomplete_options_are_usage, setup),
        cmocka_unit_test_setup(a_command_line_that_follows_is_not_parsed, setup),
        cmocka_unit_test_setup(tables_are_sound, setup),
        cmocka_unit_test_setup(errors_have_exit_statuses, setup),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    mem_free_all();
    return failed;
}
