/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/ctl/cmd.h"
#include "client/ctl/map.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"

static const char *const (*pairs)[2];
static size_t n_pairs;

static int read_text(const char *text, size_t size)
{
    char path[] = "/tmp/test-map-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), (ssize_t)size);
    close(fd);
    int status = map_read(path, &pairs, &n_pairs);

    unlink(path);
    return status;
}

static void pairs_are_read(void **state)
{
    static const char text[] = "# names\nencoder.\tenc.\n\n  head  classifier # the last one\r\n";

    (void)state;
    assert_int_equal(read_text(text, sizeof(text) - 1), EX_OK);
    assert_int_equal(n_pairs, 2);
    assert_string_equal(pairs[0][0], "encoder.");
    assert_string_equal(pairs[0][1], "enc.");
    assert_string_equal(pairs[1][0], "head");
    assert_string_equal(pairs[1][1], "classifier");
}

static void an_empty_file_has_none(void **state)
{
    (void)state;
    assert_int_equal(read_text("", 0), EX_OK);
    assert_int_equal(n_pairs, 0);
}

static void other_lines_are_refused(void **state)
{
    (void)state;
    assert_int_equal(read_text("one\n", 4), EX_DATAERR);
    assert_int_equal(read_text("one two three\n", 14), EX_DATAERR);
    assert_int_equal(read_text("a\0b c\n", 6), EX_DATAERR);
    assert_int_equal(map_read("/nonexistent/map", &pairs, &n_pairs), EX_NOINPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_read),
        cmocka_unit_test(an_empty_file_has_none),
        cmocka_unit_test(other_lines_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    source_close();
    mem_free_all();
    return failed;
}
