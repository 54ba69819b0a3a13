/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/deferred.h"

#include <stdlib.h>

#include <diverge/error.h>

#include "client/lib/value.h"
#include "client/wire/message.h"

static uint64_t token_of(const struct dvg_deferred *deferred, uint32_t index)
{
    return (uint64_t)deferred->slots[index].generation << 32 | (index + 1);
}

/* The slot of a token that is in use, or NULL. Under the lock. */
static struct dvg_deferred_slot *slot_of(struct dvg_deferred *deferred, uint64_t token)
{
    uint32_t index = (uint32_t)token - 1;
    if (!(uint32_t)token || index >= deferred->n_slots)
        return NULL;
    struct dvg_deferred_slot *slot = &deferred->slots[index];
    return slot->generation == token >> 32 ? slot : NULL;
}

static void release(struct dvg_deferred *deferred, struct dvg_deferred_slot *slot)
{
    slot->entry = NULL;
    slot->generation++;
    slot->next_free = deferred->first_free;
    deferred->first_free = (uint32_t)(slot - deferred->slots) + 1;
    deferred->open--;
}

static bool grow(struct dvg_deferred *deferred)
{
    if (deferred->n_slots < deferred->capacity)
        return true;
    uint32_t capacity = deferred->capacity ? deferred->capacity * 2 : 64;
    struct dvg_deferred_slot *slots = realloc(deferred->slots, capacity * sizeof(*slots));
    if (!slots)
        return false;
    deferred->slots = slots;
    deferred->capacity = capacity;
    return true;
}

uint64_t dvg_deferred_take(struct dvg_deferred *deferred)
{
    uint64_t token = 0;
    dvg_lock_take(&deferred->lock);
    if (deferred->first_free) {
        uint32_t index = deferred->first_free - 1;
        deferred->first_free = deferred->slots[index].next_free;
        token = token_of(deferred, index);
    } else if (grow(deferred)) {
        deferred->slots[deferred->n_slots] = (struct dvg_deferred_slot){.generation = 1};
        token = token_of(deferred, deferred->n_slots++);
    }
    deferred->open += token != 0;
    dvg_lock_release(&deferred->lock);
    return token;
}

void dvg_deferred_set(struct dvg_deferred *deferred, uint64_t token, struct dvg_entry *entry,
                      enum diverge_dtype dtype)
{
    dvg_lock_take(&deferred->lock);
    struct dvg_deferred_slot *slot = slot_of(deferred, token);
    slot->entry = entry;
    slot->dtype = dtype;
    dvg_lock_release(&deferred->lock);
}

void dvg_deferred_drop(struct dvg_deferred *deferred, uint64_t token)
{
    dvg_lock_take(&deferred->lock);
    struct dvg_deferred_slot *slot = slot_of(deferred, token);
    if (slot)
        release(deferred, slot);
    dvg_lock_release(&deferred->lock);
}

/* Fills the slot's entry and gives it to the sender. */
static void fill(struct dvg_deferred_slot *slot, const struct diverge_fingerprint *fingerprint)
{
    struct dvg_entry *entry = slot->entry;
    struct dvg_value value = {.state = DVG_STATE_UNREAD};
    const float *sketch = NULL;
    if (fingerprint) {
        dvg_value_from(&value, slot->dtype, fingerprint);
        if (entry->sketch_size && fingerprint->sketch_size == entry->sketch_size)
            sketch = fingerprint->sketch;
    }
    dvg_entry_fill(entry, &value, sketch);
    atomic_store_explicit(&entry->pending, 0, memory_order_release);
}

int dvg_deferred_complete(struct dvg_deferred *deferred, uint64_t token,
                          const struct diverge_fingerprint *fingerprint)
{
    int rc = DIVERGE_ESTATE;
    dvg_lock_take(&deferred->lock);
    struct dvg_deferred_slot *slot = slot_of(deferred, token);
    if (slot && slot->entry) {
        fill(slot, fingerprint);
        release(deferred, slot);
        rc = 0;
    }
    dvg_lock_release(&deferred->lock);
    return rc;
}

void dvg_deferred_end(struct dvg_deferred *deferred)
{
    dvg_lock_take(&deferred->lock);
    for (uint32_t i = 0; i < deferred->n_slots; i++) {
        if (deferred->slots[i].entry) {
            fill(&deferred->slots[i], NULL);
            release(deferred, &deferred->slots[i]);
        }
    }
    dvg_lock_release(&deferred->lock);
}

void dvg_deferred_fini(struct dvg_deferred *deferred)
{
    free(deferred->slots);
    deferred->slots = NULL;
}
