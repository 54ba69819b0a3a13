/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, in the order of the overview. A new one: its file, and a line here. */
#ifndef CLIENT_CTL_COMMANDS_H
#define CLIENT_CTL_COMMANDS_H

#include "client/ctl/cmd.h"

#define CTL_COMMANDS(X)                                                                            \
    X(run)                                                                                         \
    X(first_diff)                                                                                  \
    X(tree)                                                                                        \
    X(replicas)                                                                                    \
    X(suspects)                                                                                    \
    X(env_diff)                                                                                    \
    X(runs)                                                                                        \
    X(show)                                                                                        \
    X(status)                                                                                      \
    X(export)                                                                                      \
    X(import)                                                                                      \
    X(rm)                                                                                          \
    X(pin)                                                                                         \
    X(gc)                                                                                          \
    X(daemon)                                                                                      \
    X(help)

#define X(name) extern const struct cmd cmd_##name;
CTL_COMMANDS(X)
#undef X

#endif
