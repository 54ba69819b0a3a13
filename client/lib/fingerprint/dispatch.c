/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel runs: chosen once, when the library is loaded. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/fingerprint/fpenv.h"
#include "client/lib/fingerprint/kernel.h"
#include "client/lib/fingerprint/keys.h"

enum {
    WORDS = 5000,
    FLOATS = 3000,
};

/* Best first. A kernel for another instruction set gets its line here. */
static const struct dvg_kernel *const candidates[] = {
#if defined(__x86_64__)
    &dvg_kernel_avx2,
#endif
    NULL,
};

static _Atomic(const struct dvg_kernel *) chosen;

/* Checksums of x_i = i * 2654435761 mod 2^32: bytes [from, from + size) that sit at `offset`. */
static const struct {
    uint32_t from;
    uint32_t size;
    uint64_t offset;
    uint64_t checksum;
} vectors[] = {
    {0, 0, 0, 0},
    {0, 7, 0, UINT64_C(0x156f13aa5ae2f15b)},
    {0, 4096, 0, UINT64_C(0x0387ed902830a985)},
    {0, 20000, 0, UINT64_C(0x057e0eeb3f6961f3)},
    {0, 12001, 8, UINT64_C(0x08ffb6297295e89a)},
    {5, 33, 4095, UINT64_C(0x1325e9db23796f35)},
    {4, 16, UINT64_C(1) << 42, UINT64_C(0x03ea587d120130fe)},
};

static bool checksums_agree(const struct dvg_kernel *kernel)
{
    uint32_t words[WORDS];

    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i * UINT32_C(2654435761);
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        const uint8_t *bytes = (const uint8_t *)words + vectors[i].from;

        if (dvg_checksum_with(kernel, bytes, vectors[i].size, vectors[i].offset) !=
            vectors[i].checksum)
            return false;
    }
    return true;
}

static bool is_near(double a, double b, double scale)
{
    double difference = a > b ? a - b : b - a;

    return difference <= 1e-6 * scale;
}

/* f_i = ((i * 37 mod 1001) - 500) / 64 as the reference measures it. */
static bool statistics_agree(const struct diverge_statistics *stats)
{
    return stats->numel == FLOATS && stats->nan == 0 && stats->pinf == 0 && stats->ninf == 0 &&
           stats->zero == 3 && stats->min.f == -7.8125 && stats->max.f == 7.8125 &&
           is_near(stats->sum, -20.015625, 12000) && is_near(stats->l2, 247.15212639988425, 247);
}

static bool floats_agree(const struct dvg_kernel *kernel)
{
    float floats[FLOATS];
    int64_t size = FLOATS;
    struct diverge_view view = {.data = floats, .dtype = DIVERGE_F32, .ndim = 1, .sizes = &size};
    struct diverge_fingerprint got;
    struct diverge_fingerprint want;
    unsigned what = DIVERGE_WITH_STATISTICS | DIVERGE_WITH_SKETCH64;

    for (int i = 0; i < FLOATS; i++)
        floats[i] = (float)(i * 37 % 1001 - 500) / 64;
    if (dvg_fingerprint_with(kernel, &view, what, &got) ||
        dvg_fingerprint_with(&dvg_kernel_scalar, &view, what, &want))
        return false;
    return got.checksum == UINT64_C(0x0ad8c66a46c630c2) && statistics_agree(&got.stats) &&
           memcmp(got.sketch, want.sketch, sizeof(got.sketch)) == 0;
}

bool dvg_kernel_check(const struct dvg_kernel *kernel)
{
    return checksums_agree(kernel) && floats_agree(kernel);
}

const struct dvg_kernel *dvg_kernel_choose(const struct dvg_kernel *const *list)
{
    for (; *list; list++) {
        if ((*list)->supported() && dvg_kernel_check(*list))
            return *list;
    }
    return &dvg_kernel_scalar;
}

/* Choosing twice at the same time gives the same kernel twice. */
static __attribute__((constructor)) void choose(void)
{
    const char *forced = getenv("DIVERGE_KERNEL");
    const struct dvg_kernel *kernel = &dvg_kernel_scalar;

    if (!forced || strcmp(forced, dvg_kernel_scalar.name) != 0)
        kernel = dvg_kernel_choose(candidates);
    atomic_store_explicit(&chosen, kernel, memory_order_release);
}

const struct dvg_kernel *dvg_kernel_get(void)
{
    const struct dvg_kernel *kernel = atomic_load_explicit(&chosen, memory_order_acquire);

    if (__builtin_expect(!kernel, 0)) {
        choose(); /* called by a constructor that ran before ours */
        kernel = atomic_load_explicit(&chosen, memory_order_acquire);
    }
    return kernel;
}
