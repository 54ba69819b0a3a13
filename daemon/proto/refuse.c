/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/proto/refuse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text that was cut may end within a UTF-8 sequence, which the wire does not take. */
static void trim_sequence(char *text)
{
    size_t size = strlen(text);
    while (size && ((unsigned char)text[size - 1] & 0xc0) == 0x80)
        size--;
    if (size && ((unsigned char)text[size - 1] & 0x80))
        size--;
    text[size] = '\0';
}

int refuse(struct store_error *error, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    if (size >= (int)sizeof(error->text))
        trim_sequence(error->text);
    return status;
}
