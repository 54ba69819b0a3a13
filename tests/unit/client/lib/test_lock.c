/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdbool.h>

#include "client/lib/lock.h"

enum { THREADS = 3, ROUNDS = 60, TURNS = 2000 };

static struct fixture {
    pthread_barrier_t barrier;
    struct dvg_lock plain;
    struct dvg_biased_lock biased;
    /* Plain integers: what the lock is there for. */
    uint64_t count;
    bool inside;
    uint64_t overlaps;
} f;

static void *count_plain(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&f.barrier);
    for (int i = 0; i < TURNS; i++) {
        dvg_lock_take(&f.plain);
        f.count++;
        dvg_lock_release(&f.plain);
    }
    return NULL;
}

static void one_thread_at_a_time_has_the_lock(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    f = (struct fixture){0};
    pthread_barrier_init(&f.barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_plain, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&f.barrier);
    assert_int_equal(f.count, THREADS * TURNS);
}

static void enter_biased(void)
{
    dvg_biased_take(&f.biased);
    f.overlaps += f.inside;
    f.inside = true;
    f.count++;
    f.inside = false;
    dvg_biased_release(&f.biased);
}

static void *count_biased(void *arg)
{
    bool owner = arg != NULL;
    /* The owner is in the middle of its turns, on its bias, when the others come. */
    for (int i = 0; owner && i < TURNS / 2; i++)
        enter_biased();
    pthread_barrier_wait(&f.barrier);
    for (int i = 0; i < (owner ? TURNS / 2 : TURNS); i++)
        enter_biased();
    return NULL;
}

static void bias_ends_without_anybody_overlapping(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int round = 0; round < ROUNDS; round++) {
        f = (struct fixture){0};
        dvg_biased_init(&f.biased);
        pthread_barrier_init(&f.barrier, NULL, THREADS);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(
                pthread_create(&threads[i], NULL, count_biased, i ? NULL : &threads[0]), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&f.barrier);
        assert_int_equal(f.count, THREADS * TURNS);
        assert_int_equal(f.overlaps, 0);
        assert_int_equal(f.biased.shared, 1);
    }
}

static void one_thread_keeps_its_bias(void **state)
{
    (void)state;
    f = (struct fixture){0};
    dvg_biased_init(&f.biased);
    uint32_t shared = f.biased.shared; /* 1 where the kernel has no membarrier */
    for (int i = 0; i < 10; i++)
        enter_biased();
    assert_int_equal(f.biased.shared, shared);
    assert_int_equal(f.biased.lock.word, 0);
    assert_int_equal(f.biased.busy, 0);
    assert_int_equal(f.count, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_at_a_time_has_the_lock),
        cmocka_unit_test(bias_ends_without_anybody_overlapping),
        cmocka_unit_test(one_thread_keeps_its_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
