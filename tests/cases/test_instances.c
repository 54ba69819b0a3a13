/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every tests/cases/instances/NAME.case tells two runs (trace/main.c) and what first-diff has to
 * answer:
 *
 *     expect PATH VALUE     of the JSON answer, at a dotted path; null, numbers and texts
 *     expect PATH ~TEXT     printed, it has TEXT in it; !TEXT: it has not
 *     says TEXT             the answer for people, in one line, has TEXT in it
 *     never TEXT            … has not
 *     options WORD …        for first-diff
 *     status N              its exit status [by expect result: same 0, differ 1, unverified 2]
 *
 * They are recorded through the real daemon. `test_instances NAME` does only those whose name has
 * NAME in it and prints the answers.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>
#include <cmocka.h>

#include "tests/cases/trace/script.h"
#include "tests/support/daemon_fixture.h"

enum { MAX_INSTANCES = 512, MAX_OPTIONS = 16 };

static struct dvg_daemon the_daemon;
static bool is_verbose;

static int start(void **state)
{
    (void)state;
    dvg_daemon_init(&the_daemon);
    dvg_daemon_start(&the_daemon, NULL, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    dvg_daemon_fini(&the_daemon);
    return 0;
}

/* ---- what is wanted ------------------------------------------------------------------------- */

struct expectation {
    cJSON *json;
    char *text; /* for people, in one line */
    const char *options[MAX_OPTIONS];
    size_t n_options;
    int status; /* -1: by the result */
    int failures;
};

static void fail_line(struct expectation *expectation, const struct script_line *line,
                      const char *found)
{
    fprintf(stderr, "  line %d: expected", line->number);
    for (size_t i = 1; i < line->count; i++)
        fprintf(stderr, " %s", line->words[i]);
    fprintf(stderr, ", found %s\n", found);
    expectation->failures++;
}

static const cJSON *item_at(const cJSON *json, char *path)
{
    for (char *name; json && (name = strsep(&path, ".")) != NULL;)
        json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(name))
                                   : cJSON_GetObjectItemCaseSensitive(json, name);
    return json;
}

static bool is_value(const cJSON *json, const char *printed, const char *value)
{
    if (value[0] == '~')
        return strstr(printed, value + 1) != NULL;
    if (value[0] == '!')
        return strstr(printed, value + 1) == NULL;
    if (cJSON_IsString(json))
        return strcmp(json->valuestring, value) == 0;
    if (cJSON_IsNumber(json))
        return json->valuedouble == strtod(value, NULL);
    return strcmp(printed, value) == 0;
}

static void expect(struct expectation *expectation, const struct script_line *line)
{
    const cJSON *json = line->count == 3 ? item_at(expectation->json, line->words[1]) : NULL;
    if (!json) {
        fail_line(expectation, line, "no such item");
        return;
    }
    char *printed = cJSON_PrintUnformatted(json);
    if (!is_value(json, printed, line->words[2]))
        fail_line(expectation, line, printed);
    cJSON_free(printed);
}

static void check_line(void *ctx, const struct script_line *line)
{
    struct expectation *expectation = ctx;
    const char *name = line->words[0];
    bool says = strcmp(name, "says") == 0;
    if (strcmp(name, "expect") == 0)
        expect(expectation, line);
    else if ((says || strcmp(name, "never") == 0) && line->count == 2 &&
             (strstr(expectation->text, line->words[1]) != NULL) != says)
        fail_line(expectation, line, expectation->text);
}

static void find_options(void *ctx, const struct script_line *line)
{
    struct expectation *expectation = ctx;
    if (strcmp(line->words[0], "status") == 0 && line->count == 2)
        expectation->status = atoi(line->words[1]);
    if (strcmp(line->words[0], "options") != 0)
        return;
    for (size_t i = 1; i < line->count && expectation->n_options + 1 < MAX_OPTIONS; i++) {
        char *copy = strdup(line->words[i]);
        assert_non_null(copy);
        expectation->options[expectation->n_options++] = copy;
    }
}

/* ---- asking --------------------------------------------------------------------------------- */

static void first_diff(struct dvg_process *process, const char *name, const char *json,
                       const struct expectation *expectation)
{
    char a[192], b[192];
    const char *argv[MAX_OPTIONS + 8] = {getenv("DVG_DIVERGECTL"), "first-diff", a, b};
    size_t n = 4;
    snprintf(a, sizeof(a), "%s-a", name);
    snprintf(b, sizeof(b), "%s-b", name);
    for (size_t i = 0; i < expectation->n_options; i++)
        argv[n++] = expectation->options[i];
    argv[n] = json;
    dvg_process_run(process, argv, NULL);
}

static int status_of(const cJSON *json)
{
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(json, "result");
    if (!cJSON_IsString(result))
        return -1;
    return strcmp(result->valuestring, "same") == 0     ? 0
           : strcmp(result->valuestring, "differ") == 0 ? 1
                                                        : 2;
}

/* Wrapped lines become one, so that what is looked for is not cut. */
static void join_lines(char *text)
{
    char *to = text;
    for (char *at = text; *at; at++) {
        bool blank = *at == ' ' || *at == '\n';
        if (!blank || (to > text && to[-1] != ' '))
            *to++ = blank ? ' ' : *at;
    }
    *to = '\0';
}

static void never_names_what_does_not_exist(struct expectation *expectation)
{
    static const char *const words[] = {"divergectl zoom",     "divergectl check", "--noise",
                                        "divergectl replicas", "divergectl tree",  NULL};
    for (size_t i = 0; words[i]; i++)
        if (strstr(expectation->text, words[i])) {
            fprintf(stderr, "  the answer names %s\n", words[i]);
            expectation->failures++;
        }
}

static void check_answers(const struct script *script, const char *name,
                          struct expectation *expectation)
{
    struct dvg_process json, text;
    first_diff(&json, name, "--json", expectation);
    first_diff(&text, name, NULL, expectation);
    if (is_verbose)
        printf("---- %s\n%s%s", name, text.out, json.out);
    expectation->json = cJSON_Parse(json.out);
    assert_non_null(expectation->json);
    join_lines(text.out);
    expectation->text = text.out;
    script_run(script, '-', -1, check_line, expectation);
    int status = expectation->status < 0 ? status_of(expectation->json) : expectation->status;
    if (dvg_process_status(&json) != status || dvg_process_status(&text) != status) {
        fprintf(stderr, "  status %d, expected %d\n", dvg_process_status(&json), status);
        expectation->failures++;
    }
    never_names_what_does_not_exist(expectation);
    if (expectation->failures)
        fprintf(stderr, "%s: %s\n", name, text.out);
    cJSON_Delete(expectation->json);
    dvg_process_fini(&json);
    dvg_process_fini(&text);
}

static void instance(void **state)
{
    const char *name = *state;
    char path[512];
    struct script script;
    struct dvg_process process;
    struct expectation expectation = {.status = -1};
    snprintf(path, sizeof(path), "%s/%s.case", CASE_INSTANCES, name);
    const char *argv[] = {CASE_TRACE, path, name, NULL};
    dvg_process_run(&process, argv, NULL);
    if (dvg_process_status(&process) != 0)
        fprintf(stderr, "%s: %s\n", name, process.err);
    assert_int_equal(dvg_process_status(&process), 0);
    dvg_process_fini(&process);
    script_read(&script, path);
    script_run(&script, '-', -1, find_options, &expectation);
    check_answers(&script, name, &expectation);
    for (size_t i = 0; i < expectation.n_options; i++)
        free((char *)expectation.options[i]);
    script_free(&script);
    assert_int_equal(expectation.failures, 0);
}

/* ---- which ---------------------------------------------------------------------------------- */

static int is_case(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".case") == 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[MAX_INSTANCES];
    struct dirent **entries;
    size_t count = 0;
    int found = scandir(CASE_INSTANCES, &entries, is_case, alphasort);
    is_verbose = argc > 1;
    for (int i = 0; i < found; i++) {
        char *name = entries[i]->d_name;
        *strrchr(name, '.') = '\0';
        if (count < MAX_INSTANCES && (argc < 2 || strstr(name, argv[1])))
            tests[count++] =
                (struct CMUnitTest){.name = name, .test_func = instance, .initial_state = name};
    }
    if (count == 0) {
        fprintf(stderr, "no instances in %s\n", CASE_INSTANCES);
        return 1;
    }
    int failed = _cmocka_run_group_tests("instances", tests, count, start, stop);
    for (int i = 0; i < found; i++)
        free(entries[i]);
    free(entries);
    return failed;
}
