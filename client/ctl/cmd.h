/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a subcommand is: one const descriptor a file, one row an option. Parsing, --help, the man
 * page and the shell completions all come from these tables.
 */
#ifndef CLIENT_CTL_CMD_H
#define CLIENT_CTL_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sysexits.h>

/* Exit statuses of the reading commands; the others are sysexits'. */
enum {
    CTL_SAME = 0,
    CTL_DIFFER = 1,
    CTL_CANNOT_TELL = 2,
};

enum cmd_option_type {
    CMD_FLAG,   /* bool */
    CMD_STRING, /* const char * */
    CMD_U64,    /* uint64_t */
    CMD_I64,    /* int64_t */
    CMD_CHOICE, /* const char *, one of `choices` */
};

enum cmd_words { /* what a shell completes an argument with */
                 CMD_WORDS_NONE,
                 CMD_WORDS_FILE,
                 CMD_WORDS_RUN,
                 CMD_WORDS_RUN_OR_FILE,
                 CMD_WORDS_ACTION,
                 CMD_WORDS_PROGRAM,
                 CMD_WORDS_COMMAND,
};

struct cmd_option {
    const char *name;
    char letter; /* 0: none */
    enum cmd_option_type type;
    void *value;          /* where it goes, of the type's C type; static */
    bool *given;          /* may be NULL: set when the option was there */
    const char *argument; /* its name in help; NULL for flags */
    const char *const *choices;
    enum cmd_words words;
    const char *help;
};

struct cmd_example {
    const char *line;
    const char *what;
};

enum cmd_group { /* the overview's headings, by task */
                 CMD_GROUP_RECORD,
                 CMD_GROUP_COMPARE,
                 CMD_GROUP_LOOK,
                 CMD_GROUP_KEEP,
                 CMD_GROUP_DAEMON,
                 CMD_GROUP_COUNT,
};

struct cmd {
    const char *name;
    enum cmd_group group;
    const char *summary;            /* one line */
    const char *synopsis;           /* after the options */
    const char *const *description; /* paragraphs, NULL-ended */
    const struct cmd_option *options;
    size_t n_options;
    const char *const *actions; /* words of the first argument, NULL-ended; NULL: none */
    enum cmd_words words;       /* of the arguments */
    int min_arguments;
    int max_arguments; /* -1: any number */
    bool json;         /* has --json */
    bool stops;        /* options end at the first argument: the rest is another program's */
    const struct cmd_example *examples;            /* ended by a NULL line */
    int (*run)(int argc, const char *const *argv); /* returns the exit status */
};

/* NULL-ended, in the order of the overview. */
extern const struct cmd *const cmd_all[];
const struct cmd *cmd_find(const char *name);

/* Options that every command has. */
extern const struct cmd_option cmd_global_options[];
extern const size_t cmd_n_global_options;
struct ctl_globals {
    const char *store;
    const char *socket;
    const char *color;
    bool json;
    bool help;
    bool version;
};
extern struct ctl_globals ctl;

#define CMD_COUNT(array) (sizeof(array) / sizeof(array)[0])

/*
 * Parses argv[1..] by the rows of `cmd` (NULL: the global ones alone, up to the first argument).
 * *ret_argv: the arguments that are left, NULL-ended, kept till exit. 0, or EX_USAGE after saying
 * why.
 */
int cmd_parse(const struct cmd *cmd, int argc, const char *const *argv, int *ret_argc,
              const char *const **ret_argv);

/* Prints "divergectl: …" to stderr and returns `status`. */
int ctl_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ctl_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The exit status that fits a DIVERGE_E…. */
int ctl_exit_status(int error);
/* Flushes stdout; EX_IOERR when what was written did not arrive, else `status`. */
int ctl_finish(int status);
/* Like ctl_fail, for a DIVERGE_E… with an optional text of what was tried. */
int ctl_fail_error(int error, const char *what, const char *text);
/* The same for what a recording holds: a message out of place is the file's fault, not ours. */
int ctl_fail_file(int error, const char *path, const char *text);

/* Documents from the tables. */
void help_overview(void);
void help_command(const struct cmd *cmd);
void help_man_page(void);
int help_completion(const char *shell);

#endif
