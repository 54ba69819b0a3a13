/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/environment.h"

#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b)
{
    const struct trace_metadata *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : strcmp(x->value, y->value);
}

static struct trace_metadata *sorted(struct engine *engine, const struct trace_run *run)
{
    struct trace_metadata *list =
        POOL_ARRAY(&engine->scratch, struct trace_metadata, run->n_metadata);
    if (run->n_metadata) {
        memcpy(list, run->metadata, run->n_metadata * sizeof(list[0]));
        qsort(list, run->n_metadata, sizeof(list[0]), by_key);
    }
    return list;
}

static int rank_of(const char *class_name)
{
    if (strcmp(class_name, "cause") == 0)
        return 0;
    return strcmp(class_name, "context") == 0 ? 1 : 2;
}

static int causes_first(const void *a, const void *b)
{
    const struct engine_environment *x = a, *y = b;
    int order = rank_of(x->class_name) - rank_of(y->class_name);
    if (order == 0)
        order = strcmp(x->key, y->key);
    if (order == 0 && x->a && y->a)
        order = strcmp(x->a, y->a);
    return order;
}

static void add(struct engine *engine, size_t *capacity, const struct trace_metadata *a,
                const struct trace_metadata *b)
{
    struct engine_answer *answer = engine->answer;
    const struct trace_metadata *known = a ? a : b;
    struct engine_environment entry = {
        .key = pool_string(engine->keep, known->key),
        .class_name = pool_string(engine->keep, known->class_name),
        .a = a ? pool_string(engine->keep, a->value) : NULL,
        .b = b ? pool_string(engine->keep, b->value) : NULL,
    };
    POOL_PUSH(engine->keep, answer->environment, answer->n_environment, *capacity, entry);
}

void environment_compare(struct engine *engine, const struct trace_run *a,
                         const struct trace_run *b)
{
    struct engine_answer *answer = engine->answer;
    const struct trace_metadata *list_a = sorted(engine, a), *list_b = sorted(engine, b);
    size_t capacity = 0;
    for (uint32_t i = 0, j = 0; i < a->n_metadata || j < b->n_metadata;) {
        int order = i == a->n_metadata   ? 1
                    : j == b->n_metadata ? -1
                                         : strcmp(list_a[i].key, list_b[j].key);
        if (order != 0)
            add(engine, &capacity, order < 0 ? &list_a[i] : NULL, order > 0 ? &list_b[j] : NULL);
        else if (strcmp(list_a[i].value, list_b[j].value) != 0)
            add(engine, &capacity, &list_a[i], &list_b[j]);
        else if (rank_of(list_a[i].class_name) == 0)
            answer->environment_equal_causes++;
        i += order <= 0;
        j += order >= 0;
    }
    if (answer->n_environment)
        qsort(answer->environment, answer->n_environment, sizeof(answer->environment[0]),
              causes_first);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strcasestr(text, word); at; at = strcasestr(at + 1, word))
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[length]))
            return true;
    return false;
}

bool text_has_word(const char *text, const char *const *words)
{
    for (size_t i = 0; text && words[i]; i++)
        if (has_word(text, words[i]))
            return true;
    return false;
}

/* The next word of a command line: its length, and *at moved on to it; 0: none. */
static size_t next_argument(const char **at)
{
    *at += strspn(*at, " ");
    return strcspn(*at, " ");
}

/* Where two command lines first differ. Texts are within them. */
struct command_difference {
    const char *option; /* in which it lies, "" when there is none */
    const char *value[SIDES];
    size_t option_length, value_length[SIDES];
};

static struct command_difference compare_commands(const char *a, const char *b)
{
    struct command_difference at = {.option = "", .value = {a, b}};
    do {
        for (int side = 0; side < SIDES; side++) {
            at.value[side] += at.value_length[side];
            at.value_length[side] = next_argument(&at.value[side]);
        }
        int seen = *at.value[SIDE_A] == '-' ? SIDE_A : SIDE_B;
        if (*at.value[seen] == '-') {
            at.option = at.value[seen];
            at.option_length = at.value_length[seen];
        }
    } while (at.value_length[SIDE_A] > 0 && at.value_length[SIDE_A] == at.value_length[SIDE_B] &&
             memcmp(at.value[SIDE_A], at.value[SIDE_B], at.value_length[SIDE_A]) == 0);
    return at;
}

static struct command_difference entry_difference(const struct engine_environment *entry)
{
    return compare_commands(entry->a ? entry->a : "", entry->b ? entry->b : "");
}

static bool is_command_line(const struct engine_environment *entry)
{
    return strcmp(entry->key, "argv") == 0;
}

enum { OPTION_MAX = 128 };

static bool option_has_word(const struct engine_environment *entry, const char *const *words)
{
    char option[OPTION_MAX];
    struct command_difference at = entry_difference(entry);
    size_t length = at.option_length < OPTION_MAX ? at.option_length : OPTION_MAX - 1;
    memcpy(option, at.option, length);
    option[length] = '\0';
    return text_has_word(option, words);
}

const struct engine_environment *environment_cause(const struct engine_answer *answer,
                                                   const char *const *words)
{
    const struct engine_environment *command = NULL;
    for (size_t i = 0; i < answer->n_environment; i++) {
        const struct engine_environment *entry = &answer->environment[i];
        if (rank_of(entry->class_name) != 0)
            continue;
        if (text_has_word(entry->key, words))
            return entry;
        if (is_command_line(entry) && option_has_word(entry, words))
            command = entry;
    }
    return command;
}

const char *environment_text(struct engine *engine, const struct engine_environment *entry)
{
    if (!is_command_line(entry))
        return pool_format(engine->keep, "%s: %.100s against %.100s", entry->key,
                           entry->a ? entry->a : "none", entry->b ? entry->b : "none");
    struct command_difference at = entry_difference(entry);
    const char *value[SIDES];
    bool own = false; /* the option is itself what differs */
    for (int side = 0; side < SIDES; side++) {
        int length = at.value_length[side] < 100 ? (int)at.value_length[side] : 100;
        value[side] =
            length ? pool_format(engine->keep, "%.*s", length, at.value[side]) : "nothing";
        own = own || at.value[side] == at.option;
    }
    if (own || at.option_length == 0)
        return pool_format(engine->keep, "argv: %s against %s", value[SIDE_A], value[SIDE_B]);
    return pool_format(engine->keep, "argv: %.*s %s against %s",
                       at.option_length < 100 ? (int)at.option_length : 100, at.option,
                       value[SIDE_A], value[SIDE_B]);
}

size_t environment_causes(const struct engine_answer *answer)
{
    size_t count = 0;
    for (size_t i = 0; i < answer->n_environment; i++)
        count += rank_of(answer->environment[i].class_name) == 0;
    return count;
}
