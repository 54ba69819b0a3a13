/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the writing side's files share. All of it belongs to the one thread that owns the store.
 *
 * Between commits nothing is written: everything is state in memory (runs, streams, open segments)
 * or a pending operation with its row id given. So a commit that fails changes nothing, and ids are
 * good from the moment they are returned. That rests on being the only writer, which each commit
 * checks.
 */
#ifndef DAEMON_STORE_INTERNAL_H
#define DAEMON_STORE_INTERNAL_H

#include "daemon/store/arena.h"
#include "daemon/store/codec.h"
#include "daemon/store/columns.h"
#include "daemon/store/database.h"
#include "daemon/store/digest.h"
#include "daemon/store/map.h"
#include "daemon/store/pending.h"
#include "daemon/store/store.h"

enum {
    STORE_MAX_OPEN_SEGMENTS = 64, /* of a stream */
    STORE_MAX_LANES = 4096,       /* of an open segment's tier */
};

/* ---- open segments (open_segment.c) ---------------------------------------------------------- */

struct open_lane {
    struct open_lane *next;
    uint32_t lane;    /* string row */
    const char *name; /* owned by the store's lane names */
    uint32_t written; /* records in the file, as parts */
    uint32_t writing; /* the same once the current commit succeeds */
    struct columns columns;
};

struct open_segment {
    struct open_segment *next;
    uint64_t segment;
    bool abandoned; /* a later one was sealed: written once more, then freed */
    bool in_file;   /* has parts or an unsealed row */
    struct open_lane *tiers[DIVERGE_TIER_COUNT];
    uint64_t records[DIVERGE_TIER_COUNT];
};

struct track {
    bool present;
    bool dirty;
    struct trace_digest start;
    struct trace_digest chain;
    bool any;
    uint64_t first, last;
    bool has_gap;
    uint64_t first_gap;
    uint64_t segments, records, dropped;
};

/* A stream while it is connected, and until what it did is committed. */
struct stream_state {
    struct stream_state *next;
    struct store *store;
    struct store_stream *handle; /* NULL: closed */
    int64_t id;
    uint8_t stream_id[16];
    int64_t run;
    uint32_t rank;
    uint64_t epoch;
    uint64_t seq;
    uint64_t committed_seq;
    bool dirty;
    bool any_sealed;
    uint64_t last_sealed;
    bool ended;
    enum diverge_outcome outcome;
    uint64_t dropped;
    int64_t closed_unix_us; /* 0: connected */
    struct track tracks[DIVERGE_TIER_COUNT];
    struct open_segment *open; /* by segment, rising */
};

struct store_stream {
    struct stream_state *state; /* NULL: taken over by a higher epoch */
};

/* ---- content --------------------------------------------------------------------------------- */

struct layout_info {
    int64_t id;
    struct trace_digest digest;
    uint32_t count;
    uint8_t *excluded; /* owned; count entries, not 0: the value does not count; NULL: all count */
};

struct site_info {
    struct trace_digest digest; /* zero: not loaded */
    uint32_t flags;
};

struct content {
    int64_t next_string, next_site, next_type, next_column, next_layout, next_chunk;
    struct map strings;        /* digest of the text -> row */
    struct map string_digests; /* row -> index into digests */
    struct trace_digest *digests;
    size_t n_digests, digests_capacity;
    struct map sites;     /* digest of the numbers -> row */
    struct map types;     /* digest -> row */
    struct map arguments; /* digests already written */
    struct map columns;   /* digest -> row */
    struct map layouts;   /* digest -> row */
    struct map chunks;    /* address -> row */
    struct map sequences; /* digest of site rows -> index into infos */
    struct layout_info *infos;
    size_t n_infos, infos_capacity, infos_bytes;
    struct site_info *site_infos; /* by row */
    size_t site_infos_capacity;
    struct trace_digest *identities; /* of types, by row; zero: not loaded */
    size_t identities_capacity;
    struct map lane_names; /* row -> index into names */
    char **names;
    size_t n_names, names_capacity;
};

struct store {
    struct database db;
    struct store_options options;
    struct store_error error;
    int64_t data_version;
    uint64_t wal_bytes;       /* in the log and not yet in the file, as of the last commit */
    int64_t committed_ids[8]; /* next row ids as of the last commit: content_ids */
    struct arena arena;       /* of pending operations */
    struct arena scratch;     /* of one commit */
    struct pending pending;
    struct content content;
    struct codec_encoder *encoder;
    struct codec_decoder *decoder;
    struct stream_state *streams;
    struct run_state *runs;
    int64_t next_run, next_stream;
    struct open_lane *spare_lanes; /* memory of sealed ones, for the next */
    size_t spare_bytes;
    size_t open_bytes;       /* of columns of open segments */
    struct columns merged;   /* scratch of seal: lanes one after the other */
    uint64_t chunks_encoded; /* counters for tests and benchmarks */
    uint64_t chunks_shared;
    struct gc_state *gc;
};

/* A run that something happened to since the store was opened. */
struct run_state {
    struct run_state *next;
    int64_t id;
    uint8_t run_id[16];
    char name[128];
    uint32_t world;
    bool dirty; /* the status has to be worked out at commit */
    bool removed;
};

/* Copies the database's text; returns rc. */
int store_failed(struct store *store, int rc);
int store_fail(struct store *store, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int store_no_memory(struct store *store);
/* map_put with a text. */
int store_map_put(struct store *store, struct map *map, const struct trace_digest *key,
                  uint64_t value);
int64_t store_now_us(void);

/* intern.c */
enum { CONTENT_TABLES = 8 };
int content_open(struct store *store);
/* The next row ids as given in memory, and as the file has them. */
void content_ids(const struct store *store, int64_t ret[CONTENT_TABLES]);
int content_ids_in_file(struct store *store, int64_t ret[CONTENT_TABLES]);
void content_fini(struct content *content);
/* After a commit: forgets what grew past its cap. */
void content_trim(struct content *content);
/* After rows were removed: forgets all that refers to them. */
void content_forget(struct content *content);
int content_lane_name(struct store *store, uint32_t lane, const char **ret);
/* Loads what a digest needs: identities of all types of a column; info of a site. */
int content_load_types(struct store *store, const uint32_t *types, uint32_t count);
int content_load_site(struct store *store, uint32_t site);
/* Row of a shared column; data NULL: 0. */
int content_column(struct store *store, enum column column, const void *data, uint32_t count,
                   int64_t *ret);

/* layout.c: the layout of a sequence of sites; valid until the next commit. */
int content_layout(struct store *store, const uint32_t *sites, uint32_t count,
                   const struct layout_info **ret);

/* open_segment.c */
void open_segment_free(struct store *store, struct open_segment *open);
struct open_segment *open_segment_find(struct stream_state *stream, uint64_t segment);
int open_segment_get(struct stream_state *stream, uint64_t segment, struct open_segment **ret);
int open_lane_get(struct store *store, struct open_segment *open, unsigned tier, uint32_t lane,
                  struct open_lane **ret);
void open_lanes_release(struct store *store, struct open_segment *open, unsigned tier);
/* Inside a commit: parts and unsealed rows of all open segments of a stream. */
int open_segments_write(struct stream_state *stream);
void open_segments_written(struct stream_state *stream);
/* Loads the parts of a known stream. */
int open_segments_load(struct stream_state *stream);

/* stream.c */
int streams_write(struct store *store);
void streams_written(struct store *store);
void streams_free(struct store *store);

/* run.c */
int runs_write(struct store *store);
void runs_written(struct store *store);
void runs_free(struct store *store);
int run_require(struct store *store, int64_t run); /* ENOTFOUND */
/* 1 with the run's row, or 0: there is none of that id. */
int run_find(struct store *store, const uint8_t run_id[16], int64_t *ret);
struct run_state *run_state_find(struct store *store, int64_t run);
/* The same, made when it is not there. NULL: out of memory. */
struct run_state *run_state_get(struct store *store, int64_t run);

/* gc.c: rows that are used while a collection runs stay. */
enum gc_kind { GC_CHUNK, GC_LAYOUT, GC_COLUMN };
void gc_use(struct store *store, enum gc_kind kind, int64_t id);
void gc_free(struct store *store);

#endif
