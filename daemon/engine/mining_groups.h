/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of equal calls, with the outputs each had and where: mining's table, bounded in memory. */
#ifndef DAEMON_ENGINE_MINING_GROUPS_H
#define DAEMON_ENGINE_MINING_GROUPS_H

#include "daemon/engine/mining_calls.h"

#define NO_NODE UINT32_MAX

/* Items that never move, in blocks; the number of an item is its name. */
struct mining_blocks {
    void **blocks;
    size_t item;
    uint32_t count, n_blocks, capacity;
};

struct mining_spot { /* a call: where to find it again */
    uint64_t segment;
    uint32_t stream; /* in the order of mining */
    uint32_t call;   /* in the plan of its layout */
};

struct mining_node { /* of one group: one output at one place */
    uint64_t output;
    struct mining_spot spot; /* the first time */
    uint64_t count;
    uint32_t site; /* host, device and causes: their number */
    uint32_t next;
};

struct mining_group {
    struct mining_key key;
    uint32_t op;
    uint32_t first; /* node */
    uint16_t n_nodes;
    bool repeated, differs, inherited;
};

struct mining_groups {
    struct mining_blocks groups, nodes;
    uint32_t *slots; /* 1 + group */
    uint32_t n_slots;
    size_t bytes, max_bytes;
    uint64_t over_cap; /* calls that had no room */
};

void mining_groups_init(struct mining_groups *groups, size_t max_bytes);
void mining_groups_fini(struct mining_groups *groups);
/* `count` calls with this key and output, at one place. 0 or ENOMEM; over the cap is counted. */
int mining_groups_add(struct mining_groups *groups, const struct mining_seen *seen, uint32_t op,
                      const struct mining_node *node);

void *mining_blocks_at(const struct mining_blocks *blocks, uint32_t index);
/* Zeroed; NULL: no memory, or 2^32 - 2 of them. *bytes grows by what was allocated. */
void *mining_blocks_add(struct mining_blocks *blocks, size_t *bytes);
void mining_blocks_fini(struct mining_blocks *blocks);

#endif
