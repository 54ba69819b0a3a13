/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What surrounds a run: the causes and the context that explain a difference. Gathered by
 * libdiverge itself, once, when a session opens. Environment variables are a whitelist; secrets in
 * the command line are redacted.
 */
#ifndef CLIENT_LIB_ENVIRONMENT_H
#define CLIENT_LIB_ENVIRONMENT_H

#include "client/lib/metadata.h"

/* What cannot be found out is left out. */
int dvg_environment_collect(struct dvg_metadata_set *set);

/*
 * Appends one argument of a command line as shell-quoted text with its secrets replaced by "***":
 * values of options whose name says so (--token=x, --api-key x), user:password@ in URLs.
 * *in_secret: the argument before named a secret, so this is its value.
 */
int dvg_argument_redact(struct dvg_buffer *out, const char *argument, int *in_secret);

#endif
