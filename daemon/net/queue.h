/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop thread → writer thread: batches of frames and requests, in order of arrival: what a control
 * request reads or changes is behind all that came before it, a connection's end too. Two lines, so
 * that a full disk, which blocks that of the frames, can be helped by a request; pings pass
 * everything.
 *
 * The bound is kept by the loop (server.c counts what is out and stops reading), so a push never
 * blocks.
 */
#ifndef DAEMON_NET_QUEUE_H
#define DAEMON_NET_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One connection, as both threads know it. Made and freed by the loop, after the writer let go of
 * it. */
struct link {
    uint64_t id; /* never reused; constant like the next two */
    uint32_t uid;
    int32_t pid;
    void *owner;  /* loop thread: its struct conn */
    bool refused; /* writer thread: an ERROR was sent, what still comes is ignored */
};

enum batch_kind {
    BATCH_FRAMES,  /* whole frames of one connection */
    BATCH_CONTROL, /* one CONTROL_REQUEST frame; in the urgent line */
    BATCH_CLOSED,  /* the connection is gone: the writer answers by letting go of the link */
    BATCH_SCAN,    /* spool files may have come */
    BATCH_PING,    /* is the writer alive; in the urgent line */
    BATCH_STOP,    /* nothing comes after it */
};

/* The loop's until pushed, then the writer's. */
struct batch {
    struct batch *next;
    uint64_t number; /* of arrival, by queue_push */
    enum batch_kind kind;
    struct link *link;
    size_t size;
    size_t taken; /* bytes of frames the writer is done with */
    uint8_t data[];
};

/* A copy of `data` (NULL with size 0 is fine), or NULL: out of memory. */
struct batch *batch_new(enum batch_kind kind, struct link *link, const void *data, size_t size);

struct queue {
    pthread_mutex_t mutex; /* leaf: nothing else is locked under it */
    pthread_cond_t filled;
    uint64_t pushed;        /* batches so far */
    struct batch *first[2]; /* [0] urgent */
    struct batch **end[2];
};

/* 0 or ENOMEM. */
int queue_init(struct queue *queue);
/* Frees what is left in it. */
void queue_fini(struct queue *queue);

/* Takes the batch. Loop thread. */
void queue_push(struct queue *queue, struct batch *batch);

/*
 * Waits for the next batch until `deadline_ns` of CLOCK_MONOTONIC (UINT64_MAX: for ever). NULL: the
 * time is over.
 * urgent_only leaves the other line alone. Writer thread; the batch is the caller's.
 */
struct batch *queue_pop(struct queue *queue, bool urgent_only, uint64_t deadline_ns);

uint64_t queue_now_ns(void);

#endif
