/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <diverge/error.h>

/* Written once by log_init, before there are threads. */
static enum log_level max_level = LOG_INFO;
static bool to_journal;

static const char *const level_names[] = {
#define X(NAME, name, priority) name,
    LOG_LEVELS(X)
#undef X
};
static const int level_priorities[] = {
#define X(NAME, name, priority) priority,
    LOG_LEVELS(X)
#undef X
};

/* systemd.exec(5): JOURNAL_STREAM is "device:inode" of the stream that the journal reads. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    uintmax_t device = 0;
    uintmax_t inode = 0;
    return stream && sscanf(stream, "%ju:%ju", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_init(enum log_level level)
{
    max_level = level;
    to_journal = stderr_is_journal();
}

int log_level_parse(const char *text, enum log_level *ret)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return DIVERGE_EINVAL;
}

bool log_wanted(enum log_level level)
{
    return level <= max_level;
}

/* A line under construction; what does not fit is cut. */
struct line {
    char *text;
    size_t size;
    size_t used;
};

static void line_put(struct line *line, const char *text)
{
    size_t len = strlen(text);
    size_t room = line->size - 1 - line->used;
    if (len > room)
        len = room;
    memcpy(line->text + line->used, text, len);
    line->used += len;
}

static bool is_plain(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p <= ' ' || *p == '"' || *p == '\\' || *p == '=' || *p == 0x7f)
            return false;
    }
    return *text != '\0';
}

/* Control characters never reach the terminal or the log as they are. */
static void line_put_quoted(struct line *line, const char *text)
{
    line_put(line, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        char one[5] = {(char)*p};
        if (*p == '"' || *p == '\\')
            snprintf(one, sizeof(one), "\\%c", *p);
        else if (*p < ' ' || *p == 0x7f)
            snprintf(one, sizeof(one), "\\x%02x", *p);
        line_put(line, one);
    }
    line_put(line, "\"");
}

size_t log_format(char *text, size_t size, enum log_level level, const char *event,
                  const struct log_field *fields)
{
    struct line line = {.text = text, .size = size};
    line_put(&line, "level=");
    line_put(&line, level_names[level]);
    line_put(&line, " event=");
    line_put(&line, event);
    for (; fields->key; fields++) {
        line_put(&line, " ");
        line_put(&line, fields->key);
        line_put(&line, "=");
        char number[24];
        snprintf(number, sizeof(number), "%" PRId64, fields->number);
        if (!fields->text)
            line_put(&line, number);
        else if (is_plain(fields->text))
            line_put(&line, fields->text);
        else
            line_put_quoted(&line, fields->text);
    }
    text[line.used] = '\0';
    return line.used;
}

static int put_prefix(char *text, size_t size, enum log_level level)
{
    if (to_journal)
        return snprintf(text, size, "<%d>", level_priorities[level]);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &utc);
    return (int)len + snprintf(text + len, size - len, ".%03ldZ ", now.tv_nsec / 1000000);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
    if (!log_wanted(level))
        return;
    char text[8192];
    size_t used = (size_t)put_prefix(text, sizeof(text), level);
    used += log_format(text + used, sizeof(text) - used - 1, level, event, fields);
    text[used++] = '\n';
    /* One write a line, so lines of two threads do not mix. A log that cannot be written is lost.
     */
    int saved = errno;
    while (write(STDERR_FILENO, text, used) < 0 && errno == EINTR)
        continue;
    errno = saved;
}

bool log_limit_allow(struct log_limit *limit, uint64_t now_ns, uint32_t *ret_suppressed)
{
    uint64_t refills = (now_ns - limit->refilled_ns) / LOG_REFILL_NS;
    if (refills) {
        limit->used = refills >= limit->used ? 0 : limit->used - (uint32_t)refills;
        limit->refilled_ns = now_ns;
    }
    if (limit->used >= LOG_BURST) {
        limit->suppressed++;
        return false;
    }
    limit->used++;
    *ret_suppressed = limit->suppressed;
    limit->suppressed = 0;
    return true;
}
