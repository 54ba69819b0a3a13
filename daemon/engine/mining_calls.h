/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a layout, and what identifies a call's arguments and inputs: mining's reading side.
 */
#ifndef DAEMON_ENGINE_MINING_CALLS_H
#define DAEMON_ENGINE_MINING_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/trace.h"

/* 128 bits: collisions between honest calls need not be thought of. */
struct mining_key {
    uint64_t word[2];
};

struct mining_call {
    uint32_t first, count; /* in plan->records */
    uint64_t op;           /* mix of the op's name */
    const char *name;      /* the op's; borrowed from the layout, valid while its chunk is */
    uint32_t number;       /* mining's number of the op; UINT32_MAX: not asked for yet */
    bool unfit;            /* by its sites: random, collective, …, no input or no output */
};

struct mining_plan {
    struct trace_digest layout;
    uint32_t n_records, n_calls;
    uint32_t *records;  /* indices in the chunk, call by call, in order */
    uint64_t *sites;    /* per record of the chunk: role, slot and name */
    uint8_t *is_output; /* per record of the chunk */
    struct mining_call *calls;
};

/* 0 or ENOMEM. `layout` has been checked. */
int mining_plan_init(struct mining_plan *plan, const struct trace_layout *layout);
void mining_plan_fini(struct mining_plan *plan);

/* Whether everything that is indexed with is in range: chunks come from anywhere. */
bool mining_chunk_is_sound(const struct trace_chunk *chunk);

struct mining_seen { /* one call in one chunk */
    struct mining_key key;
    uint64_t output;
    bool inherited;
};
/* False: the call says nothing (unread records, no input). */
bool mining_call_read(const struct mining_plan *plan, const struct mining_call *call,
                      const struct trace_chunk *chunk, uint64_t fingerprint,
                      struct mining_seen *ret);

uint64_t mining_mix(uint64_t hash, uint64_t value);
uint64_t mining_text(uint64_t hash, const char *text);
static inline struct mining_key mining_absorb(struct mining_key key, uint64_t value)
{
    return (struct mining_key){{mining_mix(key.word[0], value),
                                mining_mix(key.word[1], value * UINT64_C(0x9e3779b97f4a7c15) + 1)}};
}

#endif
