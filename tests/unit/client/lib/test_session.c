/* SPDX-License-Identifier: Apache-2.0 */
/* A session and its daemon: greeting, loss of the connection, spool, fork, exit. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <diverge/macros.h>

#include "client/lib/session.h"
#include "tests/unit/client/lib/fake_daemon.h"

static struct fixture {
    char dir[64];
    char socket[96];
    struct fake_daemon daemon;
    bool has_daemon;
    struct diverge_session *session;
    struct diverge_lane *lane;
} f;

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof(f));
    snprintf(f.dir, sizeof(f.dir), "/tmp/dvg-session-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.socket, sizeof(f.socket), "%s/sock", f.dir);
    return 0;
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (*entry->d_name != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

static int tear_down(void **state)
{
    (void)state;
    diverge_session_close(f.session, DIVERGE_OUTCOME_COMPLETE);
    if (f.has_daemon)
        fake_daemon_fini(&f.daemon);
    remove_folder(f.dir);
    return 0;
}

static void start_daemon(void)
{
    fake_daemon_start(&f.daemon, f.socket);
    f.has_daemon = true;
}

static int try_open(struct diverge_options options)
{
    options.socket_path = f.socket;
    int rc = diverge_session_open(&options, &f.session);
    f.lane = diverge_lane_open(f.session, "main");
    return rc;
}

static void open_session(void)
{
    assert_int_equal(try_open((struct diverge_options)DIVERGE_OPTIONS_INIT), 0);
}

static int close_session(void)
{
    int rc = diverge_session_close(f.session, DIVERGE_OUTCOME_COMPLETE);
    f.session = NULL;
    f.lane = NULL;
    return rc;
}

static const float ones[6] = {1, 1, 1, 1, 1, 1};

/* One step with records of all tiers. */
static void run_step(uint64_t k)
{
    diverge_step(f.session, k);
    diverge_loss(f.lane, (double)k);
    diverge_param_f32(f.lane, "w", ones, 1, DIVERGE_SIZES(6));
    diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));
    DIVERGE_OP(f.lane, "mm", "fc1") diverge_output_f32(f.lane, 0, ones, 1, DIVERGE_SIZES(6));
}

static void run_steps(uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++)
        run_step(k);
}

/* All steps are there, each once, whole. */
static void assert_steps(const struct receiver *receiver, uint64_t steps)
{
    for (uint64_t k = 0; k < steps; k++) {
        assert_int_equal(receiver_count(receiver, diverge_segment_of_step(k)), 4);
        double loss = (double)k;
        uint64_t bits;
        memcpy(&bits, &loss, 8);
        assert_true(receiver_named(receiver, diverge_segment_of_step(k), "loss")->value == bits);
        assert_non_null(receiver_end(receiver, diverge_segment_of_step(k)));
    }
}

/* Path of the one spool file in the folder; false: there is none. */
static bool find_spool(char ret[400])
{
    bool found = false;
    DIR *dir = opendir(f.dir);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t size = strlen(entry->d_name);
        if (size > 6 && strcmp(entry->d_name + size - 6, ".spool") == 0) {
            assert_false(found);
            snprintf(ret, 400, "%s/%s", f.dir, entry->d_name);
            found = true;
        }
    }
    closedir(dir);
    return found;
}

static struct diverge_session_stats stats(void)
{
    struct diverge_session_stats now;
    assert_int_equal(diverge_session_stats(f.session, &now), 0);
    return now;
}

/* ---- greeting -------------------------------------------------------------------------------- */

static void hello_says_who_and_welcome_settles_the_name(void **state)
{
    (void)state;
    start_daemon();
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.name = "wanted";
    options.run_id = "000102030405060708090a0b0c0d0e0f";
    options.rank = 1;
    options.world = 2;
    options.level = DIVERGE_TIER_STEP;
    assert_int_equal(try_open(options), 0);
    assert_string_equal(stats().run_name, "settled.2");
    assert_string_equal(stats().run_id, options.run_id);
    assert_int_equal(stats().connected, 1);
    run_steps(0, 2);
    assert_int_equal(close_session(), 0);
    const struct dvg_hello *hello = &f.daemon.receiver.hello;
    assert_int_equal(hello->rank, 1);
    assert_int_equal(hello->world, 2);
    assert_int_equal(hello->level, DIVERGE_TIER_STEP);
    assert_int_equal(hello->next_seq, 1);
    assert_int_equal(hello->epoch, 1);
    assert_int_equal(hello->run_id[15], 15);
    assert_true(f.daemon.receiver.has_bye);
}

static void newer_daemon_is_refused_at_open(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.refuse = DIVERGE_EVERSION;
    assert_int_equal(try_open((struct diverge_options)DIVERGE_OPTIONS_INIT), DIVERGE_EVERSION);
    assert_null(f.session);
}

/* Who reads "no daemon answers" would look for one in vain. */
static void full_disk_is_told_as_such(void **state)
{
    (void)state;
    char said[512] = "";
    start_daemon();
    f.daemon.refuse = DIVERGE_EFULL;
    int before = dup(STDERR_FILENO);
    int file = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    int rc = try_open((struct diverge_options)DIVERGE_OPTIONS_INIT);
    dup2(before, STDERR_FILENO);
    assert_true(pread(file, said, sizeof(said) - 1, 0) > 0);
    close(before);
    close(file);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(said, "cannot store now"));
    assert_null(strstr(said, "no daemon answers"));
    fake_daemon_lock(&f.daemon);
    f.daemon.refuse = 0;
    fake_daemon_unlock(&f.daemon);
    run_steps(0, 2);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
}

static void required_daemon_must_answer(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.flags = DIVERGE_OPEN_REQUIRE;
    assert_int_equal(try_open(options), DIVERGE_EUNAVAIL);
    assert_null(f.session);
}

static void silent_daemon_does_not_hold_up_the_training(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.silent = true;
    open_session();
    run_steps(0, 3);
    fake_daemon_lock(&f.daemon);
    f.daemon.silent = false;
    fake_daemon_unlock(&f.daemon);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 3);
}

static void unsafe_folder_is_refused(void **state)
{
    (void)state;
    start_daemon();
    assert_int_equal(chmod(f.dir, 0777), 0);
    assert_int_equal(try_open((struct diverge_options)DIVERGE_OPTIONS_INIT), DIVERGE_EPERM);
    assert_null(f.session);
    assert_int_equal(f.daemon.connections, 0);
}

static void metadata_has_causes_without_secrets(void **state)
{
    (void)state;
    start_daemon();
    setenv("OMP_NUM_THREADS", "3", 1);
    const struct diverge_metadata metadata[] = {{"seed", "17"}, {"note", "a \"b\"\n\xff"}};
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.metadata = metadata;
    options.n_metadata = 2;
    assert_int_equal(try_open(options), 0);
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(diverge_metadata_set(f.session, "", "x"), DIVERGE_EINVAL);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(diverge_metadata_set(f.session, "late", "1"), 0);
    assert_int_equal(diverge_metadata_set(f.session, "late", "2"), 0);
    assert_int_equal(close_session(), 0);
    const struct receiver *receiver = &f.daemon.receiver;
    assert_true(receiver->n_metadata >= 2);
    const char *const expected[] = {"\"seed\":\"17\"",
                                    "\"note\":\"a \\\"b\\\" \xef\xbf\xbd\"",
                                    "\"env.OMP_NUM_THREADS\":\"3\"",
                                    "\"kernel\":",
                                    "\"libc\":",
                                    "\"host\":",
                                    "\"pid\":",
                                    "\"program\":\"test_session\"",
                                    "\"argv\":",
                                    "\"cpu.count\":"};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_non_null(strstr(receiver->metadata[0], expected[i]));
    assert_non_null(strstr(receiver->metadata[receiver->n_metadata - 1], "\"late\":\"2\""));
}

/* ---- acknowledgement ------------------------------------------------------------------------- */

static void flush_waits_for_the_acknowledgement(void **state)
{
    (void)state;
    start_daemon();
    open_session();
    run_steps(0, 2);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(stats().committed, 8);
    assert_int_equal(stats().recorded, 8);
    fake_daemon_lock(&f.daemon);
    assert_int_equal(f.daemon.receiver.n_records, 8); /* the last step is open, but here */
    f.daemon.mute = true;
    fake_daemon_unlock(&f.daemon);
    run_step(2);
    assert_int_equal(diverge_flush(f.session, 30), DIVERGE_EAGAIN);
    fake_daemon_lock(&f.daemon);
    f.daemon.mute = false;
    fake_daemon_unlock(&f.daemon);
    run_step(3); /* one acknowledgement covers all before it */
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 4);
}

/* ---- reconnect ------------------------------------------------------------------------------- */

static void committed_frames_are_not_sent_again(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.mute = true; /* committed, but the producer does not know */
    f.daemon.break_after = 4;
    open_session();
    run_steps(0, 5);
    assert_int_equal(diverge_flush(f.session, 30), DIVERGE_EAGAIN);
    fake_daemon_lock(&f.daemon);
    f.daemon.mute = false;
    fake_daemon_unlock(&f.daemon);
    run_steps(5, 10);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 10);
    assert_int_equal(f.daemon.receiver.duplicates, 0);
    assert_true(f.daemon.connections >= 2);
    assert_true(f.daemon.receiver.hello.epoch >= 2);
}

static bool has_frames(const struct fake_daemon *daemon)
{
    return daemon->frames > 5;
}

static void uncommitted_frames_are_sent_again_with_their_definitions(void **state)
{
    (void)state;
    start_daemon();
    open_session();
    run_steps(0, 3);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    fake_daemon_lock(&f.daemon);
    f.daemon.hold = true;
    f.daemon.frames = 0;
    fake_daemon_unlock(&f.daemon);
    run_steps(3, 10);
    assert_int_equal(diverge_flush(f.session, 30), DIVERGE_EAGAIN);
    fake_daemon_wait(&f.daemon, has_frames);
    fake_daemon_stop(&f.daemon);
    f.daemon.hold = false;
    fake_daemon_restart(&f.daemon);
    run_steps(10, 12);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 12);
    assert_int_equal(f.daemon.receiver.duplicates, 0);
}

static void passing_trouble_of_the_daemon_is_waited_out(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.break_after = 3;
    f.daemon.error_after_break = DIVERGE_EIO;
    open_session();
    run_steps(0, 6);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 6);
}

static bool has_ended(const struct fake_daemon *daemon)
{
    return daemon->ended > 0;
}

static void refusal_ends_the_recording_not_the_training(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.break_after = 2;
    f.daemon.error_after_break = DIVERGE_EPROTO;
    open_session();
    run_steps(0, 2);
    fake_daemon_wait(&f.daemon, has_ended);
    /* The refusal is seen as soon as the sender looks at its socket. */
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), DIVERGE_ECLOSED);
    assert_int_equal(diverge_loss(f.lane, 1), DIVERGE_ECLOSED);
    assert_int_equal(diverge_step(f.session, 100), DIVERGE_ECLOSED);
    assert_int_equal(close_session(), DIVERGE_EPROTO);
    assert_int_equal(f.daemon.connections, 1);
}

static void read_only_store_is_waited_for(void **state)
{
    (void)state;
    start_daemon();
    open_session();
    run_step(0);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    fake_daemon_set_read_only(&f.daemon, true);
    run_steps(1, 4);
    assert_int_equal(diverge_flush(f.session, 100), DIVERGE_EAGAIN);
    /* What was sent before STATE arrived is not committed; a new connection brings it again. */
    fake_daemon_stop(&f.daemon);
    f.daemon.hold = false;
    f.daemon.read_only = false;
    fake_daemon_restart(&f.daemon);
    run_steps(4, 6);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 6);
}

static void frames_stay_below_a_mebibyte(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.max_frame = 1 << 20;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.sketch = 64;
    options.wait_ms = 60000;
    assert_int_equal(try_open(options), 0);
    diverge_step(f.session, 0);
    const float bad[2] = {1.0f / 0.0f, 1};
    enum { COUNT = 10000 };
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(diverge_param_f32(f.lane, "w", bad, 1, DIVERGE_SIZES(2)), 0);
    assert_int_equal(close_session(), 0);
    assert_int_equal(receiver_count(&f.daemon.receiver, 2), COUNT);
    assert_true(f.daemon.receiver.n_parts >= 4); /* 3.6 MB in frames of at most one */
}

static void daemon_that_takes_only_smaller_frames_is_refused(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.max_frame = 64 * 1024;
    assert_int_equal(try_open((struct diverge_options)DIVERGE_OPTIONS_INIT), DIVERGE_ELIMIT);
    assert_null(f.session);
}

static void segment_limit_of_the_daemon_is_kept(void **state)
{
    (void)state;
    start_daemon();
    f.daemon.max_segment_records = 5000;
    open_session();
    diverge_step(f.session, 0);
    for (int i = 0; i < 6000; i++)
        diverge_scalar(f.lane, "x", i);
    diverge_step(f.session, 1);
    assert_int_equal(diverge_loss(f.lane, 1), 0);
    assert_int_equal(close_session(), DIVERGE_EDROPPED);
    assert_int_equal(receiver_count(&f.daemon.receiver, 2), 5000);
    assert_int_equal(receiver_end(&f.daemon.receiver, 2)->dropped[DIVERGE_TIER_PULSE], 1000);
    assert_int_equal(receiver_count(&f.daemon.receiver, 4), 1);
}

/* ---- spool ----------------------------------------------------------------------------------- */

static void spool_waits_for_the_daemon_and_is_sent_first(void **state)
{
    (void)state;
    open_session();
    run_steps(0, 20);
    assert_int_equal(diverge_flush(f.session, 200), DIVERGE_EAGAIN);
    char path[400];
    assert_true(find_spool(path));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(stats().spooled > 0);
    start_daemon();
    run_steps(20, 25);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_false(find_spool(path));
    assert_int_equal(stats().spooled, 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 25);
}

static void spool_left_behind_stands_alone(void **state)
{
    (void)state;
    open_session();
    run_steps(0, 5);
    assert_int_equal(close_session(), DIVERGE_EAGAIN);
    char path[400];
    assert_true(find_spool(path));
    struct receiver receiver;
    receiver_init(&receiver);
    receiver_take_file(&receiver, path);
    assert_steps(&receiver, 5);
    assert_true(receiver.has_bye);
    receiver_fini(&receiver);
}

static void spool_continues_what_a_daemon_had(void **state)
{
    (void)state;
    start_daemon();
    open_session();
    run_steps(0, 3);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    fake_daemon_stop(&f.daemon);
    run_steps(3, 8);
    assert_int_equal(close_session(), DIVERGE_EAGAIN);
    char path[400];
    assert_true(find_spool(path));
    /* Its numbers go on where the daemon's end; its definitions are its own. */
    receiver_take_file(&f.daemon.receiver, path);
    assert_steps(&f.daemon.receiver, 8);
    assert_int_equal(f.daemon.receiver.duplicates, 0);
    assert_true(f.daemon.receiver.has_bye);
}

static void full_spool_drops_whole_tiers_op_first(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.spool_bytes = 128 * 1024;
    options.wait_ms = 60000;
    assert_int_equal(try_open(options), 0);
    enum { STEPS = 40 };
    for (uint64_t k = 0; k < STEPS; k++) {
        diverge_step(f.session, k);
        diverge_loss(f.lane, (double)k);
        diverge_op_begin(f.lane, diverge_name(f.session, "mm"), 0, NULL, 0);
        for (uint16_t slot = 0; slot < 300; slot++) {
            const float x[2] = {(float)k, slot};
            diverge_output_f32(f.lane, slot, x, 1, DIVERGE_SIZES(2));
        }
        diverge_op_end(f.lane);
    }
    assert_int_equal(close_session(), DIVERGE_EDROPPED);
    char path[400];
    assert_true(find_spool(path));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size <= 128 * 1024);
    struct receiver receiver;
    receiver_init(&receiver);
    receiver_take_file(&receiver, path);
    for (uint64_t k = 0; k < STEPS; k++) {
        const struct dvg_end *end = receiver_end(&receiver, diverge_segment_of_step(k));
        assert_non_null(end);
        assert_int_equal(end->records[DIVERGE_TIER_PULSE], 1);
        assert_int_equal(end->records[DIVERGE_TIER_OP] + end->dropped[DIVERGE_TIER_OP], 300);
    }
    assert_int_equal(receiver_end(&receiver, 2)->dropped[DIVERGE_TIER_OP], 0);
    assert_int_equal(receiver_end(&receiver, 2 * STEPS)->records[DIVERGE_TIER_OP], 0);
    receiver_fini(&receiver);
}

/* A daemon that will make room is waited for, within the bound: nothing is dropped. */
static void full_spool_waits_for_a_daemon_that_is_there(void **state)
{
    (void)state;
    start_daemon();
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.spool_bytes = 128 * 1024;
    options.wait_ms = 60000;
    assert_int_equal(try_open(options), 0);
    run_steps(0, 1);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    fake_daemon_set_read_only(&f.daemon, true);
    enum { STEPS = 40, RECORDS = 300 };
    for (uint64_t k = 1; k < STEPS; k++) {
        run_step(k);
        for (uint16_t slot = 1; slot < RECORDS; slot++) {
            const float x[2] = {(float)k, slot};
            diverge_output_f32(f.lane, slot, x, 1, DIVERGE_SIZES(2));
        }
    }
    assert_int_equal(diverge_flush(f.session, 300), DIVERGE_EAGAIN);
    assert_true(stats().spooled > 64 * 1024);
    assert_int_equal(stats().dropped, 0);
    fake_daemon_set_read_only(&f.daemon, false);
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    for (uint64_t k = 1; k < STEPS; k++) {
        const struct dvg_end *end = receiver_end(&f.daemon.receiver, diverge_segment_of_step(k));
        assert_non_null(end);
        for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
            assert_int_equal(end->dropped[tier], 0);
        assert_int_equal(receiver_count(&f.daemon.receiver, diverge_segment_of_step(k)),
                         4 + RECORDS - 1);
    }
    assert_true(f.daemon.receiver.has_bye);
}

static void folder_that_cannot_hold_a_spool_costs_no_records(void **state)
{
    (void)state;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.spool_dir = "/proc/no/such/folder";
    assert_int_equal(try_open(options), 0);
    run_steps(0, 5);
    assert_int_equal(diverge_flush(f.session, 200), DIVERGE_EAGAIN);
    start_daemon();
    assert_int_equal(diverge_flush(f.session, FAKE_WAIT_MS), 0);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 5);
}

/* ---- fork and exit --------------------------------------------------------------------------- */

static int child_status(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void forked_child_leaves_the_parents_stream_alone(void **state)
{
    (void)state;
    start_daemon();
    open_session();
    run_steps(0, 2);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int bad = diverge_loss(f.lane, 9) != DIVERGE_ECLOSED;
        bad |= (diverge_step(f.session, 50) != DIVERGE_ECLOSED) << 1;
        bad |= (diverge_flush(f.session, 1000) != DIVERGE_ECLOSED) << 2;
        bad |= (diverge_lane_open(f.session, "child") != NULL) << 3;
        bad |= (diverge_session_close(f.session, DIVERGE_OUTCOME_COMPLETE) != DIVERGE_ECLOSED) << 4;
        _exit(bad);
    }
    assert_int_equal(child_status(pid), 0);
    run_steps(2, 4);
    assert_int_equal(close_session(), 0);
    assert_steps(&f.daemon.receiver, 4);
    assert_int_equal(f.daemon.connections, 1);
    assert_int_equal(f.daemon.receiver.duplicates, 0);
}

static bool two_connections(const struct fake_daemon *daemon)
{
    return daemon->connections == 1 && daemon->ended == 1;
}

/* A process that neither closes nor crashes: what it recorded arrives, without a BYE. */
static void exit_without_close_sends_what_was_recorded(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        /* The child waits until the parent listens: there is no daemon thread before its fork. */
        while (access(f.socket, F_OK) != 0)
            usleep(1000);
        open_session();
        run_steps(0, 5);
        exit(0);
    }
    char path[100];
    snprintf(path, sizeof(path), "%s/starting", f.dir);
    fake_daemon_start(&f.daemon, path);
    f.has_daemon = true;
    assert_int_equal(rename(path, f.socket), 0);
    snprintf(f.daemon.socket, sizeof(f.daemon.socket), "%s", f.socket);
    child_status(pid);
    fake_daemon_wait(&f.daemon, two_connections);
    for (uint64_t k = 0; k < 5; k++)
        assert_int_equal(receiver_count(&f.daemon.receiver, diverge_segment_of_step(k)), 4);
    assert_null(receiver_end(&f.daemon.receiver, diverge_segment_of_step(4)));
    assert_false(f.daemon.receiver.has_bye);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, STEPS_OF_THREADS = 50, RECORDS_OF_THREADS = 40 };

static struct crew {
    pthread_barrier_t barrier;
    struct diverge_lane *shared;
} crew;

static void *record_in_a_thread(void *arg)
{
    char name[16];
    snprintf(name, sizeof(name), "worker-%d", (int)(intptr_t)arg);
    struct diverge_lane *own = diverge_lane_open(f.session, name);
    for (uint64_t k = 0; k < STEPS_OF_THREADS; k++) {
        pthread_barrier_wait(&crew.barrier);
        for (int i = 0; i < RECORDS_OF_THREADS; i++) {
            struct diverge_lane *lane = i % 2 ? own : crew.shared;
            uint64_t token = 0;
            struct diverge_observation what = diverge_what(lane, DIVERGE_ROLE_PARAM, 0, "later");
            struct diverge_tensor tensor = diverge_dense(DIVERGE_F32, ones, 1, DIVERGE_SIZES(6));
            diverge_reserve(lane, &what, &tensor, &token);
            diverge_scalar(lane, name, i);
            tensor.storage = (uint64_t)(i + 1);
            what.role = i % 2 ? DIVERGE_ROLE_INPUT : DIVERGE_ROLE_OUTPUT;
            what.inherit = true;
            diverge_record(lane, &what, &tensor, NULL);
            diverge_complete(f.session, token, NULL);
            if (i % 8 == 0)
                diverge_forget(f.session, (uint64_t)i);
        }
        pthread_barrier_wait(&crew.barrier);
    }
    return NULL;
}

static void threads_share_a_session(void **state)
{
    (void)state;
    start_daemon();
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    options.wait_ms = 60000;
    assert_int_equal(try_open(options), 0);
    crew.shared = f.lane;
    pthread_barrier_init(&crew.barrier, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_in_a_thread, (void *)i), 0);
    for (uint64_t k = 0; k < STEPS_OF_THREADS; k++) {
        diverge_step(f.session, k);
        pthread_barrier_wait(&crew.barrier);
        stats();
        pthread_barrier_wait(&crew.barrier);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crew.barrier);
    assert_int_equal(close_session(), 0);
    for (uint64_t k = 0; k < STEPS_OF_THREADS; k++)
        assert_int_equal(receiver_count(&f.daemon.receiver, diverge_segment_of_step(k)),
                         3 * THREADS * RECORDS_OF_THREADS);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(hello_says_who_and_welcome_settles_the_name),
        CASE(newer_daemon_is_refused_at_open),
        CASE(full_disk_is_told_as_such),
        CASE(required_daemon_must_answer),
        CASE(silent_daemon_does_not_hold_up_the_training),
        CASE(unsafe_folder_is_refused),
        CASE(metadata_has_causes_without_secrets),
        CASE(flush_waits_for_the_acknowledgement),
        CASE(committed_frames_are_not_sent_again),
        CASE(uncommitted_frames_are_sent_again_with_their_definitions),
        CASE(passing_trouble_of_the_daemon_is_waited_out),
        CASE(refusal_ends_the_recording_not_the_training),
        CASE(read_only_store_is_waited_for),
        CASE(frames_stay_below_a_mebibyte),
        CASE(daemon_that_takes_only_smaller_frames_is_refused),
        CASE(segment_limit_of_the_daemon_is_kept),
        CASE(spool_waits_for_the_daemon_and_is_sent_first),
        CASE(spool_left_behind_stands_alone),
        CASE(spool_continues_what_a_daemon_had),
        CASE(full_spool_drops_whole_tiers_op_first),
        CASE(full_spool_waits_for_a_daemon_that_is_there),
        CASE(folder_that_cannot_hold_a_spool_costs_no_records),
        CASE(forked_child_leaves_the_parents_stream_alone),
        CASE(exit_without_close_sends_what_was_recorded),
        CASE(threads_share_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
