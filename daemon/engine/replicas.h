/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of one run against each other: what each holds a copy of (placement whole or replica,
 * the same group) must agree at every boundary: parameters, buffers and the optimizer's state.
 * Shards are no replicas, partial values are not reduced yet: both are counted, not compared. The
 * data of ranks that share it out (placement shard) must differ.
 */
#ifndef DAEMON_ENGINE_REPLICAS_H
#define DAEMON_ENGINE_REPLICAS_H

#include "daemon/engine/engine.h"

/* Ranks that hold equal values where ranks differ first. */
struct replicas_class {
    const uint32_t *ranks; /* rising */
    uint32_t n_ranks;
};

struct replicas_group {
    const char *name; /* "": not named */
    const uint32_t *ranks;
    uint32_t n_ranks;
};

struct replicas {
    enum engine_result result; /* SAME, DIFFER or UNVERIFIED */
    struct engine_verdict verdict;
    uint32_t ranks;            /* recorded */
    uint64_t boundaries;       /* looked at, the most of any two ranks */
    uint64_t records;          /* pairs of records compared one by one */
    uint64_t shards, partials; /* records that were not compared for that reason */
    bool has_agree;
    uint64_t agree_boundary; /* all agree through this boundary */
    /* A is a rank of the biggest class, B (`rank`) the first that is not; NULL: none */
    struct engine_finding *first;
    uint32_t rank_a;
    bool after_gap;
    struct replicas_class *classes; /* the biggest first; of the finding's group */
    size_t n_classes;
    struct replicas_group *groups;
    size_t n_groups;
    const char **notes; /* what differs or agrees and need not mean anything */
    size_t n_notes;
    const char **reasons; /* why the result is not better */
    size_t n_reasons;
};

/* `progress` may be NULL; see struct engine_options. *ret is the caller's. */
int replicas_check(const struct trace_source *source, const struct trace_run *run,
                   bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                   struct replicas **ret);
void replicas_free(struct replicas *replicas);

#endif
