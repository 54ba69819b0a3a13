/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane's ring: entries written in place by whoever holds the lane's lock, read by the sender.
 * Positions count bytes since the start and never wrap; an entry is contiguous, a pad fills the end
 * of the memory.
 *
 *     struct dvg_entry *entry = dvg_ring_reserve(ring, size);   // NULL: no room
 *     … fill …
 *     dvg_ring_publish(ring);                                   // now the sender may see it
 */
#ifndef CLIENT_LIB_RING_H
#define CLIENT_LIB_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum dvg_entry_kind {
    DVG_ENTRY_PAD = 0,
    DVG_ENTRY_RECORD = 1,
};

/* One record. What follows it, in this order: u64 nan, pinf, ninf when nonfinite; f32[sketch_size].
 */
struct dvg_entry {
    uint16_t size; /* of the whole entry, a multiple of 8 */
    uint8_t kind;
    uint8_t tier;
    _Atomic uint8_t pending; /* 1: reserved, not complete; the sender stops here */
    uint8_t state;           /* DVG_STATE_* */
    uint8_t nonfinite;       /* 1: there is room for the three counts */
    uint8_t sketch_size;     /* room for that many floats */
    uint32_t site;
    uint32_t type;
    uint32_t order;
    uint32_t producer;
    uint64_t value;
    uint64_t argument;
    float sum;
    float l2;
    uint64_t min;
    uint64_t max;
    uint64_t zero;
};

/* Padded so that writer and sender do not share cache lines. */
struct dvg_ring {   /* NOLINT(clang-analyzer-optin.performance.Padding) */
    uint8_t *data;  /* mmap, owned */
    uint64_t bytes; /* a power of two */
    /* writer's side */
    uint64_t next;      /* head after the reserved entry */
    uint64_t tail_seen; /* a past value of tail */
    uint64_t wake_at;   /* the head at which the sender is told */
    _Alignas(64) _Atomic uint64_t head;
    /* sender's side */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint32_t waiting; /* a writer waits for room */
    _Atomic uint32_t room;    /* futex word of that wait */
};

int dvg_ring_init(struct dvg_ring *ring, size_t bytes);
void dvg_ring_fini(struct dvg_ring *ring);

/* The slow half of reserve: looks at the real tail, pads over the end. */
struct dvg_entry *dvg_ring_reserve_slow(struct dvg_ring *ring, size_t size);

static inline struct dvg_entry *dvg_ring_reserve(struct dvg_ring *ring, size_t size)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t offset = head & (ring->bytes - 1);
    if (ring->bytes - offset < size || head + size - ring->tail_seen > ring->bytes)
        return dvg_ring_reserve_slow(ring, size);
    ring->next = head + size;
    return (struct dvg_entry *)(void *)(ring->data + offset);
}

static inline void dvg_ring_publish(struct dvg_ring *ring)
{
    atomic_store_explicit(&ring->head, ring->next, memory_order_release);
}

static inline uint64_t dvg_ring_head(const struct dvg_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire);
}

static inline struct dvg_entry *dvg_ring_at(const struct dvg_ring *ring, uint64_t position)
{
    return (struct dvg_entry *)(void *)(ring->data + (position & (ring->bytes - 1)));
}

/* Sender: everything before `tail` is free again. Wakes a writer that waits for room. */
void dvg_ring_free_to(struct dvg_ring *ring, uint64_t tail);
/* Writer: sleeps until there is room for `size`, or `timeout_ns` passed; may return early. */
void dvg_ring_wait(struct dvg_ring *ring, size_t size, int64_t timeout_ns);
/* Ends such a wait early (the session stops). */
void dvg_ring_interrupt(struct dvg_ring *ring);

#endif
