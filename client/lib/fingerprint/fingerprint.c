/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pass over a tensor: blocks of 4 KiB of the *global* tensor, one after the other, each read
 * from memory once and then, out of the first-level cache, by the statistics and the sketch. Blocks
 * that are not contiguous in memory are gathered into a scratch first, so a tensor's fingerprint
 * does not depend on how it lies in memory.
 */
#include <diverge/fingerprint.h>

#include <stdlib.h>
#include <string.h>

#include "client/lib/fingerprint/element.h"
#include "client/lib/fingerprint/fpenv.h"
#include "client/lib/fingerprint/kernel.h"
#include "client/lib/fingerprint/keys.h"
#include "client/lib/fingerprint/view.h"

enum {
    PANEL_BYTES = 1024 * 1024, /* scratch for transposed views; a quarter of it for short rows */
    NARROW_BYTES = 1024,       /* shorter extents are gathered, a block at a time */
};

struct pass {
    const struct dvg_kernel *kernel;
    const struct dvg_dtype *dtype;
    uint64_t per_block; /* elements; a power of two */
    uint64_t checksum;
    struct dvg_stats *stats;   /* NULL: not wanted */
    struct dvg_sketch *sketch; /* NULL: not wanted */
    uint8_t *panel;            /* scratch of a panel, or NULL as long as no view needed it */
    uint64_t pending;          /* elements in `block` that wait for the rest of theirs */
    uint8_t block[DVG_BLOCK_BYTES] __attribute__((aligned(64)));
    uint8_t values[DVG_BLOCK_BYTES] __attribute__((aligned(64)));
};

/* Where the size is known, compilers make it a `rep stos`, whose start alone takes 10 ns. */
static __attribute__((noinline)) void clear(void *data, size_t size)
{
    memset(data, 0, size);
}

/* Up to three bytes that do not make a word, at byte `shift` of one. */
static uint64_t part_word(const uint8_t *bytes, size_t count, unsigned shift)
{
    uint64_t word = 0;

    for (size_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << (8 * (shift + i));
    return word;
}

/* Checksum of bytes within one block, without the block's key. */
static uint64_t block_part(const struct dvg_kernel *kernel, const uint8_t *bytes, size_t size,
                           unsigned in_block)
{
    uint64_t total = 0;
    unsigned shift = in_block & 3;
    unsigned word = in_block >> 2;

    if (shift) {
        size_t head = size < 4 - shift ? size : 4 - shift;

        total = dvg_multiply(part_word(bytes, head, shift), dvg_key[word++]);
        bytes += head;
        size -= head;
    }

    size_t words = size / 4;

    if (words)
        total = dvg_add(total, kernel->block_sum(bytes, words, word));
    if (size % 4) {
        uint64_t tail = part_word(bytes + 4 * words, size % 4, 0);

        total = dvg_add(total, dvg_multiply(tail, dvg_key[word + words]));
    }
    return total;
}

uint64_t dvg_checksum_with(const struct dvg_kernel *kernel, const void *bytes, size_t size,
                           uint64_t offset)
{
    const uint8_t *at = bytes;
    uint64_t total = 0;

    while (size) {
        unsigned in_block = (unsigned)(offset % DVG_BLOCK_BYTES);
        size_t now = size < DVG_BLOCK_BYTES - in_block ? size : DVG_BLOCK_BYTES - in_block;
        uint64_t part = block_part(kernel, at, now, in_block);

        total = dvg_add(total, dvg_multiply(part, dvg_block_key(offset / DVG_BLOCK_BYTES)));
        at += now;
        offset += now;
        size -= now;
    }
    return total;
}

static void measure(const struct pass *pass, const uint8_t *data, uint64_t count, uint64_t start,
                    struct dvg_stats *stats, struct dvg_sketch *sketch)
{
    unsigned parts = pass->dtype->components;

    if (stats || sketch)
        pass->kernel->measure(pass->dtype->component, data, count * parts, start * parts, stats,
                              sketch);
}

/* Elements from global element `at` to the end of its block. */
static uint64_t to_block_end(const struct pass *pass, uint64_t at)
{
    return pass->per_block - (at & (pass->per_block - 1));
}

/* `count` contiguous elements that sit at global element `start`. */
static void take_run(struct pass *pass, const uint8_t *data, uint64_t count, uint64_t start)
{
    size_t item = pass->dtype->bytes;

    if (!pass->stats && !pass->sketch) {
        uint64_t part = dvg_checksum_with(pass->kernel, data, count * item, start * item);

        pass->checksum = dvg_add(pass->checksum, part);
        return;
    }
    while (count) {
        uint64_t left = to_block_end(pass, start);
        uint64_t now = count < left ? count : left;
        uint64_t part = dvg_checksum_with(pass->kernel, data, now * item, start * item);

        pass->checksum = dvg_add(pass->checksum, part);
        measure(pass, data, now, start, pass->stats, pass->sketch);
        data += now * item;
        start += now;
        count -= now;
    }
}

/* How much of `span` contiguous elements at `start` can be taken in place: whole blocks, or all. */
static uint64_t direct_part(const struct pass *pass, uint64_t span, uint64_t left, uint64_t start)
{
    uint64_t head = to_block_end(pass, start);

    if (span >= left)
        return left;
    return span < head ? 0 : head + ((span - head) & ~(pass->per_block - 1));
}

/*
 * A panel of a transposed view, if there is one here, after the `pending` elements that wait in
 * pass->block. Whole blocks are taken, what is left over waits there for the next call, so that
 * no block of the sketch is split. Returns the panel's elements, 0 when there is none.
 */
static uint64_t take_panel(struct pass *pass, struct dvg_walk *walk, uint64_t start, uint64_t left)
{
    size_t item = pass->dtype->bytes;
    uint64_t count = dvg_walk_panel(walk, PANEL_BYTES);

    if (count == 0 || count > left)
        return 0;
    if (!pass->panel)
        pass->panel = malloc(DVG_BLOCK_BYTES + PANEL_BYTES);
    if (!pass->panel)
        return 0; /* slower without, and the same result */

    uint64_t total = pass->pending + count;
    uint64_t begin = start - pass->pending;
    uint64_t whole = direct_part(pass, total, left + pass->pending, begin);

    memcpy(pass->panel, pass->block, pass->pending * item);
    dvg_walk_copy_panel(walk, pass->panel + pass->pending * item, count);
    take_run(pass, pass->panel, whole, begin);
    pass->pending = total - whole;
    memcpy(pass->block, pass->panel + whole * item, pass->pending * item);
    return count;
}

/* The rest of a block, or of the extent, element by element. */
static uint64_t take_block(struct pass *pass, struct dvg_walk *walk, uint64_t start, uint64_t left)
{
    uint64_t head = to_block_end(pass, start);
    uint64_t count = left < head ? left : head;

    dvg_walk_copy(walk, pass->block + pass->pending * pass->dtype->bytes, count);
    take_run(pass, pass->block, pass->pending + count, start - pass->pending);
    pass->pending = 0;
    return count;
}

/* One extent: `left` elements from the cursor of `walk` sit at global element `start`. */
static void take_extent(struct pass *pass, struct dvg_walk *walk, uint64_t start, uint64_t left)
{
    while (left) {
        uint64_t now = pass->pending ? 0 : direct_part(pass, dvg_walk_span(walk), left, start);

        if (now) {
            const uint8_t *data = walk->cursor;

            dvg_walk_skip(walk, now);
            take_run(pass, data, now, start);
        } else {
            now = take_panel(pass, walk, start, left);
        }
        if (now == 0)
            now = take_block(pass, walk, start, left);
        start += now;
        left -= now;
    }
}

/* How many extents from `extents` on are narrow, ascend and end in one block. */
static size_t narrow_group(const struct pass *pass, const struct diverge_extent *extents,
                           size_t n_extents)
{
    size_t item = pass->dtype->bytes;
    uint64_t stop = extents->start + to_block_end(pass, extents->start);
    uint64_t end = extents->start;
    size_t n = 0;

    while (n < n_extents && extents[n].length * item <= NARROW_BYTES && extents[n].start >= end &&
           extents[n].start < stop && extents[n].length <= stop - extents[n].start) {
        end = extents[n].start + extents[n].length;
        n++;
    }
    return n;
}

/* Extents of one block: placed in a zeroed scratch, for zeros add nothing; counted by themselves.
 */
static void take_narrow(struct pass *pass, struct dvg_walk *walk,
                        const struct diverge_extent *extents, size_t n_extents)
{
    size_t item = pass->dtype->bytes;
    uint64_t start = extents[0].start;
    uint64_t span = extents[n_extents - 1].start + extents[n_extents - 1].length - start;
    uint64_t count = 0;

    memset(pass->block, 0, span * item);
    for (size_t i = 0; i < n_extents; i++) {
        uint8_t *values = pass->values + count * item;

        dvg_walk_copy(walk, values, extents[i].length);
        memcpy(pass->block + (extents[i].start - start) * item, values, extents[i].length * item);
        count += extents[i].length;
    }
    uint64_t part = dvg_checksum_with(pass->kernel, pass->block, span * item, start * item);

    pass->checksum = dvg_add(pass->checksum, part);
    measure(pass, pass->block, span, start, NULL, pass->sketch);
    measure(pass, pass->values, count, 0, pass->stats, NULL);
}

static void take_view(struct pass *pass, struct dvg_walk *walk, const struct diverge_view *view)
{
    if (!view->extents) {
        take_extent(pass, walk, 0, walk->left);
        return;
    }
    for (size_t i = 0; i < view->n_extents;) {
        size_t n = narrow_group(pass, &view->extents[i], view->n_extents - i);

        if (n > 1) {
            take_narrow(pass, walk, &view->extents[i], n);
            i += n;
        } else {
            take_extent(pass, walk, view->extents[i].start, view->extents[i].length);
            i++;
        }
    }
}

static bool wanted_is_valid(unsigned what)
{
    unsigned sketches = DIVERGE_WITH_SKETCH32 | DIVERGE_WITH_SKETCH64;

    return (what & ~(DIVERGE_WITH_STATISTICS | sketches)) == 0 && (what & sketches) != sketches;
}

typedef double four_doubles __attribute__((vector_size(32)));
typedef float four_floats __attribute__((vector_size(16)));

/* Four at a time: one by one, this would be a tenth of a small tensor's time. */
static void finish_sketch(const struct dvg_sketch *sketch, float *ret)
{
    for (unsigned i = 0; i < sketch->size; i += 4) {
        four_doubles sums;

        memcpy(&sums, &sketch->sums[i], sizeof(sums));

        four_floats rounded = __builtin_convertvector(sums, four_floats);

        memcpy(&ret[i], &rounded, sizeof(rounded));
    }
}

static void finish(const struct pass *pass, const struct diverge_view *view,
                   struct diverge_fingerprint *ret)
{
    unsigned size = pass->sketch ? pass->sketch->size : 0;

    ret->checksum = pass->checksum;
    if (pass->stats)
        dvg_stats_finish(pass->stats, view->dtype, &ret->stats);
    else
        clear(&ret->stats, sizeof(ret->stats));
    ret->sketch_size = size;
    if (size)
        finish_sketch(pass->sketch, ret->sketch);
    if (size < DIVERGE_SKETCH_MAX)
        clear(&ret->sketch[size], (DIVERGE_SKETCH_MAX - size) * sizeof(ret->sketch[0]));
}

int dvg_fingerprint_with(const struct dvg_kernel *kernel, const struct diverge_view *view,
                         unsigned what, struct diverge_fingerprint *ret)
{
    struct dvg_walk walk;
    struct dvg_stats stats;
    struct dvg_sketch sketch;
    struct pass pass;

    if (!view || !ret || !wanted_is_valid(what) || dvg_walk_init(&walk, view))
        return DIVERGE_EINVAL;
    pass.kernel = kernel;
    pass.dtype = dvg_dtype_get(view->dtype);
    pass.per_block = DVG_BLOCK_BYTES >> __builtin_ctz(pass.dtype->bytes);
    pass.checksum = 0;
    pass.stats = NULL;
    pass.sketch = NULL;
    pass.panel = NULL;
    pass.pending = 0;
    if ((what & DIVERGE_WITH_STATISTICS) && view->dtype != DIVERGE_OPAQUE) {
        dvg_stats_init(&stats);
        pass.stats = &stats;
    }
    if ((what & (DIVERGE_WITH_SKETCH32 | DIVERGE_WITH_SKETCH64)) && view->dtype != DIVERGE_OPAQUE) {
        sketch.size = what & DIVERGE_WITH_SKETCH64 ? 64 : 32;
        clear(sketch.sums, sketch.size * sizeof(sketch.sums[0]));
        pass.sketch = &sketch;
    }

    if (pass.stats || pass.sketch) {
        dvg_fpenv saved = dvg_fpenv_enter();

        take_view(&pass, &walk, view);
        finish(&pass, view, ret);
        dvg_fpenv_leave(saved);
    } else {
        take_view(&pass, &walk, view); /* integers alone: spares the pipeline a halt */
        finish(&pass, view, ret);
    }
    free(pass.panel);
    return 0;
}

int diverge_fingerprint(const struct diverge_view *view, unsigned what,
                        struct diverge_fingerprint *ret)
{
    return dvg_fingerprint_with(dvg_kernel_get(), view, what, ret);
}

uint64_t diverge_checksum_bytes(const void *bytes, size_t size, uint64_t offset)
{
    return dvg_checksum_with(dvg_kernel_get(), bytes, size, offset);
}

uint64_t diverge_checksum_add(uint64_t a, uint64_t b)
{
    return dvg_add(dvg_residue(a), dvg_residue(b));
}

uint64_t diverge_checksum_subtract(uint64_t b, uint64_t a)
{
    return dvg_add(dvg_residue(b), DVG_PRIME - dvg_residue(a));
}

uint64_t diverge_mix64(uint64_t checksum)
{
    return dvg_mix64(checksum);
}

const char *diverge_kernel_name(void)
{
    return dvg_kernel_get()->name;
}
