/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/answer.h"
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/counters.h"
#include "client/ctl/daemon.h"
#include "client/ctl/map.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/repeats.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"
#include "daemon/proto/json.h"

static struct {
    bool all;
    bool strict_structure;
    bool has_rank;
    bool has_offset;
    uint64_t rank;
    int64_t offset;
    const char *steps;
    const char *map;
    const char *tolerance;
    const char *noise;
} options;

/* "100:103" (both ends belong to it), "100:", ":103", "100". */
static int parse_steps(const char *text, uint64_t *ret_first, uint64_t *ret_last)
{
    const char *colon = strchr(text, ':');
    const char *second = colon ? colon + 1 : text;
    int status = 0;

    *ret_first = 0;
    *ret_last = UINT64_MAX;
    if (colon != text)
        status = text_parse_u64(mem_copy(text, colon ? (size_t)(colon - text) : strlen(text)),
                                ret_first);
    if (!status && *second)
        status = text_parse_u64(second, ret_last);
    if (status || *ret_first > *ret_last || !*text || !strcmp(text, ":"))
        return ctl_fail(EX_USAGE, "--steps takes a step or a range such as 100:103, not \"%s\"",
                        text_escape(text));
    return EX_OK;
}

static int parse_tolerance(const char *text, double *ret)
{
    char *end = NULL;
    double value = strtod(text, &end);

    if (end == text || *end || !isfinite(value) || value <= 0 || value > 1)
        return ctl_fail(EX_USAGE,
                        "--tolerance takes a relative difference above 0, such as 1e-5, not "
                        "\"%s\"",
                        text_escape(text));
    *ret = value;
    return EX_OK;
}

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    progress_update(done, total);
    return true;
}

static int read_options(struct engine_options *ret)
{
    *ret = (struct engine_options)ENGINE_OPTIONS_INIT;
    ret->all = options.all;
    ret->strict_structure = options.strict_structure;
    ret->progress = show_progress;
    if (options.has_rank && options.rank > UINT32_MAX)
        return ctl_fail(EX_USAGE, "--rank is out of range");
    if (options.has_rank)
        ret->rank = (int64_t)options.rank;
    if (options.has_offset)
        ret->offset = options.offset;
    int status = options.steps ? parse_steps(options.steps, &ret->first_step, &ret->last_step) : 0;

    if (!status && options.map)
        status = map_read(options.map, &ret->map, &ret->n_map);
    if (!status && options.tolerance)
        status = parse_tolerance(options.tolerance, &ret->tolerance);
    ret->excuse_noise = options.noise || options.tolerance;
    return status;
}

/* The word that asks for what is found by itself. */
#define FOUND "@repeats"

/* Repeats of both sides: named for A, else those that the store is seen to have. */
static int read_repeats(const struct source_run *a, const struct source_run *b,
                        struct repeat_list lists[2], struct engine_options *ret)
{
    bool named = options.noise && strcmp(options.noise, FOUND) != 0;
    int status = named ? repeats_named(options.noise, &lists[0]) : repeats_find(a, b, &lists[0]);

    if (status)
        return status;
    if (options.noise && !lists[0].count)
        return ctl_fail(EX_NOINPUT,
                        "noise of %s is unknown: no other complete run has its causes and name; "
                        "run: divergectl run --like %s -- …",
                        a->as, a->as);
    lists[1] = (struct repeat_list){0};
    if (!repeats_same_causes(a->trace, b->trace)) /* else they are those of A */
        status = repeats_find(b, a, &lists[1]);
    for (int side = 0; side < 2; side++) {
        ret->repeats[side] = lists[side].runs;
        ret->n_repeats[side] = lists[side].count;
    }
    return status;
}

/* The daemon takes the request whether or not its answer, after the next commit, is waited for. */
enum { NOTE_MS = 1 };

/* So that retention keeps what stands around it. Nothing is said when it cannot be noted. */
static void note_difference(const struct source_run *a, const struct source_run *b,
                            const struct engine_answer *answer)
{
    struct dvg_control_link link;
    cJSON *reply = NULL;
    char error[DAEMON_ERROR_MAX];

    if (!answer->first || a->recording || b->recording || daemon_try_connect(&link))
        return;
    cJSON *request = daemon_request("difference");

    if (request) {
        json_add_i64(request, "a", a->info.id);
        json_add_i64(request, "b", b->info.id);
        json_add_u64(request, "segment", answer->first->segment);
    }
    if (!daemon_call(&link, request, NOTE_MS, &reply, error))
        cJSON_Delete(reply);
    dvg_control_close(&link);
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

static void print_answer(const struct engine_answer *answer, const struct answer_runs *runs)
{
    struct emit emit;

    if (!ctl.json) {
        answer_text(stdout, answer, runs, options.all, text_width());
        return;
    }
    emit_begin(&emit, "first-diff");
    answer_emit(&emit, answer, runs);
    emit_print(&emit);
}

static int run(int argc, const char *const *argv)
{
    struct engine_options engine;
    struct engine_answer *answer = NULL;
    struct source_run a;
    struct source_run b;
    static struct repeat_list repeats[2];
    int status = read_options(&engine);

    (void)argc;
    if (!status)
        status = source_open(argv[0], &a);
    if (!status)
        status = source_open(argv[1], &b);
    if (!status)
        status = read_repeats(&a, &b, repeats, &engine);
    if (status)
        return status;
    progress_begin("comparing");
    int error = engine_first_diff(a.source, a.trace, b.source, b.trace, &engine, &answer);

    progress_end();
    if (error)
        return ctl_fail_error(error, mem_printf("cannot compare %s with %s", a.as, b.as), NULL);
    struct answer_runs runs = {.a = a.trace,
                               .b = b.trace,
                               .a_as = a.as,
                               .b_as = b.as,
                               .a_said = text_escape(argv[0]),
                               .b_said = text_escape(argv[1]),
                               .repeats = repeats[0].names,
                               .n_repeats = repeats[0].count,
                               .repeats_b = repeats[1].names,
                               .n_repeats_b = repeats[1].count,
                               .tolerance = engine.tolerance};

    counters_find(&a, &b, answer, &runs);
    print_answer(answer, &runs);
    status = ctl_finish(exit_status(answer->result));
    if (answer->result == ENGINE_DIFFER)
        note_difference(&a, &b, answer);
    engine_answer_free(answer);
    return status;
}

static const struct cmd_option rows[] = {
    {.name = "all",
     .type = CMD_FLAG,
     .value = &options.all,
     .help = "go on past the first difference: independent origins, what follows, every note"},
    {.name = "rank",
     .type = CMD_U64,
     .value = &options.rank,
     .given = &options.has_rank,
     .argument = "N",
     .help = "compare this rank alone"},
    {.name = "steps",
     .type = CMD_STRING,
     .value = &options.steps,
     .argument = "FROM:TO",
     .help = "compare these steps alone, both ends included, such as 100:103, 100: or :103"},
    {.name = "offset",
     .type = CMD_I64,
     .value = &options.offset,
     .given = &options.has_offset,
     .argument = "K",
     .help = "B's boundary 0 is A's boundary K; found by itself when B resumed from a checkpoint "
             "of A"},
    {.name = "tolerance",
     .type = CMD_STRING,
     .value = &options.tolerance,
     .argument = "REL",
     .help = "differences up to this, relative to a tensor's norm, are no difference; exit 0 when "
             "there are no others"},
    {.name = "noise",
     .type = CMD_STRING,
     .value = &options.noise,
     .argument = "RUN,…",
     .words = CMD_WORDS_RUN_OR_FILE,
     .help = "differences like those between A and these repeats of it are no difference; exit 0 "
             "when there are no others. @repeats: those in the store with equal causes and a name "
             "of the same family, by which noise is judged without this option too"},
    {.name = "map",
     .type = CMD_STRING,
     .value = &options.map,
     .argument = "FILE",
     .words = CMD_WORDS_FILE,
     .help = "rename in B before comparing: lines of \"FROM TO\", prefixes of scopes and names; # "
             "begins a comment"},
    {.name = "strict-structure",
     .type = CMD_FLAG,
     .value = &options.strict_structure,
     .help = "extra, missing and moved records are differences, not notes"},
};

static const char *const description[] = {
    "Compares two runs, exactly, and tells the first place where they part: the step, the op or "
    "state, the values on both sides, whether its inputs still agreed, and a verdict with its "
    "evidence. A and B are runs, or recordings (files made by export, or by a job with "
    "DIVERGE_RECORDING).",
    "Exits 0 when the runs are the same, 1 when they differ, 2 when it cannot tell because "
    "something is missing: records dropped, a run that was killed, ranks or steps that only one "
    "side has. Generators' states and counters are evidence: runs that differ there alone are the "
    "same.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl first-diff base tuned", "where the runs base and tuned part"},
    {"divergectl first-diff @prev @last --json", "the two newest runs, as JSON"},
    {"divergectl first-diff base tpu --tolerance 1e-3", "where they part by more than that"},
    {"divergectl first-diff base tuned --noise base.2,base.3",
     "where they part by more than noise"},
    {"divergectl first-diff base ./theirs.dvg", "a run of ours against a recording"},
    {NULL, NULL},
};

const struct cmd cmd_first_diff = {
    .name = "first-diff",
    .group = CMD_GROUP_COMPARE,
    .summary = "Tell where two runs part first, and why",
    .synopsis = "A B",
    .description = description,
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .words = CMD_WORDS_RUN_OR_FILE,
    .min_arguments = 2,
    .max_arguments = 2,
    .json = true,
    .examples = examples,
    .run = run,
};
