/* SPDX-License-Identifier: Apache-2.0 */

#include "tests/fuzz/fuzz_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

struct store *fuzz_store_open(void)
{
    if (!folder[0])
        make_folder();
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

void fuzz_store_close(struct store *store, bool changed)
{
    store_close(store);
    if (changed)
        remove_files();
}
