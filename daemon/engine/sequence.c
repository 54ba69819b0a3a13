/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engine/sequence.h"

#include <string.h>

enum {
    TABLE_CELLS = 1 << 20, /* above this: Myers, which does not look at values */
    MYERS_EDITS = 1024,
};

struct range {
    size_t first;
    size_t end;
};

struct matching {
    struct pool *arena;
    const struct sequence *a, *b;
    uint32_t *match; /* a's to b's */
};

static bool tokens_agree(const struct token *a, const struct token *b)
{
    return a->exact == b->exact && a->value == b->value && a->inputs == b->inputs;
}

static bool same_structure(const struct sequence *a, const struct sequence *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->tokens[i].exact != b->tokens[i].exact)
            return false;
    return true;
}

/* ---- table: best score, small ranges --------------------------------------------------------- */

static int64_t score(const struct token *a, const struct token *b)
{
    if (a->kind != b->kind)
        return -1;
    int64_t points = INT64_C(1) << 42;
    if (a->exact == b->exact)
        points += INT64_C(1) << 22;
    return points + 2 * (a->value == b->value) + (a->inputs == b->inputs);
}

enum step { STEP_MATCH = 1, STEP_SKIP_A, STEP_SKIP_B };

static void fill_table(const struct matching *m, struct range ra, struct range rb, uint8_t *steps,
                       int64_t *previous, int64_t *row)
{
    size_t width = rb.end - rb.first;
    for (size_t i = ra.end - ra.first; i-- > 0;) {
        memcpy(previous, row, (width + 1) * sizeof(*row));
        row[width] = 0;
        for (size_t j = width; j-- > 0;) {
            int64_t points = score(&m->a->tokens[ra.first + i], &m->b->tokens[rb.first + j]);
            int64_t best = previous[j];
            uint8_t step = STEP_SKIP_A;
            if (row[j + 1] > best) {
                best = row[j + 1];
                step = STEP_SKIP_B;
            }
            if (points >= 0 && previous[j + 1] + points >= best) {
                best = previous[j + 1] + points;
                step = STEP_MATCH;
            }
            row[j] = best;
            steps[i * width + j] = step;
        }
    }
}

static void match_by_table(struct matching *m, struct range ra, struct range rb)
{
    size_t height = ra.end - ra.first, width = rb.end - rb.first;
    uint8_t *steps = POOL_ARRAY(m->arena, uint8_t, height * width);
    int64_t *previous = POOL_ARRAY(m->arena, int64_t, width + 1);
    int64_t *row = POOL_ARRAY(m->arena, int64_t, width + 1);
    fill_table(m, ra, rb, steps, previous, row);
    for (size_t i = 0, j = 0; i < height && j < width;) {
        uint8_t step = steps[i * width + j];
        if (step == STEP_MATCH)
            m->match[ra.first + i] = (uint32_t)(rb.first + j);
        if (step != STEP_SKIP_B)
            i++;
        if (step != STEP_SKIP_A)
            j++;
    }
}

/* ---- Myers' O(ND), E. Myers 1986, greedy forward with the trace kept ------------------------- */

struct myers {
    const struct token *a, *b;
    int64_t n, m;
    int64_t *v; /* furthest x on diagonal k, at v[k + offset] */
    int64_t offset;
    int64_t **trace; /* v before each round */
};

static int64_t furthest(const struct myers *s, int64_t d, int64_t k)
{
    const int64_t *v = s->v + s->offset;
    int64_t x = k == -d || (k != d && v[k - 1] < v[k + 1]) ? v[k + 1] : v[k - 1] + 1;
    while (x < s->n && x - k < s->m && x >= 0 && x - k >= 0 && s->a[x].kind == s->b[x - k].kind)
        x++;
    return x;
}

static int64_t myers_forward(struct myers *s, struct pool *arena, int64_t limit)
{
    for (int64_t d = 0; d <= limit; d++) {
        /* Round d reads diagonals -d-1 … d+1 only. */
        int64_t *kept = POOL_ARRAY(arena, int64_t, (size_t)(2 * d + 3));
        memcpy(kept, s->v + s->offset - d - 1, (size_t)(2 * d + 3) * sizeof(*kept));
        s->trace[d] = kept;
        for (int64_t k = -d; k <= d; k += 2) {
            int64_t x = furthest(s, d, k);
            s->v[s->offset + k] = x;
            if (x >= s->n && x - k >= s->m)
                return d;
        }
    }
    return -1;
}

static void myers_backtrack(const struct myers *s, int64_t d, struct matching *m, struct range ra,
                            struct range rb)
{
    int64_t x = s->n, y = s->m;
    for (; d >= 0; d--) {
        const int64_t *v = s->trace[d] + d + 1;
        int64_t k = x - y;
        bool down = k == -d || (k != d && v[k - 1] < v[k + 1]);
        int64_t before_k = down ? k + 1 : k - 1;
        int64_t before_x = d == 0 ? 0 : v[before_k];
        int64_t before_y = d == 0 ? 0 : before_x - before_k;
        int64_t start_x = d == 0 ? 0 : down ? before_x : before_x + 1;
        while (x > start_x && y > 0) {
            x--;
            y--;
            m->match[ra.first + (size_t)x] = (uint32_t)(rb.first + (size_t)y);
        }
        x = before_x;
        y = before_y;
    }
}

static bool match_by_myers(struct matching *m, struct range ra, struct range rb)
{
    int64_t n = (int64_t)(ra.end - ra.first), height = (int64_t)(rb.end - rb.first);
    int64_t limit = n + height < MYERS_EDITS ? n + height : MYERS_EDITS;
    struct myers s = {.a = m->a->tokens + ra.first,
                      .b = m->b->tokens + rb.first,
                      .n = n,
                      .m = height,
                      .v = POOL_ARRAY(m->arena, int64_t, (size_t)(2 * limit + 5)),
                      .offset = limit + 2,
                      .trace = POOL_ARRAY(m->arena, int64_t *, (size_t)(limit + 1))};
    int64_t d = myers_forward(&s, m->arena, limit);
    if (d < 0)
        return false;
    myers_backtrack(&s, d, m, ra, rb);
    return true;
}

/* Too different to align: equal kinds are paired from the start, as far as the order allows. */
static void match_in_order(struct matching *m, struct range ra, struct range rb)
{
    size_t j = rb.first;
    for (size_t i = ra.first; i < ra.end && j < rb.end; i++) {
        size_t limit = j + 64 < rb.end ? j + 64 : rb.end;
        for (size_t k = j; k < limit; k++)
            if (m->a->tokens[i].kind == m->b->tokens[k].kind) {
                m->match[i] = (uint32_t)k;
                j = k + 1;
                break;
            }
    }
}

/* ---- putting it together -------------------------------------------------------------------- */

static void match_middle(struct matching *m, struct range ra, struct range rb)
{
    size_t height = ra.end - ra.first, width = rb.end - rb.first;
    if (height == 0 || width == 0)
        return;
    if (height * width <= TABLE_CELLS) /* counts are of 32 bits */
        match_by_table(m, ra, rb);
    else if (!match_by_myers(m, ra, rb))
        match_in_order(m, ra, rb);
}

/* -1, 0, 1: an order of sequences that does not depend on which side they are. */
static int order(const struct sequence *a, const struct sequence *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (size_t i = 0; i < a->count; i++) {
        const struct token *x = &a->tokens[i], *y = &b->tokens[i];
        if (x->exact != y->exact)
            return x->exact < y->exact ? -1 : 1;
        if (x->value != y->value)
            return x->value < y->value ? -1 : 1;
        if (x->inputs != y->inputs)
            return x->inputs < y->inputs ? -1 : 1;
    }
    return 0;
}

static void match_oriented(struct matching *m)
{
    struct range ra = {0, m->a->count}, rb = {0, m->b->count};
    while (ra.first < ra.end && rb.first < rb.end &&
           tokens_agree(&m->a->tokens[ra.first], &m->b->tokens[rb.first]))
        m->match[ra.first++] = (uint32_t)rb.first++;
    while (ra.first < ra.end && rb.first < rb.end &&
           tokens_agree(&m->a->tokens[ra.end - 1], &m->b->tokens[rb.end - 1]))
        m->match[--ra.end] = (uint32_t)--rb.end;
    match_middle(m, ra, rb);
}

static uint32_t *new_match(struct pool *arena, size_t count)
{
    uint32_t *match = POOL_ARRAY(arena, uint32_t, count);
    memset(match, 0xff, count * sizeof(*match));
    return match;
}

uint32_t *sequence_match(struct pool *arena, const struct sequence *a, const struct sequence *b)
{
    uint32_t *match = new_match(arena, a->count);
    if (same_structure(a, b)) {
        for (size_t i = 0; i < a->count; i++)
            match[i] = (uint32_t)i;
        return match;
    }
    if (order(a, b) <= 0) {
        match_oriented(&(struct matching){.arena = arena, .a = a, .b = b, .match = match});
        return match;
    }
    uint32_t *other = new_match(arena, b->count);
    match_oriented(&(struct matching){.arena = arena, .a = b, .b = a, .match = other});
    for (size_t j = 0; j < b->count; j++)
        if (other[j] != NO_INDEX)
            match[other[j]] = (uint32_t)j;
    return match;
}
