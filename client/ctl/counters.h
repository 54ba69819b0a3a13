/* SPDX-License-Identifier: Apache-2.0 */
/* Frameworks' own counters (global_step, epoch) at the place of a finding. */
#ifndef CLIENT_CTL_COUNTERS_H
#define CLIENT_CTL_COUNTERS_H

#include "client/ctl/answer.h"
#include "client/ctl/source.h"

/* Sets runs->counters, which live till exit. Counters that cannot be read are left out. */
void counters_find(const struct source_run *a, const struct source_run *b,
                   const struct engine_answer *answer, struct answer_runs *runs);

#endif
