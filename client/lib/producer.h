/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who made the bytes: the last records of tensors whose memory has an identity. Inputs find their
 * producer here, and inherited inputs its value. A cache of fixed size: an old entry gives way, and
 * its tensor is measured again.
 *
 * All entries of one storage are in one set, so that forgetting a storage looks at one set. Any
 * thread.
 */
#ifndef CLIENT_LIB_PRODUCER_H
#define CLIENT_LIB_PRODUCER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/lock.h"

enum { DVG_PRODUCER_SETS = 4096, DVG_PRODUCER_WAYS = 8 };

struct dvg_identity {
    uint64_t storage; /* not 0 */
    uint64_t version;
    int64_t offset;
    uint32_t type; /* number: sizes, strides and dtype */
};

/* What a record said, as it goes into an entry. */
struct dvg_value {
    uint64_t value;
    uint8_t state;
    float sum;
    float l2;
    uint64_t min;
    uint64_t max;
    uint64_t zero;
    uint64_t nonfinite[3]; /* nan, +inf, -inf */
};

struct dvg_producer {
    struct dvg_identity identity;
    uint64_t ref;
    uint64_t used; /* clock at the last touch; 0: free */
    struct dvg_value value;
};

struct dvg_producers {
    struct dvg_lock lock;
    struct dvg_producer *entries; /* made on first use; DVG_PRODUCER_SETS x DVG_PRODUCER_WAYS */
    uint64_t clock;
};

void dvg_producers_fini(struct dvg_producers *producers);
/* Remembers a record. Out of memory: does nothing. */
void dvg_producers_put(struct dvg_producers *producers, const struct dvg_identity *identity,
                       uint64_t ref, const struct dvg_value *value);
/* Whether the maker of exactly these bytes is known. */
bool dvg_producers_find(struct dvg_producers *producers, const struct dvg_identity *identity,
                        uint64_t *ret_ref, struct dvg_value *ret_value);
/* Drops all of a storage; 0: of all storages. */
void dvg_producers_forget(struct dvg_producers *producers, uint64_t storage);

#endif
