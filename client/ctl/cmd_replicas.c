/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/answer.h"
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"
#include "daemon/engine/replicas.h"

enum { LABEL = 11, RANKS_SHOWN = 16 };

/* ---- where a rank runs ----------------------------------------------------------------------- */

/* A rank's own value of a key is kept as key@rank where it is not that of the lowest rank. */
static const char *of_rank(const struct trace_run *run, const char *key, uint32_t rank)
{
    const char *own = mem_printf("%s@%u", key, rank);
    const char *value = NULL;

    for (uint32_t i = 0; i < run->n_metadata; i++) {
        if (!strcmp(run->metadata[i].key, own))
            return run->metadata[i].value;
        if (!strcmp(run->metadata[i].key, key))
            value = run->metadata[i].value;
    }
    return value;
}

static const char *host_of(const struct trace_run *run, uint32_t rank)
{
    const char *host = of_rank(run, "host", rank);

    return host ? host : of_rank(run, "hostname", rank);
}

static const char *device_of(const struct trace_run *run, uint32_t rank)
{
    static const char *const keys[] = {"device", "device.name", "gpu.name", "gpu.0"};
    const char *device = NULL;

    for (size_t i = 0; i < CMD_COUNT(keys) && !device; i++)
        device = of_rank(run, keys[i], rank);
    return device;
}

/* "37 (host a, device cuda:0)" */
static const char *rank_text(const struct trace_run *run, uint32_t rank)
{
    const char *host = host_of(run, rank);
    const char *device = device_of(run, rank);
    const char *text = host ? mem_printf("host %s", text_escape(host)) : "";

    if (device)
        text = mem_printf("%s%sdevice %s", text, *text ? ", " : "", text_escape(device));
    return *text ? mem_printf("%u (%s)", rank, text) : mem_printf("%u", rank);
}

/* ---- for people ------------------------------------------------------------------------------ */

static void line(const char *label, const char *text)
{
    text_wrap(stdout, mem_printf("  %-*s", LABEL - 2, label), LABEL, text, text_width());
}

static void sentence(const char *text)
{
    text_wrap(stdout, "", 2, text, text_width());
}

static const char *ranks_text(const struct trace_run *run, const struct replicas_class *class)
{
    const char *text = class->n_ranks == 1 ? "rank " : "ranks ";

    for (uint32_t i = 0; i < class->n_ranks; i++) {
        if (i == RANKS_SHOWN)
            return mem_printf("%s and %s more", text, text_count(class->n_ranks - i));
        text = mem_printf("%s%s%s", text, i ? ", " : "", rank_text(run, class->ranks[i]));
    }
    return text;
}

/* "63 ranks agree; rank 37 (host a) differs" */
static void print_classes(const struct trace_run *run, const struct replicas *replicas)
{
    const char *text = "";

    if (replicas->n_classes < 2)
        return;
    if (replicas->n_classes == 2 && replicas->classes[0].n_ranks == 1) {
        sentence(mem_printf("%s and %s differ.", ranks_text(run, &replicas->classes[0]),
                            ranks_text(run, &replicas->classes[1])));
        return;
    }
    for (size_t i = 1; i < replicas->n_classes; i++)
        text = mem_printf("%s; %s %s", text, ranks_text(run, &replicas->classes[i]),
                          replicas->classes[i].n_ranks == 1 ? "differs" : "agree on another value");
    sentence(
        mem_printf("%s%s.",
                   replicas->classes[0].n_ranks == 1
                       ? "no two ranks agree"
                       : mem_printf("%s agree", text_things(replicas->classes[0].n_ranks, "rank")),
                   text));
}

static void print_finding(const struct replicas *replicas)
{
    const struct engine_finding *first = replicas->first;
    const char *far =
        isfinite(first->rel_l2) ? mem_printf("   rel. L2 about %.2g", first->rel_l2) : "";

    text_wrap(stdout,
              mem_printf("%sFirst difference%s: ", text_style(TEXT_BOLD), text_style(TEXT_PLAIN)),
              2, answer_brief(first, 1), text_width());
    if (*first->site->scope)
        line("scope", text_escape(first->site->scope));
    line(mem_printf("rank %u", replicas->rank_a),
         mem_printf("%s %s", answer_type(&first->a), answer_value(&first->a)));
    line(mem_printf("rank %u", first->rank),
         mem_printf("%s %s%s", answer_type(&first->b), answer_value(&first->b), far));
}

static void print_verdict(const struct engine_verdict *verdict)
{
    sentence(mem_printf("%sVerdict: %s%s%s%s (%s). %s", text_style(TEXT_BOLD), verdict->class_name,
                        verdict->detail ? ", " : "", verdict->detail ? verdict->detail : "",
                        text_style(TEXT_PLAIN), engine_confidence_name(verdict->confidence),
                        verdict->text));
    for (size_t i = 0; i < verdict->n_evidence; i++)
        line("Evidence", text_escape(verdict->evidence[i]));
    for (size_t i = 0; i < verdict->n_next; i++)
        line("Next", text_escape(verdict->next[i]));
}

static void print_list(const char *title, const char *const *texts, size_t count)
{
    if (count)
        printf("%s\n", title);
    for (size_t i = 0; i < count; i++)
        text_wrap(stdout, "  - ", 4, text_escape(texts[i]), text_width());
}

static const char *amount(const struct replicas *replicas)
{
    const char *text = mem_printf("%s, %s", text_things(replicas->ranks, "rank"),
                                  text_things(replicas->records, "record"));

    if (replicas->shards)
        text = mem_printf("%s; %s not comparable", text, text_things(replicas->shards, "shard"));
    if (replicas->partials)
        text = mem_printf("%s; %s not comparable", text,
                          text_things(replicas->partials, "partial value"));
    return text;
}

static void print_text(const struct trace_run *run, const struct replicas *replicas)
{
    const char *through =
        replicas->has_agree
            ? mem_printf("through boundary %llu ", (unsigned long long)replicas->agree_boundary)
            : "";

    switch (replicas->result) {
    case ENGINE_SAME:
    case ENGINE_WITHIN_NOISE:
        text_wrap(stdout, mem_printf("%sSame%s: ", text_style(TEXT_GOOD), text_style(TEXT_PLAIN)),
                  2, mem_printf("all copies agree %s(%s).", through, amount(replicas)),
                  text_width());
        break;
    case ENGINE_DIFFER:
        if (replicas->has_agree)
            sentence(mem_printf("All copies agree %s(%s).", through, amount(replicas)));
        print_finding(replicas);
        print_classes(run, replicas);
        print_verdict(&replicas->verdict);
        break;
    case ENGINE_UNVERIFIED:
        sentence(
            mem_printf("%sCannot tell%s whether all copies agree: what was compared does %s(%s), "
                       "but not all of it was there.",
                       text_style(TEXT_BAD), text_style(TEXT_PLAIN), through, amount(replicas)));
        break;
    }
    print_list(replicas->result == ENGINE_DIFFER ? "But:" : "Because:", replicas->reasons,
               replicas->n_reasons);
    print_list("Notes", replicas->notes, replicas->n_notes);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void emit_ranks(struct emit *emit, const char *key, const uint32_t *ranks, uint32_t n)
{
    emit_array(emit, key);
    for (uint32_t i = 0; i < n; i++)
        emit_u64(emit, NULL, ranks[i]);
    emit_array_end(emit);
}

static void emit_texts(struct emit *emit, const char *key, const char *const *texts, size_t n)
{
    emit_array(emit, key);
    for (size_t i = 0; i < n; i++)
        emit_string(emit, NULL, texts[i]);
    emit_array_end(emit);
}

static void emit_compared(struct emit *emit, const struct replicas *replicas)
{
    emit_object(emit, "compared");
    emit_u64(emit, "ranks", replicas->ranks);
    emit_u64(emit, "boundaries", replicas->boundaries);
    emit_u64(emit, "records", replicas->records);
    emit_u64(emit, "shards", replicas->shards);
    emit_u64(emit, "partials", replicas->partials);
    emit_object_end(emit);
    emit_object(emit, "agree_through");
    if (replicas->has_agree)
        emit_u64(emit, "boundary", replicas->agree_boundary);
    else
        emit_null(emit, "boundary");
    emit_object_end(emit);
}

static void emit_classes(struct emit *emit, const struct trace_run *run,
                         const struct replicas *replicas)
{
    emit_array(emit, "classes");
    for (size_t i = 0; i < replicas->n_classes; i++)
        emit_ranks(emit, NULL, replicas->classes[i].ranks, replicas->classes[i].n_ranks);
    emit_array_end(emit);
    emit_array(emit, "odd");
    for (size_t i = 1; i < replicas->n_classes; i++)
        for (uint32_t j = 0; j < replicas->classes[i].n_ranks; j++) {
            uint32_t rank = replicas->classes[i].ranks[j];

            emit_object(emit, NULL);
            emit_u64(emit, "rank", rank);
            emit_string(emit, "host", host_of(run, rank));
            emit_string(emit, "device", device_of(run, rank));
            emit_object_end(emit);
        }
    emit_array_end(emit);
}

static void emit_groups(struct emit *emit, const struct replicas *replicas)
{
    emit_array(emit, "groups");
    for (size_t i = 0; i < replicas->n_groups; i++) {
        emit_object(emit, NULL);
        emit_string(emit, "name", replicas->groups[i].name);
        emit_ranks(emit, "ranks", replicas->groups[i].ranks, replicas->groups[i].n_ranks);
        emit_object_end(emit);
    }
    emit_array_end(emit);
}

static void print_json(const struct trace_run *run, const struct replicas *replicas)
{
    struct emit emit;

    emit_begin(&emit, "replicas");
    emit_string(&emit, "result", engine_result_name(replicas->result));
    answer_emit_run(&emit, "run", run);
    emit_groups(&emit, replicas);
    emit_compared(&emit, replicas);
    answer_emit_finding(&emit, "first", replicas->first);
    emit_array(&emit, "ranks"); /* A and B of `first` */
    if (replicas->first) {
        emit_u64(&emit, NULL, replicas->rank_a);
        emit_u64(&emit, NULL, replicas->first->rank);
    }
    emit_array_end(&emit);
    emit_classes(&emit, run, replicas);
    answer_emit_verdict(&emit, &replicas->verdict);
    emit_texts(&emit, "notes", replicas->notes, replicas->n_notes);
    emit_texts(&emit, "reasons", replicas->reasons, replicas->n_reasons);
    emit_print(&emit);
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    progress_update(done, total);
    return true;
}

static int run(int argc, const char *const *argv)
{
    struct replicas *replicas = NULL;
    struct source_run a;
    int status = source_open(argv[0], &a);

    (void)argc;
    if (status)
        return status;
    progress_begin("comparing ranks");
    int error = replicas_check(a.source, a.trace, show_progress, NULL, &replicas);

    progress_end();
    if (error)
        return ctl_fail_error(error, mem_printf("cannot compare the ranks of %s", a.as), NULL);
    if (ctl.json)
        print_json(a.trace, replicas);
    else
        print_text(a.trace, replicas);
    status = ctl_finish(replicas->result == ENGINE_DIFFER       ? CTL_DIFFER
                        : replicas->result == ENGINE_UNVERIFIED ? CTL_CANNOT_TELL
                                                                : CTL_SAME);
    replicas_free(replicas);
    return status;
}

static const char *const description[] = {
    "Compares the ranks of one run with each other. What several ranks hold a copy of, declared "
    "whole or a replica in a group of that name, must be equal at every boundary: parameters, "
    "buffers and the optimizer's state. Shards and partial values are not comparable and are "
    "counted. BatchNorm statistics that differ are a note. Data that ranks share out must differ, "
    "and generators in one state on several ranks are a note.",
    "Tells the boundary and name where ranks differ first, which ranks agree there, and where the "
    "odd ones ran. Exits 0 when all copies agree, 1 when some differ, 2 when it cannot tell.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl replicas @last", "do the ranks of the newest run agree?"},
    {NULL, NULL},
};

const struct cmd cmd_replicas = {
    .name = "replicas",
    .group = CMD_GROUP_COMPARE,
    .summary = "Compare the ranks of one run with each other",
    .synopsis = "RUN",
    .description = description,
    .words = CMD_WORDS_RUN_OR_FILE,
    .min_arguments = 1,
    .max_arguments = 1,
    .json = true,
    .examples = examples,
    .run = run,
};
