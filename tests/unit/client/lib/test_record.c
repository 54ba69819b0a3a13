/* SPDX-License-Identifier: Apache-2.0 */
/* What the API's calls become on the wire, read back from a recording file. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <diverge/macros.h>

#include "client/lib/session.h"
#include "tests/unit/client/lib/receiver.h"

static struct fixture {
    char dir[64];
    char path[96];
    struct diverge_session *session;
    struct diverge_lane *lane;
    struct receiver receiver;
} f;

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof(f));
    snprintf(f.dir, sizeof(f.dir), "/tmp/dvg-record-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.path, sizeof(f.path), "%s/run.dvg", f.dir);
    receiver_init(&f.receiver);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    diverge_session_close(f.session, DIVERGE_OUTCOME_COMPLETE);
    receiver_fini(&f.receiver);
    unlink(f.path);
    rmdir(f.dir);
    return 0;
}

static void open_with(struct diverge_options options)
{
    options.recording = f.path;
    assert_int_equal(diverge_session_open(&options, &f.session), 0);
    f.lane = diverge_lane_open(f.session, "main");
    assert_non_null(f.lane);
}

static void open_plain(void)
{
    open_with((struct diverge_options)DIVERGE_OPTIONS_INIT);
}

/* Ends the session and reads what it wrote. */
static int close_and_read_as(enum diverge_outcome outcome)
{
    int rc = diverge_session_close(f.session, outcome);
    f.session = NULL;
    f.lane = NULL;
    receiver_take_file(&f.receiver, f.path);
    assert_true(f.receiver.has_bye);
    return rc;
}

static void close_and_read(void)
{
    assert_int_equal(close_and_read_as(DIVERGE_OUTCOME_COMPLETE), 0);
}

static diverge_name_t name(const char *text)
{
    return diverge_name(f.session, text);
}

static struct diverge_observation what(enum diverge_role role, const char *text)
{
    return diverge_what(f.lane, role, 0, text);
}

/* Segments of these tests. */
static uint64_t boundary(uint64_t k)
{
    return diverge_segment_of_boundary(k);
}

static uint64_t step(uint64_t k)
{
    return diverge_segment_of_step(k);
}

static const float ones[6] = {1, 1, 1, 1, 1, 1};

/* ---- sites ----------------------------------------------------------------------------------- */

static void record_has_its_whole_site(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 3);
    diverge_phase(f.lane, DIVERGE_PHASE_BACKWARD);
    diverge_micro_step(f.lane, 2);
    diverge_region(f.lane, name("recompute"));
    diverge_scope(f.lane, name("encoder.0"));
    diverge_op_begin(f.lane, name("aten::mm"), DIVERGE_FLAG_INPLACE, "alpha=1", name("model.py:7"));
    struct diverge_observation output = what(DIVERGE_ROLE_OUTPUT, "y");
    output.slot = 4;
    output.flags = DIVERGE_FLAG_RANDOM;
    struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, ones, 2, DIVERGE_SIZES(2, 3));
    assert_int_equal(diverge_record(f.lane, &output, &tensor, NULL), 0);
    diverge_op_end(f.lane);
    close_and_read();
    const struct received_record *record = receiver_record(&f.receiver, step(3), 0);
    assert_string_equal(record->lane, "main");
    assert_string_equal(record->region, "recompute");
    assert_string_equal(record->scope, "encoder.0");
    assert_string_equal(record->op, "aten::mm");
    assert_string_equal(record->name, "y");
    assert_string_equal(record->source, "model.py:7");
    assert_int_equal(record->site.phase, DIVERGE_PHASE_BACKWARD);
    assert_int_equal(record->site.micro_step, 2);
    assert_int_equal(record->site.role, DIVERGE_ROLE_OUTPUT);
    assert_int_equal(record->site.slot, 4);
    assert_int_equal(record->site.flags, DIVERGE_FLAG_INPLACE | DIVERGE_FLAG_RANDOM);
    assert_int_equal(record->tier, DIVERGE_TIER_OP);
    assert_string_equal(receiver_argument(&f.receiver, record->argument), "alpha=1");
}

static void segment_begins_with_fresh_context(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    diverge_phase(f.lane, DIVERGE_PHASE_OPTIMIZER);
    diverge_micro_step(f.lane, 5);
    diverge_scope(f.lane, name("x"));
    diverge_op_begin(f.lane, name("open"), 0, NULL, 0);
    diverge_boundary(f.session, 1);
    diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6));
    diverge_step(f.session, 1);
    diverge_loss(f.lane, 1.0);
    close_and_read();
    const struct received_record *param = receiver_named(&f.receiver, boundary(1), "w");
    assert_int_equal(param->site.phase, DIVERGE_PHASE_BOUNDARY);
    assert_int_equal(param->site.micro_step, 0);
    assert_string_equal(param->scope, "");
    assert_string_equal(param->op, "");
    assert_int_equal(receiver_named(&f.receiver, step(1), "loss")->site.phase,
                     DIVERGE_PHASE_FORWARD);
}

static void call(const char *op)
{
    DIVERGE_OP(f.lane, op, NULL) diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));
}

static void occurrence_counts_equal_calls_of_a_segment(void **state)
{
    (void)state;
    open_plain();
    for (uint64_t k = 0; k < 3; k++) {
        diverge_step(f.session, k);
        call("relu");
        call("mm");
        call("relu");
        diverge_micro_step(f.lane, 1);
        call("relu");
    }
    close_and_read();
    for (uint64_t k = 0; k < 3; k++) {
        const uint32_t expected[] = {0, 0, 1, 0};
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(receiver_record(&f.receiver, step(k), i)->site.occurrence,
                             expected[i]);
    }
}

static void occurrence_outside_ops_counts_repeats_of_the_site(void **state)
{
    (void)state;
    open_plain();
    for (uint64_t k = 0; k < 2; k++) {
        diverge_step(f.session, k);
        diverge_scalar(f.lane, "lr", 1);
        diverge_scalar(f.lane, "decay", 2);
        diverge_scalar(f.lane, "lr", 3);
        if (k == 1) /* a missing or extra one shifts no other */
            diverge_scalar(f.lane, "momentum", 4);
        diverge_scalar(f.lane, "decay", 5);
    }
    close_and_read();
    const uint32_t first[] = {0, 0, 1, 1};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(receiver_record(&f.receiver, step(0), i)->site.occurrence, first[i]);
    const uint32_t second[] = {0, 0, 1, 0, 1};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(receiver_record(&f.receiver, step(1), i)->site.occurrence, second[i]);
}

static void steady_step_defines_nothing_and_is_one_run(void **state)
{
    (void)state;
    open_plain();
    enum { STEPS = 5, OPS = 50 };
    for (uint64_t k = 0; k < STEPS; k++) {
        diverge_step(f.session, k);
        for (int op = 0; op < OPS; op++)
            call(op % 2 ? "mm" : "relu");
    }
    uint64_t misses = f.lane->sites.misses;
    close_and_read();
    assert_int_equal(f.receiver.n_sites_defined, OPS);
    assert_int_equal(misses, OPS);
    assert_int_equal(receiver_count(&f.receiver, step(4)), OPS);
    /* One part and one run a step, unless the sender cut a part after its 50 ms. */
    assert_int_equal(f.receiver.n_site_runs, f.receiver.n_parts);
}

static void inserted_op_leaves_other_sites_alone(void **state)
{
    (void)state;
    open_plain();
    for (uint64_t k = 0; k < 3; k++) {
        diverge_step(f.session, k);
        call("a");
        if (k == 1)
            call("extra");
        call("b");
        call("c");
    }
    close_and_read();
    assert_int_equal(f.receiver.n_sites_defined, 4);
    assert_string_equal(receiver_record(&f.receiver, step(1), 1)->op, "extra");
    assert_string_equal(receiver_record(&f.receiver, step(1), 3)->op, "c");
    assert_string_equal(receiver_record(&f.receiver, step(2), 1)->op, "b");
    assert_string_equal(receiver_record(&f.receiver, step(2), 2)->op, "c");
}

static void source_is_no_part_of_identity(void **state)
{
    (void)state;
    open_plain();
    for (uint64_t k = 0; k < 2; k++) {
        diverge_step(f.session, k);
        diverge_op_begin(f.lane, name("mm"), 0, NULL, name(k ? "a.py:2" : "a.py:1"));
        diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));
        diverge_op_end(f.lane);
    }
    close_and_read();
    assert_int_equal(f.receiver.n_sites_defined, 1);
}

static void only_the_innermost_op_is_recorded_into(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    DIVERGE_OP(f.lane, "outer", "scope")
    {
        DIVERGE_OP(f.lane, "inner", NULL)
        diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));
        diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));
    }
    diverge_loss(f.lane, 0);
    close_and_read();
    assert_string_equal(receiver_ordered(&f.receiver, step(0), 0)->op, "inner");
    assert_string_equal(receiver_ordered(&f.receiver, step(0), 0)->scope, "scope");
    assert_string_equal(receiver_ordered(&f.receiver, step(0), 1)->op, "outer");
    const struct received_record *loss = receiver_named(&f.receiver, step(0), "loss");
    assert_string_equal(loss->op, "");
    assert_string_equal(loss->scope, "");
}

static void op_calls_are_checked(void **state)
{
    (void)state;
    open_plain();
    assert_int_equal(diverge_op_end(f.lane), DIVERGE_ESTATE);
    assert_int_equal(diverge_op_begin(f.lane, 0, 0, NULL, 0), DIVERGE_EINVAL);
    assert_int_equal(diverge_op_begin(f.lane, name("x"), 0x80000000u, NULL, 0), DIVERGE_EINVAL);
    for (int i = 0; i < DVG_OPS_MAX; i++)
        assert_int_equal(diverge_op_begin(f.lane, name("x"), 0, NULL, 0), 0);
    assert_int_equal(diverge_op_begin(f.lane, name("x"), 0, NULL, 0), DIVERGE_ELIMIT);
    for (int i = 0; i < DVG_OPS_MAX; i++)
        assert_int_equal(diverge_op_end(f.lane), 0);
    assert_int_equal(diverge_op_end(f.lane), DIVERGE_ESTATE);
}

static void segments_only_go_forward(void **state)
{
    (void)state;
    open_plain();
    assert_int_equal(diverge_boundary(f.session, 0), 0);
    assert_int_equal(diverge_boundary(f.session, 0), DIVERGE_EINVAL);
    assert_int_equal(diverge_step(f.session, 5), 0);
    assert_int_equal(diverge_boundary(f.session, 5), DIVERGE_EINVAL);
    assert_int_equal(diverge_boundary(f.session, 6), 0);
    assert_int_equal(diverge_step(f.session, UINT64_MAX / 2), DIVERGE_EINVAL);
    close_and_read();
    const uint64_t expected[] = {0, boundary(0), step(5), boundary(6)};
    assert_int_equal(f.receiver.n_ends, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(f.receiver.ends[i].segment, expected[i]);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void numbers_and_absence_are_told_apart(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    diverge_loss(f.lane, -0.0);
    diverge_scalar_integer(f.lane, "count", -2);
    diverge_grad_absent(f.lane, "none");
    const float zeros[4] = {0};
    diverge_grad_f32(f.lane, "zeros", zeros, 1, DIVERGE_SIZES(4));
    close_and_read();
    const struct received_record *loss = receiver_named(&f.receiver, step(0), "loss");
    assert_int_equal(loss->type.kind, DIVERGE_KIND_FLOAT);
    assert_true(loss->value == UINT64_C(1) << 63);
    const struct received_record *count = receiver_named(&f.receiver, step(0), "count");
    assert_int_equal(count->type.kind, DIVERGE_KIND_INTEGER);
    assert_true(count->value == (uint64_t)-2);
    assert_int_equal(receiver_named(&f.receiver, step(0), "none")->type.kind, DIVERGE_KIND_ABSENT);
    const struct received_record *none = receiver_named(&f.receiver, step(0), "zeros");
    assert_int_equal(none->type.kind, DIVERGE_KIND_TENSOR);
    assert_int_equal(none->zero, 4);
}

static void statistics_and_nonfinite_counts_arrive(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    const float values[6] = {NAN, INFINITY, -INFINITY, -INFINITY, 3, -4};
    diverge_param_f32(f.lane, "w", values, 1, DIVERGE_SIZES(6));
    diverge_param_f32(f.lane, "ones", ones, 1, DIVERGE_SIZES(6));
    diverge_param_f32(f.lane, "empty", ones, 2, DIVERGE_SIZES(0, 3));
    close_and_read();
    const struct received_record *w = receiver_named(&f.receiver, step(0), "w");
    float minus_four = -4;
    uint32_t bits;
    memcpy(&bits, &minus_four, 4);
    assert_int_equal(w->min, bits);
    assert_true(w->state & DVG_STATE_NONFINITE);
    const uint64_t expected[3] = {1, 1, 2};
    assert_memory_equal(w->nonfinite, expected, sizeof(expected));
    assert_true(w->sum == -1.0f && w->l2 == 5.0f);
    const struct received_record *one = receiver_named(&f.receiver, step(0), "ones");
    assert_int_equal(one->value, diverge_checksum_bytes(ones, sizeof(ones), 0));
    assert_int_equal(one->state, DVG_STATE_STATS | DVG_STATE_RANGE | DVG_STATE_SUM | DVG_STATE_L2);
    const struct received_record *empty = receiver_named(&f.receiver, step(0), "empty");
    assert_int_equal(empty->value, 0);
    assert_false(empty->state & DVG_STATE_RANGE);
}

static void sketches_go_to_their_tiers(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.sketch = 32;
    open_with(options);
    diverge_step(f.session, 0);
    diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6));
    call("mm");
    close_and_read();
    struct diverge_view view = {
        .data = ones, .dtype = DIVERGE_F32, .ndim = 1, .sizes = DIVERGE_SIZES(6)};
    struct diverge_fingerprint expected;
    assert_int_equal(diverge_fingerprint(&view, DIVERGE_WITH_SKETCH32, &expected), 0);
    const struct received_record *w = receiver_named(&f.receiver, step(0), "w");
    assert_true(w->state & DVG_STATE_SKETCH);
    assert_memory_equal(w->sketch, expected.sketch, 32 * sizeof(float));
    for (size_t i = 0; i < f.receiver.n_records; i++) {
        if (f.receiver.records[i].tier == DIVERGE_TIER_OP)
            assert_false(f.receiver.records[i].state & DVG_STATE_SKETCH);
    }
}

static void no_stats_leaves_values_out(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.flags = DIVERGE_OPEN_NO_STATS;
    open_with(options);
    diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6));
    close_and_read();
    const struct received_record *w = receiver_named(&f.receiver, 0, "w");
    assert_int_equal(w->state, 0);
    assert_int_equal(w->max, 0);
    assert_true(w->value != 0);
}

static void type_has_shape_strides_and_placement(void **state)
{
    (void)state;
    open_plain();
    const int64_t sizes[2] = {3, 2};
    const int64_t transposed[2] = {1, 3};
    const int64_t global[2] = {6, 2};
    const struct diverge_extent extents[1] = {{.start = 6, .length = 6}};
    const struct diverge_sharding sharding = {.placement = DIVERGE_PLACEMENT_SHARD,
                                              .ndim = 2,
                                              .global_sizes = global,
                                              .group = name("tp")};
    struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, ones, 2, sizes);
    struct diverge_observation a = what(DIVERGE_ROLE_PARAM, "transposed");
    tensor.view.strides = transposed;
    assert_int_equal(diverge_record(f.lane, &a, &tensor, NULL), 0);
    struct diverge_observation b = what(DIVERGE_ROLE_PARAM, "shard");
    tensor.view.strides = DIVERGE_SIZES(2, 1); /* C order, spelled out */
    tensor.view.extents = extents;
    tensor.view.n_extents = 1;
    tensor.sharding = &sharding;
    assert_int_equal(diverge_record(f.lane, &b, &tensor, NULL), 0);
    close_and_read();
    const struct received_record *plain = receiver_named(&f.receiver, 0, "transposed");
    assert_int_equal(plain->type.has_strides, 1);
    assert_memory_equal(plain->type.strides, transposed, sizeof(transposed));
    assert_memory_equal(plain->type.sizes, sizes, sizeof(sizes));
    const struct received_record *shard = receiver_named(&f.receiver, 0, "shard");
    assert_int_equal(shard->type.has_strides, 0);
    assert_int_equal(shard->type.placement, DIVERGE_PLACEMENT_SHARD);
    assert_memory_equal(shard->type.global_sizes, global, sizeof(global));
    assert_int_equal(shard->type.n_extents, 1);
    assert_memory_equal(shard->type.extents, extents, sizeof(extents));
    assert_int_equal(shard->value, diverge_checksum_bytes(ones, sizeof(ones), 24));
}

static void nonsense_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    open_plain();
    struct diverge_observation good = what(DIVERGE_ROLE_PARAM, "w");
    struct diverge_observation bad = good;
    struct diverge_fingerprint fingerprint = {.checksum = 1};
    struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, ones, 1, DIVERGE_SIZES(6));
    bad.role = (enum diverge_role)99;
    assert_int_equal(diverge_record(f.lane, &bad, &tensor, NULL), DIVERGE_EINVAL);
    bad = good;
    bad.tier = 7;
    assert_int_equal(diverge_record(f.lane, &bad, &tensor, NULL), DIVERGE_EINVAL);
    bad = good;
    bad.flags = 0x40000000;
    assert_int_equal(diverge_record(f.lane, &bad, &tensor, NULL), DIVERGE_EINVAL);
    assert_int_equal(diverge_record(f.lane, &good, NULL, NULL), DIVERGE_EINVAL);
    assert_int_equal(diverge_record(f.lane, NULL, &tensor, NULL), DIVERGE_EINVAL);
    assert_int_equal(diverge_phase(f.lane, (enum diverge_phase)99), DIVERGE_EINVAL);
    tensor.view.sizes = DIVERGE_SIZES(-1);
    assert_int_equal(diverge_record(f.lane, &good, &tensor, NULL), DIVERGE_EINVAL);
    assert_int_equal(diverge_record_fingerprint(f.lane, &good, &tensor, &fingerprint, NULL),
                     DIVERGE_EINVAL);
    tensor.view.sizes = DIVERGE_SIZES(INT64_C(1) << 40, INT64_C(1) << 40);
    tensor.view.ndim = 2;
    assert_int_equal(diverge_record_fingerprint(f.lane, &good, &tensor, &fingerprint, NULL),
                     DIVERGE_EINVAL);
    tensor.view.ndim = 33;
    assert_int_equal(diverge_record_fingerprint(f.lane, &good, &tensor, &fingerprint, NULL),
                     DIVERGE_EINVAL);
    tensor = diverge_dense((enum diverge_dtype)77, ones, 1, DIVERGE_SIZES(6));
    assert_int_equal(diverge_record_fingerprint(f.lane, &good, &tensor, &fingerprint, NULL),
                     DIVERGE_EINVAL);
    /* 2^40 elements are no nonsense. */
    tensor = diverge_dense(DIVERGE_F32, ones, 1, DIVERGE_SIZES(INT64_C(1) << 40));
    assert_int_equal(diverge_record_fingerprint(f.lane, &good, &tensor, &fingerprint, NULL), 0);
    close_and_read();
    assert_int_equal(receiver_count(&f.receiver, 0), 1);
}

static void names_become_valid_text(void **state)
{
    (void)state;
    open_plain();
    char *huge = malloc(10001);
    memset(huge, 'x', 10000);
    huge[10000] = '\0';
    diverge_name_t bad = name("a\xff"
                              "b");
    assert_true(bad != 0);
    assert_int_equal(bad, name("a\xff"
                               "b"));
    assert_int_equal(bad, name("a\xef\xbf\xbd"
                               "b"));
    assert_int_equal(name(""), 0);
    assert_true(name("line\nfeed") != name("line feed"));
    diverge_scalar(f.lane, huge, 1);
    diverge_scalar(f.lane,
                   "a\xff"
                   "b",
                   2);
    close_and_read();
    assert_int_equal(strlen(receiver_record(&f.receiver, 0, 0)->name), 4096);
    assert_string_equal(receiver_record(&f.receiver, 0, 1)->name, "a\xef\xbf\xbd"
                                                                  "b");
    free(huge);
}

static void many_names_keep_their_numbers(void **state)
{
    (void)state;
    open_plain();
    enum { COUNT = 20000 };
    diverge_name_t *numbers = calloc(COUNT, sizeof(*numbers));
    char text[32];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < COUNT; i++) {
            snprintf(text, sizeof(text), "layer.%d", i);
            diverge_name_t number = name(text);
            assert_true(number != 0);
            if (pass)
                assert_int_equal(number, numbers[i]);
            numbers[i] = number;
        }
    }
    diverge_scalar(f.lane, "layer.19999", 1);
    free(numbers);
    close_and_read();
    assert_string_equal(receiver_record(&f.receiver, 0, 0)->name, "layer.19999");
}

/* ---- tiers ----------------------------------------------------------------------------------- */

static void record_all_tiers(void)
{
    diverge_loss(f.lane, 1);                                   /* pulse */
    diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6)); /* step */
    diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));  /* layer */
    call("mm");                                                /* op */
    diverge_rng(f.lane, "global", 0, ones, sizeof(ones));      /* evidence */
}

static void level_takes_its_tiers_and_evidence(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.level = DIVERGE_TIER_STEP;
    open_with(options);
    diverge_step(f.session, 0);
    assert_true(diverge_wants(f.session, DIVERGE_TIER_STEP));
    assert_false(diverge_wants(f.session, DIVERGE_TIER_LAYER));
    assert_true(diverge_wants(f.session, DIVERGE_TIER_EVIDENCE));
    record_all_tiers();
    close_and_read();
    const struct dvg_end *end = receiver_end(&f.receiver, step(0));
    const uint64_t expected[DIVERGE_TIER_COUNT] = {1, 1, 0, 0, 1};
    assert_memory_equal(end->records, expected, sizeof(expected));
    assert_int_equal(end->wanted, 0x13);
}

static void steps_filter_keeps_the_pulse(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.steps = "2";
    open_with(options);
    for (uint64_t k = 0; k < 5; k++) {
        diverge_boundary(f.session, k);
        record_all_tiers();
        diverge_step(f.session, k);
        record_all_tiers();
    }
    close_and_read();
    for (uint64_t k = 0; k < 5; k++) {
        assert_int_equal(receiver_count(&f.receiver, step(k)), k == 2 ? 5 : 2);
        assert_int_equal(receiver_end(&f.receiver, step(k))->wanted, k == 2 ? 0x1f : 0x11);
        /* The state before the step and after it. */
        assert_int_equal(receiver_count(&f.receiver, boundary(k)), k == 2 || k == 3 ? 5 : 2);
    }
}

static void volatile_records_are_counted_only(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    diverge_op_begin(f.lane, name("handle"), DIVERGE_FLAG_VOLATILE, NULL, 0);
    diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));
    diverge_op_end(f.lane);
    close_and_read();
    assert_int_equal(receiver_count(&f.receiver, step(0)), 0);
    assert_int_equal(receiver_end(&f.receiver, step(0))->volatile_count, 1);
}

static void counters_are_evidence(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    DIVERGE_OP(f.lane, "mm", NULL)
    assert_int_equal(diverge_counter(f.session, "global_step", 42), 0);
    assert_int_equal(diverge_counter(f.session, "", 1), DIVERGE_EINVAL);
    close_and_read();
    const struct received_record *counter =
        receiver_named(&f.receiver, step(0), "counter.global_step");
    assert_int_equal(counter->tier, DIVERGE_TIER_EVIDENCE);
    assert_int_equal(counter->site.role, DIVERGE_ROLE_ATTR);
    assert_string_equal(counter->op, "");
    assert_int_equal(counter->value, 42);
}

static void order_counts_over_all_tiers(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    record_all_tiers();
    diverge_step(f.session, 1);
    record_all_tiers();
    close_and_read();
    for (uint64_t k = 0; k < 2; k++) {
        unsigned seen = 0;
        for (size_t i = 0; i < 5; i++)
            seen |= 1u << receiver_record(&f.receiver, step(k), i)->order;
        assert_int_equal(seen, 0x1f);
        assert_int_equal(receiver_named(&f.receiver, step(k), "loss")->order, 0);
        assert_int_equal(receiver_named(&f.receiver, step(k), "global")->order, 4);
    }
}

/* ---- producers ------------------------------------------------------------------------------- */

static int record_stored(enum diverge_role role, const char *text, const float *data,
                         uint64_t version, bool inherit, diverge_ref_t *ret)
{
    struct diverge_observation observation = what(role, text);
    observation.inherit = inherit;
    struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, data, 1, DIVERGE_SIZES(6));
    tensor.storage = 77;
    tensor.version = version;
    return diverge_record(f.lane, &observation, &tensor, ret);
}

static void inherited_input_takes_its_producers_value(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    const float other[6] = {2, 2, 2, 2, 2, 2};
    diverge_loss(f.lane, 0);
    diverge_ref_t ref = 0;
    record_stored(DIVERGE_ROLE_OUTPUT, "made", ones, 1, false, &ref);
    assert_true(ref != 0);
    record_stored(DIVERGE_ROLE_INPUT, "inherited", other, 1, true, NULL);
    record_stored(DIVERGE_ROLE_INPUT, "measured", other, 1, false, NULL);
    record_stored(DIVERGE_ROLE_INPUT, "newer", other, 2, true, NULL);
    diverge_forget(f.session, 77);
    record_stored(DIVERGE_ROLE_INPUT, "forgotten", other, 1, true, NULL);
    close_and_read();
    const struct received_record *made = receiver_named(&f.receiver, step(0), "made");
    const struct received_record *inherited = receiver_named(&f.receiver, step(0), "inherited");
    assert_int_equal(inherited->value, made->value);
    assert_int_equal(inherited->max, made->max);
    assert_int_equal(inherited->state, made->state | DVG_STATE_INHERITED);
    assert_int_equal(inherited->producer, made->order + 1);
    uint64_t others = diverge_checksum_bytes(other, sizeof(other), 0);
    const struct received_record *measured = receiver_named(&f.receiver, step(0), "measured");
    assert_int_equal(measured->value, others);
    assert_int_equal(measured->producer, made->order + 1);
    assert_false(measured->state & DVG_STATE_INHERITED);
    const char *const unknown[] = {"newer", "forgotten"};
    for (size_t i = 0; i < 2; i++) {
        const struct received_record *record = receiver_named(&f.receiver, step(0), unknown[i]);
        assert_int_equal(record->value, others);
        assert_int_equal(record->producer, 0);
        assert_false(record->state & DVG_STATE_INHERITED);
    }
}

static void producer_is_of_the_same_segment_and_lane(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    diverge_ref_t ref = 0;
    record_stored(DIVERGE_ROLE_PARAM, "made", ones, 1, false, &ref);
    diverge_step(f.session, 1);
    record_stored(DIVERGE_ROLE_INPUT, "later", ones, 1, true, NULL);
    struct diverge_lane *main_lane = f.lane;
    f.lane = diverge_lane_open(f.session, "other");
    diverge_ref_t elsewhere = 0;
    record_stored(DIVERGE_ROLE_OUTPUT, "elsewhere", ones, 2, false, &elsewhere);
    f.lane = main_lane;
    struct diverge_observation input = what(DIVERGE_ROLE_INPUT, "across");
    input.producer = elsewhere;
    struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, ones, 1, DIVERGE_SIZES(6));
    diverge_record(f.lane, &input, &tensor, NULL);
    close_and_read();
    const struct received_record *later = receiver_named(&f.receiver, step(1), "later");
    assert_true(later->state & DVG_STATE_INHERITED);
    assert_int_equal(later->producer, 0);
    assert_int_equal(receiver_named(&f.receiver, step(1), "across")->producer, 0);
}

/* ---- deferred -------------------------------------------------------------------------------- */

static uint64_t reserve(const char *text)
{
    struct diverge_observation observation = what(DIVERGE_ROLE_PARAM, text);
    struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, NULL, 1, DIVERGE_SIZES(6));
    uint64_t token = 0;
    assert_int_equal(diverge_reserve(f.lane, &observation, &tensor, &token), 0);
    assert_true(token != 0);
    return token;
}

static void deferred_records_keep_their_place(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    uint64_t a = reserve("a");
    diverge_param_f32(f.lane, "between", ones, 1, DIVERGE_SIZES(6));
    uint64_t b = reserve("b");
    uint64_t c = reserve("c");
    diverge_step(f.session, 1);
    diverge_loss(f.lane, 1);
    struct diverge_fingerprint fingerprint;
    struct diverge_view view = {
        .data = ones, .dtype = DIVERGE_F32, .ndim = 1, .sizes = DIVERGE_SIZES(6)};
    diverge_fingerprint(&view, DIVERGE_WITH_STATISTICS, &fingerprint);
    assert_int_equal(diverge_complete(f.session, b, &fingerprint), 0);
    assert_int_equal(diverge_complete(f.session, b, &fingerprint), DIVERGE_ESTATE);
    assert_int_equal(diverge_complete(f.session, 0, &fingerprint), DIVERGE_ESTATE);
    assert_int_equal(diverge_complete(f.session, a, &fingerprint), 0);
    assert_int_equal(diverge_complete(f.session, c, NULL), 0);
    close_and_read();
    const char *const names[] = {"a", "between", "b", "c"};
    for (size_t i = 0; i < 4; i++) {
        const struct received_record *record = receiver_record(&f.receiver, step(0), i);
        assert_string_equal(record->name, names[i]);
        assert_int_equal(record->order, i);
        assert_int_equal(record->value, i == 3 ? 0 : fingerprint.checksum);
        assert_int_equal(record->state & DVG_STATE_UNREAD, i == 3 ? DVG_STATE_UNREAD : 0);
    }
    assert_int_equal(receiver_count(&f.receiver, step(1)), 1);
}

static void open_reservations_end_unread(void **state)
{
    (void)state;
    open_plain();
    reserve("a");
    close_and_read();
    const struct received_record *record = receiver_named(&f.receiver, 0, "a");
    assert_int_equal(record->state, DVG_STATE_UNREAD);
    assert_int_equal(record->value, 0);
}

static void reservation_outside_the_filter_is_no_record(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.level = DIVERGE_TIER_PULSE;
    open_with(options);
    uint64_t token = reserve("a");
    assert_int_equal(diverge_complete(f.session, token, NULL), 0);
    close_and_read();
    assert_int_equal(f.receiver.n_records, 0);
}

/* ---- no room --------------------------------------------------------------------------------- */

/* A reservation stops the sender, so the ring behind it fills for certain. */
static void full_ring_drops_and_counts(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.ring_bytes = 16 * 1024;
    options.wait_ms = DIVERGE_NO_WAIT;
    open_with(options);
    diverge_step(f.session, 0);
    uint64_t token = reserve("first");
    int taken = 0;
    for (int i = 0; i < 1000; i++)
        taken += diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6)) == 0;
    assert_true(taken > 100 && taken < 1000);
    diverge_step(f.session, 1);
    assert_int_equal(diverge_loss(f.lane, 1), DIVERGE_EDROPPED);
    assert_int_equal(diverge_complete(f.session, token, NULL), 0);
    assert_int_equal(diverge_flush(f.session, 10000), 0);
    assert_int_equal(diverge_loss(f.lane, 2), 0);
    struct diverge_session_stats stats;
    assert_int_equal(diverge_session_stats(f.session, &stats), 0);
    assert_int_equal(stats.dropped, (uint64_t)(1000 - taken) + 1);
    assert_int_equal(stats.wait_ns, 0);
    assert_int_equal(close_and_read_as(DIVERGE_OUTCOME_COMPLETE), DIVERGE_EDROPPED);
    const struct dvg_end *end = receiver_end(&f.receiver, step(0));
    assert_int_equal(end->records[DIVERGE_TIER_STEP], (uint64_t)taken + 1);
    assert_int_equal(end->dropped[DIVERGE_TIER_STEP], (uint64_t)(1000 - taken));
    assert_int_equal(receiver_end(&f.receiver, step(1))->dropped[DIVERGE_TIER_PULSE], 1);
    /* The dropped loss was the first of its site: the one that came is the second. */
    assert_int_equal(receiver_named(&f.receiver, step(1), "loss")->site.occurrence, 1);
    assert_int_equal(f.receiver.bye.dropped, 0);
}

static void call_is_dropped_from_its_first_dropped_record_on(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.ring_bytes = 16 * 1024;
    options.wait_ms = DIVERGE_NO_WAIT;
    open_with(options);
    diverge_step(f.session, 0);
    uint64_t token = reserve("first");
    while (diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6)) == 0)
        ;
    DIVERGE_OP(f.lane, "mm", NULL)
    {
        assert_int_equal(diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6)),
                         DIVERGE_EDROPPED);
        diverge_complete(f.session, token, NULL);
        assert_int_equal(diverge_flush(f.session, 10000), 0);
        assert_int_equal(diverge_output_f32(f.lane, 1, ones, 1, DIVERGE_SIZES(6)),
                         DIVERGE_EDROPPED);
    }
    call("mm");
    assert_int_equal(close_and_read_as(DIVERGE_OUTCOME_COMPLETE), DIVERGE_EDROPPED);
    const struct dvg_end *end = receiver_end(&f.receiver, step(0));
    assert_int_equal(end->dropped[DIVERGE_TIER_OP], 2);
    assert_int_equal(end->records[DIVERGE_TIER_OP], 1);
    for (size_t i = 0; i < f.receiver.n_records; i++) {
        if (f.receiver.records[i].tier == DIVERGE_TIER_OP)
            assert_int_equal(f.receiver.records[i].site.occurrence, 1);
    }
}

static void waiting_is_bounded_for_the_whole_segment(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.ring_bytes = 16 * 1024;
    options.wait_ms = 20;
    open_with(options);
    diverge_step(f.session, 0);
    uint64_t token = reserve("first");
    for (int i = 0; i < 2000; i++)
        diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6));
    struct diverge_session_stats stats;
    diverge_session_stats(f.session, &stats);
    assert_true(stats.dropped > 0);
    /* Waits are over when their sum passes the bound: the last one can only overshoot by its
     * wake-up. */
    assert_true(stats.wait_ns >= 20000000);
    diverge_complete(f.session, token, NULL);
    assert_int_equal(close_and_read_as(DIVERGE_OUTCOME_COMPLETE), DIVERGE_EDROPPED);
}

static void waiting_gets_room_when_there_is_some(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.ring_bytes = 16 * 1024;
    options.wait_ms = 50000;
    open_with(options);
    diverge_step(f.session, 0);
    enum { MANY = 50000 };
    for (int i = 0; i < MANY; i++)
        assert_int_equal(diverge_scalar(f.lane, "x", i), 0);
    close_and_read();
    assert_int_equal(receiver_count(&f.receiver, step(0)), MANY);
    for (size_t i = 0; i < MANY; i += 999) {
        double value = (double)i;
        uint64_t bits;
        memcpy(&bits, &value, 8);
        assert_true(receiver_record(&f.receiver, step(0), i)->value == bits);
    }
}

/* A thousand boundaries and steps are over in no time; none may be lost for it. */
static void short_segments_are_not_lost(void **state)
{
    (void)state;
    open_plain();
    enum { STEPS = 1500 };
    for (uint64_t k = 0; k < STEPS; k++) {
        diverge_boundary(f.session, k);
        diverge_step(f.session, k);
        diverge_loss(f.lane, (double)k);
    }
    close_and_read();
    assert_int_equal(f.receiver.n_ends, 1 + 2 * STEPS);
    assert_int_equal(f.receiver.n_records, STEPS);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void failed_run_leaves_its_last_segment_open(void **state)
{
    (void)state;
    open_plain();
    diverge_step(f.session, 0);
    diverge_loss(f.lane, 1);
    diverge_step(f.session, 1);
    diverge_loss(f.lane, 2);
    assert_int_equal(close_and_read_as(DIVERGE_OUTCOME_FAILED), 0);
    assert_int_equal(f.receiver.bye.outcome, DIVERGE_OUTCOME_FAILED);
    assert_non_null(receiver_end(&f.receiver, step(0)));
    assert_null(receiver_end(&f.receiver, step(1)));
    assert_int_equal(receiver_count(&f.receiver, step(1)), 1);
}

static void lanes_are_found_by_name(void **state)
{
    (void)state;
    open_plain();
    assert_ptr_equal(diverge_lane_open(f.session, "main"), f.lane);
    struct diverge_lane *second = diverge_lane_open(f.session, "loader");
    assert_non_null(second);
    assert_ptr_not_equal(second, f.lane);
    assert_null(diverge_lane_open(f.session, ""));
    assert_ptr_equal(diverge_lane_session(second), f.session);
    for (uint64_t k = 0; k < 3; k++) {
        diverge_step(f.session, k);
        diverge_loss(f.lane, 1);
        diverge_loss(second, 2);
    }
    close_and_read();
    for (uint64_t k = 0; k < 3; k++) {
        assert_string_equal(receiver_record(&f.receiver, step(k), 0)->lane, "main");
        assert_string_equal(receiver_record(&f.receiver, step(k), 1)->lane, "loader");
        assert_int_equal(receiver_record(&f.receiver, step(k), 1)->order, 0);
    }
}

static void null_does_nothing_everywhere(void **state)
{
    (void)state;
    struct diverge_observation observation = {.role = DIVERGE_ROLE_LOSS};
    assert_null(diverge_lane_open(NULL, "main"));
    assert_null(diverge_lane_session(NULL));
    assert_int_equal(diverge_name(NULL, "x"), 0);
    assert_int_equal(diverge_boundary(NULL, 0), DIVERGE_ECLOSED);
    assert_int_equal(diverge_step(NULL, 0), DIVERGE_ECLOSED);
    assert_int_equal(diverge_counter(NULL, "x", 0), DIVERGE_ECLOSED);
    assert_false(diverge_wants(NULL, DIVERGE_TIER_PULSE));
    assert_int_equal(diverge_phase(NULL, DIVERGE_PHASE_DATA), DIVERGE_ECLOSED);
    assert_int_equal(diverge_op_begin(NULL, 1, 0, NULL, 0), DIVERGE_ECLOSED);
    assert_int_equal(diverge_op_end(NULL), DIVERGE_ECLOSED);
    assert_int_equal(diverge_record_float(NULL, &observation, 1), DIVERGE_ECLOSED);
    assert_int_equal(diverge_complete(NULL, 1, NULL), DIVERGE_ECLOSED);
    assert_int_equal(diverge_forget(NULL, 0), DIVERGE_ECLOSED);
    assert_int_equal(diverge_flush(NULL, 0), DIVERGE_ECLOSED);
    assert_int_equal(diverge_metadata_set(NULL, "a", "b"), DIVERGE_ECLOSED);
    assert_int_equal(diverge_session_stats(NULL, NULL), DIVERGE_ECLOSED);
    assert_int_equal(diverge_session_close(NULL, DIVERGE_OUTCOME_COMPLETE), DIVERGE_ECLOSED);
    int turns = 0;
    DIVERGE_OP(NULL, "mm", "scope") turns++;
    assert_int_equal(turns, 1);
    assert_int_equal(diverge_loss(NULL, 1), DIVERGE_ECLOSED);
}

static void recording_does_not_replace_a_file(void **state)
{
    (void)state;
    FILE *file = fopen(f.path, "w");
    assert_non_null(file);
    fputs("precious", file);
    fclose(file);
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.recording = f.path;
    assert_int_equal(diverge_session_open(&options, &f.session), DIVERGE_EEXIST);
    assert_null(f.session);
    char text[16] = {0};
    file = fopen(f.path, "r");
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "precious");
}

static void session_can_be_disabled(void **state)
{
    (void)state;
    setenv("DIVERGE_DISABLE", "1", 1);
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.recording = f.path;
    assert_int_equal(diverge_session_open(&options, &f.session), DIVERGE_ECLOSED);
    unsetenv("DIVERGE_DISABLE");
    assert_null(f.session);
    assert_int_not_equal(access(f.path, F_OK), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(record_has_its_whole_site),
        CASE(segment_begins_with_fresh_context),
        CASE(occurrence_counts_equal_calls_of_a_segment),
        CASE(occurrence_outside_ops_counts_repeats_of_the_site),
        CASE(steady_step_defines_nothing_and_is_one_run),
        CASE(inserted_op_leaves_other_sites_alone),
        CASE(source_is_no_part_of_identity),
        CASE(only_the_innermost_op_is_recorded_into),
        CASE(op_calls_are_checked),
        CASE(segments_only_go_forward),
        CASE(numbers_and_absence_are_told_apart),
        CASE(statistics_and_nonfinite_counts_arrive),
        CASE(sketches_go_to_their_tiers),
        CASE(no_stats_leaves_values_out),
        CASE(type_has_shape_strides_and_placement),
        CASE(nonsense_is_refused_and_harms_nothing),
        CASE(names_become_valid_text),
        CASE(many_names_keep_their_numbers),
        CASE(level_takes_its_tiers_and_evidence),
        CASE(steps_filter_keeps_the_pulse),
        CASE(volatile_records_are_counted_only),
        CASE(counters_are_evidence),
        CASE(order_counts_over_all_tiers),
        CASE(inherited_input_takes_its_producers_value),
        CASE(producer_is_of_the_same_segment_and_lane),
        CASE(deferred_records_keep_their_place),
        CASE(open_reservations_end_unread),
        CASE(reservation_outside_the_filter_is_no_record),
        CASE(full_ring_drops_and_counts),
        CASE(call_is_dropped_from_its_first_dropped_record_on),
        CASE(waiting_is_bounded_for_the_whole_segment),
        CASE(waiting_gets_room_when_there_is_some),
        CASE(short_segments_are_not_lost),
        CASE(failed_run_leaves_its_last_segment_open),
        CASE(lanes_are_found_by_name),
        CASE(null_does_nothing_everywhere),
        CASE(recording_does_not_replace_a_file),
        CASE(session_can_be_disabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
