/* SPDX-License-Identifier: Apache-2.0 */
/* What mining found, for people and for programs. The contract: schema/suspects.schema.json. */
#ifndef CLIENT_CTL_SUSPECTS_PRINT_H
#define CLIENT_CTL_SUSPECTS_PRINT_H

#include <stdio.h>

#include "daemon/engine/mining.h"

enum suspects_outcome { SUSPECTS_NONE, SUSPECTS_FOUND, SUSPECTS_UNKNOWN };

/* Unknown: nothing was called twice, or none was found and something is missing. */
enum suspects_outcome suspects_outcome(const struct mining_result *result);
/* Why the outcome is not better; how many of at most SUSPECTS_REASONS. */
enum { SUSPECTS_REASONS = 4 };
size_t suspects_reasons(const struct mining_result *result, const char *reasons[SUSPECTS_REASONS]);

void suspects_print_text(FILE *file, const struct mining_result *result,
                         enum suspects_outcome outcome, int width);
void suspects_print_json(const struct mining_result *result, enum suspects_outcome outcome);

#endif
