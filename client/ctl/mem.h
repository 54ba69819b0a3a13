/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one command: everything lives until the program ends, so nothing is freed one by one.
 * Out of memory ends the program (EX_SOFTWARE): a reading command has nothing to save.
 */
#ifndef CLIENT_CTL_MEM_H
#define CLIENT_CTL_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size);                  /* zeroed, aligned for anything */
char *mem_copy(const void *text, size_t size); /* with a NUL added */
char *mem_string(const char *text);
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mem_free_all(void);

#endif
