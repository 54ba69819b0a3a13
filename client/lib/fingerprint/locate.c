/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which single word explains a difference of two checksums? For word w of block b the change would
 * be delta / (key[w mod 1024] * S[b]) mod p; a true one is small, a false one small by chance
 * alone.
 * Inverses of a block's key are made in batches, those of the in-block keys once, so a word costs
 * one multiplication.
 */
#include <diverge/fingerprint.h>

#include "client/lib/fingerprint/keys.h"

enum {
    BATCH = 256,
};

#define SMALL (UINT64_C(1) << 32)

static uint64_t invert(uint64_t value)
{
    uint64_t result = 1;

    /* value^(p - 2); p - 2 is all ones but for bit 1. */
    for (int bit = 60; bit >= 0; bit--) {
        result = dvg_multiply(result, result);
        if (bit != 1)
            result = dvg_multiply(result, value);
    }
    return result;
}

/* Replaces values, none of them 0, by their inverses: Montgomery's trick, one inversion for all. */
static void invert_all(uint64_t *values, uint64_t *scratch, size_t count)
{
    uint64_t product = 1;

    for (size_t i = 0; i < count; i++) {
        scratch[i] = product;
        product = dvg_multiply(product, values[i]);
    }
    product = invert(product);
    for (size_t i = count; i-- > 0;) {
        uint64_t value = values[i];

        values[i] = dvg_multiply(product, scratch[i]);
        product = dvg_multiply(product, value);
    }
}

struct search {
    uint64_t inverse[DVG_BLOCK]; /* of the in-block keys */
    struct diverge_located *found;
    size_t capacity;
    size_t n_found;
};

static void add_found(struct search *search, uint64_t word, uint64_t residue)
{
    int64_t change = residue < SMALL ? (int64_t)residue : -(int64_t)(DVG_PRIME - residue);

    if (search->n_found < search->capacity)
        search->found[search->n_found] = (struct diverge_located){.word = word, .change = change};
    search->n_found++;
}

/* Words [from, to) of a block whose first word is `base`; delta is without the block's key. */
static void search_block(struct search *search, uint64_t delta, uint64_t base, unsigned from,
                         unsigned to)
{
    for (unsigned r = from; r < to; r++) {
        dvg_u128 product = (dvg_u128)delta * search->inverse[r];
        uint64_t sum = (uint64_t)(product & DVG_PRIME) + (uint64_t)(product >> 61);

        /* sum is below 2p and not folded: small when within 2^32 of 0, p or 2p, all near 0 mod 2^61
         */
        if (((sum + SMALL + 1) & DVG_PRIME) > 2 * SMALL + 1)
            continue;

        uint64_t residue = dvg_residue(sum);

        if (residue < SMALL || DVG_PRIME - residue < SMALL)
            add_found(search, base + r, residue);
    }
}

static void init_inverses(struct search *search)
{
    uint64_t scratch[DVG_BLOCK];

    for (unsigned r = 0; r < DVG_BLOCK; r++)
        search->inverse[r] = dvg_key[r];
    invert_all(search->inverse, scratch, DVG_BLOCK);
}

/* Blocks [block, block + count), clipped to words [first, end). */
static void search_batch(struct search *search, uint64_t delta, uint64_t block, size_t count,
                         uint64_t first, uint64_t end)
{
    uint64_t keys[BATCH];
    uint64_t scratch[BATCH];

    for (size_t i = 0; i < count; i++)
        keys[i] = dvg_block_key(block + i);
    invert_all(keys, scratch, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t base = (block + i) * DVG_BLOCK;
        unsigned from = first > base ? (unsigned)(first - base) : 0;
        unsigned to = end - base < DVG_BLOCK ? (unsigned)(end - base) : DVG_BLOCK;

        search_block(search, dvg_multiply(delta, keys[i]), base, from, to);
    }
}

size_t diverge_locate(uint64_t delta, uint64_t first, uint64_t words, struct diverge_located *found,
                      size_t capacity)
{
    struct search search = {.found = found, .capacity = found ? capacity : 0};
    uint64_t limit = UINT64_C(1) << 58; /* words in 2^60 bytes */

    delta = dvg_residue(delta);
    if (delta == 0 || words == 0 || first >= limit)
        return 0;

    uint64_t end = words < limit - first ? first + words : limit;
    uint64_t last = (end - 1) / DVG_BLOCK;

    init_inverses(&search);
    for (uint64_t block = first / DVG_BLOCK; block <= last; block += BATCH) {
        size_t count = last - block < BATCH ? (size_t)(last - block + 1) : BATCH;

        search_batch(&search, delta, block, count, first, end);
    }
    return search.n_found;
}
