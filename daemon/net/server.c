/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/server.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <diverge/error.h>

#include "daemon/net/conn.h"
#include "daemon/net/folder_watch.h"
#include "daemon/net/listener.h"
#include "daemon/net/log.h"
#include "daemon/net/notify.h"
#include "daemon/net/thread_checker.h"
#include "daemon/net/writer.h"

enum server_state {
    SERVER_STARTING,
    SERVER_SERVING,
    SERVER_STOPPING,
};

enum {
    /* Slots beyond the limit: for peers that are told so and closed. */
    SPARE_SLOTS = 32,
    /* So many of them are kept for control requests: status and stop work on a full daemon. */
    CONTROL_PLACES = 8,
    SPOOL_GATHER_MS = 500,
    ACCEPT_AGAIN_MS = 100,
    SLOT_BITS = 17, /* of a connection's id; above them a number that is never reused */
    LOG_LIMITS = 64,
    N_SIGNALS = 2,
};

struct server {
    const struct config *config;
    struct thread_checker checker;
    enum server_state state;
    int status; /* what server_run returns */
    uv_loop_t loop;
    uv_async_t async; /* replies wait */
    uv_signal_t signals[N_SIGNALS];
    uv_timer_t idle;
    uv_timer_t watchdog;
    struct folder_watch spool_watch;
    uv_timer_t spool_timer;  /* gathers events */
    uv_timer_t accept_timer; /* accepts again when memory was short */
    struct listener listener;
    struct writer *writer;
    struct batch *stop; /* made beforehand, so that stopping cannot fail */
    bool writer_done;
    bool accept_waits; /* a peer waits for a free slot */

    struct conn_host host;
    struct transport_budget budget; /* of their receive buffers */
    struct conn **conns;            /* by slot; NULL: free */
    size_t n_slots;
    size_t n_conns;
    uint64_t next_number;

    size_t pending; /* bytes the writer has not done with, of all connections */
    struct conn *paused;
    struct conn **paused_end;
    struct log_limit log_limits[LOG_LIMITS]; /* by peer's pid; peers may share one */
};

static void stop_server(struct server *server, int status, const char *why);
static void finish_if_done(struct server *server);

/* ---- connections ----------------------------------------------------------------------------- */

static size_t slot_of(uint64_t id)
{
    return id & ((1u << SLOT_BITS) - 1);
}

/* NULL: it has gone, or was the writer's own (an import's). */
static struct conn *find_conn(struct server *server, uint64_t id)
{
    size_t slot = slot_of(id);
    struct conn *conn = slot < server->n_slots ? server->conns[slot] : NULL;
    return conn && conn->link.id == id ? conn : NULL;
}

static void update_count(struct server *server)
{
    writer_set_connections(server->writer, (uint32_t)server->n_conns);
    if (!server->config->idle_exit_s || server->state != SERVER_SERVING)
        return;
    if (server->n_conns)
        uv_timer_stop(&server->idle);
    else
        uv_timer_again(&server->idle);
}

static size_t free_slot(const struct server *server)
{
    size_t slot = 0;
    while (slot < server->n_slots && server->conns[slot])
        slot++;
    return slot;
}

static void on_accept_timer(uv_timer_t *timer);

/* False: there is no slot for one more, until a connection has gone, or no memory, for a while. */
static bool accept_one(struct server *server, uv_stream_t *stream)
{
    size_t slot = free_slot(server);
    if (slot == server->n_slots)
        return false;
    uint64_t id = server->next_number++ << SLOT_BITS | slot;
    struct conn *conn = conn_new(&server->host, &server->loop, id);
    if (!conn) {
        uv_timer_start(&server->accept_timer, on_accept_timer, ACCEPT_AGAIN_MS, 0);
        return false;
    }
    size_t limit = (size_t)server->config->max_connections;
    enum conn_place place = server->n_conns < limit                    ? CONN_PLACE_FREE
                            : server->n_conns < limit + CONTROL_PLACES ? CONN_PLACE_CONTROL
                                                                       : CONN_PLACE_NONE;
    server->conns[slot] = conn;
    server->n_conns++;
    update_count(server);
    conn_accept(conn, stream, place);
    return true;
}

static void on_connected(struct listener *listener, uv_stream_t *stream)
{
    struct server *server = listener->loop->data;
    THREAD_CHECK(&server->checker);
    server->accept_waits = !accept_one(server, stream);
}

static void accept_waiting(struct server *server)
{
    if (server->accept_waits && server->listener.pipe)
        server->accept_waits = !accept_one(server, (uv_stream_t *)server->listener.pipe);
}

static void on_accept_timer(uv_timer_t *timer)
{
    accept_waiting(timer->data);
}

static void unlink_paused(struct server *server, struct conn *conn)
{
    struct conn **at = &server->paused;
    while (*at && *at != conn)
        at = &(*at)->next_paused;
    if (!*at)
        return;
    *at = conn->next_paused;
    if (!*at)
        server->paused_end = at;
}

static void host_gone(void *context, struct conn *conn)
{
    struct server *server = context;
    if (conn->paused)
        unlink_paused(server, conn);
    assert(server->pending >= conn->pending);
    server->pending -= conn->pending;
    server->conns[slot_of(conn->link.id)] = NULL;
    server->n_conns--;
    conn_free(conn);
    update_count(server);
    accept_waiting(server);
    finish_if_done(server);
}

static bool has_room(const struct server *server, const struct conn *conn)
{
    return conn->pending < (size_t)server->config->connection_bytes &&
           server->pending < (size_t)server->config->queue_bytes;
}

static void host_push(void *context, struct conn *conn, struct batch *batch)
{
    struct server *server = context;
    THREAD_CHECK(&server->checker);
    server->pending += batch->size;
    writer_push(server->writer, batch);
    if (has_room(server, conn) || conn->paused || conn->phase == CONN_GONE)
        return;
    conn_pause(conn);
    conn->next_paused = NULL;
    *server->paused_end = conn;
    server->paused_end = &conn->next_paused;
}

static struct log_limit *host_log_limit(void *context, struct conn *conn)
{
    struct server *server = context;
    return &server->log_limits[(uint32_t)conn->link.pid % LOG_LIMITS];
}

/* First paused, first resumed. One whose own bytes are too many keeps its place. */
static void resume_paused(struct server *server)
{
    struct conn **at = &server->paused;
    while (*at && server->state != SERVER_STOPPING) {
        struct conn *conn = *at;
        if (!has_room(server, conn)) {
            at = &conn->next_paused;
            continue;
        }
        *at = conn->next_paused;
        if (!*at)
            server->paused_end = at;
        conn_resume(conn);
    }
}

/* ---- replies --------------------------------------------------------------------------------- */

static void reply_send(struct server *server, const struct reply *reply)
{
    struct conn *conn = find_conn(server, reply->id);
    if (!conn)
        return;
    assert(conn->pending >= reply->credit && server->pending >= reply->credit);
    conn->pending -= reply->credit;
    server->pending -= reply->credit;
    if (reply->size || reply->close)
        conn_send(conn, reply->data, reply->size, reply->close);
}

static void write_ready_fd(const struct config *config)
{
    if (config->ready_fd < 0)
        return;
    char text[PATHS_SOCKET_MAX + 16];
    int len = snprintf(text, sizeof(text), "READY %.*s\n", PATHS_SOCKET_MAX, config->socket);
    if (write((int)config->ready_fd, text, (size_t)len) != len)
        log_event(LOG_WARNING, "ready_fd", log_text("reason", strerror(errno)));
    close((int)config->ready_fd);
}

/* The store is open: peers may come. */
static void reply_ready(struct server *server)
{
    if (server->state != SERVER_STARTING)
        return;
    struct paths_error error = {{0}};
    int rc = listener_open(&server->listener, &server->loop, server->config->socket, on_connected,
                           &error);
    if (rc) {
        log_event(LOG_ERROR, "not_listening", log_number("status", rc),
                  log_text("reason", error.text));
        stop_server(server, rc, "no socket");
        return;
    }
    server->state = SERVER_SERVING;
    update_count(server);
    log_event(LOG_INFO, "ready", log_number("pid", getpid()),
              log_text("socket", server->config->socket), log_text("store", server->config->store),
              log_text("version", DIVERGE_VERSION));
    char state[PATHS_SOCKET_MAX + 64];
    snprintf(state, sizeof(state), "READY=1\nSTATUS=listening on %.*s", PATHS_SOCKET_MAX,
             server->config->socket);
    notify_send(state);
    write_ready_fd(server->config);
}

/* The store is closed. Peers get what is still to be sent, then their end. */
static void reply_done(struct server *server, const struct reply *reply)
{
    server->writer_done = true;
    if (reply->status && !server->status)
        server->status = reply->status;
    stop_server(server, 0, "writer ended");
    for (size_t i = 0; i < server->n_slots; i++) {
        if (server->conns[i])
            conn_close(server->conns[i]);
        if (server->conns[i])
            conn_let_go(server->conns[i], true);
    }
    finish_if_done(server);
}

static void take_reply(struct server *server, const struct reply *reply)
{
    switch (reply->kind) {
    case REPLY_SEND:
        reply_send(server, reply);
        break;
    case REPLY_CLOSED: {
        struct conn *conn = find_conn(server, reply->id);
        if (conn)
            conn_let_go(conn, false);
        break;
    }
    case REPLY_READY:
        reply_ready(server);
        break;
    case REPLY_PONG:
        notify_send("WATCHDOG=1");
        break;
    case REPLY_STOP:
        stop_server(server, 0, "asked by a control request");
        break;
    case REPLY_FAILED:
        log_event(LOG_ERROR, "store_not_usable", log_text("store", server->config->store),
                  log_number("status", reply->status),
                  log_text("reason", (const char *)reply->data));
        stop_server(server, reply->status, "store");
        break;
    case REPLY_DONE:
        reply_done(server, reply);
        break;
    }
}

static void on_async(uv_async_t *async)
{
    struct server *server = async->data;
    THREAD_CHECK(&server->checker);
    struct reply *reply = writer_take_replies(server->writer);
    while (reply) {
        struct reply *next = reply->next;
        take_reply(server, reply);
        free(reply);
        reply = next;
    }
    if (writer_is_broken(server->writer))
        stop_server(server, DIVERGE_ENOMEM, "out of memory");
    resume_paused(server);
}

/* Writer thread: all that libuv allows there. */
static void wake(void *context)
{
    struct server *server = context;
    uv_async_send(&server->async);
}

/* ---- start and end --------------------------------------------------------------------------- */

/* Ends accepting and reading; the writer commits what it was given and ends. Twice is fine. */
static void stop_server(struct server *server, int status, const char *why)
{
    if (status && !server->status)
        server->status = status;
    if (server->state == SERVER_STOPPING)
        return;
    server->state = SERVER_STOPPING;
    log_event(LOG_INFO, "stopping", log_text("why", why), log_number("status", server->status));
    notify_send("STOPPING=1\nSTATUS=committing");
    listener_close(&server->listener);
    server->accept_waits = false;
    uv_timer_stop(&server->idle);
    uv_timer_stop(&server->watchdog);
    uv_timer_stop(&server->spool_timer);
    uv_timer_stop(&server->accept_timer);
    folder_watch_close(&server->spool_watch);
    for (size_t i = 0; i < server->n_slots; i++) {
        if (server->conns[i])
            transport_read_stop(&server->conns[i]->transport);
    }
    writer_stop(server->writer, server->stop);
    server->stop = NULL;
}

/* Closes what keeps the loop alive, once the writer has ended and all connections are gone. */
static void finish_if_done(struct server *server)
{
    if (!server->writer_done || server->n_conns)
        return;
    uv_handle_t *const handles[] = {
        (uv_handle_t *)&server->async,        (uv_handle_t *)&server->signals[0],
        (uv_handle_t *)&server->signals[1],   (uv_handle_t *)&server->idle,
        (uv_handle_t *)&server->watchdog,     (uv_handle_t *)&server->spool_timer,
        (uv_handle_t *)&server->accept_timer,
    };
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
        if (!uv_is_closing(handles[i]))
            uv_close(handles[i], NULL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    stop_server(handle->data, 0, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void on_idle(uv_timer_t *timer)
{
    stop_server(timer->data, 0, "idle");
}

/* The manager's watchdog is answered by the writer: that is the thread which could hang. */
static void on_watchdog(uv_timer_t *timer)
{
    struct server *server = timer->data;
    struct batch *ping = batch_new(BATCH_PING, NULL, NULL, 0);
    if (ping)
        writer_push(server->writer, ping);
}

/* ---- spool files ----------------------------------------------------------------------------- */

static void on_spool_timer(uv_timer_t *timer)
{
    struct server *server = timer->data;
    struct batch *scan = batch_new(BATCH_SCAN, NULL, NULL, 0);
    if (scan)
        writer_push(server->writer, scan);
    else
        uv_timer_start(timer, on_spool_timer, SPOOL_GATHER_MS, 0);
}

static void on_spool_change(struct folder_watch *watch, const char *name)
{
    struct server *server = watch->context;
    size_t len = strlen(name);
    bool spool = len > 6 && strcmp(name + len - 6, ".spool") == 0;
    if (spool && !uv_is_active((const uv_handle_t *)&server->spool_timer))
        uv_timer_start(&server->spool_timer, on_spool_timer, SPOOL_GATHER_MS, 0);
}

/* Files that come while we run: of producers that did not reach us for a while, and then ended. */
static void watch_spools(struct server *server)
{
    struct paths_error error = {{0}};
    const char *folder = server->config->spool;
    uv_timer_init(&server->loop, &server->spool_timer);
    server->spool_timer.data = server;
    if (paths_folder_make(folder, &error) ||
        folder_watch_open(&server->spool_watch, &server->loop, server, on_spool_change) ||
        folder_watch_set(&server->spool_watch, folder))
        log_event(LOG_WARNING, "spool_not_watched", log_text("folder", folder),
                  log_text("reason", error.text));
}

static void start_timers(struct server *server)
{
    uv_timer_init(&server->loop, &server->idle);
    server->idle.data = server;
    uint64_t idle_ms = (uint64_t)server->config->idle_exit_s * 1000;
    if (idle_ms) { /* only for its repeat, which uv_timer_again uses */
        uv_timer_start(&server->idle, on_idle, idle_ms, idle_ms);
        uv_timer_stop(&server->idle);
    }
    uv_timer_init(&server->loop, &server->accept_timer);
    server->accept_timer.data = server;
    uv_timer_init(&server->loop, &server->watchdog);
    server->watchdog.data = server;
    uint64_t watchdog_ms = notify_watchdog_ms();
    if (watchdog_ms)
        uv_timer_start(&server->watchdog, on_watchdog, 0, watchdog_ms);
}

static int start_handles(struct server *server)
{
    static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT};
    if (uv_loop_init(&server->loop))
        return DIVERGE_ENOMEM;
    server->loop.data = server;
    int rc = uv_async_init(&server->loop, &server->async, on_async);
    server->async.data = server;
    for (int i = 0; i < N_SIGNALS && !rc; i++) {
        uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
        rc = uv_signal_start(&server->signals[i], on_signal, numbers[i]);
    }
    return rc ? DIVERGE_EIO : 0;
}

static int start(struct server *server, const struct config *config)
{
    thread_checker_bind(&server->checker);
    server->config = config;
    server->paused_end = &server->paused;
    server->next_number = 1;
    server->budget.limit = (size_t)config->receive_bytes;
    server->host = (struct conn_host){
        .context = server,
        .config = config,
        .budget = &server->budget,
        .push = host_push,
        .gone = host_gone,
        .log_limit = host_log_limit,
    };
    server->n_slots = (size_t)config->max_connections + SPARE_SLOTS;
    server->conns = calloc(server->n_slots, sizeof(struct conn *));
    server->stop = batch_new(BATCH_STOP, NULL, NULL, 0);
    if (!server->conns || !server->stop)
        return DIVERGE_ENOMEM;
    int rc = start_handles(server);
    if (rc)
        return rc;
    rc = writer_start(config, wake, server, &server->writer);
    if (!rc) {
        start_timers(server);
        watch_spools(server);
    }
    return rc;
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Also of a half-made server. There is no writer thread any more. */
static void free_server(struct server *server)
{
    if (!server)
        return;
    if (server->loop.data) {
        uv_walk(&server->loop, close_handle, NULL);
        uv_run(&server->loop, UV_RUN_DEFAULT);
        int leftover = uv_loop_close(&server->loop);
        assert(leftover == 0);
        (void)leftover;
    }
    free(server->stop);
    free(server->conns);
    free(server);
}

int server_run(const struct config *config)
{
    struct server *server = calloc(1, sizeof(*server));
    int rc = server ? start(server, config) : DIVERGE_ENOMEM;
    if (rc) {
        log_event(LOG_ERROR, "not_started", log_number("status", rc));
        free_server(server);
        return rc;
    }
    uv_run(&server->loop, UV_RUN_DEFAULT);
    writer_join(server->writer);
    rc = server->status;
    log_event(LOG_INFO, "stopped", log_number("status", rc));
    free_server(server);
    return rc;
}
