/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/utf8.h"

#include <string.h>

#include "tests/unit/client/wire/cmocka_all.h"

static bool is_text(const char *bytes)
{
    return dvg_utf8_is_text((struct dvg_bytes){(const uint8_t *)bytes, strlen(bytes)});
}

static void text_of_every_length_passes(void **state)
{
    (void)state;
    assert_true(is_text(""));
    assert_true(is_text("encoder.layer.3.attention"));
    assert_true(is_text("schr\xc3\xb6"
                        "dinger \xe2\x82\xac \xf0\x9f\x90\x88"));
    assert_true(is_text("\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf"));
    assert_true(is_text("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
    assert_true(is_text("control \x01 \x1b[31m \x7f characters are for who shows them"));
}

static void what_is_not_utf8_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",     /* a tail alone */
        "\xc0\xaf", /* overlong slash */
        "\xc1\xbf",
        "\xe0\x9f\xbf",
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xed\xbf\xbf",
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xfe",
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x90", /* cut */
        "\xe2\x28\xa1",
        "12345678\x80",
        "1234567\xc3",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(is_text(bad[i]));
}

static void nul_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    for (size_t at = 0; at < 20; at++) {
        uint8_t bytes[20];
        memset(bytes, 'a', sizeof(bytes));
        bytes[at] = 0;
        assert_false(dvg_utf8_is_text((struct dvg_bytes){bytes, sizeof(bytes)}));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_every_length_passes),
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(nul_is_refused_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
