/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the answers beyond a first difference cost. Filling the store takes longer than what is
 * measured; an argument makes the runs shorter: `./dev bench verdicts 1000` for 1 000 steps.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/verdicts.h"

int main(int argc, char **argv)
{
    struct dvg_bench bench;
    uint64_t steps = 100000;
    if (dvg_bench_init(&bench, "verdicts", argc, argv))
        return 64;
    if (bench.argument)
        steps = strtoull(bench.argument, NULL, 10);
    if (steps < 100) {
        fprintf(stderr, "bench_verdicts: at least 100 steps\n");
        return 64;
    }
    bench_noise(&bench);
    bench_tree(&bench, steps);
    return dvg_bench_finish(&bench);
}
