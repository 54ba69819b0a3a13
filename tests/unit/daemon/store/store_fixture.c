/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/daemon/store/store_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

void fixture_open(struct fixture *fixture)
{
    struct store_error error = {{0}};
    int rc = store_open(fixture->path, NULL, &fixture->store, &error);
    if (rc)
        fail_msg("store_open: %d %s", rc, error.text);
}

void fixture_close(struct fixture *fixture)
{
    store_close(fixture->store);
    fixture->store = NULL;
}

void fixture_init(struct fixture *fixture)
{
    /* Memory where there is some: the sweeps sync thousands of times. */
    const char *parent = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(fixture->folder, sizeof fixture->folder, "%s/dvg-store-XXXXXX", parent);
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->path, sizeof fixture->path, "%s/diverge.db", fixture->folder);
    fixture_open(fixture);
}

void fixture_fini(struct fixture *fixture)
{
    fixture_close(fixture);
    DIR *folder = opendir(fixture->folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[512];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", fixture->folder, entry->d_name);
        unlink(path);
    }
    closedir(folder);
    rmdir(fixture->folder);
}

struct reader *fixture_reader(const struct fixture *fixture)
{
    struct reader *reader = NULL;
    struct store_error error = {{0}};
    int rc = reader_open(fixture->path, &reader, &error);
    if (rc)
        fail_msg("reader_open: %d %s", rc, error.text);
    return reader;
}

static int collect(void *ctx, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    snprintf(ctx, 256, "%s", values[0] ? values[0] : "");
    return 0;
}

static void run_sql(const struct fixture *fixture, const char *sql, char ret[256])
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(fixture->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    char *message = NULL;
    if (sqlite3_exec(db, sql, collect, ret, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

void fixture_sql(const struct fixture *fixture, const char *sql)
{
    char text[256] = "";
    run_sql(fixture, sql, text);
}

int64_t fixture_number(const struct fixture *fixture, const char *sql)
{
    char text[256] = "";
    run_sql(fixture, sql, text);
    return strtoll(text, NULL, 10);
}

void fixture_check_integrity(const struct fixture *fixture)
{
    char text[256] = "";
    run_sql(fixture, "PRAGMA integrity_check", text);
    assert_string_equal(text, "ok");
    text[0] = '\0';
    run_sql(fixture, "PRAGMA foreign_key_check", text);
    assert_string_equal(text, "");
}

/* ---- recordings ------------------------------------------------------------------------------ */

static struct dvg_bytes bytes_of(const char *text)
{
    return (struct dvg_bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

static uint32_t string_row(struct store *store, const char *text)
{
    uint32_t row = 0;
    assert_int_equal(store_string(store, bytes_of(text), &row), 0);
    return row;
}

static void make_types(struct recording *recording)
{
    const int64_t sizes[2] = {768, 32};
    for (uint8_t i = 1; i < 4; i++) {
        struct dvg_type type = {
            .kind = i == 3 ? DIVERGE_KIND_FLOAT : DIVERGE_KIND_TENSOR,
            .dtype = i == 3   ? 0
                     : i == 2 ? DIVERGE_BF16
                              : DIVERGE_F32,
            .ndim = i == 3 ? 0 : i,
            .sizes = (const uint8_t *)sizes,
        };
        assert_int_equal(store_type(recording->store, &type, &recording->types[i]), 0);
    }
}

static void make_sites(struct recording *recording)
{
    struct store *store = recording->store;
    uint32_t op = string_row(store, "aten::addmm");
    uint32_t source = string_row(store, "model.py:211");
    for (uint32_t i = 0; i < recording->records; i++) {
        char scope[32];
        snprintf(scope, sizeof scope, "encoder.layer.%u", i / 8);
        struct store_site site = {
            .tier = DIVERGE_TIER_OP,
            .phase = DIVERGE_PHASE_FORWARD,
            .role = i % 3 == 2 ? DIVERGE_ROLE_OUTPUT : DIVERGE_ROLE_INPUT,
            .slot = (uint16_t)(i % 3),
            .flags = recording->flags,
            .occurrence = i % 8,
            .lane = recording->lane,
            .scope = string_row(store, scope),
            .op = op,
        };
        assert_int_equal(store_site(store, &site, &recording->sites[i]), 0);
        recording->sources[i] = source;
    }
}

void recording_begin(struct recording *recording, struct store *store,
                     const struct recording_options *options, uint64_t *committed_seq)
{
    *recording = (struct recording){.store = store,
                                    .records = options->records,
                                    .seed = options->seed,
                                    .flags = options->flags};
    uint8_t run_id[16] = {0xab, options->run_number};
    struct store_run run;
    uint32_t world = options->world ? options->world : 1;
    assert_int_equal(store_run_open(store, run_id, options->name, world, &run), 0);
    recording->run = run.id;
    snprintf(recording->name, sizeof recording->name, "%s", run.name);
    struct store_stream_options stream = {
        .stream_id = {0xcd, options->stream_number},
        .run = run.id,
        .rank = options->rank,
        .epoch = options->epoch ? options->epoch : 1,
        .level = DIVERGE_TIER_OP,
        .spec = options->spec ? options->spec : "",
        .fingerprint_id = "l61.1",
        .client = "test",
    };
    uint64_t seq = 0;
    assert_int_equal(store_stream_open(store, &stream, &recording->stream, &seq), 0);
    recording->seq = seq;
    if (committed_seq)
        *committed_seq = seq;
    recording->lane = string_row(store, options->lane ? options->lane : "main");
    make_types(recording);
    make_sites(recording);
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t recording_value(const struct recording *recording, uint64_t segment, uint32_t record)
{
    return mix(recording->seed * 1000003 + segment * 10007 + record) >> 3;
}

int recording_append(struct recording *recording, uint64_t segment, uint32_t from, uint32_t to)
{
    static uint64_t value[FIXTURE_MAX_RECORDS];
    static uint64_t argument[FIXTURE_MAX_RECORDS];
    static uint32_t type[FIXTURE_MAX_RECORDS];
    static uint32_t order[FIXTURE_MAX_RECORDS];
    static float sum[FIXTURE_MAX_RECORDS];
    static uint8_t state[FIXTURE_MAX_RECORDS];
    uint32_t count = to - from;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t record = from + i;
        value[i] = recording_value(recording, segment, record);
        argument[i] = 77 + record / 3;
        type[i] = 1 + record % 3;
        order[i] = record;
        sum[i] = (float)(value[i] % 1000) / 7.0f;
        state[i] = DVG_STATE_STATS | DVG_STATE_SUM;
    }
#define COLUMN(array)                                                                              \
    {                                                                                              \
        .data = (const uint8_t *)(array), .size = count * sizeof(array)[0]                         \
    }
    struct dvg_part wire = {
        .segment = segment,
        .tier = DIVERGE_TIER_OP,
        .count = count,
        .first = from,
        .columns = {[DVG_COLUMN_VALUE] = COLUMN(value),
                    [DVG_COLUMN_TYPE] = COLUMN(type),
                    [DVG_COLUMN_ARGUMENT] = COLUMN(argument),
                    [DVG_COLUMN_STATE] = COLUMN(state),
                    [DVG_COLUMN_ORDER] = COLUMN(order),
                    [DVG_COLUMN_SUM] = COLUMN(sum)},
    };
#undef COLUMN
    struct store_part part = {
        .wire = &wire,
        .lane = recording->lane,
        .sites = recording->sites + from,
        .sources = recording->sources + from,
        .types = recording->types,
        .n_types = 4,
    };
    return store_part_append(recording->stream, &part);
}

int recording_seal(struct recording *recording, uint64_t segment)
{
    struct dvg_end end = {
        .segment = segment,
        .records = {[DIVERGE_TIER_OP] = recording->records},
        .wanted = 1u << DIVERGE_TIER_OP,
        .unix_us = 1000000 + segment,
    };
    return store_segment_seal(recording->stream, &end);
}

void recording_segment(struct recording *recording, uint64_t segment)
{
    assert_int_equal(recording_append(recording, segment, 0, recording->records), 0);
    assert_int_equal(recording_seal(recording, segment), 0);
    store_stream_set_seq(recording->stream, ++recording->seq);
}
