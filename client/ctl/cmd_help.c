/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/text.h"

static int run(int argc, const char *const *argv)
{
    const struct cmd *cmd = argc ? cmd_find(argv[0]) : NULL;

    if (!argc)
        help_overview();
    else if (cmd)
        help_command(cmd);
    else
        return ctl_fail(EX_USAGE, "unknown command \"%s\"; divergectl help lists them",
                        text_escape(argv[0]));
    return EX_OK;
}

const struct cmd cmd_help = {
    .name = "help",
    .group = CMD_GROUP_DAEMON,
    .summary = "Show the commands, or one command's help",
    .synopsis = "[COMMAND]",
    .words = CMD_WORDS_COMMAND,
    .max_arguments = 1,
    .run = run,
};
