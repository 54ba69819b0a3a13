/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/mining.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/mining_internal.h"

/* ---- growing arrays ------------------------------------------------------------------------- */

static int make_room(void **items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return 0;
    if (*capacity > UINT32_MAX / 4)
        return DIVERGE_ELIMIT;
    uint32_t wanted = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return DIVERGE_ENOMEM;
    *items = grown;
    *capacity = wanted;
    return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct mining *mining_new(const struct mining_options *options)
{
    static const struct mining_options defaults = MINING_OPTIONS_INIT;
    struct mining *mining = calloc(1, sizeof(*mining));
    if (!mining)
        return NULL;
    mining->options = options ? *options : defaults;
    /* Which segments are equal takes an eighth, groups the rest. */
    mining_groups_init(&mining->groups, mining->options.max_bytes / 8 * 7);
    mining->heads.item = sizeof(struct mining_head);
    mining->repeats.item = sizeof(struct mining_repeat);
    return mining;
}

void mining_free(struct mining *mining)
{
    if (!mining)
        return;
    for (size_t i = 0; i < MINING_PLANS; i++)
        mining_plan_fini(&mining->plans[i]);
    for (uint32_t i = 0; i < mining->n_sites; i++)
        free(mining->sites[i].place);
    for (uint32_t i = 0; i < mining->n_ops; i++)
        free(mining->ops[i].name);
    mining_groups_fini(&mining->groups);
    mining_blocks_fini(&mining->heads);
    mining_blocks_fini(&mining->repeats);
    free(mining->head_slots);
    free(mining->streams);
    free(mining->sites);
    free(mining->ops);
    free(mining->suspects);
    mining_examples_free(mining);
    free(mining);
}

/* ---- where a stream ran ---------------------------------------------------------------------- */

/* A key's value on `rank`: "key@rank" where it differs from the others'. */
static const char *metadata_of(const struct trace_run *run, const char *key, uint32_t rank)
{
    size_t size = strlen(key);
    const char *found = NULL;
    for (uint32_t i = 0; i < run->n_metadata; i++) {
        const struct trace_metadata *item = &run->metadata[i];
        if (strncmp(item->key, key, size) != 0)
            continue;
        if (item->key[size] == '\0')
            found = found ? found : item->value;
        else if (item->key[size] == '@' && strtoul(item->key + size + 1, NULL, 10) == rank)
            return item->value;
    }
    return found;
}

static const char *first_of(const struct trace_run *run, uint32_t rank, const char *const *keys)
{
    const char *value = NULL;
    for (size_t i = 0; keys[i] && (!value || !value[0]); i++)
        value = metadata_of(run, keys[i], rank);
    return value && value[0] ? value : NULL;
}

/* "host, device"; NULL: not known. Owned by the caller; *ret is NULL without memory, too. */
static int place_of(const struct trace_run *run, uint32_t rank, char **ret)
{
    static const char *const hosts[] = {"host", "hostname", "host.name", NULL};
    static const char *const devices[] = {"device.uuid", "device.serial", "gpu.uuid",
                                          "device",      "device.name",   "gpu.name",
                                          "gpu",         "cuda.name",     NULL};
    const char *host = first_of(run, rank, hosts);
    const char *device = first_of(run, rank, devices);
    if (!host && !device) {
        *ret = NULL;
        return 0;
    }
    size_t size = (host ? strlen(host) : 0) + (device ? strlen(device) : 0) + 3;
    char *text = calloc(1, size);
    if (!text)
        return DIVERGE_ENOMEM;
    if (host)
        strcpy(text, host);
    if (host && device)
        strcat(text, ", ");
    if (device)
        strcat(text, device);
    *ret = text;
    return 0;
}

/* Of all causes of a rank; runs without any have one each. */
static uint64_t causes_of(const struct trace_run *run, uint32_t rank)
{
    uint64_t hash = 0;
    bool any = false;
    for (uint32_t i = 0; i < run->n_metadata; i++) {
        const struct trace_metadata *item = &run->metadata[i];
        if (strcmp(item->class_name, "cause") != 0 || strchr(item->key, '@'))
            continue;
        any = true;
        const char *value = metadata_of(run, item->key, rank);
        hash = mining_text(mining_text(hash, item->key), value ? value : "");
    }
    if (any)
        return hash;
    for (size_t i = 0; i < sizeof(run->run_id); i++)
        hash = mining_mix(hash, run->run_id[i]);
    return mining_text(hash, run->name);
}

static int find_site(struct mining *mining, const struct trace_run *run, uint32_t rank,
                     uint32_t *ret)
{
    struct mining_site site = {.causes = causes_of(run, rank)};
    int status = place_of(run, rank, &site.place);
    for (uint32_t i = 0; i < mining->n_sites && !status; i++) {
        const struct mining_site *known = &mining->sites[i];
        bool same_place = known->place && site.place ? strcmp(known->place, site.place) == 0
                                                     : known->place == site.place;
        if (same_place && known->causes == site.causes) {
            free(site.place);
            *ret = i;
            return 0;
        }
        if (same_place)
            site.number = known->number;
    }
    if (!status)
        status = make_room((void **)&mining->sites, mining->n_sites, &mining->sites_capacity,
                           sizeof(site));
    if (status) {
        free(site.place);
        return status;
    }
    if (site.place && !site.number)
        site.number = ++mining->n_places;
    *ret = mining->n_sites;
    mining->sites[mining->n_sites++] = site;
    return 0;
}

int mining_add(struct mining *mining, const struct trace_source *source,
               const struct trace_run *run)
{
    if (mining->scanned)
        return DIVERGE_ESTATE;
    for (uint32_t i = 0; i < run->n_streams; i++) {
        const struct trace_stream *stream = &run->streams[i];
        const struct trace_track *track = &stream->tiers[DIVERGE_TIER_OP];
        struct mining_stream added = {.source = source, .run = run, .stream = stream};
        if (!track->present || !track->segments)
            continue;
        int status = find_site(mining, run, stream->rank, &added.site);
        if (!status)
            status = make_room((void **)&mining->streams, mining->n_streams,
                               &mining->streams_capacity, sizeof(added));
        if (status)
            return status;
        added.fingerprint = mining_text(0, stream->fingerprint_id);
        mining->streams[mining->n_streams++] = added;
        mining->total += track->segments;
    }
    mining->result.runs++;
    return 0;
}

/* ---- equal segments -------------------------------------------------------------------------- */

static struct mining_head *head_at(const struct mining *mining, uint32_t index)
{
    return mining_blocks_at(&mining->heads, index);
}

static uint32_t *head_slot(const struct mining *mining, uint32_t *slots, uint32_t n_slots,
                           const struct mining_key *key)
{
    uint32_t at = (uint32_t)key->word[0] & (n_slots - 1);
    while (slots[at] && memcmp(&head_at(mining, slots[at] - 1)->key, key, sizeof(*key)) != 0)
        at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

static int grow_heads(struct mining *mining)
{
    uint32_t n_slots = mining->n_head_slots ? 2 * mining->n_head_slots : 1024;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    if (!slots)
        return DIVERGE_ENOMEM;
    for (uint32_t i = 0; i < mining->heads.count; i++)
        *head_slot(mining, slots, n_slots, &head_at(mining, i)->key) = i + 1;
    free(mining->head_slots);
    mining->head_bytes += (size_t)(n_slots - mining->n_head_slots) * sizeof(*slots);
    mining->head_slots = slots;
    mining->n_head_slots = n_slots;
    return 0;
}

/* What a segment's records are known by: its digest, of one kind of fingerprints. */
static struct mining_key head_key(const struct mining_stream *stream, const struct trace_head *head)
{
    struct mining_key key;
    memcpy(key.word, head->digest.bytes, sizeof(key.word));
    return mining_absorb(key, stream->fingerprint);
}

static int note_repeat(struct mining *mining, struct mining_head *head, uint32_t site)
{
    for (uint32_t at = head->first; at != NO_NODE;) {
        struct mining_repeat *repeat = mining_blocks_at(&mining->repeats, at);
        if (repeat->site == site) {
            repeat->count++;
            return 0;
        }
        at = repeat->next;
    }
    struct mining_repeat *added = mining_blocks_add(&mining->repeats, &mining->head_bytes);
    if (!added)
        return DIVERGE_ENOMEM;
    *added = (struct mining_repeat){.site = site, .count = 1, .next = head->first};
    head->first = mining->repeats.count - 1;
    return 0;
}

/* First pass: how often each segment occurs, and where. What has no room is read each time. */
static int count_head(struct mining *mining, uint32_t s, const struct trace_head *head)
{
    const struct mining_stream *stream = &mining->streams[s];
    struct mining_key key = head_key(stream, head);
    uint32_t *slot = mining->n_head_slots
                         ? head_slot(mining, mining->head_slots, mining->n_head_slots, &key)
                         : NULL;
    if (slot && *slot) {
        mining->result.shared++;
        return note_repeat(mining, head_at(mining, *slot - 1), stream->site);
    }
    if (mining->head_bytes > mining->options.max_bytes / 16)
        return 0;
    if ((mining->heads.count + 1) / 3 * 4 >= mining->n_head_slots && grow_heads(mining) < 0)
        return DIVERGE_ENOMEM;
    struct mining_head *added = mining_blocks_add(&mining->heads, &mining->head_bytes);
    if (!added)
        return DIVERGE_ENOMEM;
    *added =
        (struct mining_head){.key = key, .segment = head->segment, .stream = s, .first = NO_NODE};
    *head_slot(mining, mining->head_slots, mining->n_head_slots, &key) = mining->heads.count;
    return note_repeat(mining, added, stream->site);
}

/* ---- reading -------------------------------------------------------------------------------- */

static int find_plan(struct mining *mining, const struct trace_layout *layout,
                     struct mining_plan **ret)
{
    static const struct trace_digest none;
    bool known = memcmp(&layout->digest, &none, sizeof(none)) != 0;
    for (size_t i = 0; known && i < MINING_PLANS; i++)
        if (mining->plans[i].sites && mining->plans[i].n_records == layout->count &&
            memcmp(&mining->plans[i].layout, &layout->digest, sizeof(none)) == 0) {
            *ret = &mining->plans[i];
            return 0;
        }
    struct mining_plan *plan = &mining->plans[mining->next_plan++ % MINING_PLANS];
    mining_plan_fini(plan);
    int status = mining_plan_init(plan, layout);
    if (status == 0)
        *ret = plan;
    return status;
}

static int find_op(struct mining *mining, struct mining_call *call)
{
    for (uint32_t i = 0; i < mining->n_ops && call->number == UINT32_MAX; i++)
        if (mining->ops[i].hash == call->op)
            call->number = i;
    if (call->number != UINT32_MAX)
        return 0;
    if (mining->n_ops == MINING_OPS)
        return DIVERGE_ELIMIT;
    int status = make_room((void **)&mining->ops, mining->n_ops, &mining->ops_capacity,
                           sizeof(*mining->ops));
    char *name = status ? NULL : strdup(call->name);
    if (!name)
        return DIVERGE_ENOMEM;
    call->number = mining->n_ops;
    mining->ops[mining->n_ops++] = (struct mining_op){.hash = call->op, .name = name};
    return 0;
}

static uint64_t times_of(const struct mining *mining, const struct mining_head *head)
{
    uint64_t times = 0;
    for (uint32_t at = head->first; at != NO_NODE;) {
        const struct mining_repeat *repeat = mining_blocks_at(&mining->repeats, at);
        times += repeat->count;
        at = repeat->next;
    }
    return times;
}

static int add_call(struct mining *mining, const struct mining_head *head, uint64_t times,
                    struct mining_plan *plan, uint32_t c, const struct trace_chunk *chunk)
{
    struct mining_call *call = &plan->calls[c];
    struct mining_seen seen;
    if (call->unfit ||
        !mining_call_read(plan, call, chunk, mining->streams[head->stream].fingerprint, &seen)) {
        mining->result.left_out += times;
        return 0;
    }
    int status = find_op(mining, call);
    if (status == DIVERGE_ELIMIT) {
        mining->groups.over_cap += times;
        return 0;
    }
    for (uint32_t at = head->first; at != NO_NODE && !status;) {
        const struct mining_repeat *repeat = mining_blocks_at(&mining->repeats, at);
        struct mining_node node = {
            .output = seen.output,
            .spot = {.segment = head->segment, .stream = head->stream, .call = c},
            .site = repeat->site,
            .count = repeat->count};
        status = mining_groups_add(&mining->groups, &seen, call->number, &node);
        at = repeat->next;
    }
    if (!status) {
        mining->result.calls += times;
        mining->ops[call->number].calls += times;
    }
    return status;
}

int mining_load(const struct mining_stream *stream, uint64_t segment, struct trace_chunk **ret)
{
    const struct trace_source *source = stream->source;
    struct trace_chunk *chunk = NULL;
    int status = source->load(source->ctx, stream->stream->id, DIVERGE_TIER_OP, segment, &chunk);
    if (status < 0)
        return status;
    if (!chunk)
        return DIVERGE_ENOTFOUND;
    bool sound = chunk->pruned || mining_chunk_is_sound(chunk);
    if (!sound || chunk->pruned) {
        source->release(source->ctx, chunk);
        return sound ? DIVERGE_ENOTFOUND : DIVERGE_ECORRUPT;
    }
    *ret = chunk;
    return 0;
}

static int read_head(struct mining *mining, const struct mining_head *head)
{
    const struct mining_stream *stream = &mining->streams[head->stream];
    struct trace_chunk *chunk;
    struct mining_plan *plan;
    int status = mining_load(stream, head->segment, &chunk);
    uint64_t times = times_of(mining, head);
    if (status == DIVERGE_ENOTFOUND) {
        mining->result.pruned += times;
        return 0;
    }
    if (status < 0)
        return status;
    status = find_plan(mining, chunk->layout, &plan);
    for (uint32_t c = 0; !status && c < plan->n_calls; c++)
        status = add_call(mining, head, times, plan, c, chunk);
    stream->source->release(stream->source->ctx, chunk);
    return status;
}

/* Second pass: each distinct segment where it occurs first. */
static int read_segment(struct mining *mining, uint32_t s, const struct trace_head *head)
{
    struct mining_key key = head_key(&mining->streams[s], head);
    uint32_t *slot = mining->n_head_slots
                         ? head_slot(mining, mining->head_slots, mining->n_head_slots, &key)
                         : NULL;
    if (slot && *slot) {
        const struct mining_head *known = head_at(mining, *slot - 1);
        bool first = known->stream == s && known->segment == head->segment;
        return first ? read_head(mining, known) : 0;
    }
    /* No room for it in the first pass. */
    uint32_t count = mining->repeats.count;
    struct mining_head lone = {.key = key, .segment = head->segment, .stream = s, .first = NO_NODE};
    int status = note_repeat(mining, &lone, mining->streams[s].site);
    if (!status)
        status = read_head(mining, &lone);
    mining->repeats.count = count;
    return status;
}

static int tick(struct mining *mining)
{
    const struct mining_options *options = &mining->options;
    mining->done++;
    if (options->progress && mining->done % 16 == 0 &&
        !options->progress(options->progress_ctx, mining->done, 2 * mining->total))
        return DIVERGE_ECLOSED;
    return 0;
}

static int walk(struct mining *mining, uint32_t s,
                int (*visit)(struct mining *mining, uint32_t s, const struct trace_head *head),
                bool counting)
{
    const struct mining_stream *stream = &mining->streams[s];
    const struct trace_source *source = stream->source;
    uint64_t from = 0;
    for (;;) {
        struct trace_head head;
        int status =
            source->head_from(source->ctx, stream->stream->id, DIVERGE_TIER_OP, from, &head);
        if (status == DIVERGE_ENOTFOUND)
            return 0;
        if (status < 0)
            return status;
        if (head.segment < from)
            return DIVERGE_ECORRUPT;
        bool complete = head.sealed && !head.gap && head.dropped == 0;
        mining->result.segments += counting && head.records > 0;
        mining->result.incomplete += counting && !complete;
        status = tick(mining);
        if (!status && complete && head.records > 0)
            status = visit(mining, s, &head);
        if (status < 0 || head.segment == UINT64_MAX)
            return status;
        from = head.segment + 1;
    }
}

int mining_scan(struct mining *mining, const struct mining_result **ret)
{
    int status = mining->scanned ? DIVERGE_ESTATE : 0;
    mining->scanned = true;
    for (uint32_t s = 0; s < mining->n_streams && !status; s++)
        status = walk(mining, s, count_head, true);
    for (uint32_t s = 0; s < mining->n_streams && !status; s++)
        status = walk(mining, s, read_segment, false);
    mining->result.groups = mining->groups.groups.count;
    mining->result.over_cap = mining->groups.over_cap;
    mining->result.places = mining->n_places;
    if (!status)
        status = mining_judge(mining);
    if (!status)
        *ret = &mining->result;
    return status;
}
