/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/measure.h"

#include <math.h>
#include <string.h>

#include <diverge/fingerprint.h>

#include "client/wire/message.h"
#include "daemon/engine/finding.h"

/* ---- extremes ------------------------------------------------------------------------------- */

static double half_number(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0    ? ldexp(fraction, -24)
                  : exponent == 31 ? NAN
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

static double single_number(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float number;
    memcpy(&number, &low, sizeof(number));
    return (double)number;
}

/* NaN for dtypes whose extremes say nothing here. */
static double extreme_number(enum diverge_dtype dtype, uint64_t bits)
{
    double number;
    switch (dtype) {
    case DIVERGE_F32:
        return single_number(bits);
    case DIVERGE_F64:
        memcpy(&number, &bits, sizeof(number));
        return number;
    case DIVERGE_BF16:
        return single_number(bits << 16);
    case DIVERGE_F16:
        return half_number((uint16_t)bits);
    default:
        return NAN;
    }
}

static double farther(double best, double distance)
{
    return distance > best ? distance : best; /* false when it is NaN */
}

/* ---- tensors -------------------------------------------------------------------------------- */

static double range_distance(const struct trace_chunk *a, uint32_t i, const struct trace_chunk *b,
                             uint32_t j)
{
    enum diverge_dtype one = chunk_type(a, i)->dtype, other = chunk_type(b, j)->dtype;
    if (one == DIVERGE_F32 && other == DIVERGE_F32)
        return farther(fabs(single_number(a->min[i]) - single_number(b->min[j])),
                       fabs(single_number(a->max[i]) - single_number(b->max[j])));
    double low = fabs(extreme_number(one, a->min[i]) - extreme_number(other, b->min[j]));
    double high = fabs(extreme_number(one, a->max[i]) - extreme_number(other, b->max[j]));
    return farther(low, high);
}

double measure_norm(const struct trace_chunk *chunk, uint32_t index)
{
    if (!chunk->l2 || !(chunk_state(chunk, index) & DVG_STATE_L2) || !isfinite(chunk->l2[index]))
        return 0;
    return (double)chunk->l2[index];
}

struct measure measure_tensors(const struct trace_chunk *a, uint32_t i, const struct trace_chunk *b,
                               uint32_t j, double root, bool statistics)
{
    struct measure unknown = {.distance = NAN, .norm = NAN};
    uint8_t both = chunk_state(a, i) & chunk_state(b, j);
    if (!(both & DVG_STATE_L2) || !a->l2 || !b->l2)
        return unknown;
    double one = (double)a->l2[i], other = (double)b->l2[j];
    if (!isfinite(one) || !isfinite(other))
        return unknown;
    struct measure ret = {.norm = farther(one, other)};
    if (!statistics && a->sketch_size && a->sketch_size == b->sketch_size) {
        const float *x = chunk_sketch(a, i), *y = chunk_sketch(b, j);
        double relative =
            x && y ? diverge_sketch_distance(x, y, a->sketch_size, one > 0 ? one : 1) : NAN;
        if (isfinite(relative)) {
            ret.sketched = true;
            ret.distance = relative * (one > 0 ? one : 1);
            return ret;
        }
    }
    ret.distance = fabs(one - other);
    if ((both & DVG_STATE_SUM) && a->sum && b->sum)
        ret.distance = farther(ret.distance, fabs((double)a->sum[i] - (double)b->sum[j]) * root);
    if ((both & DVG_STATE_RANGE) && a->min && a->max && b->min && b->max)
        ret.distance = farther(ret.distance, range_distance(a, i, b, j));
    return ret;
}

double measure_root(const struct trace_type *type)
{
    uint64_t numel = type_numel(type);
    return numel ? 1 / sqrt((double)numel) : 0;
}

bool measure_same_nonfinite(const struct trace_chunk *a, uint32_t i, const struct trace_chunk *b,
                            uint32_t j)
{
    if (!a->n_nonfinite && !b->n_nonfinite)
        return true;
    const struct trace_nonfinite none = {0};
    const struct trace_nonfinite *one = chunk_nonfinite(a, i), *other = chunk_nonfinite(b, j);
    one = one ? one : &none;
    other = other ? other : &none;
    return one->nan == other->nan && one->pinf == other->pinf && one->ninf == other->ninf;
}

/* ---- numbers -------------------------------------------------------------------------------- */

struct measure measure_numbers(const struct trace_type *type, uint64_t a, uint64_t b)
{
    double x = (double)(int64_t)a, y = (double)(int64_t)b;
    if (type->kind == DIVERGE_KIND_FLOAT) {
        memcpy(&x, &a, sizeof(x));
        memcpy(&y, &b, sizeof(y));
    }
    if (!isfinite(x) || !isfinite(y)) {
        bool same = (isnan(x) && isnan(y)) || x == y;
        return (struct measure){.distance = same ? 0 : INFINITY, .norm = 0};
    }
    return (struct measure){.distance = fabs(x - y), .norm = farther(fabs(x), fabs(y))};
}
