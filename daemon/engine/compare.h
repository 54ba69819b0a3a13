/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs, rank by rank, to one answer. */
#ifndef DAEMON_ENGINE_COMPARE_H
#define DAEMON_ENGINE_COMPARE_H

#include "daemon/engine/context.h"

/* Fills engine->answer. Does not return on failure (engine_fail). */
void compare_runs(struct engine *engine);

#endif
