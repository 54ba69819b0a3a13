/* SPDX-License-Identifier: Apache-2.0 */
/* From a fingerprint to what a record's columns hold. Pure. */
#ifndef CLIENT_LIB_VALUE_H
#define CLIENT_LIB_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <diverge/fingerprint.h>

#include "client/lib/producer.h"
#include "client/lib/ring.h"

/*
 * Bits of a min or max in the dtype's own width, zero-extended; complex: of one component. Exact
 * for values that the dtype has.
 */
uint64_t dvg_value_bits(enum diverge_dtype dtype, union diverge_value value);

/* Checksum, statistics and their state bits. */
void dvg_value_from(struct dvg_value *ret, enum diverge_dtype dtype,
                    const struct diverge_fingerprint *fingerprint);

/* Bytes of an entry with these extras. */
static inline size_t dvg_entry_size(unsigned nonfinite, uint32_t sketch_size)
{
    return sizeof(struct dvg_entry) + (nonfinite ? 3 * sizeof(uint64_t) : 0) +
           sketch_size * sizeof(float);
}

/* Whether the fingerprint needs the room for non-finite counts. */
static inline bool dvg_fingerprint_is_nonfinite(const struct diverge_fingerprint *fingerprint)
{
    const struct diverge_statistics *stats = &fingerprint->stats;
    return (stats->valid & DIVERGE_STAT_PRESENT) && (stats->nan | stats->pinf | stats->ninf);
}

/* Writes a fingerprint straight into an entry, as dvg_value_from and dvg_entry_fill would. */
void dvg_entry_measure(struct dvg_entry *entry, enum diverge_dtype dtype,
                       const struct diverge_fingerprint *fingerprint, bool with_sketch);

/* Writes value and extras into an entry whose room for them is set; sketch may be NULL. */
void dvg_entry_fill(struct dvg_entry *entry, const struct dvg_value *value, const float *sketch);

#endif
