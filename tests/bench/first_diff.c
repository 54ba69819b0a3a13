/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long first-diff takes to find one differing step in a long pair of runs, in a real store:
 * the engine alone, against a join of the segment rows in SQL, and as a whole command.
 *
 * A run has a loss and 8 op records a step, and 3 parameters a boundary. The second run differs
 * from two thirds on, in one op's output and everything after it.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "daemon/engine/engine.h"
#include "daemon/store/reader.h"
#include "daemon/store/store.h"
#include "tests/bench/bench.h"

enum { SHORT_STEPS = 10000, LONG_STEPS = 100000, OPS = 8, PARAMETERS = 3, RUNS = 4 };

extern char **environ;

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench_first_diff: %s: %d\n", what, rc);
    exit(70);
}

/* ---- recording ------------------------------------------------------------------------------ */

struct recorder {
    struct store *store;
    struct store_stream *stream;
    uint32_t lane;
    uint32_t loss[1], parameters[PARAMETERS], ops[OPS];
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
                         enum diverge_role role, const char *op, uint32_t number)
{
    char name[32];
    snprintf(name, sizeof name, "%s%" PRIu32, op, number);
    struct store_site site = {.tier = tier,
                              .phase = phase,
                              .role = role,
                              .lane = r->lane,
                              .region = string_row(r->store, ""),
                              .scope = string_row(r->store, name),
                              .op = string_row(r->store, tier == DIVERGE_TIER_OP ? op : ""),
                              .name = string_row(r->store, name)};
    uint32_t row = 0;
    must(store_site(r->store, &site, &row), "site");
    return row;
}

static void define(struct recorder *r)
{
    const int64_t sizes[2] = {64, 64};
    struct dvg_type type = {.dtype = DIVERGE_F32, .ndim = 2, .sizes = (const uint8_t *)sizes};
    r->lane = string_row(r->store, "main");
    must(store_type(r->store, &type, &r->types[1]), "type");
    r->loss[0] = site_row(r, DIVERGE_TIER_PULSE, DIVERGE_PHASE_LOSS, DIVERGE_ROLE_LOSS, "loss", 0);
    for (uint32_t i = 0; i < PARAMETERS; i++)
        r->parameters[i] =
            site_row(r, DIVERGE_TIER_STEP, DIVERGE_PHASE_BOUNDARY, DIVERGE_ROLE_PARAM, "weight", i);
    for (uint32_t i = 0; i < OPS; i++)
        r->ops[i] =
            site_row(r, DIVERGE_TIER_OP, DIVERGE_PHASE_FORWARD, DIVERGE_ROLE_OUTPUT, "linear", i);
}

static void append(struct recorder *r, uint64_t segment, enum diverge_tier tier,
                   const uint32_t *sites, uint32_t count, uint32_t order, const uint64_t *values)
{
    static const uint32_t one[1] = {1};
    uint32_t orders[OPS], sources[OPS] = {0};
    for (uint32_t i = 0; i < count; i++)
        orders[i] = order + i;
    struct dvg_part wire = {.segment = segment, .tier = tier, .count = count};
    wire.columns[DVG_COLUMN_VALUE] =
        (struct dvg_bytes){(const uint8_t *)values, count * sizeof values[0]};
    wire.columns[DVG_COLUMN_TYPE] = (struct dvg_bytes){(const uint8_t *)one, sizeof one};
    wire.columns[DVG_COLUMN_ORDER] =
        (struct dvg_bytes){(const uint8_t *)orders, count * sizeof orders[0]};
    struct store_part part = {.wire = &wire,
                              .lane = r->lane,
                              .sites = sites,
                              .sources = sources,
                              .types = r->types,
                              .n_types = 2};
    must(store_part_append(r->stream, &part), store_error_text(r->store));
}

static void seal(struct recorder *r, uint64_t segment, unsigned pulse, unsigned step, unsigned op)
{
    struct dvg_end end = {.segment = segment, .records = {pulse, step, 0, op}};
    for (unsigned tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        if (end.records[tier])
            end.wanted |= (uint8_t)(1u << tier);
    must(store_segment_seal(r->stream, &end), store_error_text(r->store));
    store_stream_set_seq(r->stream, segment + 1);
    if (segment % 2000 == 0) {
        must(store_commit(r->store), store_error_text(r->store));
        must(store_begin(r->store), "begin");
    }
}

static void record_step(struct recorder *r, uint64_t k, uint64_t differs_at)
{
    uint64_t values[OPS];
    for (uint32_t i = 0; i < OPS; i++)
        values[i] = mix(k * OPS + i, k > differs_at || (k == differs_at && i >= OPS / 2));
    append(r, diverge_segment_of_step(k), DIVERGE_TIER_OP, r->ops, OPS, 0, values);
    values[0] = mix(k, k >= differs_at);
    append(r, diverge_segment_of_step(k), DIVERGE_TIER_PULSE, r->loss, 1, OPS, values);
    seal(r, diverge_segment_of_step(k), 1, 0, OPS);
}

static void record_boundary(struct recorder *r, uint64_t k, uint64_t differs_at)
{
    uint64_t values[PARAMETERS];
    for (uint32_t i = 0; i < PARAMETERS; i++)
        values[i] = mix(k * PARAMETERS + i, 7 + (k > differs_at));
    append(r, diverge_segment_of_boundary(k), DIVERGE_TIER_STEP, r->parameters, PARAMETERS, 0,
           values);
    seal(r, diverge_segment_of_boundary(k), 0, PARAMETERS, 0);
}

static void record_run(struct store *store, uint8_t number, const char *name, uint64_t steps,
                       uint64_t differs_at)
{
    struct recorder r = {.store = store};
    struct store_run run;
    uint8_t run_id[16] = {number};
    uint64_t seq;
    must(store_begin(store), "begin");
    must(store_run_open(store, run_id, name, 1, &run), "run");
    struct store_stream_options options = {.stream_id = {number},
                                           .run = run.id,
                                           .epoch = 1,
                                           .level = DIVERGE_TIER_OP,
                                           .spec = "",
                                           .fingerprint_id = "l61.1",
                                           .client = "bench"};
    must(store_stream_open(store, &options, &r.stream, &seq), "stream");
    define(&r);
    record_boundary(&r, 0, differs_at);
    for (uint64_t k = 0; k < steps; k++) {
        record_step(&r, k, differs_at);
        record_boundary(&r, k + 1, differs_at);
    }
    must(store_stream_end(r.stream, DIVERGE_OUTCOME_COMPLETE, 0), "end");
    must(store_commit(store), store_error_text(store));
    store_stream_close(r.stream);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static const char *const NAMES[RUNS] = {"short-a", "short-b", "long-a", "long-b"};

struct compared {
    const struct trace_source *source;
    const struct trace_run *a, *b;
    uint64_t expected;
};

static void run_engine(void *arg, uint64_t repeats)
{
    struct compared *compared = arg;
    for (uint64_t i = 0; i < repeats; i++) {
        struct engine_answer *answer = NULL;
        must(engine_first_diff(compared->source, compared->a, compared->source, compared->b, NULL,
                               &answer),
             "engine");
        if (!answer->first || answer->first->segment != compared->expected ||
            answer->first->order != OPS / 2) {
            fprintf(stderr, "bench_first_diff: the engine found another place\n");
            exit(70);
        }
        dvg_bench_keep(answer->compared.records);
        engine_answer_free(answer);
    }
}

struct join {
    sqlite3_stmt *statement;
    uint64_t expected;
};

/*
 * What one would write without chains: the first segment whose rows differ, or that only one run
 * has.
 */
static const char JOIN[] = "SELECT min(a.segment) FROM segments AS a JOIN segments AS b"
                           " ON b.stream = ?2 AND b.tier = a.tier AND b.segment = a.segment"
                           " WHERE a.stream = ?1 AND a.digest <> b.digest";

static void run_join(void *arg, uint64_t repeats)
{
    struct join *join = arg;
    for (uint64_t i = 0; i < repeats; i++) {
        sqlite3_reset(join->statement);
        if (sqlite3_step(join->statement) != SQLITE_ROW ||
            (uint64_t)sqlite3_column_int64(join->statement, 0) != join->expected) {
            fprintf(stderr, "bench_first_diff: the join found another place\n");
            exit(70);
        }
    }
}

struct command {
    const char *program, *store;
};

static void run_command(void *arg, uint64_t repeats)
{
    const struct command *command = arg;
    for (uint64_t i = 0; i < repeats; i++) {
        char *argv[] = {(char *)(uintptr_t)command->program,
                        (char *)"first-diff",
                        (char *)"--store",
                        (char *)(uintptr_t)command->store,
                        (char *)"--json",
                        (char *)"long-a",
                        (char *)"long-b",
                        NULL};
        posix_spawn_file_actions_t actions;
        pid_t child;
        int status = 0;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        must(posix_spawn(&child, command->program, &actions, NULL, argv, environ), "spawn");
        posix_spawn_file_actions_destroy(&actions);
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
            fprintf(stderr, "bench_first_diff: the command ended with %d\n", status);
            exit(70);
        }
    }
}

static const struct trace_run *load(struct reader *reader, const char *name, int64_t *ret_id)
{
    struct reader_run found;
    struct store_error error = {{0}};
    const struct trace_run *run = NULL;
    must(reader_find(reader, name, &found, &error), error.text);
    must(reader_load(reader, found.id, &run), "load");
    *ret_id = (int64_t)run->streams[0].id;
    return run;
}

static uint64_t differs_at(uint64_t steps)
{
    return steps * 2 / 3;
}

static void record_all(const char *path)
{
    struct store *store = NULL;
    struct store_error error = {{0}};
    must(store_open(path, NULL, &store, &error), error.text);
    for (uint8_t i = 0; i < RUNS; i++) {
        uint64_t steps = i < 2 ? SHORT_STEPS : LONG_STEPS;
        record_run(store, (uint8_t)(i + 1), NAMES[i], steps,
                   i % 2 ? differs_at(steps) : UINT64_MAX);
    }
    store_close(store);
}

static void measure(struct dvg_bench *bench, const char *path)
{
    struct reader *reader = NULL;
    struct store_error error = {{0}};
    int64_t streams[RUNS];
    struct compared compared[2];
    struct join join = {.expected = diverge_segment_of_step(differs_at(LONG_STEPS))};
    sqlite3 *db = NULL;
    must(reader_open(path, &reader, &error), error.text);
    for (int i = 0; i < 2; i++)
        compared[i] = (struct compared){
            .source = reader_source(reader),
            .a = load(reader, NAMES[2 * i], &streams[2 * i]),
            .b = load(reader, NAMES[2 * i + 1], &streams[2 * i + 1]),
            .expected = diverge_segment_of_step(differs_at(i ? LONG_STEPS : SHORT_STEPS))};
    must(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), "sqlite");
    must(sqlite3_prepare_v2(db, JOIN, -1, &join.statement, NULL), "join");
    sqlite3_bind_int64(join.statement, 1, streams[2]);
    sqlite3_bind_int64(join.statement, 2, streams[3]);
    struct command command = {.store = path};
#ifdef DVG_BENCH_DIVERGECTL
    command.program = DVG_BENCH_DIVERGECTL;
#endif
    struct dvg_bench_case cases[] = {
        {.name = "short", .run = run_engine, .arg = &compared[0]},
        {.name = "long", .run = run_engine, .arg = &compared[1]},
        {.name = "join", .run = run_join, .arg = &join, .repeats = 1},
        {.name = "command", .run = run_command, .arg = &command, .repeats = 1},
    };
    dvg_bench_rounds(bench, cases, command.program ? 4 : 3);
    dvg_bench_bar(bench, "engine, 100 000 steps", cases[1].median_ns / 1e6, "ms", DVG_AT_MOST, 1);
    dvg_bench_value(bench, "engine, 10 000 steps", cases[0].median_ns / 1e6, "ms");
    dvg_bench_bar(bench, "ten times the steps", cases[1].median_ns / cases[0].median_ns, "x",
                  DVG_AT_MOST, 1.5);
    dvg_bench_value(bench, "join of the segment rows", cases[2].median_ns / 1e6, "ms");
    dvg_bench_bar(bench, "join against engine", cases[2].median_ns / cases[1].median_ns, "x",
                  DVG_AT_LEAST, 100);
    if (command.program)
        dvg_bench_bar(bench, "whole command", cases[3].median_ns / 1e6, "ms", DVG_AT_MOST, 50);
    sqlite3_finalize(join.statement);
    sqlite3_close(db);
    reader_close(reader);
}

int main(int argc, char **argv)
{
    struct dvg_bench bench;
    if (dvg_bench_init(&bench, "first-diff", argc, argv))
        return 64;
    char folder[] = "/tmp/dvg-bench-XXXXXX", path[64], command[96];
    if (!mkdtemp(folder))
        must(-1, "mkdtemp");
    snprintf(path, sizeof path, "%s/diverge.db", folder);
    record_all(path);
    measure(&bench, path);
    snprintf(command, sizeof command, "%s/diverge.db%s", folder, "");
    unlink(command);
    static const char *const rest[] = {"-wal", "-shm", ".lock"};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        snprintf(command, sizeof command, "%s/diverge.db%s", folder, rest[i]);
        unlink(command);
    }
    rmdir(folder);
    return dvg_bench_finish(&bench);
}
