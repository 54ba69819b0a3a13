/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager's notification protocol, sd_notify(3): datagrams of VARIABLE=value lines to
 * the socket that NOTIFY_SOCKET names. Does nothing without one. Loop thread.
 */
#ifndef DAEMON_NET_NOTIFY_H
#define DAEMON_NET_NOTIFY_H

#include <stdint.h>

/* 0 also when there is no manager; EIO when the datagram could not be sent. */
int notify_send(const char *state);

/* How often WATCHDOG=1 is due, in ms: half of WATCHDOG_USEC when it is meant for this process, else
 * 0. */
uint64_t notify_watchdog_ms(void);

#endif
