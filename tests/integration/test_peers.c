/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that break the rules: each is told why and closed, and nobody else notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "tests/integration/producer.h"
#include "tests/integration/rawpeer.h"
#include "tests/support/daemon_fixture.h"

static struct dvg_daemon d;
static struct producer_plan plan;

static int setup(void **state)
{
    (void)state;
    dvg_daemon_init(&d);
    plan = (struct producer_plan)PRODUCER_PLAN_INIT;
    plan.name = "honest";
    plan.steps = 30;
    plan.records = 20;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

/* An honest producer is served as ever, and what it recorded is there. */
static void expect_service(void)
{
    assert_int_equal(producer_run(&plan), 0);
    dvg_daemon_stop(&d);
    producer_check(d.store, &plan);
    store_check_integrity(d.store);
}

static int connect_as_producer(uint64_t seed, uint64_t epoch)
{
    int fd = raw_connect(d.socket);
    raw_send_hello(fd, seed, epoch);
    uint8_t bytes[8192];
    struct dvg_frame frame;
    assert_int_equal(raw_read(fd, bytes, sizeof(bytes), &frame), DVG_MESSAGE_WELCOME);
    return fd;
}

static void garbage_is_refused(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    int fd = raw_connect(d.socket);
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    raw_expect_refused(fd, DIVERGE_EPROTO);
    fd = raw_connect(d.socket);
    raw_send_frame(fd, DVG_MESSAGE_PART, 64);
    raw_expect_refused(fd, DIVERGE_EPROTO);
    fd = raw_connect(d.socket);
    raw_send_frame(fd, DVG_MESSAGE_HELLO, 64);
    raw_expect_refused(fd, DIVERGE_EPROTO);
    fd = raw_connect(d.socket);
    raw_send_frame(fd, 999, 64);
    raw_expect_refused(fd, DIVERGE_EPROTO);
    expect_service();
}

static void producer_that_turns_bad_is_refused(void **state)
{
    (void)state;
    static const unsigned types[] = {DVG_MESSAGE_HELLO,
                                     DVG_MESSAGE_WELCOME,
                                     DVG_MESSAGE_PART,
                                     DVG_MESSAGE_END,
                                     DVG_MESSAGE_BYE,
                                     DVG_MESSAGE_ACK,
                                     777};
    dvg_daemon_start(&d, NULL, NULL);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        int fd = connect_as_producer(100 + i, 1);
        raw_send_frame(fd, types[i], 24);
        raw_send_frame(fd, DVG_MESSAGE_PART, 24); /* after the refusal: ignored */
        raw_expect_end(fd);
    }
    expect_service();
}

static void oversize_frames_are_refused_from_their_header(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    uint8_t header[DVG_FRAME_HEADER] = {0};
    dvg_store_u32(header, DVG_FRAME_MAGIC);
    dvg_store_u16(header + 4, DVG_MESSAGE_HELLO);
    dvg_store_u32(header + 8, DVG_HELLO_MAX + 8);
    int fd = raw_connect(d.socket);
    assert_int_equal(send(fd, header, sizeof(header), 0), sizeof(header));
    raw_expect_refused(fd, DIVERGE_ELIMIT);

    fd = connect_as_producer(1, 1);
    dvg_store_u16(header + 4, DVG_MESSAGE_PART);
    dvg_store_u32(header + 8, UINT32_MAX);
    assert_int_equal(send(fd, header, sizeof(header), 0), sizeof(header));
    raw_expect_refused(fd, DIVERGE_ELIMIT);

    fd = raw_connect(d.socket);
    dvg_store_u16(header + 4, DVG_MESSAGE_CONTROL_REQUEST);
    dvg_store_u32(header + 8, DVG_CONTROL_MAX + 8);
    assert_int_equal(send(fd, header, sizeof(header), 0), sizeof(header));
    raw_expect_refused(fd, DIVERGE_ELIMIT);
    expect_service();
}

static void silent_peers_are_closed_in_time(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, (const char *const[]){"DIVERGE_HANDSHAKE_MS=50", NULL});
    int silent = raw_connect(d.socket);
    int slow = raw_connect(d.socket);
    assert_int_equal(send(slow, "DVG1", 4, 0), 4);
    raw_expect_refused(silent, DIVERGE_EAGAIN);
    raw_expect_refused(slow, DIVERGE_EAGAIN);
    expect_service();
}

static void flood_of_peers_leaves_the_first_alone(void **state)
{
    (void)state;
    enum { LIMIT = 8, FLOOD = 200 };
    dvg_daemon_start(&d, NULL, (const char *const[]){"DIVERGE_MAX_CONNECTIONS=8", NULL});
    int held[LIMIT];
    for (int i = 0; i < LIMIT; i++)
        held[i] = connect_as_producer((uint64_t)i + 1, 1);
    for (int i = 0; i < FLOOD; i++) {
        int fd = raw_connect(d.socket);
        raw_send_hello(fd, 100, 1);
        raw_expect_refused(fd, DIVERGE_EBUSY);
    }
    /* All at once, unread; those that might have had a request are told later. */
    int flood[FLOOD];
    for (int i = 0; i < FLOOD; i++)
        flood[i] = raw_connect(d.socket);
    for (int i = 0; i < FLOOD; i++)
        raw_expect_refused(flood[i], DIVERGE_EBUSY);
    for (int i = 1; i < LIMIT; i++)
        close(held[i]);
    /* Those that stayed are served. */
    int fd = -1;
    uint8_t bytes[65536];
    struct dvg_frame frame;
    unsigned type = 0;
    do { /* until the daemon saw that the others have gone */
        fd = raw_connect(d.socket);
        raw_send_control(fd, "{\"command\":\"status\"}");
        type = raw_read(fd, bytes, sizeof(bytes), &frame);
        close(fd);
    } while (type == DVG_MESSAGE_ERROR);
    assert_int_equal(type, DVG_MESSAGE_CONTROL_REPLY);
    close(held[0]);
    expect_service();
}

static void full_daemon_answers_control_requests(void **state)
{
    (void)state;
    enum { LIMIT = 4 };
    dvg_daemon_start(&d, NULL, (const char *const[]){"DIVERGE_MAX_CONNECTIONS=4", NULL});
    int held[LIMIT];
    for (int i = 0; i < LIMIT; i++)
        held[i] = connect_as_producer((uint64_t)i + 1, 1);
    char json[8192];
    int fd = raw_connect(d.socket);
    raw_send_control(fd, "{\"command\":\"status\"}");
    raw_read_control(fd, json, sizeof(json));
    assert_non_null(strstr(json, "\"producers\":4"));
    close(fd);
    int late = raw_connect(d.socket);
    raw_send_hello(late, 100, 1);
    raw_expect_refused(late, DIVERGE_EBUSY);
    fd = raw_connect(d.socket);
    raw_send_control(fd, "{\"command\":\"stop\",\"force\":true}");
    raw_read_control(fd, json, sizeof(json));
    assert_non_null(strstr(json, "\"ok\":true"));
    int status = dvg_daemon_wait(&d);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (int i = 0; i < LIMIT; i++)
        close(held[i]);
    close(fd);
}

/* All but the last byte of a PART of 4 MiB; false: the daemon refused. */
static bool send_most_of_a_frame(int fd)
{
    enum { PAYLOAD = 4 * 1024 * 1024 };
    uint8_t *bytes = calloc(1, DVG_FRAME_HEADER + PAYLOAD);
    assert_non_null(bytes);
    dvg_store_u32(bytes, DVG_FRAME_MAGIC);
    dvg_store_u16(bytes + 4, DVG_MESSAGE_PART);
    dvg_store_u32(bytes + 8, PAYLOAD);
    size_t sent = 0;
    ssize_t n = 1;
    while (n > 0 && sent < DVG_FRAME_HEADER + PAYLOAD - 1) {
        n = send(fd, bytes + sent, DVG_FRAME_HEADER + PAYLOAD - 1 - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    free(bytes);
    return n > 0;
}

static void unfinished_frames_have_one_budget(void **state)
{
    (void)state;
    dvg_daemon_start(&d, (const char *const[]){"--receive-bytes=8M", NULL}, NULL);
    int first = connect_as_producer(1, 1);
    int second = connect_as_producer(2, 1);
    assert_true(send_most_of_a_frame(first));
    assert_false(send_most_of_a_frame(second));
    raw_expect_refused(second, DIVERGE_EBUSY);
    close(first);
    expect_service();
}

static void peer_that_does_not_read_is_closed(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, (const char *const[]){"DIVERGE_OUTPUT_BYTES=64K", NULL});
    int fd = raw_connect(d.socket);
    const struct timeval forever = {0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever));
    static const char json[] = "{\"command\":\"status\"}";
    struct dvg_buffer out;
    dvg_buffer_init(&out, 4096);
    const struct dvg_control control = {.json = {(const uint8_t *)json, sizeof(json) - 1}};
    assert_int_equal(dvg_control_encode(&out, DVG_MESSAGE_CONTROL_REQUEST, &control), 0);
    int sent = 0;
    while (sent < 1000000 && send(fd, out.data, out.size, MSG_NOSIGNAL) > 0)
        sent++;
    assert_in_range(sent, 100, 999999);
    dvg_buffer_fini(&out);
    close(fd);
    expect_service();
}

static void higher_epoch_takes_over_and_lower_is_refused(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    int first = connect_as_producer(9, 1);
    int second = connect_as_producer(9, 2);
    raw_expect_refused(first, DIVERGE_EBUSY);
    int third = raw_connect(d.socket);
    raw_send_hello(third, 9, 2);
    raw_expect_refused(third, DIVERGE_EBUSY);
    close(second);
    expect_service();
}

/* The folder keeps other users out; where somebody opened it, the daemon does. Only root can become
 * another. */
static void other_users_are_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    char folder[200];
    snprintf(folder, sizeof(folder), "%s/r", d.dir);
    dvg_daemon_start(&d, NULL, NULL);
    assert_int_equal(chmod(d.dir, 0711), 0);
    assert_int_equal(chmod(folder, 0711), 0);
    assert_int_equal(chmod(d.socket, 0777), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(12345) != 0 || setuid(12345) != 0)
            _exit(2);
        int fd = raw_try_connect(d.socket);
        uint8_t bytes[4096];
        struct dvg_frame frame;
        struct dvg_error_message message;
        bool refused = fd >= 0 && raw_read(fd, bytes, sizeof(bytes), &frame) == DVG_MESSAGE_ERROR &&
                       dvg_error_decode(frame.payload, &message) == 0 &&
                       message.status == DIVERGE_EPERM;
        _exit(refused ? 0 : 1);
    }
    producer_join(pid, 0);
    assert_int_equal(chmod(folder, 0700), 0);
    expect_service();
}

static void bad_control_requests_are_answered(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    static const char *const requests[] = {
        "{",
        "[]",
        "null",
        "{\"command\":7}",
        "{\"command\":\"nonsense\"}",
        "{\"command\":\"rm\",\"run\":1e300}",
        "{\"command\":\"rm\",\"run\":-1}",
    };
    char json[8192];
    int fd = raw_connect(d.socket);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        raw_send_control(fd, requests[i]);
        raw_read_control(fd, json, sizeof(json));
        if (!strstr(json, "\"ok\":false") || !strstr(json, "\"error\""))
            fail_msg("%s: %s", requests[i], json);
    }
    close(fd);
    expect_service();
}

static void status_counts_connections_and_records(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    assert_int_equal(producer_run(&plan), 0);
    int producer = connect_as_producer(3, 1);
    int fd = raw_connect(d.socket);
    char json[8192];
    raw_send_control(fd, "{\"command\":\"status\"}");
    raw_read_control(fd, json, sizeof(json));
    char records[64];
    snprintf(records, sizeof(records), "\"records\":%d", (int)(plan.steps * plan.records));
    assert_non_null(strstr(json, records));
    assert_non_null(strstr(json, "\"producers\":1"));
    assert_non_null(strstr(json, d.store));
    close(producer);
    close(fd);
    dvg_daemon_stop(&d);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(garbage_is_refused),
        TEST(producer_that_turns_bad_is_refused),
        TEST(oversize_frames_are_refused_from_their_header),
        TEST(silent_peers_are_closed_in_time),
        TEST(flood_of_peers_leaves_the_first_alone),
        TEST(full_daemon_answers_control_requests),
        TEST(unfinished_frames_have_one_budget),
        TEST(peer_that_does_not_read_is_closed),
        TEST(higher_epoch_takes_over_and_lower_is_refused),
        TEST(other_users_are_refused),
        TEST(bad_control_requests_are_answered),
        TEST(status_counts_connections_and_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
