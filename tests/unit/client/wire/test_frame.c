/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/frame.h"

#include <string.h>

#include <diverge/error.h>

#include "tests/unit/client/wire/cmocka_all.h"

/* An ACK frame to take apart. */
static size_t make_frame(uint8_t bytes[256])
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, 256);
    assert_int_equal(dvg_ack_encode(&out, &(struct dvg_ack){.committed_seq = 9}), 0);
    size_t size = out.size;
    memcpy(bytes, out.data, size);
    dvg_buffer_fini(&out);
    return size;
}

static int decode(const uint8_t *bytes, size_t size, size_t max)
{
    struct dvg_frame frame;
    size_t whole = 0;
    return dvg_frame_decode((struct dvg_bytes){bytes, size}, max, &frame, &whole);
}

static void frame_is_found_once_it_is_whole(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t size = make_frame(bytes);
    struct dvg_frame frame;
    size_t need;
    for (size_t have = 0; have < size; have++) {
        assert_int_equal(
            dvg_frame_decode((struct dvg_bytes){bytes, have}, DVG_FRAME_MAX, &frame, &need), 0);
        assert_int_equal(need, have < DVG_FRAME_HEADER ? DVG_FRAME_HEADER : size);
    }
    assert_int_equal(
        dvg_frame_decode((struct dvg_bytes){bytes, size + 5}, DVG_FRAME_MAX, &frame, &need), 1);
    assert_int_equal(need, size);
    assert_int_equal(frame.type, DVG_MESSAGE_ACK);
    assert_int_equal(frame.payload.size, size - DVG_FRAME_HEADER);
    assert_ptr_equal(frame.payload.data, bytes + DVG_FRAME_HEADER);
}

static void wrong_magic_is_refused_at_its_first_byte(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t size = make_frame(bytes);
    for (size_t at = 0; at < 4; at++) {
        bytes[at] ^= 0x20;
        assert_int_equal(decode(bytes, size, DVG_FRAME_MAX), DIVERGE_EPROTO);
        assert_int_equal(decode(bytes, at + 1, DVG_FRAME_MAX), DIVERGE_EPROTO);
        bytes[at] ^= 0x20;
    }
    assert_int_equal(decode((const uint8_t *)"GET / HTTP/1.1\r\n", 16, DVG_FRAME_MAX),
                     DIVERGE_EPROTO);
}

static void unknown_flags_and_reserved_bytes_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t size = make_frame(bytes);
    bytes[6] = 2;
    assert_int_equal(decode(bytes, size, DVG_FRAME_MAX), DIVERGE_EPROTO);
    bytes[6] = 0;
    bytes[12] = 1; /* a CRC that is not announced */
    assert_int_equal(decode(bytes, size, DVG_FRAME_MAX), DIVERGE_EPROTO);
    bytes[12] = 0;
    bytes[31] = 1;
    assert_int_equal(decode(bytes, size, DVG_FRAME_MAX), DIVERGE_EPROTO);
}

static void oversize_payload_is_refused_by_its_header_alone(void **state)
{
    (void)state;
    uint8_t bytes[256];
    make_frame(bytes);
    dvg_store_u32(bytes + 8, DVG_HELLO_MAX + 1);
    assert_int_equal(decode(bytes, DVG_FRAME_HEADER, DVG_HELLO_MAX), DIVERGE_ELIMIT);
    assert_int_equal(decode(bytes, DVG_FRAME_HEADER, DVG_FRAME_MAX), 0);
    dvg_store_u32(bytes + 8, UINT32_MAX);
    assert_int_equal(decode(bytes, DVG_FRAME_HEADER, DVG_FRAME_MAX), DIVERGE_ELIMIT);
}

static void any_changed_bit_fails_the_crc(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t size = make_frame(bytes);
    dvg_frame_set_seq(bytes, 77);
    dvg_frame_set_crc(bytes, size);
    assert_int_equal(decode(bytes, size, DVG_FRAME_MAX), 1);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << (bit % 8));
        assert_int_not_equal(decode(bytes, size, DVG_FRAME_MAX), 1);
        bytes[bit / 8] ^= (uint8_t)(1 << (bit % 8));
    }
}

static void a_new_sequence_number_takes_the_crc_off(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t size = make_frame(bytes);
    dvg_frame_set_crc(bytes, size);
    dvg_frame_set_seq(bytes, 78);
    struct dvg_frame frame;
    size_t whole;
    assert_int_equal(
        dvg_frame_decode((struct dvg_bytes){bytes, size}, DVG_FRAME_MAX, &frame, &whole), 1);
    assert_int_equal(frame.seq, 78);
    assert_int_equal(frame.flags, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_is_found_once_it_is_whole),
        cmocka_unit_test(wrong_magic_is_refused_at_its_first_byte),
        cmocka_unit_test(unknown_flags_and_reserved_bytes_are_refused),
        cmocka_unit_test(oversize_payload_is_refused_by_its_header_alone),
        cmocka_unit_test(any_changed_bit_fails_the_crc),
        cmocka_unit_test(a_new_sequence_number_takes_the_crc_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
