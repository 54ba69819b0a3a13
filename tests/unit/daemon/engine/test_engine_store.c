/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine's speed rests on: rows of a real store carry the running sums of their track. */
#include "tests/unit/daemon/engine/check.h"

#include "tests/unit/daemon/store/store_fixture.h"

enum { SEGMENTS = 20, RECORDS = 7 };

static void rows_of_a_store_have_running_sums(void **state)
{
    (void)state;
    struct fixture fixture;
    struct recording recording;
    uint64_t seq;
    fixture_init(&fixture);
    struct recording_options options = {
        .name = "sums", .run_number = 1, .stream_number = 1, .records = RECORDS};
    recording_begin(&recording, fixture.store, &options, &seq);
    for (uint64_t segment = 1; segment <= SEGMENTS; segment++)
        recording_segment(&recording, segment);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reader *reader = fixture_reader(&fixture);
    const struct trace_run *run = NULL;
    assert_int_equal(reader_load(reader, recording.run, &run), 0);
    const struct trace_source *source = reader_source(reader);
    for (uint64_t segment = 1; segment <= SEGMENTS; segment++) {
        struct trace_head head;
        assert_int_equal(
            source->head_at(source->ctx, run->streams[0].id, DIVERGE_TIER_OP, segment, &head), 0);
        assert_int_equal(head.rows_through, segment);
        assert_int_equal(head.records_through, segment * RECORDS);
    }
    reader_close(reader);
    store_stream_close(recording.stream);
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_store_have_running_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
