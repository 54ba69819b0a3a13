/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds every file of a corpus folder to a fuzz target, so that ordinary builds replay it. */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each input lies in an allocation of exactly its size, so that a sanitizer sees one byte over. */
static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    struct stat st;
    uint8_t *data = NULL;
    int rc = -1;
    if (fstat(fileno(f), &st) == 0) {
        size_t size = (size_t)st.st_size;
        data = malloc(size ? size : 1);
        if (data && fread(data, 1, size, f) == size) {
            LLVMFuzzerTestOneInput(data, size);
            rc = 0;
        }
    }
    if (rc)
        fprintf(stderr, "%s: could not be read\n", path);
    free(data);
    fclose(f);
    return rc;
}

/* Returns the number of inputs replayed, or -1. */
static long replay_folder(const char *folder)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, NULL, alphasort);
    if (n < 0) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return -1;
    }
    long replayed = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        int len = snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        struct stat st;
        if (replayed >= 0 && len > 0 && (size_t)len < sizeof(path) && stat(path, &st) == 0 &&
            S_ISREG(st.st_mode))
            replayed = replay_file(path) == 0 ? replayed + 1 : -1;
        free(names[i]);
    }
    free(names);
    return replayed;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    long replayed = replay_folder(argv[1]);
    if (replayed <= 0) {
        fprintf(stderr, "%s: no input to replay\n", argv[1]);
        return 1;
    }
    printf("replayed %ld inputs of %s\n", replayed, argv[1]);
    return 0;
}
