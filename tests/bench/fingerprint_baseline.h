/* SPDX-License-Identifier: Apache-2.0 */
/* What the fingerprint is measured against. */
#ifndef DVG_TESTS_BENCH_FINGERPRINT_BASELINE_H
#define DVG_TESTS_BENCH_FINGERPRINT_BASELINE_H

#include <stddef.h>
#include <stdint.h>

uint64_t baseline_xxh3(const void *data, size_t bytes);

/* OpenSSL's, in one call with a context that is made once. First eight bytes of the digest. */
uint64_t baseline_md5(const void *data, size_t bytes);

/* Reads every byte once with 32-byte loads (8-byte ones where there is no AVX2). */
uint64_t baseline_read(const void *data, size_t bytes);

/*
 * What people do today: min, max, sum and L2 in a pass each, vectorised, then zlib's crc32 over a
 * copy, which is made anew each time as `tensor.numpy().tobytes()` makes it.
 */
uint64_t baseline_separate(const float *data, size_t bytes);

#endif
