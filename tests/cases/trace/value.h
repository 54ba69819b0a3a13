/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors by a short text: TYPE:VALUE, such as "f32[4,8]:7".
 *
 *     7            pseudo-random numbers of seed 7: floats in [-1, 1), integers in [0, 50)
 *     =0.5         every element is 0.5; also =nan, =inf, =-0
 *     {1,2,3}      these, again and again
 *     rows{3,1,2}  each row (first dimension) pseudo-random, of its own seed
 *
 * and changes, each after a slash:
 *
 *     /noise1e-3   every element times 1 + up to 1e-3
 *     /x2          every element times 2
 *     /at5=nan     element 5 is set
 *     /ulp         every third element's bit pattern plus one
 *     /ulp5        element 5's bit pattern plus one
 *     /flip5.30    bit 30 of element 5
 */
#ifndef TESTS_CASES_TRACE_VALUE_H
#define TESTS_CASES_TRACE_VALUE_H

#include <stdbool.h>

#include <diverge/types.h>

struct value {
    enum diverge_dtype dtype;
    int32_t ndim;
    int64_t sizes[8];
    int64_t count;
    unsigned char *bytes;
};

/* Takes the text apart; false: it means nothing. value_free also after failure. */
bool value_make(struct value *value, const char *text);
void value_free(struct value *value);

#endif
