/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/daemon.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

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
static int report(struct peer *peer, const char *word)
{
    cJSON *reply = NULL;
    char error[512];
    int status = peer_control(peer, daemon_request("status"), DAEMON_TIMEOUT_MS, &reply, error);

    peer_close(peer);
    if (status)
        return ctl_fail_error(status, "the daemon", error);
    print_daemon(word, reply);
    cJSON_Delete(reply);
    return EX_OK;
}

static int start(bool replace)
{
    struct peer peer = {.fd = -1};
    bool started = false;
    int status = daemon_ensure(&peer, replace, &started);

    if (status)
        return ctl_exit_status(status);
    return report(&peer, started ? "started" : "already running");
}

static int show_status(void)
{
    struct peer peer;
    int status = daemon_connect(&peer);

    if (!status)
        return report(&peer, "running");
    if (status != DIVERGE_EUNAVAIL)
        return ctl_exit_status(status);
    print_daemon("not running", NULL);
    return EX_UNAVAILABLE;
}

/* Waits for a process to end: 0, or EAGAIN. Without pidfd (kernel 5.3) its connection's end must do. */
static int wait_for_end(struct peer *peer, uint64_t pid)
{
    int fd = pid ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    struct dvg_frame frame;
    int ready;

    if (fd < 0 && errno == ESRCH)
        return 0;
    if (fd < 0) {
        while (peer_receive(peer, &frame, DAEMON_TIMEOUT_MS) == 0)
            ;
        return 0;
    }
    do
        ready = poll(&wait, 1, DAEMON_TIMEOUT_MS);
    while (ready < 0 && errno == EINTR);
    close(fd);
    return ready > 0 ? 0 : DIVERGE_EAGAIN;
}

static int stop(void)
{
    struct peer peer;
    cJSON *reply = NULL;
    char error[512];
    int status = daemon_connect(&peer);

    if (status == DIVERGE_EUNAVAIL) {
        print_daemon("not running", NULL);
        return EX_OK;
    }
    if (status)
        return ctl_exit_status(status);
    status = peer_control(&peer, daemon_request("status"), DAEMON_TIMEOUT_MS, &reply, error);
    uint64_t pid = peer_u64(reply, "pid");

    cJSON_Delete(reply);
    reply = NULL;
    cJSON *request = daemon_request("stop");

    if (options.force)
        cJSON_AddBoolToObject(request, "force", true);
    if (!status)
        status = peer_control(&peer, request, DAEMON_TIMEOUT_MS, &reply, error);
    else
        cJSON_Delete(request);
    cJSON_Delete(reply);
    if (!status && wait_for_end(&peer, pid))
        status = ctl_fail(EX_UNAVAILABLE, "the daemon, pid %llu, was asked to stop but still runs",
                          (unsigned long long)pid);
    else if (status == DIVERGE_EBUSY)
        status = ctl_fail(EX_UNAVAILABLE, "runs are being recorded: wait for them, or use --force "
                                          "(they keep what they record in their spool)");
    else if (status)
        status = ctl_fail_error(status, "the daemon", error);
    else
        print_daemon("stopped", NULL);
    peer_close(&peer);
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
    {.name = "force", .type = CMD_FLAG, .value = &options.force,
     .help = "stop: also while runs are being recorded; they go on into their spool"},
};

static const char *const actions[] = {"start", "stop", "status", "replace", NULL};

static const char *const description[] = {
    "start starts the daemon of this user unless one runs; run, import and the other commands that "
    "need one do so by themselves. replace starts a new one in the place of one that runs, after an "
    "upgrade for example; what is being recorded goes on. status exits 69 when none runs.",
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
