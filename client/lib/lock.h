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

#include <pthread.h>
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

/*
 * The same for a lane, biased to the first thread that takes it: while no other comes, taking and
 * releasing are plain stores and loads, with no atomic exchange (8 ns each, five of them in an op
 * with three records). The first thread that is not the owner ends the bias for good, and all take
 * `lock` from then on.
 *
 * The owner stores `busy` and then loads `shared`; the other stores `shared` and then loads `busy`.
 * One of them must see the other, which takes a full barrier on both sides: the other one pays for
 * both with membarrier(2). Where that is missing, locks are made shared.
 */
struct dvg_biased_lock {
    _Atomic uintptr_t owner; /* a thread, 0: none yet */
    _Atomic uint32_t busy;   /* the owner has it, by its bias */
    _Atomic uint32_t shared; /* the bias is over */
    struct dvg_lock lock;
};

void dvg_biased_init(struct dvg_biased_lock *lock);
void dvg_biased_take_slow(struct dvg_biased_lock *lock, uintptr_t self);

static inline void dvg_biased_take(struct dvg_biased_lock *lock)
{
    uintptr_t self = (uintptr_t)pthread_self();
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self) {
        atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        if (!atomic_load_explicit(&lock->shared, memory_order_acquire))
            return;
        atomic_store_explicit(&lock->busy, 0, memory_order_release);
    }
    dvg_biased_take_slow(lock, self);
}

static inline void dvg_biased_release(struct dvg_biased_lock *lock)
{
    /* Nobody but the owner, who is here then, sets `busy`. */
    if (atomic_load_explicit(&lock->busy, memory_order_relaxed) &&
        atomic_load_explicit(&lock->owner, memory_order_relaxed) == (uintptr_t)pthread_self())
        atomic_store_explicit(&lock->busy, 0, memory_order_release);
    else
        dvg_lock_release(&lock->lock);
}

/* Sleeps while *word is `value`, at most `timeout_ns` (negative: no limit). May wake early. */
void dvg_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);
void dvg_futex_wake(_Atomic uint32_t *word, int count);

uint64_t dvg_now_ns(void); /* CLOCK_MONOTONIC */

#endif
