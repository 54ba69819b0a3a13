/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/lock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "tests/support/daemon_fixture.h"

static char dir[DVG_FIXTURE_PATH_MAX];
static char path[DVG_FIXTURE_PATH_MAX + 16];
static struct paths_error error;

static int setup(void **state)
{
    (void)state;
    dvg_tempdir_make(dir);
    snprintf(path, sizeof(path), "%s/db.lock", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_tempdir_remove(dir);
    return 0;
}

static void second_taker_learns_pid_and_socket(void **state)
{
    (void)state;
    struct lock first = LOCK_INIT;
    struct lock second = LOCK_INIT;
    struct paths_holder holder = {0};
    assert_int_equal(lock_take(&first, path, "/run/s", &holder, &error), 0);
    assert_int_equal(lock_take(&second, path, "/run/other", &holder, &error), DIVERGE_EBUSY);
    assert_int_equal(holder.pid, getpid());
    assert_string_equal(holder.socket, "/run/s");
    assert_int_equal(second.fd, -1);
    lock_release(&first);
    assert_int_equal(paths_lock_holder(path, &holder), DIVERGE_ENOTFOUND);
    assert_int_equal(lock_take(&second, path, "/run/other", &holder, &error), 0);
    lock_release(&second);
    lock_release(&second);
}

static void asking_who_holds_it_takes_nothing(void **state)
{
    (void)state;
    struct paths_holder holder = {0};
    assert_int_equal(paths_lock_holder(path, &holder), DIVERGE_ENOTFOUND);
    assert_int_equal(access(path, F_OK), -1);
    struct lock lock = LOCK_INIT;
    assert_int_equal(lock_take(&lock, path, "/run/s", &holder, &error), 0);
    assert_int_equal(paths_lock_holder(path, &holder), 0);
    assert_string_equal(holder.socket, "/run/s");
    lock_release(&lock);
}

static void killed_holder_leaves_the_lock_free(void **state)
{
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct lock lock = LOCK_INIT;
        struct paths_holder holder;
        char byte = lock_take(&lock, path, "/run/child", &holder, &error) == 0;
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char byte = 0;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    struct lock lock = LOCK_INIT;
    struct paths_holder holder = {0};
    assert_int_equal(lock_take(&lock, path, "/run/s", &holder, &error), DIVERGE_EBUSY);
    assert_int_equal(holder.pid, pid);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(lock_take(&lock, path, "/run/s", &holder, &error), 0);
    assert_int_equal(paths_lock_holder(path, &holder), 0);
    assert_int_equal(holder.pid, getpid());
    lock_release(&lock);
    close(ready[0]);
    close(ready[1]);
}

static void held_lock_that_says_nothing_is_still_held(void **state)
{
    (void)state;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
    assert_int_equal(write(fd, "pid=no\n", 7), 7);
    struct lock lock = LOCK_INIT;
    struct paths_holder holder = {.pid = 77};
    assert_int_equal(lock_take(&lock, path, "/run/s", &holder, &error), DIVERGE_EBUSY);
    assert_int_equal(holder.pid, 0);
    close(fd);
}

static void link_in_place_of_the_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(symlink("/etc/passwd", path), 0);
    struct lock lock = LOCK_INIT;
    struct paths_holder holder;
    assert_int_equal(lock_take(&lock, path, "/run/s", &holder, &error), DIVERGE_EPERM);
    assert_non_null(strstr(error.text, path));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(second_taker_learns_pid_and_socket),   TEST(asking_who_holds_it_takes_nothing),
        TEST(killed_holder_leaves_the_lock_free),   TEST(held_lock_that_says_nothing_is_still_held),
        TEST(link_in_place_of_the_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
