/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/mini/adam.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <diverge/names.h>

static const float BETA1 = 0.9f, BETA2 = 0.999f, EPSILON = 1e-8f;

static struct tensor zeros_like(const struct tensor *like)
{
    struct tensor tensor = tensor_new(like->sizes[0], like->sizes[1], 0);
    memset(tensor.data, 0, (size_t)tensor_numel(&tensor) * sizeof(float));
    return tensor;
}

void adam_init(struct adam *adam, const struct model *model, float lr)
{
    *adam = (struct adam){.base_lr = lr, .lr = lr, .fresh = true};
    for (int i = 0; i < PARAMETERS; i++) {
        adam->exp_avg[i] = zeros_like(&model->parameters[i].value);
        adam->exp_avg_sq[i] = zeros_like(&model->parameters[i].value);
    }
}

void adam_fini(struct adam *adam)
{
    for (int i = 0; i < PARAMETERS; i++) {
        tensor_free(&adam->exp_avg[i]);
        tensor_free(&adam->exp_avg_sq[i]);
    }
}

static void update(struct adam *adam, struct parameter *parameter, int index)
{
    float correction1 = 1.0f - powf(BETA1, (float)adam->step);
    float correction2 = 1.0f - powf(BETA2, (float)adam->step);
    float *m = adam->exp_avg[index].data, *v = adam->exp_avg_sq[index].data;
    for (int64_t i = 0; i < tensor_numel(&parameter->value); i++) {
        float g = parameter->gradient.data[i];
        m[i] = BETA1 * m[i] + (1 - BETA1) * g;
        v[i] = BETA2 * v[i] + (1 - BETA2) * g * g;
        parameter->value.data[i] -=
            adam->lr * (m[i] / correction1) / (sqrtf(v[i] / correction2) + EPSILON);
    }
}

/* As frameworks do on first use: the state is made by an op of its own, seen only in a fresh
 * process. */
static void record_state_creation(const struct adam *adam, struct model *model, int index)
{
    struct diverge_lane *lane = model->lane;
    diverge_op_begin(lane, diverge_name(model->session, "zero_"), DIVERGE_FLAG_INPLACE, NULL, 0);
    struct tensor state = adam->exp_avg[index];
    record_output(lane, 0, &state);
    diverge_op_end(lane);
}

void adam_step(struct adam *adam, struct model *model)
{
    struct diverge_lane *lane = model->lane;
    diverge_phase(lane, DIVERGE_PHASE_OPTIMIZER);
    adam->step++;
    char arguments[64];
    snprintf(arguments, sizeof(arguments), "lr=%.9g, betas=(0.9, 0.999), eps=1e-08", adam->lr);
    for (int i = 0; i < PARAMETERS; i++) {
        struct parameter *parameter = &model->parameters[i];
        diverge_scope(lane, diverge_name(model->session, parameter->scope));
        if (adam->fresh)
            record_state_creation(adam, model, i);
        diverge_op_begin(lane, diverge_name(model->session, "adam_"), DIVERGE_FLAG_INPLACE,
                         arguments, 0);
        record_input(lane, 0, &parameter->value);
        record_input(lane, 1, &parameter->gradient);
        record_input(lane, 2, &adam->exp_avg[i]);
        record_input(lane, 3, &adam->exp_avg_sq[i]);
        update(adam, parameter, i);
        record_output(lane, 0, &parameter->value);
        record_output(lane, 1, &adam->exp_avg[i]);
        record_output(lane, 2, &adam->exp_avg_sq[i]);
        diverge_op_end(lane);
    }
    diverge_scope(lane, 0);
    adam->fresh = false;
}

void adam_schedule(struct adam *adam)
{
    adam->lr -= adam->base_lr / 20;
}

static diverge_name_t item_name(const struct model *model, const char *parameter, const char *item)
{
    char name[64];
    snprintf(name, sizeof(name), "%s.%s", parameter, item);
    return diverge_name(model->session, name);
}

void adam_record(const struct adam *adam, const struct model *model)
{
    for (int i = 0; i < PARAMETERS; i++) {
        const char *name = model->parameters[i].name;
        struct diverge_observation step = {.role = DIVERGE_ROLE_OPTSTATE,
                                           .tier = DIVERGE_TIER_DEFAULT,
                                           .name = item_name(model, name, "step")};
        struct diverge_observation avg = step, avg_sq = step;
        avg.name = item_name(model, name, "exp_avg");
        avg_sq.name = item_name(model, name, "exp_avg_sq");
        if (adam->fresh) {
            diverge_record_absent(model->lane, &step);
            diverge_record_absent(model->lane, &avg);
            diverge_record_absent(model->lane, &avg_sq);
            continue;
        }
        diverge_record_integer(model->lane, &step, adam->step);
        record_state(model->lane, DIVERGE_ROLE_OPTSTATE, avg.name, &adam->exp_avg[i]);
        record_state(model->lane, DIVERGE_ROLE_OPTSTATE, avg_sq.name, &adam->exp_avg_sq[i]);
    }
    diverge_scope(model->lane, diverge_name(model->session, "group0"));
    struct diverge_observation lr = {.role = DIVERGE_ROLE_SCALAR,
                                     .tier = DIVERGE_TIER_DEFAULT,
                                     .name = diverge_name(model->session, DIVERGE_NAME_LR)};
    diverge_record_float(model->lane, &lr, (double)adam->lr);
    diverge_scope(model->lane, 0);
}
