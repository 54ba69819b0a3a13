/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a small network on handwritten digits and records the run with libdiverge.
 *
 *     digits_train --data digits.txt --seed 1 --steps 200 --threads 2
 *
 * 64 inputs, one hidden layer of 32 ReLU units, softmax over 10 digits, SGD with momentum. Every op
 * is written out by hand and recorded with its inputs and outputs, as a framework's adapter would.
 *
 * The backward pass of a linear layer splits the batch over --threads threads, which all add into
 * the same gradient with compare-and-swap. No addition is lost, but with two threads their order is
 * the race's, and floating-point addition depends on its order: two runs of the same command end
 * with different weights. `divergectl first-diff` names this op as the first that differed.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/diverge.h>
#include <diverge/names.h>

enum {
    PIXELS = 64,
    HIDDEN = 32,
    CLASSES = 10,
    BATCH = 64,
    MAX_THREADS = 16,
    MAX_IMAGES = 4096,
};

struct options {
    const char *data;
    uint64_t seed;
    uint64_t steps;
    int threads;
    double lr;
    double momentum;
};

/* A tensor of this program: what it computes with, and what libdiverge needs to know of it. */
struct tensor {
    const char *name;
    void *data;
    enum diverge_dtype dtype;
    int ndim;
    int64_t sizes[2];
    diverge_ref_t producer; /* the record of this step that made it; 0: none */
};

struct linear {
    const char *scope;
    const char *weight_name;
    const char *bias_name;
    int inputs;
    int outputs;
    float *weight; /* [outputs, inputs] */
    float *bias;
    float *weight_grad;
    float *bias_grad;
    float *weight_momentum;
    float *bias_momentum;
};

struct data {
    int count;
    float images[MAX_IMAGES][PIXELS];
    int32_t labels[MAX_IMAGES];
};

/* The values of one step, with their storage. */
struct batch {
    int64_t ids[BATCH];
    int32_t labels[BATCH];
    float images[BATCH][PIXELS];
    float hidden[BATCH][HIDDEN]; /* before the ReLU */
    float active[BATCH][HIDDEN]; /* after it */
    float logits[BATCH][CLASSES];
    float logits_grad[BATCH][CLASSES];
    float active_grad[BATCH][HIDDEN];
    float hidden_grad[BATCH][HIDDEN];
    float images_grad[BATCH][PIXELS];
    float loss;
};

struct trainer {
    struct options options;
    struct diverge_session *session;
    struct diverge_lane *lane;
    uint64_t generator; /* state of the one random generator */
    struct data data;
    int order[MAX_IMAGES]; /* this epoch's order of the images */
    int position;          /* in order */
    int64_t epoch;
    float lr;
    struct linear fc1;
    struct linear fc2;
    struct batch batch;
};

/* ---- recording ------------------------------------------------------------------------------ */

static struct tensor tensor_2d(const char *name, void *data, int rows, int columns)
{
    return (struct tensor){
        .name = name, .data = data, .dtype = DIVERGE_F32, .ndim = 2, .sizes = {rows, columns}};
}

static struct tensor tensor_1d(const char *name, void *data, enum diverge_dtype dtype, int size)
{
    return (struct tensor){.name = name, .data = data, .dtype = dtype, .ndim = 1, .sizes = {size}};
}

static void record(struct trainer *t, enum diverge_role role, int slot, struct tensor *x)
{
    struct diverge_observation what = {
        .role = role,
        .slot = (uint16_t)slot,
        .tier = DIVERGE_TIER_DEFAULT,
        .name = diverge_name(t->session, x->name),
        .producer = role == DIVERGE_ROLE_INPUT ? x->producer : 0,
    };
    struct diverge_tensor tensor = {
        .view = {.data = x->data, .dtype = x->dtype, .ndim = x->ndim, .sizes = x->sizes}};
    diverge_ref_t made = 0;
    diverge_record(t->lane, &what, &tensor, &made);
    if (role == DIVERGE_ROLE_OUTPUT)
        x->producer = made;
}

static void record_number(struct trainer *t, enum diverge_role role, const char *name, double value)
{
    struct diverge_observation what = {
        .role = role, .tier = DIVERGE_TIER_DEFAULT, .name = diverge_name(t->session, name)};
    diverge_record_float(t->lane, &what, value);
}

/* Begins an op and records its inputs; record its outputs, then call op_end. */
static void op_begin(struct trainer *t, const char *scope, const char *op, struct tensor *inputs,
                     int count)
{
    diverge_scope(t->lane, diverge_name(t->session, scope));
    diverge_op_begin(t->lane, diverge_name(t->session, op), 0, NULL, 0);
    for (int i = 0; i < count; i++)
        record(t, DIVERGE_ROLE_INPUT, i, &inputs[i]);
}

static void op_end(struct trainer *t)
{
    diverge_op_end(t->lane);
    diverge_scope(t->lane, 0);
}

/* Slot 0 where a segment first reads the generator, slot 1 where the segment closes. */
static void record_generator(struct trainer *t, int slot)
{
    struct diverge_observation what = {
        .role = DIVERGE_ROLE_RNG,
        .slot = (uint16_t)slot,
        .tier = DIVERGE_TIER_DEFAULT,
        .name = diverge_name(t->session, "global"),
    };
    diverge_record_bytes(t->lane, &what, &t->generator, sizeof(t->generator));
}

static void record_layer(struct trainer *t, const struct linear *layer)
{
    struct tensor tensors[] = {
        tensor_2d(layer->weight_name, layer->weight, layer->outputs, layer->inputs),
        tensor_1d(layer->bias_name, layer->bias, DIVERGE_F32, layer->outputs),
    };
    for (int i = 0; i < 2; i++)
        record(t, DIVERGE_ROLE_PARAM, 0, &tensors[i]);
}

static void record_layer_momentum(struct trainer *t, const struct linear *layer)
{
    char name[64];
    snprintf(name, sizeof(name), "%s.momentum", layer->weight_name);
    struct tensor weight = tensor_2d(name, layer->weight_momentum, layer->outputs, layer->inputs);
    record(t, DIVERGE_ROLE_OPTSTATE, 0, &weight);
    snprintf(name, sizeof(name), "%s.momentum", layer->bias_name);
    struct tensor bias = tensor_1d(name, layer->bias_momentum, DIVERGE_F32, layer->outputs);
    record(t, DIVERGE_ROLE_OPTSTATE, 0, &bias);
}

static void record_learning_rate(struct trainer *t)
{
    diverge_scope(t->lane, diverge_name(t->session, "group0"));
    record_number(t, DIVERGE_ROLE_SCALAR, DIVERGE_NAME_LR, t->lr);
    record_number(t, DIVERGE_ROLE_SCALAR, "momentum", t->options.momentum);
    diverge_scope(t->lane, 0);
}

/* The whole state after k steps: what a checkpoint would hold. */
static void record_boundary(struct trainer *t, uint64_t k)
{
    diverge_boundary(t->session, k);
    record_generator(t, 0);
    record_layer(t, &t->fc1);
    record_layer(t, &t->fc2);
    record_layer_momentum(t, &t->fc1);
    record_layer_momentum(t, &t->fc2);
    record_learning_rate(t);
    diverge_counter(t->session, "epoch", t->epoch);
    diverge_counter(t->session, "position", t->position);
    record_generator(t, 1);
}

/* ---- random numbers: splitmix64, whose state is one word ------------------------------------ */

static uint64_t random_bits(struct trainer *t)
{
    uint64_t z = t->generator += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static float random_uniform(struct trainer *t, float bound)
{
    float unit = (float)(random_bits(t) >> 40) * 0x1p-24f;
    return (2 * unit - 1) * bound;
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void linear_forward(struct trainer *t, const struct linear *layer, struct tensor *x,
                           struct tensor *y)
{
    struct tensor inputs[] = {
        *x,
        tensor_2d("weight", layer->weight, layer->outputs, layer->inputs),
        tensor_1d("bias", layer->bias, DIVERGE_F32, layer->outputs),
    };
    op_begin(t, layer->scope, "linear", inputs, 3);
    const float *in = x->data;
    float *out = y->data;
    for (int b = 0; b < BATCH; b++) {
        for (int o = 0; o < layer->outputs; o++) {
            float sum = layer->bias[o];
            for (int i = 0; i < layer->inputs; i++)
                sum += in[b * layer->inputs + i] * layer->weight[o * layer->inputs + i];
            out[b * layer->outputs + o] = sum;
        }
    }
    record(t, DIVERGE_ROLE_OUTPUT, 0, y);
    op_end(t);
}

/* Adds without a lock: when another thread was faster, try again with its sum. */
static void atomic_add(float *address, float value)
{
    _Atomic(uint32_t) *cell = (_Atomic(uint32_t) *)(void *)address;
    uint32_t seen = atomic_load_explicit(cell, memory_order_relaxed);
    uint32_t wanted;
    do {
        float sum;
        memcpy(&sum, &seen, sizeof(sum));
        sum += value;
        memcpy(&wanted, &sum, sizeof(wanted));
    } while (!atomic_compare_exchange_weak_explicit(cell, &seen, wanted, memory_order_relaxed,
                                                    memory_order_relaxed));
}

/* One thread's share of a linear layer's weight and bias gradient. */
struct gradient_share {
    const struct linear *layer;
    const float *x;
    const float *y_grad;
    int first; /* rows of the batch */
    int end;
    pthread_barrier_t *start;
};

static void *add_gradients(void *argument)
{
    const struct gradient_share *share = argument;
    const struct linear *layer = share->layer;
    pthread_barrier_wait(share->start);
    for (int b = share->first; b < share->end; b++) {
        const float *x = share->x + b * layer->inputs;
        for (int o = 0; o < layer->outputs; o++) {
            float g = share->y_grad[b * layer->outputs + o];
            atomic_add(&layer->bias_grad[o], g);
            for (int i = 0; i < layer->inputs; i++)
                atomic_add(&layer->weight_grad[o * layer->inputs + i], g * x[i]);
        }
    }
    return NULL;
}

static void add_gradients_parallel(struct trainer *t, const struct linear *layer, const float *x,
                                   const float *y_grad)
{
    int threads = t->options.threads;
    pthread_t ids[MAX_THREADS] = {0};
    struct gradient_share shares[MAX_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        shares[i] = (struct gradient_share){.layer = layer,
                                            .x = x,
                                            .y_grad = y_grad,
                                            .first = BATCH * i / threads,
                                            .end = BATCH * (i + 1) / threads,
                                            .start = &start};
        /* The caller is the last thread. */
        if (i < threads - 1 && pthread_create(&ids[i], NULL, add_gradients, &shares[i]) != 0) {
            fprintf(stderr, "digits_train: cannot start thread %d of %d\n", i + 1, threads);
            exit(71);
        }
    }
    add_gradients(&shares[threads - 1]);
    for (int i = 0; i < threads - 1; i++)
        pthread_join(ids[i], NULL);
    pthread_barrier_destroy(&start);
}

static void linear_backward(struct trainer *t, const struct linear *layer, struct tensor *x,
                            struct tensor *y_grad, struct tensor *x_grad)
{
    struct tensor weight = tensor_2d("weight", layer->weight, layer->outputs, layer->inputs);
    op_begin(t, layer->scope, "linear_backward", (struct tensor[]){*y_grad, *x, weight}, 3);
    const float *g = y_grad->data;
    float *out = x_grad->data;
    for (int b = 0; b < BATCH; b++) {
        for (int i = 0; i < layer->inputs; i++) {
            float sum = 0;
            for (int o = 0; o < layer->outputs; o++)
                sum += g[b * layer->outputs + o] * layer->weight[o * layer->inputs + i];
            out[b * layer->inputs + i] = sum;
        }
    }
    size_t cells = (size_t)layer->outputs * (size_t)layer->inputs;
    memset(layer->weight_grad, 0, cells * sizeof(float));
    memset(layer->bias_grad, 0, (size_t)layer->outputs * sizeof(float));
    add_gradients_parallel(t, layer, x->data, g);
    struct tensor weight_grad =
        tensor_2d("weight.grad", layer->weight_grad, layer->outputs, layer->inputs);
    struct tensor bias_grad = tensor_1d("bias.grad", layer->bias_grad, DIVERGE_F32, layer->outputs);
    record(t, DIVERGE_ROLE_OUTPUT, 0, x_grad);
    record(t, DIVERGE_ROLE_OUTPUT, 1, &weight_grad);
    record(t, DIVERGE_ROLE_OUTPUT, 2, &bias_grad);
    op_end(t);
}

static void relu_forward(struct trainer *t, struct tensor *x, struct tensor *y)
{
    op_begin(t, "relu", "relu", x, 1);
    const float *in = x->data;
    float *out = y->data;
    for (int i = 0; i < BATCH * HIDDEN; i++)
        out[i] = in[i] > 0 ? in[i] : 0;
    record(t, DIVERGE_ROLE_OUTPUT, 0, y);
    op_end(t);
}

static void relu_backward(struct trainer *t, struct tensor *x, struct tensor *y_grad,
                          struct tensor *x_grad)
{
    op_begin(t, "relu", "relu_backward", (struct tensor[]){*y_grad, *x}, 2);
    const float *in = x->data;
    const float *g = y_grad->data;
    float *out = x_grad->data;
    for (int i = 0; i < BATCH * HIDDEN; i++)
        out[i] = in[i] > 0 ? g[i] : 0;
    record(t, DIVERGE_ROLE_OUTPUT, 0, x_grad);
    op_end(t);
}

/* Mean cross-entropy of the softmax, and its gradient for the logits. Returns how many of the
 * batch were recognised. */
static int cross_entropy(struct trainer *t, struct tensor *logits, struct tensor *labels,
                         struct tensor *logits_grad)
{
    struct batch *batch = &t->batch;
    op_begin(t, "", "cross_entropy", (struct tensor[]){*logits, *labels}, 2);
    int right = 0;
    float loss = 0;
    for (int b = 0; b < BATCH; b++) {
        const float *row = batch->logits[b];
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            best = row[c] > row[best] ? c : best;
        float sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += expf(row[c] - row[best]);
        for (int c = 0; c < CLASSES; c++) {
            float probability = expf(row[c] - row[best]) / sum;
            float target = c == batch->labels[b] ? 1 : 0;
            batch->logits_grad[b][c] = (probability - target) / BATCH;
        }
        loss += logf(sum) - (row[batch->labels[b]] - row[best]);
        right += best == batch->labels[b];
    }
    batch->loss = loss / BATCH;
    record(t, DIVERGE_ROLE_OUTPUT, 0, logits_grad);
    op_end(t);
    record_number(t, DIVERGE_ROLE_LOSS, DIVERGE_NAME_LOSS, batch->loss);
    return right;
}

static void sgd_update(struct trainer *t, const char *scope, struct tensor *param,
                       struct tensor *grad, struct tensor *momentum)
{
    op_begin(t, scope, "sgd_", (struct tensor[]){*param, *grad, *momentum}, 3);
    float *p = param->data;
    const float *g = grad->data;
    float *m = momentum->data;
    int64_t cells = param->sizes[0] * (param->ndim == 2 ? param->sizes[1] : 1);
    for (int64_t i = 0; i < cells; i++) {
        m[i] = (float)t->options.momentum * m[i] + g[i];
        p[i] -= t->lr * m[i];
    }
    record(t, DIVERGE_ROLE_OUTPUT, 0, param);
    record(t, DIVERGE_ROLE_OUTPUT, 1, momentum);
    op_end(t);
}

/* ---- one step ------------------------------------------------------------------------------- */

static void shuffle(struct trainer *t)
{
    for (int i = t->data.count - 1; i > 0; i--) {
        int j = (int)(random_bits(t) % (uint64_t)(i + 1));
        int swap = t->order[i];
        t->order[i] = t->order[j];
        t->order[j] = swap;
    }
}

static void load_batch(struct trainer *t)
{
    struct batch *batch = &t->batch;
    if (t->position + BATCH > t->data.count) {
        t->epoch++;
        t->position = 0;
        shuffle(t);
    }
    for (int b = 0; b < BATCH; b++) {
        int id = t->order[t->position++];
        batch->ids[b] = id;
        batch->labels[b] = t->data.labels[id];
        memcpy(batch->images[b], t->data.images[id], sizeof(batch->images[b]));
    }
    diverge_phase(t->lane, DIVERGE_PHASE_DATA);
    struct tensor ids = tensor_1d(DIVERGE_NAME_IDS, batch->ids, DIVERGE_I64, BATCH);
    struct tensor images = tensor_2d("images", batch->images, BATCH, PIXELS);
    struct tensor labels = tensor_1d("labels", batch->labels, DIVERGE_I32, BATCH);
    record(t, DIVERGE_ROLE_BATCH, 0, &ids);
    record(t, DIVERGE_ROLE_BATCH, 1, &images);
    record(t, DIVERGE_ROLE_BATCH, 2, &labels);
}

static int forward_and_backward(struct trainer *t)
{
    struct batch *batch = &t->batch;
    struct tensor images = tensor_2d("images", batch->images, BATCH, PIXELS);
    struct tensor labels = tensor_1d("labels", batch->labels, DIVERGE_I32, BATCH);
    struct tensor hidden = tensor_2d("hidden", batch->hidden, BATCH, HIDDEN);
    struct tensor active = tensor_2d("active", batch->active, BATCH, HIDDEN);
    struct tensor logits = tensor_2d("logits", batch->logits, BATCH, CLASSES);
    struct tensor logits_grad = tensor_2d("logits.grad", batch->logits_grad, BATCH, CLASSES);
    struct tensor active_grad = tensor_2d("active.grad", batch->active_grad, BATCH, HIDDEN);
    struct tensor hidden_grad = tensor_2d("hidden.grad", batch->hidden_grad, BATCH, HIDDEN);
    struct tensor images_grad = tensor_2d("images.grad", batch->images_grad, BATCH, PIXELS);

    diverge_phase(t->lane, DIVERGE_PHASE_FORWARD);
    linear_forward(t, &t->fc1, &images, &hidden);
    relu_forward(t, &hidden, &active);
    linear_forward(t, &t->fc2, &active, &logits);
    diverge_phase(t->lane, DIVERGE_PHASE_LOSS);
    int right = cross_entropy(t, &logits, &labels, &logits_grad);
    diverge_phase(t->lane, DIVERGE_PHASE_BACKWARD);
    linear_backward(t, &t->fc2, &active, &logits_grad, &active_grad);
    relu_backward(t, &hidden, &active_grad, &hidden_grad);
    linear_backward(t, &t->fc1, &images, &hidden_grad, &images_grad);
    return right;
}

static void update_layer(struct trainer *t, const struct linear *layer)
{
    int rows = layer->outputs;
    int columns = layer->inputs;
    struct tensor weight = tensor_2d(layer->weight_name, layer->weight, rows, columns);
    struct tensor weight_grad = tensor_2d(layer->weight_name, layer->weight_grad, rows, columns);
    struct tensor weight_momentum = tensor_2d("momentum", layer->weight_momentum, rows, columns);
    struct tensor bias = tensor_1d(layer->bias_name, layer->bias, DIVERGE_F32, rows);
    struct tensor bias_grad = tensor_1d(layer->bias_name, layer->bias_grad, DIVERGE_F32, rows);
    struct tensor bias_momentum = tensor_1d("momentum", layer->bias_momentum, DIVERGE_F32, rows);

    record(t, DIVERGE_ROLE_GRAD, 0, &weight_grad);
    record(t, DIVERGE_ROLE_GRAD, 0, &bias_grad);
    sgd_update(t, layer->scope, &weight, &weight_grad, &weight_momentum);
    sgd_update(t, layer->scope, &bias, &bias_grad, &bias_momentum);
}

/* Trains on one batch; returns how many of it were recognised. */
static int train_step(struct trainer *t, uint64_t k)
{
    diverge_step(t->session, k);
    load_batch(t);
    int right = forward_and_backward(t);
    diverge_phase(t->lane, DIVERGE_PHASE_OPTIMIZER);
    /* The learning rate halves every 400 steps. */
    t->lr = (float)ldexp(t->options.lr, -(int)(k / 400));
    record_learning_rate(t);
    update_layer(t, &t->fc1);
    update_layer(t, &t->fc2);
    return right;
}

/* ---- start and end -------------------------------------------------------------------------- */

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'g' ? c - 'a' + 10 : -1;
}

static int parse_image(struct data *data, const char *line)
{
    if (strlen(line) != PIXELS + 2 || line[PIXELS + 1] != '\n' || data->count == MAX_IMAGES)
        return -1;
    for (int i = 0; i < PIXELS; i++) {
        int value = digit_value(line[i]);
        if (value < 0)
            return -1;
        data->images[data->count][i] = (float)value / 16;
    }
    int label = digit_value(line[PIXELS]);
    if (label < 0 || label >= CLASSES)
        return -1;
    data->labels[data->count++] = label;
    return 0;
}

static int load_data(struct data *data, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "digits_train: %s: %s\n", path, strerror(errno));
        return -1;
    }
    char line[PIXELS + 16];
    int rc = 0;
    while (rc == 0 && fgets(line, sizeof(line), f))
        rc = parse_image(data, line);
    fclose(f);
    if (rc != 0 || data->count < BATCH) {
        fprintf(stderr, "digits_train: %s: image %d is malformed\n", path, data->count + 1);
        return -1;
    }
    return 0;
}

static float *new_floats(int count)
{
    float *cells = calloc((size_t)count, sizeof(float));
    if (!cells) {
        fprintf(stderr, "digits_train: out of memory\n");
        exit(71);
    }
    return cells;
}

/* `shape` has the names and sizes. */
static void linear_init(struct trainer *t, struct linear *layer, const struct linear *shape)
{
    int inputs = shape->inputs;
    int outputs = shape->outputs;
    *layer = (struct linear){
        .scope = shape->scope,
        .weight_name = shape->weight_name,
        .bias_name = shape->bias_name,
        .inputs = inputs,
        .outputs = outputs,
        .weight = new_floats(inputs * outputs),
        .bias = new_floats(outputs),
        .weight_grad = new_floats(inputs * outputs),
        .bias_grad = new_floats(outputs),
        .weight_momentum = new_floats(inputs * outputs),
        .bias_momentum = new_floats(outputs),
    };
    float bound = 1 / sqrtf((float)inputs);
    for (int i = 0; i < inputs * outputs; i++)
        layer->weight[i] = random_uniform(t, bound);
    for (int i = 0; i < outputs; i++)
        layer->bias[i] = random_uniform(t, bound);
}

static void linear_fini(struct linear *layer)
{
    free(layer->weight);
    free(layer->bias);
    free(layer->weight_grad);
    free(layer->bias_grad);
    free(layer->weight_momentum);
    free(layer->bias_momentum);
}

/* Without a daemon, or with DIVERGE_DISABLE=1, training goes on all the same. */
static void open_session(struct trainer *t)
{
    const struct options *o = &t->options;
    char seed[32];
    char threads[32];
    char lr[32];
    snprintf(seed, sizeof(seed), "%" PRIu64, o->seed);
    snprintf(threads, sizeof(threads), "%d", o->threads);
    snprintf(lr, sizeof(lr), "%.17g", o->lr);
    struct diverge_metadata metadata[] = {{.key = "seed", .value = seed},
                                          {.key = "num_threads", .value = threads},
                                          {.key = "lr", .value = lr}};
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.sketch = 64; /* so that first-diff can say how far apart two tensors are */
    options.flags = DIVERGE_OPEN_SKETCH_OPS;
    options.metadata = metadata;
    options.n_metadata = sizeof(metadata) / sizeof(metadata[0]);
    int rc = diverge_session_open(&options, &t->session);
    if (rc < 0 && rc != DIVERGE_ECLOSED)
        fprintf(stderr, "digits_train: not recorded: %s\n", diverge_strerror(rc));
    t->lane = diverge_lane_open(t->session, "main");
}

static void initialise(struct trainer *t)
{
    static const struct linear fc1 = {.scope = "fc1",
                                      .weight_name = "fc1.weight",
                                      .bias_name = "fc1.bias",
                                      .inputs = PIXELS,
                                      .outputs = HIDDEN};
    static const struct linear fc2 = {.scope = "fc2",
                                      .weight_name = "fc2.weight",
                                      .bias_name = "fc2.bias",
                                      .inputs = HIDDEN,
                                      .outputs = CLASSES};
    t->generator = t->options.seed;
    record_generator(t, 0);
    linear_init(t, &t->fc1, &fc1);
    linear_init(t, &t->fc2, &fc2);
    record_generator(t, 1);
    t->lr = (float)t->options.lr;
    t->position = t->data.count; /* the first batch begins an epoch */
    for (int i = 0; i < t->data.count; i++)
        t->order[i] = i;
}

static int train(struct trainer *t)
{
    open_session(t);
    initialise(t);
    record_boundary(t, 0);
    int right = 0;
    for (uint64_t k = 0; k < t->options.steps; k++) {
        right = train_step(t, k);
        record_boundary(t, k + 1);
    }
    printf("%" PRIu64 " steps, loss %.9g, %d of the last %d recognised\n", t->options.steps,
           (double)t->batch.loss, right, BATCH);
    int rc = t->session ? diverge_session_close(t->session, DIVERGE_OUTCOME_COMPLETE) : 0;
    if (rc < 0)
        fprintf(stderr, "digits_train: recording: %s\n", diverge_strerror(rc));
    linear_fini(&t->fc1);
    linear_fini(&t->fc2);
    return 0;
}

static int usage(void)
{
    fputs("usage: digits_train [--data FILE] [--seed N] [--steps N] [--threads N]\n"
          "                    [--lr X] [--momentum X]\n"
          "What is recorded, and where to: the DIVERGE_ variables, see libdiverge.\n",
          stderr);
    return 64;
}

static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option names[] = {{"data", required_argument, NULL, 'd'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"steps", required_argument, NULL, 'k'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"lr", required_argument, NULL, 'l'},
                                          {"momentum", required_argument, NULL, 'm'},
                                          {NULL, 0, NULL, 0}};
    static char nothing[] = "";
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        char *end = nothing;
        switch (c) {
        case 'd':
            o->data = optarg;
            break;
        case 's':
            o->seed = strtoull(optarg, &end, 10);
            break;
        case 'k':
            o->steps = strtoull(optarg, &end, 10);
            break;
        case 't':
            o->threads = (int)strtol(optarg, &end, 10);
            break;
        case 'l':
            o->lr = strtod(optarg, &end);
            break;
        case 'm':
            o->momentum = strtod(optarg, &end);
            break;
        default:
            return -1;
        }
        if (*end)
            return -1;
    }
    return optind == argc && o->threads >= 1 && o->threads <= MAX_THREADS ? 0 : -1;
}

int main(int argc, char **argv)
{
    /* Too large for the stack. */
    struct trainer *t = calloc(1, sizeof(*t));
    if (!t)
        return 71;
    t->options = (struct options){
        .data = "digits.txt", .seed = 1, .steps = 200, .threads = 1, .lr = 0.1, .momentum = 0.9};
    int status = 66;
    if (parse_options(&t->options, argc, argv) != 0)
        status = usage();
    else if (load_data(&t->data, t->options.data) == 0)
        status = train(t);
    free(t);
    return status;
}
