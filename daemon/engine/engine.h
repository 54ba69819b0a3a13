/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: where do two runs first part, and what does the evidence say. Pure: no I/O, no
 * threads, no clock; reads through struct trace_source, allocates from the answer's arena.
 */
#ifndef DAEMON_ENGINE_ENGINE_H
#define DAEMON_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/trace.h"

/* Another execution of the same job as A or B: what the two differ in is noise. */
struct engine_repeat {
    const struct trace_source *source;
    const struct trace_run *run;
};
enum { ENGINE_MAX_REPEATS = 8 }; /* of each side; further ones are not read */

struct engine_options {
    int64_t rank;          /* only this rank; -1: all */
    uint64_t first_step;   /* compare steps [first_step, last_step] only */
    uint64_t last_step;    /* UINT64_MAX: no limit */
    int64_t offset;        /* B's boundary 0 is A's boundary `offset`; INT64_MIN: find it */
    bool strict_structure; /* structural notes count as differences */
    bool all;              /* go on past the first origin, in `also`: see following.h */
    bool place_only;       /* the first difference alone: no verdict, loss or environment */
    size_t max_notes;      /* cap of `structure` and `also` [100] */
    const char *names[2];  /* what reasons call the sides; NULL: A and B */
    /* rename sites of B before comparing: pairs (from, to) of scope or name prefixes */
    const char *const (*map)[2];
    size_t n_map;
    /* noise: see noise.h */
    const struct engine_repeat *repeats[2]; /* of A and of B */
    size_t n_repeats[2];
    double tolerance;  /* relative difference that is no difference; 0: none */
    bool excuse_noise; /* with nothing beyond noise the result is ENGINE_WITHIN_NOISE */
    /* progress of a scan, may be NULL: called now and then; false cancels (DIVERGE_ECLOSED) */
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};
#define ENGINE_OPTIONS_INIT                                                                        \
    {                                                                                              \
        .rank = -1, .last_step = UINT64_MAX, .offset = INT64_MIN, .max_notes = 100,                \
    }

enum engine_result {
    ENGINE_SAME,
    ENGINE_DIFFER,
    ENGINE_WITHIN_NOISE,
    ENGINE_UNVERIFIED,
};

enum engine_relation {
    ENGINE_ORIGIN,   /* inputs agree, output differs */
    ENGINE_RECEIVER, /* inputs differ already */
    ENGINE_STATE,    /* a state or data record: there are no inputs to look at */
    ENGINE_STRUCTURE /* there is nothing to compare it with */
};

enum engine_confidence { ENGINE_CERTAIN, ENGINE_LIKELY, ENGINE_POSSIBLE };

/* One side of a finding; `present` false: the site is missing there. */
struct engine_side {
    bool present;
    bool unread;
    enum diverge_kind kind;
    enum diverge_dtype dtype; /* 0: none */
    int32_t ndim;
    const int64_t *sizes;
    uint64_t value; /* checksum, or bits of the scalar */
    uint64_t argument;
    const char *argument_text; /* NULL: unknown */
    const char *source;        /* NULL: unknown */
    bool has_stats;
    uint8_t state; /* DVG_STATE_* */
    uint64_t numel, nan, pinf, ninf, zero;
    uint64_t min, max; /* bits in the dtype's own width */
    float sum, l2;
};

struct engine_inputs {
    uint32_t equal;
    uint32_t differ;
    uint32_t measured; /* among all inputs of the call, A's side */
    uint32_t inherited;
};

struct engine_finding {
    uint64_t segment; /* of A: says at (init, boundary, step) and k */
    uint32_t rank;
    uint64_t order; /* "seq": index in (segment, lane) in A, else in B */
    const struct trace_site *site;
    enum engine_relation relation;
    struct engine_side a, b;
    bool has_inputs;
    bool independent; /* of `also`: an origin that follows from nothing before it */
    struct engine_inputs inputs;
    double rel_l2; /* NaN: unknown */
    double ulp;    /* NaN: unknown */
};

struct engine_note { /* a structural note */
    uint64_t segment;
    uint32_t rank;
    const char *what;              /* "extra", "missing", "moved", "alias", … */
    char side;                     /* 'a' or 'b': where it is */
    const struct trace_site *site; /* the first of `count` consecutive ones */
    uint64_t count;
};

struct engine_environment {
    const char *key;
    const char *class_name;
    const char *a; /* NULL: not there */
    const char *b;
};

struct engine_verdict {
    const char *class_name; /* of design's closed list */
    const char *detail;     /* NULL: none */
    enum engine_confidence confidence;
    const char *text;
    const char *const *evidence;
    size_t n_evidence;
    const char *const *next;
    size_t n_next;
};

/* How far apart the sides of one finding are, and how far that may be. NaN: unknown. */
struct engine_judgement {
    double distance;  /* relative to the larger of the two; by statistics: at least this */
    double allowed;   /* likewise */
    double norm;      /* that they are relative to; 0: unknown, both are absolute */
    bool sketched;    /* from sketches; else from statistics, or exact for a number */
    const char *why;  /* what decided: "noise", "tolerance", "rounding", "exact", … */
    const char *band; /* NULL: none; what precision errs by as much (bands.h) */
};

struct engine_growth { /* the state at a boundary, all of its floating-point tensors together */
    uint64_t boundary;
    double rel_l2;
    double noise;  /* the same between A and its repeats, the largest; NaN: no repeats */
    bool sketched; /* else at least that, from statistics */
};

struct engine_noise {
    bool known;       /* there are repeats or a tolerance: the rest is set */
    size_t repeats;   /* of A, used */
    double margin;    /* the envelope of so few repeats is widened by this factor */
    uint64_t through; /* segment up to which every difference was judged */
    bool complete;    /* that is the end of what was compared */
    uint64_t records; /* looked at, one by one */
    uint64_t noisy;   /* of them, those in which a repeat differs from A */
    bool statistics;  /* some were judged without sketches */
    struct engine_judgement first, beyond; /* of answer->first and ->beyond_noise */
    struct engine_growth *growth;
    size_t n_growth;
};

struct engine_answer {
    enum engine_result result;
    struct {
        uint64_t boundaries, steps, ranks, records, dropped, only_a, only_b;
    } compared;
    bool has_agree;
    uint64_t agree_boundary; /* agree through this boundary */
    bool has_bracket;
    bool bracket_has_last;
    uint64_t bracket_last_equal, bracket_first_differ; /* segment indices */
    struct engine_finding *first;                      /* NULL: none */
    bool after_gap; /* records before it are missing: it is the first observed */
    struct engine_finding *beyond_noise; /* NULL: none */
    struct engine_noise noise;
    struct engine_finding **candidates; /* one a rank that differs */
    size_t n_candidates;
    struct engine_verdict verdict;
    struct engine_note *structure;
    size_t n_structure;
    struct engine_finding **also;
    size_t n_also;
    struct engine_environment *environment; /* keys that differ, causes first */
    size_t n_environment;
    uint64_t environment_equal_causes;
    const char **reasons; /* why the result is not better */
    size_t n_reasons;
    int64_t offset;        /* as used: B's boundary 0 is A's boundary `offset` */
    uint64_t loss_segment; /* step at which the loss first differs; 0: none does */
    void *arena;           /* owns all of the above */
};

/* Compares run `a` of source `sa` with run `b` of `sb`; *ret is owned by the caller. */
int engine_first_diff(const struct trace_source *sa, const struct trace_run *a,
                      const struct trace_source *sb, const struct trace_run *b,
                      const struct engine_options *options, struct engine_answer **ret);
void engine_answer_free(struct engine_answer *answer);

/* Metadata that differs, causes first (also part of every answer). */
int engine_environment_diff(const struct trace_run *a, const struct trace_run *b,
                            struct engine_answer **ret);

const char *engine_result_name(enum engine_result result);
const char *engine_relation_name(enum engine_relation relation);
const char *engine_confidence_name(enum engine_confidence confidence);

#endif
