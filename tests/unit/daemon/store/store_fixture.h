/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a folder of its own, and runs recorded into it without a client: what the tests of the
 * store share. Values are functions of (run seed, step, record), so that what is read can be worked
 * out.
 */
#ifndef DVG_TESTS_STORE_FIXTURE_H
#define DVG_TESTS_STORE_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/reader.h"
#include "daemon/store/store.h"

struct fixture {
    char folder[64];
    char path[96];
    struct store *store;
};

/* Makes the folder and opens the store. */
void fixture_init(struct fixture *fixture);
/* Closes and removes all. */
void fixture_fini(struct fixture *fixture);
void fixture_open(struct fixture *fixture);
void fixture_close(struct fixture *fixture);
struct reader *fixture_reader(const struct fixture *fixture);
/* "ok" from PRAGMA integrity_check and foreign_key_check; asserts. */
void fixture_check_integrity(const struct fixture *fixture);
/* Runs SQL on the file, from outside. */
void fixture_sql(const struct fixture *fixture, const char *sql);
int64_t fixture_number(const struct fixture *fixture, const char *sql);

enum { FIXTURE_MAX_RECORDS = 8192 };

/* One recording stream with a set of sites. */
struct recording {
    struct store *store;
    struct store_stream *stream;
    int64_t run;
    char name[128];
    uint64_t seq;
    uint32_t records; /* a segment */
    uint32_t lane;    /* string row */
    uint32_t sites[FIXTURE_MAX_RECORDS];
    uint32_t sources[FIXTURE_MAX_RECORDS];
    uint32_t types[4]; /* numbers 0..3 */
    uint64_t seed;     /* of values */
    uint32_t flags;    /* of sites */
};

struct recording_options {
    const char *name;
    uint8_t run_number;    /* makes the run id */
    uint8_t stream_number; /* makes the stream id */
    uint32_t rank;
    uint32_t world; /* 0: 1 */
    uint64_t epoch; /* 0: 1 */
    uint32_t records;
    const char *lane; /* NULL: main */
    const char *spec; /* NULL: "" */
    uint32_t flags;   /* of each site */
    uint64_t seed;
};

/* Opens run and stream and interns sites and types; asserts success. */
void recording_begin(struct recording *recording, struct store *store,
                     const struct recording_options *options, uint64_t *committed_seq);
uint64_t recording_value(const struct recording *recording, uint64_t segment, uint32_t record);
/* Appends records [from, to) of a segment at tier op. */
int recording_append(struct recording *recording, uint64_t segment, uint32_t from, uint32_t to);
int recording_seal(struct recording *recording, uint64_t segment);
/* append all, seal, next sequence number; asserts. */
void recording_segment(struct recording *recording, uint64_t segment);

#endif
