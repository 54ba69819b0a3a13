/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/align.h"
#include "daemon/engine/compare.h"
#include "daemon/engine/environment.h"
#include "daemon/engine/noise.h"

const char *engine_result_name(enum engine_result result)
{
    switch (result) {
    case ENGINE_SAME:
        return "same";
    case ENGINE_DIFFER:
        return "differ";
    case ENGINE_WITHIN_NOISE:
        return "within-noise";
    case ENGINE_UNVERIFIED:
        return "unverified";
    }
    return "unverified";
}

const char *engine_relation_name(enum engine_relation relation)
{
    switch (relation) {
    case ENGINE_ORIGIN:
        return "origin";
    case ENGINE_RECEIVER:
        return "receiver";
    case ENGINE_STATE:
        return "state";
    case ENGINE_STRUCTURE:
        return "structure";
    }
    return "state";
}

const char *engine_confidence_name(enum engine_confidence confidence)
{
    switch (confidence) {
    case ENGINE_CERTAIN:
        return "certain";
    case ENGINE_LIKELY:
        return "likely";
    case ENGINE_POSSIBLE:
        return "possible";
    }
    return "possible";
}

/* ---- memory --------------------------------------------------------------------------------- */

/* The answer and its arena are one allocation, so that freeing one frees the other. */
struct owned_answer {
    struct engine_answer answer;
    struct pool arena;
};

static void out_of_memory(void *ctx)
{
    engine_fail(ctx, DIVERGE_ENOMEM);
}

static void no_more_memory(void *ctx)
{
    (void)ctx;
    abort(); /* the answer is complete: nothing allocates from it any more */
}

static int engine_init(struct engine *engine, const struct engine_options *options)
{
    *engine = (struct engine){.options = options};
    struct owned_answer *owned = calloc(1, sizeof(*owned));
    if (!owned)
        return DIVERGE_ENOMEM;
    pool_init(&engine->scratch, out_of_memory, engine);
    pool_init(&owned->arena, out_of_memory, engine);
    owned->answer.arena = owned;
    engine->answer = &owned->answer;
    engine->keep = &owned->arena;
    return 0;
}

/* Gives everything back but the answer. */
static void engine_fini(struct engine *engine)
{
    engine_release(engine, 0);
    while (engine->n_views > 0)
        pool_fini(&engine->view_arenas[--engine->n_views]);
    align_free_all(engine);
    noise_free(engine);
    pool_fini(&engine->scratch);
}

void engine_answer_free(struct engine_answer *answer)
{
    if (!answer)
        return;
    struct owned_answer *owned = answer->arena;
    pool_fini(&owned->arena);
    free(owned);
}

static int engine_finish(struct engine *engine, int status, struct engine_answer **ret)
{
    engine_fini(engine);
    if (status < 0) {
        engine_answer_free(engine->answer);
        return status;
    }
    engine->keep->on_failure = no_more_memory;
    engine->keep->ctx = NULL;
    *ret = engine->answer;
    return 0;
}

/*
 * Runs `work`; a failure in it comes back here. The engine lives in the caller's frame, as setjmp
 * wants it.
 */
static int run_guarded(struct engine *engine, void (*work)(struct engine *engine))
{
    if (setjmp(engine->unwind) == 0)
        work(engine);
    return engine->status;
}

static void add_repeats(struct engine *engine)
{
    const struct engine_options *options = engine->options;
    for (int side = 0; side < SIDES; side++)
        for (size_t i = 0; i < options->n_repeats[side] && i < ENGINE_MAX_REPEATS; i++) {
            const struct engine_repeat *repeat = &options->repeats[side][i];
            engine->sides[repeat_side(side, i)] = (struct side){
                .source = repeat->source, .run = repeat->run, .shifted = side == SIDE_B};
            engine->n_repeats[side] = i + 1;
        }
}

static void compare_environments(struct engine *engine)
{
    environment_compare(engine, engine->sides[SIDE_A].run, engine->sides[SIDE_B].run);
}

/* ---- entry ---------------------------------------------------------------------------------- */

int engine_first_diff(const struct trace_source *sa, const struct trace_run *a,
                      const struct trace_source *sb, const struct trace_run *b,
                      const struct engine_options *options, struct engine_answer **ret)
{
    static const struct engine_options defaults = ENGINE_OPTIONS_INIT;
    struct engine engine;
    if (!sa || !a || !sb || !b || !ret)
        return DIVERGE_EINVAL;
    if (!options)
        options = &defaults;
    if (options->first_step > options->last_step ||
        (options->offset != INT64_MIN &&
         (options->offset > INT64_MAX / 4 || options->offset < INT64_MIN / 4)) ||
        !(options->tolerance >= 0))
        return DIVERGE_EINVAL;
    int status = engine_init(&engine, options);
    if (status < 0)
        return status;
    engine.sides[SIDE_A] = (struct side){.source = sa, .run = a};
    engine.sides[SIDE_B] = (struct side){.source = sb, .run = b, .shifted = true};
    add_repeats(&engine);
    status = run_guarded(&engine, compare_runs);
    return engine_finish(&engine, status, ret);
}

int engine_environment_diff(const struct trace_run *a, const struct trace_run *b,
                            struct engine_answer **ret)
{
    static const struct engine_options options = ENGINE_OPTIONS_INIT;
    struct engine engine;
    if (!a || !b || !ret)
        return DIVERGE_EINVAL;
    int status = engine_init(&engine, &options);
    if (status < 0)
        return status;
    engine.sides[SIDE_A].run = a;
    engine.sides[SIDE_B].run = b;
    status = run_guarded(&engine, compare_environments);
    return engine_finish(&engine, status, ret);
}
