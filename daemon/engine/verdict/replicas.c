/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a run side by side: replicas that agree in one run and part in the other. */
#include <string.h>

#include "daemon/engine/verdict/verdict.h"

struct replicas {
    size_t count;  /* ranks that have the record, whole */
    bool part;     /* they do not all hold the same */
    uint32_t rank; /* the first that holds another value than the lowest one */
};

static const struct trace_site *find_site(const struct trace_chunk *chunk,
                                          const struct trace_site *wanted, uint32_t *ret)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        const struct trace_site *site = chunk->layout->sites[i];
        if (site->role == wanted->role && strcmp(site->name, wanted->name) == 0 &&
            strcmp(site->scope, wanted->scope) == 0) {
            *ret = i;
            return site;
        }
    }
    return NULL;
}

/* Loads the record of every rank of the side. Ranks that were not recorded or hold a shard do not
 * count. */
static struct replicas look_at(const struct evidence *evidence, int side)
{
    struct engine *engine = evidence->engine;
    const struct trace_run *run = engine->sides[side].run;
    struct replicas replicas = {0};
    uint64_t value = 0;
    for (uint32_t n = 0; n < run->n_streams; n++) {
        uint32_t at;
        size_t mark = engine_mark(engine);
        const struct trace_chunk *chunk =
            side_load(engine, side, &run->streams[n], (enum diverge_tier)evidence->first->tier,
                      evidence->view->segment);
        if (chunk && !chunk->pruned && find_site(chunk, evidence->site, &at)) {
            const struct trace_type *type = chunk_type(chunk, at);
            bool whole = type->placement == DIVERGE_PLACEMENT_WHOLE ||
                         type->placement == DIVERGE_PLACEMENT_REPLICA;
            if (whole && replicas.count > 0 && chunk_value(chunk, at) != value && !replicas.part) {
                replicas.part = true;
                replicas.rank = run->streams[n].rank;
            }
            if (whole && replicas.count++ == 0)
                value = chunk_value(chunk, at);
        }
        engine_release(engine, mark);
    }
    return replicas;
}

bool rule_replicas(const struct evidence *evidence, struct ruling *ret)
{
    if (!evidence->first || !evidence_is_pair(evidence->first) ||
        !segment_is_boundary(evidence->view->segment) ||
        (evidence->site->role != DIVERGE_ROLE_PARAM && evidence->site->role != DIVERGE_ROLE_BUFFER))
        return false;
    struct replicas replicas[SIDES];
    for (int side = 0; side < SIDES; side++)
        replicas[side] = look_at(evidence, side);
    if (replicas[SIDE_A].count < 2 || replicas[SIDE_B].count < 2 ||
        replicas[SIDE_A].part == replicas[SIDE_B].part)
        return false;
    int apart = replicas[SIDE_A].part ? SIDE_A : SIDE_B;
    int together = apart == SIDE_A ? SIDE_B : SIDE_A;
    ruling_set(ret, "desync", evidence->site->role == DIVERGE_ROLE_PARAM ? "parameter" : "buffer",
               ENGINE_CERTAIN,
               "The ranks of one run hold different values of what they should share.");
    ruling_evidence(evidence, ret,
                    "%s at %s: the %zu ranks of %c hold the same; in %c rank %u does not",
                    evidence_what(evidence, evidence->first), evidence_place(evidence),
                    replicas[together].count, together == SIDE_A ? 'A' : 'B',
                    apart == SIDE_A ? 'A' : 'B', replicas[apart].rank);
    ruling_next(evidence, ret,
                "is it broadcast at the start, and reduced in every step, on all ranks?");
    return true;
}
