/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/conn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/wire/frame.h"

enum {
    /* How long a closing connection may take to read what it was sent. */
    CLOSE_MS = 2000,
    /* How long a peer beyond the limit may take for a request. */
    REQUEST_MS = 1000,
    ERROR_MAX = 1024,
};

static struct conn *of_transport(struct transport *transport)
{
    return (struct conn *)((char *)transport - offsetof(struct conn, transport));
}

static void conn_log(struct conn *conn, enum log_level level, const char *event, int status,
                     const char *text)
{
    struct log_limit *limit = conn->host->log_limit(conn->host->context, conn);
    uint32_t suppressed = 0;
    if (!log_wanted(level) || !log_limit_allow(limit, queue_now_ns(), &suppressed))
        return;
    log_event(level, event, log_number("connection", (int64_t)conn->link.id),
              log_number("pid", conn->link.pid), log_number("uid", conn->link.uid),
              log_number("status", status), log_text("reason", text),
              log_number("suppressed", suppressed));
}

/* ---- the end ----------------------------------------------------------------------------------
 */

static void check_gone(struct conn *conn)
{
    if (conn->handles == 0 && !conn->at_writer)
        conn->host->gone(conn->host->context, conn);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    conn->handles--;
    check_gone(conn);
}

static void on_transport_closed(struct transport *transport)
{
    struct conn *conn = of_transport(transport);
    conn->handles--;
    check_gone(conn);
}

/* Closes now, whatever is still to be sent. */
static void cut(struct conn *conn)
{
    if (conn->phase == CONN_GONE)
        return;
    conn->phase = CONN_GONE;
    transport_close(&conn->transport);
    uv_close((uv_handle_t *)&conn->timer, on_timer_closed);
    if (conn->at_writer && conn->writer_is_gone)
        conn->at_writer = false;
    if (conn->at_writer) {
        struct batch *batch = conn->closed_batch;
        conn->closed_batch = NULL;
        conn->host->push(conn->host->context, conn, batch);
    }
}

static void on_close_timeout(uv_timer_t *timer)
{
    struct conn *conn = timer->data;
    conn_log(conn, LOG_WARNING, "slow_reader", DIVERGE_ELIMIT, "did not read before it was closed");
    cut(conn);
}

void conn_close(struct conn *conn)
{
    if (conn->phase == CONN_GONE || conn->phase == CONN_CLOSING)
        return;
    transport_read_stop(&conn->transport);
    if (!transport_has_output(&conn->transport)) {
        cut(conn);
        return;
    }
    conn->phase = CONN_CLOSING;
    uv_timer_start(&conn->timer, on_close_timeout, CLOSE_MS, 0);
}

void conn_let_go(struct conn *conn, bool writer_ended)
{
    conn->writer_is_gone |= writer_ended;
    if (!conn->at_writer || (writer_ended && conn->phase != CONN_GONE))
        return;
    conn->at_writer = false;
    check_gone(conn);
}

void conn_free(struct conn *conn)
{
    free(conn->closed_batch);
    free(conn);
}

/* ---- output -----------------------------------------------------------------------------------
 */

void conn_send(struct conn *conn, const void *data, size_t size, bool close)
{
    if (conn->phase == CONN_GONE || conn->phase == CONN_CLOSING)
        return;
    int rc = size ? transport_send(&conn->transport, data, size) : 0;
    if (rc) {
        if (rc == DIVERGE_ELIMIT)
            conn_log(conn, LOG_WARNING, "slow_reader", rc, "does not read what it is sent");
        cut(conn);
    } else if (close) {
        conn_close(conn);
    }
}

void conn_refuse(struct conn *conn, int status, const char *text)
{
    conn_log(conn, LOG_WARNING, "peer_refused", status, text);
    struct dvg_buffer out;
    dvg_buffer_init(&out, ERROR_MAX);
    const struct dvg_error_message message = {
        .status = status,
        .fatal = 1,
        .text = {(const uint8_t *)text, strnlen(text, ERROR_MAX / 2)},
    };
    if (dvg_error_encode(&out, &message) == 0)
        conn_send(conn, out.data, out.size, true);
    else
        cut(conn);
    dvg_buffer_fini(&out);
}

static void on_drained(struct transport *transport)
{
    struct conn *conn = of_transport(transport);
    if (conn->phase == CONN_CLOSING)
        cut(conn);
}

static void on_ended(struct transport *transport, int status)
{
    struct conn *conn = of_transport(transport);
    if (status == DIVERGE_EBUSY) {
        conn_refuse(conn, status, "too much is being received already (--receive-bytes)");
        return;
    }
    if (status)
        conn_log(conn, LOG_DEBUG, "peer_lost", status, "connection broke");
    cut(conn);
}

/* ---- input ------------------------------------------------------------------------------------
 */

static bool push(struct conn *conn, enum batch_kind kind, const uint8_t *data, size_t size)
{
    struct batch *batch = batch_new(kind, &conn->link, data, size);
    if (!batch) {
        conn_refuse(conn, DIVERGE_EAGAIN, "the daemon is out of memory");
        return false;
    }
    conn->at_writer = true;
    conn->pending += size;
    conn->host->push(conn->host->context, conn, batch);
    return true;
}

/* How much payload the frame that starts here may have; before HELLO it must be one that opens. */
static size_t payload_cap(const struct conn *conn, struct dvg_bytes bytes)
{
    if (conn->phase == CONN_PRODUCER)
        return (size_t)conn->host->config->max_frame;
    if (conn->phase == CONN_CONTROL)
        return DVG_CONTROL_MAX;
    unsigned type = bytes.size >= DVG_FRAME_HEADER ? dvg_load_u16(bytes.data + 4) : 0;
    return type == DVG_MESSAGE_CONTROL_REQUEST ? DVG_CONTROL_MAX : DVG_HELLO_MAX;
}

static void refuse_frame(struct conn *conn, int status, size_t cap)
{
    char text[128];
    if (status == DIVERGE_ELIMIT)
        snprintf(text, sizeof(text), "a frame's payload has more than %zu bytes", cap);
    else
        snprintf(text, sizeof(text), "these bytes are not a frame of this protocol");
    conn_refuse(conn, status, text);
}

static void refuse_over_limit(struct conn *conn)
{
    char text[96];
    snprintf(text, sizeof(text), "more than %" PRId64 " connections (--max-connections)",
             conn->host->config->max_connections);
    conn_refuse(conn, DIVERGE_EBUSY, text);
}

/* The first frame decides what the connection is for. */
static bool enter_phase(struct conn *conn, uint16_t type)
{
    if (conn->phase == CONN_FIRST) {
        if (type != DVG_MESSAGE_HELLO && type != DVG_MESSAGE_CONTROL_REQUEST) {
            conn_refuse(conn, DIVERGE_EPROTO, "the first message must be HELLO");
            return false;
        }
        if (type == DVG_MESSAGE_HELLO && conn->place != CONN_PLACE_FREE) {
            refuse_over_limit(conn);
            return false;
        }
        uv_timer_stop(&conn->timer);
        conn->phase = type == DVG_MESSAGE_HELLO ? CONN_PRODUCER : CONN_CONTROL;
    }
    if (conn->phase == CONN_CONTROL && type != DVG_MESSAGE_CONTROL_REQUEST) {
        conn_refuse(conn, DIVERGE_EPROTO, "a control connection takes control requests only");
        return false;
    }
    if (conn->phase == CONN_PRODUCER && type == DVG_MESSAGE_CONTROL_REQUEST) {
        conn_refuse(conn, DIVERGE_EPROTO, "a producer's connection takes no control requests");
        return false;
    }
    return true;
}

/*
 * Producer frames that arrived together go to the writer as one batch, by one copy; control
 * requests one by one.
 */
static ssize_t on_received(struct transport *transport, struct dvg_bytes bytes)
{
    struct conn *conn = of_transport(transport);
    size_t used = 0;
    size_t whole = 0; /* end of the frames looked at; those in [used, whole) are not pushed yet */
    while (whole < bytes.size) {
        struct dvg_bytes rest = {bytes.data + whole, bytes.size - whole};
        size_t cap = payload_cap(conn, rest);
        struct dvg_frame frame;
        size_t size = 0;
        int rc = dvg_frame_decode(rest, cap, &frame, &size);
        if (rc == 0)
            break;
        if (rc < 0) {
            /* What came before is good, and is kept. */
            if (whole == used || push(conn, BATCH_FRAMES, bytes.data + used, whole - used))
                refuse_frame(conn, rc, cap);
            return -1;
        }
        if (!enter_phase(conn, frame.type))
            return -1;
        whole += size;
        if (conn->phase == CONN_CONTROL) {
            if (!push(conn, BATCH_CONTROL, bytes.data + used, whole - used))
                return -1;
            used = whole;
        }
    }
    if (whole > used && !push(conn, BATCH_FRAMES, bytes.data + used, whole - used))
        return -1;
    return (ssize_t)whole;
}

void conn_pause(struct conn *conn)
{
    conn->paused = true;
    transport_read_stop(&conn->transport);
}

void conn_resume(struct conn *conn)
{
    conn->paused = false;
    if (conn->phase != CONN_GONE && conn->phase != CONN_CLOSING &&
        transport_read_start(&conn->transport))
        cut(conn);
}

/* ---- the beginning ----------------------------------------------------------------------------
 */

static const struct transport_events events = {
    .received = on_received,
    .ended = on_ended,
    .drained = on_drained,
    .closed = on_transport_closed,
};

struct conn *conn_new(const struct conn_host *host, uv_loop_t *loop, uint64_t id)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    if (!conn)
        return NULL;
    conn->host = host;
    conn->link = (struct link){.id = id, .owner = conn, .uid = (uint32_t)-1};
    conn->closed_batch = batch_new(BATCH_CLOSED, &conn->link, NULL, 0);
    if (!conn->closed_batch || transport_init(&conn->transport, loop, &events, host->budget,
                                              (size_t)host->config->output_bytes)) {
        conn_free(conn);
        return NULL;
    }
    uv_timer_init(loop, &conn->timer);
    conn->timer.data = conn;
    conn->handles = 2;
    return conn;
}

static void on_handshake_timeout(uv_timer_t *timer)
{
    struct conn *conn = timer->data;
    if (conn->place != CONN_PLACE_FREE) {
        refuse_over_limit(conn);
        return;
    }
    char text[96];
    snprintf(text, sizeof(text), "no whole first message within %" PRId64 " ms",
             conn->host->config->handshake_ms);
    conn_refuse(conn, DIVERGE_EAGAIN, text);
}

/*
 * Others' processes are not served, whatever the socket's folder lets through. Refusals that may
 * not last have a status that tells producers to try again.
 */
static void start(struct conn *conn, enum conn_place place)
{
    int64_t wait_ms = conn->host->config->handshake_ms;
    if (place != CONN_PLACE_FREE && wait_ms > REQUEST_MS)
        wait_ms = REQUEST_MS;
    conn->place = place;
    if (transport_peer(&conn->transport, &conn->link.uid, &conn->link.pid)) {
        cut(conn);
    } else if (conn->link.uid != geteuid() && conn->link.uid != 0) {
        conn_refuse(conn, DIVERGE_EPERM, "this daemon serves another user");
    } else if (place == CONN_PLACE_NONE) {
        refuse_over_limit(conn);
    } else {
        uv_timer_start(&conn->timer, on_handshake_timeout, (uint64_t)wait_ms, 0);
        if (transport_read_start(&conn->transport))
            cut(conn);
    }
}

void conn_accept(struct conn *conn, uv_stream_t *listener, enum conn_place place)
{
    if (transport_accept(&conn->transport, listener))
        cut(conn);
    else
        start(conn, place);
}

void conn_adopt(struct conn *conn, int fd)
{
    if (transport_adopt(&conn->transport, fd)) {
        close(fd);
        cut(conn);
    } else {
        start(conn, CONN_PLACE_FREE);
    }
}
