/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/proto/control.h"

#include <string.h>

#include <diverge/error.h>

#include "client/wire/frame.h"
#include "daemon/proto/json.h"
#include "daemon/proto/refuse.h"

enum {
    GC_BUDGET_MS = 100,      /* of one gc request, unless it says otherwise */
    GC_BUDGET_MAX_MS = 1000, /* producers wait meanwhile */
};

/* One request in hand. */
struct call {
    struct store *store;
    const struct control_host *host;
    const cJSON *request;
    cJSON *reply;
    struct store_error error;
};

struct command {
    const char *name;
    int (*run)(struct call *call);
};

/* ---- arguments ---- */

static int bad_argument(struct call *call, int rc, const char *key, const char *what)
{
    return refuse(&call->error, DIVERGE_EINVAL,
                  rc == DIVERGE_ENOTFOUND ? "\"%s\" is missing: %s" : "\"%s\" must be %s", key,
                  what);
}

static int get_row(struct call *call, const char *key, int64_t *ret)
{
    uint64_t value;
    int rc = json_get_u64(call->request, key, &value);
    if (rc || value > INT64_MAX)
        return bad_argument(call, rc, key, "a run's row number");
    *ret = (int64_t)value;
    return 0;
}

/* An optional flag. */
static int get_flag(struct call *call, const char *key, bool *ret)
{
    int rc = json_get_bool(call->request, key, ret);
    return rc == DIVERGE_EPROTO ? bad_argument(call, rc, key, "true or false") : 0;
}

/* ---- changes ---- */

static int failed(struct call *call, int rc, const char *what, int64_t run)
{
    if (rc == DIVERGE_ENOTFOUND)
        return refuse(&call->error, rc, "there is no run %lld", (long long)run);
    if (rc == DIVERGE_EBUSY)
        return refuse(&call->error, rc, "run %lld is recording; end its producers first",
                      (long long)run);
    if (rc == DIVERGE_ESTATE)
        return refuse(&call->error, rc, "run %lld is pinned; unpin it first", (long long)run);
    return refuse(&call->error, rc, "%s: %s", what, store_error_text(call->store));
}

static int begin(struct call *call)
{
    int rc = store_begin(call->store);
    return rc ? refuse(&call->error, rc, "the store is not ready: %s",
                       store_error_text(call->store))
              : 0;
}

/* Ends the group whatever became of it: a refused change changed nothing. */
static int commit(struct call *call)
{
    int rc = store_commit(call->store);
    return rc ? refuse(&call->error, rc, "could not be committed: %s",
                       store_error_text(call->store))
              : 0;
}

static int run_rm(struct call *call)
{
    int64_t run = 0;
    int rc = get_row(call, "run", &run);
    if (!rc)
        rc = begin(call);
    if (rc)
        return rc;
    int rc_remove = store_run_remove(call->store, run);
    if (rc_remove)
        failed(call, rc_remove, "not removed", run);
    rc = commit(call);
    return rc ? rc : rc_remove;
}

static int set_pinned(struct call *call, bool pinned)
{
    int64_t run = 0;
    int rc = get_row(call, "run", &run);
    if (!rc)
        rc = begin(call);
    if (rc)
        return rc;
    int rc_pin = store_run_pin(call->store, run, pinned);
    if (rc_pin)
        failed(call, rc_pin, "not changed", run);
    rc = commit(call);
    return rc ? rc : rc_pin;
}

static int run_pin(struct call *call)
{
    return set_pinned(call, true);
}

static int run_unpin(struct call *call)
{
    return set_pinned(call, false);
}

static int run_difference(struct call *call)
{
    int64_t a = 0;
    int64_t b = 0;
    uint64_t segment = 0;
    int rc = get_row(call, "a", &a);
    if (!rc)
        rc = get_row(call, "b", &b);
    if (rc)
        return rc;
    rc = json_get_u64(call->request, "segment", &segment);
    if (rc || segment > DVG_SEGMENT_MAX)
        return bad_argument(call, rc, "segment", "a segment's index");
    rc = begin(call);
    if (rc)
        return rc;
    int rc_add = store_difference_add(call->store, a, b, segment);
    if (rc_add)
        failed(call, rc_add, "not noted", a);
    rc = commit(call);
    return rc ? rc : rc_add;
}

static int report_gc(struct call *call, const struct store_gc *gc, bool more)
{
    int rc = json_add_bool(call->reply, "more", more);
    if (!rc)
        rc = json_add_u64(call->reply, "bytes_before", gc->bytes_before);
    if (!rc)
        rc = json_add_u64(call->reply, "bytes_after", gc->bytes_after);
    if (!rc)
        rc = json_add_u64(call->reply, "chunks_removed", gc->chunks_removed);
    if (!rc)
        rc = json_add_u64(call->reply, "segments_thinned", gc->segments_thinned);
    return rc;
}

static int run_gc(struct call *call)
{
    uint64_t budget_ms = GC_BUDGET_MS;
    int rc = json_get_u64(call->request, "budget_ms", &budget_ms);
    if (rc == DIVERGE_EPROTO || budget_ms < 1 || budget_ms > GC_BUDGET_MAX_MS)
        return bad_argument(call, DIVERGE_EPROTO, "budget_ms", "1 to 1000 milliseconds");
    struct store_gc gc = {0};
    rc = store_gc(call->store, (int)budget_ms, &gc);
    if (rc && rc != DIVERGE_EAGAIN)
        return refuse(&call->error, rc, "gc: %s", store_error_text(call->store));
    return report_gc(call, &gc, rc == DIVERGE_EAGAIN);
}

/* ---- the daemon itself ---- */

static int run_status(struct call *call)
{
    struct control_status status = {0};
    call->host->status(call->host->context, &status);
    cJSON *reply = call->reply;
    int rc = json_add_string(reply, "version", status.version ? status.version : "");
    if (!rc)
        rc = json_add_string(reply, "store", status.store_path ? status.store_path : "");
    if (!rc)
        rc = json_add_string(reply, "socket", status.socket_path ? status.socket_path : "");
    if (!rc)
        rc = json_add_i64(reply, "pid", status.pid);
    if (!rc)
        rc = json_add_u64(reply, "started_unix_us", status.started_unix_us);
    if (!rc)
        rc = json_add_u64(reply, "connections", status.connections);
    if (!rc)
        rc = json_add_u64(reply, "producers", status.producers);
    if (!rc)
        rc = json_add_u64(reply, "frames", status.frames);
    if (!rc)
        rc = json_add_u64(reply, "records", status.records);
    if (!rc)
        rc = json_add_u64(reply, "commits", status.commits);
    return rc ? rc : json_add_bool(reply, "read_only", status.read_only);
}

static int run_stop(struct call *call)
{
    bool force = false;
    int rc = get_flag(call, "force", &force);
    if (rc)
        return rc;
    rc = call->host->stop(call->host->context, force);
    if (rc == DIVERGE_EBUSY)
        return refuse(
            &call->error, rc,
            "producers are connected; end them, or stop with \"force\": true (they spool)");
    return rc ? refuse(&call->error, rc, "the daemon cannot stop now") : 0;
}

/* ---- dispatch ---- */

static const struct command commands[] = {
    {"status", run_status},
    {"stop", run_stop},
    {"rm", run_rm},
    {"gc", run_gc},
    {"pin", run_pin},
    {"unpin", run_unpin},
    {"difference", run_difference},
};

static int dispatch(struct call *call)
{
    const char *name = NULL;
    if (json_get_string(call->request, "command", &name))
        return refuse(&call->error, DIVERGE_EINVAL, "\"command\" is missing");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (!strcmp(commands[i].name, name))
            return commands[i].run(call);
    }
    return refuse(&call->error, DIVERGE_EUNSUPPORTED,
                  "this daemon has no command \"%s\"; is it older than the client?", name);
}

/* Parses and runs: the members of the reply are in call->reply, but for `ok`. */
static int perform(struct call *call, struct dvg_bytes json)
{
    cJSON *request = NULL;
    const char *why = NULL;
    int rc = json_parse(json, &request, &why);
    if (rc)
        return refuse(&call->error, rc, "the request is refused: %s", why);
    call->request = request;
    rc = dispatch(call);
    cJSON_Delete(request);
    call->request = NULL;
    return rc;
}

static int write_reply(uint32_t request, const cJSON *reply, struct dvg_buffer *replies)
{
    struct dvg_buffer text;
    dvg_buffer_init(&text, DVG_CONTROL_MAX);
    int rc = json_print(reply, &text);
    if (!rc) {
        const struct dvg_control message = {
            .request = request,
            .json = {.data = text.data, .size = text.size},
        };
        rc = dvg_control_encode(replies, DVG_MESSAGE_CONTROL_REPLY, &message);
    }
    dvg_buffer_fini(&text);
    return rc;
}

static int write_failure(uint32_t request, int status, const char *text, struct dvg_buffer *replies)
{
    cJSON *reply = cJSON_CreateObject();
    int rc = reply ? json_add_bool(reply, "ok", false) : DIVERGE_ENOMEM;
    if (!rc)
        rc = json_add_i64(reply, "status", status);
    if (!rc)
        rc = json_add_string(reply, "error", text);
    if (!rc)
        rc = write_reply(request, reply, replies);
    cJSON_Delete(reply);
    return rc;
}

int control_request(struct store *store, const struct control_host *host, struct dvg_bytes payload,
                    struct dvg_buffer *replies)
{
    struct dvg_control message;
    int rc = dvg_control_decode(payload, &message);
    if (rc)
        return rc == DIVERGE_ELIMIT ? rc : DIVERGE_EPROTO;
    struct call call = {.store = store, .host = host, .reply = cJSON_CreateObject()};
    rc = call.reply ? json_add_bool(call.reply, "ok", true) : DIVERGE_ENOMEM;
    if (!rc)
        rc = perform(&call, message.json);
    if (!rc)
        rc = write_reply(message.request, call.reply, replies);
    else
        rc = write_failure(message.request, rc, call.error.text, replies);
    cJSON_Delete(call.reply);
    return rc;
}
