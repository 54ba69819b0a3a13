/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/producer.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/fingerprint.h>

static struct dvg_producer *set_of(struct dvg_producers *producers, uint64_t storage)
{
    uint64_t set = diverge_mix64(storage) % DVG_PRODUCER_SETS;
    return &producers->entries[set * DVG_PRODUCER_WAYS];
}

static bool same(const struct dvg_identity *a, const struct dvg_identity *b)
{
    return a->storage == b->storage && a->version == b->version && a->offset == b->offset &&
           a->type == b->type;
}

/* The entry of that identity, else the one that has not been touched for longest. */
static struct dvg_producer *entry_for(struct dvg_producer *set, const struct dvg_identity *identity)
{
    struct dvg_producer *oldest = set;
    for (int i = 0; i < DVG_PRODUCER_WAYS; i++) {
        if (set[i].used && same(&set[i].identity, identity))
            return &set[i];
        if (set[i].used < oldest->used)
            oldest = &set[i];
    }
    return oldest;
}

void dvg_producers_put(struct dvg_producers *producers, const struct dvg_identity *identity,
                       uint64_t ref, const struct dvg_value *value)
{
    dvg_lock_take(&producers->lock);
    if (!producers->entries)
        producers->entries =
            calloc(DVG_PRODUCER_SETS * DVG_PRODUCER_WAYS, sizeof(*producers->entries));
    if (producers->entries) {
        struct dvg_producer *entry = entry_for(set_of(producers, identity->storage), identity);
        *entry = (struct dvg_producer){
            .identity = *identity, .ref = ref, .used = ++producers->clock, .value = *value};
    }
    dvg_lock_release(&producers->lock);
}

bool dvg_producers_find(struct dvg_producers *producers, const struct dvg_identity *identity,
                        uint64_t *ret_ref, struct dvg_value *ret_value)
{
    bool found = false;
    dvg_lock_take(&producers->lock);
    if (producers->entries) {
        struct dvg_producer *entry = entry_for(set_of(producers, identity->storage), identity);
        found = entry->used && same(&entry->identity, identity);
        if (found) {
            entry->used = ++producers->clock;
            *ret_ref = entry->ref;
            *ret_value = entry->value;
        }
    }
    dvg_lock_release(&producers->lock);
    return found;
}

void dvg_producers_forget(struct dvg_producers *producers, uint64_t storage)
{
    dvg_lock_take(&producers->lock);
    if (producers->entries && !storage) {
        memset(producers->entries, 0,
               DVG_PRODUCER_SETS * DVG_PRODUCER_WAYS * sizeof(*producers->entries));
    } else if (producers->entries) {
        struct dvg_producer *set = set_of(producers, storage);
        for (int i = 0; i < DVG_PRODUCER_WAYS; i++) {
            if (set[i].identity.storage == storage)
                set[i].used = 0;
        }
    }
    dvg_lock_release(&producers->lock);
}

void dvg_producers_fini(struct dvg_producers *producers)
{
    free(producers->entries);
    producers->entries = NULL;
}
