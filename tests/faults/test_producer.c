/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call of a training's libdiverge fails, or kills it, in turn. The training ends as if nothing
 * were recorded: status 0 and the same bits. What it was told is stored is stored, losses are told,
 * and no first-diff takes a run that lost something for a whole one.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/faults/faults.h"

enum { ROUNDS_MAX = 1024 };

static struct dvg_daemon d;

struct round {
    char name[32];
    char fault[160];
    struct training training;
};

static void check_round(const struct round *round, bool kills)
{
    const struct training *training = &round->training;
    if (kills && training->status == 128 + SIGKILL) {
        store_check_training(&d, "whole", round->name, training, false);
        return;
    }
    training_check_unharmed(training, round->fault);
    bool kept =
        !training->opened && !training->dropped && (!training->closed || training->closed == -15);
    /* Nothing is lost in silence: a status, a count, or a warning. */
    store_check_training(&d, "whole", round->name, training, kept);
}

static void record_whole(const char *name)
{
    struct training whole;
    training_run(&whole, name, NULL, -1);
    assert_int_equal(whole.closed, 0);
    training_check_unharmed(&whole, name);
    training_fini(&whole);
}

/* One daemon for all rounds: if `listening`, there while they record, else only afterwards. */
static void sweep(struct fault_sweep sweep, bool listening)
{
    static struct round rounds[ROUNDS_MAX];
    size_t n = 0;
    dvg_daemon_init(&d);
    if (listening)
        daemon_start_eager(&d, NULL);
    while (fault_sweep_next(&sweep, d.dir)) {
        assert_true(n < ROUNDS_MAX);
        struct round *round = &rounds[n++];
        const char *const env[] = {sweep.preload, sweep.fault, sweep.report, NULL};
        snprintf(round->name, sizeof(round->name), "faulty-%ld", sweep.at);
        snprintf(round->fault, sizeof(round->fault), "%s", sweep.fault);
        training_run(&round->training, round->name, env, -1);
    }
    if (!listening)
        daemon_start_eager(&d, NULL);
    spool_await_empty(&d);
    record_whole("whole");
    dvg_daemon_stop(&d);
    for (size_t i = 0; i < n; i++) {
        check_round(&rounds[i], strcmp(sweep.error, "KILL") == 0);
        training_fini(&rounds[i].training);
    }
    fault_sweep_done(&sweep);
}

static int tear_down(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

#define CASE(name_, listening_, ...)                                                               \
    static void name_(void **state)                                                                \
    {                                                                                              \
        (void)state;                                                                               \
        sweep((struct fault_sweep){__VA_ARGS__}, listening_);                                      \
    }

CASE(memory_fails, true, .kind = "alloc", .error = "ENOMEM", .dense = 60, .quick = 2)
CASE(memory_stays_short, true, .kind = "alloc", .error = "ENOMEM", .on = true, .dense = 2)
CASE(sends_fail, true, .kind = "send", .error = "EPIPE", .dense = 100, .quick = 2)
CASE(sends_stay_broken, true, .kind = "send", .error = "EPIPE", .on = true, .dense = 100,
     .quick = 1)
CASE(sends_are_interrupted, true, .kind = "send", .error = "EINTR", .dense = 100, .quick = 1)
CASE(reads_fail, true, .kind = "read", .error = "EIO", .dense = 100, .quick = 2)
CASE(opens_fail, true, .kind = "open", .error = "EMFILE", .dense = 100, .quick = 2)
CASE(opens_stay_broken, true, .kind = "open", .error = "EMFILE", .on = true, .dense = 100,
     .quick = 1)
CASE(threads_fail, true, .kind = "thread", .error = "EAGAIN", .dense = 100, .quick = 1)
CASE(dies_at_a_send, true, .kind = "send", .error = "KILL", .dense = 100, .quick = 1)
CASE(dies_at_an_allocation, true, .kind = "alloc", .error = "KILL", .dense = 30, .quick = 1)

CASE(memory_fails_alone, false, .kind = "alloc", .error = "ENOMEM", .dense = 40, .quick = 2)
CASE(writes_fail_alone, false, .kind = "write", .error = "EIO", .dense = 100, .quick = 2)
CASE(disk_is_full_alone, false, .kind = "write", .error = "ENOSPC", .on = true, .dense = 100,
     .quick = 2)
CASE(reads_fail_alone, false, .kind = "read", .error = "EIO", .dense = 100, .quick = 1)
CASE(opens_fail_alone, false, .kind = "open", .error = "EMFILE", .dense = 100, .quick = 2)
CASE(dies_at_a_write_alone, false, .kind = "write", .error = "KILL", .dense = 100, .quick = 1)

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(memory_fails),      TEST(memory_stays_short),    TEST(sends_fail),
        TEST(sends_stay_broken), TEST(sends_are_interrupted), TEST(reads_fail),
        TEST(opens_fail),        TEST(opens_stay_broken),     TEST(threads_fail),
        TEST(dies_at_a_send),    TEST(dies_at_an_allocation), TEST(memory_fails_alone),
        TEST(writes_fail_alone), TEST(disk_is_full_alone),    TEST(reads_fail_alone),
        TEST(opens_fail_alone),  TEST(dies_at_a_write_alone),
    };
    faults_set_tier(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
