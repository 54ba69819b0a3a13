/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of bench_verdicts: each in a file of its own, adding its figures and bars. */
#ifndef DVG_TESTS_BENCH_VERDICTS_H
#define DVG_TESTS_BENCH_VERDICTS_H

#include "tests/bench/bench.h"

/* 64 runs of `steps` steps as a tree. */
void bench_tree(struct dvg_bench *bench, uint64_t steps);
/* Judging every record of three runs by noise. */
void bench_noise(struct dvg_bench *bench);

#endif
