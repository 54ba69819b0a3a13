/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/answer.h"
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/records.h"
#include "client/ctl/source.h"
#include "client/ctl/table.h"
#include "client/ctl/text.h"

static const char *const tier_choices[] = {"pulse", "step", "layer", "op", "evidence", NULL};

static struct {
    const char *tier;
    uint64_t limit;
} options = {.limit = 1000};

/* ---- a run ---------------------------------------------------------------------------------- */

static const char *state_of(const struct trace_stream *stream)
{
    if (!stream->ended)
        return "no end";
    return stream->outcome == DIVERGE_OUTCOME_COMPLETE ? "complete" : "failed";
}

static uint64_t stream_records(const struct trace_stream *stream)
{
    uint64_t records = 0;

    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        records += stream->tiers[tier].records;
    return records;
}

static uint64_t stream_dropped(const struct trace_stream *stream)
{
    uint64_t dropped = stream->dropped;

    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        dropped += stream->tiers[tier].dropped;
    return dropped;
}

static const char *track_text(const struct trace_track *track)
{
    if (!track->present)
        return "-";
    return mem_printf("%s%s", text_count(track->records), track->has_gap ? " (gap)" : "");
}

static void print_streams(const struct trace_run *run)
{
    struct table table;

    table_begin(&table);
    table_column(&table, "RANK", TABLE_RIGHT);
    table_column(&table, "LEVEL", TABLE_LEFT);
    table_column(&table, "STATE", TABLE_LEFT);
    for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        table_column(&table, text_tier(tier), TABLE_RIGHT);
    table_column(&table, "DROPPED", TABLE_RIGHT);
    table_column(&table, "FIRST", TABLE_LEFT);
    table_column(&table, "LAST", TABLE_LEFT);
    for (uint32_t i = 0; i < run->n_streams; i++) {
        const struct trace_stream *stream = &run->streams[i];
        const struct trace_track *pulse = records_longest_track(stream);

        table_row(&table);
        table_cell(&table, text_count(stream->rank));
        table_cell(&table, text_tier(stream->level));
        table_cell(&table, state_of(stream));
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            table_cell(&table, track_text(&stream->tiers[tier]));
        table_cell(&table, text_count(stream_dropped(stream)));
        table_cell(&table, pulse ? text_segment(pulse->first) : "-");
        table_cell(&table, pulse ? text_segment(pulse->last) : "-");
    }
    table_print(&table);
}

static void print_shared_ranks(const struct trace_run *run)
{
    for (uint32_t i = 0; i < run->n_streams; i++)
        if (run->streams[i].at_once > 1)
            text_wrap(stdout, "", 2,
                      mem_printf("rank %u was recorded by %u processes at once; the newest "
                                 "complete one is shown: set RANK",
                                 run->streams[i].rank, run->streams[i].at_once),
                      text_width());
}

static void print_run_text(const struct source_run *run)
{
    const struct reader_run *info = &run->info;
    int width = text_width();

    text_wrap(stdout,
              mem_printf("%s%s%s  ", text_style(TEXT_BOLD), run->as, text_style(TEXT_PLAIN)), 2,
              mem_printf("%s, %s%s%s, %u of %s, %s%s%s", text_id(info->run_id), info->status,
                         info->started_unix_us ? ", started " : "",
                         text_time(info->started_unix_us), info->ranks,
                         text_things(info->world, "rank"), text_things(info->records, "record"),
                         info->dropped ? mem_printf(", %s dropped", text_count(info->dropped)) : "",
                         info->pinned ? ", pinned" : ""),
              width);
    putchar('\n');
    print_streams(run->trace);
    print_shared_ranks(run->trace);
    if (run->trace->n_metadata)
        putchar('\n');
    for (uint32_t i = 0; i < run->trace->n_metadata; i++) {
        const struct trace_metadata *entry = &run->trace->metadata[i];

        text_wrap(stdout, mem_printf("%-8s %s = ", entry->class_name, text_escape(entry->key)), 11,
                  text_escape(entry->value), width);
    }
}

static void emit_track(struct emit *emit, unsigned tier, const struct trace_track *track)
{
    if (!track->present) {
        emit_null(emit, text_tier(tier));
        return;
    }
    emit_object(emit, text_tier(tier));
    emit_u64(emit, "first_segment", track->first);
    emit_u64(emit, "last_segment", track->last);
    emit_u64(emit, "segments", track->segments);
    emit_u64(emit, "records", track->records);
    emit_u64(emit, "dropped", track->dropped);
    if (track->has_gap)
        emit_u64(emit, "first_gap", track->first_gap);
    else
        emit_null(emit, "first_gap");
    emit_object_end(emit);
}

static void emit_stream(struct emit *emit, const struct trace_stream *stream)
{
    emit_object(emit, NULL);
    emit_u64(emit, "rank", stream->rank);
    emit_u64(emit, "processes_at_once", stream->at_once > 1 ? stream->at_once : 1);
    emit_string(emit, "level", text_tier(stream->level));
    emit_bool(emit, "ended", stream->ended);
    emit_string(emit, "outcome", stream->ended ? state_of(stream) : NULL);
    emit_u64(emit, "records", stream_records(stream));
    emit_u64(emit, "dropped", stream_dropped(stream));
    emit_string(emit, "spec", stream->spec);
    emit_string(emit, "fingerprint_id", stream->fingerprint_id);
    emit_object(emit, "tiers");
    for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        emit_track(emit, tier, &stream->tiers[tier]);
    emit_object_end(emit);
    emit_object_end(emit);
}

static void print_run_json(const struct source_run *run)
{
    const struct reader_run *info = &run->info;
    struct emit emit;

    emit_begin(&emit, "show");
    emit_string(&emit, "run", text_id(info->run_id));
    emit_string(&emit, "name", info->name);
    emit_string(&emit, "status", info->status);
    emit_i64(&emit, "started_unix_us", info->started_unix_us);
    if (info->ended_unix_us)
        emit_i64(&emit, "ended_unix_us", info->ended_unix_us);
    else
        emit_null(&emit, "ended_unix_us");
    emit_u64(&emit, "world", info->world);
    emit_bool(&emit, "pinned", info->pinned);
    emit_array(&emit, "streams");
    for (uint32_t i = 0; i < run->trace->n_streams; i++)
        emit_stream(&emit, &run->trace->streams[i]);
    emit_array_end(&emit);
    emit_array(&emit, "metadata");
    for (uint32_t i = 0; i < run->trace->n_metadata; i++) {
        emit_object(&emit, NULL);
        emit_string(&emit, "key", run->trace->metadata[i].key);
        emit_string(&emit, "class", run->trace->metadata[i].class_name);
        emit_string(&emit, "value", run->trace->metadata[i].value);
        emit_object_end(&emit);
    }
    emit_array_end(&emit);
    emit_print(&emit);
}

/* ---- a segment ------------------------------------------------------------------------------ */

static const char *where_text(const struct trace_site *site)
{
    const char *text = text_escape(site->scope);

    if (*site->op)
        text = mem_printf("%s%s%s", text, *text ? " " : "", text_escape(site->op));
    return site->occurrence ? mem_printf("%s #%u", text, site->occurrence + 1) : text;
}

static const char *which_text(const struct trace_site *site)
{
    const char *text = text_role(site->role);

    if (site->slot || site->role == DIVERGE_ROLE_INPUT || site->role == DIVERGE_ROLE_OUTPUT)
        text = mem_printf("%s %u", text, site->slot);
    return *site->name ? mem_printf("%s %s", text, text_escape(site->name)) : text;
}

static const char *range_text(const struct engine_side *side)
{
    bool integer = text_dtype_is_integer(side->dtype);

    if (side->kind != DIVERGE_KIND_TENSOR || !(side->state & DVG_STATE_RANGE))
        return "";
    double low = text_value(side->dtype, side->min);
    double high = text_value(side->dtype, side->max);

    return integer ? mem_printf("%.0f … %.0f", low, high) : mem_printf("%.4g … %.4g", low, high);
}

static const char *source_text(const struct engine_side *side)
{
    return side->source ? text_escape(side->source) : "";
}

/* A narrow terminal has room for what a record is and its value, not for all there is of it. */
enum {
    WIDE = 120,
    NARROW = 72,
};

static void begin_records_table(struct table *table, bool ranks, bool wide, bool narrow)
{
    table_begin(table);
    if (ranks)
        table_column(table, "RANK", TABLE_RIGHT);
    table_column(table, "SEQ", TABLE_RIGHT);
    if (!narrow) {
        table_column(table, "TIER", TABLE_LEFT);
        table_column(table, "PHASE", TABLE_LEFT);
    }
    table_column(table, "WHERE", TABLE_SHRINKS);
    table_column(table, "WHAT", TABLE_SHRINKS);
    table_column(table, "TYPE", TABLE_LEFT);
    table_column(table, "VALUE", TABLE_RIGHT);
    if (wide) {
        table_column(table, "RANGE", TABLE_LEFT);
        table_column(table, "SOURCE", TABLE_SHRINKS);
    }
}

static void print_records_table(const struct record_list *list, size_t count, bool ranks)
{
    int width = text_width();
    bool wide = !width || width >= WIDE;
    bool narrow = width && width < NARROW;
    struct table table;

    begin_records_table(&table, ranks, wide, narrow);
    for (size_t i = 0; i < count; i++) {
        const struct record *record = &list->records[i];

        table_row(&table);
        if (ranks)
            table_cell(&table, text_count(record->rank));
        table_cell(&table, mem_printf("%u", record->order));
        if (!narrow) {
            table_cell(&table, text_tier(record->site->tier));
            table_cell(&table, text_phase(record->site->phase));
        }
        table_cell(&table, where_text(record->site));
        table_cell(&table, which_text(record->site));
        table_cell(&table, answer_type(&record->side));
        table_cell(&table, answer_value(&record->side));
        if (wide) {
            table_cell(&table, range_text(&record->side));
            table_cell(&table, source_text(&record->side));
        }
    }
    table_print(&table);
}

static void emit_record(struct emit *emit, const struct record *record)
{
    emit_object(emit, NULL);
    emit_u64(emit, "rank", record->rank);
    emit_string(emit, "tier", text_tier(record->site->tier));
    emit_u64(emit, "seq", record->order);
    answer_emit_site(emit, record->site);
    answer_emit_side(emit, &record->side);
    emit_object_end(emit);
}

static void print_records_json(const struct source_run *run, uint64_t segment,
                               const struct record_list *list, size_t count)
{
    struct emit emit;

    emit_begin(&emit, "show");
    emit_string(&emit, "run", text_id(run->info.run_id));
    emit_string(&emit, "name", run->info.name);
    emit_string(&emit, "segment", text_segment(segment));
    emit_u64(&emit, "index", segment);
    emit_u64(&emit, "total", list->count);
    emit_u64(&emit, "pruned", list->pruned);
    emit_array(&emit, "records");
    for (size_t i = 0; i < count; i++)
        emit_record(&emit, &list->records[i]);
    emit_array_end(&emit);
    emit_print(&emit);
}

static int show_segment(const struct source_run *run, const struct records_where *where)
{
    struct record_list list;
    int status = records_load(run, where, &list);

    if (status)
        return status;
    size_t count = options.limit && options.limit < list.count ? (size_t)options.limit : list.count;

    if (ctl.json)
        print_records_json(run, where->segment, &list, count);
    else
        print_records_table(&list, count, where->rank < 0 && run->trace->n_streams > 1);
    if (list.pruned)
        ctl_note("%s thinned by retention: only their digests are left",
                 text_things(list.pruned, "record"));
    if (count < list.count)
        ctl_note("%s not shown (--limit 0 shows all)", text_things(list.count - count, "record"));
    records_free(&list);
    return EX_OK;
}

/* ---- RUN[@STEP[.RANK]] ---------------------------------------------------------------------- */

static int run(int argc, const char *const *argv)
{
    struct source_run found;
    struct records_where where;
    const char *who = NULL;
    int status = records_parse(argv[0], &who, &where);

    (void)argc;
    if (!status)
        status = source_open(who, &found);
    if (status)
        return status;
    where.tier = -1;
    for (int tier = 0; options.tier && tier < DIVERGE_TIER_COUNT; tier++)
        if (!strcmp(text_tier((unsigned)tier), options.tier))
            where.tier = tier;
    if (where.whole && options.tier)
        return ctl_fail(EX_USAGE, "--tier goes with a segment, such as %s@0", text_escape(argv[0]));
    if (!where.whole)
        return show_segment(&found, &where);
    if (ctl.json)
        print_run_json(&found);
    else
        print_run_text(&found);
    return EX_OK;
}

static const struct cmd_option rows[] = {
    {.name = "tier",
     .type = CMD_CHOICE,
     .value = &options.tier,
     .argument = "TIER",
     .choices = tier_choices,
     .help = "of a segment, the records of this tier alone: pulse, step, layer, op or evidence"},
    {.name = "limit",
     .letter = 'n',
     .type = CMD_U64,
     .value = &options.limit,
     .argument = "N",
     .help = "at most N records (default 1000; 0: all)"},
};

static const char *const description[] = {
    "RUN shows a run: its streams, how much each tier holds, and its metadata by class. RUN@12 "
    "shows the records of step 12, RUN@b12 those of boundary 12 (the state after 12 steps), "
    "RUN@init those of the initialisation; a rank can follow, as in RUN@12.3.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl show @last", "the newest run"},
    {"divergectl show base@137 --tier op", "every op of step 137"},
    {"divergectl show base@b0.1", "the state rank 1 began with"},
    {NULL, NULL},
};

const struct cmd cmd_show = {
    .name = "show",
    .group = CMD_GROUP_LOOK,
    .summary = "Show a run, or the records of one of its steps",
    .synopsis = "RUN[@STEP[.RANK]]",
    .description = description,
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .words = CMD_WORDS_RUN,
    .min_arguments = 1,
    .max_arguments = 1,
    .json = true,
    .examples = examples,
    .run = run,
};
