/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/lib/process.h"

enum { SCRATCH_MAX = 2 * DVG_FRAME_MAX };

void dvg_spool_init(struct dvg_spool *spool, struct dvg_define *define, uint64_t cap)
{
    *spool = (struct dvg_spool){.fd = -1, .cap = cap, .define = define, .first = 1};
    dvg_buffer_init(&spool->scratch, SCRATCH_MAX);
}

static void close_file(struct dvg_spool *spool)
{
    dvg_process_close(&spool->fd);
}

void dvg_spool_fini(struct dvg_spool *spool)
{
    close_file(spool);
    dvg_buffer_fini(&spool->scratch);
}

static int status_of_errno(void)
{
    switch (errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EROFS:
        return DIVERGE_EFULL;
    case EEXIST:
        return DIVERGE_EEXIST;
    case EACCES:
    case EPERM:
        return DIVERGE_EPERM;
    default:
        return DIVERGE_EIO;
    }
}

/* All of `bytes` at the end of the file, or nothing. */
static int write_end(struct dvg_spool *spool, const uint8_t *bytes, size_t size)
{
    size_t written = 0;
    while (written < size) {
        ssize_t n =
            pwrite(spool->fd, bytes + written, size - written, (off_t)(spool->size + written));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int rc = n < 0 ? status_of_errno() : DIVERGE_EIO;
            /* What is left of a torn frame is the end of the file for every reader anyway. */
            if (written && ftruncate(spool->fd, (off_t)spool->size) != 0)
                return DIVERGE_EIO;
            return rc;
        }
        written += (size_t)n;
    }
    spool->size += size;
    return 0;
}

/* Sets the CRC of every frame in scratch from `start` on. */
static int seal_frames(struct dvg_spool *spool, size_t start)
{
    while (start < spool->scratch.size) {
        struct dvg_bytes rest = {.data = spool->scratch.data + start,
                                 .size = spool->scratch.size - start};
        struct dvg_frame frame;
        size_t size;
        if (dvg_frame_decode(rest, DVG_FRAME_MAX, &frame, &size) != 1)
            return DIVERGE_EINTERNAL;
        dvg_frame_set_crc(spool->scratch.data + start, size);
        start += size;
    }
    return 0;
}

/* A daemon imports files that nobody holds a lock on, so the file gets its name when it is locked.
 */
static int open_file(struct dvg_spool *spool, const char *path)
{
    dvg_process_lock();
    spool->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    dvg_process_unlock();
    if (spool->fd < 0)
        return status_of_errno();
    /* A file system without locks is none where a daemon looks for spools. */
    if (flock(spool->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    int rc = status_of_errno();
    unlink(path);
    close_file(spool);
    return rc;
}

/* Not replacing a file that is there, which rename would; unless the file system has no links. */
static int give_name(const char *from, const char *to)
{
    if (link(from, to) == 0)
        return 0;
    if (errno != EPERM && errno != EOPNOTSUPP)
        return status_of_errno();
    return access(to, F_OK) == 0 ? DIVERGE_EEXIST : rename(from, to) ? status_of_errno() : 0;
}

int dvg_spool_create(struct dvg_spool *spool, const struct dvg_hello *hello)
{
    dvg_buffer_clear(&spool->scratch);
    int rc = dvg_buffer_append(&spool->scratch, dvg_file_header, DVG_FILE_HEADER);
    if (!rc)
        rc = dvg_hello_encode(&spool->scratch, hello);
    if (!rc)
        rc = seal_frames(spool, DVG_FILE_HEADER);
    if (rc)
        return rc;
    char unfinished[PATH_MAX + 8];
    snprintf(unfinished, sizeof(unfinished), "%s.new", spool->path);
    rc = open_file(spool, unfinished);
    if (rc)
        return rc;
    spool->size = 0;
    spool->cursor = (struct dvg_cursor){0};
    spool->first = hello->next_seq;
    spool->last = hello->next_seq - 1;
    dvg_spool_rewind(spool);
    rc = write_end(spool, spool->scratch.data, spool->scratch.size);
    if (!rc)
        rc = give_name(unfinished, spool->path);
    int error = errno;
    unlink(unfinished);
    if (rc)
        close_file(spool);
    errno = error;
    return rc;
}

/* Writes the frames in scratch, as far as the cap allows. */
static int write_scratch(struct dvg_spool *spool)
{
    int rc = seal_frames(spool, 0);
    if (rc)
        return rc;
    uint64_t left = spool->size < spool->cap ? spool->cap - spool->size : 0;
    if (spool->cap && spool->scratch.size > left)
        return DIVERGE_EFULL;
    return write_end(spool, spool->scratch.data, spool->scratch.size);
}

/* What is defined and not yet in the file; some of it may stay there when the rest fails. */
static int append_definitions(struct dvg_spool *spool)
{
    for (;;) {
        struct dvg_cursor cursor = spool->cursor;
        dvg_buffer_clear(&spool->scratch);
        int rc = dvg_define_next(spool->define, &cursor, &spool->scratch);
        if (rc == 1)
            rc = write_scratch(spool);
        else
            return rc;
        if (rc)
            return rc;
        spool->cursor = cursor;
    }
}

int dvg_spool_append(struct dvg_spool *spool, const uint8_t *frame, size_t size, uint64_t seq)
{
    int rc = append_definitions(spool);
    if (rc)
        return rc;
    dvg_buffer_clear(&spool->scratch);
    rc = dvg_buffer_append(&spool->scratch, frame, size);
    if (!rc)
        rc = write_scratch(spool);
    if (!rc)
        spool->last = seq;
    return rc;
}

static int read_at(const struct dvg_spool *spool, void *bytes, size_t size, uint64_t offset)
{
    uint8_t *at = bytes;
    while (size) {
        ssize_t n = pread(spool->fd, at, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? DIVERGE_EIO : DIVERGE_ECORRUPT;
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

/* The whole frame at `offset`, appended to `out` and checked. */
static int read_frame(const struct dvg_spool *spool, uint64_t offset, size_t size,
                      struct dvg_buffer *out)
{
    int rc = dvg_buffer_reserve(out, size);
    if (!rc)
        rc = read_at(spool, out->data + out->size, size, offset);
    if (rc)
        return rc;
    struct dvg_bytes bytes = {.data = out->data + out->size, .size = size};
    struct dvg_frame frame;
    if (dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size) != 1)
        return DIVERGE_ECORRUPT;
    out->size += size;
    return 0;
}

int dvg_spool_read(struct dvg_spool *spool, uint64_t after, struct dvg_buffer *out,
                   uint64_t *ret_seq)
{
    while (spool->fd >= 0 && spool->read_at < spool->size) {
        uint8_t header[DVG_FRAME_HEADER];
        int rc = read_at(spool, header, sizeof(header), spool->read_at);
        if (rc)
            return rc;
        struct dvg_bytes bytes = {.data = header, .size = sizeof(header)};
        struct dvg_frame frame;
        size_t size;
        rc = dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size);
        if (rc < 0 || size > spool->size - spool->read_at)
            return DIVERGE_ECORRUPT;
        uint64_t seq = dvg_load_u64(header + 16);
        /* Definitions (no number) are this connection's own business. */
        if (seq > after) {
            rc = read_frame(spool, spool->read_at, size, out);
            if (rc)
                return rc;
        }
        spool->read_at += size;
        if (seq > after) {
            *ret_seq = seq;
            return 1;
        }
    }
    return 0;
}

void dvg_spool_rewind(struct dvg_spool *spool)
{
    spool->read_at = DVG_FILE_HEADER;
}

void dvg_spool_remove(struct dvg_spool *spool)
{
    unlink(spool->path);
    close_file(spool);
    spool->size = 0;
    spool->first = spool->last + 1;
}

int dvg_spool_sync(struct dvg_spool *spool)
{
    return spool->fd < 0 || fdatasync(spool->fd) == 0 ? 0 : DIVERGE_EIO;
}
