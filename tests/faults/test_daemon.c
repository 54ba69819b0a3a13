/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call of the daemon fails, or kills it, in turn while a training records. The training is
 * never harmed; once a daemon runs without faults, every record of the training is in the store,
 * once.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/faults/faults.h"

enum { ENDING_MS = 5000 };

static struct dvg_daemon d;
static struct training orphan;
static char spool_path[512];
static char spool_copy[512];

static off_t log_size(void)
{
    struct stat st;
    return stat(d.log, &st) == 0 ? st.st_size : 0;
}

/* It ended by itself, or stops now: never by a signal of its own, and not without a word. */
static void check_end(const struct fault_sweep *sweep, int status, bool by_itself, off_t log_before)
{
    bool killed =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && strcmp(sweep->error, "KILL") == 0;
    if (killed)
        return;
    if (!WIFEXITED(status)) {
        dvg_daemon_print_log(&d);
        fail_msg("%s: the daemon ended by signal %d", sweep->fault, WTERMSIG(status));
    }
    /* sysexits.h; a sanitizer has others. */
    if (WEXITSTATUS(status) && WEXITSTATUS(status) < 64) {
        dvg_daemon_print_log(&d);
        fail_msg("%s: the daemon ended with %d", sweep->fault, WEXITSTATUS(status));
    }
    if (by_itself && !WEXITSTATUS(status))
        fail_msg("%s: the daemon ended as if all were well", sweep->fault);
    /* The log is a file as well: on a full disk its text is lost. */
    bool mute = sweep->on && strcmp(sweep->kind, "write") == 0;
    if (WEXITSTATUS(status) && !mute && log_size() == log_before)
        fail_msg("%s: the daemon ended with %d and no word", sweep->fault, WEXITSTATUS(status));
}

/* A fault that passed leaves a daemon that serves, and that takes up what waits for it. */
static void check_goes_on(const struct fault_sweep *sweep)
{
    struct training after;
    if (!spool_try_await_empty(&d))
        return;
    training_run(&after, "after", NULL, -1);
    training_check_unharmed(&after, sweep->fault);
    int end = pidfd_open(d.pid, 0);
    struct pollfd poller = {.fd = end, .events = POLLIN};
    assert_true(end >= 0);
    /* It may be about to end for the fault. */
    if ((after.opened || after.closed) && poll(&poller, 1, ENDING_MS) == 0) {
        dvg_daemon_print_log(&d);
        fail_msg("%s: the daemon does not go on: open gave %d, close %d", sweep->fault,
                 after.opened, after.closed);
    }
    close(end);
    training_fini(&after);
}

/* Records with the faulty daemon, whatever becomes of it. */
static void record(const struct fault_sweep *sweep, struct training *training)
{
    const char *const env[] = {sweep->preload, sweep->fault, sweep->report, NULL};
    off_t log_before = log_size();
    int status = 0;
    bool runs = daemon_try_start_eager(&d, env, &status);
    training_run(training, "faulty", NULL, -1);
    bool by_itself = !runs;
    if (runs) {
        bool fired = fault_sweep_fired(sweep);
        bool kills = strcmp(sweep->error, "KILL") == 0;
        by_itself = dvg_child_wait(d.pid, fired && kills ? DVG_FIXTURE_WAIT_MS : 0, &status);
        if (!by_itself && fired && !sweep->on) {
            check_goes_on(sweep);
            by_itself = dvg_child_wait(d.pid, 0, &status);
        }
        if (!by_itself) {
            kill(d.pid, SIGTERM);
            status = dvg_daemon_wait(&d);
        }
        d.pid = 0;
    }
    check_end(sweep, status, by_itself, log_before);
}

/* A daemon without faults on what the other one left. */
static void recover_and_check(const struct fault_sweep *sweep, const struct training *training)
{
    struct training whole;
    daemon_start_eager(&d, NULL);
    spool_await_empty(&d);
    training_run(&whole, "whole", NULL, -1);
    assert_true(whole.ended);
    assert_int_equal(whole.closed, 0);
    training_fini(&whole);
    dvg_daemon_stop(&d);
    training_check_unharmed(training, sweep->fault);
    if (training->opened || (training->closed && training->closed != -15))
        fail_msg("%s: open gave %d, close %d: %s", sweep->fault, training->opened, training->closed,
                 training->warnings);
    store_check_training(&d, "whole", "faulty", training, true);
    store_check_training(&d, "whole", "orphan", &orphan, true);
    int64_t streams = store_number(d.store, "SELECT count(*) FROM streams", NULL);
    assert_true(streams == 3 || streams == 4);
}

/* A spool file that each daemon of the sweep is to import: recorded once, then put there again. */
static void make_orphan(void)
{
    const struct dirent *entry = NULL;
    training_run(&orphan, "orphan", NULL, -1);
    assert_int_equal(orphan.closed, -15);
    DIR *dir = opendir(d.spool);
    assert_non_null(dir);
    while ((entry = readdir(dir)) && !strstr(entry->d_name, ".spool"))
        continue;
    assert_non_null(entry);
    snprintf(spool_path, sizeof(spool_path), "%s/%s", d.spool, entry->d_name);
    snprintf(spool_copy, sizeof(spool_copy), "%s/orphan", d.dir);
    closedir(dir);
    assert_int_equal(rename(spool_path, spool_copy), 0);
}

static void put_orphan(void)
{
    char buffer[65536];
    int from = open(spool_copy, O_RDONLY | O_CLOEXEC);
    char fresh[520];
    snprintf(fresh, sizeof(fresh), "%s.new", spool_copy);
    int to = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(from >= 0 && to >= 0);
    ssize_t size;
    while ((size = read(from, buffer, sizeof(buffer))) > 0)
        assert_int_equal(write(to, buffer, (size_t)size), size);
    assert_int_equal(size, 0);
    close(from);
    close(to);
    assert_int_equal(rename(fresh, spool_path), 0);
}

static void remove_store(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[sizeof(d.store) + 8];
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", d.store, ends[i]);
        unlink(path);
    }
}

static void sweep(struct fault_sweep sweep)
{
    dvg_daemon_init(&d);
    make_orphan();
    while (fault_sweep_next(&sweep, d.dir)) {
        struct training training;
        put_orphan();
        record(&sweep, &training);
        recover_and_check(&sweep, &training);
        training_fini(&training);
        remove_store();
    }
    training_fini(&orphan);
    fault_sweep_done(&sweep);
}

static int tear_down(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

#define CASE(name_, ...)                                                                           \
    static void name_(void **state)                                                                \
    {                                                                                              \
        (void)state;                                                                               \
        sweep((struct fault_sweep){__VA_ARGS__});                                                  \
    }

CASE(memory_fails, .kind = "alloc", .error = "ENOMEM", .dense = 9, .quick = 1)
CASE(memory_stays_short, .kind = "alloc", .error = "ENOMEM", .on = true, .dense = 4)
CASE(writes_fail, .kind = "write", .error = "EIO", .dense = 6, .quick = 1)
CASE(disk_is_full_for_a_write, .kind = "write", .error = "ENOSPC", .dense = 6, .quick = 1)
CASE(disk_stays_full, .kind = "write", .error = "ENOSPC", .on = true, .dense = 5, .quick = 1)
CASE(syncs_fail, .kind = "sync", .error = "EIO", .dense = 8, .quick = 2)
CASE(resizes_fail, .kind = "resize", .error = "ENOSPC", .dense = 8, .quick = 2)
CASE(reads_fail, .kind = "read", .error = "EIO", .dense = 6, .quick = 1)
CASE(opens_fail, .kind = "open", .error = "EMFILE", .dense = 12, .quick = 1)
CASE(maps_fail, .kind = "mmap", .error = "ENOMEM", .dense = 20, .quick = 2)
CASE(sends_fail, .kind = "send", .error = "EPIPE", .dense = 12, .quick = 1)
CASE(threads_fail, .kind = "thread", .error = "EAGAIN", .dense = 20, .quick = 2)
CASE(dies_at_a_write, .kind = "write", .error = "KILL", .dense = 9, .quick = 1)
CASE(dies_at_a_sync, .kind = "sync", .error = "KILL", .dense = 8, .quick = 1)
CASE(dies_at_an_allocation, .kind = "alloc", .error = "KILL", .dense = 4)
CASE(dies_at_a_send, .kind = "send", .error = "KILL", .dense = 20, .quick = 2)

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(memory_fails),    TEST(memory_stays_short),
        TEST(writes_fail),     TEST(disk_is_full_for_a_write),
        TEST(disk_stays_full), TEST(syncs_fail),
        TEST(resizes_fail),    TEST(reads_fail),
        TEST(opens_fail),      TEST(maps_fail),
        TEST(sends_fail),      TEST(threads_fail),
        TEST(dies_at_a_write), TEST(dies_at_a_sync),
        TEST(dies_at_a_send),  TEST(dies_at_an_allocation),
    };
    faults_set_tier(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
