/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small training run, written down record by record. Values are hashes of the inputs, so that
 * whatever is planted travels downstream as it would in a real run.
 */
#ifndef TESTS_TRAINING_H
#define TESTS_TRAINING_H

#include "tests/unit/daemon/engine/trace_builder.h"

enum { TRAINING_LAYERS = 3, TRAINING_NEVER = -1 };

struct training {
    uint64_t steps;
    uint32_t rank;
    enum diverge_tier level; /* pulse, step or op */
    uint64_t state_every;    /* boundaries that record state; 0: all */
    uint64_t seed;           /* of the initialisation */
    uint64_t first;          /* starts at this boundary, as after loading */
    uint64_t renumber;       /* subtracted from boundaries: a resumed run that counts from 0 */
    bool fresh_optimizer;    /* loses its optimizer state when it starts */
    bool swap_moments;       /* of layers 1 and 2, when it starts */
    bool no_init;            /* does not record the initialisation */
    /* plants; `at` is a step, TRAINING_NEVER: not at all */
    int64_t kernel_at; /* the forward op of layer `layer` computes something else */
    int layer;
    int64_t data_at;        /* other bytes in the batch, same ids */
    int64_t lr_at;          /* another learning rate from the end of this step on */
    int64_t draw_at;        /* an extra draw from the global generator before this step */
    int64_t python_draw_at; /* from Python's */
    int64_t extra_op_at;    /* one op more, without effect */
    int64_t skip_reduce_at; /* no all_reduce */
    int64_t raw_write_at;   /* something changes a tensor between two ops */
    int64_t update_at;      /* the optimizer's op of `layer` computes something else */
    int64_t nan_at;         /* the forward op of `layer` gives NaN */
    int64_t argument_at;    /* another argument of the forward op of `layer` */
    int64_t stop_at;        /* killed in the middle of this step */
};

#define TRAINING_INIT                                                                              \
    {                                                                                              \
        .steps = 8, .level = DIVERGE_TIER_OP, .kernel_at = TRAINING_NEVER,                         \
        .data_at = TRAINING_NEVER, .lr_at = TRAINING_NEVER, .draw_at = TRAINING_NEVER,             \
        .python_draw_at = TRAINING_NEVER, .extra_op_at = TRAINING_NEVER,                           \
        .skip_reduce_at = TRAINING_NEVER, .raw_write_at = TRAINING_NEVER,                          \
        .update_at = TRAINING_NEVER, .nan_at = TRAINING_NEVER, .argument_at = TRAINING_NEVER,      \
        .stop_at = TRAINING_NEVER,                                                                 \
    }

/* Writes one rank's run down; calls tb_rank and tb_end (or leaves it open when killed). */
void training_record(struct tb *tb, const struct training *training);
/* A whole run of one rank. */
struct tb *training_new(const char *name, const struct training *training);

#endif
