/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one comparison holds, and how it reads the two sides. Everything here is the engine's own.
 *
 * Segments are always numbered as in A: B's are shifted by 2 * offset. Functions that cannot go on
 * (no memory, the source failed, cancelled) do not return: engine_fail jumps to engine_first_diff,
 * which frees the arenas and releases the chunks listed here.
 */
#ifndef DAEMON_ENGINE_CONTEXT_H
#define DAEMON_ENGINE_CONTEXT_H

#include <setjmp.h>

#include "daemon/engine/pool.h"
#include "daemon/engine/engine.h"

/* Repeats of A and of B are read like further sides, from SIDE_REPEATS on. */
enum { SIDE_A, SIDE_B, SIDES, SIDE_REPEATS = SIDES };
enum { ALL_SIDES = SIDES + SIDES * ENGINE_MAX_REPEATS };

#define NO_SEGMENT UINT64_MAX
#define NO_INDEX UINT32_MAX

struct side {
    const struct trace_source *source;
    const struct trace_run *run;
    bool shifted; /* numbered as B is */
};

struct loaded { /* a chunk that has to go back to its source */
    int side;
    struct trace_chunk *chunk;
};

struct alignment;
struct noise;
enum { ALIGNMENT_CACHE = 16, ENGINE_MAX_VIEWS = 8 };

struct engine {
    const struct engine_options *options;
    struct side sides[ALL_SIDES];
    size_t n_repeats[SIDES];
    int64_t shift; /* of B's segments: 2 * offset */
    struct pool scratch;
    struct pool view_arenas[ENGINE_MAX_VIEWS]; /* a stack: one a view that is open (segment.h) */
    size_t n_views;
    struct pool *keep; /* the answer's */
    struct engine_answer *answer;
    struct loaded *loaded;
    size_t n_loaded, loaded_capacity;
    struct alignment *alignments[ALIGNMENT_CACHE];
    size_t next_alignment;
    struct noise *noise; /* NULL until something is judged by noise */
    size_t reasons_capacity, notes_capacity, also_capacity, candidates_capacity;
    bool only_rank;   /* there is one rank to compare */
    uint64_t scanned; /* rows looked at one by one, for progress */
    jmp_buf unwind;
    int status;
};

/* One rank on both sides. */
struct pairing {
    uint32_t rank;
    const struct trace_stream *stream[SIDES];
    bool tier[DIVERGE_TIER_COUNT]; /* recorded on both sides */
    bool comparable_chains;        /* equal spec and numbering; starts are checked a tier */
    bool same_spec;
    uint64_t first_boundary[SIDES]; /* segments; NO_SEGMENT: none */
    int resumed;                    /* SIDE_A or SIDE_B: that one starts later; -1: none */
    uint64_t low, high;             /* what is compared, inclusive; low > high: nothing */
    uint64_t first_gap;             /* on either side, NO_SEGMENT: none */
    uint64_t first_unread;
};

_Noreturn void engine_fail(struct engine *engine, int status);

/*
 * The row of the greatest segment <= `segment`, and of the smallest >= `segment`. False: there is
 * none. Segments in and out are A's numbers.
 */
bool side_head_at(struct engine *engine, int side, const struct trace_stream *stream,
                  enum diverge_tier tier, uint64_t segment, struct trace_head *ret);
bool side_head_from(struct engine *engine, int side, const struct trace_stream *stream,
                    enum diverge_tier tier, uint64_t segment, struct trace_head *ret);
/* The row of exactly this segment. */
bool side_head(struct engine *engine, int side, const struct trace_stream *stream,
               enum diverge_tier tier, uint64_t segment, struct trace_head *ret);
/* Checked; NULL when there is no row. Valid until engine_release gets a mark from before. */
const struct trace_chunk *side_load(struct engine *engine, int side,
                                    const struct trace_stream *stream, enum diverge_tier tier,
                                    uint64_t segment);
size_t engine_mark(const struct engine *engine);
void engine_release(struct engine *engine, size_t mark);
/* The side of the nth repeat of A or B. */
static inline int repeat_side(int side, size_t n)
{
    return SIDE_REPEATS + side * ENGINE_MAX_REPEATS + (int)n;
}

/* B's own number to A's; NO_SEGMENT when A has no such segment. */
uint64_t side_number(const struct engine *engine, int side, uint64_t own);
/* Text of an argument digest in the keep arena, NULL when unknown. */
const char *side_argument(struct engine *engine, int side, uint64_t digest);

bool digest_is_none(const struct trace_digest *digest);
bool digest_equal(const struct trace_digest *a, const struct trace_digest *b);

/* Adds one reason; the text is in the keep arena. */
void engine_reason(struct engine *engine, const char *text);
/* A step of a scan: calls the caller's progress function now and then. */
void engine_tick(struct engine *engine, uint64_t total);

static inline bool segment_is_boundary(uint64_t segment)
{
    return segment & 1;
}

static inline bool segment_is_step(uint64_t segment)
{
    return segment != 0 && !(segment & 1);
}

static inline uint64_t segment_number(uint64_t segment)
{
    return segment == 0 ? 0 : (segment - 1) / 2;
}

/* "1 record", "12 345 records" in `arena`. */
const char *count_text(struct pool *arena, uint64_t n, const char *one);
/* "init", "boundary 4", "step 4" in `arena`. */
const char *segment_text(struct pool *arena, uint64_t segment);

#endif
