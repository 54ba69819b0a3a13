/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/faults.h"

#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

static bool swept;

void faults_set_tier(int argc, char **argv)
{
    swept = argc > 1 && strcmp(argv[1], "sweep") == 0;
}

bool faults_are_swept(void)
{
    return swept;
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

bool fault_sweep_fired(const struct fault_sweep *sweep)
{
    return access(sweep->report_path, F_OK) == 0;
}

bool fault_sweep_next(struct fault_sweep *sweep, const char *dir)
{
    long density = swept ? sweep->dense : sweep->quick;
    if (!density)
        return false;
    if (sweep->rounds > 0) {
        if (!fault_sweep_fired(sweep))
            return false;
        sweep->fired++;
        unlink(sweep->report_path);
        sweep->at += 1 + sweep->at / density;
    }
    sweep->rounds++;
    snprintf(sweep->report_path, sizeof(sweep->report_path), "%s/fired", dir);
    snprintf(sweep->report, sizeof(sweep->report), "DVG_FAULT_REPORT=%s", sweep->report_path);
    snprintf(sweep->preload, sizeof(sweep->preload), "LD_PRELOAD=%s", getenv("DVG_FAULT_LIB"));
    snprintf(sweep->fault, sizeof(sweep->fault), "DVG_FAULT=%s:%ld:%s%s", sweep->kind, sweep->at,
             sweep->error, sweep->on ? ":on" : "");
    return true;
}

void fault_sweep_done(const struct fault_sweep *sweep)
{
    if (!(swept ? sweep->dense : sweep->quick))
        return;
    printf("%s:%s%s: %ld points through call %ld\n", sweep->kind, sweep->error,
           sweep->on ? ":on" : "", sweep->fired, sweep->at);
    if (!sweep->fired)
        fail_msg("%s:%s: no call to fail", sweep->kind, sweep->error);
}

/* ---- trainings ------------------------------------------------------------------------------- */

void training_read(struct training *ret, const char *text)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        uint64_t step;
        uint64_t dropped;
        uint64_t committed;
        int rc;
        if (sscanf(line, "step %" SCNu64 " %d %" SCNu64 " %" SCNu64, &step, &rc, &dropped,
                   &committed) == 4) {
            if (committed)
                ret->committed = committed;
            if (rc == 0 && !dropped)
                ret->acknowledged = (int64_t)step;
        }
        if (sscanf(line, "end %d %d %" SCNu64 " %" SCNu64 " %16s", &ret->opened, &ret->closed,
                   &ret->recorded, &ret->dropped, ret->result) == 5)
            ret->ended = true;
    }
}

void training_run(struct training *ret, const char *name, const char *const *env, int fault_step)
{
    enum { MAX_ENV = 16 };
    char run[64];
    char steps[16];
    char every[16];
    char wait[16];
    char fault[16];
    snprintf(run, sizeof(run), "DIVERGE_RUN_NAME=%s", name);
    snprintf(steps, sizeof(steps), "%d", TRAINING_STEPS);
    snprintf(every, sizeof(every), "%d", TRAINING_FLUSH_EVERY);
    snprintf(wait, sizeof(wait), "%d", TRAINING_FLUSH_MS);
    snprintf(fault, sizeof(fault), "%d", fault_step);
    const char *all[MAX_ENV] = {run};
    for (int i = 0; env && env[i]; i++) {
        assert_true(i + 2 < MAX_ENV);
        all[i + 1] = env[i];
    }
    const char *const argv[] = {getenv("DVG_FAULT_TRAINER"),   steps, every, wait,
                                fault_step < 0 ? NULL : fault, NULL};
    struct dvg_process p;
    dvg_process_run(&p, argv, all);
    *ret = (struct training){.acknowledged = -1, .status = dvg_process_status(&p)};
    training_read(ret, p.out);
    ret->warnings = p.err;
    p.err = NULL;
    dvg_process_fini(&p);
}

void training_fini(struct training *training)
{
    free(training->warnings);
    *training = (struct training){0};
}

void training_check_unharmed(const struct training *training, const char *what)
{
    static char expected[17];
    if (!*expected) {
        struct training alone;
        training_run(&alone, "alone", (const char *const[]){"DIVERGE_DISABLE=1", NULL}, -1);
        assert_true(alone.ended);
        memcpy(expected, alone.result, sizeof(expected));
        training_fini(&alone);
    }
    if (training->status || !training->ended)
        fail_msg("%s: the training ended with status %d: %s", what, training->status,
                 training->warnings);
    if (strcmp(training->result, expected) != 0)
        fail_msg("%s: trained to %s, not %s", what, training->result, expected);
}

/* ---- spool files ----------------------------------------------------------------------------- */

bool spool_is_empty(const struct dvg_daemon *d)
{
    DIR *dir = opendir(d->spool);
    const struct dirent *entry = NULL;
    bool empty = true;
    while (dir && empty && (entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        empty = len < 6 || strcmp(entry->d_name + len - 6, ".spool") != 0;
    }
    if (dir)
        closedir(dir);
    return empty;
}

void spool_await_empty(const struct dvg_daemon *d)
{
    if (spool_is_empty(d))
        return;
    int fd = inotify_init1(IN_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(inotify_add_watch(fd, d->spool, IN_DELETE | IN_MOVE) >= 0);
    while (!spool_is_empty(d)) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        char events[4096];
        if (poll(&poller, 1, DVG_FIXTURE_WAIT_MS) != 1 || read(fd, events, sizeof(events)) <= 0) {
            dvg_daemon_print_log(d);
            fail_msg("spool files stay in %s", d->spool);
        }
    }
    close(fd);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

/* Little is recorded here, so commits and checkpoints are made more often than usual. */
static const char *const eager[] = {
    "--linger-ms", "0", "--checkpoint-bytes", "64K", "--retention-bytes", "1G", NULL};

void daemon_start_eager(struct dvg_daemon *d, const char *const *env)
{
    dvg_daemon_start(d, eager, env);
}

bool daemon_try_start_eager(struct dvg_daemon *d, const char *const *env, int *ret_status)
{
    return dvg_daemon_try_start(d, eager, env, ret_status);
}

void ctl_run(struct dvg_process *p, const char *const *env, const char *const *words)
{
    enum { MAX_WORDS = 16 };
    const char *argv[MAX_WORDS] = {getenv("DVG_DIVERGECTL")};
    for (int i = 0; words[i]; i++) {
        assert_true(i + 2 < MAX_WORDS);
        argv[i + 1] = words[i];
    }
    dvg_process_run(p, argv, env);
}

/* ---- the store ------------------------------------------------------------------------------- */

static sqlite3_stmt *store_query(const char *store, const char *sql, sqlite3 **ret_db)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(store, ret_db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(*ret_db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(*ret_db));
    return statement;
}

int64_t store_number(const char *store, const char *sql, const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = store_query(store, sql, &db);
    if (text)
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
    int64_t number =
        sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static void check_integrity(const char *store)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = store_query(store, "PRAGMA integrity_check", &db);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

/* How many sealed segments up to `last` of run `whole` are the same, with nothing lost, in run `name`; with `missing`,
 * how many are not. */
static int64_t count_segments(const char *store, const char *whole, const char *name, int64_t last,
                              bool missing)
{
    char sql[1024];
    snprintf(sql, sizeof(sql),
             "WITH s AS (SELECT runs.name AS run, segments.* FROM segments"
             " JOIN streams ON streams.id = segments.stream JOIN runs ON runs.id = streams.run)"
             " SELECT count(*) FROM s AS a WHERE a.run = '%s' AND a.segment <= %" PRId64
             " AND a.flags & 1 AND %s EXISTS (SELECT 1 FROM s AS b WHERE b.run = ?1"
             " AND b.tier = a.tier AND b.segment = a.segment AND b.flags = a.flags"
             " AND b.dropped = 0 AND b.records = a.records AND b.digest IS a.digest)",
             whole, last, missing ? "NOT" : "");
    return store_number(store, sql, name);
}

static void check_acknowledged(const char *store, const char *whole, const char *name,
                               const struct training *training)
{
    int64_t there = store_number(store,
                                 "SELECT total(segments.records) FROM segments"
                                 " JOIN streams ON streams.id = segments.stream"
                                 " JOIN runs ON runs.id = streams.run WHERE runs.name = ?1",
                                 name);
    if (there < (int64_t)training->committed)
        fail_msg("%s: %d records acknowledged, %d stored", name, (int)training->committed,
                 (int)there);
    /* Boundary k + 1 was open when step k was flushed. */
    int64_t last = 2 * training->acknowledged + 2;
    int64_t missing =
        training->acknowledged < 0 ? 0 : count_segments(store, whole, name, last, true);
    if (missing)
        fail_msg("%s: %d segments through step %d, all acknowledged, are missing or changed", name,
                 (int)missing, (int)training->acknowledged);
}

void store_check_training(const struct dvg_daemon *d, const char *whole, const char *name,
                          const struct training *training, bool expect_whole)
{
    check_integrity(d->store);
    bool known = store_number(d->store, "SELECT count(*) FROM runs WHERE name = ?1", name) > 0;
    if (!known) {
        if (expect_whole || training->committed || (training->ended && !training->closed))
            fail_msg("%s: is not in the store, but %d records were acknowledged, close gave %d",
                     name, (int)training->committed, training->closed);
        return;
    }
    assert_true(count_segments(d->store, whole, whole, INT64_MAX, false) > 3 * TRAINING_STEPS);
    check_acknowledged(d->store, whole, name, training);
    bool all = count_segments(d->store, whole, name, INT64_MAX, true) == 0;
    struct dvg_process p;
    ctl_run(&p, NULL, (const char *const[]){"first-diff", whole, name, NULL});
    int status = dvg_process_status(&p);
    if (status == 0 && !all)
        fail_msg("%s lost something, and first-diff says it is the same: %s", name, p.out);
    if (status != 0 && (status != 2 || expect_whole))
        fail_msg("%s against %s: first-diff %d (open %d, close %d, dropped %d): %s%s", name, whole,
                 status, training->opened, training->closed, (int)training->dropped, p.out, p.err);
    dvg_process_fini(&p);
}
