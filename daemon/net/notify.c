/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <diverge/error.h>

int notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || (*path != '/' && *path != '@'))
        return 0;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof(address.sun_path))
        return DIVERGE_EIO;
    memcpy(address.sun_path, path, len);
    if (*path == '@') /* an abstract address */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return DIVERGE_EIO;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    ssize_t sent = -1;
    do {
        sent =
            sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    } while (sent < 0 && errno == EINTR);
    close(fd);
    return sent < 0 ? DIVERGE_EIO : 0;
}

uint64_t notify_watchdog_ms(void)
{
    const char *period = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    if (!period || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    uint64_t ms = strtoull(period, NULL, 10) / 2000;
    return ms || !*period ? ms : 1;
}
