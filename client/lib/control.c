/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/control.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/lib/lock.h"
#include "client/wire/frame.h"

enum { IN_CHUNK = 64 * 1024 };

int dvg_control_open(struct dvg_control_link *link, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (!size || size >= sizeof(address.sun_path))
        return DIVERGE_EINVAL;
    memcpy(address.sun_path, path, size);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return DIVERGE_EUNAVAIL;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        int rc = errno == EACCES || errno == EPERM ? DIVERGE_EPERM : DIVERGE_EUNAVAIL;
        close(fd);
        return rc;
    }
    *link = (struct dvg_control_link){.fd = fd};
    dvg_buffer_init(&link->in, DVG_CONTROL_MAX + 1024 + IN_CHUNK);
    return 0;
}

void dvg_control_close(struct dvg_control_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    dvg_buffer_fini(&link->in);
}

/* Waits for `events` until `end_ns`: 0, EAGAIN when the time is over. */
static int wait_for(const struct dvg_control_link *link, short events, uint64_t end_ns)
{
    for (;;) {
        uint64_t now = dvg_now_ns();
        int left_ms = now < end_ns ? (int)((end_ns - now + 999999) / 1000000) : 0;
        struct pollfd fd = {.fd = link->fd, .events = events};
        int n = poll(&fd, 1, left_ms);
        if (n > 0)
            return 0;
        if (n == 0)
            return DIVERGE_EAGAIN;
        if (errno != EINTR)
            return DIVERGE_EIO;
    }
}

/* A request that is cut by the timeout leaves the connection in the middle of a frame: it is over
 * then. */
static int send_all(struct dvg_control_link *link, const uint8_t *bytes, size_t size,
                    uint64_t end_ns)
{
    while (size) {
        ssize_t n = send(link->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return DIVERGE_EUNAVAIL;
        if (n < 0) {
            int rc = wait_for(link, POLLOUT, end_ns);
            if (rc)
                return rc == DIVERGE_EAGAIN ? DIVERGE_EUNAVAIL : rc;
            continue;
        }
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

static int receive(struct dvg_control_link *link)
{
    if (link->in_used) {
        memmove(link->in.data, link->in.data + link->in_used, link->in.size - link->in_used);
        link->in.size -= link->in_used;
        link->in_used = 0;
    }
    if (dvg_buffer_reserve(&link->in, IN_CHUNK))
        return DIVERGE_ELIMIT;
    ssize_t n = recv(link->fd, link->in.data + link->in.size, IN_CHUNK, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : DIVERGE_EUNAVAIL;
    link->in.size += (size_t)n;
    return n ? 0 : DIVERGE_EUNAVAIL;
}

/* 1: the reply to the last request; 0: not yet; or why there will be none. */
static int take_reply(struct dvg_control_link *link, struct dvg_control *ret)
{
    while (link->in_used < link->in.size) {
        struct dvg_bytes rest = {.data = link->in.data + link->in_used,
                                 .size = link->in.size - link->in_used};
        struct dvg_frame frame;
        size_t size;
        int rc = dvg_frame_decode(rest, DVG_CONTROL_MAX + 1024, &frame, &size);
        if (rc != 1)
            return rc;
        link->in_used += size;
        if (frame.type == DVG_MESSAGE_ERROR) {
            struct dvg_error_message error;
            rc = dvg_error_decode(frame.payload, &error);
            return rc ? rc : error.status;
        }
        if (frame.type != DVG_MESSAGE_CONTROL_REPLY)
            return DIVERGE_EPROTO;
        rc = dvg_control_decode(frame.payload, ret);
        /* A late reply to a request that timed out is passed over. */
        if (rc || ret->request == link->request)
            return rc ? rc : 1;
    }
    return 0;
}

int dvg_control_call(struct dvg_control_link *link, const char *json, size_t size, int timeout_ms,
                     const char **ret, size_t *ret_size)
{
    uint64_t end_ns = dvg_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
    struct dvg_control request = {
        .request = ++link->request,
        .json = {.data = (const uint8_t *)json, .size = size},
    };
    struct dvg_buffer frame;
    dvg_buffer_init(&frame, DVG_CONTROL_MAX + 1024);
    int rc = dvg_control_encode(&frame, DVG_MESSAGE_CONTROL_REQUEST, &request);
    if (!rc)
        rc = send_all(link, frame.data, frame.size, end_ns);
    dvg_buffer_fini(&frame);
    if (rc)
        return rc;
    struct dvg_control reply = {0};
    while ((rc = take_reply(link, &reply)) == 0) {
        rc = wait_for(link, POLLIN, end_ns);
        if (!rc)
            rc = receive(link);
        if (rc)
            return rc;
    }
    if (rc < 0)
        return rc;
    *ret = (const char *)reply.json.data;
    *ret_size = reply.json.size;
    return 0;
}
