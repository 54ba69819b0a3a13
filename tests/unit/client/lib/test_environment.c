/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/lib/environment.h"

/* A command line as it is kept. */
static void assert_kept(const char *const *arguments, const char *expected)
{
    struct dvg_buffer line;
    dvg_buffer_init(&line, 4096);
    int in_secret = 0;
    for (size_t i = 0; arguments[i]; i++) {
        if (i)
            assert_int_equal(dvg_buffer_append(&line, " ", 1), 0);
        assert_int_equal(dvg_argument_redact(&line, arguments[i], &in_secret), 0);
    }
    assert_int_equal(dvg_buffer_append(&line, "", 1), 0);
    assert_string_equal((const char *)line.data, expected);
    dvg_buffer_fini(&line);
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void plain_arguments_stay(void **state)
{
    (void)state;
    assert_kept(ARGUMENTS("train.py", "--lr=0.1", "--steps", "10"), "train.py --lr=0.1 --steps 10");
    assert_kept(ARGUMENTS("a b", "it's", ""), "'a b' 'it'\\''s' ''");
}

static void values_of_secret_options_go(void **state)
{
    (void)state;
    assert_kept(ARGUMENTS("--token=abc", "--lr=1"), "--token=*** --lr=1");
    assert_kept(ARGUMENTS("--api-key", "abc", "x"), "--api-key *** x");
    assert_kept(ARGUMENTS("--WANDB_API_KEY=abc"), "--WANDB_API_KEY=***");
    assert_kept(ARGUMENTS("db_password=x y"), "db_password=***");
    /* An option that takes no value hides nothing of the next one. */
    assert_kept(ARGUMENTS("--use-auth", "--lr=1"), "--use-auth --lr=1");
}

static void credentials_in_urls_go(void **state)
{
    (void)state;
    assert_kept(ARGUMENTS("https://user:pw@host/path?q=1"), "'https://***@host/path?q=1'");
    assert_kept(ARGUMENTS("--db=postgres://me:s@cret@db:5432/x"), "--db=postgres://***@db:5432/x");
    assert_kept(ARGUMENTS("https://host/a@b"), "https://host/a@b");
}

static void metadata_keeps_the_newest_value(void **state)
{
    (void)state;
    struct dvg_metadata_set set = {0};
    struct dvg_buffer json;
    dvg_buffer_init(&json, DVG_METADATA_MAX);
    assert_int_equal(dvg_metadata_put(&set, "a", "1"), 0);
    assert_int_equal(dvg_metadata_put(&set, "a", "2\t\""), 0);
    assert_int_equal(dvg_metadata_put(&set, "", "x"), DIVERGE_EINVAL);
    char key[300];
    memset(key, 'k', sizeof(key));
    key[299] = '\0';
    assert_int_equal(dvg_metadata_put(&set, key, "x"), DIVERGE_EINVAL);
    assert_int_equal(dvg_metadata_json(&set, &json), 0);
    assert_int_equal(dvg_buffer_append(&json, "", 1), 0);
    assert_string_equal((const char *)json.data, "{\"a\":\"2 \\\"\"}");
    dvg_buffer_fini(&json);
    dvg_metadata_clear(&set);
}

static void metadata_has_a_cap(void **state)
{
    (void)state;
    struct dvg_metadata_set set = {0};
    struct dvg_buffer json;
    dvg_buffer_init(&json, DVG_METADATA_MAX);
    char value[4097];
    memset(value, '"', sizeof(value));
    value[4096] = '\0';
    int rc = 0;
    char key[2] = "!";
    for (int i = 0; i < 90 && !rc; i++) {
        rc = dvg_metadata_put(&set, key, value);
        key[0]++;
    }
    assert_int_equal(rc, DIVERGE_ELIMIT);
    /* What was taken always fits into one message. */
    assert_int_equal(dvg_metadata_json(&set, &json), 0);
    dvg_buffer_fini(&json);
    dvg_metadata_clear(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_arguments_stay),   cmocka_unit_test(values_of_secret_options_go),
        cmocka_unit_test(credentials_in_urls_go), cmocka_unit_test(metadata_keeps_the_newest_value),
        cmocka_unit_test(metadata_has_a_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
