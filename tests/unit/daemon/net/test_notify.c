/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "tests/support/daemon_fixture.h"

static int manager_open(const struct sockaddr_un *address, socklen_t size)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)address, size), 0);
    return fd;
}

static void expect_datagram(int fd, const char *text)
{
    char got[256] = "";
    ssize_t len = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
    assert_true(len > 0);
    assert_string_equal(got, text);
    close(fd);
}

static void state_reaches_the_manager(void **state)
{
    (void)state;
    char dir[DVG_FIXTURE_PATH_MAX];
    dvg_tempdir_make(dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/n", dir);
    int fd = manager_open(&address, sizeof(address));
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    assert_int_equal(notify_send("READY=1\nSTATUS=x"), 0);
    expect_datagram(fd, "READY=1\nSTATUS=x");
    dvg_tempdir_remove(dir);
}

static void abstract_addresses_work(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    int len = snprintf(name, sizeof(name), "@diverged-test-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, (size_t)len - 1);
    int fd =
        manager_open(&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len));
    setenv("NOTIFY_SOCKET", name, 1);
    assert_int_equal(notify_send("STOPPING=1"), 0);
    expect_datagram(fd, "STOPPING=1");
}

static void no_manager_is_no_error_and_a_gone_one_is(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(notify_send("READY=1"), 0);
    setenv("NOTIFY_SOCKET", "relative", 1);
    assert_int_equal(notify_send("READY=1"), 0);
    setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
    assert_int_equal(notify_send("READY=1"), DIVERGE_EIO);
    char name[200] = "/";
    memset(name + 1, 'x', sizeof(name) - 2);
    setenv("NOTIFY_SOCKET", name, 1);
    assert_int_equal(notify_send("READY=1"), DIVERGE_EIO);
}

static void watchdog_is_half_the_period_of_our_own(void **state)
{
    (void)state;
    unsetenv("WATCHDOG_USEC");
    assert_int_equal(notify_watchdog_ms(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    unsetenv("WATCHDOG_PID");
    assert_int_equal(notify_watchdog_ms(), 15000);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(notify_watchdog_ms(), 0);
    char pid[24];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_watchdog_ms(), 15000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_reaches_the_manager),
        cmocka_unit_test(abstract_addresses_work),
        cmocka_unit_test(no_manager_is_no_error_and_a_gone_one_is),
        cmocka_unit_test(watchdog_is_half_the_period_of_our_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
