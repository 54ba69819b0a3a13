/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock of one word for data that is nearly always touched by one thread: one atomic exchange to
 * take it, a plain store to release it, which is what a record can afford (a futex's release is a
 * second exchange, another 8 ns). Who finds it taken spins, then yields, then sleeps 50 µs at a
 * time. Not recursive, not fair.
 *
 * Lock order, outermost first: process registry, session->mutex, lane->lock, deferred->lock,
 * define->lock, producers->lock.
 */
#ifndef CLIENT_LIB_LOCK_H
#define CLIENT_LIB_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct dvg_lock {
    _Atomic uint32_t word; /* 0 free, 1 held */
};

void dvg_lock_slow(struct dvg_lock *lock);

static inline void dvg_lock_take(struct dvg_lock *lock)
{
    if (atomic_exchange_explicit(&lock->word, 1, memory_order_acquire))
        dvg_lock_slow(lock);
}

static inline void dvg_lock_release(struct dvg_lock *lock)
{
    atomic_store_explicit(&lock->word, 0, memory_order_release);
}

/* Sleeps while *word is `value`, at most `timeout_ns` (negative: no limit). May wake early. */
void dvg_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);
void dvg_futex_wake(_Atomic uint32_t *word, int count);

uint64_t dvg_now_ns(void); /* CLOCK_MONOTONIC */

#endif
