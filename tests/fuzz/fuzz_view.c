/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diverge_fingerprint on any dtype, sizes, strides and extents. The library cannot know how long a
 * buffer is, so a view that stays within the buffer must be taken and have the checksum of its
 * elements one by one, with every kernel; one that does not fit together must be refused; one
 * that is well-formed but leaves the buffer is not tried.
 *
 * Input: dtype, ndim, what, number of extents, flags; then sizes, strides and extents of one byte
 * each (eight bytes when the flags say so); what is left fills the buffer.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/fingerprint.h>

#include "client/lib/fingerprint/kernel.h"

enum {
    BUFFER = 1 << 16,
    MAX_ELEMENTS = 1 << 14,
    MAX_EXTENTS = 12,
    HAS_STRIDES = 1,
    HAS_EXTENTS = 2,
    WIDE = 4,
    NO_DATA = 8,
};

__extension__ typedef __int128 i128;

struct input {
    const uint8_t *at;
    size_t left;
};

struct tensor {
    struct diverge_view view;
    unsigned what;
    int64_t sizes[DIVERGE_MAX_NDIM + 4];
    int64_t strides[DIVERGE_MAX_NDIM + 4];
    struct diverge_extent extents[MAX_EXTENTS];
    uint8_t buffer[BUFFER];
};

static uint8_t next(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

static int64_t next_number(struct input *input, bool wide)
{
    uint64_t value = 0;

    if (!wide)
        return (int8_t)next(input);
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)next(input) << (8 * i);
    return (int64_t)value;
}

/* The data begins in the middle, so that strides may go both ways. */
static void read_tensor(struct input *input, struct tensor *tensor)
{
    int dtype = next(input);
    int ndim = next(input) % (DIVERGE_MAX_NDIM + 4) - 1;
    unsigned n_extents;
    unsigned flags;

    tensor->what = next(input) % 16;
    n_extents = next(input) % (MAX_EXTENTS + 1);
    flags = next(input);
    for (int i = 0; i < ndim; i++)
        tensor->sizes[i] = next_number(input, flags & WIDE);
    for (int i = 0; i < ndim && (flags & HAS_STRIDES); i++)
        tensor->strides[i] = next_number(input, flags & WIDE);
    for (unsigned i = 0; i < n_extents; i++) {
        tensor->extents[i].start = (uint64_t)next_number(input, flags & WIDE) * 3;
        tensor->extents[i].length = (uint64_t)next_number(input, flags & WIDE);
    }
    for (size_t i = 0; i < BUFFER; i++)
        tensor->buffer[i] = input->left ? input->at[i % input->left] : (uint8_t)(i * 7);
    tensor->view = (struct diverge_view){
        .data = flags & NO_DATA ? NULL : tensor->buffer + BUFFER / 2,
        .ndim = ndim,
        .sizes = tensor->sizes,
        .strides = flags & HAS_STRIDES ? tensor->strides : NULL,
        .extents = flags & HAS_EXTENTS ? tensor->extents : NULL,
        .n_extents = flags & HAS_EXTENTS ? n_extents : 0,
    };
    memcpy(&tensor->view.dtype, &dtype, sizeof(dtype));
}

/* Number of elements, -1 when it is none or not worth a try. */
static int64_t count(const struct tensor *tensor)
{
    i128 n = 1;

    if (tensor->view.ndim < 0 || tensor->view.ndim > DIVERGE_MAX_NDIM)
        return -1;
    for (int i = 0; i < tensor->view.ndim; i++) {
        if (tensor->sizes[i] < 0)
            return -1;
        if (n <= INT64_MAX)
            n *= tensor->sizes[i];
    }
    for (int i = 0; i < tensor->view.ndim; i++) {
        if (tensor->sizes[i] == 0)
            return 0;
    }
    return n <= MAX_ELEMENTS ? (int64_t)n : -1;
}

static i128 stride_of(const struct tensor *tensor, int d)
{
    i128 dense = 1;

    if (tensor->view.strides)
        return tensor->strides[d];
    for (int i = d + 1; i < tensor->view.ndim; i++)
        dense *= tensor->sizes[i];
    return dense;
}

static bool stays_inside(const struct tensor *tensor, int64_t n)
{
    i128 item = (i128)diverge_dtype_size(tensor->view.dtype);
    i128 low = BUFFER / 2;
    i128 high = BUFFER / 2 + item;

    for (int d = 0; d < tensor->view.ndim && n; d++) {
        i128 reach = stride_of(tensor, d) * (tensor->sizes[d] - 1) * item;

        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    return low >= 0 && high <= BUFFER;
}

static bool extents_are_right(const struct tensor *tensor, int64_t n)
{
    i128 item = (i128)diverge_dtype_size(tensor->view.dtype);
    i128 total = 0;

    if (!tensor->view.extents)
        return true;
    for (size_t i = 0; i < tensor->view.n_extents; i++) {
        i128 end = (i128)tensor->extents[i].start + tensor->extents[i].length;

        if (end * item > (i128)1 << 60)
            return false;
        total += tensor->extents[i].length;
    }
    return total == n;
}

/* Where local element i sits in the global tensor. */
static uint64_t place(const struct tensor *tensor, uint64_t i)
{
    if (!tensor->view.extents)
        return i;
    for (size_t e = 0;; e++) {
        if (i < tensor->extents[e].length)
            return tensor->extents[e].start + i;
        i -= tensor->extents[e].length;
    }
}

static uint64_t checksum_one_by_one(const struct tensor *tensor, int64_t n)
{
    size_t item = diverge_dtype_size(tensor->view.dtype);
    uint64_t sum = 0;

    for (int64_t i = 0; i < n; i++) {
        i128 at = 0;
        int64_t rest = i;

        for (int d = tensor->view.ndim - 1; d >= 0; d--) {
            at += rest % tensor->sizes[d] * stride_of(tensor, d);
            rest /= tensor->sizes[d];
        }
        sum = diverge_checksum_add(
            sum, diverge_checksum_bytes(tensor->buffer + BUFFER / 2 + (int64_t)at * (int64_t)item,
                                        item, place(tensor, (uint64_t)i) * item));
    }
    return sum;
}

static void check(const struct tensor *tensor, int64_t n)
{
    unsigned sketches = DIVERGE_WITH_SKETCH32 | DIVERGE_WITH_SKETCH64;
    bool wanted = tensor->what < 8 && (tensor->what & sketches) != sketches;
    bool right = wanted && extents_are_right(tensor, n) && (n == 0 || tensor->view.data);
    struct diverge_fingerprint print;
    struct diverge_fingerprint scalar;
    int status = diverge_fingerprint(&tensor->view, tensor->what, &print);

    if ((status == 0) != right)
        abort();
    if (status)
        return;
    if (print.checksum != checksum_one_by_one(tensor, n))
        abort();
    if (dvg_fingerprint_with(&dvg_kernel_scalar, &tensor->view, tensor->what, &scalar) ||
        scalar.checksum != print.checksum || scalar.stats.zero != print.stats.zero ||
        scalar.stats.nan != print.stats.nan || scalar.stats.numel != print.stats.numel ||
        scalar.stats.min.u != print.stats.min.u || scalar.stats.max.u != print.stats.max.u)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensor *tensor = calloc(1, sizeof(*tensor));
    struct input input = {.at = data, .left = size};
    struct diverge_fingerprint print;

    if (!tensor)
        return 0;
    read_tensor(&input, tensor);

    int64_t n = count(tensor);

    if (!diverge_dtype_size(tensor->view.dtype)) {
        if (diverge_fingerprint(&tensor->view, tensor->what, &print) != DIVERGE_EINVAL)
            abort();
    } else if (n >= 0 && stays_inside(tensor, n)) {
        check(tensor, n);
    } else if (n < 0) {
        tensor->view.data = NULL; /* too many, or malformed: never taken without data */
        if (diverge_fingerprint(&tensor->view, tensor->what, &print) != DIVERGE_EINVAL)
            abort();
    }
    free(tensor);
    return 0;
}
