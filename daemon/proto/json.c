/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/proto/json.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/utf8.h"

/* ---- before cJSON sees it ---- */

/*
 * Steps over a string that begins at `at` (a quote): the place behind it, or 0 when it is not
 * allowed.
 */
static size_t skip_string(struct dvg_bytes text, size_t at)
{
    for (at++; at < text.size; at++) {
        uint8_t byte = text.data[at];
        if (byte == '"')
            return at + 1;
        if (byte < 0x20)
            return 0;
        if (byte != '\\')
            continue;
        at++;
        if (text.size - at >= 5 && !memcmp(text.data + at, "u0000", 5))
            return 0;
    }
    return 0;
}

/* Depth and strings; that brackets match and all else is cJSON's to find out. */
static int scan(struct dvg_bytes text, const char **ret_why)
{
    int depth = 0;
    size_t at = 0;
    while (at < text.size) {
        uint8_t byte = text.data[at];
        if (byte == '"') {
            at = skip_string(text, at);
            if (!at) {
                *ret_why = "a string is open at the end, or has a control character or NUL";
                return DIVERGE_EPROTO;
            }
            continue;
        }
        if (byte == '{' || byte == '[')
            depth++;
        if (byte == '}' || byte == ']')
            depth--;
        if (depth > JSON_DEPTH_MAX) {
            *ret_why = "nested too deeply";
            return DIVERGE_ELIMIT;
        }
        at++;
    }
    return 0;
}

static bool only_space(struct dvg_bytes text, size_t at)
{
    for (; at < text.size; at++) {
        if (!strchr(" \t\r\n", text.data[at]) || !text.data[at])
            return false;
    }
    return true;
}

/* ---- after it ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_unique(const cJSON *object, const char **ret_why)
{
    size_t n = 0;
    const cJSON *child;
    cJSON_ArrayForEach(child, object) n++;
    if (n < 2)
        return 0;
    const char **names = malloc(n * sizeof(*names));
    if (!names) {
        *ret_why = "out of memory";
        return DIVERGE_ENOMEM;
    }
    size_t at = 0;
    cJSON_ArrayForEach(child, object) names[at++] = child->string;
    qsort(names, n, sizeof(*names), compare_names);
    bool twice = false;
    for (size_t i = 1; i < n; i++)
        twice = twice || !strcmp(names[i - 1], names[i]);
    free(names);
    if (twice)
        *ret_why = "a key occurs twice";
    return twice ? DIVERGE_EPROTO : 0;
}

/* Recursion is bounded by JSON_DEPTH_MAX. */
static int check_tree(const cJSON *item, const char **ret_why)
{
    if (cJSON_IsNumber(item) && !isfinite(item->valuedouble)) {
        *ret_why = "a number is out of range";
        return DIVERGE_EPROTO;
    }
    int rc = cJSON_IsObject(item) ? check_unique(item, ret_why) : 0;
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        if (rc)
            break;
        rc = check_tree(child, ret_why);
    }
    return rc;
}

/* cJSON does not say whether it failed for the text or for want of memory: its allocations do. */
static _Thread_local bool no_memory;
static pthread_once_t hooked = PTHREAD_ONCE_INIT;

static void *watched_malloc(size_t size)
{
    void *memory = malloc(size);
    no_memory = no_memory || !memory;
    return memory;
}

static void set_hooks(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = watched_malloc, .free_fn = free});
}

static int parse(struct dvg_bytes text, cJSON **ret, const char **ret_why)
{
    if (text.size > JSON_SIZE_MAX) {
        *ret_why = "too long";
        return DIVERGE_ELIMIT;
    }
    if (!dvg_utf8_is_text(text)) {
        *ret_why = "not UTF-8, or with NUL";
        return DIVERGE_EPROTO;
    }
    int rc = scan(text, ret_why);
    if (rc)
        return rc;
    const char *end = NULL;
    pthread_once(&hooked, set_hooks);
    no_memory = false;
    cJSON *root = cJSON_ParseWithLengthOpts((const char *)text.data, text.size, &end, false);
    *ret_why = no_memory ? "out of memory" : "not one JSON object";
    if (!root && no_memory)
        return DIVERGE_ENOMEM;
    if (!root)
        return DIVERGE_EPROTO;
    rc = cJSON_IsObject(root) && only_space(text, (size_t)(end - (const char *)text.data))
             ? 0
             : DIVERGE_EPROTO;
    if (!rc)
        rc = check_tree(root, ret_why);
    if (rc) {
        cJSON_Delete(root);
        return rc;
    }
    *ret = root;
    return 0;
}

int json_parse(struct dvg_bytes text, cJSON **ret, const char **ret_why)
{
    const char *why = "";
    int rc = parse(text, ret, &why);
    if (rc && ret_why)
        *ret_why = why;
    return rc;
}

/* ---- members ---- */

const cJSON *json_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

int json_get_string(const cJSON *object, const char *key, const char **ret)
{
    const cJSON *item = json_get(object, key);
    if (!item)
        return DIVERGE_ENOTFOUND;
    if (!cJSON_IsString(item))
        return DIVERGE_EPROTO;
    *ret = item->valuestring;
    return 0;
}

int json_get_bool(const cJSON *object, const char *key, bool *ret)
{
    const cJSON *item = json_get(object, key);
    if (!item)
        return DIVERGE_ENOTFOUND;
    if (!cJSON_IsBool(item))
        return DIVERGE_EPROTO;
    *ret = cJSON_IsTrue(item);
    return 0;
}

/* Decimal digits alone, within 64 bits. */
static int parse_digits(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    if (!*text)
        return DIVERGE_EPROTO;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return DIVERGE_EPROTO;
    }
    *ret = value;
    return 0;
}

int json_get_u64(const cJSON *object, const char *key, uint64_t *ret)
{
    const cJSON *item = json_get(object, key);
    if (!item)
        return DIVERGE_ENOTFOUND;
    if (cJSON_IsString(item))
        return parse_digits(item->valuestring, ret);
    if (!cJSON_IsNumber(item))
        return DIVERGE_EPROTO;
    double value = item->valuedouble;
    if (!(value >= 0 && value <= (double)JSON_EXACT_MAX) || value != floor(value))
        return DIVERGE_EPROTO;
    *ret = (uint64_t)value;
    return 0;
}

static int add(const cJSON *added)
{
    return added ? 0 : DIVERGE_ENOMEM;
}

/* As raw text: cJSON prints numbers with 15 digits where it thinks that is close enough. */
static int add_digits(cJSON *object, const char *key, const char *digits, bool exact)
{
    return exact ? add(cJSON_AddRawToObject(object, key, digits))
                 : json_add_string(object, key, digits);
}

int json_add_u64(cJSON *object, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    return add_digits(object, key, digits, value <= (uint64_t)JSON_EXACT_MAX);
}

int json_add_i64(cJSON *object, const char *key, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRId64, value);
    return add_digits(object, key, digits, value >= -JSON_EXACT_MAX && value <= JSON_EXACT_MAX);
}

int json_add_string(cJSON *object, const char *key, const char *value)
{
    return add(cJSON_AddStringToObject(object, key, value));
}

int json_add_bool(cJSON *object, const char *key, bool value)
{
    return add(cJSON_AddBoolToObject(object, key, value));
}

char *json_text(const cJSON *item)
{
    double value = item->valuedouble;
    if (!cJSON_IsNumber(item) || value != floor(value) || fabs(value) > (double)JSON_EXACT_MAX)
        return cJSON_PrintUnformatted(item);
    char digits[24];
    snprintf(digits, sizeof(digits), "%.0f", value);
    return strdup(digits);
}

int json_print(const cJSON *item, struct dvg_buffer *out)
{
    char *text = cJSON_PrintUnformatted(item);
    if (!text)
        return DIVERGE_ENOMEM;
    int rc = dvg_buffer_append(out, text, strlen(text));
    free(text);
    return rc;
}
