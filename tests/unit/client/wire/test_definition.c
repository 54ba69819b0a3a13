/* SPDX-License-Identifier: Apache-2.0 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/extent.h"
#include "client/wire/message.h"
#include "tests/unit/client/wire/cmocka_all.h"

static struct dvg_bytes all_of(const struct dvg_buffer *items)
{
    return (struct dvg_bytes){.data = items->data, .size = items->size};
}

static int set_up(void **state)
{
    struct dvg_buffer *items = malloc(sizeof(*items));
    dvg_buffer_init(items, 64 << 20);
    *state = items;
    return 0;
}

static int tear_down(void **state)
{
    dvg_buffer_fini(*state);
    free(*state);
    return 0;
}

/* ---- strings ---- */

static void strings_round_trip(void **state)
{
    struct dvg_buffer *items = *state;
    static char text[DVG_STRING_MAX];
    memset(text, 'x', sizeof(text));
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 4095, 4096};
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(
            dvg_string_pack(items, (struct dvg_bytes){(const uint8_t *)text, sizes[i]}), 0);
    struct dvg_bytes rest = all_of(items);
    struct dvg_bytes got;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(dvg_string_next(&rest, &got), 1);
        assert_int_equal(got.size, sizes[i]);
        assert_memory_equal(got.data, text, got.size);
    }
    assert_int_equal(dvg_string_next(&rest, &got), 0);
    static uint8_t huge[DVG_STRING_MAX + 1];
    assert_int_equal(dvg_string_pack(items, (struct dvg_bytes){huge, sizeof(huge)}),
                     DIVERGE_ELIMIT);
}

static int string_rc(uint32_t length, const void *bytes, size_t size)
{
    uint8_t *item = malloc(4 + size);
    dvg_store_u32(item, length);
    memcpy(item + 4, bytes, size);
    struct dvg_bytes rest = {item, 4 + size};
    struct dvg_bytes got;
    int rc = dvg_string_next(&rest, &got);
    free(item);
    return rc;
}

static void malformed_strings_are_refused(void **state)
{
    (void)state;
    static uint8_t huge[DVG_STRING_MAX + 4] = {'a'};
    assert_int_equal(string_rc(3, "abc\0", 4), 1);
    assert_int_equal(string_rc(3, "abcd", 4), DIVERGE_EPROTO); /* padding */
    assert_int_equal(string_rc(5, "abcd", 4), DIVERGE_EPROTO);
    assert_int_equal(string_rc(4, "a\0cd", 4), DIVERGE_EPROTO);
    assert_int_equal(string_rc(4, "ab\xc3(", 4), DIVERGE_EPROTO);
    assert_int_equal(string_rc(UINT32_MAX, "abcd", 4), DIVERGE_ELIMIT);
    assert_int_equal(string_rc(DVG_STRING_MAX + 1, huge, sizeof(huge)), DIVERGE_ELIMIT);
    struct dvg_bytes rest = {huge, 3};
    struct dvg_bytes got;
    assert_int_equal(dvg_string_next(&rest, &got), DIVERGE_EPROTO);
}

/* ---- sites ---- */

static struct dvg_site good_site(void)
{
    return (struct dvg_site){
        .tier = DIVERGE_TIER_OP,
        .phase = DIVERGE_PHASE_BACKWARD,
        .role = DIVERGE_ROLE_GRAD,
        .slot = 65535,
        .flags = DIVERGE_FLAG_RANDOM | DIVERGE_FLAG_EVIDENCE,
        .micro_step = 1,
        .occurrence = UINT32_MAX,
        .lane = 2,
        .region = 3,
        .scope = 4,
        .op = 5,
        .name = 6,
        .source = 7,
    };
}

static void sites_round_trip(void **state)
{
    struct dvg_buffer *items = *state;
    struct dvg_site sent = good_site();
    assert_int_equal(dvg_site_pack(items, &sent), 0);
    assert_int_equal(items->size, 48);
    struct dvg_bytes rest = all_of(items);
    struct dvg_site got;
    assert_int_equal(dvg_site_next(&rest, &got), 1);
    assert_int_equal(got.tier, sent.tier);
    assert_int_equal(got.phase, sent.phase);
    assert_int_equal(got.role, sent.role);
    assert_int_equal(got.slot, sent.slot);
    assert_int_equal(got.flags, sent.flags);
    assert_int_equal(got.micro_step, sent.micro_step);
    assert_int_equal(got.occurrence, sent.occurrence);
    assert_int_equal(got.lane, sent.lane);
    assert_int_equal(got.region, sent.region);
    assert_int_equal(got.scope, sent.scope);
    assert_int_equal(got.op, sent.op);
    assert_int_equal(got.name, sent.name);
    assert_int_equal(got.source, sent.source);
    assert_int_equal(dvg_site_next(&rest, &got), 0);
}

static int site_rc(struct dvg_buffer *items, const struct dvg_site *site)
{
    dvg_buffer_clear(items);
    assert_int_equal(dvg_site_pack(items, site), 0);
    struct dvg_bytes rest = all_of(items);
    struct dvg_site got;
    return dvg_site_next(&rest, &got);
}

static void sites_out_of_range_are_refused(void **state)
{
    struct dvg_buffer *items = *state;
    struct dvg_site site = good_site();
    site.tier = DIVERGE_TIER_COUNT;
    assert_int_equal(site_rc(items, &site), DIVERGE_EPROTO);
    site = good_site();
    site.phase = DIVERGE_PHASE_COUNT;
    assert_int_equal(site_rc(items, &site), DIVERGE_EPROTO);
    site = good_site();
    site.role = DIVERGE_ROLE_COUNT;
    assert_int_equal(site_rc(items, &site), DIVERGE_EPROTO);
    site = good_site();
    site.flags = 0x400;
    assert_int_equal(site_rc(items, &site), DIVERGE_EPROTO);
    site = good_site();
    site.lane = 0;
    assert_int_equal(site_rc(items, &site), DIVERGE_EPROTO);
}

static void sites_cut_or_with_reserved_bytes_are_refused(void **state)
{
    struct dvg_buffer *items = *state;
    struct dvg_site site = good_site();
    assert_int_equal(site_rc(items, &site), 1);
    for (size_t size = 1; size < 48; size++) {
        struct dvg_bytes rest = {items->data, size};
        assert_int_equal(dvg_site_next(&rest, &site), DIVERGE_EPROTO);
    }
    static const size_t reserved[] = {3, 6, 7, 44, 45, 46, 47};
    for (size_t i = 0; i < 7; i++) {
        items->data[reserved[i]] = 1;
        struct dvg_bytes rest = all_of(items);
        assert_int_equal(dvg_site_next(&rest, &site), DIVERGE_EPROTO);
        items->data[reserved[i]] = 0;
    }
}

/* ---- types ---- */

struct shape {
    struct dvg_type type;
    uint8_t sizes[8 * 40];
    uint8_t strides[8 * 40];
    uint8_t global[8 * 40];
    uint8_t extents[16 * 8];
};

static void set_numbers(uint8_t *at, const uint64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dvg_store_u64(at + 8 * i, numbers[i]);
}

#define NUMBERS(...)                                                                               \
    (const uint64_t[])                                                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define COUNT_OF(...) (sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define SET_SIZES(shape, ...)                                                                      \
    (set_numbers((shape)->sizes, NUMBERS(__VA_ARGS__), COUNT_OF(__VA_ARGS__)),                     \
     (shape)->type.ndim = COUNT_OF(__VA_ARGS__))
#define SET_GLOBAL(shape, ...)                                                                     \
    (set_numbers((shape)->global, NUMBERS(__VA_ARGS__), COUNT_OF(__VA_ARGS__)),                    \
     (shape)->type.global_ndim = COUNT_OF(__VA_ARGS__))
/* Pairs of start and length. */
#define SET_EXTENTS(shape, ...)                                                                    \
    (set_numbers((shape)->extents, NUMBERS(__VA_ARGS__), COUNT_OF(__VA_ARGS__)),                   \
     (shape)->type.n_extents = COUNT_OF(__VA_ARGS__) / 2)

static void init_shape(struct shape *shape)
{
    memset(shape, 0, sizeof(*shape));
    shape->type = (struct dvg_type){
        .kind = DIVERGE_KIND_TENSOR,
        .dtype = DIVERGE_F32,
        .sizes = shape->sizes,
        .strides = shape->strides,
        .global_sizes = shape->global,
        .extents = shape->extents,
    };
}

static int type_next(struct dvg_buffer *items, const struct shape *shape, struct dvg_type *ret)
{
    dvg_buffer_clear(items);
    assert_int_equal(dvg_type_pack(items, &shape->type), 0);
    struct dvg_bytes rest = all_of(items);
    int rc = dvg_type_next(&rest, ret);
    if (rc == 1)
        assert_int_equal(rest.size, 0);
    return rc;
}

static int type_rc(struct dvg_buffer *items, const struct shape *shape)
{
    struct dvg_type ignored;
    return type_next(items, shape, &ignored);
}

static void types_round_trip(void **state)
{
    struct dvg_buffer *items = *state;
    struct shape shape;
    init_shape(&shape);
    SET_SIZES(&shape, 4, 6);
    set_numbers(shape.strides, NUMBERS(1, (uint64_t)-4), 2);
    SET_GLOBAL(&shape, 8, 6);
    SET_EXTENTS(&shape, 30, 6, 0, 18);
    shape.type.has_strides = 1;
    shape.type.group = 9;
    shape.type.placement = DIVERGE_PLACEMENT_SHARD;
    struct dvg_type got;
    assert_int_equal(type_next(items, &shape, &got), 1);
    assert_int_equal(got.kind, DIVERGE_KIND_TENSOR);
    assert_int_equal(got.dtype, DIVERGE_F32);
    assert_int_equal(got.ndim, 2);
    assert_int_equal(got.placement, DIVERGE_PLACEMENT_SHARD);
    assert_int_equal(got.group, 9);
    assert_int_equal(got.global_ndim, 2);
    assert_int_equal(got.n_extents, 2);
    assert_memory_equal(got.sizes, shape.sizes, 16);
    assert_memory_equal(got.strides, shape.strides, 16);
    assert_memory_equal(got.global_sizes, shape.global, 16);
    assert_memory_equal(got.extents, shape.extents, 32);
}

static void scalars_empty_and_huge_shapes_pass(void **state)
{
    struct dvg_buffer *items = *state;
    struct shape shape;
    init_shape(&shape); /* 0-dimensional */
    assert_int_equal(type_rc(items, &shape), 1);
    SET_SIZES(&shape, 0);
    assert_int_equal(type_rc(items, &shape), 1);
    SET_SIZES(&shape, 1 << 20, 0, 1 << 20);
    assert_int_equal(type_rc(items, &shape), 1);
    SET_SIZES(&shape, 1 << 10);
    SET_GLOBAL(&shape, 1 << 20, 1 << 20); /* 2^40 elements */
    SET_EXTENTS(&shape, (UINT64_C(1) << 40) - 1024, 1024);
    assert_int_equal(type_rc(items, &shape), 1);
    init_shape(&shape);
    shape.type.kind = DIVERGE_KIND_FLOAT;
    shape.type.dtype = 0;
    assert_int_equal(type_rc(items, &shape), 1);
    init_shape(&shape);
    shape.type.ndim = DIVERGE_MAX_NDIM;
    for (size_t i = 0; i < DIVERGE_MAX_NDIM; i++)
        dvg_store_u64(shape.sizes + 8 * i, 2);
    assert_int_equal(type_rc(items, &shape), 1);
}

static void enums_of_a_type_are_checked(void **state)
{
    struct dvg_buffer *items = *state;
    struct shape shape;
    init_shape(&shape);
    shape.type.kind = DIVERGE_KIND_ABSENT + 1;
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    init_shape(&shape);
    shape.type.dtype = 0; /* a tensor has one */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    shape.type.dtype = DIVERGE_DTYPE_COUNT;
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    init_shape(&shape);
    shape.type.placement = DIVERGE_PLACEMENT_PARTIAL + 1;
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    init_shape(&shape);
    shape.type.ndim = DIVERGE_MAX_NDIM + 1;
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    init_shape(&shape);
    shape.type.global_ndim = DIVERGE_MAX_NDIM + 1;
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    init_shape(&shape);
    shape.type.kind = DIVERGE_KIND_INTEGER;
    SET_SIZES(&shape, 3); /* a number has no shape */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
}

static void sizes_are_bounded(void **state)
{
    struct dvg_buffer *items = *state;
    struct shape shape;
    init_shape(&shape);
    SET_SIZES(&shape, (uint64_t)-1);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_SIZES(&shape, UINT64_C(1) << 60);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_SIZES(&shape, (UINT64_C(1) << 60) - 1);
    assert_int_equal(type_rc(items, &shape), 1);
    SET_SIZES(&shape, UINT64_C(1) << 30, UINT64_C(1) << 30);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_SIZES(&shape, UINT64_C(1) << 32, UINT64_C(1) << 32); /* 2^64 wraps to 0 */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_SIZES(&shape, 0, UINT64_C(1) << 32, UINT64_C(1) << 32);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_SIZES(&shape, 4);
    SET_GLOBAL(&shape, UINT64_C(1) << 40, UINT64_C(1) << 40);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_GLOBAL(&shape, 3); /* smaller than its part */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
}

static void extents_must_tile_the_local_elements(void **state)
{
    struct dvg_buffer *items = *state;
    struct shape shape;
    init_shape(&shape);
    SET_SIZES(&shape, 10);
    SET_GLOBAL(&shape, 100);
    SET_EXTENTS(&shape, 0, 4, 90, 6);
    assert_int_equal(type_rc(items, &shape), 1);
    SET_EXTENTS(&shape, 90, 6, 0, 4); /* any order */
    assert_int_equal(type_rc(items, &shape), 1);
    SET_EXTENTS(&shape, 4, 4, 0, 4, 8, 2); /* they touch */
    assert_int_equal(type_rc(items, &shape), 1);
    SET_EXTENTS(&shape, 0, 4, 90, 5);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, 0, 4, 90, 7);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, 0, 0, 90, 10); /* an empty one */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, 91, 10); /* past the whole */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, (uint64_t)-5, 10); /* wraps */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, 0, (uint64_t)-1, 1, 11); /* the sum wraps to 10 */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
}

static void extents_that_overlap_are_refused(void **state)
{
    struct dvg_buffer *items = *state;
    struct shape shape;
    init_shape(&shape);
    SET_SIZES(&shape, 12);
    SET_GLOBAL(&shape, 100);
    SET_EXTENTS(&shape, 0, 6, 5, 6);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, 5, 6, 0, 6);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, 8, 4, 8, 4, 20, 4);
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
    SET_EXTENTS(&shape, 50, 2, 10, 8, 12, 2); /* one inside another */
    assert_int_equal(type_rc(items, &shape), DIVERGE_EPROTO);
}

/* Against a plain search of all pairs. */
static void overlap_is_found_in_any_order(void **state)
{
    (void)state;
    uint32_t noise = 7;
    int overlapping = 0;
    for (int round = 0; round < 3000; round++) {
        uint8_t extents[12 * 16];
        size_t n = 1 + (size_t)round % 12;
        uint64_t total = 0;
        for (size_t i = 0; i < n; i++) {
            noise = noise * 1664525 + 1013904223;
            uint64_t length = 1 + (noise >> 28);
            dvg_store_u64(extents + 16 * i, (noise >> 8) % 200);
            dvg_store_u64(extents + 16 * i + 8, length);
            total += length;
        }
        bool overlap = false;
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < i; k++) {
                uint64_t a = dvg_load_u64(extents + 16 * i);
                uint64_t b = dvg_load_u64(extents + 16 * k);
                overlap = overlap || (a < b + dvg_load_u64(extents + 16 * k + 8) &&
                                      b < a + dvg_load_u64(extents + 16 * i + 8));
            }
        }
        overlapping += overlap;
        assert_int_equal(dvg_extents_check(extents, n, total, 1000), overlap ? DIVERGE_EPROTO : 0);
    }
    assert_true(overlapping > 100 && overlapping < 2900);
}

static void loose_extents_are_capped_and_rising_ones_are_not(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    uint8_t *extents = calloc(MANY, 16);
    for (uint64_t i = 0; i < MANY; i++) {
        dvg_store_u64(extents + 16 * i, 3 * i);
        dvg_store_u64(extents + 16 * i + 8, 1);
    }
    assert_int_equal(dvg_extents_check(extents, MANY, MANY, 3 * MANY), 0);
    for (uint64_t i = 0; i < MANY; i++)
        dvg_store_u64(extents + 16 * i, 3 * (MANY - 1 - i));
    assert_int_equal(dvg_extents_check(extents, MANY, MANY, 3 * MANY), DIVERGE_ELIMIT);
    assert_int_equal(
        dvg_extents_check(extents, DVG_LOOSE_EXTENTS_MAX, DVG_LOOSE_EXTENTS_MAX, 3 * MANY), 0);
    dvg_store_u64(extents + 16 * 4000, 3 * MANY - 3);
    assert_int_equal(
        dvg_extents_check(extents, DVG_LOOSE_EXTENTS_MAX, DVG_LOOSE_EXTENTS_MAX, 3 * MANY),
        DIVERGE_EPROTO);
    free(extents);
}

static void types_cut_anywhere_are_refused(void **state)
{
    struct dvg_buffer *items = *state;
    struct shape shape;
    init_shape(&shape);
    SET_SIZES(&shape, 4, 6);
    SET_GLOBAL(&shape, 8, 6);
    SET_EXTENTS(&shape, 0, 24);
    shape.type.has_strides = 1;
    assert_int_equal(type_rc(items, &shape), 1);
    for (size_t size = 1; size < items->size; size++) {
        uint8_t *cut = malloc(size);
        memcpy(cut, items->data, size);
        struct dvg_bytes rest = {cut, size};
        struct dvg_type got;
        assert_int_equal(dvg_type_next(&rest, &got), DIVERGE_EPROTO);
        free(cut);
    }
    dvg_store_u32(items->data + 12, UINT32_MAX); /* extents that cannot be there */
    struct dvg_bytes rest = all_of(items);
    struct dvg_type got;
    assert_int_equal(dvg_type_next(&rest, &got), DIVERGE_EPROTO);
}

/* ---- arguments ---- */

static void arguments_round_trip(void **state)
{
    struct dvg_buffer *items = *state;
    static const char text[] = "dim=1, keepdim=true";
    for (size_t size = 0; size < sizeof(text); size++) {
        struct dvg_argument sent = {.digest = 1 + size, .text = {(const uint8_t *)text, size}};
        assert_int_equal(dvg_argument_pack(items, &sent), 0);
        assert_int_equal(items->size % 8, 0);
    }
    struct dvg_bytes rest = all_of(items);
    struct dvg_argument got;
    for (size_t size = 0; size < sizeof(text); size++) {
        assert_int_equal(dvg_argument_next(&rest, &got), 1);
        assert_int_equal(got.digest, 1 + size);
        assert_int_equal(got.text.size, size);
        assert_memory_equal(got.text.data, text, size);
    }
    assert_int_equal(dvg_argument_next(&rest, &got), 0);
}

static void malformed_arguments_are_refused(void **state)
{
    struct dvg_buffer *items = *state;
    struct dvg_argument sent = {.digest = 5, .text = {(const uint8_t *)"x=1", 3}};
    assert_int_equal(dvg_argument_pack(items, &sent), 0);
    struct dvg_argument got;
    for (size_t size = 1; size < items->size; size++) {
        struct dvg_bytes rest = {items->data, size};
        assert_int_equal(dvg_argument_next(&rest, &got), DIVERGE_EPROTO);
    }
    struct dvg_bytes rest = all_of(items);
    items->data[15] = 1; /* padding */
    assert_int_equal(dvg_argument_next(&rest, &got), DIVERGE_EPROTO);
    items->data[15] = 0;
    dvg_store_u32(items->data + 8, UINT32_MAX);
    rest = all_of(items);
    assert_int_equal(dvg_argument_next(&rest, &got), DIVERGE_ELIMIT);
    dvg_store_u32(items->data + 8, 3);
    dvg_store_u64(items->data, 0); /* 0 is "none" */
    rest = all_of(items);
    assert_int_equal(dvg_argument_next(&rest, &got), DIVERGE_EPROTO);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(strings_round_trip),
        CASE(malformed_strings_are_refused),
        CASE(sites_round_trip),
        CASE(sites_out_of_range_are_refused),
        CASE(sites_cut_or_with_reserved_bytes_are_refused),
        CASE(types_round_trip),
        CASE(scalars_empty_and_huge_shapes_pass),
        CASE(enums_of_a_type_are_checked),
        CASE(sizes_are_bounded),
        CASE(extents_must_tile_the_local_elements),
        CASE(extents_that_overlap_are_refused),
        CASE(overlap_is_found_in_any_order),
        CASE(loose_extents_are_capped_and_rising_ones_are_not),
        CASE(types_cut_anywhere_are_refused),
        CASE(arguments_round_trip),
        CASE(malformed_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
