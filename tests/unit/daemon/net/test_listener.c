/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/listener.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "daemon/net/log.h"
#include "daemon/net/takeover.h"
#include "tests/support/daemon_fixture.h"

struct harness {
    uv_loop_t loop;
    uv_timer_t guard;
    struct listener listener;
    struct paths_error error;
    char dir[DVG_FIXTURE_PATH_MAX];
    char folder[DVG_FIXTURE_PATH_MAX + 8];
    char path[DVG_FIXTURE_PATH_MAX + 16];
    int connected;
};

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("what was waited for did not happen");
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_connected(struct listener *listener, uv_stream_t *stream)
{
    struct harness *h = listener->loop->data;
    uv_pipe_t *pipe = malloc(sizeof(*pipe));
    uv_pipe_init(listener->loop, pipe, 0);
    assert_int_equal(uv_accept(stream, (uv_stream_t *)pipe), 0);
    uv_close((uv_handle_t *)pipe, on_closed);
    h->connected++;
}

static int setup(void **state)
{
    struct harness *h = calloc(1, sizeof(*h));
    *state = h;
    log_init(LOG_ERROR);
    dvg_tempdir_make(h->dir);
    snprintf(h->folder, sizeof(h->folder), "%s/r", h->dir);
    snprintf(h->path, sizeof(h->path), "%s/r/s", h->dir);
    assert_int_equal(mkdir(h->folder, 0700), 0);
    assert_int_equal(uv_loop_init(&h->loop), 0);
    h->loop.data = h;
    uv_timer_init(&h->loop, &h->guard);
    uv_timer_start(&h->guard, on_guard, 20000, 0);
    return 0;
}

static int teardown(void **state)
{
    struct harness *h = *state;
    listener_close(&h->listener);
    uv_close((uv_handle_t *)&h->guard, NULL);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&h->loop), 0);
    dvg_tempdir_remove(h->dir);
    free(h);
    return 0;
}

static void open_it(struct harness *h)
{
    assert_int_equal(listener_open(&h->listener, &h->loop, h->path, on_connected, &h->error), 0);
}

static void connect_once(struct harness *h)
{
    int before = h->connected;
    assert_true(takeover_is_live(h->path));
    while (h->connected == before)
        uv_run(&h->loop, UV_RUN_ONCE);
}

static void socket_is_private_and_removed_at_the_end(void **state)
{
    struct harness *h = *state;
    umask(077);
    open_it(h);
    struct stat st;
    assert_int_equal(lstat(h->path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 077, 0);
    connect_once(h);
    listener_close(&h->listener);
    assert_int_equal(lstat(h->path, &st), -1);
}

static void removed_socket_comes_back(void **state)
{
    struct harness *h = *state;
    open_it(h);
    assert_int_equal(unlink(h->path), 0);
    assert_false(takeover_is_live(h->path));
    while (access(h->path, F_OK) != 0)
        uv_run(&h->loop, UV_RUN_ONCE);
    connect_once(h);
    assert_int_equal(unlink(h->path), 0);
    while (access(h->path, F_OK) != 0)
        uv_run(&h->loop, UV_RUN_ONCE);
    connect_once(h);
}

static void removed_folder_comes_back_with_the_socket(void **state)
{
    struct harness *h = *state;
    open_it(h);
    assert_int_equal(unlink(h->path), 0);
    assert_int_equal(rmdir(h->folder), 0);
    while (access(h->path, F_OK) != 0)
        uv_run(&h->loop, UV_RUN_ONCE);
    struct stat st;
    assert_int_equal(stat(h->folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    connect_once(h);
    /* The new folder is watched as well. */
    assert_int_equal(unlink(h->path), 0);
    while (access(h->path, F_OK) != 0)
        uv_run(&h->loop, UV_RUN_ONCE);
    connect_once(h);
}

static void file_that_is_not_ours_is_left_at_the_end(void **state)
{
    struct harness *h = *state;
    open_it(h);
    assert_int_equal(unlink(h->path), 0);
    FILE *file = fopen(h->path, "w");
    assert_non_null(file);
    fclose(file);
    listener_close(&h->listener);
    assert_int_equal(access(h->path, F_OK), 0);
}

static void taken_path_is_refused(void **state)
{
    struct harness *h = *state;
    FILE *file = fopen(h->path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(listener_open(&h->listener, &h->loop, h->path, on_connected, &h->error),
                     DIVERGE_EEXIST);
    assert_non_null(strstr(h->error.text, h->path));
}

static void dead_socket_is_told_from_a_live_one(void **state)
{
    struct harness *h = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, h->path, strlen(h->path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_true(takeover_is_live(h->path));
    assert_int_equal(close(fd), 0);
    assert_int_equal(access(h->path, F_OK), 0);
    assert_false(takeover_is_live(h->path));
    assert_int_equal(takeover_ask_stop(h->path), DIVERGE_EUNAVAIL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(socket_is_private_and_removed_at_the_end),
        TEST(removed_socket_comes_back),
        TEST(removed_folder_comes_back_with_the_socket),
        TEST(file_that_is_not_ours_is_left_at_the_end),
        TEST(taken_path_is_refused),
        TEST(dead_socket_is_told_from_a_live_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
