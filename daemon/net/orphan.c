/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/orphan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <diverge/error.h>

#include "daemon/net/log.h"

enum { MAX_FOLDERS = 2 };

struct orphans {
    struct ingest *ingest; /* borrowed */
    char *folders[MAX_FOLDERS];
    int folder; /* the one being walked */
    DIR *dir;
    size_t left;
    uint64_t number; /* of imports: connection numbers count down from the top */
};

/* One spool file, open and locked. */
struct spool {
    int fd;
    uid_t uid;
    size_t size;
    char path[PATHS_MAX];
};

static bool is_spool_name(const char *name)
{
    size_t len = strlen(name);
    return len > 6 && strcmp(name + len - 6, ".spool") == 0;
}

int orphans_open(struct ingest *ingest, const struct config *config, struct orphans **ret)
{
    struct orphans *orphans = calloc(1, sizeof(*orphans));
    char beside_store[PATHS_MAX];
    if (!orphans || paths_parent(config->store, beside_store)) {
        free(orphans);
        return DIVERGE_ENOMEM;
    }
    orphans->ingest = ingest;
    orphans->folders[0] = strdup(config->spool);
    bool both = strcmp(config->spool, beside_store) != 0;
    if (both)
        orphans->folders[1] = strdup(beside_store);
    if (!orphans->folders[0] || (both && !orphans->folders[1])) {
        orphans_free(orphans);
        return DIVERGE_ENOMEM;
    }
    *ret = orphans;
    return 0;
}

void orphans_free(struct orphans *orphans)
{
    if (!orphans)
        return;
    if (orphans->dir)
        closedir(orphans->dir);
    for (int i = 0; i < MAX_FOLDERS; i++)
        free(orphans->folders[i]);
    free(orphans);
}

/* Opens the file when it is one that may be imported, and nobody else has it. */
static bool spool_open(struct spool *spool)
{
    spool->fd = open(spool->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (spool->fd < 0)
        return false;
    struct stat opened;
    struct stat named;
    bool ours = flock(spool->fd, LOCK_EX | LOCK_NB) == 0 && fstat(spool->fd, &opened) == 0 &&
                S_ISREG(opened.st_mode) && lstat(spool->path, &named) == 0 &&
                named.st_ino == opened.st_ino && named.st_dev == opened.st_dev &&
                (opened.st_uid == geteuid() || opened.st_uid == 0);
    if (!ours) {
        close(spool->fd);
        return false;
    }
    spool->uid = opened.st_uid;
    spool->size = (size_t)opened.st_size;
    return true;
}

/* What cannot be imported now or ever is set aside under another name, never deleted. */
static void set_aside(struct orphans *orphans, const struct spool *spool, int status,
                      const char *why)
{
    char aside[PATHS_MAX + 8];
    snprintf(aside, sizeof(aside), "%s.bad", spool->path);
    bool later = status == DIVERGE_EFULL || status == DIVERGE_ENOMEM || status == DIVERGE_EAGAIN ||
                 status == DIVERGE_EBUSY || status == DIVERGE_EIO;
    if (!later && rename(spool->path, aside) != 0)
        later = true;
    orphans->left += later;
    log_event(LOG_WARNING, "spool_not_imported", log_text("file", spool->path),
              log_number("status", status), log_text("reason", why),
              log_text("kept_as", later ? spool->path : aside));
}

static void import(struct orphans *orphans, const struct spool *spool)
{
    struct ingest_import result = {0};
    const struct ingest_peer peer = {
        .connection = UINT64_MAX - orphans->number++,
        .uid = (uint32_t)spool->uid,
    };
    void *bytes = NULL;
    if (spool->size) {
        bytes = mmap(NULL, spool->size, PROT_READ, MAP_PRIVATE, spool->fd, 0);
        if (bytes == MAP_FAILED) {
            set_aside(orphans, spool, DIVERGE_EIO, strerror(errno));
            return;
        }
        const struct dvg_bytes file = {bytes, spool->size};
        int rc = ingest_recording(orphans->ingest, &peer, file, &result);
        ingest_closed(orphans->ingest, peer.connection);
        munmap(bytes, spool->size);
        if (!rc)
            rc = ingest_commit(orphans->ingest);
        if (rc) {
            set_aside(orphans, spool, rc, result.text);
            return;
        }
    }
    unlink(spool->path);
    log_event(LOG_INFO, "spool_imported", log_text("file", spool->path),
              log_number("frames", (int64_t)result.frames),
              log_number("records", (int64_t)result.records),
              log_text("torn", result.torn ? "yes" : "no"));
}

/* The next spool file's name, or NULL at the end of all folders. */
static const char *next_name(struct orphans *orphans)
{
    for (; orphans->folder < MAX_FOLDERS; orphans->folder++) {
        const char *folder = orphans->folders[orphans->folder];
        if (!orphans->dir && folder) {
            orphans->dir = opendir(folder); /* there may be none yet */
            if (!orphans->dir && errno != ENOENT)
                orphans->left++; /* as far as we know */
        }
        const struct dirent *entry = NULL;
        while (orphans->dir && (entry = readdir(orphans->dir))) {
            if (is_spool_name(entry->d_name))
                return entry->d_name;
        }
        if (orphans->dir)
            closedir(orphans->dir);
        orphans->dir = NULL;
    }
    return NULL;
}

size_t orphans_left(const struct orphans *orphans)
{
    return orphans->left;
}

int orphans_step(struct orphans *orphans)
{
    const char *name = next_name(orphans);
    if (!name)
        return 0;
    struct spool spool = {.fd = -1};
    int len =
        snprintf(spool.path, sizeof(spool.path), "%s/%s", orphans->folders[orphans->folder], name);
    if (len < 0 || (size_t)len >= sizeof(spool.path))
        return 1;
    if (!spool_open(&spool)) {
        orphans->left++;
        return 1;
    }
    import(orphans, &spool);
    close(spool.fd);
    return 1;
}
