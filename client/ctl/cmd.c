/* SPDX-License-Identifier: Apache-2.0 */
/* The list of commands, the global options, and parsing by the tables. */
#include "client/ctl/cmd.h"

#include <errno.h>
#include <popt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <diverge/diverge.h>

#include "client/ctl/commands.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

const struct cmd *const cmd_all[] = {
#define X(name) &cmd_##name,
    CTL_COMMANDS(X)
#undef X
        NULL,
};

struct ctl_globals ctl = {.color = "auto"};

static const char *const color_choices[] = {"auto", "always", "never", NULL};

const struct cmd_option cmd_global_options[] = {
    {.name = "store",
     .type = CMD_STRING,
     .value = &ctl.store,
     .argument = "FILE",
     .words = CMD_WORDS_FILE,
     .help = "use this store, without asking a daemon (DIVERGE_STORE, else "
             "$XDG_STATE_HOME/diverge/diverge.db)"},
    {.name = "socket",
     .type = CMD_STRING,
     .value = &ctl.socket,
     .argument = "PATH",
     .words = CMD_WORDS_FILE,
     .help = "the daemon's socket (DIVERGE_SOCKET, else $XDG_RUNTIME_DIR/diverge/diverged.sock)"},
    {.name = "color",
     .type = CMD_CHOICE,
     .value = &ctl.color,
     .argument = "WHEN",
     .choices = color_choices,
     .help = "colour in output for people: auto (default), always or never; NO_COLOR also turns "
             "it off"},
    {.name = "json",
     .type = CMD_FLAG,
     .value = &ctl.json,
     .help = "print one JSON object, with a versioned schema, instead of text"},
    {.name = "help",
     .letter = 'h',
     .type = CMD_FLAG,
     .value = &ctl.help,
     .help = "show help and exit"},
    {.name = "version",
     .letter = 'V',
     .type = CMD_FLAG,
     .value = &ctl.version,
     .help = "show the version and exit"},
};
const size_t cmd_n_global_options = CMD_COUNT(cmd_global_options);

const struct cmd *cmd_find(const char *name)
{
    for (size_t i = 0; cmd_all[i]; i++)
        if (!strcmp(cmd_all[i]->name, name))
            return cmd_all[i];
    return NULL;
}

/* ---- parsing -------------------------------------------------------------------------------- */

static bool parse_integer(const struct cmd_option *option, const char *text)
{
    char *end = NULL;

    errno = 0;
    if (option->type == CMD_I64) {
        long long value = strtoll(text, &end, 10);

        if (errno || end == text || *end)
            return false;
        *(int64_t *)option->value = value;
        return true;
    }
    return text_parse_u64(text, option->value) == 0;
}

static size_t count_words(const char *const *words)
{
    size_t count = 0;

    while (words && words[count])
        count++;
    return count;
}

static int apply_choice(const struct cmd_option *option, const char *text)
{
    size_t count = count_words(option->choices);

    for (size_t i = 0; i < count; i++) {
        if (!strcmp(option->choices[i], text)) {
            *(const char **)option->value = option->choices[i];
            return 0;
        }
    }
    return ctl_fail(EX_USAGE, "--%s takes %s, not \"%s\"", option->name,
                    text_alternatives(option->choices, count), text_escape(text));
}

static int apply(const struct cmd_option *option, const char *text)
{
    if (option->given)
        *option->given = true;
    switch (option->type) {
    case CMD_FLAG:
        *(bool *)option->value = true;
        return 0;
    case CMD_STRING:
        *(const char **)option->value = mem_string(text);
        return 0;
    case CMD_U64:
    case CMD_I64:
        if (!parse_integer(option, text))
            return ctl_fail(EX_USAGE, "--%s takes %s, not \"%s\"", option->name,
                            option->type == CMD_U64 ? "a number from 0 up" : "a whole number",
                            text_escape(text));
        return 0;
    case CMD_CHOICE:
        return apply_choice(option, text);
    }
    return EX_SOFTWARE;
}

/* The rows of a command, then the global ones. */
static const struct cmd_option **rows_of(const struct cmd *cmd, size_t *ret_count)
{
    size_t own = cmd ? cmd->n_options : 0;
    size_t count = own + cmd_n_global_options;
    const struct cmd_option **rows = mem_alloc((count + 1) * sizeof(struct cmd_option *));

    for (size_t i = 0; i < count; i++)
        rows[i] = i < own ? &cmd->options[i] : &cmd_global_options[i - own];
    *ret_count = count;
    return rows;
}

static struct poptOption *popt_rows(const struct cmd_option *const *rows, size_t count)
{
    struct poptOption *table = mem_alloc((count + 1) * sizeof(*table));

    for (size_t i = 0; i < count; i++)
        table[i] = (struct poptOption){
            .longName = rows[i]->name,
            .shortName = rows[i]->letter,
            .argInfo = rows[i]->type == CMD_FLAG ? POPT_ARG_NONE : POPT_ARG_STRING,
            .val = (int)i + 1,
        };
    return table;
}

static int refuse_option(const struct cmd *cmd, const struct cmd_option *const *rows, size_t count,
                         const char *given, int rc)
{
    const char *command = cmd ? mem_printf("divergectl %s --help", cmd->name) : "divergectl --help";

    if (rc != POPT_ERROR_BADOPT)
        return ctl_fail(EX_USAGE, "%s: %s (see %s)", text_escape(given), poptStrerror(rc), command);
    const char **names = mem_alloc(count * sizeof(char *));

    for (size_t i = 0; i < count; i++)
        names[i] = rows[i]->name;
    const char *bare = given + strspn(given, "-");
    const char *nearest = text_nearest(mem_copy(bare, strcspn(bare, "=")), names, count);

    if (nearest)
        return ctl_fail(EX_USAGE, "unknown option %s; did you mean --%s?", text_escape(given),
                        nearest);
    return ctl_fail(EX_USAGE, "unknown option %s (see %s)", text_escape(given), command);
}

static const char *const *copy_arguments(poptContext context, int *ret_count)
{
    const char **left = poptGetArgs(context);
    int count = 0;

    while (left && left[count])
        count++;
    const char **copy = mem_alloc(((size_t)count + 1) * sizeof(char *));

    for (int i = 0; i < count; i++)
        copy[i] = mem_string(left[i]);
    *ret_count = count;
    return copy;
}

/* Where popt finds no memory it ends the process with status 1, which here means: they differ. */
static bool in_popt;

static void leave_popt(void)
{
    if (in_popt)
        _exit(EX_SOFTWARE);
}

int cmd_parse(const struct cmd *cmd, int argc, const char *const *argv, int *ret_argc,
              const char *const **ret_argv)
{
    size_t count = 0;
    const struct cmd_option **rows = rows_of(cmd, &count);
    unsigned flags = !cmd || cmd->stops ? POPT_CONTEXT_POSIXMEHARDER : 0;
    static bool registered;

    if (!registered && atexit(leave_popt) != 0)
        return ctl_fail(EX_SOFTWARE, "out of memory");
    registered = true;
    in_popt = true;
    /* popt's table and argv are not const-correct; it changes neither. */
    poptContext context = poptGetContext("divergectl", argc, (const char **)(uintptr_t)argv,
                                         popt_rows(rows, count), flags);
    int status = context ? 0 : ctl_fail(EX_SOFTWARE, "out of memory");
    int rc = -1;

    while (!status && (rc = poptGetNextOpt(context)) > 0) {
        char *text = poptGetOptArg(context);

        status = apply(rows[rc - 1], text);
        free(text);
    }
    if (!status && rc < -1)
        status = refuse_option(cmd, rows, count, poptBadOption(context, 0), rc);
    if (!status)
        *ret_argv = copy_arguments(context, ret_argc);
    poptFreeContext(context);
    in_popt = false;
    return status;
}

/* ---- what a person is told ------------------------------------------------------------------ */

int ctl_fail(int status, const char *format, ...)
{
    va_list list;

    fflush(stdout);
    fputs("divergectl: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return status;
}

void ctl_note(const char *format, ...)
{
    va_list list;

    fputs("divergectl: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

int ctl_exit_status(int error)
{
    switch (error) {
    case DIVERGE_EINVAL:
        return EX_USAGE;
    case DIVERGE_EPROTO:
    case DIVERGE_EVERSION:
    case DIVERGE_ECORRUPT:
    case DIVERGE_EGAP:
    case DIVERGE_ELIMIT:
        return EX_DATAERR;
    case DIVERGE_ENOTFOUND:
    case DIVERGE_EAMBIGUOUS:
        return EX_NOINPUT;
    case DIVERGE_EUNAVAIL:
    case DIVERGE_EBUSY:
    case DIVERGE_EAGAIN:
    case DIVERGE_ECLOSED:
        return EX_UNAVAILABLE;
    case DIVERGE_EPERM:
        return EX_NOPERM;
    case DIVERGE_EFULL:
        return EX_CANTCREAT;
    case DIVERGE_EIO:
        return EX_IOERR;
    case DIVERGE_EUNSUPPORTED:
        return EX_CONFIG;
    default:
        return EX_SOFTWARE;
    }
}

int ctl_fail_error(int error, const char *what, const char *text)
{
    if (error == DIVERGE_ECORRUPT && !(text && *text))
        text = "corrupt data; keep a copy of the file, and save what can be read: of a store with"
               " \"sqlite3 FILE .recover\", of a recording with divergectl import";
    bool more = text && *text;

    if (what && more && strncmp(text, what, strlen(what)) == 0)
        what = NULL; /* it says so itself */

    /* Texts of a daemon or store may quote what a producer sent. */
    return ctl_fail(ctl_exit_status(error), "%s%s%s", what ? what : "", what ? ": " : "",
                    more ? text_escape(text) : diverge_strerror(error));
}

int ctl_fail_file(int error, const char *path, const char *text)
{
    return ctl_fail_error(error == DIVERGE_ESTATE ? DIVERGE_EPROTO : error, text_escape(path),
                          text);
}

int ctl_finish(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (errno == EPIPE) /* who read has seen enough */
            return status;
        return ctl_fail(EX_IOERR, "cannot write the output: %s", strerror(errno));
    }
    return status;
}
