/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock of one word for data that is nearly always touched by one thread: two uncontended atomic
 * operations, a futex when there is contention. Not recursive, not fair.
 *
 * Lock order, outermost first: process registry, session->mutex, lane->lock, deferred->lock,
 * define->lock, producers->lock.
 */
#ifndef CLIENT_LIB_LOCK_H
#define CLIENT_LIB_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct dvg_lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody may sleep */
};

void dvg_lock_slow(struct dvg_lock *lock);
void dvg_unlock_slow(struct dvg_lock *lock);

static inline void dvg_lock_take(struct dvg_lock *lock)
{
    uint32_t free_word = 0;
    if (!atomic_compare_exchange_strong_explicit(&lock->word, &free_word, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        dvg_lock_slow(lock);
}

static inline void dvg_lock_release(struct dvg_lock *lock)
{
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) != 1)
        dvg_unlock_slow(lock);
}

/* Sleeps while *word is `value`, at most `timeout_ns` (negative: no limit). May wake early. */
void dvg_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);
void dvg_futex_wake(_Atomic uint32_t *word, int count);

uint64_t dvg_now_ns(void); /* CLOCK_MONOTONIC */

#endif
