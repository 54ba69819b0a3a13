/* SPDX-License-Identifier: Apache-2.0 */
/* What does not fit together is refused and nothing is written; what is unusual but right is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/client/lib/fingerprint/slow.h"

enum {
    ALL = DIVERGE_WITH_STATISTICS | DIVERGE_WITH_SKETCH64,
};

static float values[6] = {1, 2, 3, 4, 5, 6};
static int64_t two_by_three[] = {2, 3};

static struct diverge_view usual(void)
{
    return (struct diverge_view){
        .data = values, .dtype = DIVERGE_F32, .ndim = 2, .sizes = two_by_three};
}

static void assert_refused_with(const struct diverge_view *view, unsigned what)
{
    struct diverge_fingerprint print;
    struct diverge_fingerprint before;

    memset(&print, 0x5a, sizeof(print));
    memset(&before, 0x5a, sizeof(before));
    assert_int_equal(diverge_fingerprint(view, what, &print), DIVERGE_EINVAL);
    assert_memory_equal(&print, &before, sizeof(print));
}

static void assert_refused(const struct diverge_view *view)
{
    assert_refused_with(view, ALL);
}

static struct diverge_fingerprint assert_taken(const struct diverge_view *view)
{
    struct diverge_fingerprint print;

    assert_int_equal(diverge_fingerprint(view, ALL, &print), 0);
    return print;
}

static void refuses_what_is_no_dtype(void **state)
{
    static const int numbers[] = {0, -1, DIVERGE_DTYPE_COUNT, 255, 1 << 30};

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct diverge_view view = usual();

        memcpy(&view.dtype, &numbers[i], sizeof(view.dtype));
        assert_refused(&view);
    }
}

static void refuses_dimensions_out_of_range(void **state)
{
    int64_t sizes[DIVERGE_MAX_NDIM + 1];
    struct diverge_view view = usual();

    (void)state;
    for (int i = 0; i <= DIVERGE_MAX_NDIM; i++)
        sizes[i] = 1;
    view.ndim = -1;
    assert_refused(&view);
    view.ndim = DIVERGE_MAX_NDIM + 1;
    view.sizes = sizes;
    assert_refused(&view);
    view.ndim = DIVERGE_MAX_NDIM;
    assert_int_equal(assert_taken(&view).stats.numel, 1);
}

static void refuses_missing_arguments(void **state)
{
    struct diverge_view view = usual();
    struct diverge_fingerprint print;

    (void)state;
    assert_refused(NULL);
    assert_int_equal(diverge_fingerprint(&view, ALL, NULL), DIVERGE_EINVAL);
    view.sizes = NULL;
    assert_refused(&view);
    view = usual();
    view.data = NULL;
    assert_refused(&view);
    view.ndim = 0;
    view.sizes = NULL;
    assert_refused(&view);
    view.data = values;
    assert_int_equal(diverge_fingerprint(&view, ALL, &print), 0);
}

static void refuses_unknown_wishes(void **state)
{
    struct diverge_view view = usual();

    (void)state;
    assert_refused_with(&view, 8);
    assert_refused_with(&view, ~0U);
    assert_refused_with(&view, DIVERGE_WITH_SKETCH32 | DIVERGE_WITH_SKETCH64);
}

static void refuses_negative_sizes_even_of_an_empty_tensor(void **state)
{
    int64_t sizes[] = {0, -1};
    struct diverge_view view = usual();

    (void)state;
    view.sizes = sizes;
    assert_refused(&view);
    sizes[0] = 3;
    assert_refused(&view);
    sizes[1] = INT64_MIN;
    assert_refused(&view);
}

static void refuses_sizes_beyond_2_60_bytes(void **state)
{
    int64_t sizes[] = {INT64_C(1) << 32, INT64_C(1) << 32, 1};
    int64_t strides[] = {0, 0, 0};
    struct diverge_view view = usual();

    (void)state;
    view.ndim = 3;
    view.sizes = sizes;
    view.strides = strides;
    assert_refused(&view); /* 2^64: would be 0 */
    sizes[1] = INT64_C(1) << 27;
    assert_refused(&view); /* 2^59 elements, 2^61 bytes */
    sizes[0] = sizes[1] = sizes[2] = INT64_MAX;
    assert_refused(&view);
}

static void refuses_strides_that_leave_the_address_space(void **state)
{
    int64_t strides[] = {INT64_MAX, 1};
    struct diverge_view view = usual();

    (void)state;
    view.strides = strides;
    assert_refused(&view);
    strides[0] = INT64_MIN;
    assert_refused(&view);
    strides[0] = INT64_C(1) << 60;
    assert_refused(&view);
}

static void refuses_extents_that_do_not_add_up(void **state)
{
    struct diverge_extent extents[] = {{.start = 0, .length = 3}, {.start = 10, .length = 2}};
    struct diverge_view view = usual();

    (void)state;
    view.extents = extents;
    view.n_extents = 2;
    assert_refused(&view); /* 5 of 6 */
    extents[1].length = 4;
    assert_refused(&view); /* 7 of 6 */
    extents[1].length = 3;
    assert_taken(&view);
    view.n_extents = 1;
    assert_refused(&view);
    view.n_extents = 0;
    assert_refused(&view);
    extents[0].length = UINT64_MAX;
    extents[1].length = 7; /* adds up to 6 mod 2^64 */
    view.n_extents = 2;
    assert_refused(&view);
    view.extents = NULL;
    assert_refused(&view);
}

static void refuses_extents_beyond_2_60_bytes(void **state)
{
    struct diverge_extent extent = {.start = UINT64_C(1) << 58, .length = 6};
    struct diverge_view view = usual();

    (void)state;
    view.extents = &extent;
    view.n_extents = 1;
    assert_refused(&view);
    extent.start = UINT64_MAX - 2;
    assert_refused(&view);
    extent.start = (UINT64_C(1) << 58) - 6;
    assert_taken(&view);
}

static void takes_a_shard_of_2_40_elements(void **state)
{
    uint64_t start = UINT64_C(1) << 40;
    struct diverge_extent extents[] = {{.start = start, .length = 4},
                                       {.start = start + 5, .length = 2}};
    struct diverge_view view = usual();
    uint64_t want;

    (void)state;
    view.extents = extents;
    view.n_extents = 2;
    want = diverge_checksum_add(slow_checksum((const uint8_t *)values, 16, start * 4),
                                slow_checksum((const uint8_t *)(values + 4), 8, start * 4 + 20));
    assert_true(assert_taken(&view).checksum == want);
}

static void takes_a_2_40_element_tensor_with_one_local_value(void **state)
{
    int64_t sizes[] = {1, 1};
    struct diverge_extent extent = {.start = (UINT64_C(1) << 40) - 1, .length = 1};
    struct diverge_view view = usual();

    (void)state;
    view.sizes = sizes;
    view.extents = &extent;
    view.n_extents = 1;
    assert_int_equal(assert_taken(&view).stats.numel, 1);
}

static void an_empty_tensor_has_checksum_0_and_no_range(void **state)
{
    int64_t sizes[] = {INT64_MAX, 0, INT64_MAX};
    struct diverge_extent none = {.start = 7, .length = 0};
    struct diverge_view view = {.dtype = DIVERGE_F32, .ndim = 3, .sizes = sizes};

    (void)state;
    for (int round = 0; round < 3; round++) {
        struct diverge_fingerprint print = assert_taken(&view);

        assert_int_equal(print.checksum, 0);
        assert_int_equal(print.stats.numel, 0);
        assert_int_equal(print.stats.valid,
                         DIVERGE_STAT_PRESENT | DIVERGE_STAT_SUM | DIVERGE_STAT_L2);
        assert_true(print.stats.sum == 0 && print.stats.l2 == 0);
        for (int i = 0; i < 64; i++)
            assert_true(print.sketch[i] == 0);
        view.extents = &none;
        view.n_extents = round == 0;
    }
}

static void a_0_dimensional_tensor_has_one_element(void **state)
{
    struct diverge_view view = {.data = values, .dtype = DIVERGE_F32};
    struct diverge_fingerprint print;

    (void)state;
    print = assert_taken(&view);
    assert_true(print.checksum == slow_checksum((const uint8_t *)values, 4, 0));
    assert_int_equal(print.stats.numel, 1);
    assert_true(print.stats.min.f == 1 && print.stats.max.f == 1);
}

static void only_what_was_asked_for_is_set(void **state)
{
    struct diverge_view view = usual();
    struct diverge_fingerprint print;

    (void)state;
    memset(&print, 0x5a, sizeof(print));
    assert_int_equal(diverge_fingerprint(&view, 0, &print), 0);
    assert_int_equal(print.stats.valid, 0);
    assert_int_equal(print.sketch_size, 0);
    assert_int_equal(diverge_fingerprint(&view, DIVERGE_WITH_SKETCH32, &print), 0);
    assert_int_equal(print.stats.valid, 0);
    assert_int_equal(print.sketch_size, 32);
    for (int i = 32; i < 64; i++)
        assert_true(print.sketch[i] == 0);
}

static void zeros_of_both_signs_differ_in_the_checksum_alone(void **state)
{
    float zeros[] = {0.0F, 0.0F, -0.0F};
    int64_t size = 2;
    struct diverge_view view = {.data = zeros, .dtype = DIVERGE_F32, .ndim = 1, .sizes = &size};
    struct diverge_fingerprint plain = assert_taken(&view);
    struct diverge_fingerprint signed_;

    (void)state;
    view.data = zeros + 1;
    signed_ = assert_taken(&view);
    assert_int_equal(plain.checksum, 0);
    assert_true(signed_.checksum != 0);
    assert_int_equal(signed_.stats.zero, 2);
    assert_memory_equal(&plain.stats, &signed_.stats, sizeof(plain.stats));
}

/* An unaligned buffer that ends where it ends: a sanitizer sees a byte too many. */
static void reads_the_elements_and_nothing_beyond(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 300; bytes++) {
        uint8_t *data = malloc(bytes);
        int64_t size = (int64_t)bytes;
        struct diverge_view view = {.dtype = DIVERGE_U8, .ndim = 1, .sizes = &size};

        assert_non_null(data);
        memset(data, 0x77, bytes);
        view.data = data;
        assert_true(assert_taken(&view).checksum == slow_checksum(data, bytes, 0));
        if (bytes % 4 == 1 && bytes > 4) {
            view.data = data + 1;
            view.dtype = DIVERGE_F32;
            size = (int64_t)(bytes / 4);
            assert_true(assert_taken(&view).checksum == slow_checksum(data + 1, bytes - 1, 0));
        }
        free(data);
    }
}

static void dtypes_have_sizes_and_names_both_ways(void **state)
{
    int unknown = DIVERGE_DTYPE_COUNT;
    enum diverge_dtype none;

    (void)state;
    memcpy(&none, &unknown, sizeof(none));
    assert_int_equal(diverge_dtype_size(none), 0);
    assert_null(diverge_dtype_name(none));
    assert_int_equal(diverge_dtype_find(NULL), 0);
    assert_int_equal(diverge_dtype_find(""), 0);
    assert_int_equal(diverge_dtype_find("float31"), 0);
    assert_int_equal(diverge_dtype_size(DIVERGE_C128), 16);
    assert_string_equal(diverge_dtype_name(DIVERGE_BF16), "bfloat16");
    for (int i = 1; i < DIVERGE_DTYPE_COUNT; i++) {
        enum diverge_dtype dtype = (enum diverge_dtype)i;

        assert_int_equal(diverge_dtype_find(diverge_dtype_name(dtype)), dtype);
        assert_true(diverge_dtype_size(dtype) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_no_dtype),
        cmocka_unit_test(refuses_dimensions_out_of_range),
        cmocka_unit_test(refuses_missing_arguments),
        cmocka_unit_test(refuses_unknown_wishes),
        cmocka_unit_test(refuses_negative_sizes_even_of_an_empty_tensor),
        cmocka_unit_test(refuses_sizes_beyond_2_60_bytes),
        cmocka_unit_test(refuses_strides_that_leave_the_address_space),
        cmocka_unit_test(refuses_extents_that_do_not_add_up),
        cmocka_unit_test(refuses_extents_beyond_2_60_bytes),
        cmocka_unit_test(takes_a_shard_of_2_40_elements),
        cmocka_unit_test(takes_a_2_40_element_tensor_with_one_local_value),
        cmocka_unit_test(an_empty_tensor_has_checksum_0_and_no_range),
        cmocka_unit_test(a_0_dimensional_tensor_has_one_element),
        cmocka_unit_test(only_what_was_asked_for_is_set),
        cmocka_unit_test(zeros_of_both_signs_differ_in_the_checksum_alone),
        cmocka_unit_test(reads_the_elements_and_nothing_beyond),
        cmocka_unit_test(dtypes_have_sizes_and_names_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
