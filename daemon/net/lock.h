/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock file, held for the process's life: an exclusive open-file-description lock, so the kernel
 * releases it however the process ends. The file stays (unlinking would let two processes each hold
 * "the" lock) and says who holds it: paths_lock_holder reads it. Main thread.
 */
#ifndef DAEMON_NET_LOCK_H
#define DAEMON_NET_LOCK_H

#include "daemon/proto/paths.h"

struct lock {
    int fd; /* owned; -1: not held */
};
#define LOCK_INIT                                                                                  \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/*
 * Takes the lock at `path` and writes this pid and `socket` into it. EBUSY: somebody holds it, with
 * *ret_holder filled (pid 0: it did not say). EPERM, EIO with error->text.
 */
int lock_take(struct lock *lock, const char *path, const char *socket,
              struct paths_holder *ret_holder, struct paths_error *error);
/* Same, but waits up to `timeout_ms` for the holder to let go. */
int lock_wait(struct lock *lock, const char *path, const char *socket, int timeout_ms,
              struct paths_holder *ret_holder, struct paths_error *error);
/* Empties the file and lets go. */
void lock_release(struct lock *lock);

#endif
