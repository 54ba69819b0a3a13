/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a stored run as a recording file: the frames that a producer would have sent. */
#ifndef CLIENT_CTL_ENCODE_H
#define CLIENT_CTL_ENCODE_H

#include <stdint.h>
#include <stdio.h>

#include "client/ctl/source.h"

struct encode_result {
    uint64_t streams;
    uint64_t segments;
    uint64_t records;
    uint64_t pruned; /* records that retention removed: a gap in the file */
    uint64_t bytes;
};

/* 0 or a negative DIVERGE_E…; EIO: `file` does not take it. */
int encode_run(const struct source_run *run, FILE *file, struct encode_result *ret);

#endif
