/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeps of faults through the real programs. A point is one call that fails (or, with error KILL,
 * where the process dies); a sweep goes on until a round ran without its fault. Failures of the
 * checks fail the running cmocka test.
 */
#ifndef DVG_TESTS_FAULTS_H
#define DVG_TESTS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/daemon_fixture.h"

/* From main's arguments: "sweep" is the long tier, "quick" the short one. */
void faults_set_tier(int argc, char **argv);
bool faults_are_swept(void);

struct fault_sweep {
    const char *kind;  /* of tests/support/fault.h */
    const char *error; /* errno's name, or KILL */
    bool on;           /* later calls fail as well */
    /* The long tier takes each of that many calls, then ever fewer: the next is at + at / dense. */
    long dense;
    long quick; /* the same in the short tier; 0: the sweep is left to the long one */
    /* the sweep's own */
    long at;
    long rounds;
    long fired;
    char preload[512]; /* for the environment of the program under test */
    char fault[160];
    char report[DVG_FIXTURE_PATH_MAX + 32];
    char report_path[DVG_FIXTURE_PATH_MAX + 16];
};

/* The next round's variables; false when the last round met no fault, or the tier has no such
 * sweep. */
bool fault_sweep_next(struct fault_sweep *sweep, const char *dir);
/* Did the fault of this round fire? */
bool fault_sweep_fired(const struct fault_sweep *sweep);
/* A sweep that exercised nothing is a failure; prints how many points there were. */
void fault_sweep_done(const struct fault_sweep *sweep);

/* What a trainer said. */
struct training {
    int status; /* exit status, 128 + signal */
    bool ended; /* it came to its end */
    int opened; /* what diverge_session_open gave */
    int closed; /* what diverge_session_close gave */
    uint64_t recorded;
    uint64_t dropped;
    uint64_t committed;   /* at the last flush */
    int64_t acknowledged; /* last step whose flush gave 0 with nothing dropped; -1: none */
    char result[17];
    char *warnings; /* stderr; owned */
};

enum {
    TRAINING_STEPS = 8,
    TRAINING_FLUSH_EVERY = 3,
    TRAINING_FLUSH_MS = 150,
};

struct training_plan {
    const char *name;
    int steps;
    int flush_every;
    int flush_ms;   /* from 1000 on, also after a flush that was in vain */
    int fault_step; /* -1: none */
};
#define TRAINING_PLAN_INIT                                                                         \
    {                                                                                              \
        .steps = TRAINING_STEPS, .flush_every = TRAINING_FLUSH_EVERY,                              \
        .flush_ms = TRAINING_FLUSH_MS, .fault_step = -1,                                           \
    }

/* Runs the trainer to its end; `env` may be NULL. */
void training_run_plan(struct training *ret, const struct training_plan *plan,
                       const char *const *env);
/* The same of a short training; `fault_step` may be -1. */
void training_run(struct training *ret, const char *name, const char *const *env, int fault_step);
/* In the background; training_read has what it wrote to `log`. */
pid_t training_start(const struct training_plan *plan, const char *const *env, const char *log);
/* Reads what a trainer wrote. */
void training_read(struct training *ret, const char *text);
void training_fini(struct training *training);

/* Training ended with status 0 and the result that it has with nothing recorded. */
void training_check_unharmed(const struct training *training, const char *what);

/* Waits until no spool file is left: a running daemon has taken them all. False: the daemon ended
 * before. */
bool spool_try_await_empty(const struct dvg_daemon *d);
/* The same of a daemon that must not end. */
void spool_await_empty(const struct dvg_daemon *d);
bool spool_is_empty(const struct dvg_daemon *d);

/*
 * In the store of a stopped daemon: integrity_check is ok; what was acknowledged to the training is
 * there; and first-diff of the run `whole`, which lost nothing, and `name` is 0 only if all is
 * there, and never 1. `expect_whole`: all must be there.
 */
void store_check_training(const struct dvg_daemon *d, const char *whole, const char *name,
                          const struct training *training, bool expect_whole);
/* One number from the store; -1: no row. */
int64_t store_number(const char *store, const char *sql, const char *text);

/* Starts the daemon with a commit after each burst. */
void daemon_start_eager(struct dvg_daemon *d, const char *const *env);
bool daemon_try_start_eager(struct dvg_daemon *d, const char *const *env, int *ret_status);

/* divergectl with these words; free with dvg_process_fini. */
void ctl_run(struct dvg_process *p, const char *const *env, const char *const *words);

#endif
