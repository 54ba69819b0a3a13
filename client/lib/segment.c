/* SPDX-License-Identifier: Apache-2.0 */
/* Segments begin and end here; so do lanes, which segments end for. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <diverge/diverge.h>

#include "client/lib/session.h"

static uint64_t unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Makes session->spare fit `lanes` lanes. ENOMEM leaves it as it was. */
static int fit_spare(struct diverge_session *session, uint32_t lanes)
{
    if (session->spare && session->closed_lanes >= lanes)
        return 0;
    uint32_t capacity = session->closed_lanes ? session->closed_lanes : 8;
    while (capacity < lanes)
        capacity *= 2;
    struct dvg_closed *spare =
        realloc(session->spare, sizeof(*spare) + capacity * sizeof(spare->limits[0]));
    if (!spare)
        return DIVERGE_ENOMEM;
    session->spare = spare;
    session->closed_lanes = capacity;
    return 0;
}

/* What the segment's end needs is made before its first record, so that ending cannot fail. */
int dvg_segment_prepare(struct diverge_session *session)
{
    int rc = session->n_closed < DVG_CLOSED_MAX ? fit_spare(session, session->n_lanes + 1)
                                                : DIVERGE_EDROPPED;
    session->muted = rc != 0;
    return rc;
}

static void append_closed(struct diverge_session *session, struct dvg_closed *closed)
{
    closed->next = NULL;
    if (session->last_closed)
        session->last_closed->next = closed;
    else
        session->first_closed = closed;
    session->last_closed = closed;
    session->n_closed++;
}

/* How many records a lane that is not there would have had, and of which tiers, nobody knows: one
 * of each tier says that the segment is not whole. */
static void count_laneless(struct diverge_session *session, struct dvg_closed *sums)
{
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
        uint64_t one = sums->wanted >> tier & 1;
        sums->dropped[tier] += one;
        session->shed += one;
    }
}

void dvg_segment_close(struct diverge_session *session, bool sealed)
{
    struct dvg_closed *closed = session->muted ? NULL : session->spare;
    struct dvg_closed ignored = {0};
    struct dvg_closed *sums = closed ? closed : &ignored;
    memset(sums, 0, sizeof(*sums));
    sums->segment = session->segment;
    sums->wanted = atomic_load_explicit(&session->wanted, memory_order_relaxed);
    sums->unix_us = unix_us();
    sums->sealed = sealed;
    sums->n_lanes = session->n_lanes;
    for (uint32_t i = 0; i < session->n_lanes; i++) {
        struct diverge_lane *lane = session->lanes[i];
        dvg_biased_take(&lane->lock);
        if (closed)
            closed->limits[i] = dvg_ring_head(&lane->ring);
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            sums->dropped[tier] += lane->dropped[tier];
        sums->volatile_count += lane->volatile_count;
        dvg_biased_release(&lane->lock);
    }
    if (session->laneless)
        count_laneless(session, sums);
    if (closed) {
        session->spare = NULL;
        append_closed(session, closed);
    }
    for (int tier = 0; (!closed || !sealed) && tier < DIVERGE_TIER_COUNT; tier++)
        session->lost += sums->dropped[tier];
}

/* Under mutex, after the last segment was closed; `waited_ns` of the new one's bound is used up. */
static void begin(struct diverge_session *session, uint64_t segment, uint64_t waited_ns)
{
    session->segment = segment;
    dvg_segment_prepare(session);
    /* No quota: every record of a muted segment is dropped and counted. */
    uint64_t given = session->muted ? UINT64_MAX : 0;
    atomic_store_explicit(&session->quota_given, given, memory_order_relaxed);
    atomic_store_explicit(&session->wait_left_ns, session->config.wait_ns - (int64_t)waited_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&session->wanted, dvg_config_wanted(&session->config, segment),
                          memory_order_relaxed);
    for (uint32_t i = 0; i < session->n_lanes; i++) {
        struct diverge_lane *lane = session->lanes[i];
        dvg_biased_take(&lane->lock);
        dvg_lane_begin_segment(lane, segment);
        dvg_biased_release(&lane->lock);
    }
}

/* Under mutex. Very short segments can be made faster than they are sent: waits, within the bound.
 * How long. */
static uint64_t wait_for_sender(struct diverge_session *session)
{
    if (session->n_closed < DVG_CLOSED_MAX || session->config.wait_ns <= 0)
        return 0;
    uint64_t start = dvg_now_ns();
    uint64_t end = start + (uint64_t)session->config.wait_ns;
    struct timespec deadline = {.tv_sec = (time_t)(end / 1000000000),
                                .tv_nsec = (long)(end % 1000000000)};
    int rc = 0;
    dvg_session_kick(session);
    while (session->n_closed >= DVG_CLOSED_MAX && dvg_session_is_open(session) && !rc)
        rc = pthread_cond_timedwait(&session->changed, &session->mutex, &deadline);
    uint64_t waited = dvg_now_ns() - start;
    atomic_fetch_add_explicit(&session->waited_ns, waited, memory_order_relaxed);
    return waited;
}

static int next_segment(struct diverge_session *session, uint64_t segment)
{
    if (!dvg_session_is_open(session))
        return DIVERGE_ECLOSED;
    pthread_mutex_lock(&session->mutex);
    int rc = segment > session->segment ? 0 : DIVERGE_EINVAL;
    if (!rc) {
        dvg_segment_close(session, true);
        begin(session, segment, wait_for_sender(session));
    }
    bool many = session->n_closed >= DVG_CLOSED_KICK;
    pthread_mutex_unlock(&session->mutex);
    if (!rc && many)
        dvg_session_kick(session);
    else if (!rc)
        dvg_session_nudge(session);
    return rc;
}

/* The greatest k whose segments have a number on the wire. */
#define K_MAX ((uint64_t)DVG_SEGMENT_MAX / 2 - 1)

int diverge_boundary(struct diverge_session *session, uint64_t k)
{
    return k > K_MAX ? DIVERGE_EINVAL : next_segment(session, diverge_segment_of_boundary(k));
}

int diverge_step(struct diverge_session *session, uint64_t k)
{
    return k > K_MAX ? DIVERGE_EINVAL : next_segment(session, diverge_segment_of_step(k));
}

bool diverge_wants(struct diverge_session *session, enum diverge_tier tier)
{
    if (!dvg_session_is_open(session) || (unsigned)tier >= DIVERGE_TIER_COUNT)
        return false;
    return atomic_load_explicit(&session->wanted, memory_order_relaxed) >> tier & 1;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

enum { RING_FIRST_LANE = 16 << 20, RING_OTHER_LANES = 1 << 20 };

static struct diverge_lane *find_lane(const struct diverge_session *session, uint32_t name)
{
    for (uint32_t i = 0; i < session->n_lanes; i++) {
        if (session->lanes[i]->name == name)
            return session->lanes[i];
    }
    return NULL;
}

/* Under mutex. */
static struct diverge_lane *add_lane(struct diverge_session *session, const char *name)
{
    if (session->n_lanes == DVG_LANES_MAX ||
        (!session->muted && fit_spare(session, session->n_lanes + 1)))
        return NULL;
    size_t bytes = session->config.ring_bytes;
    if (!bytes)
        bytes = session->n_lanes ? RING_OTHER_LANES : RING_FIRST_LANE;
    struct diverge_lane *lane;
    if (dvg_lane_new(session, name, bytes, session->n_lanes, &lane))
        return NULL;
    dvg_lane_begin_segment(lane, session->segment);
    session->lanes[session->n_lanes++] = lane;
    return lane;
}

struct diverge_lane *diverge_lane_open(struct diverge_session *session, const char *name)
{
    if (!dvg_session_is_open(session) || !name || !*name)
        return NULL;
    uint32_t number = dvg_define_string(&session->define, name, strlen(name));
    pthread_mutex_lock(&session->mutex);
    struct diverge_lane *lane = find_lane(session, number);
    if (!lane)
        lane = add_lane(session, name);
    if (!lane)
        session->laneless = true;
    pthread_mutex_unlock(&session->mutex);
    if (!lane)
        dvg_warn(session, DVG_WARN_FULL, "no lane for \"%.64s\"; what it would have is lost", name);
    return lane;
}

diverge_name_t diverge_name(struct diverge_session *session, const char *text)
{
    if (!session || !text || !dvg_session_is_open(session))
        return 0;
    return dvg_define_string(&session->define, text, strlen(text));
}
