/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/table.h"

#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "client/ctl/text.h"

static void must(bool good)
{
    if (good)
        return;
    fputs("divergectl: out of memory\n", stderr);
    exit(EX_SOFTWARE);
}

void table_begin(struct table *table)
{
    *table = (struct table){.table = scols_new_table()};
    must(table->table != NULL);
    int width = text_width();

    scols_table_enable_colors(table->table, *text_style(TEXT_BOLD) != '\0');
    scols_table_set_column_separator(table->table, "  ");
    if (width) {
        scols_table_set_termforce(table->table, SCOLS_TERMFORCE_ALWAYS);
        scols_table_set_termwidth(table->table, (size_t)width);
    } else {
        scols_table_set_termforce(table->table, SCOLS_TERMFORCE_NEVER);
    }
}

void table_column(struct table *table, const char *title, int flags)
{
    int scols =
        (flags & TABLE_RIGHT ? SCOLS_FL_RIGHT : 0) | (flags & TABLE_SHRINKS ? SCOLS_FL_TRUNC : 0);

    must(scols_table_new_column(table->table, title, 1, scols) != NULL);
    table->columns++;
}

void table_row(struct table *table)
{
    table->line = scols_table_new_line(table->table, NULL);
    must(table->line != NULL);
    table->at = 0;
}

void table_cell(struct table *table, const char *text)
{
    must(scols_line_set_data(table->line, table->at++, text) == 0);
}

void table_print(struct table *table)
{
    scols_print_table(table->table);
    scols_unref_table(table->table);
    *table = (struct table){0};
}
