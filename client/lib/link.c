/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/lib/process.h"

enum {
    OUT_MAX = 16 << 20,
    IN_MAX = 64 * 1024, /* the daemon's messages to a producer are small */
    IN_CHUNK = 4096,
};
#define BACKOFF_FIRST_NS UINT64_C(50000000)
#define BACKOFF_MAX_NS UINT64_C(2000000000)
#define GREETING_NS UINT64_C(1000000000)

void dvg_link_init(struct dvg_link *link, const char *path)
{
    *link = (struct dvg_link){.path = path, .fd = -1, .backoff_ns = BACKOFF_FIRST_NS};
    dvg_buffer_init(&link->in, IN_MAX);
    dvg_buffer_init(&link->out, OUT_MAX);
}

void dvg_link_fini(struct dvg_link *link)
{
    dvg_process_close(&link->fd);
    dvg_buffer_fini(&link->in);
    dvg_buffer_fini(&link->out);
}

static int open_socket(struct dvg_link *link)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(link->path);
    if (size >= sizeof(address.sun_path))
        return DIVERGE_EINVAL;
    memcpy(address.sun_path, link->path, size);
    dvg_process_lock();
    link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    dvg_process_unlock();
    if (link->fd < 0)
        return DIVERGE_EUNAVAIL;
    /* A Unix socket connects at once; EAGAIN means a full backlog. */
    if (connect(link->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return 0;
    return errno == EACCES || errno == EPERM ? DIVERGE_EPERM : DIVERGE_EUNAVAIL;
}

int dvg_link_start(struct dvg_link *link, const struct dvg_hello *hello, uint64_t now_ns)
{
    int rc = open_socket(link);
    dvg_buffer_clear(&link->in);
    dvg_buffer_clear(&link->out);
    link->in_used = 0;
    link->out_sent = 0;
    if (!rc)
        rc = dvg_hello_encode(&link->out, hello);
    if (rc) {
        dvg_link_drop(link, now_ns);
        return rc;
    }
    link->state = DVG_LINK_GREETING;
    link->deadline_ns = now_ns + GREETING_NS;
    return 0;
}

void dvg_link_drop(struct dvg_link *link, uint64_t now_ns)
{
    dvg_process_close(&link->fd);
    link->state = DVG_LINK_DOWN;
    link->retry_ns = now_ns + link->backoff_ns;
    link->backoff_ns *= 2;
    if (link->backoff_ns > BACKOFF_MAX_NS)
        link->backoff_ns = BACKOFF_MAX_NS;
}

void dvg_link_greeted(struct dvg_link *link)
{
    link->state = DVG_LINK_UP;
    link->backoff_ns = BACKOFF_FIRST_NS;
}

int dvg_link_write(struct dvg_link *link)
{
    while (dvg_link_has_output(link)) {
        ssize_t n = send(link->fd, link->out.data + link->out_sent, link->out.size - link->out_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0)
            return DIVERGE_EUNAVAIL;
        link->out_sent += (size_t)n;
    }
    dvg_buffer_clear(&link->out);
    link->out_sent = 0;
    return 0;
}

/* Room for one more chunk, at the cost of the frames that were handled. */
static int make_room(struct dvg_link *link)
{
    if (link->in_used) {
        memmove(link->in.data, link->in.data + link->in_used, link->in.size - link->in_used);
        link->in.size -= link->in_used;
        link->in_used = 0;
    }
    return dvg_buffer_reserve(&link->in, IN_CHUNK) ? DIVERGE_EPROTO : 0;
}

int dvg_link_read(struct dvg_link *link)
{
    int rc = make_room(link);
    if (rc)
        return rc;
    ssize_t n;
    do
        n = recv(link->fd, link->in.data + link->in.size, IN_CHUNK, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : DIVERGE_EUNAVAIL;
    link->in.size += (size_t)n;
    return n ? 0 : DIVERGE_EUNAVAIL;
}

int dvg_link_next(struct dvg_link *link, struct dvg_frame *ret)
{
    if (link->in_used == link->in.size)
        return 0;
    struct dvg_bytes rest = {.data = link->in.data + link->in_used,
                             .size = link->in.size - link->in_used};
    size_t size;
    int rc = dvg_frame_decode(rest, IN_MAX - DVG_FRAME_HEADER - IN_CHUNK, ret, &size);
    if (rc == 1)
        link->in_used += size;
    return rc;
}
