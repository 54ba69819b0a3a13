/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/folder_watch.h"

#include <stdalign.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <diverge/error.h>

enum {
    EVENTS = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
             IN_ONLYDIR,
    READ_MAX = 8192,
};

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct folder_watch *watch = poll->data;
    alignas(struct inotify_event) char bytes[READ_MAX];
    ssize_t got = 0;
    while (watch->open && (got = read(watch->fd, bytes, sizeof(bytes))) > 0) {
        for (ssize_t at = 0; at < got && watch->open;) {
            const struct inotify_event *event = (const struct inotify_event *)(bytes + at);
            at += (ssize_t)(sizeof(*event) + event->len);
            /* IN_IGNORED of a watch that was replaced says nothing. */
            if (event->wd == watch->wd && !(event->mask & IN_IGNORED))
                watch->changed(watch, event->len ? event->name : "");
        }
    }
}

int folder_watch_open(struct folder_watch *watch, uv_loop_t *loop, void *context,
                      void (*changed)(struct folder_watch *watch, const char *name))
{
    *watch = (struct folder_watch){.wd = -1, .context = context, .changed = changed};
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0)
        return DIVERGE_EIO;
    if (uv_poll_init(loop, &watch->poll, watch->fd)) {
        close(watch->fd);
        return DIVERGE_EIO;
    }
    watch->poll.data = watch;
    watch->open = true;
    if (uv_poll_start(&watch->poll, UV_READABLE, on_readable)) {
        folder_watch_close(watch);
        return DIVERGE_EIO;
    }
    return 0;
}

int folder_watch_set(struct folder_watch *watch, const char *folder)
{
    if (!watch->open)
        return DIVERGE_EIO;
    int wd = inotify_add_watch(watch->fd, folder, EVENTS);
    if (wd < 0)
        return DIVERGE_EIO;
    if (watch->wd >= 0 && watch->wd != wd)
        inotify_rm_watch(watch->fd, watch->wd);
    watch->wd = wd;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct folder_watch *watch = handle->data;
    close(watch->fd);
}

void folder_watch_close(struct folder_watch *watch)
{
    if (!watch->open)
        return;
    watch->open = false;
    uv_close((uv_handle_t *)&watch->poll, on_closed);
}
