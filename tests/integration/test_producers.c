/* SPDX-License-Identifier: Apache-2.0 */
/* Many honest producers: at once, through restarts, through fork, against a slow daemon, from spool
 * files. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <diverge/diverge.h>

#include "tests/integration/producer.h"
#include "tests/integration/rawpeer.h"
#include "tests/integration/watch.h"
#include "tests/support/daemon_fixture.h"

static struct dvg_daemon d;

static int setup(void **state)
{
    (void)state;
    dvg_daemon_init(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

static struct producer_plan plan_of(const char *name, uint64_t steps, uint32_t records)
{
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = name;
    plan.steps = steps;
    plan.records = records;
    return plan;
}

static void sixteen_processes_at_once_lose_nothing(void **state)
{
    (void)state;
    enum { N = 16 };
    static char names[N][16];
    struct producer_plan plans[N];
    pid_t pids[N];
    dvg_daemon_start(&d, NULL, NULL);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "run-%d", i);
        plans[i] = plan_of(names[i], 40, 200);
        plans[i].seed = (uint64_t)i;
        pids[i] = producer_fork(&plans[i]);
    }
    for (int i = 0; i < N; i++)
        producer_join(pids[i], 0);
    dvg_daemon_stop(&d);
    for (int i = 0; i < N; i++) {
        producer_check(d.store, &plans[i]);
        producer_check_status(d.store, names[i], "complete");
    }
    store_check_integrity(d.store);
}

static void *run_thread(void *argument)
{
    return (void *)(intptr_t)producer_run(argument);
}

static void ranks_of_one_run_from_threads_share_it(void **state)
{
    (void)state;
    enum { N = 8 };
    struct producer_plan plans[N];
    pthread_t threads[N];
    dvg_daemon_start(&d, NULL, NULL);
    for (int i = 0; i < N; i++) {
        plans[i] = plan_of("shared", 30, 100);
        plans[i].run_id = "0123456789abcdef0123456789abcdef";
        plans[i].rank = i;
        plans[i].world = N;
        plans[i].seed = (uint64_t)i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, &plans[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *rc = NULL;
        pthread_join(threads[i], &rc);
        assert_null(rc);
    }
    dvg_daemon_stop(&d);
    for (int i = 0; i < N; i++)
        producer_check(d.store, &plans[i]);
    producer_check_status(d.store, "shared", "complete");
}

/* The daemon is stopped, and started again, while records are on their way. */
static void restarts_in_mid_stream_lose_and_repeat_nothing(void **state)
{
    (void)state;
    enum { RESTARTS = 5, STEPS_BETWEEN = 20 };
    int report[2];
    assert_int_equal(pipe(report), 0);
    dvg_daemon_start(&d, NULL, NULL);
    struct producer_plan plan = plan_of("restarted", (RESTARTS + 1) * STEPS_BETWEEN, 100);
    plan.flush = true;
    plan.report_fd = report[1];
    pid_t pid = producer_fork(&plan);
    close(report[1]);
    char byte;
    for (uint64_t step = 1; step <= plan.steps; step++) {
        assert_int_equal(read(report[0], &byte, 1), 1);
        if (step % STEPS_BETWEEN == 7 && step / STEPS_BETWEEN < RESTARTS) {
            dvg_daemon_stop(&d);
            dvg_daemon_start(&d, NULL, NULL);
        }
    }
    close(report[0]);
    producer_join(pid, 0);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
    producer_check_status(d.store, "restarted", "complete");
}

/*
 * Nothing waits here: the producer runs as fast as it can across the restarts, and may end while
 * there is no daemon. The one that runs then takes in what it left behind.
 */
static void restarts_at_full_speed_lose_and_repeat_nothing(void **state)
{
    (void)state;
    struct watch watch;
    watch_open(&watch, d.spool);
    dvg_daemon_start(&d, NULL, NULL);
    struct producer_plan plan = plan_of("fast", 400, 1000);
    pid_t pid = producer_fork(&plan);
    for (int i = 0; i < 4; i++) {
        dvg_daemon_stop(&d);
        dvg_daemon_start(&d, NULL, NULL);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    char path[300];
    if (watch_find_spool(d.spool, path, sizeof(path)))
        watch_until_gone(&watch, path);
    watch_close(&watch);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
}

/* A producer that never sees the daemon of its store: its file comes while that one runs. */
static void spool_that_comes_while_the_daemon_runs_is_imported(void **state)
{
    (void)state;
    struct watch watch;
    watch_open(&watch, d.spool);
    dvg_daemon_start(&d, NULL, NULL);
    char elsewhere[200];
    snprintf(elsewhere, sizeof(elsewhere), "%s/r/nobody", d.dir);
    setenv("DIVERGE_SOCKET", elsewhere, 1);
    struct producer_plan plan = plan_of("elsewhere", 20, 100);
    producer_join(producer_fork(&plan), 1);
    setenv("DIVERGE_SOCKET", d.socket, 1);
    char path[300];
    if (watch_find_spool(d.spool, path, sizeof(path)))
        watch_until_gone(&watch, path);
    watch_close(&watch);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
}

static void child_of_fork_leaves_the_parents_stream_alone(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.name = "forked";
    struct diverge_session *session = NULL;
    assert_int_equal(diverge_session_open(&options, &session), 0);
    struct diverge_lane *lane = diverge_lane_open(session, "main");
    const struct diverge_observation what = {
        .role = DIVERGE_ROLE_SCALAR,
        .tier = DIVERGE_TIER_OP,
        .name = diverge_name(session, "x"),
    };
    diverge_boundary(session, 0);
    diverge_step(session, 0);
    assert_int_equal(diverge_record_integer(lane, &what, 1), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool closed = diverge_record_integer(lane, &what, 2) == DIVERGE_ECLOSED &&
                      diverge_boundary(session, 1) == DIVERGE_ECLOSED &&
                      diverge_flush(session, 1000) == DIVERGE_ECLOSED;
        diverge_session_close(session, DIVERGE_OUTCOME_FAILED);
        _exit(closed ? 0 : 1);
    }
    producer_join(pid, 0);
    assert_int_equal(diverge_record_integer(lane, &what, 3), 0);
    diverge_boundary(session, 1);
    assert_int_equal(diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE), 0);
    dvg_daemon_stop(&d);
    producer_check_status(d.store, "forked", "complete");
}

/* A queue that holds next to nothing: producers are slowed down, nothing is lost. */
static void full_queue_slows_producers_down(void **state)
{
    (void)state;
    enum { N = 4 };
    static char names[N][16];
    struct producer_plan plans[N];
    pid_t pids[N];
    dvg_daemon_start(&d, (const char *const[]){"--queue-bytes=64K", "--connection-bytes=64K", NULL},
                     NULL);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "slow-%d", i);
        plans[i] = plan_of(names[i], 60, 4000);
        plans[i].seed = (uint64_t)i;
        pids[i] = producer_fork(&plans[i]);
    }
    for (int i = 0; i < N; i++)
        producer_join(pids[i], 0);
    dvg_daemon_stop(&d);
    for (int i = 0; i < N; i++)
        producer_check(d.store, &plans[i]);
}

/* A stopped daemon is the slowest of all; training goes on meanwhile and all is there in the end.
 */
static void stopped_daemon_does_not_lose_a_record(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    struct producer_plan plan = plan_of("stopped", 100, 500);
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    plan.gate_fd = gate[0];
    pid_t pid = producer_fork(&plan);
    close(gate[0]);
    for (uint64_t k = 0; k < plan.steps; k++) {
        if (k == 30)
            kill(d.pid, SIGSTOP);
        if (k == 70)
            kill(d.pid, SIGCONT);
        assert_int_equal(write(gate[1], "+", 1), 1);
    }
    close(gate[1]);
    producer_join(pid, 0);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
}

/* ---- spool files ---- */

/* A producer that never found a daemon leaves its records in a file; the next daemon takes it in.
 */
static void orphaned_spool_is_imported_at_start(void **state)
{
    (void)state;
    struct producer_plan plan = plan_of("orphan", 50, 100);
    producer_join(producer_fork(&plan), 1);
    char path[300];
    assert_true(watch_find_spool(d.spool, path, sizeof(path)));
    struct watch watch;
    watch_open(&watch, d.spool);
    dvg_daemon_start(&d, NULL, NULL);
    watch_until_gone(&watch, path);
    watch_close(&watch);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
    producer_check_status(d.store, "orphan", "complete");
}

static void killed_producers_spool_is_imported_at_start(void **state)
{
    (void)state;
    int report[2];
    assert_int_equal(pipe(report), 0);
    dvg_daemon_start(&d, NULL, NULL);
    struct producer_plan plan = plan_of("killed", 10, 100);
    plan.flush = true;
    plan.forever = true;
    plan.report_fd = report[1];
    pid_t pid = producer_fork(&plan);
    close(report[1]);
    char byte;
    for (uint64_t k = 0; k < plan.steps; k++)
        assert_int_equal(read(report[0], &byte, 1), 1);
    struct watch watch;
    watch_open(&watch, d.spool);
    dvg_daemon_stop(&d);
    char path[300];
    watch_until_spool(&watch, path, sizeof(path));
    dvg_child_kill(pid);
    close(report[0]);
    dvg_daemon_start(&d, NULL, NULL);
    watch_until_gone(&watch, path);
    watch_close(&watch);
    dvg_daemon_stop(&d);
    assert_true(producer_stored_steps(d.store, &plan) >= plan.steps);
    store_check_integrity(d.store);
}

/* A producer that lives keeps its file: it sends it itself. */
static void live_producers_spool_is_left_to_it(void **state)
{
    (void)state;
    struct producer_plan plan = plan_of("live", 60, 100);
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    plan.gate_fd = gate[0];
    struct watch watch;
    watch_open(&watch, d.dir);
    pid_t pid = producer_fork(&plan);
    close(gate[0]);
    for (int k = 0; k < 30; k++)
        assert_int_equal(write(gate[1], "+", 1), 1);
    watch_until_exists(&watch, d.spool);
    struct watch files;
    watch_open(&files, d.spool);
    char path[300];
    watch_until_spool(&files, path, sizeof(path));
    dvg_daemon_start(&d, NULL, NULL);
    for (int k = 30; k < 60; k++)
        assert_int_equal(write(gate[1], "+", 1), 1);
    close(gate[1]);
    producer_join(pid, 0);
    watch_until_gone(&files, path);
    watch_close(&files);
    watch_close(&watch);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
    producer_check_status(d.store, "live", "complete");
}

static void damaged_spool_is_set_aside(void **state)
{
    (void)state;
    struct producer_plan plan = plan_of("damaged", 50, 100);
    producer_join(producer_fork(&plan), 1);
    char path[300];
    assert_true(watch_find_spool(d.spool, path, sizeof(path)));
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 2000, SEEK_SET), 0);
    for (int i = 0; i < 64; i++)
        fputc(0xa5, file);
    fclose(file);
    struct watch watch;
    watch_open(&watch, d.spool);
    dvg_daemon_start(&d, NULL, NULL);
    watch_until_gone(&watch, path);
    watch_close(&watch);
    char aside[310];
    snprintf(aside, sizeof(aside), "%s.bad", path);
    assert_int_equal(access(aside, F_OK), 0);
    dvg_daemon_stop(&d);
    store_check_integrity(d.store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sixteen_processes_at_once_lose_nothing),
        TEST(ranks_of_one_run_from_threads_share_it),
        TEST(restarts_in_mid_stream_lose_and_repeat_nothing),
        TEST(restarts_at_full_speed_lose_and_repeat_nothing),
        TEST(spool_that_comes_while_the_daemon_runs_is_imported),
        TEST(child_of_fork_leaves_the_parents_stream_alone),
        TEST(full_queue_slows_producers_down),
        TEST(stopped_daemon_does_not_lose_a_record),
        TEST(orphaned_spool_is_imported_at_start),
        TEST(killed_producers_spool_is_imported_at_start),
        TEST(live_producers_spool_is_left_to_it),
        TEST(damaged_spool_is_set_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
