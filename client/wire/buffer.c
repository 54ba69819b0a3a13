/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/buffer.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

enum { BUFFER_FIRST = 256 };

void dvg_buffer_init(struct dvg_buffer *buffer, size_t cap)
{
    *buffer = (struct dvg_buffer){.cap = cap};
}

void dvg_buffer_fini(struct dvg_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct dvg_buffer){.cap = buffer->cap};
}

void dvg_buffer_clear(struct dvg_buffer *buffer)
{
    buffer->size = 0;
}

int dvg_buffer_reserve(struct dvg_buffer *buffer, size_t more)
{
    if (more > buffer->cap || buffer->size > buffer->cap - more)
        return DIVERGE_ELIMIT;
    size_t need = buffer->size + more;
    if (need <= buffer->capacity)
        return 0;

    size_t capacity = buffer->capacity ? buffer->capacity : BUFFER_FIRST;
    while (capacity < need)
        capacity = capacity > buffer->cap / 2 ? buffer->cap : capacity * 2;
    if (capacity > buffer->cap)
        capacity = buffer->cap;
    uint8_t *data = realloc(buffer->data, capacity);
    if (!data)
        return DIVERGE_ENOMEM;
    buffer->data = data;
    buffer->capacity = capacity;
    return 0;
}

int dvg_buffer_append(struct dvg_buffer *buffer, const void *bytes, size_t size)
{
    int rc = dvg_buffer_reserve(buffer, size);
    if (rc)
        return rc;
    if (size)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    return 0;
}
