/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run at build time: copies the page's source from stdin to stdout and puts the daemon's options,
 * from its own table, where a line says @OPTIONS@.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/net/config.h"

static const struct option {
    const char *flag;
    const char *variable;
    const char *initial;
    const char *argument;
    const char *help;
} options[] = {
#define X(field_, kind_, flag_, variable_, default_, lowest_, highest_, argument_, help_)          \
    {flag_, variable_, default_, argument_, help_},
    CONFIG_OPTIONS(X)
#undef X
};

/* scdoc reads _ and * as markup, and [ at a line's start as a table. */
static void put_escaped(const char *text)
{
    for (; *text; text++) {
        if (strchr("_*[]|\\", *text))
            putchar('\\');
        putchar(*text);
    }
}

static void put_options(void)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const struct option *o = &options[i];
        printf("*--%s*", o->flag);
        if (o->argument) {
            fputs(" _", stdout);
            put_escaped(o->argument);
            fputc('_', stdout);
        }
        fputs("\n\t", stdout);
        put_escaped(o->help);
        if (o->argument && o->initial) {
            fputs(". Default: ", stdout);
            put_escaped(o->initial);
        }
        if (o->variable) {
            fputs(". Environment: ", stdout);
            put_escaped(o->variable);
        }
        fputs("\n\n", stdout);
    }
}

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof(line), stdin)) {
        if (strcmp(line, "@OPTIONS@\n") == 0)
            put_options();
        else
            fputs(line, stdout);
    }
    return ferror(stdin) || fflush(stdout) ? 1 : 0;
}
