/* SPDX-License-Identifier: Apache-2.0 */
/* Repeats of a run: other executions of the same job, whose differences are noise. */
#ifndef CLIENT_CTL_REPEATS_H
#define CLIENT_CTL_REPEATS_H

#include "client/ctl/source.h"
#include "daemon/engine/engine.h"

struct repeat_list {
    struct engine_repeat runs[ENGINE_MAX_REPEATS];
    const char *names[ENGINE_MAX_REPEATS]; /* not escaped; borrowed from the runs */
    size_t count;
};

/* Runs or recordings, with commas between them. Exit status; says which is not there. */
int repeats_named(const char *list, struct repeat_list *ret);
/*
 * Complete runs of the same store with equal causes (arguments among them) and a name of the same
 * family ("race.2" and "race3" are of "race"), newest first. Neither `of` nor `but` is in it.
 */
int repeats_find(const struct source_run *of, const struct source_run *but,
                 struct repeat_list *ret);
/* Whether both were started alike, as far as their causes tell. */
bool repeats_same_causes(const struct trace_run *a, const struct trace_run *b);

#endif
