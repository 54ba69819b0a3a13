/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/trace/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <diverge/fingerprint.h>

static const struct {
    const char *name;
    enum diverge_dtype dtype;
} DTYPES[] = {
#define X(number, NAME, name, bytes, class_, components) {#NAME, DIVERGE_##NAME},
    DIVERGE_DTYPES(X)
#undef X
};

static bool is_integer(enum diverge_dtype dtype)
{
    return dtype <= DIVERGE_I64;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static double random_number(uint64_t seed, uint64_t index, bool integer)
{
    uint64_t bits = diverge_mix64(diverge_mix64(seed + 1) + index);
    double unit = (double)(bits >> 11) * 0x1p-53;
    return integer ? floor(unit * 50) : 2 * unit - 1;
}

static uint16_t to_half(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    if (size < 0x1p-14)
        return sign | (uint16_t)nearbyint(size * 0x1p24);
    int exponent;
    double fraction = frexp(size, &exponent);
    return sign | (uint16_t)(((exponent + 14) << 10) + (int)nearbyint((2 * fraction - 1) * 1024));
}

static uint16_t to_bfloat(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    if (isnan(narrow))
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void store(struct value *value, int64_t index, double number)
{
    size_t size = diverge_dtype_size(value->dtype);
    unsigned char *to = value->bytes + (size_t)index * size;
    float single = (float)number;
    int64_t whole = is_integer(value->dtype) ? (int64_t)number : 0;
    uint16_t half = value->dtype == DIVERGE_F16    ? to_half(number)
                    : value->dtype == DIVERGE_BF16 ? to_bfloat(number)
                                                   : 0;
    if (is_integer(value->dtype))
        memcpy(to, &whole, size);
    else if (value->dtype == DIVERGE_F64)
        memcpy(to, &number, size);
    else if (value->dtype == DIVERGE_F32)
        memcpy(to, &single, size);
    else
        memcpy(to, &half, size < sizeof(half) ? size : sizeof(half));
}

/* ---- the text ------------------------------------------------------------------------------- */

static bool parse_type(struct value *value, const char **at)
{
    size_t length = strcspn(*at, "[");
    for (size_t i = 0; i < sizeof(DTYPES) / sizeof(DTYPES[0]); i++)
        if (strlen(DTYPES[i].name) == length && strncasecmp(DTYPES[i].name, *at, length) == 0)
            value->dtype = DTYPES[i].dtype;
    *at += length;
    if (value->dtype == 0 || **at != '[')
        return false;
    value->count = 1;
    for ((*at)++; **at != ']'; *at += **at == ',') {
        char *end;
        if (value->ndim == 8)
            return false;
        value->sizes[value->ndim] = strtoll(*at, &end, 10);
        value->count *= value->sizes[value->ndim++];
        if (end == *at || value->count < 0 || value->count > 1 << 24)
            return false;
        *at = end;
    }
    (*at)++;
    return **at == ':' && (*at)++;
}

/* "{3,1,2}": the number at `index`, taken round; false: the braces do not close. */
static bool listed(const char *braces, int64_t index, double *ret)
{
    double numbers[64];
    int64_t count = 0;
    for (const char *at = braces + 1; *at && *at != '}' && count < 64; at += *at == ',') {
        char *end;
        numbers[count++] = strtod(at, &end);
        if (end == at)
            return false;
        at = end;
    }
    if (count == 0)
        return false;
    *ret = numbers[index % count];
    return true;
}

static bool base_number(const struct value *value, const char *text, int64_t index, double *ret)
{
    bool integer = is_integer(value->dtype);
    if (*text == '=') {
        *ret = strtod(text + 1, NULL);
        return true;
    }
    if (*text == '{')
        return listed(text, index, ret);
    if (strncmp(text, "rows{", 5) == 0) {
        int64_t row = value->count / value->sizes[0];
        double seed;
        if (!listed(text + 4, index / row, &seed))
            return false;
        *ret = random_number((uint64_t)seed, (uint64_t)(index % row), integer);
        return true;
    }
    char *end;
    uint64_t seed = strtoull(text, &end, 10);
    *ret = random_number(seed, (uint64_t)index, integer);
    return end != text;
}

/* A change of numbers, before they are stored. */
static double changed_number(const char *change, int64_t index, double number)
{
    char *end;
    for (; *change == '/'; change += strcspn(change + 1, "/") + 1) {
        if (strncmp(change, "/noise", 6) == 0)
            number *= 1 + strtod(change + 6, NULL) * random_number(99, (uint64_t)index, false);
        else if (change[1] == 'x')
            number *= strtod(change + 2, NULL);
        else if (strncmp(change, "/at", 3) == 0 && strtoll(change + 3, &end, 10) == index)
            number = strtod(end + 1, NULL);
    }
    return number;
}

static void add_one(struct value *value, int64_t index)
{
    unsigned char *at = value->bytes + (size_t)index * diverge_dtype_size(value->dtype);
    *at = (unsigned char)(*at ^ 1); /* one unit in the last place, up or down */
}

/* Changes of bits, afterwards. */
static void change_bits(struct value *value, const char *change)
{
    char *end;
    for (; *change == '/'; change += strcspn(change + 1, "/") + 1) {
        if (strncmp(change, "/ulp", 4) == 0) {
            int64_t index = strtoll(change + 4, &end, 10);
            for (int64_t i = 0; end == change + 4 && i < value->count; i += 3)
                add_one(value, i);
            if (end != change + 4 && index < value->count)
                add_one(value, index);
        } else if (strncmp(change, "/flip", 5) == 0) {
            size_t index = strtoull(change + 5, &end, 10), bit = strtoull(end + 1, NULL, 10);
            size_t byte = index * diverge_dtype_size(value->dtype) + bit / 8;
            value->bytes[byte] = (unsigned char)(value->bytes[byte] ^ 1u << bit % 8);
        }
    }
}

bool value_make(struct value *value, const char *text)
{
    *value = (struct value){0};
    if (!parse_type(value, &text))
        return false;
    size_t size = (size_t)value->count * diverge_dtype_size(value->dtype);
    value->bytes = calloc(1, size + 1);
    if (!value->bytes)
        return false;
    const char *changes = text + strcspn(text, "/");
    for (int64_t i = 0; i < value->count; i++) {
        double number;
        if (!base_number(value, text, i, &number))
            return false;
        store(value, i, changed_number(changes, i, number));
    }
    change_bits(value, changes);
    return true;
}

void value_free(struct value *value)
{
    free(value->bytes);
    value->bytes = NULL;
}
