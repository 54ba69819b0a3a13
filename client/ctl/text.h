/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people: escaping, numbers, wrapping, colour. Strings returned live until the program
 * ends.
 */
#ifndef CLIENT_CTL_TEXT_H
#define CLIENT_CTL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <diverge/types.h>

/* Sets the locale, whether stdout takes colour (`color`: auto, always, never) and the width. */
void text_init(const char *color);
/* Whether the locale shows UTF-8. */
bool text_is_utf8(void);
/* Columns of the terminal; 0: not a terminal, do not wrap. */
int text_width(void);

/*
 * Makes text of a producer harmless: control characters, bytes that are not UTF-8 and characters
 * that reorder a line become \n, \x1b, \u{202e} …; a backslash stays.
 */
const char *text_escape(const char *text);

const char *text_count(uint64_t n);                   /* 1 204 331 */
const char *text_things(uint64_t n, const char *one); /* 1 step, 12 steps */
const char *text_bytes(uint64_t bytes);               /* 1.4 MiB */
const char *text_duration(uint64_t ms);               /* 12 s, 3 min 20 s, 2 h 5 min */
const char *text_time(int64_t unix_us);               /* 2026-03-01 12:25:57, local; "" for 0 */
const char *text_number(double value);                /* 6 digits; nan, inf, -inf */
const char *text_exact(double value);                 /* the shortest that reads back as the same */
const char *text_checksum(uint64_t checksum);         /* 16 hex digits */
const char *text_id(const uint8_t id[16]);            /* 32 hex digits */
const char *text_shape(enum diverge_dtype dtype, int32_t ndim, const int64_t *sizes);
/* "init", "boundary 12", "step 11" of a segment index. */
const char *text_segment(uint64_t segment);
const char *text_phase(enum diverge_phase phase);
const char *text_role(enum diverge_role role);
const char *text_tier(unsigned tier);
/* A min or max from its bits in the dtype's own width. */
double text_value(enum diverge_dtype dtype, uint64_t bits);
bool text_dtype_is_integer(enum diverge_dtype dtype);
/* `count` words as "a", "a or b", "a, b or c". */
const char *text_alternatives(const char *const *words, size_t count);

/*
 * Prints `label` and then `text`, wrapped to `width` (0: not at all), later lines indented by
 * `indent`. Numbers grouped with spaces are not broken. Ends the line.
 */
void text_wrap(FILE *file, const char *label, int indent, const char *text, int width);
/* Columns that a string takes. */
int text_columns(const char *text);

enum text_style { TEXT_PLAIN, TEXT_BOLD, TEXT_GOOD, TEXT_BAD, TEXT_DIM };
/* The escape sequence, or "" without colour. */
const char *text_style(enum text_style style);

/* A whole number from 0 up, and nothing else: 0, or EINVAL or ELIMIT (negative DIVERGE_E…). */
int text_parse_u64(const char *text, uint64_t *ret);

/* Damerau-Levenshtein distance, for "did you mean". */
size_t text_distance(const char *a, const char *b);
/* The nearest of `words` within a third of its length, or NULL. */
const char *text_nearest(const char *word, const char *const *words, size_t count);

#endif
