/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes to and from one peer: a uv_pipe_t, one receive buffer, capped output. Knows nothing of
 * frames. All peers' receive buffers come out of one budget.
 * Loop thread. The owner embeds it; its memory may go only after `closed` was called.
 */
#ifndef DAEMON_NET_TRANSPORT_H
#define DAEMON_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "client/wire/message.h"

struct transport;

/*
 * Memory of receive buffers, but for the first 16 KiB of each. One whose buffer is empty keeps it
 * while half of the budget is free.
 */
struct transport_budget {
    size_t used;
    size_t limit;
};

struct transport_events {
    /* Bytes are there. Returns how many were used from the start, or negative: reading is over. */
    ssize_t (*received)(struct transport *transport, struct dvg_bytes bytes);
    /* The peer is gone (status 0), cannot be talked to any more, or needs more memory for what it
     * says than the budget has (EBUSY). Close it. */
    void (*ended)(struct transport *transport, int status);
    /* Everything that was sent has left. */
    void (*drained)(struct transport *transport);
    void (*closed)(struct transport *transport);
};

struct transport {
    uv_pipe_t pipe;
    const struct transport_events *events; /* borrowed */
    struct transport_budget *budget;       /* borrowed */
    uint8_t *buffer;                       /* owned */
    size_t used;
    size_t capacity;
    size_t output_cap;
    bool reading;
    bool closing;
    bool starved; /* the budget had no more for it */
};

/* Prepares the handle; then transport_accept or transport_adopt. 0 or a DIVERGE_E…. */
int transport_init(struct transport *transport, uv_loop_t *loop,
                   const struct transport_events *events, struct transport_budget *budget,
                   size_t output_cap);
int transport_accept(struct transport *transport, uv_stream_t *listener);
/* Takes the descriptor. */
int transport_adopt(struct transport *transport, int fd);

int transport_read_start(struct transport *transport);
void transport_read_stop(struct transport *transport);

/* Copies what cannot be written at once. ELIMIT: the peer does not read; ENOMEM; ECLOSED. */
int transport_send(struct transport *transport, const void *data, size_t size);
bool transport_has_output(const struct transport *transport);

/* SO_PEERCRED. */
int transport_peer(const struct transport *transport, uint32_t *ret_uid, int32_t *ret_pid);

/* `closed` follows, from the loop. Twice is fine. */
void transport_close(struct transport *transport);

#endif
