/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private folder and a real `diverged` in it, for tests. Everything waits for events: the
 * daemon's READY=1 on its notify socket, a process's end on its pidfd. Nothing sleeps.
 *
 * Functions here print what went wrong to stderr and fail the running cmocka test, so callers
 * need no error paths. The one exception is dvg_daemon_try_start.
 */
#ifndef DVG_TESTS_DAEMON_FIXTURE_H
#define DVG_TESTS_DAEMON_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    DVG_FIXTURE_PATH_MAX = 104, /* fits a sockaddr_un */
    DVG_FIXTURE_WAIT_MS = 30000,
};

/* ---- folders ---- */

/* Makes a fresh 0700 folder with a short path and writes the path to `dir`. */
void dvg_tempdir_make(char dir[DVG_FIXTURE_PATH_MAX]);
/* Removes the folder with everything in it; does not follow links. */
void dvg_tempdir_remove(const char *dir);

/* ---- programs ---- */

struct dvg_process {
    int status; /* as from waitpid */
    char *out;  /* stdout, NUL-terminated; owned */
    char *err;  /* stderr, NUL-terminated; owned */
    size_t out_len;
    size_t err_len;
};

/* Runs argv to its end (killed, and the test failed, after DVG_FIXTURE_WAIT_MS times ten). `env` is
 * NULL or a NULL-ended list of NAME=value set beside the test's own; a bare NAME unsets. */
void dvg_process_run(struct dvg_process *p, const char *const *argv, const char *const *env);
/* The exit status, or 128 + signal as a shell says it. */
int dvg_process_status(const struct dvg_process *p);
void dvg_process_fini(struct dvg_process *p);

/* Starts argv in the background. Ends with dvg_child_wait or dvg_child_kill. */
pid_t dvg_child_start(const char *const *argv, const char *const *env, const char *log_path);
/* Waits at most `timeout_ms` for the child to end; false when it still runs. */
bool dvg_child_wait(pid_t pid, int timeout_ms, int *ret_status);
/* SIGKILL and wait. */
void dvg_child_kill(pid_t pid);

/* ---- the daemon ---- */

struct dvg_daemon {
    char dir[DVG_FIXTURE_PATH_MAX];
    char store[DVG_FIXTURE_PATH_MAX + 16];  /* dir/s/diverge.db */
    char socket[DVG_FIXTURE_PATH_MAX + 16]; /* dir/r/sock */
    char spool[DVG_FIXTURE_PATH_MAX + 16];  /* dir/spool */
    char log[DVG_FIXTURE_PATH_MAX + 16];    /* dir/log: stdout and stderr of every start */
    pid_t pid;                              /* 0: not running */
    int notify_fd;
};

/* Makes the folder and points DIVERGE_STORE, DIVERGE_SOCKET and DIVERGE_SPOOL of this process,
 * and so of its children, into it. Starts nothing. */
void dvg_daemon_init(struct dvg_daemon *d);

/* Starts $DVG_DIVERGED and returns when it is ready to accept. `args` and `env` may be NULL;
 * `args` are added after the program's name. */
void dvg_daemon_start(struct dvg_daemon *d, const char *const *args, const char *const *env);
/* Same, but the daemon may end instead: false then, with its wait status. */
bool dvg_daemon_try_start(struct dvg_daemon *d, const char *const *args, const char *const *env,
                          int *ret_status);

/* SIGTERM; the test fails unless it ends with status 0. */
void dvg_daemon_stop(struct dvg_daemon *d);
/* kill -9: no clean-up of any kind. */
void dvg_daemon_kill(struct dvg_daemon *d);

/* Waits for the daemon to end by itself; the test fails if it does not. Gives the wait status. */
int dvg_daemon_wait(struct dvg_daemon *d);

/* Copies the daemon's log to stderr; for a failing test. */
void dvg_daemon_print_log(const struct dvg_daemon *d);

/* Kills it when it runs, removes the folder. Safe on a half-made one. */
void dvg_daemon_fini(struct dvg_daemon *d);

#endif
