/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_client: what recording costs the training thread, in its CPU time. Records go through the
 * whole library, with its sender thread at work, into a recording file. Waiting for room, which
 * takes no CPU, is reported too.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <diverge/diverge.h>

#include "tests/bench/bench.h"
#ifdef DVG_BENCH_MD5
#include "tests/bench/fingerprint_baseline.h"
#endif

enum {
    OPS = 1000, /* calls of a step; three records each */
    RECORDS = 3 * OPS,
    FLOATS = 256, /* 1 KiB */
    CASES_MAX = 8,
    ROUND_NS = 2000000,
};

static struct diverge_session *session;
static struct diverge_lane *lane;
static uint64_t step;
static diverge_name_t names[OPS];
static float data[FLOATS];
static struct diverge_fingerprint known;

static const int64_t sizes[2] = {16, 16};
static const struct diverge_tensor tensor = {
    .view = {.data = data, .dtype = DIVERGE_F32, .ndim = 2, .sizes = sizes}};

static void next_step(void)
{
    diverge_step(session, step++);
}

static void record(enum diverge_role role, uint16_t slot)
{
    struct diverge_observation what = {.role = role, .slot = slot, .tier = DIVERGE_TIER_DEFAULT};
    diverge_record_fingerprint(lane, &what, &tensor, &known, NULL);
}

/* A step as a framework's adapter records it: calls with two inputs and an output. */
static void run_ops(void *arg, uint64_t repeats)
{
    (void)arg;
    for (uint64_t i = 0; i < repeats; i++) {
        next_step();
        for (int op = 0; op < OPS; op++) {
            diverge_op_begin(lane, names[op], 0, NULL, 0);
            record(DIVERGE_ROLE_INPUT, 0);
            record(DIVERGE_ROLE_INPUT, 1);
            record(DIVERGE_ROLE_OUTPUT, 0);
            diverge_op_end(lane);
        }
    }
}

/* A boundary: parameters by name, outside any op. */
static void run_params(void *arg, uint64_t repeats)
{
    (void)arg;
    for (uint64_t i = 0; i < repeats; i++) {
        next_step();
        for (int k = 0; k < RECORDS; k++) {
            struct diverge_observation what = {
                .role = DIVERGE_ROLE_PARAM, .tier = DIVERGE_TIER_DEFAULT, .name = names[k % OPS]};
            what.slot = (uint16_t)(k / OPS);
            diverge_record_fingerprint(lane, &what, &tensor, &known, NULL);
        }
    }
}

static void run_calls(void *arg, uint64_t repeats)
{
    (void)arg;
    for (uint64_t i = 0; i < repeats; i++) {
        next_step();
        for (int op = 0; op < OPS; op++) {
            diverge_op_begin(lane, names[op], 0, NULL, 0);
            diverge_op_end(lane);
        }
    }
}

static void run_names(void *arg, uint64_t repeats)
{
    (void)arg;
    for (uint64_t i = 0; i < repeats; i++)
        dvg_bench_keep(diverge_name(session, "encoder.layer.3.attention.output"));
}

static void run_measured(void *arg, uint64_t repeats)
{
    (void)arg;
    struct diverge_observation what = {.role = DIVERGE_ROLE_PARAM, .tier = DIVERGE_TIER_DEFAULT};
    for (uint64_t i = 0; i < repeats; i++) {
        next_step();
        for (int k = 0; k < RECORDS; k++)
            diverge_record(lane, &what, &tensor, NULL);
    }
}

static void run_fingerprint(void *arg, uint64_t repeats)
{
    (void)arg;
    struct diverge_fingerprint fingerprint;
    for (uint64_t i = 0; i < repeats; i++) {
        diverge_fingerprint(&tensor.view, DIVERGE_WITH_STATISTICS | DIVERGE_WITH_SKETCH64,
                            &fingerprint);
        dvg_bench_keep(fingerprint.checksum);
    }
}

#ifdef DVG_BENCH_MD5
static void run_md5(void *arg, uint64_t repeats)
{
    (void)arg;
    for (uint64_t i = 0; i < repeats; i++)
        dvg_bench_keep(baseline_md5(data, sizeof(data)));
}
#endif

static uint64_t cpu_of(const struct dvg_bench_case *one)
{
    uint64_t start = dvg_bench_thread_cpu_ns();
    one->run(one->arg, one->repeats);
    return dvg_bench_thread_cpu_ns() - start;
}

/* As dvg_bench_rounds, by the thread's CPU time. */
static void run_rounds(const struct dvg_bench *bench, struct dvg_bench_case *cases, size_t n)
{
    static double samples[CASES_MAX][DVG_BENCH_MAX_ROUNDS];
    for (size_t i = 0; i < n; i++) {
        for (cases[i].repeats = 1; cpu_of(&cases[i]) < ROUND_NS;)
            cases[i].repeats *= 2;
    }
    for (int round = 0; round < bench->rounds; round++) {
        for (size_t i = 0; i < n; i++)
            samples[i][round] = (double)cpu_of(&cases[i]) / (double)cases[i].repeats;
    }
    for (size_t i = 0; i < n; i++)
        cases[i].median_ns = dvg_bench_median(samples[i], (size_t)bench->rounds);
}

static int open_session(char *path, size_t capacity)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, capacity, "%s/diverge-bench-%ld.dvg", folder ? folder : "/tmp", (long)getpid());
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.recording = path;
    /* Waits are part of the cost, if there are any: nothing may be dropped. */
    options.wait_ms = 10000;
    int rc = diverge_session_open(&options, &session);
    if (rc)
        return rc;
    lane = diverge_lane_open(session, "main");
    for (int i = 0; i < OPS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "aten::op_%d", i);
        names[i] = diverge_name(session, name);
    }
    for (int i = 0; i < FLOATS; i++)
        data[i] = (float)(i % 17) - 8.5f;
    return diverge_fingerprint(&tensor.view, DIVERGE_WITH_STATISTICS, &known);
}

enum { RUN_OPS, RUN_PARAMS, RUN_CALLS, RUN_NAMES, RUN_MEASURED, RUN_FINGERPRINT, RUN_MD5, CASES };

static void report(struct dvg_bench *bench, const struct dvg_bench_case *cases)
{
    dvg_bench_bar(bench, "record in an op, with its share of the call",
                  cases[RUN_OPS].median_ns / RECORDS, "ns", DVG_AT_MOST, 60);
    dvg_bench_bar(bench, "record outside ops", cases[RUN_PARAMS].median_ns / RECORDS, "ns",
                  DVG_AT_MOST, 60);
    dvg_bench_value(bench, "begin and end of a call", cases[RUN_CALLS].median_ns / OPS, "ns");
    dvg_bench_value(bench, "interned name looked up", cases[RUN_NAMES].median_ns, "ns");
    dvg_bench_value(bench, "record with fingerprint and statistics, 1 KiB",
                    cases[RUN_MEASURED].median_ns / RECORDS, "ns");
    dvg_bench_value(bench, "fingerprint, statistics and sketch, 1 KiB",
                    cases[RUN_FINGERPRINT].median_ns, "ns");
#ifdef DVG_BENCH_MD5
    dvg_bench_bar(bench, "MD5 against fingerprint, statistics and sketch, 1 KiB",
                  cases[RUN_MD5].median_ns / cases[RUN_FINGERPRINT].median_ns, "x", DVG_AT_LEAST,
                  12);
#endif
    struct diverge_session_stats stats;
    diverge_session_stats(session, &stats);
    dvg_bench_value(bench, "records", (double)stats.recorded, "");
    dvg_bench_bar(bench, "records dropped", (double)stats.dropped, "", DVG_AT_MOST, 0);
    dvg_bench_value(bench, "waited for room", (double)stats.wait_ns / 1e6, "ms");
    dvg_bench_value(bench, "frame bytes a record", (double)stats.bytes / (double)stats.recorded,
                    "B");
}

int main(int argc, char **argv)
{
    struct dvg_bench bench;
    if (dvg_bench_init(&bench, "client", argc, argv))
        return 64;
    char path[PATH_MAX];
    int rc = open_session(path, sizeof(path));
    if (rc) {
        fprintf(stderr, "bench_client: %s\n", diverge_strerror(rc));
        return 70;
    }
    struct dvg_bench_case cases[CASES] = {
        [RUN_OPS] = {.name = "ops", .run = run_ops},
        [RUN_PARAMS] = {.name = "params", .run = run_params},
        [RUN_CALLS] = {.name = "calls", .run = run_calls},
        [RUN_NAMES] = {.name = "names", .run = run_names},
        [RUN_MEASURED] = {.name = "measured", .run = run_measured},
        [RUN_FINGERPRINT] = {.name = "fingerprint", .run = run_fingerprint},
#ifdef DVG_BENCH_MD5
        [RUN_MD5] = {.name = "md5", .run = run_md5},
#endif
    };
#ifdef DVG_BENCH_MD5
    run_rounds(&bench, cases, CASES);
#else
    run_rounds(&bench, cases, RUN_MD5);
#endif
    report(&bench, cases);
    diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE);
    unlink(path);
    return dvg_bench_finish(&bench);
}
