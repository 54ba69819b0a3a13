/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variants behind dvg_crc32c (frame.h), so that tests can compare them. Inverted state in and
 * out.
 */
#ifndef CLIENT_WIRE_CRC32C_H
#define CLIENT_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t dvg_crc32c_table(uint32_t state, const uint8_t *bytes, size_t size);

#if defined(__x86_64__)
#define DVG_CRC32C_SSE42 1
uint32_t dvg_crc32c_sse42(uint32_t state, const uint8_t *bytes, size_t size);
#endif

#endif
