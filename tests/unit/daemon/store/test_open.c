/* SPDX-License-Identifier: Apache-2.0 */
/* Where a store may lie, what is refused, and what other files and programs do to it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "daemon/store/database.h"
#include "tests/unit/daemon/store/store_fixture.h"

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    fixture_init(&fixture);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    return 0;
}

static int open_again(struct store_error *error)
{
    struct store *store = NULL;
    int rc = store_open(fixture.path, NULL, &store, error);
    store_close(store);
    return rc;
}

static int read_again(struct store_error *error)
{
    struct reader *reader = NULL;
    int rc = reader_open(fixture.path, &reader, error);
    reader_close(reader);
    return rc;
}

static void folder_and_file_are_the_owners_alone(void **state)
{
    (void)state;
    char path[160];
    snprintf(path, sizeof path, "%s/a/b/store.db", fixture.folder);
    struct store *store = NULL;
    struct store_error error;
    assert_int_equal(store_open(path, NULL, &store, &error), 0);
    store_close(store);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/a/b", fixture.folder);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/a", fixture.folder);
    assert_int_equal(rmdir(path), 0);
}

static void the_file_is_set_up_as_documented(void **state)
{
    (void)state;
    assert_int_equal(fixture_number(&fixture, "PRAGMA page_size"), 32768);
    assert_int_equal(fixture_number(&fixture, "PRAGMA auto_vacuum"), 2);
    assert_int_equal(fixture_number(&fixture, "PRAGMA application_id"), DATABASE_APPLICATION_ID);
    assert_int_equal(fixture_number(&fixture, "SELECT journal_mode = 'wal' FROM"
                                              " pragma_journal_mode"),
                     1);
    int newest = 0;
    for (const struct migration *m = database_migrations; m->version; m++) {
        assert_int_equal(m->version, newest + 1);
        newest = m->version;
    }
    assert_int_equal(fixture_number(&fixture, "PRAGMA user_version"), newest);
}

static void a_newer_store_is_refused(void **state)
{
    (void)state;
    fixture_close(&fixture);
    fixture_sql(&fixture, "PRAGMA user_version = 999");
    struct store_error error = {{0}};
    assert_int_equal(open_again(&error), DIVERGE_EVERSION);
    assert_non_null(strstr(error.text, "newer"));
    assert_non_null(strstr(error.text, "999"));
    assert_int_equal(read_again(&error), DIVERGE_EVERSION);
    assert_int_equal(fixture_number(&fixture, "PRAGMA user_version"), 999);
}

static void another_programs_database_is_left_alone(void **state)
{
    (void)state;
    fixture_close(&fixture);
    assert_int_equal(unlink(fixture.path), 0);
    fixture_sql(&fixture, "CREATE TABLE mine (x); INSERT INTO mine VALUES (1)");
    struct store_error error = {{0}};
    assert_int_equal(open_again(&error), DIVERGE_ECORRUPT);
    assert_non_null(strstr(error.text, "not a store"));
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM sqlite_master"), 1);
    assert_int_equal(read_again(&error), DIVERGE_ECORRUPT);
}

static void overwrite(off_t at, size_t size)
{
    int fd = open(fixture.path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char noise[4096];
    memset(noise, 'x', sizeof noise);
    for (size_t done = 0; done < size; done += sizeof noise)
        assert_int_equal(pwrite(fd, noise, sizeof noise, at + (off_t)done), sizeof noise);
    close(fd);
}

static void a_file_of_noise_says_what_to_do(void **state)
{
    (void)state;
    fixture_close(&fixture);
    overwrite(0, 65536);
    struct store_error error = {{0}};
    assert_int_equal(open_again(&error), DIVERGE_ECORRUPT);
    assert_non_null(strstr(error.text, ".recover"));
    assert_int_equal(read_again(&error), DIVERGE_ECORRUPT);
    assert_non_null(strstr(error.text, ".recover"));
}

static void damage_inside_is_an_error_and_no_crash(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 4000}, NULL);
    for (uint64_t segment = 0; segment < 8; segment++)
        recording_segment(&recording, segment);
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_close(&fixture);
    off_t size = (off_t)fixture_number(&fixture, "PRAGMA page_count") * 32768;
    int damaged = 0;
    /* Page after page, all that a page held is noise. */
    for (off_t at = 32768; at < size; at += 32768) {
        char saved[32768];
        int fd = open(fixture.path, O_RDWR | O_CLOEXEC);
        assert_int_equal(pread(fd, saved, sizeof saved, at), sizeof saved);
        overwrite(at, sizeof saved);
        struct reader *reader = NULL;
        struct store_error error;
        const struct trace_run *run = NULL;
        int rc = reader_open(fixture.path, &reader, &error);
        if (!rc)
            rc = reader_load(reader, 1, &run);
        for (uint64_t segment = 0; segment < 8 && !rc; segment++) {
            const struct trace_source *source = reader_source(reader);
            struct trace_chunk *chunk = NULL;
            if (!run->n_streams)
                break;
            rc = source->load(source->ctx, run->streams[0].id, DIVERGE_TIER_OP, segment, &chunk);
            if (!rc)
                source->release(source->ctx, chunk);
        }
        if (rc)
            damaged++;
        assert_true(rc <= 0);
        reader_close(reader);
        assert_int_equal(pwrite(fd, saved, sizeof saved, at), sizeof saved);
        close(fd);
    }
    assert_true(damaged > 8);
    fixture_check_integrity(&fixture);
}

/* A view that never ends, where a table is expected. */
static void views_of_a_file_are_not_run(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 4}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_close(&fixture);
    fixture_sql(&fixture,
                "ALTER TABLE runs RENAME TO hidden; CREATE VIEW runs AS WITH RECURSIVE c(x) AS"
                " (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, zeroblob(16) AS run_id,"
                " 'n' || x AS name, 'complete' AS status, 1 AS world, 0 AS started_unix_us,"
                " 0 AS ended_unix_us, 0 AS pinned FROM c");
    struct reader *reader = NULL;
    struct store_error error;
    struct reader_run *runs = NULL;
    size_t count = 0;
    assert_int_equal(reader_open(fixture.path, &reader, &error), 0);
    assert_int_equal(reader_runs(reader, &runs, &count), DIVERGE_ECORRUPT);
    assert_non_null(strstr(reader_error_text(reader), "keep a copy"));
    reader_close(reader);
}

static void triggers_of_a_file_are_not_run(void **state)
{
    (void)state;
    fixture_close(&fixture);
    fixture_sql(&fixture, "CREATE TRIGGER wipe AFTER INSERT ON segments BEGIN DELETE FROM strings;"
                          " UPDATE segments SET dropped = 7; END");
    fixture_open(&fixture);
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 4}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_true(fixture_number(&fixture, "SELECT count(*) FROM strings") > 0);
    assert_int_equal(fixture_number(&fixture, "SELECT sum(dropped) FROM segments"), 0);
    assert_true(fixture_number(&fixture, "SELECT count(*) FROM segments") > 0);
}

/* Columns that a damaged schema lacks: the file's fault, not the program's. */
static void schema_that_is_not_ours_is_corrupt(void **state)
{
    (void)state;
    fixture_close(&fixture);
    fixture_sql(&fixture, "ALTER TABLE runs RENAME COLUMN world TO word");
    struct reader *reader = NULL;
    struct store_error error;
    struct reader_run *runs = NULL;
    size_t count = 0;
    assert_int_equal(reader_open(fixture.path, &reader, &error), 0);
    assert_int_equal(reader_runs(reader, &runs, &count), DIVERGE_ECORRUPT);
    reader_close(reader);
}

static long told_type;

static int tell_type(const char *folder, long *ret)
{
    (void)folder;
    *ret = told_type;
    return 0;
}

static void network_file_systems_are_refused(void **state)
{
    (void)state;
    const struct {
        long type;
        const char *name;
    } networks[] = {{0x6969, "NFS"}, {(long)0xff534d42u, "CIFS"}, {(long)0xfe534d42u, "SMB"},
                    {0x517b, "SMB"}, {0x65735546, "FUSE"},        {0x0bd00bd0, "Lustre"}};
    int (*real)(const char *, long *) = database_filesystem;
    database_filesystem = tell_type;
    struct store_error error = {{0}};
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        told_type = networks[i].type;
        assert_int_equal(open_again(&error), DIVERGE_EUNSUPPORTED);
        assert_non_null(strstr(error.text, networks[i].name));
        assert_non_null(strstr(error.text, "DIVERGE_STORE"));
    }
    told_type = 0xef53; /* ext4 */
    assert_int_equal(open_again(&error), 0);
    database_filesystem = real;
}

static void a_path_that_cannot_be_made_is_refused(void **state)
{
    (void)state;
    char path[160];
    struct store *store = NULL;
    struct store_error error = {{0}};
    snprintf(path, sizeof path, "%s/store.db", fixture.path); /* below a file */
    assert_int_equal(store_open(path, NULL, &store, &error), DIVERGE_EPERM);
    assert_true(strlen(error.text) > 0);
    assert_int_equal(store_open("", NULL, &store, &error), DIVERGE_EINVAL);
    assert_int_equal(store_open(fixture.folder, NULL, &store, &error), DIVERGE_EPERM);
    assert_null(store);
}

static void a_read_only_folder_is_read_and_not_written(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 10}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_close(&fixture);
    assert_int_equal(chmod(fixture.path, 0444), 0);
    assert_int_equal(chmod(fixture.folder, 0555), 0);
    bool root = geteuid() == 0;
    if (root) /* for whom no folder is read-only */
        assert_int_equal(seteuid(65534), 0);
    struct store_error error = {{0}};
    int written = open_again(&error);
    struct reader *reader = NULL;
    struct store_error read_error = {{0}};
    int read = reader_open(fixture.path, &reader, &read_error);
    struct reader_totals totals = {0};
    if (!read)
        read = reader_totals(reader, &totals);
    reader_close(reader);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(fixture.folder, 0700), 0);
    assert_int_equal(written, DIVERGE_EPERM);
    assert_non_null(strstr(error.text, "read-only"));
    assert_int_equal(read, 0);
    assert_int_equal(totals.records, 10);
}

static void a_missing_or_empty_file_has_nothing_to_read(void **state)
{
    (void)state;
    fixture_close(&fixture);
    assert_int_equal(unlink(fixture.path), 0);
    struct store_error error = {{0}};
    assert_int_equal(read_again(&error), DIVERGE_ENOTFOUND);
    assert_int_equal(access(fixture.path, F_OK), -1);
    int fd = open(fixture.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(read_again(&error), DIVERGE_ECORRUPT);
    assert_non_null(strstr(error.text, "empty"));
}

static void a_clean_stop_leaves_one_file(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 10}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_close(&fixture);
    char path[160];
    snprintf(path, sizeof path, "%s-wal", fixture.path);
    assert_int_equal(access(path, F_OK), -1);
    /* A copy without its log's index, in a folder that takes no new files, is read as it stands. */
    struct reader *reader = fixture_reader(&fixture);
    struct reader_totals totals;
    assert_int_equal(reader_totals(reader, &totals), 0);
    assert_int_equal(totals.records, 10);
    reader_close(reader);
}

static void two_writers_are_told_before_they_harm_each_other(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 10}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_sql(&fixture, "UPDATE runs SET pinned = 1");
    recording_segment(&recording, 1);
    assert_int_equal(store_commit(fixture.store), 0);
    fixture_sql(&fixture, "INSERT INTO strings (text) VALUES ('from elsewhere')");
    recording_segment(&recording, 2);
    assert_int_equal(store_commit(fixture.store), DIVERGE_EBUSY);
    assert_non_null(strstr(store_error_text(fixture.store), "another program"));
    fixture_check_integrity(&fixture);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM segments"), 2);
}

static void a_reader_cannot_write(void **state)
{
    (void)state;
    struct reader *reader = fixture_reader(&fixture);
    sqlite3 *db = reader_database(reader);
    assert_int_not_equal(sqlite3_exec(db, "DELETE FROM runs", NULL, NULL, NULL), SQLITE_OK);
    assert_int_not_equal(sqlite3_exec(db, "PRAGMA writable_schema = ON; DELETE FROM sqlite_master",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
    reader_close(reader);
}

struct reading { /* by the second thread */
    atomic_bool stop;
    atomic_long loads;
    atomic_int failure;
};

static void *read_on(void *ctx)
{
    struct reading *reading = ctx;
    struct recording expected = {.seed = 0};
    struct reader *reader = NULL;
    struct store_error error;
    if (reader_open(fixture.path, &reader, &error)) {
        reading->failure = 1;
        return NULL;
    }
    const struct trace_source *source = reader_source(reader);
    while (!reading->stop && !reading->failure) {
        struct trace_head head;
        struct trace_chunk *chunk = NULL;
        int rc = source->head_at(source->ctx, 1, DIVERGE_TIER_OP, INT64_MAX, &head);
        if (rc == DIVERGE_ENOTFOUND)
            continue;
        if (!rc)
            rc = source->load(source->ctx, 1, DIVERGE_TIER_OP, head.segment, &chunk);
        if (rc) {
            reading->failure = -rc;
            break;
        }
        for (uint32_t i = 0; i < chunk->count; i++)
            if (chunk->value[i] != recording_value(&expected, head.segment, i))
                reading->failure = 100;
        source->release(source->ctx, chunk);
        reading->loads++;
    }
    reader_close(reader);
    return NULL;
}

static void readers_see_whole_commits_while_the_writer_goes_on(void **state)
{
    (void)state;
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "r", .records = 300}, NULL);
    recording_segment(&recording, 0);
    assert_int_equal(store_commit(fixture.store), 0);
    struct reading reading = {.stop = false};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_on, &reading), 0);
    uint64_t segment = 1;
    for (; segment < 50 || (reading.loads < 20 && !reading.failure); segment++) {
        assert_int_equal(recording_append(&recording, segment, 0, 150), 0);
        assert_int_equal(store_commit(fixture.store), 0);
        assert_int_equal(recording_append(&recording, segment, 150, 300), 0);
        assert_int_equal(recording_seal(&recording, segment), 0);
        assert_int_equal(store_commit(fixture.store), 0);
        if (segment % 16 == 0)
            assert_int_equal(store_checkpoint(fixture.store, 0), 0);
    }
    reading.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(reading.failure, 0);
    assert_true(reading.loads >= 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(folder_and_file_are_the_owners_alone),
        TEST(the_file_is_set_up_as_documented),
        TEST(a_newer_store_is_refused),
        TEST(another_programs_database_is_left_alone),
        TEST(a_file_of_noise_says_what_to_do),
        TEST(damage_inside_is_an_error_and_no_crash),
        TEST(views_of_a_file_are_not_run),
        TEST(triggers_of_a_file_are_not_run),
        TEST(schema_that_is_not_ours_is_corrupt),
        TEST(network_file_systems_are_refused),
        TEST(a_path_that_cannot_be_made_is_refused),
        TEST(a_read_only_folder_is_read_and_not_written),
        TEST(a_missing_or_empty_file_has_nothing_to_read),
        TEST(a_clean_stop_leaves_one_file),
        TEST(two_writers_are_told_before_they_harm_each_other),
        TEST(a_reader_cannot_write),
        TEST(readers_see_whole_commits_while_the_writer_goes_on),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
