/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/mem.h"
#include "client/ctl/text.h"

static int setup(void **state)
{
    (void)state;
    text_init("never");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free_all();
    return 0;
}

static void escape_leaves_plain_text_alone(void **state)
{
    (void)state;
    assert_string_equal(text_escape("encoder.layer.3"), "encoder.layer.3");
    assert_string_equal(text_escape("größe 重み C:\\x"), "größe 重み C:\\x");
    assert_string_equal(text_escape(""), "");
}

static void escape_shows_control_characters(void **state)
{
    (void)state;
    assert_string_equal(text_escape("a\nb\tc\rd"), "a\\nb\\tc\\rd");
    assert_string_equal(text_escape("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
    assert_string_equal(text_escape("\x7f\x01"), "\\x7f\\x01");
    assert_string_equal(text_escape("\xc2\x9b"
                                    "31m"),
                        "\\u{9b}31m"); /* CSI as one character */
}

static void escape_shows_what_reorders_or_hides(void **state)
{
    (void)state;
    assert_string_equal(text_escape("a\u202eb"), "a\\u{202e}b");
    assert_string_equal(text_escape("a\u200bb"), "a\\u{200b}b");
    assert_string_equal(text_escape("\ufeff"), "\\u{feff}");
}

static void escape_shows_bytes_that_are_not_utf8(void **state)
{
    (void)state;
    assert_string_equal(text_escape("\xff\xfe"), "\\xff\\xfe");
    assert_string_equal(text_escape("\xc0\x80"), "\\xc0\\x80");          /* overlong */
    assert_string_equal(text_escape("\xed\xa0\x80"), "\\xed\\xa0\\x80"); /* surrogate */
    assert_string_equal(text_escape("ab\xe2\x82"), "ab\\xe2\\x82");      /* cut off */
    assert_string_equal(text_escape("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

static void counts_are_grouped(void **state)
{
    (void)state;
    assert_string_equal(text_count(0), "0");
    assert_string_equal(text_count(999), "999");
    assert_string_equal(text_count(1000), "1 000");
    assert_string_equal(text_count(1204331), "1 204 331");
    assert_string_equal(text_count(UINT64_MAX), "18 446 744 073 709 551 615");
}

static void things_have_a_plural(void **state)
{
    (void)state;
    assert_string_equal(text_things(1, "step"), "1 step");
    assert_string_equal(text_things(0, "step"), "0 steps");
    assert_string_equal(text_things(2, "boundary"), "2 boundaries");
    assert_string_equal(text_things(2, "key"), "2 keys");
}

static void sizes_have_binary_units(void **state)
{
    (void)state;
    assert_string_equal(text_bytes(0), "0 B");
    assert_string_equal(text_bytes(1023), "1023 B");
    assert_string_equal(text_bytes(1024), "1.0 KiB");
    assert_string_equal(text_bytes(1536), "1.5 KiB");
    assert_string_equal(text_bytes(1024 * 1024 - 1), "1.0 MiB");
    assert_string_equal(text_bytes(UINT64_MAX), "16.0 EiB");
}

static void durations_have_two_units(void **state)
{
    (void)state;
    assert_string_equal(text_duration(12), "12 ms");
    assert_string_equal(text_duration(12345), "12 s");
    assert_string_equal(text_duration(200000), "3 min 20 s");
    assert_string_equal(text_duration(180000), "3 min");
    assert_string_equal(text_duration(7500000), "2 h 5 min");
    assert_string_equal(text_duration(90000000), "1 d 1 h");
}

static void times_are_local(void **state)
{
    (void)state;
    setenv("TZ", "UTC", 1);
    assert_string_equal(text_time(0), "");
    assert_string_equal(text_time(INT64_C(951782400) * 1000000), "2000-02-29 00:00:00");
}

static void exact_numbers_read_back(void **state)
{
    static const double values[] = {
        0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 0.0095, 123456789.123456789};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        double back = strtod(text_exact(values[i]), NULL);

        assert_memory_equal(&back, &values[i], sizeof(back));
    }
    assert_string_equal(text_exact(0.1), "0.1");
    assert_string_equal(text_exact(NAN), "nan");
    assert_string_equal(text_exact(-INFINITY), "-inf");
    assert_string_equal(text_number(copysign(NAN, -1)), "nan");
}

static void shapes_read_like_a_type(void **state)
{
    (void)state;
    assert_string_equal(text_shape(DIVERGE_F32, 2, (const int64_t[]){768, 768}),
                        "float32[768,768]");
    assert_string_equal(text_shape(DIVERGE_BF16, 0, NULL), "bfloat16[]");
    assert_string_equal(text_shape((enum diverge_dtype)99, 0, NULL), "?[]");
}

static void segments_have_names(void **state)
{
    (void)state;
    assert_string_equal(text_segment(0), "init");
    assert_string_equal(text_segment(diverge_segment_of_boundary(0)), "boundary 0");
    assert_string_equal(text_segment(diverge_segment_of_step(0)), "step 0");
    assert_string_equal(text_segment(diverge_segment_of_boundary(12)), "boundary 12");
    assert_string_equal(text_segment(diverge_segment_of_step(12)), "step 12");
}

static void values_are_read_in_their_own_width(void **state)
{
    (void)state;
    assert_true(text_value(DIVERGE_F32, 0x3f800000) == 1.0);
    assert_true(text_value(DIVERGE_F64, UINT64_C(0xc000000000000000)) == -2.0);
    assert_true(text_value(DIVERGE_F16, 0x3c00) == 1.0);
    assert_true(text_value(DIVERGE_F16, 0x0001) == 0x1p-24);
    assert_true(text_value(DIVERGE_F16, 0x7bff) == 65504);
    assert_true(text_value(DIVERGE_BF16, 0xbf80) == -1.0);
    assert_true(text_value(DIVERGE_F8E4M3FN, 0x7e) == 448);
    assert_true(text_value(DIVERGE_F8E5M2, 0x7b) == 57344);
    assert_true(text_value(DIVERGE_F8E4M3FNUZ, 0x7f) == 240);
    assert_true(text_value(DIVERGE_F8E5M2FNUZ, 0x7f) == 57344);
    assert_true(text_value(DIVERGE_I8, 0xff) == -1);
    assert_true(text_value(DIVERGE_U8, 0xff) == 255);
    assert_true(text_value(DIVERGE_I32, 0xfffffffe) == -2);
    assert_true(text_value(DIVERGE_BOOL, 1) == 1);
    assert_true(isnan(text_value(DIVERGE_OPAQUE, 0)));
}

static void numbers_are_parsed_whole(void **state)
{
    uint64_t value = 7;

    (void)state;
    assert_int_equal(text_parse_u64("18446744073709551615", &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(text_parse_u64("18446744073709551616", &value), DIVERGE_ELIMIT);
    assert_int_equal(text_parse_u64("-1", &value), DIVERGE_EINVAL);
    assert_int_equal(text_parse_u64("+1", &value), DIVERGE_EINVAL);
    assert_int_equal(text_parse_u64(" 1", &value), DIVERGE_EINVAL);
    assert_int_equal(text_parse_u64("1x", &value), DIVERGE_EINVAL);
    assert_int_equal(text_parse_u64("", &value), DIVERGE_EINVAL);
    assert_true(value == UINT64_MAX); /* untouched by failures */
}

static const char *wrapped(const char *label, int indent, const char *text, int width)
{
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);

    text_wrap(file, label, indent, text, width);
    fclose(file);
    const char *copy = mem_string(out);

    free(out);
    return copy;
}

static void wrap_breaks_at_spaces_and_indents(void **state)
{
    (void)state;
    assert_string_equal(wrapped("op  ", 4, "one two three", 12), "op  one two\n    three\n");
    assert_string_equal(wrapped("", 2, "one two", 0), "one two\n");
    assert_string_equal(wrapped("x ", 2, "", 40), "x \n");
    assert_string_equal(wrapped("", 2, "a-word-too-long-for-it b", 10),
                        "a-word-too-long-for-it\n  b\n");
}

static void wrap_keeps_numbers_together(void **state)
{
    (void)state;
    assert_string_equal(wrapped("", 0, "about 1 204 331 records", 14),
                        "about\n1 204 331\nrecords\n");
}

static void wrap_counts_columns_not_bytes(void **state)
{
    (void)state;
    assert_string_equal(wrapped("", 0, "äää bbb", 7), "äää bbb\n");
    assert_int_equal(text_columns("重み"), 4);
    assert_int_equal(text_columns("\033[1mbold\033[0m"), 4);
}

static void nearest_word_is_found(void **state)
{
    static const char *const words[] = {"run", "runs", "first-diff", "status"};

    (void)state;
    assert_string_equal(text_nearest("firstdiff", words, 4), "first-diff");
    assert_string_equal(text_nearest("stauts", words, 4), "status");
    assert_null(text_nearest("elephant", words, 4));
    assert_int_equal(text_distance("ab", "ba"), 1);
    assert_int_equal(text_distance("", "abc"), 3);
}

static void alternatives_read_as_a_sentence(void **state)
{
    static const char *const words[] = {"a", "b", "c"};

    (void)state;
    assert_string_equal(text_alternatives(words, 1), "a");
    assert_string_equal(text_alternatives(words, 2), "a or b");
    assert_string_equal(text_alternatives(words, 3), "a, b or c");
}

static void colour_is_off_when_never(void **state)
{
    (void)state;
    assert_string_equal(text_style(TEXT_BOLD), "");
    text_init("always");
    assert_string_equal(text_style(TEXT_BOLD), "\033[1m");
    text_init("never");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escape_leaves_plain_text_alone),
        cmocka_unit_test(escape_shows_control_characters),
        cmocka_unit_test(escape_shows_what_reorders_or_hides),
        cmocka_unit_test(escape_shows_bytes_that_are_not_utf8),
        cmocka_unit_test(counts_are_grouped),
        cmocka_unit_test(things_have_a_plural),
        cmocka_unit_test(sizes_have_binary_units),
        cmocka_unit_test(durations_have_two_units),
        cmocka_unit_test(times_are_local),
        cmocka_unit_test(exact_numbers_read_back),
        cmocka_unit_test(shapes_read_like_a_type),
        cmocka_unit_test(segments_have_names),
        cmocka_unit_test(values_are_read_in_their_own_width),
        cmocka_unit_test(numbers_are_parsed_whole),
        cmocka_unit_test(wrap_breaks_at_spaces_and_indents),
        cmocka_unit_test(wrap_keeps_numbers_together),
        cmocka_unit_test(wrap_counts_columns_not_bytes),
        cmocka_unit_test(nearest_word_is_found),
        cmocka_unit_test(alternatives_read_as_a_sentence),
        cmocka_unit_test(colour_is_off_when_never),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
