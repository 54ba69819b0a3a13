/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames into a real ingest over a real store. The first byte says what happens between: bit 0
 * commits at the end, bit 1 after each frame, bit 2 loses the connection at the end. Each HELLO
 * comes from a connection of its own, so that streams meet and take over.
 */

#include <stdlib.h>

#include <diverge/error.h>

#include "daemon/proto/ingest.h"
#include "tests/fuzz/fuzz_store.h"

enum {
    COMMIT_LAST = 1,
    COMMIT_EACH = 2,
    LOSE = 4,
};

static void require(int truth)
{
    if (!truth)
        abort();
}

/* Everything that is said is one whole frame, of a message of the daemon. */
static void check_said(struct dvg_bytes bytes)
{
    struct dvg_frame frame;
    size_t size;
    require(dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size) == 1 && size == bytes.size);
    struct dvg_error_message error;
    struct dvg_welcome welcome;
    if (frame.type == DVG_MESSAGE_ERROR)
        require(dvg_error_decode(frame.payload, &error) == 0 && error.text.size > 0);
    else if (frame.type == DVG_MESSAGE_WELCOME)
        require(dvg_welcome_decode(frame.payload, &welcome) == 0);
    else
        require(frame.type == DVG_MESSAGE_ACK || frame.type == DVG_MESSAGE_STATE);
}

static void commit(struct ingest *ingest)
{
    require(ingest_commit(ingest) == 0);
    struct ingest_notice notice;
    while (ingest_next_notice(ingest, &notice))
        check_said(notice.frame);
}

static void feed(struct ingest *ingest, struct dvg_bytes rest, uint8_t how)
{
    struct ingest_peer peer = {.uid = 1, .pid = 1};
    struct dvg_buffer replies;
    dvg_buffer_init(&replies, DVG_FRAME_MAX);
    struct dvg_frame frame;
    size_t size;
    while (dvg_frame_decode(rest, DVG_FRAME_MAX, &frame, &size) == 1) {
        if (frame.type == DVG_MESSAGE_HELLO)
            peer.connection++;
        dvg_buffer_clear(&replies);
        int rc = ingest_frame(ingest, &peer, &frame, &replies);
        require(rc <= 0 && rc != DIVERGE_EAGAIN);
        require((rc || frame.type == DVG_MESSAGE_HELLO) == (replies.size > 0));
        if (replies.size)
            check_said((struct dvg_bytes){.data = replies.data, .size = replies.size});
        require(!rc || !ingest_is_producer(ingest, peer.connection));
        if (how & COMMIT_EACH)
            commit(ingest);
        rest.data += size;
        rest.size -= size;
    }
    if (how & LOSE)
        ingest_closed(ingest, peer.connection);
    if (how & COMMIT_LAST)
        commit(ingest);
    dvg_buffer_fini(&replies);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct store *store = fuzz_store_open();
    const struct ingest_limits limits = {
        .max_connections = 4,
        .max_strings = 4096,
        .max_sites = 4096,
        .max_types = 4096,
        .max_arguments = 4096,
        .max_metadata = 64,
    };
    struct ingest *ingest;
    require(ingest_new(store, &limits, &ingest) == 0);
    feed(ingest, (struct dvg_bytes){.data = data + 1, .size = size - 1}, data[0]);
    struct ingest_stats stats;
    ingest_stats(ingest, &stats);
    ingest_free(ingest);
    fuzz_store_close(store, stats.commits > 0);
    return 0;
}
