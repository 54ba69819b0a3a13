/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's writing side: one SQLite file, one read-write connection, used by one thread (the
 * daemon's writer, or a program that imports recordings). schema/DATABASE.md describes the file.
 *
 * Work is grouped: store_begin, any number of changes, store_commit. Only after store_commit
 * returned 0 may anything be acknowledged. Records gather in memory per open segment; a commit also
 * writes the records of segments that are still open (as parts), so what is acknowledged survives
 * kill -9. Sealing a segment turns parts into one chunk a tier, found by content when an equal one
 * exists.
 */
#ifndef DAEMON_STORE_STORE_H
#define DAEMON_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <diverge/error.h>
#include <diverge/types.h>

#include "client/wire/message.h"
#include "daemon/engine/trace.h"

struct store;

/* Why something failed, for a person. */
struct store_error {
    char text[512];
};

struct store_options {
    bool synchronous_full;        /* survive power cuts, not only kill -9 */
    uint64_t max_bytes;           /* retention cap; 0: min(20 GiB, 10 % of the file system) */
    uint64_t max_segment_records; /* of one stream's open segment; 0: 16 Mi */
    uint64_t max_open_bytes;      /* memory of all open segments; 0: 1 GiB */
    int busy_timeout_ms;          /* 0: 5000 */
};

/*
 * Opens or creates the store (folder 0700, file 0600), migrates an older one. EVERSION: made by a
 * newer diverged; ECORRUPT; EPERM (read-only folder); EUNSUPPORTED (network file system); EFULL;
 * EIO.
 */
int store_open(const char *path, const struct store_options *options, struct store **ret,
               struct store_error *error);
/* Marks runs that were left recording with no live stream as lost; done at daemon start. */
int store_recover(struct store *store);
/* Rolls back what was not committed, checkpoints with TRUNCATE, frees. NULL is fine. */
void store_close(struct store *store);

int store_begin(struct store *store);
/* Writes open parts and commits. EFULL: nothing since begin is durable, but all of it is still in
 * memory: free space and call again. */
int store_commit(struct store *store);
/* Of the last failure. */
const char *store_error_text(const struct store *store);

/* ---- runs and streams ----------------------------------------------------------------------- */

struct store_run {
    int64_t id; /* row */
    char name[128];
    bool created;
};

/* Get or create by run id; a new one gets `name`, or name.2, name.3 … ; invalid characters become
 * '-'. */
int store_run_open(struct store *store, const uint8_t run_id[16], const char *name, uint32_t world,
                   struct store_run *ret);
/* The key's class comes from the metadata table (metadata.h). */
int store_run_metadata(struct store *store, int64_t run, uint32_t rank, const char *key,
                       const char *value);

struct store_stream; /* owned by the store; valid until store_stream_close */

struct store_stream_options {
    uint8_t stream_id[16];
    int64_t run;
    uint32_t rank;
    uint64_t epoch;
    uint8_t level;
    const char *spec;
    const char *fingerprint_id;
    const char *client;
    uint32_t peer_uid;
    int32_t peer_pid;
};
/* Whether a stream of that id may be of that run and rank: 0, or EEXIST when it belongs to another.
 * Changes nothing. */
int store_stream_check(struct store *store, const uint8_t stream_id[16], const uint8_t run_id[16],
                       uint32_t rank);

/*
 * Opens a new stream or one that is known (its open segments are loaded again). *committed_seq: the
 * last sequence number in the store. EEXIST: the stream id belongs to another run or rank; EBUSY:
 * an equal or higher epoch is open.
 */
int store_stream_open(struct store *store, const struct store_stream_options *options,
                      struct store_stream **ret, uint64_t *committed_seq);
/* Set within the transaction that holds the message's effect. */
void store_stream_set_seq(struct store_stream *stream, uint64_t seq);
/* The producer said BYE: the stream is complete; the run too, when all of its declared ranks are.
 */
int store_stream_end(struct store_stream *stream, enum diverge_outcome outcome, uint64_t dropped);
/* The connection is gone. Without BYE the run becomes `lost` after the last stream is closed.
 * Memory of open segments is freed at the next commit; their parts stay readable. */
void store_stream_close(struct store_stream *stream);

/* ---- interning: content to row id, cached in memory ------------------------------------------ */

int store_string(struct store *store, struct dvg_bytes text, uint32_t *ret);

struct store_site { /* strings are row ids of store_string */
    uint8_t tier, phase, role;
    uint16_t slot;
    uint32_t flags, micro_step, occurrence;
    uint32_t lane, region, scope, op, name;
};
int store_site(struct store *store, const struct store_site *site, uint32_t *ret);
/* `type` as decoded, with `group` already a row id. */
int store_type(struct store *store, const struct dvg_type *type, uint32_t *ret);
int store_argument(struct store *store, uint64_t digest, struct dvg_bytes text);

/* ---- segments ------------------------------------------------------------------------------- */

/* Records to append: those of a PART, resolved to row ids. Borrowed. */
struct store_part {
    const struct dvg_part *wire; /* segment, tier, count, first, columns, nonfinite, sketches */
    uint32_t lane;               /* string row */
    const uint32_t *sites;       /* count site rows, in order */
    const uint32_t *sources;     /* count string rows (annotation), 0: unknown */
    const uint32_t *types; /* maps the connection's type numbers to type rows: types[number] */
    uint32_t n_types;      /* numbers below this are valid; the TYPE column is checked against it */
};
/* EGAP: wire->first is not the next index; ELIMIT: over a cap; ESTATE: segment already sealed or
 * older than one. */
int store_part_append(struct store_stream *stream, const struct store_part *part);
/* Seals the segment on all tiers in end->wanted: layout, chunk, digest, chain. A count that does
 * not match what arrived marks a gap. */
int store_segment_seal(struct store_stream *stream, const struct dvg_end *end);

/* ---- upkeep --------------------------------------------------------------------------------- */

/* EBUSY while recording; ESTATE while pinned. */
int store_run_remove(struct store *store, int64_t run);
int store_run_pin(struct store *store, int64_t run, bool pinned);
/* Where a pair of runs differs: the surroundings are kept by retention. */
int store_difference_add(struct store *store, int64_t run_a, int64_t run_b, uint64_t segment);

struct store_gc {
    uint64_t bytes_before, bytes_after, chunks_removed, segments_thinned;
};
/*
 * Removes what nothing refers to and, over the cap, thins the oldest op chunks, then layer; in
 * steps: `budget_ms` bounds one call, EAGAIN: more to do. Chains and pinned runs stay.
 */
int store_gc(struct store *store, int budget_ms, struct store_gc *ret);

/* Checkpoints the WAL when it is larger than `bytes`. Called by the writer between groups. */
int store_checkpoint(struct store *store, uint64_t bytes);

#endif
