/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/daemon.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

enum { LOOK_MS = 20 };

static struct {
    bool force;
} options;

static void print_daemon(const char *word, const cJSON *status)
{
    if (ctl.json) {
        struct emit emit;

        emit_begin(&emit, "daemon");
        emit_string(&emit, "state", word);
        if (status)
            daemon_emit(&emit, status);
        emit_print(&emit);
        return;
    }
    text_wrap(stdout, "", 0, status ? mem_printf("%s: %s", word, daemon_sentence(status)) : word,
              text_width());
}

/* Asks a connected daemon who it is, prints that after `word`, and closes the connection. */
static int report(struct dvg_control_link *link, const char *word)
{
    cJSON *reply = NULL;
    char error[DAEMON_ERROR_MAX];
    int status = daemon_call(link, daemon_request("status"), DAEMON_TIMEOUT_MS, &reply, error);

    dvg_control_close(link);
    if (status)
        return ctl_fail_error(status, "the daemon", error);
    print_daemon(word, reply);
    cJSON_Delete(reply);
    return EX_OK;
}

static int start(bool replace)
{
    struct dvg_control_link link = {.fd = -1};
    bool started = false;
    int status = daemon_ensure(&link, replace, &started);

    if (status)
        return ctl_exit_status(status);
    return report(&link, started ? "started" : "already running");
}

static int show_status(void)
{
    struct dvg_control_link link;
    int status = daemon_connect(&link);

    if (!status)
        return report(&link, "running");
    if (status != DIVERGE_EUNAVAIL)
        return ctl_exit_status(status);
    print_daemon("not running", NULL);
    return EX_UNAVAILABLE;
}

/* Without pidfd_open (Linux before 5.3): looks now and then. */
static int watch_for_end(pid_t pid)
{
    for (int waited = 0; waited < DAEMON_TIMEOUT_MS; waited += LOOK_MS) {
        if (kill(pid, 0) != 0 && errno == ESRCH)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
    return DIVERGE_EAGAIN;
}

/* Waits for a process to end: 0, or EAGAIN. */
static int wait_for_end(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int ready;

    if (fd < 0)
        return errno == ESRCH ? 0 : watch_for_end(pid);
    do
        ready = poll(&wait, 1, DAEMON_TIMEOUT_MS);
    while (ready < 0 && errno == EINTR);
    close(fd);
    return ready > 0 ? 0 : DIVERGE_EAGAIN;
}

static int stop(void)
{
    struct dvg_control_link link;
    cJSON *reply = NULL;
    char error[DAEMON_ERROR_MAX];
    int status = daemon_connect(&link);

    if (status == DIVERGE_EUNAVAIL) {
        print_daemon("not running", NULL);
        return EX_OK;
    }
    if (status)
        return ctl_exit_status(status);
    status = daemon_call(&link, daemon_request("status"), DAEMON_TIMEOUT_MS, &reply, error);
    uint64_t pid = daemon_u64(reply, "pid");

    cJSON_Delete(reply);
    reply = NULL;
    cJSON *request = daemon_request("stop");

    if (options.force)
        cJSON_AddBoolToObject(request, "force", true);
    if (!status)
        status = daemon_call(&link, request, DAEMON_TIMEOUT_MS, &reply, error);
    else
        cJSON_Delete(request);
    cJSON_Delete(reply);
    if (!status && pid && wait_for_end((pid_t)pid))
        status = ctl_fail(EX_UNAVAILABLE, "the daemon, pid %llu, was asked to stop but still runs",
                          (unsigned long long)pid);
    else if (status == DIVERGE_EBUSY)
        status = ctl_fail(EX_UNAVAILABLE, "runs are being recorded: wait for them, or use --force "
                                          "(they keep what they record in their spool)");
    else if (status)
        status = ctl_fail_error(status, "the daemon", error);
    else
        print_daemon("stopped", NULL);
    dvg_control_close(&link);
    return status;
}

static int run(int argc, const char *const *argv)
{
    (void)argc;
    if (!strcmp(argv[0], "start"))
        return start(false);
    if (!strcmp(argv[0], "replace"))
        return start(true);
    if (!strcmp(argv[0], "stop"))
        return stop();
    if (!strcmp(argv[0], "status"))
        return show_status();
    return ctl_fail(EX_USAGE, "daemon takes start, stop, status or replace, not \"%s\"",
                    text_escape(argv[0]));
}

static const struct cmd_option rows[] = {
    {.name = "force",
     .type = CMD_FLAG,
     .value = &options.force,
     .help = "stop: also while runs are being recorded; they go on into their spool"},
};

static const char *const actions[] = {"start", "stop", "status", "replace", NULL};

static const char *const description[] = {
    "start starts the daemon of this user unless one runs; run, import and the other commands that "
    "need one do so by themselves. replace starts a new one in the place of one that runs, after "
    "an upgrade for example; what is being recorded goes on. status exits 69 when none runs.",
    NULL,
};

const struct cmd cmd_daemon = {
    .name = "daemon",
    .group = CMD_GROUP_DAEMON,
    .summary = "Start, stop, replace or show this user's daemon",
    .synopsis = "start|stop|status|replace",
    .description = description,
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .actions = actions,
    .words = CMD_WORDS_ACTION,
    .min_arguments = 1,
    .max_arguments = 1,
    .json = true,
    .run = run,
};
