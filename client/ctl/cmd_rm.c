/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/change.h"
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"

static int run(int argc, const char *const *argv)
{
    return change_runs(CHANGE_RM, argc, argv);
}

static const char *const description[] = {
    "Removes runs with all their records; what other runs share with them stays. The space is "
    "given back by gc, and used again by later runs. A run that is being recorded is not removed, "
    "nor one that is pinned: take the pin off first, with pin --remove.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl rm @last", "removes the newest run"},
    {NULL, NULL},
};

const struct cmd cmd_rm = {
    .name = "rm",
    .group = CMD_GROUP_KEEP,
    .summary = "Remove runs",
    .synopsis = "RUN…",
    .description = description,
    .words = CMD_WORDS_RUN,
    .min_arguments = 1,
    .max_arguments = -1,
    .json = true,
    .examples = examples,
    .run = run,
};
