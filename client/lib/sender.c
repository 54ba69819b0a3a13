/* SPDX-License-Identifier: Apache-2.0 */
/* The sender thread's life: what it waits for, what it reports, when it ends. */
#include "client/lib/sender.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART_WAIT_NS UINT64_C(50000000) /* records do not wait longer for a full part */
#define IDLE_FIRST_NS UINT64_C(50000000)
#define IDLE_MAX_NS UINT64_C(1000000000)
#define CLOSE_WAIT_NS UINT64_C(10000000000)
#define GREET_WAIT_NS UINT64_C(1000000000)
enum { FRAME_MAX = DVG_FRAME_MAX + DVG_FRAME_HEADER };

/* ---- life ------------------------------------------------------------------------------------ */

static struct dvg_bytes bytes_of(const char *text)
{
    return (struct dvg_bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

static void make_hello(struct dvg_sender *sender)
{
    const struct dvg_config *config = &sender->session->config;
    sender->hello = (struct dvg_hello){
        .major = DVG_PROTOCOL_MAJOR,
        .minor = DVG_PROTOCOL_MINOR,
        .rank = config->rank,
        .world = config->world,
        .level = (uint8_t)config->level,
        .next_seq = 1,
        .run_name = bytes_of(config->name),
        .fingerprint_id = bytes_of(DIVERGE_FINGERPRINT_ID),
        .spec = bytes_of(config->spec),
        .client = bytes_of("libdiverge " DIVERGE_VERSION),
    };
    memcpy(sender->hello.stream_id, sender->session->stream_id, 16);
    memcpy(sender->hello.run_id, config->run_id, 16);
}

int dvg_sender_new(struct diverge_session *session, struct dvg_sender **ret)
{
    struct dvg_sender *sender = calloc(1, sizeof(*sender));
    if (!sender)
        return DIVERGE_ENOMEM;
    sender->session = session;
    sender->idle_ns = IDLE_FIRST_NS;
    make_hello(sender);
    dvg_link_init(&sender->link, session->config.socket_path);
    dvg_buffer_init(&sender->frame, FRAME_MAX);
    int rc = dvg_outbox_init(&sender->outbox, &session->config, &session->define, &sender->hello);
    if (rc) {
        dvg_sender_free(sender);
        return rc;
    }
    *ret = sender;
    return 0;
}

void dvg_sender_free(struct dvg_sender *sender)
{
    if (!sender)
        return;
    for (uint32_t i = 0; i < sender->n_feeds; i++) {
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++) {
            if (sender->feeds[i].tiers[tier]) {
                dvg_columns_fini(sender->feeds[i].tiers[tier]);
                free(sender->feeds[i].tiers[tier]);
            }
        }
    }
    dvg_link_fini(&sender->link);
    dvg_outbox_fini(&sender->outbox);
    dvg_buffer_fini(&sender->frame);
    free(sender);
}

void dvg_sender_forget(struct dvg_sender *sender)
{
    if (sender->link.fd >= 0)
        close(sender->link.fd);
    if (sender->outbox.spool.fd >= 0)
        close(sender->outbox.spool.fd);
}

/*
 * A record that comes between the sender's last look and its store to `dozing` wakes nobody; it
 * waits for IDLE_MAX_NS at most. A fence on every record would be the price of less.
 */

/* ---- waiting --------------------------------------------------------------------------------- */

/* Sleeps until something happens or `until_ns`; what the socket has. */
static short wait_for(struct dvg_sender *sender, uint64_t until_ns)
{
    struct pollfd fds[2] = {{.fd = sender->session->wake_fd, .events = POLLIN},
                            {.fd = sender->link.fd, .events = POLLIN}};
    if (dvg_link_has_output(&sender->link))
        fds[1].events |= POLLOUT;
    uint64_t now = dvg_now_ns();
    uint64_t left = until_ns > now ? until_ns - now : 0;
    /* Rounded up: waking a moment early would only mean to sleep again. */
    int timeout_ms = left > UINT64_C(3600000000000) ? 3600000 : (int)((left + 999999) / 1000000);
    if (poll(fds, 2, timeout_ms) <= 0)
        return 0;
    if (fds[0].revents) {
        uint64_t kicks;
        ssize_t n = read(sender->session->wake_fd, &kicks, sizeof(kicks));
        (void)n; /* EAGAIN: somebody else's kick was counted already */
    }
    return fds[1].fd >= 0 ? fds[1].revents : 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the sender has to be up again if nothing happens before. */
static uint64_t next_time(const struct dvg_sender *sender)
{
    uint64_t until = dvg_now_ns() + sender->idle_ns;
    if (sender->rows_since_ns && !sender->holding)
        until = earlier(until, sender->rows_since_ns + PART_WAIT_NS);
    if (sender->stopping)
        until = earlier(until, sender->stop_ns);
    if (sender->outbox.recording || sender->dead)
        return until;
    if (sender->link.state == DVG_LINK_GREETING)
        until = earlier(until, sender->link.deadline_ns);
    if (sender->link.state == DVG_LINK_DOWN)
        until = earlier(until, sender->link.retry_ns);
    return until;
}

/* ---- reporting ------------------------------------------------------------------------------- */

static void report(struct dvg_sender *sender)
{
    struct diverge_session *session = sender->session;
    const struct dvg_outbox *outbox = &sender->outbox;
    bool connected = sender->link.state == DVG_LINK_UP;
    uint64_t spooled = outbox->recording || outbox->spool.fd < 0 ? 0 : outbox->spool.size;
    if (session->acked_seq != outbox->acked)
        sender->progress_ns = dvg_now_ns();
    pthread_mutex_lock(&session->mutex);
    bool changed = session->acked_seq != outbox->acked || session->connected != connected ||
                   session->spooled != spooled;
    session->acked_seq = outbox->acked;
    session->committed = outbox->committed;
    session->bytes = outbox->bytes;
    session->spooled = spooled;
    session->connected = connected;
    pthread_mutex_unlock(&session->mutex);
    if (changed)
        pthread_cond_broadcast(&session->changed);
}

/* A METADATA frame of what is new; under the session's mutex. */
static int make_metadata(struct dvg_sender *sender)
{
    struct dvg_buffer json;
    dvg_buffer_init(&json, DVG_METADATA_MAX);
    int rc = dvg_metadata_json(&sender->session->metadata, &json);
    struct dvg_metadata metadata = {.json = {.data = json.data, .size = json.size}};
    if (!rc)
        rc = dvg_metadata_encode(&sender->frame, sender->outbox.made + 1, &metadata);
    dvg_buffer_fini(&json);
    return rc;
}

/* What cannot be kept now is tried again with the next news. */
static void put_metadata(struct dvg_sender *sender, struct dvg_metadata_set *sending)
{
    struct diverge_session *session = sender->session;
    if (!sender->dead && dvg_sender_put(sender, DIVERGE_TIER_COUNT, 0) && !sender->dead) {
        pthread_mutex_lock(&session->mutex);
        dvg_metadata_restore(&session->metadata, sending);
        pthread_mutex_unlock(&session->mutex);
    }
    dvg_metadata_clear(sending);
}

/* Takes the session's news: metadata to send, somebody who waits for a flush, the end. */
static uint64_t take_news(struct dvg_sender *sender)
{
    struct diverge_session *session = sender->session;
    dvg_buffer_clear(&sender->frame);
    pthread_mutex_lock(&session->mutex);
    uint64_t asked = session->flush_asked;
    bool stop = session->stop;
    bool have = session->metadata.first != NULL && make_metadata(sender) == 0;
    struct dvg_metadata_set sending = {0};
    if (have) {
        sending = session->metadata;
        session->metadata = (struct dvg_metadata_set){0};
    }
    pthread_mutex_unlock(&session->mutex);
    if (have)
        put_metadata(sender, &sending);
    if (stop && !sender->stopping) {
        sender->stopping = true;
        sender->stop_ns = dvg_now_ns() + CLOSE_WAIT_NS;
        dvg_deferred_end(&session->deferred);
    }
    return asked;
}

/* Everything recorded before flush number `asked` is in frames. */
static void flushed(struct dvg_sender *sender, uint64_t asked)
{
    struct diverge_session *session = sender->session;
    pthread_mutex_lock(&session->mutex);
    if (session->flush_seen < asked) {
        session->flush_seen = asked;
        session->flush_seq = sender->outbox.made;
        pthread_cond_broadcast(&session->changed);
    }
    pthread_mutex_unlock(&session->mutex);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Whether waiting longer can bring an acknowledgement. */
static bool worth_waiting(const struct dvg_sender *sender)
{
    if (sender->dead || sender->outbox.recording || sender->outbox.acked == sender->outbox.made)
        return false;
    return sender->link.state != DVG_LINK_DOWN && !sender->read_only &&
           dvg_now_ns() < sender->stop_ns;
}

static void put_bye(struct dvg_sender *sender)
{
    enum { BYE_ROOM = 128 };
    while (!dvg_outbox_has_room(&sender->outbox, DIVERGE_TIER_COUNT, BYE_ROOM,
                                dvg_sender_is_away(sender)) &&
           worth_waiting(sender)) {
        dvg_sender_converse(sender, wait_for(sender, next_time(sender)));
        report(sender);
    }
    struct diverge_session *session = sender->session;
    pthread_mutex_lock(&session->mutex);
    struct dvg_bye bye = {.outcome = (uint8_t)session->outcome, .dropped = session->lost};
    pthread_mutex_unlock(&session->mutex);
    dvg_buffer_clear(&sender->frame);
    int rc = dvg_bye_encode(&sender->frame, sender->outbox.made + 1, &bye);
    if (!rc)
        rc = dvg_sender_put(sender, DIVERGE_TIER_COUNT, 0);
    sender->endless = rc != 0;
}

/* The last records are in frames: say BYE, wait for the daemon, leave the rest in the spool. */
static void finish(struct dvg_sender *sender)
{
    if (!sender->dead) {
        take_news(sender); /* metadata that found no memory before */
        put_bye(sender);
    }
    sender->link.retry_ns = 0; /* one more try, now */
    dvg_sender_converse(sender, 0);
    report(sender);
    while (worth_waiting(sender)) {
        dvg_sender_converse(sender, wait_for(sender, next_time(sender)));
        report(sender);
    }
    if (sender->outbox.recording)
        dvg_spool_sync(&sender->outbox.spool);
    else if (!sender->dead && dvg_outbox_spill(&sender->outbox))
        dvg_warn(sender->session, DVG_WARN_SPOOL, "records are lost: %s",
                 sender->outbox.error.text);
    report(sender);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *run(void *arg)
{
    struct dvg_sender *sender = arg;
    struct diverge_session *session = sender->session;
    bool drained = false;
    short events = 0;
    while (!(sender->stopping && drained)) {
        atomic_store(&session->kicked, 0);
        uint64_t made = sender->outbox.made;
        uint64_t asked = take_news(sender);
        bool due = sender->rows_since_ns && dvg_now_ns() >= sender->rows_since_ns + PART_WAIT_NS;
        bool flush = asked > session->flush_seen; /* ours to write, so ours to read */
        drained = dvg_sender_drain(sender, due || flush || sender->stopping);
        if (drained && flush)
            flushed(sender, asked);
        uint64_t acked = sender->outbox.acked;
        dvg_sender_converse(sender, events);
        report(sender);
        if (sender->stopping && drained)
            break;
        events = 0;
        if (sender->holding && sender->outbox.acked != acked)
            continue; /* there may be room now */
        bool busy = sender->rows_since_ns || sender->outbox.made != made;
        sender->idle_ns = busy ? IDLE_FIRST_NS : earlier(sender->idle_ns * 2, IDLE_MAX_NS);
        atomic_store(&session->dozing, sender->idle_ns > PART_WAIT_NS);
        events = wait_for(sender, next_time(sender));
        atomic_store(&session->dozing, 0);
    }
    finish(sender);
    return NULL;
}

int dvg_sender_greet(struct dvg_sender *sender)
{
    uint64_t end = dvg_now_ns() + GREET_WAIT_NS;
    dvg_sender_converse(sender, 0);
    while (sender->link.state == DVG_LINK_GREETING && dvg_now_ns() < end)
        dvg_sender_converse(sender, wait_for(sender, end));
    report(sender);
    if (sender->link.state == DVG_LINK_UP)
        return 0;
    return sender->status ? sender->status : DIVERGE_EUNAVAIL;
}

int dvg_sender_start(struct dvg_sender *sender)
{
    /* Signals are the training's: the new thread starts with all of them blocked. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&sender->session->thread, NULL, run, sender);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return DIVERGE_ENOMEM;
    pthread_setname_np(sender->session->thread, "diverge-send");
    return 0;
}
