/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of runs, for people and for programs (schema/tree.schema.json). */
#ifndef CLIENT_CTL_TREE_PRINT_H
#define CLIENT_CTL_TREE_PRINT_H

#include <stdio.h>

#include "daemon/engine/tree.h"

/* `inputs` are those that the tree was made of; their names are escaped. */
void tree_print_text(FILE *file, const struct tree *tree, const struct tree_input *inputs,
                     int width);
void tree_print_json(const struct tree *tree, const struct tree_input *inputs);

#endif
