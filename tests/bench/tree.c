/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64 runs in a real store, in 16 end states of 4: they part at a fifth, two, three and four fifths
 * of their steps. A run has a loss a step, and a parameter every 1 000 steps.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/engine/tree.h"
#include "daemon/store/reader.h"
#include "daemon/store/store.h"
#include "tests/bench/verdicts.h"

enum { RUNS = 64, SPLITS = 4, STATE_EVERY = 1000, MEMORY_MAX_MIB = 256 };

extern char **environ;

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench_verdicts: tree: %s: %d\n", what, rc);
    exit(70);
}

/* ---- recording ------------------------------------------------------------------------------ */

struct recorder {
    struct store *store;
    struct store_stream *stream;
    uint32_t lane, loss, parameter;
    uint32_t types[2];
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) >> 3;
}

static uint32_t string_row(struct store *store, const char *text)
{
    uint32_t row = 0;
    must(store_string(store, (struct dvg_bytes){(const uint8_t *)text, strlen(text)}, &row),
         "string");
    return row;
}

static uint32_t site_row(struct recorder *r, enum diverge_tier tier, enum diverge_phase phase,
                         enum diverge_role role, const char *name)
{
    uint32_t none = string_row(r->store, ""), row = 0;
    struct store_site site = {.tier = tier,
                              .phase = phase,
                              .role = role,
                              .lane = r->lane,
                              .region = none,
                              .scope = none,
                              .op = none,
                              .name = string_row(r->store, name)};
    must(store_site(r->store, &site, &row), "site");
    return row;
}

static void define(struct recorder *r)
{
    const int64_t sizes[2] = {64, 64};
    struct dvg_type type = {.dtype = DIVERGE_F32, .ndim = 2, .sizes = (const uint8_t *)sizes};
    r->lane = string_row(r->store, "main");
    must(store_type(r->store, &type, &r->types[1]), "type");
    r->loss = site_row(r, DIVERGE_TIER_PULSE, DIVERGE_PHASE_LOSS, DIVERGE_ROLE_LOSS, "loss");
    r->parameter =
        site_row(r, DIVERGE_TIER_STEP, DIVERGE_PHASE_BOUNDARY, DIVERGE_ROLE_PARAM, "weight");
}

static void record(struct recorder *r, uint64_t segment, enum diverge_tier tier, uint32_t site,
                   uint64_t value)
{
    static const uint32_t one[1] = {1}, zero[1] = {0};
    struct dvg_part wire = {.segment = segment, .tier = tier, .count = 1};
    wire.columns[DVG_COLUMN_VALUE] = (struct dvg_bytes){(const uint8_t *)&value, sizeof value};
    wire.columns[DVG_COLUMN_TYPE] = (struct dvg_bytes){(const uint8_t *)one, sizeof one};
    wire.columns[DVG_COLUMN_ORDER] = (struct dvg_bytes){(const uint8_t *)zero, sizeof zero};
    struct store_part part = {.wire = &wire,
                              .lane = r->lane,
                              .sites = &site,
                              .sources = zero,
                              .types = r->types,
                              .n_types = 2};
    struct dvg_end end = {.segment = segment, .wanted = (uint8_t)(1u << tier)};
    end.records[tier] = 1;
    must(store_part_append(r->stream, &part), store_error_text(r->store));
    must(store_segment_seal(r->stream, &end), store_error_text(r->store));
    store_stream_set_seq(r->stream, segment + 1);
}

/* What happened to a run until step k: bit n is set from the nth split on, for half of the runs. */
static uint64_t history(unsigned run, uint64_t k, uint64_t steps)
{
    uint64_t bits = 0;
    for (unsigned n = 0; n < SPLITS; n++)
        if (k >= steps * (n + 1) / (SPLITS + 1) && (run >> n & 1))
            bits |= 1u << n;
    return bits;
}

static void record_run(struct store *store, unsigned number, uint64_t steps)
{
    struct recorder r = {.store = store};
    struct store_run run;
    uint8_t run_id[16] = {(uint8_t)(number + 1)};
    char name[16];
    uint64_t seq;
    snprintf(name, sizeof name, "run%u", number);
    must(store_begin(store), "begin");
    must(store_run_open(store, run_id, name, 1, &run), "run");
    struct store_stream_options options = {.stream_id = {(uint8_t)(number + 1)},
                                           .run = run.id,
                                           .epoch = 1,
                                           .level = DIVERGE_TIER_STEP,
                                           .spec = "",
                                           .fingerprint_id = "l61.1",
                                           .client = "bench"};
    must(store_stream_open(store, &options, &r.stream, &seq), "stream");
    define(&r);
    for (uint64_t k = 0; k <= steps; k++) {
        if (k % STATE_EVERY == 0 || k == steps)
            record(&r, diverge_segment_of_boundary(k), DIVERGE_TIER_STEP, r.parameter,
                   mix(k, k ? history(number, k - 1, steps) : 0));
        if (k < steps)
            record(&r, diverge_segment_of_step(k), DIVERGE_TIER_PULSE, r.loss,
                   mix(k, 100 + history(number, k, steps)));
        if (k % 4000 == 3999) {
            must(store_commit(store), store_error_text(store));
            must(store_begin(store), "begin");
        }
    }
    must(store_stream_end(r.stream, DIVERGE_OUTCOME_COMPLETE, 0), "end");
    must(store_commit(store), store_error_text(store));
    store_stream_close(r.stream);
}

/* ---- measuring ------------------------------------------------------------------------------ */

struct subject {
    struct tree_input inputs[RUNS];
    uint64_t steps;
    uint64_t pairs;
};

static void must_be_as_planted(const struct tree *tree, uint64_t steps)
{
    if (tree->result == ENGINE_DIFFER && tree->n_end_states == 1u << SPLITS &&
        tree->end_states[0].n_runs == RUNS >> SPLITS &&
        tree->root->split == diverge_segment_of_step(steps / (SPLITS + 1)) &&
        tree->root->n_children == 2)
        return;
    fprintf(stderr, "bench_verdicts: another tree than the one planted\n");
    exit(70);
}

static void run_tree(void *arg, uint64_t repeats)
{
    struct subject *subject = arg;
    for (uint64_t i = 0; i < repeats; i++) {
        struct tree *tree = NULL;
        must(tree_build(subject->inputs, RUNS, NULL, &tree), "tree_build");
        must_be_as_planted(tree, subject->steps);
        subject->pairs = tree->pairs;
        tree_free(tree);
    }
}

static void open_runs(struct reader *reader, struct subject *subject)
{
    static char names[RUNS][16];
    for (unsigned i = 0; i < RUNS; i++) {
        struct reader_run found;
        struct store_error error = {{0}};
        snprintf(names[i], sizeof names[i], "run%u", i);
        must(reader_find(reader, names[i], &found, &error), error.text);
        must(reader_load(reader, found.id, &subject->inputs[i].run), "load");
        subject->inputs[i].source = reader_source(reader);
        subject->inputs[i].name = names[i];
    }
}

#ifdef DVG_BENCH_DIVERGECTL
/* The whole command once: its time, and the most memory that it had. */
static void run_command(struct dvg_bench *bench, const char *path)
{
    static char names[RUNS][16];
    char *argv[RUNS + 6] = {(char *)(uintptr_t)DVG_BENCH_DIVERGECTL, (char *)"tree",
                            (char *)"--store", (char *)(uintptr_t)path, (char *)"--json"};
    posix_spawn_file_actions_t actions;
    struct rusage usage;
    pid_t child;
    int status = 0;
    for (unsigned i = 0; i < RUNS; i++) {
        snprintf(names[i], sizeof names[i], "run%u", i);
        argv[5 + i] = names[i];
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    uint64_t start = dvg_bench_now_ns();
    must(posix_spawn(&child, argv[0], &actions, NULL, argv, environ), "spawn");
    posix_spawn_file_actions_destroy(&actions);
    wait4(child, &status, 0, &usage);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
        must(status ? status : -1, "the command");
    dvg_bench_value(bench, "tree: whole command", (double)(dvg_bench_now_ns() - start) / 1e6, "ms");
    dvg_bench_bar(bench, "tree: memory of the command", (double)usage.ru_maxrss / 1024, "MiB",
                  DVG_AT_MOST, MEMORY_MAX_MIB);
}
#endif

static void measure(struct dvg_bench *bench, const char *path, uint64_t steps)
{
    struct reader *reader = NULL;
    struct store_error error = {{0}};
    struct subject subject = {.steps = steps};
    char key[DVG_BENCH_KEY_MAX];
    must(reader_open(path, &reader, &error), error.text);
    open_runs(reader, &subject);
    struct dvg_bench_case cases[] = {
        {.name = "tree", .run = run_tree, .arg = &subject, .repeats = 1}};
    dvg_bench_rounds(bench, cases, 1);
    snprintf(key, sizeof key, "tree: %d runs, %" PRIu64 " steps", (int)RUNS, steps);
    dvg_bench_bar(bench, key, cases[0].median_ns / 1e6, "ms", DVG_AT_MOST, 200);
    dvg_bench_value(bench, "tree: pairs of runs compared", (double)subject.pairs, "");
    reader_close(reader);
#ifdef DVG_BENCH_DIVERGECTL
    run_command(bench, path);
#endif
}

void bench_tree(struct dvg_bench *bench, uint64_t steps)
{
    char folder[] = "/tmp/dvg-bench-XXXXXX", path[64], file[96];
    struct store *store = NULL;
    struct store_error error = {{0}};
    if (!mkdtemp(folder))
        must(-1, "mkdtemp");
    snprintf(path, sizeof path, "%s/diverge.db", folder);
    must(store_open(path, NULL, &store, &error), error.text);
    for (unsigned i = 0; i < RUNS; i++)
        record_run(store, i, steps);
    store_close(store);
    measure(bench, path, steps);
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        unlink(file);
    }
    rmdir(folder);
}
