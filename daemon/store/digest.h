/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every digest of the store: XXH3-128, canonical (big-endian) bytes. Exact byte layouts are in
 * schema/DATABASE.md; they are identity and never change within a version. Pure.
 */
#ifndef DAEMON_STORE_DIGEST_H
#define DAEMON_STORE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/message.h"
#include "daemon/engine/trace.h"

struct store_site;

/* Of any bytes. */
struct trace_digest digest_bytes(const void *bytes, size_t size);

/* A site: its numbers and the digests of its strings (lane, region, scope, op, name). */
struct trace_digest digest_site(const struct store_site *site,
                                const struct trace_digest strings[5]);

/* A type as a row: all of it, with the digest of its group's name. */
struct trace_digest digest_type(const struct dvg_type *type, const struct trace_digest *group);
/* A type as far as records compare: kind, dtype, local shape. */
struct trace_digest digest_type_identity(const struct dvg_type *type);

/* chain(-1) of a track, and the next link. */
struct trace_digest digest_chain_start(enum diverge_tier tier, const char *spec,
                                       const char *fingerprint_id);
struct trace_digest digest_chain_next(const struct trace_digest *chain,
                                      const struct trace_digest *digest);

/* What a segment's records count as; arrays have `count` entries, a NULL one is all zeros. */
struct digest_records {
    uint32_t count;
    const uint32_t *type;                  /* rows: indices of identities */
    const struct trace_digest *identities; /* of types, by row; row 0 and unknown ones are zero */
    const uint64_t *value;
    const uint64_t *argument;
    const uint8_t *state;    /* DVG_STATE_* */
    bool any_unread;         /* some state has DVG_STATE_UNREAD */
    const uint8_t *excluded; /* not 0: the value does not count (uninitialised, volatile) */
};
/* False: the identity of some type is not known; load them and call again. */
bool digest_segment(const struct trace_digest *layout, const struct digest_records *records,
                    struct trace_digest *ret);

/*
 * Where a chunk lies: its digest, the columns present, the state of each record (which says what
 * each record has), and the values that the digest leaves out.
 */
struct trace_digest digest_address(const struct trace_digest *digest, uint32_t columns,
                                   const struct digest_records *records);

#endif
