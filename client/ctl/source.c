/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/text.h"
#include "client/wire/recording.h"
#include "daemon/proto/paths.h"

enum { TEMPORARY_MAX = 64 };

static struct reader *main_reader;
static struct temporary {
    const char *folder;
    const char *files[5];
    struct reader *reader;
} temporary[TEMPORARY_MAX];
static size_t n_temporary;
static struct map {
    struct map *next;
    struct dvg_bytes bytes;
} * maps;

int source_path(const char **ret)
{
    static char path[PATHS_MAX];
    struct paths_error error;
    int status = paths_store(ctl.store, path, NULL, &error);

    if (status)
        return ctl_fail_error(status, NULL, error.text);
    *ret = path;
    return EX_OK;
}

bool source_exists(const char *path)
{
    return access(path, F_OK) == 0 || errno != ENOENT;
}

int source_reader(struct reader **ret)
{
    const char *path = NULL;
    struct store_error error = {""};
    int status = main_reader ? EX_OK : source_path(&path);

    if (status)
        return status;
    if (!main_reader) {
        status = reader_open(path, &main_reader, &error);
        if (status == DIVERGE_ENOTFOUND)
            return ctl_fail(EX_NOINPUT,
                            "there is no store at %s yet: record a run with divergectl run, or "
                            "name another with --store",
                            path);
        if (status)
            return ctl_fail_error(status, path, error.text);
    }
    *ret = main_reader;
    return EX_OK;
}

static int load(struct reader *reader, struct source_run *ret)
{
    int status = reader_load(reader, ret->info.id, &ret->trace);

    if (status)
        return ctl_fail_error(status, text_escape(ret->info.name), NULL);
    ret->reader = reader;
    ret->source = reader_source(reader);
    ret->as = text_escape(ret->info.name);
    return EX_OK;
}

int source_find(const char *who, struct source_run *ret)
{
    struct reader *reader = NULL;
    struct store_error error = {""};
    int status = source_reader(&reader);

    if (status)
        return status;
    *ret = (struct source_run){0};
    status = reader_find(reader, who, &ret->info, &error);
    if (status)
        return error.text[0] ? ctl_fail(ctl_exit_status(status), "%s", text_escape(error.text))
                             : ctl_fail_error(status, text_escape(who), NULL);
    return load(reader, ret);
}

/* ---- files ---------------------------------------------------------------------------------- */

int source_map(const char *path, struct dvg_bytes *ret)
{
    struct stat st;
    void *data = NULL;

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int number = fd >= 0 && S_ISDIR(st.st_mode) ? EISDIR : fd >= 0 ? EINVAL : errno;

        if (fd >= 0)
            close(fd);
        return ctl_fail(number == ENOENT   ? EX_NOINPUT
                        : number == EACCES ? EX_NOPERM
                                           : EX_DATAERR,
                        "%s: %s", text_escape(path),
                        number == EINVAL ? "not a regular file" : strerror(number));
    }
    if (st.st_size) {
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            close(fd);
            return ctl_fail(EX_IOERR, "%s: %s", text_escape(path), strerror(errno));
        }
    }
    close(fd);
    *ret = (struct dvg_bytes){.data = data, .size = (size_t)st.st_size};
    if (data) {
        struct map *map = mem_alloc(sizeof(*map));

        *map = (struct map){.next = maps, .bytes = *ret};
        maps = map;
    }
    return EX_OK;
}

/* Whether an argument means a file: it has a '/', or is one that begins as a recording. */
static bool means_file(const char *who)
{
    uint8_t start[DVG_FILE_HEADER];
    struct dvg_recording recording;

    if (strchr(who, '/'))
        return true;
    int fd = open(who, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return false;
    ssize_t n = read(fd, start, sizeof(start));

    close(fd);
    return n == (ssize_t)sizeof(start) &&
           dvg_recording_init(&recording,
                              (struct dvg_bytes){.data = start, .size = sizeof(start)}) !=
               DIVERGE_EPROTO;
}

/* ---- writing without a daemon ---------------------------------------------------------------- */

static int take_lock(const char *path, int *ret_lock)
{
    struct paths_error error;
    char lock[PATHS_MAX];
    int status = paths_lock(path, lock, &error);

    if (status)
        return ctl_fail_error(status, NULL, error.text);
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return ctl_fail(errno == EACCES || errno == EPERM ? EX_NOPERM : EX_CANTCREAT, "%s: %s",
                        text_escape(lock), strerror(errno));
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        close(fd);
        return ctl_fail(EX_UNAVAILABLE,
                        "a daemon serves %s: leave --store out, or stop it with divergectl "
                        "daemon stop",
                        text_escape(path));
    }
    *ret_lock = fd;
    return EX_OK;
}

int source_store_open(const char *path, struct store **ret, int *ret_lock)
{
    struct paths_error why;
    struct store_error error = {""};
    char folder[PATHS_MAX];
    int status = paths_parent(path, folder);

    if (status)
        return ctl_fail_error(status, text_escape(path), NULL);
    status = paths_folder_private(folder, &why);
    if (status)
        return ctl_fail_error(status, NULL, why.text);
    status = take_lock(path, ret_lock);
    if (status)
        return status;
    status = store_open(path, NULL, ret, &error);
    if (!status)
        return EX_OK;
    close(*ret_lock);
    return ctl_fail_error(status, text_escape(path), error.text);
}

void source_store_close(struct store *store, int lock)
{
    store_close(store);
    close(lock);
}

int source_store_import(struct store *store, const char *path, struct ingest_import *ret)
{
    struct ingest *ingest = NULL;
    struct ingest_peer peer = {.connection = 1, .uid = getuid(), .pid = getpid()};
    struct dvg_bytes file;
    int status = source_map(path, &file);

    if (status)
        return status;
    status = ingest_new(store, NULL, &ingest);
    if (status)
        return ctl_fail_error(status, NULL, NULL);
    *ret = (struct ingest_import){0};
    progress_begin("importing");
    ingest_watch(ingest, progress_update);
    status = ingest_recording(ingest, &peer, file, ret);
    progress_end();
    ingest_free(ingest);
    if (status == DIVERGE_EPROTO && !ret->frames)
        return ctl_fail(EX_DATAERR, "%s is not a recording (divergectl export makes them)",
                        text_escape(path));
    return status ? ctl_fail_file(status, path, ret->text) : EX_OK;
}

/* ---- recordings as runs ---------------------------------------------------------------------- */

/* What a temporary store leaves in its folder. */
static const char *const file_names[] = {"diverge.db", "diverge.db-wal", "diverge.db-shm",
                                         "diverge.db.lock", "diverge.db-journal"};

/* Safe in a signal handler: the paths were made before. */
static void remove_folder(const struct temporary *store)
{
    for (size_t i = 0; i < CMD_COUNT(file_names); i++)
        unlink(store->files[i]);
    rmdir(store->folder);
}

/* ^C while a recording is compared leaves nothing behind. */
static void remove_and_die(int number)
{
    for (size_t i = 0; i < n_temporary; i++)
        remove_folder(&temporary[i]);
    signal(number, SIG_DFL);
    raise(number);
}

static void clean_up_on_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = remove_and_die};
    struct sigaction before;

    for (size_t i = 0; i < CMD_COUNT(numbers); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
}

static int make_folder(const char **ret)
{
    const char *parent = getenv("TMPDIR");
    char *folder = mem_printf("%s/divergectl-XXXXXX", parent && *parent == '/' ? parent : "/tmp");

    if (n_temporary == TEMPORARY_MAX)
        return ctl_fail(EX_USAGE, "too many recordings");
    if (!mkdtemp(folder))
        return ctl_fail(EX_CANTCREAT, "%s: %s", folder, strerror(errno));
    struct temporary *store = &temporary[n_temporary];

    *store = (struct temporary){.folder = folder};
    for (size_t i = 0; i < CMD_COUNT(file_names); i++)
        store->files[i] = mem_printf("%s/%s", folder, file_names[i]);
    n_temporary++;
    clean_up_on_signals();
    *ret = folder;
    return EX_OK;
}

static int import_into(const char *store_path, const char *path, struct ingest_import *ret)
{
    struct store *store = NULL;
    int lock = -1;
    int status = source_store_open(store_path, &store, &lock);

    if (status)
        return status;
    status = source_store_import(store, path, ret);
    source_store_close(store, lock);
    if (!status && !ret->run)
        status = ctl_fail(EX_DATAERR, "%s holds no run", text_escape(path));
    if (!status && ret->torn)
        ctl_note("%s ends in the middle of a frame: the rest of the run is missing",
                 text_escape(path));
    return status;
}

/* The run of that row. */
static int run_of_row(struct reader *reader, int64_t row, struct reader_run *ret)
{
    struct reader_run *runs = NULL;
    size_t count = 0;
    int status = reader_runs(reader, &runs, &count);

    if (status)
        return status;
    status = DIVERGE_ENOTFOUND;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].id != row)
            continue;
        *ret = runs[i];
        status = 0;
    }
    free(runs);
    return status;
}

int source_by_row(const char *path, int64_t row, struct reader_run *ret)
{
    struct reader *reader = NULL;
    struct store_error error = {""};
    int status = reader_open(path, &reader, &error);

    if (status)
        return ctl_fail_error(status, text_escape(path), error.text);
    status = run_of_row(reader, row, ret);
    reader_close(reader);
    return status ? ctl_fail_error(status, text_escape(path), NULL) : EX_OK;
}

static int open_recording(const char *path, struct source_run *ret)
{
    const char *folder = NULL;
    struct ingest_import import;
    struct store_error error = {""};
    int status = make_folder(&folder);

    if (status)
        return status;
    const char *store_path = mem_printf("%s/diverge.db", folder);

    status = import_into(store_path, path, &import);
    if (status)
        return status;
    struct reader **reader = &temporary[n_temporary - 1].reader;

    status = reader_open(store_path, reader, &error);
    if (status)
        return ctl_fail_error(status, store_path, error.text);
    *ret = (struct source_run){.recording = true};
    status = run_of_row(*reader, import.run, &ret->info);
    if (status)
        return ctl_fail_error(status, text_escape(path), NULL);
    status = load(*reader, ret);
    ret->as = mem_printf("%s (run %s)", text_escape(path), text_escape(ret->info.name));
    return status;
}

int source_open(const char *who, struct source_run *ret)
{
    return means_file(who) ? open_recording(who, ret) : source_find(who, ret);
}

void source_close(void)
{
    reader_close(main_reader);
    main_reader = NULL;
    while (n_temporary) {
        n_temporary--;
        reader_close(temporary[n_temporary].reader);
        temporary[n_temporary].reader = NULL;
        remove_folder(&temporary[n_temporary]);
    }
    for (; maps; maps = maps->next)
        munmap((void *)(uintptr_t)maps->bytes.data, maps->bytes.size);
}
