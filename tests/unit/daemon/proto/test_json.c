/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/proto/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "tests/support/fault.h"

static int parse_bytes(const void *bytes, size_t size, cJSON **ret)
{
    /* Of its own size exactly: cJSON must not need a NUL. */
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    const char *why = NULL;
    int rc = json_parse((struct dvg_bytes){.data = copy, .size = size}, ret, &why);
    if (rc && rc != DIVERGE_ENOMEM)
        assert_true(why && why[0]);
    free(copy);
    return rc;
}

static int parse(const char *text, cJSON **ret)
{
    return parse_bytes(text, strlen(text), ret);
}

static void one_object_is_parsed(void **state)
{
    (void)state;
    cJSON *json;
    assert_int_equal(parse(" {\"a\": 1, \"b\": [true, null, {\"a\": \"\\u00e4\"}]} \r\n", &json),
                     0);
    cJSON_Delete(json);
    assert_int_equal(parse("{}", &json), 0);
    cJSON_Delete(json);
}

static void all_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "[]",
        "1",
        "\"text\"",
        "null",
        "{",
        "{\"a\":1",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1}}",
        "{\"a\":1} {\"b\":2}",
        "{\"a\":1} x",
        "{\"a\":1},",
        "{\"a\":tru}",
        "{\"a\":1e999}",
        "{\"a\":-1e999}",
        "{\"a\":\"open",
        "{\"a\":\"\\u0000\"}",
        "{\"a\\u0000b\":1}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\x01\"}",
        "{\"a\":\"line\nbreak\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc0\xaf\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cJSON *json = NULL;
        if (parse(bad[i], &json) != DIVERGE_EPROTO)
            fail_msg("taken: %s", bad[i]);
        assert_null(json);
    }
    cJSON *json;
    assert_int_equal(parse_bytes("{\"a\":1}\0", 8, &json), DIVERGE_EPROTO);
    assert_int_equal(parse_bytes("{\"a\0\":1}", 8, &json), DIVERGE_EPROTO);
}

static void keys_that_occur_twice_are_refused(void **state)
{
    (void)state;
    cJSON *json;
    assert_int_equal(parse("{\"a\":1,\"b\":2,\"a\":3}", &json), DIVERGE_EPROTO);
    assert_int_equal(parse("{\"x\":[{\"a\":1,\"a\":1}]}", &json), DIVERGE_EPROTO);
    assert_int_equal(parse("{\"a\":1,\"\\u0061\":2}", &json), DIVERGE_EPROTO);
    assert_int_equal(parse("{\"a\":1,\"A\":2,\"x\":{\"a\":1}}", &json), 0);
    cJSON_Delete(json);
}

static void depth_and_size_are_capped(void **state)
{
    (void)state;
    char text[2 * JSON_DEPTH_MAX + 16];
    cJSON *json;
    for (int depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX; depth++) {
        char *at = text + sprintf(text, "{\"a\":");
        memset(at, '[', (size_t)depth);
        memset(at + depth, ']', (size_t)depth);
        strcpy(at + 2 * depth, "}");
        int rc = parse(text, &json);
        assert_int_equal(rc, depth < JSON_DEPTH_MAX ? 0 : DIVERGE_ELIMIT);
        if (!rc)
            cJSON_Delete(json);
    }
    /* Brackets within strings do not nest. */
    assert_int_equal(parse("{\"a\":\"[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[\"}", &json), 0);
    cJSON_Delete(json);
    char *big = malloc(JSON_SIZE_MAX + 1);
    memset(big, ' ', JSON_SIZE_MAX + 1);
    big[0] = '{';
    big[1] = '}';
    assert_int_equal(parse_bytes(big, JSON_SIZE_MAX, &json), 0);
    cJSON_Delete(json);
    assert_int_equal(parse_bytes(big, JSON_SIZE_MAX + 1, &json), DIVERGE_ELIMIT);
    free(big);
}

static void many_keys_do_not_take_long(void **state)
{
    (void)state;
    enum { KEYS = 60000 };
    char *text = malloc(KEYS * 16 + 2);
    size_t size = 0;
    for (int i = 0; i < KEYS; i++)
        size += (size_t)sprintf(text + size, "%c\"k%d\":%d", i ? ',' : '{', i, i % 10);
    text[size++] = '}';
    cJSON *json;
    assert_int_equal(parse_bytes(text, size, &json), 0);
    cJSON_Delete(json);
    free(text);
}

static void members_are_found_by_their_exact_name_and_type(void **state)
{
    (void)state;
    cJSON *json;
    assert_int_equal(parse("{\"Run\":1,\"name\":\"x\",\"force\":true,\"list\":[]}", &json), 0);
    uint64_t number = 99;
    bool flag = false;
    const char *text = NULL;
    assert_int_equal(json_get_u64(json, "run", &number), DIVERGE_ENOTFOUND);
    assert_int_equal(number, 99);
    assert_int_equal(json_get_u64(json, "Run", &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(json_get_u64(json, "list", &number), DIVERGE_EPROTO);
    assert_int_equal(json_get_string(json, "name", &text), 0);
    assert_string_equal(text, "x");
    assert_int_equal(json_get_string(json, "Run", &text), DIVERGE_EPROTO);
    assert_int_equal(json_get_bool(json, "force", &flag), 0);
    assert_true(flag);
    assert_int_equal(json_get_bool(json, "name", &flag), DIVERGE_EPROTO);
    cJSON_Delete(json);
}

static void numbers_that_are_no_exact_u64_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"n\":-1}",       "{\"n\":1.5}",
        "{\"n\":\"\"}",     "{\"n\":9007199254740994}",
        "{\"n\":\"-1\"}",   "{\"n\":\"18446744073709551616\"}",
        "{\"n\":\"1e3\"}",  "{\"n\":\" 1\"}",
        "{\"n\":\"0x10\"}", "{\"n\":null}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cJSON *json;
        uint64_t number;
        assert_int_equal(parse(bad[i], &json), 0);
        assert_int_equal(json_get_u64(json, "n", &number), DIVERGE_EPROTO);
        cJSON_Delete(json);
    }
}

static void integers_of_64_bits_round_trip(void **state)
{
    (void)state;
    static const uint64_t values[] = {
        0, 1, UINT64_C(1) << 53, (UINT64_C(1) << 53) + 1, UINT64_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        cJSON *object = cJSON_CreateObject();
        assert_int_equal(json_add_u64(object, "n", values[i]), 0);
        struct dvg_buffer text;
        dvg_buffer_init(&text, 1000);
        assert_int_equal(json_print(object, &text), 0);
        cJSON_Delete(object);
        cJSON *back;
        assert_int_equal(parse_bytes(text.data, text.size, &back), 0);
        uint64_t number = 0;
        assert_int_equal(json_get_u64(back, "n", &number), 0);
        assert_true(number == values[i]);
        cJSON_Delete(back);
        dvg_buffer_fini(&text);
    }
    cJSON *exact;
    assert_int_equal(parse("{\"n\":9007199254740991}", &exact), 0);
    char *digits = json_text(json_get(exact, "n"));
    assert_string_equal(digits, "9007199254740991");
    free(digits);
    cJSON_Delete(exact);
    cJSON *object = cJSON_CreateObject();
    assert_int_equal(json_add_i64(object, "n", INT64_MIN), 0);
    assert_string_equal(json_get(object, "n")->valuestring, "-9223372036854775808");
    cJSON_Delete(object);
}

static void printing_stops_at_the_cap(void **state)
{
    (void)state;
    cJSON *object = cJSON_CreateObject();
    assert_int_equal(json_add_string(object, "text", "0123456789"), 0);
    assert_int_equal(json_add_bool(object, "flag", false), 0);
    struct dvg_buffer text;
    dvg_buffer_init(&text, 8);
    assert_int_equal(json_print(object, &text), DIVERGE_ELIMIT);
    assert_int_equal(text.size, 0);
    dvg_buffer_fini(&text);
    cJSON_Delete(object);
}

/* Or a daemon short of memory would refuse for good what it could take a moment later. */
static void want_of_memory_is_no_malformed_text(void **state)
{
    (void)state;
    struct dvg_fault_sweep sweep = {.kind = DVG_FAULT_ALLOC, .error = ENOMEM};
    static const char text[] = "{\"a\": [1, \"b\", {\"c\": null}], \"d\": \"e\"}";
    const struct dvg_bytes bytes = {.data = (const uint8_t *)text, .size = sizeof(text) - 1};
    while (dvg_fault_sweep_next(&sweep)) {
        cJSON *json = NULL;
        const char *why = NULL;
        int rc = json_parse(bytes, &json, &why);
        dvg_fault_disarm();
        assert_int_equal(rc, dvg_fault_fired() ? DIVERGE_ENOMEM : 0);
        if (rc)
            assert_string_equal(why, "out of memory");
        cJSON_Delete(json);
    }
    assert_true(sweep.rounds > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_object_is_parsed),
        cmocka_unit_test(all_else_is_refused),
        cmocka_unit_test(keys_that_occur_twice_are_refused),
        cmocka_unit_test(depth_and_size_are_capped),
        cmocka_unit_test(many_keys_do_not_take_long),
        cmocka_unit_test(members_are_found_by_their_exact_name_and_type),
        cmocka_unit_test(numbers_that_are_no_exact_u64_are_refused),
        cmocka_unit_test(integers_of_64_bits_round_trip),
        cmocka_unit_test(printing_stops_at_the_cap),
        cmocka_unit_test(want_of_memory_is_no_malformed_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
