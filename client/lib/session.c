/* SPDX-License-Identifier: Apache-2.0 */
/* A session's life, and what can be asked of it. */
#include "client/lib/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/environment.h"
#include "client/lib/process.h"
#include "client/lib/sender.h"
#include "client/lib/text.h"

/* Orders and quotas are 32-bit. */
#define RECORDS_MAX UINT64_C(0xf0000000)

void dvg_warn(struct diverge_session *session, enum dvg_warning kind, const char *format, ...)
{
    unsigned bit = 1u << kind;
    if (atomic_fetch_or_explicit(&session->warned, bit, memory_order_relaxed) & bit)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "diverge: %s; training continues\n", text);
}

void dvg_session_kick(struct diverge_session *session)
{
    if (atomic_exchange(&session->kicked, 1))
        return;
    uint64_t one = 1;
    ssize_t n = write(session->wake_fd, &one, sizeof(one));
    (void)n; /* it cannot fill up, and a lost kick costs an idle period */
}

/* ---- open ------------------------------------------------------------------------------------ */

static void set_compute(struct diverge_session *session)
{
    const struct dvg_config *config = &session->config;
    unsigned statistics = config->flags & DIVERGE_OPEN_NO_STATS ? 0 : DIVERGE_WITH_STATISTICS;
    unsigned sketch = config->sketch == 64   ? DIVERGE_WITH_SKETCH64
                      : config->sketch == 32 ? DIVERGE_WITH_SKETCH32
                                             : 0;
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        session->compute[tier] = statistics;
    session->compute[DIVERGE_TIER_STEP] |= sketch;
    session->compute[DIVERGE_TIER_LAYER] |= sketch;
    if (config->flags & DIVERGE_OPEN_SKETCH_OPS)
        session->compute[DIVERGE_TIER_OP] |= sketch;
}

static int init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes))
        return DIVERGE_ENOMEM;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return rc ? DIVERGE_ENOMEM : 0;
}

/* Frees what there is of it; the sender's thread has ended or never was. */
static void session_free(struct diverge_session *session)
{
    if (!session)
        return;
    dvg_sender_free(session->sender);
    for (uint32_t i = 0; i < session->n_lanes; i++)
        dvg_lane_free(session->lanes[i]);
    while (session->first_closed) {
        struct dvg_closed *next = session->first_closed->next;
        free(session->first_closed);
        session->first_closed = next;
    }
    free(session->spare);
    dvg_process_close(&session->wake_fd);
    dvg_metadata_clear(&session->metadata);
    dvg_deferred_fini(&session->deferred);
    dvg_producers_fini(&session->producers);
    dvg_define_fini(&session->define);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

static struct diverge_session *session_new(const struct dvg_config *config)
{
    struct diverge_session *session = calloc(1, sizeof(*session));
    if (!session)
        return NULL;
    session->config = *config;
    session->wake_fd = -1;
    pthread_mutex_init(&session->mutex, NULL);
    if (init_condition(&session->changed)) {
        pthread_mutex_destroy(&session->mutex);
        free(session);
        return NULL;
    }
    memcpy(session->run_id, config->run_id, sizeof(session->run_id));
    memcpy(session->run_name, config->name, sizeof(session->run_name));
    set_compute(session);
    atomic_init(&session->max_records, RECORDS_MAX);
    atomic_init(&session->wait_left_ns, config->wait_ns);
    atomic_init(&session->wanted, dvg_config_wanted(config, 0));
    session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (session->wake_fd < 0 || dvg_define_init(&session->define) || dvg_segment_prepare(session)) {
        session_free(session);
        return NULL;
    }
    return session;
}

/* The answer of the daemon decides whether there is a session. */
static int greet(struct diverge_session *session)
{
    if (*session->config.recording)
        return 0;
    int rc = dvg_sender_greet(session->sender);
    if (rc != DIVERGE_EUNAVAIL)
        return rc;
    if (session->config.flags & DIVERGE_OPEN_REQUIRE)
        return rc;
    dvg_warn(session, DVG_WARN_LINK, "no daemon answers at %s; records wait in %s",
             session->config.socket_path, session->config.spool_dir);
    return 0;
}

static int session_start(struct diverge_session *session, const struct diverge_options *options)
{
    int rc = dvg_random(session->stream_id, sizeof(session->stream_id));
    if (!rc)
        rc = dvg_sender_new(session, &session->sender);
    if (!rc)
        rc = greet(session);
    if (!rc)
        rc = dvg_environment_collect(&session->metadata);
    for (size_t i = 0; !rc && options && i < options->n_metadata; i++)
        rc = diverge_metadata_set(session, options->metadata[i].key, options->metadata[i].value);
    if (!rc)
        rc = dvg_process_add(session);
    if (rc)
        return rc;
    rc = dvg_sender_start(session->sender);
    if (rc)
        dvg_process_remove(session);
    return rc;
}

/* When the daemon refused, or the caller wants to know of it by the status alone, all is said. */
static void tell_failure(struct diverge_session *session, int status)
{
    const char *file = session->config.recording;
    if (status == DIVERGE_EUNAVAIL && session->config.flags & DIVERGE_OPEN_REQUIRE)
        return;
    dvg_warn(session, DVG_WARN_REFUSED, "cannot record%s%s: %s; nothing is recorded",
             *file ? " into " : "", file, diverge_strerror(status));
}

int diverge_session_open(const struct diverge_options *options, struct diverge_session **ret)
{
    if (!ret)
        return DIVERGE_EINVAL;
    *ret = NULL;
    struct dvg_config *config = malloc(sizeof(*config));
    struct dvg_error *error = malloc(sizeof(*error));
    struct diverge_session *session = NULL;
    int rc = DIVERGE_ENOMEM;
    if (!config || !error)
        goto out;
    rc = dvg_config_init(config, options, error);
    if (rc) {
        if (rc != DIVERGE_ECLOSED)
            dprintf(STDERR_FILENO, "diverge: %s; nothing is recorded, training continues\n",
                    error->text);
        goto out;
    }
    if (*error->passed_over)
        dprintf(STDERR_FILENO, "diverge: %s; training continues\n", error->passed_over);
    rc = DIVERGE_ENOMEM;
    session = session_new(config);
    if (!session)
        goto out;
    rc = session_start(session, options);
    if (rc) {
        tell_failure(session, rc);
        session_free(session);
    } else {
        *ret = session;
    }
out:
    free(config);
    free(error);
    return rc;
}

/* ---- close ----------------------------------------------------------------------------------- */

/* Records that were not taken or found no space. Under mutex. */
static uint64_t dropped(const struct diverge_session *session)
{
    uint64_t sum = session->shed;
    for (uint32_t i = 0; i < session->n_lanes; i++)
        sum += atomic_load_explicit(&session->lanes[i]->dropped_ever, memory_order_relaxed);
    return sum;
}

static int outcome_of(struct diverge_session *session)
{
    const struct dvg_outbox *outbox = &session->sender->outbox;
    if (session->sender->dead)
        return session->sender->status ? session->sender->status : DIVERGE_EIO;
    if (dropped(session) || session->sender->endless)
        return DIVERGE_EDROPPED;
    return outbox->acked == outbox->made ? 0 : DIVERGE_EAGAIN;
}

int diverge_session_close(struct diverge_session *session, enum diverge_outcome outcome)
{
    if (!session || atomic_load(&session->state) == DVG_SESSION_FORKED)
        return DIVERGE_ECLOSED;
    int open = DVG_SESSION_OPEN;
    atomic_compare_exchange_strong(&session->state, &open, DVG_SESSION_CLOSING);
    pthread_mutex_lock(&session->mutex);
    /* A job that failed did so in the middle of something: that segment is left open. */
    dvg_segment_close(session, outcome == DIVERGE_OUTCOME_COMPLETE);
    session->outcome =
        outcome == DIVERGE_OUTCOME_COMPLETE ? DIVERGE_OUTCOME_COMPLETE : DIVERGE_OUTCOME_FAILED;
    session->stop = true;
    pthread_mutex_unlock(&session->mutex);
    dvg_session_kick(session);
    pthread_join(session->thread, NULL);
    int rc = outcome_of(session);
    dvg_process_remove(session);
    session_free(session);
    return rc;
}

/* ---- questions ------------------------------------------------------------------------------- */

int diverge_session_stats(struct diverge_session *session, struct diverge_session_stats *ret)
{
    if (!session || !ret || atomic_load(&session->state) == DVG_SESSION_FORKED)
        return DIVERGE_ECLOSED;
    struct diverge_session_stats stats = {0};
    pthread_mutex_lock(&session->mutex);
    for (uint32_t i = 0; i < session->n_lanes; i++)
        stats.recorded += atomic_load_explicit(&session->lanes[i]->recorded, memory_order_relaxed);
    stats.dropped = dropped(session);
    stats.committed = session->committed;
    stats.bytes = session->bytes;
    stats.spooled = session->spooled;
    stats.connected = session->connected;
    for (int i = 0; i < 16; i++)
        snprintf(stats.run_id + 2 * i, 3, "%02x", session->run_id[i]);
    memcpy(stats.run_name, session->run_name, sizeof(session->run_name));
    pthread_mutex_unlock(&session->mutex);
    stats.wait_ns = atomic_load_explicit(&session->waited_ns, memory_order_relaxed);
    *ret = stats;
    return 0;
}

int diverge_metadata_set(struct diverge_session *session, const char *key, const char *value)
{
    if (!dvg_session_is_open(session))
        return DIVERGE_ECLOSED;
    if (!key || !*key || !value)
        return DIVERGE_EINVAL;
    pthread_mutex_lock(&session->mutex);
    int rc = dvg_metadata_put(&session->metadata, key, value);
    pthread_mutex_unlock(&session->mutex);
    if (!rc)
        dvg_session_kick(session);
    return rc;
}

int dvg_session_flush_until(struct diverge_session *session, uint64_t end_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(end_ns / 1000000000),
                                .tv_nsec = (long)(end_ns % 1000000000)};
    uint64_t asked = ++session->flush_asked;
    dvg_session_kick(session);
    while (session->flush_seen < asked) {
        if (!dvg_session_is_open(session))
            return DIVERGE_ECLOSED;
        if (pthread_cond_timedwait(&session->changed, &session->mutex, &deadline) == ETIMEDOUT)
            return DIVERGE_EAGAIN;
    }
    uint64_t seq = session->flush_seq;
    while (session->acked_seq < seq) {
        if (!dvg_session_is_open(session))
            return DIVERGE_ECLOSED;
        if (pthread_cond_timedwait(&session->changed, &session->mutex, &deadline) == ETIMEDOUT)
            return DIVERGE_EAGAIN;
    }
    return 0;
}

int diverge_flush(struct diverge_session *session, int timeout_ms)
{
    if (!dvg_session_is_open(session))
        return DIVERGE_ECLOSED;
    uint64_t wait_ns = timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000 : 0;
    pthread_mutex_lock(&session->mutex);
    int rc = dvg_session_flush_until(session, dvg_now_ns() + wait_ns);
    pthread_mutex_unlock(&session->mutex);
    return rc;
}

/* ---- texts ----------------------------------------------------------------------------------- */

const char *diverge_strerror(int status)
{
    switch (status) {
    case 0:
        return "success";
#define X(name, number, text)                                                                      \
    case number:                                                                                   \
        return text;
        DIVERGE_ERRORS(X)
#undef X
    default:
        return "unknown status";
    }
}

const char *diverge_version(void)
{
    return DIVERGE_VERSION;
}
