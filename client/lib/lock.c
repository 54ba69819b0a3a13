/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/lock.h"

#include <linux/futex.h>
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

uint64_t dvg_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
