/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fills up and is emptied again: nothing acknowledged is lost, nothing lost is
 * acknowledged. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/producer.h"
#include "tests/integration/rawpeer.h"
#include "tests/support/daemon_fixture.h"

static struct dvg_daemon d;
static char switch_path[DVG_FIXTURE_PATH_MAX + 16]; /* while it exists, the daemon's disk is full */
static char preload[512];
static char fault[512];

static int setup(void **state)
{
    (void)state;
    dvg_daemon_init(&d);
    snprintf(switch_path, sizeof(switch_path), "%s/full", d.dir);
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("DVG_FAULT_LIB"));
    snprintf(fault, sizeof(fault), "DVG_FAULT=write:@%s:ENOSPC", switch_path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

static void start_with_switch(void)
{
    dvg_daemon_start(&d, NULL, (const char *const[]){preload, fault, NULL});
}

static void fill_disk(void)
{
    int fd = open(switch_path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void empty_disk(void)
{
    assert_int_equal(unlink(switch_path), 0);
}

/* Asks until the daemon says what is expected of its read-only mode. */
static void await_read_only(bool expected)
{
    int fd = raw_connect(d.socket);
    char json[4096];
    const char *part = expected ? "\"read_only\":true" : "\"read_only\":false";
    do {
        raw_send_control(fd, "{\"command\":\"status\"}");
        raw_read_control(fd, json, sizeof(json));
        assert_non_null(strstr(json, "\"ok\":true"));
    } while (!strstr(json, part));
    close(fd);
}

static pid_t start_producer(struct producer_plan *plan, int *ret_report, int *ret_gate)
{
    int report[2];
    int gate[2];
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    plan->flush = true;
    plan->report_fd = report[1];
    plan->gate_fd = gate[0];
    pid_t pid = producer_fork(plan);
    close(report[1]);
    close(gate[0]);
    *ret_report = report[0];
    *ret_gate = gate[1];
    return pid;
}

static void let_steps(int gate, int report, int count)
{
    char byte;
    for (int i = 0; i < count; i++) {
        assert_int_equal(write(gate, "+", 1), 1);
        assert_int_equal(read(report, &byte, 1), 1);
    }
}

static void full_disk_is_waited_out(void **state)
{
    (void)state;
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = "waits";
    plan.steps = 40;
    plan.records = 300;
    int report;
    int gate;
    start_with_switch();
    pid_t pid = start_producer(&plan, &report, &gate);
    let_steps(gate, report, 10);
    fill_disk();
    assert_int_equal(write(gate, "+", 1), 1);
    await_read_only(true);
    /* Nothing is acknowledged meanwhile. */
    assert_int_equal(fcntl(report, F_SETFL, O_NONBLOCK), 0);
    char byte;
    assert_int_equal(read(report, &byte, 1), -1);
    assert_int_equal(fcntl(report, F_SETFL, 0), 0);
    assert_true(producer_stored_steps(d.store, &plan) >= 10);
    empty_disk();
    await_read_only(false);
    assert_int_equal(read(report, &byte, 1), 1);
    let_steps(gate, report, 29);
    producer_join(pid, 0);
    close(report);
    close(gate);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
    producer_check_status(d.store, "waits", "complete");
    store_check_integrity(d.store);
}

/* RLIMIT_FSIZE of the daemon that runs; the log's first frame is beyond 4 KiB. */
static void limit_files(rlim_t bytes)
{
    const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    assert_int_equal(prlimit(d.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void limit_of_file_size_is_waited_out_like_a_full_disk(void **state)
{
    (void)state;
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = "limited";
    plan.steps = 20;
    plan.records = 300;
    int report;
    int gate;
    dvg_daemon_start(&d, NULL, NULL);
    pid_t pid = start_producer(&plan, &report, &gate);
    let_steps(gate, report, 10);
    limit_files(4096);
    assert_int_equal(write(gate, "+", 1), 1);
    await_read_only(true);
    assert_true(producer_stored_steps(d.store, &plan) >= 10);
    limit_files(RLIM_INFINITY);
    await_read_only(false);
    char byte;
    assert_int_equal(read(report, &byte, 1), 1);
    let_steps(gate, report, 9);
    producer_join(pid, 0);
    close(report);
    close(gate);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
    store_check_integrity(d.store);
}

static void kill_with_a_full_disk_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = "killed";
    plan.steps = 30;
    plan.records = 300;
    int report;
    int gate;
    start_with_switch();
    pid_t pid = start_producer(&plan, &report, &gate);
    let_steps(gate, report, 10);
    fill_disk();
    assert_int_equal(write(gate, "+", 1), 1);
    await_read_only(true);
    dvg_daemon_kill(&d);
    assert_true(producer_stored_steps(d.store, &plan) >= 10);
    empty_disk();
    start_with_switch();
    char byte;
    assert_int_equal(read(report, &byte, 1), 1);
    let_steps(gate, report, 19);
    producer_join(pid, 0);
    close(report);
    close(gate);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
    store_check_integrity(d.store);
}

static void stop_with_a_full_disk_says_so_and_producers_keep_theirs(void **state)
{
    (void)state;
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = "ends";
    plan.steps = 20;
    plan.records = 300;
    int report;
    int gate;
    start_with_switch();
    pid_t pid = start_producer(&plan, &report, &gate);
    let_steps(gate, report, 10);
    fill_disk();
    assert_int_equal(write(gate, "+", 1), 1);
    await_read_only(true);
    kill(d.pid, SIGTERM);
    int status = dvg_daemon_wait(&d);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EX_IOERR);
    empty_disk();
    start_with_switch();
    char byte;
    assert_int_equal(read(report, &byte, 1), 1);
    let_steps(gate, report, 9);
    producer_join(pid, 0);
    close(report);
    close(gate);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
}

/* What cannot be stored is not taken in without end either. */
static void reading_stops_while_the_disk_is_full(void **state)
{
    (void)state;
    enum { CAP = 1024 * 1024, SLACK = 4 * CAP, QUIET_MS = 500 };
    dvg_daemon_start(&d, (const char *const[]){"--connection-bytes=1M", NULL},
                     (const char *const[]){preload, fault, NULL});
    int fd = raw_connect(d.socket);
    uint8_t bytes[8192];
    struct dvg_frame answer;
    raw_send_hello(fd, 1, 1);
    assert_int_equal(raw_read(fd, bytes, sizeof(bytes), &answer), DVG_MESSAGE_WELCOME);
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = "fills";
    plan.steps = 2;
    plan.records = 10;
    int report;
    int gate;
    pid_t pid = start_producer(&plan, &report, &gate);
    let_steps(gate, report, 1);
    fill_disk();
    assert_int_equal(write(gate, "+", 1), 1);
    await_read_only(true);
    /* Frames until no more are taken for a while; none is ever looked into. */
    uint8_t frame[DVG_FRAME_HEADER + 8192] = {0};
    dvg_store_u32(frame, DVG_FRAME_MAGIC);
    dvg_store_u16(frame + 4, DVG_MESSAGE_PART);
    dvg_store_u32(frame + 8, 8192);
    size_t sent = 0;
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    while (sent < SLACK && poll(&room, 1, QUIET_MS) == 1) {
        size_t at = sent % sizeof(frame);
        ssize_t n = send(fd, frame + at, sizeof(frame) - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(n > 0);
        sent += (size_t)n;
    }
    assert_in_range(sent, CAP / 2, SLACK - 1);
    empty_disk();
    char byte;
    assert_int_equal(read(report, &byte, 1), 1);
    producer_join(pid, 0);
    close(report);
    close(gate);
    close(fd);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
}

static void start_on_a_full_disk_is_74(void **state)
{
    (void)state;
    fill_disk();
    int status = 0;
    assert_false(
        dvg_daemon_try_start(&d, NULL, (const char *const[]){preload, fault, NULL}, &status));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EX_IOERR);
    empty_disk();
    start_with_switch();
    dvg_daemon_stop(&d);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(full_disk_is_waited_out),
        TEST(limit_of_file_size_is_waited_out_like_a_full_disk),
        TEST(kill_with_a_full_disk_keeps_what_was_acknowledged),
        TEST(stop_with_a_full_disk_says_so_and_producers_keep_theirs),
        TEST(reading_stops_while_the_disk_is_full),
        TEST(start_on_a_full_disk_is_74),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
