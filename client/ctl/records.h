/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a segment, over its tiers, in lane order. */
#ifndef CLIENT_CTL_RECORDS_H
#define CLIENT_CTL_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/ctl/source.h"
#include "daemon/engine/engine.h"

struct records_where {
    bool whole; /* no segment was named */
    uint64_t segment;
    int64_t rank; /* -1: all */
    int tier;     /* -1: all */
};

/* Splits RUN[@STEP[.RANK]]; STEP is a number, bNUMBER or init. Exit status. */
int records_parse(const char *text, const char **ret_run, struct records_where *ret);

struct record {
    uint32_t rank;
    uint32_t order;
    const struct trace_site *site;
    struct engine_side side;
};

struct record_list {
    struct record *records; /* owned */
    size_t count;
    uint64_t pruned;             /* records that retention removed */
    struct trace_chunk **chunks; /* owned: what the records borrow from */
    size_t n_chunks;
    const struct trace_source *source;
};

/* EX_NOINPUT when the run has no such segment, rank or tier. Exit status. */
int records_load(const struct source_run *run, const struct records_where *where,
                 struct record_list *ret);
void records_free(struct record_list *list);

/* The value, type and statistics of one record of a chunk. 0, or why its argument could not be
 * read. */
int records_side(const struct trace_source *source, const struct trace_chunk *chunk, uint32_t index,
                 struct engine_side *ret);

/* Of a stream, the tier that reaches furthest; NULL when it has none. */
const struct trace_track *records_longest_track(const struct trace_stream *stream);

#endif
