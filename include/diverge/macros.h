/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convenience on top of diverge.h for C and C++ trainers; header only. Everything here takes
 * texts where diverge.h takes interned names (about 20 ns each), and accepts a NULL lane, for which
 * it does nothing.
 *
 *     DIVERGE_OP(lane, "linear", "fc1") {
 *         diverge_input_f32(lane, 0, x, 2, DIVERGE_SIZES(batch, in));
 *         linear(…);
 *         diverge_output_f32(lane, 0, y, 2, DIVERGE_SIZES(batch, out));
 *     }
 *     diverge_param_f32(lane, "fc1.weight", w, 2, DIVERGE_SIZES(out, in));
 *
 * Tensors are dense and in C order; use diverge_record for anything else. Results can be ignored:
 * they are those of diverge_record and only say why something was not taken.
 */
#ifndef DIVERGE_MACROS_H
#define DIVERGE_MACROS_H

#include <string.h>

#include <diverge/diverge.h>
#include <diverge/names.h>

/* An array of sizes: `DIVERGE_SIZES(batch, features)`. Lives as long as the expression around it.
 */
#ifdef __cplusplus
#include <initializer_list>
#define DIVERGE_SIZES(...) (std::initializer_list<int64_t>{__VA_ARGS__}.begin())
#else
#define DIVERGE_SIZES(...) ((const int64_t[]){__VA_ARGS__})
#endif

#define DIVERGE_STRINGIFY_(x) #x
#define DIVERGE_STRINGIFY(x) DIVERGE_STRINGIFY_(x)
#define DIVERGE_JOIN_(a, b) a##b
#define DIVERGE_JOIN(a, b) DIVERGE_JOIN_(a, b)
/* "file.c:12", the annotation of records made here. */
#define DIVERGE_HERE __FILE__ ":" DIVERGE_STRINGIFY(__LINE__)

/* The interned name of `text` in the session of `lane`; 0 for NULL. */
static inline diverge_name_t diverge_lane_name(struct diverge_lane *lane, const char *text)
{
    return lane && text ? diverge_name(diverge_lane_session(lane), text) : 0;
}

/*
 * Begins a call of `op` under `scope` (NULL: leave the scope as it is). Returns what DIVERGE_OP's
 * loop runs on and diverge_op_leave wants: 2 when a scope was set, else 1.
 */
static inline int diverge_op_enter(struct diverge_lane *lane, const char *op, const char *scope,
                                   const char *arguments, const char *source)
{
    if (scope)
        (void)diverge_scope(lane, diverge_lane_name(lane, scope));
    (void)diverge_op_begin(lane, diverge_lane_name(lane, op), 0, arguments,
                           diverge_lane_name(lane, source));
    return scope ? 2 : 1;
}

/* Ends the call; a scope that was set with it ends as well (none, then). */
static inline int diverge_op_leave(struct diverge_lane *lane, int entered)
{
    (void)diverge_op_end(lane);
    if (entered == 2)
        (void)diverge_scope(lane, 0);
    return 0;
}

/*
 * A block that is one call of `op` in the module `scope`. `continue` leaves it properly; leave it
 * by `break`, `return` or `goto` only after diverge_op_end(lane).
 */
#define DIVERGE_OP(lane, op, scope) DIVERGE_OP_WITH(lane, op, scope, NULL)
/* The same with the text of the call's non-tensor arguments, e.g. "p=0.1". */
#define DIVERGE_OP_WITH(lane, op, scope, arguments)                                                \
    for (int DIVERGE_JOIN(diverge_once_, __LINE__) =                                               \
             diverge_op_enter((lane), (op), (scope), (arguments), DIVERGE_HERE);                   \
         DIVERGE_JOIN(diverge_once_, __LINE__);                                                    \
         DIVERGE_JOIN(diverge_once_, __LINE__) =                                                   \
             diverge_op_leave((lane), DIVERGE_JOIN(diverge_once_, __LINE__)))

/* A dense tensor in C order. */
static inline struct diverge_tensor diverge_dense(enum diverge_dtype dtype, const void *data,
                                                  int32_t ndim, const int64_t *sizes)
{
    struct diverge_tensor tensor;
    memset(&tensor, 0, sizeof(tensor));
    tensor.view.data = data;
    tensor.view.dtype = dtype;
    tensor.view.ndim = ndim;
    tensor.view.sizes = sizes;
    return tensor;
}

static inline struct diverge_observation diverge_what(struct diverge_lane *lane,
                                                      enum diverge_role role, uint16_t slot,
                                                      const char *name)
{
    struct diverge_observation what;
    memset(&what, 0, sizeof(what));
    what.role = role;
    what.slot = slot;
    what.tier = DIVERGE_TIER_DEFAULT;
    what.name = diverge_lane_name(lane, name);
    return what;
}

/* Records a dense tensor in a role: by slot (inputs, outputs) or by name (the rest). */
static inline int diverge_dense_record(struct diverge_lane *lane, enum diverge_role role,
                                       uint16_t slot, const char *name, enum diverge_dtype dtype,
                                       const void *data, int32_t ndim, const int64_t *sizes)
{
    struct diverge_observation what = diverge_what(lane, role, slot, name);
    struct diverge_tensor tensor = diverge_dense(dtype, data, ndim, sizes);
    return diverge_record(lane, &what, &tensor, NULL);
}

/* X(suffix, C type, DTYPE) */
#define DIVERGE_ELEMENT_TYPES(X)                                                                   \
    X(f32, float, F32)                                                                             \
    X(f64, double, F64)                                                                            \
    X(i32, int32_t, I32)                                                                           \
    X(i64, int64_t, I64)                                                                           \
    X(u8, uint8_t, U8)                                                                             \
    X(u64, uint64_t, U64)

/* diverge_input_f32(lane, slot, data, ndim, sizes), diverge_output_…: tensors of the open op. */
#define DIVERGE_BY_SLOT_(verb, ROLE, suffix, type, DTYPE)                                          \
    static inline int diverge_##verb##_##suffix(struct diverge_lane *lane, uint16_t slot,          \
                                                const type *data, int32_t ndim,                    \
                                                const int64_t *sizes)                              \
    {                                                                                              \
        return diverge_dense_record(lane, DIVERGE_ROLE_##ROLE, slot, NULL, DIVERGE_##DTYPE, data,  \
                                    ndim, sizes);                                                  \
    }

/* diverge_param_f32(lane, "fc1.weight", data, ndim, sizes), diverge_grad_…, …: by name. */
#define DIVERGE_BY_NAME_(verb, ROLE, suffix, type, DTYPE)                                          \
    static inline int diverge_##verb##_##suffix(struct diverge_lane *lane, const char *name,       \
                                                const type *data, int32_t ndim,                    \
                                                const int64_t *sizes)                              \
    {                                                                                              \
        return diverge_dense_record(lane, DIVERGE_ROLE_##ROLE, 0, name, DIVERGE_##DTYPE, data,     \
                                    ndim, sizes);                                                  \
    }

#define X(suffix, type, DTYPE)                                                                     \
    DIVERGE_BY_SLOT_(input, INPUT, suffix, type, DTYPE)                                            \
    DIVERGE_BY_SLOT_(output, OUTPUT, suffix, type, DTYPE)                                          \
    DIVERGE_BY_NAME_(param, PARAM, suffix, type, DTYPE)                                            \
    DIVERGE_BY_NAME_(buffer, BUFFER, suffix, type, DTYPE)                                          \
    DIVERGE_BY_NAME_(grad, GRAD, suffix, type, DTYPE)                                              \
    DIVERGE_BY_NAME_(optstate, OPTSTATE, suffix, type, DTYPE)                                      \
    DIVERGE_BY_NAME_(batch, BATCH, suffix, type, DTYPE)                                            \
    DIVERGE_BY_NAME_(collective, COLLECTIVE, suffix, type, DTYPE)
DIVERGE_ELEMENT_TYPES(X)
#undef X

/* "No gradient", as opposed to a gradient of zeros. */
static inline int diverge_grad_absent(struct diverge_lane *lane, const char *name)
{
    struct diverge_observation what = diverge_what(lane, DIVERGE_ROLE_GRAD, 0, name);
    return diverge_record_absent(lane, &what);
}

/* The loss of the step (or of the micro-step, when the lane is in one). */
static inline int diverge_loss(struct diverge_lane *lane, double value)
{
    struct diverge_observation what = diverge_what(lane, DIVERGE_ROLE_LOSS, 0, DIVERGE_NAME_LOSS);
    return diverge_record_float(lane, &what, value);
}

/* A number that steers the training: "lr", "weight_decay", "loss_scale", … (diverge/names.h). */
static inline int diverge_scalar(struct diverge_lane *lane, const char *name, double value)
{
    struct diverge_observation what = diverge_what(lane, DIVERGE_ROLE_SCALAR, 0, name);
    return diverge_record_float(lane, &what, value);
}

static inline int diverge_scalar_integer(struct diverge_lane *lane, const char *name, int64_t value)
{
    struct diverge_observation what = diverge_what(lane, DIVERGE_ROLE_SCALAR, 0, name);
    return diverge_record_integer(lane, &what, value);
}

/* An optimizer state that is a number, such as Adam's "fc1.weight.step". */
static inline int diverge_optstate_integer(struct diverge_lane *lane, const char *name,
                                           int64_t value)
{
    struct diverge_observation what = diverge_what(lane, DIVERGE_ROLE_OPTSTATE, 0, name);
    return diverge_record_integer(lane, &what, value);
}

/* State of a generator: slot 0 where it is read first in a segment, 1 when the segment closes. */
static inline int diverge_rng(struct diverge_lane *lane, const char *name, uint16_t slot,
                              const void *state, size_t size)
{
    struct diverge_observation what = diverge_what(lane, DIVERGE_ROLE_RNG, slot, name);
    return diverge_record_bytes(lane, &what, state, size);
}

#endif
