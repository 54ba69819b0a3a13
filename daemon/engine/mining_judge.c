/* SPDX-License-Identifier: Apache-2.0 */
/* From groups to suspects: how often each op differs, and whether one place is to blame. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/engine/mining_internal.h"

#define CHANCE 0.01 /* what is less likely than this does not pass for chance */

void mining_wilson(uint64_t n, uint64_t m, double *ret_low, double *ret_high)
{
    const double z = 1.959963984540054; /* 97.5 % of a normal distribution */
    *ret_low = 0;
    *ret_high = 1;
    if (m == 0)
        return;
    double count = (double)m, share = (double)n / count;
    double centre = share + z * z / (2 * count);
    double spread = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
    double scale = 1 + z * z / count;
    *ret_low = n == 0 ? 0 : (centre - spread) / scale;
    *ret_high = n == m ? 1 : (centre + spread) / scale;
}

const char *mining_blame_name(enum mining_blame blame)
{
    switch (blame) {
    case MINING_ONE_PLACE:
        return "one-place";
    case MINING_ANYWHERE:
        return "anywhere";
    case MINING_FOLLOWS:
        return "follows";
    case MINING_ALONE:
        return "alone";
    case MINING_UNDECIDED:
        return "undecided";
    }
    return "undecided";
}

/* log of n over k */
static double log_choose(double n, double k)
{
    int sign;
    if (k > n)
        return -INFINITY;
    return lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign);
}

/* ---- one group ------------------------------------------------------------------------------ */

enum { MAX_ROWS = 257, FEW = 3 };

struct row { /* an output, or a place, and how often */
    uint64_t key;
    double count;
};

struct tally {
    const struct mining_node *nodes[MAX_ROWS];
    uint32_t place[MAX_ROWS]; /* of nodes; 0: not known */
    size_t n;
    struct row outputs[MAX_ROWS], places[MAX_ROWS];
    size_t n_outputs, n_places;
    double total;
    bool known; /* where each call ran */
};

/* What the groups of one op say together. */
struct weighing {
    uint32_t example; /* 1 + group */
    uint32_t places[FEW], varying[2];
    size_t n_places, n_varying; /* distinct ones, up to what is kept */
    bool several;               /* some group was seen at several places */
    uint32_t odd;               /* the place of every call that is not with the majority */
    bool odd_several;
    double odd_chance, pure_chance; /* logs */
};

static void add_row(struct row *rows, size_t *n, uint64_t key, double count)
{
    size_t i = 0;
    while (i < *n && rows[i].key != key)
        i++;
    if (i == *n)
        rows[(*n)++] = (struct row){.key = key};
    rows[i].count += count;
}

static void tally_group(const struct mining *mining, const struct mining_group *group,
                        struct tally *ret)
{
    ret->n = ret->n_outputs = ret->n_places = 0;
    ret->total = 0;
    ret->known = true;
    for (uint32_t at = group->first; at != NO_NODE && ret->n < MAX_ROWS;) {
        const struct mining_node *node = mining_blocks_at(&mining->groups.nodes, at);
        uint32_t place = mining->sites[node->site].number;
        ret->place[ret->n] = place;
        ret->nodes[ret->n++] = node;
        ret->known = ret->known && place;
        ret->total += (double)node->count;
        add_row(ret->outputs, &ret->n_outputs, node->output, (double)node->count);
        add_row(ret->places, &ret->n_places, place, (double)node->count);
        at = node->next;
    }
}

/* Two outputs although all that is recorded as a cause is equal. */
static bool differs_under_same_causes(const struct mining *mining, const struct tally *tally)
{
    for (size_t i = 0; i < tally->n; i++)
        for (size_t j = 0; j < i; j++)
            if (tally->nodes[i]->output != tally->nodes[j]->output &&
                mining->sites[tally->nodes[i]->site].causes ==
                    mining->sites[tally->nodes[j]->site].causes)
                return true;
    return false;
}

static void keep_distinct(uint32_t *list, size_t *n, size_t capacity, uint32_t value)
{
    for (size_t i = 0; i < *n; i++)
        if (list[i] == value)
            return;
    if (*n < capacity)
        list[(*n)++] = value;
}

static void note_varying(const struct tally *tally, struct weighing *weighing)
{
    for (size_t i = 0; i < tally->n; i++)
        for (size_t j = 0; j < i; j++)
            if (tally->place[i] == tally->place[j] &&
                tally->nodes[i]->output != tally->nodes[j]->output)
                keep_distinct(weighing->varying, &weighing->n_varying, 2, tally->place[i]);
}

/*
 * Were outputs dealt out regardless of the place, how likely is it that each place gets one only?
 * Place after place, given those before it.
 */
static double log_pure(struct tally *tally)
{
    double log_chance = 0, left = tally->total;
    for (size_t p = 0; p < tally->n_places; p++) {
        double count = tally->places[p].count, ways = 0;
        uint64_t mine = 0;
        for (size_t o = 0; o < tally->n_outputs; o++)
            ways += exp(log_choose(tally->outputs[o].count, count) - log_choose(left, count));
        for (size_t i = 0; i < tally->n; i++)
            if (tally->place[i] == tally->places[p].key)
                mine = tally->nodes[i]->output;
        for (size_t o = 0; o < tally->n_outputs; o++)
            if (tally->outputs[o].key == mine)
                tally->outputs[o].count -= count;
        log_chance += ways > 0 ? log(ways < 1 ? ways : 1) : -700;
        left -= count;
    }
    return log_chance;
}

/* Calls that depart from the majority: all at one place? By chance: C(there, odd) / C(all, odd). */
static void weigh_minority(const struct tally *tally, struct weighing *weighing)
{
    size_t most = 0;
    for (size_t o = 1; o < tally->n_outputs; o++)
        if (tally->outputs[o].count > tally->outputs[most].count)
            most = o;
    double odd = tally->total - tally->outputs[most].count;
    if (2 * tally->outputs[most].count <= tally->total)
        return;
    for (size_t i = 0; i < tally->n; i++) {
        if (tally->nodes[i]->output == tally->outputs[most].key)
            continue;
        if (weighing->odd && weighing->odd != tally->place[i])
            weighing->odd_several = true;
        weighing->odd = tally->place[i];
    }
    for (size_t p = 0; p < tally->n_places; p++)
        if (tally->places[p].key == weighing->odd)
            weighing->odd_chance +=
                log_choose(tally->places[p].count, odd) - log_choose(tally->total, odd);
}

static void weigh_group(struct tally *tally, struct weighing *weighing)
{
    if (!tally->known)
        return;
    note_varying(tally, weighing);
    if (tally->n_places < 2)
        return;
    weighing->several = true;
    for (size_t p = 0; p < tally->n_places; p++)
        keep_distinct(weighing->places, &weighing->n_places, FEW, (uint32_t)tally->places[p].key);
    weigh_minority(tally, weighing);
    weighing->pure_chance += log_pure(tally); /* last: it uses up the counts */
}

/* ---- one op --------------------------------------------------------------------------------- */

static const char *place_name(const struct mining *mining, uint32_t number)
{
    for (uint32_t i = 0; i < mining->n_sites; i++)
        if (mining->sites[i].number == number)
            return mining->sites[i].place;
    return "";
}

static void decide(const struct mining *mining, const struct weighing *weighing,
                   struct mining_suspect *suspect)
{
    double chance = exp(weighing->odd_chance) * (double)mining->n_places;
    bool alone = weighing->odd && !weighing->odd_several && chance < CHANCE &&
                 (weighing->n_varying == 0 ||
                  (weighing->n_varying == 1 && weighing->varying[0] == weighing->odd));
    suspect->blame = MINING_UNDECIDED;
    if (weighing->n_varying > 1)
        suspect->blame = MINING_ANYWHERE;
    else if (!weighing->several)
        suspect->blame = MINING_ONE_PLACE;
    else if (alone && (weighing->n_places >= FEW || weighing->n_varying == 1)) {
        suspect->blame = MINING_ALONE;
        suspect->culprit = place_name(mining, weighing->odd);
        suspect->chance = chance;
    } else if (weighing->n_varying == 0 && weighing->pure_chance < log(CHANCE))
        suspect->blame = MINING_FOLLOWS;
}

static void weigh_all(struct mining *mining, struct weighing *weighings, struct tally *tally)
{
    for (uint32_t g = 0; g < mining->groups.groups.count; g++) {
        const struct mining_group *group = mining_blocks_at(&mining->groups.groups, g);
        struct mining_op *op = &mining->ops[group->op];
        op->repeated += group->repeated;
        mining->result.repeated += group->repeated;
        if (!group->differs)
            continue;
        op->differing++;
        op->inherited += group->inherited;
        tally_group(mining, group, tally);
        op->same_causes += differs_under_same_causes(mining, tally);
        weigh_group(tally, &weighings[group->op]);
        if (!weighings[group->op].example)
            weighings[group->op].example = g + 1;
    }
}

static int by_differing(const void *a, const void *b)
{
    const struct mining_suspect *x = a, *y = b;
    if (x->differing != y->differing)
        return x->differing < y->differing ? 1 : -1;
    if (x->repeated != y->repeated)
        return x->repeated < y->repeated ? -1 : 1;
    return strcmp(x->op, y->op);
}

static int list_suspects(struct mining *mining, const struct weighing *weighings)
{
    int status = 0;
    for (uint32_t o = 0; o < mining->n_ops && !status; o++) {
        const struct mining_op *op = &mining->ops[o];
        if (!op->differing)
            continue;
        struct mining_suspect *suspect = &mining->suspects[mining->n_suspects++];
        *suspect = (struct mining_suspect){.op = op->name,
                                           .calls = op->calls,
                                           .repeated = op->repeated,
                                           .differing = op->differing,
                                           .rate = (double)op->differing / (double)op->repeated,
                                           .same_causes = op->same_causes,
                                           .inherited = op->inherited};
        mining_wilson(op->differing, op->repeated, &suspect->low, &suspect->high);
        decide(mining, &weighings[o], suspect);
        status = mining_example(
            mining, mining_blocks_at(&mining->groups.groups, weighings[o].example - 1), suspect);
    }
    return status;
}

int mining_judge(struct mining *mining)
{
    struct weighing *weighings = calloc((size_t)mining->n_ops + 1, sizeof(*weighings));
    struct tally *tally = malloc(sizeof(*tally));
    mining->suspects = calloc((size_t)mining->n_ops + 1, sizeof(*mining->suspects));
    int status = weighings && tally && mining->suspects ? 0 : DIVERGE_ENOMEM;
    if (!status) {
        weigh_all(mining, weighings, tally);
        status = list_suspects(mining, weighings);
    }
    free(weighings);
    free(tally);
    if (mining->n_suspects)
        qsort(mining->suspects, mining->n_suspects, sizeof(*mining->suspects), by_differing);
    mining->result.suspects = mining->suspects;
    mining->result.n_suspects = mining->n_suspects;
    return status;
}
