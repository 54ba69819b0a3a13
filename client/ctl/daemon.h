/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, starting and asking the user's daemon. */
#ifndef CLIENT_CTL_DAEMON_H
#define CLIENT_CTL_DAEMON_H

#include <stdbool.h>

#include "client/ctl/emit.h"
#include "client/ctl/peer.h"
#include "daemon/proto/paths.h"

enum { DAEMON_TIMEOUT_MS = 30000 };

/*
 * Connects to the daemon that serves the store and socket in use (--store, --socket, environment): at the socket, or
 * where the store's lock says its daemon is. EUNAVAIL, silently, when none runs; other failures are told and
 * returned as DIVERGE_E….
 */
int daemon_connect(struct peer *ret);
int daemon_try_connect(struct peer *ret); /* the same, always silent */
/*
 * Same, but starts one when none runs, and waits until it is ready. Of several that start at once one wins and all use
 * it. `replace`: takes the place of a running one. Tells failures.
 */
int daemon_ensure(struct peer *ret, bool replace, bool *ret_started);
/* The socket of the daemon that a peer was connected to by the functions above. */
const char *daemon_socket(void);

/* A request of control.h with its command set; the caller adds the rest. */
cJSON *daemon_request(const char *command);
/* The reply to `status` for a person, and as members of an object. */
const char *daemon_sentence(const cJSON *status);
void daemon_emit(struct emit *emit, const cJSON *status);

#endif
