/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/transport.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <diverge/error.h>

enum {
    /* What one read takes at most; a peer that has not said anything costs nothing. */
    READ_CHUNK = 256 * 1024,
    /* What each peer has whatever the others took: requests and small frames pass. */
    SURE_BYTES = 16 * 1024,
};

struct output {
    uv_write_t request;
    struct transport *transport;
    char data[];
};

static int convert(int status)
{
    switch (status) {
    case 0:
        return 0;
    case UV_ENOMEM:
        return DIVERGE_ENOMEM;
    case UV_EPIPE:
    case UV_ECONNRESET:
    case UV_ENOTCONN:
    case UV_ECANCELED:
    case UV_EOF:
        return DIVERGE_ECLOSED;
    default:
        return DIVERGE_EIO;
    }
}

static struct transport *of_handle(const uv_handle_t *handle)
{
    return handle->data;
}

int transport_init(struct transport *transport, uv_loop_t *loop,
                   const struct transport_events *events, struct transport_budget *budget,
                   size_t output_cap)
{
    *transport = (struct transport){
        .events = events,
        .budget = budget,
        .output_cap = output_cap,
    };
    int rc = uv_pipe_init(loop, &transport->pipe, 0);
    transport->pipe.data = transport;
    return convert(rc);
}

int transport_accept(struct transport *transport, uv_stream_t *listener)
{
    return convert(uv_accept(listener, (uv_stream_t *)&transport->pipe));
}

int transport_adopt(struct transport *transport, int fd)
{
    return convert(uv_pipe_open(&transport->pipe, fd));
}

/* Makes the buffer larger or smaller; not smaller than what is in it. EBUSY, ENOMEM. */
static int resize(struct transport *transport, size_t size)
{
    struct transport_budget *budget = transport->budget;
    size_t others = budget->used - transport->capacity;
    if (size > SURE_BYTES && size > transport->capacity &&
        (others > budget->limit || size > budget->limit - others))
        return DIVERGE_EBUSY;
    uint8_t *resized = size ? realloc(transport->buffer, size) : NULL;
    if (size && !resized)
        return DIVERGE_ENOMEM;
    if (!size)
        free(transport->buffer);
    transport->buffer = resized;
    transport->capacity = size;
    budget->used = others + size;
    return 0;
}

/* What a large frame took is given back; all of it where nothing waits and memory is short. */
static void shrink(struct transport *transport)
{
    bool short_of_memory = transport->budget->used > transport->budget->limit / 2;
    if (!transport->used && (short_of_memory || transport->closing || !transport->reading))
        (void)resize(transport, 0);
    else if (transport->used < READ_CHUNK && transport->capacity > READ_CHUNK)
        (void)resize(transport, READ_CHUNK); /* without success it stays as it is */
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct transport *transport = of_handle(handle);
    /* Without memory libuv reports UV_ENOBUFS to on_read. */
    *ret = uv_buf_init(NULL, 0);
    if (transport->used == transport->capacity) {
        int rc = resize(transport, transport->capacity + READ_CHUNK);
        if (rc == DIVERGE_EBUSY && !transport->capacity)
            rc = resize(transport, SURE_BYTES);
        transport->starved = rc == DIVERGE_EBUSY;
        if (rc)
            return;
    }
    *ret = uv_buf_init((char *)transport->buffer + transport->used,
                       (unsigned)(transport->capacity - transport->used));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    (void)buf;
    struct transport *transport = of_handle((uv_handle_t *)stream);
    if (got == 0) /* would block */
        return;
    if (got < 0) {
        transport_read_stop(transport);
        transport->used = 0;
        shrink(transport);
        transport->events->ended(transport, transport->starved ? DIVERGE_EBUSY
                                            : got == UV_EOF    ? 0
                                                               : convert((int)got));
        return;
    }
    transport->used += (size_t)got;
    ssize_t taken = transport->events->received(
        transport, (struct dvg_bytes){transport->buffer, transport->used});
    if (taken < 0) {
        transport_read_stop(transport);
        transport->used = 0;
        shrink(transport);
        return;
    }
    transport->used -= (size_t)taken;
    if (taken && transport->used)
        memmove(transport->buffer, transport->buffer + taken, transport->used);
    if (taken)
        shrink(transport);
}

int transport_read_start(struct transport *transport)
{
    if (transport->reading || transport->closing)
        return 0;
    int rc = uv_read_start((uv_stream_t *)&transport->pipe, on_alloc, on_read);
    transport->reading = rc == 0;
    return convert(rc);
}

void transport_read_stop(struct transport *transport)
{
    if (!transport->reading)
        return;
    uv_read_stop((uv_stream_t *)&transport->pipe);
    transport->reading = false;
}

static void on_written(uv_write_t *request, int status)
{
    struct output *output = request->data;
    struct transport *transport = output->transport;
    free(output);
    if (transport->closing)
        return;
    if (status)
        transport->events->ended(transport, convert(status));
    else if (!transport_has_output(transport))
        transport->events->drained(transport);
}

int transport_send(struct transport *transport, const void *data, size_t size)
{
    if (transport->closing)
        return DIVERGE_ECLOSED;
    uv_stream_t *stream = (uv_stream_t *)&transport->pipe;
    size_t queued = uv_stream_get_write_queue_size(stream);
    const char *rest = data;
    if (!queued) {
        uv_buf_t now = uv_buf_init((char *)data, (unsigned)size);
        int wrote = uv_try_write(stream, &now, 1);
        if (wrote < 0 && wrote != UV_EAGAIN)
            return convert(wrote);
        rest += wrote > 0 ? wrote : 0;
        size -= wrote > 0 ? (size_t)wrote : 0;
    }
    if (!size)
        return 0;
    if (queued > transport->output_cap || size > transport->output_cap - queued)
        return DIVERGE_ELIMIT;
    struct output *output = malloc(sizeof(*output) + size);
    if (!output)
        return DIVERGE_ENOMEM;
    output->transport = transport;
    output->request.data = output;
    memcpy(output->data, rest, size);
    uv_buf_t later = uv_buf_init(output->data, (unsigned)size);
    int rc = uv_write(&output->request, stream, &later, 1, on_written);
    if (rc)
        free(output);
    return convert(rc);
}

bool transport_has_output(const struct transport *transport)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&transport->pipe) > 0;
}

int transport_peer(const struct transport *transport, uint32_t *ret_uid, int32_t *ret_pid)
{
    int fd = -1;
    struct ucred cred;
    socklen_t size = sizeof(cred);
    if (uv_fileno((const uv_handle_t *)&transport->pipe, &fd) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
        return DIVERGE_EIO;
    *ret_uid = cred.uid;
    *ret_pid = cred.pid;
    return 0;
}

static void on_close(uv_handle_t *handle)
{
    struct transport *transport = of_handle(handle);
    (void)resize(transport, 0);
    transport->events->closed(transport);
}

void transport_close(struct transport *transport)
{
    if (transport->closing)
        return;
    transport->closing = true;
    transport->reading = false;
    uv_close((uv_handle_t *)&transport->pipe, on_close);
}
