/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "daemon/store/columns.h"

static const uint32_t sites[8] = {11, 12, 13, 14, 15, 16, 17, 18};
static const uint32_t types[4] = {0, 70, 80, 90};

static struct dvg_bytes bytes_of(const void *data, size_t size)
{
    return (struct dvg_bytes){.data = data, .size = size};
}

static int append(struct columns *columns, const struct dvg_part *wire)
{
    struct columns_part part = {.wire = wire, .sites = sites, .types = types, .n_types = 4};
    return columns_append_part(columns, &part);
}

static void constants_spread_and_missing_columns_are_zero(void **state)
{
    (void)state;
    struct columns columns = {0};
    const uint64_t value[3] = {5, 6, 7};
    const uint32_t type = 2;
    struct dvg_part wire = {.count = 3};
    wire.columns[DVG_COLUMN_VALUE] = bytes_of(value, sizeof value);
    wire.columns[DVG_COLUMN_TYPE] = bytes_of(&type, sizeof type);
    assert_int_equal(append(&columns, &wire), 0);
    const uint32_t *rows = columns_get(&columns, COLUMN_TYPE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rows[i], 80);
    assert_null(columns_get(&columns, COLUMN_MIN));

    /* A column that comes late was zero before; one that stays away later is zero then. */
    const uint64_t min = 9;
    struct dvg_part later = {.count = 2};
    later.columns[DVG_COLUMN_MIN] = bytes_of(&min, sizeof min);
    assert_int_equal(append(&columns, &later), 0);
    const uint64_t *mins = columns_get(&columns, COLUMN_MIN);
    const uint64_t *values = columns_get(&columns, COLUMN_VALUE);
    const uint64_t expected_mins[5] = {0, 0, 0, 9, 9};
    const uint64_t expected_values[5] = {5, 6, 7, 0, 0};
    assert_memory_equal(mins, expected_mins, sizeof expected_mins);
    assert_memory_equal(values, expected_values, sizeof expected_values);
    assert_int_equal(columns.count, 5);

    /* Memory is used again, what it held is not. */
    columns_clear(&columns);
    assert_int_equal(append(&columns, &(struct dvg_part){.count = 4}), 0);
    assert_null(columns_get(&columns, COLUMN_VALUE));
    columns_fini(&columns);
}

static void a_zero_constant_does_not_make_a_column_present(void **state)
{
    (void)state;
    struct columns columns = {0};
    const uint64_t zero = 0;
    struct dvg_part wire = {.count = 3};
    wire.columns[DVG_COLUMN_ZERO] = bytes_of(&zero, sizeof zero);
    assert_int_equal(append(&columns, &wire), 0);
    assert_null(columns_get(&columns, COLUMN_ZERO));
    columns_fini(&columns);
}

static void parts_that_do_not_fit_are_refused_whole(void **state)
{
    (void)state;
    struct columns columns = {0};
    const uint32_t order[3] = {4, 5, 6};
    struct dvg_part good = {.count = 3};
    good.columns[DVG_COLUMN_ORDER] = bytes_of(order, sizeof order);
    assert_int_equal(append(&columns, &good), 0);

    struct dvg_part bad = {.count = 0};
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    bad = (struct dvg_part){.count = 3};
    bad.columns[DVG_COLUMN_VALUE] = bytes_of(order, 12);
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    const uint32_t unknown[3] = {1, 4, 1};
    bad = (struct dvg_part){.count = 3};
    bad.columns[DVG_COLUMN_TYPE] = bytes_of(unknown, sizeof unknown);
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    const uint32_t back[3] = {7, 6, 8};
    bad = (struct dvg_part){.count = 3};
    bad.columns[DVG_COLUMN_ORDER] = bytes_of(back, sizeof back);
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    const uint32_t before[3] = {3, 4, 5};
    bad.columns[DVG_COLUMN_ORDER] = bytes_of(before, sizeof before);
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    uint8_t entry[32] = {3};
    bad = (struct dvg_part){.count = 3, .nonfinite = bytes_of(entry, sizeof entry)};
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    bad = (struct dvg_part){.count = 3, .nonfinite = bytes_of(entry, 31)};
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    bad = (struct dvg_part){.count = 3, .sketches = bytes_of(entry, 32), .sketch_size = 6};
    assert_int_equal(append(&columns, &bad), DIVERGE_EPROTO);
    assert_int_equal(columns.count, 3);
    columns_fini(&columns);
}

static void sparse_indices_move_with_their_records(void **state)
{
    (void)state;
    struct columns one = {0};
    struct columns two = {0};
    uint8_t nonfinite[32] = {0};
    dvg_store_u32(nonfinite, 1);
    dvg_store_u64(nonfinite + 8, 3);
    uint8_t sketch[8 + 128] = {0};
    dvg_store_u32(sketch, 0);
    float first = 1.5f;
    memcpy(sketch + 8, &first, sizeof first);
    struct dvg_part wire = {.count = 2,
                            .nonfinite = bytes_of(nonfinite, sizeof nonfinite),
                            .sketches = bytes_of(sketch, sizeof sketch),
                            .sketch_size = 32};
    assert_int_equal(append(&one, &wire), 0);
    assert_int_equal(append(&one, &wire), 0);
    assert_int_equal(append(&two, &wire), 0);
    assert_int_equal(columns_append(&one, &two), 0);
    assert_int_equal(one.count, 6);
    const uint32_t expected_nonfinite[3] = {1, 3, 5};
    const uint32_t expected_sketch[3] = {0, 2, 4};
    assert_memory_equal(columns_get(&one, COLUMN_NONFINITE_INDEX), expected_nonfinite, 12);
    assert_memory_equal(columns_get(&one, COLUMN_SKETCH_INDEX), expected_sketch, 12);
    const float *floats = columns_get(&one, COLUMN_SKETCH);
    assert_true(floats[0] == 1.5f && floats[32] == 1.5f && floats[64] == 1.5f);
    assert_int_equal(columns_items(&one, COLUMN_SKETCH), 96);
    columns_fini(&one);
    columns_fini(&two);
}

static void sketches_of_two_sizes_do_not_mix(void **state)
{
    (void)state;
    struct columns columns = {0};
    uint8_t sketch[8 + 256] = {0};
    struct dvg_part wire = {.count = 1, .sketches = bytes_of(sketch, 8 + 128), .sketch_size = 32};
    assert_int_equal(append(&columns, &wire), 0);
    wire.sketches.size = 8 + 256;
    wire.sketch_size = 64;
    assert_int_equal(append(&columns, &wire), DIVERGE_EPROTO);
    columns_fini(&columns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_spread_and_missing_columns_are_zero),
        cmocka_unit_test(a_zero_constant_does_not_make_a_column_present),
        cmocka_unit_test(parts_that_do_not_fit_are_refused_whole),
        cmocka_unit_test(sparse_indices_move_with_their_records),
        cmocka_unit_test(sketches_of_two_sizes_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
