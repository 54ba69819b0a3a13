/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/emit.h"
#include "client/ctl/mem.h"

/* What was written so far, closed into an object. */
static const char *text_of(struct emit *emit)
{
    fputc('}', emit->file);
    fflush(emit->file);
    const char *copy = mem_string(emit->text);

    emit_fini(emit);
    return copy;
}

static void object_names_its_schema(void **state)
{
    struct emit emit;

    (void)state;
    emit_begin(&emit, "runs");
    assert_string_equal(text_of(&emit), "{\"schema\": \"divergectl.runs/1\"}");
}

static void numbers_json_does_not_have_become_null(void **state)
{
    struct emit emit;

    (void)state;
    emit_begin(&emit, "x");
    emit_number(&emit, "nan", NAN);
    emit_number(&emit, "inf", INFINITY);
    emit_number(&emit, "minus", -INFINITY);
    emit_number(&emit, "half", 0.5);
    assert_string_equal(text_of(&emit), "{\"schema\": \"divergectl.x/1\", \"nan\": null, "
                                        "\"inf\": null, \"minus\": null, \"half\": 0.5}");
}

static void integers_are_exact(void **state)
{
    struct emit emit;

    (void)state;
    emit_begin(&emit, "x");
    emit_u64(&emit, "u", UINT64_MAX);
    emit_i64(&emit, "i", INT64_MIN);
    const char *text = text_of(&emit);

    assert_non_null(strstr(text, "\"u\": 18446744073709551615"));
    assert_non_null(strstr(text, "\"i\": -9223372036854775808"));
}

static void strings_are_escaped(void **state)
{
    struct emit emit;

    (void)state;
    emit_begin(&emit, "x");
    emit_string(&emit, "s",
                "a\"b\\c\nd\x1b"
                "e\x7f");
    emit_string(&emit, "bad", "x\xffy\xe2\x82");
    emit_string(&emit, "utf8", "größe");
    emit_string(&emit, "none", NULL);
    const char *text = text_of(&emit);

    assert_non_null(strstr(text, "\"s\": \"a\\\"b\\\\c\\nd\\u001be\\u007f\""));
    assert_non_null(strstr(text, "\"bad\": \"x\\ufffdy\\ufffd\\ufffd\""));
    assert_non_null(strstr(text, "\"utf8\": \"größe\""));
    assert_non_null(strstr(text, "\"none\": null"));
}

static void nesting_parses(void **state)
{
    struct emit emit;

    (void)state;
    emit_begin(&emit, "x");
    emit_array(&emit, "empty");
    emit_array_end(&emit);
    emit_array(&emit, "two");
    emit_object(&emit, NULL);
    emit_bool(&emit, "a", true);
    emit_null(&emit, "b");
    emit_object_end(&emit);
    emit_string(&emit, NULL, "second");
    emit_array_end(&emit);
    emit_bool(&emit, "after", false);
    cJSON *parsed = cJSON_Parse(text_of(&emit));

    assert_non_null(parsed);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(parsed, "two")), 2);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(parsed, "after")));
    cJSON_Delete(parsed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(object_names_its_schema),
        cmocka_unit_test(numbers_json_does_not_have_become_null),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(nesting_parses),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    mem_free_all();
    return failed;
}
