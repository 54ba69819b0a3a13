/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every frame from its making to its acknowledgement, in order of sequence number:
 *
 *     acked │ spool file: first … last │ queue in memory: … made │
 *                       ▲ sent: what this connection has been given
 *
 * Frames go into the queue while a daemon takes them, and into the spool while none does or the
 * queue is full. The spool is always older than the queue, so nothing overtakes. An acknowledged
 * frame leaves the queue; the file goes when all in it is acknowledged. A recording is a spool that
 * nobody reads: what is written counts as acknowledged.
 *
 * Sender only.
 */
#ifndef CLIENT_LIB_OUTBOX_H
#define CLIENT_LIB_OUTBOX_H

#include "client/lib/config.h"
#include "client/lib/spool.h"

enum { DVG_QUEUE_BYTES = 64 << 20 };

struct dvg_queued {
    struct dvg_queued *next;
    uint64_t seq;
    size_t size;
    uint8_t frame[];
};

/* How many records are acknowledged with a frame. */
struct dvg_mark {
    uint64_t seq;
    uint64_t records; /* sum up to and with this frame */
};

struct dvg_outbox {
    const struct dvg_config *config; /* borrowed */
    struct dvg_hello *hello;         /* borrowed; how files begin */
    bool recording;
    bool spool_usable; /* false: it cannot be written, frames stay in memory */
    uint64_t made;     /* last sequence number given out */
    uint64_t sent;
    uint64_t acked;
    struct dvg_queued *first;
    struct dvg_queued *last;
    struct dvg_queued *unsent; /* in the queue, the first that was not sent */
    size_t queue_bytes;
    struct dvg_spool spool;
    struct dvg_mark *marks; /* circular */
    uint32_t marks_capacity;
    uint32_t first_mark;
    uint32_t n_marks;
    uint64_t records;       /* in frames made */
    uint64_t committed;     /* records acknowledged */
    uint64_t bytes;         /* of frames made */
    struct dvg_error error; /* why the spool is not usable */
};

/* Opens the recording file, if that is asked for: EEXIST, EPERM, EIO. */
int dvg_outbox_init(struct dvg_outbox *outbox, const struct dvg_config *config,
                    struct dvg_define *define, struct dvg_hello *hello);
void dvg_outbox_fini(struct dvg_outbox *outbox);

/*
 * Whether a frame of `size` bytes of that tier should be made. When space runs out whole tiers go,
 * op first, then layer, step, pulse; what seals and explains (DIVERGE_TIER_COUNT stands for it)
 * goes last.
 */
bool dvg_outbox_admits(const struct dvg_outbox *outbox, int tier, size_t size);
/* Whether such a frame would find a place now; `away` as below. */
bool dvg_outbox_has_room(const struct dvg_outbox *outbox, int tier, size_t size, bool away);
/*
 * Takes a frame made with sequence number outbox->made + 1, with so many records. `away`: no daemon
 * takes it now. EFULL, EIO, ENOMEM: it was not taken, and the number is free.
 */
int dvg_outbox_put(struct dvg_outbox *outbox, const struct dvg_buffer *frame, uint64_t records,
                   bool away);
/* Moves the queue into the spool: the daemon went away, or the process ends. */
int dvg_outbox_spill(struct dvg_outbox *outbox);
/* Appends the next unsent frame to `out`: 1, 0 when all is sent, or negative. */
int dvg_outbox_next(struct dvg_outbox *outbox, struct dvg_buffer *out);
/* A connection begins whose daemon has everything up to `committed`. EGAP: more than was made. */
int dvg_outbox_resume(struct dvg_outbox *outbox, uint64_t committed);
int dvg_outbox_ack(struct dvg_outbox *outbox, uint64_t seq);

static inline uint64_t dvg_outbox_first_seq(const struct dvg_outbox *outbox)
{
    return outbox->acked + 1;
}

#endif
