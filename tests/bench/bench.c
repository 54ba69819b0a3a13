/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t dvg_bench_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t dvg_bench_thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t dvg_bench_process_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void usage(FILE *out, const char *name)
{
    fprintf(out,
            "usage: bench_%s [--json] [--check] [--rounds N]\n"
            "  --json      one JSON object instead of a table\n"
            "  --check     exit 1, naming each bar missed\n"
            "  --rounds N  rounds of each measurement, %d to %d (default %d)\n",
            name, DVG_BENCH_MIN_ROUNDS, DVG_BENCH_MAX_ROUNDS, DVG_BENCH_MIN_ROUNDS);
}

static int parse_rounds(struct dvg_bench *bench, const char *text)
{
    char *end;
    long rounds = text ? strtol(text, &end, 10) : 0;

    if (!text || *end || rounds < DVG_BENCH_MIN_ROUNDS || rounds > DVG_BENCH_MAX_ROUNDS) {
        fprintf(stderr, "bench_%s: --rounds takes a number from %d to %d\n", bench->name,
                DVG_BENCH_MIN_ROUNDS, DVG_BENCH_MAX_ROUNDS);
        return -1;
    }
    bench->rounds = (int)rounds | 1;
    return 0;
}

int dvg_bench_init(struct dvg_bench *bench, const char *name, int argc, char **argv)
{
    *bench = (struct dvg_bench){.name = name, .rounds = DVG_BENCH_MIN_ROUNDS};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            bench->json = true;
        } else if (strcmp(argv[i], "--check") == 0) {
            bench->check = true;
        } else if (strcmp(argv[i], "--rounds") == 0) {
            if (parse_rounds(bench, i + 1 < argc ? argv[++i] : NULL))
                return -1;
        } else if (strcmp(argv[i], "--help") == 0) {
            usage(stdout, name);
            exit(0);
        } else if (argv[i][0] == '-' || bench->argument) {
            usage(stderr, name);
            return -1;
        } else {
            bench->argument = argv[i];
        }
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double dvg_bench_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof(values[0]), by_value);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static double time_case(const struct dvg_bench_case *bench_case, uint64_t repeats)
{
    uint64_t start = bench_case->cpu ? dvg_bench_thread_cpu_ns() : dvg_bench_now_ns();

    bench_case->run(bench_case->arg, repeats);
    return (double)((bench_case->cpu ? dvg_bench_thread_cpu_ns() : dvg_bench_now_ns()) - start);
}

/* Doubles the work until a round is long against the clock's step and the timer interrupts. */
static uint64_t choose_repeats(const struct dvg_bench_case *bench_case)
{
    uint64_t repeats = 1;

    while (time_case(bench_case, repeats) < 2e6 && repeats < UINT64_C(1) << 40)
        repeats *= 2;
    return repeats;
}

void dvg_bench_rounds(const struct dvg_bench *bench, struct dvg_bench_case *cases, size_t n_cases)
{
    double *times = malloc(n_cases * (size_t)bench->rounds * sizeof(times[0]));

    if (!times) {
        fprintf(stderr, "bench_%s: out of memory\n", bench->name);
        exit(1);
    }
    for (size_t c = 0; c < n_cases; c++) {
        if (cases[c].repeats == 0)
            cases[c].repeats = choose_repeats(&cases[c]);
    }
    for (int round = 0; round < bench->rounds; round++) {
        for (size_t c = 0; c < n_cases; c++)
            times[c * (size_t)bench->rounds + (size_t)round] =
                time_case(&cases[c], cases[c].repeats) / (double)cases[c].repeats;
    }
    for (size_t c = 0; c < n_cases; c++) {
        double *of_case = &times[c * (size_t)bench->rounds];

        cases[c].median_ns = dvg_bench_median(of_case, (size_t)bench->rounds);
        cases[c].best_ns = of_case[0];
    }
    free(times);
}

void dvg_bench_bar(struct dvg_bench *bench, const char *key, double value, const char *unit,
                   enum dvg_bench_sense sense, double bar)
{
    if (bench->n_results == DVG_BENCH_MAX_RESULTS) {
        fprintf(stderr, "bench_%s: more than %d results\n", bench->name, DVG_BENCH_MAX_RESULTS);
        exit(1);
    }

    struct dvg_bench_result *result = &bench->results[bench->n_results++];

    snprintf(result->key, sizeof(result->key), "%s", key);
    snprintf(result->unit, sizeof(result->unit), "%s", unit);
    result->value = value;
    result->sense = sense;
    result->bar = bar;
}

void dvg_bench_value(struct dvg_bench *bench, const char *key, double value, const char *unit)
{
    dvg_bench_bar(bench, key, value, unit, DVG_NO_BAR, 0);
}

/* A figure that is no number (a failed measurement) misses its bar. */
static bool met(const struct dvg_bench_result *result)
{
    switch (result->sense) {
    case DVG_NO_BAR:
        return true;
    case DVG_AT_LEAST:
        return result->value >= result->bar;
    case DVG_AT_MOST:
        return result->value <= result->bar;
    }
    return false;
}

static const char *sense_text(enum dvg_bench_sense sense)
{
    return sense == DVG_AT_LEAST ? ">=" : "<=";
}

static void print_table(const struct dvg_bench *bench)
{
    printf("%s, medians of %d interleaved rounds\n", bench->name, bench->rounds);
    for (size_t i = 0; i < bench->n_results; i++) {
        const struct dvg_bench_result *result = &bench->results[i];

        printf("  %-60s %12.4g %-8s", result->key, result->value, result->unit);
        if (result->sense != DVG_NO_BAR)
            printf(" bar %s %-6g %s", sense_text(result->sense), result->bar,
                   met(result) ? "ok" : "MISSED");
        putchar('\n');
    }
}

static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

/* JSON has no NaN and no infinity. */
static void print_json_number(double value)
{
    if (isfinite(value))
        printf("%.9g", value);
    else
        printf("null");
}

static void print_json(const struct dvg_bench *bench)
{
    printf("{\"bench\": ");
    print_json_string(bench->name);
    printf(", \"rounds\": %d, \"results\": [", bench->rounds);
    for (size_t i = 0; i < bench->n_results; i++) {
        const struct dvg_bench_result *result = &bench->results[i];

        printf("%s\n  {\"key\": ", i ? "," : "");
        print_json_string(result->key);
        printf(", \"value\": ");
        print_json_number(result->value);
        printf(", \"unit\": ");
        print_json_string(result->unit);
        if (result->sense != DVG_NO_BAR) {
            printf(", \"%s\": ", result->sense == DVG_AT_LEAST ? "at_least" : "at_most");
            print_json_number(result->bar);
            printf(", \"met\": %s", met(result) ? "true" : "false");
        }
        putchar('}');
    }
    printf("\n]}\n");
}

int dvg_bench_finish(const struct dvg_bench *bench)
{
    int missed = 0;

    if (bench->json)
        print_json(bench);
    else
        print_table(bench);
    fflush(stdout);
    for (size_t i = 0; i < bench->n_results; i++) {
        const struct dvg_bench_result *result = &bench->results[i];

        if (met(result))
            continue;
        missed++;
        if (bench->check)
            fprintf(stderr, "bench_%s: missed: %s is %.4g %s, bar %s %g\n", bench->name,
                    result->key, result->value, result->unit, sense_text(result->sense),
                    result->bar);
    }
    return bench->check && missed ? 1 : 0;
}
