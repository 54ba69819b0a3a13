/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 64 };

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

/* The holder keeps the lock for well under a microsecond, so a short spin mostly saves the sleep. */
void dvg_lock_slow(struct dvg_lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        uint32_t free_word = 0;
        if (atomic_compare_exchange_weak_explicit(&lock->word, &free_word, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
    }
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        dvg_futex_wait(&lock->word, 2, -1);
}

void dvg_unlock_slow(struct dvg_lock *lock)
{
    dvg_futex_wake(&lock->word, 1);
}

uint64_t dvg_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
