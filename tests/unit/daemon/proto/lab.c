/* SPDX-License-Identifier: Apache-2.0 */

#include "tests/unit/daemon/proto/lab.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_store(struct lab *lab)
{
    struct store_error error = {0};
    int rc = store_open(lab->path, NULL, &lab->store, &error);
    if (rc)
        fail_msg("store_open: %d %s", rc, error.text);
    assert_int_equal(ingest_new(lab->store, &lab->limits, &lab->ingest), 0);
}

struct lab *lab_new(const struct ingest_limits *limits)
{
    struct lab *lab = calloc(1, sizeof(*lab));
    assert_non_null(lab);
    dvg_tempdir_make(lab->dir);
    snprintf(lab->path, sizeof(lab->path), "%s/s/diverge.db", lab->dir);
    if (limits)
        lab->limits = *limits;
    dvg_buffer_init(&lab->out, SIZE_MAX);
    dvg_buffer_init(&lab->replies, DVG_FRAME_MAX);
    open_store(lab);
    return lab;
}

void lab_free(struct lab *lab)
{
    ingest_free(lab->ingest);
    store_close(lab->store);
    dvg_buffer_fini(&lab->out);
    dvg_buffer_fini(&lab->replies);
    dvg_tempdir_remove(lab->dir);
    free(lab);
}

void lab_restart(struct lab *lab)
{
    ingest_free(lab->ingest);
    store_close(lab->store);
    open_store(lab);
    assert_int_equal(store_recover(lab->store), 0);
}

/* ---- frames ---- */

int lab_send(struct lab *lab, uint64_t connection)
{
    const struct ingest_peer peer = {.connection = connection, .uid = 1000, .pid = 77};
    struct dvg_bytes rest = {.data = lab->out.data, .size = lab->out.size};
    struct dvg_frame frame;
    size_t size;
    int rc = 0;
    while (!rc && rest.size) {
        assert_int_equal(dvg_frame_decode(rest, UINT32_MAX, &frame, &size), 1);
        dvg_buffer_clear(&lab->replies);
        rc = ingest_frame(lab->ingest, &peer, &frame, &lab->replies);
        rest.data += size;
        rest.size -= size;
    }
    dvg_buffer_clear(&lab->out);
    return rc;
}

/* Exactly one frame. */
static struct dvg_frame only_frame(struct dvg_bytes bytes)
{
    struct dvg_frame frame;
    size_t size;
    assert_int_equal(dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size), 1);
    assert_int_equal(size, bytes.size);
    return frame;
}

unsigned lab_reply(const struct lab *lab, char text[512])
{
    if (!lab->replies.size)
        return 0;
    struct dvg_bytes bytes = {.data = lab->replies.data, .size = lab->replies.size};
    struct dvg_frame frame = only_frame(bytes);
    struct dvg_error_message message;
    if (frame.type == DVG_MESSAGE_ERROR && text) {
        assert_int_equal(dvg_error_decode(frame.payload, &message), 0);
        assert_true(message.text.size < 512);
        memcpy(text, message.text.data, message.text.size);
        text[message.text.size] = '\0';
    }
    return frame.type;
}

void lab_assert_refused(const struct lab *lab, int status, const char *words)
{
    struct dvg_bytes bytes = {.data = lab->replies.data, .size = lab->replies.size};
    struct dvg_frame frame = only_frame(bytes);
    assert_int_equal(frame.type, DVG_MESSAGE_ERROR);
    struct dvg_error_message message;
    assert_int_equal(dvg_error_decode(frame.payload, &message), 0);
    assert_int_equal(message.status, status);
    assert_int_equal(message.fatal, 1);
    char text[512];
    lab_reply(lab, text);
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

static struct dvg_bytes bytes_of(const char *text)
{
    return (struct dvg_bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

int lab_hello(struct lab *lab, uint64_t connection, const struct lab_hello *hello,
              struct dvg_welcome *ret_welcome)
{
    struct dvg_hello message = {
        .major = DVG_PROTOCOL_MAJOR,
        .stream_id = {[0] = 1, [15] = hello->stream},
        .run_id = {[0] = 2, [15] = hello->run},
        .epoch = hello->epoch,
        .rank = hello->rank,
        .world = hello->world ? hello->world : 1,
        .level = DIVERGE_TIER_OP,
        .next_seq = hello->next_seq,
        .run_name = bytes_of(hello->name ? hello->name : "run"),
        .fingerprint_id = bytes_of("l61.1"),
        .client = bytes_of("lab 1"),
    };
    assert_int_equal(dvg_hello_encode(&lab->out, &message), 0);
    int rc = lab_send(lab, connection);
    if (rc)
        return rc;
    struct dvg_frame frame =
        only_frame((struct dvg_bytes){.data = lab->replies.data, .size = lab->replies.size});
    assert_int_equal(frame.type, DVG_MESSAGE_WELCOME);
    struct dvg_welcome welcome;
    assert_int_equal(dvg_welcome_decode(frame.payload, &welcome), 0);
    if (ret_welcome)
        *ret_welcome = welcome;
    return 0;
}

static int send_items(struct lab *lab, uint64_t connection, enum dvg_message type, uint32_t first,
                      uint32_t count, struct dvg_buffer *items)
{
    struct dvg_definitions message = {
        .first = first,
        .count = count,
        .items = {.data = items->data, .size = items->size},
    };
    assert_int_equal(dvg_definitions_encode(&lab->out, type, &message), 0);
    dvg_buffer_fini(items);
    return lab_send(lab, connection);
}

int lab_strings(struct lab *lab, uint64_t connection, uint32_t first, uint32_t count,
                const char *const *texts)
{
    struct dvg_buffer items;
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(dvg_string_pack(&items, bytes_of(texts[i])), 0);
    return send_items(lab, connection, DVG_MESSAGE_STRINGS, first, count, &items);
}

int lab_site(struct lab *lab, uint64_t connection, uint32_t first, const struct dvg_site *site)
{
    struct dvg_buffer items;
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    assert_int_equal(dvg_site_pack(&items, site), 0);
    return send_items(lab, connection, DVG_MESSAGE_SITES, first, 1, &items);
}

void lab_define(struct lab *lab, uint64_t connection, uint32_t sites)
{
    static const char *const texts[] = {"main", "fc1", "linear"};
    assert_int_equal(lab_strings(lab, connection, 1, 3, texts), 0);
    struct dvg_buffer items;
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    for (uint32_t i = 0; i < sites; i++) {
        struct dvg_site site = {
            .tier = DIVERGE_TIER_OP,
            .phase = DIVERGE_PHASE_FORWARD,
            .role = DIVERGE_ROLE_OUTPUT,
            .slot = (uint16_t)i,
            .lane = 1,
            .scope = 2,
            .op = 3,
        };
        assert_int_equal(dvg_site_pack(&items, &site), 0);
    }
    assert_int_equal(send_items(lab, connection, DVG_MESSAGE_SITES, 1, sites, &items), 0);
    uint8_t sizes[16];
    dvg_store_u64(sizes, 32);
    dvg_store_u64(sizes + 8, 64);
    struct dvg_type type = {
        .kind = DIVERGE_KIND_TENSOR, .dtype = DIVERGE_F32, .ndim = 2, .sizes = sizes};
    dvg_buffer_init(&items, DVG_FRAME_MAX);
    assert_int_equal(dvg_type_pack(&items, &type), 0);
    assert_int_equal(send_items(lab, connection, DVG_MESSAGE_TYPES, 1, 1, &items), 0);
}

int lab_part(struct lab *lab, uint64_t connection, uint64_t seq, const struct lab_part *part)
{
    const uint32_t all[2] = {1, part->count};
    const uint32_t type = part->type ? part->type : 1;
    struct dvg_part message = {
        .segment = part->segment,
        .tier = DIVERGE_TIER_OP,
        .lane = 1,
        .count = part->count,
        .first = part->first,
        .site_runs = {(const uint8_t *)all, sizeof(all)},
    };
    if (part->runs)
        message.site_runs =
            (struct dvg_bytes){(const uint8_t *)part->runs, 8 * (size_t)part->n_runs};
    message.columns[DVG_COLUMN_VALUE] = (struct dvg_bytes){(const uint8_t *)&part->value, 8};
    message.columns[DVG_COLUMN_TYPE] = (struct dvg_bytes){(const uint8_t *)&type, 4};
    assert_int_equal(dvg_part_encode(&lab->out, seq, &message), 0);
    return lab_send(lab, connection);
}

int lab_end(struct lab *lab, uint64_t connection, uint64_t seq, uint64_t segment, uint64_t records)
{
    struct dvg_end message = {
        .segment = segment,
        .records = {[DIVERGE_TIER_OP] = records},
        .wanted = 1 << DIVERGE_TIER_OP,
    };
    assert_int_equal(dvg_end_encode(&lab->out, seq, &message), 0);
    return lab_send(lab, connection);
}

int lab_bye(struct lab *lab, uint64_t connection, uint64_t seq)
{
    struct dvg_bye message = {.outcome = DIVERGE_OUTCOME_COMPLETE};
    assert_int_equal(dvg_bye_encode(&lab->out, seq, &message), 0);
    return lab_send(lab, connection);
}

int lab_metadata(struct lab *lab, uint64_t connection, uint64_t seq, const char *json)
{
    struct dvg_metadata message = {.json = bytes_of(json)};
    assert_int_equal(dvg_metadata_encode(&lab->out, seq, &message), 0);
    return lab_send(lab, connection);
}

/* ---- notices ---- */

unsigned lab_notice(struct lab *lab, uint64_t *ret_connection, uint64_t *ret_seq, bool *ret_close)
{
    struct ingest_notice notice;
    if (!ingest_next_notice(lab->ingest, &notice))
        return 0;
    struct dvg_frame frame = only_frame(notice.frame);
    struct dvg_ack ack;
    if (frame.type == DVG_MESSAGE_ACK && ret_seq) {
        assert_int_equal(dvg_ack_decode(frame.payload, &ack), 0);
        *ret_seq = ack.committed_seq;
    }
    if (ret_connection)
        *ret_connection = notice.connection;
    if (ret_close)
        *ret_close = notice.close;
    return frame.type;
}

void lab_assert_acked(struct lab *lab, uint64_t connection, uint64_t seq)
{
    assert_int_equal(ingest_commit(lab->ingest), 0);
    uint64_t to = 0;
    uint64_t through = 0;
    assert_int_equal(lab_notice(lab, &to, &through, NULL), DVG_MESSAGE_ACK);
    assert_int_equal(to, connection);
    assert_int_equal(through, seq);
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), 0);
}

/* ---- what is stored ---- */

static sqlite3_stmt *first_row(const struct lab *lab, sqlite3 **ret_db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(lab->path, ret_db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(*ret_db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(*ret_db));
    if (sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: no row", sql);
    return statement;
}

int64_t lab_number(const struct lab *lab, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement = first_row(lab, &db, sql);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

void lab_assert_text(const struct lab *lab, const char *sql, const char *expected)
{
    sqlite3 *db;
    sqlite3_stmt *statement = first_row(lab, &db, sql);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), expected);
    sqlite3_finalize(statement);
    sqlite3_close(db);
}
