/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diverged: reads its settings, makes sure that it is the only one for its store and its socket,
 * and serves.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
#include <uv.h>

#include <diverge/error.h>

#include "daemon/net/config.h"
#include "daemon/net/lock.h"
#include "daemon/net/log.h"
#include "daemon/net/server.h"
#include "daemon/net/takeover.h"

enum {
    /* How long one that was asked to stop may take to commit and let go. */
    REPLACE_WAIT_MS = 60000,
    SPARE_DESCRIPTORS = 64,
    KEPT_BATCH = 8 * 1024 * 1024,
    KEPT_HEAP = 64 * 1024 * 1024,
};

/* Locks of a daemon, in the order they are taken. */
struct locks {
    struct lock store;
    struct lock socket;
};

static int exit_status(int status)
{
    switch (status) {
    case 0:
        return EX_OK;
    case DIVERGE_EINVAL:
        return EX_USAGE;
    case DIVERGE_ECORRUPT:
    case DIVERGE_EVERSION:
        return EX_DATAERR;
    case DIVERGE_EBUSY:
    case DIVERGE_EEXIST:
    case DIVERGE_EUNAVAIL:
        return EX_UNAVAILABLE;
    case DIVERGE_ENOMEM:
        return EX_OSERR;
    case DIVERGE_EIO:
    case DIVERGE_EFULL:
        return EX_IOERR;
    case DIVERGE_EPERM:
        return EX_NOPERM;
    case DIVERGE_EUNSUPPORTED:
    case DIVERGE_ELIMIT:
        return EX_CONFIG;
    default:
        return EX_SOFTWARE;
    }
}

/* What a person at a terminal reads; the log has the same as an event where there is one. */
__attribute__((format(printf, 2, 3))) static int complain(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("diverged: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return status;
}

/* Room for every connection, the store and the rest, as far as the hard limit goes. */
static void raise_descriptor_limit(struct config *config)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t wanted = (rlim_t)config->max_connections + SPARE_DESCRIPTORS;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted || limit.rlim_cur <= SPARE_DESCRIPTORS)
        return;
    config->max_connections = (int64_t)(limit.rlim_cur - SPARE_DESCRIPTORS);
    log_event(LOG_WARNING, "fewer_connections", log_number("limit", config->max_connections),
              log_text("reason", "RLIMIT_NOFILE"));
}

/*
 * libuv aborts when it finds no memory for its tables. The process ends then as it does for want of
 * memory elsewhere:
 * what was acknowledged is in the store, the rest its producers keep.
 */
static void *kept_alive(void *memory)
{
    if (memory)
        return memory;
    log_event(LOG_ERROR, "out_of_memory", log_text("where", "event loop"));
    _exit(EX_OSERR);
}

static void *loop_malloc(size_t size)
{
    return kept_alive(malloc(size));
}

static void *loop_realloc(void *memory, size_t size)
{
    return kept_alive(realloc(memory, size ? size : 1));
}

static void *loop_calloc(size_t count, size_t size)
{
    return kept_alive(calloc(count, size));
}

static void prepare_process(void)
{
    uv_replace_allocator(loop_malloc, loop_realloc, loop_calloc, free);
    signal(SIGPIPE, SIG_IGN);
    /* A write past RLIMIT_FSIZE is then an error like a full disk, not our end. */
    signal(SIGXFSZ, SIG_IGN);
    umask(077);
    /*
     * Batches are made by one thread and freed by the other, many a second: their memory is to stay
     * with the process instead of being mapped, touched and unmapped each time.
     */
    mallopt(M_MMAP_THRESHOLD, KEPT_BATCH);
    mallopt(M_TRIM_THRESHOLD, KEPT_HEAP);
}

static int refuse_running(const char *what, const struct paths_holder *holder)
{
    log_event(LOG_ERROR, "already_running", log_text("what", what), log_number("pid", holder->pid),
              log_text("socket", holder->socket));
    if (!holder->pid)
        return complain(DIVERGE_EBUSY, "another diverged is starting with this %s", what);
    return complain(
        DIVERGE_EBUSY,
        "diverged (pid %ld) has this %s already and listens on %s; use that one, or start "
        "with --replace",
        holder->pid, what, holder->socket);
}

/* Takes a lock; with --replace, after asking its holder to stop. */
static int take_lock(struct lock *lock, const struct config *config, const char *path,
                     const char *what)
{
    struct paths_error error = {{0}};
    struct paths_holder holder = {0};
    int rc = lock_take(lock, path, config->socket, &holder, &error);
    if (rc == DIVERGE_EBUSY && config->replace) {
        log_event(LOG_INFO, "replacing", log_text("what", what), log_number("pid", holder.pid),
                  log_text("socket", holder.socket));
        int asked = takeover_ask_stop(holder.socket);
        /* Nobody there to ask: it may be ending this moment, so its lock decides. */
        if (asked && asked != DIVERGE_EUNAVAIL)
            return complain(asked, "diverged (pid %ld) at %s did not agree to stop (%d)",
                            holder.pid, holder.socket, asked);
        rc = lock_wait(lock, path, config->socket, asked ? 1000 : REPLACE_WAIT_MS, &holder, &error);
    }
    if (rc == DIVERGE_EBUSY)
        return refuse_running(what, &holder);
    return rc ? complain(rc, "%s", error.text) : 0;
}

static int lock_store(struct locks *locks, const struct config *config)
{
    char folder[PATHS_MAX];
    char path[PATHS_MAX];
    struct paths_error error = {{0}};
    const char *network = NULL;
    if (paths_on_network(config->store, &network))
        return complain(
            DIVERGE_EUNSUPPORTED,
            "the store %s is on a network file system (%s), where SQLite's WAL does not "
            "work; set DIVERGE_STORE to a file on a local disk",
            config->store, network);
    int rc = paths_parent(config->store, folder);
    if (!rc)
        rc = paths_folder_make(folder, &error);
    if (!rc)
        rc = paths_lock(config->store, path, &error);
    return rc ? complain(rc, "%s", error.text) : take_lock(&locks->store, config, path, "store");
}

/* A socket file that is there is a dead daemon's, unless something else than a diverged listens on
 * it. */
static int clear_socket(const struct config *config)
{
    struct stat st;
    if (lstat(config->socket, &st) != 0) {
        return errno == ENOENT ? 0
                               : complain(DIVERGE_EIO, "%s: %s", config->socket, strerror(errno));
    }
    if (!S_ISSOCK(st.st_mode))
        return complain(DIVERGE_EUNSUPPORTED,
                        "%s is there and is not a socket; remove it or choose another --socket",
                        config->socket);
    if (takeover_is_live(config->socket))
        return complain(DIVERGE_EEXIST,
                        "another program listens on %s; end it or choose another --socket",
                        config->socket);
    log_event(LOG_INFO, "stale_socket_removed", log_text("socket", config->socket));
    return unlink(config->socket) == 0
               ? 0
               : complain(DIVERGE_EPERM, "cannot remove %s: %s", config->socket, strerror(errno));
}

static int lock_socket(struct locks *locks, const struct config *config)
{
    char folder[PATHS_MAX];
    char path[PATHS_MAX];
    struct paths_error error = {{0}};
    int rc = paths_parent(config->socket, folder);
    if (!rc)
        rc = paths_folder_private(folder, &error);
    if (!rc)
        rc = paths_lock(config->socket, path, &error);
    if (rc)
        return complain(rc, "%s", error.text);
    rc = take_lock(&locks->socket, config, path, "socket");
    return rc ? rc : clear_socket(config);
}

static int run(struct config *config)
{
    struct locks locks = {LOCK_INIT, LOCK_INIT};
    prepare_process();
    log_init(config->log_level);
    raise_descriptor_limit(config);
    if (config->store_moved)
        log_event(LOG_WARNING, "store_moved", log_text("store", config->store),
                  log_text("reason", "the home folder is on a network file system"));
    int rc = lock_store(&locks, config);
    if (!rc)
        rc = lock_socket(&locks, config);
    if (!rc)
        rc = server_run(config);
    lock_release(&locks.socket);
    lock_release(&locks.store);
    return rc;
}

int main(int argc, char **argv)
{
    struct config *config = calloc(1, sizeof(*config));
    struct config_error error = {{0}};
    int rc = config ? config_read(config, argc, argv, &error) : DIVERGE_ENOMEM;
    if (rc) {
        complain(rc, "%s", config ? error.text : "out of memory");
        free(config);
        return exit_status(rc);
    }
    switch (config->action) {
    case CONFIG_HELP:
        config_help(stdout);
        break;
    case CONFIG_VERSION:
        puts("diverged " DIVERGE_VERSION);
        break;
    case CONFIG_PRINT:
        config_print(config, stdout);
        break;
    case CONFIG_RUN:
        rc = run(config);
        break;
    }
    free(config);
    return exit_status(rc);
}
