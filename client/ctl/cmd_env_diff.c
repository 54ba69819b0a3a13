/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/answer.h"
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"

static void print_json(const struct engine_answer *answer, const struct source_run *a,
                       const struct source_run *b)
{
    struct emit emit;

    emit_begin(&emit, "env-diff");
    answer_emit_run(&emit, "a", a->trace);
    answer_emit_run(&emit, "b", b->trace);
    emit_u64(&emit, "equal_causes", answer->environment_equal_causes);
    answer_emit_environment(&emit, answer);
    emit_print(&emit);
}

/* Keys that differ, but for those that do so every time. */
static size_t count_lasting(const struct engine_answer *answer)
{
    size_t count = 0;

    for (size_t i = 0; i < answer->n_environment; i++)
        count += strcmp(answer->environment[i].class_name, "volatile") != 0;
    return count;
}

static int run(int argc, const char *const *argv)
{
    struct engine_answer *answer = NULL;
    struct source_run a;
    struct source_run b;
    int status = source_open(argv[0], &a);

    (void)argc;
    if (!status)
        status = source_open(argv[1], &b);
    if (status)
        return status;
    int error = engine_environment_diff(a.trace, b.trace, &answer);

    if (error)
        return ctl_fail_error(error, NULL, NULL);
    if (ctl.json) {
        print_json(answer, &a, &b);
    } else {
        answer_environment(stdout, answer, text_width());
        text_wrap(stdout, "", 0,
                  mem_printf("%s equal, %s different.",
                             text_things(answer->environment_equal_causes, "cause"),
                             text_things(answer->n_environment, "key")),
                  text_width());
    }
    status = count_lasting(answer) ? CTL_DIFFER : CTL_SAME;
    engine_answer_free(answer);
    return status;
}

static const char *const description[] = {
    "Compares what was recorded about the two runs: causes (versions, devices, threads, seeds, "
    "flags, arguments, the state of the source tree) first, then context (host, paths), then what "
    "differs every time (pids, times).",
    "Exits 1 when a cause or the context differs, else 0.",
    NULL,
};

const struct cmd cmd_env_diff = {
    .name = "env-diff",
    .group = CMD_GROUP_COMPARE,
    .summary = "Compare the environments of two runs",
    .synopsis = "A B",
    .description = description,
    .words = CMD_WORDS_RUN_OR_FILE,
    .min_arguments = 2,
    .max_arguments = 2,
    .json = true,
    .run = run,
};
