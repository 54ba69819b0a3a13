/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ingest.c (connections, groups, notices) and ingest_message.c (the meaning of frames) share.
 */
#ifndef DAEMON_PROTO_INGEST_STATE_H
#define DAEMON_PROTO_INGEST_STATE_H

#include "daemon/proto/ingest.h"
#include "daemon/proto/tables.h"

/*
 *   (frame) ──HELLO──▶ OPEN ──BYE──▶ ENDED     any error: the entry goes, the caller closes
 *                       └──higher epoch──▶ TAKEN    until its last ERROR is fetched
 */
enum ingest_phase {
    INGEST_OPEN,
    INGEST_ENDED,
    INGEST_TAKEN,
};

/* One connection that said HELLO. */
struct ingest_connection {
    struct ingest_peer peer;
    enum ingest_phase phase;
    struct store_stream *stream; /* the store's; NULL when TAKEN */
    uint8_t stream_id[16];
    uint64_t epoch;
    int64_t run;
    uint32_t rank;
    uint64_t seq;   /* last one taken; committed too, between groups */
    bool jumped;    /* HELLO said that messages before its next_seq are lost */
    bool ack_due;   /* to be sent once what was taken is committed */
    bool ack_ready; /* to be sent now */
    bool state_due; /* STATE is to be sent */
    uint32_t n_metadata;
    struct tables tables;
};

struct ingest {
    struct store *store; /* borrowed */
    struct ingest_limits limits;
    struct ingest_connection **connections; /* owned */
    uint32_t n_connections;
    uint32_t capacity;
    uint32_t notice_at; /* where the search for the next notice goes on */
    bool grouped;       /* store_begin was called */
    bool read_only;
    bool acks_waiting;
    struct tables_scratch scratch;
    struct dvg_buffer notice;
    struct store_error error; /* why the frame in hand is refused */
    struct ingest_stats stats;
    ingest_progress_fn *progress; /* of imports; NULL: none */
};

struct ingest_connection *ingest_find(const struct ingest *ingest, uint64_t connection);

/* Adds an entry, zeroed but for its peer and tables: 0, ELIMIT, ENOMEM. */
int ingest_add(struct ingest *ingest, const struct ingest_peer *peer,
               struct ingest_connection **ret);
/* Closes the stream and frees the entry. */
void ingest_remove(struct ingest *ingest, struct ingest_connection *connection);

/* Begins a group unless one is open. */
int ingest_begin(struct ingest *ingest);
/* The disk is full: from now on nothing is taken, and producers are told. Returns EAGAIN. */
int ingest_hold(struct ingest *ingest);

/* The meaning of one frame: 0, EAGAIN (read-only), or refused with ingest->error set. */
int ingest_message(struct ingest *ingest, const struct ingest_peer *peer,
                   const struct dvg_frame *frame, struct dvg_buffer *replies);

#endif
