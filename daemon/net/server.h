/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop thread: owns every uv handle, all connections and the listener, and the writer thread's
 * other end.
 *
 *     STARTING ─store open─▶ SERVING ─▶ STOPPING (signal, control stop, idle, failure)
 *                                           └─writer done, output left─▶ (ends)
 *
 * The caller holds the locks of the store and the socket.
 */
#ifndef DAEMON_NET_SERVER_H
#define DAEMON_NET_SERVER_H

#include "daemon/net/config.h"

/* Serves until told to end. Returns 0 or the DIVERGE_E… that ended it, after it was logged. Main
 * thread. */
int server_run(const struct config *config);

#endif
