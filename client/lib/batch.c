/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a step, recorded so that another order can be told from other content: a field's
 * checksum, one checksum a row, and an order-free digest of the rows.
 */
#include <stdio.h>
#include <stdlib.h>

#include <diverge/diverge.h>
#include <diverge/names.h>

#include "client/lib/lane.h"
#include "client/lib/session.h"

enum { ROWS_ON_STACK = 512, ROWS_MAX = 1 << 20, NAME_BYTES = 256 };

static struct diverge_observation observe(struct diverge_lane *lane, const char *name,
                                          const char *suffix)
{
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%s%s", name, suffix);
    return (struct diverge_observation){
        .role = DIVERGE_ROLE_BATCH,
        .tier = DIVERGE_TIER_DEFAULT,
        .name = diverge_name(lane->session, text),
    };
}

/* Row `row` of a view of at least one dimension, as a tensor of its own. */
static struct diverge_view row_of(const struct diverge_view *view, const int64_t *strides,
                                  int64_t row)
{
    return (struct diverge_view){
        .data =
            (const char *)view->data + row * strides[0] * (int64_t)diverge_dtype_size(view->dtype),
        .dtype = view->dtype,
        .ndim = view->ndim - 1,
        .sizes = view->sizes + 1,
        .strides = strides + 1,
    };
}

static int row_checksums(const struct diverge_view *view, uint64_t *checksums)
{
    int64_t strides[DIVERGE_MAX_NDIM];
    int64_t stride = 1;
    for (int32_t i = view->ndim - 1; i >= 0; i--) {
        strides[i] = view->strides ? view->strides[i] : stride;
        stride *= view->sizes[i];
    }
    for (int64_t row = 0; row < view->sizes[0]; row++) {
        struct diverge_view one = row_of(view, strides, row);
        struct diverge_fingerprint fingerprint;
        int rc = diverge_fingerprint(&one, 0, &fingerprint);
        if (rc)
            return rc;
        checksums[row] = fingerprint.checksum;
    }
    return 0;
}

static int record_digests(struct diverge_lane *lane, const char *name, const char *rows_suffix,
                          const char *set_suffix, const uint64_t *values, int64_t count)
{
    uint64_t set = 0;
    for (int64_t i = 0; i < count; i++)
        set += diverge_mix64(values[i]);
    int rc = 0;
    if (rows_suffix) {
        struct diverge_observation rows = observe(lane, name, rows_suffix);
        struct diverge_tensor tensor = {
            .view = {.data = values, .dtype = DIVERGE_U64, .ndim = 1, .sizes = &count}};
        rc = diverge_record(lane, &rows, &tensor, NULL);
    }
    struct diverge_observation order_free = observe(lane, name, set_suffix);
    int set_rc = diverge_record_integer(lane, &order_free, (int64_t)set);
    return rc ? rc : set_rc;
}

int diverge_batch(struct diverge_lane *lane, const char *name, const struct diverge_view *view)
{
    if (!lane)
        return DIVERGE_ECLOSED;
    if (!name || !view)
        return DIVERGE_EINVAL;
    if (!diverge_wants(lane->session, DIVERGE_TIER_PULSE))
        return 0;
    struct diverge_observation field = observe(lane, name, "");
    struct diverge_tensor tensor = {.view = *view};
    int rc = diverge_record(lane, &field, &tensor, NULL);
    bool has_rows = view->ndim > 0 && view->sizes[0] > 0 && view->sizes[0] <= ROWS_MAX;
    if (rc || !has_rows || view->extents)
        return rc;
    uint64_t small[ROWS_ON_STACK];
    size_t count = (size_t)view->sizes[0];
    uint64_t *checksums = count <= ROWS_ON_STACK ? small : malloc(count * sizeof *checksums);
    if (!checksums)
        return dvg_lane_lose(lane, DIVERGE_TIER_PULSE);
    rc = row_checksums(view, checksums);
    if (!rc)
        rc = record_digests(lane, name, DIVERGE_SUFFIX_ROWS, DIVERGE_SUFFIX_ROWS_SET, checksums,
                            (int64_t)count);
    if (checksums != small)
        free(checksums);
    return rc;
}

int diverge_batch_ids(struct diverge_lane *lane, const int64_t *ids, size_t count)
{
    if (!lane)
        return DIVERGE_ECLOSED;
    if ((!ids && count) || count > ROWS_MAX)
        return DIVERGE_EINVAL;
    struct diverge_observation what = observe(lane, DIVERGE_NAME_IDS, "");
    int64_t size = (int64_t)count;
    struct diverge_tensor tensor = {
        .view = {.data = ids, .dtype = DIVERGE_I64, .ndim = 1, .sizes = &size}};
    int rc = diverge_record(lane, &what, &tensor, NULL);
    if (rc)
        return rc;
    return record_digests(lane, "", NULL, DIVERGE_NAME_IDS_SET, (const uint64_t *)ids, size);
}
