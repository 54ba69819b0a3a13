/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What producers' frames mean: HELLO opens a stream, definitions fill the connection's tables, PART
 * and END go to the store, commits become ACKs. No sockets, no threads: the daemon's writer thread
 * calls it, and so does a program that imports recordings. All calls of one `struct ingest` come
 * from one thread, the store's.
 *
 * A turn of the writer:
 *
 *     for each queued frame:   ingest_frame(…, &replies)     WELCOME or ERROR, to be sent now
 *     for each lost peer:      ingest_closed(…)
 *     ingest_commit(…)                                       what was taken is durable
 *     while ingest_next_notice(…): send it    ACK, STATE, ERROR of one taken over
 *
 * Transactions are begun here when they are needed; nobody else may have one open across these
 * calls (control.h: commit first).
 *
 * Full disk: a call that meets it makes the ingest read-only and queues STATE for every producer.
 * From then on ingest_frame answers DIVERGE_EAGAIN without effect: the frame stays with the caller,
 * who stops reading, and offers it again after an ingest_commit returned 0 (call it every second or
 * so, and after space was made). Nothing is acknowledged meanwhile, nothing acknowledged is lost.
 */
#ifndef DAEMON_PROTO_INGEST_H
#define DAEMON_PROTO_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/buffer.h"
#include "client/wire/frame.h"
#include "client/wire/message.h"
#include "daemon/store/store.h"

struct ingest;

/* What a peer can make grow. 0: the default in brackets. */
struct ingest_limits {
    uint32_t max_connections;     /* with a stream [1024] */
    uint32_t max_strings;         /* a connection, like the next three [1 Mi] */
    uint32_t max_sites;           /* [4 Mi] */
    uint32_t max_types;           /* [1 Mi] */
    uint32_t max_arguments;       /* [1 Mi] */
    uint32_t max_metadata;        /* entries a connection sets [16384] */
    uint32_t max_frame;           /* payload bytes, told in WELCOME [DVG_FRAME_MAX] */
    uint64_t max_segment_records; /* told in WELCOME; the store enforces its own [16 Mi] */
};

/* Who sends. `connection` is the caller's number, never reused while the ingest lives. */
struct ingest_peer {
    uint64_t connection;
    uint32_t uid; /* of SO_PEERCRED */
    int32_t pid;
};

/* limits may be NULL. Borrows the store, which must outlive it. 0 or ENOMEM. */
int ingest_new(struct store *store, const struct ingest_limits *limits, struct ingest **ret);
/* Closes all streams; commits nothing. NULL is fine. */
void ingest_free(struct ingest *ingest);

/*
 * Takes one producer frame. Borrows everything. Appends what is to be sent back at once to
 * `replies`.
 *   0         taken
 *   EAGAIN    read-only: not taken, offer it again later
 *   others    refused; an ERROR frame with the reason is in `replies`. Send it and close the
 *             connection (the stream is closed here; ingest_closed may still be called).
 */
int ingest_frame(struct ingest *ingest, const struct ingest_peer *peer,
                 const struct dvg_frame *frame, struct dvg_buffer *replies);

/* The connection is gone. Unknown connections are fine. */
void ingest_closed(struct ingest *ingest, uint64_t connection);

/*
 * Makes durable what was taken: 0 (also when there was nothing to do), EFULL (see above), or
 * another failure, after which the daemon should stop: nothing unacknowledged is durable.
 */
int ingest_commit(struct ingest *ingest);

/* Frames that ingest has to say on its own. Valid until the next call of any function above. */
struct ingest_notice {
    uint64_t connection;
    struct dvg_bytes frame; /* whole */
    bool close;             /* send it, then close the connection */
};
bool ingest_next_notice(struct ingest *ingest, struct ingest_notice *ret);

bool ingest_is_read_only(const struct ingest *ingest);
bool ingest_is_producer(const struct ingest *ingest, uint64_t connection); /* said HELLO */

struct ingest_stats { /* since ingest_new */
    uint64_t frames;
    uint64_t records;
    uint64_t commits;
    uint64_t repeated;    /* frames ignored because they were committed before */
    uint32_t connections; /* with a stream, now */
};
void ingest_stats(const struct ingest *ingest, struct ingest_stats *ret);

/* ---- recording and spool files -------------------------------------------------------------- */

struct ingest_import {
    uint64_t frames;
    uint64_t records;
    int64_t run;    /* row of the run of the last HELLO; 0: none */
    bool torn;      /* the file ends in the middle of a frame */
    bool complete;  /* it ends with BYE */
    char text[512]; /* why it failed */
};

/* Called by ingest_recording now and then, with the bytes taken so far. NULL: nobody watches. */
typedef void ingest_progress_fn(uint64_t done, uint64_t total);
void ingest_watch(struct ingest *ingest, ingest_progress_fn *progress);

/*
 * Takes a whole file (borrowed, e.g. mapped), committing as it goes. What was imported before is
 * ignored, so that a second call after a failure is safe. ECORRUPT, EPROTO (no such file),
 * EVERSION, EFULL, or what ingest_frame refused; *ret is filled in all cases. peer->connection must
 * not be in use.
 */
int ingest_recording(struct ingest *ingest, const struct ingest_peer *peer, struct dvg_bytes file,
                     struct ingest_import *ret);

#endif
