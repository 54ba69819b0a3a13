/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/value.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "client/wire/message.h"

/* A binary floating-point format: sign, exponent, mantissa. */
struct format {
    int exponent_bits;
    int mantissa_bits;
    int bias;
    int has_negative_zero;
};

static uint64_t encode_float(double value, const struct format *format)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint64_t sign = bits >> 63;
    if ((bits << 1) == 0)
        return sign && format->has_negative_zero
                   ? UINT64_C(1) << (format->exponent_bits + format->mantissa_bits)
                   : 0;
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023 + format->bias;
    uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int shift = 52 - format->mantissa_bits;
    if (exponent < 1) { /* subnormal in this format */
        shift += 1 - exponent;
        exponent = 0;
        mantissa = shift < 64 ? mantissa >> shift : 0;
    } else {
        mantissa = mantissa >> shift & ((UINT64_C(1) << format->mantissa_bits) - 1);
    }
    return (sign << format->exponent_bits | (uint64_t)exponent) << format->mantissa_bits | mantissa;
}

static uint64_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static uint64_t other_bits(enum diverge_dtype dtype, union diverge_value value)
{
    static const struct format f16 = {5, 10, 15, 1};
    static const struct format bf16 = {8, 7, 127, 1};
    static const struct format f8e4m3fn = {4, 3, 7, 1};
    static const struct format f8e5m2 = {5, 2, 15, 1};
    static const struct format f8e4m3fnuz = {4, 3, 8, 0};
    static const struct format f8e5m2fnuz = {5, 2, 16, 0};
    switch (dtype) {
    case DIVERGE_F32:
    case DIVERGE_C64:
        return float_bits((float)value.f);
    case DIVERGE_F64:
    case DIVERGE_C128:
        return double_bits(value.f);
    case DIVERGE_F16:
        return encode_float(value.f, &f16);
    case DIVERGE_BF16:
        return encode_float(value.f, &bf16);
    case DIVERGE_F8E4M3FN:
        return encode_float(value.f, &f8e4m3fn);
    case DIVERGE_F8E5M2:
        return encode_float(value.f, &f8e5m2);
    case DIVERGE_F8E4M3FNUZ:
        return encode_float(value.f, &f8e4m3fnuz);
    case DIVERGE_F8E5M2FNUZ:
        return encode_float(value.f, &f8e5m2fnuz);
    case DIVERGE_BOOL:
    case DIVERGE_I8:
        return (uint8_t)value.i;
    case DIVERGE_I16:
        return (uint16_t)value.i;
    case DIVERGE_I32:
        return (uint32_t)value.i;
    case DIVERGE_I64:
        return (uint64_t)value.i;
    case DIVERGE_U8:
    case DIVERGE_U16:
    case DIVERGE_U32:
    case DIVERGE_U64:
        return value.u;
    case DIVERGE_OPAQUE:
        break;
    }
    return 0;
}

static inline uint64_t value_bits(enum diverge_dtype dtype, union diverge_value value)
{
    return dtype == DIVERGE_F32 ? float_bits((float)value.f) : other_bits(dtype, value);
}

uint64_t dvg_value_bits(enum diverge_dtype dtype, union diverge_value value)
{
    return value_bits(dtype, value);
}

/* Statistics are float32 in a record; what does not fit is left out. */
static uint8_t narrow(double value, float *ret, uint8_t bit)
{
    if (!(fabs(value) <= FLT_MAX))
        return 0;
    *ret = (float)value;
    return bit;
}

void dvg_value_from(struct dvg_value *ret, enum diverge_dtype dtype,
                    const struct diverge_fingerprint *fingerprint)
{
    const struct diverge_statistics *stats = &fingerprint->stats;
    *ret = (struct dvg_value){.value = fingerprint->checksum};
    if (!(stats->valid & DIVERGE_STAT_PRESENT))
        return;
    ret->state = DVG_STATE_STATS;
    ret->zero = stats->zero;
    if (stats->valid & DIVERGE_STAT_RANGE) {
        ret->state |= DVG_STATE_RANGE;
        ret->min = value_bits(dtype, stats->min);
        ret->max = value_bits(dtype, stats->max);
    }
    if (stats->valid & DIVERGE_STAT_SUM)
        ret->state |= narrow(stats->sum, &ret->sum, DVG_STATE_SUM);
    if (stats->valid & DIVERGE_STAT_L2)
        ret->state |= narrow(stats->l2, &ret->l2, DVG_STATE_L2);
    if (stats->nan | stats->pinf | stats->ninf) {
        ret->state |= DVG_STATE_NONFINITE;
        ret->nonfinite[0] = stats->nan;
        ret->nonfinite[1] = stats->pinf;
        ret->nonfinite[2] = stats->ninf;
    }
}

void dvg_entry_measure(struct dvg_entry *entry, enum diverge_dtype dtype,
                       const struct diverge_fingerprint *fingerprint, bool with_sketch)
{
    const struct diverge_statistics *stats = &fingerprint->stats;
    if (!(stats->valid & DIVERGE_STAT_PRESENT) || entry->nonfinite || with_sketch) {
        struct dvg_value value;
        dvg_value_from(&value, dtype, fingerprint);
        dvg_entry_fill(entry, &value, with_sketch ? fingerprint->sketch : NULL);
        return;
    }
    uint8_t state = DVG_STATE_STATS;
    bool range = stats->valid & DIVERGE_STAT_RANGE;
    state |= range ? DVG_STATE_RANGE : 0;
    entry->value = fingerprint->checksum;
    entry->zero = stats->zero;
    entry->min = range ? value_bits(dtype, stats->min) : 0;
    entry->max = range ? value_bits(dtype, stats->max) : 0;
    entry->sum = 0;
    entry->l2 = 0;
    if (stats->valid & DIVERGE_STAT_SUM)
        state |= narrow(stats->sum, &entry->sum, DVG_STATE_SUM);
    if (stats->valid & DIVERGE_STAT_L2)
        state |= narrow(stats->l2, &entry->l2, DVG_STATE_L2);
    entry->state = state;
}

void dvg_entry_fill(struct dvg_entry *entry, const struct dvg_value *value, const float *sketch)
{
    uint8_t *extra = (uint8_t *)(entry + 1);
    entry->state = value->state;
    entry->value = value->value;
    entry->sum = value->sum;
    entry->l2 = value->l2;
    entry->min = value->min;
    entry->max = value->max;
    entry->zero = value->zero;
    if (entry->nonfinite) {
        memcpy(extra, value->nonfinite, sizeof(value->nonfinite));
        extra += sizeof(value->nonfinite);
    }
    if (sketch && entry->sketch_size) {
        memcpy(extra, sketch, entry->sketch_size * sizeof(float));
        entry->state |= DVG_STATE_SKETCH;
    }
}
