/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real store and an ingest over it, and producers that talk to it without a socket. Functions
 * fail the running cmocka test when something is not as it must be, so tests read as conversations.
 */
#ifndef TESTS_UNIT_DAEMON_PROTO_LAB_H
#define TESTS_UNIT_DAEMON_PROTO_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "client/wire/frame.h"
#include "daemon/proto/ingest.h"
#include "tests/support/daemon_fixture.h"

struct lab {
    char dir[DVG_FIXTURE_PATH_MAX];
    char path[DVG_FIXTURE_PATH_MAX + 16];
    struct store *store;
    struct ingest *ingest;
    struct ingest_limits limits;
    struct dvg_buffer out;     /* a frame on its way in */
    struct dvg_buffer replies; /* of the last frame */
};

struct lab *lab_new(const struct ingest_limits *limits);
void lab_free(struct lab *lab);
/* As after a restart of the daemon: nothing uncommitted survives. */
void lab_restart(struct lab *lab);

/*
 * Gives all frames in lab->out to the ingest, then empties it; stops at the first that is not
 * taken.
 */
int lab_send(struct lab *lab, uint64_t connection);
/*
 * The one reply of the last frame: its type, with the decoded text of an ERROR in `text` (or NULL).
 */
unsigned lab_reply(const struct lab *lab, char text[512]);
/* Whether an ERROR with that status was the reply, and its text contains `words`. */
void lab_assert_refused(const struct lab *lab, int status, const char *words);

struct lab_hello {
    uint8_t stream; /* last byte of the ids */
    uint8_t run;
    uint32_t rank;
    uint32_t world; /* 0: 1 */
    uint64_t epoch;
    uint64_t next_seq;
    const char *name;
};
/* HELLO; the rc of ingest_frame, and on success *ret_welcome (may be NULL). */
int lab_hello(struct lab *lab, uint64_t connection, const struct lab_hello *hello,
              struct dvg_welcome *ret_welcome);

/*
 * Definitions of lane "main" (1), scope "fc1" (2), op "linear" (3), `sites` output sites at tier op
 * with slots 0, 1, …, and one type, float32 [32, 64].
 */
void lab_define(struct lab *lab, uint64_t connection, uint32_t sites);
int lab_strings(struct lab *lab, uint64_t connection, uint32_t first, uint32_t count,
                const char *const *texts);
int lab_site(struct lab *lab, uint64_t connection, uint32_t first, const struct dvg_site *site);

/* A PART at tier op, lane 1, with one value for all columns: `n_runs` runs of sites. */
struct lab_part {
    uint64_t segment;
    uint64_t first;
    uint64_t value;
    uint32_t type;        /* 0: 1 */
    const uint32_t *runs; /* NULL: sites 1 to count */
    uint32_t n_runs;
    uint32_t count;
};
int lab_part(struct lab *lab, uint64_t connection, uint64_t seq, const struct lab_part *part);
/* END of a segment that has `records` at tier op. */
int lab_end(struct lab *lab, uint64_t connection, uint64_t seq, uint64_t segment, uint64_t records);
int lab_bye(struct lab *lab, uint64_t connection, uint64_t seq);
int lab_metadata(struct lab *lab, uint64_t connection, uint64_t seq, const char *json);

/* The next notice: its type, 0 when there is none; ACK's number in *ret_seq (may be NULL). */
unsigned lab_notice(struct lab *lab, uint64_t *ret_connection, uint64_t *ret_seq, bool *ret_close);
/* Commits and expects exactly one ACK, for this connection and number. */
void lab_assert_acked(struct lab *lab, uint64_t connection, uint64_t seq);

/* The first column of the first row, as a number or as text; from what is committed. */
int64_t lab_number(const struct lab *lab, const char *sql);
void lab_assert_text(const struct lab *lab, const char *sql, const char *expected);

#endif
