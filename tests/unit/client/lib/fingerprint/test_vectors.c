/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel against the reference's vectors, tests/data/fingerprint. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "client/lib/fingerprint/element.h"
#include "client/lib/fingerprint/keys.h"
#include "tests/unit/client/lib/fingerprint/slow.h"

enum {
    WORDS = 5000,
    FLOATS = 3000,
};

static uint32_t words[WORDS];
static float floats[FLOATS];
static double odd[] = {0.0, -0.0, 1.5, NAN, INFINITY, -INFINITY, 1e300, -1e300, 5e-324, 1e-30};

static cJSON *load(const char *name)
{
    const char *folder = getenv("DVG_TEST_DATA");
    char path[4096];
    long size;

    assert_non_null(folder);
    snprintf(path, sizeof(path), "%s/fingerprint/%s", folder, name);

    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size > 0);
    rewind(file);

    char *text = calloc(1, (size_t)size + 1);

    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);

    cJSON *json = cJSON_Parse(text);

    free(text);
    assert_non_null(json);
    return json;
}

static const cJSON *get(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    if (!item)
        fail_msg("the vectors have no \"%s\"", key);
    return item;
}

static const char *get_text(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(get(json, key));

    assert_non_null(text);
    return text;
}

static uint64_t get_hex(const cJSON *json, const char *key)
{
    return strtoull(get_text(json, key), NULL, 16);
}

static uint64_t get_count(const cJSON *json, const char *key)
{
    return (uint64_t)cJSON_GetNumberValue(get(json, key));
}

static struct diverge_fingerprint fingerprint(const struct dvg_kernel *kernel,
                                              enum diverge_dtype dtype, const void *data,
                                              int64_t count, uint64_t start, unsigned what)
{
    struct diverge_extent extent = {.start = start, .length = (uint64_t)count};
    struct diverge_view view = {.data = data,
                                .dtype = dtype,
                                .ndim = 1,
                                .sizes = &count,
                                .extents = &extent,
                                .n_extents = 1};
    struct diverge_fingerprint ret;

    assert_int_equal(dvg_fingerprint_with(kernel, &view, what, &ret), 0);
    return ret;
}

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i * UINT32_C(2654435761);
    for (int i = 0; i < FLOATS; i++)
        floats[i] = (float)(i * 37 % 1001 - 500) / 64;
    return 0;
}

static void keys_are_the_reference_s(void **state)
{
    cJSON *json = load("vectors.json");
    const char *signs = get_text(json, "U0..31");

    (void)state;
    for (int r = 0; r < 4; r++) {
        assert_int_equal(dvg_key_low[r],
                         (uint32_t)cJSON_GetArrayItem(get(json, "KL"), r)->valueint);
        assert_int_equal(dvg_key_high[r],
                         (uint32_t)cJSON_GetArrayItem(get(json, "KH"), r)->valueint);
    }
    for (int r = 0; r < 32; r++)
        assert_int_equal(dvg_sign[r] >> 31, signs[r] - '0');
    for (uint64_t b = 0; b < 3; b++) {
        char text[32];

        snprintf(text, sizeof(text), "%llu", (unsigned long long)dvg_block_key(b));
        assert_string_equal(text, get_text(get(json, "S"), (const char *[]){"0", "1", "2"}[b]));
        snprintf(text, sizeof(text), "%016llx", (unsigned long long)dvg_counter(DVG_SEED_V, b));
        assert_string_equal(text, cJSON_GetArrayItem(get(json, "V"), (int)b)->valuestring);
    }
    assert_int_equal(dvg_block_key(UINT64_C(1) << 40),
                     strtoull(get_text(get(json, "S"), "1099511627776"), NULL, 10));
    cJSON_Delete(json);
}

static void checksums_are_the_reference_s(void **state)
{
    cJSON *json = load("vectors.json");
    const cJSON *want = get(json, "checksum");
    const uint8_t *bytes = (const uint8_t *)words;
    const struct dvg_kernel *kernel;

    (void)state;
    for (unsigned i = 0; (kernel = kernel_at(i)); i++) {
#define CHECK(KEY, DATA, SIZE, OFFSET)                                                             \
    assert_true(dvg_checksum_with(kernel, DATA, SIZE, OFFSET) == get_hex(want, KEY))
        CHECK("words[0:0]", bytes, 0, 0);
        CHECK("words[0:7]", bytes, 7, 0);
        CHECK("words[0:4096]", bytes, 4096, 0);
        CHECK("words[0:20000]", bytes, 20000, 0);
        CHECK("words[0:12001] at byte offset 8", bytes, 12001, 8);
        CHECK("words[5:38] at byte offset 4095", bytes + 5, 33, 4095);
        CHECK("words[4:20] at byte offset 2^42", bytes + 4, 16, UINT64_C(1) << 42);
        CHECK("floats", floats, sizeof(floats), 0);
        CHECK("odd as f64", odd, sizeof(odd), 0);
    }
    assert_true(diverge_mix64(diverge_checksum_bytes(words, sizeof(words), 0)) ==
                get_hex(json, "mix64(checksum words[0:20000])"));
    cJSON_Delete(json);
}

static void check_sketch_array(const float *got, const cJSON *want, unsigned size)
{
    assert_int_equal(cJSON_GetArraySize(want), (int)size);
    for (unsigned i = 0; i < size; i++)
        assert_true(got[i] == (float)cJSON_GetArrayItem(want, (int)i)->valuedouble);
}

static void sketches_are_the_reference_s(void **state)
{
    cJSON *json = load("vectors.json");
    const struct dvg_kernel *kernel;

    (void)state;
    for (unsigned i = 0; (kernel = kernel_at(i)); i++) {
        struct diverge_fingerprint print =
            fingerprint(kernel, DIVERGE_F32, floats, FLOATS, 0, DIVERGE_WITH_SKETCH64);

        check_sketch_array(print.sketch, get(json, "sketch64 floats"), 64);
        print = fingerprint(kernel, DIVERGE_F32, floats, FLOATS, 0, DIVERGE_WITH_SKETCH32);
        check_sketch_array(print.sketch, get(json, "sketch32 floats"), 32);
        print = fingerprint(kernel, DIVERGE_F32, floats, 1000, 700, DIVERGE_WITH_SKETCH64);
        check_sketch_array(print.sketch, get(json, "sketch64 floats[0:1000] at element 700"), 64);
        print = fingerprint(kernel, DIVERGE_F64, odd, 10, 0, DIVERGE_WITH_SKETCH64);
        check_sketch_array(print.sketch, get(json, "sketch64 odd"), 64);
    }
    cJSON_Delete(json);
}

static void check_counts(const struct diverge_statistics *got, const cJSON *want)
{
    assert_int_equal(got->numel, get_count(want, "numel"));
    assert_int_equal(got->nan, get_count(want, "nan"));
    assert_int_equal(got->pinf, get_count(want, "pinf"));
    assert_int_equal(got->ninf, get_count(want, "ninf"));
    assert_int_equal(got->zero, get_count(want, "zero"));
}

static void statistics_are_the_reference_s(void **state)
{
    cJSON *json = load("vectors.json");
    const struct dvg_kernel *kernel;

    (void)state;
    for (unsigned i = 0; (kernel = kernel_at(i)); i++) {
        const cJSON *want = get(json, "statistics floats");
        struct diverge_fingerprint print =
            fingerprint(kernel, DIVERGE_F32, floats, FLOATS, 0, DIVERGE_WITH_STATISTICS);

        check_counts(&print.stats, want);
        assert_true(print.stats.min.f == cJSON_GetNumberValue(get(want, "min")));
        assert_true(print.stats.max.f == cJSON_GetNumberValue(get(want, "max")));
        assert_true(fabs(print.stats.sum - cJSON_GetNumberValue(get(want, "sum"))) < 1e-2);
        assert_true(fabs(print.stats.l2 / cJSON_GetNumberValue(get(want, "l2")) - 1) < 1e-6);

        want = get(json, "statistics odd");
        print = fingerprint(kernel, DIVERGE_F64, odd, 10, 0, DIVERGE_WITH_STATISTICS);
        check_counts(&print.stats, want);
        assert_true(print.stats.min.f == -1e300);
        assert_true(print.stats.max.f == 1e300);
        assert_true(print.stats.sum == cJSON_GetNumberValue(get(want, "sum")));
        assert_true(fabs(print.stats.l2 / cJSON_GetNumberValue(get(want, "l2")) - 1) < 1e-15);
    }
    cJSON_Delete(json);
}

/* As make_data in reference.py. */
static uint8_t *make_data(const cJSON *vector, enum diverge_dtype dtype)
{
    size_t size = get_count(vector, "count") * diverge_dtype_size(dtype);
    size_t width = diverge_dtype_size(dvg_dtype_get(dtype)->component);
    uint8_t *data = malloc(size + 1);

    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)dvg_mix64(i + 1);
    for (size_t top = width - 1; cJSON_IsTrue(get(vector, "calm")) && top < size; top += width)
        data[top] &= 0xbf;
    return data;
}

/* The reference's min or max is text, as exact as Python prints it. */
static void check_value(union diverge_value got, const cJSON *want, enum diverge_dtype dtype)
{
    const char *text = cJSON_GetStringValue(want);

    assert_non_null(text);
    switch (dvg_dtype_get(dtype)->class_) {
    case DVG_CLASS_U:
        assert_true(got.u == strtoull(text, NULL, 10));
        break;
    case DVG_CLASS_B:
    case DVG_CLASS_I:
        assert_true(got.i == strtoll(text, NULL, 10));
        break;
    case DVG_CLASS_F:
    case DVG_CLASS_C:
        assert_true(got.f == strtod(text, NULL));
        break;
    case DVG_CLASS_O:
    case DVG_CLASS_NONE:
        fail_msg("%s has no values", diverge_dtype_name(dtype));
    }
}

static void check_statistics(const struct diverge_statistics *got, const cJSON *want,
                             enum diverge_dtype dtype)
{
    bool ranged = !cJSON_IsNull(get(want, "min"));

    check_counts(got, want);
    assert_int_equal(!!(got->valid & DIVERGE_STAT_RANGE), ranged);
    if (ranged) {
        check_value(got->min, get(want, "min"), dtype);
        check_value(got->max, get(want, "max"), dtype);
    }
    if (cJSON_IsNumber(get(want, "sum")) && cJSON_IsNumber(get(want, "l1"))) {
        double l1 = cJSON_GetNumberValue(get(want, "l1"));

        assert_true(got->valid & DIVERGE_STAT_SUM);
        assert_true(fabs(got->sum - cJSON_GetNumberValue(get(want, "sum"))) <= 1e-6 * l1);
    }
    if (cJSON_IsNumber(get(want, "l2"))) {
        double l2 = cJSON_GetNumberValue(get(want, "l2"));

        assert_true(got->valid & DIVERGE_STAT_L2);
        assert_true(fabs(got->l2 - l2) <= 1e-6 * l2);
    } else {
        assert_false(got->valid & DIVERGE_STAT_L2);
    }
}

static void check_sketch_hex(const struct diverge_fingerprint *got, const char *hex)
{
    float want[DIVERGE_SKETCH_MAX];

    assert_int_equal(strlen(hex), 8 * got->sketch_size);
    for (unsigned i = 0; i < got->sketch_size; i++) {
        char digits[9] = {0};

        memcpy(digits, hex + 8 * i, 8);

        uint32_t bits = __builtin_bswap32((uint32_t)strtoul(digits, NULL, 16));

        memcpy(&want[i], &bits, sizeof(bits));
    }
    assert_sketch(got->sketch, want, got->sketch_size);
}

static void check_vector(const struct dvg_kernel *kernel, const cJSON *vector)
{
    enum diverge_dtype dtype = diverge_dtype_find(get_text(vector, "dtype"));
    uint8_t *data = make_data(vector, dtype);
    int64_t count = (int64_t)get_count(vector, "count");
    uint64_t start = get_count(vector, "start");
    unsigned what = DIVERGE_WITH_STATISTICS | DIVERGE_WITH_SKETCH64;
    struct diverge_fingerprint print = fingerprint(kernel, dtype, data, count, start, what);

    assert_true(print.checksum == get_hex(vector, "checksum"));
    if (dtype == DIVERGE_OPAQUE) {
        assert_int_equal(print.stats.valid, 0);
        assert_int_equal(print.sketch_size, 0);
    } else {
        check_statistics(&print.stats, get(vector, "statistics"), dtype);
        check_sketch_hex(&print, get_text(vector, "sketch64"));
        print = fingerprint(kernel, dtype, data, count, start, DIVERGE_WITH_SKETCH32);
        assert_int_equal(print.stats.valid, 0);
        check_sketch_hex(&print, get_text(vector, "sketch32"));
    }
    free(data);
}

static void every_dtype_agrees_with_the_reference(void **state)
{
    cJSON *json = load("dtypes.json");
    const struct dvg_kernel *kernel;
    const cJSON *vector;
    unsigned seen = 0;

    (void)state;
    for (unsigned i = 0; (kernel = kernel_at(i)); i++) {
        cJSON_ArrayForEach(vector, get(json, "vectors"))
        {
            check_vector(kernel, vector);
            seen |= 1U << diverge_dtype_find(get_text(vector, "dtype"));
        }
    }
    assert_int_equal(seen, (1U << DIVERGE_DTYPE_COUNT) - 2);
    cJSON_Delete(json);
}

static void every_8_bit_float_has_the_reference_s_value(void **state)
{
    cJSON *json = load("dtypes.json");
    const cJSON *list;

    (void)state;
    cJSON_ArrayForEach(list, get(json, "float8"))
    {
        enum diverge_dtype dtype = diverge_dtype_find(list->string);

        assert_int_equal(cJSON_GetArraySize(list), 256);
        for (int i = 0; i < 256; i++) {
            uint8_t byte = (uint8_t)i;
            double want = strtod(cJSON_GetArrayItem(list, i)->valuestring, NULL);
            double got = dvg_element(dtype, &byte, 0);

            assert_true(got == want || (isnan(got) && isnan(want)));
        }
    }
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_the_reference_s),
        cmocka_unit_test(checksums_are_the_reference_s),
        cmocka_unit_test(sketches_are_the_reference_s),
        cmocka_unit_test(statistics_are_the_reference_s),
        cmocka_unit_test(every_dtype_agrees_with_the_reference),
        cmocka_unit_test(every_8_bit_float_has_the_reference_s_value),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
