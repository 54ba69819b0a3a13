/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WIRE_PART_H
#define CLIENT_WIRE_PART_H

#include "client/wire/message.h"

/* Whether the members of a decoded PART fit together: 0, EPROTO or ELIMIT. */
int dvg_part_check(const struct dvg_part *part);

#endif
