/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DAEMON_ENGINE_ENVIRONMENT_H
#define DAEMON_ENGINE_ENVIRONMENT_H

#include "daemon/engine/context.h"

/* Fills answer->environment: keys that differ, causes first; everything in the keep arena. */
void environment_compare(struct engine *engine, const struct trace_run *a,
                         const struct trace_run *b);
/*
 * Whether one of the NULL-terminated words stands in the text, as a word: "threads" in
 * "num_threads", but not "omp" in "compiler". Digits and all signs but letters end a word.
 */
bool text_has_word(const char *text, const char *const *words);
/*
 * The first differing cause whose key has one of the words in it; else the command line, when the
 * first option that differs has: "--threads 2" is about threads. NULL: none.
 */
const struct engine_environment *environment_cause(const struct engine_answer *answer,
                                                   const char *const *words);
/* "num_threads: 1 against 2"; of a command line only where it differs. In the keep arena. */
const char *environment_text(struct engine *engine, const struct engine_environment *entry);
/* Differing keys of class cause. */
size_t environment_causes(const struct engine_answer *answer);

#endif
