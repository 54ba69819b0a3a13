/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call of divergectl fails in turn. It then says so with a status of its own, or answers
 * exactly as it does without the fault; what it was writing is whole or not there; the store and
 * the daemon stay sound.
 */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/faults/faults.h"

static struct dvg_daemon d;
static char exported[DVG_FIXTURE_PATH_MAX + 32];  /* what export writes */
static char recording[DVG_FIXTURE_PATH_MAX + 32]; /* of run `base`, for import */

static void record(const char *name, int fault_step)
{
    struct training training;
    training_run(&training, name, NULL, fault_step);
    assert_int_equal(training.closed, 0);
    training_fini(&training);
}

static void must(const char *const *words)
{
    struct dvg_process p;
    ctl_run(&p, NULL, words);
    if (dvg_process_status(&p))
        fail_msg("divergectl %s: %d: %s", words[0], dvg_process_status(&p), p.err);
    dvg_process_fini(&p);
}

/* Runs base, same, other and a recording of base; the daemon runs on. */
static int set_up(void **state)
{
    (void)state;
    char folder[DVG_FIXTURE_PATH_MAX + 16];
    dvg_daemon_init(&d);
    snprintf(folder, sizeof(folder), "%s/out", d.dir);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(exported, sizeof(exported), "%s/base.dvg", folder);
    snprintf(recording, sizeof(recording), "%s/recording.dvg", d.dir);
    daemon_start_eager(&d, NULL);
    record("base", -1);
    record("same", -1);
    record("other", 4);
    record("spare", 6);
    must((const char *const[]){"export", "spare", "-o", recording, NULL});
    must((const char *const[]){"rm", "spare", NULL});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

/* ---- commands that read ---------------------------------------------------------------------- */

static int files_in_out(void)
{
    char folder[DVG_FIXTURE_PATH_MAX + 16];
    int count = 0;
    snprintf(folder, sizeof(folder), "%s/out", d.dir);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Failed, and said so; or did what it does without faults. */
static void check_told(const struct fault_sweep *sweep, const char *command,
                       const struct dvg_process *p, int expected, const char *out)
{
    int status = dvg_process_status(p);
    bool kills = strcmp(sweep->error, "KILL") == 0 && status == 128 + SIGKILL;
    if (kills)
        return;
    if (!WIFEXITED(p->status))
        fail_msg("%s, %s: ended by signal %d: %s", command, sweep->fault, WTERMSIG(p->status),
                 p->err);
    bool error = status == 2 || status >= 64;
    if (status != expected && !error)
        fail_msg("%s, %s: status %d instead of %d: %s%s", command, sweep->fault, status, expected,
                 p->out, p->err);
    /* popt may lose all arguments without a sign of it: then the help is what is said. */
    if (status != expected && !*p->err && (status != 64 || !strstr(p->out, "divergectl help")))
        fail_msg("%s, %s: status %d without a word", command, sweep->fault, status);
    if (status == expected && out && strcmp(p->out, out) != 0)
        fail_msg("%s, %s: another answer than without the fault:\n%s\nnot:\n%s", command,
                 sweep->fault, p->out, out);
}

/* Under its own name and whole, or nothing. It may have been named before what failed. */
static void check_exported(const struct fault_sweep *sweep, int status)
{
    int named = access(exported, F_OK) == 0;
    if (files_in_out() != named || (status == 0 && !named))
        fail_msg("export, %s: status %d and %d files", sweep->fault, status, files_in_out());
    if (named && status)
        must((const char *const[]){"first-diff", "base", exported, NULL});
    unlink(exported);
}

static void sweep_reading(struct fault_sweep sweep, const char *const *words)
{
    struct dvg_process whole;
    ctl_run(&whole, NULL, words);
    int expected = dvg_process_status(&whole);
    assert_true(expected == 0 || expected == 1);
    unlink(exported);
    while (fault_sweep_next(&sweep, d.dir)) {
        const char *const env[] = {sweep.preload, sweep.fault, sweep.report, NULL};
        struct dvg_process p;
        ctl_run(&p, env, words);
        check_told(&sweep, words[0], &p, expected, whole.out);
        if (strcmp(words[0], "export") == 0) {
            check_exported(&sweep, dvg_process_status(&p));
        }
        dvg_process_fini(&p);
    }
    dvg_process_fini(&whole);
}

/* Kinds of faults that a command which only reads can meet. */
static void sweep_kinds(const char *const *words)
{
    sweep_reading((struct fault_sweep){.kind = "alloc", .error = "ENOMEM", .dense = 40, .quick = 1},
                  words);
    sweep_reading((struct fault_sweep){.kind = "read", .error = "EIO", .dense = 10, .quick = 1},
                  words);
    sweep_reading((struct fault_sweep){.kind = "open", .error = "EMFILE", .dense = 10, .quick = 1},
                  words);
    sweep_reading((struct fault_sweep){.kind = "mmap", .error = "ENOMEM", .dense = 10, .quick = 1},
                  words);
}

static void first_diff_is_right_or_an_error(void **state)
{
    (void)state;
    sweep_kinds((const char *const[]){"first-diff", "--json", "base", "other", NULL});
    sweep_kinds((const char *const[]){"first-diff", "base", "same", NULL});
    dvg_daemon_stop(&d);
    /* JSON: without memory for a locale, text is ASCII. */
    sweep_kinds((const char *const[]){"first-diff", "--json", "base", "other", NULL});
}

static void first_diff_of_recordings_is_right_or_an_error(void **state)
{
    (void)state;
    must((const char *const[]){"export", "base", "-o", exported, NULL});
    char kept[sizeof(exported) + 8];
    snprintf(kept, sizeof(kept), "%s.kept", exported);
    assert_int_equal(rename(exported, kept), 0);
    sweep_kinds((const char *const[]){"first-diff", "--json", kept, recording, NULL});
}

static void looks_are_right_or_an_error(void **state)
{
    (void)state;
    /* JSON: libsmartcols leaves a table's cell empty when it finds no memory for it, and does not
     * say so. */
    sweep_kinds((const char *const[]){"runs", "--json", NULL});
    sweep_kinds((const char *const[]){"show", "--json", "base", NULL});
    sweep_kinds((const char *const[]){"show", "--json", "base@3", NULL});
    sweep_kinds((const char *const[]){"env-diff", "--json", "base", "other", NULL});
}

static void export_is_whole_or_not_there(void **state)
{
    (void)state;
    const char *const words[] = {"export", "base", "-o", exported, NULL};
    sweep_kinds(words);
    sweep_reading((struct fault_sweep){.kind = "write", .error = "EIO", .dense = 20, .quick = 2},
                  words);
    sweep_reading(
        (struct fault_sweep){
            .kind = "write", .error = "ENOSPC", .on = true, .dense = 20, .quick = 2},
        words);
}

/* ---- commands that change -------------------------------------------------------------------- */

static int64_t spare_runs(void)
{
    return store_number(
        d.store, "SELECT count(*) FROM runs WHERE name = 'spare' AND status = 'complete'", NULL);
}

static int faulty(const struct fault_sweep *sweep, const char *const *words)
{
    const char *const env[] = {sweep->preload, sweep->fault, sweep->report, NULL};
    struct dvg_process p;
    ctl_run(&p, env, words);
    check_told(sweep, words[0], &p, 0, NULL);
    int status = dvg_process_status(&p);
    dvg_process_fini(&p);
    return status;
}

/* Comes and goes: what the command says is so, and without the fault it does it. */
static void sweep_changing(struct fault_sweep sweep)
{
    const char *const import[] = {"import", recording, NULL};
    const char *const rm[] = {"rm", "spare", NULL};
    const char *const gc[] = {"gc", NULL};
    while (fault_sweep_next(&sweep, d.dir)) {
        if (faulty(&sweep, import) == 0)
            assert_int_equal(spare_runs(), 1);
        must(import);
        assert_int_equal(spare_runs(), 1);
        must((const char *const[]){"first-diff", "spare", recording, NULL});
        if (faulty(&sweep, rm) == 0)
            assert_int_equal(spare_runs(), 0);
        if (spare_runs())
            must(rm);
        assert_int_equal(spare_runs(), 0);
        faulty(&sweep, gc);
    }
    fault_sweep_done(&sweep);
    record("after", -1);
    must((const char *const[]){"first-diff", "base", "after", NULL});
    dvg_daemon_stop(&d);
}

#define CHANGING(name_, ...)                                                                       \
    static void name_(void **state)                                                                \
    {                                                                                              \
        (void)state;                                                                               \
        sweep_changing((struct fault_sweep){__VA_ARGS__});                                         \
    }

CHANGING(changes_without_memory, .kind = "alloc", .error = "ENOMEM", .dense = 25, .quick = 1)
CHANGING(changes_without_sending, .kind = "send", .error = "EPIPE", .dense = 10, .quick = 1)
CHANGING(changes_without_reading, .kind = "read", .error = "EIO", .dense = 10, .quick = 1)
CHANGING(changes_without_opening, .kind = "open", .error = "EMFILE", .dense = 10, .quick = 1)
CHANGING(killed_while_sending, .kind = "send", .error = "KILL", .dense = 10, .quick = 1)

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(first_diff_is_right_or_an_error),
        TEST(first_diff_of_recordings_is_right_or_an_error),
        TEST(looks_are_right_or_an_error),
        TEST(export_is_whole_or_not_there),
        TEST(changes_without_memory),
        TEST(changes_without_sending),
        TEST(changes_without_reading),
        TEST(changes_without_opening),
        TEST(killed_while_sending),
    };
    faults_set_tier(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
