/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/bands.h"

#include <stddef.h>

#include "daemon/engine/finding.h"

/* Limits lie half-way, by factors, between the errors that neighbours make. */
static const struct band BANDS[] = {
    {"a few ulp of float64", 0x1p-48},  {"float64 rounding, grown", 3e-9},
    {"a few ulp of float32", 2e-6},     {"float32 rounding, grown", 5e-5},
    {"float16 or TF32 rounding", 8e-4}, {"bfloat16 rounding", 1e-2},
    {"float8 e4m3 rounding", 5e-2},     {"float8 e5m2 rounding", 1.5e-1},
};

const struct band *band_of(double distance)
{
    if (!(distance > 0))
        return NULL;
    for (size_t i = 0; i < sizeof(BANDS) / sizeof(BANDS[0]); i++)
        if (distance < BANDS[i].below)
            return &BANDS[i];
    return NULL;
}

double band_rounding(enum diverge_dtype dtype)
{
    double epsilon = dtype_epsilon(dtype);
    /* Sums are made in the format itself; those of 16 bits and less are made in float32. */
    return epsilon < 0x1p-20 ? 8 * epsilon : epsilon;
}
