/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/mining_groups.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

/* Of a group with more than GROUP_NODES outputs it is known well enough that it differs. */
enum { BLOCK_ITEMS = 4096, FIRST_SLOTS = 1024, GROUP_NODES = 256 };

/* ---- blocks --------------------------------------------------------------------------------- */

void *mining_blocks_at(const struct mining_blocks *blocks, uint32_t index)
{
    return (char *)blocks->blocks[index / BLOCK_ITEMS] + index % BLOCK_ITEMS * blocks->item;
}

static int add_block(struct mining_blocks *blocks, size_t *bytes)
{
    if (blocks->n_blocks == blocks->capacity) {
        uint32_t capacity = blocks->capacity ? 2 * blocks->capacity : 64;
        void **grown = realloc(blocks->blocks, capacity * sizeof(*grown));
        if (!grown)
            return DIVERGE_ENOMEM;
        blocks->blocks = grown;
        blocks->capacity = capacity;
    }
    void *block = calloc(BLOCK_ITEMS, blocks->item);
    if (!block)
        return DIVERGE_ENOMEM;
    blocks->blocks[blocks->n_blocks++] = block;
    *bytes += BLOCK_ITEMS * blocks->item;
    return 0;
}

void *mining_blocks_add(struct mining_blocks *blocks, size_t *bytes)
{
    if (blocks->count >= NO_NODE - 1)
        return NULL;
    if (blocks->count == blocks->n_blocks * BLOCK_ITEMS && add_block(blocks, bytes) < 0)
        return NULL;
    return mining_blocks_at(blocks, blocks->count++);
}

void mining_blocks_fini(struct mining_blocks *blocks)
{
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        free(blocks->blocks[i]);
    free(blocks->blocks);
    blocks->blocks = NULL;
    blocks->count = blocks->n_blocks = blocks->capacity = 0;
}

/* ---- groups --------------------------------------------------------------------------------- */

void mining_groups_init(struct mining_groups *groups, size_t max_bytes)
{
    *groups = (struct mining_groups){.max_bytes = max_bytes};
    groups->groups.item = sizeof(struct mining_group);
    groups->nodes.item = sizeof(struct mining_node);
}

void mining_groups_fini(struct mining_groups *groups)
{
    mining_blocks_fini(&groups->groups);
    mining_blocks_fini(&groups->nodes);
    free(groups->slots);
    groups->slots = NULL;
    groups->n_slots = 0;
}

static struct mining_group *group_at(const struct mining_groups *groups, uint32_t index)
{
    return mining_blocks_at(&groups->groups, index);
}

/* The slot of the group, or the empty one where it belongs. */
static uint32_t *find_slot(const struct mining_groups *groups, uint32_t *slots, uint32_t n_slots,
                           const struct mining_key *key)
{
    uint32_t at = (uint32_t)key->word[0] & (n_slots - 1);
    while (slots[at] && memcmp(&group_at(groups, slots[at] - 1)->key, key, sizeof(*key)) != 0)
        at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

static int grow(struct mining_groups *groups)
{
    uint32_t n_slots = groups->n_slots ? 2 * groups->n_slots : FIRST_SLOTS;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    if (!slots)
        return DIVERGE_ENOMEM;
    for (uint32_t i = 0; i < groups->groups.count; i++)
        *find_slot(groups, slots, n_slots, &group_at(groups, i)->key) = i + 1;
    free(groups->slots);
    groups->bytes += (size_t)(n_slots - groups->n_slots) * sizeof(*slots);
    groups->slots = slots;
    groups->n_slots = n_slots;
    return 0;
}

/* Whether what the next group, or node, may allocate stays under the cap. */
static bool has_room(const struct mining_groups *groups, bool group)
{
    size_t more = 0;
    if (groups->nodes.count == groups->nodes.n_blocks * BLOCK_ITEMS)
        more += BLOCK_ITEMS * groups->nodes.item;
    if (group && groups->groups.count == groups->groups.n_blocks * BLOCK_ITEMS)
        more += BLOCK_ITEMS * groups->groups.item;
    if (group && (groups->groups.count + 1) / 3 * 4 >= groups->n_slots)
        more += 2 * (size_t)(groups->n_slots ? groups->n_slots : FIRST_SLOTS) * sizeof(uint32_t);
    return groups->bytes + more <= groups->max_bytes && groups->nodes.count < NO_NODE - 2 &&
           groups->n_slots <= UINT32_MAX / 4;
}

static int add_node(struct mining_groups *groups, struct mining_group *group,
                    const struct mining_node *node)
{
    struct mining_node *added = mining_blocks_add(&groups->nodes, &groups->bytes);
    if (!added)
        return DIVERGE_ENOMEM;
    *added = *node;
    group->n_nodes++;
    /* Behind the first, which stays the one that others are compared with. */
    uint32_t index = groups->nodes.count - 1;
    if (group->first == NO_NODE) {
        added->next = NO_NODE;
        group->first = index;
    } else {
        struct mining_node *first = mining_blocks_at(&groups->nodes, group->first);
        added->next = first->next;
        first->next = index;
    }
    return 0;
}

static int add_group(struct mining_groups *groups, const struct mining_seen *seen, uint32_t op,
                     const struct mining_node *node)
{
    if (!has_room(groups, true)) {
        groups->over_cap += node->count;
        return 0;
    }
    if ((groups->groups.count + 1) / 3 * 4 >= groups->n_slots && grow(groups) < 0)
        return DIVERGE_ENOMEM;
    struct mining_group *group = mining_blocks_add(&groups->groups, &groups->bytes);
    if (!group)
        return DIVERGE_ENOMEM;
    *group = (struct mining_group){.key = seen->key,
                                   .op = op,
                                   .first = NO_NODE,
                                   .repeated = node->count > 1,
                                   .inherited = seen->inherited};
    *find_slot(groups, groups->slots, groups->n_slots, &seen->key) = groups->groups.count;
    return add_node(groups, group, node);
}

int mining_groups_add(struct mining_groups *groups, const struct mining_seen *seen, uint32_t op,
                      const struct mining_node *node)
{
    uint32_t *slot =
        groups->n_slots ? find_slot(groups, groups->slots, groups->n_slots, &seen->key) : NULL;
    if (!slot || !*slot)
        return add_group(groups, seen, op, node);
    struct mining_group *group = group_at(groups, *slot - 1);
    group->inherited = group->inherited || seen->inherited;
    group->repeated = true;
    for (uint32_t at = group->first; at != NO_NODE;) {
        struct mining_node *known = mining_blocks_at(&groups->nodes, at);
        group->differs = group->differs || known->output != node->output;
        if (known->output == node->output && known->site == node->site) {
            known->count += node->count;
            return 0;
        }
        at = known->next;
    }
    if (group->n_nodes >= GROUP_NODES)
        return 0;
    if (!has_room(groups, false)) {
        groups->over_cap += node->count;
        return 0;
    }
    return add_node(groups, group, node);
}
