/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/rawpeer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { ANSWER_MAX = 1024 * 1024, WAIT_S = 20 };

int raw_try_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const struct timeval limit = {.tv_sec = WAIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

int raw_connect(const char *path)
{
    int fd = raw_try_connect(path);
    assert_true(fd >= 0);
    return fd;
}

/* The daemon may close before all is sent: that is for the caller to see when it reads. */
static void send_bytes(int fd, const void *bytes, size_t size)
{
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    assert_true(sent >= 0 || errno == EPIPE || errno == ECONNRESET);
}

void raw_send_frame(int fd, unsigned type, size_t payload)
{
    uint8_t *bytes = calloc(1, DVG_FRAME_HEADER + payload);
    assert_non_null(bytes);
    dvg_store_u32(bytes, DVG_FRAME_MAGIC);
    dvg_store_u16(bytes + 4, (uint16_t)type);
    dvg_store_u32(bytes + 8, (uint32_t)payload);
    send_bytes(fd, bytes, DVG_FRAME_HEADER + payload);
    free(bytes);
}

static struct dvg_bytes text_bytes(const char *text)
{
    return (struct dvg_bytes){(const uint8_t *)text, strlen(text)};
}

void raw_send_hello(int fd, uint64_t seed, uint64_t epoch)
{
    struct dvg_hello hello = {
        .major = DVG_PROTOCOL_MAJOR,
        .minor = DVG_PROTOCOL_MINOR,
        .epoch = epoch,
        .world = 1,
        .next_seq = 1,
        .run_name = text_bytes("raw"),
        .fingerprint_id = text_bytes("l61.1"),
        .spec = text_bytes(""),
        .client = text_bytes("test"),
    };
    dvg_store_u64(hello.stream_id, seed);
    dvg_store_u64(hello.run_id, seed);
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_HELLO_MAX);
    assert_int_equal(dvg_hello_encode(&out, &hello), 0);
    send_bytes(fd, out.data, out.size);
    dvg_buffer_fini(&out);
}

void raw_send_control(int fd, const char *json)
{
    const struct dvg_control control = {.request = 7, .json = text_bytes(json)};
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_CONTROL_MAX);
    assert_int_equal(dvg_control_encode(&out, DVG_MESSAGE_CONTROL_REQUEST, &control), 0);
    send_bytes(fd, out.data, out.size);
    dvg_buffer_fini(&out);
}

/* All of `size` bytes, or false at the end of the connection. */
static bool read_exact(int fd, uint8_t *at, size_t size)
{
    while (size) {
        ssize_t got = recv(fd, at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != ECONNRESET)
            fail_msg("nothing came for %d s", WAIT_S);
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

unsigned raw_read(int fd, uint8_t *bytes, size_t size, struct dvg_frame *ret)
{
    if (!read_exact(fd, bytes, DVG_FRAME_HEADER))
        return 0;
    size_t payload = dvg_load_u32(bytes + 8);
    assert_true(payload <= size - DVG_FRAME_HEADER);
    if (!read_exact(fd, bytes + DVG_FRAME_HEADER, payload))
        return 0;
    size_t whole = 0;
    assert_int_equal(
        dvg_frame_decode((struct dvg_bytes){bytes, DVG_FRAME_HEADER + payload}, size, ret, &whole),
        1);
    return ret->type;
}

void raw_expect_refused(int fd, int status)
{
    static uint8_t bytes[ANSWER_MAX];
    struct dvg_frame frame;
    unsigned type = 0;
    do
        type = raw_read(fd, bytes, sizeof(bytes), &frame);
    while (type == DVG_MESSAGE_WELCOME || type == DVG_MESSAGE_ACK);
    assert_int_equal(type, DVG_MESSAGE_ERROR);
    struct dvg_error_message message;
    assert_int_equal(dvg_error_decode(frame.payload, &message), 0);
    assert_int_equal(message.status, status);
    assert_int_equal(message.fatal, 1);
    assert_true(message.text.size > 0);
    raw_expect_end(fd);
}

void raw_expect_end(int fd)
{
    uint8_t bytes[65536];
    while (read_exact(fd, bytes, 1))
        continue;
    close(fd);
}

void raw_read_control(int fd, char *json, size_t size)
{
    static uint8_t bytes[ANSWER_MAX];
    struct dvg_frame frame;
    struct dvg_control control;
    assert_int_equal(raw_read(fd, bytes, sizeof(bytes), &frame), DVG_MESSAGE_CONTROL_REPLY);
    assert_int_equal(dvg_control_decode(frame.payload, &control), 0);
    assert_int_equal(control.request, 7);
    assert_true(control.json.size < size);
    memcpy(json, control.json.data, control.json.size);
    json[control.json.size] = '\0';
}
