/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/generators.h"

#include <string.h>

/*
 * Python's and NumPy's generators differ in every run that does not seed them, and training mostly
 * draws from neither.
 */
static bool is_aside(const char *name)
{
    static const char *const names[] = {"python", "numpy", "random"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0 || (strncmp(name, names[i], strlen(names[i])) == 0 &&
                                            strchr(".:", name[strlen(names[i])])))
            return true;
    return false;
}

static struct generator *named(struct engine *engine, struct generators *list, size_t *capacity,
                               const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    struct generator added = {.name = pool_string(engine->keep, name), .aside = is_aside(name)};
    POOL_PUSH(engine->keep, list->items, list->count, *capacity, added);
    return &list->items[list->count - 1];
}

struct window {      /* which records of a chunk count */
    uint32_t before; /* order below this, in `lane`; UINT32_MAX: all */
    const char *lane;
    bool last; /* later records replace earlier ones */
};

static void gather(struct engine *engine, const struct trace_chunk *chunk, int side,
                   const struct window *window, struct generators *list, size_t *capacity)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        const struct trace_site *site = chunk->layout->sites[i];
        if (site->role != DIVERGE_ROLE_RNG)
            continue;
        if (window->before != UINT32_MAX &&
            (strcmp(site->lane, window->lane) != 0 || chunk_order(chunk, i) >= window->before))
            continue;
        struct generator *generator = named(engine, list, capacity, site->name);
        generator->reads[side]++;
        if (generator->has[side] && !window->last)
            continue;
        generator->has[side] = true;
        generator->value[side] = chunk_value(chunk, i);
    }
}

static void settle(struct generators *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct generator *generator = &list->items[i];
        if (generator->has[SIDE_A] && generator->has[SIDE_B])
            generator->differs = generator->value[SIDE_A] != generator->value[SIDE_B] ? YES : NO;
    }
}

struct generators generators_at(struct engine *engine, const struct pairing *pairing,
                                uint64_t segment, bool last)
{
    struct generators list = {0};
    size_t capacity = 0;
    struct window window = {.before = UINT32_MAX, .last = last};
    for (int side = 0; side < SIDES; side++) {
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk =
            side_load(engine, side, pairing->stream[side], DIVERGE_TIER_EVIDENCE, segment);
        if (chunk && !chunk->pruned)
            gather(engine, chunk, side, &window, &list, &capacity);
        engine_release(engine, mark);
    }
    settle(&list);
    return list;
}

/* The last evidence row before the segment that both sides have. */
static uint64_t last_common_row(struct engine *engine, const struct pairing *pairing,
                                uint64_t segment)
{
    struct trace_head a, b;
    if (segment == 0 || !pairing->tier[DIVERGE_TIER_EVIDENCE] ||
        !side_head_at(engine, SIDE_A, pairing->stream[SIDE_A], DIVERGE_TIER_EVIDENCE, segment - 1,
                      &a) ||
        !side_head_at(engine, SIDE_B, pairing->stream[SIDE_B], DIVERGE_TIER_EVIDENCE, segment - 1,
                      &b))
        return NO_SEGMENT;
    return a.segment == b.segment ? a.segment : NO_SEGMENT;
}

static const struct generator *find(const struct generators *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static void compare_later(const struct generators *after, struct generators *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct generator *generator = &list->items[i];
        const struct generator *later = find(after, generator->name);
        for (int side = 0; later && side < SIDES; side++) {
            if (!later->has[side] || !generator->has[side])
                continue;
            if (later->value[side] != generator->value[side])
                generator->drawn = YES;
            else if (generator->drawn == UNKNOWN)
                generator->drawn = NO;
        }
    }
}

/* Against the end of the segment, where it recorded them, and against the next one that did. */
static void find_drawn(struct engine *engine, const struct view *view, struct generators *list)
{
    struct trace_head head;
    const struct pairing *pairing = view->pairing;
    struct generators here = generators_at(engine, pairing, view->segment, true);
    compare_later(&here, list);
    if (!side_head_from(engine, SIDE_A, pairing->stream[SIDE_A], DIVERGE_TIER_EVIDENCE,
                        view->segment + 1, &head))
        return;
    struct generators after = generators_at(engine, pairing, head.segment, false);
    compare_later(&after, list);
}

struct generators generators_before(struct engine *engine, const struct view *view,
                                    const struct item *item)
{
    struct generators list = {0};
    const struct pairing *pairing = view->pairing;
    uint64_t row = last_common_row(engine, pairing, view->segment);
    if (row != NO_SEGMENT)
        list = generators_at(engine, pairing, row, true);
    size_t capacity = list.count;
    for (int side = 0; item && side < SIDES; side++) {
        const struct trace_chunk *chunk = view->chunk[side][DIVERGE_TIER_EVIDENCE];
        if (!chunk || !item_has(item, side))
            continue;
        struct window window = {.before = item_order(view, item, side),
                                .lane = item_site_of(view, item, side)->lane,
                                .last = true};
        gather(engine, chunk, side, &window, &list, &capacity);
    }
    settle(&list);
    if (pairing->tier[DIVERGE_TIER_EVIDENCE])
        find_drawn(engine, view, &list);
    return list;
}

const struct generator *generators_first_differing(const struct generators *generators)
{
    const struct generator *aside = NULL;
    for (size_t i = 0; i < generators->count; i++) {
        const struct generator *generator = &generators->items[i];
        if (generator->differs != YES)
            continue;
        if (!generator->aside)
            return generator;
        aside = aside ? aside : generator;
    }
    return aside;
}

size_t generators_differing(const struct generators *generators)
{
    size_t main_ones = 0, aside = 0;
    for (size_t i = 0; i < generators->count; i++) {
        if (generators->items[i].differs == YES && generators->items[i].aside)
            aside++;
        else if (generators->items[i].differs == YES)
            main_ones++;
    }
    return main_ones ? main_ones : aside;
}
