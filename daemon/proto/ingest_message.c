/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of each producer message. schema/PROTOCOL.md says the same in words. */

#include "daemon/proto/ingest_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/proto/json.h"
#include "daemon/proto/refuse.h"

enum {
    RUN_NAME_MAX = 127,
    ID_TEXT_MAX = 64,
    METADATA_KEY_MAX = 256,
    METADATA_VALUE_MAX = 64 * 1024,
};

static int store_refused(struct ingest *ingest, int rc, const char *what)
{
    return refuse(&ingest->error, rc, "%s: %s", what, store_error_text(ingest->store));
}

static int undecodable(struct ingest *ingest, int rc, const char *name)
{
    const char *why = rc == DIVERGE_EUNSUPPORTED
                          ? "it has a critical field that this daemon does not know"
                      : rc == DIVERGE_ELIMIT ? "a field is over its limit"
                                             : "a field is missing, twice there, or out of range";
    return refuse(&ingest->error, rc, "malformed %s: %s", name, why);
}

/* Copies a checked text (no NUL) into `buffer`; false when it does not fit. */
static bool copy_text(struct dvg_bytes text, char *buffer, size_t size)
{
    if (text.size >= size)
        return false;
    if (text.size)
        memcpy(buffer, text.data, text.size);
    buffer[text.size] = '\0';
    return true;
}

/* ---- HELLO ---- */

/* HELLO's texts, as the store wants them. */
struct greeting {
    char name[RUN_NAME_MAX + 1];
    char fingerprint_id[ID_TEXT_MAX + 1];
    char client[ID_TEXT_MAX + 1];
    char spec[DVG_STRING_MAX + 1];
};

static int read_greeting(struct ingest *ingest, const struct dvg_hello *hello, struct greeting *ret)
{
    if (!copy_text(hello->run_name, ret->name, sizeof(ret->name)))
        return refuse(&ingest->error, DIVERGE_ELIMIT,
                      "the run's name has %zu bytes; at most %d are allowed", hello->run_name.size,
                      RUN_NAME_MAX);
    if (!copy_text(hello->fingerprint_id, ret->fingerprint_id, sizeof(ret->fingerprint_id)) ||
        !copy_text(hello->client, ret->client, sizeof(ret->client)))
        return refuse(&ingest->error, DIVERGE_ELIMIT,
                      "fingerprint id and client have at most %d bytes each", ID_TEXT_MAX);
    if (!copy_text(hello->spec, ret->spec, sizeof(ret->spec)))
        return refuse(&ingest->error, DIVERGE_ELIMIT, "the capture spec is longer than %d bytes",
                      DVG_STRING_MAX);
    if (!ret->name[0])
        memcpy(ret->name, "run", sizeof("run"));
    return 0;
}

static struct ingest_connection *find_stream(const struct ingest *ingest,
                                             const uint8_t stream_id[16])
{
    for (uint32_t i = 0; i < ingest->n_connections; i++) {
        struct ingest_connection *other = ingest->connections[i];
        if (other->stream && !memcmp(other->stream_id, stream_id, 16))
            return other;
    }
    return NULL;
}

/*
 * Whether the stream may be opened: no other connection has it, or one with a lower epoch. What
 * that one brought becomes durable first, so that WELCOME says how far it came.
 */
static int check_epoch(struct ingest *ingest, const struct dvg_hello *hello,
                       struct ingest_connection **ret_other)
{
    struct ingest_connection *other = find_stream(ingest, hello->stream_id);
    *ret_other = other;
    if (!other)
        return 0;
    if (other->epoch >= hello->epoch)
        return refuse(&ingest->error, DIVERGE_EBUSY,
                      "this stream is connected with epoch %" PRIu64
                      "; connect with a higher one to take over",
                      other->epoch);
    int rc = ingest_commit(ingest);
    return rc ? store_refused(ingest, rc, "the older connection's data could not be stored") : 0;
}

/* The store has moved the stream to its new connection. */
static void retire(struct ingest *ingest, struct ingest_connection *other)
{
    store_stream_close(other->stream);
    other->stream = NULL;
    other->phase = INGEST_TAKEN;
    tables_fini(&other->tables);
    ingest->notice_at = 0;
}

static int open_stream(struct ingest *ingest, const struct dvg_hello *hello,
                       const struct greeting *greeting, struct ingest_connection *connection,
                       uint64_t *ret_committed)
{
    const struct ingest_peer *peer = &connection->peer;
    struct store_stream_options options = {
        .run = connection->run,
        .rank = hello->rank,
        .epoch = hello->epoch,
        .level = hello->level,
        .spec = greeting->spec,
        .fingerprint_id = greeting->fingerprint_id,
        .client = greeting->client,
        .peer_uid = peer->uid,
        .peer_pid = peer->pid,
    };
    memcpy(options.stream_id, hello->stream_id, sizeof(options.stream_id));
    int rc = store_stream_open(ingest->store, &options, &connection->stream, ret_committed);
    return rc ? store_refused(ingest, rc, "the stream could not be opened") : 0;
}

static int write_welcome(const struct ingest *ingest, const struct dvg_hello *hello,
                         const struct store_run *run, uint64_t committed,
                         struct dvg_buffer *replies)
{
    struct dvg_welcome welcome = {
        .major = DVG_PROTOCOL_MAJOR,
        .minor = DVG_PROTOCOL_MINOR,
        .committed_seq = committed,
        .max_frame = ingest->limits.max_frame,
        .max_segment_records = ingest->limits.max_segment_records,
        .run_name = {.data = (const uint8_t *)run->name, .size = strlen(run->name)},
        .read_only = ingest->read_only,
    };
    memcpy(welcome.run_id, hello->run_id, sizeof(welcome.run_id));
    return dvg_welcome_encode(replies, &welcome);
}

static int join_run(struct ingest *ingest, const struct dvg_hello *hello,
                    const struct greeting *greeting, struct ingest_connection *connection,
                    struct dvg_buffer *replies)
{
    /* First, so that who is refused has not changed the run, or made one. */
    int rc = store_stream_check(ingest->store, hello->stream_id, hello->run_id, hello->rank);
    if (rc == DIVERGE_EEXIST)
        return refuse(&ingest->error, rc,
                      "this stream id belongs to another run or rank; make a new random one");
    if (rc)
        return store_refused(ingest, rc, "the stream could not be opened");
    struct store_run run;
    rc = store_run_open(ingest->store, hello->run_id, greeting->name, hello->world, &run);
    if (rc)
        return store_refused(ingest, rc, "the run could not be opened");
    connection->run = run.id;
    connection->rank = hello->rank;
    connection->epoch = hello->epoch;
    memcpy(connection->stream_id, hello->stream_id, sizeof(connection->stream_id));
    uint64_t committed = 0;
    rc = open_stream(ingest, hello, greeting, connection, &committed);
    if (rc)
        return rc;
    connection->seq = committed;
    connection->jumped = hello->next_seq > committed + 1;
    if (connection->jumped)
        connection->seq = hello->next_seq - 1;
    rc = write_welcome(ingest, hello, &run, committed, replies);
    return rc ? refuse(&ingest->error, rc, "out of memory") : 0;
}

static int on_hello(struct ingest *ingest, const struct ingest_peer *peer,
                    const struct dvg_frame *frame, struct dvg_buffer *replies)
{
    struct dvg_hello hello;
    struct greeting greeting;
    int rc = dvg_hello_decode(frame->payload, &hello);
    if (rc == DIVERGE_EVERSION)
        return refuse(&ingest->error, rc,
                      "this daemon speaks protocol %d.%d; use a client of the same major version",
                      DVG_PROTOCOL_MAJOR, DVG_PROTOCOL_MINOR);
    if (rc)
        return undecodable(ingest, rc, "HELLO");
    if (ingest->read_only)
        return refuse(&ingest->error, DIVERGE_EFULL,
                      "the store's disk is full; keep the data and connect again later");
    struct ingest_connection *other = NULL;
    rc = read_greeting(ingest, &hello, &greeting);
    if (!rc)
        rc = check_epoch(ingest, &hello, &other);
    if (rc)
        return rc;
    rc = ingest_begin(ingest);
    if (rc)
        return store_refused(ingest, rc, "the store is not ready");
    struct ingest_connection *connection;
    rc = ingest_add(ingest, peer, &connection);
    if (rc == DIVERGE_ELIMIT)
        return refuse(&ingest->error, rc, "more than %u producers at once",
                      ingest->limits.max_connections);
    if (rc)
        return refuse(&ingest->error, rc, "out of memory");
    rc = join_run(ingest, &hello, &greeting, connection, replies);
    if (!rc && other)
        retire(ingest, other);
    return rc;
}

/* ---- definitions ---- */

static int on_definitions(struct ingest *ingest, struct ingest_connection *connection,
                          const struct dvg_frame *frame)
{
    struct dvg_definitions message;
    int rc = dvg_definitions_decode(frame->payload, &message);
    if (rc)
        return undecodable(ingest, rc, dvg_message_name(frame->type));
    rc = ingest_begin(ingest);
    if (rc)
        return store_refused(ingest, rc, "the store is not ready");
    return tables_define(&connection->tables, ingest->store, (enum dvg_message)frame->type,
                         &message, &ingest->error);
}

/* ---- sequenced messages ---- */

static int on_part(struct ingest *ingest, struct ingest_connection *connection,
                   struct dvg_bytes payload)
{
    struct dvg_part part;
    int rc = dvg_part_decode(payload, &part);
    if (rc)
        return undecodable(ingest, rc, "PART");
    struct store_part resolved;
    rc = tables_resolve(&connection->tables, &part, &ingest->scratch, &resolved, &ingest->error);
    if (rc)
        return rc;
    rc = store_part_append(connection->stream, &resolved);
    /*
     * Its beginning is among the messages that HELLO said are lost: END's counts will tell the gap.
     */
    if (rc == DIVERGE_EGAP && connection->jumped)
        return 0;
    if (rc)
        return store_refused(ingest, rc, "PART not stored");
    ingest->stats.records += part.count;
    return 0;
}

static int on_end(struct ingest *ingest, struct ingest_connection *connection,
                  struct dvg_bytes payload)
{
    struct dvg_end end;
    int rc = dvg_end_decode(payload, &end);
    if (rc)
        return undecodable(ingest, rc, "END");
    rc = store_segment_seal(connection->stream, &end);
    return rc ? store_refused(ingest, rc, "segment not sealed") : 0;
}

/* Values that are not strings are kept as JSON text. */
static int set_metadata(struct ingest *ingest, const struct ingest_connection *connection,
                        const cJSON *item)
{
    char *printed = cJSON_IsString(item) ? NULL : json_text(item);
    const char *value = printed ? printed : item->valuestring;
    int rc;
    if (!value)
        rc = refuse(&ingest->error, DIVERGE_ENOMEM, "out of memory");
    else if (!item->string[0] || strlen(item->string) > METADATA_KEY_MAX ||
             strlen(value) > METADATA_VALUE_MAX)
        rc = refuse(&ingest->error, DIVERGE_ELIMIT,
                    "metadata: a key has 1 to %d bytes, a value at most %d", METADATA_KEY_MAX,
                    METADATA_VALUE_MAX);
    else
        rc = store_run_metadata(ingest->store, connection->run, connection->rank, item->string,
                                value);
    if (rc && !ingest->error.text[0])
        store_refused(ingest, rc, "metadata not stored");
    free(printed);
    return rc;
}

static int on_metadata(struct ingest *ingest, struct ingest_connection *connection,
                       struct dvg_bytes payload)
{
    struct dvg_metadata message;
    int rc = dvg_metadata_decode(payload, &message);
    if (rc)
        return undecodable(ingest, rc, "METADATA");
    cJSON *object;
    const char *why;
    rc = json_parse(message.json, &object, &why);
    if (rc)
        return refuse(&ingest->error, rc, "METADATA: %s", why);
    const uint32_t before = connection->n_metadata;
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        if (!rc && ++connection->n_metadata > ingest->limits.max_metadata)
            rc = refuse(&ingest->error, DIVERGE_ELIMIT,
                        "more than %u metadata entries; is a value per step meant to be a scalar?",
                        ingest->limits.max_metadata);
        if (!rc)
            rc = set_metadata(ingest, connection, item);
    }
    cJSON_Delete(object);
    if (rc)
        connection->n_metadata = before; /* it may be offered again */
    return rc;
}

static int on_bye(struct ingest *ingest, struct ingest_connection *connection,
                  struct dvg_bytes payload)
{
    struct dvg_bye bye;
    int rc = dvg_bye_decode(payload, &bye);
    if (rc)
        return undecodable(ingest, rc, "BYE");
    rc = store_stream_end(connection->stream, (enum diverge_outcome)bye.outcome, bye.dropped);
    if (rc)
        return store_refused(ingest, rc, "the stream could not be ended");
    connection->phase = INGEST_ENDED;
    return 0;
}

static int take_sequenced(struct ingest *ingest, struct ingest_connection *connection,
                          const struct dvg_frame *frame)
{
    switch (frame->type) {
    case DVG_MESSAGE_PART:
        return on_part(ingest, connection, frame->payload);
    case DVG_MESSAGE_END:
        return on_end(ingest, connection, frame->payload);
    case DVG_MESSAGE_METADATA:
        return on_metadata(ingest, connection, frame->payload);
    default:
        return on_bye(ingest, connection, frame->payload);
    }
}

static int on_sequenced(struct ingest *ingest, struct ingest_connection *connection,
                        const struct dvg_frame *frame)
{
    if (!frame->seq || frame->seq > DVG_SEQ_MAX)
        return refuse(&ingest->error, DIVERGE_EPROTO, "%s without a sequence number",
                      dvg_message_name(frame->type));
    if (frame->seq > connection->seq + 1)
        return refuse(&ingest->error, DIVERGE_EGAP,
                      "sequence number %" PRIu64 " where %" PRIu64
                      " comes next; connect again and send from there",
                      frame->seq, connection->seq + 1);
    if (frame->seq <= connection->seq) {
        ingest->stats.repeated++;
    } else {
        if (connection->phase == INGEST_ENDED)
            return refuse(&ingest->error, DIVERGE_ESTATE, "%s after BYE",
                          dvg_message_name(frame->type));
        int rc = ingest_begin(ingest);
        if (rc)
            return store_refused(ingest, rc, "the store is not ready");
        rc = take_sequenced(ingest, connection, frame);
        if (rc)
            return rc;
        store_stream_set_seq(connection->stream, frame->seq);
        connection->seq = frame->seq;
    }
    connection->ack_due = true;
    ingest->acks_waiting = true;
    return 0;
}

/* ---- dispatch ---- */

enum family {
    FAMILY_OTHER,
    FAMILY_DEFINITION,
    FAMILY_SEQUENCED,
};

static enum family family_of(unsigned type)
{
    switch (type) {
    case DVG_MESSAGE_STRINGS:
    case DVG_MESSAGE_SITES:
    case DVG_MESSAGE_TYPES:
    case DVG_MESSAGE_ARGUMENTS:
        return FAMILY_DEFINITION;
    case DVG_MESSAGE_PART:
    case DVG_MESSAGE_END:
    case DVG_MESSAGE_METADATA:
    case DVG_MESSAGE_BYE:
        return FAMILY_SEQUENCED;
    default:
        return FAMILY_OTHER;
    }
}

int ingest_message(struct ingest *ingest, const struct ingest_peer *peer,
                   const struct dvg_frame *frame, struct dvg_buffer *replies)
{
    struct ingest_connection *connection = ingest_find(ingest, peer->connection);
    const char *name = dvg_message_name(frame->type);
    enum family family = family_of(frame->type);
    if (!name)
        return refuse(&ingest->error, DIVERGE_EUNSUPPORTED, "message type %u is not known",
                      frame->type);
    if (frame->payload.size > ingest->limits.max_frame)
        return refuse(&ingest->error, DIVERGE_ELIMIT, "%s of %zu bytes; at most %u are allowed",
                      name, frame->payload.size, ingest->limits.max_frame);
    if (frame->type != DVG_MESSAGE_HELLO && family == FAMILY_OTHER)
        return refuse(&ingest->error, DIVERGE_EPROTO, "%s is not a producer's message", name);
    if (frame->seq && family != FAMILY_SEQUENCED)
        return refuse(&ingest->error, DIVERGE_EPROTO, "%s must not have a sequence number", name);
    if (frame->type == DVG_MESSAGE_HELLO)
        return connection ? refuse(&ingest->error, DIVERGE_ESTATE, "HELLO twice on one connection")
                          : on_hello(ingest, peer, frame, replies);
    if (!connection)
        return refuse(&ingest->error, DIVERGE_ESTATE, "%s before HELLO", name);
    if (connection->phase == INGEST_TAKEN)
        return refuse(&ingest->error, DIVERGE_EBUSY,
                      "another connection of this stream, with a higher epoch, took over");
    if (ingest->read_only)
        return DIVERGE_EAGAIN;
    return family == FAMILY_DEFINITION ? on_definitions(ingest, connection, frame)
                                       : on_sequenced(ingest, connection, frame);
}
