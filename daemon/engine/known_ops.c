/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/known_ops.h"

#include <string.h>
#include <strings.h>

const struct known_op known_ops[] = {
#include "known_ops.inc"
};
const size_t n_known_ops = sizeof(known_ops) / sizeof(known_ops[0]);

struct name { /* part of a string */
    const char *text;
    size_t size;
};

/* Without namespace, overload, and the underscores of private and in-place versions. */
static struct name plain_name(const char *op)
{
    const char *space = strstr(op, "::");
    if (space)
        op = space + 2;
    struct name name = {op, strcspn(op, ".")};
    while (name.size && name.text[0] == '_') {
        name.text++;
        name.size--;
    }
    while (name.size && name.text[name.size - 1] == '_')
        name.size--;
    return name;
}

static bool matches(const char *pattern, struct name name)
{
    size_t size = strlen(pattern);
    if (size && pattern[size - 1] == '*')
        return name.size >= size - 1 && strncmp(pattern, name.text, size - 1) == 0;
    return name.size == size && strncmp(pattern, name.text, size) == 0;
}

static bool begins(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

const struct known_op *known_op_advice(const char *op, const char *library)
{
    struct name name = plain_name(op);
    if (begins(op, "aten::"))
        library = "torch";
    for (size_t i = 0; library && i < n_known_ops; i++)
        if (strcmp(known_ops[i].library, library) == 0 && matches(known_ops[i].op, name))
            return &known_ops[i];
    return NULL;
}

const char *known_op_library(const struct trace_run *run)
{
    static const struct {
        const char *word, *library;
    } words[] = {
        {"torch", "torch"}, {"tensorflow", "tensorflow"}, {"jax", "xla"}, {"xla", "xla"},
        {"mkl", "mkl"},
    };
    static const char *const prefixes[] = {"", "version.", "package.", "library."};
    for (uint32_t i = 0; i < run->n_metadata; i++)
        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
            const struct trace_metadata *item = &run->metadata[i];
            if (strcmp(item->key, "framework") == 0 && begins(item->value, words[w].word))
                return words[w].library;
            for (size_t p = 0; p < sizeof(prefixes) / sizeof(prefixes[0]); p++)
                if (begins(item->key, prefixes[p]) &&
                    begins(item->key + strlen(prefixes[p]), words[w].word))
                    return words[w].library;
        }
    return NULL;
}
