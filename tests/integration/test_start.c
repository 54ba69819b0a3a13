/* SPDX-License-Identifier: Apache-2.0 */
/* How a daemon starts, refuses to start, is replaced and ends. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "tests/integration/producer.h"
#include "tests/integration/rawpeer.h"
#include "tests/integration/watch.h"
#include "tests/support/daemon_fixture.h"

static struct dvg_daemon d;

static int setup(void **state)
{
    (void)state;
    dvg_daemon_init(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dvg_daemon_fini(&d);
    return 0;
}

static void expect_exit(const char *const *args, const char *const *env, int status,
                        const char *part)
{
    const char *argv[16] = {getenv("DVG_DIVERGED")};
    for (int i = 0; args && args[i]; i++)
        argv[i + 1] = args[i];
    struct dvg_process p;
    dvg_process_run(&p, argv, env);
    if (dvg_process_status(&p) != status || !strstr(p.err, part))
        fail_msg("status %d, expected %d with \"%s\": %s", dvg_process_status(&p), status, part,
                 p.err);
    dvg_process_fini(&p);
}
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void under(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", d.dir, name);
}

static void make_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* ---- refusals ---- */

static void wrong_usage_is_64(void **state)
{
    (void)state;
    expect_exit(ARGS("--nonsense"), NULL, EX_USAGE, "--nonsense");
    expect_exit(ARGS("--idle-exit", "x"), NULL, EX_USAGE, "--idle-exit");
}

static void socket_over_107_bytes_is_78(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof(path), "%s/%0100d", d.dir, 1);
    expect_exit(ARGS("--socket", path), NULL, EX_CONFIG, "107");
}

static void open_socket_folder_is_77(void **state)
{
    (void)state;
    char path[200];
    under(path, sizeof(path), "r");
    assert_int_equal(chmod(path, 0755), 0);
    expect_exit(NULL, NULL, EX_NOPERM, "chmod 700");
    assert_int_equal(chmod(path, 0700), 0);
    under(path, sizeof(path), "link");
    assert_int_equal(symlink("r", path), 0);
    under(path, sizeof(path), "link/sock");
    expect_exit(ARGS("--socket", path), NULL, EX_NOPERM, "symbolic link");
}

static void file_in_place_of_the_socket_is_78_and_stays(void **state)
{
    (void)state;
    make_file(d.socket, "precious");
    expect_exit(NULL, NULL, EX_CONFIG, "not a socket");
    assert_int_equal(access(d.socket, F_OK), 0);
}

static void corrupt_store_is_65_and_stays(void **state)
{
    (void)state;
    make_file(d.store, "this is no SQLite database at all, but it is somebody's file\n");
    struct stat before;
    struct stat after;
    assert_int_equal(stat(d.store, &before), 0);
    expect_exit(NULL, NULL, EX_DATAERR, d.store);
    assert_int_equal(stat(d.store, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(access(d.socket, F_OK), -1);
}

static void newer_store_is_65(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    dvg_daemon_stop(&d);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(d.store, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 100000", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    expect_exit(NULL, NULL, EX_DATAERR, "newer");
}

/* What divergectl says of the same file, and as early. */
static void foreign_schema_is_65(void **state)
{
    (void)state;
    static const char sql[] = "ALTER TABLE segments RENAME TO other;"
                              "CREATE VIEW segments AS SELECT * FROM other";
    dvg_daemon_start(&d, NULL, NULL);
    dvg_daemon_stop(&d);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(d.store, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    expect_exit(NULL, NULL, EX_DATAERR, "the file is damaged or no store");
}

static void store_in_place_of_a_folder_is_refused(void **state)
{
    (void)state;
    char path[200];
    under(path, sizeof(path), "file");
    make_file(path, "x");
    under(path, sizeof(path), "file/diverge.db");
    expect_exit(ARGS("--store", path), NULL, EX_IOERR, "file");
    expect_exit(ARGS("--store", "/proc/nowhere/diverge.db"), NULL, EX_IOERR, "/proc/nowhere");
}

static void read_only_folder_is_77(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        char path[200];
        under(path, sizeof(path), "s");
        assert_int_equal(chmod(path, 0500), 0);
        expect_exit(NULL, NULL, EX_NOPERM, d.store);
        return;
    }
    /* Root writes everywhere but into what the kernel itself keeps. */
    expect_exit(ARGS("--store", "/sys/kernel/diverge.db"), NULL, EX_NOPERM, "/sys/kernel");
}

/* ---- two daemons ---- */

static void second_daemon_names_the_first(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %d", (int)d.pid);
    char other[200];
    under(other, sizeof(other), "r/other");
    expect_exit(NULL, NULL, EX_UNAVAILABLE, pid);
    expect_exit(ARGS("--socket", other), NULL, EX_UNAVAILABLE, d.socket);
    /* Another store, the same socket. */
    under(other, sizeof(other), "s/other.db");
    expect_exit(ARGS("--store", other), NULL, EX_UNAVAILABLE, d.socket);
    close(raw_connect(d.socket));
    dvg_daemon_stop(&d);
}

/* Starts many at one moment: all wait in front of a pipe that is then closed. */
static void one_of_many_started_at_once_wins(void **state)
{
    (void)state;
    enum { N = 8 };
    char log[200];
    under(log, sizeof(log), "race");
    static char commands[N][400];
    pid_t pids[N];
    int gate[2];
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    assert_int_equal(fcntl(gate[0], F_SETFD, 0), 0);
    for (int i = 0; i < N; i++) {
        snprintf(commands[i], sizeof(commands[i]), "read x <&%d; exec \"$DVG_DIVERGED\" 2>>%s",
                 gate[0], log);
        pids[i] = dvg_child_start(ARGS("bash", "-c", commands[i]), NULL, NULL);
    }
    close(gate[0]);
    close(gate[1]);
    /* All but one end by themselves. */
    int running = N;
    for (int i = 0; i < N && running > 1; i++) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, 0);
        assert_true(pid > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EX_UNAVAILABLE);
        for (int j = 0; j < N; j++)
            pids[j] = pids[j] == pid ? 0 : pids[j];
        running--;
    }
    for (int j = 0; j < N; j++) {
        if (!pids[j])
            continue;
        int status = 0;
        kill(pids[j], SIGTERM);
        assert_true(dvg_child_wait(pids[j], DVG_FIXTURE_WAIT_MS, &status));
        assert_int_equal(status, 0);
    }
    store_check_integrity(d.store);
}

static void replace_takes_over(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    pid_t first = d.pid;
    d.pid = 0;
    dvg_daemon_start(&d, ARGS("--replace"), NULL);
    int status = 1;
    assert_true(dvg_child_wait(first, DVG_FIXTURE_WAIT_MS, &status));
    assert_int_equal(status, 0);
    close(raw_connect(d.socket));
    dvg_daemon_stop(&d);
    /* With nobody there it is an ordinary start. */
    dvg_daemon_start(&d, ARGS("--replace"), NULL);
    dvg_daemon_stop(&d);
}

/* ---- sockets ---- */

static int listen_there(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void stale_socket_is_replaced_and_a_live_one_is_not(void **state)
{
    (void)state;
    int fd = listen_there(d.socket);
    expect_exit(NULL, NULL, EX_UNAVAILABLE, "another program");
    close(fd);
    assert_int_equal(access(d.socket, F_OK), 0);
    dvg_daemon_start(&d, NULL, NULL);
    close(raw_connect(d.socket));
    dvg_daemon_kill(&d);
    /* What kill -9 leaves is stale as well. */
    assert_int_equal(access(d.socket, F_OK), 0);
    dvg_daemon_start(&d, NULL, NULL);
    close(raw_connect(d.socket));
    dvg_daemon_stop(&d);
}

static void vanished_socket_comes_back_and_producers_stay(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    int before = raw_connect(d.socket);
    raw_send_control(before, "{\"command\":\"status\"}");
    char json[4096];
    raw_read_control(before, json, sizeof(json));
    struct watch watch;
    char folder[200];
    under(folder, sizeof(folder), "r");
    watch_open(&watch, folder);
    assert_int_equal(unlink(d.socket), 0);
    watch_until_exists(&watch, d.socket);
    watch_close(&watch);
    int fd = -1;
    while (fd < 0) /* it is made, then listened on */
        fd = raw_try_connect(d.socket);
    close(fd);
    raw_send_control(before, "{\"command\":\"status\"}");
    raw_read_control(before, json, sizeof(json));
    assert_non_null(strstr(json, "\"ok\":true"));
    close(before);
    dvg_daemon_stop(&d);
}

/* ---- the end ---- */

static void clean_stop_leaves_no_socket_and_no_wal(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = "clean";
    plan.steps = 20;
    plan.records = 50;
    assert_int_equal(producer_run(&plan), 0);
    dvg_daemon_stop(&d);
    assert_int_equal(access(d.socket, F_OK), -1);
    char wal[200];
    snprintf(wal, sizeof(wal), "%s-wal", d.store);
    struct stat st;
    assert_true(stat(wal, &st) != 0 || st.st_size == 0);
    producer_check(d.store, &plan);
    producer_check_status(d.store, "clean", "complete");
}

static void control_stop_ends_it(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    int fd = raw_connect(d.socket);
    raw_send_control(fd, "{\"command\":\"stop\"}");
    char json[4096];
    raw_read_control(fd, json, sizeof(json));
    assert_non_null(strstr(json, "\"ok\":true"));
    assert_int_equal(dvg_daemon_wait(&d), 0);
    raw_expect_end(fd);
}

static void stop_is_refused_while_a_producer_is_connected(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    int producer = raw_connect(d.socket);
    raw_send_hello(producer, 5, 1);
    uint8_t bytes[8192];
    struct dvg_frame frame;
    assert_int_equal(raw_read(producer, bytes, sizeof(bytes), &frame), DVG_MESSAGE_WELCOME);
    int fd = raw_connect(d.socket);
    char json[4096];
    raw_send_control(fd, "{\"command\":\"stop\"}");
    raw_read_control(fd, json, sizeof(json));
    assert_non_null(strstr(json, "\"ok\":false"));
    raw_send_control(fd, "{\"command\":\"stop\",\"force\":true}");
    raw_read_control(fd, json, sizeof(json));
    assert_non_null(strstr(json, "\"ok\":true"));
    assert_int_equal(dvg_daemon_wait(&d), 0);
    close(fd);
    raw_expect_end(producer);
}

static void idle_daemon_ends_by_itself(void **state)
{
    (void)state;
    dvg_daemon_start(&d, ARGS("--idle-exit=1"), NULL);
    close(raw_connect(d.socket));
    assert_int_equal(dvg_daemon_wait(&d), 0);
    assert_int_equal(access(d.socket, F_OK), -1);
}

static void ready_fd_says_where_it_listens(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    char number[16];
    snprintf(number, sizeof(number), "%d", pair[1]);
    dvg_daemon_start(&d, ARGS("--ready-fd", number), NULL);
    close(pair[1]);
    char text[256] = "";
    assert_true(read(pair[0], text, sizeof(text) - 1) > 0);
    char expected[200];
    snprintf(expected, sizeof(expected), "READY %s\n", d.socket);
    assert_string_equal(text, expected);
    assert_int_equal(read(pair[0], text, 1), 0);
    close(pair[0]);
    dvg_daemon_stop(&d);
}

/* How often the threads of the daemon were given a processor. */
static unsigned long long time_slices(void)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)d.pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    unsigned long long sum = 0;
    const struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        unsigned long long slices = 0;
        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", (int)d.pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file)
            continue;
        assert_int_equal(fscanf(file, "%*u %*u %llu", &slices), 1);
        fclose(file);
        sum += slices;
    }
    closedir(dir);
    return sum;
}

static void idle_daemon_uses_no_cpu(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, NULL);
    struct producer_plan plan = PRODUCER_PLAN_INIT;
    plan.name = "before";
    plan.steps = 5;
    plan.records = 5;
    assert_int_equal(producer_run(&plan), 0);
    /* Nothing is sent in the window that is looked at, so nothing should come. */
    int fd = raw_connect(d.socket);
    unsigned long long slices[2];
    for (int i = 0; i < 2; i++) {
        struct pollfd quiet = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&quiet, 1, 300), 0);
        slices[i] = time_slices();
    }
    /* One thread that looked every 20 ms would have 15. */
    assert_in_range(slices[1] - slices[0], 0, 5);
    close(fd);
    dvg_daemon_stop(&d);
}

/* Waits until the daemon tells its manager so. */
static void await_notice(const char *part)
{
    char text[1024] = "";
    do {
        struct pollfd fd = {.fd = d.notify_fd, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, DVG_FIXTURE_WAIT_MS), 1);
        ssize_t len = recv(d.notify_fd, text, sizeof(text) - 1, 0);
        assert_true(len >= 0);
        text[len] = '\0';
    } while (!strstr(text, part));
}

static void manager_hears_of_life_and_end(void **state)
{
    (void)state;
    dvg_daemon_start(&d, NULL, ARGS("WATCHDOG_USEC=100000"));
    await_notice("WATCHDOG=1");
    await_notice("WATCHDOG=1");
    kill(d.pid, SIGINT);
    await_notice("STOPPING=1");
    assert_int_equal(dvg_daemon_wait(&d), 0);
}

static void print_config_and_version_start_nothing(void **state)
{
    (void)state;
    struct dvg_process p;
    dvg_process_run(&p, ARGS(getenv("DVG_DIVERGED"), "--print-config", "--idle-exit=9"), NULL);
    assert_int_equal(dvg_process_status(&p), 0);
    assert_non_null(strstr(p.out, "idle-exit=9  # flag\n"));
    assert_non_null(strstr(p.out, "  # environment DIVERGE_STORE\n"));
    dvg_process_fini(&p);
    dvg_process_run(&p, ARGS(getenv("DVG_DIVERGED"), "--version"), NULL);
    assert_int_equal(dvg_process_status(&p), 0);
    assert_int_equal(strncmp(p.out, "diverged ", 9), 0);
    dvg_process_fini(&p);
    assert_int_equal(access(d.store, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wrong_usage_is_64),
        TEST(socket_over_107_bytes_is_78),
        TEST(open_socket_folder_is_77),
        TEST(file_in_place_of_the_socket_is_78_and_stays),
        TEST(corrupt_store_is_65_and_stays),
        TEST(newer_store_is_65),
        TEST(foreign_schema_is_65),
        TEST(store_in_place_of_a_folder_is_refused),
        TEST(read_only_folder_is_77),
        TEST(second_daemon_names_the_first),
        TEST(one_of_many_started_at_once_wins),
        TEST(replace_takes_over),
        TEST(stale_socket_is_replaced_and_a_live_one_is_not),
        TEST(vanished_socket_comes_back_and_producers_stay),
        TEST(clean_stop_leaves_no_socket_and_no_wal),
        TEST(control_stop_ends_it),
        TEST(stop_is_refused_while_a_producer_is_connected),
        TEST(idle_daemon_ends_by_itself),
        TEST(ready_fd_says_where_it_listens),
        TEST(idle_daemon_uses_no_cpu),
        TEST(manager_hears_of_life_and_end),
        TEST(print_config_and_version_start_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
