/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured log on stderr: one line an event, key=value, values quoted and escaped when they need
 * it.
 * Under journald (JOURNAL_STREAM names our stderr) a priority prefix replaces the time. Any thread.
 *
 *     log_event(LOG_INFO, "listening", log_text("socket", path), log_number("pid", pid));
 */
#ifndef DAEMON_NET_LOG_H
#define DAEMON_NET_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, "name", syslog priority) */
#define LOG_LEVELS(X)                                                                              \
    X(ERROR, "error", 3)                                                                           \
    X(WARNING, "warning", 4)                                                                       \
    X(INFO, "info", 6)                                                                             \
    X(DEBUG, "debug", 7)

enum log_level {
#define X(NAME, name, priority) LOG_##NAME,
    LOG_LEVELS(X)
#undef X
};

/* Before other threads run. Events above `level` are not written. */
void log_init(enum log_level level);
/* 0 and *ret, or EINVAL. */
int log_level_parse(const char *text, enum log_level *ret);
bool log_wanted(enum log_level level);

struct log_field {
    const char *key;  /* NULL ends the list */
    const char *text; /* NULL: the number counts */
    int64_t number;
};

static inline struct log_field log_text(const char *key, const char *text)
{
    return (struct log_field){.key = key, .text = text ? text : ""};
}

static inline struct log_field log_number(const char *key, int64_t number)
{
    return (struct log_field){.key = key, .number = number};
}

void log_write(enum log_level level, const char *event, const struct log_field *fields);
#define log_event(level, event, ...)                                                               \
    log_write(level, event, (const struct log_field[]){__VA_ARGS__, {0}})

/* Formats a line without its time or prefix; cut at `size`. Returns the length. For tests. */
size_t log_format(char *line, size_t size, enum log_level level, const char *event,
                  const struct log_field *fields);

/*
 * A peer may cause LOG_BURST lines, then one every LOG_REFILL_NS. *ret_suppressed: lines left out
 * since the last one that was allowed.
 */
enum { LOG_BURST = 8 };
#define LOG_REFILL_NS UINT64_C(5000000000)
struct log_limit {
    uint64_t refilled_ns;
    uint32_t used;
    uint32_t suppressed;
};
bool log_limit_allow(struct log_limit *limit, uint64_t now_ns, uint32_t *ret_suppressed);

#endif
