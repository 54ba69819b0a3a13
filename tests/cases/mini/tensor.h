/* SPDX-License-Identifier: Apache-2.0 */
/* A float32 tensor of the miniature trainer, and how it is recorded. */
#ifndef TESTS_CASES_MINI_TENSOR_H
#define TESTS_CASES_MINI_TENSOR_H

#include <diverge/diverge.h>

enum { TENSOR_MAX_NDIM = 3 };

struct tensor {
    float *data; /* owned */
    int32_t ndim;
    int64_t sizes[TENSOR_MAX_NDIM];
    uint64_t storage; /* generation of the allocation */
    uint64_t version; /* counts writes */
};

/* Sizes of 0 end the shape early: tensor_new(8, 0, 0) has one dimension. Contents are not set. */
struct tensor tensor_new(int64_t a, int64_t b, int64_t c);
void tensor_free(struct tensor *tensor);
int64_t tensor_numel(const struct tensor *tensor);

/* Records the tensor; `name` 0 for an op's inputs and outputs. A write is recorded by output_of. */
void record_input(struct diverge_lane *lane, uint16_t slot, const struct tensor *tensor);
void record_output(struct diverge_lane *lane, uint16_t slot, struct tensor *tensor);
void record_state(struct diverge_lane *lane, enum diverge_role role, diverge_name_t name,
                  const struct tensor *tensor);
void record_int64(struct diverge_lane *lane, enum diverge_role role, uint16_t slot,
                  diverge_name_t name, const int64_t *data, int64_t rows, int64_t columns);

#endif
