/* SPDX-License-Identifier: Apache-2.0 */
/* What mining's files share. */
#ifndef DAEMON_ENGINE_MINING_INTERNAL_H
#define DAEMON_ENGINE_MINING_INTERNAL_H

#include "daemon/engine/mining.h"
#include "daemon/engine/mining_groups.h"

enum { MINING_PLANS = 16, MINING_OPS = 4096 };

struct mining_stream {
    const struct trace_source *source;
    const struct trace_run *run;
    const struct trace_stream *stream;
    uint64_t fingerprint; /* of the fingerprint's id */
    uint32_t site;
};

struct mining_site {
    char *place;     /* "host, device", owned; NULL: not known */
    uint32_t number; /* of the place, from 1; 0: not known */
    uint64_t causes;
};

struct mining_op {
    uint64_t hash;
    char *name; /* owned */
    uint64_t calls, repeated, differing, same_causes, inherited;
};

struct mining_head { /* a distinct segment, where it occurs first */
    struct mining_key key;
    uint64_t segment;
    uint32_t stream;
    uint32_t first; /* repeat */
};

struct mining_repeat { /* how often at one site */
    uint64_t count;
    uint32_t site;
    uint32_t next;
};

struct mining {
    struct mining_options options;
    struct mining_stream *streams;
    uint32_t n_streams, streams_capacity;
    struct mining_site *sites;
    uint32_t n_sites, sites_capacity, n_places;
    struct mining_op *ops;
    uint32_t n_ops, ops_capacity;
    struct mining_plan plans[MINING_PLANS];
    size_t next_plan;
    struct mining_blocks heads, repeats;
    uint32_t *head_slots; /* 1 + head */
    uint32_t n_head_slots;
    size_t head_bytes;
    struct mining_groups groups;
    uint64_t total, done; /* for progress */
    bool scanned;
    struct mining_suspect *suspects;
    size_t n_suspects;
    char **texts; /* of examples */
    uint32_t n_texts, texts_capacity;
    struct mining_result result;
};

/* ENOTFOUND: there are no records any more. */
int mining_load(const struct mining_stream *stream, uint64_t segment, struct trace_chunk **ret);
/* From groups to suspects. */
int mining_judge(struct mining *mining);
/* Fills suspect->example from the first group of its op that differs. */
int mining_example(struct mining *mining, const struct mining_group *group,
                   struct mining_suspect *suspect);
void mining_examples_free(struct mining *mining);

#endif
