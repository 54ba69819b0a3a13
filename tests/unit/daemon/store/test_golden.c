/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The golden database of schema version 1: what an earlier diverged wrote must be read, migrated
 * and gone on with. Digests are identity, so they are compared with what was written then, and
 * worked out again.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/daemon/store/store_fixture.h"

enum { RECORDS = 24, SEGMENTS = 6, OPEN = 10 };

static const char *const chains[SEGMENTS] = {
    "7589d64581a0e534d1cc8fff393f0e7b", "6184788cd5eaa3c1f8891c677bcedb55",
    "fd320fc4789e60a2c4c4d449fc39abdd", "0af6c18450a4fda6508cd4dcd165dfd4",
    "f4cd2d69a723ace2d6eae19c7da0e4a8", "bd4f52f2672ff44ad54e72d6045a93f4",
};
static const char layout_digest[] = "43794f4c51e93e702701dd0937e423d3";
static const char start_digest[] = "70bb25cd41c23b033b98957f40f7a742";

static struct fixture fixture;

/* The store of the fixture is replaced by a copy of the golden one. */
static int setup(void **state)
{
    (void)state;
    fixture_init(&fixture);
    fixture_close(&fixture);
    char path[512];
    static char bytes[1 << 20];
    const char *data = getenv("DVG_TEST_DATA");
    snprintf(path, sizeof path, "%s/store/golden-1.db", data ? data : "tests/data");
    int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        fail_msg("%s cannot be opened", path);
    ssize_t size = read(from, bytes, sizeof bytes);
    close(from);
    int to = open(fixture.path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(to >= 0 && size > 0);
    assert_int_equal(write(to, bytes, (size_t)size), size);
    close(to);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    return 0;
}

static const char *hex(const struct trace_digest *digest)
{
    static char text[33];
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", digest->bytes[i]);
    return text;
}

static void check_records(struct reader *reader, uint64_t stream, uint64_t segment, uint32_t count)
{
    const struct trace_source *source = reader_source(reader);
    struct recording written = {.seed = 11};
    struct trace_chunk *chunk = NULL;
    assert_int_equal(source->load(source->ctx, stream, DIVERGE_TIER_OP, segment, &chunk), 0);
    assert_int_equal(chunk->count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct trace_site *site = chunk->layout->sites[i];
        char scope[32];
        snprintf(scope, sizeof scope, "encoder.layer.%u", i / 8);
        assert_int_equal(chunk->value[i], recording_value(&written, segment, i));
        assert_int_equal(chunk->order[i], i);
        assert_int_equal(chunk->argument[i], 77 + i / 3);
        assert_int_equal(chunk->state[i], DVG_STATE_STATS | DVG_STATE_SUM);
        assert_true(chunk->sum[i] == (float)(chunk->value[i] % 1000) / 7.0f);
        assert_string_equal(chunk->source[i], "model.py:211");
        assert_string_equal(site->scope, scope);
        assert_string_equal(site->op, "aten::addmm");
        assert_string_equal(site->lane, "main");
        assert_int_equal(site->occurrence, i % 8);
        assert_int_equal(chunk->types[chunk->type[i]]->dtype, i % 3 == 0   ? DIVERGE_F32
                                                              : i % 3 == 1 ? DIVERGE_BF16
                                                                           : 0);
    }
    source->release(source->ctx, chunk);
}

static void check_run(uint64_t segments)
{
    struct reader *reader = fixture_reader(&fixture);
    const struct trace_source *source = reader_source(reader);
    struct reader_run found;
    struct store_error error;
    const struct trace_run *run = NULL;
    assert_int_equal(reader_find(reader, "golden", &found, &error), 0);
    assert_int_equal(reader_load(reader, found.id, &run), 0);
    assert_int_equal(run->n_metadata, 2);
    assert_string_equal(run->metadata[1].key, "num_threads");
    assert_string_equal(run->metadata[1].class_name, "cause");
    const struct trace_stream *stream = &run->streams[0];
    assert_string_equal(stream->spec, "modules=.*");
    assert_string_equal(hex(&stream->tiers[DIVERGE_TIER_OP].start), start_digest);
    for (uint64_t segment = 0; segment < SEGMENTS; segment++) {
        struct trace_head head;
        assert_int_equal(source->head_at(source->ctx, stream->id, DIVERGE_TIER_OP, segment, &head),
                         0);
        assert_string_equal(hex(&head.chain), chains[segment]);
        assert_string_equal(hex(&head.layout), layout_digest);
        check_records(reader, stream->id, segment, RECORDS);
    }
    check_records(reader, stream->id, SEGMENTS, segments > SEGMENTS ? RECORDS : OPEN);
    const char *text = NULL;
    assert_int_equal(source->argument_text(source->ctx, 77, &text), 0);
    assert_string_equal(text, "dim=-1");
    assert_int_equal(source->argument_text(source->ctx, 78, &text), DIVERGE_ENOTFOUND);
    reader_close(reader);
}

static void the_golden_store_is_read(void **state)
{
    (void)state;
    check_run(SEGMENTS);
}

static void the_golden_store_is_gone_on_with(void **state)
{
    (void)state;
    fixture_open(&fixture);
    struct recording recording;
    uint64_t seq = 0;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "golden",
                                                .records = RECORDS,
                                                .run_number = 7,
                                                .stream_number = 8,
                                                .epoch = 2,
                                                .spec = "modules=.*",
                                                .seed = 11},
                    &seq);
    assert_int_equal(seq, 42);
    assert_int_equal(recording_append(&recording, SEGMENTS, OPEN, RECORDS), 0);
    assert_int_equal(recording_seal(&recording, SEGMENTS), 0);
    assert_int_equal(store_commit(fixture.store), 0);
    check_run(SEGMENTS + 1);
    fixture_check_integrity(&fixture);
}

/* The same recording, made now: every digest comes out as it did then. */
static void digests_are_as_they_were(void **state)
{
    (void)state;
    fixture_open(&fixture);
    struct recording recording;
    recording_begin(&recording, fixture.store,
                    &(struct recording_options){.name = "again",
                                                .records = RECORDS,
                                                .run_number = 1,
                                                .stream_number = 1,
                                                .spec = "modules=.*",
                                                .seed = 11},
                    NULL);
    for (uint64_t segment = 0; segment < SEGMENTS; segment++)
        recording_segment(&recording, segment);
    assert_int_equal(store_commit(fixture.store), 0);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM chunks"), SEGMENTS);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM layouts"), 1);
    assert_int_equal(fixture_number(&fixture, "SELECT count(*) FROM sites"), RECORDS);
    assert_int_equal(fixture_number(&fixture, "SELECT count(DISTINCT chain) FROM segments"
                                              " WHERE chain IS NOT NULL"),
                     SEGMENTS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_golden_store_is_read),
        TEST(the_golden_store_is_gone_on_with),
        TEST(digests_are_as_they_were),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
