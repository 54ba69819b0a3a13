/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/daemon.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"

static void print_json(const cJSON *daemon, const char *path, const struct reader_totals *totals)
{
    struct emit emit;

    emit_begin(&emit, "status");
    if (daemon) {
        emit_object(&emit, "daemon");
        daemon_emit(&emit, daemon);
        emit_object_end(&emit);
    } else {
        emit_null(&emit, "daemon");
    }
    emit_object(&emit, "store");
    emit_string(&emit, "path", path);
    emit_bool(&emit, "exists", totals != NULL);
    if (totals) {
        emit_u64(&emit, "file_bytes", totals->file_bytes);
        emit_u64(&emit, "wal_bytes", totals->wal_bytes);
        emit_u64(&emit, "runs", totals->runs);
        emit_u64(&emit, "records", totals->records);
        emit_u64(&emit, "chunks", totals->chunks);
        emit_u64(&emit, "layouts", totals->layouts);
        emit_u64(&emit, "sites", totals->sites);
    }
    emit_object_end(&emit);
    emit_print(&emit);
}

static void print_text(const cJSON *daemon, const char *path, const struct reader_totals *totals)
{
    int width = text_width();

    if (daemon)
        text_wrap(stdout, "Daemon  ", 8, daemon_sentence(daemon), width);
    else
        puts("Daemon  not running; commands that need one start it");
    text_wrap(stdout, "Store   ", 8, text_escape(path), width);
    if (!totals) {
        puts("        not there yet");
        return;
    }
    text_wrap(stdout, "        ", 8,
              mem_printf("%s, and %s in its write-ahead log", text_bytes(totals->file_bytes),
                         text_bytes(totals->wal_bytes)),
              width);
    text_wrap(
        stdout, "        ", 8,
        mem_printf("%s, %s in %s of %s, %s", text_things(totals->runs, "run"),
                   text_things(totals->records, "record"), text_things(totals->chunks, "chunk"),
                   text_things(totals->layouts, "layout"), text_things(totals->sites, "site")),
        width);
}

/* The daemon's own word, NULL when none runs. */
static int ask_daemon(cJSON **ret)
{
    struct dvg_control_link link;
    char error[DAEMON_ERROR_MAX];
    int status = daemon_connect(&link);

    if (status == DIVERGE_EUNAVAIL)
        return EX_OK;
    if (status)
        return ctl_exit_status(status);
    status = daemon_call(&link, daemon_request("status"), DAEMON_TIMEOUT_MS, ret, error);
    dvg_control_close(&link);
    return status ? ctl_fail_error(status, "the daemon", error) : EX_OK;
}

static int run(int argc, const char *const *argv)
{
    cJSON *daemon = NULL;
    struct reader *reader = NULL;
    struct reader_totals totals;
    const char *path = NULL;
    int status = ask_daemon(&daemon);

    (void)argc;
    (void)argv;
    if (!status)
        status = source_path(&path);
    bool exists = !status && source_exists(path);

    if (exists) {
        status = source_reader(&reader);
        int error = status ? 0 : reader_totals(reader, &totals);

        if (error)
            status = ctl_fail_error(error, path, NULL);
    }
    if (!status && ctl.json)
        print_json(daemon, path, exists ? &totals : NULL);
    else if (!status)
        print_text(daemon, path, exists ? &totals : NULL);
    cJSON_Delete(daemon);
    return status;
}

const struct cmd cmd_status = {
    .name = "status",
    .group = CMD_GROUP_LOOK,
    .summary = "Show the daemon and the store",
    .synopsis = "",
    .json = true,
    .run = run,
};
