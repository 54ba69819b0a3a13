/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases that must come out right: real programs, recorded through the real daemon by
 * `divergectl run`, told apart by `divergectl first-diff --json`. Place, relation and verdict are
 * checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>
#include <cmocka.h>

#include "tests/integration/watch.h"
#include "tests/support/daemon_fixture.h"

static struct dvg_daemon the_daemon;

static int start(void **state)
{
    (void)state;
    dvg_daemon_init(&the_daemon);
    dvg_daemon_start(&the_daemon, NULL, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    dvg_daemon_fini(&the_daemon);
    return 0;
}

/* ---- running and asking --------------------------------------------------------------------- */

enum { MAX_ARGUMENTS = 24 };

/* Runs `divergectl run --name NAME --level op -- PROGRAM …` and returns the job's exit status. */
static int run_with(const char *const *environment, const char *name, const char *const *command)
{
    const char *argv[MAX_ARGUMENTS] = {
        getenv("DVG_DIVERGECTL"), "run", "--name", name, "--level", "op", "--"};
    size_t n = 7;
    for (size_t i = 0; command[i]; i++) {
        assert_true(n + 1 < MAX_ARGUMENTS);
        argv[n++] = command[i];
    }
    argv[n] = NULL;
    struct dvg_process process;
    dvg_process_run(&process, argv, environment);
    int status = dvg_process_status(&process);
    if (status != 0)
        fprintf(stderr, "%s: status %d\n%s%s", name, status, process.out, process.err);
    dvg_process_fini(&process);
    return status;
}

#define RUN(name, ...) run_with(NULL, name, (const char *const[]){__VA_ARGS__, NULL})
#define MINI(name, ...) RUN(name, CASE_MINI, "--data", CASE_DATA __VA_OPT__(, ) __VA_ARGS__)

struct answer {
    cJSON *json;
    int status;
};

static struct answer ask(const char *const *arguments)
{
    const char *argv[MAX_ARGUMENTS] = {getenv("DVG_DIVERGECTL")};
    struct dvg_process process;
    for (size_t i = 0; arguments[i]; i++)
        argv[i + 1] = arguments[i];
    dvg_process_run(&process, argv, NULL);
    struct answer answer = {.json = cJSON_Parse(process.out),
                            .status = dvg_process_status(&process)};
    if (!answer.json)
        fprintf(stderr, "%s: status %d\n%s%s\n", arguments[0], answer.status, process.out,
                process.err);
    assert_non_null(answer.json);
    if (getenv("DVG_CASES_PRINT"))
        fprintf(stderr, "%s\n", process.out);
    dvg_process_fini(&process);
    return answer;
}

static struct answer first_diff(const char *a, const char *b, const char *option)
{
    return ask((const char *const[]){"first-diff", "--json", a, b, option, NULL});
}

/* The item at a dotted path of member names. */
static const cJSON *item(const struct answer *answer, const char *path)
{
    char copy[128];
    snprintf(copy, sizeof(copy), "%s", path);
    const cJSON *at = answer->json;
    char *rest = copy;
    for (char *name; at && (name = strsep(&rest, ".")) != NULL;)
        at = cJSON_GetObjectItemCaseSensitive(at, name);
    if (!at) {
        char *text = cJSON_Print(answer->json);
        fprintf(stderr, "no %s in %s\n", path, text);
        cJSON_free(text);
    }
    assert_non_null(at);
    return at;
}

static void explain(const struct answer *answer, const char *path)
{
    char *text = cJSON_Print(answer->json);
    fprintf(stderr, "%s is not as expected in %s\n", path, text);
    cJSON_free(text);
}

static void expect(const struct answer *answer, const char *path, const char *value)
{
    const cJSON *at = item(answer, path);
    bool equal =
        value ? cJSON_IsString(at) && strcmp(at->valuestring, value) == 0 : cJSON_IsNull(at);
    if (!equal)
        explain(answer, path);
    assert_true(equal);
}

static void expect_number(const struct answer *answer, const char *path, double value)
{
    const cJSON *at = item(answer, path);
    if (!cJSON_IsNumber(at) || at->valuedouble != value)
        explain(answer, path);
    assert_true(cJSON_IsNumber(at) && at->valuedouble == value);
}

static void expect_verdict(const struct answer *answer, const char *class_name, const char *detail)
{
    expect(answer, "verdict.class", class_name);
    expect(answer, "verdict.detail", detail);
}

static void answer_free(struct answer *answer)
{
    cJSON_Delete(answer->json);
}

static bool mentions(const struct answer *answer, const char *path, const char *text)
{
    char *printed = cJSON_PrintUnformatted(item(answer, path));
    bool found = strstr(printed, text) != NULL;
    cJSON_free(printed);
    return found;
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void case_1_fresh_head_is_init_fresh_tensors(void **state)
{
    (void)state;
    assert_int_equal(MINI("c1a", "--head-seed", "111"), 0);
    assert_int_equal(MINI("c1b", "--head-seed", "222"), 0);
    struct answer answer = first_diff("c1a", "c1b", NULL);
    assert_int_equal(answer.status, 1);
    expect(&answer, "first.at", "boundary");
    expect_number(&answer, "first.step", 0);
    expect(&answer, "first.role", "param");
    expect(&answer, "first.name", "head.weight");
    expect(&answer, "first.relation", "state");
    expect_verdict(&answer, "init", "fresh-tensors");
    answer_free(&answer);
}

static void case_2_reversed_files_are_data_order(void **state)
{
    (void)state;
    assert_int_equal(MINI("c2a"), 0);
    assert_int_equal(MINI("c2b", "--reverse"), 0);
    struct answer answer = first_diff("c2a", "c2b", NULL);
    assert_int_equal(answer.status, 1);
    expect_number(&answer, "agree_through.boundary", 0);
    expect(&answer, "first.at", "step");
    expect_number(&answer, "first.step", 0);
    expect(&answer, "first.phase", "data");
    expect(&answer, "first.role", "batch");
    expect(&answer, "first.name", "tokens");
    expect_verdict(&answer, "data", "order");
    answer_free(&answer);
}

/* Over all four runs the race, and nothing else, gives other outputs for the same inputs. */
static void expect_suspect(const char *op, const char *const names[], size_t n)
{
    const char *argv[MAX_ARGUMENTS] = {getenv("DVG_DIVERGECTL"), "suspects", "--json"};
    for (size_t i = 0; i < n; i++)
        argv[3 + i] = names[i];
    struct dvg_process process;
    dvg_process_run(&process, argv, NULL);
    struct answer answer = {.json = cJSON_Parse(process.out),
                            .status = dvg_process_status(&process)};
    dvg_process_fini(&process);
    assert_int_equal(answer.status, 1);
    const cJSON *suspects = item(&answer, "suspects");
    assert_int_equal(cJSON_GetArraySize(suspects), 1);
    struct answer first = {.json = cJSON_GetArrayItem(suspects, 0)};
    expect(&first, "op", op);
    expect(&first, "where.blame", "one-place");
    assert_true(item(&first, "rate.differing")->valuedouble > 0);
    assert_true(item(&first, "same_causes")->valuedouble ==
                item(&first, "rate.differing")->valuedouble);
    answer_free(&answer);
}

static void case_5_racing_adds_are_a_nondeterministic_kernel(void **state)
{
    (void)state;
    static const char *const names[] = {"race1", "race2", "race3", "race4"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(RUN(names[i], CASE_RACE), 0);
    size_t differing = 0;
    for (size_t i = 1; i < 4; i++) {
        struct answer answer = first_diff(names[0], names[i], NULL);
        if (answer.status == 1) {
            differing++;
            expect(&answer, "first.at", "step");
            expect(&answer, "first.phase", "backward");
            expect(&answer, "first.op", "embedding_backward");
            expect(&answer, "first.role", "output");
            expect(&answer, "first.relation", "origin");
            expect_number(&answer, "first.inputs.differ", 0);
            expect_number(&answer, "first.inputs.equal", 2);
            expect(&answer, "verdict.class", "nondeterministic-kernel");
        }
        answer_free(&answer);
    }
    assert_true(differing > 0);
    expect_suspect("embedding_backward", names, 4);
}

static void case_6_another_number_of_threads_is_reduction_order(void **state)
{
    (void)state;
    assert_int_equal(MINI("c6a", "--sum-threads", "1"), 0);
    assert_int_equal(MINI("c6a2", "--sum-threads", "1"), 0);
    assert_int_equal(MINI("c6b", "--sum-threads", "2"), 0);
    assert_int_equal(MINI("c6b2", "--sum-threads", "2"), 0);
    struct answer answer = first_diff("c6a", "c6b", NULL);
    assert_int_equal(answer.status, 1);
    expect(&answer, "first.at", "step");
    expect_number(&answer, "first.step", 0);
    expect(&answer, "first.op", "sum");
    expect(&answer, "first.relation", "origin");
    expect_number(&answer, "first.inputs.equal", 1);
    expect_verdict(&answer, "reduction-order", "threads");
    assert_true(mentions(&answer, "environment", "num_threads"));
    answer_free(&answer);
    struct answer repeat_a = first_diff("c6a", "c6a2", NULL);
    assert_int_equal(repeat_a.status, 0);
    answer_free(&repeat_a);
    struct answer repeat_b = first_diff("c6b", "c6b2", NULL);
    assert_int_equal(repeat_b.status, 0);
    answer_free(&repeat_b);
}

static void save_checkpoint(char path[256])
{
    snprintf(path, 256, "%s/boundary4", the_daemon.dir);
    assert_int_equal(MINI("c8a", "--save", path, "--save-at", "4"), 0);
}

static void case_8_a_fresh_optimizer_is_resume_optimizer(void **state)
{
    (void)state;
    char path[256];
    save_checkpoint(path);
    assert_int_equal(MINI("c8b", "--load", path, "--fresh-adam"), 0);
    struct answer answer = first_diff("c8a", "c8b", NULL);
    assert_int_equal(answer.status, 1);
    expect(&answer, "first.at", "boundary");
    expect_number(&answer, "first.step", 4);
    expect(&answer, "first.role", "optstate");
    expect_verdict(&answer, "resume", "optimizer");
    answer_free(&answer);
}

static void case_8b_exchanged_moments_are_resume_permuted(void **state)
{
    (void)state;
    char path[256];
    save_checkpoint(path);
    assert_int_equal(MINI("c8c", "--load", path, "--swap-moments"), 0);
    struct answer answer = first_diff("c8a.2", "c8c", NULL);
    assert_int_equal(answer.status, 1);
    expect(&answer, "first.at", "boundary");
    expect_number(&answer, "first.step", 4);
    expect_verdict(&answer, "resume", "permuted");
    answer_free(&answer);
}

static void case_8_a_faithful_resume_is_the_same(void **state)
{
    (void)state;
    char path[256];
    save_checkpoint(path);
    assert_int_equal(MINI("c8d", "--load", path), 0);
    struct answer answer = first_diff("c8a.3", "c8d", NULL);
    assert_int_equal(answer.status, 0);
    expect_number(&answer, "agree_through.boundary", 8);
    answer_free(&answer);
}

static void case_9_a_scheduler_that_steps_twice_is_hyperparameter_lr(void **state)
{
    (void)state;
    assert_int_equal(MINI("c9a"), 0);
    assert_int_equal(MINI("c9b", "--schedule-calls", "2"), 0);
    struct answer answer = first_diff("c9a", "c9b", NULL);
    assert_int_equal(answer.status, 1);
    expect(&answer, "first.at", "boundary");
    expect_number(&answer, "first.step", 1);
    expect(&answer, "first.role", "scalar");
    expect(&answer, "first.name", "lr");
    expect_verdict(&answer, "hyperparameter", "lr");
    answer_free(&answer);
}

static void case_10_a_skipped_all_reduce_is_desync(void **state)
{
    (void)state;
    assert_int_equal(RUN("c10a", CASE_RANKS, CASE_DATA), 0);
    assert_int_equal(RUN("c10b", CASE_RANKS, CASE_DATA, "--skip-head"), 0);
    struct answer whole = ask((const char *const[]){"replicas", "--json", "c10a", NULL});
    if (whole.status != 0)
        explain(&whole, "result");
    assert_int_equal(whole.status, 0);
    expect_number(&whole, "agree_through.boundary", 4);
    answer_free(&whole);
    struct answer ranks = ask((const char *const[]){"replicas", "--json", "c10b", NULL});
    assert_int_equal(ranks.status, 1);
    expect(&ranks, "first.at", "boundary");
    expect_number(&ranks, "first.step", 1);
    expect(&ranks, "first.name", "head.weight");
    expect_number(&ranks, "agree_through.boundary", 0);
    assert_true(mentions(&ranks, "ranks", "[0,1]"));
    expect_verdict(&ranks, "desync", "parameter");
    answer_free(&ranks);
    struct answer runs = first_diff("c10a", "c10b", NULL);
    assert_int_equal(runs.status, 1);
    expect(&runs, "first.at", "step");
    expect_number(&runs, "first.step", 0);
    expect(&runs, "first.op", "all_reduce");
    expect(&runs, "first.scope", "head.weight");
    expect_verdict(&runs, "desync", "missing-collective");
    answer_free(&runs);
}

static void case_11_an_unwritten_bias_is_corruption_uninitialised(void **state)
{
    (void)state;
    assert_int_equal(MINI("c11a", "--dirty-bias", "41"), 0);
    assert_int_equal(MINI("c11b", "--dirty-bias", "42"), 0);
    struct answer answer = first_diff("c11a", "c11b", NULL);
    assert_int_equal(answer.status, 1);
    expect(&answer, "first.at", "boundary");
    expect_number(&answer, "first.step", 0);
    expect(&answer, "first.name", "fc1.bias");
    expect_verdict(&answer, "corruption", "uninitialised");
    answer_free(&answer);
}

/* ---- controls ------------------------------------------------------------------------------- */

static void control_1_equal_runs_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(RUN("twin1", CASE_TWINS), 0);
    assert_int_equal(RUN("twin2", CASE_TWINS), 0);
    struct answer answer = first_diff("twin1", "twin2", NULL);
    if (answer.status != 0)
        explain(&answer, "result");
    assert_int_equal(answer.status, 0);
    expect(&answer, "result", "same");
    expect(&answer, "first", NULL);
    expect_verdict(&answer, "none", NULL);
    /* 6 steps, 2 lanes, 50 draws and 50 empties; 7 boundaries without records */
    expect_number(&answer, "compared.records", 6 * 2 * 100);
    answer_free(&answer);
}

static void control_2_digest_traps_are_told_apart(void **state)
{
    (void)state;
    for (int trap = 0; trap < 8; trap++) {
        char number[4], a[16], b[16], c[16];
        snprintf(number, sizeof(number), "%d", trap);
        snprintf(a, sizeof(a), "trap%da", trap);
        snprintf(b, sizeof(b), "trap%db", trap);
        snprintf(c, sizeof(c), "trap%dc", trap);
        assert_int_equal(RUN(a, CASE_TRAPS, number, "a"), 0);
        assert_int_equal(RUN(b, CASE_TRAPS, number, "b"), 0);
        assert_int_equal(RUN(c, CASE_TRAPS, number, "a"), 0);
        struct answer answer = first_diff(a, b, NULL);
        assert_int_equal(answer.status, 1);
        expect(&answer, "first.name", "trap");
        expect_number(&answer, "first.step", 0);
        answer_free(&answer);
        struct answer same = first_diff(a, c, NULL);
        assert_int_equal(same.status, 0);
        answer_free(&same);
    }
}

static void control_3_an_extra_log_op_is_a_note(void **state)
{
    (void)state;
    assert_int_equal(MINI("c3a"), 0);
    assert_int_equal(MINI("c3b", "--extra-log"), 0);
    struct answer answer = first_diff("c3a", "c3b", NULL);
    assert_int_equal(answer.status, 0);
    expect(&answer, "result", "same");
    assert_int_equal(cJSON_GetArraySize(item(&answer, "structure")), 1);
    answer_free(&answer);
    struct answer strict = first_diff("c3a", "c3b", "--strict-structure");
    assert_int_equal(strict.status, 1);
    answer_free(&strict);
}

static void expect_unverified(const char *a, const char *b)
{
    struct answer answer = first_diff(a, b, NULL);
    if (answer.status != 2)
        explain(&answer, "result");
    assert_int_equal(answer.status, 2);
    expect(&answer, "result", "unverified");
    expect(&answer, "verdict.class", "unverified");
    assert_true(cJSON_GetArraySize(item(&answer, "reasons")) > 0);
    answer_free(&answer);
}

static void control_4_a_run_killed_in_mid_step_is_unverified(void **state)
{
    (void)state;
    assert_int_equal(MINI("c4a"), 0);
    assert_int_equal(MINI("c4killed", "--stop-at", "3"), 137);
    expect_unverified("c4a", "c4killed");
    struct answer answer = first_diff("c4a", "c4killed", NULL);
    expect_number(&answer, "agree_through.boundary", 3);
    answer_free(&answer);
}

static void run_two_ranks(const char *name, const char *id, const char *stop_rank_1)
{
    char run_id[64], run_name[64];
    snprintf(run_id, sizeof(run_id), "DIVERGE_RUN_ID=%s", id);
    snprintf(run_name, sizeof(run_name), "DIVERGE_RUN_NAME=%s", name);
    for (int rank = 0; rank < 2; rank++) {
        const char *environment[] = {run_id, run_name, "WORLD_SIZE=2", rank ? "RANK=1" : "RANK=0",
                                     NULL};
        const char *argv[] = {CASE_MINI,   "--data",
                              CASE_DATA,   rank && stop_rank_1 ? "--stop-at" : NULL,
                              stop_rank_1, NULL};
        struct dvg_process process;
        dvg_process_run(&process, argv, environment);
        assert_int_equal(dvg_process_status(&process), rank && stop_rank_1 ? 137 : 0);
        dvg_process_fini(&process);
    }
}

static void control_4_a_rank_that_ends_early_is_unverified(void **state)
{
    (void)state;
    run_two_ranks("ranks-a", "000102030405060708090a0b0c0d0e0f", NULL);
    run_two_ranks("ranks-b", "100102030405060708090a0b0c0d0e0f", "3");
    expect_unverified("ranks-a", "ranks-b");
}

static void control_4_an_empty_run_is_unverified(void **state)
{
    (void)state;
    assert_int_equal(RUN("empty1", CASE_MINI, "--data", "/nonexistent"), 1);
    assert_int_equal(RUN("empty2", CASE_MINI, "--data", "/nonexistent"), 1);
    expect_unverified("empty1", "empty2");
}

/* The spool fills while no daemon listens; what did not fit is a gap, never a silent "same". */
static void control_4_an_overflowed_spool_is_unverified(void **state)
{
    (void)state;
    assert_int_equal(MINI("c4full"), 0);
    dvg_daemon_stop(&the_daemon);
    const char *environment[] = {"DIVERGE_SPOOL_BYTES=16384", "DIVERGE_RUN_NAME=c4spool", NULL};
    const char *argv[] = {CASE_MINI, "--data", CASE_DATA, NULL};
    struct dvg_process process;
    dvg_process_run(&process, argv, environment);
    assert_int_equal(dvg_process_status(&process), 0);
    dvg_process_fini(&process);
    char path[300];
    assert_true(watch_find_spool(the_daemon.spool, path, sizeof(path)));
    struct watch watch;
    watch_open(&watch, the_daemon.spool);
    dvg_daemon_start(&the_daemon, NULL, NULL);
    watch_until_gone(&watch, path);
    watch_close(&watch);
    expect_unverified("c4full", "c4spool");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_1_fresh_head_is_init_fresh_tensors),
        cmocka_unit_test(case_2_reversed_files_are_data_order),
        cmocka_unit_test(case_5_racing_adds_are_a_nondeterministic_kernel),
        cmocka_unit_test(case_6_another_number_of_threads_is_reduction_order),
        cmocka_unit_test(case_8_a_fresh_optimizer_is_resume_optimizer),
        cmocka_unit_test(case_8b_exchanged_moments_are_resume_permuted),
        cmocka_unit_test(case_8_a_faithful_resume_is_the_same),
        cmocka_unit_test(case_9_a_scheduler_that_steps_twice_is_hyperparameter_lr),
        cmocka_unit_test(case_10_a_skipped_all_reduce_is_desync),
        cmocka_unit_test(case_11_an_unwritten_bias_is_corruption_uninitialised),
        cmocka_unit_test(control_1_equal_runs_are_the_same),
        cmocka_unit_test(control_2_digest_traps_are_told_apart),
        cmocka_unit_test(control_3_an_extra_log_op_is_a_note),
        cmocka_unit_test(control_4_a_run_killed_in_mid_step_is_unverified),
        cmocka_unit_test(control_4_a_rank_that_ends_early_is_unverified),
        cmocka_unit_test(control_4_an_empty_run_is_unverified),
        cmocka_unit_test(control_4_an_overflowed_spool_is_unverified),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
