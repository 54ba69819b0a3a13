/* SPDX-License-Identifier: Apache-2.0 */
/* Two calls of one group whose outputs differ, read again. */
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/mining_internal.h"

static const char *keep_text(struct mining *mining, const char *text)
{
    if (mining->n_texts == mining->texts_capacity) {
        uint32_t capacity = mining->texts_capacity ? 2 * mining->texts_capacity : 16;
        char **grown = realloc(mining->texts, capacity * sizeof(*grown));
        if (!grown)
            return NULL;
        mining->texts = grown;
        mining->texts_capacity = capacity;
    }
    char *copy = strdup(text);
    if (copy)
        mining->texts[mining->n_texts++] = copy;
    return copy;
}

void mining_examples_free(struct mining *mining)
{
    for (uint32_t i = 0; i < mining->n_texts; i++)
        free(mining->texts[i]);
    free(mining->texts);
}

static const char *argument_text(struct mining *mining, const struct mining_stream *stream,
                                 uint64_t digest)
{
    const struct trace_source *source = stream->source;
    const char *text = NULL;
    if (!digest || !source->argument_text || source->argument_text(source->ctx, digest, &text) ||
        !text)
        return NULL;
    return keep_text(mining, text);
}

static int fill_place(struct mining *mining, const struct mining_stream *stream, uint64_t segment,
                      const struct trace_chunk *chunk, uint32_t record, struct mining_place *ret)
{
    const struct trace_site *site = chunk->layout->sites[record];
    const struct trace_type *type = chunk->types[chunk->type[record]];
    const char *source = chunk->source ? chunk->source[record] : NULL;
    uint64_t argument = chunk->argument ? chunk->argument[record] : 0;
    *ret = (struct mining_place){.run = stream->run,
                                 .rank = stream->stream->rank,
                                 .segment = segment,
                                 .occurrence = site->occurrence,
                                 .lane = keep_text(mining, site->lane),
                                 .scope = keep_text(mining, site->scope),
                                 .source = keep_text(mining, source ? source : ""),
                                 .arguments = argument_text(mining, stream, argument),
                                 .argument = argument,
                                 .state = chunk->state ? chunk->state[record] : 0,
                                 .phase = site->phase,
                                 .slot = site->slot,
                                 .kind = type->kind,
                                 .dtype = type->dtype,
                                 .ndim = type->ndim,
                                 .value = chunk->value[record]};
    for (int32_t d = 0; d < type->ndim; d++)
        ret->sizes[d] = type->sizes[d];
    return ret->lane && ret->scope && ret->source ? 0 : DIVERGE_ENOMEM;
}

/* The records of a call's outputs, in order; how many. */
static uint32_t find_outputs(const struct mining_plan *plan, uint32_t call, uint32_t *ret,
                             uint32_t capacity)
{
    uint32_t n = 0;
    if (call >= plan->n_calls)
        return 0;
    const struct mining_call *of = &plan->calls[call];
    for (uint32_t at = of->first; at < of->first + of->count && n < capacity; at++)
        if (plan->is_output[plan->records[at]])
            ret[n++] = plan->records[at];
    return n;
}

enum { MAX_OUTPUTS = 256 };

struct reading { /* one of the two calls */
    const struct mining_stream *stream;
    struct mining_spot spot;
    struct trace_chunk *chunk;
    struct mining_plan plan;
    uint32_t outputs[MAX_OUTPUTS];
    uint32_t n_outputs;
};

static int read_call(const struct mining *mining, const struct mining_node *node,
                     struct reading *ret)
{
    ret->stream = &mining->streams[node->spot.stream];
    ret->spot = node->spot;
    int status = mining_load(ret->stream, node->spot.segment, &ret->chunk);
    if (!status)
        status = mining_plan_init(&ret->plan, ret->chunk->layout);
    if (!status)
        ret->n_outputs = find_outputs(&ret->plan, node->spot.call, ret->outputs, MAX_OUTPUTS);
    return status;
}

static void release_call(struct reading *reading)
{
    if (reading->chunk)
        reading->stream->source->release(reading->stream->source->ctx, reading->chunk);
    mining_plan_fini(&reading->plan);
}

static int compare_calls(struct mining *mining, const struct reading pair[2],
                         struct mining_suspect *suspect)
{
    uint32_t n = pair[0].n_outputs < pair[1].n_outputs ? pair[0].n_outputs : pair[1].n_outputs;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t a = pair[0].outputs[i], b = pair[1].outputs[i];
        if (pair[0].chunk->value[a] == pair[1].chunk->value[b])
            continue;
        int status = fill_place(mining, pair[0].stream, pair[0].spot.segment, pair[0].chunk, a,
                                &suspect->example[0]);
        if (!status)
            status = fill_place(mining, pair[1].stream, pair[1].spot.segment, pair[1].chunk, b,
                                &suspect->example[1]);
        suspect->has_example = status == 0;
        return status;
    }
    return 0;
}

int mining_example(struct mining *mining, const struct mining_group *group,
                   struct mining_suspect *suspect)
{
    const struct mining_node *first = mining_blocks_at(&mining->groups.nodes, group->first);
    const struct mining_node *other = NULL;
    for (uint32_t at = first->next; at != NO_NODE && !other;) {
        const struct mining_node *node = mining_blocks_at(&mining->groups.nodes, at);
        if (node->output != first->output)
            other = node;
        at = node->next;
    }
    if (!other)
        return 0;
    struct reading *pair = calloc(2, sizeof(*pair));
    if (!pair)
        return DIVERGE_ENOMEM;
    int status = read_call(mining, first, &pair[0]);
    if (!status)
        status = read_call(mining, other, &pair[1]);
    if (!status)
        status = compare_calls(mining, pair, suspect);
    release_call(&pair[0]);
    release_call(&pair[1]);
    free(pair);
    return status == DIVERGE_ENOTFOUND ? 0 : status;
}
