/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convenience on top of diverge.h for C and C++ trainers; header only.
 *
 *     DIVERGE_OP(lane, "linear", "fc1") {
 *         diverge_input_f32(lane, 0, x, 2, (int64_t[]){batch, in});
 *         linear(…);
 *         diverge_output_f32(lane, 0, y, 2, (int64_t[]){batch, out});
 *     }
 *     diverge_param_f32(lane, "fc1.weight", w, 2, (int64_t[]){out, in});
 */
#ifndef DIVERGE_MACROS_H
#define DIVERGE_MACROS_H

#include <diverge/diverge.h>

#endif
