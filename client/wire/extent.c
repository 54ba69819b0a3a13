/* SPDX-License-Identifier: Apache-2.0 */

#include "client/wire/extent.h"

#include <stdbool.h>

#include <diverge/error.h>

#include "client/wire/buffer.h"
#include "client/wire/message.h"

static uint64_t start_of(const uint8_t *extents, size_t i)
{
    return dvg_load_u64(extents + DVG_EXTENT_SIZE * i);
}

static uint64_t length_of(const uint8_t *extents, size_t i)
{
    return dvg_load_u64(extents + DVG_EXTENT_SIZE * i + 8);
}

/*
 * Checks each by itself and their sum; *ret_rising: no extent begins before the one ahead of it
 * ends.
 */
static int check_each(const uint8_t *extents, size_t n, uint64_t total, uint64_t end,
                      bool *ret_rising)
{
    uint64_t sum = 0;
    uint64_t last = 0;
    bool rising = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t start = start_of(extents, i);
        uint64_t length = length_of(extents, i);
        if (!length || length > end || start > end - length)
            return DIVERGE_EPROTO;
        rising = rising && start >= last;
        last = start + length;
        sum += length;
        if (sum > total)
            return DIVERGE_EPROTO;
    }
    *ret_rising = rising;
    return sum == total ? 0 : DIVERGE_EPROTO;
}

static void sift_down(const uint8_t *extents, uint16_t *heap, size_t root, size_t n)
{
    uint16_t moved = heap[root];
    for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
        if (child + 1 < n && start_of(extents, heap[child]) < start_of(extents, heap[child + 1]))
            child++;
        if (start_of(extents, heap[child]) <= start_of(extents, moved))
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = moved;
}

/* Heap sort: no allocation, and no input that makes it slow. */
static void sort_by_start(const uint8_t *extents, uint16_t *index, size_t n)
{
    for (size_t i = 0; i < n; i++)
        index[i] = (uint16_t)i;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(extents, index, i, n);
    for (size_t left = n; left-- > 1;) {
        uint16_t largest = index[0];
        index[0] = index[left];
        index[left] = largest;
        sift_down(extents, index, 0, left);
    }
}

int dvg_extents_check(const uint8_t *extents, size_t n, uint64_t total, uint64_t end)
{
    bool rising;
    int rc = check_each(extents, n, total, end, &rising);
    if (rc || rising)
        return rc;
    if (n > DVG_LOOSE_EXTENTS_MAX)
        return DIVERGE_ELIMIT;
    uint16_t index[DVG_LOOSE_EXTENTS_MAX];
    sort_by_start(extents, index, n);
    for (size_t i = 1; i < n; i++) {
        size_t before = index[i - 1];
        if (start_of(extents, index[i]) - start_of(extents, before) < length_of(extents, before))
            return DIVERGE_EPROTO;
    }
    return 0;
}
