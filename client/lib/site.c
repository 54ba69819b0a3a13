/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/site.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/lib/text.h"

enum { ENTRIES_FIRST = 256, COUNTERS_FIRST = 64, INDEX_FIRST = 512 };

_Static_assert(sizeof(struct dvg_site_entry) == 64, "one cache line");

/* Equal in all but the occurrence. */
static inline bool key_alike(const struct dvg_key *a, const struct dvg_key *b)
{
    return !((a->kind ^ b->kind) | (a->flags_micro ^ b->flags_micro) |
             (a->region_scope ^ b->region_scope) | (a->op_name ^ b->op_name));
}

static inline bool key_equal(const struct dvg_key *a, const struct dvg_key *b)
{
    return key_alike(a, b) && a->occurrence == b->occurrence;
}

static inline bool key_in_op(const struct dvg_key *key)
{
    return key->op_name & DVG_KEY_LOW;
}

static uint64_t key_hash(const struct dvg_key *key)
{
    return dvg_hash_bytes(key, sizeof(*key), 0);
}

/* ---- growing arrays and indexes -------------------------------------------------------------- */

/* Room for one more item: the array, or NULL. */
static void *with_room(void *array, uint32_t n, uint32_t *capacity, size_t item)
{
    if (n < *capacity)
        return array;
    uint32_t larger = *capacity * 2;
    void *grown = realloc(array, larger * item);
    if (grown)
        *capacity = larger;
    return grown;
}

static void index_put(struct dvg_index *index, uint64_t hash, uint32_t value)
{
    uint32_t i = (uint32_t)hash;
    while (index->slots[i & (index->capacity - 1)])
        i++;
    index->slots[i & (index->capacity - 1)] = value;
}

/* The next candidate of `hash` from *at on, 0: none. */
static uint32_t index_next(const struct dvg_index *index, uint32_t *at)
{
    return index->slots[(*at)++ & (index->capacity - 1)];
}

/* An empty index that holds `n` items half full: 0 or ENOMEM; the old one stays on failure. */
static int index_grow(struct dvg_index *index, uint32_t n, bool *ret_refill)
{
    *ret_refill = false;
    if (n < index->capacity / 2)
        return 0;
    uint32_t *slots = calloc(index->capacity * 2, sizeof(uint32_t));
    if (!slots)
        return DIVERGE_ENOMEM;
    free(index->slots);
    index->slots = slots;
    index->capacity *= 2;
    *ret_refill = true;
    return 0;
}

/* ---- counters -------------------------------------------------------------------------------- */

static uint32_t counter_look_up(const struct dvg_sites *sites, const struct dvg_key *key,
                                uint64_t hash)
{
    uint32_t at = (uint32_t)hash;
    for (uint32_t i = index_next(&sites->counter_index, &at); i;
         i = index_next(&sites->counter_index, &at)) {
        if (key_alike(&sites->counters[i].key, key))
            return i;
    }
    return 0;
}

static int counter_add(struct dvg_sites *sites, const struct dvg_key *key, uint64_t hash,
                       uint32_t *ret)
{
    struct dvg_counter *counters =
        with_room(sites->counters, sites->n_counters, &sites->counters_capacity, sizeof(*counters));
    if (!counters)
        return DIVERGE_ENOMEM;
    sites->counters = counters;
    bool refill;
    int rc = index_grow(&sites->counter_index, sites->n_counters, &refill);
    if (rc)
        return rc;
    for (uint32_t i = DVG_SEGMENT_KINDS; refill && i < sites->n_counters; i++)
        index_put(&sites->counter_index, key_hash(&counters[i].key), i);
    counters[sites->n_counters] = (struct dvg_counter){.key = *key};
    index_put(&sites->counter_index, hash, sites->n_counters);
    *ret = sites->n_counters++;
    return 0;
}

/* `key` must have occurrence 0. */
static int counter_find(struct dvg_sites *sites, const struct dvg_key *key, uint32_t *ret)
{
    uint64_t hash = key_hash(key);
    uint32_t found = counter_look_up(sites, key, hash);
    if (!found)
        return counter_add(sites, key, hash, ret);
    *ret = found;
    return 0;
}

/* How often the counter was counted in this segment; then counts once more. */
static inline uint32_t counter_count(struct dvg_counter *counter, uint32_t epoch)
{
    uint32_t before = counter->epoch == epoch ? counter->count : 0;
    counter->epoch = epoch;
    counter->count = before + 1;
    return before;
}

int dvg_sites_call(struct dvg_sites *sites, struct dvg_key *key, uint32_t *ret)
{
    key->kind |= DVG_KEY_CALL;
    struct dvg_counter *last = &sites->counters[sites->last_call];
    uint32_t found = last->next;
    if (!found || !key_alike(&sites->counters[found].key, key)) {
        int rc = counter_find(sites, key, &found);
        if (rc) {
            key->kind &= ~DVG_KEY_CALL;
            return rc;
        }
        sites->counters[sites->last_call].next = found;
    }
    sites->last_call = found;
    key->kind &= ~DVG_KEY_CALL;
    key->occurrence = counter_count(&sites->counters[found], sites->epoch);
    *ret = found;
    return 0;
}

/* ---- sites ----------------------------------------------------------------------------------- */

static uint32_t site_look_up(const struct dvg_sites *sites, const struct dvg_key *key,
                             uint64_t hash)
{
    uint32_t at = (uint32_t)hash;
    for (uint32_t i = index_next(&sites->entry_index, &at); i;
         i = index_next(&sites->entry_index, &at)) {
        if (key_equal(&sites->entries[i].key, key))
            return i;
    }
    return 0;
}

static int site_define(const struct dvg_sites *sites, struct dvg_define *define,
                       const struct dvg_key *key, uint32_t source, uint32_t *ret_number)
{
    struct dvg_site site = {
        .tier = (uint8_t)key->kind,
        .phase = (uint8_t)(key->kind >> DVG_KEY_PHASE_SHIFT),
        .role = (uint8_t)(key->kind >> DVG_KEY_ROLE_SHIFT),
        .slot = (uint16_t)(key->kind >> DVG_KEY_HIGH),
        .flags = (uint32_t)key->flags_micro,
        .micro_step = (uint32_t)(key->flags_micro >> DVG_KEY_HIGH),
        .occurrence = (uint32_t)key->occurrence,
        .lane = sites->lane,
        .region = (uint32_t)key->region_scope,
        .scope = (uint32_t)(key->region_scope >> DVG_KEY_HIGH),
        .op = (uint32_t)key->op_name,
        .name = (uint32_t)(key->op_name >> DVG_KEY_HIGH),
        .source = source,
    };
    return dvg_define_site(define, &site, ret_number);
}

static int site_add(struct dvg_sites *sites, struct dvg_define *define, const struct dvg_key *key,
                    uint64_t hash, uint32_t source, uint32_t counter, uint32_t *ret)
{
    struct dvg_site_entry *entries =
        with_room(sites->entries, sites->n_entries, &sites->entries_capacity, sizeof(*entries));
    if (!entries)
        return DIVERGE_ENOMEM;
    sites->entries = entries;
    bool refill;
    int rc = index_grow(&sites->entry_index, sites->n_entries, &refill);
    if (rc)
        return rc;
    for (uint32_t i = DVG_SEGMENT_KINDS; refill && i < sites->n_entries; i++)
        index_put(&sites->entry_index, key_hash(&entries[i].key), i);
    uint32_t number;
    rc = site_define(sites, define, key, source, &number);
    if (rc)
        return rc;
    entries[sites->n_entries] =
        (struct dvg_site_entry){.key = *key, .number = number, .counter = counter};
    index_put(&sites->entry_index, hash, sites->n_entries);
    *ret = sites->n_entries++;
    return 0;
}

/* Outside ops: the counter of this site's repeats, which tier and flags do not set apart. */
static int repeat_counter(struct dvg_sites *sites, const struct dvg_key *key, uint32_t *ret)
{
    struct dvg_key repeats = *key;
    repeats.kind &= ~DVG_KEY_TIER_MASK;
    repeats.flags_micro &= ~DVG_KEY_LOW;
    repeats.occurrence = 0;
    return counter_find(sites, &repeats, ret);
}

/* After a wrong prediction. */
static int site_search(struct dvg_sites *sites, struct dvg_define *define, struct dvg_key *key,
                       uint32_t source, uint32_t *ret)
{
    uint32_t counter = 0;
    sites->misses++;
    if (!key_in_op(key)) {
        int rc = repeat_counter(sites, key, &counter);
        if (rc)
            return rc;
        key->occurrence = counter_count(&sites->counters[counter], sites->epoch);
    }
    uint64_t hash = key_hash(key);
    uint32_t found = site_look_up(sites, key, hash);
    if (!found)
        return site_add(sites, define, key, hash, source, counter, ret);
    *ret = found;
    return 0;
}

/* Whether `entry` is the site of this record; counts the repeat if so. */
static inline bool site_matches(struct dvg_sites *sites, const struct dvg_site_entry *entry,
                                struct dvg_key *key)
{
    if (key_in_op(key))
        return key_equal(&entry->key, key);
    if (!key_alike(&entry->key, key))
        return false;
    struct dvg_counter *counter = &sites->counters[entry->counter];
    uint32_t before = counter->epoch == sites->epoch ? counter->count : 0;
    if (before != entry->key.occurrence)
        return false;
    key->occurrence = counter_count(counter, sites->epoch);
    return true;
}

int dvg_sites_find(struct dvg_sites *sites, struct dvg_define *define, struct dvg_key *key,
                   uint32_t source, uint32_t *ret)
{
    uint32_t found = sites->entries[sites->last].next;
    if (!found || !site_matches(sites, &sites->entries[found], key)) {
        int rc = site_search(sites, define, key, source, &found);
        if (rc)
            return rc;
        sites->entries[sites->last].next = found;
    }
    sites->last = found;
    *ret = found;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

void dvg_sites_begin(struct dvg_sites *sites, int segment_kind)
{
    sites->epoch++;
    sites->last = (uint32_t)segment_kind;
    sites->last_call = (uint32_t)segment_kind;
}

int dvg_sites_init(struct dvg_sites *sites, uint32_t lane)
{
    *sites = (struct dvg_sites){
        .n_entries = DVG_SEGMENT_KINDS,
        .entries_capacity = ENTRIES_FIRST,
        .n_counters = DVG_SEGMENT_KINDS,
        .counters_capacity = COUNTERS_FIRST,
        .entry_index = {.capacity = INDEX_FIRST},
        .counter_index = {.capacity = INDEX_FIRST},
        .lane = lane,
    };
    sites->entries = calloc(ENTRIES_FIRST, sizeof(*sites->entries));
    sites->counters = calloc(COUNTERS_FIRST, sizeof(*sites->counters));
    sites->entry_index.slots = calloc(INDEX_FIRST, sizeof(uint32_t));
    sites->counter_index.slots = calloc(INDEX_FIRST, sizeof(uint32_t));
    if (sites->entries && sites->counters && sites->entry_index.slots && sites->counter_index.slots)
        return 0;
    dvg_sites_fini(sites);
    return DIVERGE_ENOMEM;
}

void dvg_sites_fini(struct dvg_sites *sites)
{
    free(sites->entries);
    free(sites->counters);
    free(sites->entry_index.slots);
    free(sites->counter_index.slots);
    sites->entries = NULL;
    sites->counters = NULL;
    sites->entry_index.slots = NULL;
    sites->counter_index.slots = NULL;
}
