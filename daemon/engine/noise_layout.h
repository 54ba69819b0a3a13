/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What judging by noise needs to know of each record of a layout, worked out once a layout: how it
 * is judged, its site's number, and what stands around it to scale by.
 */
#ifndef DAEMON_ENGINE_NOISE_LAYOUT_H
#define DAEMON_ENGINE_NOISE_LAYOUT_H

#include "daemon/engine/context.h"

enum noise_rule {
    NOISE_SKIP,  /* not judged: inputs, volatile, uninitialised, evidence */
    NOISE_EXACT, /* bits */
    NOISE_VALUE, /* distance */
};

struct noise_layout {
    struct pool arena;
    bool used;
    enum diverge_tier tier;
    struct trace_digest digest;
    uint32_t count;
    uint8_t *rule;     /* enum noise_rule */
    uint32_t *site;    /* number of the site in struct noise */
    uint32_t *group;   /* the call, or the gradients of one module; NO_INDEX: none */
    uint32_t *start;   /* group g is members[start[g] .. start[g + 1]) */
    uint32_t *members; /* record indices */
    uint64_t *owner;   /* of parameters, gradients and optimizer state: the parameter; else 0 */
    uint32_t n_groups;
};

/* Site digests by number. */
struct noise_sites {
    uint64_t *keys; /* open addressing; 0: free */
    uint32_t *numbers;
    size_t capacity; /* a power of two, or 0 */
    uint32_t count;
};

void noise_layout_make(struct noise_layout *layout, struct noise_sites *sites, struct pool *keep,
                       enum diverge_tier tier, const struct trace_layout *from);

#endif
