/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sender thread, one a session: drains the rings, makes frames, sends them, keeps them until
 * they are acknowledged. It waits in poll for its eventfd (a kick from a training thread), its
 * socket, or a time: 50 ms after the last records while there are any, longer when nothing happens.
 */
#ifndef CLIENT_LIB_SENDER_H
#define CLIENT_LIB_SENDER_H

#include "client/lib/columns.h"
#include "client/lib/link.h"
#include "client/lib/outbox.h"
#include "client/lib/session.h"

/* What the sender has of a lane. */
struct dvg_feed {
    struct diverge_lane *lane;
    struct dvg_columns *tiers[DIVERGE_TIER_COUNT]; /* made on first use */
};

struct dvg_sender {
    struct diverge_session *session;
    struct dvg_hello hello; /* its texts are the config's */
    struct dvg_link link;
    struct dvg_outbox outbox;
    struct dvg_cursor cursor; /* definitions that this connection has */
    struct dvg_feed feeds[DVG_LANES_MAX];
    uint64_t limits[DVG_LANES_MAX];
    uint32_t n_feeds;
    /* the segment whose records are being drained */
    uint64_t segment;
    uint64_t sent[DIVERGE_TIER_COUNT];    /* records in frames */
    uint64_t dropped[DIVERGE_TIER_COUNT]; /* records that found no space */
    uint8_t shed;                         /* tiers that are dropped from here on, as bits */
    struct dvg_buffer frame;
    /* no room for the next frame: waiting for acknowledgements (drain.c) */
    uint64_t tight_ns;      /* since when; 0: there is room */
    uint64_t held_since_ns; /* the same, in this segment */
    uint64_t held_ns;       /* how long this segment was held before that */
    bool holding;           /* the last drain stopped for it */
    uint64_t progress_ns;   /* when the daemon last acknowledged something */
    uint64_t rows_since_ns; /* when the oldest records came that are in no frame; 0: none */
    uint64_t idle_ns;       /* how long to sleep when nothing is to be done */
    bool dead;              /* the stream was refused for good */
    bool endless;           /* BYE could not be kept: the run will seem lost */
    bool read_only;
    unsigned
        gaps; /* times the daemon missed something; once may be a restart's, twice is a fault */
    bool stopping;
    uint64_t stop_ns; /* when to stop waiting for acknowledgements */
    int status;       /* of the greeting: why it was refused */
    char refusal[256];
};

/* Makes the sender; connects nothing yet. */
int dvg_sender_new(struct diverge_session *session, struct dvg_sender **ret);
void dvg_sender_free(struct dvg_sender *sender);
/* Before the thread runs: connects and waits for the answer, at most 1 s. 0, EUNAVAIL, or why it
 * refused. */
int dvg_sender_greet(struct dvg_sender *sender);
int dvg_sender_start(struct dvg_sender *sender);
/* In a child of fork: closes the copies of the parent's descriptors. */
void dvg_sender_forget(struct dvg_sender *sender);

/* drain.c: moves what the rings hold into frames. `partial`: short parts too. True: nothing is left
 * in rings. */
bool dvg_sender_drain(struct dvg_sender *sender, bool partial);
/* Gives the frame in sender->frame to the outbox; `tier` as for dvg_outbox_admits. */
int dvg_sender_put(struct dvg_sender *sender, int tier, uint64_t records);

/* connect.c: the conversation. */
void dvg_sender_converse(struct dvg_sender *sender, short events);
void dvg_sender_stop_recording(struct dvg_sender *sender);
bool dvg_sender_is_away(const struct dvg_sender *sender);

#endif
