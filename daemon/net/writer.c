/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/writer.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/wire/frame.h"
#include "daemon/net/log.h"
#include "daemon/net/orphan.h"
#include "daemon/net/thread_checker.h"
#include "daemon/proto/control.h"
#include "daemon/proto/ingest.h"
#include "daemon/store/store.h"

#define MS_NS UINT64_C(1000000)

enum {
    /* Replies without data gather until this many bytes of credit are in them. */
    CREDIT_BATCH = 1024 * 1024,
    RETRY_MS = 1000,
    /* A producer that lives keeps its spool file; when it ended, nothing tells us. */
    RESCAN_MS = 2000,
    GC_SLICE_MS = 20,
    GC_OVERDUE = 4, /* times the bytes after which it is due */
    REPLY_MAX = 2 * 1024 * 1024,
};

struct writer {
    /* constant after writer_start */
    const struct config *config;
    void (*wake)(void *context);
    void *context;
    pthread_t thread;
    uint64_t started_unix_us;

    /* both threads */
    struct queue queue;
    pthread_mutex_t mutex; /* leaf; guards posted, posted_end */
    struct reply *posted;
    struct reply **posted_end;
    atomic_uint connections;
    atomic_bool stopping;
    atomic_bool broken;

    /* the writer thread's own */
    struct thread_checker checker;
    struct store *store;
    struct ingest *ingest;
    struct orphans *orphans;
    struct dvg_buffer out;
    struct reply *done;     /* REPLY_DONE, made beforehand: the loop waits for it */
    struct reply *unposted; /* gathered, oldest first */
    struct reply **unposted_end;
    struct reply *unposted_last;
    size_t unposted_credit;
    struct batch *stalled; /* not taken because the disk is full */
    bool group_open;
    bool commit_soon; /* a BYE or the like: do not linger */
    bool failed;
    bool gc_due;
    uint64_t group_bytes;
    uint64_t group_start_ns;
    uint64_t last_batch_ns;
    uint64_t retry_ns;
    uint64_t rescan_ns; /* when to look for spool files again */
    uint64_t bytes_since_gc;
};

/* ---- replies --------------------------------------------------------------------------------- */

static void flush_replies(struct writer *w)
{
    if (!w->unposted)
        return;
    pthread_mutex_lock(&w->mutex);
    *w->posted_end = w->unposted;
    w->posted_end = w->unposted_end;
    pthread_mutex_unlock(&w->mutex);
    w->unposted = NULL;
    w->unposted_end = &w->unposted;
    w->unposted_last = NULL;
    w->unposted_credit = 0;
    w->wake(w->context);
}

static void gather(struct writer *w, struct reply *reply)
{
    *w->unposted_end = reply;
    w->unposted_end = &reply->next;
    w->unposted_last = reply;
}

static struct reply *post(struct writer *w, enum reply_kind kind, uint64_t id, const void *data,
                          size_t size)
{
    THREAD_CHECK(&w->checker);
    struct reply *reply = malloc(sizeof(*reply) + size);
    if (!reply) {
        atomic_store(&w->broken, true);
        w->wake(w->context);
        return NULL;
    }
    *reply = (struct reply){.kind = kind, .id = id, .size = size};
    if (size)
        memcpy(reply->data, data, size);
    gather(w, reply);
    return reply;
}

static void post_credit(struct writer *w, uint64_t id, size_t credit)
{
    struct reply *last = w->unposted_last;
    if (!last || last->kind != REPLY_SEND || last->id != id || last->close)
        last = post(w, REPLY_SEND, id, NULL, 0);
    if (last)
        last->credit += credit;
    w->unposted_credit += credit;
    if (w->unposted_credit >= CREDIT_BATCH)
        flush_replies(w);
}

/* Sends what is in `out`. */
static void post_out(struct writer *w, uint64_t id, bool close)
{
    if (!w->out.size && !close)
        return;
    struct reply *reply = post(w, REPLY_SEND, id, w->out.data, w->out.size);
    if (reply)
        reply->close = close;
    dvg_buffer_clear(&w->out);
    flush_replies(w);
}

static void post_text(struct writer *w, enum reply_kind kind, int status, const char *text)
{
    struct reply *reply = post(w, kind, 0, text, strlen(text) + 1);
    if (reply)
        reply->status = status;
    flush_replies(w);
}

static void post_done(struct writer *w, int status)
{
    struct reply *done = w->done;
    w->done = NULL;
    *done = (struct reply){.kind = REPLY_DONE, .status = status};
    gather(w, done);
    flush_replies(w);
}

/* The store cannot be used any more. Nothing more is taken or acknowledged. */
static void fail_writer(struct writer *w, int status)
{
    if (w->failed)
        return;
    w->failed = true;
    w->group_open = false;
    log_event(LOG_ERROR, "store_failed", log_number("status", status),
              log_text("reason", store_error_text(w->store)));
    post_text(w, REPLY_FAILED, status, store_error_text(w->store));
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void post_notices(struct writer *w)
{
    struct ingest_notice notice;
    while (ingest_next_notice(w->ingest, &notice)) {
        struct reply *reply =
            post(w, REPLY_SEND, notice.connection, notice.frame.data, notice.frame.size);
        if (reply)
            reply->close = notice.close;
    }
    flush_replies(w);
}

static void note_read_only(struct writer *w, bool before)
{
    bool now = ingest_is_read_only(w->ingest);
    if (now && !before)
        log_event(LOG_ERROR, "disk_full", log_text("store", w->config->store),
                  log_text("reason", store_error_text(w->store)),
                  log_text("advice", "free space, or divergectl gc; nothing acknowledged is lost"));
    if (before && !now)
        log_event(LOG_INFO, "disk_has_room", log_text("store", w->config->store));
    if (now)
        w->retry_ns = queue_now_ns() + RETRY_MS * MS_NS;
}

/* Commits the group; what became durable is acknowledged. */
static void commit(struct writer *w)
{
    bool before = ingest_is_read_only(w->ingest);
    int rc = ingest_commit(w->ingest);
    if (rc && rc != DIVERGE_EFULL) {
        fail_writer(w, rc);
        return;
    }
    note_read_only(w, before);
    post_notices(w);
    w->commit_soon = false;
    w->group_open = rc != 0;
    if (rc)
        return;
    w->bytes_since_gc += w->group_bytes;
    if (w->bytes_since_gc >= (uint64_t)w->config->checkpoint_bytes)
        w->gc_due = true;
    w->group_bytes = 0;
    /* A reader may keep the WAL from shrinking: not an error, tried again after the next group. */
    store_checkpoint(w->store, (uint64_t)w->config->checkpoint_bytes);
}

static void open_group(struct writer *w, uint64_t now_ns)
{
    if (!w->group_open) {
        w->group_open = true;
        w->group_start_ns = now_ns;
    }
    w->last_batch_ns = now_ns;
}

/* When the open group is to be committed, if nothing more comes. */
static uint64_t group_deadline(const struct writer *w)
{
    if (!w->group_open)
        return UINT64_MAX;
    if (ingest_is_read_only(w->ingest))
        return w->retry_ns;
    if (w->commit_soon)
        return 0;
    uint64_t linger = w->last_batch_ns + (uint64_t)w->config->linger_ms * MS_NS;
    uint64_t latest = w->group_start_ns + (uint64_t)w->config->commit_ms * MS_NS;
    return linger < latest ? linger : latest;
}

static bool group_is_large(const struct writer *w)
{
    return w->group_open && !ingest_is_read_only(w->ingest) &&
           (w->group_bytes >= (uint64_t)w->config->commit_bytes ||
            queue_now_ns() >= w->group_start_ns + (uint64_t)w->config->commit_ms * MS_NS);
}

/* ---- batches --------------------------------------------------------------------------------- */

static struct ingest_peer peer_of(const struct link *link)
{
    return (struct ingest_peer){.connection = link->id, .uid = link->uid, .pid = link->pid};
}

static struct dvg_bytes rest_of(const struct batch *batch)
{
    return (struct dvg_bytes){batch->data + batch->taken, batch->size - batch->taken};
}

/* False when the disk is full: the rest of the batch is for later. */
static bool take_frames(struct writer *w, struct batch *batch)
{
    struct ingest_peer peer = peer_of(batch->link);
    while (batch->taken < batch->size && !batch->link->refused && !w->failed) {
        struct dvg_frame frame;
        size_t size = 0;
        int whole = dvg_frame_decode(rest_of(batch), DVG_FRAME_MAX, &frame, &size);
        assert(whole == 1); /* the loop looked already */
        (void)whole;
        bool before = ingest_is_read_only(w->ingest);
        int rc = ingest_frame(w->ingest, &peer, &frame, &w->out);
        note_read_only(w, before);
        post_out(w, peer.connection, rc && rc != DIVERGE_EAGAIN);
        if (rc == DIVERGE_EAGAIN) {
            post_notices(w); /* STATE */
            return false;
        }
        batch->link->refused = rc != 0;
        batch->taken += size;
        w->group_bytes += size;
        w->commit_soon |= frame.type == DVG_MESSAGE_BYE;
    }
    return true;
}

static void frames_batch(struct writer *w, struct batch *batch)
{
    open_group(w, queue_now_ns());
    if (!take_frames(w, batch)) {
        w->stalled = batch;
        return;
    }
    post_credit(w, batch->link->id, batch->size);
    free(batch);
}

static void closed_batch(struct writer *w, struct batch *batch)
{
    if (!w->failed) {
        open_group(w, queue_now_ns());
        ingest_closed(w->ingest, batch->link->id);
    }
    post(w, REPLY_CLOSED, batch->link->id, NULL, 0);
    flush_replies(w);
    free(batch);
}

static void host_status(void *context, struct control_status *ret)
{
    struct writer *w = context;
    struct ingest_stats stats;
    ingest_stats(w->ingest, &stats);
    *ret = (struct control_status){
        .version = DIVERGE_VERSION,
        .store_path = w->config->store,
        .socket_path = w->config->socket,
        .pid = (int32_t)getpid(),
        .started_unix_us = w->started_unix_us,
        .connections = atomic_load(&w->connections),
        .producers = stats.connections,
        .frames = stats.frames,
        .records = stats.records,
        .commits = stats.commits,
        .read_only = ingest_is_read_only(w->ingest),
    };
}

static int host_stop(void *context, bool force)
{
    struct writer *w = context;
    struct ingest_stats stats;
    ingest_stats(w->ingest, &stats);
    if (stats.connections && !force)
        return DIVERGE_EBUSY;
    post(w, REPLY_STOP, 0, NULL, 0);
    return 0;
}

static void control_batch(struct writer *w, struct batch *batch)
{
    const struct control_host host = {.context = w, .status = host_status, .stop = host_stop};
    struct dvg_frame frame;
    size_t size = 0;
    int rc = DIVERGE_ECLOSED;
    if (!w->failed && !batch->link->refused &&
        dvg_frame_decode(rest_of(batch), DVG_CONTROL_MAX, &frame, &size) == 1) {
        commit(w);
        rc = w->failed ? DIVERGE_ECLOSED : control_request(w->store, &host, frame.payload, &w->out);
        /* It may have made room. */
        if (!w->failed && ingest_is_read_only(w->ingest))
            commit(w);
    }
    if (rc)
        batch->link->refused = true;
    post_out(w, batch->link->id, rc != 0);
    post_credit(w, batch->link->id, batch->size);
    flush_replies(w);
    free(batch);
}

static void scan_batch(struct writer *w, struct batch *batch)
{
    w->rescan_ns = 0;
    free(batch);
}

static void ping_batch(struct writer *w, struct batch *batch)
{
    post(w, REPLY_PONG, 0, NULL, 0);
    flush_replies(w);
    free(batch);
}

/* False: that was the last one. */
static bool take_batch(struct writer *w, struct batch *batch)
{
    switch (batch->kind) {
    case BATCH_FRAMES:
        frames_batch(w, batch);
        break;
    case BATCH_CONTROL:
        control_batch(w, batch);
        break;
    case BATCH_CLOSED:
        closed_batch(w, batch);
        break;
    case BATCH_SCAN:
        scan_batch(w, batch);
        break;
    case BATCH_PING:
        ping_batch(w, batch);
        break;
    case BATCH_STOP:
        free(batch);
        return false;
    }
    return true;
}

/* After a commit went through, the batch that met the full disk goes on where it was. */
static void resume_stalled(struct writer *w)
{
    if (!w->stalled || (ingest_is_read_only(w->ingest) && !w->failed))
        return;
    struct batch *batch = w->stalled;
    w->stalled = NULL;
    frames_batch(w, batch);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void collect_garbage(struct writer *w)
{
    struct store_gc result = {0};
    int rc = store_gc(w->store, GC_SLICE_MS, &result);
    if (rc == DIVERGE_EAGAIN)
        return;
    w->gc_due = false;
    w->bytes_since_gc = 0;
    if (rc)
        log_event(LOG_WARNING, "gc_failed", log_number("status", rc),
                  log_text("reason", store_error_text(w->store)));
    else if (result.chunks_removed || result.segments_thinned)
        log_event(LOG_INFO, "gc", log_number("chunks_removed", (int64_t)result.chunks_removed),
                  log_number("segments_thinned", (int64_t)result.segments_thinned));
}

static void begin_scan(struct writer *w)
{
    w->rescan_ns = UINT64_MAX;
    int rc = orphans_open(w->ingest, w->config, &w->orphans);
    if (rc)
        w->rescan_ns = queue_now_ns() + RESCAN_MS * MS_NS;
    if (rc)
        log_event(LOG_WARNING, "spool_import_failed", log_number("status", rc));
}

static void go_on_scanning(struct writer *w)
{
    int rc = orphans_step(w->orphans);
    post_notices(w);
    if (rc > 0)
        return;
    if (orphans_left(w->orphans) && w->rescan_ns == UINT64_MAX)
        w->rescan_ns = queue_now_ns() + RESCAN_MS * MS_NS;
    orphans_free(w->orphans);
    w->orphans = NULL;
}

/* A queue that never runs empty must not let the store outgrow its cap. */
static bool gc_is_overdue(const struct writer *w)
{
    return w->gc_due && !w->failed && !w->group_open &&
           w->bytes_since_gc >= GC_OVERDUE * (uint64_t)w->config->checkpoint_bytes;
}

/* Upkeep that waits until there is nothing else to do. False: nothing was due. */
static bool idle_work(struct writer *w)
{
    if (w->failed || ingest_is_read_only(w->ingest) || atomic_load(&w->stopping))
        return false;
    if (!w->orphans && queue_now_ns() >= w->rescan_ns)
        begin_scan(w);
    if (w->orphans) {
        go_on_scanning(w);
        return true;
    }
    if (!w->gc_due)
        return false;
    collect_garbage(w);
    return true;
}

/* The next batch; does what is due while there is none. NULL: time to look again. */
static struct batch *next_batch(struct writer *w)
{
    bool urgent_only = w->stalled != NULL;
    struct batch *batch = queue_pop(&w->queue, urgent_only, 0);
    if (batch)
        return batch;
    flush_replies(w);
    if (!w->group_open) {
        return idle_work(w)
                   ? NULL
                   : queue_pop(&w->queue, urgent_only, w->failed ? UINT64_MAX : w->rescan_ns);
    }
    uint64_t deadline = group_deadline(w);
    if (deadline > queue_now_ns())
        batch = queue_pop(&w->queue, urgent_only, deadline);
    if (!batch && queue_now_ns() >= deadline)
        commit(w);
    return batch;
}

static void serve(struct writer *w)
{
    for (;;) {
        struct batch *batch = next_batch(w);
        if (batch && !take_batch(w, batch))
            return;
        if (w->failed)
            w->group_open = false;
        else if (group_is_large(w))
            commit(w);
        if (gc_is_overdue(w))
            collect_garbage(w);
        resume_stalled(w);
        /* A full disk does not keep the daemon from ending: producers keep what is not acknowledged
         * yet. */
        if (w->stalled && atomic_load(&w->stopping))
            return;
    }
}

static int open_store(struct writer *w, struct store_error *error)
{
    const struct config *config = w->config;
    const struct store_options options = {
        .synchronous_full = config->synchronous_full,
        .max_bytes = (uint64_t)config->retention_bytes,
        .max_segment_records = (uint64_t)config->max_segment_records,
        .max_open_bytes = (uint64_t)config->max_open_bytes,
    };
    int rc = store_open(config->store, &options, &w->store, error);
    if (rc)
        return rc;
    rc = store_recover(w->store);
    const struct ingest_limits limits = {
        .max_connections = (uint32_t)config->max_connections,
        .max_frame = (uint32_t)config->max_frame,
        .max_segment_records = (uint64_t)config->max_segment_records,
    };
    if (!rc)
        rc = ingest_new(w->store, &limits, &w->ingest);
    if (rc)
        snprintf(error->text, sizeof(error->text), "%s", store_error_text(w->store));
    return rc;
}

/* Ends what is open. Returns 0, or why something that was taken is not durable. */
static int close_store(struct writer *w)
{
    int rc = w->failed ? DIVERGE_EIO : ingest_commit(w->ingest);
    if (!w->failed)
        post_notices(w);
    orphans_free(w->orphans);
    free(w->stalled);
    ingest_free(w->ingest);
    store_close(w->store);
    return rc;
}

/* Lets the loop have its links back, whatever is still queued. */
static void drain(struct writer *w)
{
    struct batch *batch = NULL;
    while ((batch = queue_pop(&w->queue, false, 0))) {
        if (batch->kind == BATCH_CLOSED)
            post(w, REPLY_CLOSED, batch->link->id, NULL, 0);
        free(batch);
    }
}

static void *writer_main(void *argument)
{
    struct writer *w = argument;
    thread_checker_bind(&w->checker);
    prctl(PR_SET_NAME, "diverged-write");
    struct store_error error = {{0}};
    int rc = open_store(w, &error);
    if (rc) {
        ingest_free(w->ingest);
        store_close(w->store);
        post_text(w, REPLY_FAILED, rc, error.text);
    } else {
        w->gc_due = true;
        post_text(w, REPLY_READY, 0, "");
        serve(w);
        rc = close_store(w);
    }
    drain(w);
    post_done(w, rc);
    return NULL;
}

/* ---- the loop's side ------------------------------------------------------------------------- */

int writer_start(const struct config *config, void (*wake)(void *context), void *context,
                 struct writer **ret)
{
    struct writer *w = calloc(1, sizeof(*w));
    if (!w)
        return DIVERGE_ENOMEM;
    w->config = config;
    w->wake = wake;
    w->context = context;
    w->posted_end = &w->posted;
    w->unposted_end = &w->unposted;
    dvg_buffer_init(&w->out, REPLY_MAX);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    w->started_unix_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    w->done = malloc(sizeof(*w->done));
    if (!w->done || queue_init(&w->queue)) {
        free(w->done);
        free(w);
        return DIVERGE_ENOMEM;
    }
    pthread_mutex_init(&w->mutex, NULL);
    if (pthread_create(&w->thread, NULL, writer_main, w)) {
        pthread_mutex_destroy(&w->mutex);
        queue_fini(&w->queue);
        free(w->done);
        free(w);
        return DIVERGE_EUNAVAIL;
    }
    *ret = w;
    return 0;
}

void writer_push(struct writer *w, struct batch *batch)
{
    queue_push(&w->queue, batch);
}

struct reply *writer_take_replies(struct writer *w)
{
    pthread_mutex_lock(&w->mutex);
    struct reply *replies = w->posted;
    w->posted = NULL;
    w->posted_end = &w->posted;
    pthread_mutex_unlock(&w->mutex);
    return replies;
}

bool writer_is_broken(const struct writer *w)
{
    return atomic_load(&w->broken);
}

void writer_set_connections(struct writer *w, uint32_t count)
{
    atomic_store(&w->connections, count);
}

void writer_stop(struct writer *w, struct batch *stop)
{
    assert(stop->kind == BATCH_STOP);
    atomic_store(&w->stopping, true);
    queue_push(&w->queue, stop);
}

void writer_join(struct writer *w)
{
    if (!w)
        return;
    pthread_join(w->thread, NULL);
    struct reply *reply = w->posted;
    while (reply) {
        struct reply *next = reply->next;
        free(reply);
        reply = next;
    }
    queue_fini(&w->queue);
    pthread_mutex_destroy(&w->mutex);
    dvg_buffer_fini(&w->out);
    free(w);
}
