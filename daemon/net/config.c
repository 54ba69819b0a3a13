/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

enum kind {
    KIND_PATH,   /* resolved by paths.h after all was read */
    KIND_SWITCH, /* bool */
    KIND_NUMBER, /* int64_t */
    KIND_SIZE,   /* int64_t, with suffix */
    KIND_LEVEL,
};

static const struct option {
    const char *flag;
    const char *variable; /* NULL: a flag alone */
    const char *initial;  /* NULL: see paths.h */
    const char *argument; /* NULL: a switch */
    const char *help;
    int64_t lowest, highest;
    size_t offset;
    enum kind kind;
} options[CONFIG_COUNT] = {
#define X(field_, kind_, flag_, variable_, default_, lowest_, highest_, argument_, help_)          \
    [CONFIG_##field_] = {                                                                          \
        .flag = flag_,                                                                             \
        .variable = variable_,                                                                     \
        .initial = default_,                                                                       \
        .argument = argument_,                                                                     \
        .help = help_,                                                                             \
        .lowest = lowest_,                                                                         \
        .highest = highest_,                                                                       \
        .offset = offsetof(struct config, field_),                                                 \
        .kind = KIND_##kind_,                                                                      \
    },
    CONFIG_OPTIONS(X)
#undef X
};

static const char *const origin_names[] = {"default", "environment", "flag"};

/* Texts of the three paths as given; NULL: not given. Borrowed from argv and environment. */
struct given {
    const char *paths[CONFIG_COUNT];
};

__attribute__((format(printf, 3, 4))) static int refuse(struct config_error *error, int status,
                                                        const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

static int parse_number(const char *text, int64_t *ret)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end)
        return DIVERGE_EINVAL;
    if (errno == ERANGE)
        return DIVERGE_ELIMIT;
    *ret = value;
    return 0;
}

int config_parse_size(const char *text, int64_t *ret)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || value < 0)
        return DIVERGE_EINVAL;
    if (errno == ERANGE)
        return DIVERGE_ELIMIT;
    int shift = 0;
    if (*end) {
        const char *suffix = strchr(suffixes, *end & ~0x20);
        if (!suffix || !*suffix || (end[1] && strcmp(end + 1, "iB") != 0))
            return DIVERGE_EINVAL;
        shift = 10 * (int)(suffix - suffixes + 1);
    }
    if (value > INT64_MAX >> shift)
        return DIVERGE_ELIMIT;
    *ret = (int64_t)value << shift;
    return 0;
}

static int parse_switch(const char *text, int64_t *ret)
{
    static const char *const words[2][4] = {{"no", "0", "false", "off"},
                                            {"yes", "1", "true", "on"}};
    for (int value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            if (strcmp(text, words[value][i]) == 0) {
                *ret = value;
                return 0;
            }
        }
    }
    return DIVERGE_EINVAL;
}

static int parse_value(const struct option *option, const char *text, int64_t *ret)
{
    switch (option->kind) {
    case KIND_SWITCH:
        return parse_switch(text, ret);
    case KIND_NUMBER:
        return parse_number(text, ret);
    case KIND_SIZE:
        return config_parse_size(text, ret);
    case KIND_LEVEL:
    case KIND_PATH:
        break;
    }
    return DIVERGE_EINVAL;
}

static void store_value(struct config *config, const struct option *option, int64_t value)
{
    void *field = (char *)config + option->offset;
    if (option->kind == KIND_SWITCH)
        *(bool *)field = value != 0;
    else
        *(int64_t *)field = value;
}

/* `where`: how the person wrote it, for the message. */
static int set_option(struct config *config, struct given *given, enum config_option which,
                      const char *text, enum config_origin origin, const char *where,
                      struct config_error *error)
{
    const struct option *option = &options[which];
    config->origins[which] = origin;
    if (option->kind == KIND_PATH) {
        if (!*text)
            return refuse(error, DIVERGE_EINVAL, "%s: an empty path", where);
        given->paths[which] = text;
        return 0;
    }
    if (option->kind == KIND_LEVEL) {
        if (log_level_parse(text, &config->log_level))
            return refuse(error, DIVERGE_EINVAL, "%s: \"%s\" is not error, warning, info or debug",
                          where, text);
        return 0;
    }
    int64_t value = 0;
    if (parse_value(option, text, &value))
        return refuse(error, DIVERGE_EINVAL, "%s: \"%s\" is not %s", where, text,
                      option->kind == KIND_SWITCH ? "yes or no"
                      : option->kind == KIND_SIZE ? "a number of bytes (4096, 64M, 1G)"
                                                  : "a number");
    if (value < option->lowest || value > option->highest)
        return refuse(error, DIVERGE_EINVAL, "%s: %s is not between %" PRId64 " and %" PRId64,
                      where, text, option->lowest, option->highest);
    store_value(config, option, value);
    return 0;
}

static int read_defaults(struct config *config, struct given *given, struct config_error *error)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        if (!options[i].initial)
            continue;
        int rc = set_option(config, given, (enum config_option)i, options[i].initial,
                            CONFIG_DEFAULT, options[i].flag, error);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_environment(struct config *config, struct given *given, struct config_error *error)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const char *value = options[i].variable ? getenv(options[i].variable) : NULL;
        if (!value || !*value)
            continue;
        int rc = set_option(config, given, (enum config_option)i, value, CONFIG_ENVIRONMENT,
                            options[i].variable, error);
        if (rc)
            return rc;
    }
    return 0;
}

/* The option that `word` ("--name" or "--name=value") names, or -1. */
static int find_option(const char *word)
{
    size_t len = strcspn(word, "=");
    for (int i = 0; i < CONFIG_COUNT; i++) {
        if (strncmp(word, options[i].flag, len) == 0 && !options[i].flag[len])
            return i;
    }
    return -1;
}

static bool read_action(struct config *config, const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        config->action = CONFIG_HELP;
    else if (strcmp(word, "--version") == 0)
        config->action = CONFIG_VERSION;
    else if (strcmp(word, "--print-config") == 0)
        config->action = CONFIG_PRINT;
    else
        return false;
    return true;
}

static int read_flags(struct config *config, struct given *given, int argc, char *const *argv,
                      struct config_error *error)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (read_action(config, word))
            continue;
        int which = strncmp(word, "--", 2) == 0 ? find_option(word + 2) : -1;
        if (which < 0)
            return refuse(error, DIVERGE_EINVAL, "unknown argument %s; see diverged --help", word);
        const char *equals = strchr(word, '=');
        const char *value = equals ? equals + 1 : NULL;
        if (!value && !options[which].argument)
            value = "yes";
        else if (!value && i + 1 < argc)
            value = argv[++i];
        if (!value)
            return refuse(error, DIVERGE_EINVAL, "%s needs a value: %s", word,
                          options[which].argument);
        char where[64];
        snprintf(where, sizeof(where), "--%s", options[which].flag);
        int rc =
            set_option(config, given, (enum config_option)which, value, CONFIG_FLAG, where, error);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_paths(struct config *config, const struct given *given, struct config_error *error)
{
    struct paths_error why = {{0}};
    int rc = paths_store(given->paths[CONFIG_store], config->store, &config->store_moved, &why);
    if (!rc)
        rc = paths_socket(given->paths[CONFIG_socket], config->socket, &why);
    if (!rc)
        rc = paths_spool(given->paths[CONFIG_spool], config->socket, config->spool, &why);
    return rc ? refuse(error, rc, "%s", why.text) : 0;
}

int config_read(struct config *ret, int argc, char *const *argv, struct config_error *error)
{
    struct config config = {0};
    struct given given = {{0}};
    int rc = read_defaults(&config, &given, error);
    if (!rc)
        rc = read_flags(&config, &given, argc, argv, error);
    /* Help is given whatever else is wrong. */
    if (!rc && config.action != CONFIG_HELP && config.action != CONFIG_VERSION) {
        /* Flags beat the environment: they are read again on top of it. */
        rc = read_environment(&config, &given, error);
        if (!rc)
            rc = read_flags(&config, &given, argc, argv, error);
        if (!rc)
            rc = read_paths(&config, &given, error);
    }
    if (!rc)
        *ret = config;
    return rc;
}

static void print_value(const struct config *config, const struct option *option, FILE *out)
{
    static const char *const levels[] = {
#define X(NAME, name, priority) name,
        LOG_LEVELS(X)
#undef X
    };
    const char *field = (const char *)config + option->offset;
    switch (option->kind) {
    case KIND_PATH:
        fputs(field, out);
        break;
    case KIND_SWITCH:
        fputs(*(const bool *)field ? "yes" : "no", out);
        break;
    case KIND_NUMBER:
    case KIND_SIZE:
        fprintf(out, "%" PRId64, *(const int64_t *)field);
        break;
    case KIND_LEVEL:
        fputs(levels[config->log_level], out);
        break;
    }
}

void config_print(const struct config *config, FILE *out)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct option *option = &options[i];
        enum config_origin origin = config->origins[i];
        fprintf(out, "%s=", option->flag);
        print_value(config, option, out);
        fprintf(out, "  # %s", origin_names[origin]);
        if (origin == CONFIG_ENVIRONMENT)
            fprintf(out, " %s", option->variable);
        fputc('\n', out);
    }
}

void config_help(FILE *out)
{
    fputs("Usage: diverged [OPTION…]\n"
          "Records training runs into one store. divergectl starts it when it is needed.\n\n",
          out);
    for (int i = 0; i < CONFIG_COUNT; i++) {
        const struct option *option = &options[i];
        char left[64];
        snprintf(left, sizeof(left), "--%s%s%s", option->flag, option->argument ? " " : "",
                 option->argument ? option->argument : "");
        fprintf(out, "  %-30s %s", left, option->help);
        if (option->initial && option->argument)
            fprintf(out, " [%s]", option->initial);
        if (option->variable)
            fprintf(out, " (%s)", option->variable);
        fputc('\n', out);
    }
    fputs("  --print-config                 print the settings in force and where each comes from\n"
          "  --help, --version\n\n"
          "Sizes take K, M, G, T. Exit status: 0, or of sysexits.h: 64 usage, 65 bad store,\n"
          "69 another daemon runs, 71 system, 74 disk full or I/O, 77 permission,\n"
          "78 configuration.\n",
          out);
}
