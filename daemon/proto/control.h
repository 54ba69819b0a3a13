/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests: one JSON object in, one out. schema/PROTOCOL.md, "Control", has the table.
 *
 *     {"command": "rm", "run": 12}   →  {"ok": true}
 *                                    →  {"ok": false, "status": -8, "error": "no run 12 …"}
 *
 * Runs on the store's thread, between groups: the caller calls ingest_commit first, then
 * control_request, which begins and commits what it changes by itself.
 */
#ifndef DAEMON_PROTO_CONTROL_H
#define DAEMON_PROTO_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/buffer.h"
#include "client/wire/message.h"
#include "daemon/store/store.h"

/*
 * What `status` reports; filled by the daemon. Strings are borrowed until control_request returns.
 */
struct control_status {
    const char *version;
    const char *store_path;
    const char *socket_path;
    int32_t pid;
    uint64_t started_unix_us;
    uint32_t connections;
    uint32_t producers;
    uint64_t frames;
    uint64_t records;
    uint64_t commits;
    bool read_only;
};

/* What only the daemon itself can do. Called on the store's thread, within control_request. */
struct control_host {
    void *context;
    void (*status)(void *context, struct control_status *ret);
    /*
     * Asks the daemon to end once the reply is out: 0, or EBUSY while producers are connected and
     * !force.
     */
    int (*stop)(void *context, bool force);
};

/*
 * Answers one CONTROL_REQUEST payload: appends exactly one CONTROL_REPLY frame to `replies`. 0, or
 * EPROTO when not even a reply can be addressed (then close the connection), ENOMEM, ELIMIT.
 */
int control_request(struct store *store, const struct control_host *host, struct dvg_bytes payload,
                    struct dvg_buffer *replies);

#endif
