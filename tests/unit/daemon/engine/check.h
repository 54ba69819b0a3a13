/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine's tests ask of an answer. */
#ifndef TESTS_ENGINE_CHECK_H
#define TESTS_ENGINE_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/daemon/engine/training.h"

static inline struct engine_answer *diff_with(struct tb *a, struct tb *b,
                                              const struct engine_options *options)
{
    struct engine_answer *answer = NULL;
    int status =
        engine_first_diff(tb_source(a), tb_run(a), tb_source(b), tb_run(b), options, &answer);
    assert_int_equal(status, 0);
    assert_non_null(answer);
    return answer;
}

static inline struct engine_answer *diff(struct tb *a, struct tb *b)
{
    return diff_with(a, b, NULL);
}

static inline void show(const struct engine_answer *answer)
{
    const struct engine_finding *first = answer->first;
    fprintf(stderr, "result %s, verdict %s (%s) %s: %s\n", engine_result_name(answer->result),
            answer->verdict.class_name, answer->verdict.detail ? answer->verdict.detail : "",
            engine_confidence_name(answer->verdict.confidence), answer->verdict.text);
    for (size_t i = 0; i < answer->verdict.n_evidence; i++)
        fprintf(stderr, "  evidence: %s\n", answer->verdict.evidence[i]);
    for (size_t i = 0; i < answer->n_reasons; i++)
        fprintf(stderr, "  reason: %s\n", answer->reasons[i]);
    if (first)
        fprintf(stderr, "  first: segment %llu rank %u %s/%s/%s role %d slot %u relation %s\n",
                (unsigned long long)first->segment, first->rank, first->site->scope,
                first->site->op, first->site->name, (int)first->site->role, first->site->slot,
                engine_relation_name(first->relation));
}

#define CHECK(answer, condition)                                                                   \
    do {                                                                                           \
        if (!(condition))                                                                          \
            show(answer);                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

static inline void expect_result(const struct engine_answer *answer, enum engine_result result)
{
    CHECK(answer, answer->result == result);
}

static inline void expect_verdict(const struct engine_answer *answer, const char *class_name,
                                  const char *detail)
{
    CHECK(answer, strcmp(answer->verdict.class_name, class_name) == 0);
    CHECK(answer, (detail == NULL) == (answer->verdict.detail == NULL));
    CHECK(answer, !detail || strcmp(answer->verdict.detail, detail) == 0);
}

static inline void expect_class_not(const struct engine_answer *answer, const char *class_name)
{
    CHECK(answer, strcmp(answer->verdict.class_name, class_name) != 0);
}

static inline void expect_place(const struct engine_answer *answer, uint64_t segment,
                                const char *scope, const char *op, const char *name)
{
    expect_result(answer, ENGINE_DIFFER);
    CHECK(answer, answer->first != NULL);
    CHECK(answer, answer->first->segment == segment);
    CHECK(answer, strcmp(answer->first->site->scope, scope) == 0);
    CHECK(answer, strcmp(answer->first->site->op, op) == 0);
    CHECK(answer, strcmp(answer->first->site->name, name) == 0);
}

static inline void expect_relation(const struct engine_answer *answer,
                                   enum engine_relation relation)
{
    CHECK(answer, answer->first && answer->first->relation == relation);
}

static inline bool has_reason(const struct engine_answer *answer, const char *part)
{
    for (size_t i = 0; i < answer->n_reasons; i++)
        if (strstr(answer->reasons[i], part))
            return true;
    return false;
}

static inline void expect_reason(const struct engine_answer *answer, const char *part)
{
    CHECK(answer, has_reason(answer, part));
}

static inline bool has_evidence(const struct engine_answer *answer, const char *part)
{
    for (size_t i = 0; i < answer->verdict.n_evidence; i++)
        if (strstr(answer->verdict.evidence[i], part))
            return true;
    return false;
}

#define SEGMENT_BOUNDARY(k) diverge_segment_of_boundary(k)
#define SEGMENT_STEP(k) diverge_segment_of_step(k)

#endif
