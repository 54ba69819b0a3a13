/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer thread: the only user of the store. Takes batches from the loop, gives them to ingest,
 * commits in groups, and posts replies back: frames to send, how many bytes it is done with, and
 * what happened.
 *
 *   loop:   writer_start … writer_push … writer_take_replies (after each wake) … writer_stop,
 *           writer_join
 *   writer: everything else
 *
 * `wake` is called on the writer's thread when replies wait; wake-ups may coalesce, so all are
 * drained.
 */
#ifndef DAEMON_NET_WRITER_H
#define DAEMON_NET_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/net/config.h"
#include "daemon/net/queue.h"

enum reply_kind {
    REPLY_SEND,   /* data to send (maybe none), credit, and whether to close afterwards */
    REPLY_CLOSED, /* the writer let go of the link */
    REPLY_READY,  /* the store is open */
    REPLY_PONG,
    REPLY_STOP,   /* a control request asks the daemon to end */
    REPLY_FAILED, /* the daemon has to end: status, and the reason as text in data */
    REPLY_DONE,   /* last one: the store is closed; status 0 or what could not be kept */
};

/* Owned by who took it; free(). */
struct reply {
    struct reply *next;
    enum reply_kind kind;
    uint64_t id; /* of the connection */
    size_t credit;
    bool close;
    int status;
    size_t size;
    uint8_t data[];
};

struct writer;

/* Borrows config for its life. 0, ENOMEM or EUNAVAIL (no thread). REPLY_READY or REPLY_FAILED
 * follows. */
int writer_start(const struct config *config, void (*wake)(void *context), void *context,
                 struct writer **ret);

/* Takes the batch. */
void writer_push(struct writer *writer, struct batch *batch);

/* All replies since the last call, oldest first, or NULL. */
struct reply *writer_take_replies(struct writer *writer);

/* A reply could not be made for want of memory: the daemon has to end. */
bool writer_is_broken(const struct writer *writer);

/* How many peers are connected; told in `status`. */
void writer_set_connections(struct writer *writer, uint32_t count);

/* Ends it after what was pushed is committed: REPLY_DONE follows. Takes a BATCH_STOP. */
void writer_stop(struct writer *writer, struct batch *stop);

/* Waits for the thread and frees. NULL is fine. */
void writer_join(struct writer *writer);

#endif
