/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/fingerprint_baseline.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    LANES = 32, /* independent sums, so that adds need not wait for one another */
};

uint64_t baseline_xxh3(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

uint64_t baseline_md5(const void *data, size_t bytes)
{
    static EVP_MD_CTX *context;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size;
    uint64_t first;

    if (!context)
        context = EVP_MD_CTX_new();
    if (!context || !EVP_DigestInit_ex(context, EVP_md5(), NULL) ||
        !EVP_DigestUpdate(context, data, bytes) || !EVP_DigestFinal_ex(context, digest, &size))
        abort();
    memcpy(&first, digest, sizeof(first));
    return first;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(const void *data, size_t bytes)
{
    const __m256i *at = data;
    __m256i sums[4] = {
        _mm256_setzero_si256(),
        _mm256_setzero_si256(),
        _mm256_setzero_si256(),
        _mm256_setzero_si256(),
    };

    for (size_t i = 0; i < bytes / 128; i++, at += 4) {
        for (int v = 0; v < 4; v++)
            sums[v] = _mm256_xor_si256(sums[v], _mm256_loadu_si256(at + v));
    }
    sums[0] =
        _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
    return (uint64_t)_mm256_extract_epi64(sums[0], 0) ^ (uint64_t)_mm256_extract_epi64(sums[0], 2);
}
#endif

static uint64_t read_words(const void *data, size_t bytes)
{
    const uint64_t *at = data;
    uint64_t sums[4] = {0};

    for (size_t i = 0; i < bytes / 32; i++, at += 4) {
        for (int v = 0; v < 4; v++)
            sums[v] ^= at[v];
    }
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

uint64_t baseline_read(const void *data, size_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return read_avx2(data, bytes);
#endif
    return read_words(data, bytes);
}

#if defined(__x86_64__)
#define FOR_THIS_MACHINE __attribute__((target_clones("avx2", "default")))
#else
#define FOR_THIS_MACHINE
#endif

/* A loop over LANES accumulators is vectorised by both compilers as it stands. */
#define PASS(NAME, INIT, STEP, JOIN)                                                               \
    FOR_THIS_MACHINE static float NAME(const float *data, size_t count)                            \
    {                                                                                              \
        float lane[LANES];                                                                         \
        float result = (INIT);                                                                     \
                                                                                                   \
        for (int v = 0; v < LANES; v++)                                                            \
            lane[v] = (INIT);                                                                      \
        for (size_t i = 0; i + LANES <= count; i += LANES) {                                       \
            for (int v = 0; v < LANES; v++) {                                                      \
                float x = data[i + (size_t)v];                                                     \
                                                                                                   \
                lane[v] = (STEP);                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int v = 0; v < LANES; v++) {                                                          \
            float x = lane[v];                                                                     \
                                                                                                   \
            result = (JOIN);                                                                       \
        }                                                                                          \
        return result;                                                                             \
    }

#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))

PASS(pass_min, data[0], LESS(x, lane[v]), LESS(x, result))
PASS(pass_max, data[0], MORE(x, lane[v]), MORE(x, result))
PASS(pass_sum, 0, lane[v] + x, result + x)
PASS(pass_squares, 0, lane[v] + x * x, result + x)

uint64_t baseline_separate(const float *data, size_t bytes)
{
    size_t count = bytes / sizeof(data[0]);
    float all = pass_min(data, count) + pass_max(data, count) + pass_sum(data, count) +
                pass_squares(data, count);
    void *copy = malloc(bytes);
    uint64_t crc;

    if (!copy)
        abort();
    memcpy(copy, data, bytes);
    crc = crc32_z(0, copy, bytes);
    free(copy);
    return crc + (all > 0);
}
