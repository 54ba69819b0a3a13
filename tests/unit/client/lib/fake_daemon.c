/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "tests/unit/client/lib/fake_daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { IN_MAX = 16 << 20, CHUNK = 256 * 1024 };

static void send_buffer(struct fake_daemon *daemon, struct dvg_buffer *buffer)
{
    size_t sent = 0;
    while (daemon->fd >= 0 && sent < buffer->size) {
        ssize_t n = send(daemon->fd, buffer->data + sent, buffer->size - sent, MSG_NOSIGNAL);
        if (n <= 0)
            break; /* the producer has gone; the next read tells */
        sent += (size_t)n;
    }
    dvg_buffer_fini(buffer);
}

static void send_welcome(struct fake_daemon *daemon)
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_HELLO_MAX);
    struct dvg_welcome welcome = {
        .major = DVG_PROTOCOL_MAJOR,
        .minor = DVG_PROTOCOL_MINOR,
        .committed_seq = daemon->receiver.last_seq,
        .max_frame = daemon->max_frame,
        .max_segment_records = daemon->max_segment_records,
        .run_name = {.data = (const uint8_t *)daemon->run_name, .size = strlen(daemon->run_name)},
        .read_only = daemon->read_only,
    };
    memcpy(welcome.run_id, daemon->receiver.hello.run_id, 16);
    dvg_welcome_encode(&out, &welcome);
    send_buffer(daemon, &out);
}

static void send_error(struct fake_daemon *daemon, int status)
{
    static const char text[] = "as the test wants it";
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_HELLO_MAX);
    struct dvg_error_message error = {
        .status = status,
        .fatal = 1,
        .text = {.data = (const uint8_t *)text, .size = sizeof(text) - 1},
    };
    dvg_error_encode(&out, &error);
    send_buffer(daemon, &out);
}

static void send_ack(struct fake_daemon *daemon)
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_HELLO_MAX);
    struct dvg_ack ack = {.committed_seq = daemon->receiver.last_seq};
    dvg_ack_encode(&out, &ack);
    send_buffer(daemon, &out);
}

static void end_connection(struct fake_daemon *daemon)
{
    if (daemon->fd >= 0) {
        close(daemon->fd);
        daemon->ended++;
    }
    daemon->fd = -1;
    dvg_buffer_clear(&daemon->in);
}

/* Under the lock. */
static void take_frame(struct fake_daemon *daemon, const struct dvg_frame *frame)
{
    daemon->frames++;
    if (frame->seq && daemon->hold)
        return;
    receiver_take(&daemon->receiver, frame);
    if (frame->type == DVG_MESSAGE_HELLO) {
        daemon->connections++;
        if (daemon->refuse) {
            send_error(daemon, daemon->refuse);
            end_connection(daemon);
        } else if (!daemon->silent) {
            send_welcome(daemon);
        }
    } else if (frame->seq && daemon->break_after && frame->seq >= daemon->break_after) {
        daemon->break_after = 0;
        if (daemon->error_after_break)
            send_error(daemon, daemon->error_after_break);
        end_connection(daemon);
    }
}

static void take_frames(struct fake_daemon *daemon)
{
    size_t used = 0;
    uint64_t before = daemon->receiver.last_seq;
    struct dvg_frame frame;
    size_t size;
    int rc = 1;
    while (daemon->fd >= 0 && used < daemon->in.size) {
        struct dvg_bytes rest = {.data = daemon->in.data + used, .size = daemon->in.size - used};
        rc = dvg_frame_decode(rest, daemon->max_frame, &frame, &size);
        assert_true(rc >= 0);
        if (rc == 0)
            break;
        used += size;
        take_frame(daemon, &frame);
    }
    if (daemon->fd < 0)
        return;
    memmove(daemon->in.data, daemon->in.data + used, daemon->in.size - used);
    daemon->in.size -= used;
    if (daemon->receiver.last_seq != before && !daemon->mute)
        send_ack(daemon);
}

/* The producer sent something, or left. */
static void read_connection(struct fake_daemon *daemon)
{
    assert_int_equal(dvg_buffer_reserve(&daemon->in, CHUNK), 0);
    ssize_t n = recv(daemon->fd, daemon->in.data + daemon->in.size, CHUNK, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end_connection(daemon);
        return;
    }
    daemon->in.size += (size_t)n;
    take_frames(daemon);
}

static void *serve(void *arg)
{
    struct fake_daemon *daemon = arg;
    for (;;) {
        struct pollfd fds[3] = {{.fd = daemon->wake_fd, .events = POLLIN},
                                {.fd = daemon->listen_fd, .events = POLLIN},
                                {.fd = daemon->fd, .events = POLLIN}};
        poll(fds, 3, -1);
        pthread_mutex_lock(&daemon->mutex);
        if (daemon->stop) {
            end_connection(daemon);
            pthread_mutex_unlock(&daemon->mutex);
            return NULL;
        }
        if (fds[2].revents && daemon->fd >= 0)
            read_connection(daemon);
        if (fds[1].revents) {
            end_connection(daemon); /* one live connection; the newer one takes over */
            daemon->fd = accept(daemon->listen_fd, NULL, NULL);
        }
        pthread_cond_broadcast(&daemon->changed);
        pthread_mutex_unlock(&daemon->mutex);
    }
}

static void listen_and_serve(struct fake_daemon *daemon)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, daemon->socket, strlen(daemon->socket));
    daemon->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    daemon->wake_fd = eventfd(0, EFD_CLOEXEC);
    daemon->fd = -1;
    daemon->stop = false;
    dvg_buffer_init(&daemon->in, IN_MAX);
    assert_true(daemon->listen_fd >= 0 && daemon->wake_fd >= 0);
    assert_int_equal(bind(daemon->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(daemon->listen_fd, 8), 0);
    assert_int_equal(pthread_create(&daemon->thread, NULL, serve, daemon), 0);
}

void fake_daemon_start(struct fake_daemon *daemon, const char *path)
{
    memset(daemon, 0, sizeof(*daemon));
    snprintf(daemon->socket, sizeof(daemon->socket), "%s", path);
    pthread_mutex_init(&daemon->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&daemon->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    receiver_init(&daemon->receiver);
    daemon->max_frame = DVG_FRAME_MAX;
    daemon->max_segment_records = 1 << 24;
    daemon->run_name = "settled.2";
    listen_and_serve(daemon);
}

void fake_daemon_stop(struct fake_daemon *daemon)
{
    fake_daemon_lock(daemon);
    daemon->stop = true;
    fake_daemon_unlock(daemon);
    uint64_t one = 1;
    assert_int_equal(write(daemon->wake_fd, &one, sizeof(one)), sizeof(one));
    pthread_join(daemon->thread, NULL);
    close(daemon->listen_fd);
    close(daemon->wake_fd);
    dvg_buffer_fini(&daemon->in);
    unlink(daemon->socket);
    daemon->listen_fd = -1;
}

void fake_daemon_restart(struct fake_daemon *daemon)
{
    listen_and_serve(daemon);
}

void fake_daemon_fini(struct fake_daemon *daemon)
{
    if (daemon->listen_fd >= 0)
        fake_daemon_stop(daemon);
    receiver_fini(&daemon->receiver);
    pthread_cond_destroy(&daemon->changed);
    pthread_mutex_destroy(&daemon->mutex);
}

void fake_daemon_lock(struct fake_daemon *daemon)
{
    pthread_mutex_lock(&daemon->mutex);
}

void fake_daemon_unlock(struct fake_daemon *daemon)
{
    pthread_mutex_unlock(&daemon->mutex);
}

void fake_daemon_set_read_only(struct fake_daemon *daemon, bool read_only)
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_HELLO_MAX);
    struct dvg_state state = {.read_only = read_only};
    dvg_state_encode(&out, &state);
    fake_daemon_lock(daemon);
    daemon->read_only = read_only;
    daemon->hold = read_only;
    send_buffer(daemon, &out);
    fake_daemon_unlock(daemon);
}

void fake_daemon_wait(struct fake_daemon *daemon, bool (*is_so)(const struct fake_daemon *))
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += FAKE_WAIT_MS / 1000;
    int rc = 0;
    fake_daemon_lock(daemon);
    while (!is_so(daemon) && !rc)
        rc = pthread_cond_timedwait(&daemon->changed, &daemon->mutex, &deadline);
    bool reached = is_so(daemon);
    fake_daemon_unlock(daemon);
    assert_true(reached);
}
