/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/ring.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include <diverge/error.h>

#include "client/lib/lock.h"

enum { RING_MIN = 16 * 1024, POPULATE_MAX = 16 * 1024 * 1024 };

int dvg_ring_init(struct dvg_ring *ring, size_t bytes)
{
    size_t size = RING_MIN;
    while (size < bytes && size <= SIZE_MAX / 4)
        size *= 2;
    memset(ring, 0, sizeof(*ring));
    /* Pages are made now: a first fault in the middle of a step would be the training's to pay. */
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (size <= POPULATE_MAX ? MAP_POPULATE : 0);
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (data == MAP_FAILED)
        return DIVERGE_ENOMEM;
    ring->data = data;
    ring->bytes = size;
    return 0;
}

void dvg_ring_fini(struct dvg_ring *ring)
{
    if (ring->data)
        munmap(ring->data, ring->bytes);
    ring->data = NULL;
}

/* Bytes that an entry of `size` takes at `head`, with the pad before it. */
static uint64_t span(const struct dvg_ring *ring, uint64_t head, size_t size)
{
    uint64_t left = ring->bytes - (head & (ring->bytes - 1));
    return left < size ? left + size : size;
}

struct dvg_entry *dvg_ring_reserve_slow(struct dvg_ring *ring, size_t size)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t need = span(ring, head, size);
    if (head + need - ring->tail_seen > ring->bytes) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head + need - ring->tail_seen > ring->bytes)
            return NULL;
    }
    if (need > size) {
        struct dvg_entry *pad = dvg_ring_at(ring, head);
        pad->size = (uint16_t)(need - size);
        pad->kind = DVG_ENTRY_PAD;
    }
    ring->next = head + need;
    return dvg_ring_at(ring, head + need - size);
}

void dvg_ring_free_to(struct dvg_ring *ring, uint64_t tail)
{
    /* Sequentially consistent with dvg_ring_wait: either it sees the tail or we see it waiting. */
    atomic_store(&ring->tail, tail);
    if (atomic_load(&ring->waiting))
        dvg_ring_interrupt(ring);
}

void dvg_ring_interrupt(struct dvg_ring *ring)
{
    atomic_fetch_add(&ring->room, 1);
    dvg_futex_wake(&ring->room, INT_MAX);
}

void dvg_ring_wait(struct dvg_ring *ring, size_t size, int64_t timeout_ns)
{
    uint32_t room = atomic_load(&ring->room);
    atomic_store(&ring->waiting, 1);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head + span(ring, head, size) - atomic_load(&ring->tail) > ring->bytes)
        dvg_futex_wait(&ring->room, room, timeout_ns);
    atomic_store(&ring->waiting, 0);
}
