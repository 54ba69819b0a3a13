/* SPDX-License-Identifier: Apache-2.0 */
/* The table of known ops: its form, and what is found in it. */
#include "tests/unit/daemon/engine/check.h"

#include <ctype.h>

#include "daemon/engine/known_ops.h"

enum { FIELDS = 7 };

static size_t split(char *line, char *fields[FIELDS + 1])
{
    size_t n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *at = line; at && n <= FIELDS; at = strchr(at, '\t')) {
        if (n)
            *at++ = '\0';
        fields[n++] = at;
    }
    return n;
}

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static void check_row(char *const fields[], size_t number)
{
    static const char *const libraries[] = {"torch", "tensorflow", "xla", "mkl", NULL};
    static const char *const devices[] = {"cuda", "gpu", "cpu", "any", NULL};
    bool good = is_one_of(fields[0], libraries) && is_one_of(fields[2], devices) &&
                strncmp(fields[6], "https://", 8) == 0;
    for (size_t i = 0; i < FIELDS; i++) {
        size_t size = strlen(fields[i]);
        good = good && size > 0 && size < 200 && !isspace((unsigned char)fields[i][0]) &&
               !isspace((unsigned char)fields[i][size - 1]);
        for (const char *at = fields[i]; *at; at++)
            good = good && isprint((unsigned char)*at);
    }
    const char *star = strchr(fields[1], '*');
    good = good && (!star || (star[1] == '\0' && star > fields[1])) && !strchr(fields[1], ':') &&
           fields[1][0] != '_' && strcmp(fields[4], "-") != 0 && strcmp(fields[5], "-") != 0;
    if (!good)
        fail_msg("row %zu (%s) is not well formed", number, fields[1]);
}

static void every_row_has_seven_fields_and_a_source_and_is_compiled_in(void **state)
{
    (void)state;
    FILE *file = fopen(KNOWN_OPS_FILE, "r");
    char line[1024];
    size_t n = 0;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        char *fields[FIELDS + 1];
        assert_non_null(strchr(line, '\n'));
        if (line[0] == '#')
            continue;
        assert_int_equal(split(line, fields), FIELDS);
        check_row(fields, n + 1);
        assert_true(n < n_known_ops);
        const struct known_op *row = &known_ops[n++];
        const char *const texts[] = {row->library, row->op,       row->device, row->when,
                                     row->remedy,  row->versions, row->source};
        for (size_t i = 0; i < FIELDS; i++)
            assert_string_equal(texts[i], fields[i]);
    }
    fclose(file);
    assert_true(n > 50);
    assert_int_equal(n, n_known_ops);
}

static void no_row_hides_another(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_known_ops; i++) {
        if (strchr(known_ops[i].op, '*'))
            continue;
        const struct known_op *found = known_op_advice(known_ops[i].op, known_ops[i].library);
        if (found != &known_ops[i])
            fail_msg("%s is hidden", known_ops[i].op);
    }
}

static void names_are_found_as_programs_record_them(void **state)
{
    (void)state;
    static const struct {
        const char *recorded, *library, *row;
    } names[] = {
        {"aten::scatter_add_", NULL, "scatter_add"},
        {"aten::_index_put_impl_", NULL, "index_put_impl"},
        {"aten::scatter_add.out", NULL, "scatter_add"},
        {"cumsum", "torch", "cumsum"},
        {"aten::cudnn_convolution_transpose", NULL, "cudnn_convolution*"},
        {"aten::_cudnn_rnn_backward", NULL, "cudnn_rnn*"},
        {"UnsortedSegmentSum", "tensorflow", "UnsortedSegmentSum"},
        {"ScatterNdUpdate", "tensorflow", "ScatterNd*"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct known_op *found = known_op_advice(names[i].recorded, names[i].library);
        assert_non_null(found);
        assert_string_equal(found->op, names[i].row);
    }
}

static void other_names_are_not_found(void **state)
{
    (void)state;
    static const char *const names[] = {"",    "_",          "aten::", "aten::add",    "cumsum2",
                                        "cum", "aten::relu", "*",      "scatter_add_x"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_null(known_op_advice(names[i], "torch"));
}

static void a_library_is_not_told_anothers_remedy(void **state)
{
    (void)state;
    assert_null(known_op_advice("cumsum", "tensorflow"));
    assert_null(known_op_advice("cumsum", NULL));
    assert_string_equal(known_op_advice("scatter", "xla")->library, "xla");
    assert_string_equal(known_op_advice("scatter", "torch")->library, "torch");
    assert_string_equal(known_op_advice("aten::scatter", "xla")->library, "torch");
}

static void the_library_comes_from_the_metadata(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *library;
    } rows[] = {
        {"torch.version", "2.2", "torch"}, {"package.tensorflow", "2.8", "tensorflow"},
        {"framework", "JAX 0.4", "xla"},   {"library.libdiverge", "0.1", NULL},
        {"num_threads", "torch", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tb *tb = tb_new("a");
        tb_metadata(tb, rows[i].key, "cause", rows[i].value);
        tb_rank(tb, 0);
        const char *library = known_op_library(tb_run(tb));
        assert_int_equal(library == NULL, rows[i].library == NULL);
        if (library)
            assert_string_equal(library, rows[i].library);
        tb_free(tb);
    }
}

/* A verdict's "next" names what the library offers, when the op is one of these. */
static bool is_told(const char *op, const char *metadata)
{
    struct tb *runs[2];
    for (uint64_t i = 0; i < 2; i++) {
        struct tb *tb = runs[i] = tb_new(i ? "b" : "a");
        tb_metadata(tb, metadata, "cause", "2.2");
        tb_rank(tb, 0);
        tb_boundary(tb, 0);
        tb_param(tb, "w", 1);
        tb_step(tb, 0);
        tb_op(tb, op, 0, NULL);
        tb_in(tb, 0, 10);
        tb_out(tb, 0, 20 + i);
        tb_close(tb);
        tb_end(tb);
    }
    struct engine_answer *answer = diff(runs[0], runs[1]);
    expect_verdict(answer, "nondeterministic-kernel", NULL);
    bool told = false;
    for (size_t i = 0; i < answer->verdict.n_next; i++)
        told = told || (strstr(answer->verdict.next[i], "documents") &&
                        strstr(answer->verdict.next[i], "https://"));
    engine_answer_free(answer);
    tb_free(runs[0]);
    tb_free(runs[1]);
    return told;
}

static void a_verdict_says_what_helps(void **state)
{
    (void)state;
    assert_true(is_told("aten::scatter_add_", "seed"));
    assert_true(is_told("index_add", "torch.version"));
    assert_true(is_told("scatter", "jax.version"));
    assert_false(is_told("index_add", "seed"));
    assert_false(is_told("index_add", "tensorflow.version"));
    assert_false(is_told("my_op", "torch.version"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_seven_fields_and_a_source_and_is_compiled_in),
        cmocka_unit_test(no_row_hides_another),
        cmocka_unit_test(names_are_found_as_programs_record_them),
        cmocka_unit_test(other_names_are_not_found),
        cmocka_unit_test(a_library_is_not_told_anothers_remedy),
        cmocka_unit_test(the_library_comes_from_the_metadata),
        cmocka_unit_test(a_verdict_says_what_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
