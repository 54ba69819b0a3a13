/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Volatile, or the compiler may drop an allocation that it sees freed. */
static void *volatile sink;

static void alloc_fails_once_at_its_number(void **state)
{
    (void)state;
    dvg_fault_arm(DVG_FAULT_ALLOC, 1, ENOMEM, false);
    sink = malloc(8);
    void *first = sink;
    sink = calloc(1, 8);
    void *second = sink;
    sink = malloc(8);
    void *third = sink;
    dvg_fault_disarm();
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_true(dvg_fault_fired());
    free(first);
    free(third);
}

static void alloc_in_libc_is_seen(void **state)
{
    (void)state;
    dvg_fault_arm(DVG_FAULT_ALLOC, 0, ENOMEM, false);
    sink = strdup("text");
    void *copy = sink;
    int error = errno;
    dvg_fault_disarm();
    assert_null(copy);
    assert_int_equal(error, ENOMEM);
}

static void write_stays_broken_when_on(void **state)
{
    (void)state;
    char path[] = "/tmp/dvgtest-fault-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    dvg_fault_arm(DVG_FAULT_WRITE, 1, ENOSPC, true);
    ssize_t first = write(fd, "a", 1);
    ssize_t second = pwrite(fd, "b", 1, 1);
    ssize_t third = write(fd, "c", 1);
    int error = errno;
    dvg_fault_disarm();
    assert_int_equal(first, 1);
    assert_int_equal(second, -1);
    assert_int_equal(third, -1);
    assert_int_equal(error, ENOSPC);
    assert_int_equal(write(fd, "d", 1), 1);
    close(fd);
}

static void write_faults_leave_sockets_alone(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    dvg_fault_arm(DVG_FAULT_WRITE, 0, ENOSPC, true);
    ssize_t sent = write(pair[0], "a", 1);
    dvg_fault_disarm();
    assert_int_equal(sent, 1);
    assert_false(dvg_fault_fired());
    dvg_fault_arm(DVG_FAULT_SEND, 0, EPIPE, false);
    sent = send(pair[0], "a", 1, 0);
    dvg_fault_disarm();
    assert_int_equal(sent, -1);
    close(pair[0]);
    close(pair[1]);
}

static void sweep_fails_each_call_once(void **state)
{
    (void)state;
    struct dvg_fault_sweep sweep = {.kind = DVG_FAULT_ALLOC, .error = ENOMEM};
    long failed_first = 0;
    long failed_second = 0;
    long clean = 0;
    while (dvg_fault_sweep_next(&sweep)) {
        sink = malloc(8);
        void *a = sink;
        sink = a ? realloc(a, 64) : NULL;
        void *b = sink;
        dvg_fault_disarm();
        failed_first += !a;
        failed_second += a && !b;
        clean += b != NULL;
        free(b ? b : a);
    }
    assert_int_equal(failed_first, 1);
    assert_int_equal(failed_second, 1);
    assert_int_equal(clean, 1);
    assert_int_equal(sweep.rounds, 3);
}

/* A sanitizer's runtime must come first in a process, so it is told to let the library in. */
static int run_preloaded(const char *fault, const char *report, const char *command)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("DVG_FAULT", fault, 1);
        setenv("DVG_FAULT_REPORT", report, 1);
        setenv("LD_PRELOAD", getenv("DVG_FAULT_LIB"), 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void preloaded_library_reads_its_environment(void **state)
{
    (void)state;
    char dir[] = "/tmp/dvgtest-fault-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char command[256];
    char report[64];
    char full[96];
    snprintf(report, sizeof(report), "%s/report", dir);
    snprintf(full, sizeof(full), "write:@%s/full:ENOSPC", dir);
    snprintf(command, sizeof(command), "echo text 2>/dev/null >%s/out", dir);
    assert_int_not_equal(run_preloaded("write:0:ENOSPC", report, command), 0);
    assert_int_equal(access(report, F_OK), 0);
    assert_int_equal(unlink(report), 0);

    assert_int_equal(run_preloaded("write:1:ENOSPC", report, command), 0);
    assert_int_equal(access(report, F_OK), -1);

    assert_int_equal(run_preloaded(full, report, command), 0);
    snprintf(command, sizeof(command), ":>%s/full; echo text 2>/dev/null >%s/out", dir, dir);
    assert_int_not_equal(run_preloaded(full, report, command), 0);

    snprintf(command, sizeof(command), "echo text >%s/out; exit 0", dir);
    assert_int_equal(run_preloaded("write:0:KILL", report, command), 255);
    assert_int_equal(access(report, F_OK), 0);

    assert_int_equal(run_preloaded("nonsense:1", report, "exit 0"), 70);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(run_preloaded("", report, command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_fails_once_at_its_number),
        cmocka_unit_test(alloc_in_libc_is_seen),
        cmocka_unit_test(write_stays_broken_when_on),
        cmocka_unit_test(write_faults_leave_sockets_alone),
        cmocka_unit_test(sweep_fails_each_call_once),
        cmocka_unit_test(preloaded_library_reads_its_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
