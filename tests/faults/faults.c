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
#include <sys/pidfd.h>
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

/* The trainer's command line and environment. */
struct words {
    char numbers[4][16];
    char name[64];
    const char *argv[8];
    const char *env[16];
};

static void make_words(struct words *words, const struct training_plan *plan,
                       const char *const *env)
{
    const int numbers[] = {plan->steps, plan->flush_every, plan->flush_ms, plan->fault_step};
    words->argv[0] = getenv("DVG_FAULT_TRAINER");
    assert_non_null(words->argv[0]);
    for (int i = 0; i < 4; i++) {
        snprintf(words->numbers[i], sizeof(words->numbers[i]), "%d", numbers[i]);
        words->argv[i + 1] = words->numbers[i];
    }
    words->argv[plan->fault_step < 0 ? 4 : 5] = NULL;
    snprintf(words->name, sizeof(words->name), "DIVERGE_RUN_NAME=%s", plan->name);
    words->env[0] = words->name;
    size_t n = 1;
    for (; env && *env; env++) {
        assert_true(n + 1 < sizeof(words->env) / sizeof(words->env[0]));
        words->env[n++] = *env;
    }
    words->env[n] = NULL;
}

pid_t training_start(const struct training_plan *plan, const char *const *env, const char *log)
{
    struct words words;
    make_words(&words, plan, env);
    return dvg_child_start(words.argv, words.env, log);
}

void training_run_plan(struct training *ret, const struct training_plan *plan,
                       const char *const *env)
{
    struct words words;
    struct dvg_process p;
    make_words(&words, plan, env);
    dvg_process_run(&p, words.argv, words.env);
    *ret = (struct training){.acknowledged = -1, .status = dvg_process_status(&p)};
    training_read(ret, p.out);
    ret->warnings = p.err;
    p.err = NULL;
    dvg_process_fini(&p);
}

void training_run(struct training *ret, const char *name, const char *const *env, int fault_step)
{
    struct training_plan plan = TRAINING_PLAN_INIT;
    plan.name = name;
    plan.fault_step = fault_step;
    training_run_plan(ret, &plan, env);
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

bool spool_try_await_empty(const struct dvg_daemon *d)
{
    int watch = inotify_init1(IN_CLOEXEC);
    int daemon = pidfd_open(d->pid, 0);
    bool ended = false;
    assert_true(watch >= 0 && daemon >= 0);
    mkdir(d->spool, 0700);
    assert_true(inotify_add_watch(watch, d->spool, IN_DELETE | IN_MOVE) >= 0);
    while (!ended && !spool_is_empty(d)) {
        struct pollfd fds[2] = {{.fd = watch, .events = POLLIN}, {.fd = daemon, .events = POLLIN}};
        char events[4096];
        if (poll(fds, 2, DVG_FIXTURE_WAIT_MS) <= 0) {
            dvg_daemon_print_log(d);
            fail_msg("spool files stay in %s", d->spool);
        }
        if (fds[0].revents)
            assert_true(read(watch, events, sizeof(events)) > 0);
        ended = fds[1].revents != 0;
    }
    close(watch);
    close(daemon);
    return !ended;
}

void spool_await_empty(const struct dvg_daemon *d)
{
    if (!spool_try_await_empty(d)) {
        dvg_daemon_print_log(d);
        fail_msg("the daemon ended with spool files left in %s", d->spool);
    }
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

/* How many sealed segments up to `last` of run `whole` are the same, with nothing lost, in run
 * `name`; with `missing`, how many are not. */
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
    if (status != 0 && (status != 2 || expect_whole)) {
        dvg_daemon_print_log(d);
        fail_msg("%s against %s: first-diff %d (open %d, close %d, dropped %d): %s%s", name, whole,
                 status, training->opened, training->closed, (int)training->dropped, p.out, p.err);
    }
    dvg_process_fini(&p);
}
