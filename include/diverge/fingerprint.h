/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fingerprint of a tensor: checksum, statistics, sketch, in one pass over its memory.
 *
 * checksum   id l61, version 1: additive (shards add up mod 2^61-1) and order-sensitive. It guards
 *            against accidents, not forgery: keys are public, and the checksum of a tiny tensor can
 *            be inverted.
 * statistics counts, min, max, sum, L2 over the finite values.
 * sketch     k signed bucket sums; two sketches give the relative L2 distance of their tensors.
 *
 * Nothing here allocates more than a fixed scratch, keeps state, or changes what it reads. All
 * functions may be called from any thread.
 */
#ifndef DIVERGE_FINGERPRINT_H
#define DIVERGE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#include <diverge/error.h>
#include <diverge/export.h>
#include <diverge/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIVERGE_FINGERPRINT_ID "l61.1"
#define DIVERGE_CHECKSUM_PRIME ((UINT64_C(1) << 61) - 1)
#define DIVERGE_SKETCH_MAX 64

/* `length` elements that are contiguous in the global tensor from element `start` (C order). */
struct diverge_extent {
    uint64_t start;
    uint64_t length;
};

/* A tensor in memory. Borrowed for the call. */
struct diverge_view {
    const void *data; /* first logical element; NULL only when there are no elements */
    enum diverge_dtype dtype;
    int32_t ndim;           /* 0..DIVERGE_MAX_NDIM; 0: a scalar tensor of one element */
    const int64_t *sizes;   /* ndim sizes, each >= 0 */
    const int64_t *strides; /* ndim strides in elements, may be 0 or negative; NULL: C order */
    /*
     * Where the local elements, in local C order, sit in the global tensor: extents one after the
     * other; their lengths add up to the local number of elements. NULL: one extent from 0.
     */
    const struct diverge_extent *extents;
    size_t n_extents;
};

/* A min or max, in the dtype's own width: read the member that the dtype's class says. */
union diverge_value {
    double f;   /* float and complex dtypes (exact: every such value is a float64) */
    int64_t i;  /* signed integers, bool */
    uint64_t u; /* unsigned integers */
};

enum {
    DIVERGE_STAT_PRESENT = 1, /* the statistics were computed */
    DIVERGE_STAT_RANGE = 2,   /* min and max are set (there is a finite value) */
    DIVERGE_STAT_SUM = 4,     /* sum is set (fits float64) */
    DIVERGE_STAT_L2 = 8,      /* l2 is set (fits float64) */
};

/* Over all components of all elements; complex elements have two. */
struct diverge_statistics {
    uint64_t numel; /* components looked at */
    uint64_t nan;
    uint64_t pinf;
    uint64_t ninf;
    uint64_t zero; /* +0 and -0 */
    union diverge_value min;
    union diverge_value max;
    double sum;
    double l2;
    uint32_t valid; /* DIVERGE_STAT_* */
};

struct diverge_fingerprint {
    uint64_t checksum;
    struct diverge_statistics stats;
    uint32_t sketch_size; /* 0 (none), 32 or 64 */
    float sketch[DIVERGE_SKETCH_MAX];
};

/* What to compute. The checksum always is. */
enum {
    DIVERGE_WITH_STATISTICS = 1,
    DIVERGE_WITH_SKETCH32 = 2,
    DIVERGE_WITH_SKETCH64 = 4,
};

/*
 * Fingerprints `view`; `what` is a set of DIVERGE_WITH_*. *ret is untouched on failure.
 * DIVERGE_EINVAL: dtype, sizes, strides or extents do not fit together (extent lengths that do not
 * add up, a size below 0, an element count or global end beyond 2^60 bytes, NULL data with
 * elements).
 */
DIVERGE_API int diverge_fingerprint(const struct diverge_view *view, unsigned what,
                                    struct diverge_fingerprint *ret);

/* Checksum of `size` bytes that sit at byte `offset` of the whole (offset + size < 2^60). */
DIVERGE_API uint64_t diverge_checksum_bytes(const void *bytes, size_t size, uint64_t offset);

/* Sum and difference (b - a) of two checksums mod 2^61-1. */
DIVERGE_API uint64_t diverge_checksum_add(uint64_t a, uint64_t b);
DIVERGE_API uint64_t diverge_checksum_subtract(uint64_t b, uint64_t a);

/* A well-mixed 64-bit value of a finished checksum. Never add mixed values. */
DIVERGE_API uint64_t diverge_mix64(uint64_t checksum);

/* Relative L2 distance estimated from two sketches and the L2 norm of the first; NaN when unknown.
 */
DIVERGE_API double diverge_sketch_distance(const float *a, const float *b, uint32_t size,
                                           double l2_of_a);

struct diverge_located {
    uint64_t word;  /* index of the 32-bit word that may have changed */
    int64_t change; /* of its bit pattern, b - a, in (-2^32, 2^32), not 0 */
};

/*
 * The single changed words among [first, first + words) that explain delta = H_B - H_A
 * (diverge_checksum_subtract). Writes up to `capacity` to `found`, returns how many there are (may
 * be more than capacity). By chance about words * 2^-28 of them are false.
 */
DIVERGE_API size_t diverge_locate(uint64_t delta, uint64_t first, uint64_t words,
                                  struct diverge_located *found, size_t capacity);

/* Name of the kernel in use: "scalar", "avx2". Chosen once; DIVERGE_KERNEL=scalar forces it. */
DIVERGE_API const char *diverge_kernel_name(void);

/* Item bytes of a dtype, 0 when it is none; its name, NULL when it is none; the dtype of a name. */
DIVERGE_API size_t diverge_dtype_size(enum diverge_dtype dtype);
DIVERGE_API const char *diverge_dtype_name(enum diverge_dtype dtype);
DIVERGE_API enum diverge_dtype diverge_dtype_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
