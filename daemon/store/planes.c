/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/planes.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

/*
 * Sixteen items at a time. Seen as bits, a byte's address is (item, byte in item); a plane wants
 * (byte in item, item). Interleaving the two halves of a block rotates that address by one bit, so
 * four rounds split and log2(width) rounds join.
 */
static inline void interleave(__m128i *v, size_t width)
{
    __m128i out[8];
    for (size_t i = 0; i < width / 2; i++) {
        out[2 * i] = _mm_unpacklo_epi8(v[i], v[i + width / 2]);
        out[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + width / 2]);
    }
    for (size_t i = 0; i < width; i++)
        v[i] = out[i];
}

static inline size_t split_blocks(const uint8_t *items, size_t width, size_t count, uint8_t *planes)
{
    size_t done = 0;
    for (; done + 16 <= count; done += 16) {
        __m128i v[8];
        for (size_t i = 0; i < width; i++)
            v[i] = _mm_loadu_si128((const __m128i *)(items + done * width + 16 * i));
        for (int round = 0; round < 4; round++)
            interleave(v, width);
        for (size_t i = 0; i < width; i++)
            _mm_storeu_si128((__m128i *)(planes + i * count + done), v[i]);
    }
    return done;
}

static inline size_t join_blocks(const uint8_t *planes, size_t width, size_t count, uint8_t *items)
{
    size_t done = 0;
    for (; done + 16 <= count; done += 16) {
        __m128i v[8];
        for (size_t i = 0; i < width; i++)
            v[i] = _mm_loadu_si128((const __m128i *)(planes + i * count + done));
        for (size_t bits = width; bits > 1; bits /= 2)
            interleave(v, width);
        for (size_t i = 0; i < width; i++)
            _mm_storeu_si128((__m128i *)(items + done * width + 16 * i), v[i]);
    }
    return done;
}
#else
static inline size_t split_blocks(const uint8_t *items, size_t width, size_t count, uint8_t *planes)
{
    (void)items;
    (void)width;
    (void)count;
    (void)planes;
    return 0;
}

static inline size_t join_blocks(const uint8_t *planes, size_t width, size_t count, uint8_t *items)
{
    (void)items;
    (void)width;
    (void)count;
    (void)planes;
    return 0;
}
#endif

void planes_split(const void *items, size_t width, size_t count, uint8_t *planes)
{
    const uint8_t *from = items;
    if (width == 1) {
        if (count)
            memcpy(planes, from, count);
        return;
    }
    /* The width as a constant lets the compiler unroll. */
    size_t done =
        width == 8 ? split_blocks(from, 8, count, planes) : split_blocks(from, 4, count, planes);
    for (; done < count; done++)
        for (size_t p = 0; p < width; p++)
            planes[p * count + done] = from[done * width + p];
}

void planes_join(const uint8_t *planes, size_t width, size_t count, void *items)
{
    uint8_t *to = items;
    if (width == 1) {
        if (count)
            memcpy(to, planes, count);
        return;
    }
    size_t done =
        width == 8 ? join_blocks(planes, 8, count, to) : join_blocks(planes, 4, count, to);
    for (; done < count; done++)
        for (size_t p = 0; p < width; p++)
            to[done * width + p] = planes[p * count + done];
}
