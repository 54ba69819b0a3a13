/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <diverge/error.h>

struct batch *batch_new(enum batch_kind kind, struct link *link, const void *data, size_t size)
{
    struct batch *batch = malloc(sizeof(*batch) + size);
    if (!batch)
        return NULL;
    *batch = (struct batch){.kind = kind, .link = link, .size = size};
    if (size)
        memcpy(batch->data, data, size);
    return batch;
}

int queue_init(struct queue *queue)
{
    *queue = (struct queue){0};
    queue->end[0] = &queue->first[0];
    queue->end[1] = &queue->first[1];
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes))
        return DIVERGE_ENOMEM;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&queue->filled, &attributes);
    pthread_condattr_destroy(&attributes);
    if (rc)
        return DIVERGE_ENOMEM;
    if (pthread_mutex_init(&queue->mutex, NULL)) {
        pthread_cond_destroy(&queue->filled);
        return DIVERGE_ENOMEM;
    }
    return 0;
}

void queue_fini(struct queue *queue)
{
    for (int line = 0; line < 2; line++) {
        while (queue->first[line]) {
            struct batch *next = queue->first[line]->next;
            free(queue->first[line]);
            queue->first[line] = next;
        }
    }
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->mutex);
}

void queue_push(struct queue *queue, struct batch *batch)
{
    int line = batch->kind == BATCH_CONTROL || batch->kind == BATCH_PING ? 0 : 1;
    batch->next = NULL;
    pthread_mutex_lock(&queue->mutex);
    batch->number = queue->pushed++;
    *queue->end[line] = batch;
    queue->end[line] = &batch->next;
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->mutex);
}

/* The line whose first batch is next. */
static int next_line(const struct queue *queue, bool urgent_only)
{
    const struct batch *urgent = queue->first[0];
    const struct batch *other = queue->first[1];
    if (urgent_only || !other)
        return 0;
    return urgent && (urgent->kind == BATCH_PING || urgent->number < other->number) ? 0 : 1;
}

static struct batch *take(struct queue *queue, bool urgent_only)
{
    int line = next_line(queue, urgent_only);
    struct batch *batch = queue->first[line];
    if (!batch)
        return NULL;
    queue->first[line] = batch->next;
    if (!batch->next)
        queue->end[line] = &queue->first[line];
    batch->next = NULL;
    return batch;
}

struct batch *queue_pop(struct queue *queue, bool urgent_only, uint64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000),
        .tv_nsec = (long)(deadline_ns % 1000000000),
    };
    pthread_mutex_lock(&queue->mutex);
    struct batch *batch = take(queue, urgent_only);
    int rc = 0;
    while (!batch && rc != ETIMEDOUT) {
        if (deadline_ns == UINT64_MAX)
            rc = pthread_cond_wait(&queue->filled, &queue->mutex);
        else
            rc = pthread_cond_timedwait(&queue->filled, &queue->mutex, &deadline);
        batch = take(queue, urgent_only);
    }
    pthread_mutex_unlock(&queue->mutex);
    return batch;
}

uint64_t queue_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
