/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon that starts has to know of one that runs already. Blocking; main thread, before the
 * loop.
 */
#ifndef DAEMON_NET_TAKEOVER_H
#define DAEMON_NET_TAKEOVER_H

#include <stdbool.h>

/* Does somebody listen on this socket? A file without a listener is a dead daemon's. */
bool takeover_is_live(const char *socket);

/*
 * Asks the daemon there to stop, also while producers are connected (they reconnect). 0: it said
 * yes. EUNAVAIL:
 * nobody listens; EPERM; EAGAIN: no answer in time; EPROTO.
 */
int takeover_ask_stop(const char *socket);

#endif
