/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the errors of each floating-point format are, as a relative L2 distance of whole
 * tensors. A format with p significant bits rounds each number by up to 2^-p of it, 0.29 * 2^(1-p)
 * in the root mean square; a product of rounded factors errs by about 1.4 of that, sums by a few.
 */
#ifndef DAEMON_ENGINE_BANDS_H
#define DAEMON_ENGINE_BANDS_H

#include <diverge/types.h>

struct band {
    const char *name;
    double below; /* distances under this, and not under the row before */
};

/* The band of a relative distance; NULL when it is 0, not finite, or larger than any format's. */
const struct band *band_of(double distance);
/* What rounding alone may do to a tensor of this dtype, relative to what it was made from. */
double band_rounding(enum diverge_dtype dtype);

#endif
