/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/buffer.h"

#include <diverge/error.h>

#include "tests/unit/client/wire/cmocka_all.h"

static void growth_stops_at_the_cap(void **state)
{
    (void)state;
    struct dvg_buffer buffer;
    dvg_buffer_init(&buffer, 1000);
    uint8_t bytes[600] = {1};
    assert_int_equal(dvg_buffer_append(&buffer, bytes, 600), 0);
    assert_int_equal(dvg_buffer_append(&buffer, bytes, 401), DIVERGE_ELIMIT);
    assert_int_equal(buffer.size, 600);
    assert_int_equal(dvg_buffer_append(&buffer, bytes, 400), 0);
    assert_int_equal(buffer.size, 1000);
    assert_true(buffer.capacity <= 1000);
    assert_int_equal(dvg_buffer_reserve(&buffer, 1), DIVERGE_ELIMIT);
    dvg_buffer_fini(&buffer);
}

static void sizes_near_the_end_of_memory_do_not_wrap(void **state)
{
    (void)state;
    struct dvg_buffer buffer;
    dvg_buffer_init(&buffer, SIZE_MAX);
    assert_int_equal(dvg_buffer_append(&buffer, "x", 1), 0);
    assert_int_equal(dvg_buffer_reserve(&buffer, SIZE_MAX), DIVERGE_ELIMIT);
    assert_int_equal(buffer.size, 1);
    dvg_buffer_fini(&buffer);
}

static void clear_keeps_the_memory(void **state)
{
    (void)state;
    struct dvg_buffer buffer;
    dvg_buffer_init(&buffer, 4096);
    assert_int_equal(dvg_buffer_append(&buffer, "text", 4), 0);
    const uint8_t *data = buffer.data;
    dvg_buffer_clear(&buffer);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(dvg_buffer_append(&buffer, NULL, 0), 0);
    assert_ptr_equal(buffer.data, data);
    dvg_buffer_fini(&buffer);
    assert_null(buffer.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_stops_at_the_cap),
        cmocka_unit_test(sizes_near_the_end_of_memory_do_not_wrap),
        cmocka_unit_test(clear_keeps_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
