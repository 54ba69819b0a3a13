/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel is one implementation of the inner loops: portable C, or one made for an instruction
 * set.
 * To add one (AVX-512, NEON): write its file with a struct dvg_kernel, and put it in the list in
 * dispatch.c. All kernels give the same checksum, the same counts, min and max, and bit-equal
 * sketches; sum and L2 agree to 1e-6.
 */
#ifndef DVG_FINGERPRINT_KERNEL_H
#define DVG_FINGERPRINT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <diverge/fingerprint.h>

/*
 * Statistics in the making. The squares are kept in three ranges, each with a scale of its own, so
 * that L2 neither overflows nor vanishes; values that large have a scaled sum as well.
 */
struct dvg_stats {
    uint64_t numel;
    uint64_t nan;
    uint64_t pinf;
    uint64_t ninf;
    uint64_t zero;
    double sum;
    double sum_big;   /* of values times 2^-600 */
    double sum_carry; /* what rounding took from sum_big */
    double squares;
    double squares_big;   /* of values times 2^-600 */
    double squares_small; /* of values times 2^600 */
    double min; /* +inf as long as there is no finite value; for every dtype below 64 bits */
    double max;
    int64_t signed_min; /* of i32 and i64 */
    int64_t signed_max;
    uint64_t unsigned_min; /* of u32 and u64 */
    uint64_t unsigned_max;
};

struct dvg_sketch {
    double sums[DIVERGE_SKETCH_MAX];
    unsigned size; /* 32 or 64 */
};

struct dvg_kernel {
    const char *name;
    bool (*supported)(void);

    /*
     * Sum of word_i * key[first + i] mod p over `words` 32-bit words of one block, without the
     * block's key. `bytes` need not be aligned.
     */
    uint64_t (*block_sum)(const uint8_t *bytes, size_t words, unsigned first);

    /*
     * Adds `count` components at `data`, which need not be aligned, to `stats` and `sketch`; either
     * may be NULL. `start` is the global index of the first component. `dtype` is that of a
     * component: no complex, not opaque. MXCSR (or its like) is in its default state.
     */
    void (*measure)(enum diverge_dtype dtype, const void *data, size_t count, uint64_t start,
                    struct dvg_stats *stats, struct dvg_sketch *sketch);
};

extern const struct dvg_kernel dvg_kernel_scalar;
#if defined(__x86_64__)
extern const struct dvg_kernel dvg_kernel_avx2;
#endif

/* The kernel in use. Chosen when the library is loaded, after a check against known values. */
const struct dvg_kernel *dvg_kernel_get(void);

/* First of `candidates`, ended by NULL, that is supported and passes the check; else scalar. */
const struct dvg_kernel *dvg_kernel_choose(const struct dvg_kernel *const *candidates);

/* Whether `kernel` gives the values it must. */
bool dvg_kernel_check(const struct dvg_kernel *kernel);

/* diverge_fingerprint with a kernel of the caller's choice. */
int dvg_fingerprint_with(const struct dvg_kernel *kernel, const struct diverge_view *view,
                         unsigned what, struct diverge_fingerprint *ret);

/* diverge_checksum_bytes with a kernel of the caller's choice. */
uint64_t dvg_checksum_with(const struct dvg_kernel *kernel, const void *bytes, size_t size,
                           uint64_t offset);

#endif
