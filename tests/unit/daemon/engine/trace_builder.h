/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces in memory, for the engine's tests: records are written down as a training run would make
 * them, digests and chains are computed as the store does, and a trace_source reads them.
 *
 *     struct tb *a = tb_new("a");
 *     tb_rank(a, 0);
 *     tb_boundary(a, 0);
 *     tb_param(a, "w", 17);
 *     tb_step(a, 0);
 *     tb_op(a, "mm", 0, NULL);
 *     tb_in(a, 0, 17);
 *     tb_out(a, 0, 99);
 *     tb_boundary(a, 1);
 *     …
 *     tb_end(a);
 *
 * What is added returns the record, so that a test can change a field of it. Everything is freed
 * by tb_free, which also checks that every chunk that was loaded was released.
 */
#ifndef TESTS_TRACE_BUILDER_H
#define TESTS_TRACE_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

struct tb;

struct tb_record {
    enum diverge_tier tier;
    enum diverge_phase phase;
    enum diverge_role role;
    uint16_t slot;
    uint32_t flags;
    uint32_t micro_step;
    uint32_t occurrence;
    const char *lane, *region, *scope, *op, *name; /* kept by the builder, or literals */
    enum diverge_kind kind;
    enum diverge_dtype dtype;
    int32_t ndim;
    int64_t sizes[4];
    enum diverge_placement placement;
    const char *group; /* NULL: "" */
    uint64_t value;
    const char *argument;
    uint8_t state;
    uint32_t order;
    uint32_t producer; /* 1 + order */
    uint64_t nan;
    float l2;
    uint64_t min, max;
    const float *sketch; /* 64 floats; NULL: none */
};

struct tb *tb_new(const char *name);
void tb_free(struct tb *tb);
const struct trace_run *tb_run(struct tb *tb); /* computes digests; nothing can be added after it */
const struct trace_source *tb_source(struct tb *tb);

/* Begins the stream of a rank; what follows belongs to it. */
void tb_rank(struct tb *tb, uint32_t rank);
void tb_end(struct tb *tb);  /* BYE: complete */
void tb_fail(struct tb *tb); /* BYE: failed */
void tb_world(struct tb *tb, uint32_t world);
void tb_spec(struct tb *tb, const char *spec);
void tb_fingerprint(struct tb *tb, const char *id);
void tb_metadata(struct tb *tb, const char *key, const char *class_name, const char *value);
void tb_dropped(struct tb *tb, uint64_t records); /* without a place */

void tb_init(struct tb *tb);
void tb_boundary(struct tb *tb, uint64_t k);
void tb_step(struct tb *tb, uint64_t k);
/* Of the segment that was begun last. */
void tb_unsealed(struct tb *tb);
void tb_gap(struct tb *tb, enum diverge_tier tier, uint64_t dropped);
void tb_pruned(struct tb *tb, enum diverge_tier tier);
/* A row without records. */
void tb_empty_tier(struct tb *tb, enum diverge_tier tier);

void tb_lane(struct tb *tb, const char *lane);
void tb_phase(struct tb *tb, enum diverge_phase phase);
void tb_scope(struct tb *tb, const char *scope);

/* Begins a call; inputs and outputs that follow belong to it. tb_close ends it. */
void tb_op(struct tb *tb, const char *op, uint32_t flags, const char *argument);
void tb_close(struct tb *tb);
struct tb_record *tb_in(struct tb *tb, uint16_t slot, uint64_t value);
struct tb_record *tb_in_of(struct tb *tb, uint16_t slot, const struct tb_record *producer);
struct tb_record *tb_out(struct tb *tb, uint16_t slot, uint64_t value);

struct tb_record *tb_param(struct tb *tb, const char *name, uint64_t value);
struct tb_record *tb_optstate(struct tb *tb, const char *name, uint64_t value);
struct tb_record *tb_grad(struct tb *tb, const char *name, uint64_t value);
struct tb_record *tb_batch(struct tb *tb, const char *name, uint64_t value);
struct tb_record *tb_batch_integer(struct tb *tb, const char *name, uint64_t value);
struct tb_record *tb_loss(struct tb *tb, double value);
struct tb_record *tb_scalar(struct tb *tb, const char *name, double value);
struct tb_record *tb_attr(struct tb *tb, const char *name, int64_t value);
struct tb_record *tb_rng(struct tb *tb, const char *name, uint16_t slot, uint64_t state);
/* Any record; lane, scope, phase, op and occurrence are taken from the context. */
struct tb_record *tb_add(struct tb *tb, struct tb_record record);
const char *tb_text(struct tb *tb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes the source lie: `damage` sees each chunk before it is handed out. */
void tb_damage(struct tb *tb, void (*damage)(struct trace_chunk *chunk, void *ctx), void *ctx);
/* The source fails with `status` on its nth call from now on; 0: never. */
void tb_break(struct tb *tb, int status, long nth);
/* Calls of head_at and head_from, and of load, since the last time this was asked. */
void tb_calls(struct tb *tb, uint64_t *heads, uint64_t *loads);
/* Leaves the running sums out, as an older source would. */
void tb_no_sums(struct tb *tb);

/* Well mixed, below 2^61 - 1. */
uint64_t tb_mix(uint64_t a, uint64_t b);

#endif
