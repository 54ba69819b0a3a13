/* SPDX-License-Identifier: Apache-2.0 */
/* Rename files of first-diff --map. */
#ifndef CLIENT_CTL_MAP_H
#define CLIENT_CTL_MAP_H

#include <stddef.h>

/*
 * Reads lines "FROM TO" ('#' begins a comment) into pairs that live till exit. Exit status; says
 * which line is wrong.
 */
int map_read(const char *path, const char *const (**ret)[2], size_t *ret_count);

#endif
