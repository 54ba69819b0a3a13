/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/align.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/sequence.h"

/* ---- hashing of names ----------------------------------------------------------------------- */

#define HASH_START UINT64_C(0xcbf29ce484222325)

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    hash ^= number + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ (hash >> 27);
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

struct renamed align_rename(const struct engine_options *options, int side, const char *text)
{
    for (size_t i = 0; side == SIDE_B && i < options->n_map; i++)
        if (starts_with(text, options->map[i][0]))
            return (struct renamed){options->map[i][1], text + strlen(options->map[i][0])};
    return (struct renamed){"", text};
}

static uint64_t hash_renamed(const struct engine_options *options, int side, uint64_t hash,
                             const char *text)
{
    struct renamed renamed = align_rename(options, side, text);
    return hash_number(hash_text(hash_text(hash, renamed.prefix), renamed.rest), 0);
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Consecutive records of one call of an op; a record outside of ops is a call of its own. */
struct call {
    uint64_t group; /* lane, phase, region, micro-step, scope */
    uint64_t op;
    uint64_t signature; /* op and its records' roles, slots and names */
    uint64_t values;    /* what the call wrote */
    uint64_t inputs;    /* what it read */
    uint32_t first;
    uint32_t count;
};

struct calls {
    struct call *items;
    size_t count;
};

static bool same_call(const struct trace_site *a, const struct trace_site *b)
{
    return a->op[0] != '\0' && a->occurrence == b->occurrence && a->phase == b->phase &&
           a->micro_step == b->micro_step && strcmp(a->op, b->op) == 0 &&
           strcmp(a->scope, b->scope) == 0 && strcmp(a->lane, b->lane) == 0 &&
           strcmp(a->region, b->region) == 0;
}

static uint64_t hash_group(const struct engine_options *options, int side,
                           const struct trace_site *site)
{
    uint64_t hash = hash_number(hash_text(HASH_START, site->lane), site->phase);
    hash = hash_number(hash_text(hash, site->region), site->micro_step);
    return hash_renamed(options, side, hash, site->scope);
}

static uint64_t hash_record(const struct engine_options *options, int side, uint64_t hash,
                            const struct trace_site *site)
{
    hash = hash_number(hash, ((uint64_t)site->role << 16) | site->slot);
    return hash_renamed(options, side, hash, site->name);
}

static struct call make_call(const struct engine_options *options, int side,
                             const struct trace_chunk *chunk, uint32_t first)
{
    const struct trace_site *const *sites = chunk->layout->sites;
    struct call call = {.first = first, .values = HASH_START, .inputs = HASH_START};
    call.group = hash_group(options, side, sites[first]);
    call.op = call.signature = hash_number(hash_text(HASH_START, sites[first]->op), 1);
    uint32_t i = first;
    do {
        const struct trace_site *site = sites[i];
        call.signature = hash_record(options, side, call.signature, site);
        if (site->role == DIVERGE_ROLE_INPUT)
            call.inputs = hash_number(call.inputs, chunk->value[i]);
        else if (!(site->flags & DIVERGE_FLAG_UNINITIALISED))
            call.values = hash_number(call.values, chunk->value[i]);
        i++;
    } while (i < chunk->count && same_call(sites[first], sites[i]));
    if (sites[first]->op[0] == '\0') /* records outside of ops match by what they are */
        call.op = call.signature;
    call.count = i - first;
    return call;
}

static struct calls find_calls(struct engine *engine, struct pool *arena, int side,
                               const struct trace_chunk *chunk)
{
    struct calls calls = {0};
    size_t capacity = 0;
    for (uint32_t i = 0; i < chunk->count;) {
        struct call call = make_call(engine->options, side, chunk, i);
        POOL_PUSH(arena, calls.items, calls.count, capacity, call);
        i += call.count;
    }
    return calls;
}

/* By group, then in order. */
static int by_group(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* ---- matching ------------------------------------------------------------------------------- */

struct aligner {
    struct engine *engine;
    struct pool *arena; /* scratch for this alignment */
    struct alignment *to;
    const struct trace_chunk *chunk[SIDES];
};

static bool record_matches(const struct engine_options *options, const struct trace_site *a,
                           const struct trace_site *b)
{
    return a->role == b->role && a->slot == b->slot &&
           hash_renamed(options, SIDE_A, HASH_START, a->name) ==
               hash_renamed(options, SIDE_B, HASH_START, b->name);
}

static void join(struct aligner *aligner, uint32_t a, uint32_t b)
{
    aligner->to->map[SIDE_A][a] = b;
    aligner->to->map[SIDE_B][b] = a;
}

/*
 * The records of two matched calls: one by one, or by role, slot and name where the lists differ.
 */
static void join_calls(struct aligner *aligner, const struct call *a, const struct call *b)
{
    if (a->signature == b->signature && a->count == b->count) {
        for (uint32_t i = 0; i < a->count; i++)
            join(aligner, a->first + i, b->first + i);
        return;
    }
    const struct trace_site *const *sites_a = aligner->chunk[SIDE_A]->layout->sites;
    const struct trace_site *const *sites_b = aligner->chunk[SIDE_B]->layout->sites;
    uint32_t from = 0;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t k = 0; k < b->count; k++) {
            uint32_t j = b->first + (from + k) % b->count;
            if (aligner->to->map[SIDE_B][j] == NO_INDEX &&
                record_matches(aligner->engine->options, sites_a[a->first + i], sites_b[j])) {
                join(aligner, a->first + i, j);
                from = j - b->first + 1;
                break;
            }
        }
}

static struct sequence make_sequence(struct pool *arena, const struct call *calls, size_t count)
{
    struct sequence sequence = {.tokens = POOL_ARRAY(arena, struct token, count), .count = count};
    for (size_t i = 0; i < count; i++)
        sequence.tokens[i] = (struct token){.kind = calls[i].op,
                                            .exact = calls[i].signature,
                                            .value = calls[i].values,
                                            .inputs = calls[i].inputs};
    return sequence;
}

/* ---- what changed places -------------------------------------------------------------------- */

struct leftover { /* a call that the order left without counterpart */
    uint64_t key; /* what it is: of an op also what it read, or wrote where it reads nothing */
    uint32_t index;
    uint32_t used; /* how many of this key were taken, counted at the first of them */
};

static uint64_t key_of(const struct trace_chunk *chunk, const struct call *call)
{
    if (chunk->layout->sites[call->first]->op[0] == '\0')
        return call->signature;
    bool reads = call->inputs != HASH_START;
    return hash_number(call->signature, reads ? call->inputs : call->values);
}

static int by_key(const void *a, const void *b)
{
    const struct leftover *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static size_t first_of_key(const struct leftover *list, size_t count, uint64_t key)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * State that was registered in another order, and ops that stand elsewhere but read the same: they
 * are the same records.
 */
static void match_moved(struct aligner *aligner, const struct call *a, size_t n_a,
                        const struct call *b, size_t n_b, const uint32_t *match)
{
    bool *taken = POOL_ARRAY(aligner->arena, bool, n_b);
    struct leftover *list = POOL_ARRAY(aligner->arena, struct leftover, n_b);
    size_t count = 0;
    for (size_t i = 0; i < n_a; i++)
        if (match[i] != NO_INDEX)
            taken[match[i]] = true;
    for (size_t j = 0; j < n_b; j++)
        if (!taken[j])
            list[count++] = (struct leftover){.key = key_of(aligner->chunk[SIDE_B], &b[j]),
                                              .index = (uint32_t)j};
    if (count)
        qsort(list, count, sizeof(list[0]), by_key);
    for (size_t i = 0; i < n_a && count; i++) {
        if (match[i] != NO_INDEX)
            continue;
        uint64_t key = key_of(aligner->chunk[SIDE_A], &a[i]);
        size_t first = first_of_key(list, count, key), at = first;
        if (first < count && list[first].key == key)
            at += list[first].used++;
        if (at < count && list[at].key == key)
            join_calls(aligner, &a[i], &b[list[at].index]);
    }
}

static void match_group(struct aligner *aligner, const struct call *a, size_t n_a,
                        const struct call *b, size_t n_b)
{
    struct sequence sequence_a = make_sequence(aligner->arena, a, n_a);
    struct sequence sequence_b = make_sequence(aligner->arena, b, n_b);
    uint32_t *match = sequence_match(aligner->arena, &sequence_a, &sequence_b);
    for (size_t i = 0; i < n_a; i++)
        if (match[i] != NO_INDEX)
            join_calls(aligner, &a[i], &b[match[i]]);
    match_moved(aligner, a, n_a, b, n_b, match);
}

static size_t group_end(const struct calls *calls, size_t from)
{
    size_t end = from;
    while (end < calls->count && calls->items[end].group == calls->items[from].group)
        end++;
    return end;
}

static void match_groups(struct aligner *aligner, const struct calls *a, const struct calls *b)
{
    size_t i = 0, j = 0;
    while (i < a->count && j < b->count) {
        size_t end_a = group_end(a, i), end_b = group_end(b, j);
        uint64_t group_a = a->items[i].group, group_b = b->items[j].group;
        if (group_a == group_b)
            match_group(aligner, &a->items[i], end_a - i, &b->items[j], end_b - j);
        if (group_a <= group_b)
            i = end_a;
        if (group_b <= group_a)
            j = end_b;
    }
}

static uint32_t *new_map(struct pool *arena, uint32_t count)
{
    uint32_t *map = POOL_ARRAY(arena, uint32_t, count);
    memset(map, 0xff, (size_t)count * sizeof(*map));
    return map;
}

static void compute(struct engine *engine, struct alignment *alignment, const struct trace_chunk *a,
                    const struct trace_chunk *b)
{
    alignment->map[SIDE_A] = new_map(&alignment->arena, a->count);
    alignment->map[SIDE_B] = new_map(&alignment->arena, b->count);
    struct aligner aligner = {
        .engine = engine, .arena = &alignment->arena, .to = alignment, .chunk = {a, b}};
    struct calls calls_a = find_calls(engine, aligner.arena, SIDE_A, a);
    struct calls calls_b = find_calls(engine, aligner.arena, SIDE_B, b);
    if (calls_a.count)
        qsort(calls_a.items, calls_a.count, sizeof(calls_a.items[0]), by_group);
    if (calls_b.count)
        qsort(calls_b.items, calls_b.count, sizeof(calls_b.items[0]), by_group);
    match_groups(&aligner, &calls_a, &calls_b);
}

/* ---- cache ---------------------------------------------------------------------------------- */

static struct alignment *find_cached(struct engine *engine, enum diverge_tier tier,
                                     const struct trace_chunk *a, const struct trace_chunk *b)
{
    for (size_t i = 0; i < ALIGNMENT_CACHE; i++) {
        struct alignment *kept = engine->alignments[i];
        if (kept && kept->tier == tier && kept->count[SIDE_A] == a->count &&
            kept->count[SIDE_B] == b->count &&
            digest_equal(&kept->layout[SIDE_A], &a->layout->digest) &&
            digest_equal(&kept->layout[SIDE_B], &b->layout->digest))
            return kept;
    }
    return NULL;
}

static void free_slot(struct engine *engine, size_t slot)
{
    if (engine->alignments[slot]) {
        pool_fini(&engine->alignments[slot]->arena);
        free(engine->alignments[slot]);
        engine->alignments[slot] = NULL;
    }
}

void align_free_all(struct engine *engine)
{
    for (size_t i = 0; i < ALIGNMENT_CACHE; i++)
        free_slot(engine, i);
}

static struct alignment *new_slot(struct engine *engine)
{
    size_t slot = engine->next_alignment++ % ALIGNMENT_CACHE;
    free_slot(engine, slot);
    struct alignment *made = calloc(1, sizeof(*made));
    if (!made)
        engine_fail(engine, DIVERGE_ENOMEM);
    pool_init(&made->arena, engine->scratch.on_failure, engine->scratch.ctx);
    engine->alignments[slot] = made;
    return made;
}

const struct alignment *align_chunks(struct engine *engine, enum diverge_tier tier,
                                     const struct trace_chunk *a, const struct trace_chunk *b,
                                     bool again)
{
    bool known = !digest_is_none(&a->layout->digest);
    struct alignment *alignment = known && !again ? find_cached(engine, tier, a, b) : NULL;
    if (alignment) {
        alignment->fresh = alignment->identity;
        return alignment;
    }
    alignment = new_slot(engine);
    alignment->tier = tier;
    alignment->count[SIDE_A] = a->count;
    alignment->count[SIDE_B] = b->count;
    alignment->fresh = true;
    alignment->identity = known && engine->options->n_map == 0 && a->count == b->count &&
                          digest_equal(&a->layout->digest, &b->layout->digest);
    if (!alignment->identity)
        compute(engine, alignment, a, b);
    /* Last, so that a half-made one is never found. */
    alignment->layout[SIDE_A] = a->layout->digest;
    alignment->layout[SIDE_B] = b->layout->digest;
    return alignment;
}
