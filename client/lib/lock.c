/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/lock.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 128, YIELDS = 64 };

void dvg_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000,
                               .tv_nsec = timeout_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
}

void dvg_futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static bool try_take(struct dvg_lock *lock)
{
    return !atomic_load_explicit(&lock->word, memory_order_relaxed) &&
           !atomic_exchange_explicit(&lock->word, 1, memory_order_acquire);
}

/* The holder keeps it for well under a microsecond, unless it waits for room in a ring. */
void dvg_lock_slow(struct dvg_lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (try_take(lock))
            return;
    }
    for (int i = 0; i < YIELDS; i++) {
        sched_yield();
        if (try_take(lock))
            return;
    }
    const struct timespec nap = {.tv_nsec = 50000};
    while (!try_take(lock))
        nanosleep(&nap, NULL);
}

/* ---- biased ---------------------------------------------------------------------------------- */

static pthread_once_t membarrier_once = PTHREAD_ONCE_INIT;
static bool has_membarrier;

static void register_membarrier(void)
{
    has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void dvg_biased_init(struct dvg_biased_lock *lock)
{
    pthread_once(&membarrier_once, register_membarrier);
    *lock = (struct dvg_biased_lock){0};
    atomic_init(&lock->shared, !has_membarrier);
}

/* Under `lock`: from here on nobody has it by bias. */
static void end_bias(struct dvg_biased_lock *lock)
{
    const struct timespec nap = {.tv_nsec = 50000};
    atomic_store(&lock->shared, 1);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    while (atomic_load_explicit(&lock->busy, memory_order_acquire))
        nanosleep(&nap, NULL);
}

void dvg_biased_take_slow(struct dvg_biased_lock *lock, uintptr_t self)
{
    dvg_lock_take(&lock->lock);
    if (atomic_load_explicit(&lock->shared, memory_order_relaxed))
        return;
    if (!atomic_load_explicit(&lock->owner, memory_order_relaxed)) {
        /* The first thread: it goes on by its bias, which whoever ends it will wait for. */
        atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
        atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
        dvg_lock_release(&lock->lock);
        return;
    }
    end_bias(lock);
}

uint64_t dvg_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
