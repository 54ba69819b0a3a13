/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/noise_layout.h"

#include <string.h>

/* ---- sites ---------------------------------------------------------------------------------- */

static uint64_t site_key(const struct trace_site *site)
{
    uint64_t key;
    memcpy(&key, site->digest.bytes, sizeof(key));
    return key ? key : 1;
}

static size_t find_place(const uint64_t *keys, size_t capacity, uint64_t key)
{
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (capacity - 1);
    while (keys[at] && keys[at] != key)
        at = (at + 1) & (capacity - 1);
    return at;
}

static void grow(struct noise_sites *sites, struct pool *keep)
{
    size_t capacity = sites->capacity ? sites->capacity * 2 : 1024;
    uint64_t *keys = POOL_ARRAY(keep, uint64_t, capacity);
    uint32_t *numbers = POOL_ARRAY(keep, uint32_t, capacity);
    for (size_t i = 0; i < sites->capacity; i++) {
        if (!sites->keys[i])
            continue;
        size_t at = find_place(keys, capacity, sites->keys[i]);
        keys[at] = sites->keys[i];
        numbers[at] = sites->numbers[i];
    }
    sites->keys = keys;
    sites->numbers = numbers;
    sites->capacity = capacity;
}

static uint32_t site_number(struct noise_sites *sites, struct pool *keep,
                            const struct trace_site *site)
{
    if (sites->count >= sites->capacity / 2)
        grow(sites, keep);
    uint64_t key = site_key(site);
    size_t at = find_place(sites->keys, sites->capacity, key);
    if (!sites->keys[at]) {
        sites->keys[at] = key;
        sites->numbers[at] = sites->count++;
    }
    return sites->numbers[at];
}

/* ---- groups --------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return (hash ^ 0x1ff) * UINT64_C(0x100000001b3);
}

/* Of "layer.key.bias": "layer.key". */
static size_t stem(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

/* 0: stands alone. */
static uint64_t group_key(const struct trace_site *site)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    bool gradient = site->role == DIVERGE_ROLE_GRAD && !site->op[0];
    if (!gradient &&
        (!site->op[0] || (site->role != DIVERGE_ROLE_INPUT && site->role != DIVERGE_ROLE_OUTPUT)))
        return 0;
    hash = hash_text(hash, site->lane, strlen(site->lane));
    hash = hash_text(hash, site->region, strlen(site->region));
    hash = hash_text(hash, site->scope, strlen(site->scope));
    hash = hash_text(hash, site->op, strlen(site->op));
    hash = hash_text(hash, site->name, gradient ? stem(site->name) : 0);
    hash ^= (uint64_t)site->micro_step << 32 ^ (gradient ? 0 : site->occurrence);
    hash = (hash ^ (uint64_t)site->phase << 56 ^ gradient) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ? hash : 1;
}

static uint64_t owner_of(const struct trace_site *site)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t length = strlen(site->name);
    if (site->role == DIVERGE_ROLE_OPTSTATE)
        length = stem(site->name);
    else if (site->role != DIVERGE_ROLE_PARAM && site->role != DIVERGE_ROLE_GRAD)
        return 0;
    hash = hash_text(hash, site->scope, strlen(site->scope));
    hash = hash_text(hash, site->name, length);
    return hash ? hash : 1;
}

static void make_groups(struct noise_layout *layout, const struct trace_layout *from)
{
    struct noise_sites groups = {0};
    struct pool *arena = &layout->arena;
    for (uint32_t i = 0; i < layout->count; i++) {
        uint64_t key = group_key(from->sites[i]);
        layout->group[i] = NO_INDEX;
        if (!key)
            continue;
        struct trace_site stand_in = {0};
        memcpy(stand_in.digest.bytes, &key, sizeof(key));
        layout->group[i] = site_number(&groups, arena, &stand_in);
    }
    layout->n_groups = groups.count;
    layout->start = POOL_ARRAY(arena, uint32_t, (size_t)groups.count + 2);
    layout->members = POOL_ARRAY(arena, uint32_t, (size_t)layout->count + 1);
    uint32_t *start = layout->start;
    for (uint32_t i = 0; i < layout->count; i++)
        if (layout->group[i] != NO_INDEX)
            start[layout->group[i] + 2]++;
    for (uint32_t g = 2; g < groups.count + 2; g++)
        start[g] += start[g - 1];
    for (uint32_t i = 0; i < layout->count; i++)
        if (layout->group[i] != NO_INDEX)
            layout->members[start[layout->group[i] + 1]++] = i;
}

/* ---- a layout ------------------------------------------------------------------------------- */

static enum noise_rule rule_of(const struct trace_site *site)
{
    if (site->flags & (DIVERGE_FLAG_VOLATILE | DIVERGE_FLAG_UNINITIALISED | DIVERGE_FLAG_EVIDENCE))
        return NOISE_SKIP;
    if (site->role == DIVERGE_ROLE_INPUT && !(site->flags & DIVERGE_FLAG_COLLECTIVE))
        return NOISE_SKIP;
    if (site->role == DIVERGE_ROLE_BATCH || site->role == DIVERGE_ROLE_ATTR)
        return NOISE_EXACT;
    return NOISE_VALUE;
}

void noise_layout_make(struct noise_layout *layout, struct noise_sites *sites, struct pool *keep,
                       enum diverge_tier tier, const struct trace_layout *from)
{
    struct pool *arena = &layout->arena;
    layout->tier = tier;
    layout->digest = from->digest;
    layout->count = from->count;
    layout->rule = POOL_ARRAY(arena, uint8_t, (size_t)from->count + 1);
    layout->site = POOL_ARRAY(arena, uint32_t, (size_t)from->count + 1);
    layout->group = POOL_ARRAY(arena, uint32_t, (size_t)from->count + 1);
    layout->owner = POOL_ARRAY(arena, uint64_t, (size_t)from->count + 1);
    for (uint32_t i = 0; i < from->count; i++) {
        layout->rule[i] = (uint8_t)rule_of(from->sites[i]);
        layout->site[i] = site_number(sites, keep, from->sites[i]);
        layout->owner[i] = owner_of(from->sites[i]);
    }
    make_groups(layout, from);
}
