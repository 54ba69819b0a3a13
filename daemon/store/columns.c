/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/columns.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

enum { NONFINITE_BYTES = 32, SKETCH_HEADER = 8, FIRST_BYTES = 1024 };

_Static_assert((int)COLUMN_ZERO == (int)DVG_COLUMN_ZERO, "the wire's columns come first");

uint8_t column_number(enum column column)
{
    static const uint8_t numbers[] = {
#define X(NAME, number, width) number,
        STORE_COLUMNS(X)
#undef X
    };
    return numbers[column];
}

size_t column_width(enum column column)
{
    static const uint8_t widths[] = {
#define X(NAME, number, width) width,
        STORE_COLUMNS(X)
#undef X
    };
    return widths[column];
}

void columns_fini(struct columns *columns)
{
    for (int c = 0; c < COLUMN_COUNT; c++)
        free(columns->data[c]);
    *columns = (struct columns){0};
}

void columns_clear(struct columns *columns)
{
    columns->count = 0;
    columns->n_nonfinite = 0;
    columns->n_sketches = 0;
    columns->sketch_size = 0;
    columns->present = 0;
}

size_t columns_bytes(const struct columns *columns)
{
    size_t bytes = 0;
    for (int c = 0; c < COLUMN_COUNT; c++)
        bytes += columns->capacity[c];
    return bytes;
}

uint32_t columns_items(const struct columns *columns, enum column column)
{
    if (column < COLUMN_RECORD_COUNT)
        return columns->count;
    if (column < COLUMN_SKETCH_INDEX)
        return columns->n_nonfinite;
    return column == COLUMN_SKETCH ? columns->n_sketches * columns->sketch_size
                                   : columns->n_sketches;
}

const void *columns_get(const struct columns *columns, enum column column)
{
    return columns->present & (UINT32_C(1) << column) ? columns->data[column] : NULL;
}

/* Room for `more` items behind `items`; a column that becomes present is zero up to there. */
static int reserve(struct columns *columns, enum column column, uint32_t items, uint32_t more)
{
    size_t width = column_width(column);
    size_t need = ((size_t)items + more) * width;
    if (need > columns->capacity[column]) {
        size_t capacity = columns->capacity[column] ? columns->capacity[column] : FIRST_BYTES;
        while (capacity < need)
            capacity *= 2;
        uint8_t *data = realloc(columns->data[column], capacity);
        if (!data)
            return DIVERGE_ENOMEM;
        columns->data[column] = data;
        columns->capacity[column] = capacity;
    }
    return 0;
}

static uint8_t *make_present(struct columns *columns, enum column column, uint32_t items)
{
    size_t width = column_width(column);
    if (!(columns->present & (UINT32_C(1) << column)))
        memset(columns->data[column], 0, items * width);
    columns->present |= UINT32_C(1) << column;
    return columns->data[column] + items * width;
}

/* ---- what a part must hold to be appended ---------------------------------------------------- */

static bool all_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

/* Whether the part says anything but zero in a column. */
static bool wire_present(const struct dvg_bytes *bytes, size_t width)
{
    return bytes->size > width || (bytes->size == width && !all_zero(bytes->data, width));
}

static uint32_t wire_u32(const struct dvg_bytes *bytes, uint32_t i)
{
    if (!bytes->size)
        return 0;
    return dvg_load_u32(bytes->data + (bytes->size == 4 ? 0 : (size_t)i * 4));
}

/* These loops run for each record: no branches that depend on the data. */
static int check_types(const struct columns_part *part)
{
    const struct dvg_bytes *types = &part->wire->columns[DVG_COLUMN_TYPE];
    size_t checks = types->size <= 4 ? types->size / 4 : part->wire->count;
    bool unknown = !part->n_types; /* number 0 is what a missing column stands for */
    for (size_t i = 0; i < checks; i++)
        unknown |= dvg_load_u32(types->data + i * 4) >= part->n_types;
    return unknown ? DIVERGE_EPROTO : 0;
}

/* In a lane, order never goes back. */
static int check_order(const struct columns *columns, const struct dvg_part *wire)
{
    const struct dvg_bytes *order = &wire->columns[DVG_COLUMN_ORDER];
    const uint32_t *before = columns_get(columns, COLUMN_ORDER);
    uint32_t last = before ? before[columns->count - 1] : 0;
    if (wire_u32(order, 0) < last)
        return DIVERGE_EPROTO;
    bool back = false;
    for (size_t at = 4; at < order->size; at += 4)
        back |= dvg_load_u32(order->data + at) < dvg_load_u32(order->data + at - 4);
    return back ? DIVERGE_EPROTO : 0;
}

static int check_sparse(const struct dvg_bytes *entries, size_t entry, uint32_t count)
{
    uint64_t least = 0;
    if (entries->size % entry)
        return DIVERGE_EPROTO;
    for (size_t at = 0; at < entries->size; at += entry) {
        uint32_t index = dvg_load_u32(entries->data + at);
        if (index < least || index >= count)
            return DIVERGE_EPROTO;
        least = (uint64_t)index + 1;
    }
    return 0;
}

static int check_part(const struct columns *columns, const struct columns_part *part)
{
    const struct dvg_part *wire = part->wire;
    if (!wire->count || wire->count > UINT32_MAX - columns->count)
        return DIVERGE_EPROTO;
    for (int c = 0; c < DVG_COLUMN_COUNT; c++) {
        size_t size = wire->columns[c].size;
        size_t width = column_width((enum column)c);
        if (size && size != width && size != width * wire->count)
            return DIVERGE_EPROTO;
    }
    if (wire->sketches.size) {
        if (wire->sketch_size != 32 && wire->sketch_size != 64)
            return DIVERGE_EPROTO;
        if (columns->n_sketches && columns->sketch_size != wire->sketch_size)
            return DIVERGE_EPROTO;
    }
    int rc = check_types(part);
    if (!rc)
        rc = check_order(columns, wire);
    if (!rc)
        rc = check_sparse(&wire->nonfinite, NONFINITE_BYTES, wire->count);
    if (!rc && wire->sketches.size)
        rc = check_sparse(&wire->sketches, SKETCH_HEADER + 4 * (size_t)wire->sketch_size,
                          wire->count);
    return rc;
}

/* ---- appending ------------------------------------------------------------------------------- */

static uint32_t part_sketches(const struct dvg_part *wire)
{
    return wire->sketches.size
               ? (uint32_t)(wire->sketches.size / (SKETCH_HEADER + 4 * (size_t)wire->sketch_size))
               : 0;
}

/* All memory first, so that appending cannot fail half way. */
static int reserve_part(struct columns *columns, const struct columns_part *part)
{
    const struct dvg_part *wire = part->wire;
    uint32_t n_nonfinite = (uint32_t)(wire->nonfinite.size / NONFINITE_BYTES);
    uint32_t n_sketches = part_sketches(wire);
    int rc = 0;
    for (int c = 0; c < COLUMN_RECORD_COUNT && !rc; c++) {
        bool comes =
            c == COLUMN_SITE || c == COLUMN_TYPE || (c == COLUMN_SOURCE && part->sources) ||
            (c < DVG_COLUMN_COUNT && wire_present(&wire->columns[c], column_width((enum column)c)));
        if (comes || columns->present & (UINT32_C(1) << c))
            rc = reserve(columns, (enum column)c, columns->count, wire->count);
    }
    for (int c = COLUMN_NONFINITE_INDEX; c <= COLUMN_NINF && n_nonfinite && !rc; c++)
        rc = reserve(columns, (enum column)c, columns->n_nonfinite, n_nonfinite);
    if (n_sketches && !rc)
        rc = reserve(columns, COLUMN_SKETCH_INDEX, columns->n_sketches, n_sketches);
    if (n_sketches && !rc)
        rc = reserve(columns, COLUMN_SKETCH, columns->n_sketches * wire->sketch_size,
                     n_sketches * wire->sketch_size);
    return rc;
}

static void fill(uint8_t *to, const uint8_t *item, size_t width, uint32_t count)
{
    if (width == 1) {
        memset(to, *item, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        memcpy(to + i * width, item, width);
}

static void append_wire_column(struct columns *columns, enum column c, const struct dvg_part *wire)
{
    const struct dvg_bytes *bytes = &wire->columns[c];
    size_t width = column_width(c);
    if (!wire_present(bytes, width)) {
        if (columns->present & (UINT32_C(1) << c))
            memset(columns->data[c] + columns->count * width, 0, wire->count * width);
        return;
    }
    uint8_t *to = make_present(columns, c, columns->count);
    if (bytes->size == width)
        fill(to, bytes->data, width, wire->count);
    else
        memcpy(to, bytes->data, bytes->size);
}

static void append_types(struct columns *columns, const struct columns_part *part)
{
    const struct dvg_bytes *bytes = &part->wire->columns[DVG_COLUMN_TYPE];
    uint32_t *to = (uint32_t *)make_present(columns, COLUMN_TYPE, columns->count);
    if (bytes->size <= 4) {
        uint32_t row = part->types[wire_u32(bytes, 0)];
        for (uint32_t i = 0; i < part->wire->count; i++)
            to[i] = row;
        return;
    }
    for (uint32_t i = 0; i < part->wire->count; i++)
        to[i] = part->types[dvg_load_u32(bytes->data + (size_t)i * 4)];
}

static void append_sources(struct columns *columns, const struct columns_part *part)
{
    size_t size = (size_t)part->wire->count * 4;
    if (part->sources)
        memcpy(make_present(columns, COLUMN_SOURCE, columns->count), part->sources, size);
    else if (columns->present & (UINT32_C(1) << COLUMN_SOURCE))
        memset(columns->data[COLUMN_SOURCE] + (size_t)columns->count * 4, 0, size);
}

static void append_nonfinite(struct columns *columns, const struct dvg_part *wire)
{
    for (size_t at = 0; at < wire->nonfinite.size; at += NONFINITE_BYTES) {
        const uint8_t *entry = wire->nonfinite.data + at;
        uint32_t n = columns->n_nonfinite++;
        dvg_store_u32(make_present(columns, COLUMN_NONFINITE_INDEX, n),
                      columns->count + dvg_load_u32(entry));
        for (int c = 0; c < 3; c++)
            memcpy(make_present(columns, (enum column)(COLUMN_NAN + c), n), entry + 8 + 8 * c, 8);
    }
}

static void append_sketches(struct columns *columns, const struct dvg_part *wire)
{
    if (!wire->sketches.size)
        return;
    uint32_t size = wire->sketch_size;
    columns->sketch_size = size;
    for (size_t at = 0; at < wire->sketches.size; at += SKETCH_HEADER + 4 * (size_t)size) {
        const uint8_t *entry = wire->sketches.data + at;
        uint32_t n = columns->n_sketches++;
        dvg_store_u32(make_present(columns, COLUMN_SKETCH_INDEX, n),
                      columns->count + dvg_load_u32(entry));
        memcpy(make_present(columns, COLUMN_SKETCH, n * size), entry + SKETCH_HEADER,
               4 * (size_t)size);
    }
}

int columns_append_part(struct columns *columns, const struct columns_part *part)
{
    int rc = check_part(columns, part);
    if (!rc)
        rc = reserve_part(columns, part);
    if (rc)
        return rc;
    for (int c = 0; c < DVG_COLUMN_COUNT; c++)
        if (c != DVG_COLUMN_TYPE)
            append_wire_column(columns, (enum column)c, part->wire);
    append_types(columns, part);
    memcpy(make_present(columns, COLUMN_SITE, columns->count), part->sites,
           (size_t)part->wire->count * 4);
    append_sources(columns, part);
    append_nonfinite(columns, part->wire);
    append_sketches(columns, part->wire);
    columns->count += part->wire->count;
    return 0;
}

static int reserve_all(struct columns *columns, const struct columns *from)
{
    uint32_t both = columns->present | from->present;
    int rc = 0;
    for (int c = 0; c < COLUMN_COUNT && !rc; c++)
        if (both & (UINT32_C(1) << c))
            rc = reserve(columns, (enum column)c, columns_items(columns, (enum column)c),
                         columns_items(from, (enum column)c));
    return rc;
}

/* Sparse indices count from the first record of `columns`. */
static void append_column(struct columns *columns, enum column c, const struct columns *from)
{
    size_t width = column_width(c);
    uint32_t items = columns_items(from, c);
    uint8_t *to = make_present(columns, c, columns_items(columns, c));
    const uint8_t *data = columns_get(from, c);
    if (!data)
        memset(to, 0, items * width);
    else if (c == COLUMN_NONFINITE_INDEX || c == COLUMN_SKETCH_INDEX)
        for (uint32_t i = 0; i < items; i++)
            dvg_store_u32(to + (size_t)i * 4, columns->count + dvg_load_u32(data + (size_t)i * 4));
    else
        memcpy(to, data, items * width);
}

int columns_append(struct columns *columns, const struct columns *from)
{
    if (from->count > UINT32_MAX - columns->count)
        return DIVERGE_ELIMIT;
    if (columns->n_sketches && from->n_sketches && columns->sketch_size != from->sketch_size)
        return DIVERGE_EPROTO;
    if (from->n_sketches)
        columns->sketch_size = from->sketch_size;
    int rc = reserve_all(columns, from);
    if (rc)
        return rc;
    uint32_t both = columns->present | from->present;
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (both & (UINT32_C(1) << c))
            append_column(columns, (enum column)c, from);
    columns->count += from->count;
    columns->n_nonfinite += from->n_nonfinite;
    columns->n_sketches += from->n_sketches;
    return 0;
}
