/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, groups and notices. What the frames mean is in ingest_message.c. */

#include "daemon/proto/ingest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/proto/ingest_state.h"
#include "daemon/proto/refuse.h"

enum { NOTICE_MAX = DVG_FRAME_HEADER + 64 + 2 * DVG_STRING_MAX };

static const struct ingest_limits default_limits = {
    .max_connections = 1024,
    .max_strings = 1 << 20,
    .max_sites = 4 << 20,
    .max_types = 1 << 20,
    .max_arguments = 1 << 20,
    .max_metadata = 16384,
    .max_frame = DVG_FRAME_MAX,
    .max_segment_records = 16 << 20,
};

static struct ingest_limits with_defaults(const struct ingest_limits *given)
{
    struct ingest_limits limits = given ? *given : default_limits;
#define DEFAULT(member) limits.member = limits.member ? limits.member : default_limits.member
    DEFAULT(max_connections);
    DEFAULT(max_strings);
    DEFAULT(max_sites);
    DEFAULT(max_types);
    DEFAULT(max_arguments);
    DEFAULT(max_metadata);
    DEFAULT(max_frame);
    DEFAULT(max_segment_records);
#undef DEFAULT
    return limits;
}

int ingest_new(struct store *store, const struct ingest_limits *limits, struct ingest **ret)
{
    struct ingest *ingest = calloc(1, sizeof(*ingest));
    if (!ingest)
        return DIVERGE_ENOMEM;
    ingest->store = store;
    ingest->limits = with_defaults(limits);
    dvg_buffer_init(&ingest->notice, NOTICE_MAX);
    *ret = ingest;
    return 0;
}

void ingest_free(struct ingest *ingest)
{
    if (!ingest)
        return;
    while (ingest->n_connections)
        ingest_remove(ingest, ingest->connections[0]);
    free(ingest->connections);
    tables_scratch_fini(&ingest->scratch);
    dvg_buffer_fini(&ingest->notice);
    free(ingest);
}

/* ---- connections ---- */

struct ingest_connection *ingest_find(const struct ingest *ingest, uint64_t connection)
{
    for (uint32_t i = 0; i < ingest->n_connections; i++) {
        if (ingest->connections[i]->peer.connection == connection)
            return ingest->connections[i];
    }
    return NULL;
}

static int reserve_connection(struct ingest *ingest)
{
    if (ingest->n_connections < ingest->capacity)
        return 0;
    uint32_t capacity = ingest->capacity ? 2 * ingest->capacity : 16;
    struct ingest_connection **grown =
        realloc(ingest->connections, capacity * sizeof(struct ingest_connection *));
    if (!grown)
        return DIVERGE_ENOMEM;
    ingest->connections = grown;
    ingest->capacity = capacity;
    return 0;
}

int ingest_add(struct ingest *ingest, const struct ingest_peer *peer,
               struct ingest_connection **ret)
{
    if (ingest->n_connections >= ingest->limits.max_connections)
        return DIVERGE_ELIMIT;
    int rc = reserve_connection(ingest);
    if (rc)
        return rc;
    struct ingest_connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return DIVERGE_ENOMEM;
    connection->peer = *peer;
    struct tables_limits limits = {
        .max_strings = ingest->limits.max_strings,
        .max_sites = ingest->limits.max_sites,
        .max_types = ingest->limits.max_types,
        .max_arguments = ingest->limits.max_arguments,
    };
    rc = tables_init(&connection->tables, &limits);
    if (rc) {
        free(connection);
        return rc;
    }
    ingest->connections[ingest->n_connections++] = connection;
    *ret = connection;
    return 0;
}

void ingest_remove(struct ingest *ingest, struct ingest_connection *connection)
{
    if (connection->stream)
        store_stream_close(connection->stream);
    tables_fini(&connection->tables);
    uint32_t at = 0;
    while (ingest->connections[at] != connection)
        at++;
    ingest->connections[at] = ingest->connections[--ingest->n_connections];
    ingest->notice_at = 0;
    free(connection);
}

/* Closing can change the run's status, so it belongs to a group. */
void ingest_closed(struct ingest *ingest, uint64_t connection)
{
    struct ingest_connection *gone = ingest_find(ingest, connection);
    if (!gone)
        return;
    if (gone->stream)
        (void)ingest_begin(ingest); /* when it fails, the next group sees to the status */
    ingest_remove(ingest, gone);
}

/* ---- groups ---- */

int ingest_begin(struct ingest *ingest)
{
    if (ingest->grouped)
        return 0;
    int rc = store_begin(ingest->store);
    if (!rc)
        ingest->grouped = true;
    return rc;
}

static void tell_state(struct ingest *ingest)
{
    for (uint32_t i = 0; i < ingest->n_connections; i++)
        ingest->connections[i]->state_due = ingest->connections[i]->phase != INGEST_TAKEN;
    ingest->notice_at = 0;
}

int ingest_hold(struct ingest *ingest)
{
    if (!ingest->read_only) {
        ingest->read_only = true;
        tell_state(ingest);
    }
    return DIVERGE_EAGAIN;
}

static void ready_acks(struct ingest *ingest)
{
    for (uint32_t i = 0; i < ingest->n_connections; i++) {
        struct ingest_connection *connection = ingest->connections[i];
        connection->ack_ready = connection->ack_ready || connection->ack_due;
        connection->ack_due = false;
    }
    ingest->acks_waiting = false;
    ingest->notice_at = 0;
}

int ingest_commit(struct ingest *ingest)
{
    if (ingest->grouped) {
        int rc = store_commit(ingest->store);
        if (rc == DIVERGE_EFULL)
            ingest_hold(ingest);
        if (rc)
            return rc;
        ingest->grouped = false;
        ingest->stats.commits++;
    }
    if (ingest->read_only) {
        ingest->read_only = false;
        tell_state(ingest);
    }
    if (ingest->acks_waiting)
        ready_acks(ingest);
    return 0;
}

/* ---- notices ---- */

static struct dvg_bytes as_bytes(const char *text)
{
    return (struct dvg_bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

static int write_taken(struct dvg_buffer *out)
{
    const struct dvg_error_message message = {
        .status = DIVERGE_EBUSY,
        .fatal = 1,
        .text = as_bytes("another connection of this stream, with a higher epoch, took over"),
    };
    return dvg_error_encode(out, &message);
}

static int write_state(const struct ingest *ingest, struct dvg_buffer *out)
{
    const struct dvg_state message = {
        .read_only = ingest->read_only,
        .text = as_bytes(ingest->read_only
                             ? "the store's disk is full: free space, or run divergectl gc; keep "
                               "what is not acknowledged"
                             : "the store takes data again"),
    };
    return dvg_state_encode(out, &message);
}

/* Writes what is due for a connection, most urgent first: 1, 0 for nothing, or negative. */
static int write_notice(struct ingest *ingest, struct ingest_connection *connection)
{
    int rc;
    if (connection->phase == INGEST_TAKEN) {
        rc = write_taken(&ingest->notice);
    } else if (connection->state_due) {
        rc = write_state(ingest, &ingest->notice);
        connection->state_due = rc != 0;
    } else if (connection->ack_ready) {
        rc = dvg_ack_encode(&ingest->notice, &(struct dvg_ack){.committed_seq = connection->seq});
        connection->ack_ready = rc != 0;
    } else {
        return 0;
    }
    return rc ? rc : 1;
}

bool ingest_next_notice(struct ingest *ingest, struct ingest_notice *ret)
{
    dvg_buffer_clear(&ingest->notice);
    for (; ingest->notice_at < ingest->n_connections; ingest->notice_at++) {
        struct ingest_connection *connection = ingest->connections[ingest->notice_at];
        int rc = write_notice(ingest, connection);
        if (rc < 0)
            return false; /* out of memory: still due, next time */
        if (!rc)
            continue;
        *ret = (struct ingest_notice){
            .connection = connection->peer.connection,
            .frame = {.data = ingest->notice.data, .size = ingest->notice.size},
            .close = connection->phase == INGEST_TAKEN,
        };
        if (ret->close)
            ingest_remove(ingest, connection);
        return true;
    }
    return false;
}

/* ---- frames ---- */

static void write_refusal(const struct ingest *ingest, int status, struct dvg_buffer *replies)
{
    const struct dvg_error_message message = {
        .status = status,
        .fatal = 1,
        .text = as_bytes(ingest->error.text),
    };
    /* When there is no memory for it, the connection closes without a word. */
    (void)dvg_error_encode(replies, &message);
}

int ingest_frame(struct ingest *ingest, const struct ingest_peer *peer,
                 const struct dvg_frame *frame, struct dvg_buffer *replies)
{
    ingest->stats.frames++;
    ingest->error.text[0] = '\0';
    int rc = ingest_message(ingest, peer, frame, replies);
    if (rc == DIVERGE_EFULL) {
        ingest_hold(ingest);
        if (frame->type != DVG_MESSAGE_HELLO)
            rc = DIVERGE_EAGAIN;
    }
    if (rc == DIVERGE_EAGAIN)
        ingest->stats.frames--;
    if (!rc || rc == DIVERGE_EAGAIN)
        return rc;
    write_refusal(ingest, rc, replies);
    ingest_closed(ingest, peer->connection);
    return rc;
}

bool ingest_is_read_only(const struct ingest *ingest)
{
    return ingest->read_only;
}

bool ingest_is_producer(const struct ingest *ingest, uint64_t connection)
{
    return ingest_find(ingest, connection) != NULL;
}

void ingest_stats(const struct ingest *ingest, struct ingest_stats *ret)
{
    *ret = ingest->stats;
    ret->connections = ingest->n_connections;
}
