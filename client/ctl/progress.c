/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_MS = 1000, EVERY_MS = 200 };

static struct {
    const char *what;
    uint64_t begin_ms;
    uint64_t shown_ms;
    bool shown;
} now;

static uint64_t clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void progress_begin(const char *what)
{
    now.what = what;
    now.begin_ms = now.shown_ms = clock_ms();
    now.shown = false;
}

void progress_update(uint64_t done, uint64_t total)
{
    uint64_t t = clock_ms();
    uint64_t spent = t - now.begin_ms;

    if (spent < QUIET_MS || t - now.shown_ms < EVERY_MS || !total || !isatty(STDERR_FILENO))
        return;
    if (done > total)
        done = total;
    now.shown_ms = t;
    now.shown = true;
    fprintf(stderr, "\r%s: %" PRIu64 " %%", now.what,
            (uint64_t)((double)done * 100 / (double)total));
    if (done) {
        uint64_t left_s = (uint64_t)((double)spent / (double)done * (double)(total - done) / 1000);

        if (left_s >= 60)
            fprintf(stderr, ", about %" PRIu64 " min left", (left_s + 59) / 60);
        else
            fprintf(stderr, ", about %" PRIu64 " s left", left_s + 1);
    }
    fputs("\033[K", stderr);
}

void progress_end(void)
{
    if (now.shown)
        fputs("\r\033[K", stderr);
    now.shown = false;
}
