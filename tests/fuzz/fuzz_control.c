/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests: the input is the JSON of one. There is exactly one reply, and it is a JSON
 * object with `ok`.
 */

#include <stdlib.h>

#include "daemon/proto/control.h"

#include "client/wire/frame.h"
#include "daemon/proto/json.h"
#include "tests/fuzz/fuzz_store.h"

static void require(int truth)
{
    if (!truth)
        abort();
}

static void host_status(void *context, struct control_status *ret)
{
    (void)context;
    *ret = (struct control_status){.version = "0", .records = UINT64_MAX};
}

static int host_stop(void *context, bool force)
{
    (void)context;
    (void)force;
    return 0;
}

static void check_reply(const struct dvg_buffer *replies)
{
    struct dvg_frame frame;
    size_t size;
    struct dvg_bytes bytes = {.data = replies->data, .size = replies->size};
    require(dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size) == 1 && size == bytes.size);
    struct dvg_control reply;
    require(dvg_control_decode(frame.payload, &reply) == 0 && reply.request == 3);
    cJSON *json = NULL;
    bool ok;
    require(json_parse(reply.json, &json, NULL) == 0);
    require(json_get_bool(json, "ok", &ok) == 0);
    cJSON_Delete(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct store *store; /* empty, and stays so: no request makes a run */
    if (!store)
        store = fuzz_store_open();
    const struct control_host host = {.status = host_status, .stop = host_stop};
    struct dvg_buffer request;
    struct dvg_buffer replies;
    dvg_buffer_init(&request, 2 * DVG_FRAME_MAX);
    dvg_buffer_init(&replies, 2 * DVG_FRAME_MAX);
    const struct dvg_control message = {.request = 3, .json = {.data = data, .size = size}};
    if (!dvg_control_encode(&request, DVG_MESSAGE_CONTROL_REQUEST, &message)) {
        struct dvg_bytes payload = {.data = request.data + DVG_FRAME_HEADER,
                                    .size = request.size - DVG_FRAME_HEADER};
        if (!control_request(store, &host, payload, &replies))
            check_reply(&replies);
        else
            require(replies.size == 0);
    }
    dvg_buffer_fini(&replies);
    dvg_buffer_fini(&request);
    return 0;
}
