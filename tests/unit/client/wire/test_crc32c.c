/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/crc32c.h"

#include "client/wire/frame.h"
#include "tests/unit/client/wire/cmocka_all.h"

/* RFC 3720, appendix B.4. */
static void known_answers_hold(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(dvg_crc32c(0, bytes, 32), 0x8a9136aa);
    for (int i = 0; i < 32; i++)
        bytes[i] = 0xff;
    assert_int_equal(dvg_crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(dvg_crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(dvg_crc32c(0, "123456789", 9), 0xe3069283);
}

static void parts_chain_to_the_whole(void **state)
{
    (void)state;
    const char text[] = "a recording is appended frame by frame";
    uint32_t whole = dvg_crc32c(0, text, sizeof(text));
    for (size_t cut = 0; cut <= sizeof(text); cut++) {
        uint32_t crc = dvg_crc32c(0, text, cut);
        assert_int_equal(dvg_crc32c(crc, text + cut, sizeof(text) - cut), whole);
    }
}

static void the_instruction_agrees_with_the_table(void **state)
{
    (void)state;
#ifdef DVG_CRC32C_SSE42
    if (!__builtin_cpu_supports("sse4.2"))
        skip();
    uint8_t bytes[200];
    uint32_t noise = 1;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        noise = noise * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(noise >> 24);
    }
    for (size_t start = 0; start < 9; start++) {
        for (size_t size = 0; start + size <= sizeof(bytes); size++)
            assert_int_equal(dvg_crc32c_sse42(noise, bytes + start, size),
                             dvg_crc32c_table(noise, bytes + start, size));
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_hold),
        cmocka_unit_test(parts_chain_to_the_whole),
        cmocka_unit_test(the_instruction_agrees_with_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
