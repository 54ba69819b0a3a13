/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a connection has defined: its numbers of strings, sites and types, mapped to rows of the
 * store. Numbers count up from 1 without holes, so a table is an array. Used on the store's thread
 * only.
 */
#ifndef DAEMON_PROTO_TABLES_H
#define DAEMON_PROTO_TABLES_H

#include <stdint.h>

#include "client/wire/message.h"
#include "daemon/store/store.h"

struct tables_limits {
    uint32_t max_strings;
    uint32_t max_sites;
    uint32_t max_types;
    uint32_t max_arguments;
};

/*
 * Site numbers index three arrays side by side, so that a run of consecutive numbers is a slice of
 * them, lent to the store as it is.
 */
struct tables_sites {
    uint32_t *rows;
    uint32_t *sources; /* string rows */
    uint32_t *lanes;   /* string numbers */
    uint32_t *begins;  /* the first of the neighbours up to here that share lane and tier */
    uint8_t *tiers;
    uint32_t count; /* entry 0 is "none" */
    uint32_t capacity;
};

struct tables_numbers {
    uint32_t *rows;
    uint32_t count; /* entry 0 is "none" */
    uint32_t capacity;
};

struct tables {
    struct tables_limits limits;
    struct tables_numbers strings;
    struct tables_numbers types;
    struct tables_sites sites;
    uint32_t n_arguments;
};

/* Room for the sites of one part that are not one slice; shared by all connections of an ingest. */
struct tables_scratch {
    uint32_t *sites;
    uint32_t *sources;
    uint32_t capacity;
};

int tables_init(struct tables *tables, const struct tables_limits *limits);
void tables_fini(struct tables *tables);
void tables_scratch_fini(struct tables_scratch *scratch);

/*
 * Takes a STRINGS, SITES, TYPES or ARGUMENTS message, whole or not at all. EPROTO, ELIMIT, ENOMEM
 * or the store's; error->text says what was wrong.
 */
int tables_define(struct tables *tables, struct store *store, enum dvg_message type,
                  const struct dvg_definitions *message, struct store_error *error);

/*
 * Resolves lane and sites of a part: *ret borrows `part`, the tables and the scratch until their
 * next change. EPROTO: an unknown number, or sites of another lane or tier.
 */
int tables_resolve(const struct tables *tables, const struct dvg_part *part,
                   struct tables_scratch *scratch, struct store_part *ret,
                   struct store_error *error);

#endif
