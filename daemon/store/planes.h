/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte planes: plane p of a column holds byte p of each item. Like bytes lie together, which is
 * what makes a column of numbers compressible. Pure.
 */
#ifndef DAEMON_STORE_PLANES_H
#define DAEMON_STORE_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* `items` of `width` bytes (1, 4 or 8) to `width` planes of `items` bytes, one after the other. */
void planes_split(const void *items, size_t width, size_t count, uint8_t *planes);
/* The inverse. Neither overlaps. */
void planes_join(const uint8_t *planes, size_t width, size_t count, void *items);

#endif
