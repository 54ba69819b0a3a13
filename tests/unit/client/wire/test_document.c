/* SPDX-License-Identifier: Apache-2.0 */
/* schema/PROTOCOL.md against the tables of the codec: every field, both ways. */

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/field.h"
#include "client/wire/frame.h"
#include "tests/unit/client/wire/cmocka_all.h"

enum { CELLS = 5, CELL = 64 };

/* What the walk through the document remembers. */
struct walk {
    unsigned types[8]; /* messages of the section that is being read */
    size_t n_types;
    bool in_fields;                               /* behind the heading of a table of fields */
    unsigned seen[DVG_MESSAGE_CONTROL_REPLY + 1]; /* fields documented, per message */
};

/* The first cells of a table's row; false when the line is none. */
static bool read_row(const char *line, char cells[CELLS][CELL])
{
    if (line[0] != '|')
        return false;
    memset(cells, 0, CELLS * CELL);
    for (int i = 0; i < CELLS && *line == '|'; i++) {
        size_t size = strcspn(++line, "|\n");
        size_t skip = strspn(line, " ");
        size_t text = skip < size ? size - skip : 0;
        while (text && line[skip + text - 1] == ' ')
            text--;
        snprintf(cells[i], CELL, "%.*s", (int)text, line + skip);
        line += size;
    }
    return true;
}

/* "### STRINGS (3), SITES (4): ..." */
static void read_heading(struct walk *walk, const char *line)
{
    walk->n_types = 0;
    walk->in_fields = false;
    for (const char *at = line; *at && *at != '\n'; at++) {
        char name[CELL];
        unsigned type;
        if (*at != ' ' || sscanf(at, " %63[A-Z_] (%u)", name, &type) != 2)
            continue;
        assert_non_null(dvg_message_name(type));
        assert_string_equal(name, dvg_message_name(type));
        walk->types[walk->n_types++] = type;
    }
}

static const struct dvg_field *find_field(unsigned type, unsigned id)
{
    const struct dvg_schema *schema = dvg_schema_find(type);
    for (size_t i = 0; i < schema->n_fields; i++) {
        if (schema->fields[i].id == id)
            return &schema->fields[i];
    }
    fail_msg("%s has no field %u", dvg_message_name(type), id);
    return NULL;
}

/* "columns[DVG_COLUMN_VALUE]" is "value" in the document. */
static void document_name(const struct dvg_field *field, char name[CELL])
{
    const char *column = strstr(field->name, "COLUMN_");
    snprintf(name, CELL, "%s", column ? column + strlen("COLUMN_") : field->name);
    name[strcspn(name, "]")] = '\0';
    for (char *at = name; *at; at++)
        *at = (char)tolower((unsigned char)*at);
}

static void check_field(const struct dvg_field *field, char cells[CELLS][CELL])
{
    static const char *const kinds[] = {
        [DVG_FIELD_U8] = "u8",       [DVG_FIELD_U16] = "u16",       [DVG_FIELD_U32] = "u32",
        [DVG_FIELD_I32] = "i32",     [DVG_FIELD_U64] = "u64",       [DVG_FIELD_ID] = "id",
        [DVG_FIELD_TIERS] = "tiers", [DVG_FIELD_STRING] = "string", [DVG_FIELD_TEXT] = "text",
        [DVG_FIELD_BYTES] = "bytes",
    };
    static const char *const presences[] = {
        [DVG_REQUIRED] = "required",
        [DVG_CRITICAL] = "critical",
        [DVG_OPTIONAL] = "optional",
    };
    char name[CELL];
    document_name(field, name);
    assert_string_equal(cells[2], name);
    assert_string_equal(cells[3], presences[field->presence]);
    if (!strstr(field->name, "COLUMN_")) {
        assert_string_equal(cells[1], kinds[field->kind]);
        return;
    }
    static const unsigned widths[] = {
#define X(id, NAME, width) [id] = (width),
        DVG_COLUMNS(X)
#undef X
    };
    assert_int_equal(strtoul(cells[1], NULL, 10), widths[field->id]);
}

static void read_line(struct walk *walk, const char *line)
{
    char cells[CELLS][CELL];
    if (line[0] == '#') {
        read_heading(walk, line);
    } else if (!read_row(line, cells)) {
        walk->in_fields = false;
    } else if (!strcmp(cells[0], "id")) {
        walk->in_fields = walk->n_types > 0;
    } else if (walk->in_fields && isdigit((unsigned char)cells[0][0])) {
        unsigned id = (unsigned)strtoul(cells[0], NULL, 10);
        for (size_t i = 0; i < walk->n_types; i++) {
            check_field(find_field(walk->types[i], id), cells);
            walk->seen[walk->types[i]]++;
        }
    }
}

static void every_field_is_documented_as_it_is(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof(path), "%s/schema/PROTOCOL.md", getenv("DVG_SOURCE_DIR"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    struct walk walk = {0};
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, f) > 0)
        read_line(&walk, line);
    free(line);
    fclose(f);
#define X(number, NAME, name, direction, sequenced)                                                \
    assert_int_equal(walk.seen[number], dvg_schema_find(number)->n_fields);
    DVG_MESSAGES(X)
#undef X
}

static void ids_of_a_table_are_rising_and_few_enough(void **state)
{
    (void)state;
#define X(number, NAME, name, direction, sequenced)                                                \
    do {                                                                                           \
        const struct dvg_schema *schema = dvg_schema_find(number);                                 \
        assert_true(schema->n_fields > 0 && schema->n_fields <= DVG_FIELDS_MAX);                   \
        for (size_t i = 1; i < schema->n_fields; i++)                                              \
            assert_true(schema->fields[i].id > schema->fields[i - 1].id);                          \
    } while (0);
    DVG_MESSAGES(X)
#undef X
    assert_null(dvg_schema_find(0));
    assert_null(dvg_schema_find(DVG_MESSAGE_CONTROL_REPLY + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_documented_as_it_is),
        cmocka_unit_test(ids_of_a_table_are_rising_and_few_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
