/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>

#include "client/wire/recording.h"
#include "tests/support/fault.h"
#include "tests/unit/client/wire/golden.h"
#include "tests/unit/daemon/proto/lab.h"

static const struct ingest_peer nobody = {.connection = 900};

static int set_up(void **state)
{
    *state = lab_new(NULL);
    return 0;
}

static int tear_down(void **state)
{
    lab_free(*state);
    return 0;
}

static int import(struct lab *lab, const struct dvg_buffer *file, struct ingest_import *ret)
{
    struct dvg_bytes bytes = {.data = file->data, .size = file->size};
    return ingest_recording(lab->ingest, &nobody, bytes, ret);
}

static void golden_file(struct dvg_buffer *file)
{
    dvg_buffer_init(file, 1 << 20);
    golden_recording(file);
}

static void a_recording_becomes_a_run(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer file;
    golden_file(&file);
    struct ingest_import result;
    assert_int_equal(import(lab, &file, &result), 0);
    assert_int_equal(result.frames, 9);
    assert_int_equal(result.records, 2);
    assert_true(result.complete);
    assert_false(result.torn);
    assert_int_equal(result.run, lab_number(lab, "SELECT id FROM runs"));
    lab_assert_text(lab, "SELECT name || ' ' || status FROM runs", "digits complete");
    assert_false(ingest_is_producer(lab->ingest, nobody.connection));
    dvg_buffer_fini(&file);
}

static void a_second_import_changes_nothing(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer file;
    golden_file(&file);
    struct ingest_import result;
    assert_int_equal(import(lab, &file, &result), 0);
    assert_int_equal(import(lab, &file, &result), 0);
    assert_int_equal(result.records, 0);
    assert_int_equal(lab_number(lab, "SELECT count(*) FROM runs"), 1);
    assert_int_equal(lab_number(lab, "SELECT sum(records) FROM segments"), 2);
    lab_assert_text(lab, "SELECT status FROM runs", "complete");
    dvg_buffer_fini(&file);
}

/* Cut at every byte, then whole: each prefix is taken, and the rest joins it. */
static void a_torn_file_is_taken_as_far_as_it_goes(void **state)
{
    (void)state;
    struct dvg_buffer file;
    golden_file(&file);
    for (size_t cut = DVG_FILE_HEADER; cut < file.size; cut += 97) {
        struct lab *lab = lab_new(NULL);
        struct dvg_buffer torn = file;
        torn.size = cut;
        struct ingest_import result;
        assert_int_equal(import(lab, &torn, &result), 0);
        assert_false(result.complete);
        assert_int_equal(import(lab, &file, &result), 0);
        assert_true(result.complete);
        lab_assert_text(lab, "SELECT name || ' ' || status FROM runs", "digits complete");
        assert_int_equal(lab_number(lab, "SELECT sum(records) FROM segments"), 2);
        lab_free(lab);
    }
    dvg_buffer_fini(&file);
}

static void damage_is_told_with_its_place(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer file;
    golden_file(&file);
    file.data[file.size - 200] ^= 1;
    struct ingest_import result;
    assert_int_equal(import(lab, &file, &result), DIVERGE_ECORRUPT);
    assert_non_null(strstr(result.text, "damaged at byte"));
    assert_true(result.frames > 0);
    assert_int_equal(lab_number(lab, "SELECT count(*) FROM runs"), 1); /* what stood before it */
    dvg_buffer_fini(&file);
}

static void what_is_no_recording_is_refused(void **state)
{
    struct lab *lab = *state;
    struct ingest_import result;
    struct dvg_buffer file;
    golden_file(&file);
    file.data[0] = 'X';
    assert_int_equal(import(lab, &file, &result), DIVERGE_EPROTO);
    assert_string_equal(result.text, "not a recording");
    file.data[0] = 'D';
    file.data[7] = 2;
    assert_int_equal(import(lab, &file, &result), DIVERGE_EVERSION);
    assert_non_null(strstr(result.text, "newer"));
    file.size = 0;
    assert_int_equal(import(lab, &file, &result), DIVERGE_EPROTO);
    dvg_buffer_fini(&file);
}

static void a_refused_frame_ends_the_import_with_its_reason(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer file;
    dvg_buffer_init(&file, 1 << 20);
    assert_int_equal(dvg_buffer_append(&file, dvg_file_header, DVG_FILE_HEADER), 0);
    size_t at = file.size;
    assert_int_equal(dvg_bye_encode(&file, 1, &(struct dvg_bye){0}), 0);
    dvg_frame_set_crc(file.data + at, file.size - at);
    struct ingest_import result;
    assert_int_equal(import(lab, &file, &result), DIVERGE_ESTATE);
    assert_non_null(strstr(result.text, "before HELLO"));
    dvg_buffer_fini(&file);
}

/* A spool that outlived two connections of its producer. */
static void a_file_may_hold_several_connections(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer file;
    golden_file(&file);
    struct dvg_buffer again;
    golden_file(&again);
    assert_int_equal(
        dvg_buffer_append(&file, again.data + DVG_FILE_HEADER, again.size - DVG_FILE_HEADER), 0);
    struct ingest_import result;
    assert_int_equal(import(lab, &file, &result), 0);
    assert_int_equal(result.frames, 18);
    assert_int_equal(result.records, 2);
    assert_true(result.complete);
    dvg_buffer_fini(&again);
    dvg_buffer_fini(&file);
}

static void an_import_leaves_the_notices_of_others(void **state)
{
    struct lab *lab = *state;
    struct lab_hello hello = {.stream = 1, .run = 1, .epoch = 1};
    assert_int_equal(lab_hello(lab, 1, &hello, NULL), 0);
    assert_int_equal(lab_bye(lab, 1, 1), 0);
    struct dvg_buffer file;
    golden_file(&file);
    struct ingest_import result;
    assert_int_equal(import(lab, &file, &result), 0);
    lab_assert_acked(lab, 1, 1);
    dvg_buffer_fini(&file);
}

static void a_live_stream_is_not_imported_over(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer frame;
    dvg_buffer_init(&frame, 1 << 20);
    const char *title;
    assert_true(golden_frame(0, &frame, &title)); /* HELLO */
    assert_int_equal(dvg_buffer_append(&lab->out, frame.data, frame.size), 0);
    assert_int_equal(lab_send(lab, 1), 0);
    struct dvg_buffer file;
    golden_file(&file);
    struct ingest_import result;
    assert_int_equal(import(lab, &file, &result), DIVERGE_EBUSY);
    assert_true(ingest_is_producer(lab->ingest, 1));
    dvg_buffer_fini(&file);
    dvg_buffer_fini(&frame);
}

static void a_full_disk_is_told_and_the_import_can_be_repeated(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer file;
    golden_file(&file);
    struct ingest_import result;
    dvg_fault_arm(DVG_FAULT_WRITE, 0, ENOSPC, true);
    assert_int_equal(import(lab, &file, &result), DIVERGE_EFULL);
    dvg_fault_disarm();
    assert_true(result.text[0]);
    assert_int_equal(ingest_commit(lab->ingest), 0);
    assert_int_equal(import(lab, &file, &result), 0);
    assert_true(result.complete);
    assert_int_equal(lab_number(lab, "SELECT sum(records) FROM segments"), 2);
    dvg_buffer_fini(&file);
}

/* Makes the golden file that of another stream and run: ids and name in HELLO, the first frame. */
static void renumber(struct dvg_buffer *file, uint8_t *name, uint64_t number)
{
    enum { FRAME = DVG_FILE_HEADER, STREAM_ID = 0x48, RUN_ID = 0x60 };
    dvg_store_u64(file->data + FRAME + STREAM_ID, number);
    dvg_store_u64(file->data + FRAME + RUN_ID, number);
    size_t size = DVG_FRAME_HEADER + (size_t)dvg_load_u32(file->data + FRAME + 8);
    for (int i = 0; i < 6; i++, number /= 26)
        name[i] = (uint8_t)('a' + number % 26);
    dvg_frame_set_crc(file->data + FRAME, size);
}

static void no_memory_is_an_error_and_nothing_worse(void **state)
{
    struct lab *lab = *state;
    struct dvg_buffer file;
    golden_file(&file);
    uint8_t *name = memmem(file.data, file.size, "digits", 6);
    assert_non_null(name);
    struct dvg_fault_sweep sweep = {.kind = DVG_FAULT_ALLOC, .error = ENOMEM};
    int refused = 0;
    while (dvg_fault_sweep_next(&sweep)) {
        dvg_fault_disarm();
        renumber(&file, name, (uint64_t)sweep.rounds);
        dvg_fault_arm(DVG_FAULT_ALLOC, sweep.at, ENOMEM, false);
        struct ingest_import result;
        int rc = import(lab, &file, &result);
        dvg_fault_disarm();
        assert_true(rc == 0 || dvg_fault_fired());
        assert_true(rc == 0 || result.text[0]);
        refused += rc != 0;
        /* What failed is taken when there is memory again. */
        assert_int_equal(import(lab, &file, &result), 0);
        assert_true(result.complete);
    }
    assert_true(refused > 10);
    assert_int_equal(lab_number(lab, "SELECT count(*) FROM runs WHERE status = 'complete'"),
                     sweep.rounds);
    assert_int_equal(lab_number(lab, "SELECT sum(records) FROM segments"), 2 * sweep.rounds);
    lab_assert_text(lab, "PRAGMA integrity_check", "ok");
    dvg_buffer_fini(&file);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_recording_becomes_a_run),
        CASE(a_second_import_changes_nothing),
        cmocka_unit_test(a_torn_file_is_taken_as_far_as_it_goes),
        CASE(damage_is_told_with_its_place),
        CASE(what_is_no_recording_is_refused),
        CASE(a_refused_frame_ends_the_import_with_its_reason),
        CASE(a_file_may_hold_several_connections),
        CASE(an_import_leaves_the_notices_of_others),
        CASE(a_live_stream_is_not_imported_over),
        CASE(a_full_disk_is_told_and_the_import_can_be_repeated),
        CASE(no_memory_is_an_error_and_nothing_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
