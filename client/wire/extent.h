/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WIRE_EXTENT_H
#define CLIENT_WIRE_EXTENT_H

#include <stddef.h>
#include <stdint.h>

/* A packed extent: u64 start, u64 length. */
enum { DVG_EXTENT_SIZE = 16 };

/* No tensor has this many elements, and none ends there. */
#define DVG_ELEMENTS_END (UINT64_C(1) << 60)

/*
 * Whether `n` packed extents cover `total` elements, none empty, none past `end`, none twice: 0,
 * EPROTO, or ELIMIT (more than DVG_LOOSE_EXTENTS_MAX that are not in rising order).
 */
int dvg_extents_check(const uint8_t *extents, size_t n, uint64_t total, uint64_t end);

#endif
