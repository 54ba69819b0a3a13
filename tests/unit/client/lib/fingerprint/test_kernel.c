/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel runs, and that it leaves the floating-point environment alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "client/lib/fingerprint/element.h"
#include "tests/unit/client/lib/fingerprint/slow.h"

enum {
    ALL = DIVERGE_WITH_STATISTICS | DIVERGE_WITH_SKETCH64,
    COUNT = 1500,
};

static bool yes(void)
{
    return true;
}

static bool no(void)
{
    return false;
}

/* A kernel with a fault such as a wrong constant or a miscompiled tail would be. */
static uint64_t wrong_sum(const uint8_t *bytes, size_t words, unsigned first)
{
    return dvg_kernel_scalar.block_sum(bytes, words, first) ^ (words == 1024);
}

static void wrong_measure(enum diverge_dtype dtype, const void *data, size_t count, uint64_t start,
                          struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    dvg_kernel_scalar.measure(dtype, data, count, start, stats, sketch);
    if (sketch && start > 0)
        sketch->sums[7] += 1;
}

static void wrong_count(enum diverge_dtype dtype, const void *data, size_t count, uint64_t start,
                        struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    dvg_kernel_scalar.measure(dtype, data, count, start, stats, sketch);
    if (stats)
        stats->zero++;
}

static const struct dvg_kernel broken_sum = {
    .name = "sum", .supported = yes, .block_sum = wrong_sum};
static const struct dvg_kernel broken_sketch = {.name = "sketch", .supported = yes};

static void a_kernel_that_fails_its_check_is_passed_over(void **state)
{
    struct dvg_kernel sum = broken_sum;
    struct dvg_kernel sketch = broken_sketch;
    struct dvg_kernel count = broken_sketch;
    struct dvg_kernel good = dvg_kernel_scalar;

    (void)state;
    sum.measure = dvg_kernel_scalar.measure;
    sketch.block_sum = dvg_kernel_scalar.block_sum;
    sketch.measure = wrong_measure;
    count.block_sum = dvg_kernel_scalar.block_sum;
    count.measure = wrong_count;
    good.name = "good";
    assert_false(dvg_kernel_check(&sum));
    assert_false(dvg_kernel_check(&sketch));
    assert_false(dvg_kernel_check(&count));
    assert_true(dvg_kernel_check(&good));

    const struct dvg_kernel *list[] = {&sum, &sketch, &count, NULL, NULL};

    assert_ptr_equal(dvg_kernel_choose(list), &dvg_kernel_scalar);
    list[3] = &good;
    assert_ptr_equal(dvg_kernel_choose(list), &good);
}

static void a_kernel_the_machine_lacks_is_never_run(void **state)
{
    const struct dvg_kernel absent = {.name = "absent", .supported = no};
    const struct dvg_kernel *list[] = {&absent, NULL};

    (void)state;
    assert_ptr_equal(dvg_kernel_choose(list), &dvg_kernel_scalar);
}

static void the_best_kernel_of_the_machine_is_in_use(void **state)
{
    unsigned last = 0;

    (void)state;
    if (getenv("DIVERGE_KERNEL"))
        skip();
    while (kernel_at(last + 1))
        last++;
    assert_string_equal(diverge_kernel_name(), kernel_at(last)->name);
    for (unsigned i = 0; kernel_at(i); i++)
        assert_true(dvg_kernel_check(kernel_at(i)));
}

/* The choice is made at load, so another process makes it. */
static void the_environment_can_force_the_scalar_kernel(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("DIVERGE_KERNEL", "scalar", 1);
        execl("/proc/self/exe", "test_kernel", "name", (char *)NULL);
        _exit(3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static struct diverge_fingerprint take(const struct dvg_kernel *kernel, enum diverge_dtype dtype,
                                       const void *data, int64_t count)
{
    struct diverge_view view = {.data = data, .dtype = dtype, .ndim = 1, .sizes = &count};
    struct diverge_fingerprint ret;

    assert_int_equal(dvg_fingerprint_with(kernel, &view, ALL, &ret), 0);
    return ret;
}

#if defined(__x86_64__)
/* Denormals, which flush-to-zero would count as zeros and leave out of L2. */
static void flush_to_zero_changes_nothing_and_is_put_back(void **state)
{
    const unsigned modes[] = {0x8040, 0x6000, 0x2000 | 0x8000};
    float values[COUNT];
    const struct dvg_kernel *kernel;

    (void)state;
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i - 700) * 0x1p-149F;
    for (unsigned k = 0; (kernel = kernel_at(k)); k++) {
        struct diverge_fingerprint want = take(kernel, DIVERGE_F32, values, COUNT);

        assert_int_equal(want.stats.zero, 1);
        for (int m = 0; m < 3; m++) {
            unsigned before = _mm_getcsr();
            unsigned set = (before | modes[m]) & ~0x3fU;
            struct diverge_fingerprint got;

            _mm_setcsr(set);
            got = take(kernel, DIVERGE_F32, values, COUNT);

            unsigned after = _mm_getcsr();

            _mm_setcsr(before);
            assert_int_equal(after, set);
            assert_same(&got, &want);
        }
    }
}

/* Flags that were clear stay clear, although sums round. */
static void raised_flags_do_not_leak(void **state)
{
    float values[COUNT];
    const struct dvg_kernel *kernel;

    (void)state;
    for (int i = 0; i < COUNT; i++)
        values[i] = 1.0F / (float)(i + 1);
    for (unsigned k = 0; (kernel = kernel_at(k)); k++) {
        unsigned before = _mm_getcsr();

        _mm_setcsr(0x1f80);
        take(kernel, DIVERGE_F32, values, COUNT);

        unsigned after = _mm_getcsr();

        _mm_setcsr(before);
        assert_int_equal(after, 0x1f80);
    }
}
#endif

/* Every pattern of the 16-bit and 8-bit dtypes, by every kernel, as one element. */
static void every_narrow_pattern_has_one_value(void **state)
{
    static const enum diverge_dtype dtypes[] = {
        DIVERGE_F16,      DIVERGE_BF16,   DIVERGE_U16,        DIVERGE_I16,
        DIVERGE_F8E4M3FN, DIVERGE_F8E5M2, DIVERGE_F8E4M3FNUZ, DIVERGE_F8E5M2FNUZ,
        DIVERGE_U8,       DIVERGE_I8,     DIVERGE_BOOL,
    };
    const struct dvg_kernel *kernel;

    (void)state;
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        unsigned patterns = diverge_dtype_size(dtypes[d]) == 2 ? 65536 : 256;

        for (unsigned pattern = 0; pattern < patterns; pattern++) {
            uint16_t bits = (uint16_t)pattern;
            double want = dvg_element(dtypes[d], (const uint8_t *)&bits, 0);

            for (unsigned k = 1; (kernel = kernel_at(k)); k++) {
                struct dvg_stats stats;

                dvg_stats_init(&stats);
                kernel->measure(dtypes[d], &bits, 1, 0, &stats, NULL);
                assert_int_equal(stats.nan, isnan(want) != 0);
                assert_int_equal(stats.pinf, want == INFINITY);
                assert_int_equal(stats.ninf, want == -INFINITY);
                assert_int_equal(stats.zero, want == 0);
                if (isfinite(want))
                    assert_true(stats.min == want && stats.max == want);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_that_fails_its_check_is_passed_over),
        cmocka_unit_test(a_kernel_the_machine_lacks_is_never_run),
        cmocka_unit_test(the_best_kernel_of_the_machine_is_in_use),
        cmocka_unit_test(the_environment_can_force_the_scalar_kernel),
#if defined(__x86_64__)
        cmocka_unit_test(flush_to_zero_changes_nothing_and_is_put_back),
        cmocka_unit_test(raised_flags_do_not_leak),
#endif
        cmocka_unit_test(every_narrow_pattern_has_one_value),
    };

    if (argc == 2 && strcmp(argv[1], "name") == 0)
        return strcmp(diverge_kernel_name(), "scalar") != 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
