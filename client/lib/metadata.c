/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/metadata.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/lib/text.h"

/* Each byte may become a six-byte escape; quotes, colon and comma come on top. */
static size_t cost(size_t key, size_t value)
{
    return 6 * (key + value) + 6;
}

static struct dvg_metadata_entry *entry_new(const char *key, size_t key_size, const char *value,
                                            size_t value_size)
{
    struct dvg_metadata_entry *entry = malloc(sizeof(*entry) + key_size + value_size + 2);
    if (!entry)
        return NULL;
    entry->value = entry->key + key_size + 1;
    memcpy(entry->key, key, key_size);
    memcpy(entry->value, value, value_size);
    entry->key[key_size] = '\0';
    entry->value[value_size] = '\0';
    return entry;
}

/* Unlinks the entry of that key. */
static void take_out(struct dvg_metadata_set *set, const char *key)
{
    for (struct dvg_metadata_entry **at = &set->first; *at; at = &(*at)->next) {
        struct dvg_metadata_entry *entry = *at;
        if (strcmp(entry->key, key) != 0)
            continue;
        *at = entry->next;
        set->bytes -= cost(strlen(entry->key), strlen(entry->value));
        free(entry);
        return;
    }
}

/* What the protocol allows in a text of JSON: UTF-8 without control characters. */
static size_t clean(const char *text, char ret[DVG_TEXT_MAX])
{
    size_t size = dvg_utf8_clean(text, strnlen(text, DVG_TEXT_MAX), ret);
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)ret[i] < 0x20 || ret[i] == 0x7f)
            ret[i] = ' ';
    }
    return size;
}

int dvg_metadata_put(struct dvg_metadata_set *set, const char *key, const char *value)
{
    char clean_key[DVG_TEXT_MAX];
    char clean_value[DVG_TEXT_MAX];
    size_t key_size = clean(key, clean_key);
    size_t value_size = clean(value, clean_value);
    if (!key_size || key_size > DVG_METADATA_KEY_MAX)
        return DIVERGE_EINVAL;
    if (cost(key_size, value_size) > DVG_METADATA_MAX - set->bytes)
        return DIVERGE_ELIMIT;
    struct dvg_metadata_entry *entry = entry_new(clean_key, key_size, clean_value, value_size);
    if (!entry)
        return DIVERGE_ENOMEM;
    take_out(set, entry->key);
    entry->next = set->first;
    set->first = entry;
    set->bytes += cost(key_size, value_size);
    return 0;
}

int dvg_metadata_json(const struct dvg_metadata_set *set, struct dvg_buffer *out)
{
    int rc = dvg_buffer_append(out, "{", 1);
    for (const struct dvg_metadata_entry *entry = set->first; !rc && entry; entry = entry->next) {
        rc = dvg_json_string(out, entry->key);
        if (!rc)
            rc = dvg_buffer_append(out, ":", 1);
        if (!rc)
            rc = dvg_json_string(out, entry->value);
        if (!rc && entry->next)
            rc = dvg_buffer_append(out, ",", 1);
    }
    return rc ? rc : dvg_buffer_append(out, "}", 1);
}

static bool has_key(const struct dvg_metadata_set *set, const char *key)
{
    const struct dvg_metadata_entry *entry = set->first;
    while (entry && strcmp(entry->key, key) != 0)
        entry = entry->next;
    return entry != NULL;
}

void dvg_metadata_restore(struct dvg_metadata_set *set, struct dvg_metadata_set *unsent)
{
    while (unsent->first) {
        struct dvg_metadata_entry *entry = unsent->first;
        size_t bytes = cost(strlen(entry->key), strlen(entry->value));
        unsent->first = entry->next;
        if (has_key(set, entry->key) || bytes > DVG_METADATA_MAX - set->bytes) {
            free(entry);
            continue;
        }
        entry->next = set->first;
        set->first = entry;
        set->bytes += bytes;
    }
    unsent->bytes = 0;
}

void dvg_metadata_clear(struct dvg_metadata_set *set)
{
    while (set->first) {
        struct dvg_metadata_entry *next = set->first->next;
        free(set->first);
        set->first = next;
    }
    set->bytes = 0;
}
