/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/frame.h"
#include "tests/unit/client/wire/cmocka_all.h"

enum { COUNT = 300 };

/* A valid part of COUNT records with all columns full, in memory of its own. */
struct fixture {
    struct dvg_buffer out;
    struct dvg_part part;
    uint32_t runs[4];
    uint8_t columns[DVG_COLUMN_COUNT][8 * COUNT];
    uint8_t nonfinite[3][32];
    uint8_t sketches[2][8 + 4 * 64];
};

static void set_state(struct fixture *f, uint32_t index, uint8_t bits)
{
    f->columns[DVG_COLUMN_STATE][index] |= bits;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    dvg_buffer_init(&f->out, DVG_FRAME_MAX + DVG_FRAME_HEADER);
    f->runs[0] = 1;
    f->runs[1] = 100;
    f->runs[2] = 50;
    f->runs[3] = COUNT - 100;
    f->part = (struct dvg_part){
        .segment = 4,
        .tier = DIVERGE_TIER_LAYER,
        .lane = 2,
        .count = COUNT,
        .first = 17,
        .site_runs = {(const uint8_t *)f->runs, sizeof(f->runs)},
        .nonfinite = {f->nonfinite[0], sizeof(f->nonfinite)},
        .sketch_size = 64,
        .sketches = {f->sketches[0], sizeof(f->sketches)},
    };
    for (int c = 0; c < DVG_COLUMN_COUNT; c++) {
        size_t size = COUNT * dvg_column_width((enum dvg_column)c);
        for (size_t i = 0; i < size && c != DVG_COLUMN_STATE; i++)
            f->columns[c][i] = (uint8_t)(i * 31 + (size_t)c);
        f->part.columns[c] = (struct dvg_bytes){f->columns[c], size};
    }
    for (uint32_t i = 0; i < 3; i++) {
        dvg_store_u32(f->nonfinite[i], 7 * i);
        set_state(f, 7 * i, DVG_STATE_NONFINITE);
    }
    for (uint32_t i = 0; i < 2; i++) {
        dvg_store_u32(f->sketches[i], COUNT - 2 + i);
        set_state(f, COUNT - 2 + i, DVG_STATE_SKETCH);
        float sum = i ? NAN : -INFINITY; /* values are nobody's business here */
        memcpy(f->sketches[i] + 8, &sum, sizeof(sum));
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    dvg_buffer_fini(&f->out);
    free(f);
    return 0;
}

static int decode(struct fixture *f, struct dvg_part *ret)
{
    dvg_buffer_clear(&f->out);
    assert_int_equal(dvg_part_encode(&f->out, 3, &f->part), 0);
    return dvg_part_decode(
        (struct dvg_bytes){f->out.data + DVG_FRAME_HEADER, f->out.size - DVG_FRAME_HEADER}, ret);
}

static int decode_rc(struct fixture *f)
{
    struct dvg_part ignored;
    return decode(f, &ignored);
}

static void assert_same_bytes(struct dvg_bytes a, struct dvg_bytes b)
{
    assert_int_equal(a.size, b.size);
    if (a.size)
        assert_memory_equal(a.data, b.data, a.size);
}

static void all_columns_round_trip_and_are_borrowed(void **state)
{
    struct fixture *f = *state;
    struct dvg_part got;
    assert_int_equal(decode(f, &got), 0);
    assert_int_equal(got.segment, 4);
    assert_int_equal(got.tier, DIVERGE_TIER_LAYER);
    assert_int_equal(got.lane, 2);
    assert_int_equal(got.count, COUNT);
    assert_int_equal(got.first, 17);
    assert_int_equal(got.sketch_size, 64);
    assert_same_bytes(got.site_runs, f->part.site_runs);
    assert_same_bytes(got.nonfinite, f->part.nonfinite);
    assert_same_bytes(got.sketches, f->part.sketches);
    for (int c = 0; c < DVG_COLUMN_COUNT; c++) {
        assert_same_bytes(got.columns[c], f->part.columns[c]);
        assert_true(got.columns[c].data > f->out.data &&
                    got.columns[c].data < f->out.data + f->out.size);
    }
}

static void a_column_may_be_absent_or_one_value(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < DVG_COLUMN_COUNT; c++) {
        struct dvg_bytes full = f->part.columns[c];
        if (c == DVG_COLUMN_STATE || c == DVG_COLUMN_TYPE)
            continue;
        f->part.columns[c].size = dvg_column_width((enum dvg_column)c);
        assert_int_equal(decode_rc(f), 0);
        f->part.columns[c].size = 0;
        assert_int_equal(decode_rc(f), 0);
        f->part.columns[c] = full;
    }
}

static void every_record_has_a_type(void **state)
{
    struct fixture *f = *state;
    struct dvg_bytes *types = &f->part.columns[DVG_COLUMN_TYPE];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t kept = dvg_load_u32(types->data + 4 * i);
        dvg_store_u32(f->columns[DVG_COLUMN_TYPE] + 4 * i, 0);
        assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
        dvg_store_u32(f->columns[DVG_COLUMN_TYPE] + 4 * i, kept);
    }
    types->size = 4; /* one for all */
    assert_int_equal(decode_rc(f), 0);
    dvg_store_u32(f->columns[DVG_COLUMN_TYPE], 0);
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    types->size = 0;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
}

static void a_column_of_another_size_is_refused(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < DVG_COLUMN_COUNT; c++) {
        size_t width = dvg_column_width((enum dvg_column)c);
        struct dvg_bytes full = f->part.columns[c];
        const size_t sizes[] = {width * (COUNT - 1), width * 2, full.size - (width > 1), width + 1};
        for (size_t i = 0; i < 4; i++) {
            if (sizes[i] == full.size)
                continue;
            f->part.columns[c].size = sizes[i];
            assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
        }
        f->part.columns[c] = full;
    }
}

static void site_runs_must_add_up(void **state)
{
    struct fixture *f = *state;
    f->runs[1]++;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->runs[1] -= 2;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->runs[1]++;
    f->runs[0] = 0; /* sites count from 1 */
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->runs[0] = UINT32_MAX - 50; /* past the last number */
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->runs[0] = 1;
    f->runs[1] = 0;
    f->runs[3] = COUNT;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->runs[1] = UINT32_MAX; /* wraps to COUNT in 32 bits */
    f->runs[3] = COUNT + 1;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->part.site_runs.size -= 4;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->part.site_runs.size = 0;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
}

static void entries_must_rise_within_the_part(void **state)
{
    struct fixture *f = *state;
    dvg_store_u32(f->nonfinite[2], 7); /* equal to the one before */
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    dvg_store_u32(f->nonfinite[1], 14); /* falling */
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    dvg_store_u32(f->nonfinite[1], 7);
    dvg_store_u32(f->nonfinite[2], COUNT);
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    dvg_store_u32(f->nonfinite[2], UINT32_MAX);
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    dvg_store_u32(f->nonfinite[2], 14);
    assert_int_equal(decode_rc(f), 0);
    f->nonfinite[1][4] = 1; /* reserved */
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->nonfinite[1][4] = 0;
    f->part.nonfinite.size -= 8;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
}

static void entries_and_states_must_agree(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t *at = &f->columns[DVG_COLUMN_STATE][i];
        *at ^= DVG_STATE_NONFINITE;
        assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
        *at ^= DVG_STATE_NONFINITE | DVG_STATE_SKETCH;
        assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
        *at ^= DVG_STATE_SKETCH;
    }
    f->part.columns[DVG_COLUMN_STATE].size = 0;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->part.nonfinite.size = 0;
    f->part.sketches.size = 0;
    assert_int_equal(decode_rc(f), 0);
    static const uint8_t everywhere = DVG_STATE_SKETCH;
    f->part.columns[DVG_COLUMN_STATE] = (struct dvg_bytes){&everywhere, 1};
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
}

static void sketches_have_32_or_64_sums(void **state)
{
    struct fixture *f = *state;
    static const uint32_t sizes[] = {0, 1, 31, 33, 63, 65, 128, UINT32_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        f->part.sketch_size = sizes[i];
        assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    }
    f->part.sketch_size = 32; /* the bytes are those of 64 */
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
}

static void numbers_out_of_range_are_refused(void **state)
{
    struct fixture *f = *state;
    f->part.tier = DIVERGE_TIER_COUNT;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->part.tier = DIVERGE_TIER_LAYER;
    f->part.lane = 0;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->part.lane = 2;
    f->part.segment = UINT64_MAX;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    f->part.segment = DVG_SEGMENT_MAX;
    assert_int_equal(decode_rc(f), 0);
    f->part.first = UINT64_MAX;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
}

/* A few bytes must not become millions of records. */
static void counts_are_capped_whatever_the_columns_are(void **state)
{
    struct fixture *f = *state;
    uint32_t run[2] = {1, DVG_PART_RECORDS_MAX};
    static const uint32_t type = 1;
    f->part = (struct dvg_part){
        .lane = 1,
        .count = DVG_PART_RECORDS_MAX,
        .site_runs = {(const uint8_t *)run, sizeof(run)},
    };
    f->part.columns[DVG_COLUMN_TYPE] = (struct dvg_bytes){(const uint8_t *)&type, 4};
    assert_int_equal(decode_rc(f), 0);
    f->part.count++;
    run[1]++;
    assert_int_equal(decode_rc(f), DIVERGE_ELIMIT);
    f->part.count = 0;
    f->part.site_runs.size = 0;
    assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
}

/* The bit counter works in groups of 255 words. */
static void states_are_counted_in_parts_of_any_size(void **state)
{
    struct fixture *f = *state;
    static uint8_t states[5000];
    static uint8_t entries[5000][32];
    static const uint32_t type = 1;
    for (uint32_t count = 1; count <= 5000; count += count < 30 ? 1 : 497) {
        for (uint32_t i = 0; i < count; i++) {
            states[i] = 0xff & ~DVG_STATE_SKETCH;
            dvg_store_u32(entries[i], i);
        }
        uint32_t run[2] = {1, count};
        f->part = (struct dvg_part){
            .lane = 1,
            .count = count,
            .site_runs = {(const uint8_t *)run, sizeof(run)},
            .nonfinite = {entries[0], (size_t)count * 32},
        };
        f->part.columns[DVG_COLUMN_TYPE] = (struct dvg_bytes){(const uint8_t *)&type, 4};
        f->part.columns[DVG_COLUMN_STATE] = (struct dvg_bytes){states, count};
        assert_int_equal(decode_rc(f), 0);
        f->part.nonfinite.size -= 32;
        assert_int_equal(decode_rc(f), DIVERGE_EPROTO);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(all_columns_round_trip_and_are_borrowed),
        CASE(a_column_may_be_absent_or_one_value),
        CASE(every_record_has_a_type),
        CASE(a_column_of_another_size_is_refused),
        CASE(site_runs_must_add_up),
        CASE(entries_must_rise_within_the_part),
        CASE(entries_and_states_must_agree),
        CASE(sketches_have_32_or_64_sums),
        CASE(numbers_out_of_range_are_refused),
        CASE(counts_are_capped_whatever_the_columns_are),
        CASE(states_are_counted_in_parts_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
