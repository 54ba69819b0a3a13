/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/trace/script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LOOPS = 4 };

struct process {
    const struct script *script;
    char run;
    int rank;
    void (*each)(void *ctx, const struct script_line *line);
    void *ctx;
    struct {
        char name;
        long value;
    } loops[MAX_LOOPS];
    size_t n_loops;
};

void script_fail(int number, const char *message, const char *word)
{
    fprintf(stderr, "line %d: %s: %s\n", number, message, word);
    exit(64);
}

void script_read(struct script *script, const char *path)
{
    char text[SCRIPT_LINE];
    FILE *file = fopen(path, "re");
    *script = (struct script){0};
    if (!file)
        script_fail(0, "cannot read", path);
    while (fgets(text, sizeof(text), file)) {
        script->lines = realloc(script->lines, (script->count + 1) * sizeof(script->lines[0]));
        char *copy = strdup(text);
        if (!script->lines || !copy)
            script_fail(0, "no memory for", path);
        copy[strcspn(copy, "\n")] = '\0';
        script->lines[script->count++] = copy;
    }
    fclose(file);
}

void script_free(struct script *script)
{
    for (size_t i = 0; i < script->count; i++)
        free(script->lines[i]);
    free(script->lines);
}

/* ---- loop variables ------------------------------------------------------------------------- */

static bool variable(const struct process *process, char name, long *ret)
{
    for (size_t i = process->n_loops; i-- > 0;)
        if (process->loops[i].name == name) {
            *ret = process->loops[i].value;
            return true;
        }
    return false;
}

/* "$k+1" at *at; false: no variable of that name. */
static bool substitute(const struct process *process, const char **at, char *to, size_t room)
{
    long value;
    if (!variable(process, (*at)[1], &value))
        return false;
    *at += 2;
    if ((**at == '+' || **at == '-') && isdigit((unsigned char)(*at)[1]))
        value += strtol(*at, (char **)at, 10);
    snprintf(to, room, "%ld", value);
    return true;
}

static void expand(const struct process *process, const char *from, struct script_line *line)
{
    size_t n = 0;
    while (*from && n + 24 < sizeof(line->text)) {
        if (*from == '$' && substitute(process, &from, line->text + n, 24))
            n += strlen(line->text + n);
        else
            line->text[n++] = *from++;
    }
    line->text[n] = '\0';
}

/* ---- one line ------------------------------------------------------------------------------- */

static void split(struct script_line *line, char *at)
{
    for (;;) {
        at += strspn(at, " \t");
        if (!*at)
            return;
        if (line->count == SCRIPT_WORDS)
            script_fail(line->number, "too many words", line->words[0]);
        char *to = line->words[line->count++] = at;
        for (bool quoted = false; *at && (quoted || !isspace((unsigned char)*at)); at++) {
            if (*at == '"')
                quoted = !quoted;
            else
                *to++ = *at;
        }
        char end = *at;
        *to = '\0';
        if (!end)
            return;
        at++;
    }
}

/* One condition of "(B r1 k>=5)". */
static bool holds(const struct process *process, const char *word, int number)
{
    long value;
    if ((word[0] == 'A' || word[0] == 'B') && !word[1])
        return word[0] == process->run;
    if (word[0] == 'r' && isdigit((unsigned char)word[1]))
        return strtol(word + 1, NULL, 10) == process->rank;
    if (!variable(process, word[0], &value))
        script_fail(number, "no such condition", word);
    const char *at = word + 1 + strcspn(word + 1, "0123456789");
    long wanted = strtol(at, NULL, 10);
    size_t length = (size_t)(at - word - 1);
    if (length == 1 && word[1] == '=')
        return value == wanted;
    if (length == 2 && strncmp(word + 1, "!=", 2) == 0)
        return value != wanted;
    if (length == 2 && strncmp(word + 1, ">=", 2) == 0)
        return value >= wanted;
    if (length == 1 && word[1] == '<')
        return value < wanted;
    script_fail(number, "no such condition", word);
}

/* Whether the line is for this process; *ret: where its directive starts. */
static bool is_wanted(const struct process *process, char *text, int number, char **ret)
{
    text += strspn(text, " \t");
    *ret = text;
    if (*text != '(')
        return *text && *text != '#';
    char *end = strchr(text, ')');
    if (!end)
        script_fail(number, "no ) in", text);
    *end = '\0';
    *ret = end + 1;
    char *rest;
    for (char *word = strtok_r(text + 1, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (!holds(process, word, number))
            return false;
    return true;
}

/* The line of the `end` that belongs to the loop of line `from`. */
static size_t loop_end(const struct script *script, size_t from)
{
    int depth = 0;
    for (size_t i = from; i < script->count; i++) {
        const char *text = script->lines[i] + strspn(script->lines[i], " \t");
        depth += strncmp(text, "loop ", 5) == 0;
        depth -= strcmp(text, "end") == 0;
        if (depth == 0)
            return i;
    }
    script_fail((int)from + 1, "no end of", script->lines[from]);
}

static void run_lines(struct process *process, size_t from, size_t end);

static void run_loop(struct process *process, const struct script_line *line, size_t from,
                     size_t end)
{
    if (line->count != 4 || process->n_loops == MAX_LOOPS)
        script_fail(line->number, "not a loop", line->words[0]);
    size_t at = process->n_loops++;
    process->loops[at].name = line->words[1][0];
    long first = strtol(line->words[2], NULL, 10), last = strtol(line->words[3], NULL, 10);
    for (long i = first; i < last; i++) {
        process->loops[at].value = i;
        run_lines(process, from, end);
    }
    process->n_loops--;
}

static void run_lines(struct process *process, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++) {
        struct script_line line = {.number = (int)i + 1};
        char *at;
        bool loop = strncmp(process->script->lines[i] + strspn(process->script->lines[i], " \t"),
                            "loop ", 5) == 0;
        size_t loop_ends = loop ? loop_end(process->script, i) : i;
        expand(process, process->script->lines[i], &line);
        if (is_wanted(process, line.text, line.number, &at))
            split(&line, at);
        if (loop)
            run_loop(process, &line, i + 1, loop_ends);
        else if (line.count)
            process->each(process->ctx, &line);
        i = loop_ends;
    }
}

void script_run(const struct script *script, char run, int rank,
                void (*each)(void *ctx, const struct script_line *line), void *ctx)
{
    struct process process = {.script = script, .run = run, .rank = rank, .each = each, .ctx = ctx};
    run_lines(&process, 0, script->count);
}
