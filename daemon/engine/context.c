/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/context.h"

#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

void engine_fail(struct engine *engine, int status)
{
    engine->status = status;
    longjmp(engine->unwind, 1);
}

bool digest_is_none(const struct trace_digest *digest)
{
    static const struct trace_digest none;
    return memcmp(digest, &none, sizeof(none)) == 0;
}

bool digest_equal(const struct trace_digest *a, const struct trace_digest *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- numbering ------------------------------------------------------------------------------ */

uint64_t side_number(const struct engine *engine, int side, uint64_t own)
{
    if (!engine->sides[side].shifted || engine->shift == 0)
        return own;
    int64_t number;
    if (own == 0 || own > INT64_MAX ||
        __builtin_add_overflow((int64_t)own, engine->shift, &number) || number < 1)
        return NO_SEGMENT;
    return (uint64_t)number;
}

/* A's number to the side's own; *ret below 1 means: before its first segment. */
static bool own_number(const struct engine *engine, int side, uint64_t number, int64_t *ret)
{
    if (number > INT64_MAX)
        number = INT64_MAX;
    if (!engine->sides[side].shifted || engine->shift == 0) {
        *ret = (int64_t)number;
        return true;
    }
    return !__builtin_sub_overflow((int64_t)number, engine->shift, ret);
}

/* ---- heads ---------------------------------------------------------------------------------- */

static bool take_head(struct engine *engine, int side, int status, struct trace_head *head)
{
    if (status == DIVERGE_ENOTFOUND)
        return false;
    if (status < 0)
        engine_fail(engine, status);
    head->segment = side_number(engine, side, head->segment);
    return head->segment != NO_SEGMENT;
}

bool side_head_at(struct engine *engine, int side, const struct trace_stream *stream,
                  enum diverge_tier tier, uint64_t segment, struct trace_head *ret)
{
    const struct trace_source *source = engine->sides[side].source;
    int64_t own;
    if (!own_number(engine, side, segment, &own) || own < 0)
        return false;
    return take_head(engine, side,
                     source->head_at(source->ctx, stream->id, tier, (uint64_t)own, ret), ret);
}

bool side_head_from(struct engine *engine, int side, const struct trace_stream *stream,
                    enum diverge_tier tier, uint64_t segment, struct trace_head *ret)
{
    const struct trace_source *source = engine->sides[side].source;
    int64_t own;
    if (!own_number(engine, side, segment, &own))
        return false;
    int64_t least = engine->sides[side].shifted && engine->shift != 0 ? 1 : 0;
    if (least && engine->shift < 0 && least < 1 - engine->shift)
        least = 1 - engine->shift;
    if (own < least)
        own = least;
    return take_head(engine, side,
                     source->head_from(source->ctx, stream->id, tier, (uint64_t)own, ret), ret);
}

bool side_head(struct engine *engine, int side, const struct trace_stream *stream,
               enum diverge_tier tier, uint64_t segment, struct trace_head *ret)
{
    struct trace_head head;
    if (!side_head_at(engine, side, stream, tier, segment, &head) || head.segment != segment)
        return false;
    *ret = head;
    return true;
}

/* ---- chunks --------------------------------------------------------------------------------- */

static bool type_is_sound(const struct trace_type *type)
{
    return type && (unsigned)type->kind <= DIVERGE_KIND_ABSENT &&
           (unsigned)type->dtype < DIVERGE_DTYPE_COUNT && type->ndim >= 0 &&
           type->ndim <= DIVERGE_MAX_NDIM && (type->ndim == 0 || type->sizes);
}

static bool site_is_sound(const struct trace_site *site)
{
    return site && (unsigned)site->phase < DIVERGE_PHASE_COUNT &&
           (unsigned)site->role < DIVERGE_ROLE_COUNT && site->lane && site->region && site->scope &&
           site->op && site->name;
}

static bool types_are_sound(const struct trace_chunk *chunk)
{
    for (uint32_t i = 0; i < chunk->n_types; i++)
        if (!chunk->types || !type_is_sound(chunk->types[i]))
            return false;
    if (chunk->count && (!chunk->type || !chunk->n_types))
        return false;
    for (uint32_t i = 0; i < chunk->count; i++)
        if (chunk->type[i] >= chunk->n_types)
            return false;
    return true;
}

/* A chunk comes from a file or a peer: nothing that the engine indexes with is taken on trust. */
static bool chunk_is_sound(const struct trace_chunk *chunk)
{
    const struct trace_layout *layout = chunk->layout;
    if (layout) {
        for (uint32_t i = 0; i < layout->count; i++)
            if (!layout->sites || !site_is_sound(layout->sites[i]))
                return false;
    }
    if (chunk->pruned)
        return true;
    if (!layout || layout->count != chunk->count || (chunk->count && !chunk->value))
        return false;
    if ((chunk->n_nonfinite && !chunk->nonfinite) || chunk->sketch_size > 64 ||
        (chunk->n_sketches && (!chunk->sketch_index || !chunk->sketches || !chunk->sketch_size)))
        return false;
    return types_are_sound(chunk);
}

const struct trace_chunk *side_load(struct engine *engine, int side,
                                    const struct trace_stream *stream, enum diverge_tier tier,
                                    uint64_t segment)
{
    const struct trace_source *source = engine->sides[side].source;
    int64_t own;
    if (!own_number(engine, side, segment, &own) || own < 0)
        return NULL;
    /* Room first: once the source gave the chunk, nothing may fail before it is listed. */
    engine->loaded = pool_grow(&engine->scratch, engine->loaded, engine->n_loaded,
                               &engine->loaded_capacity, sizeof(engine->loaded[0]));
    struct trace_chunk *chunk = NULL;
    int status = source->load(source->ctx, stream->id, tier, (uint64_t)own, &chunk);
    if (status == DIVERGE_ENOTFOUND)
        return NULL;
    if (status < 0)
        engine_fail(engine, status);
    if (!chunk)
        return NULL;
    engine->loaded[engine->n_loaded++] = (struct loaded){.side = side, .chunk = chunk};
    if (!chunk_is_sound(chunk))
        engine_fail(engine, DIVERGE_ECORRUPT);
    return chunk;
}

size_t engine_mark(const struct engine *engine)
{
    return engine->n_loaded;
}

void engine_release(struct engine *engine, size_t mark)
{
    while (engine->n_loaded > mark) {
        struct loaded *last = &engine->loaded[--engine->n_loaded];
        const struct trace_source *source = engine->sides[last->side].source;
        source->release(source->ctx, last->chunk);
    }
}

const char *side_argument(struct engine *engine, int side, uint64_t digest)
{
    const struct trace_source *source = engine->sides[side].source;
    const char *text = NULL;
    if (digest == 0 || !source->argument_text)
        return NULL;
    int status = source->argument_text(source->ctx, digest, &text);
    if (status < 0 && status != DIVERGE_ENOTFOUND)
        engine_fail(engine, status);
    return status || !text ? NULL : pool_string(engine->keep, text);
}

/* ---- the answer ----------------------------------------------------------------------------- */

void engine_reason(struct engine *engine, const char *text)
{
    struct engine_answer *answer = engine->answer;
    for (size_t i = 0; i < answer->n_reasons; i++)
        if (strcmp(answer->reasons[i], text) == 0)
            return;
    POOL_PUSH(engine->keep, answer->reasons, answer->n_reasons, engine->reasons_capacity, text);
}

void engine_tick(struct engine *engine, uint64_t total)
{
    const struct engine_options *options = engine->options;
    if (++engine->scanned % 1024 == 0 && options->progress &&
        !options->progress(options->progress_ctx, engine->scanned, total))
        engine_fail(engine, DIVERGE_ECLOSED);
}

const char *count_text(struct pool *arena, uint64_t n, const char *one)
{
    char digits[24], grouped[32];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), to = 0;
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            grouped[to++] = ' ';
        grouped[to++] = digits[i];
    }
    grouped[to] = '\0';
    return pool_format(arena, "%s %s%s", grouped, one, n == 1 ? "" : "s");
}

const char *segment_text(struct pool *arena, uint64_t segment)
{
    if (segment == 0)
        return "the initialisation";
    return pool_format(arena, "%s %llu", segment_is_boundary(segment) ? "boundary" : "step",
                       (unsigned long long)segment_number(segment));
}
