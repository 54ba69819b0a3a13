/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/outbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

/* ---- life ------------------------------------------------------------------------------------ */

static int spool_path(struct dvg_outbox *outbox, const struct dvg_config *config)
{
    char name[33];
    for (int i = 0; i < 16; i++)
        snprintf(name + 2 * i, 3, "%02x", outbox->hello->stream_id[i]);
    int size = snprintf(outbox->spool.path, sizeof(outbox->spool.path), "%s/%s.spool",
                        config->spool_dir, name);
    return size > 0 && (size_t)size < sizeof(outbox->spool.path) ? 0 : DIVERGE_EINVAL;
}

int dvg_outbox_init(struct dvg_outbox *outbox, const struct dvg_config *config,
                    struct dvg_define *define, struct dvg_hello *hello)
{
    *outbox = (struct dvg_outbox){
        .config = config,
        .hello = hello,
        .recording = *config->recording != '\0',
        .spool_usable = true,
    };
    dvg_spool_init(&outbox->spool, define, outbox->recording ? 0 : config->spool_bytes);
    if (!outbox->recording)
        return spool_path(outbox, config);
    memcpy(outbox->spool.path, config->recording, sizeof(outbox->spool.path));
    hello->next_seq = 1;
    return dvg_spool_create(&outbox->spool, hello);
}

static void drop_first(struct dvg_outbox *outbox)
{
    struct dvg_queued *first = outbox->first;
    outbox->first = first->next;
    if (!outbox->first)
        outbox->last = NULL;
    if (outbox->unsent == first)
        outbox->unsent = first->next;
    outbox->queue_bytes -= first->size;
    free(first);
}

void dvg_outbox_fini(struct dvg_outbox *outbox)
{
    while (outbox->first)
        drop_first(outbox);
    dvg_spool_fini(&outbox->spool);
    free(outbox->marks);
    outbox->marks = NULL;
}

/* ---- acknowledgement ------------------------------------------------------------------------- */

static int add_mark(struct dvg_outbox *outbox, uint64_t seq, uint64_t records)
{
    if (outbox->n_marks == outbox->marks_capacity) {
        uint32_t capacity = outbox->marks_capacity ? outbox->marks_capacity * 2 : 64;
        struct dvg_mark *marks = malloc(capacity * sizeof(*marks));
        if (!marks)
            return DIVERGE_ENOMEM;
        for (uint32_t i = 0; i < outbox->n_marks; i++)
            marks[i] = outbox->marks[(outbox->first_mark + i) % outbox->marks_capacity];
        free(outbox->marks);
        outbox->marks = marks;
        outbox->marks_capacity = capacity;
        outbox->first_mark = 0;
    }
    outbox->marks[(outbox->first_mark + outbox->n_marks++) % outbox->marks_capacity] =
        (struct dvg_mark){.seq = seq, .records = records};
    return 0;
}

int dvg_outbox_ack(struct dvg_outbox *outbox, uint64_t seq)
{
    if (seq > outbox->made)
        return DIVERGE_EGAP;
    if (seq <= outbox->acked)
        return 0;
    outbox->acked = seq;
    while (outbox->first && outbox->first->seq <= seq)
        drop_first(outbox);
    while (outbox->n_marks && outbox->marks[outbox->first_mark].seq <= seq) {
        outbox->committed = outbox->marks[outbox->first_mark].records;
        outbox->first_mark = (outbox->first_mark + 1) % outbox->marks_capacity;
        outbox->n_marks--;
    }
    if (!outbox->recording && outbox->spool.fd >= 0 && outbox->spool.last <= seq)
        dvg_spool_remove(&outbox->spool);
    return 0;
}

/* ---- in -------------------------------------------------------------------------------------- */

bool dvg_outbox_admits(const struct dvg_outbox *outbox, int tier, size_t size)
{
    /* Sixteenths of the space that a tier may use; evidence is small and explains the rest. */
    static const uint8_t shares[DIVERGE_TIER_COUNT + 1] = {
        [DIVERGE_TIER_PULSE] = 14, [DIVERGE_TIER_STEP] = 13,     [DIVERGE_TIER_LAYER] = 12,
        [DIVERGE_TIER_OP] = 11,    [DIVERGE_TIER_EVIDENCE] = 14, [DIVERGE_TIER_COUNT] = 16,
    };
    uint64_t cap = outbox->spool_usable ? outbox->spool.cap : DVG_QUEUE_BYTES;
    uint64_t used = outbox->spool_usable ? outbox->spool.size : outbox->queue_bytes;
    if (!cap) /* a recording: as much as the disk has */
        return true;
    uint64_t share = cap / 16 * shares[tier];
    return used <= share && size <= share - used;
}

static bool spool_active(const struct dvg_outbox *outbox)
{
    return outbox->spool.fd >= 0;
}

static int spool_start(struct dvg_outbox *outbox, uint64_t seq)
{
    int rc = dvg_folder_check(outbox->config->spool_dir, true, &outbox->error);
    if (rc)
        return rc;
    outbox->hello->next_seq = seq;
    rc = dvg_spool_create(&outbox->spool, outbox->hello);
    if (rc)
        snprintf(outbox->error.text, sizeof(outbox->error.text),
                 "cannot make the spool file %s: %s", outbox->spool.path, strerror(errno));
    return rc;
}

/* Appends one frame to the spool, which is made when there is none. */
static int spool_frame(struct dvg_outbox *outbox, const uint8_t *frame, size_t size, uint64_t seq)
{
    int rc = spool_active(outbox) ? 0 : spool_start(outbox, seq);
    if (rc)
        return rc;
    rc = dvg_spool_append(&outbox->spool, frame, size, seq);
    if (rc && rc != DIVERGE_EFULL)
        snprintf(outbox->error.text, sizeof(outbox->error.text),
                 "cannot write the spool file %s: %s", outbox->spool.path, strerror(errno));
    return rc;
}

int dvg_outbox_spill(struct dvg_outbox *outbox)
{
    while (outbox->first) {
        struct dvg_queued *first = outbox->first;
        int rc = spool_frame(outbox, first->frame, first->size, first->seq);
        if (rc)
            return rc;
        drop_first(outbox);
    }
    return 0;
}

static int enqueue(struct dvg_outbox *outbox, const struct dvg_buffer *frame, uint64_t seq)
{
    struct dvg_queued *queued = malloc(sizeof(*queued) + frame->size);
    if (!queued)
        return DIVERGE_ENOMEM;
    *queued = (struct dvg_queued){.seq = seq, .size = frame->size};
    memcpy(queued->frame, frame->data, frame->size);
    if (outbox->last)
        outbox->last->next = queued;
    else
        outbox->first = queued;
    outbox->last = queued;
    if (!outbox->unsent)
        outbox->unsent = queued;
    outbox->queue_bytes += frame->size;
    return 0;
}

static bool queue_is_full(const struct dvg_outbox *outbox, size_t size)
{
    return outbox->queue_bytes + size > DVG_QUEUE_BYTES;
}

/* Whether the next frame of `size` goes into the spool: that one has older ones, or the queue can't
 * have it. */
static bool goes_to_spool(const struct dvg_outbox *outbox, size_t size, bool away)
{
    bool drained = outbox->sent >= outbox->spool.last;
    return outbox->spool_usable &&
           (away || queue_is_full(outbox, size) || (spool_active(outbox) && !drained));
}

bool dvg_outbox_has_room(const struct dvg_outbox *outbox, int tier, size_t size, bool away)
{
    if (!dvg_outbox_admits(outbox, tier, size))
        return false;
    if (outbox->recording)
        return true;
    if (!goes_to_spool(outbox, size, away))
        return !queue_is_full(outbox, size);
    /* The queue goes there first. */
    uint64_t used = outbox->spool.size + outbox->queue_bytes;
    return used <= outbox->spool.cap && size <= outbox->spool.cap - used;
}

/* The spool first when it has frames that are older than the queue's, then the queue. */
static int keep(struct dvg_outbox *outbox, const struct dvg_buffer *frame, uint64_t seq, bool away)
{
    if (outbox->recording)
        return dvg_spool_append(&outbox->spool, frame->data, frame->size, seq);
    if (goes_to_spool(outbox, frame->size, away)) {
        int rc = dvg_outbox_spill(outbox);
        if (!rc)
            rc = spool_frame(outbox, frame->data, frame->size, seq);
        if (!rc || rc == DIVERGE_EFULL)
            return rc;
        outbox->spool_usable = false;
    }
    return queue_is_full(outbox, frame->size) ? DIVERGE_EFULL : enqueue(outbox, frame, seq);
}

int dvg_outbox_put(struct dvg_outbox *outbox, const struct dvg_buffer *frame, uint64_t records,
                   bool away)
{
    uint64_t seq = outbox->made + 1;
    /* The mark first: it is what can still be taken back. */
    if (records) {
        int rc = add_mark(outbox, seq, outbox->records + records);
        if (rc)
            return rc;
    }
    int rc = keep(outbox, frame, seq, away);
    if (rc) {
        if (records)
            outbox->n_marks--;
        return rc;
    }
    outbox->made = seq;
    outbox->records += records;
    outbox->bytes += frame->size;
    return outbox->recording ? dvg_outbox_ack(outbox, seq) : 0;
}

/* ---- out ------------------------------------------------------------------------------------- */

int dvg_outbox_next(struct dvg_outbox *outbox, struct dvg_buffer *out)
{
    if (spool_active(outbox) && outbox->sent < outbox->spool.last) {
        uint64_t seq;
        int rc = dvg_spool_read(&outbox->spool, outbox->sent, out, &seq);
        if (rc == 1)
            outbox->sent = seq;
        return rc ? rc : DIVERGE_ECORRUPT; /* it is not there any more */
    }
    struct dvg_queued *next = outbox->unsent;
    if (!next)
        return 0;
    int rc = dvg_buffer_append(out, next->frame, next->size);
    if (rc)
        return rc;
    outbox->sent = next->seq;
    outbox->unsent = next->next;
    return 1;
}

int dvg_outbox_resume(struct dvg_outbox *outbox, uint64_t committed)
{
    int rc = dvg_outbox_ack(outbox, committed);
    if (rc)
        return rc;
    if (committed < outbox->acked)
        return DIVERGE_EGAP; /* the store has lost what it acknowledged */
    outbox->sent = committed;
    outbox->unsent = outbox->first;
    dvg_spool_rewind(&outbox->spool);
    return 0;
}
