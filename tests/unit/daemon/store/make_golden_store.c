/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the golden database: make_golden_store tests/data/store/golden-1.db
 *
 * Run by hand when the schema grew, under a new number; files of earlier versions stay as they are,
 * because that is what they are for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "tests/unit/daemon/store/store_fixture.h"

enum { RECORDS = 24 };

static void record(struct fixture *fixture)
{
    struct recording recording;
    recording_begin(&recording, fixture->store,
                    &(struct recording_options){.name = "golden",
                                                .records = RECORDS,
                                                .run_number = 7,
                                                .stream_number = 8,
                                                .spec = "modules=.*",
                                                .seed = 11},
                    NULL);
    const char *text = "dim=-1";
    struct dvg_bytes argument = {.data = (const uint8_t *)text, .size = strlen(text)};
    assert_int_equal(store_argument(fixture->store, 77, argument), 0);
    assert_int_equal(store_run_metadata(fixture->store, recording.run, 0, "num_threads", "4"), 0);
    assert_int_equal(store_run_metadata(fixture->store, recording.run, 0, "hostname", "h"), 0);
    for (uint64_t segment = 0; segment < 6; segment++)
        recording_segment(&recording, segment);
    assert_int_equal(recording_append(&recording, 6, 0, 10), 0);
    store_stream_set_seq(recording.stream, 42);
    assert_int_equal(store_commit(fixture->store), 0);
}

/* One small file: 1 KiB pages and no log. */
static int pack(const struct fixture *fixture, const char *path)
{
    sqlite3 *db = NULL;
    char sql[512];
    if (sqlite3_open(fixture->path, &db) != SQLITE_OK)
        return 1;
    snprintf(sql, sizeof sql,
             "PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM INTO '%s'", path);
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(db));
    sqlite3_close(db);
    return rc != SQLITE_OK;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_golden_store FILE\n");
        return 64;
    }
    struct fixture fixture;
    fixture_init(&fixture);
    record(&fixture);
    fixture_close(&fixture);
    int rc = pack(&fixture, argv[1]);
    fixture_fini(&fixture);
    return rc;
}
