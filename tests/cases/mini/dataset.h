/* SPDX-License-Identifier: Apache-2.0 */
/* The cases' fixed samples and the order they are seen in. */
#ifndef TESTS_CASES_MINI_DATASET_H
#define TESTS_CASES_MINI_DATASET_H

#include <stdbool.h>

#include "tests/cases/mini/model.h"

enum { SAMPLES = 40, STEPS_PER_EPOCH = SAMPLES / BATCH };

struct dataset {
    int64_t tokens[SAMPLES][TOKENS];
    int64_t labels[SAMPLES];
};

/* Reads the samples' file, in reverse order of lines if asked; false when it cannot be read. */
bool dataset_load(struct dataset *dataset, const char *path, bool reverse);
/* The batch of step k: the order of epoch e comes from a private generator seeded seed*1000+e. */
void dataset_batch(const struct dataset *dataset, uint64_t seed, uint64_t step,
                   struct batch *batch);
/* Records ids, fields, rows and, at an epoch's first step, the epoch's order-free digest. */
void dataset_record(const struct dataset *dataset, struct diverge_session *session,
                    struct diverge_lane *lane, const struct batch *batch, uint64_t step);

#endif
