/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes to the store: asked of its daemon when one runs, else made here under the store's lock.
 */
#ifndef CLIENT_CTL_CHANGE_H
#define CLIENT_CTL_CHANGE_H

#include "daemon/store/store.h"

enum change { CHANGE_RM, CHANGE_PIN, CHANGE_UNPIN };

/* Changes the named runs, which must all be there; says what was done to which. Exit status. */
int change_runs(enum change change, int argc, const char *const *argv);

/* gc until there is no more to do. Exit status. */
int change_gc(struct store_gc *ret);

#endif
