/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/mini/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float DROPOUT = 0.1f;
static const float LN_EPSILON = 1e-5f;

static void begin(struct model *model, const char *scope, const char *op, uint32_t flags,
                  const char *arguments)
{
    diverge_scope(model->lane, diverge_name(model->session, scope));
    diverge_op_begin(model->lane, diverge_name(model->session, op), flags, arguments, 0);
}

static void end(struct model *model)
{
    diverge_op_end(model->lane);
    diverge_scope(model->lane, 0);
}

/* ---- initialisation ------------------------------------------------------------------------- */

static void fill_uniform(struct model *model, enum parameter_index index,
                         struct generator *generator, float bound)
{
    struct parameter *parameter = &model->parameters[index];
    begin(model, parameter->scope, "uniform_", DIVERGE_FLAG_RANDOM | DIVERGE_FLAG_INPLACE, NULL);
    for (int64_t i = 0; i < tensor_numel(&parameter->value); i++)
        parameter->value.data[i] = generator_uniform(generator, -bound, bound);
    record_output(model->lane, 0, &parameter->value);
    end(model);
}

static void fill_constant(struct model *model, enum parameter_index index, float value)
{
    struct parameter *parameter = &model->parameters[index];
    begin(model, parameter->scope, "fill_", DIVERGE_FLAG_INPLACE, NULL);
    for (int64_t i = 0; i < tensor_numel(&parameter->value); i++)
        parameter->value.data[i] = value;
    record_output(model->lane, 0, &parameter->value);
    end(model);
}

static void new_parameter(struct model *model, enum parameter_index index, const char *scope,
                          const char *name, int64_t rows, int64_t columns)
{
    struct parameter *parameter = &model->parameters[index];
    parameter->scope = scope;
    parameter->name = name;
    parameter->value = tensor_new(rows, columns, 0);
    parameter->gradient = tensor_new(rows, columns, 0);
    begin(model, scope, "empty", DIVERGE_FLAG_UNINITIALISED, NULL);
    record_output(model->lane, 0, &parameter->value);
    end(model);
}

/*
 * The unwritten bias: as from an allocator that caches blocks, its memory still holds what an
 * earlier owner left, and no op of this run wrote it.
 */
static void new_dirty_bias(struct model *model, int64_t pattern)
{
    struct tensor *bias = &model->parameters[FC1_BIAS].value;
    for (int i = 0; i < HIDDEN; i++)
        bias->data[i] = (float)(pattern % 97) / (float)(i + 3);
    begin(model, "fc1", "empty", DIVERGE_FLAG_UNINITIALISED, NULL);
    record_output(model->lane, 0, bias);
    end(model);
}

static void init_parameters(struct model *model, const struct model_options *options)
{
    fill_uniform(model, EMB_WEIGHT, model->generator, 1.0f);
    fill_uniform(model, FC1_WEIGHT, model->generator, 0.25f);
    if (options->dirty_bias)
        new_dirty_bias(model, options->dirty_bias);
    else
        fill_uniform(model, FC1_BIAS, model->generator, 0.25f);
    fill_constant(model, LN_WEIGHT, 1.0f);
    fill_constant(model, LN_BIAS, 0.0f);
    struct generator private;
    struct generator *head = model->generator;
    if (options->head_seed) {
        generator_seed(&private, (uint64_t)options->head_seed);
        head = &private;
    }
    fill_uniform(model, HEAD_WEIGHT, head, 0.17f);
    fill_uniform(model, HEAD_BIAS, head, 0.17f);
}

static void new_activations(struct model *model)
{
    model->embedded = tensor_new(BATCH, TOKENS, WIDTH);
    model->pooled = tensor_new(BATCH, WIDTH, 0);
    model->hidden = tensor_new(BATCH, HIDDEN, 0);
    model->active = tensor_new(BATCH, HIDDEN, 0);
    model->normal = tensor_new(BATCH, HIDDEN, 0);
    model->mean = tensor_new(BATCH, 0, 0);
    model->rstd = tensor_new(BATCH, 0, 0);
    model->dropped = tensor_new(BATCH, HIDDEN, 0);
    model->mask = tensor_new(BATCH, HIDDEN, 0);
    model->logits = tensor_new(BATCH, CLASSES, 0);
    model->loss = tensor_new(0, 0, 0);
    model->d_logits = tensor_new(BATCH, CLASSES, 0);
    model->d_dropped = tensor_new(BATCH, HIDDEN, 0);
    model->d_normal = tensor_new(BATCH, HIDDEN, 0);
    model->d_active = tensor_new(BATCH, HIDDEN, 0);
    model->d_hidden = tensor_new(BATCH, HIDDEN, 0);
    model->d_pooled = tensor_new(BATCH, WIDTH, 0);
    model->d_embedded = tensor_new(BATCH, TOKENS, WIDTH);
}

void model_init(struct model *model, struct diverge_session *session, struct diverge_lane *lane,
                struct generator *generator, const struct model_options *options)
{
    *model = (struct model){.session = session, .lane = lane, .generator = generator};
    new_parameter(model, EMB_WEIGHT, "emb", "emb.weight", VOCABULARY, WIDTH);
    new_parameter(model, FC1_WEIGHT, "fc1", "fc1.weight", HIDDEN, WIDTH);
    new_parameter(model, FC1_BIAS, "fc1", "fc1.bias", HIDDEN, 0);
    new_parameter(model, LN_WEIGHT, "ln", "ln.weight", HIDDEN, 0);
    new_parameter(model, LN_BIAS, "ln", "ln.bias", HIDDEN, 0);
    new_parameter(model, HEAD_WEIGHT, "head", "head.weight", CLASSES, HIDDEN);
    new_parameter(model, HEAD_BIAS, "head", "head.bias", CLASSES, 0);
    init_parameters(model, options);
    new_activations(model);
}

void model_fini(struct model *model)
{
    for (int i = 0; i < PARAMETERS; i++) {
        tensor_free(&model->parameters[i].value);
        tensor_free(&model->parameters[i].gradient);
    }
    struct tensor *all[] = {
        &model->embedded, &model->pooled,   &model->hidden,    &model->active,   &model->normal,
        &model->mean,     &model->rstd,     &model->dropped,   &model->mask,     &model->logits,
        &model->loss,     &model->d_logits, &model->d_dropped, &model->d_normal, &model->d_active,
        &model->d_hidden, &model->d_pooled, &model->d_embedded};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tensor_free(all[i]);
}

/* ---- forward -------------------------------------------------------------------------------- */

static void embedding(struct model *model, const struct batch *batch)
{
    const struct tensor *weight = &model->parameters[EMB_WEIGHT].value;
    begin(model, "emb", "embedding", 0, NULL);
    record_input(model->lane, 0, weight);
    record_int64(model->lane, DIVERGE_ROLE_INPUT, 1, 0, batch->tokens, BATCH, TOKENS);
    for (int i = 0; i < BATCH * TOKENS; i++)
        memcpy(model->embedded.data + i * WIDTH, weight->data + batch->tokens[i] * WIDTH,
               WIDTH * sizeof(float));
    record_output(model->lane, 0, &model->embedded);
    end(model);
}

static void mean_over_tokens(struct model *model)
{
    begin(model, "pool", "mean", 0, "dim=1");
    record_input(model->lane, 0, &model->embedded);
    for (int b = 0; b < BATCH; b++)
        for (int c = 0; c < WIDTH; c++) {
            float sum = 0;
            for (int t = 0; t < TOKENS; t++)
                sum += model->embedded.data[(b * TOKENS + t) * WIDTH + c];
            model->pooled.data[b * WIDTH + c] = sum / TOKENS;
        }
    record_output(model->lane, 0, &model->pooled);
    end(model);
}

static void linear(struct model *model, enum parameter_index weight_index, const struct tensor *in,
                   struct tensor *out)
{
    const struct parameter *weight = &model->parameters[weight_index];
    const struct parameter *bias = &model->parameters[weight_index + 1];
    int64_t n_out = weight->value.sizes[0], n_in = weight->value.sizes[1];
    begin(model, weight->scope, "linear", 0, NULL);
    record_input(model->lane, 0, in);
    record_input(model->lane, 1, &weight->value);
    record_input(model->lane, 2, &bias->value);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t o = 0; o < n_out; o++) {
            float sum = bias->value.data[o];
            for (int64_t i = 0; i < n_in; i++)
                sum += in->data[b * n_in + i] * weight->value.data[o * n_in + i];
            out->data[b * n_out + o] = sum;
        }
    record_output(model->lane, 0, out);
    end(model);
}

static void relu(struct model *model)
{
    begin(model, "relu", "relu", 0, NULL);
    record_input(model->lane, 0, &model->hidden);
    for (int i = 0; i < BATCH * HIDDEN; i++)
        model->active.data[i] = model->hidden.data[i] > 0 ? model->hidden.data[i] : 0;
    record_output(model->lane, 0, &model->active);
    end(model);
}

static void normalise_row(struct model *model, int row)
{
    const float *x = model->active.data + row * HIDDEN;
    float mean = 0, variance = 0;
    for (int i = 0; i < HIDDEN; i++)
        mean += x[i] / HIDDEN;
    for (int i = 0; i < HIDDEN; i++)
        variance += (x[i] - mean) * (x[i] - mean) / HIDDEN;
    float rstd = 1.0f / sqrtf(variance + LN_EPSILON);
    model->mean.data[row] = mean;
    model->rstd.data[row] = rstd;
    for (int i = 0; i < HIDDEN; i++)
        model->normal.data[row * HIDDEN + i] =
            (x[i] - mean) * rstd * model->parameters[LN_WEIGHT].value.data[i] +
            model->parameters[LN_BIAS].value.data[i];
}

static void layer_norm(struct model *model)
{
    begin(model, "ln", "layer_norm", 0, "eps=1e-05");
    record_input(model->lane, 0, &model->active);
    record_input(model->lane, 1, &model->parameters[LN_WEIGHT].value);
    record_input(model->lane, 2, &model->parameters[LN_BIAS].value);
    for (int b = 0; b < BATCH; b++)
        normalise_row(model, b);
    record_output(model->lane, 0, &model->normal);
    record_output(model->lane, 1, &model->mean);
    record_output(model->lane, 2, &model->rstd);
    end(model);
}

static void dropout(struct model *model)
{
    begin(model, "dropout", "dropout", DIVERGE_FLAG_RANDOM, "p=0.1");
    record_input(model->lane, 0, &model->normal);
    for (int i = 0; i < BATCH * HIDDEN; i++) {
        bool keep = generator_uniform(model->generator, 0, 1) >= DROPOUT;
        model->mask.data[i] = keep ? 1.0f / (1.0f - DROPOUT) : 0.0f;
        model->dropped.data[i] = model->normal.data[i] * model->mask.data[i];
    }
    record_output(model->lane, 0, &model->dropped);
    record_output(model->lane, 1, &model->mask);
    end(model);
}

static float cross_entropy(struct model *model, const struct batch *batch)
{
    diverge_phase(model->lane, DIVERGE_PHASE_LOSS);
    begin(model, "", "cross_entropy", 0, "reduction=mean");
    record_input(model->lane, 0, &model->logits);
    record_int64(model->lane, DIVERGE_ROLE_INPUT, 1, 0, batch->labels, BATCH, 0);
    float loss = 0;
    for (int b = 0; b < BATCH; b++) {
        const float *x = model->logits.data + b * CLASSES;
        float total = 0;
        for (int c = 0; c < CLASSES; c++)
            total += expf(x[c]);
        for (int c = 0; c < CLASSES; c++)
            model->d_logits.data[b * CLASSES + c] =
                (expf(x[c]) / total - (c == batch->labels[b] ? 1.0f : 0.0f)) / BATCH;
        loss += (logf(total) - x[batch->labels[b]]) / BATCH;
    }
    model->loss.data[0] = loss;
    record_output(model->lane, 0, &model->loss);
    end(model);
    return loss;
}

float model_forward(struct model *model, const struct batch *batch)
{
    diverge_phase(model->lane, DIVERGE_PHASE_FORWARD);
    embedding(model, batch);
    mean_over_tokens(model);
    linear(model, FC1_WEIGHT, &model->pooled, &model->hidden);
    relu(model);
    layer_norm(model);
    dropout(model);
    linear(model, HEAD_WEIGHT, &model->dropped, &model->logits);
    return cross_entropy(model, batch);
}

/* ---- backward ------------------------------------------------------------------------------- */

static void cross_entropy_backward(struct model *model)
{
    begin(model, "", "cross_entropy_backward", 0, NULL);
    record_input(model->lane, 0, &model->logits);
    record_output(model->lane, 0, &model->d_logits);
    end(model);
}

static void linear_backward(struct model *model, enum parameter_index weight_index,
                            const struct tensor *in, const struct tensor *d_out,
                            struct tensor *d_in)
{
    struct parameter *weight = &model->parameters[weight_index];
    struct parameter *bias = &model->parameters[weight_index + 1];
    int64_t n_out = weight->value.sizes[0], n_in = weight->value.sizes[1];
    begin(model, weight->scope, "linear_backward", 0, NULL);
    record_input(model->lane, 0, in);
    record_input(model->lane, 1, d_out);
    record_input(model->lane, 2, &weight->value);
    memset(weight->gradient.data, 0, (size_t)(n_out * n_in) * sizeof(float));
    memset(bias->gradient.data, 0, (size_t)n_out * sizeof(float));
    memset(d_in->data, 0, (size_t)(BATCH * n_in) * sizeof(float));
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t o = 0; o < n_out; o++) {
            float d = d_out->data[b * n_out + o];
            bias->gradient.data[o] += d;
            for (int64_t i = 0; i < n_in; i++) {
                weight->gradient.data[o * n_in + i] += d * in->data[b * n_in + i];
                d_in->data[b * n_in + i] += d * weight->value.data[o * n_in + i];
            }
        }
    record_output(model->lane, 0, d_in);
    record_output(model->lane, 1, &weight->gradient);
    record_output(model->lane, 2, &bias->gradient);
    end(model);
}

static void dropout_backward(struct model *model)
{
    begin(model, "dropout", "dropout_backward", 0, NULL);
    record_input(model->lane, 0, &model->d_dropped);
    record_input(model->lane, 1, &model->mask);
    for (int i = 0; i < BATCH * HIDDEN; i++)
        model->d_normal.data[i] = model->d_dropped.data[i] * model->mask.data[i];
    record_output(model->lane, 0, &model->d_normal);
    end(model);
}

static void normalise_row_backward(struct model *model, int row)
{
    struct parameter *weight = &model->parameters[LN_WEIGHT];
    struct parameter *bias = &model->parameters[LN_BIAS];
    const float *x = model->active.data + row * HIDDEN;
    const float *d = model->d_normal.data + row * HIDDEN;
    float mean = model->mean.data[row], rstd = model->rstd.data[row];
    float sum_d = 0, sum_dx = 0;
    for (int i = 0; i < HIDDEN; i++) {
        float normal = (x[i] - mean) * rstd;
        weight->gradient.data[i] += d[i] * normal;
        bias->gradient.data[i] += d[i];
        sum_d += d[i] * weight->value.data[i] / HIDDEN;
        sum_dx += d[i] * weight->value.data[i] * normal / HIDDEN;
    }
    for (int i = 0; i < HIDDEN; i++) {
        float normal = (x[i] - mean) * rstd;
        model->d_active.data[row * HIDDEN + i] =
            rstd * (d[i] * weight->value.data[i] - sum_d - normal * sum_dx);
    }
}

static void layer_norm_backward(struct model *model)
{
    begin(model, "ln", "layer_norm_backward", 0, NULL);
    record_input(model->lane, 0, &model->d_normal);
    record_input(model->lane, 1, &model->active);
    record_input(model->lane, 2, &model->parameters[LN_WEIGHT].value);
    memset(model->parameters[LN_WEIGHT].gradient.data, 0, HIDDEN * sizeof(float));
    memset(model->parameters[LN_BIAS].gradient.data, 0, HIDDEN * sizeof(float));
    for (int b = 0; b < BATCH; b++)
        normalise_row_backward(model, b);
    record_output(model->lane, 0, &model->d_active);
    record_output(model->lane, 1, &model->parameters[LN_WEIGHT].gradient);
    record_output(model->lane, 2, &model->parameters[LN_BIAS].gradient);
    end(model);
}

static void relu_backward(struct model *model)
{
    begin(model, "relu", "relu_backward", 0, NULL);
    record_input(model->lane, 0, &model->d_active);
    record_input(model->lane, 1, &model->active);
    for (int i = 0; i < BATCH * HIDDEN; i++)
        model->d_hidden.data[i] = model->active.data[i] > 0 ? model->d_active.data[i] : 0;
    record_output(model->lane, 0, &model->d_hidden);
    end(model);
}

static void mean_backward(struct model *model)
{
    begin(model, "pool", "mean_backward", 0, "dim=1");
    record_input(model->lane, 0, &model->d_pooled);
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < TOKENS; t++)
            for (int c = 0; c < WIDTH; c++)
                model->d_embedded.data[(b * TOKENS + t) * WIDTH + c] =
                    model->d_pooled.data[b * WIDTH + c] / TOKENS;
    record_output(model->lane, 0, &model->d_embedded);
    end(model);
}

static void embedding_backward(struct model *model, const struct batch *batch)
{
    struct tensor *gradient = &model->parameters[EMB_WEIGHT].gradient;
    begin(model, "emb", "embedding_backward", 0, NULL);
    record_input(model->lane, 0, &model->d_embedded);
    record_int64(model->lane, DIVERGE_ROLE_INPUT, 1, 0, batch->tokens, BATCH, TOKENS);
    memset(gradient->data, 0, VOCABULARY * WIDTH * sizeof(float));
    for (int i = 0; i < BATCH * TOKENS; i++)
        for (int c = 0; c < WIDTH; c++)
            gradient->data[batch->tokens[i] * WIDTH + c] += model->d_embedded.data[i * WIDTH + c];
    record_output(model->lane, 0, gradient);
    end(model);
}

void model_backward(struct model *model, const struct batch *batch)
{
    diverge_phase(model->lane, DIVERGE_PHASE_BACKWARD);
    cross_entropy_backward(model);
    linear_backward(model, HEAD_WEIGHT, &model->dropped, &model->d_logits, &model->d_dropped);
    dropout_backward(model);
    layer_norm_backward(model);
    relu_backward(model);
    linear_backward(model, FC1_WEIGHT, &model->pooled, &model->d_hidden, &model->d_pooled);
    mean_backward(model);
    embedding_backward(model, batch);
    for (int i = 0; i < PARAMETERS; i++)
        record_state(model->lane, DIVERGE_ROLE_GRAD,
                     diverge_name(model->session, model->parameters[i].name),
                     &model->parameters[i].gradient);
}
