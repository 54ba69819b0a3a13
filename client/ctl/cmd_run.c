/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <diverge/diverge.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/daemon.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"
#include "client/lib/config.h"

static const char *const level_choices[] = {"pulse", "step", "layer", "op", NULL};

/* Exit statuses of a job that could not be started, as a shell's. */
enum {
    NOT_RUN = 126,
    NOT_FOUND = 127,
};

static struct {
    const char *name;
    const char *level;
    const char *steps;
    const char *like;
    bool quiet;
} options;

/* ---- settings ------------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "._-";

    return *name && !strchr("._-", *name) && name[strspn(name, allowed)] == '\0' &&
           strlen(name) < 120;
}

/* As libdiverge will read them; without this the job would run and record all steps. */
static int check_steps(void)
{
    struct diverge_options library = DIVERGE_OPTIONS_INIT;
    struct dvg_config config;
    struct dvg_error error;

    unsetenv("DIVERGE_STEPS"); /* it would win; the job gets ours */
    library.steps = options.steps;
    library.recording = "-"; /* so that it looks at no socket */
    if (dvg_config_init(&config, &library, &error) == DIVERGE_EINVAL)
        return ctl_fail(EX_USAGE, "%s", text_escape(error.text));
    return EX_OK;
}

/* Takes what was not given from the run to be like. */
static int take_after(const char *who)
{
    struct source_run run;
    int status = source_find(who, &run);

    if (status)
        return status;
    if (!options.level && run.trace->n_streams)
        options.level = mem_string(text_tier(run.trace->streams[0].level));
    if (!options.name)
        options.name = mem_string(run.info.name);
    return EX_OK;
}

static void set(const char *name, const char *value)
{
    if (value && setenv(name, value, 1) != 0)
        exit(ctl_fail(EX_SOFTWARE, "out of memory"));
}

static int set_environment(const char *run_id)
{
    set("DIVERGE_RUN_ID", run_id);
    set("DIVERGE_RUN_NAME", options.name);
    set("DIVERGE_LEVEL", options.level);
    set("DIVERGE_STEPS", options.steps);
    set("DIVERGE_SOCKET", daemon_socket());
    return unsetenv("DIVERGE_RECORDING"); /* it would keep the run from the daemon */
}

static int make_run_id(const char **ret)
{
    uint8_t id[16];

    if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
        return ctl_fail(EX_OSERR, "no random number for the run's id: %s", strerror(errno));
    *ret = text_id(id);
    return EX_OK;
}

/* ---- the job -------------------------------------------------------------------------------- */

static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};

static void block_signals(sigset_t *ret_set, sigset_t *ret_before)
{
    sigemptyset(ret_set);
    for (size_t i = 0; i < CMD_COUNT(passed_on); i++)
        sigaddset(ret_set, passed_on[i]);
    sigaddset(ret_set, SIGCHLD);
    sigprocmask(SIG_BLOCK, ret_set, ret_before);
}

static _Noreturn void become_job(const char *const *argv, const sigset_t *before)
{
    sigprocmask(SIG_SETMASK, before, NULL);
    signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int number = errno;

    fprintf(stderr, "divergectl: cannot run %s: %s\n", text_escape(argv[0]), strerror(number));
    fflush(stderr);
    _exit(number == ENOENT || number == ENOTDIR ? NOT_FOUND : NOT_RUN);
}

/*
 * The job's status, once it has ended. A signal of the terminal reached the job by itself: it is in
 * our process group; one that was sent to us alone is passed on.
 */
static int wait_for_job(pid_t job, const sigset_t *set)
{
    for (;;) {
        siginfo_t info;
        int status;
        int number = sigwaitinfo(set, &info);

        if (number == SIGCHLD && waitpid(job, &status, WNOHANG) == job)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (number > 0 && number != SIGCHLD && info.si_code <= 0)
            kill(job, number);
    }
}

static int run_job(const char *const *argv)
{
    sigset_t set;
    sigset_t before;

    block_signals(&set, &before);
    fflush(NULL);
    pid_t job = fork();

    if (job < 0)
        return ctl_fail(NOT_RUN, "cannot start the job: %s", strerror(errno));
    if (job == 0)
        become_job(argv, &before);
    int status = wait_for_job(job, &set);

    /* A ^C that ended the job is not for us: what it recorded is still to be told. */
    sigset_t pending;

    while (sigpending(&pending) == 0 && sigismember(&pending, SIGINT))
        sigwaitinfo(&set, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* ---- afterwards ----------------------------------------------------------------------------- */

static void report(const char *run_id, bool ran)
{
    struct reader *reader = NULL;
    struct store_error error = {""};
    struct reader_run run;
    const char *path = daemon_store();
    int status = reader_open(path, &reader, &error);

    if (!status)
        status = reader_find(reader, run_id, &run, &error);
    reader_close(reader);
    if (status == DIVERGE_ENOTFOUND && !ran)
        return;
    if (status == DIVERGE_ENOTFOUND) {
        ctl_note("nothing was recorded: no process of the job opened a session. Does it use "
                 "libdiverge, and was DIVERGE_DISABLE set?");
        return;
    }
    if (status) {
        ctl_note("cannot read %s: %s", path,
                 error.text[0] ? text_escape(error.text) : diverge_strerror(status));
        return;
    }
    if (run.dropped)
        ctl_note("%s dropped: comparisons that need them will say so",
                 text_things(run.dropped, "record"));
    if (!options.quiet)
        ctl_note("recorded as %s (%s, %s)", text_escape(run.name),
                 text_things(run.records, "record"),
                 run.last_boundary == UINT64_MAX ? "no boundary"
                                                 : text_things(run.last_boundary, "step"));
}

static int run(int argc, const char *const *argv)
{
    struct dvg_control_link link = {.fd = -1};
    const char *run_id = NULL;
    int status = options.like ? take_after(options.like) : EX_OK;

    (void)argc;
    if (!status && options.name && !is_name(options.name))
        status = ctl_fail(EX_USAGE,
                          "\"%s\" is no name for a run: letters, digits, '.', '_' and '-', the "
                          "first a letter or digit, at most 119",
                          text_escape(options.name));
    if (!status && options.steps)
        status = check_steps();
    if (!status)
        status = make_run_id(&run_id);
    if (status)
        return status;
    /* Training comes first: without a daemon the job's records wait in its spool. */
    bool daemon = daemon_ensure(&link, false, NULL) == 0;

    dvg_control_close(&link);
    if (!daemon)
        ctl_note("going on without a daemon: what the job records waits in its spool");
    if (set_environment(run_id))
        return ctl_fail(EX_SOFTWARE, "out of memory");
    status = run_job(argv);
    daemon_settle();
    if (daemon)
        report(run_id, status != NOT_RUN && status != NOT_FOUND);
    return status;
}

static const struct cmd_option rows[] = {
    {.name = "name",
     .type = CMD_STRING,
     .value = &options.name,
     .argument = "NAME",
     .help = "the run's name (default: the program's); one that is taken gets .2, .3 …"},
    {.name = "level",
     .type = CMD_CHOICE,
     .value = &options.level,
     .argument = "LEVEL",
     .choices = level_choices,
     .help = "how much is recorded: pulse (loss, batch, generators), step (and parameters, "
             "gradients, optimizer state), layer (and module outputs), op (and every op: the "
             "default)"},
    {.name = "steps",
     .type = CMD_STRING,
     .value = &options.steps,
     .argument = "LIST",
     .help = "record more than pulse in these steps alone, such as 100:103,200 or ::16"},
    {.name = "like",
     .type = CMD_STRING,
     .value = &options.like,
     .argument = "RUN",
     .words = CMD_WORDS_RUN,
     .help = "name and level of this run, where they are not given"},
    {.name = "quiet",
     .letter = 'q',
     .type = CMD_FLAG,
     .value = &options.quiet,
     .help = "say nothing when all went well"},
};

static const char *const description[] = {
    "Runs a job with recording on: sets DIVERGE_* for it, starts the daemon when none runs, and "
    "passes signals and the job's exit status through (127 and 126 when it cannot be started, 128 "
    "and the signal's number when one ended it). ^C stops the job and keeps what was recorded.",
    "Every process of the job that opens a session of libdiverge becomes a rank of one run.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl run --name base -- ./train --epochs 3", "records a job as base"},
    {"divergectl run --like base -- ./train --epochs 3", "a repeat, recorded the same way"},
    {NULL, NULL},
};

const struct cmd cmd_run = {
    .name = "run",
    .group = CMD_GROUP_RECORD,
    .summary = "Run a job and record it",
    .synopsis = "[--] CMD [ARG…]",
    .description = description,
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .words = CMD_WORDS_PROGRAM,
    .min_arguments = 1,
    .max_arguments = -1,
    .stops = true,
    .examples = examples,
    .run = run,
};
