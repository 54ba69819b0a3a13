/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two traces written down from the input, and a source that lies about one of them: the engine
 * answers or refuses, and both orders of the runs get the same result.
 *
 * Input: damage kind, chunk, number (8 bytes), offset, flags; then instructions of three bytes
 * each: what, a value, and how B differs from A.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/wire/message.h"
#include "tests/unit/daemon/engine/hostile.h"
#include "tests/unit/daemon/engine/trace_builder.h"

enum { HEADER = 12, MAX_INSTRUCTIONS = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const NAMES[] = {
    "w", "b", "lr", "loss_scale", "ids", "tokens", "tokens.rows.set", "epoch.rows.set"};
static const char *const OPS[] = {"mm",      "add_",       "empty", "aten::_to_copy",
                                  "dropout", "all_reduce", "zero_", "sum"};
static const uint32_t FLAGS[] = {0,
                                 DIVERGE_FLAG_INPLACE,
                                 DIVERGE_FLAG_UNINITIALISED,
                                 0,
                                 DIVERGE_FLAG_RANDOM,
                                 DIVERGE_FLAG_COLLECTIVE,
                                 DIVERGE_FLAG_INPLACE,
                                 DIVERGE_FLAG_VOLATILE};

struct writer {
    struct tb *tb;
    uint64_t k;
    bool in_step;
    struct tb_record *last;
};

static void next_segment(struct writer *writer, uint8_t skip)
{
    if (writer->in_step)
        tb_boundary(writer->tb, writer->k += 1 + skip % 3);
    else
        tb_step(writer->tb, writer->k);
    writer->in_step = !writer->in_step;
    writer->last = NULL;
}

static void record_call(struct writer *writer, uint8_t which, uint64_t value)
{
    struct tb *tb = writer->tb;
    tb_op(tb, OPS[which % 8], FLAGS[which % 8], which & 8 ? "lr=0.1, train=True" : NULL);
    if (writer->last && which & 16)
        tb_in_of(tb, 0, writer->last);
    else
        tb_in(tb, 0, value / 2);
    writer->last = tb_out(tb, 0, value);
    tb_close(tb);
}

static void record_state(struct writer *writer, uint8_t which, uint64_t value)
{
    struct tb *tb = writer->tb;
    const char *name = NAMES[which % 8];
    switch (which / 8 % 7) {
    case 0:
        writer->last = tb_param(tb, name, value);
        break;
    case 1:
        writer->last = tb_optstate(tb, name, value);
        break;
    case 2:
        writer->last = tb_grad(tb, name, value);
        break;
    case 3:
        writer->last = tb_batch(tb, name, value);
        break;
    case 4:
        writer->last = tb_scalar(tb, name, (double)value);
        break;
    case 5:
        writer->last = tb_rng(tb, name, 0, value);
        break;
    default:
        writer->last = tb_loss(tb, (double)value);
        break;
    }
}

static void change_last(struct writer *writer, uint8_t which, uint64_t value)
{
    struct tb_record *last = writer->last;
    if (!last)
        return;
    switch (which % 6) {
    case 0:
        last->state ^= (uint8_t)(DVG_STATE_UNREAD | DVG_STATE_INHERITED);
        break;
    case 1:
        last->dtype = (enum diverge_dtype)(value % DIVERGE_DTYPE_COUNT);
        break;
    case 2:
        last->sizes[0] = (int64_t)value - 2;
        break;
    case 3:
        last->kind = (enum diverge_kind)(value % 4);
        break;
    case 4:
        last->nan = value;
        break;
    default:
        last->micro_step = (uint32_t)value;
        break;
    }
}

static void step(struct writer *writer, uint8_t what, uint8_t value)
{
    struct tb *tb = writer->tb;
    switch (what / 32) {
    case 0:
        next_segment(writer, what);
        break;
    case 1:
    case 2:
        record_call(writer, what, value);
        break;
    case 3:
    case 4:
        record_state(writer, what, value);
        break;
    case 5:
        change_last(writer, what, value);
        break;
    case 6:
        tb_lane(tb, value % 2 ? "main" : "aux");
        break;
    default:
        if (what % 4 == 0)
            tb_scope(tb, value % 2 ? "fc1" : "");
        else if (what % 4 == 1)
            tb_phase(tb, (enum diverge_phase)(value % DIVERGE_PHASE_COUNT));
        else if (what % 4 == 2)
            tb_gap(tb, (enum diverge_tier)(value % DIVERGE_TIER_COUNT), value);
        else
            tb_pruned(tb, (enum diverge_tier)(value % DIVERGE_TIER_COUNT));
        break;
    }
}

static struct tb *write_down(const uint8_t *data, size_t size, bool b)
{
    struct writer writer = {.tb = tb_new(b ? "b" : "a")};
    size_t count = size / 3 < MAX_INSTRUCTIONS ? size / 3 : MAX_INSTRUCTIONS;
    tb_rank(writer.tb, 0);
    tb_boundary(writer.tb, 0);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *instruction = data + i * 3;
        uint8_t other = instruction[2];
        if (b && other % 16 == 1) /* left out */
            continue;
        step(&writer, instruction[0], (uint8_t)(instruction[1] + (b && other % 16 == 2)));
        if (b && other % 16 == 3) /* twice */
            step(&writer, instruction[0], instruction[1]);
    }
    tb_end(writer.tb);
    return writer.tb;
}

static int compare(struct tb *a, struct tb *b, const struct engine_options *options,
                   enum engine_result *ret)
{
    struct engine_answer *answer = NULL;
    int status =
        engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), options, &answer);
    if (status == 0) {
        if ((answer->result == ENGINE_DIFFER) != (answer->first != NULL) ||
            (answer->result == ENGINE_SAME && answer->n_reasons) || !answer->verdict.class_name)
            abort();
        *ret = answer->result;
    } else if (status != DIVERGE_ECORRUPT) {
        abort();
    }
    engine_answer_free(answer);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER)
        return 0;
    struct hostile hostile = {.kind = data[0], .chunk = data[1] == 255 ? UINT_MAX : data[1]};
    memcpy(&hostile.number, data + 2, sizeof(hostile.number));
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.offset = data[10] == 0 ? INT64_MIN : (int64_t)data[10] - 8;
    options.all = data[11] & 1;
    options.strict_structure = data[11] & 2;
    struct tb *a = write_down(data + HEADER, size - HEADER, false);
    struct tb *b = write_down(data + HEADER, size - HEADER, true);
    enum engine_result result, swapped;
    bool lies = hostile.kind < HOSTILE_KINDS;
    if (lies)
        tb_damage(b, hostile_damage, &hostile);
    int status = compare(a, b, &options, &result);
    if (!lies && options.offset == INT64_MIN) {
        if (status != 0 || compare(b, a, &options, &swapped) != 0 || result != swapped)
            abort();
    }
    tb_free(a);
    tb_free(b);
    return 0;
}
