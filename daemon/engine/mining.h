/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mining: calls of the same op, with the same arguments and the same inputs, whose outputs differ,
 * over any number of runs.
 *
 * Two calls belong to one group when their op, the texts of their arguments, every record that is
 * not an output (slot, type, value; attributes too) and the types of their outputs are equal, and
 * their fingerprints are of one kind. Left out, because nothing would follow from them: calls that
 * draw random numbers, take part in a collective, or make uninitialised or volatile memory; calls
 * with a record that could not be read; calls without an input; segments that lost records. Only
 * the tier op is looked at: modules have parameters that are no inputs of theirs.
 *
 * Equal segments (by digest) are read once and counted as often as they occur. Memory is bounded:
 * when the cap is reached, groups that are known go on, new ones are counted and left out.
 */
#ifndef DAEMON_ENGINE_MINING_H
#define DAEMON_ENGINE_MINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/trace.h"

struct mining_options {
    size_t max_bytes; /* of groups and what they hold [192 MiB] */
    /* now and then; false cancels (DIVERGE_ECLOSED); may be NULL */
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};
#define MINING_OPTIONS_INIT                                                                        \
    {                                                                                              \
        .max_bytes = (size_t)192 << 20                                                             \
    }

/* What the differing outputs of an op say about where it ran: host and device, by metadata. */
enum mining_blame {
    MINING_ONE_PLACE, /* everything ran at one place, or it is not known where */
    MINING_ANYWHERE,  /* differs regardless of the place */
    MINING_FOLLOWS,   /* each place repeats itself, and places disagree */
    MINING_ALONE,     /* `culprit` alone departs from what the others agree on */
    MINING_UNDECIDED, /* too few observations for any of these */
};

struct mining_place { /* an output of one call */
    const struct trace_run *run;
    uint32_t rank;
    uint64_t segment;
    uint32_t occurrence;
    const char *lane, *scope;
    const char *source;    /* line of the program, "" when unknown */
    const char *arguments; /* of the call, NULL when unknown */
    uint64_t argument;     /* their digest */
    uint8_t state;         /* DVG_STATE_* */
    enum diverge_phase phase;
    uint16_t slot;
    enum diverge_kind kind;
    enum diverge_dtype dtype;
    int32_t ndim;
    int64_t sizes[DIVERGE_MAX_NDIM];
    uint64_t value;
};

struct mining_suspect {
    const char *op;
    uint64_t calls;         /* of the op that were looked at, repeats included */
    uint64_t repeated;      /* groups with two calls or more: m */
    uint64_t differing;     /* those whose outputs differ: n */
    double rate, low, high; /* n / m and its 95 % Wilson interval */
    uint64_t same_causes;   /* of `differing`: even where all recorded causes are equal */
    uint64_t inherited;     /* of `differing`: some input was inherited, not measured */
    enum mining_blame blame;
    const char *culprit; /* of MINING_ALONE: "host, device" */
    double chance;       /* of MINING_ALONE: that it looks so by chance */
    bool has_example;    /* false: its records are gone by now */
    struct mining_place example[2];
};

struct mining_result {
    uint64_t runs, segments;     /* with ops */
    uint64_t shared;             /* of `segments`: equal to one that was read */
    uint64_t incomplete, pruned; /* of `segments`: left out */
    uint64_t calls, left_out;    /* calls looked at; not looked at (see above) */
    uint64_t groups, repeated;
    uint64_t over_cap;                     /* calls that had no room */
    size_t places;                         /* distinct hosts and devices */
    const struct mining_suspect *suspects; /* most often differing first */
    size_t n_suspects;
};

struct mining;

/* NULL: no memory. */
struct mining *mining_new(const struct mining_options *options);
void mining_free(struct mining *mining);
/* Source and run are borrowed until mining_free. */
int mining_add(struct mining *mining, const struct trace_source *source,
               const struct trace_run *run);
/* Once, after all runs were added. *ret is owned by `mining`. */
int mining_scan(struct mining *mining, const struct mining_result **ret);

/* The 95 % Wilson score interval of n of m. */
void mining_wilson(uint64_t n, uint64_t m, double *ret_low, double *ret_high);
const char *mining_blame_name(enum mining_blame blame);

#endif
