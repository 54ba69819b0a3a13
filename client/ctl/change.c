/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/change.h"

#include <stdio.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/daemon.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"
#include "daemon/proto/json.h"

enum { CHANGE_TIMEOUT_MS = 600000 }; /* removing a large run takes a while */

static const struct {
    const char *command;
    const char *done;
} changes[] = {
    [CHANGE_RM] = {"rm", "removed"},
    [CHANGE_PIN] = {"pin", "pinned"},
    [CHANGE_UNPIN] = {"unpin", "unpinned"},
};

/* Who makes the changes: a daemon (link.fd >= 0) or this program (store). */
struct changer {
    struct dvg_control_link link;
    struct store *store;
    int lock;
};

static int changer_open(struct changer *changer)
{
    const char *path = NULL;
    int status = daemon_connect(&changer->link);

    if (!status)
        return EX_OK;
    if (status != DIVERGE_EUNAVAIL)
        return ctl_exit_status(status);
    status = source_path(&path);
    return status ? status : source_store_open(path, &changer->store, &changer->lock);
}

static void changer_close(struct changer *changer)
{
    dvg_control_close(&changer->link);
    if (changer->store)
        source_store_close(changer->store, changer->lock);
}

static int ask(struct changer *changer, cJSON *request, cJSON **ret)
{
    char error[DAEMON_ERROR_MAX];
    int status = daemon_call(&changer->link, request, CHANGE_TIMEOUT_MS, ret, error);

    return status ? ctl_fail_error(status, "the daemon", error) : EX_OK;
}

static int apply(struct store *store, enum change change, int64_t run)
{
    switch (change) {
    case CHANGE_RM:
        return store_run_remove(store, run);
    case CHANGE_PIN:
        return store_run_pin(store, run, true);
    case CHANGE_UNPIN:
        return store_run_pin(store, run, false);
    }
    return DIVERGE_EINTERNAL;
}

static int refuse_pinned(const struct reader_run *run)
{
    const char *name = text_escape(run->name);

    return ctl_fail(EX_UNAVAILABLE, "%s is pinned; unpin it first: divergectl pin --remove %s",
                    name, name);
}

static int change_here(struct changer *changer, enum change change, const struct reader_run *run)
{
    int status = store_begin(changer->store);

    if (!status)
        status = apply(changer->store, change, run->id);
    int committed = store_commit(changer->store);

    status = status ? status : committed;
    if (status == DIVERGE_ESTATE)
        return refuse_pinned(run);
    if (status == DIVERGE_EBUSY)
        return ctl_fail(EX_UNAVAILABLE, "%s is being recorded", text_escape(run->name));
    return status ? ctl_fail_error(status, text_escape(run->name), store_error_text(changer->store))
                  : EX_OK;
}

static int change_one(struct changer *changer, enum change change, const struct reader_run *run)
{
    if (changer->store)
        return change_here(changer, change, run);
    cJSON *request = daemon_request(changes[change].command);
    cJSON *reply = NULL;

    if (request)
        json_add_i64(request, "run", run->id);
    int status = ask(changer, request, &reply);

    cJSON_Delete(reply);
    return status;
}

static void say(enum change change, const struct reader_run *runs, int count)
{
    struct emit emit;

    if (!ctl.json) {
        for (int i = 0; i < count; i++)
            printf("%s %s\n", changes[change].done, text_escape(runs[i].name));
        return;
    }
    emit_begin(&emit, change == CHANGE_UNPIN ? "pin" : changes[change].command);
    emit_array(&emit, changes[change].done);
    for (int i = 0; i < count; i++) {
        emit_object(&emit, NULL);
        emit_string(&emit, "run", text_id(runs[i].run_id));
        emit_string(&emit, "name", runs[i].name);
        emit_object_end(&emit);
    }
    emit_array_end(&emit);
    emit_print(&emit);
}

int change_runs(enum change change, int argc, const char *const *argv)
{
    struct changer changer = {.link = {.fd = -1}};
    struct reader_run *runs = mem_alloc((size_t)argc * sizeof(*runs));
    int status = EX_OK;
    int done = 0;

    for (int i = 0; i < argc && !status; i++) {
        struct source_run run;

        status = source_find(argv[i], &run);
        if (!status)
            runs[i] = run.info;
        if (!status && change == CHANGE_RM && run.info.pinned)
            status = refuse_pinned(&run.info);
    }
    if (status)
        return status;
    status = changer_open(&changer);
    while (!status && done < argc) {
        status = change_one(&changer, change, &runs[done]);
        done += !status;
    }
    changer_close(&changer);
    if (done)
        say(change, runs, done);
    return status;
}

/* ---- gc ------------------------------------------------------------------------------------- */

enum { GC_STEP_MS = 200 };

static int gc_step(struct changer *changer, struct store_gc *ret, bool *ret_more)
{
    if (changer->store) {
        int status = store_gc(changer->store, GC_STEP_MS, ret);

        *ret_more = status == DIVERGE_EAGAIN;
        return status && !*ret_more ? ctl_fail_error(status, "gc", store_error_text(changer->store))
                                    : EX_OK;
    }
    cJSON *request = daemon_request("gc");
    cJSON *reply = NULL;

    if (request)
        json_add_i64(request, "budget_ms", GC_STEP_MS);
    int status = ask(changer, request, &reply);

    if (status)
        return status;
    *ret_more = false;
    json_get_bool(reply, "more", ret_more);
    *ret = (struct store_gc){
        .bytes_before = daemon_u64(reply, "bytes_before"),
        .bytes_after = daemon_u64(reply, "bytes_after"),
        .chunks_removed = daemon_u64(reply, "chunks_removed"),
        .segments_thinned = daemon_u64(reply, "segments_thinned"),
    };
    cJSON_Delete(reply);
    return EX_OK;
}

int change_gc(struct store_gc *ret)
{
    struct changer changer = {.link = {.fd = -1}};
    struct reader *reader = NULL;
    int status = source_reader(&reader); /* a store that is not there is not made for this */
    bool more = true;
    bool first = true;

    if (!status)
        status = changer_open(&changer);
    while (!status && more) {
        struct store_gc step = {0};

        status = gc_step(&changer, &step, &more);
        if (status)
            break;
        if (first)
            ret->bytes_before = step.bytes_before;
        first = false;
        ret->bytes_after = step.bytes_after;
        ret->chunks_removed += step.chunks_removed;
        ret->segments_thinned += step.segments_thinned;
    }
    changer_close(&changer);
    return status;
}
