/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata that waits to be sent: one value a key, the newest. Locking is the owner's.
 */
#ifndef CLIENT_LIB_METADATA_H
#define CLIENT_LIB_METADATA_H

#include <stddef.h>

#include "client/wire/buffer.h"

enum {
    DVG_METADATA_KEY_MAX = 256, /* bytes */
    DVG_METADATA_MAX =
        512 * 1024 /* bytes of all that waits, as JSON; values are cut at DVG_TEXT_MAX */
};

struct dvg_metadata_entry {
    struct dvg_metadata_entry *next;
    char *value; /* in the same block as key */
    char key[];
};

struct dvg_metadata_set {
    struct dvg_metadata_entry *first;
    size_t bytes; /* at most what the JSON text takes */
};

/* Adds or replaces: EINVAL (empty or long key), ELIMIT, ENOMEM. */
int dvg_metadata_put(struct dvg_metadata_set *set, const char *key, const char *value);
/* Appends all as one JSON object. */
int dvg_metadata_json(const struct dvg_metadata_set *set, struct dvg_buffer *out);
/* Gives back what could not be sent: entries that were not replaced meanwhile, as far as there is
 * room. Empties `unsent`. */
void dvg_metadata_restore(struct dvg_metadata_set *set, struct dvg_metadata_set *unsent);
void dvg_metadata_clear(struct dvg_metadata_set *set);

#endif
