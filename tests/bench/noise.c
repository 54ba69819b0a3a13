/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging by noise: A, B and a repeat of A differ in every record, and none of it is beyond noise,
 * so that every record of every step is looked at. In memory: what it costs to read a store is
 * another figure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/message.h"
#include "daemon/engine/engine.h"
#include "tests/bench/verdicts.h"

enum { RUNS = 3, STEPS = 200, RECORDS = 10000, VARIANTS = 8 /* of a step's records, in turn */ };
#define RECORDS_PER_SECOND 20e6

struct columns {
    uint64_t value[RECORDS], min[RECORDS], max[RECORDS];
    uint32_t type[RECORDS];
    float sum[RECORDS], l2[RECORDS];
    uint8_t state[RECORDS];
};

static struct trace {
    struct trace_site sites[RECORDS];
    const struct trace_site *list[RECORDS];
    char scopes[RECORDS][24];
    struct trace_layout layout;
    int64_t sizes[2];
    struct trace_type type;
    const struct trace_type *types[1];
    struct columns columns[RUNS][VARIANTS];
    struct trace_chunk chunks[RUNS][VARIANTS];
    struct trace_stream streams[RUNS];
    struct trace_run runs[RUNS];
} * trace;

static uint64_t float_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static void fill_columns(int run, int variant)
{
    struct columns *columns = &trace->columns[run][variant];
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint64_t mixed = ((uint64_t)i * VARIANTS + (uint64_t)variant + 1) * RUNS + (uint64_t)run;
        mixed *= UINT64_C(0x9e3779b97f4a7c15);
        float noise = 1 + 1e-5F * (float)((mixed >> 40) % 100) / 100;
        columns->value[i] = mixed >> 3;
        columns->l2[i] = 10 * noise;
        columns->sum[i] = 3 * noise;
        columns->min[i] = float_bits(-noise);
        columns->max[i] = float_bits(noise);
        columns->state[i] = DVG_STATE_STATS | DVG_STATE_RANGE | DVG_STATE_SUM | DVG_STATE_L2;
    }
    trace->chunks[run][variant] = (struct trace_chunk){.layout = &trace->layout,
                                                       .count = RECORDS,
                                                       .value = columns->value,
                                                       .type = columns->type,
                                                       .types = trace->types,
                                                       .n_types = 1,
                                                       .state = columns->state,
                                                       .sum = columns->sum,
                                                       .l2 = columns->l2,
                                                       .min = columns->min,
                                                       .max = columns->max};
}

static void make_layout(void)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint64_t key = (i + 1) * UINT64_C(0xbf58476d1ce4e5b9);
        snprintf(trace->scopes[i], sizeof trace->scopes[i], "layer.%" PRIu32, i / 8);
        struct trace_site *site = &trace->sites[i];
        *site = (struct trace_site){.tier = DIVERGE_TIER_OP,
                                    .phase = DIVERGE_PHASE_FORWARD,
                                    .role = DIVERGE_ROLE_OUTPUT,
                                    .slot = (uint16_t)(i % 8),
                                    .lane = "main",
                                    .region = "",
                                    .scope = trace->scopes[i],
                                    .op = "op",
                                    .name = ""};
        memcpy(site->digest.bytes, &key, sizeof key);
        trace->list[i] = site;
    }
    trace->layout = (struct trace_layout){.count = RECORDS, .sites = trace->list};
    trace->layout.digest.bytes[0] = 1;
    trace->sizes[0] = trace->sizes[1] = 64;
    trace->type = (struct trace_type){.kind = DIVERGE_KIND_TENSOR,
                                      .dtype = DIVERGE_F32,
                                      .ndim = 2,
                                      .sizes = trace->sizes,
                                      .group = ""};
    trace->types[0] = &trace->type;
}

static void make_run(int run)
{
    struct trace_stream *stream = &trace->streams[run];
    *stream = (struct trace_stream){.id = (uint64_t)run,
                                    .ended = true,
                                    .level = DIVERGE_TIER_OP,
                                    .spec = "",
                                    .fingerprint_id = "bench"};
    struct trace_track *track = &stream->tiers[DIVERGE_TIER_OP];
    track->present = true;
    track->start.bytes[0] = 1;
    track->first = 2;
    track->last = 2 * STEPS;
    track->segments = STEPS;
    track->records = (uint64_t)STEPS * RECORDS;
    trace->runs[run] = (struct trace_run){
        .name = "run", .status = "complete", .world = 1, .n_streams = 1, .streams = stream};
    for (int variant = 0; variant < VARIANTS; variant++)
        fill_columns(run, variant);
}

/* ---- the source ----------------------------------------------------------------------------- */

static int head_of(uint64_t stream, uint64_t step, struct trace_head *ret)
{
    *ret = (struct trace_head){.segment = 2 * step + 2, .records = RECORDS, .sealed = true};
    ret->layout.bytes[0] = 1;
    ret->rows_through = step + 1;
    ret->records_through = (step + 1) * RECORDS;
    uint64_t mark[2] = {stream + 1, step + 1};
    memcpy(ret->digest.bytes, mark, sizeof mark);
    memcpy(ret->chain.bytes, mark, sizeof mark);
    return 0;
}

static int head_at(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                   struct trace_head *ret)
{
    (void)ctx;
    if (tier != DIVERGE_TIER_OP || segment < 2)
        return DIVERGE_ENOTFOUND;
    uint64_t step = (segment - 2) / 2;
    return head_of(stream, step < STEPS ? step : STEPS - 1, ret);
}

static int head_from(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                     struct trace_head *ret)
{
    (void)ctx;
    uint64_t step = segment < 2 ? 0 : (segment - 1) / 2;
    if (tier != DIVERGE_TIER_OP || step >= STEPS)
        return DIVERGE_ENOTFOUND;
    return head_of(stream, step, ret);
}

static int load(void *ctx, uint64_t stream, enum diverge_tier tier, uint64_t segment,
                struct trace_chunk **ret)
{
    (void)ctx;
    (void)tier;
    *ret = &trace->chunks[stream][segment / 2 % VARIANTS];
    return 0;
}

static void release(void *ctx, struct trace_chunk *chunk)
{
    (void)ctx;
    (void)chunk;
}

static const struct trace_source source = {
    .head_at = head_at, .head_from = head_from, .load = load, .release = release};

/* ---- measuring ------------------------------------------------------------------------------ */

static void judge(void *arg, uint64_t repeats)
{
    const struct engine_repeat again = {.source = &source, .run = &trace->runs[2]};
    struct engine_options options = ENGINE_OPTIONS_INIT;
    (void)arg;
    options.repeats[0] = &again;
    options.n_repeats[0] = 1;
    options.excuse_noise = true;
    for (uint64_t i = 0; i < repeats; i++) {
        struct engine_answer *answer = NULL;
        int rc = engine_first_diff(&source, &trace->runs[0], &source, &trace->runs[1], &options,
                                   &answer);
        if (rc || answer->result != ENGINE_WITHIN_NOISE ||
            answer->noise.records != (uint64_t)STEPS * RECORDS ||
            answer->noise.noisy != answer->noise.records) {
            fprintf(stderr, "bench_verdicts: noise: not all was judged\n");
            exit(70);
        }
        engine_answer_free(answer);
    }
}

void bench_noise(struct dvg_bench *bench)
{
    trace = calloc(1, sizeof *trace);
    if (!trace) {
        fprintf(stderr, "bench_verdicts: noise: no memory\n");
        exit(71);
    }
    make_layout();
    for (int run = 0; run < RUNS; run++)
        make_run(run);
    struct dvg_bench_case one = {.name = "noise", .run = judge, .repeats = 1, .cpu = true};
    dvg_bench_rounds(bench, &one, 1);
    dvg_bench_value(bench, "noise: 200 steps of 10 000 records", one.median_ns / 1e6, "ms");
    dvg_bench_bar(bench, "noise: records of A judged per second",
                  (double)STEPS * RECORDS / (one.median_ns / 1e9), "1/s", DVG_AT_LEAST,
                  RECORDS_PER_SECOND);
    free(trace);
}
