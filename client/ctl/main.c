/* SPDX-License-Identifier: Apache-2.0 */
/* divergectl: finds the command, parses its options, runs it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <diverge/diverge.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"

static int unknown_command(const char *name)
{
    const char *names[64];
    size_t count = 0;

    while (cmd_all[count] && count < CMD_COUNT(names)) {
        names[count] = cmd_all[count]->name;
        count++;
    }
    const char *nearest = text_nearest(name, names, count);

    if (nearest)
        return ctl_fail(EX_USAGE, "unknown command \"%s\"; did you mean \"%s\"?", text_escape(name),
                        nearest);
    return ctl_fail(EX_USAGE, "unknown command \"%s\"; divergectl help lists them",
                    text_escape(name));
}

static int wrong_arguments(const struct cmd *cmd)
{
    return ctl_fail(EX_USAGE, "usage: divergectl %s%s%s%s (see divergectl help %s)", cmd->name,
                    cmd->n_options ? " [OPTION…]" : "", *cmd->synopsis ? " " : "", cmd->synopsis,
                    cmd->name);
}

static int print_version(void)
{
    printf("divergectl %s\n", diverge_version());
    return EX_OK;
}

static int run_command(const struct cmd *cmd, int argc, const char *const *argv)
{
    int left = 0;
    const char *const *arguments = NULL;
    int status = cmd_parse(cmd, argc, argv, &left, &arguments);

    if (status)
        return status;
    text_init(ctl.color);
    if (ctl.help) {
        help_command(cmd);
        return EX_OK;
    }
    if (ctl.version)
        return print_version();
    if (left < cmd->min_arguments || (cmd->max_arguments >= 0 && left > cmd->max_arguments))
        return wrong_arguments(cmd);
    if (ctl.json && !cmd->json)
        return ctl_fail(EX_USAGE, "%s has no --json", cmd->name);
    return cmd->run(left, arguments);
}

static int dispatch(int argc, const char *const *argv)
{
    int left = 0;
    const char *const *arguments = NULL;

    text_init("auto");
    if (argc == 2 && !strcmp(argv[1], "--print-man")) { /* hidden: for the build */
        help_man_page();
        return EX_OK;
    }
    if (argc == 3 && !strcmp(argv[1], "--print-completion"))
        return help_completion(argv[2]);
    int status = cmd_parse(NULL, argc, argv, &left, &arguments);

    if (status)
        return status;
    text_init(ctl.color);
    if (ctl.version)
        return print_version();
    if (!left) {
        help_overview();
        return ctl.help || argc == 1 ? EX_OK : EX_USAGE;
    }
    const struct cmd *cmd = cmd_find(arguments[0]);

    return cmd ? run_command(cmd, left, arguments) : unknown_command(arguments[0]);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a daemon that went away is an error, not an end */
    int status = ctl_finish(dispatch(argc, (const char *const *)argv));

    source_close();
    mem_free_all();
    return status;
}
