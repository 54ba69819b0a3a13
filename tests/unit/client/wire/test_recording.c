/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/recording.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "tests/unit/client/wire/cmocka_all.h"
#include "tests/unit/client/wire/golden.h"

/* A recording to damage; `last` is where its last frame begins. */
struct fixture {
    struct dvg_buffer file;
    size_t last;
    int frames;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    dvg_buffer_init(&f->file, 1 << 20);
    golden_recording(&f->file);
    struct dvg_recording recording;
    dvg_recording_init(&recording, (struct dvg_bytes){f->file.data, f->file.size});
    struct dvg_frame frame;
    for (f->frames = 0;; f->frames++) {
        size_t at = recording.offset;
        if (dvg_recording_next(&recording, &frame) != 1)
            break;
        f->last = at;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    dvg_buffer_fini(&f->file);
    free(f);
    return 0;
}

/* Reads to the end: the number of frames, and the last answer. */
static int read_all(const uint8_t *bytes, size_t size, struct dvg_recording *recording, int *ret_rc)
{
    assert_int_equal(dvg_recording_init(recording, (struct dvg_bytes){bytes, size}), 0);
    struct dvg_frame frame;
    int frames = 0;
    while ((*ret_rc = dvg_recording_next(recording, &frame)) == 1)
        frames++;
    assert_int_equal(dvg_recording_next(recording, &frame), *ret_rc); /* asked again: the same */
    return frames;
}

static void other_files_are_told_apart(void **state)
{
    const struct fixture *f = *state;
    struct dvg_recording recording;
    assert_int_equal(dvg_recording_init(&recording, (struct dvg_bytes){f->file.data, 15}),
                     DIVERGE_EPROTO);
    uint8_t header[16] = "SQLite format 3";
    assert_int_equal(dvg_recording_init(&recording, (struct dvg_bytes){header, 16}),
                     DIVERGE_EPROTO);
    memcpy(header, dvg_file_header, 16);
    header[7] = 2;
    assert_int_equal(dvg_recording_init(&recording, (struct dvg_bytes){header, 16}),
                     DIVERGE_EVERSION);
    header[7] = 1;
    header[15] = 1;
    assert_int_equal(dvg_recording_init(&recording, (struct dvg_bytes){header, 16}),
                     DIVERGE_EVERSION);
}

static void a_file_cut_anywhere_has_a_torn_tail(void **state)
{
    const struct fixture *f = *state;
    for (size_t size = DVG_FILE_HEADER; size < f->file.size; size++) {
        struct dvg_recording recording;
        int rc;
        int frames = read_all(f->file.data, size, &recording, &rc);
        assert_int_equal(rc, 0);
        assert_true(frames < f->frames);
        assert_int_equal(recording.torn, recording.offset != size);
    }
}

static void zeros_behind_the_last_frame_are_a_torn_tail(void **state)
{
    const struct fixture *f = *state;
    size_t size = f->file.size + 4096;
    uint8_t *bytes = calloc(1, size);
    memcpy(bytes, f->file.data, f->file.size);
    struct dvg_recording recording;
    int rc;
    assert_int_equal(read_all(bytes, size, &recording, &rc), f->frames);
    assert_int_equal(rc, 0);
    assert_true(recording.torn);
    assert_int_equal(recording.offset, f->file.size);
    free(bytes);
}

static void a_changed_bit_with_frames_behind_it_is_corruption(void **state)
{
    const struct fixture *f = *state;
    for (size_t at = DVG_FILE_HEADER; at < f->last; at++) {
        for (int bit = 0; bit < 8; bit += 3) {
            f->file.data[at] ^= (uint8_t)(1 << bit);
            struct dvg_recording recording;
            int rc;
            int frames = read_all(f->file.data, f->file.size, &recording, &rc);
            assert_int_equal(rc, DIVERGE_ECORRUPT);
            assert_true(frames < f->frames - 1);
            assert_true(recording.offset <= at);
            f->file.data[at] ^= (uint8_t)(1 << bit);
        }
    }
}

static void a_changed_bit_in_a_complete_last_frame_is_corruption(void **state)
{
    const struct fixture *f = *state;
    for (size_t at = f->last + DVG_FRAME_HEADER; at < f->file.size; at++) {
        f->file.data[at] ^= 4;
        struct dvg_recording recording;
        int rc;
        assert_int_equal(read_all(f->file.data, f->file.size, &recording, &rc), f->frames - 1);
        assert_int_equal(rc, DIVERGE_ECORRUPT);
        f->file.data[at] ^= 4;
    }
}

static void a_frame_without_crc_is_corruption(void **state)
{
    const struct fixture *f = *state;
    dvg_frame_set_seq(f->file.data + DVG_FILE_HEADER, 0);
    struct dvg_recording recording;
    int rc;
    assert_int_equal(read_all(f->file.data, f->file.size, &recording, &rc), 0);
    assert_int_equal(rc, DIVERGE_ECORRUPT);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(other_files_are_told_apart),
        CASE(a_file_cut_anywhere_has_a_torn_tail),
        CASE(zeros_behind_the_last_frame_are_a_torn_tail),
        CASE(a_changed_bit_with_frames_behind_it_is_corruption),
        CASE(a_changed_bit_in_a_complete_last_frame_is_corruption),
        CASE(a_frame_without_crc_is_corruption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
