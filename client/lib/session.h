/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one stream of records to one run. Training threads use it through lanes; the sender
 * thread (sender.h) takes what they left in the rings.
 *
 * A segment ends at once for all lanes: under `mutex` each lane's ring position is noted in a
 * struct dvg_closed. What lies before it belongs to that segment, what lies behind to the next;
 * rows need not say so.
 */
#ifndef CLIENT_LIB_SESSION_H
#define CLIENT_LIB_SESSION_H

#include <pthread.h>
#include <stdatomic.h>

#include <diverge/diverge.h>

#include "client/lib/config.h"
#include "client/lib/deferred.h"
#include "client/lib/define.h"
#include "client/lib/lane.h"
#include "client/lib/metadata.h"
#include "client/lib/producer.h"

enum dvg_session_state {
    DVG_SESSION_OPEN,
    DVG_SESSION_DEAD,    /* the daemon refused the stream: nothing is taken any more */
    DVG_SESSION_CLOSING, /* diverge_session_close runs */
    DVG_SESSION_FORKED,  /* a child's copy of the parent's session */
};

enum {
    DVG_CLOSED_MAX = 16384, /* segments that wait for the sender; then one is dropped whole */
    DVG_CLOSED_KICK = 64,   /* so many are worth waking it */
};

/* A segment that has ended. */
struct dvg_closed {
    struct dvg_closed *next;
    uint64_t segment;
    uint64_t dropped[DIVERGE_TIER_COUNT];
    uint64_t volatile_count;
    uint64_t unix_us;
    uint8_t wanted;
    bool sealed; /* END follows its records */
    uint32_t n_lanes;
    uint64_t
        limits[]; /* per lane: where its records end in the ring; session->closed_lanes of them */
};

struct dvg_sender;

struct diverge_session {
    struct dvg_config config;             /* constant */
    unsigned compute[DIVERGE_TIER_COUNT]; /* constant: DIVERGE_WITH_* */
    uint8_t stream_id[16];

    _Atomic int state;            /* enum dvg_session_state */
    _Atomic uint8_t wanted;       /* tiers of this segment, as bits */
    _Atomic int64_t wait_left_ns; /* of this segment */
    _Atomic uint64_t waited_ns;
    _Atomic uint64_t max_records; /* of a segment, from WELCOME */
    _Atomic uint64_t quota_given; /* of this segment */
    _Atomic uint32_t kicked;      /* wake_fd was written since the sender last looked */
    _Atomic uint32_t dozing;      /* the sender sleeps for longer than records should wait */
    int wake_fd;                  /* eventfd */
    _Atomic unsigned warned;      /* bits of dvg_warning */

    struct dvg_define define;
    struct dvg_producers producers;
    struct dvg_deferred deferred;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* acknowledged, flushed, connected, ended */
    /* under mutex */
    struct diverge_lane *lanes[DVG_LANES_MAX];
    uint32_t n_lanes;
    uint64_t segment;
    bool muted;               /* this segment is dropped whole */
    bool laneless;            /* a lane could not be opened: what its thread records is lost */
    struct dvg_closed *spare; /* for the end of this segment; NULL: muted */
    uint32_t closed_lanes;    /* capacity of the limits of `spare` */
    struct dvg_closed *first_closed;
    struct dvg_closed *last_closed;
    uint32_t n_closed;
    uint64_t lost;                    /* records dropped that no END counts */
    struct dvg_metadata_set metadata; /* not yet sent */
    uint64_t flush_asked;             /* counts diverge_flush */
    uint64_t flush_seen;              /* those up to here are in frames … */
    uint64_t flush_seq;               /* … with numbers up to here */
    uint64_t acked_seq;
    uint64_t committed; /* records */
    uint64_t bytes;     /* frame bytes */
    uint64_t spooled;   /* bytes */
    uint64_t shed;      /* records dropped by the sender */
    bool connected;
    bool stop;
    enum diverge_outcome outcome;
    char run_name[DVG_NAME_MAX + 1];
    uint8_t run_id[16];

    pthread_t thread;
    struct dvg_sender *sender; /* the sender thread's */
    /* process registry (process.h) */
    struct diverge_session *registry_next;
};

/* Wakes the sender: a system call, so not for every record. */
void dvg_session_kick(struct diverge_session *session);

/* There is something new. A sender that is about its work looks again within 50 ms by itself. */
static inline void dvg_session_nudge(struct diverge_session *session)
{
    if (atomic_load_explicit(&session->dozing, memory_order_relaxed))
        dvg_session_kick(session);
}

static inline bool dvg_session_is_open(const struct diverge_session *session)
{
    return session &&
           atomic_load_explicit(&session->state, memory_order_relaxed) == DVG_SESSION_OPEN;
}

enum dvg_warning { DVG_WARN_LINK, DVG_WARN_SPOOL, DVG_WARN_REFUSED, DVG_WARN_LIMIT, DVG_WARN_FULL };
/* One line on stderr, "diverge: …, training continues", once a session and kind. */
__attribute__((format(printf, 3, 4))) void dvg_warn(struct diverge_session *session,
                                                    enum dvg_warning kind, const char *format, ...);

/* Under mutex: waits until everything recorded before is acknowledged (0), or `end_ns` (EAGAIN). */
int dvg_session_flush_until(struct diverge_session *session, uint64_t end_ns);

/* segment.c; under mutex. Ends the open segment; `sealed`: an END follows. */
void dvg_segment_close(struct diverge_session *session, bool sealed);
int dvg_segment_prepare(struct diverge_session *session);

#endif
