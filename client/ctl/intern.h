/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for byte strings: equal bytes, equal number; 1, 2, 3 … in order of first use. */
#ifndef CLIENT_CTL_INTERN_H
#define CLIENT_CTL_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern_entry {
    const uint8_t *bytes; /* kept till exit */
    size_t size;
    uint64_t hash;
    uint32_t number; /* 0: free */
};

struct intern {
    struct intern_entry *entries; /* owned */
    size_t capacity;              /* a power of two, or 0 */
    uint32_t count;
};

/* *ret_new: it was not there before. */
uint32_t intern_number(struct intern *intern, const void *bytes, size_t size, bool *ret_new);
void intern_fini(struct intern *intern);

#endif
