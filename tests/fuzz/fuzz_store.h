/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real store for fuzz targets, in a folder in memory where there is one; removed when the program
 * ends.
 */
#ifndef TESTS_FUZZ_FUZZ_STORE_H
#define TESTS_FUZZ_FUZZ_STORE_H

#include "daemon/store/store.h"

/* An empty store; the file is used again unless the last one was given back as changed. */
struct store *fuzz_store_open(void);
void fuzz_store_close(struct store *store, bool changed);

#endif
