/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/following.h"

#include <string.h>

#include "daemon/engine/finding.h"

enum { LEVEL_TIERS = DIVERGE_TIER_OP + 1, NEAR = 64 };

struct listed {
    struct engine_finding **findings;
    size_t count, capacity;
    size_t independent, others;
    size_t limit;                  /* of each kind */
    const struct trace_site *call; /* of the last independent one, in this segment */
};

/* ---- what is independent -------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || strcmp(a, b) == 0;
}

static bool same_call(const struct trace_site *a, const struct trace_site *b)
{
    return a->occurrence == b->occurrence && a->phase == b->phase &&
           a->micro_step == b->micro_step && same_text(a->op, b->op) &&
           same_text(a->scope, b->scope) && same_text(a->lane, b->lane) &&
           same_text(a->region, b->region);
}

/* Nearly everything behind the first difference got a differing input, right before it. */
static bool receives(const struct view *view, const struct item *item)
{
    const struct trace_site *call = item_site(view, item);
    for (const struct item *at = item; at > view->items && item - at < NEAR;) {
        at--;
        if (at->tier != item->tier)
            return false;
        const struct trace_site *site = item_site(view, at);
        if (site->role == DIVERGE_ROLE_INPUT && at->state == ITEM_DIFFERS && !at->argument_only &&
            same_call(site, call))
            return true;
    }
    return false;
}

/*
 * Only ops: a module's parameters are no inputs of its record. An inherited input may have been
 * written since, so only measured ones prove that it agreed.
 */
static bool is_independent(const struct view *view, const struct item *item)
{
    static const uint32_t follows = DIVERGE_FLAG_RANDOM | DIVERGE_FLAG_COLLECTIVE |
                                    DIVERGE_FLAG_UNINITIALISED | DIVERGE_FLAG_VOLATILE;
    if (item->tier != DIVERGE_TIER_OP || item->state != ITEM_DIFFERS || item->argument_only ||
        !item_has(item, SIDE_A) || !item_has(item, SIDE_B))
        return false;
    const struct trace_site *site = item_site(view, item);
    if (site->role != DIVERGE_ROLE_OUTPUT || (site->flags & follows) || receives(view, item) ||
        item_argument(view, item, SIDE_A) != item_argument(view, item, SIDE_B) ||
        finding_relation(view, item) != ENGINE_ORIGIN)
        return false;
    struct engine_inputs inputs = finding_inputs(view, item);
    return inputs.equal > 0 && inputs.inherited == 0 && inputs.equal == inputs.measured;
}

/* ---- listing -------------------------------------------------------------------------------- */

static void list_item(struct engine *engine, struct listed *listed, const struct view *view,
                      const struct item *item)
{
    bool room = listed->independent < listed->limit;
    bool independent = room && is_independent(view, item) &&
                       !(listed->call && same_call(listed->call, item_site(view, item)));
    if (!independent && listed->others >= listed->limit)
        return;
    struct engine_finding *finding = finding_new(engine, view, item);
    finding->independent = independent;
    *(independent ? &listed->independent : &listed->others) += 1;
    if (independent)
        listed->call = finding->site;
    POOL_PUSH(&engine->scratch, listed->findings, listed->count, listed->capacity, finding);
}

static void list_view(struct engine *engine, struct listed *listed, const struct view *view,
                      const struct item *first)
{
    listed->call = first ? item_site(view, first) : NULL;
    for (size_t i = 0; i < view->n_differences; i++)
        if (view->differences[i] != first)
            list_item(engine, listed, view, view->differences[i]);
    listed->call = NULL;
}

static bool is_full(const struct listed *listed)
{
    return listed->independent >= listed->limit;
}

static void list_later(struct engine *engine, const struct following *following,
                       struct listed *listed)
{
    const struct pairing *pairing = following->pairing;
    struct scan scans[LEVEL_TIERS] = {0};
    for (int tier = 0; tier < LEVEL_TIERS; tier++) {
        scans[tier].next = NO_SEGMENT;
        if (!pairing->tier[tier])
            continue;
        if (following->scans)
            scans[tier] = following->scans[tier];
        else
            scan_start(engine, pairing, (enum diverge_tier)tier, NO_SEGMENT, &scans[tier]);
        if (scans[tier].deferred)
            scan_resume(engine, pairing, &scans[tier]);
    }
    while (!is_full(listed)) {
        uint64_t next = NO_SEGMENT;
        for (int tier = 0; tier < LEVEL_TIERS; tier++)
            next = scans[tier].next < next ? scans[tier].next : next;
        if (next == NO_SEGMENT)
            return;
        if (next > following->view->segment) {
            struct view *view = view_load(engine, pairing, next);
            list_view(engine, listed, view, NULL);
            view_release(engine, view);
        }
        for (int tier = 0; tier < LEVEL_TIERS; tier++)
            if (scans[tier].next == next)
                scan_advance(engine, pairing, &scans[tier]);
    }
}

void following_list(struct engine *engine, const struct following *following)
{
    struct engine_answer *answer = engine->answer;
    if (answer->n_also >= following->limit)
        return;
    struct listed listed = {.limit = following->limit - answer->n_also};
    if (following->independent)
        listed.others = listed.limit;
    list_view(engine, &listed, following->view, following->first);
    list_later(engine, following, &listed);
    size_t others = listed.limit - listed.independent;
    for (size_t i = 0; i < listed.count; i++) {
        struct engine_finding *finding = listed.findings[i];
        if (!finding->independent && others == 0)
            continue;
        others -= !finding->independent;
        POOL_PUSH(engine->keep, answer->also, answer->n_also, engine->also_capacity, finding);
    }
}
