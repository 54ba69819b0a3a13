/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the store, the socket, the lock and the spool of a user are; shared by diverged and
 * divergectl. No state, any thread. libdiverge resolves the socket and the spool by the same rules
 * on its own.
 */
#ifndef DAEMON_PROTO_PATHS_H
#define DAEMON_PROTO_PATHS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    PATHS_MAX = 4096,
    PATHS_SOCKET_MAX = 107, /* sockaddr_un.sun_path less its NUL */
};

/* Why a path was refused and what to do, for a person. */
struct paths_error {
    char text[PATHS_MAX + 256];
};

/*
 * `given` (a flag's value), else DIVERGE_SOCKET, else $XDG_RUNTIME_DIR/diverge/diverged.sock, else
 * /tmp/diverge-UID/diverged.sock. ELIMIT: more than PATHS_SOCKET_MAX bytes. The file need not
 * exist.
 */
int paths_socket(const char *given, char ret[PATHS_MAX], struct paths_error *error);

/*
 * `given`, else DIVERGE_STORE, else $XDG_STATE_HOME/diverge/diverge.db ($HOME/.local/state) when
 * that is on a local file system, else /var/tmp/diverge-UID/diverge.db with *ret_moved = true (may
 * be NULL), to be said once.
 */
int paths_store(const char *given, char ret[PATHS_MAX], bool *ret_moved, struct paths_error *error);

/*
 * `given`, else DIVERGE_SPOOL, else the folder of the socket: where clients leave what no daemon
 * took.
 */
int paths_spool(const char *given, const char *socket, char ret[PATHS_MAX],
                struct paths_error *error);

/*
 * STORE.lock: the store's daemon holds an open-file-description lock (F_OFD_SETLK, exclusive) on it
 * for its life. Its text: "pid=PID\nsocket=PATH\n".
 */
int paths_lock(const char *store, char ret[PATHS_MAX], struct paths_error *error);

/*
 * What the lock file says. ENOTFOUND: there is none, or nobody holds it. EAGAIN: held, not yet
 * written.
 */
struct paths_holder {
    long pid;
    char socket[PATHS_MAX];
};
int paths_lock_holder(const char *lock, struct paths_holder *ret);

/* The folder part of `path` ("." when it has none). ELIMIT when it does not fit. */
int paths_parent(const char *path, char ret[PATHS_MAX]);

/* Makes `dir`, with its parents, as 0700 when it is missing. EPERM, EIO. */
int paths_folder_make(const char *dir, struct paths_error *error);

/*
 * paths_folder_make, then checks with lstat that it is a folder of this user's (or root's own, for
 * root) that nobody else can enter or write. EPERM, EIO; error->text says what to do.
 */
int paths_folder_private(const char *dir, struct paths_error *error);

/*
 * Whether `path`, or its nearest parent that exists, is on a network file system; *ret_name names
 * it.
 */
bool paths_on_network(const char *path, const char **ret_name);

#endif
