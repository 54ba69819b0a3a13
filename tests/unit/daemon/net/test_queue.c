/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/queue.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct queue queue;

static int setup(void **state)
{
    (void)state;
    return queue_init(&queue);
}

static int teardown(void **state)
{
    (void)state;
    queue_fini(&queue);
    return 0;
}

static void push(enum batch_kind kind, const char *text)
{
    struct batch *batch = batch_new(kind, NULL, text, strlen(text) + 1);
    assert_non_null(batch);
    queue_push(&queue, batch);
}

static void expect(bool urgent_only, const char *text)
{
    struct batch *batch = queue_pop(&queue, urgent_only, 0);
    if (!text) {
        assert_null(batch);
        return;
    }
    assert_non_null(batch);
    assert_string_equal((const char *)batch->data, text);
    free(batch);
}

/* Whoever asks after a connection has ended finds that it has. */
static void requests_keep_their_place_among_the_others(void **state)
{
    (void)state;
    push(BATCH_FRAMES, "1");
    push(BATCH_CLOSED, "2");
    push(BATCH_CONTROL, "3");
    push(BATCH_CONTROL, "4");
    push(BATCH_FRAMES, "5");
    expect(false, "1");
    push(BATCH_CONTROL, "6");
    push(BATCH_STOP, "7");
    expect(false, "2");
    expect(false, "3");
    expect(false, "4");
    expect(false, "5");
    expect(false, "6");
    expect(false, "7");
    expect(false, NULL);
}

static void pings_pass_the_others(void **state)
{
    (void)state;
    push(BATCH_FRAMES, "1");
    push(BATCH_PING, "a");
    push(BATCH_FRAMES, "2");
    push(BATCH_PING, "b");
    expect(false, "a");
    expect(false, "b");
    expect(false, "1");
    expect(false, "2");
}

static void blocked_line_still_gives_urgent_ones(void **state)
{
    (void)state;
    push(BATCH_FRAMES, "1");
    push(BATCH_CONTROL, "a");
    expect(true, "a");
    expect(true, NULL);
    expect(false, "1");
}

static void pop_ends_at_its_deadline(void **state)
{
    (void)state;
    uint64_t deadline = queue_now_ns() + 1000000;
    assert_null(queue_pop(&queue, false, deadline));
    assert_true(queue_now_ns() >= deadline);
}

static void what_is_left_is_freed(void **state)
{
    (void)state;
    push(BATCH_FRAMES, "1");
    push(BATCH_CONTROL, "a");
}

enum { N_BATCHES = 20000 };

static void *pusher(void *argument)
{
    (void)argument;
    for (uint32_t i = 0; i < N_BATCHES; i++)
        queue_push(&queue, batch_new(BATCH_FRAMES, NULL, &i, sizeof(i)));
    return NULL;
}

static void nothing_is_lost_between_two_threads(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pusher, NULL), 0);
    for (uint32_t i = 0; i < N_BATCHES; i++) {
        struct batch *batch = queue_pop(&queue, false, UINT64_MAX);
        uint32_t number = 0;
        memcpy(&number, batch->data, sizeof(number));
        assert_int_equal(number, i);
        free(batch);
    }
    pthread_join(thread, NULL);
    expect(false, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_keep_their_place_among_the_others),
        TEST(pings_pass_the_others),
        TEST(blocked_line_still_gives_urgent_ones),
        TEST(pop_ends_at_its_deadline),
        TEST(what_is_left_is_freed),
        TEST(nothing_is_lost_between_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
