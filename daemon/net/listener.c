/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/listener.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <diverge/error.h>

#include "daemon/net/log.h"

enum {
    BACKLOG = 128,
    RETRY_MS = 1000,
};

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *listener = stream->data;
    if (status == 0)
        listener->connected(listener, stream);
    else
        log_event(LOG_ERROR, "accept_failed", log_text("reason", uv_strerror(status)));
}

static void on_pipe_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_pipe(struct listener *listener)
{
    if (listener->pipe)
        uv_close((uv_handle_t *)listener->pipe, on_pipe_closed);
    listener->pipe = NULL;
}

static int refuse(struct paths_error *error, const char *path, const char *why, int status)
{
    snprintf(error->text, sizeof(error->text), "cannot listen on %s: %s", path, why);
    return status;
}

/*
 * Not uv_pipe_bind: that cuts long paths without a word, and removes the file when the handle
 * closes, even when it is by then another one.
 */
static int bind_socket(struct listener *listener, struct paths_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(listener->path);
    assert(len <= PATHS_SOCKET_MAX); /* paths_socket looked */
    memcpy(address.sun_path, listener->path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        lstat(listener->path, &st) != 0) {
        int status = errno == EADDRINUSE                 ? DIVERGE_EEXIST
                     : errno == EACCES || errno == EROFS ? DIVERGE_EPERM
                                                         : DIVERGE_EIO;
        refuse(error, listener->path, strerror(errno), status);
        if (fd >= 0)
            close(fd);
        return status;
    }
    listener->device = st.st_dev;
    listener->inode = st.st_ino;
    return fd;
}

static int start_listening(struct listener *listener, struct paths_error *error)
{
    int fd = bind_socket(listener, error);
    if (fd < 0)
        return fd;
    uv_pipe_t *pipe = calloc(1, sizeof(*pipe));
    if (!pipe) {
        close(fd);
        return refuse(error, listener->path, "out of memory", DIVERGE_ENOMEM);
    }
    uv_pipe_init(listener->loop, pipe, 0);
    pipe->data = listener;
    close_pipe(listener);
    listener->pipe = pipe;
    int rc = uv_pipe_open(pipe, fd);
    if (rc)
        close(fd);
    else
        rc = uv_listen((uv_stream_t *)pipe, BACKLOG, on_connection);
    return rc ? refuse(error, listener->path, uv_strerror(rc), DIVERGE_EIO) : 0;
}

static int start_watch(struct listener *listener)
{
    char folder[PATHS_MAX];
    if (paths_parent(listener->path, folder))
        return DIVERGE_ELIMIT;
    return folder_watch_set(&listener->watch, folder);
}

static void restore(struct listener *listener);

static void on_retry(uv_timer_t *timer)
{
    restore(timer->data);
}

/* The file is gone, maybe with its folder: makes both again. */
static void restore(struct listener *listener)
{
    char folder[PATHS_MAX];
    struct paths_error error = {{0}};
    int rc = paths_parent(listener->path, folder);
    if (!rc)
        rc = paths_folder_private(folder, &error);
    if (!rc)
        rc = start_listening(listener, &error);
    if (!rc && listener->watch.open)
        rc = start_watch(listener);
    if (rc) {
        log_event(LOG_ERROR, "socket_not_restored", log_text("socket", listener->path),
                  log_number("status", rc), log_text("reason", error.text));
        uv_timer_start(&listener->retry, on_retry, RETRY_MS, 0);
        return;
    }
    log_event(LOG_WARNING, "socket_restored", log_text("socket", listener->path));
}

static void on_change(struct folder_watch *watch, const char *name)
{
    (void)name;
    struct listener *listener = watch->context;
    struct stat st;
    if (lstat(listener->path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
        restore(listener);
}

int listener_open(struct listener *listener, uv_loop_t *loop, const char *path,
                  void (*connected)(struct listener *listener, uv_stream_t *stream),
                  struct paths_error *error)
{
    *listener = (struct listener){.loop = loop, .path = path, .connected = connected};
    uv_timer_init(loop, &listener->retry);
    listener->retry.data = listener;
    listener->open = true;
    int rc = start_listening(listener, error);
    /* Without a watch (no inotify instance left) the daemon still serves. */
    if (!rc &&
        (folder_watch_open(&listener->watch, loop, listener, on_change) || start_watch(listener)))
        log_event(LOG_WARNING, "socket_not_watched", log_text("socket", path));
    return rc;
}

void listener_close(struct listener *listener)
{
    if (!listener->open)
        return;
    listener->open = false;
    uv_close((uv_handle_t *)&listener->retry, NULL);
    folder_watch_close(&listener->watch);
    close_pipe(listener);
    struct stat st;
    if (lstat(listener->path, &st) == 0 && st.st_dev == listener->device &&
        st.st_ino == listener->inode)
        unlink(listener->path);
}
