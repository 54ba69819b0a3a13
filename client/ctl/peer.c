/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <diverge/error.h>

enum { CHUNK = 64 * 1024 };

static int status_of_errno(int number)
{
    switch (number) {
    case EACCES:
    case EPERM:
        return DIVERGE_EPERM;
    case ENOMEM:
        return DIVERGE_ENOMEM;
    default:
        return DIVERGE_EUNAVAIL;
    }
}

int peer_connect(struct peer *peer, const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *peer = (struct peer){.fd = -1};
    if (strlen(socket_path) >= sizeof(address.sun_path))
        return DIVERGE_ELIMIT;
    strcpy(address.sun_path, socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return status_of_errno(errno);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int status = status_of_errno(errno);

        close(fd);
        return status;
    }
    peer->fd = fd;
    dvg_buffer_init(&peer->in, DVG_FRAME_MAX + DVG_FRAME_HEADER + CHUNK);
    return 0;
}

void peer_close(struct peer *peer)
{
    if (peer->fd < 0)
        return;
    close(peer->fd);
    dvg_buffer_fini(&peer->in);
    peer->fd = -1;
}

/* Takes what has arrived: the number of bytes, or negative. */
static int fill(struct peer *peer)
{
    if (peer->taken) {
        memmove(peer->in.data, peer->in.data + peer->taken, peer->in.size - peer->taken);
        peer->in.size -= peer->taken;
        peer->taken = 0;
    }
    int status = dvg_buffer_reserve(&peer->in, CHUNK);

    if (status)
        return status;
    ssize_t n = recv(peer->fd, peer->in.data + peer->in.size, CHUNK, MSG_DONTWAIT);

    if (n == 0)
        return DIVERGE_EUNAVAIL;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : DIVERGE_EUNAVAIL;
    peer->in.size += (size_t)n;
    return (int)n;
}

int peer_send(struct peer *peer, const void *bytes, size_t size, int timeout_ms)
{
    const char *from = bytes;

    while (size) {
        struct pollfd wait = {.fd = peer->fd, .events = POLLIN | POLLOUT};
        int ready = poll(&wait, 1, timeout_ms);

        if (ready < 0 && errno != EINTR)
            return DIVERGE_EUNAVAIL;
        if (ready == 0)
            return DIVERGE_EAGAIN;
        if (ready > 0 && (wait.revents & POLLOUT)) {
            ssize_t n = send(peer->fd, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);

            if (n < 0 && errno != EAGAIN && errno != EINTR)
                return DIVERGE_EUNAVAIL;
            from += n > 0 ? n : 0;
            size -= n > 0 ? (size_t)n : 0;
        }
        if (ready > 0 && (wait.revents & (POLLIN | POLLHUP | POLLERR))) {
            int status = fill(peer);

            if (status < 0)
                return status;
        }
    }
    return 0;
}

int peer_receive(struct peer *peer, struct dvg_frame *ret, int timeout_ms)
{
    for (;;) {
        struct dvg_bytes bytes = {.data = peer->in.data + peer->taken,
                                  .size = peer->in.size - peer->taken};
        size_t size = 0;
        int status = bytes.size ? dvg_frame_decode(bytes, DVG_FRAME_MAX, ret, &size) : 0;

        if (status < 0)
            return status;
        if (status == 1) {
            peer->taken += size;
            return 0;
        }
        struct pollfd wait = {.fd = peer->fd, .events = POLLIN};
        int ready = poll(&wait, 1, timeout_ms);

        if (ready == 0)
            return DIVERGE_EAGAIN;
        if (ready < 0 && errno != EINTR)
            return DIVERGE_EUNAVAIL;
        status = ready > 0 ? fill(peer) : 0;
        if (status < 0)
            return status;
    }
}

void peer_finish(struct peer *peer, int timeout_ms)
{
    struct dvg_frame frame;

    if (peer->fd < 0 || shutdown(peer->fd, SHUT_WR) != 0)
        return;
    while (peer_receive(peer, &frame, timeout_ms) == 0)
        ;
}
