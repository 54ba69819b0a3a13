/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/counters.h"

#include <string.h>

#include <diverge/names.h>

#include "client/ctl/mem.h"

enum { COUNTERS_MAX = 32 };

static const struct trace_stream *stream_of(const struct trace_run *run, uint32_t rank)
{
    for (uint32_t i = 0; i < run->n_streams; i++)
        if (run->streams[i].rank == rank)
            return &run->streams[i];
    return NULL;
}

static struct answer_counter *counter_of(struct answer_runs *runs, const char *name)
{
    static struct answer_counter table[COUNTERS_MAX];

    runs->counters = table;
    for (size_t i = 0; i < runs->n_counters; i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    if (runs->n_counters == COUNTERS_MAX)
        return NULL;
    table[runs->n_counters] = (struct answer_counter){.name = mem_string(name)};
    return &table[runs->n_counters++];
}

static void take(struct answer_runs *runs, const struct trace_chunk *chunk, bool is_b)
{
    size_t prefix = strlen(DIVERGE_PREFIX_COUNTER);

    for (uint32_t i = 0; i < chunk->count; i++) {
        const char *name = chunk->layout->sites[i]->name;

        if (strncmp(name, DIVERGE_PREFIX_COUNTER, prefix) != 0 ||
            chunk->types[chunk->type[i]]->kind != DIVERGE_KIND_INTEGER)
            continue;
        struct answer_counter *counter = counter_of(runs, name + prefix);

        if (!counter)
            return;
        if (is_b) {
            counter->has_b = true;
            counter->b = (int64_t)chunk->value[i];
        } else {
            counter->has_a = true;
            counter->a = (int64_t)chunk->value[i];
        }
    }
}

static void read_side(struct answer_runs *runs, const struct source_run *run, uint64_t segment,
                      uint32_t rank, bool is_b)
{
    const struct trace_source *source = run->source;
    const struct trace_stream *stream = stream_of(run->trace, rank);
    struct trace_chunk *chunk = NULL;

    if (!stream || source->load(source->ctx, stream->id, DIVERGE_TIER_EVIDENCE, segment, &chunk))
        return;
    if (!chunk->pruned)
        take(runs, chunk, is_b);
    source->release(source->ctx, chunk);
}

void counters_find(const struct source_run *a, const struct source_run *b,
                   const struct engine_answer *answer, struct answer_runs *runs)
{
    const struct engine_finding *first = answer->first;

    if (!first)
        return;
    read_side(runs, a, first->segment, first->rank, false);
    /* B's boundary 0 is A's boundary `offset`. */
    int64_t segment = (int64_t)first->segment - (first->segment ? 2 * answer->offset : 0);

    if (segment >= 0)
        read_side(runs, b, (uint64_t)segment, first->rank, true);
}
