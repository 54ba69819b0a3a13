/* SPDX-License-Identifier: Apache-2.0 */
/*
 * N runs as a tree: which stay together, and at which segment each branch parts. Partition
 * refinement: all runs of a group are compared with one of them (a search over the chains, no
 * segment that is equal is looked at), the earliest segment at which one leaves splits the group,
 * and each part is refined the same way. Where a branch parts is what the engine says of one run
 * of it and one of the branch that goes on.
 *
 * Pure, as the engine is. Runs that cannot be told from a group because something of them is
 * missing are never counted into a branch past what they recorded: they are undecided.
 */
#ifndef DAEMON_ENGINE_TREE_H
#define DAEMON_ENGINE_TREE_H

#include "daemon/engine/engine.h"

enum { TREE_MAX_RUNS = 1024 };

struct tree_input { /* borrowed while the tree is made */
    const struct trace_source *source;
    const struct trace_run *run;
    const char *name; /* what reasons call it */
};

struct tree_options {
    int64_t rank; /* only this rank; -1: all */
    /* Called for each pair of runs; may be NULL, false cancels (DIVERGE_ECLOSED). */
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};
#define TREE_OPTIONS_INIT                                                                          \
    {                                                                                              \
        .rank = -1                                                                                 \
    }

/* Runs that are equal from where they left the others to `split`, or to the end. */
struct tree_branch {
    const uint32_t *runs; /* inputs, rising; what can be told belongs here */
    uint32_t n_runs;
    uint32_t of; /* runs that could be told where this branch parts; all runs at the root */
    /* How it parts from the first child of its parent; NULL at the root and for that first child */
    const struct engine_answer *parts;
    bool has_agree; /* equal through a boundary */
    uint64_t agree_boundary;
    uint64_t split; /* segment at which it parts; 0 with no children: it does not */
    const uint32_t
        *undecided; /* of `runs`: what they recorded ends, or has a gap, before `split` */
    uint32_t n_undecided;
    struct tree_branch **children; /* the biggest first: the branch that goes on */
    uint32_t n_children;
    int64_t end_state; /* of a branch without children: index; -1: unknown */
};

/* Runs whose last boundary is the same state, whichever way they took to it. */
struct tree_end_state {
    uint32_t n_runs;
    uint32_t branches; /* that end there */
    bool has_boundary;
    uint64_t boundary;
};

struct tree {
    enum engine_result result; /* SAME, DIFFER or UNVERIFIED */
    uint32_t n_runs;
    struct tree_branch *root;
    struct tree_end_state *end_states; /* the biggest first */
    uint32_t n_end_states;
    uint32_t n_ended; /* runs in them */
    const char **reasons;
    size_t n_reasons;
    uint64_t pairs; /* pairs of runs that were compared */
};

/* A share of `of` runs, and its Wilson score interval at 95 %. `of` 0: 0 in 0 to 1. */
struct tree_rate {
    double rate;
    double low;
    double high;
};
struct tree_rate tree_rate(uint64_t runs, uint64_t of);

/*
 * EINVAL for fewer than 2 runs, ELIMIT for more than TREE_MAX_RUNS. *ret is the caller's, and
 * borrows nothing from the sources.
 */
int tree_build(const struct tree_input *inputs, size_t n_inputs, const struct tree_options *options,
               struct tree **ret);
void tree_free(struct tree *tree);

#endif
