/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"
#include "client/ctl/table.h"
#include "client/ctl/text.h"

static struct {
    bool names;
    uint64_t limit;
} options;

static void print_json(const struct reader_run *runs, size_t count, size_t total)
{
    struct emit emit;

    emit_begin(&emit, "runs");
    emit_u64(&emit, "total", total);
    emit_array(&emit, "runs");
    for (size_t i = 0; i < count; i++) {
        const struct reader_run *run = &runs[i];

        emit_object(&emit, NULL);
        emit_string(&emit, "run", text_id(run->run_id));
        emit_string(&emit, "name", run->name);
        emit_string(&emit, "status", run->status);
        emit_i64(&emit, "started_unix_us", run->started_unix_us);
        if (run->ended_unix_us)
            emit_i64(&emit, "ended_unix_us", run->ended_unix_us);
        else
            emit_null(&emit, "ended_unix_us");
        emit_u64(&emit, "world", run->world);
        emit_u64(&emit, "ranks", run->ranks);
        if (run->last_boundary == UINT64_MAX)
            emit_null(&emit, "last_boundary");
        else
            emit_u64(&emit, "last_boundary", run->last_boundary);
        emit_u64(&emit, "records", run->records);
        emit_u64(&emit, "dropped", run->dropped);
        emit_bool(&emit, "pinned", run->pinned);
        emit_object_end(&emit);
    }
    emit_array_end(&emit);
    emit_print(&emit);
}

static const char *span_of(const struct reader_run *run)
{
    if (!run->ended_unix_us || run->ended_unix_us < run->started_unix_us)
        return "";
    return text_duration((uint64_t)(run->ended_unix_us - run->started_unix_us) / 1000);
}

static bool any_pinned(const struct reader_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (runs[i].pinned)
            return true;
    return false;
}

static void print_table(const struct reader_run *runs, size_t count)
{
    struct table table;
    bool pins = any_pinned(runs, count);

    table_begin(&table);
    table_column(&table, "NAME", TABLE_LEFT);
    table_column(&table, "ID", TABLE_LEFT);
    table_column(&table, "STATUS", TABLE_LEFT);
    table_column(&table, "STARTED", TABLE_LEFT);
    table_column(&table, "TOOK", TABLE_RIGHT);
    table_column(&table, "RANKS", TABLE_RIGHT);
    table_column(&table, "STEPS", TABLE_RIGHT);
    table_column(&table, "RECORDS", TABLE_RIGHT);
    table_column(&table, "DROPPED", TABLE_RIGHT);
    if (pins)
        table_column(&table, "KEPT", TABLE_LEFT);
    for (size_t i = 0; i < count; i++) {
        const struct reader_run *run = &runs[i];

        table_row(&table);
        table_cell(&table, text_escape(run->name));
        table_cell(&table, mem_printf("%.8s", text_id(run->run_id)));
        table_cell(&table, run->status);
        table_cell(&table, text_time(run->started_unix_us));
        table_cell(&table, span_of(run));
        table_cell(&table, run->ranks == run->world
                               ? text_count(run->ranks)
                               : mem_printf("%u of %u", run->ranks, run->world));
        table_cell(&table, run->last_boundary == UINT64_MAX ? "-" : text_count(run->last_boundary));
        table_cell(&table, text_count(run->records));
        table_cell(&table, text_count(run->dropped));
        if (pins)
            table_cell(&table, run->pinned ? "pinned" : "");
    }
    table_print(&table);
}

static int run(int argc, const char *const *argv)
{
    struct reader *reader = NULL;
    struct reader_run *runs = NULL;
    size_t total = 0;
    int status = source_reader(&reader);

    (void)argc;
    (void)argv;
    if (status)
        return options.names ? EX_OK : status;
    status = reader_runs(reader, &runs, &total);
    if (status)
        return ctl_fail_error(status, "cannot list the runs", reader_error_text(reader));
    size_t count = options.limit && options.limit < total ? (size_t)options.limit : total;

    if (ctl.json) {
        print_json(runs, count, total);
    } else if (options.names) {
        for (size_t i = 0; i < count; i++)
            puts(text_escape(runs[i].name));
    } else if (!total) {
        ctl_note("no runs yet: divergectl run -- CMD records one");
    } else {
        print_table(runs, count);
        if (count < total)
            ctl_note("%s not shown", text_things(total - count, "older run"));
    }
    free(runs);
    return EX_OK;
}

static const struct cmd_option rows[] = {
    {.name = "limit",
     .letter = 'n',
     .type = CMD_U64,
     .value = &options.limit,
     .argument = "N",
     .help = "the newest N runs only (default: all)"},
    {.name = "names",
     .type = CMD_FLAG,
     .value = &options.names,
     .help = "names alone, one a line; nothing when there is no store"},
};

static const struct cmd_example examples[] = {
    {"divergectl runs -n 10", "the ten newest runs"},
    {NULL, NULL},
};

const struct cmd cmd_runs = {
    .name = "runs",
    .group = CMD_GROUP_LOOK,
    .summary = "List the recorded runs, newest first",
    .synopsis = "",
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .json = true,
    .examples = examples,
    .run = run,
};
