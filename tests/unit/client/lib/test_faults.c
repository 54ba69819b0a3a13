/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation, write, and thread creation of a whole session fails once, in turn. Training
 * must go on, and what reaches the file must still be whole: the receiver checks counts, gaps and
 * definitions.
 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <diverge/macros.h>

#include "tests/support/fault.h"
#include "tests/unit/client/lib/receiver.h"

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/dvg-faults-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rmdir(dir);
    return 0;
}

static const float ones[6] = {1, 1, 1, 1, 1, 1};

/* Enough of everything to make the tables grow. Ignores every result, as a training does. */
static void train(struct diverge_session *session)
{
    struct diverge_lane *lane = diverge_lane_open(session, "main");
    for (uint64_t k = 0; k < 3; k++) {
        diverge_step(session, k);
        diverge_loss(lane, (double)k);
        diverge_counter(session, "epoch", 1);
        for (int op = 0; op < 40; op++) {
            char name[32];
            snprintf(name, sizeof(name), "op%d", op);
            DIVERGE_OP_WITH(lane, name, "scope", name)
            diverge_output_f32(lane, 0, ones, 1, DIVERGE_SIZES(op % 6 + 1));
        }
        struct diverge_lane *other = diverge_lane_open(session, "other");
        uint64_t token = 0;
        struct diverge_observation what = diverge_what(other, DIVERGE_ROLE_PARAM, 0, "later");
        struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, ones, 1, DIVERGE_SIZES(6));
        if (diverge_reserve(other, &what, &tensor, &token) == 0)
            diverge_complete(session, token, NULL);
        tensor.storage = 1;
        diverge_record(other, &what, &tensor, NULL);
        diverge_metadata_set(session, "key", "value");
    }
}

/* Reads every file of the folder and removes it. */
static void check_files(void)
{
    DIR *folder = opendir(dir);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (*entry->d_name == '.')
            continue;
        char path[400];
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        /* A file under its unfinished name was never one. */
        assert_null(strstr(entry->d_name, ".new"));
        struct receiver receiver;
        receiver_init(&receiver);
        receiver_take_file(&receiver, path);
        receiver_fini(&receiver);
        assert_int_equal(unlink(path), 0);
    }
    closedir(folder);
}

static void sweep(enum dvg_fault_kind kind, int error, bool on, bool recording)
{
    struct dvg_fault_sweep sweep = {.kind = kind, .error = error, .on = on};
    char path[100];
    snprintf(path, sizeof(path), "%s/%s", dir, recording ? "run.dvg" : "sock");
    while (dvg_fault_sweep_next(&sweep)) {
        struct diverge_options options = DIVERGE_OPTIONS_INIT;
        options.ring_bytes = 64 * 1024;
        if (recording)
            options.recording = path;
        else
            options.socket_path = path;
        struct diverge_session *session = NULL;
        int rc = diverge_session_open(&options, &session);
        assert_true(rc == 0 || session == NULL);
        train(session);
        diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE);
        dvg_fault_disarm();
        check_files();
    }
    assert_true(sweep.rounds > 1);
}

#ifndef DVG_SANITIZED
static void memory_runs_out_while_recording(void **state)
{
    (void)state;
    sweep(DVG_FAULT_ALLOC, ENOMEM, false, true);
}

static void memory_runs_out_while_spooling(void **state)
{
    (void)state;
    sweep(DVG_FAULT_ALLOC, ENOMEM, false, false);
}

static void memory_stays_short(void **state)
{
    (void)state;
    sweep(DVG_FAULT_ALLOC, ENOMEM, true, true);
}

#endif

static void disk_fills_while_recording(void **state)
{
    (void)state;
    sweep(DVG_FAULT_WRITE, ENOSPC, true, true);
}

static void disk_fills_while_spooling(void **state)
{
    (void)state;
    sweep(DVG_FAULT_WRITE, ENOSPC, true, false);
}

static void disk_fails_once_while_spooling(void **state)
{
    (void)state;
    sweep(DVG_FAULT_WRITE, EIO, false, false);
}

static void files_cannot_be_made(void **state)
{
    (void)state;
    sweep(DVG_FAULT_OPEN, EMFILE, true, false);
}

static void no_thread_can_be_made(void **state)
{
    (void)state;
    sweep(DVG_FAULT_THREAD, EAGAIN, false, true);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
#ifndef DVG_SANITIZED
        CASE(memory_runs_out_while_recording),
        CASE(memory_runs_out_while_spooling),
        CASE(memory_stays_short),
#endif
        CASE(disk_fills_while_recording),
        CASE(disk_fills_while_spooling),
        CASE(disk_fails_once_while_spooling),
        CASE(files_cannot_be_made),
        CASE(no_thread_can_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
