/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress on stderr, when that is a terminal and the work takes more than a second. One at a time.
 */
#ifndef CLIENT_CTL_PROGRESS_H
#define CLIENT_CTL_PROGRESS_H

#include <stdint.h>

void progress_begin(const char *what);
void progress_update(uint64_t done, uint64_t total);
void progress_end(void); /* clears the line */

#endif
