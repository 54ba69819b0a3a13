/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/lib/fingerprint/slow.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include "client/lib/fingerprint/element.h"

#define P ((UINT64_C(1) << 61) - 1)

__extension__ typedef unsigned __int128 u128;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Streams are named by eight letters; the last one tells them apart. */
static uint64_t stream(char number, uint64_t i)
{
    uint64_t seed = UINT64_C(0x6469766572676500) + (uint64_t)number;

    return mix(seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15));
}

static uint64_t limb(uint64_t bits)
{
    return bits - bits / 8;
}

static uint64_t word_key(uint64_t r)
{
    uint64_t bits = stream('1', r);

    return (limb(bits & 0xFFFFFFF) + (limb(bits >> 32 & 0xFFFFFFF) << 32)) % P;
}

static uint64_t block_key(uint64_t block)
{
    uint64_t bits = stream('2', block) / 8;

    return bits >= P - 1 ? 1 : bits + 1;
}

uint64_t slow_checksum(const uint8_t *bytes, size_t size, uint64_t offset)
{
    uint64_t total = 0;

    for (size_t i = 0; i < size; i++) {
        uint64_t at = offset + i;
        uint64_t value = (uint64_t)bytes[i] << (8 * (at % 4));
        uint64_t keyed = (uint64_t)((u128)value * word_key(at / 4 % 1024) % P);

        total = (total + (uint64_t)((u128)keyed * block_key(at / 4096) % P)) % P;
    }
    return total;
}

long double slow_element(enum diverge_dtype component, const uint8_t *data, size_t i)
{
    uint64_t bits;
    int64_t value;

    if (component != DIVERGE_U64 && component != DIVERGE_I64)
        return dvg_element(component, data, i);
    memcpy(&bits, data + 8 * i, sizeof(bits));
    memcpy(&value, data + 8 * i, sizeof(value));
    return component == DIVERGE_U64 ? (long double)bits : (long double)value;
}

static void slow_statistics(struct slow *slow, long double x)
{
    slow->numel++;
    if (isnan(x)) {
        slow->nan++;
    } else if (isinf(x)) {
        slow->pinf += x > 0;
        slow->ninf += x < 0;
    } else {
        slow->zero += x == 0;
        slow->min = x < slow->min ? x : slow->min;
        slow->max = x > slow->max ? x : slow->max;
        slow->sum += x;
        slow->l1 += fabsl(x);
        slow->l2 += x * x;
    }
}

/* One half block: `lanes` are its sums. */
static void slow_place(const float *lanes, uint64_t half, unsigned size, double *sums)
{
    uint64_t c = stream('4', half / 2);
    uint64_t flip = half % 2 ? c >> 8 & 31 : c & 31;
    double sign = (half % 2 ? c >> 62 : c >> 63) & 1 ? -1 : 1;
    uint64_t group = size == 64 ? 32 * ((c >> 5 & 1) ^ half % 2) : 0;

    for (uint64_t j = 0; j < 32; j++)
        sums[group + (j ^ flip)] += sign * (double)lanes[j];
}

static void slow_sketch(struct slow *slow, enum diverge_dtype component, const uint8_t *data,
                        size_t count, uint64_t start, unsigned size)
{
    double sums[64] = {0};
    float lanes[32] = {0};

    for (size_t i = 0; i < count; i++) {
        uint64_t at = start + i;
        float x = (float)dvg_element(component, data, i);

        x = isfinite(x) ? x : 0;
        lanes[at % 32] += stream('3', at % 1024) >> 63 ? -x : x;
        if (at % 512 == 511 || i + 1 == count) {
            slow_place(lanes, at / 512, size, sums);
            memset(lanes, 0, sizeof(lanes));
        }
    }
    for (unsigned i = 0; i < size; i++)
        slow->sketch[i] = (float)sums[i];
}

struct slow slow_fingerprint(enum diverge_dtype component, const uint8_t *data, size_t count,
                             uint64_t start, unsigned sketch_size)
{
    size_t width = diverge_dtype_size(component);
    struct slow slow = {
        .checksum = slow_checksum(data, count * width, start * width),
        .min = INFINITY,
        .max = -INFINITY,
    };

    if (component == DIVERGE_OPAQUE)
        return slow;
    for (size_t i = 0; i < count; i++)
        slow_statistics(&slow, slow_element(component, data, i));
    slow.l2 = sqrtl(slow.l2);
    slow_sketch(&slow, component, data, count, start, sketch_size);
    return slow;
}

static long double value_of(union diverge_value value, enum diverge_dtype dtype)
{
    switch (dvg_dtype_get(dtype)->class_) {
    case DVG_CLASS_F:
    case DVG_CLASS_C:
        return value.f;
    case DVG_CLASS_U:
        return value.u;
    case DVG_CLASS_B:
    case DVG_CLASS_I:
        return value.i;
    case DVG_CLASS_O:
    case DVG_CLASS_NONE:
        break;
    }
    fail_msg("%s has no values", diverge_dtype_name(dtype));
    return 0;
}

void assert_statistics(const struct diverge_statistics *got, const struct slow *want,
                       enum diverge_dtype dtype)
{
    bool finite = want->numel > want->nan + want->pinf + want->ninf;
    bool sum_fits = fabsl(want->sum) <= (long double)0x1.fffffffffffffp+1023;
    bool l2_fits = want->l2 <= (long double)0x1.fffffffffffffp+1023;

    assert_true(got->valid & DIVERGE_STAT_PRESENT);
    assert_int_equal(got->numel, want->numel);
    assert_int_equal(got->nan, want->nan);
    assert_int_equal(got->pinf, want->pinf);
    assert_int_equal(got->ninf, want->ninf);
    assert_int_equal(got->zero, want->zero);
    assert_int_equal(!!(got->valid & DIVERGE_STAT_RANGE), finite);
    if (finite) {
        assert_true(value_of(got->min, dtype) == want->min);
        assert_true(value_of(got->max, dtype) == want->max);
    }
    assert_int_equal(!!(got->valid & DIVERGE_STAT_SUM), sum_fits);
    if (sum_fits)
        assert_true(fabsl(got->sum - want->sum) <= 1e-6L * want->l1);
    assert_int_equal(!!(got->valid & DIVERGE_STAT_L2), l2_fits);
    if (l2_fits)
        assert_true(fabsl(got->l2 - want->l2) <= 1e-6L * want->l2);
}

void assert_sketch(const float *got, const float *want, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        if (isnan(got[i]) && isnan(want[i]))
            continue;
        if (!(got[i] == want[i]))
            fail_msg("bucket %u: %a, not %a", i, (double)got[i], (double)want[i]);
    }
}

void assert_same(const struct diverge_fingerprint *a, const struct diverge_fingerprint *b)
{
    assert_true(a->checksum == b->checksum);
    assert_memory_equal(&a->stats, &b->stats, sizeof(a->stats));
    assert_int_equal(a->sketch_size, b->sketch_size);
    assert_sketch(a->sketch, b->sketch, a->sketch_size);
}

uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    return mix(*state);
}

uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return random_next(state) % limit;
}

void random_fill(uint64_t *state, enum diverge_dtype dtype, uint8_t *data, size_t bytes, int calm)
{
    size_t width = diverge_dtype_size(dvg_dtype_get(dtype)->component);

    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)random_next(state);
    for (size_t top = width - 1; calm && top < bytes; top += width)
        data[top] &= 0xbf;
}

/* Asked for once: on virtual machines the question is slow. */
const struct dvg_kernel *kernel_at(unsigned i)
{
    static const struct dvg_kernel *all[4];

    if (!all[0]) {
        all[0] = &dvg_kernel_scalar;
#if defined(__x86_64__)
        if (dvg_kernel_avx2.supported())
            all[1] = &dvg_kernel_avx2;
#endif
    }
    return all[i];
}
