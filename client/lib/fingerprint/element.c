/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/fingerprint/element.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "client/lib/fingerprint/keys.h"

/* Bounds within which squares of float64 neither overflow nor lose what matters. */
#define BIG 0x1p480
#define SMALL 0x1p-400
#define SCALE 0x1p600

static const struct dvg_dtype dtypes[DIVERGE_DTYPE_COUNT] = {
#define X(number, NAME, text, size, class, parts)                                                  \
    [number] = {                                                                                   \
        .name = (text),                                                                            \
        .class_ = DVG_CLASS_##class,                                                               \
        .bytes = (size),                                                                           \
        .components = (parts),                                                                     \
        .component = DIVERGE_##NAME == DIVERGE_C64    ? DIVERGE_F32                                \
                     : DIVERGE_##NAME == DIVERGE_C128 ? DIVERGE_F64                                \
                                                      : DIVERGE_##NAME,                            \
    },
    DIVERGE_DTYPES(X)
#undef X
};

const struct dvg_dtype *dvg_dtype_get(enum diverge_dtype dtype)
{
    unsigned number = (unsigned)dtype;

    return number > 0 && number < DIVERGE_DTYPE_COUNT ? &dtypes[number] : NULL;
}

size_t diverge_dtype_size(enum diverge_dtype dtype)
{
    const struct dvg_dtype *entry = dvg_dtype_get(dtype);

    return entry ? entry->bytes : 0;
}

const char *diverge_dtype_name(enum diverge_dtype dtype)
{
    const struct dvg_dtype *entry = dvg_dtype_get(dtype);

    return entry ? entry->name : NULL;
}

enum diverge_dtype diverge_dtype_find(const char *name)
{
    for (int i = 1; name && i < DIVERGE_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0)
            return (enum diverge_dtype)i;
    }
    return (enum diverge_dtype)0;
}

/* How a small float is laid out: sign, exponent, fraction, from the top. */
struct layout {
    int fraction; /* bits */
    int bias;
    unsigned infinity; /* magnitude of Inf; above it NaN. 0: there is no Inf */
    unsigned nan;      /* whole pattern of a NaN besides those, sign cleared when `any_sign` */
    bool any_sign;
    unsigned sign; /* its bit */
};

static double decode(const struct layout *layout, unsigned bits)
{
    unsigned magnitude = bits & (layout->sign - 1);
    unsigned fraction = magnitude & ((1U << layout->fraction) - 1);
    int exponent = (int)(magnitude >> layout->fraction);
    double value;

    if ((layout->any_sign ? magnitude : bits) == layout->nan)
        return NAN;
    if (layout->infinity && magnitude >= layout->infinity)
        value = magnitude == layout->infinity ? INFINITY : NAN;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - layout->bias - layout->fraction);
    else
        value =
            ldexp(fraction | 1U << layout->fraction, exponent - layout->bias - layout->fraction);
    return bits & layout->sign ? -value : value;
}

static const struct layout layout_f16 = {10, 15, 0x7c00, 0x7fff, true, 0x8000};
static const struct layout layout_e4m3fn = {3, 7, 0, 0x7f, true, 0x80};
static const struct layout layout_e5m2 = {2, 15, 0x7c, 0x7f, true, 0x80};
static const struct layout layout_e4m3fnuz = {3, 8, 0, 0x80, false, 0x80};
static const struct layout layout_e5m2fnuz = {2, 16, 0, 0x80, false, 0x80};

static double load_bf16(const uint8_t *at)
{
    uint16_t half;
    uint32_t bits;
    float value;

    memcpy(&half, at, sizeof(half));
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#define LOAD(TYPE)                                                                                 \
    {                                                                                              \
        TYPE value;                                                                                \
        memcpy(&value, data + i * sizeof(value), sizeof(value));                                   \
        return (double)value;                                                                      \
    }

static double load_f16(const uint8_t *at)
{
    uint16_t bits;

    memcpy(&bits, at, sizeof(bits));
    return decode(&layout_f16, bits);
}

double dvg_element(enum diverge_dtype component, const uint8_t *data, size_t i)
{
    switch (component) {
    case DIVERGE_BOOL:
        return data[i] != 0;
    case DIVERGE_U8:
        return data[i];
    case DIVERGE_I8:
        LOAD(int8_t)
    case DIVERGE_U16:
        LOAD(uint16_t)
    case DIVERGE_I16:
        LOAD(int16_t)
    case DIVERGE_U32:
        LOAD(uint32_t)
    case DIVERGE_I32:
        LOAD(int32_t)
    case DIVERGE_U64:
        LOAD(uint64_t)
    case DIVERGE_I64:
        LOAD(int64_t)
    case DIVERGE_F16:
        return load_f16(data + 2 * i);
    case DIVERGE_BF16:
        return load_bf16(data + 2 * i);
    case DIVERGE_F32:
        LOAD(float)
    case DIVERGE_F64:
        LOAD(double)
    case DIVERGE_F8E4M3FN:
        return decode(&layout_e4m3fn, data[i]);
    case DIVERGE_F8E5M2:
        return decode(&layout_e5m2, data[i]);
    case DIVERGE_F8E4M3FNUZ:
        return decode(&layout_e4m3fnuz, data[i]);
    case DIVERGE_F8E5M2FNUZ:
        return decode(&layout_e5m2fnuz, data[i]);
    case DIVERGE_C64:
    case DIVERGE_C128:
    case DIVERGE_OPAQUE:
        break;
    }
    return 0;
}

#define RANGE(TYPE, MIN, MAX)                                                                      \
    for (size_t i = 0; i < count; i++) {                                                           \
        TYPE value;                                                                                \
        memcpy(&value, data + i * sizeof(value), sizeof(value));                                   \
        MIN = value < MIN ? value : MIN;                                                           \
        MAX = value > MAX ? value : MAX;                                                           \
    }                                                                                              \
    break

void dvg_integer_range(enum diverge_dtype component, const uint8_t *data, size_t count,
                       struct dvg_stats *stats)
{
    int64_t low = stats->signed_min;
    int64_t high = stats->signed_max;
    uint64_t bottom = stats->unsigned_min;
    uint64_t top = stats->unsigned_max;

    switch ((int)component) {
    case DIVERGE_I32:
        RANGE(int32_t, low, high);
    case DIVERGE_I64:
        RANGE(int64_t, low, high);
    case DIVERGE_U32:
        RANGE(uint32_t, bottom, top);
    case DIVERGE_U64:
        RANGE(uint64_t, bottom, top);
    }
    stats->signed_min = low;
    stats->signed_max = high;
    stats->unsigned_min = bottom;
    stats->unsigned_max = top;
}

void dvg_stats_init(struct dvg_stats *stats)
{
    *stats = (struct dvg_stats){
        .min = INFINITY,
        .max = -INFINITY,
        .signed_min = INT64_MAX,
        .signed_max = INT64_MIN,
        .unsigned_min = UINT64_MAX,
    };
}

/* Neumaier's sum: what rounding takes is kept aside. */
static void add_big(struct dvg_stats *stats, double value)
{
    double scaled = value / SCALE;
    double sum = stats->sum_big + scaled;

    if (fabs(stats->sum_big) >= fabs(scaled))
        stats->sum_carry += (stats->sum_big - sum) + scaled;
    else
        stats->sum_carry += (scaled - sum) + stats->sum_big;
    stats->sum_big = sum;
    stats->squares_big += scaled * scaled;
}

/* Sum and squares of finite values, others are passed over; `top` is their largest magnitude. */
static void add_sums(struct dvg_stats *stats, const double *values, size_t count, double top)
{
    for (size_t i = 0; i < count; i++) {
        double value = values[i];

        if (!isfinite(value))
            continue;
        if (top > BIG) {
            add_big(stats, value);
        } else if (top < SMALL) {
            stats->sum += value;
            stats->squares_small += (value * SCALE) * (value * SCALE);
        } else {
            stats->sum += value;
            stats->squares += value * value;
        }
    }
}

void dvg_stats_add(struct dvg_stats *stats, const double *values, size_t count)
{
    double top = 0;

    for (size_t i = 0; i < count; i++) {
        double value = values[i];

        if (isfinite(value)) {
            stats->zero += value == 0;
            stats->min = value < stats->min ? value : stats->min;
            stats->max = value > stats->max ? value : stats->max;
            top = fabs(value) > top ? fabs(value) : top;
        } else {
            stats->nan += isnan(value) != 0;
            stats->pinf += value == INFINITY;
            stats->ninf += value == -INFINITY;
        }
    }
    stats->numel += count;
    add_sums(stats, values, count, top);
}

static double finish_l2(const struct dvg_stats *stats)
{
    const double down = 0x1p-600;

    if (stats->squares_big > 0)
        return sqrt(stats->squares_big + stats->squares * down * down) * SCALE;
    if (stats->squares > 0)
        return sqrt(stats->squares + stats->squares_small * down * down);
    return sqrt(stats->squares_small) * down;
}

static union diverge_value finish_value(enum diverge_dtype dtype, double value, int64_t signed_,
                                        uint64_t unsigned_)
{
    union diverge_value ret = {.u = 0};

    switch (dvg_dtype_get(dtype)->class_) {
    case DVG_CLASS_F:
    case DVG_CLASS_C:
        ret.f = value + 0.0; /* of the two zeros, the positive one: order must not show */
        break;
    case DVG_CLASS_B:
    case DVG_CLASS_I:
        ret.i = dtype == DIVERGE_I32 || dtype == DIVERGE_I64 ? signed_ : (int64_t)value;
        break;
    case DVG_CLASS_U:
        ret.u = dtype == DIVERGE_U32 || dtype == DIVERGE_U64 ? unsigned_ : (uint64_t)value;
        break;
    case DVG_CLASS_O:
    case DVG_CLASS_NONE:
        break;
    }
    return ret;
}

void dvg_stats_finish(const struct dvg_stats *stats, enum diverge_dtype dtype,
                      struct diverge_statistics *ret)
{
    double sum = stats->sum + (stats->sum_big + stats->sum_carry) * SCALE;
    double l2 = finish_l2(stats);

    *ret = (struct diverge_statistics){
        .numel = stats->numel,
        .nan = stats->nan,
        .pinf = stats->pinf,
        .ninf = stats->ninf,
        .zero = stats->zero,
        .valid = DIVERGE_STAT_PRESENT,
    };
    if (stats->numel > stats->nan + stats->pinf + stats->ninf) {
        ret->min = finish_value(dtype, stats->min, stats->signed_min, stats->unsigned_min);
        ret->max = finish_value(dtype, stats->max, stats->signed_max, stats->unsigned_max);
        ret->valid |= DIVERGE_STAT_RANGE;
    }
    if (isfinite(sum)) {
        ret->sum = sum;
        ret->valid |= DIVERGE_STAT_SUM;
    }
    if (isfinite(l2)) {
        ret->l2 = l2;
        ret->valid |= DIVERGE_STAT_L2;
    }
}

void dvg_sketch_add(struct dvg_sketch *sketch, uint64_t half, const float *lanes)
{
    struct dvg_placement at = dvg_sketch_place(half, sketch->size);

    for (unsigned j = 0; j < DVG_LANES; j++) {
        double sum = at.negative ? -(double)lanes[j] : (double)lanes[j];

        sketch->sums[at.group + (j ^ at.flip)] += sum;
    }
}

double diverge_sketch_distance(const float *a, const float *b, uint32_t size, double l2_of_a)
{
    double squares = 0;

    if (!a || !b || (size != 32 && size != 64) || !isfinite(l2_of_a) || l2_of_a < 0)
        return NAN;
    for (uint32_t i = 0; i < size; i++) {
        double difference = (double)a[i] - (double)b[i];

        squares += difference * difference;
    }
    if (!isfinite(squares))
        return NAN;
    if (squares == 0)
        return 0;
    return l2_of_a > 0 ? sqrt(squares) / l2_of_a : NAN;
}
