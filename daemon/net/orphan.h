/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spool files that producers left behind: a producer that could not reach a daemon writes its
 * frames there, and holds a lock on the file while it lives. Files nobody holds are imported and
 * removed once committed.
 * Writer thread.
 */
#ifndef DAEMON_NET_ORPHAN_H
#define DAEMON_NET_ORPHAN_H

#include "daemon/net/config.h"
#include "daemon/proto/ingest.h"

struct orphans;

/* Lists the files now there, in the spool folder and beside the store. Borrows the ingest. 0 or
 * ENOMEM. */
int orphans_open(struct ingest *ingest, const struct config *config, struct orphans **ret);

/* Imports one file: 1 when there may be more, 0 at the end. What fails is logged and left where it
 * is. */
int orphans_step(struct orphans *orphans);

/* How many files were left to producers that live, or for later: worth another look. */
size_t orphans_left(const struct orphans *orphans);

void orphans_free(struct orphans *orphans);

#endif
