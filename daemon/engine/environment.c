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

enum { OPTION_MAX = 128 };

/* The option in which two command lines first differ, or whose value does; "" when there is none. */
static void differing_option(const char *a, const char *b, char option[OPTION_MAX])
{
    size_t length = 0, size_a, size_b;
    const char *name = "";
    do {
        size_a = next_argument(&a);
        size_b = next_argument(&b);
        const char *seen = size_a && *a == '-' ? a : size_b && *b == '-' ? b : NULL;
        if (seen) {
            name = seen;
            length = seen == a ? size_a : size_b;
        }
        if (size_a != size_b || memcmp(a, b, size_a) != 0)
            break;
        a += size_a;
        b += size_b;
    } while (size_a > 0);
    length = length < OPTION_MAX ? length : OPTION_MAX - 1;
    memcpy(option, name, length);
    option[length] = '\0';
}

static bool is_about(const struct engine_environment *entry, const char *const *words)
{
    char option[OPTION_MAX];
    if (text_has_word(entry->key, words))
        return true;
    if (strcmp(entry->key, "argv") != 0)
        return false;
    differing_option(entry->a ? entry->a : "", entry->b ? entry->b : "", option);
    return text_has_word(option, words);
}

const struct engine_environment *environment_cause(const struct engine_answer *answer,
                                                   const char *const *words)
{
    for (size_t i = 0; i < answer->n_environment; i++)
        if (rank_of(answer->environment[i].class_name) == 0 &&
            is_about(&answer->environment[i], words))
            return &answer->environment[i];
    return NULL;
}

size_t environment_causes(const struct engine_answer *answer)
{
    size_t count = 0;
    for (size_t i = 0; i < answer->n_environment; i++)
        count += rank_of(answer->environment[i].class_name) == 0;
    return count;
}
