/* SPDX-License-Identifier: Apache-2.0 */
/* --help, the overview and divergectl(1), from the tables. */
#include <stdio.h>
#include <string.h>

#include <diverge/diverge.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

/* The foot of the page: the release's date, so that equal sources give equal pages. */
#define RELEASED "2026-11-30"

static const char *const group_titles[CMD_GROUP_COUNT] = {
    [CMD_GROUP_RECORD] = "Record a run",           [CMD_GROUP_COMPARE] = "Find where two runs part",
    [CMD_GROUP_LOOK] = "Look at what is recorded", [CMD_GROUP_KEEP] = "Move, keep and remove runs",
    [CMD_GROUP_DAEMON] = "The daemon, and help",
};

struct row {
    const char *name;
    const char *text;
};

static const struct row exit_rows[] = {
    {"0", "done; of first-diff: the runs are the same"},
    {"1", "first-diff: the runs differ; env-diff: the environments differ"},
    {"2", "first-diff: cannot tell, because something is missing (it says what)"},
    {"64", "wrong usage"},
    {"65", "the store or a file is damaged, or was made by a newer version"},
    {"66", "no such run or file"},
    {"69", "the daemon cannot be reached, or is busy"},
    {"70", "an error inside divergectl"},
    {"73", "no space is left"},
    {"74", "an input or output error"},
    {"77", "permission denied"},
    {"78", "wrong configuration, such as a store on a network file system"},
};

static const struct row run_rows[] = {
    {"NAME", "a run's name"},
    {"ID", "its id of 32 hex digits, or the first few of a name or id when only one run has them"},
    {"@last, @prev", "the newest run, and the one before it"},
    {"FILE", "first-diff and env-diff also take a recording (see export); a file named like a run "
             "is written ./FILE"},
};

static const struct row environment_rows[] = {
    {"DIVERGE_STORE", "the store, as --store"},
    {"DIVERGE_SOCKET", "the daemon's socket, as --socket"},
    {"DIVERGE_DAEMON", "the diverged program to start; else the one beside divergectl, in its "
                       "libexec folder, or on PATH"},
    {"NO_COLOR", "when not empty: no colour"},
    {"XDG_STATE_HOME, XDG_RUNTIME_DIR", "where the store and the socket are by default"},
};

static int help_width(void)
{
    int width = text_width();

    return width == 0 || width > 100 ? 100 : width;
}

static void print_rows(const struct row *rows, size_t count)
{
    int name_width = 0;

    for (size_t i = 0; i < count; i++) {
        int columns = text_columns(rows[i].name);

        if (columns > name_width)
            name_width = columns;
    }
    if (name_width > 24)
        name_width = 24;
    for (size_t i = 0; i < count; i++) {
        const char *label = mem_printf("  %-*s  ", name_width, rows[i].name);

        text_wrap(stdout, label, name_width + 4, rows[i].text, help_width());
    }
}

static void print_title(const char *title)
{
    printf("\n%s%s%s\n", text_style(TEXT_BOLD), title, text_style(TEXT_PLAIN));
}

void help_overview(void)
{
    puts("divergectl tells where, and why, two training runs part.\n\n"
         "  divergectl run --name A -- ./train     record a run\n"
         "  divergectl run --name B -- ./train     and another\n"
         "  divergectl first-diff A B              where do they part?");
    for (int group = 0; group < CMD_GROUP_COUNT; group++) {
        struct row rows[32];
        size_t count = 0;

        for (size_t i = 0; cmd_all[i] && count < CMD_COUNT(rows); i++)
            if ((int)cmd_all[i]->group == group)
                rows[count++] = (struct row){cmd_all[i]->name, cmd_all[i]->summary};
        print_title(group_titles[group]);
        print_rows(rows, count);
    }
    puts("\nMore: divergectl help COMMAND, man divergectl.");
}

static const char *option_label(const struct cmd_option *option)
{
    const char *label = option->letter ? mem_printf("-%c, --%s", option->letter, option->name)
                                       : mem_printf("--%s", option->name);

    return option->argument ? mem_printf("%s %s", label, option->argument) : label;
}

static void print_options(const char *title, const struct cmd_option *options, size_t count,
                          bool json)
{
    struct row rows[32];
    size_t n = 0;

    for (size_t i = 0; i < count && n < CMD_COUNT(rows); i++)
        if (json || strcmp(options[i].name, "json") != 0)
            rows[n++] = (struct row){option_label(&options[i]), options[i].help};
    if (!n)
        return;
    print_title(title);
    print_rows(rows, n);
}

static void print_examples(const struct cmd_example *examples)
{
    if (!examples)
        return;
    print_title("Examples");
    for (; examples->line; examples++) {
        printf("  %s\n", examples->line);
        text_wrap(stdout, "      ", 6, examples->what, help_width());
    }
}

void help_command(const struct cmd *cmd)
{
    printf("%sdivergectl %s%s%s%s%s\n\n", text_style(TEXT_BOLD), cmd->name, text_style(TEXT_PLAIN),
           cmd->n_options ? " [OPTION…]" : "", *cmd->synopsis ? " " : "", cmd->synopsis);
    text_wrap(stdout, "", 0, mem_printf("%s.", cmd->summary), help_width());
    for (size_t i = 0; cmd->description && cmd->description[i]; i++) {
        putchar('\n');
        text_wrap(stdout, "", 0, cmd->description[i], help_width());
    }
    print_options("Options", cmd->options, cmd->n_options, true);
    print_options("Options of every command", cmd_global_options, cmd_n_global_options, cmd->json);
    print_examples(cmd->examples);
}

/* ---- divergectl(1), in the man macros -------------------------------------------------------- */

/* Text with roff's own characters escaped. */
static void man_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (!strncmp(text, "…", strlen("…"))) {
            fputs("...", stdout);
            text += strlen("…") - 1;
        } else
            putchar(*text);
    }
}

static void man_paragraph(const char *macro, const char *text)
{
    puts(macro);
    man_text(text);
    putchar('\n');
}

static void man_bold_tag(const char *tag)
{
    fputs(".TP\n\\fB", stdout);
    man_text(tag);
    fputs("\\fR\n", stdout);
}

static void man_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        man_bold_tag(rows[i].name);
        man_text(rows[i].text);
        putchar('\n');
    }
}

static void man_option(const struct cmd_option *option)
{
    fputs(".TP\n", stdout);
    if (option->letter)
        printf("\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", stdout);
    man_text(option->name);
    fputs("\\fR", stdout);
    if (option->argument) {
        fputs(" \\fI", stdout);
        man_text(option->argument);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    man_text(option->help);
    putchar('\n');
}

static void man_command(const struct cmd *cmd)
{
    fputs(".SS \"", stdout);
    man_text(mem_printf("divergectl %s%s%s%s", cmd->name, cmd->n_options ? " [OPTION…]" : "",
                        *cmd->synopsis ? " " : "", cmd->synopsis));
    puts("\"");
    man_text(mem_printf("%s.", cmd->summary));
    putchar('\n');
    for (size_t i = 0; cmd->description && cmd->description[i]; i++)
        man_paragraph(".PP", cmd->description[i]);
    for (size_t i = 0; i < cmd->n_options; i++)
        man_option(&cmd->options[i]);
    for (const struct cmd_example *e = cmd->examples; e && e->line; e++) {
        puts(".PP\n.EX");
        man_text(mem_printf("    %s", e->line));
        puts("\n.EE");
        man_text(e->what);
        puts(".");
    }
}

void help_man_page(void)
{
    printf(".TH DIVERGECTL 1 \"%s\" \"diverged %s\"\n", RELEASED, diverge_version());
    puts(".SH NAME\ndivergectl \\- tell where, and why, two training runs part\n"
         ".SH SYNOPSIS\n.B divergectl\n.RI [ OPTION ...]\n.I COMMAND\n.RI [ ARGUMENT ...]\n"
         ".SH DESCRIPTION");
    man_text("diverged records fingerprints of training runs; divergectl records a job, compares "
             "what was recorded, and keeps house. It starts a daemon of the user's own when a "
             "command needs one and none runs; commands that only read need none.");
    puts("\n.SH OPTIONS\n"
         "These belong to every command (\\-\\-json to all but run and help), and stand before or\n"
         "behind its name.");
    for (size_t i = 0; i < cmd_n_global_options; i++)
        man_option(&cmd_global_options[i]);
    for (int group = 0; group < CMD_GROUP_COUNT; group++) {
        fputs(".SH \"", stdout);
        for (const char *s = group_titles[group]; *s; s++)
            putchar(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
        puts("\"");
        for (size_t i = 0; cmd_all[i]; i++)
            if ((int)cmd_all[i]->group == group)
                man_command(cmd_all[i]);
    }
    puts(".SH \"NAMING A RUN\"");
    man_rows(run_rows, CMD_COUNT(run_rows));
    puts(".SH \"EXIT STATUS\"");
    man_rows(exit_rows, CMD_COUNT(exit_rows));
    puts(".SH ENVIRONMENT");
    man_rows(environment_rows, CMD_COUNT(environment_rows));
    puts(".SH \"SEE ALSO\"\n.BR diverged (1)");
}
