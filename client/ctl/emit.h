/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one JSON object. It is gathered in memory and printed whole by emit_print, so a command
 * that fails half way prints none. 64-bit integers are exact; numbers that JSON does not have (NaN,
 * Inf) become null; text that is not UTF-8 gets U+FFFD for its bad bytes.
 */
#ifndef CLIENT_CTL_EMIT_H
#define CLIENT_CTL_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct emit {
    char *text; /* owned */
    size_t size;
    FILE *file;
    bool comma; /* the next value needs one before it */
};

/* Begins the object {"schema": "divergectl.<command>/1", … */
void emit_begin(struct emit *emit, const char *command);
/* Ends it and prints it as one line. */
void emit_print(struct emit *emit);
/* Drops it unprinted. */
void emit_fini(struct emit *emit);

/* In objects `key` is the member's name; in arrays it is NULL. */
void emit_object(struct emit *emit, const char *key);
void emit_object_end(struct emit *emit);
void emit_array(struct emit *emit, const char *key);
void emit_array_end(struct emit *emit);
void emit_string(struct emit *emit, const char *key, const char *value); /* NULL: null */
void emit_u64(struct emit *emit, const char *key, uint64_t value);
void emit_i64(struct emit *emit, const char *key, int64_t value);
void emit_number(struct emit *emit, const char *key, double value);
void emit_bool(struct emit *emit, const char *key, bool value);
void emit_null(struct emit *emit, const char *key);

#endif
