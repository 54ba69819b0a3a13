/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/codec.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <diverge/error.h>

#include "daemon/store/planes.h"

enum {
    VERSION = 1,
    HEADER = 8,
    COLUMN_HEADER = 8,
    TRANSFORM_NONE = 0,
    TRANSFORM_DELTA = 1,
    PLANE_CONSTANT = 0,
    PLANE_RAW = 1,
    PLANE_ZSTD = 2,
    SAMPLE = 512,
    LEVEL = 1,
    SMALLEST = 32, /* planes below gain nothing from zstd */
};

/* ---- encoder --------------------------------------------------------------------------------- */

struct codec_encoder {
    ZSTD_CCtx *zstd;
    uint8_t *planes;
    size_t capacity;
    uint32_t *deltas;
    size_t delta_capacity; /* items */
};

int codec_encoder_new(struct codec_encoder **ret)
{
    struct codec_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder)
        return DIVERGE_ENOMEM;
    encoder->zstd = ZSTD_createCCtx();
    if (!encoder->zstd) {
        codec_encoder_free(encoder);
        return DIVERGE_ENOMEM;
    }
    ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_contentSizeFlag, 0);
    *ret = encoder;
    return 0;
}

void codec_encoder_free(struct codec_encoder *encoder)
{
    if (!encoder)
        return;
    ZSTD_freeCCtx(encoder->zstd);
    free(encoder->planes);
    free(encoder->deltas);
    free(encoder);
}

size_t codec_bound(const struct codec_column *columns, size_t n_columns)
{
    size_t bytes = HEADER + n_columns * COLUMN_HEADER;
    for (size_t i = 0; i < n_columns; i++) {
        size_t width = column_width(columns[i].column);
        bytes += width * ((size_t)columns[i].items + 5);
    }
    return bytes;
}

static int encoder_reserve(struct codec_encoder *encoder, size_t bytes, size_t deltas)
{
    if (bytes > encoder->capacity) {
        uint8_t *planes = realloc(encoder->planes, bytes);
        if (!planes)
            return DIVERGE_ENOMEM;
        encoder->planes = planes;
        encoder->capacity = bytes;
    }
    if (deltas > encoder->delta_capacity) {
        uint32_t *grown = realloc(encoder->deltas, deltas * sizeof *grown);
        if (!grown)
            return DIVERGE_ENOMEM;
        encoder->deltas = grown;
        encoder->delta_capacity = deltas;
    }
    return 0;
}

/*
 * Checksums and mantissas are noise, and finding that out with zstd costs more than all else here.
 * In a sample of uniform bytes the squares of the counts add up to about n + n*n/256; within twice
 * that there is less than an eighth to gain.
 */
static bool looks_compressible(const uint8_t *plane, size_t items)
{
    if (items < SMALLEST)
        return false;
    uint16_t counts[256] = {0};
    size_t sample = items < SAMPLE ? items : SAMPLE;
    const uint8_t *from = plane + (items - sample) / 2;
    for (size_t i = 0; i < sample; i++)
        counts[from[i]]++;
    uint64_t squares = 0;
    for (int i = 0; i < 256; i++)
        squares += (uint64_t)counts[i] * counts[i];
    return squares > 2 * (sample + sample * sample / 256);
}

static uint8_t *encode_plane(struct codec_encoder *encoder, enum codec_effort effort,
                             const uint8_t *plane, size_t items, uint8_t *out)
{
    if (items == 0 || memcmp(plane, plane + 1, items - 1) == 0) {
        *out++ = PLANE_CONSTANT;
        *out++ = items ? plane[0] : 0;
        return out;
    }
    bool attempt =
        effort == CODEC_ALWAYS || (effort == CODEC_SAMPLE && looks_compressible(plane, items));
    /* The frame may take what a raw plane would, less its length. */
    if (attempt && items > SMALLEST) {
        size_t size = ZSTD_compress2(encoder->zstd, out + 5, items - 4, plane, items);
        if (!ZSTD_isError(size)) {
            *out = PLANE_ZSTD;
            dvg_store_u32(out + 1, (uint32_t)size);
            return out + 5 + size;
        }
    }
    *out++ = PLANE_RAW;
    memcpy(out, plane, items);
    return out + items;
}

static const void *apply_delta(struct codec_encoder *encoder, const uint32_t *items, size_t count)
{
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++) {
        encoder->deltas[i] = items[i] - last;
        last = items[i];
    }
    return encoder->deltas;
}

int codec_encode(struct codec_encoder *encoder, enum codec_effort effort, uint32_t count,
                 const struct codec_column *columns, size_t n_columns, uint8_t *out,
                 size_t *ret_size)
{
    memset(out, 0, HEADER + n_columns * COLUMN_HEADER);
    out[0] = VERSION;
    dvg_store_u16(out + 2, (uint16_t)n_columns);
    dvg_store_u32(out + 4, count);
    uint8_t *at = out + HEADER + n_columns * COLUMN_HEADER;
    for (size_t i = 0; i < n_columns; i++) {
        const struct codec_column *column = &columns[i];
        size_t width = column_width(column->column);
        bool delta = column->delta && width == 4;
        uint8_t *head = out + HEADER + i * COLUMN_HEADER;
        head[0] = column_number(column->column);
        head[1] = delta ? TRANSFORM_DELTA : TRANSFORM_NONE;
        dvg_store_u32(head + 4, column->items);
        /* One more, so that there is memory for no items too. */
        int rc = encoder_reserve(encoder, width * column->items + 1,
                                 delta ? (size_t)column->items + 1 : 0);
        if (rc)
            return rc;
        planes_split(delta ? apply_delta(encoder, column->data, column->items) : column->data,
                     width, column->items, encoder->planes);
        for (size_t p = 0; p < width; p++)
            at = encode_plane(encoder, effort, encoder->planes + p * column->items, column->items,
                              at);
    }
    *ret_size = (size_t)(at - out);
    return 0;
}

/* ---- decoder --------------------------------------------------------------------------------- */

struct codec_decoder {
    ZSTD_DCtx *zstd;
};

int codec_decoder_new(struct codec_decoder **ret)
{
    struct codec_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return DIVERGE_ENOMEM;
    decoder->zstd = ZSTD_createDCtx();
    if (!decoder->zstd) {
        free(decoder);
        return DIVERGE_ENOMEM;
    }
    *ret = decoder;
    return 0;
}

void codec_decoder_free(struct codec_decoder *decoder)
{
    if (!decoder)
        return;
    ZSTD_freeDCtx(decoder->zstd);
    free(decoder);
}

struct plan { /* what the header says of one column */
    enum column column;
    uint8_t transform;
    uint32_t items;
};

static int find_column(uint8_t number, enum column *ret)
{
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (column_number((enum column)c) == number) {
            *ret = (enum column)c;
            return 0;
        }
    return DIVERGE_ECORRUPT;
}

static int read_header(const uint8_t *blob, size_t size, struct plan *plans, size_t *ret_columns,
                       uint32_t *ret_count)
{
    if (size < HEADER || blob[0] != VERSION || blob[1] != 0)
        return DIVERGE_ECORRUPT;
    size_t n_columns = dvg_load_u16(blob + 2);
    if (n_columns > COLUMN_COUNT || (size - HEADER) / COLUMN_HEADER < n_columns)
        return DIVERGE_ECORRUPT;
    uint32_t count = dvg_load_u32(blob + 4);
    uint32_t seen = 0;
    for (size_t i = 0; i < n_columns; i++) {
        const uint8_t *head = blob + HEADER + i * COLUMN_HEADER;
        struct plan *plan = &plans[i];
        if (find_column(head[0], &plan->column) || head[2] || head[3])
            return DIVERGE_ECORRUPT;
        plan->transform = head[1];
        plan->items = dvg_load_u32(head + 4);
        if (seen & (UINT32_C(1) << plan->column))
            return DIVERGE_ECORRUPT;
        seen |= UINT32_C(1) << plan->column;
        if (plan->transform > TRANSFORM_DELTA ||
            (plan->transform == TRANSFORM_DELTA && column_width(plan->column) != 4))
            return DIVERGE_ECORRUPT;
        if (plan->column < COLUMN_RECORD_COUNT && plan->items != count)
            return DIVERGE_ECORRUPT;
    }
    *ret_columns = n_columns;
    *ret_count = count;
    return 0;
}

static int decode_plane(struct codec_decoder *decoder, const uint8_t **at, const uint8_t *end,
                        uint8_t *plane, size_t items)
{
    size_t left = (size_t)(end - *at);
    if (left < 2)
        return DIVERGE_ECORRUPT;
    uint8_t encoding = *(*at)++;
    left--;
    if (encoding == PLANE_CONSTANT) {
        memset(plane, *(*at)++, items);
        return 0;
    }
    if (encoding == PLANE_RAW) {
        if (left < items)
            return DIVERGE_ECORRUPT;
        memcpy(plane, *at, items);
        *at += items;
        return 0;
    }
    if (encoding != PLANE_ZSTD || left < 4)
        return DIVERGE_ECORRUPT;
    size_t size = dvg_load_u32(*at);
    *at += 4;
    if (left - 4 < size || ZSTD_decompressDCtx(decoder->zstd, plane, items, *at, size) != items)
        return DIVERGE_ECORRUPT;
    *at += size;
    return 0;
}

static void undo_delta(uint32_t *items, size_t count)
{
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++)
        last = items[i] += last;
}

static bool rises_below(const uint32_t *index, uint32_t items, uint32_t count)
{
    for (uint32_t i = 0; i < items; i++)
        if (index[i] >= count || (i && index[i] <= index[i - 1]))
            return false;
    return true;
}

static bool sparse_fits(const struct codec_blob *blob)
{
    uint32_t nonfinite = blob->items[COLUMN_NONFINITE_INDEX];
    for (int c = COLUMN_NAN; c <= COLUMN_NINF; c++)
        if (blob->items[c] != nonfinite)
            return false;
    uint64_t sketches = blob->items[COLUMN_SKETCH_INDEX];
    uint64_t floats = blob->items[COLUMN_SKETCH];
    if (floats != sketches * 32 && floats != sketches * 64)
        return false;
    return rises_below(blob->data[COLUMN_NONFINITE_INDEX], nonfinite, blob->count) &&
           rises_below(blob->data[COLUMN_SKETCH_INDEX], (uint32_t)sketches, blob->count);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

static int decode_columns(struct codec_decoder *decoder, const struct plan *plans, size_t n_columns,
                          const uint8_t *at, const uint8_t *end, uint8_t *scratch,
                          struct codec_blob *blob)
{
    for (size_t i = 0; i < n_columns; i++) {
        enum column c = plans[i].column;
        size_t width = column_width(c);
        for (size_t p = 0; p < width; p++) {
            uint8_t *plane = scratch + p * plans[i].items;
            int rc = decode_plane(decoder, &at, end, plane, plans[i].items);
            if (rc)
                return rc;
        }
        planes_join(scratch, width, plans[i].items, blob->data[c]);
        if (plans[i].transform == TRANSFORM_DELTA)
            undo_delta(blob->data[c], plans[i].items);
    }
    return at == end && sparse_fits(blob) ? 0 : DIVERGE_ECORRUPT;
}

int codec_decode(struct codec_decoder *decoder, const void *bytes, size_t size, size_t max_bytes,
                 struct codec_blob *ret)
{
    struct plan plans[COLUMN_COUNT];
    size_t n_columns = 0;
    struct codec_blob blob = {0};
    int rc = read_header(bytes, size, plans, &n_columns, &blob.count);
    if (rc)
        return rc;
    uint64_t total = 0;
    uint64_t widest = 0;
    for (size_t i = 0; i < n_columns; i++) {
        uint64_t need = (uint64_t)plans[i].items * column_width(plans[i].column);
        total += aligned(need);
        widest = need > widest ? need : widest;
    }
    if (total + widest > max_bytes)
        return DIVERGE_ELIMIT;
    blob.memory = malloc(total + widest + 16);
    if (!blob.memory)
        return DIVERGE_ENOMEM;
    uint8_t *next = blob.memory;
    for (size_t i = 0; i < n_columns; i++) {
        blob.data[plans[i].column] = next;
        blob.items[plans[i].column] = plans[i].items;
        next += aligned((size_t)plans[i].items * column_width(plans[i].column));
    }
    const uint8_t *from = bytes;
    rc = decode_columns(decoder, plans, n_columns, from + HEADER + n_columns * COLUMN_HEADER,
                        from + size, next, &blob);
    if (rc) {
        free(blob.memory);
        return rc;
    }
    *ret = blob;
    return 0;
}

void codec_blob_fini(struct codec_blob *blob)
{
    free(blob->memory);
    *blob = (struct codec_blob){0};
}

int codec_blob_append(const struct codec_blob *blob, struct columns *columns)
{
    struct columns view = {
        .count = blob->count,
        .n_nonfinite = blob->items[COLUMN_NONFINITE_INDEX],
        .n_sketches = blob->items[COLUMN_SKETCH_INDEX],
    };
    if (view.n_sketches)
        view.sketch_size = blob->items[COLUMN_SKETCH] / view.n_sketches;
    for (int c = 0; c < COLUMN_COUNT; c++) {
        view.data[c] = blob->data[c];
        if (blob->items[c])
            view.present |= UINT32_C(1) << c;
    }
    return columns_append(columns, &view);
}
