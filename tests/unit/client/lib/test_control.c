/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/lib/control.h"
#include "client/wire/frame.h"

static struct fixture {
    char dir[64];
    char path[96];
    int listen_fd;
    pthread_t thread;
    /* what the other side does with each request, in order; '\0' ends the connection */
    const char *script;
} f;

static int set_up(void **state)
{
    (void)state;
    snprintf(f.dir, sizeof(f.dir), "/tmp/dvg-control-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.path, sizeof(f.path), "%s/sock", f.dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(f.path);
    rmdir(f.dir);
    return 0;
}

/* Reads one whole request. */
static bool take_request(int fd, struct dvg_buffer *in, struct dvg_control *ret)
{
    for (;;) {
        struct dvg_bytes bytes = {.data = in->data, .size = in->size};
        struct dvg_frame frame;
        size_t size;
        if (in->size && dvg_frame_decode(bytes, DVG_CONTROL_MAX, &frame, &size) == 1)
            return dvg_control_decode(frame.payload, ret) == 0;
        if (dvg_buffer_reserve(in, 65536))
            return false;
        ssize_t n = recv(fd, in->data + in->size, 65536, 0);
        if (n <= 0)
            return false;
        in->size += (size_t)n;
    }
}

static void reply(int fd, uint32_t request, const char *text)
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, 1 << 20);
    struct dvg_control message = {.request = request,
                                  .json = {.data = (const uint8_t *)text, .size = strlen(text)}};
    dvg_control_encode(&out, DVG_MESSAGE_CONTROL_REPLY, &message);
    send(fd, out.data, out.size, MSG_NOSIGNAL);
    dvg_buffer_fini(&out);
}

static void send_error(int fd)
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, 1 << 16);
    struct dvg_error_message message = {.status = DIVERGE_EPERM, .fatal = 1};
    dvg_error_encode(&out, &message);
    send(fd, out.data, out.size, MSG_NOSIGNAL);
    dvg_buffer_fini(&out);
}

static void *serve(void *arg)
{
    (void)arg;
    int fd = accept(f.listen_fd, NULL, NULL);
    uint32_t skipped = 0;
    for (const char *act = f.script; *act; act++) {
        struct dvg_buffer in;
        dvg_buffer_init(&in, 2 << 20);
        struct dvg_control request;
        if (!take_request(fd, &in, &request)) {
            dvg_buffer_fini(&in);
            break;
        }
        char text[64];
        snprintf(text, sizeof(text), "{\"size\":%zu}", request.json.size);
        if (*act == 'r')
            reply(fd, request.request, text);
        else if (*act == 's') /* says nothing now */
            skipped = request.request;
        else if (*act == 'l') { /* the late reply, then the right one */
            reply(fd, skipped, "{\"late\":true}");
            reply(fd, request.request, text);
        } else if (*act == 'e')
            send_error(fd);
        else if (*act == 'g')
            send(fd, "garbage that is no frame, longer than a header", 46, MSG_NOSIGNAL);
        dvg_buffer_fini(&in);
    }
    shutdown(fd, SHUT_WR);
    /* Until the client has gone, so that it sees an end and no reset. */
    char byte;
    while (recv(fd, &byte, 1, 0) > 0)
        ;
    close(fd);
    return NULL;
}

static void start(struct dvg_control_link *link, const char *script)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, f.path, strlen(f.path));
    f.script = script;
    f.listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(f.listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(f.listen_fd, 1), 0);
    assert_int_equal(pthread_create(&f.thread, NULL, serve, NULL), 0);
    assert_int_equal(dvg_control_open(link, f.path), 0);
}

static void finish(struct dvg_control_link *link)
{
    dvg_control_close(link);
    pthread_join(f.thread, NULL);
    close(f.listen_fd);
}

static int call(struct dvg_control_link *link, const char *json, int timeout_ms, const char **ret,
                size_t *ret_size)
{
    return dvg_control_call(link, json, strlen(json), timeout_ms, ret, ret_size);
}

static void request_gets_its_reply(void **state)
{
    (void)state;
    struct dvg_control_link link;
    const char *text;
    size_t size;
    start(&link, "rr");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(call(&link, "{\"command\":\"status\"}", 10000, &text, &size), 0);
        assert_int_equal(size, strlen("{\"size\":20}"));
        assert_memory_equal(text, "{\"size\":20}", size);
    }
    finish(&link);
}

static void large_request_goes_whole(void **state)
{
    (void)state;
    enum { SIZE = 900 * 1024 };
    char *json = malloc(SIZE + 1);
    memset(json, ' ', SIZE);
    json[0] = '{';
    json[SIZE - 1] = '}';
    json[SIZE] = '\0';
    struct dvg_control_link link;
    const char *text;
    size_t size;
    start(&link, "r");
    assert_int_equal(call(&link, json, 10000, &text, &size), 0);
    assert_memory_equal(text, "{\"size\":921600}", size);
    finish(&link);
    free(json);
}

static void late_reply_is_not_taken_for_the_next(void **state)
{
    (void)state;
    struct dvg_control_link link;
    const char *text;
    size_t size;
    start(&link, "sl");
    assert_int_equal(call(&link, "{}", 20, &text, &size), DIVERGE_EAGAIN);
    assert_int_equal(call(&link, "{ }", 10000, &text, &size), 0);
    assert_memory_equal(text, "{\"size\":3}", size);
    finish(&link);
}

static void daemon_that_leaves_is_unavailable(void **state)
{
    (void)state;
    struct dvg_control_link link;
    const char *text = NULL;
    size_t size;
    start(&link, "");
    assert_int_equal(call(&link, "{}", 10000, &text, &size), DIVERGE_EUNAVAIL);
    assert_null(text);
    finish(&link);
}

static void refusal_gives_its_status(void **state)
{
    (void)state;
    struct dvg_control_link link;
    const char *text;
    size_t size;
    start(&link, "e");
    assert_int_equal(call(&link, "{}", 10000, &text, &size), DIVERGE_EPERM);
    finish(&link);
}

static void garbage_is_a_protocol_error(void **state)
{
    (void)state;
    struct dvg_control_link link;
    const char *text;
    size_t size;
    start(&link, "g");
    assert_int_equal(call(&link, "{}", 10000, &text, &size), DIVERGE_EPROTO);
    finish(&link);
}

static void nobody_there_is_unavailable(void **state)
{
    (void)state;
    struct dvg_control_link link;
    char path[200];
    assert_int_equal(dvg_control_open(&link, f.path), DIVERGE_EUNAVAIL);
    memset(path, 'x', sizeof(path));
    path[199] = '\0';
    assert_int_equal(dvg_control_open(&link, path), DIVERGE_EINVAL);
    assert_int_equal(dvg_control_open(&link, ""), DIVERGE_EINVAL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(request_gets_its_reply),
        CASE(large_request_goes_whole),
        CASE(late_reply_is_not_taken_for_the_next),
        CASE(daemon_that_leaves_is_unavailable),
        CASE(refusal_gives_its_status),
        CASE(garbage_is_a_protocol_error),
        CASE(nobody_there_is_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
