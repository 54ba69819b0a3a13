/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane's sites: which number the next record's site has. Training repeats itself, so each site
 * remembers which one followed it last time; a match costs one comparison, a miss one hash lookup,
 * a new site one definition. Calls of ops are counted, and predicted, in the same way.
 *
 * Occurrence, the part of a site that tells repeats apart, counts within a segment: calls with
 * equal (phase, region, micro-step, scope, op); outside any op, records with equal site. Counters
 * carry the epoch (segment) they belong to, so that a segment's begin clears nothing.
 *
 * All under the lane's lock.
 */
#ifndef CLIENT_LIB_SITE_H
#define CLIENT_LIB_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/define.h"

/*
 * What identifies a site in its lane, in words: keys are built in registers and compared word by
 * word (bytes written one by one and then read as words would stall every record).
 */
struct dvg_key {
    uint64_t kind; /* tier, phase << 8, role << 16, 1 << 24 for a call's counter, slot << 32 */
    uint64_t flags_micro;  /* flags, micro-step << 32 */
    uint64_t region_scope; /* region, scope << 32 */
    uint64_t op_name;      /* op, name << 32 */
    uint64_t occurrence;
};

enum {
    DVG_KEY_PHASE_SHIFT = 8,
    DVG_KEY_ROLE_SHIFT = 16,
    DVG_KEY_HIGH = 32, /* the second member of a word */
};
#define DVG_KEY_TIER_MASK UINT64_C(0xff)
#define DVG_KEY_PHASE_MASK UINT64_C(0xff00)
#define DVG_KEY_CALL UINT64_C(0x1000000)
#define DVG_KEY_LOW UINT64_C(0xffffffff)

struct dvg_site_entry { /* a cache line */
    struct dvg_key key;
    uint32_t number;                   /* of its definition */
    uint32_t counter;                  /* outside ops: index in counters */
    uint32_t next;                     /* index of the site that followed last time */
    const struct dvg_type_entry *type; /* of the last record here, NULL: none yet */
};

/* Counts repeats of `key`; of a call it also keeps what came with it. */
struct dvg_counter {
    struct dvg_key key; /* tier, flags and occurrence 0 */
    uint32_t epoch;
    uint32_t count;
    uint32_t next;     /* calls: index of the call that followed last time */
    uint64_t argument; /* calls: digest of the last arguments that were defined */
};

struct dvg_index { /* hash table of indexes; 0: free */
    uint32_t *slots;
    uint32_t capacity;
};

/* The first entries of both arrays are the starts of the prediction, one a kind of segment. */
enum { DVG_SEGMENT_INIT, DVG_SEGMENT_BOUNDARY, DVG_SEGMENT_STEP, DVG_SEGMENT_KINDS };

struct dvg_sites {
    struct dvg_site_entry *entries;
    uint32_t n_entries;
    uint32_t entries_capacity;
    struct dvg_counter *counters;
    uint32_t n_counters;
    uint32_t counters_capacity;
    struct dvg_index entry_index;
    struct dvg_index counter_index;
    uint32_t last;      /* site of the last record */
    uint32_t last_call; /* counter of the last call */
    uint32_t epoch;
    uint32_t lane;   /* string number of the lane's name */
    uint64_t misses; /* wrong predictions, for tests and benchmarks */
};

int dvg_sites_init(struct dvg_sites *sites, uint32_t lane);
void dvg_sites_fini(struct dvg_sites *sites);

/* A segment of that kind begins. */
void dvg_sites_begin(struct dvg_sites *sites, int segment_kind);

/*
 * Counts a call of the key's op and sets key->occurrence. *ret: its counter's index. The key has
 * phase, micro-step, region, scope and op; the rest is 0.
 */
int dvg_sites_call(struct dvg_sites *sites, struct dvg_key *key, uint32_t *ret);

/*
 * The site of a record: its index in entries. Inside an op key->occurrence is the call's; outside
 * it is counted here. `source` is the annotation of a new site.
 */
int dvg_sites_find(struct dvg_sites *sites, struct dvg_define *define, struct dvg_key *key,
                   uint32_t source, uint32_t *ret);

#endif
