/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a cap given when it is made. The owner calls fini. */
#ifndef CLIENT_WIRE_BUFFER_H
#define CLIENT_WIRE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that belong to somebody else. */
struct dvg_bytes {
    const uint8_t *data;
    size_t size;
};

struct dvg_buffer {
    uint8_t *data; /* owned */
    size_t size;
    size_t capacity;
    size_t cap; /* never grows past this: DIVERGE_ELIMIT */
};

void dvg_buffer_init(struct dvg_buffer *buffer, size_t cap);
void dvg_buffer_fini(struct dvg_buffer *buffer);
void dvg_buffer_clear(struct dvg_buffer *buffer); /* keeps the memory */
/*
 * Makes room for `more` bytes beyond size: 0, ELIMIT or ENOMEM; the buffer is unchanged on failure.
 */
int dvg_buffer_reserve(struct dvg_buffer *buffer, size_t more);
int dvg_buffer_append(struct dvg_buffer *buffer, const void *bytes, size_t size);

/* Unaligned little-endian loads and stores (hosts are little endian, checked at configure time). */
static inline uint16_t dvg_load_u16(const void *p)
{
    uint16_t v;
    __builtin_memcpy(&v, p, 2);
    return v;
}
static inline uint32_t dvg_load_u32(const void *p)
{
    uint32_t v;
    __builtin_memcpy(&v, p, 4);
    return v;
}
static inline uint64_t dvg_load_u64(const void *p)
{
    uint64_t v;
    __builtin_memcpy(&v, p, 8);
    return v;
}
static inline void dvg_store_u16(void *p, uint16_t v)
{
    __builtin_memcpy(p, &v, 2);
}
static inline void dvg_store_u32(void *p, uint32_t v)
{
    __builtin_memcpy(p, &v, 4);
}
static inline void dvg_store_u64(void *p, uint64_t v)
{
    __builtin_memcpy(p, &v, 8);
}

#endif
