/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of diverged: phases, roles, tiers, flags, data types. Numbers are frozen: they are on
 * the wire and in stores. Each table gives the enum, the name shown to people, and the validity
 * check, so a new word is one new line.
 */
#ifndef DIVERGE_TYPES_H
#define DIVERGE_TYPES_H

#include <stdint.h>

/* X(number, NAME, "name") */
#define DIVERGE_PHASES(X)                                                                          \
    X(0, INIT, "init")                                                                             \
    X(1, DATA, "data")                                                                             \
    X(2, FORWARD, "forward")                                                                       \
    X(3, LOSS, "loss")                                                                             \
    X(4, BACKWARD, "backward")                                                                     \
    X(5, SYNC, "sync")                                                                             \
    X(6, OPTIMIZER, "optimizer")                                                                   \
    X(7, EVAL, "eval")                                                                             \
    X(8, BOUNDARY, "boundary")

#define DIVERGE_ROLES(X)                                                                           \
    X(0, INPUT, "input")                                                                           \
    X(1, OUTPUT, "output")                                                                         \
    X(2, PARAM, "param")                                                                           \
    X(3, BUFFER, "buffer")                                                                         \
    X(4, GRAD, "grad")                                                                             \
    X(5, OPTSTATE, "optstate")                                                                     \
    X(6, BATCH, "batch")                                                                           \
    X(7, RNG, "rng")                                                                               \
    X(8, LOSS, "loss")                                                                             \
    X(9, SCALAR, "scalar")                                                                         \
    X(10, ATTR, "attr")                                                                            \
    X(11, COLLECTIVE, "collective")

/*
 * A level means its tier and those before it. `evidence` is not a level: generators' states,
 * counters, thread and backend flags go there whatever the level, because they are compared and
 * shown but two runs that differ only there are the same.
 */
#define DIVERGE_TIERS(X)                                                                           \
    X(0, PULSE, "pulse")                                                                           \
    X(1, STEP, "step")                                                                             \
    X(2, LAYER, "layer")                                                                           \
    X(3, OP, "op")                                                                                 \
    X(4, EVIDENCE, "evidence")

/* Static flags of a site; part of the layout's digest. Bits are frozen. */
#define DIVERGE_FLAGS(X)                                                                           \
    X(0x001, VIEW, "view")                                                                         \
    X(0x002, INPLACE, "inplace")                                                                   \
    X(0x004, RANDOM, "random")                                                                     \
    X(0x008, UNINITIALISED, "uninitialised")                                                       \
    X(0x010, VOLATILE, "volatile")                                                                 \
    X(0x020, COLLECTIVE, "collective")                                                             \
    X(0x040, PARTIAL, "partial")                                                                   \
    X(0x080, REPLICATED, "replicated")                                                             \
    X(0x100, RECOMPUTE, "recompute")                                                               \
    X(0x200, EVIDENCE, "evidence")

/* What a record's 64-bit value is. */
#define DIVERGE_KINDS(X)                                                                           \
    X(0, TENSOR, "tensor")   /* checksum of a tensor */                                            \
    X(1, FLOAT, "float")     /* bits of a float64 */                                               \
    X(2, INTEGER, "integer") /* int64 */                                                           \
    X(3, ABSENT, "absent")   /* there is none, e.g. "no gradient", as opposed to zeros */

/* X(number, NAME, "name", item bytes, class, components)
 * class: B bool, U unsigned, I signed, F float, C complex, O opaque (checksum only). */
#define DIVERGE_DTYPES(X)                                                                          \
    X(1, BOOL, "bool", 1, B, 1)                                                                    \
    X(2, U8, "uint8", 1, U, 1)                                                                     \
    X(3, I8, "int8", 1, I, 1)                                                                      \
    X(4, U16, "uint16", 2, U, 1)                                                                   \
    X(5, I16, "int16", 2, I, 1)                                                                    \
    X(6, U32, "uint32", 4, U, 1)                                                                   \
    X(7, I32, "int32", 4, I, 1)                                                                    \
    X(8, U64, "uint64", 8, U, 1)                                                                   \
    X(9, I64, "int64", 8, I, 1)                                                                    \
    X(10, F16, "float16", 2, F, 1)                                                                 \
    X(11, BF16, "bfloat16", 2, F, 1)                                                               \
    X(12, F32, "float32", 4, F, 1)                                                                 \
    X(13, F64, "float64", 8, F, 1)                                                                 \
    X(14, F8E4M3FN, "float8_e4m3fn", 1, F, 1)                                                      \
    X(15, F8E5M2, "float8_e5m2", 1, F, 1)                                                          \
    X(16, F8E4M3FNUZ, "float8_e4m3fnuz", 1, F, 1)                                                  \
    X(17, F8E5M2FNUZ, "float8_e5m2fnuz", 1, F, 1)                                                  \
    X(18, C64, "complex64", 8, C, 2)                                                               \
    X(19, C128, "complex128", 16, C, 2)                                                            \
    X(20, OPAQUE, "opaque", 1, O, 1)

/* How a rank's local tensor relates to the global one. */
#define DIVERGE_PLACEMENTS(X)                                                                      \
    X(0, WHOLE, "whole")                                                                           \
    X(1, SHARD, "shard")                                                                           \
    X(2, REPLICA, "replica")                                                                       \
    X(3, PARTIAL, "partial")

#define DIVERGE_OUTCOMES(X)                                                                        \
    X(0, COMPLETE, "complete")                                                                     \
    X(1, FAILED, "failed")

#define X(number, NAME, name) DIVERGE_PHASE_##NAME = (number),
enum diverge_phase { DIVERGE_PHASES(X) };
#undef X
#define X(number, NAME, name) DIVERGE_ROLE_##NAME = (number),
enum diverge_role { DIVERGE_ROLES(X) };
#undef X
#define X(number, NAME, name) DIVERGE_TIER_##NAME = (number),
enum diverge_tier { DIVERGE_TIERS(X) };
#undef X
#define X(bit, NAME, name) DIVERGE_FLAG_##NAME = (bit),
enum diverge_flag { DIVERGE_FLAGS(X) };
#undef X
#define X(number, NAME, name) DIVERGE_KIND_##NAME = (number),
enum diverge_kind { DIVERGE_KINDS(X) };
#undef X
#define X(number, NAME, name, bytes, class_, components) DIVERGE_##NAME = (number),
enum diverge_dtype { DIVERGE_DTYPES(X) };
#undef X
#define X(number, NAME, name) DIVERGE_PLACEMENT_##NAME = (number),
enum diverge_placement { DIVERGE_PLACEMENTS(X) };
#undef X
#define X(number, NAME, name) DIVERGE_OUTCOME_##NAME = (number),
enum diverge_outcome { DIVERGE_OUTCOMES(X) };
#undef X

enum {
    DIVERGE_TIER_COUNT = 5,
    DIVERGE_ROLE_COUNT = 12,
    DIVERGE_PHASE_COUNT = 9,
    DIVERGE_DTYPE_COUNT = 21, /* ids 1..20; 0 is no dtype */
    DIVERGE_MAX_NDIM = 32,
};

/* Segment index: 0 init, 2k+1 boundary k, 2k+2 step k. */
static inline uint64_t diverge_segment_of_boundary(uint64_t k)
{
    return 2 * k + 1;
}
static inline uint64_t diverge_segment_of_step(uint64_t k)
{
    return 2 * k + 2;
}

#endif
