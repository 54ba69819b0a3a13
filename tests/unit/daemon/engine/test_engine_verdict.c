/* SPDX-License-Identifier: Apache-2.0 */
/* Why: each class from instances of it, and a near miss that must not get it. */
#include "tests/unit/daemon/engine/check.h"

#include <diverge/fingerprint.h>

#include "client/wire/message.h"

static void finish(struct engine_answer *answer, struct tb *a, struct tb *b)
{
    engine_answer_free(answer);
    tb_free(a);
    tb_free(b);
}

static struct tb *plain(const char *name)
{
    struct training training = TRAINING_INIT;
    return training_new(name, &training);
}

/* The answer of a plain run against one with a plant. */
static struct engine_answer *against(const struct training *training, struct tb **a, struct tb **b)
{
    *a = plain("a");
    *b = training_new("b", training);
    return diff(*a, *b);
}

/*
 * ---- builders of small pairs: `i` is 0 for A and 1 for B ---------------------------------------
 */

static struct tb *begin(uint64_t i)
{
    struct tb *tb = tb_new(i ? "b" : "a");
    tb_metadata(tb, "seed", "cause", "0");
    tb_rank(tb, 0);
    return tb;
}

static struct engine_answer *pair(struct tb *(*make)(uint64_t i), struct tb **a, struct tb **b)
{
    *a = make(0);
    *b = make(1);
    return diff(*a, *b);
}

static struct tb_record *simple_op(struct tb *tb, const char *op, uint32_t flags, uint64_t in,
                                   uint64_t out)
{
    tb_op(tb, op, flags, NULL);
    tb_in(tb, 0, in);
    struct tb_record *made = tb_out(tb, 0, out);
    tb_close(tb);
    return made;
}

/* ---- init ----------------------------------------------------------------------------------- */

static void another_seed_is_init_seed(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.seed = 1;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(0), "", "", "emb.weight");
    expect_relation(answer, ENGINE_STATE);
    expect_verdict(answer, "init", "seed");
    finish(answer, a, b);
}

enum { EQUAL, FRESH, DRAWS_MORE };

/* Four tensors from a generator; what happens before the third one differs. */
static struct tb *construct(uint64_t i, int kind)
{
    struct tb *tb = begin(i);
    uint64_t generator = 5;
    tb_init(tb);
    tb_rng(tb, "global", 0, generator);
    uint64_t values[4];
    for (uint64_t p = 0; p < 4; p++) {
        if (kind == DRAWS_MORE && p == 2 && i)
            generator = tb_mix(generator, 3);
        generator = tb_mix(generator, 3);
        values[p] = kind == FRESH && p == 3 ? tb_mix(111 + i, 3) : generator;
        simple_op(tb, "normal_", DIVERGE_FLAG_RANDOM, 0, values[p]);
    }
    tb_rng(tb, "global", 1, generator);
    tb_boundary(tb, 0);
    tb_rng(tb, "global", 0, generator);
    for (uint64_t p = 0; p < 4; p++)
        tb_param(tb, tb_text(tb, "p%llu", (unsigned long long)p), values[p]);
    tb_step(tb, 0);
    simple_op(tb, "mm", 0, values[0], 1);
    simple_op(tb, "mm", 0, values[3], tb_mix(values[3], 1));
    tb_end(tb);
    return tb;
}

static struct tb *construct_fresh(uint64_t i)
{
    return construct(i, FRESH);
}

static struct tb *construct_offset(uint64_t i)
{
    return construct(i, DRAWS_MORE);
}

static void a_tensor_of_another_generator_is_fresh(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(construct_fresh, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(0), "", "", "p3");
    expect_verdict(answer, "init", "fresh-tensors");
    assert_int_equal(answer->verdict.confidence, ENGINE_CERTAIN);
    finish(answer, a, b);
}

static void one_draw_more_in_construction_is_an_offset(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(construct_offset, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(0), "", "", "p2");
    expect_verdict(answer, "init", "offset");
    finish(answer, a, b);
}

/* Without a word about generators: what differs tells, and only that it is likely. */
static struct tb *unseen_generators(uint64_t i, bool all)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    for (uint64_t p = 0; p < 3; p++)
        tb_param(tb, tb_text(tb, "p%llu", (unsigned long long)p), p + (all || p == 1 ? 10 * i : 0));
    tb_end(tb);
    return tb;
}

static struct tb *unseen_all(uint64_t i)
{
    return unseen_generators(i, true);
}

static struct tb *unseen_one(uint64_t i)
{
    return unseen_generators(i, false);
}

static void without_generators_the_spread_tells(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(unseen_all, &a, &b);
    expect_verdict(answer, "init", "seed");
    assert_int_equal(answer->verdict.confidence, ENGINE_LIKELY);
    finish(answer, a, b);
    answer = pair(unseen_one, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(0), "", "", "p1");
    expect_verdict(answer, "init", "fresh-tensors");
    finish(answer, a, b);
}

/* ---- uninitialised -------------------------------------------------------------------------- */

static struct tb *unwritten(uint64_t i, bool written)
{
    struct tb *tb = begin(i);
    tb_init(tb);
    tb_rng(tb, "global", 0, 1);
    tb_scope(tb, "fc1");
    tb_op(tb, "empty", DIVERGE_FLAG_UNINITIALISED, NULL);
    tb_out(tb, 0, 400);
    tb_close(tb);
    simple_op(tb, "uniform_", DIVERGE_FLAG_RANDOM | DIVERGE_FLAG_INPLACE, 0, 10);
    tb_op(tb, "empty", DIVERGE_FLAG_UNINITIALISED, NULL);
    tb_out(tb, 0, 500 + i);
    tb_close(tb);
    if (written)
        simple_op(tb, "copy_", DIVERGE_FLAG_INPLACE, 0, 500 + i);
    tb_scope(tb, "");
    tb_rng(tb, "global", 1, 2);
    tb_boundary(tb, 0);
    tb_rng(tb, "global", 0, 2);
    tb_param(tb, "fc1.weight", 10);
    tb_param(tb, "fc1.bias", 500 + i);
    tb_end(tb);
    return tb;
}

static struct tb *unwritten_bias(uint64_t i)
{
    return unwritten(i, false);
}

static struct tb *written_bias(uint64_t i)
{
    return unwritten(i, true);
}

static void a_tensor_no_record_wrote_is_uninitialised(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(unwritten_bias, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(0), "", "", "fc1.bias");
    expect_verdict(answer, "corruption", "uninitialised");
    assert_int_equal(answer->verdict.confidence, ENGINE_CERTAIN);
    finish(answer, a, b);
    answer = pair(written_bias, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(0), "", "", "fc1.bias");
    expect_verdict(answer, "init", "fresh-tensors");
    finish(answer, a, b);
}

static struct tb *reads_empty(uint64_t i)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    tb_op(tb, "empty", DIVERGE_FLAG_UNINITIALISED, NULL);
    struct tb_record *empty = tb_out(tb, 0, 70 + i);
    tb_close(tb);
    tb_op(tb, "add", 0, NULL);
    tb_in_of(tb, 0, empty);
    tb_out(tb, 0, 80 + i);
    tb_close(tb);
    tb_end(tb);
    return tb;
}

static void an_op_that_reads_an_allocation_is_uninitialised(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(reads_empty, &a, &b);
    expect_place(answer, SEGMENT_STEP(0), "", "add", "");
    expect_verdict(answer, "corruption", "uninitialised");
    finish(answer, a, b);
}

/* ---- data ----------------------------------------------------------------------------------- */

enum order_kind { BY_EPOCH, BY_ROWS, BY_WINDOW, CONTENT, NO_IDS, REPLAY, PAIRING, PADDING };

static void record_batch(struct tb *tb, uint64_t i, uint64_t step, enum order_kind kind)
{
    uint64_t tokens = 100 + step, labels = 200 + step, ids = 300 + step;
    uint64_t rows = 1000 + step, epoch = 9000;
    bool here = i && step >= 2;
    if (here && kind == BY_WINDOW && step < 4) { /* B swaps the batches of steps 2 and 3 */
        tokens = 100 + 5 - step;
        ids = 300 + 5 - step;
        rows = 1000 + 5 - step;
    } else if (here && kind == REPLAY) {
        tokens = 100 + step - 2;
        labels = 200 + step - 2;
        ids = 300 + step - 2;
        rows = 1000 + step - 2;
    } else if (here && kind == PAIRING) {
        labels += 50;
    } else if (here && kind != PADDING) {
        tokens += 5000;
        rows += kind == BY_ROWS ? 0 : 777;
        ids += kind == BY_ROWS ? 50 : 0;
        epoch += kind == CONTENT;
    }
    tb_phase(tb, DIVERGE_PHASE_DATA);
    if (kind == BY_EPOCH || (kind == CONTENT && step == 2))
        tb_batch_integer(tb, "epoch.rows.set", epoch);
    if (kind != NO_IDS)
        tb_batch(tb, "ids", ids);
    struct tb_record *field = tb_batch(tb, "tokens", tokens);
    if (here && kind == PADDING)
        field->sizes[1] = 20;
    if (kind != NO_IDS)
        tb_batch_integer(tb, "tokens.rows.set", rows);
    tb_batch(tb, "labels", labels);
    tb_batch_integer(tb, "labels.rows.set", 8000);
}

static struct tb *batches(uint64_t i, enum order_kind kind)
{
    struct tb *tb = begin(i);
    for (uint64_t step = 0; step < 6; step++) {
        tb_boundary(tb, step);
        tb_param(tb, "w", step);
        tb_step(tb, step);
        record_batch(tb, i, step, kind);
    }
    tb_boundary(tb, 6);
    tb_end(tb);
    return tb;
}

static void expect_data(enum order_kind kind, const char *detail, const char *name)
{
    struct tb *a = batches(0, kind), *b = batches(1, kind);
    struct engine_answer *answer = diff(a, b), *swapped = diff(b, a);
    expect_place(answer, SEGMENT_STEP(2), "", "", name);
    expect_relation(answer, ENGINE_STATE);
    expect_verdict(answer, "data", detail);
    expect_verdict(swapped, "data", detail);
    assert_int_equal(answer->agree_boundary, 2);
    engine_answer_free(swapped);
    finish(answer, a, b);
}

static void data_details(void **state)
{
    (void)state;
    expect_data(BY_EPOCH, "order", "tokens");
    expect_data(BY_ROWS, "order", "ids");
    expect_data(BY_WINDOW, "order", "ids");
    expect_data(CONTENT, "content", "tokens");
    expect_data(NO_IDS, NULL, "tokens");
    expect_data(REPLAY, "replay", "ids");
    expect_data(PAIRING, "pairing", "labels");
    expect_data(PADDING, "padding", "tokens");
}

/* ---- rng ------------------------------------------------------------------------------------ */

static void an_extra_draw_is_rng_offset(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.draw_at = 3;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(3), "dropout", "dropout", "");
    expect_relation(answer, ENGINE_ORIGIN);
    expect_verdict(answer, "rng", "offset");
    assert_int_equal(answer->verdict.confidence, ENGINE_CERTAIN);
    assert_true(answer->n_also > 0);
    assert_string_equal(answer->also[0]->site->name, "global");
    finish(answer, a, b);
}

static void without_ops_a_draw_is_likely(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT, other = TRAINING_INIT;
    training.level = other.level = DIVERGE_TIER_STEP;
    other.draw_at = 3;
    struct tb *a = training_new("a", &training), *b = training_new("b", &other);
    struct engine_answer *answer = diff(a, b);
    expect_place(answer, SEGMENT_STEP(3), "", "", "loss");
    expect_verdict(answer, "rng", "offset");
    assert_int_equal(answer->verdict.confidence, ENGINE_LIKELY);
    finish(answer, a, b);
}

static void a_draw_that_nothing_uses_is_a_note(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.python_draw_at = 2;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_result(answer, ENGINE_SAME);
    expect_verdict(answer, "none", NULL);
    assert_int_equal(answer->n_also, 1 + 1 - 1);
    assert_string_equal(answer->also[0]->site->name, "python");
    assert_int_equal(answer->also[0]->relation, ENGINE_STATE);
    finish(answer, a, b);
}

/* Near miss: Python's generator differs, and a kernel that draws nothing does too. */
static void a_generator_that_is_not_drawn_from_is_no_cause(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.python_draw_at = 2;
    training.kernel_at = 4;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(4), "emb", "linear", "");
    expect_verdict(answer, "nondeterministic-kernel", NULL);
    finish(answer, a, b);
    training.python_draw_at = TRAINING_NEVER;
    training.draw_at = 4; /* the global one differs, but the op before dropout is not random */
    answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(4), "emb", "linear", "");
    expect_verdict(answer, "nondeterministic-kernel", NULL);
    finish(answer, a, b);
}

/* ---- resume --------------------------------------------------------------------------------- */

static struct engine_answer *resumed(struct training training, struct tb **a, struct tb **b)
{
    training.first = 4;
    return against(&training, a, b);
}

static void a_lost_optimizer_is_resume_optimizer(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.fresh_optimizer = true;
    for (int renumber = 0; renumber < 2; renumber++) {
        training.renumber = renumber ? 4 : 0;
        struct engine_answer *answer = resumed(training, &a, &b);
        assert_int_equal(answer->first->segment, SEGMENT_BOUNDARY(4));
        assert_int_equal(answer->first->site->role, DIVERGE_ROLE_OPTSTATE);
        expect_verdict(answer, "resume", "optimizer");
        assert_int_equal(answer->verdict.confidence, ENGINE_CERTAIN);
        struct engine_answer *swapped = diff(b, a);
        expect_verdict(swapped, "resume", "optimizer");
        engine_answer_free(swapped);
        finish(answer, a, b);
    }
}

static void exchanged_moments_are_resume_permuted(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.swap_moments = true;
    struct engine_answer *answer = resumed(training, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(4), "", "", "fc1.weight.exp_avg");
    expect_verdict(answer, "resume", "permuted");
    finish(answer, a, b);
}

static void data_after_a_resume_is_its_position(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.data_at = 4;
    struct engine_answer *answer = resumed(training, &a, &b);
    expect_verdict(answer, "resume", "data-position");
    finish(answer, a, b);
    training.data_at = 5; /* near miss: not the first step after the resume */
    answer = resumed(training, &a, &b);
    expect_verdict(answer, "data", "content");
    finish(answer, a, b);
}

/* The absent zero_ ops of the run that went on are no note, let alone a verdict. */
static struct tb *resumes(uint64_t i, uint64_t kind)
{
    struct tb *tb = begin(i);
    for (uint64_t k = i ? 2 : 0; k < 4; k++) {
        tb_boundary(tb, k);
        tb_rng(tb, "global", 0, k + (i && kind == 2 ? 50 : 0));
        tb_param(tb, "w", k + (i && kind == 0 ? 7 : 0));
        tb_scalar(tb, kind == 3 ? "loss_scale" : "lr", i && kind && kind != 2 ? 0.5 : 1.0);
        tb_step(tb, k);
        if (i && k == 2)
            simple_op(tb, "zero_", 0, 1, 0);
        simple_op(tb, "dropout", DIVERGE_FLAG_RANDOM, k, k + (i && kind == 2 ? 50 : 9));
    }
    tb_end(tb);
    return tb;
}

static void expect_resume(uint64_t kind, const char *detail)
{
    struct tb *a = resumes(0, kind), *b = resumes(1, kind);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.offset = 0;
    struct engine_answer *answer = diff_with(a, b, &options);
    expect_verdict(answer, "resume", detail);
    assert_int_equal(answer->n_structure, 0);
    finish(answer, a, b);
}

static void resume_details(void **state)
{
    (void)state;
    expect_resume(0, "parameter");
    expect_resume(1, "scheduler");
    expect_resume(2, "rng");
    expect_resume(3, "scaler");
}

/* ---- scalars and arguments ------------------------------------------------------------------ */

static void another_learning_rate_is_hyperparameter_lr(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.lr_at = 2;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(3), "", "", "lr");
    expect_relation(answer, ENGINE_STATE);
    expect_verdict(answer, "hyperparameter", "lr");
    CHECK(answer, has_evidence(answer, "a ratio of 2"));
    finish(answer, a, b);
}

static struct tb *other_scalar(uint64_t i, const char *name, const char *argument)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    tb_op(tb, "adam_", DIVERGE_FLAG_INPLACE, i && argument ? argument : "lr=0.01, eps=1e-08");
    tb_in(tb, 0, 10);
    tb_out(tb, 0, i && argument ? 21 : 20);
    tb_close(tb);
    tb_boundary(tb, 1);
    tb_scalar(tb, name, i && !argument ? 2 : 1);
    tb_end(tb);
    return tb;
}

static void expect_scalar(const char *name, const char *argument, const char *class_name,
                          const char *detail)
{
    struct tb *a = other_scalar(0, name, argument), *b = other_scalar(1, name, argument);
    struct engine_answer *answer = diff(a, b);
    expect_verdict(answer, class_name, detail);
    finish(answer, a, b);
}

static void settings_have_details(void **state)
{
    (void)state;
    expect_scalar("weight_decay", NULL, "hyperparameter", "weight-decay");
    expect_scalar("momentum", NULL, "hyperparameter", "argument");
    expect_scalar("loss_scale", NULL, "hyperparameter", "loss-scale");
    expect_scalar("training", NULL, "mode", NULL);
    expect_scalar("lr", "lr=0.02, eps=1e-08", "hyperparameter", "lr");
    expect_scalar("lr", "lr=0.01, eps=1e-06", "hyperparameter", "argument");
    expect_scalar("lr", "lr=0.01, eps=1e-08, train=True", "mode", NULL);
    /* near misses: results are no settings */
    struct tb *a = other_scalar(0, "grad_norm", NULL), *b = other_scalar(1, "grad_norm", NULL);
    struct engine_answer *answer = diff(a, b);
    expect_class_not(answer, "hyperparameter");
    assert_int_equal(answer->verdict.confidence, ENGINE_POSSIBLE);
    finish(answer, a, b);
}

/* The flag is evidence only; the op that is missing feeds the first value that differs. */
static struct tb *left_in_eval(uint64_t i, bool flag)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_add(tb, (struct tb_record){.tier = DIVERGE_TIER_EVIDENCE,
                                  .role = DIVERGE_ROLE_ATTR,
                                  .name = "training",
                                  .kind = DIVERGE_KIND_INTEGER,
                                  .value = flag ? 1 - i : 1});
    tb_step(tb, 0);
    struct tb_record *x = simple_op(tb, "mm", 0, 1, 5);
    if (i == 0) {
        tb_op(tb, "dropout", DIVERGE_FLAG_RANDOM, NULL);
        tb_in_of(tb, 0, x);
        x = tb_out(tb, 0, 6);
        tb_close(tb);
    }
    tb_op(tb, "relu", 0, NULL);
    tb_in_of(tb, 0, x);
    tb_out(tb, 0, 7 + i);
    tb_close(tb);
    tb_end(tb);
    return tb;
}

static struct tb *in_eval(uint64_t i)
{
    return left_in_eval(i, true);
}

static struct tb *without_dropout(uint64_t i)
{
    return left_in_eval(i, false);
}

static void a_flag_in_the_evidence_is_mode(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(in_eval, &a, &b);
    expect_verdict(answer, "mode", NULL);
    assert_int_equal(answer->verdict.confidence, ENGINE_LIKELY);
    finish(answer, a, b);
    answer = pair(without_dropout, &a, &b);
    expect_verdict(answer, "structure", "missing");
    finish(answer, a, b);
}

static void another_argument_is_hyperparameter_argument(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.argument_at = 3;
    training.layer = 2;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(3), "head", "linear", "");
    expect_verdict(answer, "hyperparameter", "argument");
    CHECK(answer, has_evidence(answer, "alpha=1 against alpha=2"));
    finish(answer, a, b);
}

/* ---- precision ------------------------------------------------------------------------------ */

static struct tb *autocast(uint64_t i, bool explicit_cast)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    tb_scope(tb, "fc1");
    struct tb_record *x = simple_op(tb, "mean", 0, 1, 2);
    if (i && explicit_cast) {
        tb_op(tb, "aten::_to_copy", 0, "dtype=bfloat16");
        tb_in_of(tb, 0, x);
        x = tb_out(tb, 0, 3);
        x->dtype = DIVERGE_BF16;
        tb_close(tb);
    }
    tb_op(tb, "aten::addmm", 0, NULL);
    tb_in_of(tb, 0, x);
    tb_out(tb, 0, 4 + i)->dtype = i ? DIVERGE_BF16 : DIVERGE_F32;
    tb_close(tb);
    tb_end(tb);
    return tb;
}

static struct tb *autocast_with_cast(uint64_t i)
{
    return autocast(i, true);
}

static struct tb *autocast_inside(uint64_t i)
{
    return autocast(i, false);
}

static void another_float_format_is_precision_cast(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(autocast_with_cast, &a, &b);
    expect_place(answer, SEGMENT_STEP(0), "fc1", "aten::addmm", "");
    assert_int_equal(answer->first->a.dtype, DIVERGE_F32);
    assert_int_equal(answer->first->b.dtype, DIVERGE_BF16);
    expect_verdict(answer, "precision", "cast");
    CHECK(answer, has_evidence(answer, "aten::_to_copy"));
    assert_int_equal(answer->n_structure, 1);
    assert_int_equal(answer->structure[0].count, 2);
    assert_string_equal(answer->structure[0].what, "extra");
    assert_int_equal(answer->structure[0].side, 'b');
    finish(answer, a, b);
    answer = pair(autocast_inside, &a, &b);
    expect_verdict(answer, "precision", "cast");
    finish(answer, a, b);
}

/* ---- structure ------------------------------------------------------------------------------ */

enum form { SHAPE, INT_DTYPE, MISSING_PARAM, EXTRA_PARAM, FEEDS, NO_GRADIENT };

static struct tb *structure(uint64_t i, enum form form)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "a", 1);
    if (!(form == MISSING_PARAM && i) && !(form == EXTRA_PARAM && !i))
        tb_param(tb, "b", 2);
    tb_step(tb, 0);
    struct tb_record *x = simple_op(tb, "mm", 0, 1, 5);
    if (form == SHAPE && i)
        x->sizes[0] = 8;
    if (form == INT_DTYPE)
        x->dtype = i ? DIVERGE_I32 : DIVERGE_I64;
    if (form == FEEDS && i) {
        tb_op(tb, "clamp", 0, NULL);
        tb_in_of(tb, 0, x);
        x = tb_out(tb, 0, 6);
        tb_close(tb);
    }
    tb_op(tb, "relu", 0, NULL);
    tb_in_of(tb, 0, x);
    tb_out(tb, 0, form == FEEDS ? 7 + i : 7);
    tb_close(tb);
    struct tb_record *gradient = tb_grad(tb, "a", form == NO_GRADIENT && i ? 0 : 3);
    if (form == NO_GRADIENT && i)
        gradient->kind = DIVERGE_KIND_ABSENT;
    tb_end(tb);
    return tb;
}

static void expect_structure(enum form form, const char *detail, const char *swapped_detail,
                             uint64_t segment)
{
    struct tb *a = structure(0, form), *b = structure(1, form);
    struct engine_answer *answer = diff(a, b), *swapped = diff(b, a);
    expect_verdict(answer, "structure", detail);
    expect_verdict(swapped, "structure", swapped_detail);
    assert_int_equal(answer->first->segment, segment);
    engine_answer_free(swapped);
    finish(answer, a, b);
}

static void structure_details(void **state)
{
    (void)state;
    expect_structure(SHAPE, "shape", "shape", SEGMENT_STEP(0));
    expect_structure(INT_DTYPE, "dtype", "dtype", SEGMENT_STEP(0));
    expect_structure(MISSING_PARAM, "missing", "extra", SEGMENT_BOUNDARY(0));
    expect_structure(EXTRA_PARAM, "extra", "missing", SEGMENT_BOUNDARY(0));
    expect_structure(FEEDS, "extra", "missing", SEGMENT_STEP(0));
    expect_structure(NO_GRADIENT, "missing", "extra", SEGMENT_STEP(0));
}

static void an_extra_op_without_effect_is_a_note(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.extra_op_at = 2;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_result(answer, ENGINE_SAME);
    assert_int_equal(answer->n_structure, 1);
    assert_string_equal(answer->structure[0].site->op, "norm");
    assert_int_equal(answer->structure[0].segment, SEGMENT_STEP(2));
    assert_int_equal(answer->compared.only_b, 2);
    engine_answer_free(answer);
    struct engine_options options = ENGINE_OPTIONS_INIT;
    options.strict_structure = true;
    answer = diff_with(a, b, &options);
    expect_place(answer, SEGMENT_STEP(2), "fc1", "norm", "");
    expect_verdict(answer, "structure", "extra");
    finish(answer, a, b);
    training.kernel_at = 5; /* and what comes later is still compared */
    answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(5), "emb", "linear", "");
    finish(answer, a, b);
}

static void a_missing_collective_is_desync(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.skip_reduce_at = 0;
    training.layer = 2;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(0), "head.weight", "all_reduce", "");
    expect_relation(answer, ENGINE_STRUCTURE);
    assert_true(answer->first->a.present && !answer->first->b.present);
    expect_verdict(answer, "desync", "missing-collective");
    finish(answer, a, b);
}

/* ---- unobserved ----------------------------------------------------------------------------- */

static void a_write_between_two_ops_is_unobserved(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.raw_write_at = 2;
    training.layer = 2;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(2), "head", "linear", "");
    expect_relation(answer, ENGINE_RECEIVER);
    expect_verdict(answer, "unobserved", NULL);
    assert_int_equal(answer->verdict.confidence, ENGINE_CERTAIN);
    CHECK(answer, has_evidence(answer, "in B the input is not what its producer made"));
    finish(answer, a, b);
}

static struct tb *inherits(uint64_t i)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    struct tb_record *x = simple_op(tb, "mm", 0, 1, 5);
    tb_op(tb, "relu", 0, NULL);
    struct tb_record *input = tb_in_of(tb, 0, x);
    input->state = DVG_STATE_INHERITED;
    input->value += i;
    tb_out(tb, 0, 7 + i);
    tb_close(tb);
    tb_end(tb);
    return tb;
}

static void inherited_inputs_never_support_unobserved_for_certain(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(inherits, &a, &b);
    assert_int_equal(answer->verdict.confidence, ENGINE_POSSIBLE);
    finish(answer, a, b);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void another_output_of_equal_inputs_is_nondeterministic(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.kernel_at = 3;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_verdict(answer, "nondeterministic-kernel", NULL);
    assert_int_equal(answer->verdict.confidence, ENGINE_LIKELY);
    CHECK(answer, has_evidence(answer, "rule: nondeterministic-kernel, likely"));
    finish(answer, a, b);
}

static struct tb *with_threads(uint64_t i, const char *key, const char *class_name,
                               enum diverge_dtype dtype)
{
    struct tb *tb = tb_new(i ? "b" : "a");
    tb_metadata(tb, key, class_name, i ? "2" : "1");
    tb_rank(tb, 0);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    simple_op(tb, "sum", 0, 1, 5 + i)->dtype = dtype;
    tb_end(tb);
    return tb;
}

static void expect_cause(const char *key, const char *metadata_class, enum diverge_dtype dtype,
                         const char *class_name, const char *detail)
{
    struct tb *a = with_threads(0, key, metadata_class, dtype);
    struct tb *b = with_threads(1, key, metadata_class, dtype);
    struct engine_answer *answer = diff(a, b);
    expect_verdict(answer, class_name, detail);
    assert_int_equal(answer->verdict.confidence, ENGINE_POSSIBLE);
    finish(answer, a, b);
}

static void a_cause_that_differs_makes_it_reduction_order(void **state)
{
    (void)state;
    expect_cause("num_threads", "cause", DIVERGE_F32, "reduction-order", "threads");
    expect_cause("OMP_NUM_THREADS", "cause", DIVERGE_BF16, "reduction-order", "threads");
    expect_cause("cuda.device_name", "cause", DIVERGE_F32, "reduction-order", "device");
    expect_cause("torch.version", "cause", DIVERGE_F32, "reduction-order", NULL);
    /* near misses: context is no cause, a seed reorders nothing, integers add up exactly */
    expect_cause("num_threads", "context", DIVERGE_F32, "nondeterministic-kernel", NULL);
    expect_cause("seed", "cause", DIVERGE_F32, "nondeterministic-kernel", NULL);
    expect_cause("num_threads", "cause", DIVERGE_I64, "nondeterministic-kernel", NULL);
}

static float sketches[2][64];

static struct tb *sketched(uint64_t i)
{
    struct tb *tb = with_threads(i, "num_threads", "cause", DIVERGE_F32);
    (void)i;
    return tb;
}

static struct tb *with_sketch(uint64_t i)
{
    struct tb *tb = tb_new(i ? "b" : "a");
    tb_metadata(tb, "num_threads", "cause", i ? "2" : "1");
    tb_rank(tb, 0);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    struct tb_record *sum = simple_op(tb, "sum", 0, 1, 5 + i);
    sum->sketch = sketches[i];
    sum->l2 = 8;
    tb_end(tb);
    return tb;
}

static void sketches_tell_rounding_from_more(void **state)
{
    (void)state;
    struct tb *a, *b;
    for (int k = 0; k < 64; k++)
        sketches[0][k] = sketches[1][k] = 1.0f;
    sketches[1][3] += 1e-5f;
    struct engine_answer *answer = pair(with_sketch, &a, &b);
    assert_true(answer->first->rel_l2 > 0 && answer->first->rel_l2 < 1e-5);
    assert_true(answer->first->ulp > 1 && answer->first->ulp < 100);
    expect_verdict(answer, "reduction-order", "threads");
    assert_int_equal(answer->verdict.confidence, ENGINE_LIKELY);
    finish(answer, a, b);
    sketches[1][3] += 4.0f;
    answer = pair(with_sketch, &a, &b);
    expect_class_not(answer, "reduction-order");
    finish(answer, a, b);
    answer = pair(sketched, &a, &b);
    assert_true(answer->first->rel_l2 != answer->first->rel_l2);
    finish(answer, a, b);
}

static uint64_t flip_delta;

static struct tb *flips(uint64_t i)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    tb_boundary(tb, 1);
    struct tb_record *param =
        tb_param(tb, "w", diverge_checksum_add(123456789, i ? flip_delta : 0));
    param->sizes[0] = 64;
    tb_end(tb);
    return tb;
}

static void flip(uint32_t word, uint32_t change, const char *class_name)
{
    uint32_t bits = change;
    struct tb *a, *b;
    flip_delta = diverge_checksum_bytes(&bits, sizeof(bits), (uint64_t)word * 4);
    struct engine_answer *answer = pair(flips, &a, &b);
    expect_place(answer, SEGMENT_BOUNDARY(1), "", "", "w");
    CHECK(answer, strcmp(answer->verdict.class_name, class_name) == 0);
    assert_int_equal(answer->verdict.confidence, ENGINE_POSSIBLE);
    finish(answer, a, b);
}

static void one_changed_bit_is_a_bit_flip(void **state)
{
    (void)state;
    flip(500, 1u << 27, "corruption");
    flip(3, 1u << 5, "corruption");
    flip(3, 1u << 3, "nondeterministic-kernel");  /* within 16 ulp: rounding */
    flip(3, 3u << 20, "nondeterministic-kernel"); /* two bits */
}

static struct tb *keeps_old(uint64_t i)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    simple_op(tb, "add_", DIVERGE_FLAG_INPLACE, 40, i ? 40 : 41);
    tb_end(tb);
    return tb;
}

static void an_output_that_is_its_input_is_a_dropped_write(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(keeps_old, &a, &b);
    expect_verdict(answer, "kernel-mismatch", "dropped-write");
    finish(answer, a, b);
}

static void nan_from_finite_inputs_is_nonfinite(void **state)
{
    (void)state;
    struct training training = TRAINING_INIT;
    struct tb *a, *b;
    training.nan_at = 5;
    training.layer = 2;
    struct engine_answer *answer = against(&training, &a, &b);
    expect_place(answer, SEGMENT_STEP(5), "head", "linear", "");
    expect_verdict(answer, "nonfinite", NULL);
    finish(answer, a, b);
}

/* The scale differs first; the overflow comes two ops later. Both are told. */
static struct tb *overflows(uint64_t i)
{
    struct tb *tb = begin(i);
    tb_boundary(tb, 0);
    tb_param(tb, "w", 1);
    tb_step(tb, 0);
    tb_op(tb, "mul", 0, i ? "scale=120000" : "scale=30000");
    tb_in(tb, 0, 1);
    struct tb_record *x = tb_out(tb, 0, 5 + i);
    tb_close(tb);
    tb_op(tb, "to_half", 0, NULL);
    tb_in_of(tb, 0, x);
    struct tb_record *half = tb_out(tb, 0, 8 + i);
    half->dtype = DIVERGE_F16;
    half->nan = i ? 3 : 0;
    tb_close(tb);
    tb_end(tb);
    return tb;
}

static void nonfinite_is_linked_to_its_origin(void **state)
{
    (void)state;
    struct tb *a, *b;
    struct engine_answer *answer = pair(overflows, &a, &b);
    expect_place(answer, SEGMENT_STEP(0), "", "mul", "");
    expect_verdict(answer, "nonfinite", NULL);
    assert_int_equal(answer->n_also, 1);
    assert_string_equal(answer->also[0]->site->op, "to_half");
    CHECK(answer, has_evidence(answer, "scale=30000"));
    finish(answer, a, b);
}

/* ---- environment ---------------------------------------------------------------------------- */

static void causes_come_first(void **state)
{
    (void)state;
    struct tb *a = tb_new("a"), *b = tb_new("b");
    tb_metadata(a, "alpha", "context", "1");
    tb_metadata(b, "alpha", "context", "2");
    tb_metadata(a, "zeta", "cause", "1");
    tb_metadata(b, "zeta", "cause", "2");
    tb_metadata(a, "equal", "cause", "x");
    tb_metadata(b, "equal", "cause", "x");
    tb_metadata(b, "only_b", "volatile", "x");
    struct engine_answer *answer = NULL;
    assert_int_equal(engine_environment_diff(tb_run(a), tb_run(b), &answer), 0);
    assert_int_equal(answer->n_environment, 3);
    assert_string_equal(answer->environment[0].key, "zeta");
    assert_string_equal(answer->environment[1].key, "alpha");
    assert_string_equal(answer->environment[2].key, "only_b");
    assert_null(answer->environment[2].a);
    assert_int_equal(answer->environment_equal_causes, 1);
    finish(answer, a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_seed_is_init_seed),
        cmocka_unit_test(a_tensor_of_another_generator_is_fresh),
        cmocka_unit_test(one_draw_more_in_construction_is_an_offset),
        cmocka_unit_test(without_generators_the_spread_tells),
        cmocka_unit_test(a_tensor_no_record_wrote_is_uninitialised),
        cmocka_unit_test(a_flag_in_the_evidence_is_mode),
        cmocka_unit_test(an_op_that_reads_an_allocation_is_uninitialised),
        cmocka_unit_test(data_details),
        cmocka_unit_test(an_extra_draw_is_rng_offset),
        cmocka_unit_test(without_ops_a_draw_is_likely),
        cmocka_unit_test(a_draw_that_nothing_uses_is_a_note),
        cmocka_unit_test(a_generator_that_is_not_drawn_from_is_no_cause),
        cmocka_unit_test(a_lost_optimizer_is_resume_optimizer),
        cmocka_unit_test(exchanged_moments_are_resume_permuted),
        cmocka_unit_test(data_after_a_resume_is_its_position),
        cmocka_unit_test(resume_details),
        cmocka_unit_test(another_learning_rate_is_hyperparameter_lr),
        cmocka_unit_test(settings_have_details),
        cmocka_unit_test(another_argument_is_hyperparameter_argument),
        cmocka_unit_test(another_float_format_is_precision_cast),
        cmocka_unit_test(structure_details),
        cmocka_unit_test(an_extra_op_without_effect_is_a_note),
        cmocka_unit_test(a_missing_collective_is_desync),
        cmocka_unit_test(a_write_between_two_ops_is_unobserved),
        cmocka_unit_test(inherited_inputs_never_support_unobserved_for_certain),
        cmocka_unit_test(another_output_of_equal_inputs_is_nondeterministic),
        cmocka_unit_test(a_cause_that_differs_makes_it_reduction_order),
        cmocka_unit_test(sketches_tell_rounding_from_more),
        cmocka_unit_test(one_changed_bit_is_a_bit_flip),
        cmocka_unit_test(an_output_that_is_its_input_is_a_dropped_write),
        cmocka_unit_test(nan_from_finite_inputs_is_nonfinite),
        cmocka_unit_test(nonfinite_is_linked_to_its_origin),
        cmocka_unit_test(causes_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
