/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"
#include "daemon/proto/json.h"

enum { RACE_TRIES = 500, RACE_PAUSE_MS = 20, READY_FD = 3, LOG_MAX = 1 << 20 };

static char socket_path[PATHS_MAX];
static char store_path[PATHS_MAX];
static char log_path[PATHS_MAX];

const char *daemon_socket(void)
{
    return socket_path;
}

const char *daemon_store(void)
{
    return store_path;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value;
}

/*
 * A store was named and no socket with it: the usual socket may be that of another store's daemon.
 * A flag outranks the environment.
 */
static bool is_store_alone(void)
{
    if (ctl.socket)
        return false;
    return ctl.store || (is_set("DIVERGE_STORE") && !is_set("DIVERGE_SOCKET"));
}

/* The daemon and the job run in folders of their own. */
static int make_absolute(char path[PATHS_MAX], struct paths_error *error)
{
    char folder[PATHS_MAX];

    if (path[0] == '/')
        return 0;
    if (!getcwd(folder, sizeof(folder))) {
        snprintf(error->text, sizeof(error->text), "the working folder: %s", strerror(errno));
        return DIVERGE_EIO;
    }
    const char *whole = mem_printf("%s/%s", folder, path);

    if (strlen(whole) >= PATHS_MAX) {
        snprintf(error->text, sizeof(error->text), "%s is too long", path);
        return DIVERGE_ELIMIT;
    }
    strcpy(path, whole);
    return 0;
}

static int resolve(struct paths_error *error)
{
    char folder[PATHS_MAX];
    int status = paths_store(ctl.store, store_path, NULL, error);

    if (!status)
        status = make_absolute(store_path, error);
    if (!status && paths_parent(store_path, folder)) {
        snprintf(error->text, sizeof(error->text), "%s is too long", store_path);
        status = DIVERGE_ELIMIT;
    }
    if (status)
        return status;
    snprintf(log_path, sizeof(log_path), "%.*s/diverged.log", PATHS_MAX - 16, folder);
    status = paths_socket(is_store_alone() ? mem_printf("%s/diverged.sock", folder) : ctl.socket,
                          socket_path, error);
    return status ? status : make_absolute(socket_path, error);
}

/* The daemon that holds the store's lock, wherever its socket is. */
static int connect_holder(struct dvg_control_link *ret)
{
    struct paths_error error;
    struct paths_holder holder;
    char lock[PATHS_MAX];

    if (paths_lock(store_path, lock, &error) || paths_lock_holder(lock, &holder) ||
        !holder.socket[0])
        return DIVERGE_EUNAVAIL;
    int status = dvg_control_open(ret, holder.socket);

    if (!status)
        snprintf(socket_path, sizeof(socket_path), "%s", holder.socket);
    return status;
}

static int connect_any(struct dvg_control_link *ret)
{
    if (is_store_alone())
        return connect_holder(ret);
    int status = dvg_control_open(ret, socket_path);

    if (status == DIVERGE_EUNAVAIL && !ctl.socket)
        status = connect_holder(ret);
    return status;
}

int daemon_try_connect(struct dvg_control_link *ret)
{
    struct paths_error error;

    *ret = (struct dvg_control_link){.fd = -1};
    int status = resolve(&error);

    return status ? status : connect_any(ret);
}

int daemon_connect(struct dvg_control_link *ret)
{
    struct paths_error error;

    *ret = (struct dvg_control_link){.fd = -1};
    int status = resolve(&error);

    if (status) {
        ctl_fail_error(status, NULL, error.text);
        return status;
    }
    status = connect_any(ret);
    if (status && status != DIVERGE_EUNAVAIL)
        ctl_fail_error(status, socket_path, NULL);
    return status;
}

/* ---- starting ------------------------------------------------------------------------------- */

/* A relative path would be looked up from the daemon's folder. */
static const char *absolute_program(const char *path)
{
    char real[PATH_MAX];

    return realpath(path, real) ? mem_string(real) : path;
}

/* Beside this program, in the libexec folder of its prefix, else what PATH says. */
static const char *find_program(void)
{
    static const char *const places[] = {"diverged", "../libexec/diverged",
                                         "../libexec/diverged/diverged"};
    const char *given = getenv("DIVERGE_DAEMON");
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (given && *given)
        return strchr(given, '/') ? absolute_program(given) : given;
    if (length <= 0)
        return "diverged";
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < CMD_COUNT(places); i++) {
        const char *path = mem_printf("%s/%s", self, places[i]);
        struct stat st;

        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return path;
    }
    return "diverged";
}

static void redirect(const char *path, int flags, int fd)
{
    int opened = open(path, flags, 0600);

    if (opened < 0)
        opened = open("/dev/null", O_RDWR);
    if (opened >= 0 && opened != fd) {
        dup2(opened, fd);
        close(opened);
    }
}

/* In the grandchild: becomes the daemon. */
static _Noreturn void become_daemon(const char *program, int ready_fd, bool replace)
{
    char ready[16];

    setsid();
    redirect("/dev/null", O_RDWR, STDIN_FILENO);
    redirect("/dev/null", O_RDWR, STDOUT_FILENO);
    redirect(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, STDERR_FILENO);
    if (chdir("/") != 0)
        _exit(EX_OSERR);
    /* Nothing of ours stays open in it: a pipe that somebody reads to its end, for example. */
    if (dup2(ready_fd, READY_FD) < 0 || close_range(READY_FD + 1, UINT_MAX, 0) != 0)
        _exit(EX_OSERR);
    fcntl(READY_FD, F_SETFD, 0);
    snprintf(ready, sizeof(ready), "%d", READY_FD);
    const char *argv[] = {"diverged",  "--store",    store_path, "--socket",
                          socket_path, "--ready-fd", ready,      replace ? "--replace" : NULL,
                          NULL};

    execvp(program, (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", program, strerror(errno));
    _exit(127);
}

/* Forks twice, so that the daemon belongs to init and not to us. */
static int spawn(const char *program, bool replace, int *ret_ready)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return DIVERGE_EIO;
    fflush(NULL);
    pid_t child = fork();

    if (child == 0) {
        pid_t grandchild = fork();

        if (grandchild == 0)
            become_daemon(program, ends[1], replace);
        _exit(grandchild < 0);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return DIVERGE_ENOMEM;
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    *ret_ready = ends[0];
    return 0;
}

/* Reads until the daemon said READY or ended. */
static bool is_ready(int fd)
{
    char text[PATHS_MAX];
    size_t size = 0;
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    while (size < sizeof(text) - 1) {
        int ready = poll(&wait, 1, DAEMON_TIMEOUT_MS);

        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t n = ready > 0 ? read(fd, text + size, sizeof(text) - 1 - size) : 0;

        if (n <= 0)
            break;
        size += (size_t)n;
    }
    close(fd);
    text[size] = '\0';
    return strncmp(text, "READY", 5) == 0;
}

/* What a line of the log gives as the reason, else the line. Changes it. */
static const char *reason_of(char *line)
{
    static const char key[] = " reason=\"";
    char *reason = strstr(line, key);
    char *end = reason ? strrchr(reason, '"') : NULL;

    if (!reason || end < reason + sizeof(key) - 1)
        return line;
    *end = '\0';
    return reason + sizeof(key) - 1;
}

/* Why the daemon did not start: the last error in its log behind `offset`, else the last line. */
static const char *last_words(off_t offset)
{
    char text[4096];
    FILE *file = fopen(log_path, "re");
    const char *last = "";
    bool is_error = false;

    if (!file)
        return last;
    int at = fseeko(file, offset, SEEK_SET);

    while (at == 0 && fgets(text, sizeof(text), file)) {
        bool error = strstr(text, " level=error ") != NULL;

        text[strcspn(text, "\n")] = '\0';
        if (*text && (error || !is_error))
            last = mem_string(error ? reason_of(text) : text);
        is_error |= error;
    }
    fclose(file);
    return last;
}

/* The daemon's log takes what it has to say of a failure, so it comes first. */
static int check_log(void)
{
    int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    else if (errno == EACCES || errno == EPERM || errno == EROFS || errno == ELOOP)
        return ctl_fail(EX_NOPERM, "cannot write the daemon's log %s: %s", log_path,
                        strerror(errno)),
               DIVERGE_EPERM;
    return 0;
}

/* One older log is kept. */
static void rotate_log(void)
{
    struct stat st;

    if (stat(log_path, &st) == 0 && st.st_size > LOG_MAX)
        rename(log_path, mem_printf("%s.old", log_path));
}

static off_t log_size(void)
{
    struct stat st;

    return stat(log_path, &st) == 0 ? st.st_size : 0;
}

/* Lost a race, perhaps: the winner holds the lock but may not listen yet. */
static int connect_winner(struct dvg_control_link *ret)
{
    struct paths_error error;
    struct paths_holder holder;
    char lock[PATHS_MAX];
    int status = connect_any(ret);

    for (int i = 0; status == DIVERGE_EUNAVAIL && i < RACE_TRIES; i++) {
        if (paths_lock(store_path, lock, &error) ||
            paths_lock_holder(lock, &holder) == DIVERGE_ENOTFOUND)
            return connect_any(ret);
        nanosleep(&(struct timespec){.tv_nsec = RACE_PAUSE_MS * 1000000}, NULL);
        status = connect_any(ret);
    }
    return status;
}

static int start(struct dvg_control_link *ret, bool replace, bool *ret_started)
{
    struct paths_error error;
    char folder[PATHS_MAX];
    const char *program = find_program();
    int ready = -1;

    /* The daemon makes it too; its log needs it before. */
    int status = paths_parent(store_path, folder);

    if (!status)
        status = paths_folder_private(folder, &error);
    if (status)
        return ctl_fail_error(status, NULL, error.text), status;
    rotate_log();
    status = check_log();
    if (status)
        return status;
    off_t before = log_size();

    status = spawn(program, replace, &ready);
    if (status)
        return ctl_fail_error(status, "cannot start the daemon", NULL), status;
    *ret_started = is_ready(ready);
    status = *ret_started ? connect_any(ret) : connect_winner(ret);
    if (status) {
        const char *why = last_words(before);

        ctl_fail(EX_UNAVAILABLE, "the daemon did not start%s%s (program %s, log %s)",
                 *why ? ": " : "", text_escape(why), program, log_path);
    }
    return status;
}

int daemon_ensure(struct dvg_control_link *ret, bool replace, bool *ret_started)
{
    bool started = false;
    int status = daemon_connect(ret);

    if (replace && !status)
        dvg_control_close(ret);
    if (replace ? !status || status == DIVERGE_EUNAVAIL : status == DIVERGE_EUNAVAIL)
        status = start(ret, replace, &started);
    if (ret_started)
        *ret_started = started;
    return status;
}

/* ---- asking --------------------------------------------------------------------------------- */

uint64_t daemon_u64(const cJSON *reply, const char *key)
{
    uint64_t value = 0;

    return json_get_u64(reply, key, &value) == 0 ? value : 0;
}

const char *daemon_text(const cJSON *reply, const char *key)
{
    const char *text = "";

    return json_get_string(reply, key, &text) == 0 ? text : "";
}

/* What a reply says: 0, its status, or EPROTO when it is none. */
static int reply_status(const cJSON *reply, char error[DAEMON_ERROR_MAX])
{
    const cJSON *status = json_get(reply, "status");
    bool ok = false;

    if (json_get_bool(reply, "ok", &ok) != 0)
        return DIVERGE_EPROTO;
    if (ok)
        return 0;
    if (!cJSON_IsNumber(status) || status->valueint >= 0)
        return DIVERGE_EPROTO;
    snprintf(error, DAEMON_ERROR_MAX, "%s", daemon_text(reply, "error"));
    return status->valueint;
}

int daemon_call(struct dvg_control_link *link, cJSON *request, int timeout_ms, cJSON **ret,
                char error[DAEMON_ERROR_MAX])
{
    char *text = request ? cJSON_PrintUnformatted(request) : NULL;
    const char *reply = NULL;
    size_t size = 0;
    cJSON *object = NULL;

    error[0] = '\0';
    cJSON_Delete(request);
    if (!text)
        return DIVERGE_ENOMEM;
    int status = dvg_control_call(link, text, strlen(text), timeout_ms, &reply, &size);

    free(text);
    if (!status)
        status = json_parse((struct dvg_bytes){.data = (const uint8_t *)reply, .size = size},
                            &object, NULL);
    if (!status)
        status = reply_status(object, error);
    if (status)
        cJSON_Delete(object);
    else
        *ret = object;
    return status;
}

void daemon_settle(void)
{
    struct dvg_control_link link;
    cJSON *reply = NULL;
    char error[DAEMON_ERROR_MAX];

    if (daemon_try_connect(&link))
        return;
    if (!daemon_call(&link, daemon_request("status"), DAEMON_TIMEOUT_MS, &reply, error))
        cJSON_Delete(reply);
    dvg_control_close(&link);
}

/* ---- what it says --------------------------------------------------------------------------- */

cJSON *daemon_request(const char *command)
{
    cJSON *request = cJSON_CreateObject();

    if (request && json_add_string(request, "command", command) != 0) {
        cJSON_Delete(request);
        request = NULL;
    }
    return request; /* NULL: peer_control says so */
}

const char *daemon_sentence(const cJSON *status)
{
    uint64_t pid = daemon_u64(status, "pid");
    bool read_only = false;

    json_get_bool(status, "read_only", &read_only);
    return mem_printf("diverged %s, pid %" PRIu64 ", since %s, at %s; %s, %s taken%s",
                      text_escape(daemon_text(status, "version")), pid,
                      text_time((int64_t)daemon_u64(status, "started_unix_us")),
                      text_escape(daemon_text(status, "socket")),
                      text_things(daemon_u64(status, "producers"), "producer"),
                      text_things(daemon_u64(status, "records"), "record"),
                      read_only ? "; the disk is full, nothing is taken until there is space" : "");
}

void daemon_emit(struct emit *emit, const cJSON *status)
{
    static const char *const numbers[] = {"pid",    "started_unix_us", "connections", "producers",
                                          "frames", "records",         "commits"};
    static const char *const texts[] = {"version", "store", "socket"};
    bool read_only = false;

    json_get_bool(status, "read_only", &read_only);
    for (size_t i = 0; i < CMD_COUNT(texts); i++)
        emit_string(emit, texts[i], daemon_text(status, texts[i]));
    for (size_t i = 0; i < CMD_COUNT(numbers); i++)
        emit_u64(emit, numbers[i], daemon_u64(status, numbers[i]));
    emit_bool(emit, "read_only", read_only);
}
