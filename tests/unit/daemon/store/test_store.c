/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/store/internal.h"
#include "tests/unit/daemon/store/store_fixture.h"

static int setup(void **state)
{
    static struct fixture fixture;
    fixture_init(&fixture);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    fixture_fini(*state);
    return 0;
}

static void check_chunk(struct reader *reader, const struct recording *recording, uint64_t stream,
                        uint64_t segment, uint32_t count)
{
    const struct trace_source *source = reader_source(reader);
    struct trace_chunk *chunk = NULL;
    assert_int_equal(source->load(source->ctx, stream, DIVERGE_TIER_OP, segment, &chunk), 0);
    assert_int_equal(chunk->count, count);
    assert_int_equal(chunk->layout->count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(chunk->value[i], recording_value(recording, segment, i));
        assert_int_equal(chunk->order[i], i);
        assert_int_equal(chunk->argument[i], 77 + i / 3);
        assert_int_equal(chunk->state[i], DVG_STATE_STATS | DVG_STATE_SUM);
        assert_true(chunk->sum[i] == (float)(chunk->value[i] % 1000) / 7.0f);
        assert_int_equal(chunk->min[i], 0);
        assert_string_equal(chunk->source[i], "model.py:211");
        assert_string_equal(chunk->layout->sites[i]->op, "aten::addmm");
        assert_string_equal(chunk->layout->sites[i]->lane, "main");
        assert_int_equal(chunk->layout->sites[i]->slot, i % 3);
    }
    const struct trace_type *type = chunk->types[chunk->type[1]];
    assert_int_equal(type->dtype, DIVERGE_BF16);
    assert_int_equal(type->ndim, 2);
    assert_int_equal(type->sizes[1], 32);
    source->release(source->ctx, chunk);
}

static const struct trace_stream *load_stream(struct reader *reader, const char *name)
{
    struct reader_run run;
    struct store_error error;
    assert_int_equal(reader_find(reader, name, &run, &error), 0);
    const struct trace_run *trace = NULL;
    assert_int_equal(reader_load(reader, run.id, &trace), 0);
    assert_int_equal(trace->n_streams, 1);
    return &trace->streams[0];
}

static void what_is_recorded_is_read(void **state)
{
    struct fixture *fixture = *state;
    struct recording recording;
    struct recording_options options = {.name = "first", .records = 100};
    assert_int_equal(store_begin(fixture->store), 0);
    recording_begin(&recording, fixture->store, &options, NULL);
    for (uint64_t segment = 0; segment < 10; segment++)
        recording_segment(&recording, segment);
    assert_int_equal(store_stream_end(recording.stream, DIVERGE_OUTCOME_COMPLETE, 0), 0);
    assert_int_equal(store_commit(fixture->store), 0);

    struct reader *reader = fixture_reader(fixture);
    const struct trace_stream *stream = load_stream(reader, "first");
    const struct trace_track *track = &stream->tiers[DIVERGE_TIER_OP];
    assert_true(stream->ended);
    assert_int_equal(track->first, 0);
    assert_int_equal(track->last, 9);
    assert_int_equal(track->records, 1000);
    assert_false(track->has_gap);
    assert_false(stream->tiers[DIVERGE_TIER_PULSE].present);
    for (uint64_t segment = 0; segment < 10; segment++)
        check_chunk(reader, &recording, stream->id, segment, 100);
    reader_close(reader);
    fixture_check_integrity(fixture);
}

static void chain_links_the_digests(void **state)
{
    struct fixture *fixture = *state;
    struct recording recording;
    recording_begin(&recording, fixture->store,
                    &(struct recording_options){.name = "r", .records = 10}, NULL);
    recording_segment(&recording, 0);
    recording_segment(&recording, 1);
    assert_int_equal(store_commit(fixture->store), 0);
    struct reader *reader = fixture_reader(fixture);
    const struct trace_source *source = reader_source(reader);
    const struct trace_stream *stream = load_stream(reader, "r");
    struct trace_digest chain = digest_chain_start(DIVERGE_TIER_OP, "", "l61.1");
    assert_memory_equal(&chain, &stream->tiers[DIVERGE_TIER_OP].start, 16);
    for (uint64_t segment = 0; segment < 2; segment++) {
        struct trace_head head;
        assert_int_equal(source->head_at(source->ctx, stream->id, DIVERGE_TIER_OP, segment, &head),
                         0);
        assert_int_equal(head.segment, segment);
        assert_true(head.sealed);
        chain = digest_chain_next(&chain, &head.digest);
        assert_memory_equal(&chain, &head.chain, 16);
    }
    reader_close(reader);
}

static void open_records_survive_a_commit_and_are_appended_to(void **state)
{
    struct fixture *fixture = *state;
    struct recording recording;
    struct recording_options options = {.name = "r", .records = 90};
    recording_begin(&recording, fixture->store, &options, NULL);
    assert_int_equal(recording_append(&recording, 0, 0, 30), 0);
    store_stream_set_seq(recording.stream, 7);
    assert_int_equal(store_commit(fixture->store), 0);
    assert_int_equal(recording_append(&recording, 0, 30, 50), 0);
    store_stream_set_seq(recording.stream, 8);
    assert_int_equal(store_commit(fixture->store), 0);
    struct reader *reader = fixture_reader(fixture);
    const struct trace_stream *stream = load_stream(reader, "r");
    assert_true(stream->tiers[DIVERGE_TIER_OP].has_gap);
    check_chunk(reader, &recording, stream->id, 0, 50);
    reader_close(reader);

    /* As after a kill: what was not committed is gone, the rest is there and goes on. */
    assert_int_equal(recording_append(&recording, 0, 50, 60), 0);
    fixture_close(fixture);
    fixture_open(fixture);
    uint64_t seq = 0;
    options.epoch = 2;
    recording_begin(&recording, fixture->store, &options, &seq);
    assert_int_equal(seq, 8);
    assert_int_equal(recording_append(&recording, 0, 60, 90), DIVERGE_EGAP);
    assert_int_equal(recording_append(&recording, 0, 50, 90), 0);
    assert_int_equal(recording_seal(&recording, 0), 0);
    assert_int_equal(store_commit(fixture->store), 0);
    reader = fixture_reader(fixture);
    stream = load_stream(reader, "r");
    assert_false(stream->tiers[DIVERGE_TIER_OP].has_gap);
    check_chunk(reader, &recording, stream->id, 0, 90);
    reader_close(reader);
    assert_int_equal(fixture_number(fixture, "SELECT count(*) FROM parts"), 0);
    fixture_check_integrity(fixture);
}

static void equal_runs_share_every_chunk(void **state)
{
    struct fixture *fixture = *state;
    for (uint8_t run = 0; run < 2; run++) {
        struct recording recording;
        recording_begin(&recording, fixture->store,
                        &(struct recording_options){
                            .name = "same", .records = 50, .run_number = run, .stream_number = run},
                        NULL);
        assert_string_equal(recording.name, run ? "same.2" : "same");
        for (uint64_t segment = 0; segment < 5; segment++)
            recording_segment(&recording, segment);
        assert_int_equal(store_commit(fixture->store), 0);
    }
    assert_int_equal(fixture_number(fixture, "SELECT count(*) FROM chunks"), 5);
    assert_int_equal(fixture_number(fixture, "SELECT count(*) FROM layouts"), 1);
    assert_int_equal(fixture_number(fixture, "SELECT count(*) FROM segments"), 10);
    assert_int_equal(fixture_number(fixture, "SELECT count(DISTINCT chain) FROM segments"), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_recorded_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(chain_links_the_digests, setup, teardown),
        cmocka_unit_test_setup_teardown(open_records_survive_a_commit_and_are_appended_to, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(equal_runs_share_every_chunk, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
