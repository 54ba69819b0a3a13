/* SPDX-License-Identifier: Apache-2.0 */
/* Runs, streams and segments: names, status, take-over, gaps, lanes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/store/internal.h"
#include "tests/unit/daemon/store/store_fixture.h"

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    fixture_init(&fixture);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    return 0;
}

static struct reader_run find_run(const char *name)
{
    struct reader *reader = fixture_reader(&fixture);
    struct reader_run run = {0};
    struct store_error error;
    if (reader_find(reader, name, &run, &error))
        fail_msg("%s", error.text);
    reader_close(reader);
    return run;
}

static struct trace_head head_of(struct reader *reader, uint64_t stream, uint64_t segment)
{
    const struct trace_source *source = reader_source(reader);
    struct trace_head head = {0};
    assert_int_equal(source->head_at(source->ctx, stream, DIVERGE_TIER_OP, segment, &head), 0);
    return head;
}

static uint64_t only_stream(struct reader *reader, const char *name)
{
    struct reader_run run;
    struct store_error error;
    const struct trace_run *trace = NULL;
    assert_int_equal(reader_find(reader, name, &run, &error), 0);
    assert_int_equal(reader_load(reader, run.id, &trace), 0);
    assert_int_equal(trace->n_streams, 1);
    return trace->streams[0].id;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void names_are_cleaned_and_made_unique(void **state)
{
    (void)state;
    struct store_run run;
    uint8_t id[16] = {1};
    assert_int_equal(store_run_open(fixture.store, id, "..a b/c\x01\xc3\xa4", 1, &run), 0);
    assert_string_equal(run.name, "a-b-c---");
    assert_true(run.created);
    id[0] = 2;
    assert_int_equal(store_run_open(fixture.store, id, "a-b-c---", 1, &run), 0);
    assert_string_equal(run.name, "a-b-c---.2");
    assert_int_equal(store_commit(fixture.store), 0);
    id[0] = 3;
    assert_int_equal(store_run_open(fixture.store, id, "a-b-c---", 1, &run), 0);
    assert_string_equal(run.name, "a-b-c---.3");
    id[0] = 4;
    assert_int_equal(store_run_open(fixture.store, id, "", 1, &run), 0);
    assert_string_equal(run.name, "run");
    char huge[5000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    for (uint8_t i = 5; i < 8; i++) {
        id[0] = i;
        assert_int_equal(store_run_open(fixture.store, id, huge, 1, &run), 0);
        assert_int_equal(strlen(run.name), 127);
    }
    assert_string_equal(run.name + 125, ".3");
}

static void a_run_id_is_opened_once(void **state)
{
    (void)state;
    struct store_run first;
    struct store_run again;
    const uint8_t id[16] = {9};
    assert_int_equal(store_run_open(fixture.store, id, "r", 2, &first), 0);
    assert_int_equal(store_run_open(fixture.store, id, "other", 2, &again), 0);
    assert_int_equal(first.id, again.id);
    assert_string_equal(again.name, "r");
    assert_false(again.created);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(store_run_open(fixture.store, id, "other", 4, &again), 0);
    assert_int_equal(first.id, again.id);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(find_run("r").world, 4);
}

static void a_run_is_complete_when_every_declared_rank_said_bye(void **state)
{
    (void)state;
    struct recording ranks[2];
    for (uint8_t rank = 0; rank < 2; rank++)
        recording_begin(
            &ranks[rank], fixture.store,
            &(struct recording_options){
                .name = "r", .records = 5, .rank = rank, .world = 2, .stream_number = rank},
            NULL);
    assert_int_equal(store_stream_end(ranks[0].stream, DIVERGE_OUTCOME_COMPLETE, 0), 0);
    store_stream_close(ranks[0].stream);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_string_equal(find_run("r").status, "recording");
    assert_int_equal(store_stream_end(ranks[1].stream, DIVERGE_OUTCOME_COMPLETE, 0), 0);
    assert_int_equal(store_stream_end(ranks[1].stream, DIVERGE_OUTCOME_COMPLETE, 0),
                     DIVERGE_ESTATE);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reader_run run = find_run("r");
    assert_string_equal(run.status, "complete");
    assert_true(run.ended_unix_us >= run.started_unix_us);
    assert_int_equal(run.ranks, 2);
}

static void one_failed_rank_fails_the_run(void **state)
{
    (void)state;
    struct recording ranks[2];
    for (uint8_t rank = 0; rank < 2; rank++)
        recording_begin(
            &ranks[rank], fixture.store,
            &(struct recording_options){
                .name = "r", .records = 5, .rank = rank, .world = 2, .stream_number = rank},
            NULL);
    assert_int_equal(store_stream_end(ranks[0].stream, DIVERGE_OUTCOME_FAILED, 3), 0);
    assert_int_equal(store_stream_end(ranks[1].stream, DIVERGE_OUTCOME_COMPLETE, 0), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_string_equal(find_run("r").status, "failed");
    assert_int_equal(find_run("r").dropped, 3);
}

static void a_stream_that_goes_without_bye_loses_the_run_until_it_comes_back(void **state)
{
    (void)state;
    struct recording recording;
    struct recording_options options = {.name = "r", .records = 5};
    recording_begin(&recording, fixture.store, &options, NULL);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_string_equal(find_run("r").status, "recording");
    store_stream_close(recording.stream);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_string_equal(find_run("r").status, "lost");
    options.epoch = 2;
    recording_begin(&recording, fixture.store, &options, NULL);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_string_equal(find_run("r").status, "recording");
    assert_int_equal(store_stream_end(recording.stream, DIVERGE_OUTCOME_COMPLETE, 0), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_string_equal(find_run("r").status, "complete");
}

static void recovery_gives_up_what_was_recording(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 5}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(store_recover(fixture.store), DIVERGE_ESTATE);
    fixture_close(&fixture);
    fixture_open(&fixture);
    assert_string_equal(find_run("r").status, "recording");
    assert_int_equal(store_recover(fixture.store), 0);
    assert_string_equal(find_run("r").status, "lost");
    fixture_check_integrity(&fixture);
}

static void metadata_has_a_class_and_ranks_that_differ_are_shown(void **state)
{
    (void)state;
    struct store_run run;
    const uint8_t id[16] = {9};
    assert_int_equal(store_run_open(fixture.store, id, "r", 2, &run), 0);
    const struct {
        uint32_t rank;
        const char *key, *value;
    } items[] = {{0, "num_threads", "4"}, {1, "num_threads", "8"}, {0, "hostname", "a"},
                 {1, "hostname", "a"},    {0, "pid", "1"},         {1, "pid", "2"},
                 {0, "hostname", "b"},    {1, "hostname", "b"}};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        assert_int_equal(
            store_run_metadata(fixture.store, run.id, items[i].rank, items[i].key, items[i].value),
            0);
    assert_int_equal(store_run_metadata(fixture.store, 999, 0, "a", "b"), DIVERGE_ENOTFOUND);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reader *reader = fixture_reader(&fixture);
    const struct trace_run *trace = NULL;
    assert_int_equal(reader_load(reader, run.id, &trace), 0);
    const char *const expected[][3] = {{"hostname", "context", "b"},
                                       {"num_threads", "cause", "4"},
                                       {"num_threads@1", "cause", "8"},
                                       {"pid", "volatile", "1"}};
    assert_int_equal(trace->n_metadata, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(trace->metadata[i].key, expected[i][0]);
        assert_string_equal(trace->metadata[i].class_name, expected[i][1]);
        assert_string_equal(trace->metadata[i].value, expected[i][2]);
    }
    reader_close(reader);
}

/* ---- finding --------------------------------------------------------------------------------- */

static void runs_are_found_by_name_id_prefix_and_age(void **state)
{
    (void)state;
    const char *const names[] = {"alpha", "alpine", "beta"};
    struct store_run run;
    for (uint8_t i = 0; i < 3; i++) {
        uint8_t id[16] = {0xa0, 0xb1, i};
        assert_int_equal(store_run_open(fixture.store, id, names[i], 1, &run), 0);
        assert_int_equal(store_commit(fixture.store), 0);
    }
    assert_string_equal(find_run("alpha").name, "alpha");
    assert_string_equal(find_run("b").name, "beta");
    assert_string_equal(find_run("A0B101").name, "alpine");
    assert_string_equal(find_run("a0b10200000000000000000000000000").name, "beta");
    assert_string_equal(find_run("@last").name, "beta");
    assert_string_equal(find_run("@prev").name, "alpine");
    struct reader *reader = fixture_reader(&fixture);
    struct reader_run found;
    struct store_error error;
    assert_int_equal(reader_find(reader, "alp", &found, &error), DIVERGE_EAMBIGUOUS);
    assert_non_null(strstr(error.text, "alpha"));
    assert_non_null(strstr(error.text, "alpine"));
    assert_int_equal(reader_find(reader, "betta", &found, &error), DIVERGE_ENOTFOUND);
    assert_non_null(strstr(error.text, "nearest: beta"));
    assert_int_equal(reader_find(reader, "", &found, &error), DIVERGE_ENOTFOUND);
    assert_int_equal(reader_find(reader, "@next", &found, &error), DIVERGE_ENOTFOUND);
    assert_int_equal(reader_find(reader, "a0b", &found, &error), DIVERGE_ENOTFOUND);
    reader_close(reader);
}

static void an_empty_store_has_no_runs(void **state)
{
    (void)state;
    struct reader *reader = fixture_reader(&fixture);
    struct reader_run *runs = NULL;
    size_t count = 7;
    assert_int_equal(reader_runs(reader, &runs, &count), 0);
    assert_int_equal(count, 0);
    free(runs);
    struct reader_run found;
    struct store_error error;
    assert_int_equal(reader_find(reader, "@last", &found, &error), DIVERGE_ENOTFOUND);
    struct reader_totals totals;
    assert_int_equal(reader_totals(reader, &totals), 0);
    assert_int_equal(totals.runs, 0);
    assert_true(totals.file_bytes > 0);
    reader_close(reader);
}

/* ---- streams --------------------------------------------------------------------------------- */

static int open_stream(uint8_t number, int64_t run, uint32_t rank, uint64_t epoch,
                       struct store_stream **ret)
{
    struct store_stream_options options = {.stream_id = {0xcd, number},
                                           .run = run,
                                           .rank = rank,
                                           .epoch = epoch,
                                           .level = DIVERGE_TIER_OP,
                                           .spec = "",
                                           .fingerprint_id = "l61.1",
                                           .client = "test"};
    uint64_t seq;
    return store_stream_open(fixture.store, &options, ret, &seq);
}

static void a_higher_epoch_takes_over_and_an_equal_one_waits(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 30, .epoch = 5}, NULL);
    struct store_stream *newer = NULL;
    assert_int_equal(open_stream(0, recording.run, 0, 5, &newer), DIVERGE_EBUSY);
    assert_int_equal(open_stream(0, recording.run, 1, 6, &newer), DIVERGE_EEXIST);
    assert_int_equal(open_stream(0, recording.run, 0, 6, &newer), 0);
    assert_int_equal(recording_append(&recording, 0, 0, 10), DIVERGE_ECLOSED);
    store_stream_set_seq(recording.stream, 99);
    store_stream_close(recording.stream);
    recording.stream = newer;
    assert_int_equal(recording_append(&recording, 0, 0, 30), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_string_equal(find_run("r").status, "recording");
    assert_int_equal(fixture_number(&fixture, "SELECT committed_seq FROM streams"), 0);
}

static void what_a_former_connection_sent_is_not_asked_for_again(void **state)
{
    (void)state;
    struct recording recording;
    struct recording_options options = {.name = "r", .records = 30};
    recording_begin(&recording, fixture.store, &options, NULL);
    assert_int_equal(recording_append(&recording, 0, 0, 10), 0);
    store_stream_set_seq(recording.stream, 4);
    store_stream_close(recording.stream);
    uint64_t seq = 0;
    options.epoch = 2;
    recording_begin(&recording, fixture.store, &options, &seq);
    assert_int_equal(seq, 4);
    assert_int_equal(recording_append(&recording, 0, 10, 30), 0);
    assert_int_equal(recording_seal(&recording, 0), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT sum(records) FROM segments"), 30);
}

static void the_newest_stream_of_a_rank_stands_for_it(void **state)
{
    (void)state;
    struct recording recording;
    for (uint8_t i = 0; i < 2; i++) {
        recording_begin(
            &recording, fixture.store,
            &(struct recording_options){.name = "r", .records = 10u + i, .stream_number = i}, NULL);
        recording_segment(&recording, 0);
        store_stream_close(recording.stream);
        assert_int_equal(store_commit(fixture.store), 0);
    }
    struct reader *reader = fixture_reader(&fixture);
    uint64_t stream = only_stream(reader, "r");
    assert_int_equal(head_of(reader, stream, 0).records, 11);
    reader_close(reader);
}

/* As when a recording of a run that is here, cut off, is imported. */
static void a_complete_stream_gives_way_to_complete_ones_alone(void **state)
{
    (void)state;
    static const bool ends[] = {true, false, true};
    static const uint64_t stands[] = {10, 10, 12};
    for (uint8_t i = 0; i < 3; i++) {
        struct recording recording;
        recording_begin(
            &recording, fixture.store,
            &(struct recording_options){.name = "r", .records = 10u + i, .stream_number = i}, NULL);
        recording_segment(&recording, 0);
        if (ends[i])
            assert_int_equal(store_stream_end(recording.stream, DIVERGE_OUTCOME_COMPLETE, 0), 0);
        store_stream_close(recording.stream);
        assert_int_equal(store_commit(fixture.store), 0);
        assert_string_equal(find_run("r").status, "complete");
        assert_int_equal(find_run("r").records, stands[i]);
        struct reader *reader = fixture_reader(&fixture);
        assert_int_equal(head_of(reader, only_stream(reader, "r"), 0).records, stands[i]);
        reader_close(reader);
    }
}

/* ---- segments -------------------------------------------------------------------------------- */

static void counts_that_do_not_match_are_a_gap(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 30}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(recording_append(&recording, 1, 0, 20), 0);
    assert_int_equal(recording_seal(&recording, 1), 0); /* says 30 */
    struct dvg_end end = {.segment = 2, .wanted = 1u << DIVERGE_TIER_OP};
    end.dropped[DIVERGE_TIER_OP] = 7;
    assert_int_equal(store_segment_seal(recording.stream, &end), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reader *reader = fixture_reader(&fixture);
    uint64_t stream = only_stream(reader, "r");
    assert_false(head_of(reader, stream, 0).gap);
    assert_true(head_of(reader, stream, 1).gap);
    assert_int_equal(head_of(reader, stream, 1).dropped, 10);
    assert_true(head_of(reader, stream, 2).gap);
    assert_int_equal(head_of(reader, stream, 2).dropped, 7);
    assert_int_equal(head_of(reader, stream, 2).records, 0);
    const struct trace_run *trace = NULL;
    assert_int_equal(reader_load(reader, recording.run, &trace), 0);
    const struct trace_track *track = &trace->streams[0].tiers[DIVERGE_TIER_OP];
    assert_true(track->has_gap);
    assert_int_equal(track->first_gap, 1);
    assert_int_equal(track->dropped, 17);
    reader_close(reader);
}

/* The sum of what peers count does not fit in 64 bits: runs are listed all the same. */
static void absurd_counts_are_summed_up(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 1}, NULL);
    for (uint64_t segment = 0; segment < 8; segment++) {
        struct dvg_end end = {.segment = segment, .wanted = 0x1f};
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            end.dropped[tier] = DVG_SEGMENT_MAX;
        assert_int_equal(store_segment_seal(recording.stream, &end), 0);
    }
    assert_int_equal(store_stream_end(recording.stream, DIVERGE_OUTCOME_COMPLETE, DVG_SEGMENT_MAX),
                     0);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reader *reader = fixture_reader(&fixture);
    struct reader_run *runs = NULL;
    size_t count = 0;
    assert_int_equal(reader_runs(reader, &runs, &count), 0);
    assert_int_equal(count, 1);
    assert_true(runs[0].dropped == INT64_MAX);
    free(runs);
    const struct trace_run *trace = NULL;
    assert_int_equal(reader_load(reader, recording.run, &trace), 0);
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        assert_true(trace->streams[0].tiers[tier].dropped == INT64_MAX);
    reader_close(reader);
}

static void wanted_tiers_get_a_row_without_records(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 1}, NULL);
    struct dvg_end end = {.segment = 0, .wanted = 1u << DIVERGE_TIER_OP | 1u << DIVERGE_TIER_PULSE};
    assert_int_equal(store_segment_seal(recording.stream, &end), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reader *reader = fixture_reader(&fixture);
    uint64_t stream = only_stream(reader, "r");
    struct trace_head head = head_of(reader, stream, 0);
    assert_true(head.sealed);
    assert_false(head.gap);
    const struct trace_source *source = reader_source(reader);
    struct trace_chunk *chunk = NULL;
    assert_int_equal(source->load(source->ctx, stream, DIVERGE_TIER_PULSE, 0, &chunk), 0);
    assert_int_equal(chunk->count, 0);
    assert_false(chunk->pruned);
    source->release(source->ctx, chunk);
    assert_int_equal(source->load(source->ctx, stream, DIVERGE_TIER_STEP, 0, &chunk),
                     DIVERGE_ENOTFOUND);
    assert_int_equal(source->head_at(source->ctx, stream, DIVERGE_TIER_STEP, 9, &head),
                     DIVERGE_ENOTFOUND);
    assert_int_equal(source->head_from(source->ctx, stream, DIVERGE_TIER_OP, 1, &head),
                     DIVERGE_ENOTFOUND);
    assert_int_equal(source->head_from(source->ctx, stream, DIVERGE_TIER_OP, 0, &head), 0);
    reader_close(reader);
}

static void sealed_segments_and_older_ones_take_nothing(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 30}, NULL);
    assert_int_equal(recording_append(&recording, 3, 0, 10), 0);
    recording_segment(&recording, 5);
    assert_int_equal(recording_append(&recording, 5, 0, 10), DIVERGE_ESTATE);
    assert_int_equal(recording_append(&recording, 3, 10, 20), DIVERGE_ESTATE);
    assert_int_equal(recording_seal(&recording, 3), DIVERGE_ESTATE);
    assert_int_equal(recording_append(&recording, UINT64_C(1) << 63, 0, 10), DIVERGE_EPROTO);
    assert_int_equal(recording_append(&recording, 7, 1, 10), DIVERGE_EGAP);
    assert_int_equal(store_commit(fixture.store), 0);
    /* What was never sealed is there, open, and the track says so. */
    struct reader *reader = fixture_reader(&fixture);
    uint64_t stream = only_stream(reader, "r");
    struct trace_head head = head_of(reader, stream, 3);
    assert_int_equal(head.segment, 3);
    assert_false(head.sealed);
    assert_int_equal(head.records, 10);
    const struct trace_run *trace = NULL;
    assert_int_equal(reader_load(reader, recording.run, &trace), 0);
    assert_int_equal(trace->streams[0].tiers[DIVERGE_TIER_OP].first_gap, 3);
    assert_int_equal(trace->streams[0].tiers[DIVERGE_TIER_OP].first, 3);
    assert_int_equal(trace->streams[0].tiers[DIVERGE_TIER_OP].last, 5);
    reader_close(reader);
}

static void append_lane(struct recording *recording, const char *lane, uint64_t value)
{
    uint32_t row = 0;
    struct dvg_bytes text = {.data = (const uint8_t *)lane, .size = strlen(lane)};
    assert_int_equal(store_string(fixture.store, text, &row), 0);
    struct store_site site = {.tier = DIVERGE_TIER_OP, .lane = row};
    uint32_t site_row = 0;
    assert_int_equal(store_site(fixture.store, &site, &site_row), 0);
    struct dvg_part wire = {.segment = 0, .tier = DIVERGE_TIER_OP, .count = 1};
    wire.columns[DVG_COLUMN_VALUE] = (struct dvg_bytes){.data = (const uint8_t *)&value, .size = 8};
    struct store_part part = {
        .wire = &wire, .lane = row, .sites = &site_row, .types = recording->types, .n_types = 4};
    assert_int_equal(store_part_append(recording->stream, &part), 0);
}

static void lanes_are_put_together_by_name_whatever_came_first(void **state)
{
    (void)state;
    const char *const orders[2][3] = {{"main", "autograd", "loader"},
                                      {"loader", "main", "autograd"}};
    for (uint8_t run = 0; run < 2; run++) {
        struct recording recording;
        recording_begin(
            &recording, fixture.store,
            &(struct recording_options){.name = "r", .run_number = run, .stream_number = run},
            NULL);
        for (int i = 0; i < 3; i++)
            append_lane(&recording, orders[run][i], (uint64_t)orders[run][i][0]);
        if (run == 0) { /* open, in parts */
            assert_int_equal(store_commit(fixture.store), 0);
            struct reader *reader = fixture_reader(&fixture);
            const struct trace_source *source = reader_source(reader);
            struct trace_chunk *chunk = NULL;
            assert_int_equal(
                source->load(source->ctx, only_stream(reader, "r"), DIVERGE_TIER_OP, 0, &chunk), 0);
            assert_int_equal(chunk->count, 3);
            assert_int_equal(chunk->value[0], 'a');
            assert_string_equal(chunk->layout->sites[1]->lane, "loader");
            assert_int_equal(chunk->value[2], 'm');
            source->release(source->ctx, chunk);
            reader_close(reader);
        }
        struct dvg_end end = {.segment = 0, .records = {[DIVERGE_TIER_OP] = 3}};
        assert_int_equal(store_segment_seal(recording.stream, &end), 0);
    }
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunks"), 1);
    assert_int_equal(fixture_number(&fixture, "SELECT count(DISTINCT digest) FROM segments"), 1);
}

static void uninitialised_values_are_kept_and_do_not_count(void **state)
{
    (void)state;
    struct recording recording;
    for (uint8_t run = 0; run < 2; run++) {
        recording_begin(&recording, fixture.store,
                        &(struct recording_options){.name = "r",
                                                    .records = 10,
                                                    .run_number = run,
                                                    .stream_number = run,
                                                    .seed = run,
                                                    .flags = DIVERGE_FLAG_UNINITIALISED},
                        NULL);
        recording_segment(&recording, 0);
    }
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(DISTINCT digest) FROM segments"), 1);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunks"), 2);
    struct reader *reader = fixture_reader(&fixture);
    const struct trace_source *source = reader_source(reader);
    struct trace_chunk *chunk = NULL;
    assert_int_equal(
        source->load(source->ctx, only_stream(reader, "r.2"), DIVERGE_TIER_OP, 0, &chunk), 0);
    assert_int_equal(chunk->value[3], recording_value(&recording, 0, 3));
    source->release(source->ctx, chunk);
    reader_close(reader);
}

static void unread_records_make_the_segments_evidence_incomplete(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 1}, NULL);
    const uint8_t unread = DVG_STATE_UNREAD;
    struct dvg_part wire = {.segment = 0, .tier = DIVERGE_TIER_OP, .count = 1};
    wire.columns[DVG_COLUMN_STATE] = (struct dvg_bytes){.data = &unread, .size = 1};
    struct store_part part = {.wire = &wire,
                              .lane = recording.lane,
                              .sites = recording.sites,
                              .types = recording.types,
                              .n_types = 4};
    assert_int_equal(store_part_append(recording.stream, &part), 0);
    assert_int_equal(recording_seal(&recording, 0), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reader *reader = fixture_reader(&fixture);
    uint64_t stream = only_stream(reader, "r");
    struct trace_head head = head_of(reader, stream, 0);
    assert_true(head.gap);
    assert_int_equal(head.dropped, 0);
    const struct trace_source *source = reader_source(reader);
    struct trace_chunk *chunk = NULL;
    assert_int_equal(source->load(source->ctx, stream, DIVERGE_TIER_OP, 0, &chunk), 0);
    assert_int_equal(chunk->state[0], DVG_STATE_UNREAD);
    source->release(source->ctx, chunk);
    reader_close(reader);
}

static void limits_hold(void **state)
{
    (void)state;
    fixture_close(&fixture);
    struct store_options options = {.max_segment_records = 100, .max_open_bytes = 1 << 20};
    struct store_error error;
    assert_int_equal(store_open(fixture.path, &options, &fixture.store, &error), 0);
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 2000}, NULL);
    assert_int_equal(recording_append(&recording, 0, 0, 101), DIVERGE_ELIMIT);
    assert_int_equal(recording_append(&recording, 0, 0, 100), 0);
    assert_int_equal(recording_append(&recording, 0, 100, 101), DIVERGE_ELIMIT);
    int rc = 0;
    uint64_t segment = 1;
    for (; segment < 1000 && !rc; segment++)
        rc = recording_append(&recording, segment, 0, 50);
    assert_int_equal(rc, DIVERGE_ELIMIT);
    assert_true(segment <= STORE_MAX_OPEN_SEGMENTS + 1);
    assert_true(strlen(store_error_text(fixture.store)) > 0);
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_check_integrity(&fixture);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(names_are_cleaned_and_made_unique),
        TEST(a_run_id_is_opened_once),
        TEST(a_run_is_complete_when_every_declared_rank_said_bye),
        TEST(one_failed_rank_fails_the_run),
        TEST(a_stream_that_goes_without_bye_loses_the_run_until_it_comes_back),
        TEST(recovery_gives_up_what_was_recording),
        TEST(metadata_has_a_class_and_ranks_that_differ_are_shown),
        TEST(runs_are_found_by_name_id_prefix_and_age),
        TEST(an_empty_store_has_no_runs),
        TEST(a_higher_epoch_takes_over_and_an_equal_one_waits),
        TEST(what_a_former_connection_sent_is_not_asked_for_again),
        TEST(the_newest_stream_of_a_rank_stands_for_it),
        TEST(a_complete_stream_gives_way_to_complete_ones_alone),
        TEST(counts_that_do_not_match_are_a_gap),
        TEST(absurd_counts_are_summed_up),
        TEST(wanted_tiers_get_a_row_without_records),
        TEST(sealed_segments_and_older_ones_take_nothing),
        TEST(lanes_are_put_together_by_name_whatever_came_first),
        TEST(uninitialised_values_are_kept_and_do_not_count),
        TEST(unread_records_make_the_segments_evidence_incomplete),
        TEST(limits_hold),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
