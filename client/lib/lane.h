/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: the ordered record of one recording thread. Its lock serialises the threads that record
 * into it and the end of a segment; the sender only reads the ring.
 */
#ifndef CLIENT_LIB_LANE_H
#define CLIENT_LIB_LANE_H

#include <diverge/diverge.h>

#include "client/lib/lock.h"
#include "client/lib/ring.h"
#include "client/lib/site.h"

enum {
    DVG_OPS_MAX = 64,     /* depth of nested calls */
    DVG_LANES_MAX = 1024, /* of a session */
    DVG_QUOTA = 4096,     /* records of a segment that a lane may take before it asks again */
};

enum {
    DVG_FLAGS_KNOWN = 0
#define X(bit, NAME, name) | (bit)
    DIVERGE_FLAGS(X)
#undef X
};

/* A call of an op; calls[0] is what is outside any. */
struct dvg_call {
    struct dvg_key key; /* context, op and occurrence; role, slot, name, tier, flags 0 */
    uint64_t argument;
    uint32_t output_flags;
    uint32_t source;
    bool dropping; /* a record of it was dropped: the rest follows */
};

struct diverge_lane {
    struct diverge_session *session;
    uint32_t index; /* in session->lanes */
    uint32_t name;  /* string number */
    struct dvg_biased_lock lock;
    /* under lock */
    _Atomic uint32_t depth;               /* of calls; written under lock */
    uint32_t order;                       /* of the next record in this segment */
    uint32_t quota;                       /* order at which more must be asked for */
    uint64_t dropped[DIVERGE_TIER_COUNT]; /* in this segment */
    uint64_t volatile_count;              /* in this segment */
    struct dvg_sites sites;
    struct dvg_call calls[1 + DVG_OPS_MAX];
    /* written under lock, read by anybody */
    _Atomic uint64_t recorded;
    _Atomic uint64_t dropped_ever;
    struct dvg_ring ring;
};

/* What a record will be. */
struct dvg_draft {
    const struct diverge_observation *what;
    const struct diverge_tensor *tensor; /* NULL unless kind is tensor */
    enum diverge_kind kind;
    uint8_t tier;
    bool measure;   /* the fingerprint is still to be computed, if it is not inherited */
    uint64_t token; /* deferred: of the slot; 0: complete now */
    const struct diverge_fingerprint *fingerprint;
    struct dvg_value *value; /* filled when neither measured nor deferred */
};

/* Takes the record: 0 with *ret_ref (may be NULL), EINVAL, ENOMEM, ELIMIT, EDROPPED, ECLOSED. */
int dvg_lane_take(struct diverge_lane *lane, struct dvg_draft *draft, diverge_ref_t *ret_ref);
/* Counts a record that there was no memory for before it came to this; ENOMEM. */
int dvg_lane_lose(struct diverge_lane *lane, uint8_t tier);
/* The same as dvg_lane_take at calls[0], whatever op is open. */
int dvg_lane_take_outside(struct diverge_lane *lane, struct dvg_draft *draft);

int dvg_lane_new(struct diverge_session *session, const char *name, size_t ring_bytes,
                 uint32_t index, struct diverge_lane **ret);
void dvg_lane_free(struct diverge_lane *lane);

/* Under the lane's lock: ends what the segment had open and starts the next one. */
void dvg_lane_begin_segment(struct diverge_lane *lane, uint64_t segment);

#endif
