/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/change.h"
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"

static struct {
    bool remove;
} options;

static int run(int argc, const char *const *argv)
{
    return options.remove ? change_runs(CHANGE_UNPIN, argc, argv)
                          : change_runs(CHANGE_PIN, argc, argv);
}

static const struct cmd_option rows[] = {
    {.name = "remove",
     .type = CMD_FLAG,
     .value = &options.remove,
     .help = "take the pin off again"},
};

static const char *const description[] = {
    "When the store reaches its cap the oldest detail is thinned; a pinned run keeps all of its "
    "records.",
    NULL,
};

const struct cmd cmd_pin = {
    .name = "pin",
    .group = CMD_GROUP_KEEP,
    .summary = "Keep runs whole, whatever their age",
    .synopsis = "RUN…",
    .description = description,
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .words = CMD_WORDS_RUN,
    .min_arguments = 1,
    .max_arguments = -1,
    .json = true,
    .run = run,
};
