/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults at every point of recording: after a failure either a further try brings all of it into
 * the file, or the process dies and what was committed is there; in both cases the file is whole.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/fault.h"
#include "tests/unit/daemon/store/store_fixture.h"

enum { BEGUN = 20 }; /* records of a segment that is open at a commit */

/* The sweep of allocations has the most rounds, so it records less. */
#ifdef SWEEP_MEMORY
static const uint32_t n_records = 30;
static const uint64_t n_segments = 2;
#else
static const uint32_t n_records = 200;
static const uint64_t n_segments = 4;
#endif

static void check_all_there(const struct fixture *fixture, uint64_t segments, uint32_t open)
{
    fixture_check_integrity(fixture);
    struct reader *reader = fixture_reader(fixture);
    struct reader_run run;
    struct store_error error;
    assert_int_equal(reader_find(reader, "r", &run, &error), 0);
    const struct trace_run *trace = NULL;
    assert_int_equal(reader_load(reader, run.id, &trace), 0);
    const struct trace_source *source = reader_source(reader);
    struct recording expected = {.seed = 0};
    for (uint64_t segment = 0; segment < segments; segment++) {
        struct trace_chunk *chunk = NULL;
        assert_int_equal(
            source->load(source->ctx, trace->streams[0].id, DIVERGE_TIER_OP, segment, &chunk), 0);
        uint32_t count = segment + 1 == segments && open ? open : n_records;
        assert_int_equal(chunk->count, count);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(chunk->value[i], recording_value(&expected, segment, i));
        source->release(source->ctx, chunk);
    }
    reader_close(reader);
}

struct round { /* of a sweep */
    enum dvg_fault_kind kind;
    int error;
    bool on;
    bool fired;
};

/* A call failed: that must be the fault, it must say so, and it must not come again. */
static void check_failure(struct round *round, const struct fixture *fixture, int rc)
{
    if (!dvg_fault_fired() || round->fired)
        fail_msg("%d without a fault: %s", rc, store_error_text(fixture->store));
    dvg_fault_disarm();
    round->fired = true;
    if (rc != DIVERGE_EFULL && rc != DIVERGE_EIO && rc != DIVERGE_ENOMEM)
        fail_msg("status %d: %s", rc, store_error_text(fixture->store));
    assert_true(strlen(store_error_text(fixture->store)) > 0);
}

/* Calls again what failed: nothing may be lost or doubled by that. */
#define WITH_RETRY(call)                                                                           \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_) {                                                                                 \
            check_failure(round, fixture, rc_);                                                    \
            rc_ = (call);                                                                          \
        }                                                                                          \
        if (rc_)                                                                                   \
            fail_msg("%s: %d %s", #call, rc_, store_error_text(fixture->store));                   \
    } while (0)

/* Groups: the rest of a segment, its seal, the next one's beginning. */
static void record(struct round *round, struct fixture *fixture, struct recording *recording)
{
    for (uint64_t segment = 0; segment < n_segments; segment++) {
        WITH_RETRY(recording_append(recording, segment, segment ? BEGUN : 0, n_records));
        WITH_RETRY(recording_seal(recording, segment));
        WITH_RETRY(recording_append(recording, segment + 1, 0, BEGUN));
        store_stream_set_seq(recording->stream, segment + 1);
        WITH_RETRY(store_commit(fixture->store));
        WITH_RETRY(store_checkpoint(fixture->store, 0));
    }
}

/* Rounds in which call 0, 1, 2, … of a kind fails, until a round has no such call. */
static void sweep(enum dvg_fault_kind kind, int error, bool on)
{
    for (long at = 0;; at++) {
        struct fixture fixture;
        struct recording recording;
        struct round round = {.kind = kind, .error = error, .on = on};
        fixture_init(&fixture);
        recording_begin(&recording, fixture.store,
                        &(struct recording_options){.name = "r", .records = n_records}, NULL);
        dvg_fault_arm(kind, at, error, on);
        record(&round, &fixture, &recording);
        bool fired = dvg_fault_fired();
        dvg_fault_disarm();
        check_all_there(&fixture, n_segments + 1, BEGUN);
        fixture_fini(&fixture);
        if (!fired) {
            assert_true(at > 0);
            return;
        }
    }
}

#ifdef SWEEP_MEMORY
static void want_of_memory_loses_nothing(void **state)
{
    (void)state;
    sweep(DVG_FAULT_ALLOC, ENOMEM, false);
}

static void opening_fails_cleanly_without_memory(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    fixture_close(&fixture);
    for (long at = 0;; at++) {
        struct store_error error = {{0}};
        dvg_fault_arm(DVG_FAULT_ALLOC, at, ENOMEM, false);
        int rc = store_open(fixture.path, NULL, &fixture.store, &error);
        bool fired = dvg_fault_fired();
        dvg_fault_disarm();
        if (rc) {
            assert_true(fired);
            assert_true(strlen(error.text) > 0);
        } else {
            fixture_close(&fixture);
        }
        if (!fired)
            break;
    }
    fixture_open(&fixture);
    fixture_check_integrity(&fixture);
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(want_of_memory_loses_nothing),
        cmocka_unit_test(opening_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
static void a_full_disk_loses_nothing(void **state)
{
    (void)state;
    sweep(DVG_FAULT_WRITE, ENOSPC, true);
}

static void a_failing_write_loses_nothing(void **state)
{
    (void)state;
    sweep(DVG_FAULT_WRITE, EIO, false);
}

static void a_failing_sync_loses_nothing(void **state)
{
    (void)state;
    sweep(DVG_FAULT_SYNC, EIO, false);
}

/* The process dies with the fault: what was committed before is there and goes on. */
static void after_a_failed_commit_the_file_has_all_that_was_committed(void **state)
{
    (void)state;
    for (long at = 0;; at++) {
        struct fixture fixture;
        struct recording recording;
        struct recording_options options = {.name = "r", .records = n_records};
        fixture_init(&fixture);
        recording_begin(&recording, fixture.store, &options, NULL);
        recording_segment(&recording, 0);
        assert_int_equal(store_commit(fixture.store), 0);
        recording_segment(&recording, 1);
        dvg_fault_arm(DVG_FAULT_WRITE, at, EIO, true);
        int rc = store_commit(fixture.store);
        fixture_close(&fixture);
        bool fired = dvg_fault_fired();
        dvg_fault_disarm();
        fixture_open(&fixture);
        assert_int_equal(store_recover(fixture.store), 0);
        check_all_there(&fixture, rc ? 1 : 2, 0);
        uint64_t seq = 0;
        options.epoch = 2;
        recording_begin(&recording, fixture.store, &options, &seq);
        assert_int_equal(seq, rc ? 1 : 2);
        recording_segment(&recording, seq);
        assert_int_equal(store_commit(fixture.store), 0);
        check_all_there(&fixture, seq + 1, 0);
        fixture_fini(&fixture);
        if (!fired)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(a_failing_write_loses_nothing),
        cmocka_unit_test(a_failing_sync_loses_nothing),
        cmocka_unit_test(after_a_failed_commit_the_file_has_all_that_was_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
