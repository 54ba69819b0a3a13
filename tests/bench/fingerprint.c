/* SPDX-License-Identifier: Apache-2.0 */
/* bench_fingerprint: the bars of the fingerprint, and every dtype with every compiler there is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <diverge/fingerprint.h>

#include "client/lib/fingerprint/kernel.h"
#include "tests/bench/bench.h"
#include "tests/bench/fingerprint_baseline.h"

enum {
    ALL = DIVERGE_WITH_STATISTICS | DIVERGE_WITH_SKETCH64,
    KIB = 1024,
    MIB = 1024 * KIB,
    LARGE = 256 * MIB,
    MEDIUM = 16 * MIB, /* for the list of dtypes: beyond the second-level cache */
    SIDE = 4096,       /* of the transposed matrix */
};

/* The kernels as another compiler makes them, when there is one: see CMakeLists.txt. */
#ifdef DVG_BENCH_OTHER
extern const struct dvg_kernel dvg_kernel_scalar_other;
extern const struct dvg_kernel dvg_kernel_avx2_other;
#else
#define DVG_BENCH_OTHER_NAME "none"
#endif

/* What a case works on. */
struct job {
    const void *data;
    size_t bytes;
    enum diverge_dtype dtype;
    const struct dvg_kernel *kernel;
    unsigned what;
    const int64_t *strides;
    int64_t sizes[2];
};

static void run_read(void *arg, uint64_t repeats)
{
    const struct job *job = arg;

    for (uint64_t i = 0; i < repeats; i++)
        dvg_bench_keep(baseline_read(job->data, job->bytes));
}

static void run_xxh3(void *arg, uint64_t repeats)
{
    const struct job *job = arg;

    for (uint64_t i = 0; i < repeats; i++)
        dvg_bench_keep(baseline_xxh3(job->data, job->bytes));
}

static void run_md5(void *arg, uint64_t repeats)
{
    const struct job *job = arg;

    for (uint64_t i = 0; i < repeats; i++)
        dvg_bench_keep(baseline_md5(job->data, job->bytes));
}

static void run_separate(void *arg, uint64_t repeats)
{
    const struct job *job = arg;

    for (uint64_t i = 0; i < repeats; i++)
        dvg_bench_keep(baseline_separate(job->data, job->bytes));
}

/* A view of the job's bytes, one-dimensional unless it has strides. */
static void run_fingerprint(void *arg, uint64_t repeats)
{
    const struct job *job = arg;
    int64_t count = (int64_t)(job->bytes / diverge_dtype_size(job->dtype));
    struct diverge_view view = {
        .data = job->data,
        .dtype = job->dtype,
        .ndim = job->strides ? 2 : 1,
        .sizes = job->strides ? job->sizes : &count,
        .strides = job->strides,
    };
    struct diverge_fingerprint print;

    for (uint64_t i = 0; i < repeats; i++) {
        if (dvg_fingerprint_with(job->kernel, &view, job->what, &print))
            abort();
        dvg_bench_keep(print.checksum);
    }
}

/* A changed word at the far end, which only a search of all words finds. */
static void run_locate(void *arg, uint64_t repeats)
{
    const struct job *job = arg;
    uint64_t word = job->bytes / 4 - 1;
    uint32_t change = 4096;
    uint64_t delta = diverge_checksum_bytes(&change, sizeof(change), word * 4);

    for (uint64_t i = 0; i < repeats; i++) {
        struct diverge_located found[64];
        size_t n = diverge_locate(delta, 0, job->bytes / 4, found, 64);

        if (n < 1 || found[(n < 64 ? n : 64) - 1].word != word)
            abort();
    }
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

/* float16 of a value below 1: too small ones become 0, fractions are cut. */
static uint16_t half_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));

    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;

    return (uint16_t)(magnitude < 113U << 23 ? sign : sign | (magnitude - (112U << 23)) >> 13);
}

/* One element of a float dtype, or of any other as random bits. */
static void make_element(enum diverge_dtype dtype, uint32_t random, uint8_t *at)
{
    float value = ((float)(random >> 8) / (1 << 24) - 0.5F) * 0.08F;
    double wide = value;
    uint16_t half;

    switch ((int)dtype) {
    case DIVERGE_F32:
    case DIVERGE_C64:
        memcpy(at, &value, sizeof(value));
        break;
    case DIVERGE_F64:
    case DIVERGE_C128:
        memcpy(at, &wide, sizeof(wide));
        break;
    case DIVERGE_F16:
        half = half_of(value);
        memcpy(at, &half, sizeof(half));
        break;
    case DIVERGE_BF16:
        memcpy(at, (const uint8_t *)&value + 2, 2);
        break;
    case DIVERGE_BOOL:
        *at = random >> 31;
        break;
    default:
        /* 1 is never a NaN, and no 8-bit float with this bit clear is above 1.875. */
        *at = (uint8_t)(((random >> 24) & 0xbf) == 0x80 ? 1 : (random >> 24) & 0xbf);
    }
}

/* Values as a trained network's: both signs, magnitudes around 0.02, all finite. */
static void fill(uint8_t *data, size_t bytes, enum diverge_dtype dtype)
{
    static const uint8_t steps[DIVERGE_DTYPE_COUNT] = {
        [DIVERGE_F16] = 2, [DIVERGE_BF16] = 2, [DIVERGE_F32] = 4,
        [DIVERGE_F64] = 8, [DIVERGE_C64] = 4,  [DIVERGE_C128] = 8,
    };
    size_t step = steps[dtype] ? steps[dtype] : 1;
    uint64_t state = 1;

    for (size_t i = 0; i < bytes; i += step)
        make_element(dtype, next_random(&state), data + i);
}

/* All of it is computing, on one thread: other programs on the machine need not show. */
static void run_rounds(const struct dvg_bench *bench, struct dvg_bench_case *cases, size_t n_cases)
{
    for (size_t i = 0; i < n_cases; i++)
        cases[i].cpu = true;
    dvg_bench_rounds(bench, cases, n_cases);
}

static double gib_per_second(size_t bytes, double ns)
{
    return (double)bytes / ns * 1e9 / (double)(1024 * MIB);
}

static void report_large(struct dvg_bench *bench, const struct dvg_bench_case *cases)
{
    enum { READ, XXH3, MD5, CHECKSUM, STATS, EVERYTHING, BF16, SCALAR, SEPARATE, N_LARGE };
    double ns[N_LARGE];

    for (int i = 0; i < N_LARGE; i++) {
        char key[DVG_BENCH_KEY_MAX];

        ns[i] = cases[i].median_ns;
        snprintf(key, sizeof(key), "256 MiB: %s", cases[i].name);
        dvg_bench_value(bench, key, gib_per_second(LARGE, ns[i]), "GiB/s");
    }
    dvg_bench_bar(bench, "256 MiB: checksum against XXH3_64", ns[XXH3] / ns[CHECKSUM], "x",
                  DVG_AT_LEAST, 0.85);
    dvg_bench_bar(bench, "256 MiB: checksum against MD5", ns[MD5] / ns[CHECKSUM], "x", DVG_AT_LEAST,
                  15);
    dvg_bench_bar(bench, "256 MiB: checksum + statistics against plain read", ns[READ] / ns[STATS],
                  "x", DVG_AT_LEAST, 0.65);
    dvg_bench_bar(bench, "256 MiB: all three against plain read", ns[READ] / ns[EVERYTHING], "x",
                  DVG_AT_LEAST, 0.55);
    dvg_bench_bar(bench, "256 MiB: all three against MD5", ns[MD5] / ns[EVERYTHING], "x",
                  DVG_AT_LEAST, 12);
    dvg_bench_bar(bench, "256 MiB: all three, bfloat16, against plain read", ns[READ] / ns[BF16],
                  "x", DVG_AT_LEAST, 0.33);
    dvg_bench_bar(bench, "256 MiB: scalar checksum against MD5", ns[MD5] / ns[SCALAR], "x",
                  DVG_AT_LEAST, 4);
    dvg_bench_bar(bench, "256 MiB: all three against four passes and a crc32 of a copy",
                  ns[SEPARATE] / ns[EVERYTHING], "x", DVG_AT_LEAST, 8);
}

static void bench_large(struct dvg_bench *bench, const void *data, const void *halves)
{
    const struct dvg_kernel *best = dvg_kernel_get();
    struct job f32 = {.data = data, .bytes = LARGE, .dtype = DIVERGE_F32};
    struct job checksum = f32;
    struct job stats = f32;
    struct job all = f32;
    struct job bf16 = f32;
    struct job scalar = f32;

    checksum.kernel = stats.kernel = all.kernel = bf16.kernel = best;
    scalar.kernel = &dvg_kernel_scalar;
    stats.what = DIVERGE_WITH_STATISTICS;
    all.what = bf16.what = ALL;
    bf16.dtype = DIVERGE_BF16;
    bf16.data = halves;

    struct dvg_bench_case cases[] = {
        {.name = "plain read", .run = run_read, .arg = &f32, .repeats = 1},
        {.name = "XXH3_64", .run = run_xxh3, .arg = &f32, .repeats = 1},
        {.name = "MD5", .run = run_md5, .arg = &f32, .repeats = 1},
        {.name = "checksum", .run = run_fingerprint, .arg = &checksum, .repeats = 1},
        {.name = "checksum + statistics", .run = run_fingerprint, .arg = &stats, .repeats = 1},
        {.name = "all three", .run = run_fingerprint, .arg = &all, .repeats = 1},
        {.name = "all three, bfloat16", .run = run_fingerprint, .arg = &bf16, .repeats = 1},
        {.name = "scalar checksum", .run = run_fingerprint, .arg = &scalar, .repeats = 1},
        {.name = "four passes and a crc32 of a copy",
         .run = run_separate,
         .arg = &f32,
         .repeats = 1},
    };

    run_rounds(bench, cases, sizeof(cases) / sizeof(cases[0]));
    report_large(bench, cases);
}

static void bench_small(struct dvg_bench *bench, const void *data)
{
    static const struct {
        size_t bytes;
        const char *name;
    } sizes[] = {{KIB, "1 KiB"}, {64 * KIB, "64 KiB"}, {MIB, "1 MiB"}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct job all = {.data = data,
                          .bytes = sizes[i].bytes,
                          .dtype = DIVERGE_F32,
                          .kernel = dvg_kernel_get(),
                          .what = ALL};
        struct job checksum = all;
        char key[DVG_BENCH_KEY_MAX];

        checksum.what = 0;

        struct dvg_bench_case cases[] = {
            {.name = "MD5", .run = run_md5, .arg = &all},
            {.name = "all three", .run = run_fingerprint, .arg = &all},
            {.name = "checksum", .run = run_fingerprint, .arg = &checksum},
        };

        run_rounds(bench, cases, 3);
        for (size_t c = 0; c < 3; c++) {
            snprintf(key, sizeof(key), "%s: %s", sizes[i].name, cases[c].name);
            dvg_bench_value(bench, key, cases[c].median_ns, "ns");
        }
        snprintf(key, sizeof(key), "%s: all three against MD5", sizes[i].name);
        dvg_bench_bar(bench, key, cases[0].median_ns / cases[1].median_ns, "x", DVG_AT_LEAST, 12);
        snprintf(key, sizeof(key), "%s: checksum against MD5", sizes[i].name);
        dvg_bench_bar(bench, key, cases[0].median_ns / cases[2].median_ns, "x", DVG_AT_LEAST, 12);
    }
}

static const struct dvg_kernel *other_kernel(void)
{
#ifdef DVG_BENCH_OTHER
    return dvg_kernel_get() == &dvg_kernel_scalar ? &dvg_kernel_scalar_other
                                                  : &dvg_kernel_avx2_other;
#else
    return NULL;
#endif
}

/* Both compilers' kernels in the same rounds. One must not be much worse than the other. */
static void bench_dtypes(struct dvg_bench *bench, uint8_t *data)
{
    const struct dvg_kernel *other = other_kernel();
    double worst = 1;
    char key[DVG_BENCH_KEY_MAX];

    for (int i = 1; i < DIVERGE_DTYPE_COUNT; i++) {
        enum diverge_dtype dtype = (enum diverge_dtype)i;
        struct job job = {
            .data = data, .bytes = MEDIUM, .dtype = dtype, .kernel = dvg_kernel_get(), .what = ALL};
        struct job again = job;

        again.kernel = other;
        fill(data, MEDIUM, dtype);

        struct dvg_bench_case cases[] = {
            {.name = DVG_BENCH_COMPILER, .run = run_fingerprint, .arg = &job, .repeats = 1},
            {.name = "other", .run = run_fingerprint, .arg = &again, .repeats = 1},
        };

        run_rounds(bench, cases, other ? 2 : 1);
        snprintf(key, sizeof(key), "%s: all three, %s", diverge_dtype_name(dtype),
                 DVG_BENCH_COMPILER);
        dvg_bench_value(bench, key, gib_per_second(MEDIUM, cases[0].median_ns), "GiB/s");
        if (other) {
            double ratio = cases[0].median_ns / cases[1].median_ns;

            snprintf(key, sizeof(key), "%s: all three, %s", diverge_dtype_name(dtype),
                     DVG_BENCH_OTHER_NAME);
            dvg_bench_value(bench, key, gib_per_second(MEDIUM, cases[1].median_ns), "GiB/s");
            ratio = ratio > 1 ? ratio : 1 / ratio;
            worst = ratio > worst ? ratio : worst;
        }
    }
    if (other)
        dvg_bench_bar(bench, "slower compiler against the faster one, worst dtype", worst, "x",
                      DVG_AT_MOST, 2);
}

static void bench_views(struct dvg_bench *bench, const void *data)
{
    static const int64_t strides[] = {1, SIDE};
    static const int64_t wide_strides[] = {1, SIDE / 16};
    struct job transposed = {
        .data = data,
        .bytes = (size_t)SIDE * SIDE * 4,
        .dtype = DIVERGE_F32,
        .kernel = dvg_kernel_get(),
        .what = ALL,
        .strides = strides,
        .sizes = {SIDE, SIDE},
    };
    struct job wide = transposed;

    wide.strides = wide_strides;
    wide.sizes[0] = SIDE / 16;
    wide.sizes[1] = SIDE * 16;

    struct dvg_bench_case cases[] = {
        {.name = "transposed 4096 x 4096",
         .run = run_fingerprint,
         .arg = &transposed,
         .repeats = 1},
        {.name = "transposed 256 x 65536", .run = run_fingerprint, .arg = &wide, .repeats = 1},
    };

    run_rounds(bench, cases, 2);
    for (size_t i = 0; i < 2; i++)
        dvg_bench_value(bench, cases[i].name, gib_per_second(transposed.bytes, cases[i].median_ns),
                        "GiB/s");
}

/* Part of random single-word changes that are among the candidates. */
static double located_part(uint64_t words)
{
    enum { CHANGES = 25, CAPACITY = 64 };
    uint64_t state = 2;
    int named = 0;

    for (int i = 0; i < CHANGES; i++) {
        uint64_t word = ((uint64_t)next_random(&state) << 8) % words;
        uint32_t old = next_random(&state);
        uint32_t new = i % 2 ? old ^ UINT32_C(1) << i : next_random(&state);
        uint64_t delta =
            diverge_checksum_subtract(diverge_checksum_bytes(&new, sizeof(new), word * 4),
                                      diverge_checksum_bytes(&old, sizeof(old), word * 4));
        struct diverge_located found[CAPACITY];
        size_t n = diverge_locate(delta, 0, words, found, CAPACITY);

        for (size_t k = 0; k < n && k < CAPACITY; k++)
            named += found[k].word == word && found[k].change == (int64_t) new - (int64_t)old;
    }
    return (double)named / CHANGES;
}

static void bench_locate(struct dvg_bench *bench)
{
    struct job job = {.bytes = LARGE};
    struct dvg_bench_case cases[] = {
        {.name = "locate", .run = run_locate, .arg = &job, .repeats = 1}};

    run_rounds(bench, cases, 1);
    dvg_bench_bar(bench, "locate in 256 MiB", cases[0].median_ns * 1e-9, "s", DVG_AT_MOST, 1);
    dvg_bench_bar(bench, "locate in 256 MiB: changes among the candidates", located_part(LARGE / 4),
                  "", DVG_AT_LEAST, 1);
}

static void *map(size_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (data == MAP_FAILED) {
        perror("bench_fingerprint: mmap");
        exit(1);
    }
    madvise(data, bytes, MADV_HUGEPAGE);
    memset(data, 1, bytes);
    return data;
}

int main(int argc, char **argv)
{
    static struct dvg_bench bench;

    if (dvg_bench_init(&bench, "fingerprint", argc, argv))
        return 64;

    uint8_t *data = map(LARGE);
    uint8_t *halves = map(LARGE);

    fill(data, LARGE, DIVERGE_F32);
    fill(halves, LARGE, DIVERGE_BF16);
    bench_large(&bench, data, halves);
    bench_small(&bench, data);
    bench_views(&bench, data);
    bench_dtypes(&bench, halves);
    bench_locate(&bench);
    munmap(halves, LARGE);
    munmap(data, LARGE);
    return dvg_bench_finish(&bench);
}
