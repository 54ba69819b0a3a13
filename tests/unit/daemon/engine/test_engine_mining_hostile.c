/* SPDX-License-Identifier: Apache-2.0 */
/* Mining over sources that lie, and without memory: an error or an answer, and nothing is lost. */
#include "tests/unit/daemon/engine/check.h"

#include <errno.h>
#include <limits.h>

#include <diverge/error.h>

#include "daemon/engine/mining.h"
#include "tests/support/fault.h"
#include "tests/unit/daemon/engine/hostile.h"

static int scan(struct tb *a, struct tb *b)
{
    const struct mining_result *result = NULL;
    struct mining *mining = mining_new(NULL);
    if (!mining)
        return DIVERGE_ENOMEM;
    int status = mining_add(mining, tb_source(a), tb_run(a));
    if (!status)
        status = mining_add(mining, tb_source(b), tb_run(b));
    if (!status)
        status = mining_scan(mining, &result);
    assert_true((status == 0) == (result != NULL));
    mining_free(mining);
    return status;
}

static struct tb *planted(const char *name, bool plant)
{
    struct training training = TRAINING_INIT;
    training.steps = 4;
    training.layer = 1;
    if (plant)
        training.kernel_at = 2;
    return training_new(name, &training);
}

static void chunks_that_lie_are_refused_or_survived(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 7, 255, UINT32_MAX, UINT64_MAX, 0x8000000000000000u};
    unsigned refused = 0;
    for (unsigned kind = 0; kind < HOSTILE_KINDS; kind++)
        for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
            struct tb *a = planted("a", false), *b = planted("b", true);
            struct hostile hostile = {.kind = kind, .number = numbers[n], .chunk = UINT_MAX};
            tb_damage(b, hostile_damage, &hostile);
            int status = scan(a, b);
            assert_true(status == 0 || status == DIVERGE_ECORRUPT);
            refused += status == DIVERGE_ECORRUPT;
            tb_free(a);
            tb_free(b);
        }
    assert_true(refused > 10);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    (void)state;
    struct tb *a = planted("a", false), *b = planted("b", true);
    tb_run(a);
    tb_run(b);
    struct dvg_fault_sweep sweep = {.kind = DVG_FAULT_ALLOC, .error = ENOMEM};
    while (dvg_fault_sweep_next(&sweep)) {
        int status = scan(a, b);
        dvg_fault_disarm();
        assert_true(status == 0 || status == DIVERGE_ENOMEM);
    }
    assert_true(sweep.rounds > 20);
    tb_free(a);
    tb_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_that_lie_are_refused_or_survived),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
