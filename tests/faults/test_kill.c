/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 again and again, at writes and sends drawn at random, of a daemon and of some of its
 * trainings. Trainings that live end with every record in the store, once; of the others, what was
 * acknowledged is there. The seed is printed; DVG_SEED repeats a run.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/faults/faults.h"

enum { TRAININGS = 4, MORTAL = 2 /* the last ones are killed as well */, STEPS = 60 };

static struct dvg_daemon d;
static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

struct running {
    char name[16];
    char log[DVG_FIXTURE_PATH_MAX + 32];
    pid_t pid; /* 0: ended */
    int fd;    /* pidfd */
    int status;
};

static void begin(struct running *r, int number)
{
    struct training_plan plan = TRAINING_PLAN_INIT;
    char preload[512];
    char fault[64];
    *r = (struct running){0};
    snprintf(r->name, sizeof(r->name), "run-%d", number);
    snprintf(r->log, sizeof(r->log), "%s/run-%d.log", d.dir, number);
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("DVG_FAULT_LIB"));
    snprintf(fault, sizeof(fault), "DVG_FAULT=send:%d:KILL", (int)draw(60));
    plan.name = r->name;
    plan.steps = STEPS;
    plan.flush_every = 1 + (int)draw(4);
    plan.flush_ms = DVG_FIXTURE_WAIT_MS;
    bool mortal = number >= TRAININGS - MORTAL;
    const char *const env[] = {preload, fault, NULL};
    r->pid = training_start(&plan, mortal ? env : NULL, r->log);
    r->fd = pidfd_open(r->pid, 0);
    assert_true(r->fd >= 0);
}

/* Waits until the daemon has ended (true), or all trainings have. */
static bool await_death(struct running *r)
{
    int daemon = pidfd_open(d.pid, 0);
    assert_true(daemon >= 0);
    bool died = false;
    for (;;) {
        struct pollfd fds[TRAININGS + 1] = {{.fd = daemon, .events = POLLIN}};
        int left = 0;
        for (int i = 0; i < TRAININGS; i++) {
            fds[i + 1] = (struct pollfd){.fd = r[i].pid ? r[i].fd : -1, .events = POLLIN};
            left += r[i].pid != 0;
        }
        if (!left)
            break;
        assert_true(poll(fds, TRAININGS + 1, 2 * DVG_FIXTURE_WAIT_MS) > 0);
        for (int i = 0; i < TRAININGS; i++) {
            if (fds[i + 1].revents && dvg_child_wait(r[i].pid, 0, &r[i].status)) {
                close(r[i].fd);
                r[i].pid = 0;
            }
        }
        died = fds[0].revents != 0;
        if (died)
            break;
    }
    close(daemon);
    return died;
}

/* Starts daemons that die at a write of their own until all trainings have ended; how many died. */
static int kill_until_done(struct running *r)
{
    char preload[512];
    char fault[64];
    int deaths = 0;
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("DVG_FAULT_LIB"));
    for (;;) {
        /* Opening a store takes some dozens of writes. */
        const char *kind = draw(4) ? "write" : "sync";
        snprintf(fault, sizeof(fault), "DVG_FAULT=%s:%d:KILL", kind,
                 (int)draw(*kind == 'w' ? 300 : 30));
        const char *const env[] = {preload, fault, NULL};
        int status = 0;
        bool ready = daemon_try_start_eager(&d, env, &status);
        if (ready && !await_death(r)) {
            dvg_daemon_kill(&d);
            return deaths;
        }
        if (ready)
            status = dvg_daemon_wait(&d);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            dvg_daemon_print_log(&d);
            fail_msg("%s: the daemon ended by itself, wait status 0x%x", fault, (unsigned)status);
        }
        deaths++;
    }
}

static void read_log(const struct running *r, struct training *ret)
{
    static char text[65536];
    FILE *f = fopen(r->log, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    *ret = (struct training){.acknowledged = -1};
    ret->status = WIFEXITED(r->status) ? WEXITSTATUS(r->status) : 128 + WTERMSIG(r->status);
    training_read(ret, text);
}

static void check(struct running *r)
{
    struct training whole;
    struct training_plan plan = TRAINING_PLAN_INIT;
    plan.name = "whole";
    plan.steps = STEPS;
    daemon_start_eager(&d, NULL);
    spool_await_empty(&d);
    training_run_plan(&whole, &plan, NULL);
    assert_int_equal(whole.closed, 0);
    dvg_daemon_stop(&d);
    for (int i = 0; i < TRAININGS; i++) {
        struct training training;
        read_log(&r[i], &training);
        bool killed = i >= TRAININGS - MORTAL && training.status == 128 + SIGKILL;
        if (!killed) {
            assert_int_equal(training.status, 0);
            assert_string_equal(training.result, whole.result);
        }
        store_check_training(&d, "whole", r[i].name, &training, !killed);
    }
    assert_true(store_number(d.store, "SELECT count(*) FROM streams", NULL) <= TRAININGS + 1);
    training_fini(&whole);
}

static void killed_daemons_and_trainings_lose_nothing_acknowledged(void **state)
{
    (void)state;
    int rounds = faults_are_swept() ? 12 : 2;
    int deaths = 0;
    for (int round = 0; round < rounds; round++) {
        struct running running[TRAININGS];
        dvg_daemon_init(&d);
        /* So that trainings find a daemon, or a place where one will be. */
        for (int i = 0; i < TRAININGS; i++)
            begin(&running[i], i);
        deaths += kill_until_done(running);
        check(running);
        dvg_daemon_fini(&d);
    }
    printf("%d daemons killed in %d rounds\n", deaths, rounds);
    assert_true(deaths >= rounds);
}

static int tear_down(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(killed_daemons_and_trainings_lose_nothing_acknowledged,
                                  tear_down),
    };
    faults_set_tier(argc, argv);
    const char *seed = getenv("DVG_SEED");
    if (seed)
        random_state = strtoull(seed, NULL, 10);
    else if (getrandom(&random_state, sizeof(random_state), 0) != sizeof(random_state))
        return 1;
    printf("seed %llu\n", (unsigned long long)random_state);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
