/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second run that is equal to the first in nine segments of ten: how much faster and smaller than
 * the first, in the store's own process. Also what a record costs there, in bytes and CPU.
 *
 * The data is that of a training run at level op: three records a call, inputs that repeat an
 * earlier output, float32 statistics, ranges, few zeros.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/store.h"
#include "tests/bench/bench.h"

enum {
    RECORDS = 5000,
    PART = 1000,
    SEGMENTS = 400,
    COMMIT = 100, /* segments a group: about 32 MiB of frames, the daemon's default */
};

/* Columns that are the same in each step. */
static struct {
    uint32_t type[RECORDS];
    uint64_t argument[RECORDS];
    uint8_t state[RECORDS];
    uint32_t order[RECORDS];
    uint32_t producer[RECORDS];
} steady;

struct step { /* a segment's own columns */
    uint64_t value[RECORDS];
    float sum[RECORDS];
    float l2[RECORDS];
    uint64_t min[RECORDS];
    uint64_t max[RECORDS];
    uint64_t zero[RECORDS];
};

static uint64_t random_state = 1;

static uint64_t next_random(void)
{
    uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static float normal(float scale)
{
    double u = ((double)(next_random() >> 11) + 1) / 9007199254740993.0;
    double v = (double)(next_random() >> 11) / 9007199254740992.0;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v)) * scale;
}

static uint64_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Every record's values are its own, as when each is measured: nothing repeats by chance. */
static void fill_step(struct step *step, uint64_t seed)
{
    random_state = seed * 1000003;
    for (uint32_t i = 0; i < RECORDS; i++) {
        float scale = 0.01f * (float)(1 + i % 97);
        step->value[i] = next_random() >> 3;
        step->sum[i] = normal(scale * 30);
        step->l2[i] = fabsf(normal(scale * 100)) + scale;
        step->min[i] = float_bits(-fabsf(normal(scale)) - scale);
        step->max[i] = float_bits(fabsf(normal(scale)) + scale);
        step->zero[i] = i % 11 == 0 ? next_random() % 4096 : 0;
    }
}

static void fill_steady(void)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint32_t call = i / 3;
        steady.type[i] = 1 + (call + i) % 7;
        steady.argument[i] = call % 5 ? (uint64_t)(call % 40) * UINT64_C(0x9e3779b97f4a7c15) : 0;
        steady.state[i] = DVG_STATE_STATS | DVG_STATE_RANGE | DVG_STATE_SUM | DVG_STATE_L2;
        steady.order[i] = i;
        steady.producer[i] = i % 3 == 2 || i < 30 ? 0 : i - 2 - i % 3;
    }
}

struct bench_run {
    struct store *store;
    struct store_stream *stream;
    uint32_t lane;
    uint32_t sites[RECORDS];
    uint32_t sources[RECORDS];
    uint32_t types[8];
    uint64_t wall_ns;
    uint64_t cpu_ns;
};

static void must(int rc, const struct store *store)
{
    if (!rc)
        return;
    fprintf(stderr, "bench_dedup: %d %s\n", rc, store ? store_error_text(store) : "");
    exit(70);
}

static uint32_t string_row(struct store *store, const char *text)
{
    uint32_t row = 0;
    struct dvg_bytes bytes = {.data = (const uint8_t *)text, .size = strlen(text)};
    must(store_string(store, bytes, &row), store);
    return row;
}

static void define(struct bench_run *run)
{
    struct store *store = run->store;
    run->lane = string_row(store, "main");
    for (int64_t i = 1; i < 8; i++) {
        int64_t sizes[2] = {64 * i, 768};
        struct dvg_type type = {.dtype = DIVERGE_F32, .ndim = 2, .sizes = (const uint8_t *)sizes};
        must(store_type(store, &type, &run->types[i]), store);
    }
    for (uint32_t i = 0; i < RECORDS; i++) {
        char scope[48];
        char source[48];
        snprintf(scope, sizeof scope, "encoder.layer.%u.attention", i / 120);
        snprintf(source, sizeof source, "model.py:%u", i / 3 % 200);
        struct store_site site = {
            .tier = DIVERGE_TIER_OP,
            .phase = i < RECORDS / 2 ? DIVERGE_PHASE_FORWARD : DIVERGE_PHASE_BACKWARD,
            .role = i % 3 == 2 ? DIVERGE_ROLE_OUTPUT : DIVERGE_ROLE_INPUT,
            .slot = (uint16_t)(i % 3),
            .occurrence = i % 120 / 3,
            .lane = run->lane,
            .scope = string_row(store, scope),
            .op = string_row(store, "aten::addmm"),
        };
        must(store_site(store, &site, &run->sites[i]), store);
        run->sources[i] = string_row(store, source);
    }
}

static void begin_run(struct bench_run *run, struct store *store, uint8_t number)
{
    *run = (struct bench_run){.store = store};
    uint8_t run_id[16] = {number};
    struct store_run opened;
    must(store_run_open(store, run_id, "bench", 1, &opened), store);
    struct store_stream_options options = {
        .stream_id = {number},
        .run = opened.id,
        .epoch = 1,
        .level = DIVERGE_TIER_OP,
        .spec = "",
        .fingerprint_id = "l61.1",
        .client = "bench",
    };
    uint64_t seq;
    must(store_stream_open(store, &options, &run->stream, &seq), store);
    define(run);
    must(store_commit(store), store);
}

static void append_part(struct bench_run *run, const struct step *step, uint64_t segment,
                        uint32_t from)
{
#define COLUMN(array)                                                                              \
    {                                                                                              \
        .data = (const uint8_t *)((array) + from), .size = PART * sizeof(array)[0]                 \
    }
    struct dvg_part wire = {
        .segment = segment,
        .tier = DIVERGE_TIER_OP,
        .count = PART,
        .first = from,
        .columns = {COLUMN(step->value), COLUMN(steady.type), COLUMN(steady.argument),
                    COLUMN(steady.state), COLUMN(steady.order), COLUMN(steady.producer),
                    COLUMN(step->sum), COLUMN(step->l2), COLUMN(step->min), COLUMN(step->max),
                    COLUMN(step->zero)},
    };
#undef COLUMN
    struct store_part part = {
        .wire = &wire,
        .lane = run->lane,
        .sites = run->sites + from,
        .sources = run->sources + from,
        .types = run->types,
        .n_types = 8,
    };
    must(store_part_append(run->stream, &part), run->store);
}

static void record_segment(struct bench_run *run, const struct step *step, uint64_t segment)
{
    /* A frame has just been read from its socket: it is in the cache, and reading it is not timed.
     */
    static struct step frame;
    memcpy(&frame, step, sizeof frame);
    uint64_t wall = dvg_bench_now_ns();
    uint64_t cpu = dvg_bench_thread_cpu_ns();
    for (uint32_t from = 0; from < RECORDS; from += PART)
        append_part(run, &frame, segment, from);
    struct dvg_end end = {
        .segment = segment,
        .records = {[DIVERGE_TIER_OP] = RECORDS},
        .wanted = 1u << DIVERGE_TIER_OP,
    };
    must(store_segment_seal(run->stream, &end), run->store);
    store_stream_set_seq(run->stream, segment + 1);
    if ((segment + 1) % COMMIT == 0) {
        must(store_commit(run->store), run->store);
        must(store_checkpoint(run->store, UINT64_C(64) << 20), run->store);
    }
    run->cpu_ns += dvg_bench_thread_cpu_ns() - cpu;
    run->wall_ns += dvg_bench_now_ns() - wall;
}

static uint64_t file_bytes(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

struct measure {
    double wall_ns;
    double cpu_ns;
    double bytes;
};

/* Records a run whose steps have these seeds, up to and with the checkpoint. */
static struct measure record_run(const char *path, uint8_t number, const struct step *steps,
                                 const uint32_t *order)
{
    struct store *store = NULL;
    struct store_error error = {{0}};
    uint64_t before = file_bytes(path);
    if (store_open(path, NULL, &store, &error)) {
        fprintf(stderr, "bench_dedup: %s\n", error.text);
        exit(70);
    }
    static struct bench_run run;
    begin_run(&run, store, number);
    for (uint64_t segment = 0; segment < SEGMENTS; segment++)
        record_segment(&run, &steps[order[segment]], segment);
    uint64_t wall = dvg_bench_now_ns();
    uint64_t cpu = dvg_bench_thread_cpu_ns();
    must(store_stream_end(run.stream, DIVERGE_OUTCOME_COMPLETE, 0), store);
    must(store_commit(store), store);
    must(store_checkpoint(store, 0), store);
    struct measure result = {
        .wall_ns = (double)(run.wall_ns + dvg_bench_now_ns() - wall),
        .cpu_ns = (double)(run.cpu_ns + dvg_bench_thread_cpu_ns() - cpu),
    };
    store_close(store);
    result.bytes = (double)(file_bytes(path) - before);
    return result;
}

static void remove_store(const char *path)
{
    char beside[256];
    unlink(path);
    snprintf(beside, sizeof beside, "%s-wal", path);
    unlink(beside);
    snprintf(beside, sizeof beside, "%s-shm", path);
    unlink(beside);
}

int main(int argc, char **argv)
{
    struct dvg_bench bench;
    if (dvg_bench_init(&bench, "dedup", argc, argv))
        return 64;
    /* In memory where there is some: what is measured is the store, not whose disk it is. */
    bool memory = access("/dev/shm", W_OK | X_OK) == 0;
    char folder[64];
    char path[96];
    snprintf(folder, sizeof folder, "%s/dvg-bench-XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        return 70;
    snprintf(path, sizeof path, "%s/diverge.db", folder);
    /* The second run's tenth segments are steps of their own. */
    enum { OWN = SEGMENTS / 10 };
    struct step *steps = malloc((SEGMENTS + OWN) * sizeof *steps);
    if (!steps)
        return 70;
    uint32_t first[SEGMENTS];
    uint32_t second[SEGMENTS];
    fill_steady();
    for (uint32_t i = 0; i < SEGMENTS + OWN; i++)
        fill_step(&steps[i], i + 1);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        first[i] = i;
        second[i] = i % 10 == 9 ? SEGMENTS + i / 10 : i;
    }
    enum { WALL, CPU, BYTES, FIGURES };
    static double fresh[FIGURES][DVG_BENCH_MAX_ROUNDS];
    static double again[FIGURES][DVG_BENCH_MAX_ROUNDS];
    for (int round = 0; round < bench.rounds; round++) {
        struct measure one = record_run(path, 1, steps, first);
        struct measure two = record_run(path, 2, steps, second);
        fresh[WALL][round] = one.wall_ns;
        fresh[CPU][round] = one.cpu_ns;
        fresh[BYTES][round] = one.bytes;
        again[WALL][round] = two.wall_ns;
        again[CPU][round] = two.cpu_ns;
        again[BYTES][round] = two.bytes;
        remove_store(path);
    }
    free(steps);
    rmdir(folder);
    double one[FIGURES];
    double two[FIGURES];
    for (int i = 0; i < FIGURES; i++) {
        one[i] = dvg_bench_median(fresh[i], (size_t)bench.rounds);
        two[i] = dvg_bench_median(again[i], (size_t)bench.rounds);
    }
    double records = SEGMENTS * (double)RECORDS;
    dvg_bench_bar(&bench, "second run, 90 % equal: faster", one[WALL] / two[WALL], "x",
                  DVG_AT_LEAST, 5);
    dvg_bench_bar(&bench, "second run, 90 % equal: smaller", one[BYTES] / two[BYTES], "x",
                  DVG_AT_LEAST, 8);
    dvg_bench_bar(&bench, "bytes a record, first run", one[BYTES] / records, "B", DVG_AT_MOST, 28);
    dvg_bench_value(&bench, "second run: less CPU", one[CPU] / two[CPU], "x");
    dvg_bench_value(&bench, "CPU a record, first run", one[CPU] / records, "ns");
    dvg_bench_value(&bench, "CPU a record, second run", two[CPU] / records, "ns");
    return dvg_bench_finish(&bench);
}
