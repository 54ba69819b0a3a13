/* SPDX-License-Identifier: Apache-2.0 */
/* Adam (Kingma and Ba, arXiv:1412.6980) over the model's parameters, each update recorded as an op.
 */
#ifndef TESTS_CASES_MINI_ADAM_H
#define TESTS_CASES_MINI_ADAM_H

#include "tests/cases/mini/model.h"

struct adam {
    float base_lr;
    float lr;
    bool fresh; /* no state yet: nothing was loaded and no step was made */
    int64_t step;
    struct tensor exp_avg[PARAMETERS];
    struct tensor exp_avg_sq[PARAMETERS];
};

void adam_init(struct adam *adam, const struct model *model, float lr);
void adam_fini(struct adam *adam);
void adam_step(struct adam *adam, struct model *model);
/* The linear schedule: each call takes 1/20 of the base learning rate off. */
void adam_schedule(struct adam *adam);
/* Records the optimizer's state by parameter name, and its scalars. */
void adam_record(const struct adam *adam, const struct model *model);

#endif
