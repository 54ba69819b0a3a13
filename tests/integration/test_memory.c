/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations of the daemon fail, one a round: it serves, or ends with a status of its own and a
 * reason; it never crashes, and what it acknowledged stays. Rounds grow further apart; DVG_EVERY=1
 * takes each call.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/producer.h"
#include "tests/support/daemon_fixture.h"

static struct dvg_daemon d;
static char preload[512];
static char fault[128];
static char report[DVG_FIXTURE_PATH_MAX + 32];
static char report_path[DVG_FIXTURE_PATH_MAX + 16];

static int setup(void **state)
{
    (void)state;
    dvg_daemon_init(&d);
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("DVG_FAULT_LIB"));
    snprintf(report_path, sizeof(report_path), "%s/fired", d.dir);
    snprintf(report, sizeof(report), "DVG_FAULT_REPORT=%s", report_path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

static void expect_own_status(int status, long at)
{
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) < EX__BASE)) {
        dvg_daemon_print_log(&d);
        fail_msg("allocation %ld: wait status 0x%x", at, (unsigned)status);
    }
}

/* A producer's steps, each acknowledged or not: the daemon may end under it. */
static uint64_t produce(struct producer_plan *plan)
{
    int acknowledged[2];
    assert_int_equal(pipe(acknowledged), 0);
    plan->flush = true;
    plan->report_fd = acknowledged[1];
    pid_t pid = producer_fork(plan);
    close(acknowledged[1]);
    uint64_t steps = 0;
    char byte;
    while (steps < plan->steps && read(acknowledged[0], &byte, 1) == 1)
        steps++;
    close(acknowledged[0]);
    dvg_child_kill(pid);
    return steps;
}

static void one_round(long at)
{
    char name[32];
    int status = 0;
    snprintf(name, sizeof(name), "run-%ld", at);
    snprintf(fault, sizeof(fault), "DVG_FAULT=alloc:%ld:ENOMEM", at);
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = name;
    plan.steps = 3;
    plan.records = 20;
    plan.flush_ms = 1000;
    if (!dvg_daemon_try_start(&d, NULL, (const char *const[]){preload, fault, report, NULL},
                              &status)) {
        expect_own_status(status, at);
        return;
    }
    uint64_t steps = produce(&plan);
    kill(d.pid, SIGTERM);
    expect_own_status(dvg_daemon_wait(&d), at);
    if (steps)
        assert_true(producer_stored_steps(d.store, &plan) >= steps);
}

static void failing_allocations_never_crash_it(void **state)
{
    (void)state;
    const char *every = getenv("DVG_EVERY");
    long rounds = 0;
    bool fired = true;
    for (long at = 0; fired; at += every ? 1 : 1 + at / 8) {
        unlink(report_path);
        one_round(at);
        fired = access(report_path, F_OK) == 0;
        rounds++;
    }
    store_check_integrity(d.store);
    printf("%ld rounds\n", rounds);
    assert_true(rounds > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(failing_allocations_never_crash_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
