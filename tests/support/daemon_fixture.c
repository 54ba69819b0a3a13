/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/daemon_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fixture: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fail();
    abort(); /* fail() leaves by longjmp */
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void path_join(char *ret, size_t size, const char *dir, const char *name)
{
    int len = snprintf(ret, size, "%s/%s", dir, name);
    if (len < 0 || (size_t)len >= size)
        give_up("path too long: %s/%s", dir, name);
}

/* ---- folders ---- */

void dvg_tempdir_make(char dir[DVG_FIXTURE_PATH_MAX])
{
    /* Not $TMPDIR: it may be too long for a socket's path. */
    strcpy(dir, "/tmp/dvgtest-XXXXXX");
    if (!mkdtemp(dir))
        give_up("mkdtemp: %s", strerror(errno));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

/* A test may have taken a folder's write permission; root does not care, others need it back. */
static int open_folder(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    return type == FTW_D || type == FTW_DNR ? chmod(path, 0700) : 0;
}

void dvg_tempdir_remove(const char *dir)
{
    if (strncmp(dir, "/tmp/dvgtest-", 13) != 0)
        return;
    nftw(dir, open_folder, 16, FTW_PHYS);
    nftw(dir, remove_entry, 16, FTW_PHYS | FTW_DEPTH);
}

/* ---- programs ---- */

static void child_environment(const char *const *env)
{
    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals) {
            unsetenv(*env);
            continue;
        }
        char *name = strndup(*env, (size_t)(equals - *env));
        if (!name || setenv(name, equals + 1, 1) != 0)
            _exit(126);
        free(name);
    }
}

/* Only in the child. The child dies with the test program, however that ends. */
__attribute__((noreturn)) static void child_exec(const char *const *argv, const char *const *env,
                                                 int out, int err)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(err, STDERR_FILENO) < 0)
        _exit(126);
    child_environment(env);
    execvp(argv[0], (char *const *)argv);
    fprintf(stderr, "fixture: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static pid_t child_fork(const char *const *argv, const char *const *env, int out, int err)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child_exec(argv, env, out, err);
    if (pid < 0)
        give_up("fork: %s", strerror(errno));
    return pid;
}

pid_t dvg_child_start(const char *const *argv, const char *const *env, const char *log_path)
{
    int log =
        open(log_path ? log_path : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        give_up("%s: %s", log_path, strerror(errno));
    pid_t pid = child_fork(argv, env, log, log);
    close(log);
    return pid;
}

static int pidfd_of(pid_t pid)
{
    int fd = pidfd_open(pid, 0);
    if (fd < 0)
        give_up("pidfd_open: %s", strerror(errno));
    return fd;
}

static int reap(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            give_up("waitpid: %s", strerror(errno));
    }
    return status;
}

/* poll that goes on after signals. Returns its result; 0 is a time-out. */
static int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline - now_ms();
        int rc = poll(fds, count, left > 0 ? (int)left : 0);
        if (rc >= 0)
            return rc;
        if (errno != EINTR)
            give_up("poll: %s", strerror(errno));
    }
}

bool dvg_child_wait(pid_t pid, int timeout_ms, int *ret_status)
{
    struct pollfd fd = {.fd = pidfd_of(pid), .events = POLLIN};
    int rc = poll_until(&fd, 1, now_ms() + timeout_ms);
    close(fd.fd);
    if (rc == 0)
        return false;
    int status = reap(pid);
    if (ret_status)
        *ret_status = status;
    return true;
}

void dvg_child_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    reap(pid);
}

struct output {
    int fd;
    char *data;
    size_t len;
    size_t cap;
};

/* Reads what is there. At the end of the file, or on an error, closes and sets fd to -1. */
static void output_take(struct output *o)
{
    if (o->cap - o->len < 65537) {
        o->cap = o->cap ? o->cap * 2 : 131072;
        char *grown = realloc(o->data, o->cap);
        if (!grown)
            give_up("out of memory");
        o->data = grown;
    }
    ssize_t got = read(o->fd, o->data + o->len, 65536);
    if (got > 0)
        o->len += (size_t)got;
    if (got == 0 || (got < 0 && errno != EINTR)) {
        close(o->fd);
        o->fd = -1;
    }
    o->data[o->len] = '\0';
}

/* Collects both outputs until the program and whatever it started have closed them. */
static bool outputs_collect(struct output outputs[2], int64_t deadline)
{
    while (outputs[0].fd >= 0 || outputs[1].fd >= 0) {
        struct pollfd fds[2];
        for (int i = 0; i < 2; i++)
            fds[i] = (struct pollfd){.fd = outputs[i].fd, .events = POLLIN};
        if (poll_until(fds, 2, deadline) == 0)
            return false;
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd >= 0 && fds[i].revents)
                output_take(&outputs[i]);
        }
    }
    return true;
}

void dvg_process_run(struct dvg_process *p, const char *const *argv, const char *const *env)
{
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        give_up("pipe2: %s", strerror(errno));
    pid_t pid = child_fork(argv, env, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    struct output outputs[2] = {{.fd = out[0]}, {.fd = err[0]}};
    int64_t deadline = now_ms() + 10 * DVG_FIXTURE_WAIT_MS;
    bool ended = outputs_collect(outputs, deadline);
    int left = ended ? (int)(deadline - now_ms()) : 0;
    if (!dvg_child_wait(pid, left > 0 ? left : 0, &p->status)) {
        dvg_child_kill(pid);
        give_up("%s did not end; it wrote: %s%s", argv[0], outputs[0].data ? outputs[0].data : "",
                outputs[1].data ? outputs[1].data : "");
    }
    p->out = outputs[0].data;
    p->out_len = outputs[0].len;
    p->err = outputs[1].data;
    p->err_len = outputs[1].len;
}

int dvg_process_status(const struct dvg_process *p)
{
    return WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);
}

void dvg_process_fini(struct dvg_process *p)
{
    free(p->out);
    free(p->err);
    *p = (struct dvg_process){0};
}

/* ---- the daemon ---- */

static void notify_open(struct dvg_daemon *d)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    path_join(address.sun_path, sizeof(address.sun_path), d->dir, "notify");
    d->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (d->notify_fd < 0 ||
        bind(d->notify_fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        give_up("notify socket: %s", strerror(errno));
}

void dvg_daemon_init(struct dvg_daemon *d)
{
    *d = (struct dvg_daemon){.notify_fd = -1};
    dvg_tempdir_make(d->dir);
    char dir[sizeof(d->store)];
    path_join(dir, sizeof(dir), d->dir, "s");
    path_join(d->store, sizeof(d->store), dir, "diverge.db");
    if (mkdir(dir, 0700) != 0)
        give_up("%s: %s", dir, strerror(errno));
    path_join(dir, sizeof(dir), d->dir, "r");
    path_join(d->socket, sizeof(d->socket), dir, "sock");
    if (mkdir(dir, 0700) != 0)
        give_up("%s: %s", dir, strerror(errno));
    path_join(d->spool, sizeof(d->spool), d->dir, "spool");
    path_join(d->log, sizeof(d->log), d->dir, "log");
    notify_open(d);
    setenv("DIVERGE_STORE", d->store, 1);
    setenv("DIVERGE_SOCKET", d->socket, 1);
    setenv("DIVERGE_SPOOL", d->spool, 1);
}

static pid_t daemon_spawn(struct dvg_daemon *d, const char *const *args, const char *const *env)
{
    enum { MAX_WORDS = 64 };
    const char *argv[MAX_WORDS] = {getenv("DVG_DIVERGED")};
    if (!argv[0])
        give_up("DVG_DIVERGED is not set: run the test through ctest");
    for (int n = 0; args && args[n]; n++) {
        if (n + 2 >= MAX_WORDS)
            give_up("too many arguments");
        argv[n + 1] = args[n];
    }
    char notify[DVG_FIXTURE_PATH_MAX + 32];
    snprintf(notify, sizeof(notify), "NOTIFY_SOCKET=%s/notify", d->dir);
    const char *all[MAX_WORDS] = {notify};
    for (int n = 0; env && env[n]; n++) {
        if (n + 2 >= MAX_WORDS)
            give_up("too many variables");
        all[n + 1] = env[n];
    }
    return dvg_child_start(argv, all, d->log);
}

/* Drops what an earlier daemon said. */
static void notify_drain(struct dvg_daemon *d)
{
    char text[1024];
    while (recv(d->notify_fd, text, sizeof(text), MSG_DONTWAIT) > 0)
        continue;
}

static bool notify_says_ready(struct dvg_daemon *d)
{
    char text[1024];
    ssize_t len = recv(d->notify_fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    if (len <= 0)
        return false;
    text[len] = '\0';
    return strncmp(text, "READY=1", 7) == 0 || strstr(text, "\nREADY=1") != NULL;
}

bool dvg_daemon_try_start(struct dvg_daemon *d, const char *const *args, const char *const *env,
                          int *ret_status)
{
    if (d->pid)
        give_up("the daemon runs already");
    notify_drain(d);
    d->pid = daemon_spawn(d, args, env);
    struct pollfd fds[2] = {{.fd = d->notify_fd, .events = POLLIN},
                            {.fd = pidfd_of(d->pid), .events = POLLIN}};
    int64_t deadline = now_ms() + DVG_FIXTURE_WAIT_MS;
    bool ready = false;
    bool ended = false;
    while (!ready && !ended) {
        if (poll_until(fds, 2, deadline) == 0)
            break;
        ready = (fds[0].revents & POLLIN) && notify_says_ready(d);
        ended = fds[1].revents != 0;
    }
    close(fds[1].fd);
    if (ready)
        return true;
    if (!ended) {
        dvg_daemon_kill(d);
        dvg_daemon_print_log(d);
        give_up("the daemon said nothing for %d ms", DVG_FIXTURE_WAIT_MS);
    }
    int status = reap(d->pid);
    d->pid = 0;
    if (ret_status)
        *ret_status = status;
    return false;
}

void dvg_daemon_start(struct dvg_daemon *d, const char *const *args, const char *const *env)
{
    int status = 0;
    if (!dvg_daemon_try_start(d, args, env, &status)) {
        dvg_daemon_print_log(d);
        give_up("the daemon ended at its start, wait status 0x%x", (unsigned)status);
    }
}

int dvg_daemon_wait(struct dvg_daemon *d)
{
    int status = 0;
    if (!dvg_child_wait(d->pid, DVG_FIXTURE_WAIT_MS, &status)) {
        dvg_daemon_kill(d);
        dvg_daemon_print_log(d);
        give_up("the daemon did not end");
    }
    d->pid = 0;
    return status;
}

void dvg_daemon_stop(struct dvg_daemon *d)
{
    if (!d->pid)
        give_up("the daemon does not run");
    kill(d->pid, SIGTERM);
    int status = dvg_daemon_wait(d);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        dvg_daemon_print_log(d);
        give_up("the daemon ended with wait status 0x%x", (unsigned)status);
    }
}

void dvg_daemon_kill(struct dvg_daemon *d)
{
    if (d->pid)
        dvg_child_kill(d->pid);
    d->pid = 0;
}

void dvg_daemon_print_log(const struct dvg_daemon *d)
{
    FILE *f = fopen(d->log, "r");
    if (!f)
        return;
    fprintf(stderr, "---- %s\n", d->log);
    char line[4096];
    while (fgets(line, sizeof(line), f))
        fputs(line, stderr);
    fprintf(stderr, "----\n");
    fclose(f);
}

void dvg_daemon_fini(struct dvg_daemon *d)
{
    dvg_daemon_kill(d);
    if (d->notify_fd >= 0)
        close(d->notify_fd);
    d->notify_fd = -1;
    if (d->dir[0])
        dvg_tempdir_remove(d->dir);
    unsetenv("DIVERGE_STORE");
    unsetenv("DIVERGE_SOCKET");
    unsetenv("DIVERGE_SPOOL");
}
