/* SPDX-License-Identifier: Apache-2.0 */
/* A table for people, by libsmartcols: never cut on a pipe, fitted to a terminal. */
#ifndef CLIENT_CTL_TABLE_H
#define CLIENT_CTL_TABLE_H

#include <stdbool.h>

struct libscols_table;
struct libscols_line;

struct table {
    struct libscols_table *table; /* owned */
    struct libscols_line *line;
    unsigned columns;
    unsigned at;
};

enum { TABLE_LEFT = 0, TABLE_RIGHT = 1, TABLE_SHRINKS = 2 };

void table_begin(struct table *table);
void table_column(struct table *table, const char *title, int flags);
void table_row(struct table *table);
void table_cell(struct table *table, const char *text); /* copied; "" for nothing */
/* Prints it, with a heading line, and frees it. */
void table_print(struct table *table);

#endif
