/* SPDX-License-Identifier: Apache-2.0 */
/* A sum of 2^20 floats, split over threads: another order of additions for another number. */
#ifndef TESTS_CASES_MINI_SUM_H
#define TESTS_CASES_MINI_SUM_H

#include "tests/cases/mini/tensor.h"

void sum_record(struct diverge_session *session, struct diverge_lane *lane, int threads);

#endif
