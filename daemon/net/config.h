/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's settings from one table: flag, environment variable, default, help. A flag beats the
 * variable, the variable beats the default. Main thread, before others start; read-only afterwards.
 */
#ifndef DAEMON_NET_CONFIG_H
#define DAEMON_NET_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/net/log.h"
#include "daemon/proto/paths.h"

/* X(field, KIND, "flag", "VARIABLE" or NULL, "default", lowest, highest, "ARGUMENT", "help") */
#define CONFIG_OPTIONS(X)                                                                          \
    X(store, PATH, "store", "DIVERGE_STORE", NULL, 0, 0, "FILE",                                   \
      "the store [$XDG_STATE_HOME/diverge/diverge.db]")                                            \
    X(socket, PATH, "socket", "DIVERGE_SOCKET", NULL, 0, 0, "PATH",                                \
      "the socket [$XDG_RUNTIME_DIR/diverge/diverged.sock]")                                       \
    X(spool, PATH, "spool", "DIVERGE_SPOOL", NULL, 0, 0, "DIR",                                    \
      "where producers leave spool files [the socket's folder]")                                   \
    X(replace, SWITCH, "replace", NULL, "no", 0, 1, NULL,                                          \
      "ask a daemon that runs already to stop, and take its place")                                \
    X(idle_exit_s, NUMBER, "idle-exit", "DIVERGE_IDLE_EXIT", "0", 0, 31536000, "SECONDS",          \
      "end after this long without a connection; 0: never")                                        \
    X(ready_fd, NUMBER, "ready-fd", NULL, "-1", -1, 1048576, "FD",                                 \
      "write READY and the socket's path to this descriptor, then close it")                       \
    X(log_level, LEVEL, "log-level", "DIVERGE_LOG", "info", 0, 0, "LEVEL",                         \
      "error, warning, info or debug")                                                             \
    X(synchronous_full, SWITCH, "synchronous-full", "DIVERGE_SYNCHRONOUS_FULL", "no", 0, 1, NULL,  \
      "commits survive a power cut, not only kill -9")                                             \
    X(retention_bytes, SIZE, "retention-bytes", "DIVERGE_RETENTION_BYTES", "0", 0, INT64_MAX,      \
      "BYTES", "cap of the store; 0: 20 GiB or a tenth of the file system, the smaller")           \
    X(max_connections, NUMBER, "max-connections", "DIVERGE_MAX_CONNECTIONS", "512", 1, 65536, "N", \
      "connections at one time; a few more for control requests")                                  \
    X(max_frame, SIZE, "max-frame", "DIVERGE_MAX_FRAME", "4M", 65536, 4194304, "BYTES",            \
      "payload of one frame")                                                                      \
    X(max_segment_records, NUMBER, "max-segment-records", "DIVERGE_MAX_SEGMENT_RECORDS",           \
      "16777216", 1, 4294967295, "N", "records of one segment of a stream")                        \
    X(max_open_bytes, SIZE, "max-open-bytes", "DIVERGE_MAX_OPEN_BYTES", "1G", 1048576, INT64_MAX,  \
      "BYTES", "memory of segments that are not sealed yet")                                       \
    X(queue_bytes, SIZE, "queue-bytes", "DIVERGE_QUEUE_BYTES", "64M", 65536, INT64_MAX, "BYTES",   \
      "received and not yet stored, of all connections; then reading stops")                       \
    X(connection_bytes, SIZE, "connection-bytes", "DIVERGE_CONNECTION_BYTES", "16M", 65536,        \
      INT64_MAX, "BYTES", "the same of one connection")                                            \
    X(receive_bytes, SIZE, "receive-bytes", "DIVERGE_RECEIVE_BYTES", "256M", 8388608, INT64_MAX,   \
      "BYTES", "memory of all unfinished frames; a peer that needs more is told to come again")    \
    X(output_bytes, SIZE, "output-bytes", "DIVERGE_OUTPUT_BYTES", "4M", 65536, INT64_MAX, "BYTES", \
      "answers that a peer has not read; then it is closed")                                       \
    X(handshake_ms, NUMBER, "handshake-ms", "DIVERGE_HANDSHAKE_MS", "10000", 1, 3600000, "MS",     \
      "how long a peer may take for its first message")                                            \
    X(linger_ms, NUMBER, "linger-ms", "DIVERGE_LINGER_MS", "20", 0, 10000, "MS",                   \
      "commit when nothing arrived for this long")                                                 \
    X(commit_ms, NUMBER, "commit-ms", "DIVERGE_COMMIT_MS", "100", 1, 10000, "MS",                  \
      "commit at least this often while records arrive")                                           \
    X(commit_bytes, SIZE, "commit-bytes", "DIVERGE_COMMIT_BYTES", "32M", 65536, INT64_MAX,         \
      "BYTES", "commit after this many bytes")                                                     \
    X(checkpoint_bytes, SIZE, "checkpoint-bytes", "DIVERGE_CHECKPOINT_BYTES", "64M", 65536,        \
      INT64_MAX, "BYTES", "checkpoint when the WAL is larger")

enum config_option {
#define X(field, ...) CONFIG_##field,
    CONFIG_OPTIONS(X)
#undef X
        CONFIG_COUNT
};

enum config_origin {
    CONFIG_DEFAULT,
    CONFIG_ENVIRONMENT,
    CONFIG_FLAG,
};

/* What to do instead of running. */
enum config_action {
    CONFIG_RUN,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_PRINT,
};

struct config {
    char store[PATHS_MAX];
    char socket[PATHS_MAX];
    char spool[PATHS_MAX];
    bool store_moved; /* the usual place is on a network file system */
    enum config_action action;
    enum log_level log_level;
    bool replace;
    bool synchronous_full;
    int64_t idle_exit_s;
    int64_t ready_fd;
    int64_t retention_bytes;
    int64_t max_connections;
    int64_t max_frame;
    int64_t max_segment_records;
    int64_t max_open_bytes;
    int64_t queue_bytes;
    int64_t connection_bytes;
    int64_t receive_bytes;
    int64_t output_bytes;
    int64_t handshake_ms;
    int64_t linger_ms;
    int64_t commit_ms;
    int64_t commit_bytes;
    int64_t checkpoint_bytes;
    enum config_origin origins[CONFIG_COUNT];
};

struct config_error {
    char text[PATHS_MAX + 512];
};

/* Reads flags and environment. EINVAL (how it is used), ELIMIT (a path too long); error->text says
 * which. */
int config_read(struct config *ret, int argc, char *const *argv, struct config_error *error);

/* Settings in force, one a line: "name=value  # origin". */
void config_print(const struct config *config, FILE *out);
void config_help(FILE *out);

/* "64M", "1G", "4096": bytes, with binary suffixes. EINVAL, ELIMIT (does not fit). */
int config_parse_size(const char *text, int64_t *ret);

#endif
