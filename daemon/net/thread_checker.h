/* SPDX-License-Identifier: Apache-2.0 */
/* Says, and asserts, which thread an object belongs to. */
#ifndef DAEMON_NET_THREAD_CHECKER_H
#define DAEMON_NET_THREAD_CHECKER_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

struct thread_checker {
    pthread_t thread;
};

/* The calling thread owns it from now on. */
static inline void thread_checker_bind(struct thread_checker *checker)
{
    checker->thread = pthread_self();
}

static inline bool thread_checker_is_owner(const struct thread_checker *checker)
{
    return pthread_equal(checker->thread, pthread_self()) != 0;
}

#define THREAD_CHECK(checker) assert(thread_checker_is_owner(checker))

#endif
