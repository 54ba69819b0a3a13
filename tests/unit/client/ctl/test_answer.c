/* SPDX-License-Identifier: Apache-2.0 */
/* How an answer reads: the text of the first difference, its JSON. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/answer.h"
#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"
#include "client/wire/message.h"

static const struct trace_site site = {
    .tier = DIVERGE_TIER_OP,
    .phase = DIVERGE_PHASE_BACKWARD,
    .role = DIVERGE_ROLE_OUTPUT,
    .lane = "main",
    .region = "",
    .scope = "encoder.layer.3.attention",
    .op = "aten::index_put_",
    .name = "",
};

static const int64_t sizes[] = {768, 768};

static const struct engine_side side_a = {
    .present = true,
    .kind = DIVERGE_KIND_TENSOR,
    .dtype = DIVERGE_F32,
    .ndim = 2,
    .sizes = sizes,
    .value = UINT64_C(0x09c4ab37f20155e1),
    .source = "model.py:211",
    .has_stats = true,
    .state = DVG_STATE_STATS | DVG_STATE_RANGE | DVG_STATE_L2,
    .numel = 589824,
    .min = 0xbf800000,
    .max = 0x3f800000,
    .l2 = 12.5f,
    .zero = 3,
    .nan = 1,
};

static struct engine_finding finding;
static struct engine_answer answer;
static const char *const evidence[] = {"every earlier record agrees"};
static const char *const next[] = {"run it again"};
static struct trace_run run_a = {.name = "runA"};
static struct trace_run run_b = {.name = "runB"};
static struct answer_runs runs;

static int setup(void **state)
{
    (void)state;
    finding = (struct engine_finding){
        .segment = diverge_segment_of_step(137),
        .order = 412,
        .site = &site,
        .relation = ENGINE_ORIGIN,
        .a = side_a,
        .b = side_a,
        .has_inputs = true,
        .inputs = {.equal = 3, .measured = 2, .inherited = 1},
        .rel_l2 = 3.1e-7,
        .ulp = NAN,
    };
    finding.b.value = UINT64_C(0x17130f92cc4e8a0a);
    answer = (struct engine_answer){
        .result = ENGINE_DIFFER,
        .compared = {.boundaries = 138, .steps = 137, .ranks = 1, .records = 1204331},
        .has_agree = true,
        .agree_boundary = 137,
        .first = &finding,
        .verdict = {.class_name = "nondeterministic-kernel",
                    .confidence = ENGINE_LIKELY,
                    .text = "Same inputs; another output.",
                    .evidence = evidence,
                    .n_evidence = 1,
                    .next = next,
                    .n_next = 1},
        .environment_equal_causes = 31,
        .loss_segment = diverge_segment_of_step(146),
    };
    runs = (struct answer_runs){.a = &run_a,
                                .b = &run_b,
                                .a_as = "runA",
                                .b_as = "runB",
                                .a_said = "runA",
                                .b_said = "runB"};
    return 0;
}

static const char *text_of(int width)
{
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);

    answer_text(file, &answer, &runs, false, width);
    fclose(file);
    const char *copy = mem_string(out);

    free(out);
    return copy;
}

static void assert_line(const char *text, const char *line)
{
    const char *wanted = mem_printf("\n%s\n", line);

    if (!strstr(mem_printf("\n%s", text), wanted))
        fail_msg("this line is missing:\n%s\nin:\n%s", line, text);
}

static void a_difference_is_told_in_full(void **state)
{
    (void)state;
    const char *text = text_of(0);

    assert_line(text, "Agree through boundary 137 (137 steps, 1 204 331 records on each side, none "
                      "dropped).");
    assert_line(text, "First difference: step 137, backward, record 412");
    assert_line(text, "  op       aten::index_put_   encoder.layer.3.attention   model.py:211");
    assert_line(text, "  output 0 float32[768,768]   A 09c4ab37f20155e1   B 17130f92cc4e8a0a   "
                      "rel. L2 about 3.1e-07");
    assert_line(text, "  in both  min -1, max 1, L2 12.5, 3 zeros, 1 NaN");
    assert_line(text, "  inputs   3 of 3 equal (2 measured, 1 inherited)");
    assert_line(text, "Verdict: nondeterministic-kernel (likely). Same inputs; another output.");
    assert_line(text, "  Evidence every earlier record agrees");
    assert_line(text, "  Next     run it again");
    assert_line(text, "Loss shows it first at step 146. Environment: 31 causes equal.");
}

static void statistics_that_differ_are_both_shown(void **state)
{
    (void)state;
    finding.b.l2 = 13;
    const char *text = text_of(0);

    assert_line(text, "  in A     min -1, max 1, L2 12.5, 3 zeros, 1 NaN");
    assert_line(text, "  in B     min -1, max 1, L2 13, 3 zeros, 1 NaN");
}

static void distances_below_the_sketch_are_bounds(void **state)
{
    (void)state;
    finding.rel_l2 = 1.1e-7;
    finding.ulp = 0.9;
    assert_line(text_of(0),
                "  output 0 float32[768,768]   A 09c4ab37f20155e1   B 17130f92cc4e8a0a   "
                "rel. L2 at most 2e-07");
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    static const int widths[] = {40, 60, 80, 132};

    (void)state;
    for (size_t i = 0; i < CMD_COUNT(widths); i++) {
        char *text = mem_string(text_of(widths[i]));

        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            assert_true(text_columns(line) <= widths[i]);
    }
}

static void names_of_producers_cannot_write_to_the_terminal(void **state)
{
    struct trace_site hostile = site;

    (void)state;
    hostile.op = "\x1b]0;owned\a";
    hostile.scope = "a\nVerdict: none";
    finding.site = &hostile;
    const char *text = text_of(0);

    assert_null(strchr(text, '\x1b'));
    assert_null(strchr(text, '\a'));
    assert_null(strstr(text, "\nVerdict: none"));
}

static void a_missing_side_and_other_types_are_shown(void **state)
{
    (void)state;
    finding.b.present = false;
    assert_line(text_of(0), "  output 0 A float32[768,768] 09c4ab37f20155e1   B missing   rel. L2 "
                            "about 3.1e-07");
    finding.b = side_a;
    finding.b.dtype = DIVERGE_BF16;
    finding.rel_l2 = NAN;
    assert_line(text_of(0), "  output 0 A float32[768,768] 09c4ab37f20155e1   B bfloat16[768,768] "
                            "09c4ab37f20155e1");
}

static void scalars_show_their_values(void **state)
{
    struct trace_site lr = site;
    double a = 0.0095;
    double b = 0.0090;

    (void)state;
    lr.role = DIVERGE_ROLE_SCALAR;
    lr.name = "lr";
    lr.op = lr.scope = "";
    finding.site = &lr;
    finding.a = finding.b = (struct engine_side){.present = true, .kind = DIVERGE_KIND_FLOAT};
    memcpy(&finding.a.value, &a, sizeof(a));
    memcpy(&finding.b.value, &b, sizeof(b));
    finding.rel_l2 = NAN;
    assert_line(text_of(0), "  scalar   lr   float64   A 0.0095   B 0.009   relative difference "
                            "0.053");
}

static void equal_runs_say_how_much_was_compared(void **state)
{
    (void)state;
    answer.result = ENGINE_SAME;
    answer.first = NULL;
    answer.loss_segment = 0;
    answer.verdict = (struct engine_verdict){.class_name = "none"};
    assert_string_equal(text_of(0), "Same: 138 boundaries, 137 steps, 1 204 331 records on each "
                                    "side, none dropped.\nEnvironment: 31 causes equal.\n");
}

static void what_cannot_be_told_says_why(void **state)
{
    static const char *reasons[] = {"rank 1 of B ends at step 3", "A dropped 12 records"};

    (void)state;
    answer.result = ENGINE_UNVERIFIED;
    answer.first = NULL;
    answer.reasons = reasons;
    answer.n_reasons = 2;
    const char *text = text_of(0);

    assert_non_null(strstr(text, "Cannot tell"));
    assert_line(text, "  - rank 1 of B ends at step 3");
    assert_line(text, "  - A dropped 12 records");
}

static void causes_that_differ_are_named(void **state)
{
    static struct engine_environment environment[] = {
        {.key = "threads", .class_name = "cause", .a = "1", .b = "2"},
        {.key = "seed", .class_name = "cause", .a = NULL, .b = "7"},
        {.key = "host", .class_name = "context", .a = "x", .b = "y"},
    };

    (void)state;
    answer.environment = environment;
    answer.n_environment = 3;
    assert_line(text_of(0), "Loss shows it first at step 146. Environment: 31 causes equal; 2 "
                            "differ: threads (A 1, B 2), seed (A not set, B 7); 1 differs in "
                            "context only.");
}

static void long_values_are_cut_and_empty_ones_said(void **state)
{
    static char value[200];
    static struct engine_environment environment[] = {
        {.key = "argv", .class_name = "cause", .a = "", .b = value},
    };

    (void)state;
    memset(value, 'x', sizeof(value) - 1);
    answer.environment = environment;
    answer.n_environment = 1;
    const char *text = text_of(0);

    assert_non_null(strstr(text, "argv (A empty, B xxx"));
    assert_non_null(strstr(text, "x…)."));
    assert_null(strstr(text, value));
}

static cJSON *json_of(void)
{
    struct emit emit;

    emit_begin(&emit, "first-diff");
    answer_emit(&emit, &answer, &runs);
    fputc('}', emit.file);
    fflush(emit.file);
    cJSON *parsed = cJSON_Parse(emit.text);

    emit_fini(&emit);
    assert_non_null(parsed);
    return parsed;
}

static void json_keeps_what_it_does_not_know_null(void **state)
{
    (void)state;
    cJSON *json = json_of();
    const cJSON *first = cJSON_GetObjectItem(json, "first");

    assert_true(cJSON_IsNull(cJSON_GetObjectItem(first, "ulp")));
    assert_true(cJSON_IsNumber(cJSON_GetObjectItem(first, "rel_l2")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "beyond_noise")));
    assert_string_equal(cJSON_GetObjectItem(first, "relation")->valuestring, "origin");
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(first, "checksum"), 0)->valuestring,
                        "09c4ab37f20155e1");
    cJSON_Delete(json);
}

static void json_of_a_scalar_that_is_not_a_number(void **state)
{
    double nan = NAN;

    (void)state;
    finding.a = finding.b = (struct engine_side){.present = true, .kind = DIVERGE_KIND_FLOAT};
    memcpy(&finding.b.value, &nan, sizeof(nan));
    cJSON *json = json_of();
    const cJSON *stats = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "first"), "stats");
    const cJSON *b = cJSON_GetArrayItem(stats, 1);

    assert_true(cJSON_IsNull(cJSON_GetObjectItem(b, "value")));
    assert_string_equal(cJSON_GetObjectItem(b, "text")->valuestring, "nan");
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_difference_is_told_in_full, setup),
        cmocka_unit_test_setup(statistics_that_differ_are_both_shown, setup),
        cmocka_unit_test_setup(distances_below_the_sketch_are_bounds, setup),
        cmocka_unit_test_setup(no_line_is_wider_than_the_terminal, setup),
        cmocka_unit_test_setup(names_of_producers_cannot_write_to_the_terminal, setup),
        cmocka_unit_test_setup(a_missing_side_and_other_types_are_shown, setup),
        cmocka_unit_test_setup(scalars_show_their_values, setup),
        cmocka_unit_test_setup(equal_runs_say_how_much_was_compared, setup),
        cmocka_unit_test_setup(what_cannot_be_told_says_why, setup),
        cmocka_unit_test_setup(causes_that_differ_are_named, setup),
        cmocka_unit_test_setup(long_values_are_cut_and_empty_ones_said, setup),
        cmocka_unit_test_setup(json_keeps_what_it_does_not_know_null, setup),
        cmocka_unit_test_setup(json_of_a_scalar_that_is_not_a_number, setup),
    };

    text_init("never");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    mem_free_all();
    return failed;
}
