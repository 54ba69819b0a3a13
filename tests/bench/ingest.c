/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_ingest: client to daemon to committed, 5 000 records a step, against the same daemon
 * storing one row a record (ingest_rows.c). Rounds of the two are interleaved; the producer is
 * libdiverge in this process, the daemons are processes of their own, on all cores there are.
 *
 * Values are what a training run gives: checksums without order, statistics whose size goes with
 * their site and whose last digits change from step to step.
 */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <diverge/diverge.h>

#include "tests/bench/bench.h"

enum {
    RECORDS = 5000,
    OPS = RECORDS / 2,
    COLUMN_STEPS = 200, /* a round: about as long as the rows' */
    ROW_STEPS = 20,
    SUSTAINED_RATE = 400000,
    SUSTAINED_S = 3,
    FLUSH_MS = 60000,
    MAX_ROUNDS = DVG_BENCH_MAX_ROUNDS,
};

struct daemon {
    const char *program;
    char dir[64];
    char store[96];
    char socket[96];
    pid_t pid;
    struct diverge_session *session;
    struct diverge_lane *lane;
    uint64_t step;
    uint64_t records;
    double ns_per_record[MAX_ROUNDS];
    double cpu_per_record[MAX_ROUNDS];
    double bytes_per_record;
};

/* One place in the model: what its statistics look like. */
struct place {
    diverge_name_t op, scope;
    float scale;
    int64_t numel;
};
static struct place places[OPS];

/* What a fingerprint says, made before the time is taken. */
struct value {
    uint64_t checksum;
    float min, max, sum, l2;
};
static struct value values[COLUMN_STEPS][RECORDS];

static uint64_t random_state = 1;

static uint64_t next_random(void)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_uniform(void)
{
    return (double)(next_random() >> 11) * 0x1p-53;
}

static double next_normal(void)
{
    return sqrt(-2 * log(1 - next_uniform())) * cos(2 * M_PI * next_uniform());
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_ingest: %s\n", what);
    exit(70);
}

/* ---- values -----------------------------------------------------------------------------------
 */

static void make_value(struct value *value, const struct place *place)
{
    double n = (double)place->numel;
    double s = place->scale;
    *value = (struct value){
        .checksum = next_random() % DIVERGE_CHECKSUM_PRIME,
        .min = (float)(-s * (3.5 + 0.3 * next_normal())),
        .max = (float)(s * (3.5 + 0.3 * next_normal())),
        .sum = (float)(s * sqrt(n) * next_normal()),
        .l2 = (float)(s * sqrt(n) * (1 + 0.01 * next_normal())),
    };
}

static void make_places(void)
{
    for (int i = 0; i < OPS; i++) {
        places[i].scale = (float)exp2(next_normal() * 3 - 2);
        places[i].numel = INT64_C(1) << (8 + next_random() % 12);
    }
}

/* No step's values come twice, so no chunk is shared. */
static void make_values(int steps)
{
    for (int k = 0; k < steps; k++) {
        for (int i = 0; i < RECORDS; i++)
            make_value(&values[k][i], &places[i / 2]);
    }
}

/* ---- daemons ----------------------------------------------------------------------------------
 */

static void make_dirs(struct daemon *d)
{
    snprintf(d->dir, sizeof(d->dir), "/var/tmp/dvgbench-XXXXXX");
    if (!mkdtemp(d->dir))
        fail("mkdtemp");
    snprintf(d->store, sizeof(d->store), "%s/diverge.db", d->dir);
    snprintf(d->socket, sizeof(d->socket), "%s/r/sock", d->dir);
}

static void start_daemon(struct daemon *d)
{
    int ready[2];
    make_dirs(d);
    if (pipe(ready) != 0)
        fail("pipe");
    d->pid = fork();
    if (d->pid == 0) {
        char fd[16];
        snprintf(fd, sizeof(fd), "%d", ready[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        unsetenv("DIVERGE_SPOOL");
        execl(d->program, d->program, "--store", d->store, "--socket", d->socket, "--ready-fd", fd,
              "--log-level", "warning", (char *)NULL);
        _exit(127);
    }
    close(ready[1]);
    char byte;
    if (d->pid < 0 || read(ready[0], &byte, 1) != 1)
        fail("a daemon did not start");
    close(ready[0]);
}

/* Time on a processor, of all threads, in nanoseconds (schedstat: proc(5)'s clock ticks are too
 * coarse). */
static uint64_t daemon_cpu_ns(const struct daemon *d)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)d->pid);
    DIR *dir = opendir(path);
    uint64_t sum = 0;
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        unsigned long long ns = 0;
        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", (int)d->pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fscanf(file, "%llu", &ns) == 1)
            sum += ns;
        if (file)
            fclose(file);
    }
    if (!dir)
        fail("a daemon died");
    closedir(dir);
    return sum;
}

/* Ends it cleanly, which puts everything into the one file, and takes its size. */
static void stop_daemon(struct daemon *d)
{
    int status = 0;
    struct stat st;
    if (diverge_session_close(d->session, DIVERGE_OUTCOME_COMPLETE) != 0)
        fail("not everything was acknowledged");
    kill(d->pid, SIGTERM);
    if (waitpid(d->pid, &status, 0) != d->pid || status != 0)
        fail("a daemon ended badly");
    if (stat(d->store, &st) != 0)
        fail("there is no store");
    d->bytes_per_record = (double)st.st_size / (double)d->records;
    char command[160];
    snprintf(command, sizeof(command), "rm -r '%s'", d->dir);
    if (system(command) != 0)
        fail(command);
}

/* ---- producing --------------------------------------------------------------------------------
 */

static void open_session(struct daemon *d)
{
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.name = "bench";
    options.socket_path = d->socket;
    options.spool_dir = d->dir;
    options.wait_ms = FLUSH_MS;
    options.flags = DIVERGE_OPEN_REQUIRE;
    if (diverge_session_open(&options, &d->session) != 0)
        fail("no session");
    d->lane = diverge_lane_open(d->session, "main");
    for (int i = 0; i < OPS; i++) {
        char text[64];
        snprintf(text, sizeof(text), "aten::op_%d", i % 40);
        places[i].op = diverge_name(d->session, text);
        snprintf(text, sizeof(text), "encoder.layer.%d.block.%d", i / 100, i % 100 / 10);
        places[i].scope = diverge_name(d->session, text);
    }
    diverge_boundary(d->session, 0);
}

static void record(struct daemon *d, const struct place *place, uint16_t slot,
                   const struct value *value)
{
    static struct diverge_fingerprint fingerprint = {.stats.valid =
                                                         DIVERGE_STAT_PRESENT | DIVERGE_STAT_RANGE |
                                                         DIVERGE_STAT_SUM | DIVERGE_STAT_L2};
    const struct diverge_tensor tensor = {
        .view = {.dtype = DIVERGE_F32, .ndim = 1, .sizes = &place->numel}};
    const struct diverge_observation what = {
        .role = DIVERGE_ROLE_OUTPUT, .slot = slot, .tier = DIVERGE_TIER_DEFAULT};
    fingerprint.checksum = value->checksum;
    fingerprint.stats.numel = (uint64_t)place->numel;
    fingerprint.stats.min.f = value->min;
    fingerprint.stats.max.f = value->max;
    fingerprint.stats.sum = value->sum;
    fingerprint.stats.l2 = value->l2;
    diverge_record_fingerprint(d->lane, &what, &tensor, &fingerprint, NULL);
}

static void record_step(struct daemon *d, const struct value *value)
{
    diverge_step(d->session, d->step++);
    for (int i = 0; i < OPS; i++) {
        diverge_scope(d->lane, places[i].scope);
        diverge_op_begin(d->lane, places[i].op, 0, NULL, 0);
        for (uint16_t slot = 0; slot < 2; slot++)
            record(d, &places[i], slot, value++);
        diverge_op_end(d->lane);
    }
    d->records += RECORDS;
}

static void flush(struct daemon *d)
{
    if (diverge_flush(d->session, FLUSH_MS) != 0)
        fail("flush");
}

static void run_round(struct daemon *d, int steps, int round)
{
    make_values(steps);
    uint64_t cpu = daemon_cpu_ns(d);
    uint64_t start = dvg_bench_now_ns();
    for (int i = 0; i < steps; i++)
        record_step(d, values[i]);
    flush(d);
    double wall = (double)(dvg_bench_now_ns() - start);
    double records = (double)steps * RECORDS;
    if (round < 0)
        return;
    d->ns_per_record[round] = wall / records;
    d->cpu_per_record[round] = (double)(daemon_cpu_ns(d) - cpu) / records;
}

/* Share of one core that the daemon uses while records come at a fixed rate. */
static double run_sustained(struct daemon *d)
{
    const uint64_t period = UINT64_C(1000000000) * RECORDS / SUSTAINED_RATE;
    uint64_t start = dvg_bench_now_ns();
    uint64_t cpu = daemon_cpu_ns(d);
    int steps = SUSTAINED_RATE / RECORDS * SUSTAINED_S;
    for (int i = 0; i < steps; i++) {
        uint64_t due = start + (uint64_t)i * period;
        struct timespec when = {.tv_sec = (time_t)(due / 1000000000),
                                .tv_nsec = (long)(due % 1000000000)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
        make_values(1);
        record_step(d, values[0]);
    }
    flush(d);
    uint64_t wall = dvg_bench_now_ns() - start;
    return (double)(daemon_cpu_ns(d) - cpu) / (double)wall;
}

static void report(struct dvg_bench *bench, struct daemon *columns, struct daemon *rows,
                   double sustained)
{
    size_t n = (size_t)bench->rounds;
    double ns = dvg_bench_median(columns->ns_per_record, n);
    double cpu = dvg_bench_median(columns->cpu_per_record, n);
    double row_ns = dvg_bench_median(rows->ns_per_record, n);
    double row_cpu = dvg_bench_median(rows->cpu_per_record, n);
    dvg_bench_value(bench, "one row a record: rate", 1e9 / row_ns, "records/s");
    dvg_bench_value(bench, "one row a record: daemon's CPU", row_cpu, "ns/record");
    dvg_bench_value(bench, "one row a record: store", rows->bytes_per_record, "bytes/record");
    dvg_bench_value(bench, "daemon's CPU", cpu, "ns/record");
    dvg_bench_bar(bench, "rate", 1e9 / ns, "records/s", DVG_AT_LEAST, 2e6);
    dvg_bench_bar(bench, "rate against rows", row_ns / ns, "x", DVG_AT_LEAST, 8);
    dvg_bench_bar(bench, "CPU against rows", cpu / row_cpu, "x", DVG_AT_MOST, 1.0 / 12);
    dvg_bench_bar(bench, "store", columns->bytes_per_record, "bytes/record", DVG_AT_MOST, 28);
    dvg_bench_bar(bench, "store against rows", columns->bytes_per_record / rows->bytes_per_record,
                  "x", DVG_AT_MOST, 0.45);
    dvg_bench_bar(bench, "400 000 records/s: share of a core", 100 * sustained, "%", DVG_AT_MOST,
                  15);
}

int main(int argc, char **argv)
{
    struct dvg_bench bench;
    static struct daemon columns = {.program = DVG_BENCH_DIVERGED};
    static struct daemon rows = {.program = DVG_BENCH_DIVERGED_ROWS};
    if (dvg_bench_init(&bench, "ingest", argc, argv))
        return 64;
    make_places();
    start_daemon(&columns);
    start_daemon(&rows);
    open_session(&columns);
    open_session(&rows);
    for (int round = -1; round < bench.rounds; round++) {
        run_round(&columns, COLUMN_STEPS, round);
        run_round(&rows, ROW_STEPS, round);
    }
    double sustained = run_sustained(&columns);
    stop_daemon(&columns);
    stop_daemon(&rows);
    report(&bench, &columns, &rows, sustained);
    return dvg_bench_finish(&bench);
}
