/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that talks to cJSON, and guards its traps: it loses digits of integers, finds keys
 * without regard to case, and accepts trailing junk, duplicate keys, control characters and NUL in
 * strings. Any thread.
 */
#ifndef DAEMON_PROTO_JSON_H
#define DAEMON_PROTO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "client/wire/buffer.h"
#include "client/wire/message.h"

enum {
    JSON_SIZE_MAX = 1024 * 1024,
    JSON_DEPTH_MAX = 16,
};

/* The integers that every JSON reader keeps exactly; larger ones travel as strings of digits. */
#define JSON_EXACT_MAX (INT64_C(1) << 53)

/*
 * Parses one JSON object and nothing else. EPROTO: not one, duplicate keys, a number out of range,
 * control characters; ELIMIT: longer or deeper than the caps; ENOMEM. *ret is freed with
 * cJSON_Delete; *ret_why (may be NULL) is a constant text.
 */
int json_parse(struct dvg_bytes text, cJSON **ret, const char **ret_why);

/* The member of exactly that name, NULL when there is none. */
const cJSON *json_get(const cJSON *object, const char *key);

/*
 * Members by type: 0, ENOTFOUND (absent; *ret is untouched) or EPROTO (another type or out of
 * range).
 */
int json_get_string(const cJSON *object, const char *key, const char **ret);
int json_get_bool(const cJSON *object, const char *key, bool *ret);
int json_get_u64(const cJSON *object, const char *key,
                 uint64_t *ret); /* a number or a string of digits */

/* Adds to an object: 0 or ENOMEM. Beyond JSON_EXACT_MAX: as a string of digits. */
int json_add_u64(cJSON *object, const char *key, uint64_t value);
int json_add_i64(cJSON *object, const char *key, int64_t value);
int json_add_string(cJSON *object, const char *key, const char *value);
int json_add_bool(cJSON *object, const char *key, bool value);

/*
 * The JSON text of `item`, whole numbers with all their digits; the caller frees it. NULL: out of
 * memory.
 */
char *json_text(const cJSON *item);

/* Appends the text of `item`, without white space: 0, ENOMEM or ELIMIT. */
int json_print(const cJSON *item, struct dvg_buffer *out);

#endif
