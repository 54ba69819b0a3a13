/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, starting and asking the user's daemon. */
#ifndef CLIENT_CTL_DAEMON_H
#define CLIENT_CTL_DAEMON_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "client/ctl/emit.h"
#include "client/lib/control.h"
#include "daemon/proto/paths.h"

enum { DAEMON_TIMEOUT_MS = 30000, DAEMON_ERROR_MAX = 512 };

/*
 * Connects to the daemon that serves the store and socket in use (--store, --socket, environment):
 * at the socket, or where the store's lock says its daemon is. EUNAVAIL, silently, when none runs;
 * other failures are told and returned as DIVERGE_E….
 */
int daemon_connect(struct dvg_control_link *ret);
int daemon_try_connect(struct dvg_control_link *ret); /* the same, always silent */
/*
 * Same, but starts one when none runs, and waits until it is ready. Of several that start at once
 * one wins and all use it. `replace`: takes the place of a running one. Tells failures.
 */
int daemon_ensure(struct dvg_control_link *ret, bool replace, bool *ret_started);
/*
 * One request of proto/control.h. Takes `request`. 0 with *ret (the caller's, cJSON_Delete) when
 * the reply says ok, else its status, with its text in error[DAEMON_ERROR_MAX].
 */
int daemon_call(struct dvg_control_link *link, cJSON *request, int timeout_ms, cJSON **ret,
                char error[DAEMON_ERROR_MAX]);
/*
 * Returns when the daemon has committed what reached it before, the end of connections included: it
 * answers requests in turn, after a commit. Silent; nothing to wait for when none runs.
 */
void daemon_settle(void);
/* Numbers and texts of a reply; 0 and "" when missing or of another type. */
uint64_t daemon_u64(const cJSON *reply, const char *key);
const char *daemon_text(const cJSON *reply, const char *key);

/* The socket that the functions above connected to. */
const char *daemon_socket(void);
const char *daemon_store(void); /* its store, as this side resolves it */

/* A request of control.h with its command set; the caller adds the rest. */
cJSON *daemon_request(const char *command);
/* The reply to `status` for a person, and as members of an object. */
const char *daemon_sentence(const cJSON *status);
void daemon_emit(struct emit *emit, const cJSON *status);

#endif
