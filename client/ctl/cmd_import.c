/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/daemon.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/replay.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"

/* What became of one file. */
struct imported {
    const char *path;
    const char *name; /* of the run; "" unknown */
    const char *run_id;
    uint64_t frames;
    bool torn;
    bool complete;
};

static void say(const struct imported *file)
{
    printf("%s: run %s%s\n", text_escape(file->path), text_escape(file->name),
           file->complete ? "" : ", without its end");
    if (file->torn)
        ctl_note("%s ends in the middle of a frame: what stands before it was taken",
                 text_escape(file->path));
}

static void emit_files(const struct imported *files, int count)
{
    struct emit emit;

    emit_begin(&emit, "import");
    emit_array(&emit, "files");
    for (int i = 0; i < count; i++) {
        emit_object(&emit, NULL);
        emit_string(&emit, "file", files[i].path);
        emit_string(&emit, "run", files[i].run_id);
        emit_string(&emit, "name", files[i].name);
        emit_u64(&emit, "frames", files[i].frames);
        emit_bool(&emit, "torn", files[i].torn);
        emit_bool(&emit, "complete", files[i].complete);
        emit_object_end(&emit);
    }
    emit_array_end(&emit);
    emit_print(&emit);
}

/* ---- by the daemon -------------------------------------------------------------------------- */

static int import_by_daemon(const char *path, struct imported *ret)
{
    struct replay_result result;
    struct dvg_bytes bytes;
    int status = source_map(path, &bytes);

    if (status)
        return status;
    progress_begin("importing");
    int error = replay_file(daemon_socket(), bytes, &result);

    progress_end();
    daemon_settle(); /* a run without its end is marked so now */
    if (error == DIVERGE_EPROTO && !result.frames)
        return ctl_fail(EX_DATAERR, "%s is not a recording (divergectl export makes them)",
                        text_escape(path));
    if (error)
        return ctl_fail_file(error, path, result.error);
    if (!result.streams)
        return ctl_fail(EX_DATAERR, "%s holds no run", text_escape(path));
    ret->name = mem_string(result.run_name);
    ret->run_id = text_id(result.run_id);
    ret->frames = result.frames;
    ret->torn = result.torn;
    ret->complete = result.complete;
    return EX_OK;
}

/* ---- into a store that no daemon serves ------------------------------------------------------ */

static int name_run(const char *store_path, int64_t row, struct imported *ret)
{
    struct reader_run run;
    int status = source_by_row(store_path, row, &run);

    if (status)
        return status;
    ret->name = mem_string(run.name);
    ret->run_id = text_id(run.run_id);
    return EX_OK;
}

static int import_here(const char *store_path, struct imported *ret)
{
    struct ingest_import result;
    struct store *store = NULL;
    int lock = -1;
    int status = source_store_open(store_path, &store, &lock);

    if (status)
        return status;
    status = source_store_import(store, ret->path, &result);
    source_store_close(store, lock);
    if (!status && !result.run)
        status = ctl_fail(EX_DATAERR, "%s holds no run", text_escape(ret->path));
    if (status)
        return status;
    ret->frames = result.frames;
    ret->torn = result.torn;
    ret->complete = result.complete;
    return name_run(store_path, result.run, ret);
}

/* With --store and no daemon on it, this program writes the store itself. */
static int connect_or_not(bool *ret_here)
{
    struct dvg_control_link link;
    int status;

    if (!ctl.store) {
        status = daemon_ensure(&link, false, NULL);
    } else {
        status = daemon_connect(&link);
        *ret_here = status == DIVERGE_EUNAVAIL;
    }
    if (status && !*ret_here)
        return ctl_exit_status(status);
    dvg_control_close(&link);
    return EX_OK;
}

static int run(int argc, const char *const *argv)
{
    struct imported *files = mem_alloc((size_t)argc * sizeof(*files));
    const char *store_path = NULL;
    bool here = false;
    int done = 0;
    int status = source_path(&store_path);

    if (!status)
        status = connect_or_not(&here);
    while (!status && done < argc) {
        files[done] = (struct imported){.path = argv[done], .name = ""};
        status = here ? import_here(store_path, &files[done])
                      : import_by_daemon(argv[done], &files[done]);
        if (!status && !ctl.json)
            say(&files[done]);
        done += !status;
    }
    if (ctl.json && done)
        emit_files(files, done);
    return status;
}

static const char *const description[] = {
    "Puts recordings into the store: files made by export, written by a job with "
    "DIVERGE_RECORDING, or left in a spool. Importing a file again changes nothing. A file that "
    "was cut off is taken as far as it goes, and the run says that its end is missing.",
    NULL,
};

const struct cmd cmd_import = {
    .name = "import",
    .group = CMD_GROUP_KEEP,
    .summary = "Put recordings into the store",
    .synopsis = "FILE…",
    .description = description,
    .words = CMD_WORDS_FILE,
    .min_arguments = 1,
    .max_arguments = -1,
    .json = true,
    .run = run,
};
