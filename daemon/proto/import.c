/* SPDX-License-Identifier: Apache-2.0 */
/* Recording and spool files, taken as if a producer had sent them. */

#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/recording.h"
#include "daemon/proto/ingest_state.h"

/* Frame bytes between commits. */
enum { IMPORT_GROUP = 32 * 1024 * 1024 };

/* Notices stay: those of other connections are for the caller, ours go with our entry. */
static int import_commit(struct ingest *ingest, struct ingest_import *ret)
{
    int rc = ingest_commit(ingest);
    if (rc)
        snprintf(ret->text, sizeof(ret->text), "could not be committed: %s",
                 store_error_text(ingest->store));
    return rc;
}

/* A file can hold several connections of its producer, each beginning with HELLO. */
static int import_frame(struct ingest *ingest, const struct ingest_peer *peer,
                        const struct dvg_frame *frame, struct dvg_buffer *replies,
                        struct ingest_import *ret)
{
    if (frame->type == DVG_MESSAGE_HELLO)
        ingest_closed(ingest, peer->connection);
    dvg_buffer_clear(replies);
    int rc = ingest_frame(ingest, peer, frame, replies);
    if (rc == DIVERGE_EAGAIN) {
        rc = DIVERGE_EFULL;
        snprintf(ret->text, sizeof(ret->text), "the store's disk is full");
    } else if (rc) {
        memcpy(ret->text, ingest->error.text, sizeof(ret->text));
    }
    if (rc)
        return rc;
    const struct ingest_connection *connection = ingest_find(ingest, peer->connection);
    ret->run = connection->run;
    ret->complete = frame->type == DVG_MESSAGE_BYE;
    ret->frames++;
    return 0;
}

static int import_frames(struct ingest *ingest, const struct ingest_peer *peer,
                         struct dvg_recording *recording, struct dvg_buffer *replies,
                         struct ingest_import *ret)
{
    size_t committed_at = recording->offset;
    struct dvg_frame frame;
    int more;
    while ((more = dvg_recording_next(recording, &frame)) > 0) {
        int rc = import_frame(ingest, peer, &frame, replies, ret);
        if (!rc && recording->offset - committed_at > IMPORT_GROUP) {
            rc = import_commit(ingest, ret);
            committed_at = recording->offset;
        }
        if (rc)
            return rc;
        if (ingest->progress)
            ingest->progress(recording->offset, recording->bytes.size);
    }
    ret->torn = recording->torn;
    if (more)
        snprintf(ret->text, sizeof(ret->text),
                 "damaged at byte %zu; what stands before it was taken", recording->offset);
    return more;
}

void ingest_watch(struct ingest *ingest, ingest_progress_fn *progress)
{
    ingest->progress = progress;
}

int ingest_recording(struct ingest *ingest, const struct ingest_peer *peer, struct dvg_bytes file,
                     struct ingest_import *ret)
{
    *ret = (struct ingest_import){0};
    struct dvg_recording recording;
    int rc = dvg_recording_init(&recording, file);
    if (rc) {
        snprintf(ret->text, sizeof(ret->text), "%s",
                 rc == DIVERGE_EVERSION ? "a recording of a newer diverged" : "not a recording");
        return rc;
    }
    struct dvg_buffer replies;
    dvg_buffer_init(&replies, DVG_FRAME_MAX);
    uint64_t before = ingest->stats.records;
    rc = import_frames(ingest, peer, &recording, &replies, ret);
    dvg_buffer_fini(&replies);
    ingest_closed(ingest, peer->connection);
    struct ingest_import ignored = {0};
    int rc_commit = import_commit(ingest, rc ? &ignored : ret);
    ret->records = ingest->stats.records - before;
    return rc ? rc : rc_commit;
}
