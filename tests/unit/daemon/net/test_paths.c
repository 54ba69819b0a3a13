/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/proto/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include <diverge/error.h>

#include "tests/support/daemon_fixture.h"

/* The linker wraps statfs for this test: what file system a path is on cannot be arranged
 * otherwise. */
int __wrap_statfs(const char *path, struct statfs *ret);
int __real_statfs(const char *path, struct statfs *ret);

static long pretended_type; /* 0: the real one */

int __wrap_statfs(const char *path, struct statfs *ret)
{
    int rc = __real_statfs(path, ret);
    if (rc == 0 && pretended_type)
        ret->f_type = (__typeof__(ret->f_type))pretended_type;
    return rc;
}

static char dir[DVG_FIXTURE_PATH_MAX];
static struct paths_error error;

static int setup(void **state)
{
    (void)state;
    dvg_tempdir_make(dir);
    unsetenv("DIVERGE_STORE");
    unsetenv("DIVERGE_SOCKET");
    unsetenv("DIVERGE_SPOOL");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "/home/nobody-here", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_tempdir_remove(dir);
    return 0;
}

static void under(char path[PATHS_MAX], const char *name)
{
    snprintf(path, PATHS_MAX, "%s/%s", dir, name);
}

static void socket_follows_flag_variable_runtime_folder_tmp(void **state)
{
    (void)state;
    char path[PATHS_MAX];
    char expected[64];
    snprintf(expected, sizeof(expected), "/tmp/diverge-%u/diverged.sock", (unsigned)getuid());
    assert_int_equal(paths_socket(NULL, path, &error), 0);
    assert_string_equal(path, expected);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    assert_int_equal(paths_socket(NULL, path, &error), 0);
    assert_string_equal(path, expected);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(paths_socket(NULL, path, &error), 0);
    assert_string_equal(path, "/run/user/7/diverge/diverged.sock");
    setenv("DIVERGE_SOCKET", "/tmp/v", 1);
    assert_int_equal(paths_socket(NULL, path, &error), 0);
    assert_string_equal(path, "/tmp/v");
    assert_int_equal(paths_socket("/tmp/f", path, &error), 0);
    assert_string_equal(path, "/tmp/f");
}

static void too_long_paths_leave_the_result_alone(void **state)
{
    (void)state;
    static char name[PATHS_MAX + 10];
    memset(name, 'x', sizeof(name) - 1);
    char path[PATHS_MAX] = "before";
    assert_int_equal(paths_store(name, path, NULL, &error), DIVERGE_ELIMIT);
    assert_string_equal(path, "before");
    name[108] = '\0';
    assert_int_equal(paths_socket(name, path, &error), DIVERGE_ELIMIT);
    assert_string_equal(path, "before");
    name[107] = '\0';
    assert_int_equal(paths_socket(name, path, &error), 0);
}

static void store_follows_flag_variable_state_folder_home(void **state)
{
    (void)state;
    char path[PATHS_MAX];
    bool moved = true;
    assert_int_equal(paths_store(NULL, path, &moved, &error), 0);
    assert_string_equal(path, "/home/nobody-here/.local/state/diverge/diverge.db");
    assert_false(moved);
    setenv("XDG_STATE_HOME", "/s", 1);
    assert_int_equal(paths_store(NULL, path, NULL, &error), 0);
    assert_string_equal(path, "/s/diverge/diverge.db");
    setenv("DIVERGE_STORE", "/v.db", 1);
    assert_int_equal(paths_store(NULL, path, NULL, &error), 0);
    assert_string_equal(path, "/v.db");
    assert_int_equal(paths_store("/f.db", path, NULL, &error), 0);
    assert_string_equal(path, "/f.db");
}

static void store_moves_off_a_network_file_system(void **state)
{
    (void)state;
    char path[PATHS_MAX];
    char expected[64];
    bool moved = false;
    const char *name = NULL;
    snprintf(expected, sizeof(expected), "/var/tmp/diverge-%u/diverge.db", (unsigned)getuid());
    under(path, "not/there/yet.db");
    assert_false(paths_on_network(path, &name));
    pretended_type = 0x6969;
    assert_true(paths_on_network(path, &name));
    assert_string_equal(name, "nfs");
    assert_int_equal(paths_store(NULL, path, &moved, &error), 0);
    assert_string_equal(path, expected);
    assert_true(moved);
    /* One that was named is taken at its word; the daemon then refuses it with a reason. */
    assert_int_equal(paths_store("/nfs/x.db", path, &moved, &error), 0);
    assert_string_equal(path, "/nfs/x.db");
    assert_false(moved);
    pretended_type = (int)0xff534d42;
    assert_true(paths_on_network(dir, &name));
    assert_string_equal(name, "cifs");
    pretended_type = 0;
}

static void parent_of_odd_paths(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/a/b", "/a"}, {"/a", "/"}, {"/", "/"},      {"a", "."},
        {"a/b", "a"},   {"", "."},   {"/a/b/", "/a"}, {"/a//b", "/a"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char parent[PATHS_MAX];
        assert_int_equal(paths_parent(cases[i][0], parent), 0);
        assert_string_equal(parent, cases[i][1]);
    }
}

static void private_folder_is_made_with_its_parents(void **state)
{
    (void)state;
    char path[PATHS_MAX];
    struct stat st;
    under(path, "a/b/c");
    assert_int_equal(paths_folder_private(path, &error), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(paths_folder_private(path, &error), 0);
}

static void folder_that_others_can_enter_is_refused(void **state)
{
    (void)state;
    char path[PATHS_MAX];
    under(path, "open");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0710), 0);
    assert_int_equal(paths_folder_private(path, &error), DIVERGE_EPERM);
    assert_non_null(strstr(error.text, "chmod 700"));
}

static void link_or_file_in_place_of_the_folder_is_refused(void **state)
{
    (void)state;
    char path[PATHS_MAX];
    under(path, "link");
    assert_int_equal(symlink(dir, path), 0);
    assert_int_equal(paths_folder_private(path, &error), DIVERGE_EPERM);
    assert_non_null(strstr(error.text, "symbolic link"));
    under(path, "file");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(paths_folder_private(path, &error), DIVERGE_EPERM);
    under(path, "file/below");
    assert_true(paths_folder_private(path, &error) < 0);
}

static void folder_of_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) /* only root can give folders away; /root is another's for the rest */
        return;
    char path[PATHS_MAX];
    under(path, "theirs");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(paths_folder_private(path, &error), DIVERGE_EPERM);
    assert_non_null(strstr(error.text, "12345"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(socket_follows_flag_variable_runtime_folder_tmp),
        TEST(too_long_paths_leave_the_result_alone),
        TEST(store_follows_flag_variable_state_folder_home),
        TEST(store_moves_off_a_network_file_system),
        TEST(parent_of_odd_paths),
        TEST(private_folder_is_made_with_its_parents),
        TEST(folder_that_others_can_enter_is_refused),
        TEST(link_or_file_in_place_of_the_folder_is_refused),
        TEST(folder_of_another_user_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
