/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/columns.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/fingerprint.h>

enum { ROWS_FIRST = 256, NONFINITE_COUNTS = 3 * sizeof(uint64_t) };

void dvg_columns_init(struct dvg_columns *columns, uint32_t lane, uint8_t tier)
{
    *columns = (struct dvg_columns){.lane = lane, .tier = tier};
    dvg_buffer_init(&columns->runs, DVG_PART_ROWS * sizeof(struct dvg_site_run));
    dvg_buffer_init(&columns->nonfinite, DVG_PART_ROWS * (8 + NONFINITE_COUNTS));
    dvg_buffer_init(&columns->sketches, DVG_PART_ROWS * (8 + DIVERGE_SKETCH_MAX * sizeof(float)));
}

void dvg_columns_fini(struct dvg_columns *columns)
{
    for (int i = 0; i < DVG_COLUMN_COUNT; i++)
        free(columns->data[i]);
    dvg_buffer_fini(&columns->runs);
    dvg_buffer_fini(&columns->nonfinite);
    dvg_buffer_fini(&columns->sketches);
}

void dvg_columns_begin(struct dvg_columns *columns)
{
    dvg_columns_discard(columns);
    columns->first = 0;
}

void dvg_columns_discard(struct dvg_columns *columns)
{
    columns->count = 0;
    columns->last_site = 0;
    columns->sketch_size = 0;
    dvg_buffer_clear(&columns->runs);
    dvg_buffer_clear(&columns->nonfinite);
    dvg_buffer_clear(&columns->sketches);
}

static size_t payload_bytes(const struct dvg_columns *columns)
{
    enum { ROW_BYTES = 61 }; /* of all columns */
    return (size_t)columns->count * ROW_BYTES + columns->runs.size + columns->nonfinite.size +
           columns->sketches.size;
}

size_t dvg_columns_bytes(const struct dvg_columns *columns)
{
    enum { HEAD_BYTES = 512 }; /* of the frame, its fields and their padding */
    return HEAD_BYTES + payload_bytes(columns);
}

bool dvg_columns_full(const struct dvg_columns *columns)
{
    return columns->count == DVG_PART_ROWS || payload_bytes(columns) >= DVG_PART_BYTES;
}

static int grow(struct dvg_columns *columns)
{
    if (columns->count < columns->capacity)
        return 0;
    uint32_t capacity = columns->capacity ? columns->capacity * 2 : ROWS_FIRST;
    for (int i = 0; i < DVG_COLUMN_COUNT; i++) {
        uint8_t *data = realloc(columns->data[i], capacity * dvg_column_width((enum dvg_column)i));
        if (!data)
            return DIVERGE_ENOMEM;
        columns->data[i] = data;
    }
    columns->capacity = capacity;
    return 0;
}

/* Continues the last run of sites or begins one; room was made. */
static void append_site(struct dvg_columns *columns, uint32_t site)
{
    uint8_t *last = columns->runs.data + columns->runs.size - sizeof(struct dvg_site_run);
    if (columns->runs.size && site == columns->last_site + 1) {
        dvg_store_u32(last + 4, dvg_load_u32(last + 4) + 1);
    } else {
        uint8_t *run = columns->runs.data + columns->runs.size;
        dvg_store_u32(run, site);
        dvg_store_u32(run + 4, 1);
        columns->runs.size += sizeof(struct dvg_site_run);
    }
    columns->last_site = site;
}

static void append_sparse(struct dvg_columns *columns, const struct dvg_entry *entry)
{
    const uint8_t *extra = (const uint8_t *)(entry + 1);
    uint64_t index = columns->count;
    if (entry->nonfinite && (entry->state & DVG_STATE_NONFINITE)) {
        dvg_buffer_append(&columns->nonfinite, &index, sizeof(index));
        dvg_buffer_append(&columns->nonfinite, extra, NONFINITE_COUNTS);
    }
    if (entry->nonfinite)
        extra += NONFINITE_COUNTS;
    if (entry->state & DVG_STATE_SKETCH) {
        columns->sketch_size = entry->sketch_size;
        dvg_buffer_append(&columns->sketches, &index, sizeof(index));
        dvg_buffer_append(&columns->sketches, extra, entry->sketch_size * sizeof(float));
    }
}

static void append_values(struct dvg_columns *columns, const struct dvg_entry *entry)
{
    uint32_t at = columns->count;
    memcpy(columns->data[DVG_COLUMN_VALUE] + 8 * (size_t)at, &entry->value, 8);
    memcpy(columns->data[DVG_COLUMN_TYPE] + 4 * (size_t)at, &entry->type, 4);
    memcpy(columns->data[DVG_COLUMN_ARGUMENT] + 8 * (size_t)at, &entry->argument, 8);
    columns->data[DVG_COLUMN_STATE][at] = entry->state;
    memcpy(columns->data[DVG_COLUMN_ORDER] + 4 * (size_t)at, &entry->order, 4);
    memcpy(columns->data[DVG_COLUMN_PRODUCER] + 4 * (size_t)at, &entry->producer, 4);
    memcpy(columns->data[DVG_COLUMN_SUM] + 4 * (size_t)at, &entry->sum, 4);
    memcpy(columns->data[DVG_COLUMN_L2] + 4 * (size_t)at, &entry->l2, 4);
    memcpy(columns->data[DVG_COLUMN_MIN] + 8 * (size_t)at, &entry->min, 8);
    memcpy(columns->data[DVG_COLUMN_MAX] + 8 * (size_t)at, &entry->max, 8);
    memcpy(columns->data[DVG_COLUMN_ZERO] + 8 * (size_t)at, &entry->zero, 8);
}

int dvg_columns_append(struct dvg_columns *columns, const struct dvg_entry *entry)
{
    int rc = grow(columns);
    if (!rc)
        rc = dvg_buffer_reserve(&columns->runs, sizeof(struct dvg_site_run));
    if (!rc && entry->nonfinite)
        rc = dvg_buffer_reserve(&columns->nonfinite, 8 + NONFINITE_COUNTS);
    if (!rc && entry->sketch_size)
        rc = dvg_buffer_reserve(&columns->sketches, 8 + entry->sketch_size * sizeof(float));
    if (rc)
        return rc;
    append_site(columns, entry->site);
    append_sparse(columns, entry);
    append_values(columns, entry);
    columns->count++;
    return 0;
}

/* A column of equal values goes as one value, of zeros not at all. */
static struct dvg_bytes column_bytes(const uint8_t *data, size_t width, uint32_t count)
{
    static const uint8_t zeros[8];
    size_t size = width * count;
    if (count > 1 && memcmp(data, data + width, size - width) != 0)
        return (struct dvg_bytes){.data = data, .size = size};
    if (memcmp(data, zeros, width) == 0)
        return (struct dvg_bytes){0};
    return (struct dvg_bytes){.data = data, .size = width};
}

static struct dvg_bytes buffer_bytes(const struct dvg_buffer *buffer)
{
    return (struct dvg_bytes){.data = buffer->data, .size = buffer->size};
}

int dvg_columns_encode(struct dvg_columns *columns, uint64_t segment, uint64_t seq,
                       struct dvg_buffer *out)
{
    if (!columns->count)
        return 0;
    struct dvg_part part = {
        .segment = segment,
        .tier = columns->tier,
        .lane = columns->lane,
        .count = columns->count,
        .first = columns->first,
        .site_runs = buffer_bytes(&columns->runs),
        .nonfinite = buffer_bytes(&columns->nonfinite),
        .sketch_size = columns->sketch_size,
        .sketches = buffer_bytes(&columns->sketches),
    };
    for (int i = 0; i < DVG_COLUMN_COUNT; i++)
        part.columns[i] =
            column_bytes(columns->data[i], dvg_column_width((enum dvg_column)i), columns->count);
    int rc = dvg_part_encode(out, seq, &part);
    if (rc)
        return rc;
    columns->first += columns->count;
    dvg_columns_discard(columns);
    return 0;
}
