/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <diverge/error.h>

enum {
    POLL_MS = 10,
    /* A holder writes its name right after it took the lock. */
    NAME_WAIT_MS = 500,
};

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int fail_open(const char *path, struct paths_error *error)
{
    int status = errno == EACCES || errno == EPERM || errno == EROFS || errno == ELOOP
                     ? DIVERGE_EPERM
                 : errno == ENOSPC || errno == EDQUOT ? DIVERGE_EFULL
                                                      : DIVERGE_EIO;
    snprintf(error->text, sizeof(error->text), "cannot open the lock file %s: %s", path,
             strerror(errno));
    return status;
}

static int fail_busy(const char *path, struct paths_holder *ret_holder)
{
    *ret_holder = (struct paths_holder){0};
    for (int waited = 0; waited < NAME_WAIT_MS; waited += POLL_MS) {
        if (paths_lock_holder(path, ret_holder) != DIVERGE_EAGAIN)
            break;
        pause_ms(POLL_MS);
    }
    return DIVERGE_EBUSY;
}

static int write_name(int fd, const char *path, const char *socket, struct paths_error *error)
{
    char text[PATHS_MAX + 64];
    int len = snprintf(text, sizeof(text), "pid=%ld\nsocket=%s\n", (long)getpid(), socket);
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)len, 0) == len)
        return 0;
    int status = errno == ENOSPC || errno == EDQUOT ? DIVERGE_EFULL : DIVERGE_EIO;
    snprintf(error->text, sizeof(error->text), "cannot write the lock file %s: %s", path,
             strerror(errno));
    return status;
}

int lock_take(struct lock *lock, const char *path, const char *socket,
              struct paths_holder *ret_holder, struct paths_error *error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail_open(path, error);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        int busy = errno == EAGAIN || errno == EACCES;
        if (!busy)
            snprintf(error->text, sizeof(error->text), "cannot lock %s: %s", path, strerror(errno));
        close(fd);
        return busy ? fail_busy(path, ret_holder) : DIVERGE_EIO;
    }
    int rc = write_name(fd, path, socket, error);
    if (rc) {
        close(fd);
        return rc;
    }
    lock->fd = fd;
    return 0;
}

int lock_wait(struct lock *lock, const char *path, const char *socket, int timeout_ms,
              struct paths_holder *ret_holder, struct paths_error *error)
{
    for (int waited = 0;; waited += POLL_MS) {
        int rc = lock_take(lock, path, socket, ret_holder, error);
        if (rc != DIVERGE_EBUSY || waited >= timeout_ms)
            return rc;
        pause_ms(POLL_MS);
    }
}

void lock_release(struct lock *lock)
{
    if (lock->fd < 0)
        return;
    /* What it says is no longer true; the lock itself is what counts. */
    if (ftruncate(lock->fd, 0) != 0)
        (void)errno;
    close(lock->fd);
    lock->fd = -1;
}
