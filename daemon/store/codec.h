/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blob format of layouts, columns, chunks and parts: named columns as byte planes, each plane
 * constant, raw or zstd. schema/DATABASE.md has the bytes. The decoder takes blobs of files that
 * anyone may have written.
 */
#ifndef DAEMON_STORE_CODEC_H
#define DAEMON_STORE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/store/columns.h"

enum codec_effort {
    CODEC_RAW,    /* no compression: parts, which live for a moment */
    CODEC_SAMPLE, /* compress planes whose sample looks compressible: chunks */
    CODEC_ALWAYS, /* try on each plane: layouts and shared columns */
};

struct codec_column {
    enum column column;
    bool delta; /* 4-byte items as differences of neighbours */
    uint32_t items;
    const void *data;
};

struct codec_encoder; /* scratch and zstd context; one thread */
int codec_encoder_new(struct codec_encoder **ret);
void codec_encoder_free(struct codec_encoder *encoder);

/* Most bytes that an encoding takes. */
size_t codec_bound(const struct codec_column *columns, size_t n_columns);
/* Encodes into `out`, which has codec_bound bytes. ENOMEM. */
int codec_encode(struct codec_encoder *encoder, enum codec_effort effort, uint32_t count,
                 const struct codec_column *columns, size_t n_columns, uint8_t *out,
                 size_t *ret_size);

/* A decoded blob; absent columns are NULL. */
struct codec_blob {
    uint32_t count;
    uint32_t items[COLUMN_COUNT];
    void *data[COLUMN_COUNT];
    void *memory; /* owned; all of data */
};

struct codec_decoder;
int codec_decoder_new(struct codec_decoder **ret);
void codec_decoder_free(struct codec_decoder *decoder);

/*
 * ECORRUPT: not a blob of this format, or columns that do not fit together (items, rising indices).
 * ELIMIT: decodes to more than max_bytes. *ret is untouched on failure.
 */
int codec_decode(struct codec_decoder *decoder, const void *blob, size_t size, size_t max_bytes,
                 struct codec_blob *ret);
void codec_blob_fini(struct codec_blob *blob);

/* Moves decoded columns behind those of `columns`. ENOMEM, ELIMIT, EPROTO as columns_append. */
int codec_blob_append(const struct codec_blob *blob, struct columns *columns);

#endif
