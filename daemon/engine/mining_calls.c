/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/mining_calls.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>
#include <diverge/fingerprint.h>

#include "client/wire/message.h"

/* Results that say nothing of the op itself, or that it is not expected to repeat. */
#define UNFIT_FLAGS                                                                                \
    (DIVERGE_FLAG_RANDOM | DIVERGE_FLAG_UNINITIALISED | DIVERGE_FLAG_VOLATILE |                    \
     DIVERGE_FLAG_COLLECTIVE)

uint64_t mining_mix(uint64_t hash, uint64_t value)
{
    return diverge_mix64(hash * UINT64_C(0xff51afd7ed558ccd) ^ diverge_mix64(value + 1));
}

uint64_t mining_text(uint64_t hash, const char *text)
{
    size_t size = strlen(text);
    hash = mining_mix(hash, size);
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, text + at, size - at < 8 ? size - at : 8);
        hash = mining_mix(hash, word);
    }
    return hash;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static struct mining_key call_key(const struct trace_site *site, uint64_t op)
{
    struct mining_key key = {{op, ~op}};
    key = mining_absorb(key, mining_text(1, site->lane));
    key = mining_absorb(key, mining_text(2, site->region));
    key = mining_absorb(key, mining_text(3, site->scope));
    key = mining_absorb(key, (uint64_t)site->phase << 32 | site->micro_step);
    return mining_absorb(key, site->occurrence);
}

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = 16;
    while (slots < UINT32_MAX / 2 && slots / 2 < count)
        slots *= 2;
    return slots;
}

struct building {
    uint32_t *slots; /* 1 + call */
    struct mining_key *keys;
    uint32_t n_slots;
    uint32_t *call_of; /* per record; UINT32_MAX: of no call */
};

static uint32_t find_call(struct building *building, struct mining_plan *plan,
                          const struct trace_site *site)
{
    uint64_t op = mining_text(0, site->op);
    struct mining_key key = call_key(site, op);
    uint32_t at = (uint32_t)key.word[0] & (building->n_slots - 1);
    for (; building->slots[at]; at = (at + 1) & (building->n_slots - 1)) {
        uint32_t call = building->slots[at] - 1;
        if (memcmp(&building->keys[call], &key, sizeof(key)) == 0)
            return call;
    }
    uint32_t call = plan->n_calls++;
    building->slots[at] = call + 1;
    building->keys[call] = key;
    plan->calls[call] = (struct mining_call){.op = op, .name = site->op, .number = UINT32_MAX};
    return call;
}

/* Records of a call may be mixed with those of calls inside it: sort them by call. */
static void sort_records(struct mining_plan *plan, const struct building *building)
{
    uint32_t first = 0;
    for (uint32_t c = 0; c < plan->n_calls; c++) {
        plan->calls[c].first = first;
        first += plan->calls[c].count;
        plan->calls[c].count = 0;
    }
    for (uint32_t i = 0; i < plan->n_records; i++) {
        if (building->call_of[i] == UINT32_MAX)
            continue;
        struct mining_call *call = &plan->calls[building->call_of[i]];
        plan->records[call->first + call->count++] = i;
    }
}

static void judge_calls(struct mining_plan *plan, const struct trace_layout *layout)
{
    for (uint32_t c = 0; c < plan->n_calls; c++) {
        struct mining_call *call = &plan->calls[c];
        bool input = false, output = false;
        for (uint32_t i = call->first; i < call->first + call->count; i++) {
            const struct trace_site *site = layout->sites[plan->records[i]];
            input = input || site->role == DIVERGE_ROLE_INPUT;
            output = output || site->role == DIVERGE_ROLE_OUTPUT;
            call->unfit =
                call->unfit || (site->flags & UNFIT_FLAGS) || site->role == DIVERGE_ROLE_COLLECTIVE;
        }
        call->unfit = call->unfit || !input || !output;
    }
}

static void fill_plan(struct mining_plan *plan, struct building *building,
                      const struct trace_layout *layout)
{
    for (uint32_t i = 0; i < layout->count; i++) {
        const struct trace_site *site = layout->sites[i];
        building->call_of[i] = UINT32_MAX;
        plan->is_output[i] = site->role == DIVERGE_ROLE_OUTPUT;
        plan->sites[i] = mining_text(mining_mix((uint64_t)site->role, site->slot), site->name);
        if (site->op[0] == '\0')
            continue;
        building->call_of[i] = find_call(building, plan, site);
        plan->calls[building->call_of[i]].count++;
    }
    sort_records(plan, building);
    judge_calls(plan, layout);
}

int mining_plan_init(struct mining_plan *plan, const struct trace_layout *layout)
{
    size_t n = layout->count;
    struct mining_plan made = {.layout = layout->digest, .n_records = layout->count};
    struct building building = {.n_slots = slots_for(layout->count)};
    made.records = calloc(n + 1, sizeof(*made.records));
    made.sites = calloc(n + 1, sizeof(*made.sites));
    made.is_output = calloc(n + 1, sizeof(*made.is_output));
    made.calls = calloc(n + 1, sizeof(*made.calls));
    building.slots = calloc(building.n_slots, sizeof(*building.slots));
    building.keys = calloc(n + 1, sizeof(*building.keys));
    building.call_of = calloc(n + 1, sizeof(*building.call_of));
    bool whole = made.records && made.sites && made.is_output && made.calls && building.slots &&
                 building.keys && building.call_of && layout->count < UINT32_MAX / 4;
    if (whole)
        fill_plan(&made, &building, layout);
    free(building.slots);
    free(building.keys);
    free(building.call_of);
    if (!whole) {
        mining_plan_fini(&made);
        return DIVERGE_ENOMEM;
    }
    *plan = made;
    return 0;
}

void mining_plan_fini(struct mining_plan *plan)
{
    free(plan->records);
    free(plan->sites);
    free(plan->is_output);
    free(plan->calls);
    *plan = (struct mining_plan){0};
}

/* ---- chunks --------------------------------------------------------------------------------- */

static bool type_is_sound(const struct trace_type *type)
{
    return type && (unsigned)type->kind <= DIVERGE_KIND_ABSENT &&
           (unsigned)type->dtype < DIVERGE_DTYPE_COUNT && type->ndim >= 0 &&
           type->ndim <= DIVERGE_MAX_NDIM && (type->ndim == 0 || type->sizes);
}

static bool site_is_sound(const struct trace_site *site)
{
    return site && site->lane && site->region && site->scope && site->op && site->name &&
           (unsigned)site->role < DIVERGE_ROLE_COUNT && (unsigned)site->phase < DIVERGE_PHASE_COUNT;
}

bool mining_chunk_is_sound(const struct trace_chunk *chunk)
{
    const struct trace_layout *layout = chunk->layout;
    if (!layout || layout->count != chunk->count)
        return false;
    if (chunk->count && (!chunk->value || !chunk->type || !chunk->types || !layout->sites))
        return false;
    for (uint32_t i = 0; i < chunk->n_types; i++)
        if (!type_is_sound(chunk->types[i]))
            return false;
    for (uint32_t i = 0; i < chunk->count; i++)
        if (chunk->type[i] >= chunk->n_types || !site_is_sound(layout->sites[i]))
            return false;
    return true;
}

static struct mining_key absorb_type(struct mining_key key, const struct trace_type *type)
{
    key = mining_absorb(key, (uint64_t)type->kind << 32 | (uint64_t)type->dtype << 8 |
                                 (uint64_t)type->ndim);
    for (int32_t d = 0; d < type->ndim; d++)
        key = mining_absorb(key, (uint64_t)type->sizes[d]);
    return key;
}

bool mining_call_read(const struct mining_plan *plan, const struct mining_call *call,
                      const struct trace_chunk *chunk, uint64_t fingerprint,
                      struct mining_seen *ret)
{
    struct mining_key key = {{fingerprint ^ call->op, fingerprint + call->op}};
    uint64_t output = 0;
    bool has_input = false, inherited = false;
    for (uint32_t at = call->first; at < call->first + call->count; at++) {
        uint32_t i = plan->records[at];
        uint8_t state = chunk->state ? chunk->state[i] : 0;
        const struct trace_type *type = chunk->types[chunk->type[i]];
        if (state & DVG_STATE_UNREAD)
            return false;
        key = mining_absorb(key, plan->sites[i]);
        key = mining_absorb(key, chunk->argument ? chunk->argument[i] : 0);
        key = absorb_type(key, type);
        if (plan->is_output[i]) {
            output = mining_mix(output, chunk->value[i]);
            continue;
        }
        key = mining_absorb(key, chunk->value[i]);
        has_input = has_input || type->kind != DIVERGE_KIND_ABSENT;
        inherited = inherited || (state & DVG_STATE_INHERITED);
    }
    *ret = (struct mining_seen){.key = key, .output = output, .inherited = inherited};
    return has_input;
}
