/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/producer.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include <diverge/diverge.h>

#include "daemon/store/reader.h"

enum {
    MAX_RECORDS = 8192,
    WAIT_MS = 30000,
};

/* splitmix64 (Steele, Lea, Flood 2014): every record of every step has a value of its own. */
static int64_t planned_value(const struct producer_plan *plan, uint64_t step, uint32_t index)
{
    uint64_t z = plan->seed * 0x9e3779b97f4a7c15u + step * 1000003u + index + 1;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int64_t)(z ^ (z >> 31));
}

/* ---- recording ---- */

static void record_step(struct diverge_lane *lane, const diverge_name_t *names,
                        const struct producer_plan *plan, uint64_t step)
{
    for (uint32_t i = 0; i < plan->records; i++) {
        const struct diverge_observation what = {
            .role = DIVERGE_ROLE_SCALAR,
            .tier = DIVERGE_TIER_OP,
            .name = names[i],
        };
        diverge_record_integer(lane, &what, planned_value(plan, step, i));
    }
}

static bool report(const struct producer_plan *plan, struct diverge_session *session)
{
    if (!plan->flush)
        return true;
    if (diverge_flush(session, plan->flush_ms ? plan->flush_ms : WAIT_MS) != 0)
        return false;
    return plan->report_fd < 0 || write(plan->report_fd, "+", 1) == 1;
}

static bool pass_gate(const struct producer_plan *plan)
{
    char byte;
    return plan->gate_fd < 0 || read(plan->gate_fd, &byte, 1) == 1;
}

static int record_all(struct diverge_session *session, const struct producer_plan *plan)
{
    struct diverge_lane *lane = diverge_lane_open(session, "main");
    diverge_name_t *names = calloc(plan->records, sizeof(*names));
    if (!names)
        return DIVERGE_ENOMEM;
    for (uint32_t i = 0; i < plan->records; i++) {
        char name[32];
        snprintf(name, sizeof(name), "value.%u", i);
        names[i] = diverge_name(session, name);
    }
    diverge_boundary(session, 0);
    bool ok = true;
    for (uint64_t k = 0; ok && (plan->forever || k < plan->steps); k++) {
        ok = pass_gate(plan);
        diverge_step(session, k);
        record_step(lane, names, plan, k);
        diverge_boundary(session, k + 1);
        ok = ok && report(plan, session);
    }
    free(names);
    return ok ? 0 : DIVERGE_EAGAIN;
}

int producer_run(const struct producer_plan *plan)
{
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.name = plan->name;
    options.run_id = plan->run_id;
    options.rank = plan->rank;
    options.world = plan->world;
    options.wait_ms = WAIT_MS;
    struct diverge_session *session = NULL;
    int rc = diverge_session_open(&options, &session);
    if (rc)
        return rc;
    rc = record_all(session, plan);
    int closed = diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE);
    return rc ? rc : closed;
}

pid_t producer_fork(const struct producer_plan *plan)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        /* A test that fails leaves nothing behind. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int rc = producer_run(plan);
        if (rc)
            fprintf(stderr, "producer %s: %s\n", plan->name, diverge_strerror(rc));
        _exit(rc ? 1 : 0);
    }
    assert_true(pid > 0);
    return pid;
}

void producer_join(pid_t pid, int expected_status)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected_status);
}

/* ---- checking ---- */

struct opened {
    struct reader *reader;
    const struct trace_run *run;
    const struct trace_stream *stream;
};

static void open_run(struct opened *o, const char *store, const char *name)
{
    struct store_error error = {{0}};
    struct reader_run found;
    *o = (struct opened){0};
    if (reader_open(store, &o->reader, &error))
        fail_msg("%s: %s", store, error.text);
    if (reader_find(o->reader, name, &found, &error))
        fail_msg("run %s: %s", name, error.text);
    assert_int_equal(reader_load(o->reader, found.id, &o->run), 0);
}

static bool find_stream(struct opened *o, int32_t rank)
{
    for (uint32_t i = 0; i < o->run->n_streams; i++) {
        if (o->run->streams[i].rank == (uint32_t)rank)
            o->stream = &o->run->streams[i];
    }
    return o->stream != NULL;
}

/* Whether the step is there, whole and as planned. A wrong value fails at once. */
static bool step_is_stored(const struct opened *o, const struct producer_plan *plan, uint64_t step)
{
    const struct trace_source *source = reader_source(o->reader);
    uint64_t segment = diverge_segment_of_step(step);
    struct trace_head head;
    if (source->head_at(source->ctx, o->stream->id, DIVERGE_TIER_OP, segment, &head) ||
        head.segment != segment)
        return false;
    assert_int_equal(head.dropped, 0);
    struct trace_chunk *chunk = NULL;
    assert_int_equal(source->load(source->ctx, o->stream->id, DIVERGE_TIER_OP, segment, &chunk), 0);
    bool whole = chunk->count == plan->records;
    assert_true(chunk->count <= plan->records);
    for (uint32_t i = 0; i < chunk->count; i++)
        assert_int_equal((int64_t)chunk->value[i], planned_value(plan, step, i));
    source->release(source->ctx, chunk);
    return whole;
}

void producer_check(const char *store, const struct producer_plan *plan)
{
    struct opened o;
    open_run(&o, store, plan->name);
    if (!find_stream(&o, plan->rank))
        fail_msg("run %s has no rank %d", plan->name, plan->rank);
    const struct trace_track *track = &o.stream->tiers[DIVERGE_TIER_OP];
    assert_false(track->has_gap);
    assert_int_equal(o.stream->dropped, 0);
    assert_int_equal(track->dropped, 0);
    assert_int_equal(track->records, plan->steps * plan->records);
    /* The initialisation, each step, and the boundaries around them are rows, with records or not.
     */
    assert_int_equal(track->segments, 2 * plan->steps + 2);
    for (uint64_t k = 0; k < plan->steps; k++) {
        if (!step_is_stored(&o, plan, k))
            fail_msg("run %s rank %d: step %d is missing or short", plan->name, plan->rank, (int)k);
    }
    reader_close(o.reader);
}

void producer_check_status(const char *store, const char *name, const char *status)
{
    struct opened o;
    open_run(&o, store, name);
    assert_string_equal(o.run->status, status);
    reader_close(o.reader);
}

uint64_t producer_stored_steps(const char *store, const struct producer_plan *plan)
{
    struct opened o;
    open_run(&o, store, plan->name);
    uint64_t steps = 0;
    while (find_stream(&o, plan->rank) && step_is_stored(&o, plan, steps))
        steps++;
    reader_close(o.reader);
    return steps;
}

void store_check_integrity(const char *store)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(store, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}
