/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel for AVX2 (with FMA and F16C). Only functions marked AVX2 may use the instructions; the
 * file is compiled for the baseline.
 *
 * Statistics and sketch go half a sketch block (512 components) at a time. The fast way keeps sums
 * in float32 lanes and looks at the end whether that was allowed: everything finite and the largest
 * magnitude within bounds. Otherwise the half is done again the careful way.
 */
#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "client/lib/fingerprint/element.h"
#include "client/lib/fingerprint/kernel.h"
#include "client/lib/fingerprint/keys.h"

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define INLINE static inline __attribute__((always_inline)) AVX2
/* Keeps the compiler from regrouping adds, which costs it its registers. */
#define PIN(x) __asm__ volatile("" : "+x"(x))

enum {
    AHEAD_BYTES = 2 * DVG_BLOCK_BYTES, /* prefetched */
    VECTOR = 8,                        /* components taken at once */
    GROUP = DVG_LANES,                 /* components of one turn of the loops */
};

/* Not every compiler's __builtin_cpu_supports knows F16C. */
static bool has_f16c(void)
{
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

/* ---- checksum ---- */

struct products {
    __m256i low_even;
    __m256i low_odd;
    __m256i high_even;
    __m256i high_odd;
};

INLINE __m256i load_int(const void *at)
{
    return _mm256_loadu_si256(at);
}

INLINE __m256i fold(__m256i x)
{
    const __m256i prime = _mm256_set1_epi64x((long long)DVG_PRIME);

    return _mm256_add_epi64(_mm256_and_si256(x, prime), _mm256_srli_epi64(x, 61));
}

/*
 * Eight words: a multiplication takes the even ones. The odd ones are shifted down, and their keys
 * loaded one word further on, which is cheaper than a shift.
 */
INLINE void add_products(struct products *sums, const uint8_t *bytes, const uint32_t *low,
                         const uint32_t *high)
{
    __m256i x = load_int(bytes);
    __m256i x_odd = _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(x)));

    sums->low_even = _mm256_add_epi64(sums->low_even, _mm256_mul_epu32(x, load_int(low)));
    sums->high_even = _mm256_add_epi64(sums->high_even, _mm256_mul_epu32(x, load_int(high)));
    sums->low_odd = _mm256_add_epi64(sums->low_odd, _mm256_mul_epu32(x_odd, load_int(low + 1)));
    sums->high_odd = _mm256_add_epi64(sums->high_odd, _mm256_mul_epu32(x_odd, load_int(high + 1)));
    PIN(sums->low_even);
    PIN(sums->high_even);
    PIN(sums->low_odd);
    PIN(sums->high_odd);
}

INLINE void fold_products(struct products *sums)
{
    sums->low_even = fold(sums->low_even);
    sums->low_odd = fold(sums->low_odd);
    sums->high_even = fold(sums->high_even);
    sums->high_odd = fold(sums->high_odd);
}

/* Of folded lanes: below 2^64. */
INLINE uint64_t sum_lanes(__m256i even, __m256i odd)
{
    __m256i all = fold(_mm256_add_epi64(even, odd));
    __m128i two = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));

    return (uint64_t)_mm_extract_epi64(two, 0) + (uint64_t)_mm_extract_epi64(two, 1);
}

/* Sixteen vectors: as many products as a lane takes before it must be folded. */
INLINE void add_sixteen(struct products *sums, const uint8_t *bytes, const uint32_t *low,
                        const uint32_t *high, bool ahead)
{
#pragma GCC unroll 4
    for (unsigned v = 0; v < 16; v++) {
        if (ahead && v % 2 == 0)
            _mm_prefetch((const char *)bytes + AHEAD_BYTES + 32 * v, _MM_HINT_T0);
        add_products(sums, bytes + 32 * v, low + 8 * v, high + 8 * v);
    }
    fold_products(sums);
}

INLINE void products_init(struct products *sums)
{
    sums->low_even = _mm256_setzero_si256();
    sums->low_odd = _mm256_setzero_si256();
    sums->high_even = _mm256_setzero_si256();
    sums->high_odd = _mm256_setzero_si256();
}

INLINE dvg_u128 sum_products(const struct products *sums)
{
    uint64_t high = dvg_residue(sum_lanes(sums->high_even, sums->high_odd));

    return ((dvg_u128)high << 32) + sum_lanes(sums->low_even, sums->low_odd);
}

/* A whole block: what large tensors are made of, so the next ones are fetched meanwhile. */
static AVX2 uint64_t whole_block(const uint8_t *bytes)
{
    struct products sums;

    products_init(&sums);
    for (unsigned i = 0; i < DVG_BLOCK; i += 128)
        add_sixteen(&sums, bytes + 4 * i, &dvg_key_low[i], &dvg_key_high[i], true);
    return dvg_residue128(sum_products(&sums));
}

static AVX2 uint64_t block_sum(const uint8_t *bytes, size_t words, unsigned first)
{
    const uint32_t *low = &dvg_key_low[first];
    const uint32_t *high = &dvg_key_high[first];
    struct products sums;
    size_t i = 0;

    if (words == DVG_BLOCK)
        return whole_block(bytes);
    products_init(&sums);
    for (; i + 128 <= words; i += 128)
        add_sixteen(&sums, bytes + 4 * i, low + i, high + i, false);
    for (; i + VECTOR <= words; i += VECTOR)
        add_products(&sums, bytes + 4 * i, low + i, high + i);
    fold_products(&sums);

    dvg_u128 total = sum_products(&sums);

    for (; i < words; i++) {
        uint32_t word;

        memcpy(&word, bytes + 4 * i, sizeof(word));
        total += (dvg_u128)dvg_key[first + i] * word;
    }
    return dvg_residue128(total);
}

/* ---- eight components as float32 ---- */

typedef __m256 load_fn(const uint8_t *at);

INLINE __m128i load_eight_bytes(const uint8_t *at)
{
    return _mm_loadl_epi64((const __m128i *)at);
}

INLINE __m128i load_eight_halves(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

INLINE __m256 load_f32(const uint8_t *at)
{
    return _mm256_loadu_ps((const float *)at);
}

INLINE __m256 load_bf16(const uint8_t *at)
{
    __m256i wide = _mm256_cvtepu16_epi32(load_eight_halves(at));

    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* Pinned on both sides: clang 14 otherwise takes the vector apart and converts one by one. */
INLINE __m256 load_f16(const uint8_t *at)
{
    __m128i halves = load_eight_halves(at);

    PIN(halves);

    __m256 x = _mm256_cvtph_ps(halves);

    PIN(x);
    return x;
}

INLINE __m256 load_bool(const uint8_t *at)
{
    __m256i wide = _mm256_cvtepu8_epi32(load_eight_bytes(at));

    return _mm256_cvtepi32_ps(_mm256_min_epi32(wide, _mm256_set1_epi32(1)));
}

INLINE __m256 load_u8(const uint8_t *at)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_eight_bytes(at)));
}

INLINE __m256 load_i8(const uint8_t *at)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_eight_bytes(at)));
}

INLINE __m256 load_u16(const uint8_t *at)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(load_eight_halves(at)));
}

INLINE __m256 load_i16(const uint8_t *at)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(load_eight_halves(at)));
}

INLINE __m256 load_i32(const uint8_t *at)
{
    return _mm256_cvtepi32_ps(load_int(at));
}

/* Both halves are exact, so only the last add rounds. */
INLINE __m256 load_u32(const uint8_t *at)
{
    __m256i x = load_int(at);
    __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(x, 16));
    __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)));
    __m256 shifted = _mm256_mul_ps(high, _mm256_set1_ps(65536.0F));

    PIN(shifted);
    return _mm256_add_ps(shifted, low);
}

/*
 * Floats of 8 bits, by integers alone: a denormal operand would trap into microcode. `infinity` is
 * the magnitude of Inf, and those above it are NaN; `nan` the pattern of another NaN under
 * `nan_mask`.
 */
INLINE __m256 load_f8(const uint8_t *at, int fraction, int bias, int infinity, int nan_mask,
                      int nan)
{
    __m256i bits = _mm256_cvtepu8_epi32(load_eight_bytes(at));
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f));
    __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(magnitude, 23 - fraction),
                                      _mm256_set1_epi32((127 - bias) << 23));
    __m256i unit = _mm256_set1_epi32((128 - bias - fraction) << 23); /* 2^(1 - bias - fraction) */
    __m256 tiny = _mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), _mm256_castsi256_ps(unit));
    __m256i is_normal = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32((1 << fraction) - 1));
    __m256i value = _mm256_blendv_epi8(_mm256_castps_si256(tiny), normal, is_normal);
    __m256i special = _mm256_cmpeq_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(nan_mask)),
                                         _mm256_set1_epi32(nan));

    value = _mm256_or_si256(value, _mm256_and_si256(special, _mm256_set1_epi32(0x7fc00000)));
    special = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(infinity - 1));
    value = _mm256_or_si256(value, _mm256_and_si256(special, _mm256_set1_epi32(0x7f800000)));
    return _mm256_castsi256_ps(_mm256_or_si256(
        value, _mm256_slli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x80)), 24)));
}

INLINE __m256 load_e4m3fn(const uint8_t *at)
{
    return load_f8(at, 3, 7, 256, 0x7f, 0x7f);
}

INLINE __m256 load_e5m2(const uint8_t *at)
{
    return load_f8(at, 2, 15, 0x7c, 0x7f, 0x7f);
}

INLINE __m256 load_e4m3fnuz(const uint8_t *at)
{
    return load_f8(at, 3, 8, 256, 0xff, 0x80);
}

INLINE __m256 load_e5m2fnuz(const uint8_t *at)
{
    return load_f8(at, 2, 16, 256, 0xff, 0x80);
}

/* ---- sketch ---- */

/* As dvg_sketch_add: one half block's lanes to their buckets. */
INLINE void place_lanes(struct dvg_sketch *sketch, uint64_t half, const __m256 *lanes)
{
    struct dvg_placement at = dvg_sketch_place(half, sketch->size);
    __m256i order = _mm256_xor_si256(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                     _mm256_set1_epi32((int)(at.flip & 7)));
    __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi32((int)((uint32_t)at.negative << 31)));

    for (unsigned v = 0; v < 4; v++) {
        double *sums = &sketch->sums[at.group + 8 * (v ^ at.flip >> 3)];
        __m256 sum = _mm256_xor_ps(_mm256_permutevar8x32_ps(lanes[v], order), sign);
        __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(sum));
        __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(sum, 1));

        _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), low));
        _mm256_storeu_pd(sums + 4, _mm256_add_pd(_mm256_loadu_pd(sums + 4), high));
    }
}

INLINE __m256 with_sign(__m256 x, const uint32_t *signs)
{
    return _mm256_xor_ps(x, _mm256_loadu_ps((const float *)signs));
}

/* ---- the fast way, float32 ---- */

/* Sums over all halves of a call, in float64. */
struct totals {
    __m256d sum;
    __m256d squares;
    __m256 min;
    __m256 max;
    __m256i zero; /* four counts */
    uint64_t padding;
};

/* Members one by one, no arrays: gcc keeps those in memory. */
struct half {
    __m256 lane0;
    __m256 lane1;
    __m256 lane2;
    __m256 lane3;
    __m256 sum;
    __m256 squares0;
    __m256 squares1;
    __m256 min;
    __m256 max;
    __m256i zero;     /* eight counts, negative */
    unsigned padding; /* zeros among them that are none */
};

INLINE void half_init(struct half *half)
{
    half->lane0 = _mm256_setzero_ps();
    half->lane1 = _mm256_setzero_ps();
    half->lane2 = _mm256_setzero_ps();
    half->lane3 = _mm256_setzero_ps();
    half->sum = _mm256_setzero_ps();
    half->squares0 = _mm256_setzero_ps();
    half->squares1 = _mm256_setzero_ps();
    half->min = _mm256_set1_ps(INFINITY);
    half->max = _mm256_set1_ps(-INFINITY);
    half->zero = _mm256_setzero_si256();
    half->padding = 0;
}

INLINE __m256i zero_mask(__m256 x)
{
    return _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ));
}

/* `a` and `b` for the sums, `y` and `z` for the range; a NaN is lost in min and max, not in sums.
 */
INLINE void add_pair(struct half *half, __m256 a, __m256 b, __m256 y, __m256 z)
{
    half->min = _mm256_min_ps(_mm256_min_ps(y, z), half->min);
    half->max = _mm256_max_ps(_mm256_max_ps(y, z), half->max);
    half->sum = _mm256_add_ps(half->sum, _mm256_add_ps(a, b));
    half->squares0 = _mm256_fmadd_ps(a, a, half->squares0);
    half->squares1 = _mm256_fmadd_ps(b, b, half->squares1);
    half->zero = _mm256_add_epi32(half->zero, zero_mask(a));
    PIN(half->zero);
    half->zero = _mm256_add_epi32(half->zero, zero_mask(b));
    PIN(half->zero);
}

/* 16 components. */
INLINE void add_two(struct half *half, load_fn *load, size_t bytes, const uint8_t *data,
                    const uint8_t *range, const uint32_t *signs, __m256 *lane, __m256 *next_lane,
                    bool sketch)
{
    const size_t next = VECTOR * bytes;
    __m256 a = load(data);
    __m256 b = load(data + next);

    if (sketch) {
        *lane = _mm256_add_ps(*lane, with_sign(a, signs));
        *next_lane = _mm256_add_ps(*next_lane, with_sign(b, signs + VECTOR));
    }
    if (range == data)
        add_pair(half, a, b, a, b);
    else
        add_pair(half, a, b, load(range), load(range + next));
}

/* 32 components. `range` has the same, or, where `data` is padded with zeros, others of the half.
 */
INLINE void add_group(struct half *half, load_fn *load, size_t bytes, const uint8_t *data,
                      const uint8_t *range, const uint32_t *signs, bool sketch)
{
    const size_t next = 2 * VECTOR * bytes;

    add_two(half, load, bytes, data, range, signs, &half->lane0, &half->lane1, sketch);
    add_two(half, load, bytes, data + next, range + next, signs + 2 * VECTOR, &half->lane2,
            &half->lane3, sketch);
}

/*
 * Fewer than 32 components, or such that do not begin at a multiple of 32: padded with zeros on
 * both sides, which add nothing but to the count of zeros.
 */
INLINE void add_padded(struct half *half, load_fn *load, size_t bytes, const uint8_t *data,
                       unsigned before, unsigned count, const uint32_t *signs, bool sketch)
{
    uint8_t padded[GROUP * 4] __attribute__((aligned(32)));
    uint8_t range[GROUP * 4] __attribute__((aligned(32)));

    memset(padded, 0, sizeof(padded));
    memcpy(padded + before * bytes, data, count * bytes);
    for (unsigned i = count; i < GROUP; i++)
        memcpy(range + i * bytes, data, bytes);
    memcpy(range, data, count * bytes);
    half->padding += GROUP - count;
    add_group(half, load, bytes, padded, range, signs, sketch);
}

/* The sums are copied, so that they stay in registers whatever others do with `half`. */
INLINE void add_groups(struct half *half, load_fn *load, size_t bytes, const uint8_t *data,
                       unsigned groups, const uint32_t *signs, bool sketch)
{
    struct half sums = *half;

    for (unsigned i = 0; i < groups; i++) {
        add_group(&sums, load, bytes, data, data, signs, sketch);
        data += GROUP * bytes;
        signs += GROUP;
    }
    *half = sums;
}

/* `r` is the index in the block of the first of `count` components, all within one half. */
INLINE void add_half(struct half *half, load_fn *load, size_t bytes, const uint8_t *data,
                     unsigned r, unsigned count, bool sketch)
{
    unsigned before = r % GROUP;

    if (before) {
        unsigned head = count < GROUP - before ? count : GROUP - before;

        add_padded(half, load, bytes, data, before, head, &dvg_sign[r - before], sketch);
        data += head * bytes;
        r += head;
        count -= head;
    }
    add_groups(half, load, bytes, data, count / GROUP, &dvg_sign[r], sketch);
    data += count / GROUP * GROUP * bytes;
    r += count / GROUP * GROUP;
    count %= GROUP;
    if (count)
        add_padded(half, load, bytes, data, 0, count, &dvg_sign[r], sketch);
}

INLINE void place_half(struct dvg_sketch *sketch, uint64_t index, const struct half *half)
{
    const __m256 lanes[4] = {half->lane0, half->lane1, half->lane2, half->lane3};

    place_lanes(sketch, index, lanes);
}

/* Whether float32 lanes were good enough: see the top of this file. A half of zeros is. */
INLINE bool half_is_fine(const struct half *half)
{
    const __m256 minus = _mm256_set1_ps(-0.0F);
    __m256 top = _mm256_max_ps(half->max, _mm256_xor_ps(half->min, minus));
    __m256 sum = _mm256_add_ps(half->squares0, half->squares1);
    int nan = _mm256_movemask_ps(_mm256_cmp_ps(sum, sum, _CMP_UNORD_Q));
    int large = _mm256_movemask_ps(_mm256_cmp_ps(top, _mm256_set1_ps(1e18F), _CMP_GT_OQ));
    int usual = _mm256_movemask_ps(_mm256_cmp_ps(top, _mm256_set1_ps(1e-12F), _CMP_GE_OQ));
    int some = _mm256_movemask_ps(_mm256_cmp_ps(top, _mm256_setzero_ps(), _CMP_NEQ_UQ));

    return !nan && !large && (usual || !some);
}

INLINE __m256d widen_sum(__m256 x)
{
    return _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                         _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

INLINE __m256i widen_count(__m256i negative)
{
    __m256i count = _mm256_sub_epi32(_mm256_setzero_si256(), negative);

    return _mm256_add_epi64(_mm256_and_si256(count, _mm256_set1_epi64x(0xffffffff)),
                            _mm256_srli_epi64(count, 32));
}

INLINE void add_totals(struct totals *totals, const struct half *half)
{
    totals->sum = _mm256_add_pd(totals->sum, widen_sum(half->sum));
    totals->squares =
        _mm256_add_pd(totals->squares, widen_sum(_mm256_add_ps(half->squares0, half->squares1)));
    totals->min = _mm256_min_ps(totals->min, half->min);
    totals->max = _mm256_max_ps(totals->max, half->max);
    totals->zero = _mm256_add_epi64(totals->zero, widen_count(half->zero));
    totals->padding += half->padding;
}

INLINE void totals_init(struct totals *totals)
{
    totals->sum = _mm256_setzero_pd();
    totals->squares = _mm256_setzero_pd();
    totals->min = _mm256_set1_ps(INFINITY);
    totals->max = _mm256_set1_ps(-INFINITY);
    totals->zero = _mm256_setzero_si256();
    totals->padding = 0;
}

INLINE double sum_double(__m256d x)
{
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));

    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

INLINE double min_float(__m256 x)
{
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));

    return (double)_mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
}

INLINE double max_float(__m256 x)
{
    return -min_float(_mm256_xor_ps(x, _mm256_set1_ps(-0.0F)));
}

INLINE uint64_t sum_counts(__m256i x)
{
    __m128i two = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

    return (uint64_t)_mm_extract_epi64(two, 0) + (uint64_t)_mm_extract_epi64(two, 1);
}

INLINE void finish_totals(const struct totals *totals, struct dvg_stats *stats)
{
    double min = min_float(totals->min);
    double max = max_float(totals->max);

    stats->sum += sum_double(totals->sum);
    stats->squares += sum_double(totals->squares);
    stats->zero += sum_counts(totals->zero) - totals->padding;
    stats->min = min < stats->min ? min : stats->min;
    stats->max = max > stats->max ? max : stats->max;
}

/* ---- the careful way, float32 ---- */

/* Counts of what is not finite, eight each, negative. */
struct oddities {
    __m256i nan;
    __m256i pinf;
    __m256i ninf;
};

struct careful {
    __m256 lane[4];
    __m256i zero; /* eight counts, negative */
    struct totals totals;
    struct oddities odd;
};

INLINE __m256i count_equal(__m256i count, __m256 x, float value)
{
    __m256 equal = _mm256_cmp_ps(x, _mm256_set1_ps(value), _CMP_EQ_OQ);

    return _mm256_add_epi32(count, _mm256_castps_si256(equal));
}

INLINE void add_squares(struct totals *totals, __m128 four)
{
    __m256d wide = _mm256_cvtps_pd(four);

    totals->sum = _mm256_add_pd(totals->sum, wide);
    totals->squares = _mm256_fmadd_pd(wide, wide, totals->squares);
}

/* Eight components of which those under `valid` count. */
INLINE void add_careful(struct careful *state, __m256 x, __m256 valid, __m256 *lane,
                        const uint32_t *signs)
{
    __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), x);
    __m256 finite = _mm256_cmp_ps(magnitude, _mm256_set1_ps(INFINITY), _CMP_LT_OQ);
    __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    __m256 value = _mm256_and_ps(x, finite);
    __m256 counts = _mm256_and_ps(finite, valid);
    __m256 is_zero = _mm256_and_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ), valid);
    struct totals *totals = &state->totals;

    state->odd.nan = _mm256_add_epi32(state->odd.nan, _mm256_castps_si256(is_nan));
    state->odd.pinf = count_equal(state->odd.pinf, x, INFINITY);
    state->odd.ninf = count_equal(state->odd.ninf, x, -INFINITY);
    state->zero = _mm256_add_epi32(state->zero, _mm256_castps_si256(is_zero));
    totals->min =
        _mm256_min_ps(totals->min, _mm256_blendv_ps(_mm256_set1_ps(INFINITY), value, counts));
    totals->max =
        _mm256_max_ps(totals->max, _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), value, counts));
    add_squares(totals, _mm256_castps256_ps128(value));
    add_squares(totals, _mm256_extractf128_ps(value, 1));
    *lane = _mm256_add_ps(*lane, with_sign(value, signs));
}

/* `values`: a whole half, zero outside [from, to). */
static AVX2 void careful_half(const float *values, unsigned from, unsigned to, uint64_t half_index,
                              struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    const uint32_t *signs = &dvg_sign[half_index % 2 * DVG_HALF];
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    struct careful state;

    for (unsigned v = 0; v < 4; v++)
        state.lane[v] = _mm256_setzero_ps();
    state.zero = _mm256_setzero_si256();
    totals_init(&state.totals);
    state.odd.nan = state.odd.pinf = state.odd.ninf = _mm256_setzero_si256();
    for (unsigned i = from / GROUP * GROUP; i < to; i += GROUP) {
        for (unsigned v = 0; v < 4; v++) {
            __m256i at = _mm256_add_epi32(index, _mm256_set1_epi32((int)(i + v * VECTOR)));
            __m256i valid =
                _mm256_and_si256(_mm256_cmpgt_epi32(at, _mm256_set1_epi32((int)from - 1)),
                                 _mm256_cmpgt_epi32(_mm256_set1_epi32((int)to), at));

            add_careful(&state, _mm256_loadu_ps(values + i + v * VECTOR),
                        _mm256_castsi256_ps(valid), &state.lane[v], signs + i + v * VECTOR);
        }
    }
    if (stats) {
        state.totals.zero = widen_count(state.zero);
        finish_totals(&state.totals, stats);
        stats->nan += sum_counts(widen_count(state.odd.nan));
        stats->pinf += sum_counts(widen_count(state.odd.pinf));
        stats->ninf += sum_counts(widen_count(state.odd.ninf));
    }
    if (sketch)
        place_lanes(sketch, half_index, state.lane);
}

/* ---- float32 and what is exact in it ---- */

/* Converts the half again, for the careful way. */
INLINE void again(load_fn *load, size_t bytes, const uint8_t *data, uint64_t start, unsigned count,
                  struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    float values[DVG_HALF + VECTOR];
    uint8_t rest[VECTOR * 4] = {0};
    unsigned from = (unsigned)(start % DVG_HALF);
    unsigned i = 0;

    memset(values, 0, sizeof(values));
    for (; i + VECTOR <= count; i += VECTOR)
        _mm256_storeu_ps(values + from + i, load(data + i * bytes));
    if (i < count) {
        memcpy(rest, data + i * bytes, (count - i) * bytes);
        _mm256_storeu_ps(values + from + i, load(rest));
    }
    careful_half(values, from, from + count, start / DVG_HALF, stats, sketch);
}

/* As dvg_kernel.measure, for one way to load; `sketch` may be NULL. */
INLINE void measure_narrow(load_fn *load, size_t bytes, const uint8_t *data, size_t count,
                           uint64_t start, struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    struct totals totals;

    totals_init(&totals);
    stats->numel += count;
    while (count) {
        size_t left = DVG_HALF - start % DVG_HALF;
        unsigned now = (unsigned)(count < left ? count : left);
        struct half half;

        half_init(&half);
        add_half(&half, load, bytes, data, (unsigned)(start % DVG_BLOCK), now, sketch != NULL);
        if (half_is_fine(&half)) {
            add_totals(&totals, &half);
            if (sketch)
                place_half(sketch, start / DVG_HALF, &half);
        } else {
            again(load, bytes, data, start, now, stats, sketch);
        }
        data += now * bytes;
        start += now;
        count -= now;
    }
    finish_totals(&totals, stats);
}

typedef void measure_fn(const uint8_t *data, size_t count, uint64_t start, struct dvg_stats *stats,
                        struct dvg_sketch *sketch);

/* A sketch alone pays for the statistics, which tell whether the fast way was allowed. */
#define MEASURE(NAME, BYTES)                                                                       \
    static AVX2 void measure_##NAME(const uint8_t *data, size_t count, uint64_t start,             \
                                    struct dvg_stats *stats, struct dvg_sketch *sketch)            \
    {                                                                                              \
        struct dvg_stats unused;                                                                   \
                                                                                                   \
        if (!stats)                                                                                \
            dvg_stats_init(&unused);                                                               \
        if (sketch)                                                                                \
            measure_narrow(load_##NAME, BYTES, data, count, start, stats ? stats : &unused,        \
                           sketch);                                                                \
        else                                                                                       \
            measure_narrow(load_##NAME, BYTES, data, count, start, stats, NULL);                   \
    }

MEASURE(bool, 1)
MEASURE(u8, 1)
MEASURE(i8, 1)
MEASURE(u16, 2)
MEASURE(i16, 2)
MEASURE(u32, 4)
MEASURE(i32, 4)
MEASURE(f16, 2)
MEASURE(bf16, 2)
MEASURE(f32, 4)
MEASURE(e4m3fn, 1)
MEASURE(e5m2, 1)
MEASURE(e4m3fnuz, 1)
MEASURE(e5m2fnuz, 1)

/* ---- float64 and integers of 64 bits: always in float64 ---- */

typedef __m256d load_wide_fn(const uint8_t *at);

INLINE __m256d load_f64(const uint8_t *at)
{
    return _mm256_loadu_pd((const double *)at);
}

/*
 * Integers to float64, correctly rounded: each half is put under the exponent that makes its unit
 * the last place, the offsets are taken away again exactly, and only the last add rounds.
 */
INLINE __m256d load_u64(const uint8_t *at)
{
    __m256i x = load_int(at);
    __m256i high =
        _mm256_or_si256(_mm256_srli_epi64(x, 32), _mm256_castpd_si256(_mm256_set1_pd(0x1p84)));
    __m256i low = _mm256_blend_epi16(x, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)), 0xcc);
    __m256d rest = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1p84 + 0x1p52));

    return _mm256_add_pd(rest, _mm256_castsi256_pd(low));
}

INLINE __m256d load_i64(const uint8_t *at)
{
    __m256i x = load_int(at);
    __m256i high = _mm256_blend_epi16(_mm256_srai_epi32(x, 16), _mm256_setzero_si256(), 0x33);
    __m256i low = _mm256_blend_epi16(x, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)), 0x88);

    high = _mm256_add_epi64(high, _mm256_castpd_si256(_mm256_set1_pd(3 * 0x1p67)));

    __m256d rest = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(3 * 0x1p67 + 0x1p52));

    return _mm256_add_pd(rest, _mm256_castsi256_pd(low));
}

struct wide {
    __m256 lane[4];
    __m256d sum;
    __m256d squares;
    __m256d min;
    __m256d max;
    __m256i zero; /* four counts, negative */
};

INLINE void wide_init(struct wide *wide)
{
    for (unsigned v = 0; v < 4; v++)
        wide->lane[v] = _mm256_setzero_ps();
    wide->sum = _mm256_setzero_pd();
    wide->squares = _mm256_setzero_pd();
    wide->min = _mm256_set1_pd(INFINITY);
    wide->max = _mm256_set1_pd(-INFINITY);
    wide->zero = _mm256_setzero_si256();
}

INLINE void add_wide(struct wide *wide, __m256d x)
{
    __m256d is_zero = _mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_EQ_OQ);

    wide->sum = _mm256_add_pd(wide->sum, x);
    wide->squares = _mm256_fmadd_pd(x, x, wide->squares);
    wide->min = _mm256_min_pd(x, wide->min);
    wide->max = _mm256_max_pd(x, wide->max);
    wide->zero = _mm256_add_epi64(wide->zero, _mm256_castpd_si256(is_zero));
}

/* 32 components, at a multiple of 32. */
INLINE void add_wide_group(struct wide *wide, load_wide_fn *load, const uint8_t *data,
                           const uint32_t *signs, bool stats, bool sketch)
{
#pragma GCC unroll 4
    for (unsigned v = 0; v < 4; v++) {
        __m256d low = load(data + v * 64);
        __m256d high = load(data + v * 64 + 32);

        if (stats) {
            add_wide(wide, low);
            add_wide(wide, high);
        }
        if (sketch) {
            __m256 both = _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));

            wide->lane[v] = _mm256_add_ps(wide->lane[v], with_sign(both, signs + v * VECTOR));
        }
    }
}

/* Whether squares keep their worth, and all values are finite in float32 as well. */
INLINE bool wide_is_fine(const struct wide *wide)
{
    __m256d top = _mm256_max_pd(wide->max, _mm256_xor_pd(wide->min, _mm256_set1_pd(-0.0)));
    int nan = _mm256_movemask_pd(_mm256_cmp_pd(wide->squares, wide->squares, _CMP_UNORD_Q));
    int large = _mm256_movemask_pd(_mm256_cmp_pd(top, _mm256_set1_pd(1e38), _CMP_GT_OQ));
    int usual = _mm256_movemask_pd(_mm256_cmp_pd(top, _mm256_set1_pd(1e-100), _CMP_GE_OQ));
    int some = _mm256_movemask_pd(_mm256_cmp_pd(top, _mm256_setzero_pd(), _CMP_NEQ_UQ));

    return !nan && !large && (usual || !some);
}

INLINE double min_double(__m256d x)
{
    __m128d two = _mm_min_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));

    return _mm_cvtsd_f64(_mm_min_sd(two, _mm_unpackhi_pd(two, two)));
}

INLINE void finish_wide(const struct wide *wide, struct dvg_stats *stats)
{
    double min = min_double(wide->min);
    double max = -min_double(_mm256_xor_pd(wide->max, _mm256_set1_pd(-0.0)));

    stats->sum += sum_double(wide->sum);
    stats->squares += sum_double(wide->squares);
    stats->zero -= sum_counts(wide->zero);
    stats->min = min < stats->min ? min : stats->min;
    stats->max = max > stats->max ? max : stats->max;
}

/* Whole groups of a half, at a multiple of 32. False when they must be done one by one. */
INLINE bool try_wide(load_wide_fn *load, const uint8_t *data, unsigned groups, uint64_t start,
                     struct dvg_stats *stats, float *lanes, bool with_sketch)
{
    struct wide wide;

    wide_init(&wide);
    for (unsigned g = 0; g < groups; g++)
        add_wide_group(&wide, load, data + g * GROUP * 8, &dvg_sign[start % DVG_BLOCK + g * GROUP],
                       true, with_sketch);
    if (!wide_is_fine(&wide))
        return false;
    if (stats) {
        finish_wide(&wide, stats);
        stats->numel += groups * GROUP;
    }
    for (unsigned v = 0; v < 4 && with_sketch; v++)
        _mm256_storeu_ps(lanes + v * VECTOR, wide.lane[v]);
    return true;
}

/* Components one by one. */
static void add_singly(enum diverge_dtype dtype, const uint8_t *data, unsigned count,
                       uint64_t start, struct dvg_stats *stats, float *lanes)
{
    double values[DVG_HALF];

    for (unsigned i = 0; i < count; i++) {
        unsigned r = (unsigned)((start + i) % DVG_BLOCK);

        values[i] = dvg_element(dtype, data, i);

        float value = (float)values[i];

        if (!isfinite(value))
            value = 0;
        lanes[r % DVG_LANES] += dvg_sign[r] ? -value : value;
    }
    if (stats)
        dvg_stats_add(stats, values, count);
}

INLINE void measure_wide(enum diverge_dtype dtype, load_wide_fn *load, const uint8_t *data,
                         size_t count, uint64_t start, struct dvg_stats *stats,
                         struct dvg_sketch *sketch)
{
    if (stats)
        dvg_integer_range(dtype, data, count, stats);
    while (count) {
        float lanes[DVG_LANES] = {0};
        uint64_t half = start / DVG_HALF;
        size_t left = DVG_HALF - start % DVG_HALF;
        unsigned now = (unsigned)(count < left ? count : left);
        unsigned groups = start % GROUP ? 0 : now / GROUP;
        unsigned done = 0;

        if (groups && try_wide(load, data, groups, start, stats, lanes, sketch != NULL))
            done = groups * GROUP;
        if (done < now)
            add_singly(dtype, data + done * 8, now - done, start + done, stats, lanes);
        if (sketch)
            dvg_sketch_add(sketch, half, lanes);
        data += now * 8;
        start += now;
        count -= now;
    }
}

#define MEASURE_WIDE(NAME, DTYPE)                                                                  \
    static AVX2 void measure_##NAME(const uint8_t *data, size_t count, uint64_t start,             \
                                    struct dvg_stats *stats, struct dvg_sketch *sketch)            \
    {                                                                                              \
        measure_wide(DTYPE, load_##NAME, data, count, start, stats, sketch);                       \
    }

MEASURE_WIDE(f64, DIVERGE_F64)
MEASURE_WIDE(u64, DIVERGE_U64)
MEASURE_WIDE(i64, DIVERGE_I64)

/* ---- all dtypes ---- */

static measure_fn *const measures[DIVERGE_DTYPE_COUNT] = {
    [DIVERGE_BOOL] = measure_bool,
    [DIVERGE_U8] = measure_u8,
    [DIVERGE_I8] = measure_i8,
    [DIVERGE_U16] = measure_u16,
    [DIVERGE_I16] = measure_i16,
    [DIVERGE_U32] = measure_u32,
    [DIVERGE_I32] = measure_i32,
    [DIVERGE_U64] = measure_u64,
    [DIVERGE_I64] = measure_i64,
    [DIVERGE_F16] = measure_f16,
    [DIVERGE_BF16] = measure_bf16,
    [DIVERGE_F32] = measure_f32,
    [DIVERGE_F64] = measure_f64,
    [DIVERGE_F8E4M3FN] = measure_e4m3fn,
    [DIVERGE_F8E5M2] = measure_e5m2,
    [DIVERGE_F8E4M3FNUZ] = measure_e4m3fnuz,
    [DIVERGE_F8E5M2FNUZ] = measure_e5m2fnuz,
};

static void measure(enum diverge_dtype dtype, const void *data, size_t count, uint64_t start,
                    struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    if (count == 0)
        return;
    if (stats && (dtype == DIVERGE_I32 || dtype == DIVERGE_U32))
        dvg_integer_range(dtype, data, count, stats);
    measures[dtype](data, count, start, stats, sketch);
}

const struct dvg_kernel dvg_kernel_avx2 = {
    .name = "avx2",
    .supported = supported,
    .block_sum = block_sum,
    .measure = measure,
};

#endif
