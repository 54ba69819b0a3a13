/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/proto/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/proto/json.h"
#include "tests/unit/daemon/proto/lab.h"

/* A lab and a daemon that is asked to stop. */
struct fixture {
    struct lab *lab;
    int stopped;
    bool forced;
    bool busy;
};

static void host_status(void *context, struct control_status *ret)
{
    const struct fixture *f = context;
    struct ingest_stats stats;
    ingest_stats(f->lab->ingest, &stats);
    *ret = (struct control_status){
        .version = "1.2.3",
        .store_path = f->lab->path,
        .socket_path = "/run/sock",
        .pid = 4711,
        .started_unix_us = UINT64_C(1764500000000000),
        .producers = stats.connections,
        .records = UINT64_C(1) << 60,
        .read_only = true,
    };
}

static int host_stop(void *context, bool force)
{
    struct fixture *f = context;
    if (f->busy && !force)
        return DIVERGE_EBUSY;
    f->stopped++;
    f->forced = force;
    return 0;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->lab = lab_new(NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    lab_free(f->lab);
    free(f);
    return 0;
}

/* One request, one reply; the caller deletes it. */
static cJSON *ask(struct fixture *f, const char *json)
{
    const struct control_host host = {.context = f, .status = host_status, .stop = host_stop};
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_FRAME_MAX);
    struct dvg_control message = {.request = 77,
                                  .json = {.data = (const uint8_t *)json, .size = strlen(json)}};
    assert_int_equal(dvg_control_encode(&out, DVG_MESSAGE_CONTROL_REQUEST, &message), 0);
    struct dvg_bytes payload = {out.data + DVG_FRAME_HEADER, out.size - DVG_FRAME_HEADER};
    struct dvg_buffer replies;
    dvg_buffer_init(&replies, DVG_FRAME_MAX);
    assert_int_equal(ingest_commit(f->lab->ingest), 0);
    assert_int_equal(control_request(f->lab->store, &host, payload, &replies), 0);

    struct dvg_frame frame;
    size_t size;
    struct dvg_bytes bytes = {replies.data, replies.size};
    assert_int_equal(dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size), 1);
    assert_int_equal(size, replies.size); /* exactly one */
    assert_int_equal(frame.type, DVG_MESSAGE_CONTROL_REPLY);
    struct dvg_control reply;
    assert_int_equal(dvg_control_decode(frame.payload, &reply), 0);
    assert_int_equal(reply.request, 77);
    cJSON *parsed = NULL;
    assert_int_equal(json_parse(reply.json, &parsed, NULL), 0);
    dvg_buffer_fini(&replies);
    dvg_buffer_fini(&out);
    return parsed;
}

static void assert_ok(struct fixture *f, const char *json)
{
    cJSON *reply = ask(f, json);
    bool ok = false;
    assert_int_equal(json_get_bool(reply, "ok", &ok), 0);
    if (!ok)
        fail_msg("%s: %s", json, json_get(reply, "error")->valuestring);
    cJSON_Delete(reply);
}

static void assert_refused(struct fixture *f, const char *json, int status, const char *words)
{
    cJSON *reply = ask(f, json);
    bool ok = true;
    const char *error = NULL;
    assert_int_equal(json_get_bool(reply, "ok", &ok), 0);
    assert_false(ok);
    assert_int_equal(json_get(reply, "status")->valuedouble, status);
    assert_int_equal(json_get_string(reply, "error", &error), 0);
    if (!strstr(error, words))
        fail_msg("\"%s\" does not say \"%s\"", error, words);
    cJSON_Delete(reply);
}

/* A complete run; returns its row. */
static int64_t make_run(struct lab *lab, uint8_t run)
{
    struct lab_hello hello = {.stream = run, .run = run, .epoch = 1};
    assert_int_equal(lab_hello(lab, run, &hello, NULL), 0);
    lab_define(lab, run, 4);
    assert_int_equal(lab_part(lab, run, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    assert_int_equal(lab_end(lab, run, 2, 2, 4), 0);
    assert_int_equal(lab_bye(lab, run, 3), 0);
    ingest_closed(lab->ingest, run);
    assert_int_equal(ingest_commit(lab->ingest), 0);
    return lab_number(lab, "SELECT max(id) FROM runs");
}

static void status_tells_what_the_daemon_knows(void **state)
{
    struct fixture *f = *state;
    cJSON *reply = ask(f, "{\"command\":\"status\"}");
    uint64_t number = 0;
    bool flag = false;
    const char *text = NULL;
    assert_int_equal(json_get_string(reply, "version", &text), 0);
    assert_string_equal(text, "1.2.3");
    assert_int_equal(json_get_string(reply, "store", &text), 0);
    assert_string_equal(text, f->lab->path);
    assert_int_equal(json_get_u64(reply, "pid", &number), 0);
    assert_int_equal(number, 4711);
    assert_int_equal(json_get_u64(reply, "records", &number), 0);
    assert_true(number == UINT64_C(1) << 60);
    assert_int_equal(json_get_bool(reply, "read_only", &flag), 0);
    assert_true(flag);
    cJSON_Delete(reply);
}

static void stop_spares_producers_unless_forced(void **state)
{
    struct fixture *f = *state;
    f->busy = true;
    assert_refused(f, "{\"command\":\"stop\"}", DIVERGE_EBUSY, "force");
    assert_int_equal(f->stopped, 0);
    assert_refused(f, "{\"command\":\"stop\",\"force\":1}", DIVERGE_EINVAL, "true or false");
    assert_ok(f, "{\"command\":\"stop\",\"force\":true}");
    assert_int_equal(f->stopped, 1);
    assert_true(f->forced);
}

static void rm_removes_a_run_that_has_ended(void **state)
{
    struct fixture *f = *state;
    int64_t run = make_run(f->lab, 1);
    make_run(f->lab, 2);
    char json[100];
    snprintf(json, sizeof(json), "{\"command\":\"rm\",\"run\":%lld}", (long long)run);
    assert_ok(f, json);
    assert_int_equal(lab_number(f->lab, "SELECT count(*) FROM runs"), 1);
    assert_refused(f, json, DIVERGE_ENOTFOUND, "there is no run");
}

static void rm_leaves_a_run_that_records(void **state)
{
    struct fixture *f = *state;
    struct lab_hello hello = {.stream = 1, .run = 1, .epoch = 1};
    assert_int_equal(lab_hello(f->lab, 1, &hello, NULL), 0);
    assert_int_equal(ingest_commit(f->lab->ingest), 0);
    char json[100];
    snprintf(json, sizeof(json), "{\"command\":\"rm\",\"run\":%lld}",
             (long long)lab_number(f->lab, "SELECT max(id) FROM runs"));
    assert_refused(f, json, DIVERGE_EBUSY, "recording");
    assert_int_equal(lab_number(f->lab, "SELECT count(*) FROM runs"), 1);
}

static void rm_leaves_a_run_that_is_pinned(void **state)
{
    struct fixture *f = *state;
    int64_t run = make_run(f->lab, 1);
    char json[100];
    snprintf(json, sizeof(json), "{\"command\":\"pin\",\"run\":%lld}", (long long)run);
    assert_ok(f, json);
    snprintf(json, sizeof(json), "{\"command\":\"rm\",\"run\":%lld}", (long long)run);
    assert_refused(f, json, DIVERGE_ESTATE, "pinned; unpin it first");
    assert_int_equal(lab_number(f->lab, "SELECT count(*) FROM runs"), 1);
}

static void pins_are_set_and_taken_off(void **state)
{
    struct fixture *f = *state;
    int64_t run = make_run(f->lab, 1);
    char json[100];
    snprintf(json, sizeof(json), "{\"command\":\"pin\",\"run\":%lld}", (long long)run);
    assert_ok(f, json);
    assert_int_equal(lab_number(f->lab, "SELECT pinned FROM runs"), 1);
    snprintf(json, sizeof(json), "{\"command\":\"unpin\",\"run\":\"%lld\"}", (long long)run);
    assert_ok(f, json);
    assert_int_equal(lab_number(f->lab, "SELECT pinned FROM runs"), 0);
    assert_refused(f, "{\"command\":\"pin\",\"run\":999}", DIVERGE_ENOTFOUND, "no run 999");
}

static void differences_are_noted(void **state)
{
    struct fixture *f = *state;
    int64_t a = make_run(f->lab, 1);
    int64_t b = make_run(f->lab, 2);
    char json[200];
    snprintf(json, sizeof(json), "{\"command\":\"difference\",\"a\":%lld,\"b\":%lld,\"segment\":2}",
             (long long)a, (long long)b);
    assert_ok(f, json);
    assert_int_equal(lab_number(f->lab, "SELECT segment FROM differences"), 2);
    assert_refused(f, "{\"command\":\"difference\",\"a\":1,\"b\":2}", DIVERGE_EINVAL, "segment");
}

static void gc_reports_what_it_did(void **state)
{
    struct fixture *f = *state;
    int64_t run = make_run(f->lab, 1);
    char json[100];
    snprintf(json, sizeof(json), "{\"command\":\"rm\",\"run\":%lld}", (long long)run);
    assert_ok(f, json);
    bool more = true;
    uint64_t removed = 0;
    for (int round = 0; more && round < 100; round++) {
        cJSON *reply = ask(f, "{\"command\":\"gc\",\"budget_ms\":1000}");
        uint64_t chunks = 0;
        assert_int_equal(json_get_bool(reply, "more", &more), 0);
        assert_int_equal(json_get_u64(reply, "chunks_removed", &chunks), 0);
        removed += chunks;
        cJSON_Delete(reply);
    }
    assert_false(more);
    assert_int_equal(removed, 1);
    assert_refused(f, "{\"command\":\"gc\",\"budget_ms\":0}", DIVERGE_EINVAL, "1 to 1000");
    assert_refused(f, "{\"command\":\"gc\",\"budget_ms\":5000}", DIVERGE_EINVAL, "1 to 1000");
}

static void bad_requests_get_an_answer_that_helps(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, "{}", DIVERGE_EINVAL, "\"command\" is missing");
    assert_refused(f, "{\"command\":7}", DIVERGE_EINVAL, "command");
    assert_refused(f, "{\"command\":\"STATUS\"}", DIVERGE_EUNSUPPORTED, "older");
    assert_refused(f, "{\"Command\":\"status\"}", DIVERGE_EINVAL, "command");
    assert_refused(f, "{\"command\":\"rm\"}", DIVERGE_EINVAL, "\"run\" is missing");
    assert_refused(f, "{\"command\":\"rm\",\"run\":-1}", DIVERGE_EINVAL, "\"run\" must be");
    assert_refused(f, "{\"command\":\"rm\",\"run\":\"18446744073709551615\"}", DIVERGE_EINVAL,
                   "\"run\" must be");
    assert_refused(f, "{\"command\":\"status\"} junk", DIVERGE_EPROTO, "not one JSON object");
    assert_refused(f, "not json", DIVERGE_EPROTO, "not one JSON object");
    assert_refused(f, "{\"command\":\"status\",\"command\":\"stop\"}", DIVERGE_EPROTO, "twice");
    assert_int_equal(f->stopped, 0);
}

static void a_long_command_is_cut_between_characters(void **state)
{
    struct fixture *f = *state;
    char json[2000];
    size_t at = (size_t)sprintf(json, "{\"command\":\"x");
    for (int i = 0; i < 600; i++)
        at += (size_t)sprintf(json + at, "\xe2\x82\xac");
    sprintf(json + at, "\"}");
    assert_refused(f, json, DIVERGE_EUNSUPPORTED, "\xe2\x82\xac"); /* it decodes: valid UTF-8 */
}

static void a_payload_that_cannot_be_answered_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct control_host host = {.context = f, .status = host_status, .stop = host_stop};
    struct dvg_buffer replies;
    dvg_buffer_init(&replies, 1000);
    assert_int_equal(control_request(f->lab->store, &host, (struct dvg_bytes){0}, &replies),
                     DIVERGE_EPROTO);
    static const uint8_t junk[24] = {1, 0, 1, 0, 4, 0, 0, 0, 9};
    assert_int_equal(
        control_request(f->lab->store, &host, (struct dvg_bytes){junk, sizeof(junk)}, &replies),
        DIVERGE_EPROTO);
    assert_int_equal(replies.size, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(status_tells_what_the_daemon_knows),
        CASE(stop_spares_producers_unless_forced),
        CASE(rm_removes_a_run_that_has_ended),
        CASE(rm_leaves_a_run_that_records),
        CASE(rm_leaves_a_run_that_is_pinned),
        CASE(pins_are_set_and_taken_off),
        CASE(differences_are_noted),
        CASE(gc_reports_what_it_did),
        CASE(bad_requests_get_an_answer_that_helps),
        CASE(a_long_command_is_cut_between_characters),
        CASE(a_payload_that_cannot_be_answered_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
