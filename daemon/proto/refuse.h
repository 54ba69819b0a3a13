/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DAEMON_PROTO_REFUSE_H
#define DAEMON_PROTO_REFUSE_H

#include "daemon/store/store.h"

/* Writes why something is refused and returns `status`, for `return refuse(…)`. */
__attribute__((format(printf, 3, 4))) int refuse(struct store_error *error, int status,
                                                 const char *format, ...);

#endif
