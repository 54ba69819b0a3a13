/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <string.h>

#include "client/lib/value.h"
#include "client/wire/message.h"

static uint64_t bits(enum diverge_dtype dtype, double value)
{
    return dvg_value_bits(dtype, (union diverge_value){.f = value});
}

/*
 * The fingerprint of one element reads it as its dtype says and gives it back as min: its bits must
 * be the element's. Every finite pattern of every small float dtype.
 */
static void small_floats_survive(void **state)
{
    (void)state;
    static const enum diverge_dtype dtypes[] = {DIVERGE_F16,        DIVERGE_BF16,
                                                DIVERGE_F8E4M3FN,   DIVERGE_F8E5M2,
                                                DIVERGE_F8E4M3FNUZ, DIVERGE_F8E5M2FNUZ};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        size_t size = diverge_dtype_size(dtypes[i]);
        size_t finite = 0;
        for (uint32_t pattern = 0; pattern < 1u << (8 * size); pattern++) {
            struct diverge_view view = {.data = &pattern, .dtype = dtypes[i]};
            struct diverge_fingerprint fingerprint;
            assert_int_equal(diverge_fingerprint(&view, DIVERGE_WITH_STATISTICS, &fingerprint), 0);
            if (!(fingerprint.stats.valid & DIVERGE_STAT_RANGE))
                continue;
            finite++;
            uint64_t back = dvg_value_bits(dtypes[i], fingerprint.stats.min);
            /* Whether the smallest of zeros has a sign is not said. */
            if (fingerprint.stats.zero)
                continue;
            assert_int_equal(back, pattern);
        }
        assert_true(finite > 200);
    }
}

static void wide_floats_and_integers_keep_their_bits(void **state)
{
    (void)state;
    assert_int_equal(bits(DIVERGE_F32, 1.0), 0x3f800000);
    assert_int_equal(bits(DIVERGE_C64, -2.0), 0xc0000000);
    assert_true(bits(DIVERGE_F64, 1.0) == UINT64_C(0x3ff0000000000000));
    assert_int_equal(bits(DIVERGE_F16, -0.0), 0x8000);
    assert_int_equal(bits(DIVERGE_F8E4M3FNUZ, -0.0), 0);
    const union diverge_value minus = {.i = -1};
    assert_int_equal(dvg_value_bits(DIVERGE_I8, minus), 0xff);
    assert_int_equal(dvg_value_bits(DIVERGE_I16, minus), 0xffff);
    assert_int_equal(dvg_value_bits(DIVERGE_I32, minus), 0xffffffff);
    assert_true(dvg_value_bits(DIVERGE_I64, minus) == UINT64_MAX);
    const union diverge_value large = {.u = UINT64_MAX};
    assert_true(dvg_value_bits(DIVERGE_U64, large) == UINT64_MAX);
}

/* Both ways of writing an entry write the same. */
static void direct_measure_is_the_same(void **state)
{
    (void)state;
    struct diverge_fingerprint fingerprint = {
        .checksum = 77,
        .stats = {.zero = 3, .min = {.f = -1}, .max = {.f = 2}, .sum = 1e300, .l2 = 5},
        .sketch_size = 32,
        .sketch = {1, 2, 3},
    };
    for (uint32_t valid = 0; valid < 16; valid++) {
        fingerprint.stats.valid = valid;
        struct dvg_entry direct = {0};
        struct dvg_entry filled = {0};
        struct dvg_value value;
        dvg_entry_measure(&direct, DIVERGE_F32, &fingerprint, false);
        dvg_value_from(&value, DIVERGE_F32, &fingerprint);
        dvg_entry_fill(&filled, &value, NULL);
        assert_memory_equal(&direct, &filled, sizeof(direct));
    }
}

static void sum_beyond_float32_is_left_out(void **state)
{
    (void)state;
    struct diverge_fingerprint fingerprint = {
        .stats = {.sum = 1e39,
                  .l2 = 1e38,
                  .valid = DIVERGE_STAT_PRESENT | DIVERGE_STAT_SUM | DIVERGE_STAT_L2}};
    struct dvg_value value;
    dvg_value_from(&value, DIVERGE_F64, &fingerprint);
    assert_int_equal(value.state, DVG_STATE_STATS | DVG_STATE_L2);
    assert_true(value.sum == 0);
    fingerprint.stats.sum = NAN;
    dvg_value_from(&value, DIVERGE_F64, &fingerprint);
    assert_int_equal(value.state, DVG_STATE_STATS | DVG_STATE_L2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_floats_survive),
        cmocka_unit_test(wide_floats_and_integers_keep_their_bits),
        cmocka_unit_test(direct_measure_is_the_same),
        cmocka_unit_test(sum_beyond_float32_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
