/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PART: columns stay where they are; what is checked here costs a few nanoseconds a part and a bit
 * a record.
 */

#include "client/wire/part.h"

#include <diverge/error.h>

enum {
    NONFINITE_SIZE = 32, /* u32 index, u32 0, u64 nan, u64 pinf, u64 ninf */
    ENTRY_HEADER = 8,    /* u32 index, u32 0: how entries of both kinds begin */
    RUN_SIZE = 8,
};

static int check_site_runs(const struct dvg_part *part)
{
    struct dvg_bytes runs = part->site_runs;
    if (runs.size % RUN_SIZE)
        return DIVERGE_EPROTO;
    uint64_t total = 0;
    for (size_t at = 0; at < runs.size; at += RUN_SIZE) {
        uint32_t first = dvg_load_u32(runs.data + at);
        uint32_t count = dvg_load_u32(runs.data + at + 4);
        if (!first || !count || count > UINT32_MAX - first)
            return DIVERGE_EPROTO;
        total += count;
    }
    return total == part->count ? 0 : DIVERGE_EPROTO;
}

static int check_columns(const struct dvg_part *part)
{
    for (int i = 0; i < DVG_COLUMN_COUNT; i++) {
        size_t size = part->columns[i].size;
        size_t width = dvg_column_width((enum dvg_column)i);
        if (size && size != width && size != width * part->count)
            return DIVERGE_EPROTO;
    }
    return 0;
}

/* Type 0 is none, and a record always has one. Two numbers at a time. */
static int check_types(struct dvg_bytes column)
{
    const uint64_t ones = UINT64_C(0x0000000100000001);
    const uint64_t high = UINT64_C(0x8000000080000000);
    uint64_t zeros = column.size ? 0 : 1;
    size_t at = 0;
    for (; column.size - at >= 8; at += 8) {
        uint64_t pair = dvg_load_u64(column.data + at);
        zeros |= (pair - ones) & ~pair & high;
    }
    if (at < column.size)
        zeros |= dvg_load_u32(column.data + at) == 0;
    return zeros ? DIVERGE_EPROTO : 0;
}

/* The eight bytes of `sums`, added up. */
static size_t add_bytes(uint64_t sums)
{
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t pairs = (sums & even) + ((sums >> 8) & even);
    return (size_t)((pairs * UINT64_C(0x0001000100010001)) >> 48);
}

/*
 * Bytes of the column that have `bit` set. Eight at a time, in sums a byte wide that are emptied
 * before they can overflow: baseline x86-64 has no popcount instruction.
 */
static size_t count_bit(struct dvg_bytes column, uint8_t bit)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const int shift = __builtin_ctz(bit);
    size_t total = 0;
    size_t at = 0;
    while (column.size - at >= 8) {
        size_t words = (column.size - at) / 8;
        size_t end = at + 8 * (words < 255 ? words : 255);
        uint64_t sums = 0;
        for (; at < end; at += 8)
            sums += (dvg_load_u64(column.data + at) >> shift) & ones;
        total += add_bytes(sums);
    }
    for (; at < column.size; at++)
        total += (column.data[at] & bit) != 0;
    return total;
}

static uint8_t state_at(const struct dvg_part *part, uint32_t index)
{
    struct dvg_bytes column = part->columns[DVG_COLUMN_STATE];
    if (!column.size)
        return 0;
    return column.data[column.size == 1 ? 0 : index];
}

/* Records whose state has `bit`. */
static size_t records_with(const struct dvg_part *part, uint8_t bit)
{
    struct dvg_bytes column = part->columns[DVG_COLUMN_STATE];
    if (column.size == 1)
        return column.data[0] & bit ? part->count : 0;
    return count_bit(column, bit);
}

/* Sparse entries: indexes rise, and the records that have one are those whose state says so. */
static int check_entries(const struct dvg_part *part, struct dvg_bytes entries, size_t size,
                         uint8_t bit)
{
    if (entries.size % size)
        return DIVERGE_EPROTO;
    uint32_t least = 0;
    for (size_t at = 0; at < entries.size; at += size) {
        uint32_t index = dvg_load_u32(entries.data + at);
        if (index < least || index >= part->count || dvg_load_u32(entries.data + at + 4))
            return DIVERGE_EPROTO;
        if (!(state_at(part, index) & bit))
            return DIVERGE_EPROTO;
        least = index + 1;
    }
    return records_with(part, bit) == entries.size / size ? 0 : DIVERGE_EPROTO;
}

static int check_sketches(const struct dvg_part *part)
{
    if (part->sketch_size != 0 && part->sketch_size != 32 && part->sketch_size != 64)
        return DIVERGE_EPROTO;
    if (!part->sketch_size && part->sketches.size)
        return DIVERGE_EPROTO;
    size_t size = ENTRY_HEADER + part->sketch_size * sizeof(float);
    return check_entries(part, part->sketches, size, DVG_STATE_SKETCH);
}

int dvg_part_check(const struct dvg_part *part)
{
    if (part->segment > DVG_SEGMENT_MAX || part->tier >= DIVERGE_TIER_COUNT || !part->lane ||
        !part->count || part->first > DVG_SEQ_MAX)
        return DIVERGE_EPROTO;
    if (part->count > DVG_PART_RECORDS_MAX)
        return DIVERGE_ELIMIT;
    int rc = check_site_runs(part);
    if (!rc)
        rc = check_columns(part);
    if (!rc)
        rc = check_types(part->columns[DVG_COLUMN_TYPE]);
    if (!rc)
        rc = check_entries(part, part->nonfinite, NONFINITE_SIZE, DVG_STATE_NONFINITE);
    if (!rc)
        rc = check_sketches(part);
    return rc;
}
