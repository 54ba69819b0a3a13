/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/fingerprint/view.h"

#include <string.h>

enum {
    LINE_BYTES = 64,   /* what one memory access brings; a panel's rows share it */
    TILE_COLUMNS = 16, /* of a panel, taken at once */
    TILES_AHEAD = 2,   /* prefetched */
};

/* Counts the elements; -1 when sizes are negative or there are too many. */
static int count_elements(const struct diverge_view *view, size_t item, uint64_t *ret)
{
    uint64_t count = 1;
    bool empty = false;

    for (int i = 0; i < view->ndim; i++) {
        if (view->sizes[i] < 0)
            return -1;
        empty = empty || view->sizes[i] == 0;
    }
    for (int i = 0; i < view->ndim && !empty; i++) {
        if (__builtin_mul_overflow(count, (uint64_t)view->sizes[i], &count))
            return -1;
    }
    if (!empty && count > DVG_MAX_BYTES >> __builtin_ctzll(item))
        return -1;
    *ret = empty ? 0 : count;
    return 0;
}

/* Whether the extents tile exactly `count` elements and end within bounds. */
static bool extents_fit(const struct diverge_view *view, size_t item, uint64_t count)
{
    uint64_t limit = DVG_MAX_BYTES >> __builtin_ctzll(item);

    if (!view->extents)
        return view->n_extents == 0;
    for (size_t i = 0; i < view->n_extents; i++) {
        const struct diverge_extent *extent = &view->extents[i];

        if (extent->length > count || extent->start > limit ||
            extent->length > limit - extent->start)
            return false;
        count -= extent->length;
    }
    return count == 0;
}

/* Takes dimension i of a non-empty view, from the innermost outwards. */
static int push_dim(struct dvg_walk *walk, uint64_t size, int64_t stride)
{
    int64_t reach;

    if (size == 1)
        return 0;
    if (__builtin_mul_overflow(stride, (int64_t)walk->item, &stride) ||
        __builtin_mul_overflow(stride, (int64_t)size, &reach) || reach > (int64_t)DVG_MAX_BYTES ||
        reach < -(int64_t)DVG_MAX_BYTES)
        return -1;

    struct dvg_dim *inner = walk->n_dims ? &walk->dims[walk->n_dims - 1] : NULL;

    if (inner && stride == inner->stride * (int64_t)inner->size)
        inner->size *= size;
    else
        walk->dims[walk->n_dims++] = (struct dvg_dim){.size = size, .stride = stride};
    return 0;
}

int dvg_walk_init(struct dvg_walk *walk, const struct diverge_view *view)
{
    size_t item = diverge_dtype_size(view->dtype);
    uint64_t count;
    int64_t dense = 1;

    if (item == 0 || view->ndim < 0 || view->ndim > DIVERGE_MAX_NDIM ||
        (view->ndim > 0 && !view->sizes) || count_elements(view, item, &count) ||
        !extents_fit(view, item, count) || (count > 0 && !view->data))
        return DIVERGE_EINVAL;
    walk->cursor = view->data;
    walk->item = item;
    walk->left = count;
    walk->n_dims = 0;
    for (int i = view->ndim - 1; i >= 0 && count; i--) {
        int64_t stride = view->strides ? view->strides[i] : dense;

        if (push_dim(walk, (uint64_t)view->sizes[i], stride))
            return DIVERGE_EINVAL;
        dense *= view->sizes[i];
    }
    return 0;
}

/* dims[0] is the innermost. */
static bool is_dense(const struct dvg_walk *walk)
{
    return walk->n_dims > 0 && walk->dims[0].stride == (int64_t)walk->item;
}

uint64_t dvg_walk_span(const struct dvg_walk *walk)
{
    if (walk->n_dims == 0 || !is_dense(walk))
        return walk->left > 0;
    return walk->dims[0].size - walk->dims[0].at;
}

/* Moves the cursor `count` elements within dimension `d` and carries into the outer ones. */
static void advance(struct dvg_walk *walk, int d, uint64_t count)
{
    for (; d < walk->n_dims; d++, count = 1) {
        struct dvg_dim *dim = &walk->dims[d];

        dim->at += count;
        walk->cursor += (int64_t)count * dim->stride;
        if (dim->at < dim->size)
            return;
        walk->cursor -= (int64_t)dim->size * dim->stride;
        dim->at = 0;
    }
}

void dvg_walk_skip(struct dvg_walk *walk, uint64_t count)
{
    walk->left -= count;
    advance(walk, 0, count);
}

/* Copies `count` elements that are `stride` bytes apart. */
static void copy_strided(uint8_t *target, const uint8_t *source, int64_t stride, uint64_t count,
                         size_t item)
{
#define LOOP(BYTES)                                                                                \
    for (uint64_t i = 0; i < count; i++)                                                           \
        memcpy(target + i * (BYTES), source + (int64_t)i * stride, BYTES);                         \
    break

    switch (item) {
    case 1:
        LOOP(1);
    case 2:
        LOOP(2);
    case 4:
        LOOP(4);
    case 8:
        LOOP(8);
    case 16:
        LOOP(16);
    }
#undef LOOP
}

void dvg_walk_copy(struct dvg_walk *walk, uint8_t *target, uint64_t count)
{
    while (count) {
        uint64_t row = walk->n_dims ? walk->dims[0].size - walk->dims[0].at : 1;
        uint64_t now = count < row ? count : row;

        if (walk->n_dims == 0 || is_dense(walk))
            memcpy(target, walk->cursor, now * walk->item);
        else
            copy_strided(target, walk->cursor, walk->dims[0].stride, now, walk->item);
        target += now * walk->item;
        count -= now;
        dvg_walk_skip(walk, now);
    }
}

/* The dimension whose neighbours share a cache line though it is not the innermost; 0: none. */
static int panel_dim(const struct dvg_walk *walk)
{
    if (walk->n_dims < 2 || walk->dims[0].stride == 0 || is_dense(walk))
        return 0;
    for (int d = 1; d < walk->n_dims; d++) {
        if (walk->dims[d].stride == (int64_t)walk->item)
            return d;
    }
    return 0;
}

/* Rows of `row_bytes` in a panel: lines' worth of them, many when they are short. */
static uint64_t panel_rows(uint64_t row_bytes, uint64_t per_line, size_t bytes)
{
    uint64_t usual = bytes / 4 / row_bytes;
    uint64_t most = bytes / row_bytes;

    if (usual >= per_line)
        return usual - usual % per_line;
    return most < per_line ? most : per_line;
}

uint64_t dvg_walk_panel(const struct dvg_walk *walk, size_t bytes)
{
    int d = panel_dim(walk);
    uint64_t inner = walk->item;

    if (d == 0)
        return 0;
    for (int i = 0; i < d; i++) {
        if (walk->dims[i].at || walk->dims[i].size > bytes / inner)
            return 0;
        inner *= walk->dims[i].size;
    }

    uint64_t left = walk->dims[d].size - walk->dims[d].at;
    uint64_t rows = panel_rows(inner, LINE_BYTES / walk->item, bytes);

    rows = left < rows ? left : rows;
    return rows > 1 ? rows * (inner / walk->item) : 0;
}

/* The columns of a panel: every index of the dimensions inside dimension d, in logical order. */
struct columns {
    const struct dvg_walk *walk;
    int d;
    const uint8_t *source;
    uint64_t at[DIVERGE_MAX_NDIM];
};

static const uint8_t *next_column(struct columns *columns)
{
    const uint8_t *column = columns->source;

    for (int k = 0; k < columns->d; k++) {
        const struct dvg_dim *dim = &columns->walk->dims[k];

        columns->source += dim->stride;
        if (++columns->at[k] < dim->size)
            break;
        columns->source -= (int64_t)dim->size * dim->stride;
        columns->at[k] = 0;
    }
    return column;
}

/* Row r of the tile is the r-th element of each of its columns. */
struct tile {
    uint8_t column[TILE_COLUMNS][LINE_BYTES] __attribute__((aligned(LINE_BYTES)));
};

/* Elements [row, rows) x [column, columns) of the tile, one by one. */
static void write_edge(const struct tile *tile, unsigned row, unsigned rows, unsigned column,
                       unsigned columns, uint8_t *target, size_t step, size_t item)
{
    for (unsigned r = row; r < rows; r++) {
        for (unsigned c = column; c < columns; c++)
            memcpy(target + r * step + c * item, &tile->column[c][r * item], item);
    }
}

/*
 * Squares of N x N elements, each side one vector of 16 bytes. Interleaving the lower half of the
 * vectors with the upper one, log2 N times, transposes them.
 */
#define SQUARES(NAME, TYPE, N, ROUNDS, LOW, HIGH)                                                  \
    typedef TYPE NAME##_vector __attribute__((vector_size(16)));                                   \
    static void NAME(const struct tile *tile, unsigned rows, unsigned columns, uint8_t *target,    \
                     size_t step)                                                                  \
    {                                                                                              \
        NAME##_vector a[N];                                                                        \
        NAME##_vector b[N];                                                                        \
                                                                                                   \
        for (unsigned r = 0; r < rows; r += (N)) {                                                 \
            for (unsigned c = 0; c < columns; c += (N)) {                                          \
                _Pragma("GCC unroll 16") for (unsigned i = 0; i < (N); i++)                        \
                    memcpy(&a[i], &tile->column[c + i][r * sizeof(TYPE)], 16);                     \
                _Pragma("GCC unroll 4") for (unsigned round = 0; round < (ROUNDS); round++)        \
                {                                                                                  \
                    _Pragma("GCC unroll 8") for (unsigned i = 0; i < (N) / 2; i++)                 \
                    {                                                                              \
                        b[2 * i] = __builtin_shufflevector(a[i], a[i + (N) / 2], LOW);             \
                        b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + (N) / 2], HIGH);        \
                    }                                                                              \
                    _Pragma("GCC unroll 16") for (unsigned i = 0; i < (N); i++) a[i] = b[i];       \
                }                                                                                  \
                _Pragma("GCC unroll 16") for (unsigned i = 0; i < (N); i++)                        \
                    memcpy(target + (r + i) * step + c * sizeof(TYPE), &a[i], 16);                 \
            }                                                                                      \
        }                                                                                          \
    }

#define LOW16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW4 0, 4, 1, 5
#define HIGH4 2, 6, 3, 7
#define LOW2 0, 2
#define HIGH2 1, 3

SQUARES(squares_1, uint8_t, 16, 4, LOW16, HIGH16)
SQUARES(squares_2, uint16_t, 8, 3, LOW8, HIGH8)
SQUARES(squares_4, uint32_t, 4, 2, LOW4, HIGH4)
SQUARES(squares_8, uint64_t, 2, 1, LOW2, HIGH2)

static void write_tile(const struct tile *tile, unsigned rows, unsigned columns, uint8_t *target,
                       size_t step, size_t item)
{
    unsigned side = 16 / (unsigned)item;
    unsigned whole_rows = rows - rows % side;
    unsigned whole_columns = columns - columns % side;

    switch (item) {
    case 1:
        squares_1(tile, whole_rows, whole_columns, target, step);
        break;
    case 2:
        squares_2(tile, whole_rows, whole_columns, target, step);
        break;
    case 4:
        squares_4(tile, whole_rows, whole_columns, target, step);
        break;
    case 8:
        squares_8(tile, whole_rows, whole_columns, target, step);
        break;
    case 16:
        whole_rows = 0;
    }
    write_edge(tile, 0, whole_rows, whole_columns, columns, target, step, item);
    write_edge(tile, whole_rows, rows, 0, columns, target, step, item);
}

/*
 * At most a cache line's worth of rows, whose first is at `source`. Columns go a tile at a time:
 * each line is read in one go and each written in one go, for lines a power of two apart evict one
 * another.
 */
static void copy_rows(const struct dvg_walk *walk, int d, const uint8_t *source, uint8_t *target,
                      unsigned rows, uint64_t inner)
{
    struct tile tile;
    struct columns columns = {.walk = walk, .d = d, .source = source};
    struct columns ahead = columns;
    size_t size = rows * walk->item;
    uint64_t fetched = 0;

    for (uint64_t i = 0; i < inner; i += TILE_COLUMNS) {
        unsigned now = inner - i < TILE_COLUMNS ? (unsigned)(inner - i) : TILE_COLUMNS;

        for (; fetched < inner && fetched < i + (1 + TILES_AHEAD) * TILE_COLUMNS; fetched++)
            __builtin_prefetch(next_column(&ahead));
        for (unsigned c = 0; c < now; c++) {
            const uint8_t *column = next_column(&columns);

            if (size == LINE_BYTES)
                memcpy(tile.column[c], column, LINE_BYTES);
            else
                memcpy(tile.column[c], column, size);
        }
        write_tile(&tile, rows, now, target + i * walk->item, inner * walk->item, walk->item);
    }
}

/* `rows` neighbours of dimension d for every index of the dimensions inside it. */
static void copy_tiles(const struct dvg_walk *walk, int d, uint8_t *target, uint64_t rows,
                       uint64_t inner)
{
    uint64_t per_line = LINE_BYTES / walk->item;

    for (uint64_t r = 0; r < rows; r += per_line) {
        unsigned now = rows - r < per_line ? (unsigned)(rows - r) : (unsigned)per_line;

        copy_rows(walk, d, walk->cursor + r * walk->item, target + r * inner * walk->item, now,
                  inner);
    }
}

void dvg_walk_copy_panel(struct dvg_walk *walk, uint8_t *target, uint64_t count)
{
    int d = panel_dim(walk);
    uint64_t inner = 1;

    for (int i = 0; i < d; i++)
        inner *= walk->dims[i].size;
    copy_tiles(walk, d, target, count / inner, inner);
    walk->left -= count;
    advance(walk, d, count / inner);
}
