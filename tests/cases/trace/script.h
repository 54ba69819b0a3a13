/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that tells two runs: lines for both, and lines for one of them.
 *
 *     # a comment
 *     directive word word …          in every process of both runs
 *     (B r1 k>=5) directive …        only in run B, rank 1, where the loop variable k is 5 or more
 *     loop k 0 8                     k = 0 … 7, up to the matching end; loops nest
 *     step $k                        $k, $k+1, $k-1 are replaced
 *     end
 *
 * Words are separated by blanks; "…" keeps blanks together. What directives mean is said in
 * trace.c.
 */
#ifndef TESTS_CASES_TRACE_SCRIPT_H
#define TESTS_CASES_TRACE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum { SCRIPT_WORDS = 32, SCRIPT_LINE = 1024 };

struct script {
    char **lines;
    size_t count;
};

struct script_line {
    int number; /* in the file, from 1 */
    size_t count;
    char *words[SCRIPT_WORDS];
    char text[SCRIPT_LINE];
};

/* Reads the file; exits with a message when it cannot. */
void script_read(struct script *script, const char *path);
void script_free(struct script *script);
/* Calls `each` for the lines of one process, loops unrolled: run 'A' or 'B' and its rank. */
void script_run(const struct script *script, char run, int rank,
                void (*each)(void *ctx, const struct script_line *line), void *ctx);
_Noreturn void script_fail(int number, const char *message, const char *word);

#endif
