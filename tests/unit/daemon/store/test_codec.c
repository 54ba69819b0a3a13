/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "daemon/store/codec.h"

enum { COUNT = 5000, MAX_BYTES = 1 << 24 };

static struct codec_encoder *encoder;
static struct codec_decoder *decoder;

static int setup(void **state)
{
    (void)state;
    return codec_encoder_new(&encoder) || codec_decoder_new(&decoder);
}

static int teardown(void **state)
{
    (void)state;
    codec_encoder_free(encoder);
    codec_decoder_free(decoder);
    return 0;
}

static uint64_t next_random(void)
{
    static uint64_t state = 42;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Encodes and checks that it decodes to the same; the blob is the caller's. */
static uint8_t *round_trip(enum codec_effort effort, uint32_t count,
                           const struct codec_column *columns, size_t n, size_t *ret_size)
{
    uint8_t *blob = malloc(codec_bound(columns, n));
    assert_non_null(blob);
    assert_int_equal(codec_encode(encoder, effort, count, columns, n, blob, ret_size), 0);
    assert_true(*ret_size <= codec_bound(columns, n));
    struct codec_blob decoded = {0};
    assert_int_equal(codec_decode(decoder, blob, *ret_size, MAX_BYTES, &decoded), 0);
    assert_int_equal(decoded.count, count);
    for (size_t i = 0; i < n; i++) {
        enum column c = columns[i].column;
        assert_int_equal(decoded.items[c], columns[i].items);
        assert_memory_equal(decoded.data[c], columns[i].data, columns[i].items * column_width(c));
    }
    codec_blob_fini(&decoded);
    return blob;
}

static void any_count_and_width_comes_back(void **state)
{
    (void)state;
    static uint64_t wide[100];
    static uint32_t narrow[100];
    static uint8_t bytes[100];
    for (int i = 0; i < 100; i++) {
        wide[i] = next_random();
        narrow[i] = (uint32_t)next_random();
        bytes[i] = (uint8_t)next_random();
    }
    for (uint32_t count = 0; count < 100; count++) {
        const struct codec_column columns[] = {
            {.column = COLUMN_VALUE, .items = count, .data = wide},
            {.column = COLUMN_SITE, .items = count, .data = narrow, .delta = true},
            {.column = COLUMN_SUM, .items = count, .data = narrow},
            {.column = COLUMN_STATE, .items = count, .data = bytes},
        };
        for (int effort = CODEC_RAW; effort <= CODEC_ALWAYS; effort++) {
            size_t size = 0;
            free(round_trip((enum codec_effort)effort, count, columns, 4, &size));
        }
    }
}

static void noise_is_left_raw_and_patterns_shrink(void **state)
{
    (void)state;
    static uint64_t noise[COUNT];
    static uint32_t order[COUNT];
    static uint64_t ranges[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        noise[i] = next_random();
        order[i] = i;
        ranges[i] = next_random() & 0xffff;
    }
    size_t size = 0;
    struct codec_column column = {.column = COLUMN_VALUE, .items = COUNT, .data = noise};
    free(round_trip(CODEC_SAMPLE, COUNT, &column, 1, &size));
    assert_in_range(size, 8 * COUNT, 8 * COUNT + 64);
    column =
        (struct codec_column){.column = COLUMN_ORDER, .items = COUNT, .data = order, .delta = true};
    free(round_trip(CODEC_ALWAYS, COUNT, &column, 1, &size));
    assert_in_range(size, 16, 128);
    column = (struct codec_column){.column = COLUMN_MIN, .items = COUNT, .data = ranges};
    free(round_trip(CODEC_SAMPLE, COUNT, &column, 1, &size));
    assert_in_range(size, 2 * COUNT, 2 * COUNT + 64);
}

static void every_truncation_is_corrupt(void **state)
{
    (void)state;
    static uint32_t order[COUNT];
    static uint64_t value[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        order[i] = i / 7;
        value[i] = next_random();
    }
    const struct codec_column columns[] = {
        {.column = COLUMN_ORDER, .items = 300, .data = order},
        {.column = COLUMN_VALUE, .items = 300, .data = value},
    };
    size_t size = 0;
    uint8_t *blob = round_trip(CODEC_ALWAYS, 300, columns, 2, &size);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *part = malloc(cut + 1); /* exact, so that a sanitizer sees a read past it */
        assert_non_null(part);
        memcpy(part, blob, cut);
        struct codec_blob decoded = {0};
        int rc = codec_decode(decoder, part, cut, MAX_BYTES, &decoded);
        assert_int_equal(rc, DIVERGE_ECORRUPT);
        assert_null(decoded.memory);
        free(part);
    }
    free(blob);
}

static void one_byte_too_many_is_corrupt(void **state)
{
    (void)state;
    uint8_t bytes[4] = {1, 2, 3, 4};
    struct codec_column column = {.column = COLUMN_STATE, .items = 4, .data = bytes};
    uint8_t blob[64] = {0};
    size_t size = 0;
    assert_int_equal(codec_encode(encoder, CODEC_RAW, 4, &column, 1, blob, &size), 0);
    struct codec_blob decoded = {0};
    assert_int_equal(codec_decode(decoder, blob, size + 1, MAX_BYTES, &decoded), DIVERGE_ECORRUPT);
}

/* Sets one byte of a good blob's header and expects a refusal. */
static void expect_refused(size_t at, uint8_t byte, int status)
{
    uint8_t bytes[4] = {1, 2, 3, 4};
    struct codec_column column = {.column = COLUMN_STATE, .items = 4, .data = bytes};
    uint8_t blob[64] = {0};
    size_t size = 0;
    assert_int_equal(codec_encode(encoder, CODEC_RAW, 4, &column, 1, blob, &size), 0);
    blob[at] = byte;
    struct codec_blob decoded = {0};
    assert_int_equal(codec_decode(decoder, blob, size, MAX_BYTES, &decoded), status);
}

static void bad_headers_are_corrupt(void **state)
{
    (void)state;
    expect_refused(0, 2, DIVERGE_ECORRUPT); /* version */
    expect_refused(1, 1, DIVERGE_ECORRUPT); /* reserved */
    expect_refused(2, 2, DIVERGE_ECORRUPT); /* more columns than there are */
    expect_refused(2, 255, DIVERGE_ECORRUPT);
    expect_refused(4, 5, DIVERGE_ECORRUPT);  /* count that is not the column's */
    expect_refused(8, 99, DIVERGE_ECORRUPT); /* unknown column */
    expect_refused(8, 32, DIVERGE_ECORRUPT); /* a wider column */
    expect_refused(9, 1, DIVERGE_ECORRUPT);  /* delta of bytes */
    expect_refused(9, 7, DIVERGE_ECORRUPT);  /* unknown transform */
    expect_refused(10, 1, DIVERGE_ECORRUPT); /* reserved */
    expect_refused(16, 9, DIVERGE_ECORRUPT); /* unknown encoding of a plane */
}

static void a_small_blob_cannot_ask_for_much_memory(void **state)
{
    (void)state;
    /* One constant plane of 2^31 items. */
    uint8_t blob[] = {1, 0, 1, 0, 0, 0, 0, 0x80, 35, 0, 0, 0, 0, 0, 0, 0x80, 0, 0};
    struct codec_blob decoded = {0};
    assert_int_equal(codec_decode(decoder, blob, sizeof blob, MAX_BYTES, &decoded), DIVERGE_ELIMIT);
}

static void sparse_columns_must_fit_together(void **state)
{
    (void)state;
    uint32_t index[2] = {3, 1};
    uint64_t counts[2] = {1, 1};
    const struct codec_column columns[] = {
        {.column = COLUMN_NONFINITE_INDEX, .items = 2, .data = index},
        {.column = COLUMN_NAN, .items = 2, .data = counts},
        {.column = COLUMN_PINF, .items = 2, .data = counts},
        {.column = COLUMN_NINF, .items = 2, .data = counts},
    };
    uint8_t blob[512];
    size_t size = 0;
    struct codec_blob decoded = {0};
    assert_int_equal(codec_encode(encoder, CODEC_RAW, 9, columns, 4, blob, &size), 0);
    assert_int_equal(codec_decode(decoder, blob, size, MAX_BYTES, &decoded), DIVERGE_ECORRUPT);
    index[0] = 0;
    assert_int_equal(codec_encode(encoder, CODEC_RAW, 9, columns, 3, blob, &size), 0);
    assert_int_equal(codec_decode(decoder, blob, size, MAX_BYTES, &decoded), DIVERGE_ECORRUPT);
    assert_int_equal(codec_encode(encoder, CODEC_RAW, 1, columns, 4, blob, &size), 0);
    assert_int_equal(codec_decode(decoder, blob, size, MAX_BYTES, &decoded), DIVERGE_ECORRUPT);
    assert_int_equal(codec_encode(encoder, CODEC_RAW, 2, columns, 4, blob, &size), 0);
    assert_int_equal(codec_decode(decoder, blob, size, MAX_BYTES, &decoded), 0);
    codec_blob_fini(&decoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_count_and_width_comes_back),
        cmocka_unit_test(noise_is_left_raw_and_patterns_shrink),
        cmocka_unit_test(every_truncation_is_corrupt),
        cmocka_unit_test(one_byte_too_many_is_corrupt),
        cmocka_unit_test(bad_headers_are_corrupt),
        cmocka_unit_test(a_small_blob_cannot_ask_for_much_memory),
        cmocka_unit_test(sparse_columns_must_fit_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
