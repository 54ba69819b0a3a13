/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/mini/tensor.h"

#include <stdlib.h>

struct tensor tensor_new(int64_t a, int64_t b, int64_t c)
{
    static uint64_t generations;
    struct tensor tensor = {.sizes = {a, b, c}, .storage = ++generations};
    int64_t numel = 1;
    while (tensor.ndim < TENSOR_MAX_NDIM && tensor.sizes[tensor.ndim] > 0)
        numel *= tensor.sizes[tensor.ndim++];
    tensor.data = malloc((size_t)numel * sizeof(float));
    if (!tensor.data)
        abort();
    return tensor;
}

void tensor_free(struct tensor *tensor)
{
    free(tensor->data);
    tensor->data = NULL;
}

int64_t tensor_numel(const struct tensor *tensor)
{
    int64_t numel = 1;
    for (int32_t i = 0; i < tensor->ndim; i++)
        numel *= tensor->sizes[i];
    return numel;
}

static void record(struct diverge_lane *lane, const struct diverge_observation *what,
                   const struct tensor *tensor)
{
    struct diverge_tensor seen = {
        .view = {.data = tensor->data,
                 .dtype = DIVERGE_F32,
                 .ndim = tensor->ndim,
                 .sizes = tensor->sizes},
        .storage = tensor->storage,
        .version = tensor->version,
    };
    diverge_record(lane, what, &seen, NULL);
}

void record_input(struct diverge_lane *lane, uint16_t slot, const struct tensor *tensor)
{
    struct diverge_observation what = {
        .role = DIVERGE_ROLE_INPUT, .slot = slot, .tier = DIVERGE_TIER_DEFAULT};
    record(lane, &what, tensor);
}

void record_output(struct diverge_lane *lane, uint16_t slot, struct tensor *tensor)
{
    tensor->version++;
    struct diverge_observation what = {
        .role = DIVERGE_ROLE_OUTPUT, .slot = slot, .tier = DIVERGE_TIER_DEFAULT};
    record(lane, &what, tensor);
}

void record_state(struct diverge_lane *lane, enum diverge_role role, diverge_name_t name,
                  const struct tensor *tensor)
{
    struct diverge_observation what = {.role = role, .tier = DIVERGE_TIER_DEFAULT, .name = name};
    record(lane, &what, tensor);
}

void record_int64(struct diverge_lane *lane, enum diverge_role role, uint16_t slot,
                  diverge_name_t name, const int64_t *data, int64_t rows, int64_t columns)
{
    struct diverge_observation what = {
        .role = role, .slot = slot, .tier = DIVERGE_TIER_DEFAULT, .name = name};
    struct diverge_tensor seen = {
        .view = {.data = data,
                 .dtype = DIVERGE_I64,
                 .ndim = columns ? 2 : 1,
                 .sizes = (int64_t[]){rows, columns}},
    };
    diverge_record(lane, &what, &seen, NULL);
}
