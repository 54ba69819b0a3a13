/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/emit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/ctl/text.h"
#include "client/wire/utf8.h"

static void put_plain(FILE *file, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];

        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c < 0x20 || c == 0x7f)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
}

/* Bytes of the valid character at `s`, 0 when there is none. */
static size_t character(const char *s, size_t size)
{
    for (size_t n = 1; n <= 4 && n <= size; n++)
        if (dvg_utf8_is_text((struct dvg_bytes){.data = (const uint8_t *)s, .size = n}))
            return n;
    return 0;
}

static void put_string(FILE *file, const char *text)
{
    size_t size = strlen(text);

    fputc('"', file);
    if (dvg_utf8_is_text((struct dvg_bytes){.data = (const uint8_t *)text, .size = size})) {
        put_plain(file, text, size);
    } else {
        for (size_t i = 0; i < size;) {
            size_t n = character(text + i, size - i);

            if (n)
                put_plain(file, text + i, n);
            else
                fputs("\\ufffd", file);
            i += n ? n : 1;
        }
    }
    fputc('"', file);
}

static void put_key(struct emit *emit, const char *key)
{
    if (emit->comma)
        fputs(", ", emit->file);
    emit->comma = true;
    if (key) {
        put_string(emit->file, key);
        fputs(": ", emit->file);
    }
}

void emit_begin(struct emit *emit, const char *command)
{
    *emit = (struct emit){0};
    emit->file = open_memstream(&emit->text, &emit->size);
    if (!emit->file) {
        fputs("divergectl: out of memory\n", stderr);
        exit(EX_SOFTWARE);
    }
    char schema[64];

    snprintf(schema, sizeof(schema), "divergectl.%s/1", command);
    fputc('{', emit->file);
    emit_string(emit, "schema", schema);
}

void emit_print(struct emit *emit)
{
    fputs("}\n", emit->file);
    if (fflush(emit->file) != 0) {
        fputs("divergectl: out of memory\n", stderr);
        exit(EX_SOFTWARE);
    }
    fwrite(emit->text, 1, emit->size, stdout);
    emit_fini(emit);
}

void emit_fini(struct emit *emit)
{
    if (emit->file)
        fclose(emit->file);
    free(emit->text);
    *emit = (struct emit){0};
}

static void open_with(struct emit *emit, const char *key, char bracket)
{
    put_key(emit, key);
    fputc(bracket, emit->file);
    emit->comma = false;
}

static void close_with(struct emit *emit, char bracket)
{
    fputc(bracket, emit->file);
    emit->comma = true;
}

void emit_object(struct emit *emit, const char *key)
{
    open_with(emit, key, '{');
}

void emit_object_end(struct emit *emit)
{
    close_with(emit, '}');
}

void emit_array(struct emit *emit, const char *key)
{
    open_with(emit, key, '[');
}

void emit_array_end(struct emit *emit)
{
    close_with(emit, ']');
}

void emit_string(struct emit *emit, const char *key, const char *value)
{
    put_key(emit, key);
    if (value)
        put_string(emit->file, value);
    else
        fputs("null", emit->file);
}

void emit_u64(struct emit *emit, const char *key, uint64_t value)
{
    put_key(emit, key);
    fprintf(emit->file, "%" PRIu64, value);
}

void emit_i64(struct emit *emit, const char *key, int64_t value)
{
    put_key(emit, key);
    fprintf(emit->file, "%" PRId64, value);
}

void emit_number(struct emit *emit, const char *key, double value)
{
    put_key(emit, key);
    fputs(isfinite(value) ? text_exact(value) : "null", emit->file);
}

void emit_bool(struct emit *emit, const char *key, bool value)
{
    put_key(emit, key);
    fputs(value ? "true" : "false", emit->file);
}

void emit_null(struct emit *emit, const char *key)
{
    put_key(emit, key);
    fputs("null", emit->file);
}
