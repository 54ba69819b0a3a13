/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/store/arena.h"
#include "daemon/store/digest.h"
#include "daemon/store/map.h"
#include "daemon/store/metadata.h"
#include "daemon/store/planes.h"
#include "daemon/store/store.h"

enum { COUNT = 300 };

struct records {
    uint32_t type[COUNT];
    uint64_t value[COUNT];
    uint64_t argument[COUNT];
    uint8_t state[COUNT];
    uint8_t excluded[COUNT];
    struct trace_digest identities[3];
};

static void fill(struct records *records)
{
    memset(records, 0, sizeof *records);
    records->identities[1].bytes[0] = 1;
    records->identities[2].bytes[15] = 2;
    for (uint32_t i = 0; i < COUNT; i++) {
        records->type[i] = 1 + i % 2;
        records->value[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        records->argument[i] = i / 3;
    }
}

static struct digest_records view_of(const struct records *records)
{
    return (struct digest_records){.count = COUNT,
                                   .type = records->type,
                                   .identities = records->identities,
                                   .value = records->value,
                                   .argument = records->argument,
                                   .state = records->state,
                                   .excluded = records->excluded};
}

static struct trace_digest digest_of(const struct records *records, bool any_unread)
{
    static const struct trace_digest layout = {{7}};
    struct digest_records view = view_of(records);
    view.any_unread = any_unread;
    struct trace_digest digest;
    assert_true(digest_segment(&layout, &view, &digest));
    return digest;
}

static bool equal(struct trace_digest a, struct trace_digest b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* The byte layout of schema/DATABASE.md, spelled out. */
static void the_segment_digest_is_what_is_documented(void **state)
{
    (void)state;
    static struct records records;
    static uint8_t text[8 + 16 + COUNT * 32];
    fill(&records);
    text[0] = 1;
    text[8] = 7;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t *record = text + 24 + (size_t)i * 32;
        memcpy(record, records.identities[records.type[i]].bytes, 16);
        dvg_store_u64(record + 16, records.value[i]);
        dvg_store_u64(record + 24, records.argument[i]);
    }
    assert_true(equal(digest_of(&records, false), digest_bytes(text, sizeof text)));
}

static void each_counted_part_changes_the_digest(void **state)
{
    (void)state;
    static struct records records;
    fill(&records);
    struct trace_digest before = digest_of(&records, false);
    for (uint32_t i = 0; i < COUNT; i += 37) {
        records.value[i] ^= 1;
        assert_false(equal(digest_of(&records, false), before));
        records.value[i] ^= 1;
        records.argument[i] ^= 1;
        assert_false(equal(digest_of(&records, false), before));
        records.argument[i] ^= 1;
        records.type[i] = 3 - records.type[i];
        assert_false(equal(digest_of(&records, false), before));
        records.type[i] = 3 - records.type[i];
    }
    records.state[5] = DVG_STATE_INHERITED | DVG_STATE_STATS;
    assert_true(equal(digest_of(&records, false), before));
}

static void excluded_values_do_not_count_but_are_addressed(void **state)
{
    (void)state;
    static struct records records;
    fill(&records);
    records.excluded[4] = 1;
    struct digest_records view = view_of(&records);
    struct trace_digest digest = digest_of(&records, false);
    struct trace_digest address = digest_address(&digest, 3, &view);
    records.value[4] = 12345;
    assert_true(equal(digest_of(&records, false), digest));
    assert_false(equal(digest_address(&digest, 3, &view), address));
    records.value[5] = 12345;
    assert_false(equal(digest_of(&records, false), digest));
}

static void unread_is_not_a_value_of_zero(void **state)
{
    (void)state;
    static struct records records;
    fill(&records);
    records.value[9] = 0;
    struct trace_digest read = digest_of(&records, false);
    records.state[9] = DVG_STATE_UNREAD;
    struct trace_digest unread = digest_of(&records, true);
    assert_false(equal(read, unread));
    records.value[9] = 77;
    assert_true(equal(digest_of(&records, true), unread));
}

static void an_unknown_type_is_told(void **state)
{
    (void)state;
    static struct records records;
    fill(&records);
    records.identities[2] = (struct trace_digest){{0}};
    struct digest_records view = view_of(&records);
    struct trace_digest digest;
    assert_false(digest_segment(&records.identities[1], &view, &digest));
}

static void an_address_depends_on_columns_and_states(void **state)
{
    (void)state;
    static struct records records;
    fill(&records);
    struct digest_records view = view_of(&records);
    struct trace_digest digest = digest_of(&records, false);
    struct trace_digest address = digest_address(&digest, 1, &view);
    assert_false(equal(digest_address(&digest, 2, &view), address));
    records.state[0] = DVG_STATE_INHERITED;
    assert_false(equal(digest_address(&digest, 1, &view), address));
}

static void chains_begin_with_tier_spec_and_fingerprint(void **state)
{
    (void)state;
    struct trace_digest chain = digest_chain_start(DIVERGE_TIER_OP, "spec", "l61.1");
    assert_false(equal(chain, digest_chain_start(DIVERGE_TIER_STEP, "spec", "l61.1")));
    assert_false(equal(chain, digest_chain_start(DIVERGE_TIER_OP, "spe", "cl61.1")));
    assert_false(equal(chain, digest_chain_start(DIVERGE_TIER_OP, "spec", "l61.2")));
    uint8_t text[4 + 4 + 4 + 4 + 5] = {3,   0, 0, 0, 4, 0,   0,   0,   's', 'p', 'e',
                                       'c', 5, 0, 0, 0, 'l', '6', '1', '.', '1'};
    assert_true(equal(chain, digest_bytes(text, sizeof text)));
}

static void shape_counts_strides_and_placement_do_not(void **state)
{
    (void)state;
    const int64_t sizes[2] = {2, 3};
    const int64_t turned[2] = {3, 2};
    struct trace_digest group = {{0}};
    struct dvg_type type = {.dtype = DIVERGE_F32, .ndim = 2, .sizes = (const uint8_t *)sizes};
    struct trace_digest identity = digest_type_identity(&type);
    struct trace_digest row = digest_type(&type, &group);
    type.has_strides = 1;
    type.strides = (const uint8_t *)turned;
    type.placement = DIVERGE_PLACEMENT_SHARD;
    assert_true(equal(digest_type_identity(&type), identity));
    assert_false(equal(digest_type(&type, &group), row));
    type.sizes = (const uint8_t *)turned;
    assert_false(equal(digest_type_identity(&type), identity));
    type.sizes = (const uint8_t *)sizes;
    type.dtype = DIVERGE_BF16;
    assert_false(equal(digest_type_identity(&type), identity));
}

/* ---- the small helpers ----------------------------------------------------------------------- */

static void planes_split_and_join_any_count(void **state)
{
    (void)state;
    static uint8_t items[8 * 200];
    static uint8_t planes[8 * 200];
    static uint8_t back[8 * 200];
    for (size_t i = 0; i < sizeof items; i++)
        items[i] = (uint8_t)(i * 151 + i / 256);
    const size_t widths[3] = {1, 4, 8};
    for (int w = 0; w < 3; w++)
        for (size_t count = 0; count < 200; count++) {
            size_t width = widths[w];
            planes_split(items, width, count, planes);
            for (size_t i = 0; i < count; i++)
                for (size_t p = 0; p < width; p++)
                    assert_int_equal(planes[p * count + i], items[i * width + p]);
            planes_join(planes, width, count, back);
            assert_memory_equal(back, items, width * count);
        }
}

static void a_map_finds_what_was_put(void **state)
{
    (void)state;
    struct map map = {0};
    uint64_t value = 0;
    struct trace_digest key = map_key(5);
    assert_false(map_find(&map, &key, &value));
    for (uint64_t i = 0; i < 10000; i++) {
        key = map_key(i);
        assert_int_equal(map_put(&map, &key, i * 3), 0);
    }
    for (uint64_t i = 0; i < 10000; i++) {
        key = map_key(i);
        assert_true(map_find(&map, &key, &value));
        assert_int_equal(value, i * 3);
    }
    key = map_key(10000);
    assert_false(map_find(&map, &key, &value));
    key = map_key(7);
    assert_int_equal(map_put(&map, &key, 1), 0);
    assert_int_equal(map.count, 10000);
    assert_true(map_find(&map, &key, &value));
    assert_int_equal(value, 1);
    map_clear(&map);
    assert_false(map_find(&map, &key, &value));
    map_fini(&map);
}

static void an_arena_hands_out_distinct_memory(void **state)
{
    (void)state;
    struct arena arena = {.keep = 4 << 20};
    for (int round = 0; round < 3; round++) {
        uint8_t *small = arena_alloc(&arena, 10);
        uint8_t *large = arena_alloc(&arena, 3 << 20);
        uint8_t *shrunk = arena_alloc(&arena, 1000);
        memset(large, 1, 3 << 20);
        memset(small, 2, 10);
        memset(shrunk, 3, 1000);
        arena_shrink(&arena, shrunk, 16);
        uint8_t *after = arena_alloc(&arena, 16);
        assert_ptr_equal(after, shrunk + 16);
        char *text = arena_text(&arena, "abc", 2);
        assert_string_equal(text, "ab");
        assert_int_equal(small[9], 2);
        assert_int_equal(large[0], 1);
        assert_int_equal((uintptr_t)large % 16, 0);
        arena_clear(&arena);
        assert_int_equal(arena.bytes, 0);
    }
    arena_fini(&arena);
}

static void metadata_keys_have_a_class(void **state)
{
    (void)state;
    const struct {
        const char *key;
        enum metadata_class class_;
    } expected[] = {
        {"num_threads", METADATA_CAUSE},
        {"library.numpy", METADATA_CAUSE},
        {"git.commit", METADATA_CAUSE},
        {"argv", METADATA_CAUSE},
        {"env.OMP_NUM_THREADS", METADATA_CAUSE},
        {"env.PATH", METADATA_CONTEXT},
        {"hostname", METADATA_CONTEXT},
        {"cwd", METADATA_CONTEXT},
        {"pid", METADATA_VOLATILE},
        {"time.start", METADATA_VOLATILE},
        {"never.heard.of", METADATA_CONTEXT},
        {"pids", METADATA_CONTEXT},
        {"seed", METADATA_CAUSE},
        {"", METADATA_CONTEXT},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (metadata_classify(expected[i].key) != expected[i].class_)
            fail_msg("%s", expected[i].key);
    assert_string_equal(metadata_class_name(METADATA_CAUSE), "cause");
    assert_string_equal(metadata_class_name(METADATA_CONTEXT), "context");
    assert_string_equal(metadata_class_name(METADATA_VOLATILE), "volatile");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_segment_digest_is_what_is_documented),
        cmocka_unit_test(each_counted_part_changes_the_digest),
        cmocka_unit_test(excluded_values_do_not_count_but_are_addressed),
        cmocka_unit_test(unread_is_not_a_value_of_zero),
        cmocka_unit_test(an_unknown_type_is_told),
        cmocka_unit_test(an_address_depends_on_columns_and_states),
        cmocka_unit_test(chains_begin_with_tier_spec_and_fingerprint),
        cmocka_unit_test(shape_counts_strides_and_placement_do_not),
        cmocka_unit_test(planes_split_and_join_any_count),
        cmocka_unit_test(a_map_finds_what_was_put),
        cmocka_unit_test(an_arena_hands_out_distinct_memory),
        cmocka_unit_test(metadata_keys_have_a_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
