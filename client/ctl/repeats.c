/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/repeats.h"

#include <stdlib.h>
#include <string.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

enum { CANDIDATES_MAX = 64 }; /* runs whose metadata is read */

static void add(struct repeat_list *list, const struct source_run *run)
{
    list->runs[list->count] = (struct engine_repeat){.source = run->source, .run = run->trace};
    list->names[list->count++] = run->trace->name;
}

int repeats_named(const char *list, struct repeat_list *ret)
{
    const char *at = list;

    *ret = (struct repeat_list){0};
    for (;;) {
        size_t size = strcspn(at, ",");
        struct source_run run;

        if (!size)
            return ctl_fail(EX_USAGE, "--noise takes runs with commas between them, not \"%s\"",
                            text_escape(list));
        if (ret->count == ENGINE_MAX_REPEATS)
            return ctl_fail(EX_USAGE, "--noise takes at most %d runs", ENGINE_MAX_REPEATS);
        int status = source_open(mem_copy(at, size), &run);

        if (status)
            return status;
        add(ret, &run);
        if (!at[size])
            return EX_OK;
        at += size + 1;
    }
}

/* ---- finding them --------------------------------------------------------------------------- */

/* Without the number at the end and what stands before it. */
static size_t family(const char *name)
{
    size_t size = strlen(name);

    while (size && name[size - 1] >= '0' && name[size - 1] <= '9')
        size--;
    if (size && strchr("._-", name[size - 1]))
        size--;
    return size ? size : strlen(name);
}

static bool same_family(const char *a, const char *b)
{
    return family(a) == family(b) && !strncmp(a, b, family(a));
}

static const struct trace_metadata *next_cause(const struct trace_run *run, uint32_t *at)
{
    while (*at < run->n_metadata && strcmp(run->metadata[*at].class_name, "cause") != 0)
        (*at)++;
    return *at < run->n_metadata ? &run->metadata[(*at)++] : NULL;
}

bool repeats_same_causes(const struct trace_run *a, const struct trace_run *b)
{
    uint32_t i = 0;
    uint32_t j = 0;
    size_t count = 0;

    for (;; count++) {
        const struct trace_metadata *x = next_cause(a, &i);
        const struct trace_metadata *y = next_cause(b, &j);

        if (!x || !y)
            return !x && !y && count > 0 && a->world == b->world;
        if (strcmp(x->key, y->key) != 0 || strcmp(x->value, y->value) != 0)
            return false;
    }
}

int repeats_find(const struct source_run *of, const struct source_run *but, struct repeat_list *ret)
{
    struct reader_run *runs = NULL;
    size_t n_runs = 0;
    size_t looked = 0;

    *ret = (struct repeat_list){0};
    if (of->recording || reader_runs(of->reader, &runs, &n_runs))
        return EX_OK; /* nothing to know it from */
    for (size_t i = 0; i < n_runs && looked < CANDIDATES_MAX; i++) {
        struct source_run run = {.info = runs[i], .reader = of->reader, .source = of->source};

        if (ret->count == ENGINE_MAX_REPEATS)
            break;
        if (runs[i].id == of->info.id ||
            !memcmp(runs[i].run_id, but->info.run_id, sizeof(runs[i].run_id)) ||
            strcmp(runs[i].status, "complete") != 0 || !same_family(runs[i].name, of->info.name))
            continue;
        looked++;
        if (reader_load(of->reader, runs[i].id, &run.trace) ||
            !repeats_same_causes(of->trace, run.trace))
            continue;
        add(ret, &run);
    }
    free(runs);
    return EX_OK;
}
