/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a recording to the daemon as its producer would have, so that what is reported as taken is
 * committed.
 */
#ifndef CLIENT_CTL_REPLAY_H
#define CLIENT_CTL_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/message.h"

struct replay_result {
    uint64_t streams;
    uint64_t frames;
    uint64_t repeated; /* frames the store had already */
    uint8_t run_id[16];
    char run_name[128]; /* as the daemon settled it */
    bool torn;
    bool complete; /* every stream ends with BYE */
    char error[512];
};

/*
 * 0 when all of the file is committed. What was sent before a failure may be in the store; a second
 * call goes on from there. ret->error says why, "" when the code says it all.
 */
int replay_file(const char *socket_path, struct dvg_bytes file, struct replay_result *ret);

#endif
