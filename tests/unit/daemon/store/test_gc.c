/* SPDX-License-Identifier: Apache-2.0 */
/* Removal, pins, retention, and what a collection must leave alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/daemon/store/store_fixture.h"

enum { RECORDS = 4000, SEGMENTS = 20 };

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

static struct store_gc collect(void)
{
    struct store_gc result = {0};
    int rc = store_gc(fixture.store, 0, &result);
    if (rc)
        fail_msg("store_gc: %d %s", rc, store_error_text(fixture.store));
    return result;
}

static int64_t record_run(struct recording *recording, uint8_t number, uint64_t seed)
{
    recording_begin(recording, fixture.store,
                    &(struct recording_options){.name = "r",
                                                .records = RECORDS,
                                                .run_number = number,
                                                .stream_number = number,
                                                .seed = seed},
                    NULL);
    for (uint64_t segment = 0; segment < SEGMENTS; segment++)
        recording_segment(recording, segment);
    assert_int_equal(store_stream_end(recording->stream, DIVERGE_OUTCOME_COMPLETE, 0), 0);
    store_stream_close(recording->stream);
    assert_int_equal(store_commit(fixture.store), 0);
    return recording->run;
}

static void with_cap(uint64_t bytes)
{
    fixture_close(&fixture);
    struct store_options options = {.max_bytes = bytes};
    struct store_error error;
    assert_int_equal(store_open(fixture.path, &options, &fixture.store, &error), 0);
}

static void removing_a_run_leaves_what_others_share(void **state)
{
    (void)state;
    struct recording first;
    struct recording second;
    record_run(&first, 1, 1);
    record_run(&second, 2, 1);
    assert_int_equal(store_run_remove(fixture.store, 12345), DIVERGE_ENOTFOUND);
    assert_int_equal(store_run_remove(fixture.store, first.run), 0);
    assert_int_equal(store_run_remove(fixture.store, first.run), DIVERGE_ENOTFOUND);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(collect().chunks_removed, 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunks"), SEGMENTS);
    uint64_t bytes = (uint64_t)fixture_number(&fixture, "SELECT sum(bytes) FROM chunks");
    assert_int_equal(store_run_remove(fixture.store, second.run), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    struct store_gc result = collect();
    assert_int_equal(result.chunks_removed, SEGMENTS);
    assert_true(result.bytes_before - result.bytes_after >= bytes);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunk_blobs"), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM layouts"), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM columns"), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM segments"), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM streams"), 0);
    fixture_check_integrity(&fixture);
    /* What is recorded next does not rely on what was removed. */
    record_run(&first, 3, 1);
    fixture_check_integrity(&fixture);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunks"), SEGMENTS);
}

static void a_recording_run_is_not_removed(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 5}, NULL);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(store_run_remove(fixture.store, recording.run), DIVERGE_EBUSY);
}

static void a_pinned_run_is_not_removed_before_it_is_unpinned(void **state)
{
    (void)state;
    struct recording recording;
    record_run(&recording, 1, 1);
    assert_int_equal(store_run_pin(fixture.store, recording.run, true), 0);
    assert_int_equal(store_run_remove(fixture.store, recording.run), DIVERGE_ESTATE);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(store_run_remove(fixture.store, recording.run), DIVERGE_ESTATE);
    assert_int_equal(store_run_pin(fixture.store, recording.run, false), 0);
    assert_int_equal(store_run_remove(fixture.store, recording.run), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM runs"), 0);
}

static void over_the_cap_the_oldest_op_chunks_go_and_chains_stay(void **state)
{
    (void)state;
    struct recording old;
    struct recording young;
    record_run(&old, 1, 1);
    record_run(&young, 2, 2);
    uint64_t cap = (uint64_t)fixture_number(&fixture, "PRAGMA page_count") * 32768 -
                   (uint64_t)fixture_number(&fixture, "SELECT sum(bytes) / 8 FROM chunks");
    with_cap(cap);
    struct store_gc result = collect();
    assert_true(result.segments_thinned > 0);
    assert_true(result.bytes_after <= cap);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunks WHERE bytes = 0"
                                              " AND id > 20"),
                     0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM segments"), 2 * SEGMENTS);
    assert_int_equal(fixture_number(&fixture, "SELECT count(chain) FROM segments"), 2 * SEGMENTS);
    struct reader *reader = fixture_reader(&fixture);
    const struct trace_source *source = reader_source(reader);
    struct trace_chunk *chunk = NULL;
    assert_int_equal(source->load(source->ctx, 1, DIVERGE_TIER_OP, 0, &chunk), 0);
    assert_true(chunk->pruned);
    assert_null(chunk->value);
    assert_int_equal(chunk->layout->count, RECORDS);
    source->release(source->ctx, chunk);
    assert_int_equal(source->load(source->ctx, 2, DIVERGE_TIER_OP, 0, &chunk), 0);
    assert_false(chunk->pruned);
    source->release(source->ctx, chunk);
    reader_close(reader);
    fixture_check_integrity(&fixture);
    /* An equal run brings the records back. */
    struct recording again;
    record_run(&again, 3, 1);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunks WHERE bytes = 0"), 0);
    reader = fixture_reader(&fixture);
    source = reader_source(reader);
    assert_int_equal(source->load(source->ctx, 1, DIVERGE_TIER_OP, 0, &chunk), 0);
    assert_false(chunk->pruned);
    assert_int_equal(chunk->value[17], recording_value(&old, 0, 17));
    source->release(source->ctx, chunk);
    reader_close(reader);
    fixture_check_integrity(&fixture);
}

static void pinned_runs_and_the_surroundings_of_differences_stay(void **state)
{
    (void)state;
    struct recording pinned;
    struct recording other;
    struct recording young;
    record_run(&pinned, 1, 1);
    record_run(&other, 2, 2);
    record_run(&young, 3, 3);
    assert_int_equal(store_run_pin(fixture.store, pinned.run, true), 0);
    assert_int_equal(store_run_pin(fixture.store, 999, true), DIVERGE_ENOTFOUND);
    assert_int_equal(store_difference_add(fixture.store, other.run, young.run, 10), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    with_cap(1);
    collect();
    assert_int_equal(fixture_number(&fixture,
                                    "SELECT count(*) FROM segments AS s JOIN chunks AS c"
                                    " ON c.id = s.chunk WHERE s.stream = 1 AND c.bytes = 0"),
                     0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM segments AS s JOIN chunks AS c"
                                              " ON c.id = s.chunk WHERE s.stream IN (2, 3)"
                                              " AND c.bytes > 0 AND segment BETWEEN 8 AND 12"),
                     10);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM segments AS s JOIN chunks AS c"
                                              " ON c.id = s.chunk WHERE s.stream IN (2, 3)"
                                              " AND c.bytes > 0"),
                     10);
    fixture_check_integrity(&fixture);
}

static void a_collection_in_slices_spares_what_is_recorded_meanwhile(void **state)
{
    (void)state;
    struct recording gone;
    struct recording recording;
    record_run(&gone, 1, 1);
    assert_int_equal(store_run_remove(fixture.store, gone.run), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    recording_begin(
        &recording, fixture.store,
        &(struct recording_options){
            .name = "same", .records = RECORDS, .run_number = 2, .stream_number = 2, .seed = 1},
        NULL);
    /* The run that records now is equal to the removed one: its chunks are found, not written. */
    struct store_gc result;
    int rc = DIVERGE_EAGAIN;
    uint64_t segment = 0;
    for (; segment < SEGMENTS || rc == DIVERGE_EAGAIN; segment++) {
        if (rc == DIVERGE_EAGAIN)
            rc = store_gc(fixture.store, 1, &result);
        assert_true(rc == 0 || rc == DIVERGE_EAGAIN);
        recording_segment(&recording, segment);
        if (segment % 3 == 0)
            assert_int_equal(store_commit(fixture.store), 0);
    }
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_check_integrity(&fixture);
    struct reader *reader = fixture_reader(&fixture);
    const struct trace_source *source = reader_source(reader);
    for (uint64_t s = 0; s < segment; s++) {
        struct trace_chunk *chunk = NULL;
        assert_int_equal(source->load(source->ctx, 2, DIVERGE_TIER_OP, s, &chunk), 0);
        assert_false(chunk->pruned);
        assert_int_equal(chunk->value[99], recording_value(&recording, s, 99));
        source->release(source->ctx, chunk);
    }
    reader_close(reader);
}

static void under_the_cap_nothing_goes(void **state)
{
    (void)state;
    struct recording recording;
    record_run(&recording, 1, 1);
    struct store_gc result = collect();
    assert_int_equal(result.chunks_removed, 0);
    assert_int_equal(result.segments_thinned, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(removing_a_run_leaves_what_others_share),
        TEST(a_recording_run_is_not_removed),
        TEST(a_pinned_run_is_not_removed_before_it_is_unpinned),
        TEST(over_the_cap_the_oldest_op_chunks_go_and_chains_stay),
        TEST(pinned_runs_and_the_surroundings_of_differences_stay),
        TEST(a_collection_in_slices_spares_what_is_recorded_meanwhile),
        TEST(under_the_cap_nothing_goes),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
