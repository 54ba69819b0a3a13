/* SPDX-License-Identifier: Apache-2.0 */
/* The sender's first half: rings → columns → frames, segment by segment. */
#include <stdlib.h>
#include <string.h>

#include "client/lib/sender.h"

int dvg_sender_put(struct dvg_sender *sender, int tier, uint64_t records)
{
    if (!dvg_outbox_admits(&sender->outbox, tier, sender->frame.size))
        return DIVERGE_EFULL;
    bool was_usable = sender->outbox.spool_usable;
    int rc = dvg_outbox_put(&sender->outbox, &sender->frame, records, dvg_sender_is_away(sender));
    if (was_usable && !sender->outbox.spool_usable)
        dvg_warn(sender->session, DVG_WARN_SPOOL, "%s; records wait in memory",
                 sender->outbox.error.text);
    if (rc && sender->outbox.recording) {
        dvg_warn(sender->session, DVG_WARN_SPOOL, "the recording cannot be written; it ends here");
        dvg_sender_stop_recording(sender);
    }
    return rc;
}

/* ---- holding --------------------------------------------------------------------------------- */

/*
 * When neither queue nor spool has room, records may wait in the rings for acknowledgements to make
 * some. The rings fill, then training waits, which it may for wait_ns a segment. So a segment is
 * held for less than that; after it, tiers are shed, op first. A daemon that makes no room at all
 * is waited for once, not in every segment.
 */
#define PATIENCE_NS UINT64_C(1000000000)

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Whether waiting is allowed and may help; there is no room now. */
static bool may_hold(const struct dvg_sender *sender, uint64_t now)
{
    if (sender->dead || sender->outbox.acked == sender->outbox.made)
        return false;
    if (sender->stopping)
        return now < sender->stop_ns && !dvg_sender_is_away(sender);
    int64_t wait_ns = sender->session->config.wait_ns;
    if (wait_ns <= 0)
        return false;
    uint64_t bound = (uint64_t)wait_ns;
    uint64_t held = sender->held_ns + (now - sender->held_since_ns);
    uint64_t news = later(sender->tight_ns, sender->progress_ns);
    return held < bound / 4 * 3 && now < news + later(bound, PATIENCE_NS);
}

/* Whether a frame of that tier is to be made later, because there is no room for it now. */
static bool hold(struct dvg_sender *sender, int tier, size_t size)
{
    if (dvg_outbox_has_room(&sender->outbox, tier, size, dvg_sender_is_away(sender))) {
        if (sender->held_since_ns)
            sender->held_ns += dvg_now_ns() - sender->held_since_ns;
        sender->tight_ns = 0;
        sender->held_since_ns = 0;
        return false;
    }
    uint64_t now = dvg_now_ns();
    if (!sender->tight_ns)
        sender->tight_ns = now;
    if (!sender->held_since_ns)
        sender->held_since_ns = now;
    sender->holding = may_hold(sender, now);
    return sender->holding;
}

/* ---- records to frames ----------------------------------------------------------------------- */

/* From here on this tier of the segment is dropped: a hole in its middle would look like other
 * work. */
static void shed_tier(struct dvg_sender *sender, int tier, uint64_t records)
{
    sender->shed |= (uint8_t)(1u << tier);
    sender->dropped[tier] += records;
    dvg_warn(sender->session, DVG_WARN_FULL,
             "no space for all records until the daemon takes them; some are dropped");
}

/* Sends what `columns` holds as one PART. False: that has to wait. */
static bool flush_columns(struct dvg_sender *sender, struct dvg_columns *columns)
{
    uint32_t count = columns->count;
    if (!count)
        return true;
    if (hold(sender, columns->tier, dvg_columns_bytes(columns)))
        return false;
    uint64_t first = columns->first;
    dvg_buffer_clear(&sender->frame);
    int rc = dvg_columns_encode(columns, sender->segment, sender->outbox.made + 1, &sender->frame);
    if (!rc)
        rc = dvg_sender_put(sender, columns->tier, count);
    if (rc) {
        dvg_columns_discard(columns);
        columns->first = first;
        shed_tier(sender, columns->tier, count);
    } else {
        sender->sent[columns->tier] += count;
    }
    return true;
}

/* False: not all could go. */
static bool flush_all(struct dvg_sender *sender)
{
    for (uint32_t i = 0; i < sender->n_feeds; i++) {
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
            struct dvg_columns *columns = sender->feeds[i].tiers[tier];
            if (columns && !flush_columns(sender, columns))
                return false;
        }
    }
    sender->rows_since_ns = 0;
    return true;
}

static struct dvg_columns *columns_of(struct dvg_feed *feed, uint8_t tier)
{
    if (!feed->tiers[tier]) {
        feed->tiers[tier] = malloc(sizeof(*feed->tiers[tier]));
        if (feed->tiers[tier])
            dvg_columns_init(feed->tiers[tier], feed->lane->name, tier);
    }
    return feed->tiers[tier];
}

/* False: the entry has to wait. */
static bool take_entry(struct dvg_sender *sender, struct dvg_feed *feed,
                       const struct dvg_entry *entry)
{
    struct dvg_columns *columns = feed->tiers[entry->tier];
    if (columns && dvg_columns_full(columns) && !flush_columns(sender, columns))
        return false;
    if (sender->dead || sender->shed >> entry->tier & 1) {
        sender->dropped[entry->tier]++;
        return true;
    }
    columns = columns_of(feed, entry->tier);
    if (!columns || dvg_columns_append(columns, entry)) {
        /* Out of memory: what is there goes out, the rest of the tier does not. */
        if (columns && !flush_columns(sender, columns))
            return false;
        shed_tier(sender, entry->tier, 1);
    } else if (dvg_columns_full(columns)) {
        flush_columns(sender, columns); /* or before the next one */
    }
    return true;
}

/* Takes a lane's entries up to `limit`; false: one before it is not complete, or has to wait. */
static bool drain_lane(struct dvg_sender *sender, struct dvg_feed *feed, uint64_t limit)
{
    enum { FREE_EVERY = 64 * 1024 };
    struct dvg_ring *ring = &feed->lane->ring;
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t freed = tail;
    bool complete = true;
    while (tail < limit) {
        const struct dvg_entry *entry = dvg_ring_at(ring, tail);
        if (entry->kind == DVG_ENTRY_RECORD) {
            if (atomic_load_explicit(&entry->pending, memory_order_acquire)) {
                complete = false;
                break;
            }
            if (!take_entry(sender, feed, entry)) {
                complete = false;
                break;
            }
            if (!sender->rows_since_ns)
                sender->rows_since_ns = dvg_now_ns();
        }
        tail += entry->size;
        if (tail - freed >= FREE_EVERY) {
            dvg_ring_free_to(ring, tail);
            freed = tail;
        }
    }
    if (tail != freed)
        dvg_ring_free_to(ring, tail);
    return complete;
}

/*
 * Looks at what may be drained: the oldest segment that has ended, or else the open one as far as
 * it goes. Under the session's mutex no segment ends, so the heads seen belong to the open one.
 */
static struct dvg_closed *look(struct dvg_sender *sender)
{
    struct diverge_session *session = sender->session;
    pthread_mutex_lock(&session->mutex);
    struct dvg_closed *closed = session->first_closed;
    for (; sender->n_feeds < session->n_lanes; sender->n_feeds++)
        sender->feeds[sender->n_feeds].lane = session->lanes[sender->n_feeds];
    for (uint32_t i = 0; i < sender->n_feeds; i++) {
        const struct dvg_ring *ring = &sender->feeds[i].lane->ring;
        if (!closed)
            sender->limits[i] = dvg_ring_head(ring);
        else /* a lane that was opened later has nothing in it */
            sender->limits[i] = i < closed->n_lanes ? closed->limits[i] : 0;
    }
    uint64_t segment = closed ? closed->segment : session->segment;
    pthread_mutex_unlock(&session->mutex);
    sender->segment = segment;
    return closed;
}

static void begin_segment(struct dvg_sender *sender)
{
    memset(sender->sent, 0, sizeof(sender->sent));
    memset(sender->dropped, 0, sizeof(sender->dropped));
    sender->shed = 0;
    sender->held_since_ns = 0;
    sender->held_ns = 0;
    for (uint32_t i = 0; i < sender->n_feeds; i++) {
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
            if (sender->feeds[i].tiers[tier])
                dvg_columns_begin(sender->feeds[i].tiers[tier]);
        }
    }
}

/* Where END's frame finds room, BYE's does: without that one a run would seem lost. */
enum { END_ROOM = 512 };

static int put_end(struct dvg_sender *sender, const struct dvg_closed *closed)
{
    if (!dvg_outbox_has_room(&sender->outbox, DIVERGE_TIER_COUNT, END_ROOM,
                             dvg_sender_is_away(sender)))
        return DIVERGE_EFULL;
    struct dvg_end end = {
        .segment = closed->segment,
        .volatile_count = closed->volatile_count,
        .unix_us = closed->unix_us,
        .wanted = closed->wanted,
    };
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        end.records[tier] = sender->sent[tier];
        end.dropped[tier] = closed->dropped[tier] + sender->dropped[tier];
    }
    dvg_buffer_clear(&sender->frame);
    int rc = dvg_end_encode(&sender->frame, sender->outbox.made + 1, &end);
    return rc ? rc : dvg_sender_put(sender, DIVERGE_TIER_COUNT, 0);
}

/* All records of the oldest ended segment are taken: seals it and goes on to the next. False: that
 * has to wait. */
static bool finish_segment(struct dvg_sender *sender, struct dvg_closed *closed)
{
    struct diverge_session *session = sender->session;
    if (!flush_all(sender) || (closed->sealed && hold(sender, DIVERGE_TIER_COUNT, END_ROOM)))
        return false;
    bool said = !sender->dead && closed->sealed && put_end(sender, closed) == 0;
    /* A segment without its END is not whole, whatever of it was sent. */
    uint64_t shed = closed->sealed && !said && !sender->dead;
    uint64_t unsaid = shed;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        shed += sender->dropped[tier];
        /* An unsealed segment's own drops were counted as lost when it ended. */
        if (!said)
            unsaid += sender->dropped[tier] + (closed->sealed ? closed->dropped[tier] : 0);
    }
    pthread_mutex_lock(&session->mutex);
    session->first_closed = closed->next;
    if (!closed->next)
        session->last_closed = NULL;
    if (session->n_closed-- >= DVG_CLOSED_MAX)
        pthread_cond_broadcast(&session->changed);
    session->shed += shed;
    session->lost += unsaid;
    pthread_mutex_unlock(&session->mutex);
    free(closed);
    begin_segment(sender);
    return true;
}

bool dvg_sender_drain(struct dvg_sender *sender, bool partial)
{
    sender->holding = false;
    for (;;) {
        struct dvg_closed *closed = look(sender);
        bool complete = true;
        for (uint32_t i = 0; i < sender->n_feeds; i++)
            complete &= drain_lane(sender, &sender->feeds[i], sender->limits[i]);
        if (closed && complete && finish_segment(sender, closed))
            continue;
        if (partial)
            complete &= flush_all(sender);
        return complete && !closed;
    }
}
