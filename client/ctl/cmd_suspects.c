/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/source.h"
#include "client/ctl/suspects_print.h"
#include "client/ctl/text.h"

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    progress_update(done, total);
    return true;
}

static int add_run(struct mining *mining, const struct trace_source *source,
                   const struct trace_run *run)
{
    int error = mining_add(mining, source, run);

    return error ? ctl_fail_error(error, "cannot look at the runs", NULL) : EX_OK;
}

static int add_named(struct mining *mining, int argc, const char *const *argv)
{
    struct source_run *runs = mem_alloc((size_t)argc * sizeof(runs[0]));
    int status = EX_OK;

    for (int i = 0; i < argc && !status; i++) {
        status = source_open(argv[i], &runs[i]);
        for (int j = 0; j < i && !status; j++)
            if (!memcmp(runs[j].trace->run_id, runs[i].trace->run_id,
                        sizeof(runs[i].trace->run_id)))
                status = ctl_fail(EX_USAGE, "%s and %s are the same run", runs[j].as, runs[i].as);
        if (!status)
            status = add_run(mining, runs[i].source, runs[i].trace);
    }
    return status;
}

static int add_all(struct mining *mining)
{
    struct reader *reader = NULL;
    struct reader_run *runs = NULL;
    size_t count = 0;
    int status = source_reader(&reader);

    if (status)
        return status;
    int error = reader_runs(reader, &runs, &count);

    for (size_t i = count; i > 0 && !error && !status; i--) { /* oldest first */
        const struct trace_run *trace = NULL;

        error = reader_load(reader, runs[i - 1].id, &trace);
        if (!error)
            status = add_run(mining, reader_source(reader), trace);
    }
    free(runs);
    if (error)
        return ctl_fail_error(error, "cannot read the runs", reader_error_text(reader));
    return status;
}

static int scan(struct mining *mining)
{
    const struct mining_result *result = NULL;

    progress_begin("looking for ops that do not repeat themselves");
    int error = mining_scan(mining, &result);

    progress_end();
    if (error)
        return ctl_fail_error(error, "cannot look at the runs", NULL);
    enum suspects_outcome outcome = suspects_outcome(result);

    if (ctl.json)
        suspects_print_json(result, outcome);
    else
        suspects_print_text(stdout, result, outcome, text_width());
    return outcome == SUSPECTS_FOUND  ? CTL_DIFFER
           : outcome == SUSPECTS_NONE ? CTL_SAME
                                      : CTL_CANNOT_TELL;
}

static int run(int argc, const char *const *argv)
{
    struct mining_options how = MINING_OPTIONS_INIT;

    how.progress = show_progress;
    struct mining *mining = mining_new(&how);

    if (!mining)
        return ctl_fail_error(DIVERGE_ENOMEM, NULL, NULL);
    int status = argc ? add_named(mining, argc, argv) : add_all(mining);

    if (!status)
        status = ctl_finish(scan(mining));
    mining_free(mining);
    return status;
}

static const char *const description[] = {
    "Looks through runs (all in the store, when none is named; recordings, too) for ops that were "
    "called again with the same arguments and the same inputs, bit by bit, and gave another "
    "output. What such an op computes does not follow from what it gets. Runs need records of ops: "
    "divergectl run --level op.",
    "Calls are left out when they draw random numbers, take part in a collective, make "
    "uninitialised memory, have no input, or have a record that could not be read. \"Differing\" "
    "counts sets of equal calls; the interval is Wilson's, 95 %. \"Same causes\" are those that "
    "differ even where versions, devices, threads, flags and the rest of the recorded causes are "
    "equal.",
    "Whether a host or device is to blame: \"alone\" when every call that departs from a majority "
    "ran at that one place, others agree, and chance would do that in less than 1 % of cases "
    "(hypergeometric, times the number of places); \"follows the place\" when each repeats "
    "itself and they disagree; \"anywhere\" when two places or more do not repeat themselves.",
    "Exits 0 when no op is suspect, 1 when some are, 2 when it cannot tell: nothing was called "
    "twice, or no suspect was found but some records are missing.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl suspects", "over everything in the store"},
    {"divergectl suspects base base.2 base.3 --json", "over three runs, as JSON"},
    {NULL, NULL},
};

const struct cmd cmd_suspects = {
    .name = "suspects",
    .group = CMD_GROUP_COMPARE,
    .summary = "Find ops that give another output for the same inputs, over all runs",
    .synopsis = "[RUN…]",
    .description = description,
    .words = CMD_WORDS_RUN_OR_FILE,
    .min_arguments = 0,
    .max_arguments = -1,
    .json = true,
    .examples = examples,
    .run = run,
};
