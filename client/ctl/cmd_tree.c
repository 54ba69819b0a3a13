/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"
#include "client/ctl/tree_print.h"

static struct {
    bool has_rank;
    uint64_t rank;
} options;

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    progress_update(done, total);
    return true;
}

static int exit_status(enum engine_result result)
{
    switch (result) {
    case ENGINE_SAME:
    case ENGINE_WITHIN_NOISE:
        return CTL_SAME;
    case ENGINE_DIFFER:
        return CTL_DIFFER;
    case ENGINE_UNVERIFIED:
        return CTL_CANNOT_TELL;
    }
    return EX_SOFTWARE;
}

/* A run that is there twice would count twice in every rate. */
static int refuse_twice(const struct source_run *runs, int n)
{
    for (int i = 0; i < n; i++)
        if (!memcmp(runs[i].trace->run_id, runs[n].trace->run_id, sizeof(runs[n].trace->run_id)))
            return ctl_fail(EX_USAGE, "%s and %s are the same run", runs[i].as, runs[n].as);
    return EX_OK;
}

static int open_runs(int argc, const char *const *argv, struct source_run *runs,
                     struct tree_input *inputs)
{
    int status = EX_OK;

    for (int i = 0; i < argc && !status; i++) {
        status = source_open(argv[i], &runs[i]);
        if (!status)
            status = refuse_twice(runs, i);
        if (status)
            break;
        inputs[i] =
            (struct tree_input){.source = runs[i].source, .run = runs[i].trace, .name = runs[i].as};
    }
    return status;
}

static int run(int argc, const char *const *argv)
{
    struct tree_options how = TREE_OPTIONS_INIT;
    struct tree *tree = NULL;

    if (options.has_rank && options.rank > UINT32_MAX)
        return ctl_fail(EX_USAGE, "--rank is out of range");
    if (argc > TREE_MAX_RUNS)
        return ctl_fail(EX_USAGE, "at most %d runs", (int)TREE_MAX_RUNS);
    if (options.has_rank)
        how.rank = (int64_t)options.rank;
    how.progress = show_progress;
    struct source_run *runs = mem_alloc((size_t)argc * sizeof(runs[0]));
    struct tree_input *inputs = mem_alloc((size_t)argc * sizeof(inputs[0]));
    int status = open_runs(argc, argv, runs, inputs);

    if (status)
        return status;
    progress_begin("comparing");
    int error = tree_build(inputs, (size_t)argc, &how, &tree);

    progress_end();
    if (error)
        return ctl_fail_error(error, "cannot compare the runs", NULL);
    if (ctl.json)
        tree_print_json(tree, inputs);
    else
        tree_print_text(stdout, tree, inputs, text_width());
    status = ctl_finish(exit_status(tree->result));
    tree_free(tree);
    return status;
}

static const struct cmd_option rows[] = {
    {.name = "rank",
     .type = CMD_U64,
     .value = &options.rank,
     .given = &options.has_rank,
     .argument = "N",
     .help = "compare this rank alone"},
};

static const char *const description[] = {
    "Compares any number of runs and draws them as a tree: which stay together, at which step and "
    "site each branch parts, and in how many end states they land. At a split the biggest group "
    "goes straight on; how the others part is told against it.",
    "A share of the runs comes with its 95 % interval (Wilson's), for a few runs say little about "
    "how often: 3 of 7 is anything from 16 to 75 %. Runs of which something is missing are counted "
    "only as far as they were recorded.",
    "Exits 0 when all runs are the same, 1 when some part, 2 when it cannot tell.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl tree base base.2 base.3 base.4", "four repeats of a run"},
    {"divergectl tree base @prev @last --json", "as JSON"},
    {NULL, NULL},
};

const struct cmd cmd_tree = {
    .name = "tree",
    .group = CMD_GROUP_COMPARE,
    .summary = "Compare many runs: which stay together, where each branch parts",
    .synopsis = "RUN RUN...",
    .description = description,
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .words = CMD_WORDS_RUN_OR_FILE,
    .min_arguments = 2,
    .max_arguments = -1,
    .json = true,
    .examples = examples,
    .run = run,
};
