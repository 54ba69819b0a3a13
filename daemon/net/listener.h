/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening socket. Its file is watched: when somebody removes it (a cleaner of /tmp, a hasty
 * rm), it is made again. Loop thread; whoever opens it holds the socket's lock, so a file found
 * there is nobody's.
 */
#ifndef DAEMON_NET_LISTENER_H
#define DAEMON_NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "daemon/net/folder_watch.h"
#include "daemon/proto/paths.h"

struct listener {
    uv_loop_t *loop;  /* borrowed */
    const char *path; /* borrowed */
    void (*connected)(struct listener *listener, uv_stream_t *stream);
    uv_pipe_t *pipe; /* owned; NULL: not listening */
    struct folder_watch watch;
    uv_timer_t retry; /* runs while the file cannot be made */
    dev_t device;     /* of our file, like inode */
    ino_t inode;
    bool open;
};

/* Makes and watches the socket. EPERM, EEXIST, EIO, ENOMEM; error->text says why. */
int listener_open(struct listener *listener, uv_loop_t *loop, const char *path,
                  void (*connected)(struct listener *listener, uv_stream_t *stream),
                  struct paths_error *error);

/* Stops accepting and removes the file, if it is still ours. Handles close with the loop's next
 * turn. */
void listener_close(struct listener *listener);

#endif
