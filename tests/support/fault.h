/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults by countdown: the Nth call of one kind fails. Two ways to use it.
 *
 * In a test program: link `dvg_fault`, then arm and disarm around the code under test. Calls made
 * by shared libraries (SQLite's writes, its allocations) are seen as well.
 *
 *     struct dvg_fault_sweep sweep = {.kind = DVG_FAULT_ALLOC, .error = ENOMEM};
 *     while (dvg_fault_sweep_next(&sweep)) {
 *         int rc = thing_open(&thing);             // armed: call number sweep.at fails
 *         dvg_fault_disarm();
 *         ...                                      // rc is an error, or the fault was absorbed
 *     }                                            // ends when a round ran without a fault
 *
 * In another process: LD_PRELOAD=$DVG_FAULT_LIB and DVG_FAULT="kind:N[:ERRNO[:on]][,...]".
 *     alloc:17            call 17 (from 0) of malloc, calloc, realloc, ... gives NULL, once
 *     write:3:ENOSPC:on   file writes from call 3 on fail
 *     write:@PATH:ENOSPC  file writes fail while PATH exists: a disk that fills and empties
 *     sync:2:KILL         SIGKILL in place of call 2: a death at a chosen point
 * DVG_FAULT_REPORT=PATH is created when the first fault fires, which tells a sweep when to stop.
 */
#ifndef DVG_TESTS_FAULT_H
#define DVG_TESTS_FAULT_H

#include <stdbool.h>

/* X(NAME, "name", what it counts) */
#define DVG_FAULT_KINDS(X)                                                                         \
    X(ALLOC, "alloc", "malloc, calloc, realloc, aligned_alloc, posix_memalign, str(n)dup")         \
    X(WRITE, "write", "write, pwrite, writev to regular files")                                    \
    X(READ, "read", "read, pread of regular files")                                                \
    X(SYNC, "sync", "fsync, fdatasync")                                                            \
    X(RESIZE, "resize", "ftruncate, posix_fallocate, fallocate")                                   \
    X(OPEN, "open", "open, openat")                                                                \
    X(MMAP, "mmap", "mmap of a file")                                                              \
    X(SEND, "send", "write, writev, send, sendmsg to sockets")                                     \
    X(THREAD, "thread", "pthread_create")

enum dvg_fault_kind {
#define X(NAME, name, counts) DVG_FAULT_##NAME,
    DVG_FAULT_KINDS(X)
#undef X
        DVG_FAULT_KIND_COUNT
};

/* Call number `countdown` of `kind` from now on fails with errno `error`; with `on`, those after
 * it too. One fault at a time; arming forgets what fired before. Counts calls of all threads. */
void dvg_fault_arm(enum dvg_fault_kind kind, long countdown, int error, bool on);
void dvg_fault_disarm(void);

/* Did a fault fire since it was armed? Stays readable after disarming. */
bool dvg_fault_fired(void);

struct dvg_fault_sweep {
    enum dvg_fault_kind kind;
    int error;
    bool on;
    long at;     /* the call that fails in this round */
    long rounds; /* rounds begun; a sweep that ends with 1 exercised nothing */
};

/* Arms the next round. False when the last round ran to its end without a fault. */
bool dvg_fault_sweep_next(struct dvg_fault_sweep *sweep);

#endif
