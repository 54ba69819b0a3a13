/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_ingest's baseline: this file linked into the daemon makes it store one row a record.
 * Socket, loop, decoding, group commits, page size and synchronous mode stay those of the daemon:
 * only what the linker wraps is another.
 * The table is as small and quick as rows get: integers, clustered by its key, written in the key's
 * order.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "daemon/store/internal.h"

int __wrap_store_part_append(struct store_stream *stream, const struct store_part *part);
int __wrap_store_segment_seal(struct store_stream *stream, const struct dvg_end *end);
int __wrap_store_commit(struct store *store);
int __real_store_commit(struct store *store);

static const char create_sql[] =
    "CREATE TABLE IF NOT EXISTS bench_records"
    " (stream INT, segment INT, tier INT, lane INT, seq INT, site INT, source INT,"
    " value INT, type INT, argument INT, state INT, ord INT, producer INT,"
    " sum REAL, l2 REAL, min INT, max INT, zero INT,"
    " PRIMARY KEY (stream, segment, tier, lane, seq)) WITHOUT ROWID";
static const char insert_sql[] =
    "INSERT INTO bench_records VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

/* Writer thread. */
static sqlite3_stmt *insert;
static bool in_group;

static uint64_t cell(const struct dvg_part *part, enum dvg_column column, uint32_t index)
{
    struct dvg_bytes bytes = part->columns[column];
    size_t width = dvg_column_width(column);
    size_t at = bytes.size > width ? index * width : 0;
    uint64_t value = 0;
    if (bytes.size)
        memcpy(&value, bytes.data + at, width);
    return value;
}

static double real(const struct dvg_part *part, enum dvg_column column, uint32_t index)
{
    uint32_t bits = (uint32_t)cell(part, column, index);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void begin(sqlite3 *db)
{
    if (!insert && (sqlite3_exec(db, create_sql, NULL, NULL, NULL) != SQLITE_OK ||
                    sqlite3_prepare_v2(db, insert_sql, -1, &insert, NULL) != SQLITE_OK))
        abort();
    if (!in_group && sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        abort();
    in_group = true;
}

int __wrap_store_part_append(struct store_stream *stream, const struct store_part *part)
{
    static const enum dvg_column integers[] = {
        DVG_COLUMN_VALUE, DVG_COLUMN_TYPE,  DVG_COLUMN_ARGUMENT,
        DVG_COLUMN_STATE, DVG_COLUMN_ORDER, DVG_COLUMN_PRODUCER,
    };
    enum { N_INTEGERS = sizeof(integers) / sizeof(integers[0]) };
    const struct dvg_part *wire = part->wire;
    begin(stream->state->store->db.handle);
    sqlite3_bind_int64(insert, 1, stream->state->id);
    sqlite3_bind_int64(insert, 2, (int64_t)wire->segment);
    sqlite3_bind_int64(insert, 3, wire->tier);
    sqlite3_bind_int64(insert, 4, part->lane);
    for (uint32_t i = 0; i < wire->count; i++) {
        sqlite3_bind_int64(insert, 5, (int64_t)(wire->first + i));
        sqlite3_bind_int64(insert, 6, part->sites[i]);
        sqlite3_bind_int64(insert, 7, part->sources ? part->sources[i] : 0);
        for (int c = 0; c < N_INTEGERS; c++)
            sqlite3_bind_int64(insert, 8 + c, (int64_t)cell(wire, integers[c], i));
        sqlite3_bind_double(insert, 14, real(wire, DVG_COLUMN_SUM, i));
        sqlite3_bind_double(insert, 15, real(wire, DVG_COLUMN_L2, i));
        sqlite3_bind_int64(insert, 16, (int64_t)cell(wire, DVG_COLUMN_MIN, i));
        sqlite3_bind_int64(insert, 17, (int64_t)cell(wire, DVG_COLUMN_MAX, i));
        sqlite3_bind_int64(insert, 18, (int64_t)cell(wire, DVG_COLUMN_ZERO, i));
        if (sqlite3_step(insert) != SQLITE_DONE)
            abort();
        sqlite3_reset(insert);
    }
    return 0;
}

int __wrap_store_segment_seal(struct store_stream *stream, const struct dvg_end *end)
{
    (void)stream;
    (void)end;
    return 0;
}

int __wrap_store_commit(struct store *store)
{
    if (in_group && sqlite3_exec(store->db.handle, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        abort();
    in_group = false;
    return __real_store_commit(store);
}
