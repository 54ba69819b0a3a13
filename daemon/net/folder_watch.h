/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says when names come to or go from a folder. By inotify itself: uv_fs_event also reports every
 * write to a file there, which would wake the loop for each commit when the store lies beside the
 * socket. Loop thread.
 */
#ifndef DAEMON_NET_FOLDER_WATCH_H
#define DAEMON_NET_FOLDER_WATCH_H

#include <stdbool.h>
#include <uv.h>

struct folder_watch {
    uv_poll_t poll;
    int fd; /* owned */
    int wd; /* -1: nothing is watched */
    bool open;
    void *context;
    /* `name`: the entry, or "" when it is the folder itself that has gone. */
    void (*changed)(struct folder_watch *watch, const char *name);
};

/* EIO: there is no inotify instance left. Then all other calls do nothing. */
int folder_watch_open(struct folder_watch *watch, uv_loop_t *loop, void *context,
                      void (*changed)(struct folder_watch *watch, const char *name));
/* Watches this folder, and no other any more. EIO. */
int folder_watch_set(struct folder_watch *watch, const char *folder);
/* The memory may go when the loop has run its closing callbacks. Twice is fine. */
void folder_watch_close(struct folder_watch *watch);

#endif
