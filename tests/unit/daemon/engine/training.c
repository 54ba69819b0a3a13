/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/daemon/engine/training.h"

#include <stdio.h>

struct state {
    const struct training *training;
    struct tb *tb;
    uint64_t weight[TRAINING_LAYERS], moment[TRAINING_LAYERS], gradient[TRAINING_LAYERS];
    bool has_moment;
    uint64_t global, python;
    double lr;
};

static const char *const SCOPES[TRAINING_LAYERS] = {"emb", "fc1", "head"};
static const char *const WEIGHTS[TRAINING_LAYERS] = {"emb.weight", "fc1.weight", "head.weight"};
static const char *const MOMENTS[TRAINING_LAYERS] = {"emb.weight.exp_avg", "fc1.weight.exp_avg",
                                                     "head.weight.exp_avg"};

static bool is_op_level(const struct state *state)
{
    return state->training->level >= DIVERGE_TIER_OP;
}

static uint64_t draw(uint64_t *generator)
{
    *generator = tb_mix(*generator, 77);
    return *generator;
}

static void record_generators(struct state *state, uint16_t slot)
{
    tb_rng(state->tb, "global", slot, state->global);
    tb_rng(state->tb, "python", slot, state->python);
}

static void initialise(struct state *state, bool record)
{
    struct tb *tb = state->tb;
    if (record) {
        tb_init(tb);
        record_generators(state, 0);
    }
    for (int i = 0; i < TRAINING_LAYERS; i++) {
        state->weight[i] = draw(&state->global);
        if (!record || !is_op_level(state))
            continue;
        tb_scope(tb, SCOPES[i]);
        tb_op(tb, "uniform_", DIVERGE_FLAG_RANDOM | DIVERGE_FLAG_INPLACE, NULL);
        tb_out(tb, 0, state->weight[i]);
        tb_close(tb);
    }
    tb_scope(tb, "");
    if (record)
        record_generators(state, 1);
}

static void record_boundary(struct state *state, uint64_t k)
{
    struct tb *tb = state->tb;
    const struct training *training = state->training;
    uint64_t every = training->state_every ? training->state_every : 1;
    tb_boundary(tb, k - training->renumber);
    record_generators(state, 0);
    tb_scalar(tb, "lr", state->lr);
    if (training->level < DIVERGE_TIER_STEP || k % every != 0)
        return;
    for (int i = 0; i < TRAINING_LAYERS; i++)
        tb_param(tb, WEIGHTS[i], state->weight[i]);
    for (int i = 0; i < TRAINING_LAYERS; i++) {
        struct tb_record *moment = tb_optstate(tb, MOMENTS[i], state->moment[i]);
        if (!state->has_moment) {
            moment->kind = DIVERGE_KIND_ABSENT;
            moment->dtype = 0;
            moment->ndim = 0;
            moment->value = 0;
        }
    }
}

static uint64_t record_batch(struct state *state, uint64_t step)
{
    struct tb *tb = state->tb;
    uint64_t ids = tb_mix(step, 1000);
    uint64_t tokens = tb_mix(ids, (int64_t)step == state->training->data_at);
    tb_phase(tb, DIVERGE_PHASE_DATA);
    tb_batch(tb, "ids", ids);
    tb_batch_integer(tb, "ids.set", tb_mix(ids, 5));
    tb_batch(tb, "tokens", tokens);
    tb_batch_integer(tb, "tokens.rows.set", tb_mix(tokens, 6));
    return tokens;
}

static bool planted(int64_t at, uint64_t step)
{
    return at == (int64_t)step;
}

/* One op of the forward pass; records only at level op. Returns its output. */
static uint64_t forward(struct state *state, uint64_t step, int layer, uint64_t input,
                        struct tb_record **from)
{
    struct tb *tb = state->tb;
    const struct training *training = state->training;
    bool mine = training->layer == layer;
    bool argument = mine && planted(training->argument_at, step);
    uint64_t in =
        layer > 0 && planted(training->raw_write_at, step) && mine ? tb_mix(input, 666) : input;
    uint64_t out = tb_mix(tb_mix(in, state->weight[layer]), argument ? 2 : 1);
    bool nan = mine && planted(training->nan_at, step);
    if (mine && planted(training->kernel_at, step))
        out = tb_mix(out, 4242);
    if (nan)
        out = tb_mix(out, 7777);
    if (!is_op_level(state))
        return out;
    tb_scope(tb, SCOPES[layer]);
    tb_op(tb, "linear", 0, argument ? "alpha=2" : "alpha=1");
    struct tb_record *x = *from ? tb_in_of(tb, 0, *from) : tb_in(tb, 0, in);
    x->value = in;
    tb_in(tb, 1, state->weight[layer]);
    *from = tb_out(tb, 0, out);
    (*from)->nan = nan;
    tb_close(tb);
    tb_scope(tb, "");
    return out;
}

static uint64_t dropout(struct state *state, uint64_t input, struct tb_record **from)
{
    struct tb *tb = state->tb;
    uint64_t out = tb_mix(input, draw(&state->global));
    if (!is_op_level(state))
        return out;
    tb_scope(tb, "dropout");
    tb_op(tb, "dropout", DIVERGE_FLAG_RANDOM, "p=0.1");
    tb_in_of(tb, 0, *from);
    *from = tb_out(tb, 0, out);
    tb_close(tb);
    tb_scope(tb, "");
    return out;
}

static void extra_op(struct state *state)
{
    struct tb *tb = state->tb;
    tb_scope(tb, "fc1");
    tb_op(tb, "norm", 0, NULL);
    tb_in(tb, 0, state->weight[1]);
    tb_out(tb, 0, tb_mix(state->weight[1], 3));
    tb_close(tb);
    tb_scope(tb, "");
}

static void backward(struct state *state, uint64_t loss)
{
    struct tb *tb = state->tb;
    uint64_t upstream = loss;
    tb_phase(tb, DIVERGE_PHASE_BACKWARD);
    for (int i = TRAINING_LAYERS - 1; i >= 0; i--) {
        state->gradient[i] = tb_mix(upstream, state->weight[i]);
        if (is_op_level(state)) {
            tb_scope(tb, SCOPES[i]);
            tb_op(tb, "linear_backward", 0, NULL);
            tb_in(tb, 0, upstream);
            tb_out(tb, 0, state->gradient[i]);
            tb_close(tb);
            tb_scope(tb, "");
        }
        upstream = state->gradient[i];
    }
    if (state->training->level >= DIVERGE_TIER_STEP)
        for (int i = 0; i < TRAINING_LAYERS; i++)
            tb_grad(tb, WEIGHTS[i], state->gradient[i]);
}

static void reduce(struct state *state, uint64_t step)
{
    struct tb *tb = state->tb;
    tb_phase(tb, DIVERGE_PHASE_SYNC);
    for (int i = 0; i < TRAINING_LAYERS; i++) {
        if (planted(state->training->skip_reduce_at, step) && i == state->training->layer)
            continue;
        uint64_t reduced = tb_mix(state->gradient[i], 99);
        if (is_op_level(state)) {
            tb_scope(tb, WEIGHTS[i]);
            tb_op(tb, "all_reduce", DIVERGE_FLAG_COLLECTIVE, NULL);
            tb_in(tb, 0, state->gradient[i]);
            tb_out(tb, 0, reduced);
            tb_close(tb);
            tb_scope(tb, "");
        }
        state->gradient[i] = reduced;
    }
}

static void optimize(struct state *state, uint64_t step)
{
    struct tb *tb = state->tb;
    const struct training *training = state->training;
    char argument[64];
    snprintf(argument, sizeof(argument), "lr=%.9g, eps=1e-08", state->lr);
    tb_phase(tb, DIVERGE_PHASE_OPTIMIZER);
    for (int i = 0; i < TRAINING_LAYERS; i++) {
        if (!state->has_moment && is_op_level(state)) {
            tb_scope(tb, SCOPES[i]);
            tb_op(tb, "zero_", DIVERGE_FLAG_INPLACE, NULL);
            tb_out(tb, 0, 0);
            tb_close(tb);
        }
        uint64_t moment = tb_mix(state->has_moment ? state->moment[i] : 0, state->gradient[i]);
        uint64_t weight = tb_mix(tb_mix(state->weight[i], moment), (uint64_t)(state->lr * 1e9));
        if (planted(training->update_at, step) && training->layer == i)
            weight = tb_mix(weight, 31337);
        if (is_op_level(state)) {
            tb_scope(tb, SCOPES[i]);
            tb_op(tb, "adam_", DIVERGE_FLAG_INPLACE, tb_text(tb, "%s", argument));
            tb_in(tb, 0, state->weight[i]);
            tb_in(tb, 1, state->gradient[i]);
            tb_out(tb, 0, weight);
            tb_close(tb);
            tb_scope(tb, "");
        }
        state->moment[i] = moment;
        state->weight[i] = weight;
    }
    state->has_moment = true;
}

static double to_double(uint64_t value)
{
    return (double)(value >> 12) * 0x1p-49;
}

/* False: the process died in this step. */
static bool train_step(struct state *state, uint64_t step)
{
    struct tb *tb = state->tb;
    const struct training *training = state->training;
    struct tb_record *from = NULL;
    tb_step(tb, step - training->renumber);
    uint64_t value = record_batch(state, step);
    tb_phase(tb, DIVERGE_PHASE_FORWARD);
    for (int i = 0; i < TRAINING_LAYERS; i++) {
        value = forward(state, step, i, value, &from);
        if (i == 1)
            value = dropout(state, value, &from);
        if (i == 1 && planted(training->extra_op_at, step))
            extra_op(state);
    }
    tb_loss(tb, to_double(value));
    if (planted(training->stop_at, step)) {
        tb_unsealed(tb);
        return false;
    }
    backward(state, value);
    reduce(state, step);
    optimize(state, step);
    state->lr -= planted(training->lr_at, step) ? 0.001 : 0.0005;
    return true;
}

/* What a checkpoint would hold, without recording: the same arithmetic in a throw-away trace. */
static void run_silently(struct state *state, uint64_t steps)
{
    struct tb *recorded = state->tb;
    struct tb *scratch = tb_new("scratch");
    state->tb = scratch;
    tb_rank(scratch, 0);
    for (uint64_t step = 0; step < steps; step++)
        train_step(state, step);
    tb_free(scratch);
    state->tb = recorded;
}

static void load_checkpoint(struct state *state)
{
    const struct training *training = state->training;
    struct training plain = *training;
    plain.renumber = 0;
    state->training = &plain;
    run_silently(state, training->first);
    state->training = training;
    if (training->fresh_optimizer)
        state->has_moment = false;
    if (training->swap_moments) {
        uint64_t moment = state->moment[1];
        state->moment[1] = state->moment[2];
        state->moment[2] = moment;
    }
}

void training_record(struct tb *tb, const struct training *training)
{
    struct state state = {.training = training, .tb = tb, .lr = 0.01, .python = 3};
    state.global = tb_mix(training->seed, 1);
    tb_rank(tb, training->rank);
    initialise(&state, !training->no_init);
    if (training->first > 0)
        load_checkpoint(&state);
    for (uint64_t step = training->first; step < training->steps; step++) {
        if (planted(training->python_draw_at, step))
            draw(&state.python);
        if (planted(training->draw_at, step))
            draw(&state.global);
        record_boundary(&state, step);
        if (!train_step(&state, step))
            return;
    }
    record_boundary(&state, training->steps);
    tb_end(tb);
}

struct tb *training_new(const char *name, const struct training *training)
{
    struct tb *tb = tb_new(name);
    tb_metadata(tb, "num_threads", "cause", "1");
    tb_metadata(tb, "hostname", "context", "here");
    training_record(tb, training);
    return tb;
}
