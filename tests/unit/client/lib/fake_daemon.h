/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the protocol in a thread of the test, with the misbehaviour that a test asks
 * for. It "commits" by feeding frames to a receiver; what it has not committed is forgotten when a
 * connection ends.
 */
#ifndef DVG_TESTS_FAKE_DAEMON_H
#define DVG_TESTS_FAKE_DAEMON_H

#include <pthread.h>

#include "tests/unit/client/lib/receiver.h"

enum { FAKE_WAIT_MS = 20000 };

struct fake_daemon {
    char socket[108];
    pthread_t thread;
    int listen_fd;
    int wake_fd;
    int fd; /* the connection, -1: none */
    struct dvg_buffer in;
    uint64_t limit; /* of sequence numbers on this connection */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* under mutex; what it is to do */
    bool stop;
    bool silent;           /* does not answer HELLO */
    bool hold;             /* commits nothing and acknowledges nothing */
    bool mute;             /* commits, acknowledges nothing */
    int refuse;            /* answers HELLO with this status */
    uint64_t break_after;  /* ends the connection after committing this number, once; 0: never */
    int error_after_break; /* says this status before it does so */
    bool read_only;
    uint32_t max_frame;
    uint64_t max_segment_records;
    const char *run_name;
    /* under mutex; what happened */
    struct receiver receiver;
    unsigned connections; /* that said HELLO */
    unsigned ended;
    uint64_t frames;
};

/* Listens at `path`; the folder is the caller's. */
void fake_daemon_start(struct fake_daemon *daemon, const char *path);
/* Ends the connection and the listening, removes the socket. What was received stays. */
void fake_daemon_stop(struct fake_daemon *daemon);
/* Starts it again after a stop, with what it had committed. */
void fake_daemon_restart(struct fake_daemon *daemon);
void fake_daemon_fini(struct fake_daemon *daemon);

void fake_daemon_lock(struct fake_daemon *daemon);
void fake_daemon_unlock(struct fake_daemon *daemon);
/* Tells the connected producer whether the store is read-only. */
void fake_daemon_set_read_only(struct fake_daemon *daemon, bool read_only);
/* Waits until `is_so(daemon)`, called under the lock; fails the test after FAKE_WAIT_MS. */
void fake_daemon_wait(struct fake_daemon *daemon, bool (*is_so)(const struct fake_daemon *));

#endif
