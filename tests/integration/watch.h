/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for files to come and go, by inotify. Times out by failing the test. */
#ifndef DVG_TESTS_INTEGRATION_WATCH_H
#define DVG_TESTS_INTEGRATION_WATCH_H

#include <stdbool.h>
#include <stddef.h>

struct watch {
    int fd;
    char folder[256];
};

/* Makes the folder, 0700, when it is missing, and watches it. */
void watch_open(struct watch *watch, const char *folder);
void watch_close(struct watch *watch);

void watch_until_exists(struct watch *watch, const char *path);
void watch_until_gone(struct watch *watch, const char *path);
/* Until a spool file with more than its header is there; gives its path. */
void watch_until_spool(struct watch *watch, char *path, size_t size);

bool watch_find_spool(const char *folder, char *path, size_t size);

#endif
