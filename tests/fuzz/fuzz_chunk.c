/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs of a store that anyone may have written: the input is decoded as a blob, what decodes is
 * put into columns twice and encoded again, and the copy must decode to the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/store/codec.h"

enum { MAX_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
    if (!condition)
        abort();
}

static size_t list_columns(const struct codec_blob *blob, struct codec_column *list)
{
    size_t n = 0;
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (blob->data[c])
            list[n++] = (struct codec_column){.column = (enum column)c,
                                              .delta = c == COLUMN_ORDER,
                                              .items = blob->items[c],
                                              .data = blob->data[c]};
    return n;
}

static void check_copy(struct codec_decoder *decoder, struct codec_encoder *encoder,
                       const struct codec_blob *blob)
{
    struct codec_column list[COLUMN_COUNT];
    size_t n = list_columns(blob, list);
    uint8_t *copy = malloc(codec_bound(list, n));
    size_t size = 0;
    check(copy != NULL);
    check(codec_encode(encoder, CODEC_SAMPLE, blob->count, list, n, copy, &size) == 0);
    check(size <= codec_bound(list, n));
    struct codec_blob again = {0};
    check(codec_decode(decoder, copy, size, 4 * MAX_BYTES, &again) == 0);
    check(again.count == blob->count);
    for (int c = 0; c < COLUMN_COUNT; c++) {
        check(again.items[c] == blob->items[c]);
        if (blob->items[c])
            check(memcmp(again.data[c], blob->data[c],
                         blob->items[c] * column_width((enum column)c)) == 0);
    }
    codec_blob_fini(&again);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct codec_decoder *decoder;
    static struct codec_encoder *encoder;
    if (!decoder) {
        check(codec_decoder_new(&decoder) == 0);
        check(codec_encoder_new(&encoder) == 0);
    }
    struct codec_blob blob = {0};
    if (codec_decode(decoder, data, size, MAX_BYTES, &blob))
        return 0;
    check_copy(decoder, encoder, &blob);
    struct columns columns = {0};
    if (codec_blob_append(&blob, &columns) == 0 && columns.count == blob.count)
        codec_blob_append(&blob, &columns);
    columns_fini(&columns);
    codec_blob_fini(&blob);
    return 0;
}
