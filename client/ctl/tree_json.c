/* SPDX-License-Identifier: Apache-2.0 */
/* The contract: schema/tree.schema.json. Runs are named by their index in `runs`. */
#include "client/ctl/answer.h"
#include "client/ctl/emit.h"
#include "client/ctl/tree_print.h"

static void emit_runs(struct emit *emit, const char *key, const uint32_t *runs, uint32_t n)
{
    emit_array(emit, key);
    for (uint32_t i = 0; i < n; i++)
        emit_u64(emit, NULL, runs[i]);
    emit_array_end(emit);
}

static void emit_rate(struct emit *emit, uint64_t runs, uint64_t of)
{
    struct tree_rate rate = tree_rate(runs, of);

    emit_object(emit, "rate");
    emit_u64(emit, "runs", runs);
    emit_u64(emit, "of", of);
    emit_number(emit, "value", rate.rate);
    emit_number(emit, "low", rate.low);
    emit_number(emit, "high", rate.high);
    emit_object_end(emit);
}

static void emit_parts(struct emit *emit, const struct engine_answer *parts)
{
    if (!parts) {
        emit_null(emit, "parts");
        return;
    }
    emit_object(emit, "parts");
    answer_emit_finding(emit, "first", parts->first);
    answer_emit_verdict(emit, &parts->verdict);
    emit_bool(emit, "after_gap", parts->after_gap);
    emit_object_end(emit);
}

static void emit_boundary(struct emit *emit, const char *key, bool known, uint64_t boundary)
{
    if (known)
        emit_u64(emit, key, boundary);
    else
        emit_null(emit, key);
}

static void emit_branch(struct emit *emit, const char *key, const struct tree_branch *branch)
{
    emit_object(emit, key);
    emit_runs(emit, "runs", branch->runs, branch->n_runs);
    emit_rate(emit, branch->n_runs, branch->of);
    emit_parts(emit, branch->parts);
    emit_object(emit, "agree_through");
    emit_boundary(emit, "boundary", branch->has_agree, branch->agree_boundary);
    emit_object_end(emit);
    if (branch->n_children) {
        emit_object(emit, "splits");
        answer_emit_place(emit, branch->split);
        emit_object_end(emit);
    } else {
        emit_null(emit, "splits");
    }
    emit_runs(emit, "undecided", branch->undecided, branch->n_undecided);
    emit_boundary(emit, "end_state", branch->end_state >= 0, (uint64_t)branch->end_state);
    emit_array(emit, "children");
    for (uint32_t i = 0; i < branch->n_children; i++)
        emit_branch(emit, NULL, branch->children[i]);
    emit_array_end(emit);
    emit_object_end(emit);
}

void tree_print_json(const struct tree *tree, const struct tree_input *inputs)
{
    struct emit emit;

    emit_begin(&emit, "tree");
    emit_string(&emit, "result", engine_result_name(tree->result));
    emit_array(&emit, "runs");
    for (uint32_t i = 0; i < tree->n_runs; i++)
        answer_emit_run(&emit, NULL, inputs[i].run);
    emit_array_end(&emit);
    emit_branch(&emit, "tree", tree->root);
    emit_array(&emit, "end_states");
    for (uint32_t i = 0; i < tree->n_end_states; i++) {
        const struct tree_end_state *state = &tree->end_states[i];

        emit_object(&emit, NULL);
        emit_rate(&emit, state->n_runs, tree->n_ended);
        emit_u64(&emit, "branches", state->branches);
        emit_boundary(&emit, "boundary", state->has_boundary, state->boundary);
        emit_object_end(&emit);
    }
    emit_array_end(&emit);
    emit_array(&emit, "reasons");
    for (size_t i = 0; i < tree->n_reasons; i++)
        emit_string(&emit, NULL, tree->reasons[i]);
    emit_array_end(&emit);
    emit_print(&emit);
}
