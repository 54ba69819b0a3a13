/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every benchmark here shares: timing of cases in interleaved rounds, and one way to show the
 * results: a table, `--json` one object, `--check` exit status 1 naming each bar that was missed.
 *
 *     struct dvg_bench bench;
 *     if (dvg_bench_init(&bench, "ingest", argc, argv))
 *         return 64;
 *     dvg_bench_rounds(&bench, cases, 3);
 *     dvg_bench_value(&bench, "records per second", rate, "1/s");
 *     dvg_bench_bar(&bench, "columns against rows", ratio, "x", DVG_AT_LEAST, 8);
 *     return dvg_bench_finish(&bench);
 *
 * A case that cannot go through dvg_bench_rounds (it spans processes, or is measured once) takes
 * its own times with dvg_bench_now_ns and reports them with the same two functions.
 * One thread; the strings given must outlive the benchmark or are copied where it says so.
 */
#ifndef DVG_TESTS_BENCH_H
#define DVG_TESTS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DVG_BENCH_MIN_ROUNDS = 9,
    DVG_BENCH_MAX_ROUNDS = 101,
    DVG_BENCH_MAX_RESULTS = 256,
    DVG_BENCH_KEY_MAX = 96,
};

enum dvg_bench_sense {
    DVG_NO_BAR,
    DVG_AT_LEAST,
    DVG_AT_MOST,
};

struct dvg_bench_result {
    char key[DVG_BENCH_KEY_MAX];
    char unit[16];
    double value;
    enum dvg_bench_sense sense;
    double bar;
};

struct dvg_bench {
    const char *name;
    bool json;
    bool check;
    int rounds;           /* odd, at least 9; --rounds N */
    const char *argument; /* first argument that is no option, NULL when there is none */
    struct dvg_bench_result results[DVG_BENCH_MAX_RESULTS];
    size_t n_results;
};

/* One thing to time. `run` does the work `repeats` times. */
struct dvg_bench_case {
    const char *name;
    void (*run)(void *arg, uint64_t repeats);
    void *arg;
    uint64_t repeats; /* work per round; 0: chosen so that one round takes about 2 ms or one call */
    bool cpu; /* count this thread's CPU time: for work that never waits, on a busy machine */
    double median_ns; /* out: of one repeat */
    double best_ns;   /* out: of one repeat */
};

/* Reads --json, --check, --rounds N, --help. 0, or -1 after a message on stderr. */
int dvg_bench_init(struct dvg_bench *bench, const char *name, int argc, char **argv);

/* Times all cases round by round, one after the other within a round, and fills the medians. */
void dvg_bench_rounds(const struct dvg_bench *bench, struct dvg_bench_case *cases, size_t n_cases);

/* A measured figure. `key` is copied (cut at DVG_BENCH_KEY_MAX). */
void dvg_bench_value(struct dvg_bench *bench, const char *key, double value, const char *unit);

/* A measured figure with a bar to meet. */
void dvg_bench_bar(struct dvg_bench *bench, const char *key, double value, const char *unit,
                   enum dvg_bench_sense sense, double bar);

/* Prints the results. Returns the program's exit status: 1 when --check was given and a bar missed.
 */
int dvg_bench_finish(const struct dvg_bench *bench);

uint64_t dvg_bench_now_ns(void);

/* CPU time of the calling thread and of the whole process. */
uint64_t dvg_bench_thread_cpu_ns(void);
uint64_t dvg_bench_process_cpu_ns(void);

/* Sorts `values` in place and returns the median. */
double dvg_bench_median(double *values, size_t count);

/* Keeps the compiler from dropping work whose result nobody reads. */
static inline void dvg_bench_keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

#endif
