/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON wrapper: what it takes prints to something it takes again, as the same text. */

#include <stdlib.h>
#include <string.h>

#include "daemon/proto/json.h"

static void require(int truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *first;
    if (json_parse((struct dvg_bytes){.data = data, .size = size}, &first, NULL))
        return 0;
    struct dvg_buffer once;
    struct dvg_buffer twice;
    dvg_buffer_init(&once, JSON_SIZE_MAX);
    dvg_buffer_init(&twice, JSON_SIZE_MAX);
    /* Printing can be longer than the input, and over the cap. */
    if (!json_print(first, &once)) {
        cJSON *second = NULL;
        require(json_parse((struct dvg_bytes){.data = once.data, .size = once.size}, &second,
                           NULL) == 0);
        require(json_print(second, &twice) == 0);
        require(once.size == twice.size && !memcmp(once.data, twice.data, once.size));
        cJSON_Delete(second);
    }
    uint64_t number;
    const char *text;
    bool flag;
    json_get_u64(first, "run", &number);
    json_get_string(first, "command", &text);
    json_get_bool(first, "force", &flag);
    dvg_buffer_fini(&twice);
    dvg_buffer_fini(&once);
    cJSON_Delete(first);
    return 0;
}
