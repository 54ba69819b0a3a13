/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/watch.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    WAIT_MS = 30000,
    SPOOL_MIN = 1024, /* more than HELLO: there are records in it */
};

void watch_open(struct watch *watch, const char *folder)
{
    mkdir(folder, 0700);
    snprintf(watch->folder, sizeof(watch->folder), "%s", folder);
    watch->fd = inotify_init1(IN_CLOEXEC);
    assert_true(watch->fd >= 0);
    assert_true(inotify_add_watch(watch->fd, folder,
                                  IN_CREATE | IN_DELETE | IN_MOVE | IN_MODIFY | IN_ATTRIB) >= 0);
}

void watch_close(struct watch *watch)
{
    close(watch->fd);
}

static void next_event(struct watch *watch, const char *what)
{
    struct pollfd fd = {.fd = watch->fd, .events = POLLIN};
    if (poll(&fd, 1, WAIT_MS) != 1)
        fail_msg("nothing happened in %s; waited for %s", watch->folder, what);
    char events[8192];
    assert_true(read(watch->fd, events, sizeof(events)) > 0);
}

void watch_until_exists(struct watch *watch, const char *path)
{
    while (access(path, F_OK) != 0)
        next_event(watch, path);
}

void watch_until_gone(struct watch *watch, const char *path)
{
    while (access(path, F_OK) == 0)
        next_event(watch, path);
}

bool watch_find_spool(const char *folder, char *path, size_t size)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry = NULL;
    bool found = false;
    while (dir && !found && (entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        struct stat st;
        if (len < 6 || strcmp(entry->d_name + len - 6, ".spool") != 0)
            continue;
        snprintf(path, size, "%s/%s", folder, entry->d_name);
        found = stat(path, &st) == 0 && st.st_size > SPOOL_MIN;
    }
    if (dir)
        closedir(dir);
    return found;
}

void watch_until_spool(struct watch *watch, char *path, size_t size)
{
    while (!watch_find_spool(watch->folder, path, size))
        next_event(watch, "a spool file");
}
