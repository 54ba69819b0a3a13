/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that were reserved in order and are completed later, from any thread. While one is open
 * its entry stays in the ring, because the sender stops there; so a slot may point at it.
 */
#ifndef CLIENT_LIB_DEFERRED_H
#define CLIENT_LIB_DEFERRED_H

#include <stdint.h>

#include <diverge/fingerprint.h>

#include "client/lib/lock.h"
#include "client/lib/ring.h"

/* What a reservation outside the filter gets: completing it is fine and does nothing, any number of
 * times. */
#define DVG_TOKEN_FILTERED UINT64_MAX

struct dvg_deferred_slot {
    struct dvg_entry *entry; /* NULL: free, or not yet in the ring */
    enum diverge_dtype dtype;
    uint32_t generation; /* counts uses of the slot: a token is good once */
    uint32_t next_free;  /* 1 + index */
};

struct dvg_deferred {
    struct dvg_lock lock;
    struct dvg_deferred_slot *slots;
    uint32_t n_slots;
    uint32_t capacity;
    uint32_t first_free; /* 1 + index, 0: none */
    uint32_t open;
};

void dvg_deferred_fini(struct dvg_deferred *deferred);
/* A free slot, taken: its token, 0 when out of memory. Nothing can be completed before
 * dvg_deferred_set. */
uint64_t dvg_deferred_take(struct dvg_deferred *deferred);
/* The entry of a token; it is not published yet. */
void dvg_deferred_set(struct dvg_deferred *deferred, uint64_t token, struct dvg_entry *entry,
                      enum diverge_dtype dtype);
/* Gives an unused token back. */
void dvg_deferred_drop(struct dvg_deferred *deferred, uint64_t token);
/* Fills the entry (fingerprint NULL: unread) and lets the sender pass. ESTATE: no open token. */
int dvg_deferred_complete(struct dvg_deferred *deferred, uint64_t token,
                          const struct diverge_fingerprint *fingerprint);
/* Marks all that are open as unread. */
void dvg_deferred_end(struct dvg_deferred *deferred);

#endif
