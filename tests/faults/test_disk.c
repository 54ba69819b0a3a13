/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store on a file system that is really full: a tmpfs of a few MiB in a mount namespace of the
 * test's own. Where the user may not mount, writes fail by the fault library instead.
 *
 * What was acknowledged stays, trainings are told and go on, and when there is space again all that
 * was recorded meanwhile arrives.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/faults/faults.h"

enum { LONG_STEPS = 400 };

static struct dvg_daemon d;
static bool real; /* a file system of our own */
static char folder[DVG_FIXTURE_PATH_MAX + 16];
static char ballast[DVG_FIXTURE_PATH_MAX + 32];
static char preload[512];
static char fault[256];

static bool own_namespace(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int set_up(void **state)
{
    (void)state;
    dvg_daemon_init(&d);
    snprintf(folder, sizeof(folder), "%s/s", d.dir);
    if (real && mount("none", folder, "tmpfs", 0, "size=16m,mode=0700") != 0)
        return -1;
    snprintf(ballast, sizeof(ballast), "%s/%s", real ? folder : d.dir, "ballast");
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("DVG_FAULT_LIB"));
    snprintf(fault, sizeof(fault), "DVG_FAULT=write:@%s:ENOSPC", ballast);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dvg_daemon_kill(&d);
    if (real)
        umount2(folder, MNT_DETACH);
    dvg_daemon_fini(&d);
    return 0;
}

static const char *const *daemon_env(void)
{
    static const char *env[3];
    env[0] = real ? NULL : preload;
    env[1] = real ? NULL : fault;
    return env;
}

/* All space but `left` bytes is taken. */
static void fill(size_t left)
{
    static const char page[4096];
    int fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    off_t size = 0;
    ssize_t n;
    while (real && (n = write(fd, page, sizeof(page))) > 0)
        size += n;
    assert_true(!real || errno == ENOSPC);
    if (real && left)
        assert_int_equal(ftruncate(fd, size > (off_t)left ? size - (off_t)left : 0), 0);
    close(fd);
}

static void drain(void)
{
    assert_int_equal(unlink(ballast), 0);
}

static void run_long(struct training *ret, const char *name)
{
    struct training_plan plan = TRAINING_PLAN_INIT;
    plan.name = name;
    plan.steps = LONG_STEPS;
    plan.flush_every = LONG_STEPS / 4;
    training_run_plan(ret, &plan, NULL);
    assert_int_equal(ret->status, 0);
    assert_true(ret->ended);
}

static void expect_read_only(bool expected)
{
    struct dvg_process p;
    ctl_run(&p, NULL, (const char *const[]){"status", "--json", NULL});
    assert_int_equal(dvg_process_status(&p), 0);
    if (!strstr(p.out, expected ? "\"read_only\": true" : "\"read_only\": false"))
        fail_msg("status: %s", p.out);
    dvg_process_fini(&p);
}

static void check_all(struct training *full, size_t n)
{
    struct training whole;
    char name[16];
    run_long(&whole, "whole");
    if (whole.closed) {
        dvg_daemon_print_log(&d);
        fail_msg("close gave %d: %s", whole.closed, whole.warnings);
    }
    dvg_daemon_stop(&d);
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "full-%zu", i);
        assert_string_equal(full[i].result, whole.result);
        assert_int_equal(full[i].dropped, 0);
        store_check_training(&d, "whole", name, &full[i], true);
        training_fini(&full[i]);
    }
    training_fini(&whole);
}

static void full_disk_is_told_and_waited_out(void **state)
{
    (void)state;
    struct training full[2];
    struct training before;
    daemon_start_eager(&d, daemon_env());
    training_run(&before, "before", NULL, -1);
    assert_int_equal(before.closed, 0);
    fill(0);
    run_long(&full[0], "full-0");
    assert_int_equal(full[0].closed, -15);
    if (!strstr(full[0].warnings, "cannot store now"))
        fail_msg("the training was told: %s", full[0].warnings);
    expect_read_only(true);
    run_long(&full[1], "full-1"); /* one that finds it full */
    assert_int_equal(full[1].closed, -15);
    /* What is stored can be read all the while. */
    struct dvg_process p;
    ctl_run(&p, NULL, (const char *const[]){"show", "before", NULL});
    assert_int_equal(dvg_process_status(&p), 0);
    dvg_process_fini(&p);
    drain();
    spool_await_empty(&d);
    expect_read_only(false);
    check_all(full, 2);
    training_fini(&before);
}

static void killed_on_a_full_disk_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    struct training full[1];
    int status = 0;
    daemon_start_eager(&d, daemon_env());
    fill(96 * 1024);
    run_long(&full[0], "full-0");
    assert_int_equal(full[0].closed, -15);
    dvg_daemon_kill(&d);
    /* On a disk that is full still, it starts or says why not. */
    if (daemon_try_start_eager(&d, daemon_env(), &status))
        dvg_daemon_kill(&d);
    else
        assert_int_equal(WEXITSTATUS(status), 74);
    drain();
    daemon_start_eager(&d, daemon_env());
    spool_await_empty(&d);
    check_all(full, 1);
}

/* The disk fills up at each of many places in what is recorded. */
static void disk_fills_at_any_point(void **state)
{
    (void)state;
    int rounds = !real ? 0 : faults_are_swept() ? 24 : 3;
    for (int i = 0; i < rounds; i++) {
        struct training full[1];
        daemon_start_eager(&d, daemon_env());
        fill((size_t)(16 + 160 / rounds * i) * 1024);
        run_long(&full[0], "full-0");
        drain();
        spool_await_empty(&d);
        check_all(full, 1);
        tear_down(NULL);
        assert_int_equal(set_up(NULL), 0);
    }
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(full_disk_is_told_and_waited_out),
        TEST(killed_on_a_full_disk_keeps_what_was_acknowledged),
        TEST(disk_fills_at_any_point),
    };
    faults_set_tier(argc, argv);
    real = own_namespace();
    printf("%s\n", real ? "on a tmpfs of 16 MiB" : "no mount allowed: by the fault library");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
