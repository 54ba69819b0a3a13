/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/daemon_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void process_gives_output_and_status(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "echo \"$GREETING\"; echo no >&2; exit 3", NULL};
    const char *const env[] = {"GREETING=hello world", NULL};
    struct dvg_process p;
    dvg_process_run(&p, argv, env);
    assert_int_equal(dvg_process_status(&p), 3);
    assert_string_equal(p.out, "hello world\n");
    assert_string_equal(p.err, "no\n");
    dvg_process_fini(&p);
}

static void process_gives_large_output_whole(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "head -c 1000000 /dev/zero; exit 0", NULL};
    struct dvg_process p;
    dvg_process_run(&p, argv, NULL);
    assert_int_equal(p.out_len, 1000000);
    assert_int_equal(dvg_process_status(&p), 0);
    dvg_process_fini(&p);
}

static void process_status_tells_signals_and_missing_programs(void **state)
{
    (void)state;
    const char *const killed[] = {"sh", "-c", "kill -TERM $$", NULL};
    struct dvg_process p;
    dvg_process_run(&p, killed, NULL);
    assert_int_equal(dvg_process_status(&p), 128 + SIGTERM);
    dvg_process_fini(&p);
    const char *const missing[] = {"/nonexistent/program", NULL};
    dvg_process_run(&p, missing, NULL);
    assert_int_equal(dvg_process_status(&p), 127);
    dvg_process_fini(&p);
}

static void child_wait_times_out_and_kill_ends_it(void **state)
{
    (void)state;
    const char *const argv[] = {"sleep", "1000", NULL};
    pid_t pid = dvg_child_start(argv, NULL, NULL);
    assert_false(dvg_child_wait(pid, 1, NULL));
    dvg_child_kill(pid);
    assert_int_equal(kill(pid, 0), -1);
}

static void tempdir_is_private_and_removed_whole(void **state)
{
    (void)state;
    char dir[DVG_FIXTURE_PATH_MAX];
    dvg_tempdir_make(dir);
    struct stat st;
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    char script[512];
    snprintf(script, sizeof(script),
             "mkdir -p %s/a/b && touch %s/a/b/c && ln -s / %s/root && chmod 500 %s/a/b", dir, dir,
             dir, dir);
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct dvg_process p;
    dvg_process_run(&p, argv, NULL);
    assert_int_equal(dvg_process_status(&p), 0);
    dvg_process_fini(&p);
    dvg_tempdir_remove(dir);
    assert_int_equal(stat(dir, &st), -1);
    assert_int_equal(stat("/tmp", &st), 0);
}

/* A shell stands in for the daemon: what is tested here is the fixture's own waiting. */
static void write_script(const struct dvg_daemon *d, char *path, size_t size, const char *text)
{
    snprintf(path, size, "%s/program", d->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, 0700), 0);
    setenv("DVG_DIVERGED", path, 1);
}

static void daemon_that_ends_at_once_is_told_from_a_ready_one(void **state)
{
    (void)state;
    const char *real = getenv("DVG_DIVERGED");
    char *saved = real ? strdup(real) : NULL;
    struct dvg_daemon d;
    dvg_daemon_init(&d);
    assert_string_equal(getenv("DIVERGE_STORE"), d.store);
    char path[256];
    write_script(&d, path, sizeof(path), "#!/bin/sh\necho refused >&2\nexit 78\n");
    int status = 0;
    assert_false(dvg_daemon_try_start(&d, NULL, NULL, &status));
    assert_int_equal(WEXITSTATUS(status), 78);
    assert_int_equal(d.pid, 0);
    dvg_daemon_fini(&d);
    assert_null(getenv("DIVERGE_STORE"));
    if (saved)
        setenv("DVG_DIVERGED", saved, 1);
    free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_gives_output_and_status),
        cmocka_unit_test(process_gives_large_output_whole),
        cmocka_unit_test(process_status_tells_signals_and_missing_programs),
        cmocka_unit_test(child_wait_times_out_and_kill_ends_it),
        cmocka_unit_test(tempdir_is_private_and_removed_whole),
        cmocka_unit_test(daemon_that_ends_at_once_is_told_from_a_ready_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
