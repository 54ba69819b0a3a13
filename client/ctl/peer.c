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

#include "daemon/proto/json.h"

enum { CHUNK = 64 * 1024 };

static int status_of_errno(int number)
{
    switch (number) {
    case EACCES:
    case EPERM: return DIVERGE_EPERM;
    case ENOMEM: return DIVERGE_ENOMEM;
    default: return DIVERGE_EUNAVAIL;
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

/* ---- control -------------------------------------------------------------------------------- */

uint64_t peer_u64(const cJSON *object, const char *key)
{
    uint64_t value = 0;

    return json_get_u64(object, key, &value) == 0 ? value : 0;
}

const char *peer_text(const cJSON *object, const char *key)
{
    const char *text = "";

    return json_get_string(object, key, &text) == 0 ? text : "";
}

static int send_request(struct peer *peer, const char *text, int timeout_ms)
{
    struct dvg_buffer out;
    struct dvg_control request = {
        .request = ++peer->request,
        .json = {.data = (const uint8_t *)text, .size = strlen(text)},
    };

    dvg_buffer_init(&out, DVG_CONTROL_MAX + 1024);
    int status = dvg_control_encode(&out, DVG_MESSAGE_CONTROL_REQUEST, &request);

    if (!status)
        status = peer_send(peer, out.data, out.size, timeout_ms);
    dvg_buffer_fini(&out);
    return status;
}

/* What a reply says: 0, its status, or EPROTO when it is no reply. */
static int reply_status(const cJSON *reply, char error[512])
{
    const cJSON *status = json_get(reply, "status");
    bool ok = false;

    if (json_get_bool(reply, "ok", &ok) != 0)
        return DIVERGE_EPROTO;
    if (ok)
        return 0;
    if (!cJSON_IsNumber(status) || status->valueint >= 0)
        return DIVERGE_EPROTO;
    snprintf(error, 512, "%s", peer_text(reply, "error"));
    return status->valueint;
}

static int read_error_frame(const struct dvg_frame *frame, char error[512])
{
    struct dvg_error_message message;

    if (dvg_error_decode(frame->payload, &message) != 0 || message.status >= 0)
        return DIVERGE_EPROTO;
    snprintf(error, 512, "%.*s", (int)(message.text.size < 500 ? message.text.size : 500),
             (const char *)message.text.data);
    return message.status;
}

static int receive_reply(struct peer *peer, int timeout_ms, cJSON **ret, char error[512])
{
    struct dvg_frame frame;
    struct dvg_control reply;
    int status = peer_receive(peer, &frame, timeout_ms);

    if (status)
        return status;
    if (frame.type == DVG_MESSAGE_ERROR)
        return read_error_frame(&frame, error);
    if (frame.type != DVG_MESSAGE_CONTROL_REPLY || dvg_control_decode(frame.payload, &reply) ||
        reply.request != peer->request)
        return DIVERGE_EPROTO;
    cJSON *object = NULL;

    status = json_parse(reply.json, &object, NULL);
    if (status)
        return status;
    status = reply_status(object, error);
    if (status)
        cJSON_Delete(object);
    else
        *ret = object;
    return status;
}

int peer_control(struct peer *peer, cJSON *request, int timeout_ms, cJSON **ret, char error[512])
{
    char *text = request ? cJSON_PrintUnformatted(request) : NULL;

    error[0] = '\0';
    cJSON_Delete(request);
    if (!text)
        return DIVERGE_ENOMEM;
    int status = send_request(peer, text, timeout_ms);

    free(text);
    return status ? status : receive_reply(peer, timeout_ms, ret, error);
}
