/* SPDX-License-Identifier: Apache-2.0 */
/* A connection on one end of a socket pair and a real loop; the test is the peer and the writer. */
#include "daemon/net/conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "client/wire/frame.h"

enum { MAX_BATCHES = 64 };

struct harness {
    uv_loop_t loop;
    uv_timer_t guard; /* a test that waits for what never comes fails */
    struct config config;
    struct conn_host host;
    struct transport_budget budget;
    struct conn *conn; /* NULL: gone */
    struct log_limit limit;
    int peer;
    struct batch *batches[MAX_BATCHES];
    size_t n_batches;
};

static void host_push(void *context, struct conn *conn, struct batch *batch)
{
    struct harness *h = context;
    (void)conn;
    assert_true(h->n_batches < MAX_BATCHES);
    h->batches[h->n_batches++] = batch;
}

static void host_gone(void *context, struct conn *conn)
{
    struct harness *h = context;
    assert_ptr_equal(conn, h->conn);
    conn_free(conn);
    h->conn = NULL;
}

static struct log_limit *host_log_limit(void *context, struct conn *conn)
{
    (void)conn;
    return &((struct harness *)context)->limit;
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("what was waited for did not happen");
}

static int setup(void **state)
{
    struct harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    *state = h;
    log_init(LOG_ERROR);
    h->config = (struct config){
        .max_frame = 256 * 1024,
        .output_bytes = 64 * 1024,
        .handshake_ms = 60000,
        .max_connections = 4,
    };
    h->budget.limit = 1024 * 1024;
    h->host = (struct conn_host){
        .context = h,
        .config = &h->config,
        .budget = &h->budget,
        .push = host_push,
        .gone = host_gone,
        .log_limit = host_log_limit,
    };
    assert_int_equal(uv_loop_init(&h->loop), 0);
    uv_timer_init(&h->loop, &h->guard);
    uv_timer_start(&h->guard, on_guard, 20000, 0);
    return 0;
}

static void start(struct harness *h)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    h->peer = pair[1];
    h->conn = conn_new(&h->host, &h->loop, 42);
    assert_non_null(h->conn);
    conn_adopt(h->conn, pair[0]);
}

/* Runs the loop until the connection has gone, letting go of it as the writer would. */
static void run_until_gone(struct harness *h)
{
    while (h->conn) {
        if (h->n_batches && h->batches[h->n_batches - 1]->kind == BATCH_CLOSED)
            conn_let_go(h->conn, false);
        if (h->conn)
            uv_run(&h->loop, UV_RUN_ONCE);
    }
}

static int teardown(void **state)
{
    struct harness *h = *state;
    if (h->peer > 0)
        close(h->peer);
    run_until_gone(h);
    for (size_t i = 0; i < h->n_batches; i++)
        free(h->batches[i]);
    uv_close((uv_handle_t *)&h->guard, NULL);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&h->loop), 0);
    free(h);
    return 0;
}

static void run_until_batches(struct harness *h, size_t count)
{
    while (h->n_batches < count)
        uv_run(&h->loop, UV_RUN_ONCE);
}

/* ---- the peer ---- */

static size_t put_frame(uint8_t *at, unsigned type, size_t payload)
{
    memset(at, 0, DVG_FRAME_HEADER + payload);
    dvg_store_u32(at, DVG_FRAME_MAGIC);
    dvg_store_u16(at + 4, (uint16_t)type);
    dvg_store_u32(at + 8, (uint32_t)payload);
    return DVG_FRAME_HEADER + payload;
}

static void say(struct harness *h, const void *bytes, size_t size)
{
    assert_int_equal(send(h->peer, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void say_frame(struct harness *h, unsigned type, size_t payload)
{
    uint8_t *bytes = malloc(DVG_FRAME_HEADER + payload);
    assert_non_null(bytes);
    say(h, bytes, put_frame(bytes, type, payload));
    free(bytes);
}

/* The peer got an ERROR with this status, then the end. */
static void expect_error(struct harness *h, int status, const char *part)
{
    uint8_t bytes[4096];
    size_t used = 0;
    ssize_t got = 0;
    while ((got = recv(h->peer, bytes + used, sizeof(bytes) - used, 0)) > 0)
        used += (size_t)got;
    struct dvg_frame frame;
    size_t size = 0;
    assert_int_equal(dvg_frame_decode((struct dvg_bytes){bytes, used}, 4096, &frame, &size), 1);
    assert_int_equal(size, used);
    assert_int_equal(frame.type, DVG_MESSAGE_ERROR);
    struct dvg_error_message message;
    assert_int_equal(dvg_error_decode(frame.payload, &message), 0);
    assert_int_equal(message.status, status);
    assert_int_equal(message.fatal, 1);
    assert_non_null(memmem(message.text.data, message.text.size, part, strlen(part)));
}

/* ---- refusals ---- */

static void other_protocols_are_refused_at_their_first_bytes(void **state)
{
    struct harness *h = *state;
    start(h);
    say(h, "GET / HTTP/1.0\r\n\r\n", 18);
    run_until_gone(h);
    assert_int_equal(h->n_batches, 0);
    expect_error(h, DIVERGE_EPROTO, "not a frame");
}

static void first_message_must_open(void **state)
{
    struct harness *h = *state;
    start(h);
    say_frame(h, DVG_MESSAGE_PART, 8);
    run_until_gone(h);
    assert_int_equal(h->n_batches, 0);
    expect_error(h, DIVERGE_EPROTO, "HELLO");
}

static void large_hello_is_refused_from_its_header(void **state)
{
    struct harness *h = *state;
    start(h);
    uint8_t header[DVG_FRAME_HEADER];
    put_frame(header, DVG_MESSAGE_HELLO, 0);
    dvg_store_u32(header + 8, DVG_HELLO_MAX + 8);
    say(h, header, sizeof(header));
    run_until_gone(h);
    expect_error(h, DIVERGE_ELIMIT, "8192");
}

static void oversize_frame_is_refused_and_earlier_ones_kept(void **state)
{
    struct harness *h = *state;
    start(h);
    uint8_t bytes[3 * DVG_FRAME_HEADER + 64];
    size_t size = put_frame(bytes, DVG_MESSAGE_HELLO, 32);
    size += put_frame(bytes + size, DVG_MESSAGE_PART, 32);
    size_t good = size;
    size += put_frame(bytes + size, DVG_MESSAGE_PART, 0);
    dvg_store_u32(bytes + good + 8, 256 * 1024 + 8);
    say(h, bytes, size);
    run_until_gone(h);
    assert_int_equal(h->n_batches, 2);
    assert_int_equal(h->batches[0]->kind, BATCH_FRAMES);
    assert_int_equal(h->batches[0]->size, good);
    assert_memory_equal(h->batches[0]->data, bytes, good);
    assert_int_equal(h->batches[1]->kind, BATCH_CLOSED);
    expect_error(h, DIVERGE_ELIMIT, "262144");
}

static void silent_peer_is_closed_after_the_handshake_time(void **state)
{
    struct harness *h = *state;
    h->config.handshake_ms = 1;
    start(h);
    say(h, "DVG1", 4);
    run_until_gone(h);
    assert_int_equal(h->n_batches, 0);
    expect_error(h, DIVERGE_EAGAIN, "within 1 ms");
}

static void phases_do_not_mix(void **state)
{
    struct harness *h = *state;
    start(h);
    say_frame(h, DVG_MESSAGE_CONTROL_REQUEST, 16);
    say_frame(h, DVG_MESSAGE_HELLO, 16);
    run_until_gone(h);
    assert_int_equal(h->n_batches, 2);
    assert_int_equal(h->batches[0]->kind, BATCH_CONTROL);
    expect_error(h, DIVERGE_EPROTO, "control");
}

/* ---- what is taken ---- */

static void frames_that_arrive_in_pieces_are_put_together(void **state)
{
    struct harness *h = *state;
    start(h);
    uint8_t bytes[2 * DVG_FRAME_HEADER + 48];
    size_t hello = put_frame(bytes, DVG_MESSAGE_HELLO, 8);
    size_t size = hello + put_frame(bytes + hello, DVG_MESSAGE_PART, 40);
    for (size_t i = 0; i < size; i++) {
        say(h, bytes + i, 1);
        uv_run(&h->loop, UV_RUN_ONCE);
    }
    run_until_batches(h, 2);
    assert_int_equal(h->batches[0]->size, hello);
    assert_int_equal(h->batches[1]->size, size - hello);
    assert_memory_equal(h->batches[1]->data, bytes + hello, size - hello);
}

static void frames_that_arrive_together_are_one_batch(void **state)
{
    struct harness *h = *state;
    start(h);
    uint8_t bytes[100 * (DVG_FRAME_HEADER + 8)];
    size_t size = put_frame(bytes, DVG_MESSAGE_HELLO, 8);
    while (size < sizeof(bytes))
        size += put_frame(bytes + size, DVG_MESSAGE_PART, 8);
    say(h, bytes, size);
    run_until_batches(h, 1);
    assert_int_equal(h->batches[0]->size, size);
    assert_int_equal(h->conn->pending, size);
    assert_int_equal(h->conn->phase, CONN_PRODUCER);
}

static void largest_frame_passes(void **state)
{
    struct harness *h = *state;
    start(h);
    say_frame(h, DVG_MESSAGE_HELLO, 8);
    size_t size = DVG_FRAME_HEADER + 256 * 1024;
    uint8_t *bytes = malloc(size);
    put_frame(bytes, DVG_MESSAGE_PART, 256 * 1024);
    bytes[size - 1] = 7;
    for (size_t sent = 0; sent < size - 1;) {
        ssize_t got = send(h->peer, bytes + sent, size - 1 - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += got > 0 ? (size_t)got : 0;
        uv_run(&h->loop, UV_RUN_NOWAIT);
    }
    while (h->budget.used <= 256 * 1024)
        uv_run(&h->loop, UV_RUN_ONCE);
    say(h, bytes + size - 1, 1);
    run_until_batches(h, 2);
    assert_int_equal(h->batches[1]->size, size);
    assert_memory_equal(h->batches[1]->data, bytes, size);
    assert_in_range(h->budget.used, 0, 256 * 1024); /* what it took is given back */
    free(bytes);
}

static void control_requests_go_one_by_one(void **state)
{
    struct harness *h = *state;
    start(h);
    uint8_t bytes[3 * (DVG_FRAME_HEADER + 8)];
    for (size_t size = 0; size < sizeof(bytes);)
        size += put_frame(bytes + size, DVG_MESSAGE_CONTROL_REQUEST, 8);
    say(h, bytes, sizeof(bytes));
    run_until_batches(h, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(h->batches[i]->kind, BATCH_CONTROL);
        assert_int_equal(h->batches[i]->size, DVG_FRAME_HEADER + 8);
    }
}

static void paused_connection_does_not_read(void **state)
{
    struct harness *h = *state;
    start(h);
    say_frame(h, DVG_MESSAGE_HELLO, 8);
    run_until_batches(h, 1);
    conn_pause(h->conn);
    say_frame(h, DVG_MESSAGE_PART, 8);
    for (int i = 0; i < 10; i++)
        uv_run(&h->loop, UV_RUN_NOWAIT);
    assert_int_equal(h->n_batches, 1);
    conn_resume(h->conn);
    run_until_batches(h, 2);
}

/* ---- the end ---- */

static void memory_stays_until_the_writer_lets_go(void **state)
{
    struct harness *h = *state;
    start(h);
    say_frame(h, DVG_MESSAGE_HELLO, 8);
    shutdown(h->peer, SHUT_WR);
    run_until_batches(h, 2);
    assert_int_equal(h->batches[0]->kind, BATCH_FRAMES);
    assert_int_equal(h->batches[1]->kind, BATCH_CLOSED);
    for (int i = 0; i < 10; i++)
        uv_run(&h->loop, UV_RUN_NOWAIT);
    assert_non_null(h->conn);
    conn_send(h->conn, "late", 4, false);
    conn_let_go(h->conn, false);
    assert_null(h->conn);
}

static void writer_that_ended_holds_nothing(void **state)
{
    struct harness *h = *state;
    start(h);
    say_frame(h, DVG_MESSAGE_HELLO, 8);
    run_until_batches(h, 1);
    conn_let_go(h->conn, true);
    assert_non_null(h->conn);
    conn_close(h->conn);
    while (h->conn)
        uv_run(&h->loop, UV_RUN_ONCE);
    assert_int_equal(h->n_batches, 1);
}

static void peer_that_does_not_read_is_closed(void **state)
{
    struct harness *h = *state;
    start(h);
    say_frame(h, DVG_MESSAGE_HELLO, 8);
    run_until_batches(h, 1);
    static uint8_t answer[16 * 1024];
    int sent = 0;
    while (h->conn->phase == CONN_PRODUCER && sent < 1000) {
        conn_send(h->conn, answer, sizeof(answer), false);
        sent++;
    }
    assert_in_range(sent, 4, 100);
    assert_int_equal(h->conn->phase, CONN_GONE);
    run_until_gone(h);
}

static void last_answer_leaves_before_the_end(void **state)
{
    struct harness *h = *state;
    h->config.output_bytes = 8 * 1024 * 1024;
    start(h);
    say_frame(h, DVG_MESSAGE_CONTROL_REQUEST, 8);
    run_until_batches(h, 1);
    size_t size = 1024 * 1024;
    uint8_t *answer = calloc(1, size);
    conn_send(h->conn, answer, size, true);
    free(answer);
    assert_int_equal(h->conn->phase, CONN_CLOSING);
    size_t got = 0;
    for (;;) {
        uint8_t bytes[65536];
        ssize_t n = recv(h->peer, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n == 0)
            break;
        got += n > 0 ? (size_t)n : 0;
        uv_run(&h->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(got, size);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(other_protocols_are_refused_at_their_first_bytes),
        TEST(first_message_must_open),
        TEST(large_hello_is_refused_from_its_header),
        TEST(oversize_frame_is_refused_and_earlier_ones_kept),
        TEST(silent_peer_is_closed_after_the_handshake_time),
        TEST(phases_do_not_mix),
        TEST(frames_that_arrive_in_pieces_are_put_together),
        TEST(frames_that_arrive_together_are_one_batch),
        TEST(largest_frame_passes),
        TEST(control_requests_go_one_by_one),
        TEST(paused_connection_does_not_read),
        TEST(memory_stays_until_the_writer_lets_go),
        TEST(writer_that_ended_holds_nothing),
        TEST(peer_that_does_not_read_is_closed),
        TEST(last_answer_leaves_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
