/* SPDX-License-Identifier: Apache-2.0 */
/* Help, the man page and the completions say all that the tables say. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

static const struct cmd *shown;
static const char *shell;

/* What `print` writes to stdout. */
static const char *captured(void (*print)(void))
{
    FILE *file = tmpfile();
    int before = dup(STDOUT_FILENO);

    assert_non_null(file);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    print();
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    long size = ftell(file);
    char *text = mem_alloc((size_t)size + 1);

    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

static void print_help(void)
{
    help_command(shown);
}

static void print_completion(void)
{
    assert_int_equal(help_completion(shell), EX_OK);
}

static void assert_has(const char *text, const char *wanted)
{
    if (!strstr(text, wanted))
        fail_msg("\"%s\" is missing", wanted);
}

/* How the man page writes it. */
static const char *in_roff(const char *text)
{
    const char *out = "";

    for (; *text; text++)
        out = *text == '-' ? mem_printf("%s\\-", out) : mem_printf("%s%c", out, *text);
    return out;
}

static void overview_names_every_command(void **state)
{
    (void)state;
    const char *text = captured(help_overview);

    for (size_t i = 0; cmd_all[i]; i++) {
        assert_has(text, mem_printf("  %s ", cmd_all[i]->name));
        assert_has(text, cmd_all[i]->summary);
    }
}

static void help_names_every_option(void **state)
{
    (void)state;
    for (size_t i = 0; cmd_all[i]; i++) {
        shown = cmd_all[i];
        const char *text = captured(print_help);

        for (size_t j = 0; j < shown->n_options; j++)
            assert_has(text, mem_printf("--%s", shown->options[j].name));
        assert_int_equal(strstr(text, "--json") != NULL, shown->json);
        assert_has(text, "--store FILE");
    }
}

static void man_page_names_all(void **state)
{
    (void)state;
    const char *text = captured(help_man_page);

    for (size_t i = 0; cmd_all[i]; i++) {
        const struct cmd *cmd = cmd_all[i];

        assert_has(text, mem_printf("\n.SS \"divergectl %s", in_roff(cmd->name)));
        for (size_t j = 0; j < cmd->n_options; j++)
            assert_has(text, mem_printf("\\fB\\-\\-%s\\fR", in_roff(cmd->options[j].name)));
    }
    for (size_t i = 0; i < cmd_n_global_options; i++)
        assert_has(text, mem_printf("\\fB\\-\\-%s\\fR", in_roff(cmd_global_options[i].name)));
}

static void man_page_has_no_stray_request(void **state)
{
    static const char *const macros[] = {".TH", ".SH", ".SS", ".TP", ".PP", ".EX",
                                         ".EE", ".B ", ".RI", ".I ", ".BR"};

    (void)state;
    for (const char *line = captured(help_man_page); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        bool known = *line != '.' && *line != '\'';

        for (size_t i = 0; i < CMD_COUNT(macros) && !known; i++)
            known = !strncmp(line, macros[i], strlen(macros[i]));
        if (!known)
            fail_msg("a line of text begins as a request: %.30s", line);
    }
}

static void completions_name_all(void **state)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};

    (void)state;
    for (size_t s = 0; s < CMD_COUNT(shells); s++) {
        shell = shells[s];
        const char *text = captured(print_completion);

        for (size_t i = 0; cmd_all[i]; i++) {
            assert_has(text, cmd_all[i]->name);
            for (size_t j = 0; j < cmd_all[i]->n_options; j++) {
                const char *name = cmd_all[i]->options[j].name;

                assert_has(text, s == 0   ? mem_printf("--%s ", name)
                                 : s == 1 ? mem_printf("--%s", name)
                                          : mem_printf("-l %s ", name));
            }
        }
    }
}

static void unknown_shell_is_usage(void **state)
{
    (void)state;
    assert_int_equal(help_completion("tcsh"), EX_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overview_names_every_command),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(man_page_names_all),
        cmocka_unit_test(man_page_has_no_stray_request),
        cmocka_unit_test(completions_name_all),
        cmocka_unit_test(unknown_shell_is_usage),
    };

    text_init("never");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    mem_free_all();
    return failed;
}
