/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 at random points. Whatever was acknowledged is in the store afterwards, and the store is
 * sound. The seed is printed; DVG_SEED repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/producer.h"
#include "tests/support/daemon_fixture.h"

static struct dvg_daemon d;
static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

static int setup(void **state)
{
    (void)state;
    const char *seed = getenv("DVG_SEED");
    if (seed)
        random_state = strtoull(seed, NULL, 10);
    else if (getrandom(&random_state, sizeof(random_state), 0) != sizeof(random_state))
        return 1;
    printf("seed %llu\n", (unsigned long long)random_state);
    dvg_daemon_init(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

/* A producer in a child, and how many of its steps were acknowledged. */
struct running {
    struct producer_plan plan;
    char name[24];
    pid_t pid;
    int report;
    uint64_t acknowledged;
};

static void begin(struct running *r, int number, uint64_t steps)
{
    int report[2];
    assert_int_equal(pipe(report), 0);
    *r = (struct running){.plan = PRODUCER_PLAN_INIT, .report = report[0]};
    snprintf(r->name, sizeof(r->name), "run-%d", number);
    r->plan.name = r->name;
    r->plan.records = 100 + (uint32_t)draw(3000);
    r->plan.steps = steps;
    r->plan.seed = (uint64_t)number;
    r->plan.flush = true;
    r->plan.report_fd = report[1];
    r->plan.forever = steps == 0;
    r->pid = producer_fork(&r->plan);
    close(report[1]);
}

/* Waits until `count` more steps are acknowledged. */
static void await(struct running *r, uint64_t count)
{
    char byte;
    for (; count; count--) {
        assert_int_equal(read(r->report, &byte, 1), 1);
        r->acknowledged++;
    }
}

/* What it said before it was killed counts as well. */
static void end(struct running *r)
{
    char byte;
    dvg_child_kill(r->pid);
    while (read(r->report, &byte, 1) == 1)
        r->acknowledged++;
    close(r->report);
}

static void killed_daemon_keeps_what_it_acknowledged(void **state)
{
    (void)state;
    enum { ROUNDS = 8, PRODUCERS = 3 };
    struct running running[PRODUCERS];
    dvg_daemon_start(&d, NULL, NULL);
    for (int i = 0; i < PRODUCERS; i++)
        begin(&running[i], i, 0);
    for (int round = 0; round < ROUNDS; round++) {
        await(&running[draw(PRODUCERS)], 1 + draw(12));
        dvg_daemon_kill(&d);
        for (int i = 0; i < PRODUCERS; i++)
            assert_true(producer_stored_steps(d.store, &running[i].plan) >=
                        running[i].acknowledged);
        store_check_integrity(d.store);
        dvg_daemon_start(&d, NULL, NULL);
    }
    for (int i = 0; i < PRODUCERS; i++)
        end(&running[i]);
    dvg_daemon_stop(&d);
    for (int i = 0; i < PRODUCERS; i++)
        assert_true(producer_stored_steps(d.store, &running[i].plan) >= running[i].acknowledged);
    store_check_integrity(d.store);
}

/* The producer outlives all kills, and ends with every record there, once. */
static void survivor_of_killed_daemons_is_complete(void **state)
{
    (void)state;
    enum { ROUNDS = 6 };
    struct running r;
    dvg_daemon_start(&d, NULL, NULL);
    begin(&r, 0, 120);
    for (int round = 0; round < ROUNDS; round++) {
        await(&r, 1 + draw(15));
        dvg_daemon_kill(&d);
        dvg_daemon_start(&d, NULL, NULL);
    }
    await(&r, r.plan.steps - r.acknowledged);
    close(r.report);
    producer_join(r.pid, 0);
    dvg_daemon_stop(&d);
    producer_check(d.store, &r.plan);
    producer_check_status(d.store, r.name, "complete");
    store_check_integrity(d.store);
}

static void killed_producers_keep_what_was_acknowledged(void **state)
{
    (void)state;
    enum { ROUNDS = 12 };
    struct running r[ROUNDS];
    dvg_daemon_start(&d, NULL, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        begin(&r[i], i, 0);
        await(&r[i], 1 + draw(10));
        end(&r[i]);
    }
    dvg_daemon_stop(&d);
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(producer_stored_steps(d.store, &r[i].plan) >= r[i].acknowledged);
        producer_check_status(d.store, r[i].name, "lost");
    }
    store_check_integrity(d.store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(killed_daemon_keeps_what_it_acknowledged),
        TEST(survivor_of_killed_daemons_is_complete),
        TEST(killed_producers_keep_what_was_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
