/* SPDX-License-Identifier: Apache-2.0 */

#include "tests/fuzz/fuzz_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint8_t *empty; /* owned until the program ends */
static size_t empty_size;
static char folder[64];
static char path[80];

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char name[100];
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void remove_all(void)
{
    remove_files();
    rmdir(folder);
    free(empty);
}

static void make_folder(void)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof(folder), "%s/diverge-fuzz-XXXXXX", root);
    if (!mkdtemp(folder)) {
        perror(folder);
        abort();
    }
    snprintf(path, sizeof(path), "%s/fuzz.db", folder);
    atexit(remove_all);
}

static struct store *open_file(void)
{
    /* Small, so that an input meets the caps. */
    const struct store_options options = {
        .max_segment_records = 1 << 20,
        .max_open_bytes = 64 << 20,
        .max_bytes = 64 << 20,
    };
    struct store *store = NULL;
    struct store_error error = {0};
    int rc = store_open(path, &options, &store, &error);
    if (rc) {
        fprintf(stderr, "%s: %d %s\n", path, rc, error.text);
        abort();
    }
    return store;
}

/* An empty store's file: to copy it is quicker than to make one. */
static void keep_empty(void)
{
    store_close(open_file());
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) {
        perror(path);
        abort();
    }
    empty_size = (size_t)st.st_size;
    empty = malloc(empty_size);
    if (!empty || fread(empty, 1, empty_size, f) != empty_size)
        abort();
    fclose(f);
}

static void restore_empty(void)
{
    remove_files();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, empty, empty_size) != (ssize_t)empty_size || close(fd)) {
        perror(path);
        abort();
    }
}

struct store *fuzz_store_open(void)
{
    if (!folder[0]) {
        make_folder();
        keep_empty();
    }
    return open_file();
}

void fuzz_store_close(struct store *store, bool changed)
{
    store_close(store);
    if (changed)
        restore_empty();
}
