/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine reads: runs, streams, the head (digest, chain) of each segment, and chunks of
 * records. The store's reader implements struct trace_source; tests build traces in memory. Pure
 * data: the engine never learns where it comes from, and two runs may come from two sources.
 */
#ifndef DAEMON_ENGINE_TRACE_H
#define DAEMON_ENGINE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <diverge/types.h>

struct trace_digest { /* XXH3-128, canonical byte order; all zero: none */
    uint8_t bytes[16];
};

/* Strings are never NULL; "" means none. Borrowed from the layout. */
struct trace_site {
    struct trace_digest digest; /* of everything below, in the order of PROTOCOL.md: identity */
    enum diverge_tier tier;
    enum diverge_phase phase;
    enum diverge_role role;
    uint16_t slot;
    uint32_t flags; /* DIVERGE_FLAG_* */
    uint32_t micro_step;
    uint32_t occurrence;
    const char *lane;
    const char *region;
    const char *scope;
    const char *op;
    const char *name;
};

/* The ordered sites of a (segment, tier): lanes by name, in each lane by order. */
struct trace_layout {
    struct trace_digest digest;
    uint32_t count;
    const struct trace_site *const *sites;
};

struct trace_type {
    enum diverge_kind kind;
    enum diverge_dtype dtype; /* 0 for scalars and absent ones */
    int32_t ndim;
    const int64_t *sizes; /* local */
    enum diverge_placement placement;
    int32_t global_ndim;
    const int64_t *global_sizes;
    uint32_t n_extents;
    const uint64_t *extents; /* n_extents pairs (start, length) */
    const char *group;
};

struct trace_nonfinite {
    uint32_t index;
    uint64_t nan;
    uint64_t pinf;
    uint64_t ninf;
};

/* The records of one (stream, segment, tier), column by column; `count` entries each. */
struct trace_chunk {
    const struct trace_layout *layout; /* layout->count == count */
    uint32_t count;
    bool pruned; /* retention removed the records: only layout may be set, columns are NULL */
    const uint64_t *value;
    const uint32_t *type; /* index into types */
    const struct trace_type *const *types;
    uint32_t n_types;
    const uint64_t *argument;
    const uint8_t *state; /* DVG_STATE_* of client/wire/message.h */
    const uint32_t *order;
    const uint32_t *producer; /* 1 + order in the same lane, 0: none */
    const float *sum;
    const float *l2;
    const uint64_t *min; /* bits in the dtype's own width */
    const uint64_t *max;
    const uint64_t *zero;
    uint32_t n_nonfinite;
    const struct trace_nonfinite *nonfinite; /* index rising */
    uint32_t sketch_size;                    /* 0, 32, 64 */
    uint32_t n_sketches;
    const uint32_t *sketch_index; /* rising */
    const float *sketches;        /* n_sketches * sketch_size */
    const char *const *source;    /* per record, "" when unknown; NULL: no annotations */
    void *owner;                  /* the source's */
};

/* One row: what a segment has on a tier. */
struct trace_head {
    uint64_t segment; /* 0 init, 2k+1 boundary k, 2k+2 step k */
    struct trace_digest layout;
    struct trace_digest digest;
    struct trace_digest chain; /* none when unsealed */
    uint64_t records;
    uint64_t dropped;
    bool sealed;
    bool gap;         /* dropped or truncated records in this segment */
    uint64_t unread;  /* records of this segment with DVG_STATE_UNREAD */
    uint64_t unix_us; /* the producer's clock at its end; 0: unknown */
    /* Sums over this row and all before it in (stream, tier); 0: unknown, the engine then walks. */
    uint64_t rows_through;
    uint64_t records_through;
};

/* One tier of a stream: what can be compared by chain. */
struct trace_track {
    bool present;
    struct trace_digest start; /* chain(-1) = H(tier, spec, fingerprint id) */
    uint64_t first;            /* first and last segment with a row */
    uint64_t last;
    bool has_gap;
    uint64_t first_gap; /* first segment that is unsealed or lost records */
    uint64_t segments;
    uint64_t records;
    uint64_t dropped;
    uint64_t unread;       /* records that could not be read: such runs are never the same */
    uint64_t first_unread; /* segment of the first one, when unread > 0 */
};

struct trace_stream {
    uint64_t id; /* the source's handle */
    uint32_t rank;
    bool ended;       /* BYE was received: nothing is missing at the end */
    uint32_t outcome; /* enum diverge_outcome, when ended */
    uint8_t level;    /* enum diverge_tier */
    uint64_t dropped; /* records lost without a place */
    uint32_t at_once; /* processes that recorded this rank at the same time; 0: unknown */
    const char *spec;
    const char *fingerprint_id;
    struct trace_track tiers[DIVERGE_TIER_COUNT];
};

struct trace_metadata {
    const char *key;
    const char *class_name; /* "cause", "context", "volatile" */
    const char *value;
};

struct trace_run {
    uint8_t run_id[16];
    const char *name;
    const char *status; /* recording, complete, failed, lost */
    uint32_t world;     /* declared ranks */
    uint32_t n_streams; /* by rank; restarts of a rank: the newest stream only */
    const struct trace_stream *streams;
    uint32_t n_metadata; /* sorted by key */
    const struct trace_metadata *metadata;
};

/*
 * Callbacks return 0 or a negative DIVERGE_E…. head_at: the row of the greatest segment <=
 * `segment`; head_from: of the smallest >= `segment`; ENOTFOUND when there is none. Rows include
 * unsealed ones. load: the chunk stays valid until release. argument_text: of an argument digest,
 * or ENOTFOUND; valid while the source lives.
 */
struct trace_source {
    void *ctx;
    int (*head_at)(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                   struct trace_head *ret);
    int (*head_from)(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                     struct trace_head *ret);
    int (*load)(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                struct trace_chunk **ret);
    void (*release)(void *ctx, struct trace_chunk *chunk);
    int (*argument_text)(void *ctx, uint64_t digest, const char **ret);
};

#endif
