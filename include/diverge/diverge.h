/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdiverge: record fingerprints of a training run and stream them to the diverged daemon.
 *
 *     struct diverge_options options = DIVERGE_OPTIONS_INIT;
 *     options.name = "my-run";
 *     struct diverge_session *session = NULL;
 *     diverge_session_open(&options, &session);       // NULL session: every call is a no-op
 *     struct diverge_lane *lane = diverge_lane_open(session, "main");
 *     … record the initialisation …
 *     diverge_boundary(session, 0);                   // the state before step 0
 *     … record parameters, optimizer state, generators …
 *     for (uint64_t k = 0; k < steps; k++) {
 *         diverge_step(session, k);
 *         … record batch, ops, loss, gradients …
 *         diverge_boundary(session, k + 1);
 *         … record parameters, … again …
 *     }
 *     diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE);
 *
 * Training comes first. No call raises, aborts, or blocks beyond the session's wait bound
 * (options.wait_ms a segment); what cannot be taken in time is dropped, counted and reported to
 * the reader of the run. Return values can be ignored: a negative DIVERGE_E… only says why.
 * All calls accept a NULL session or lane and then do nothing (they return DIVERGE_ECLOSED).
 *
 * Threads: session calls may come from any thread. A lane is the ordered record of one recording
 * thread; its calls may come from any thread too (an autograd thread records into the lane of the
 * thread it works for), they are serialised. Boundaries and steps are the session's: call them
 * where no other thread is recording into the segment that ends.
 * Fork: a child of fork() inherits a session that is closed for it: calls return DIVERGE_ECLOSED,
 * nothing is sent, the parent's stream is untouched.
 * Memory: everything passed in is borrowed for the call and copied when it is kept.
 */
#ifndef DIVERGE_DIVERGE_H
#define DIVERGE_DIVERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <diverge/error.h>
#include <diverge/export.h>
#include <diverge/fingerprint.h>
#include <diverge/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIVERGE_VERSION_MAJOR 0
#define DIVERGE_VERSION_MINOR 1
#define DIVERGE_VERSION_PATCH 0

struct diverge_session;
struct diverge_lane;

struct diverge_metadata {
    const char *key;   /* see `divergectl env-diff`: keys have a class; unknown ones are context */
    const char *value; /* UTF-8 */
};

/*
 * Options of a session. Zero or NULL means: the environment's DIVERGE_… variable where one is
 * named, else the default in brackets. For the run's id, name, level and steps the variable wins
 * over the program's option: `divergectl run --name N --level L` decides for the job it launches.
 * A DIVERGE_… variable that cannot be read is told on stderr and passed over, as if it were not
 * set; with a DIVERGE_RUN_ID, DIVERGE_RECORDING, RANK or WORLD_SIZE that cannot be used nothing is
 * recorded, since it would be sought elsewhere.
 */
struct diverge_options {
    size_t size; /* sizeof(struct diverge_options); DIVERGE_OPTIONS_INIT sets it */
    /* Run name, DIVERGE_RUN_NAME [the program's name]; one that is taken gets ".2", ".3", … */
    const char *name;
    const char *run_id; /* 32 hex digits, get or create, DIVERGE_RUN_ID [a new random one] */
    int32_t rank;       /* this process, RANK [0]; -1 also means: from environment */
    int32_t world;      /* declared number of ranks, WORLD_SIZE [1] */
    int32_t level;      /* enum diverge_tier, DIVERGE_LEVEL [op]; -1: from environment */
    /* Steps to record above pulse, with the boundaries before and after each, DIVERGE_STEPS [all]:
     * "100:103,200" is 100 to 103, both included, and 200; "::16" is every 16th. */
    const char *steps;
    /* DIVERGE_SOCKET [$XDG_RUNTIME_DIR/diverge/diverged.sock, /tmp/diverge-$UID/…] */
    const char *socket_path;
    /* DIVERGE_SPOOL [beside the socket]; where frames wait while no daemon listens */
    const char *spool_dir;
    /* Cap of the spool file, DIVERGE_SPOOL_BYTES [1G]: bytes, with K, M, G or T for 1024^n */
    uint64_t spool_bytes;
    /* Memory of a lane's ring [16 MiB first lane, 1 MiB others]; rounded up to 2^n */
    size_t ring_bytes;
    /* Longest wait for room, a segment, DIVERGE_WAIT_MS [100]; -1: default, 0 in the environment
     * or DIVERGE_NO_WAIT here: never wait */
    int32_t wait_ms;
    int32_t
        sketch; /* 0 default [off], 32 or 64: sketches for tiers step and layer; DIVERGE_SKETCH */
    uint32_t flags; /* DIVERGE_OPEN_* */
    const struct diverge_metadata *metadata;
    size_t n_metadata;
    /* Write a recording file here instead of talking to a daemon, DIVERGE_RECORDING */
    const char *recording;
    /* What else filters records (modules, minimum size); runs compare by chains only with equal
     * spec [""] */
    const char *spec;
};

#define DIVERGE_NO_WAIT (-2)

enum {
    DIVERGE_OPEN_SKETCH_OPS = 1, /* sketches at tier op as well */
    DIVERGE_OPEN_NO_STATS = 2,   /* checksums only */
    DIVERGE_OPEN_REQUIRE = 4,    /* fail with EUNAVAIL when no daemon answers; default: spool */
};

#ifdef __cplusplus
/* C++ has designated initialisers only from C++20 on. */
#define DIVERGE_OPTIONS_INIT diverge_options_default()
static inline diverge_options diverge_options_default()
{
    diverge_options options = {};
    options.size = sizeof(options);
    options.rank = options.world = options.level = options.wait_ms = -1;
    return options;
}
#else
#define DIVERGE_OPTIONS_INIT                                                                       \
    {                                                                                              \
        .size = sizeof(struct diverge_options), .rank = -1, .world = -1, .level = -1,              \
        .wait_ms = -1,                                                                             \
    }
#endif

/*
 * Opens a session: connects (at most 1 s), or starts spooling. Sets *ret to NULL and returns
 * DIVERGE_ECLOSED when DIVERGE_DISABLE=1. Other failures: EINVAL (options), ENOMEM, EUNAVAIL (with
 * DIVERGE_OPEN_REQUIRE), EVERSION (daemon too old or new), EEXIST, EPERM and EIO (the recording's
 * file).
 */
DIVERGE_API int diverge_session_open(const struct diverge_options *options,
                                     struct diverge_session **ret);

/*
 * Ends the run's stream: drains the rings, waits up to 10 s for the daemon's acknowledgement, else
 * leaves the rest in the spool, and frees the session. Lanes are freed with it. Returns 0 when
 * everything recorded was acknowledged, EAGAIN when some is spooled, EDROPPED when some was
 * dropped.
 */
DIVERGE_API int diverge_session_close(struct diverge_session *session,
                                      enum diverge_outcome outcome);

struct diverge_session_stats {
    uint64_t recorded;  /* records taken */
    uint64_t dropped;   /* records not taken, or lost with a full spool */
    uint64_t committed; /* records acknowledged after COMMIT */
    uint64_t bytes;     /* frame bytes produced */
    uint64_t spooled;   /* frame bytes waiting in the spool */
    uint64_t wait_ns;   /* time calls waited for room */
    int32_t connected;  /* 1: a daemon is connected */
    char run_id[33];
    char run_name[128]; /* as the daemon settled it */
};
DIVERGE_API int diverge_session_stats(struct diverge_session *session,
                                      struct diverge_session_stats *ret);

/* Adds or replaces a metadata entry of the run. */
DIVERGE_API int diverge_metadata_set(struct diverge_session *session, const char *key,
                                     const char *value);

/* Waits until all that was recorded so far is acknowledged, or `timeout_ms` passed (EAGAIN). */
DIVERGE_API int diverge_flush(struct diverge_session *session, int timeout_ms);

/* ---- segments ------------------------------------------------------------------------------- */

/* Ends the current segment and begins boundary k / step k. k must not go back (EINVAL). */
DIVERGE_API int diverge_boundary(struct diverge_session *session, uint64_t k);
DIVERGE_API int diverge_step(struct diverge_session *session, uint64_t k);
/* A framework's own counter (global_step, epoch, batch): recorded as evidence, printed with steps.
 */
DIVERGE_API int diverge_counter(struct diverge_session *session, const char *name, int64_t value);
/* Whether records of this tier are taken in the current segment (level and step filter). */
DIVERGE_API bool diverge_wants(struct diverge_session *session, enum diverge_tier tier);

/* ---- lanes and context ---------------------------------------------------------------------- */

/* The lane of that name, made on first use; owned by the session. Names: see diverge_name. */
DIVERGE_API struct diverge_lane *diverge_lane_open(struct diverge_session *session,
                                                   const char *name);

/* The session that a lane belongs to; NULL for NULL. */
DIVERGE_API struct diverge_session *diverge_lane_session(struct diverge_lane *lane);

/*
 * Interns a string of the session (scope, op, field name): the same string gives the same number.
 * 0 is "". At most 4096 bytes are kept; bytes that are not UTF-8 are replaced. ~20 ns.
 */
typedef uint32_t diverge_name_t;
DIVERGE_API diverge_name_t diverge_name(struct diverge_session *session, const char *text);

/* Context of the records that follow in this lane. Each lasts until changed; a segment's begin
 * resets micro-step to 0, region and scope to none, phase to `boundary`, `init` or `forward`. */
DIVERGE_API int diverge_phase(struct diverge_lane *lane, enum diverge_phase phase);
DIVERGE_API int diverge_micro_step(struct diverge_lane *lane, uint32_t micro_step);
DIVERGE_API int diverge_region(struct diverge_lane *lane, diverge_name_t region); /* 0: none */
DIVERGE_API int diverge_scope(struct diverge_lane *lane, diverge_name_t scope); /* canonical path */

/*
 * Begins a call of `op`; inputs and outputs that follow belong to it, until diverge_op_end. Calls
 * nest (at most 64 deep); only the innermost is recorded into. `flags`: DIVERGE_FLAG_* of the
 * call's outputs. `arguments`: text of the non-tensor arguments, or NULL; its digest is compared,
 * the text shown.
 * `source`: "file.py:12" or NULL; an annotation, shown, never compared.
 */
DIVERGE_API int diverge_op_begin(struct diverge_lane *lane, diverge_name_t op, uint32_t flags,
                                 const char *arguments, diverge_name_t source);
DIVERGE_API int diverge_op_end(struct diverge_lane *lane);

/* ---- records -------------------------------------------------------------------------------- */

/* A reference to an earlier record of the same segment (producer of an input); 0: none. */
typedef uint64_t diverge_ref_t;

/* Placement of a rank's local tensor in the global one. */
struct diverge_sharding {
    enum diverge_placement placement;
    int32_t ndim;
    const int64_t *global_sizes; /* ndim sizes of the whole tensor */
    diverge_name_t group;        /* name of the group of ranks it is spread over */
    /* the extents are those of the view */
};

struct diverge_tensor {
    struct diverge_view view;
    const struct diverge_sharding *sharding; /* NULL: whole */
    /*
     * Identity of the memory, for inherited inputs; storage 0: unknown. `storage` is unique for the
     * life of an allocation (a generation, not an address), `version` counts writes into it,
     * `offset` in elements.
     */
    uint64_t storage;
    uint64_t version;
    int64_t offset;
};

/* Which record: role, slot and name, plus flags. Tier: -1 for the role's default (below). */
struct diverge_observation {
    enum diverge_role role;
    uint16_t slot;
    int16_t tier;
    diverge_name_t name;
    uint32_t flags;         /* DIVERGE_FLAG_* beside those of the op */
    diverge_ref_t producer; /* of an input; 0: none or unknown */
    /* An input: take the producer's value when the identity is known, do not measure */
    bool inherit;
};
/*
 * Default tiers: input, output, attr, collective: op (outside any op: layer); param, buffer, grad,
 * optstate: step; batch, loss, scalar: pulse; rng and everything with DIVERGE_FLAG_EVIDENCE:
 * evidence.
 */
#define DIVERGE_TIER_DEFAULT (-1)

/*
 * Fingerprints a tensor now and records it. ret may be NULL. Outside the level or step filter
 * nothing is computed and 0 is returned.
 */
DIVERGE_API int diverge_record(struct diverge_lane *lane, const struct diverge_observation *what,
                               const struct diverge_tensor *tensor, diverge_ref_t *ret);
/* Records a fingerprint that the caller computed; only dtype, sizes, strides and extents of
 * tensor->view are read. */
DIVERGE_API int diverge_record_fingerprint(struct diverge_lane *lane,
                                           const struct diverge_observation *what,
                                           const struct diverge_tensor *tensor,
                                           const struct diverge_fingerprint *fingerprint,
                                           diverge_ref_t *ret);
DIVERGE_API int diverge_record_float(struct diverge_lane *lane,
                                     const struct diverge_observation *what, double value);
DIVERGE_API int diverge_record_integer(struct diverge_lane *lane,
                                       const struct diverge_observation *what, int64_t value);
/* There is none ("no gradient"), as opposed to zeros. */
DIVERGE_API int diverge_record_absent(struct diverge_lane *lane,
                                      const struct diverge_observation *what);
/* Raw bytes, e.g. a generator's state; dtype opaque, shape [size]. */
DIVERGE_API int diverge_record_bytes(struct diverge_lane *lane,
                                     const struct diverge_observation *what, const void *bytes,
                                     size_t size);

/*
 * A field of the step's batch, role batch: the tensor under `name`, and where it has rows (a first
 * dimension of 1 to 2^20) `name`.rows, the checksum of each, and `name`.rows.set, an order-free
 * digest of them: what tells another order from other content. Set the phase to data first.
 */
DIVERGE_API int diverge_batch(struct diverge_lane *lane, const char *name,
                              const struct diverge_view *view);
/* The ids of the batch's samples, in order (at most 2^20), and their order-free digest. */
DIVERGE_API int diverge_batch_ids(struct diverge_lane *lane, const int64_t *ids, size_t count);

/*
 * Deferred: reserve the record in order now, complete it later from any thread. The segment is sent
 * when all its reservations are complete; those still open when the session closes are marked
 * unread.
 * Of tensor->view all but data is read. *ret_token is never 0.
 */
DIVERGE_API int diverge_reserve(struct diverge_lane *lane, const struct diverge_observation *what,
                                const struct diverge_tensor *tensor, uint64_t *ret_token);
/* fingerprint NULL: it could not be read. A token completes once (ESTATE after that). */
DIVERGE_API int diverge_complete(struct diverge_session *session, uint64_t token,
                                 const struct diverge_fingerprint *fingerprint);

/* A storage was freed or written by something unknown: drop what is known of it. 0: of all
 * storages. */
DIVERGE_API int diverge_forget(struct diverge_session *session, uint64_t storage);

DIVERGE_API const char *diverge_strerror(int status);
DIVERGE_API const char *diverge_version(void);

#ifdef __cplusplus
}
#endif

#endif
