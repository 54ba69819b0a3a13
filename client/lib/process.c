/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/process.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/sender.h"
#include "client/lib/session.h"

#define EXIT_WAIT_NS UINT64_C(1000000000)

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct diverge_session *first; /* under registry_mutex */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered; /* 0, or why the handlers could not be set */

void dvg_process_lock(void)
{
    pthread_mutex_lock(&registry_mutex);
}

void dvg_process_unlock(void)
{
    pthread_mutex_unlock(&registry_mutex);
}

void dvg_process_close(int *fd)
{
    dvg_process_lock();
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    dvg_process_unlock();
}

static void after_fork_in_child(void)
{
    for (struct diverge_session *session = first; session; session = session->registry_next) {
        atomic_store(&session->state, DVG_SESSION_FORKED);
        dvg_sender_forget(session->sender);
        close(session->wake_fd);
    }
    first = NULL;
    pthread_mutex_unlock(&registry_mutex);
}

/*
 * A thread may hold a lock for good at this point (exit called from a signal handler), so locks are
 * only tried. The registry stays locked: a session that another thread closes meanwhile waits for
 * us.
 */
static void flush_at_exit(void)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 1;
    uint64_t end_ns = dvg_now_ns() + EXIT_WAIT_NS;
    if (pthread_mutex_timedlock(&registry_mutex, &deadline))
        return;
    for (struct diverge_session *session = first; session; session = session->registry_next) {
        if (pthread_mutex_timedlock(&session->mutex, &deadline))
            continue;
        dvg_session_flush_until(session, end_ns);
        pthread_mutex_unlock(&session->mutex);
    }
    pthread_mutex_unlock(&registry_mutex);
}

static void set_handlers(void)
{
    registered = pthread_atfork(dvg_process_lock, dvg_process_unlock, after_fork_in_child);
    if (!registered)
        registered = atexit(flush_at_exit);
}

int dvg_process_add(struct diverge_session *session)
{
    pthread_once(&once, set_handlers);
    if (registered)
        return DIVERGE_ENOMEM;
    dvg_process_lock();
    session->registry_next = first;
    first = session;
    dvg_process_unlock();
    return 0;
}

void dvg_process_remove(struct diverge_session *session)
{
    dvg_process_lock();
    for (struct diverge_session **at = &first; *at; at = &(*at)->registry_next) {
        if (*at == session) {
            *at = session->registry_next;
            break;
        }
    }
    dvg_process_unlock();
}
