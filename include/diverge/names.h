/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of records that every capture spells alike, so that verdicts can tell what they are.
 * Frameworks' adapters and hand-written trainers use them; the engine reads them.
 *
 *   role batch, phase data, scope ""
 *     DIVERGE_NAME_IDS            int64 tensor: the sample ids of the batch, in order
 *     DIVERGE_NAME_IDS_SET        integer: order-free digest of them (sum of mixed ids)
 *     "<field>"                   a field of the batch, e.g. "tokens", "labels"
 *     "<field>.rows"              uint64 tensor: the checksum of each row (first dimension)
 *     "<field>.rows.set"          integer: order-free digest of the rows' checksums
 *     DIVERGE_NAME_EPOCH_SET      integer: order-free digest of all rows of the epoch, recorded in
 *                                 the data phase of the epoch's last step, or earlier when known
 *   role rng, phase init or boundary, scope "", name of the generator ("global", "python",
 *     "numpy", "cuda:0")
 *     slot 0 where the state is read first in a segment (in init: before construction; in a
 *     boundary: right after the optimizer), slot 1 when the segment closes (in init: after
 *     construction)
 *   role scalar, phase optimizer or boundary, scope "group0", "group1", …
 *     "lr", "weight_decay", "momentum", "loss_scale", "grad_norm", …
 *   role optstate, scope "", name "<parameter>.<item>", e.g. "fc1.weight.exp_avg",
 *     "fc1.weight.step"
 *   role loss, name "loss"
 *   role attr: "training", "requires_grad" (scope: the module or parameter), "autocast"
 *   role attr with DIVERGE_FLAG_EVIDENCE: "counter.<name>", "num_threads", "deterministic", …
 *   role collective: op "all_reduce", "all_gather", …; scope: what it works on; flag collective
 *   ops that convert: op contains "cast" or "_to_copy" or is "aten::to"; argument text names
 *     the target
 */
#ifndef DIVERGE_NAMES_H
#define DIVERGE_NAMES_H

#define DIVERGE_NAME_IDS "ids"
#define DIVERGE_NAME_IDS_SET "ids.set"
#define DIVERGE_NAME_EPOCH_SET "epoch.rows.set"
#define DIVERGE_SUFFIX_ROWS ".rows"
#define DIVERGE_SUFFIX_ROWS_SET ".rows.set"
#define DIVERGE_NAME_LR "lr"
#define DIVERGE_NAME_WEIGHT_DECAY "weight_decay"
#define DIVERGE_NAME_LOSS_SCALE "loss_scale"
#define DIVERGE_NAME_LOSS "loss"
#define DIVERGE_NAME_TRAINING "training"
#define DIVERGE_PREFIX_COUNTER "counter."

#endif
