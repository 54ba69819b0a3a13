/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The miniature model of the cases: embedding 50x16, mean over 6 tokens, linear 16→32 (fc1), relu,
 * layer norm 32, dropout 0.1, linear 32→4 (head), mean cross-entropy, with hand-written gradients.
 * Every op is recorded with its inputs and outputs.
 */
#ifndef TESTS_CASES_MINI_MODEL_H
#define TESTS_CASES_MINI_MODEL_H

#include "tests/cases/mini/generator.h"
#include "tests/cases/mini/tensor.h"

enum { VOCABULARY = 50, WIDTH = 16, HIDDEN = 32, CLASSES = 4, TOKENS = 6, BATCH = 8 };

enum parameter_index {
    EMB_WEIGHT,
    FC1_WEIGHT,
    FC1_BIAS,
    LN_WEIGHT,
    LN_BIAS,
    HEAD_WEIGHT,
    HEAD_BIAS,
    PARAMETERS
};

struct parameter {
    const char *scope; /* "fc1" */
    const char *name;  /* "fc1.weight" */
    struct tensor value;
    struct tensor gradient;
};

struct model {
    struct diverge_session *session;
    struct diverge_lane *lane;
    struct generator *generator; /* the global one: dropout draws from it */
    struct parameter parameters[PARAMETERS];
    /* activations of the last forward, and their gradients */
    struct tensor embedded, pooled, hidden, active, normal, mean, rstd, dropped, mask, logits, loss;
    struct tensor d_logits, d_dropped, d_normal, d_active, d_hidden, d_pooled, d_embedded;
};

struct batch {
    int64_t ids[BATCH];
    int64_t tokens[BATCH * TOKENS];
    int64_t labels[BATCH];
};

struct model_options {
    int64_t head_seed;  /* not 0: head is filled from a private generator of this seed */
    int64_t dirty_bias; /* not 0: fc1.bias is never written; its memory holds this pattern */
};

void model_init(struct model *model, struct diverge_session *session, struct diverge_lane *lane,
                struct generator *generator, const struct model_options *options);
void model_fini(struct model *model);
/* Forward and loss; returns the loss. */
float model_forward(struct model *model, const struct batch *batch);
/* Fills every parameter's gradient. */
void model_backward(struct model *model, const struct batch *batch);

#endif
