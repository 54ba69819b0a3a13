/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random tensors, splits, shards and strides: every way to read a tensor gives one answer.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/lib/fingerprint/element.h"
#include "tests/unit/client/lib/fingerprint/slow.h"

enum {
    ROUNDS = 60,
    ALL = DIVERGE_WITH_STATISTICS | DIVERGE_WITH_SKETCH64,
    MAX_DIMS = 4,
};

static uint8_t *make(uint64_t *state, enum diverge_dtype dtype, uint64_t count, int calm)
{
    size_t bytes = count * diverge_dtype_size(dtype);
    uint8_t *data = malloc(bytes + 1);

    assert_non_null(data);
    random_fill(state, dtype, data, bytes, calm);
    return data;
}

static struct diverge_fingerprint take(const struct dvg_kernel *kernel,
                                       const struct diverge_view *view, unsigned what)
{
    struct diverge_fingerprint ret;

    assert_int_equal(dvg_fingerprint_with(kernel, view, what, &ret), 0);
    return ret;
}

static struct diverge_fingerprint take_flat(const struct dvg_kernel *kernel,
                                            enum diverge_dtype dtype, const uint8_t *data,
                                            uint64_t count, uint64_t start, unsigned what)
{
    int64_t size = (int64_t)count;
    struct diverge_extent extent = {.start = start, .length = count};
    struct diverge_view view = {.data = data,
                                .dtype = dtype,
                                .ndim = 1,
                                .sizes = &size,
                                .extents = &extent,
                                .n_extents = 1};

    return take(kernel, &view, what);
}

static enum diverge_dtype random_dtype(uint64_t *state)
{
    return (enum diverge_dtype)(1 + random_below(state, DIVERGE_DTYPE_COUNT - 1));
}

static void all_kernels_agree_with_the_definition(void **unused)
{
    uint64_t state = 1;
    const struct dvg_kernel *kernel;

    (void)unused;
    for (int round = 0; round < ROUNDS * DIVERGE_DTYPE_COUNT; round++) {
        enum diverge_dtype dtype = (enum diverge_dtype)(1 + round % (DIVERGE_DTYPE_COUNT - 1));
        const struct dvg_dtype *entry = dvg_dtype_get(dtype);
        uint64_t count = random_below(&state, 2500);
        uint64_t start = random_below(&state, 3) ? random_below(&state, 5000) : 0;
        unsigned size = round & 1 ? 64 : 32;
        uint8_t *data = make(&state, dtype, count, round & 2);
        struct slow want = slow_fingerprint(entry->component, data, count * entry->components,
                                            start * entry->components, size);

        for (unsigned i = 0; (kernel = kernel_at(i)); i++) {
            unsigned what = DIVERGE_WITH_STATISTICS |
                            (size == 64 ? DIVERGE_WITH_SKETCH64 : DIVERGE_WITH_SKETCH32);
            struct diverge_fingerprint got = take_flat(kernel, dtype, data, count, start, what);

            assert_true(got.checksum == want.checksum);
            if (dtype == DIVERGE_OPAQUE)
                continue;
            assert_statistics(&got.stats, &want, dtype);
            assert_int_equal(got.sketch_size, size);
            assert_sketch(got.sketch, want.sketch, size);
        }
        free(data);
    }
}

/* Parts of a tensor, cut anywhere, add up to it in any order. */
static void random_splits_add_up(void **unused)
{
    uint64_t state = 2;

    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t size = 1 + random_below(&state, 20000);
        uint64_t offset = random_below(&state, 9000);
        uint8_t *data = make(&state, DIVERGE_OPAQUE, size, 0);
        uint64_t whole = diverge_checksum_bytes(data, size, offset);
        uint64_t sum = 0;

        assert_true(whole == slow_checksum(data, size, offset));
        for (uint64_t at = 0; at < size;) {
            uint64_t part = 1 + random_below(&state, round & 1 ? 9 : 7000);

            part = part < size - at ? part : size - at;
            sum = diverge_checksum_add(diverge_checksum_bytes(data + at, part, offset + at), sum);
            at += part;
        }
        assert_true(sum == whole);
        free(data);
    }
}

/* Dimension 1 of [rows, columns] cut among ranks; each rank's part is contiguous in its memory. */
static void check_shard(const struct dvg_kernel *kernel, enum diverge_dtype dtype,
                        const uint8_t *data, const uint64_t *shape, uint64_t from, uint64_t to,
                        struct diverge_fingerprint *ret)
{
    size_t item = diverge_dtype_size(dtype);
    uint64_t width = to - from;
    int64_t sizes[] = {(int64_t)shape[0], (int64_t)width};
    struct diverge_extent *extents = calloc(shape[0], sizeof(extents[0]));
    uint8_t *local = malloc(shape[0] * width * item + 1);

    assert_non_null(extents);
    assert_non_null(local);
    for (uint64_t row = 0; row < shape[0]; row++) {
        uint64_t start = row * shape[1] + from;

        extents[row] = (struct diverge_extent){.start = start, .length = width};
        memcpy(local + row * width * item, data + start * item, width * item);
    }

    struct diverge_view view = {.data = local,
                                .dtype = dtype,
                                .ndim = 2,
                                .sizes = sizes,
                                .extents = extents,
                                .n_extents = shape[0]};

    *ret = take(kernel, &view, ALL);
    free(local);
    free(extents);
}

static void check_total(const struct diverge_fingerprint *whole, uint64_t checksum,
                        const struct diverge_statistics *stats, const double *sketch, double scale)
{
    assert_true(checksum == whole->checksum);
    assert_int_equal(stats->numel, whole->stats.numel);
    assert_int_equal(stats->nan, whole->stats.nan);
    assert_int_equal(stats->zero, whole->stats.zero);
    for (unsigned i = 0; i < whole->sketch_size; i++)
        assert_true(fabs(sketch[i] - (double)whole->sketch[i]) <= 1e-5 * scale);
}

static void random_shards_add_up(void **unused)
{
    static const enum diverge_dtype dtypes[] = {DIVERGE_F32, DIVERGE_BF16, DIVERGE_F64,
                                                DIVERGE_I8,  DIVERGE_C64,  DIVERGE_F8E4M3FN};
    uint64_t state = 3;

    (void)unused;
    for (int round = 0; round < ROUNDS * 2; round++) {
        enum diverge_dtype dtype = dtypes[random_below(&state, 6)];
        const struct dvg_kernel *kernel =
            kernel_at(round & 1) ? kernel_at(round & 1) : kernel_at(0);
        uint64_t shape[] = {1 + random_below(&state, 40), 1 + random_below(&state, 700)};
        uint8_t *data = make(&state, dtype, shape[0] * shape[1], 1);
        struct diverge_fingerprint whole =
            take_flat(kernel, dtype, data, shape[0] * shape[1], 0, ALL);
        struct diverge_statistics stats = {0};
        double sketch[64] = {0};
        uint64_t checksum = 0;

        for (uint64_t at = 0; at < shape[1];) {
            uint64_t width = 1 + random_below(&state, round & 2 ? 9 : shape[1]);
            struct diverge_fingerprint part;

            width = width < shape[1] - at ? width : shape[1] - at;
            check_shard(kernel, dtype, data, shape, at, at + width, &part);
            checksum = diverge_checksum_add(checksum, part.checksum);
            stats.numel += part.stats.numel;
            stats.nan += part.stats.nan;
            stats.zero += part.stats.zero;
            for (unsigned i = 0; i < 64; i++)
                sketch[i] += (double)part.sketch[i];
            at += width;
        }
        check_total(&whole, checksum, &stats, sketch, whole.stats.l2 + 1);
        free(data);
    }
}

/* A view with random sizes over random strides of a buffer, and the same elements in a row. */
struct strided {
    struct diverge_view view;
    int64_t sizes[MAX_DIMS];
    int64_t strides[MAX_DIMS];
    uint8_t *buffer;
    uint8_t *dense;
    uint64_t count;
};

static void permute(uint64_t *state, int *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)random_below(state, (uint64_t)i + 1);
        int other = order[i];

        order[i] = order[j];
        order[j] = other;
    }
}

/* Lays the dimensions out in a random order, some with gaps, some backwards, some expanded. */
static uint64_t lay_out(struct strided *strided, uint64_t *state, int64_t *origin)
{
    int ndim = strided->view.ndim;
    int order[MAX_DIMS];
    uint64_t span = 1;

    permute(state, order, ndim);
    *origin = 0;
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        uint64_t kind = random_below(state, 8);

        if (kind == 0) {
            strided->strides[d] = 0;
            continue;
        }
        span += kind == 1 ? random_below(state, 5) : 0;
        strided->strides[d] = (int64_t)span;
        span *= (uint64_t)strided->sizes[d];
        if (kind == 2) {
            *origin += strided->strides[d] * (strided->sizes[d] - 1);
            strided->strides[d] = -strided->strides[d];
        }
    }
    return span;
}

static void copy_dense(struct strided *strided, const uint8_t *first)
{
    size_t item = diverge_dtype_size(strided->view.dtype);

    for (uint64_t i = 0; i < strided->count; i++) {
        int64_t at = 0;
        uint64_t rest = i;

        for (int d = strided->view.ndim - 1; d >= 0; d--) {
            at += (int64_t)(rest % (uint64_t)strided->sizes[d]) * strided->strides[d];
            rest /= (uint64_t)strided->sizes[d];
        }
        memcpy(strided->dense + i * item, first + at * (int64_t)item, item);
    }
}

static void make_strided(struct strided *strided, uint64_t *state, enum diverge_dtype dtype,
                         uint64_t largest)
{
    size_t item = diverge_dtype_size(dtype);
    int64_t origin;

    *strided = (struct strided){.view = {.dtype = dtype,
                                         .ndim = (int32_t)random_below(state, MAX_DIMS + 1),
                                         .sizes = strided->sizes,
                                         .strides = strided->strides},
                                .count = 1};
    for (int d = 0; d < strided->view.ndim; d++) {
        uint64_t most = largest / strided->count;

        most = most > 400 ? 400 : most;
        strided->sizes[d] = 1 + (int64_t)random_below(state, most ? most : 1);
        strided->count *= (uint64_t)strided->sizes[d];
    }

    uint64_t span = lay_out(strided, state, &origin);

    strided->buffer = make(state, dtype, span, (int)random_below(state, 2));
    strided->dense = malloc(strided->count * item);
    assert_non_null(strided->dense);
    strided->view.data = strided->buffer + origin * (int64_t)item;
    copy_dense(strided, strided->view.data);
}

static void free_strided(struct strided *strided)
{
    free(strided->buffer);
    free(strided->dense);
}

/* Statistics may sum in other places when a panel is cut: all else is equal to the bit. */
static void assert_nearly_same(const struct diverge_fingerprint *a,
                               const struct diverge_fingerprint *b)
{
    struct diverge_fingerprint copy = *b;

    assert_true(fabs(a->stats.l2 - b->stats.l2) <= 1e-6 * fabs(a->stats.l2));
    copy.stats.l2 = a->stats.l2;
    copy.stats.sum = a->stats.sum;
    assert_same(a, &copy);
}

static void any_strides_give_the_dense_tensor_s_fingerprint(void **unused)
{
    uint64_t state = 4;

    (void)unused;
    for (int round = 0; round < ROUNDS * 10; round++) {
        const struct dvg_kernel *kernel =
            kernel_at(round & 1) ? kernel_at(round & 1) : kernel_at(0);
        struct strided strided;
        struct diverge_fingerprint got;
        struct diverge_fingerprint want;

        make_strided(&strided, &state, random_dtype(&state), round % 8 ? 3000 : 200000);
        got = take(kernel, &strided.view, ALL);
        want = take_flat(kernel, strided.view.dtype, strided.dense, strided.count, 0, ALL);
        assert_nearly_same(&got, &want);
        free_strided(&strided);
    }
}

/* Strides and extents together: random cuts of the dense elements, scattered in the global tensor.
 */
static void strides_and_extents_go_together(void **unused)
{
    uint64_t state = 5;

    (void)unused;
    for (int round = 0; round < ROUNDS * 5; round++) {
        const struct dvg_kernel *kernel =
            kernel_at(round & 1) ? kernel_at(round & 1) : kernel_at(0);
        struct diverge_extent extents[64];
        struct strided strided;
        uint64_t want = 0;
        uint64_t at = 0;
        uint64_t global = 0;
        size_t n = 0;

        make_strided(&strided, &state, random_dtype(&state), 6000);

        size_t item = diverge_dtype_size(strided.view.dtype);

        while (at < strided.count) {
            uint64_t length = random_below(&state, round & 1 ? 40 : 3000);

            if (length > strided.count - at || n == 63)
                length = strided.count - at;
            global += random_below(&state, round & 2 ? 20 : 5000);
            extents[n++] = (struct diverge_extent){.start = global, .length = length};
            want = diverge_checksum_add(
                want, slow_checksum(strided.dense + at * item, length * item, global * item));
            at += length;
            global += length;
        }
        strided.view.extents = extents;
        strided.view.n_extents = n;

        struct diverge_fingerprint got = take(kernel, &strided.view, ALL);
        struct diverge_fingerprint flat =
            take_flat(kernel, strided.view.dtype, strided.dense, strided.count, 0, ALL);

        assert_true(got.checksum == want);
        assert_int_equal(got.stats.numel, flat.stats.numel);
        assert_int_equal(got.stats.zero, flat.stats.zero);
        assert_int_equal(got.stats.nan, flat.stats.nan);
        assert_memory_equal(&got.stats.min, &flat.stats.min, sizeof(got.stats.min));
        assert_memory_equal(&got.stats.max, &flat.stats.max, sizeof(got.stats.max));
        free_strided(&strided);
    }
}

/* Matrices large enough for panels, with rows that end anywhere in a block. */
static void transposed_matrices_go_through_panels(void **unused)
{
    static const int64_t shapes[][2] = {{512, 512}, {1000, 333}, {33, 20000},
                                        {3, 70000}, {77, 1025},  {2048, 40}};
    static const enum diverge_dtype dtypes[] = {DIVERGE_F32, DIVERGE_BF16, DIVERGE_U8, DIVERGE_F64,
                                                DIVERGE_C128};
    uint64_t state = 6;
    const struct dvg_kernel *kernel;

    (void)unused;
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        enum diverge_dtype dtype = dtypes[s % 5];
        struct strided strided = {.view = {.dtype = dtype, .ndim = 2},
                                  .sizes = {shapes[s][0], shapes[s][1]},
                                  .strides = {1, shapes[s][0]}};
        uint64_t count = (uint64_t)(shapes[s][0] * shapes[s][1]);

        strided.count = count;
        strided.view.sizes = strided.sizes;
        strided.view.strides = strided.strides;
        strided.buffer = make(&state, dtype, count, 1);
        strided.dense = malloc(count * diverge_dtype_size(dtype));
        assert_non_null(strided.dense);
        strided.view.data = strided.buffer;
        copy_dense(&strided, strided.buffer);
        for (unsigned i = 0; (kernel = kernel_at(i)); i++) {
            struct diverge_fingerprint got = take(kernel, &strided.view, ALL);
            struct diverge_fingerprint want =
                take_flat(kernel, dtype, strided.dense, count, 0, ALL);

            assert_nearly_same(&got, &want);
        }
        free_strided(&strided);
    }
}

/* One hundredth of noise, and one of them doubled: the sketch tells how far apart. */
static void sketches_estimate_the_distance(void **unused)
{
    enum { COUNT = 100000 };
    uint64_t state = 7;
    float *a = malloc(COUNT * sizeof(a[0]));
    float *b = malloc(COUNT * sizeof(b[0]));
    double difference = 0;

    (void)unused;
    assert_non_null(a);
    assert_non_null(b);
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)random_below(&state, 2000) / 1000 - 1;
        b[i] = a[i] * (1 + ((float)random_below(&state, 2000) / 1000 - 1) / 100);
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }

    const struct dvg_kernel *kernel = dvg_kernel_get();
    struct diverge_fingerprint of_a =
        take_flat(kernel, DIVERGE_F32, (const uint8_t *)a, COUNT, 0, ALL);
    struct diverge_fingerprint of_b =
        take_flat(kernel, DIVERGE_F32, (const uint8_t *)b, COUNT, 0, ALL);
    double truth = sqrt(difference) / of_a.stats.l2;
    double estimate = diverge_sketch_distance(of_a.sketch, of_b.sketch, 64, of_a.stats.l2);

    assert_true(estimate > 0.7 * truth && estimate < 1.3 * truth);
    assert_true(diverge_sketch_distance(of_a.sketch, of_a.sketch, 64, of_a.stats.l2) == 0);
    assert_true(isnan(diverge_sketch_distance(of_a.sketch, of_b.sketch, 64, NAN)));
    assert_true(isnan(diverge_sketch_distance(of_a.sketch, of_b.sketch, 33, 1)));
    assert_true(isnan(diverge_sketch_distance(of_a.sketch, of_b.sketch, 64, 0)));
    free(a);
    free(b);
}

/* bfloat16 values and the same values as float32. */
static void bf16_and_its_upcast_have_one_sketch(void **unused)
{
    enum { COUNT = 5000 };
    uint64_t state = 8;
    uint16_t narrow[COUNT];
    uint32_t wide[COUNT];
    const struct dvg_kernel *kernel;

    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        narrow[i] = (uint16_t)(random_next(&state) & 0xbfff);
        wide[i] = (uint32_t)narrow[i] << 16;
    }
    for (unsigned i = 0; (kernel = kernel_at(i)); i++) {
        struct diverge_fingerprint a =
            take_flat(kernel, DIVERGE_BF16, (const uint8_t *)narrow, COUNT, 0, ALL);
        struct diverge_fingerprint b =
            take_flat(kernel, DIVERGE_F32, (const uint8_t *)wide, COUNT, 0, ALL);

        assert_sketch(a.sketch, b.sketch, 64);
        assert_true(a.checksum != b.checksum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kernels_agree_with_the_definition),
        cmocka_unit_test(random_splits_add_up),
        cmocka_unit_test(random_shards_add_up),
        cmocka_unit_test(any_strides_give_the_dense_tensor_s_fingerprint),
        cmocka_unit_test(strides_and_extents_go_together),
        cmocka_unit_test(transposed_matrices_go_through_panels),
        cmocka_unit_test(sketches_estimate_the_distance),
        cmocka_unit_test(bf16_and_its_upcast_have_one_sketch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
