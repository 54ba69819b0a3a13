/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of this process, for the two moments that concern all of them: fork and exit.
 *
 * fork: the child's copies are marked forked, so that every call on them returns ECLOSED, and their
 * descriptors are closed in the child (closed, not shut down: the parent's connection lives on).
 * Their memory stays, since locks in it may be held by threads that the child does not have. exit:
 * sessions that nobody closed get one second to send what they hold. They say no BYE: the run did
 * not end, its process did.
 *
 * Lock order: the registry's lock comes first. Descriptors are opened and closed under it.
 */
#ifndef CLIENT_LIB_PROCESS_H
#define CLIENT_LIB_PROCESS_H

struct diverge_session;

int dvg_process_add(struct diverge_session *session);
void dvg_process_remove(struct diverge_session *session);

void dvg_process_lock(void);
void dvg_process_unlock(void);
/* Closes *fd under the lock and sets it to -1. */
void dvg_process_close(int *fd);

#endif
