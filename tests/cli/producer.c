/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tiny training loop on libdiverge for the CLI tests: one weight, one op, one scalar a step;
 * differences are planted by options. What it records depends on nothing else, so two runs with
 * equal options are equal.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <diverge/diverge.h>

enum { WIDTH = 4 };

struct plan {
    uint64_t steps;
    uint64_t resume;     /* steps trained before anything is recorded, as after a restart */
    int64_t op_fault;    /* step at which the op's output differs; -1: none */
    int64_t param_fault; /* boundary at which the weight differs */
    int64_t lr_fault;    /* step at which lr differs */
    int64_t nan_at;      /* step at which the op's output has a NaN */
    int64_t extra_op;    /* step with one more op */
    int64_t kill_at;     /* step in which the process kills itself */
    int64_t pause_at;    /* step before which it says "ready" and waits for a line */
    const char *scope;
    const char *metadata; /* value of the cause key num_threads */
    int status;
    int signal; /* raised at the end; 0: none */
    bool wait;  /* says "ready" and waits for a signal after the last step */
};

static float weight[WIDTH];

static const int64_t shape[] = {WIDTH};

static struct diverge_tensor tensor(const float *data)
{
    return (struct diverge_tensor){
        .view = {.data = data, .dtype = DIVERGE_F32, .ndim = 1, .sizes = shape},
    };
}

static void record(struct diverge_lane *lane, enum diverge_role role, diverge_name_t name,
                   const float *data, diverge_ref_t *ret)
{
    const struct diverge_observation what = {
        .role = role, .name = name, .tier = DIVERGE_TIER_DEFAULT};
    const struct diverge_tensor view = tensor(data);

    diverge_record(lane, &what, &view, ret);
}

static void record_boundary(struct diverge_session *session, struct diverge_lane *lane,
                            const struct plan *plan, uint64_t k)
{
    diverge_boundary(session, k);
    if ((int64_t)k == plan->param_fault)
        weight[2] += 0.5f;
    record(lane, DIVERGE_ROLE_PARAM, diverge_name(session, "fc.weight"), weight, NULL);
}

static void run_op(struct diverge_session *session, struct diverge_lane *lane, const char *op,
                   const float *input, float *output)
{
    diverge_op_begin(lane, diverge_name(session, op), 0, "alpha=1",
                     diverge_name(session, "model.c:42"));
    record(lane, DIVERGE_ROLE_INPUT, 0, input, NULL);
    record(lane, DIVERGE_ROLE_OUTPUT, 0, output, NULL);
    diverge_op_end(lane);
}

/* One step of arithmetic; weights stay bounded. */
static void compute(const struct plan *plan, uint64_t k, float output[WIDTH])
{
    for (int i = 0; i < WIDTH; i++)
        output[i] = weight[i] * (float)((plan->resume + k) % 5 + 1);
}

static void update(const float output[WIDTH])
{
    for (int i = 0; i < WIDTH; i++)
        weight[i] = 0.9f * weight[i] + 0.01f * output[i] + 0.1f * (float)(i + 1);
}

static void record_step(struct diverge_session *session, struct diverge_lane *lane,
                        const struct plan *plan, uint64_t k)
{
    const struct diverge_observation lr = {.role = DIVERGE_ROLE_SCALAR,
                                           .name = diverge_name(session, "lr"),
                                           .tier = DIVERGE_TIER_DEFAULT};
    const struct diverge_observation loss = {.role = DIVERGE_ROLE_LOSS,
                                             .name = diverge_name(session, "loss"),
                                             .tier = DIVERGE_TIER_DEFAULT};
    float output[WIDTH];
    double sum = 0;

    diverge_step(session, k);
    diverge_counter(session, "global_step", (int64_t)(plan->resume + k) * 10);
    diverge_phase(lane, DIVERGE_PHASE_FORWARD);
    diverge_scope(lane, diverge_name(session, plan->scope));
    compute(plan, k, output);
    if ((int64_t)k == plan->op_fault)
        output[1] += 0.25f;
    if ((int64_t)k == plan->nan_at)
        output[3] = 0.0f / (output[3] - output[3]);
    run_op(session, lane, "scale", weight, output);
    if ((int64_t)k == plan->extra_op)
        run_op(session, lane, "log", output, output);
    if ((int64_t)k == plan->kill_at) {
        diverge_flush(session, 10000);
        raise(SIGKILL);
    }
    for (int i = 0; i < WIDTH; i++)
        sum += output[i];
    diverge_scope(lane, 0);
    diverge_phase(lane, DIVERGE_PHASE_LOSS);
    diverge_record_float(lane, &loss, sum);
    diverge_phase(lane, DIVERGE_PHASE_OPTIMIZER);
    diverge_record_float(lane, &lr, (int64_t)k == plan->lr_fault ? 0.009 : 0.0095);
    update(output);
}

static void train_unseen(const struct plan *plan)
{
    const struct plan from_start = {0};
    float output[WIDTH];

    for (uint64_t k = 0; k < plan->resume; k++) {
        compute(&from_start, k, output);
        update(output);
    }
}

static void wait_for_line(void)
{
    puts("ready");
    fflush(stdout);
    while (getchar() != '\n' && !feof(stdin))
        ;
}

static int train(const struct plan *plan)
{
    struct diverge_metadata metadata[] = {{"num_threads", plan->metadata}};
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    struct diverge_session *session = NULL;

    options.metadata = metadata;
    options.n_metadata = plan->metadata ? 1 : 0;
    diverge_session_open(&options, &session);
    struct diverge_lane *lane = diverge_lane_open(session, "main");

    for (int i = 0; i < WIDTH; i++)
        weight[i] = (float)(i + 1);
    train_unseen(plan);
    record_boundary(session, lane, plan, 0);
    for (uint64_t k = 0; k < plan->steps; k++) {
        if ((int64_t)k == plan->pause_at)
            wait_for_line();
        record_step(session, lane, plan, k);
        record_boundary(session, lane, plan, k + 1);
        if (k % 256 == 255) /* runs far ahead of any real job otherwise, and would drop */
            diverge_flush(session, 10000);
    }
    if (plan->wait) {
        diverge_flush(session, 10000);
        puts("ready");
        fflush(stdout);
        for (;;)
            pause();
    }
    return diverge_session_close(session,
                                 plan->status ? DIVERGE_OUTCOME_FAILED : DIVERGE_OUTCOME_COMPLETE);
}

static void read_options(int argc, char **argv, struct plan *plan)
{
    static const struct option table[] = {
        {"steps", 1, NULL, 's'},    {"op-fault", 1, NULL, 'o'}, {"param-fault", 1, NULL, 'p'},
        {"lr-fault", 1, NULL, 'l'}, {"nan-at", 1, NULL, 'n'},   {"extra-op", 1, NULL, 'e'},
        {"kill-at", 1, NULL, 'k'},  {"scope", 1, NULL, 'c'},    {"threads", 1, NULL, 't'},
        {"status", 1, NULL, 'x'},   {"signal", 1, NULL, 'g'},   {"wait", 0, NULL, 'w'},
        {"resume", 1, NULL, 'r'},   {"pause-at", 1, NULL, 'a'}, {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (option) {
        case 's':
            plan->steps = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            plan->resume = strtoull(optarg, NULL, 10);
            break;
        case 'a':
            plan->pause_at = atoll(optarg);
            break;
        case 'o':
            plan->op_fault = atoll(optarg);
            break;
        case 'p':
            plan->param_fault = atoll(optarg);
            break;
        case 'l':
            plan->lr_fault = atoll(optarg);
            break;
        case 'n':
            plan->nan_at = atoll(optarg);
            break;
        case 'e':
            plan->extra_op = atoll(optarg);
            break;
        case 'k':
            plan->kill_at = atoll(optarg);
            break;
        case 'c':
            plan->scope = optarg;
            break;
        case 't':
            plan->metadata = optarg;
            break;
        case 'x':
            plan->status = atoi(optarg);
            break;
        case 'g':
            plan->signal = atoi(optarg);
            break;
        case 'w':
            plan->wait = true;
            break;
        default:
            exit(64);
        }
    }
}

int main(int argc, char **argv)
{
    struct plan plan = {.steps = 8,
                        .op_fault = -1,
                        .param_fault = -1,
                        .lr_fault = -1,
                        .nan_at = -1,
                        .extra_op = -1,
                        .kill_at = -1,
                        .pause_at = -1,
                        .scope = "fc",
                        .metadata = "1"};

    read_options(argc, argv, &plan);
    int status = train(&plan);

    if (status && status != DIVERGE_ECLOSED) {
        fprintf(stderr, "producer: %s\n", diverge_strerror(status));
        return 70;
    }
    if (plan.signal)
        raise(plan.signal);
    return plan.status;
}
