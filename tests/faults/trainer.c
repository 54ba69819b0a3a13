/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small real training on libdiverge, as the shared library, to run with faults injected. Its own
 * memory is static and it writes to its standard output alone, past libc's buffers, so every fault
 * hits libdiverge. It ignores what calls return, as trainings do, and says on stdout what it was
 * told:
 *
 *     step K FLUSH DROPPED COMMITTED             after each flush
 *     end OPEN CLOSE RECORDED DROPPED RESULT     RESULT: the trained weights' bits, hashed
 *
 * usage: fault_trainer STEPS FLUSH_EVERY FLUSH_MS [FAULT_STEP]
 *
 * At FAULT_STEP the training really differs.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <diverge/macros.h>

enum { INPUTS = 16, OUTPUTS = 8, BATCH = 4, OPS = 12, PATIENT_MS = 1000 };

static float weight[OUTPUTS][INPUTS];
static float momentum[OUTPUTS][INPUTS];
static float gradient[OUTPUTS][INPUTS];
static float input[BATCH][INPUTS];
static float output[BATCH][OUTPUTS];
static uint64_t generator = 1;

struct trainer {
    struct diverge_session *session;
    struct diverge_lane *lane;
    struct diverge_lane *other;
    uint64_t steps;
    uint64_t flush_every;
    int flush_ms;
    uint64_t fault_step;
};

static float draw(void)
{
    generator = generator * 6364136223846793005u + 1442695040888963407u;
    return (float)(generator >> 40) / (float)(1 << 24) - 0.5f;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (write(STDOUT_FILENO, line, (size_t)size) != size)
        _exit(74);
}

/* ---- one step -------------------------------------------------------------------------------- */

static void load_batch(struct trainer *t, uint64_t k)
{
    static int64_t ids[BATCH];
    for (int b = 0; b < BATCH; b++) {
        ids[b] = (int64_t)k * BATCH + b;
        for (int i = 0; i < INPUTS; i++)
            input[b][i] = draw();
    }
    const struct diverge_tensor x =
        diverge_dense(DIVERGE_F32, input, 2, DIVERGE_SIZES(BATCH, INPUTS));
    diverge_phase(t->lane, DIVERGE_PHASE_DATA);
    diverge_batch_ids(t->lane, ids, BATCH);
    diverge_batch(t->lane, "x", &x.view);
}

static double forward(struct trainer *t)
{
    double loss = 0;
    diverge_phase(t->lane, DIVERGE_PHASE_FORWARD);
    DIVERGE_OP_WITH(t->lane, "linear", "fc", "bias=False")
    {
        diverge_input_f32(t->lane, 0, &input[0][0], 2, DIVERGE_SIZES(BATCH, INPUTS));
        for (int b = 0; b < BATCH; b++) {
            for (int o = 0; o < OUTPUTS; o++) {
                output[b][o] = 0;
                for (int i = 0; i < INPUTS; i++)
                    output[b][o] += weight[o][i] * input[b][i];
                loss += (double)output[b][o] * (double)output[b][o];
            }
        }
        diverge_output_f32(t->lane, 0, &output[0][0], 2, DIVERGE_SIZES(BATCH, OUTPUTS));
    }
    for (int op = 0; op < OPS; op++) {
        char name[16];
        snprintf(name, sizeof(name), "op%d", op);
        DIVERGE_OP(t->lane, name, "head")
        diverge_output_f32(t->lane, 0, &output[0][0], 1, DIVERGE_SIZES(op + 1));
    }
    return loss;
}

static void backward(struct trainer *t)
{
    diverge_phase(t->lane, DIVERGE_PHASE_BACKWARD);
    memset(gradient, 0, sizeof(gradient));
    for (int b = 0; b < BATCH; b++) {
        for (int o = 0; o < OUTPUTS; o++) {
            for (int i = 0; i < INPUTS; i++)
                gradient[o][i] += output[b][o] * input[b][i];
        }
    }
    diverge_grad_f32(t->lane, "fc.weight", &gradient[0][0], 2, DIVERGE_SIZES(OUTPUTS, INPUTS));
    /* What a device would do: the record is reserved in order and filled in later. */
    struct diverge_observation what = diverge_what(t->other, DIVERGE_ROLE_GRAD, 1, "fc.weight");
    struct diverge_tensor tensor =
        diverge_dense(DIVERGE_F32, gradient, 2, DIVERGE_SIZES(OUTPUTS, INPUTS));
    struct diverge_fingerprint fingerprint;
    uint64_t token = 0;
    if (diverge_reserve(t->other, &what, &tensor, &token) == 0 &&
        diverge_fingerprint(&tensor.view, DIVERGE_WITH_STATISTICS, &fingerprint) == 0)
        diverge_complete(t->session, token, &fingerprint);
}

static void update(struct trainer *t, uint64_t k)
{
    diverge_phase(t->lane, DIVERGE_PHASE_OPTIMIZER);
    diverge_scalar(t->lane, "lr", 0.05);
    float rate = k == t->fault_step ? 0.0625f : 0.05f;
    for (int o = 0; o < OUTPUTS; o++) {
        for (int i = 0; i < INPUTS; i++) {
            momentum[o][i] = 0.9f * momentum[o][i] + gradient[o][i];
            weight[o][i] -= rate * momentum[o][i];
        }
    }
}

static void boundary(struct trainer *t, uint64_t k)
{
    diverge_boundary(t->session, k);
    diverge_param_f32(t->lane, "fc.weight", &weight[0][0], 2, DIVERGE_SIZES(OUTPUTS, INPUTS));
    diverge_optstate_f32(t->lane, "fc.weight", &momentum[0][0], 2, DIVERGE_SIZES(OUTPUTS, INPUTS));
    diverge_rng(t->lane, "own", 0, &generator, sizeof(generator));
}

static void flush(struct trainer *t, uint64_t k)
{
    struct diverge_session_stats stats = {0};
    int rc = diverge_flush(t->session, t->flush_ms);
    diverge_session_stats(t->session, &stats);
    if (rc && t->flush_ms < PATIENT_MS)
        t->flush_ms = 0; /* not again for every step */
    say("step %" PRIu64 " %d %" PRIu64 " %" PRIu64 "\n", k, rc, stats.dropped, stats.committed);
}

static void train_step(struct trainer *t, uint64_t k)
{
    diverge_step(t->session, k);
    diverge_counter(t->session, "global_step", (int64_t)k);
    load_batch(t, k);
    double loss = forward(t);
    diverge_phase(t->lane, DIVERGE_PHASE_LOSS);
    diverge_loss(t->lane, loss);
    backward(t);
    update(t, k);
    boundary(t, k + 1);
    if ((k + 1) % t->flush_every == 0)
        flush(t, k);
}

static uint64_t result(void)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    const unsigned char *bytes = (const unsigned char *)weight;
    for (size_t i = 0; i < sizeof(weight); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 64;
    struct trainer t = {
        .steps = strtoull(argv[1], NULL, 10),
        .flush_every = strtoull(argv[2], NULL, 10),
        .flush_ms = atoi(argv[3]),
        .fault_step = argc > 4 ? strtoull(argv[4], NULL, 10) : UINT64_MAX,
    };
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.ring_bytes = 256 * 1024;
    int opened = diverge_session_open(&options, &t.session);
    t.lane = diverge_lane_open(t.session, "main");
    t.other = diverge_lane_open(t.session, "other");
    for (int o = 0; o < OUTPUTS; o++) {
        for (int i = 0; i < INPUTS; i++)
            weight[o][i] = draw();
    }
    boundary(&t, 0);
    for (uint64_t k = 0; k < t.steps; k++)
        train_step(&t, k);
    struct diverge_session_stats stats = {0};
    diverge_session_stats(t.session, &stats);
    int closed = diverge_session_close(t.session, DIVERGE_OUTCOME_COMPLETE);
    say("end %d %d %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", opened, closed, stats.recorded,
        stats.dropped, result());
    return 0;
}
