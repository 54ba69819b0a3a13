/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer whose every value is known beforehand, on the public API, and the check that a store
 * has exactly those values. Failures of the checks fail the running cmocka test.
 */
#ifndef DVG_TESTS_INTEGRATION_PRODUCER_H
#define DVG_TESTS_INTEGRATION_PRODUCER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct producer_plan {
    const char *name;
    const char *run_id; /* NULL: a new one */
    int32_t rank;
    int32_t world;
    uint64_t steps;
    uint32_t records; /* a step */
    uint64_t seed;
    bool flush;    /* wait for the acknowledgement after each step, and report it */
    bool forever;  /* go on until killed: steps is then what is checked */
    int flush_ms;  /* how long to wait for it; 0: 30 s */
    int report_fd; /* a byte for each flushed step; -1: none */
    int gate_fd;   /* a byte is read from it before each step; -1: none */
};
#define PRODUCER_PLAN_INIT                                                                         \
    {                                                                                              \
        .world = 1, .report_fd = -1, .gate_fd = -1,                                                \
    }

/* Records the plan. Returns what diverge_session_close said, or the failure to open. */
int producer_run(const struct producer_plan *plan);

/* The same in a child process, which exits with 0 when everything was acknowledged, else 1. */
pid_t producer_fork(const struct producer_plan *plan);
/* Waits for such a child and expects that status. */
void producer_join(pid_t pid, int expected_status);

/* Steps 0 to plan->steps - 1 are there once, whole, with the planned values; no gap, no drop. */
void producer_check(const char *store, const struct producer_plan *plan);
/* The run's status. */
void producer_check_status(const char *store, const char *name, const char *status);
/* How many steps of the run have all their records, counted from 0. */
uint64_t producer_stored_steps(const char *store, const struct producer_plan *plan);

/* PRAGMA integrity_check on a private connection. */
void store_check_integrity(const char *store);

#endif
