/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/proto/tables.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "daemon/proto/refuse.h"

enum { TABLE_FIRST = 64 };

static uint32_t next_capacity(uint32_t capacity, uint32_t need)
{
    uint64_t next = capacity ? capacity : TABLE_FIRST;
    while (next < need)
        next *= 2;
    return next > UINT32_MAX ? UINT32_MAX : (uint32_t)next;
}

static bool resize(void *array, size_t width, uint32_t capacity)
{
    void **slot = array;
    void *grown = realloc(*slot, width * capacity);
    if (!grown)
        return false;
    *slot = grown;
    return true;
}

/* Room for `need` entries; a failed growth leaves longer arrays behind, which is fine. */
static int numbers_reserve(struct tables_numbers *numbers, uint32_t need)
{
    if (need <= numbers->capacity)
        return 0;
    uint32_t capacity = next_capacity(numbers->capacity, need);
    if (!resize(&numbers->rows, sizeof(uint32_t), capacity))
        return DIVERGE_ENOMEM;
    numbers->capacity = capacity;
    return 0;
}

static int sites_reserve(struct tables_sites *sites, uint32_t need)
{
    if (need <= sites->capacity)
        return 0;
    uint32_t capacity = next_capacity(sites->capacity, need);
    if (!resize(&sites->rows, sizeof(uint32_t), capacity) ||
        !resize(&sites->sources, sizeof(uint32_t), capacity) ||
        !resize(&sites->lanes, sizeof(uint32_t), capacity) ||
        !resize(&sites->begins, sizeof(uint32_t), capacity) ||
        !resize(&sites->tiers, sizeof(uint8_t), capacity))
        return DIVERGE_ENOMEM;
    sites->capacity = capacity;
    return 0;
}

int tables_init(struct tables *tables, const struct tables_limits *limits)
{
    *tables = (struct tables){.limits = *limits};
    if (numbers_reserve(&tables->strings, 1) || numbers_reserve(&tables->types, 1) ||
        sites_reserve(&tables->sites, 1)) {
        tables_fini(tables);
        return DIVERGE_ENOMEM;
    }
    tables->strings.rows[tables->strings.count++] = 0;
    tables->types.rows[tables->types.count++] = 0;
    struct tables_sites *sites = &tables->sites;
    sites->rows[0] = sites->sources[0] = sites->lanes[0] = sites->begins[0] = 0;
    sites->tiers[0] = 0;
    sites->count = 1;
    return 0;
}

void tables_fini(struct tables *tables)
{
    free(tables->strings.rows);
    free(tables->types.rows);
    free(tables->sites.rows);
    free(tables->sites.sources);
    free(tables->sites.lanes);
    free(tables->sites.begins);
    free(tables->sites.tiers);
    *tables = (struct tables){.limits = tables->limits};
}

void tables_scratch_fini(struct tables_scratch *scratch)
{
    free(scratch->sites);
    free(scratch->sources);
    *scratch = (struct tables_scratch){0};
}

/* ---- definitions ---- */

/* What one item needs to be taken. */
struct define {
    struct tables *tables;
    struct store *store;
    struct store_error *error;
};

static int store_failed(const struct define *define, int rc, const char *what, uint32_t number)
{
    return refuse(define->error, rc, "%s %u could not be stored: %s", what, number,
                  store_error_text(define->store));
}

static int malformed(const struct define *define, int rc, const char *what, uint32_t number,
                     const char *rule)
{
    return refuse(define->error, rc, "%s %u is malformed: %s", what, number, rule);
}

/* The row of a string number, false when it was never defined. */
static bool string_row(const struct tables *tables, uint32_t number, uint32_t *ret)
{
    if (number >= tables->strings.count)
        return false;
    *ret = tables->strings.rows[number];
    return true;
}

/* Each define_* takes the next item off *items: 1, 0 at the end, or a negative status. */
static int define_string(const struct define *define, struct dvg_bytes *items)
{
    struct tables_numbers *strings = &define->tables->strings;
    struct dvg_bytes text;
    int more = dvg_string_next(items, &text);
    if (more <= 0)
        return more ? malformed(define, more, "string", strings->count,
                                "it must be valid UTF-8 without NUL, at most 4096 bytes")
                    : 0;
    uint32_t row;
    int rc = numbers_reserve(strings, strings->count + 1);
    if (!rc)
        rc = store_string(define->store, text, &row);
    if (rc)
        return store_failed(define, rc, "string", strings->count);
    strings->rows[strings->count++] = row;
    return 1;
}

static bool site_strings(const struct tables *tables, const struct dvg_site *site,
                         struct store_site *ret, uint32_t *ret_source)
{
    return string_row(tables, site->lane, &ret->lane) &&
           string_row(tables, site->region, &ret->region) &&
           string_row(tables, site->scope, &ret->scope) && string_row(tables, site->op, &ret->op) &&
           string_row(tables, site->name, &ret->name) &&
           string_row(tables, site->source, ret_source);
}

static void add_site(struct tables_sites *sites, const struct dvg_site *site, uint32_t row,
                     uint32_t source)
{
    uint32_t at = sites->count++;
    sites->rows[at] = row;
    sites->sources[at] = source;
    sites->lanes[at] = site->lane;
    sites->tiers[at] = site->tier;
    bool as_before =
        at > 1 && sites->lanes[at - 1] == site->lane && sites->tiers[at - 1] == site->tier;
    sites->begins[at] = as_before ? sites->begins[at - 1] : at;
}

static int define_site(const struct define *define, struct dvg_bytes *items)
{
    struct tables_sites *sites = &define->tables->sites;
    struct dvg_site site;
    int more = dvg_site_next(items, &site);
    if (more <= 0)
        return more ? malformed(define, more, "site", sites->count,
                                "tier, phase, role, flags or lane is out of range")
                    : 0;
    struct store_site resolved = {
        .tier = site.tier,
        .phase = site.phase,
        .role = site.role,
        .slot = site.slot,
        .flags = site.flags,
        .micro_step = site.micro_step,
        .occurrence = site.occurrence,
    };
    uint32_t source;
    if (!site_strings(define->tables, &site, &resolved, &source))
        return malformed(define, DIVERGE_EPROTO, "site", sites->count,
                         "it names a string that was not defined; send STRINGS first");
    uint32_t row;
    int rc = sites_reserve(sites, sites->count + 1);
    if (!rc)
        rc = store_site(define->store, &resolved, &row);
    if (rc)
        return store_failed(define, rc, "site", sites->count);
    add_site(sites, &site, row, source);
    return 1;
}

static int define_type(const struct define *define, struct dvg_bytes *items)
{
    struct tables_numbers *types = &define->tables->types;
    struct dvg_type type;
    int more = dvg_type_next(items, &type);
    if (more <= 0)
        return more ? malformed(define, more, "type", types->count,
                                "dtype, shape and extents must fit together")
                    : 0;
    if (!string_row(define->tables, type.group, &type.group))
        return malformed(define, DIVERGE_EPROTO, "type", types->count,
                         "its group is a string that was not defined; send STRINGS first");
    uint32_t row;
    int rc = numbers_reserve(types, types->count + 1);
    if (!rc)
        rc = store_type(define->store, &type, &row);
    if (rc)
        return store_failed(define, rc, "type", types->count);
    types->rows[types->count++] = row;
    return 1;
}

static int define_argument(const struct define *define, struct dvg_bytes *items)
{
    struct dvg_argument argument;
    int more = dvg_argument_next(items, &argument);
    if (more <= 0)
        return more ? malformed(define, more, "argument", define->tables->n_arguments,
                                "digest 0, or a text that is not UTF-8 of at most 4096 bytes")
                    : 0;
    int rc = store_argument(define->store, argument.digest, argument.text);
    if (rc)
        return store_failed(define, rc, "argument", define->tables->n_arguments);
    define->tables->n_arguments++;
    return 1;
}

struct definer {
    int (*take)(const struct define *define, struct dvg_bytes *items);
    const char *name;
    uint32_t next; /* the number that the first item must have */
    uint32_t used; /* items there are */
    uint32_t max;
};

static struct definer definer_of(const struct tables *tables, enum dvg_message type)
{
    const struct tables_limits *limits = &tables->limits;
    if (type == DVG_MESSAGE_STRINGS)
        return (struct definer){define_string, "strings", tables->strings.count,
                                tables->strings.count - 1, limits->max_strings};
    if (type == DVG_MESSAGE_SITES)
        return (struct definer){define_site, "sites", tables->sites.count, tables->sites.count - 1,
                                limits->max_sites};
    if (type == DVG_MESSAGE_TYPES)
        return (struct definer){define_type, "types", tables->types.count, tables->types.count - 1,
                                limits->max_types};
    return (struct definer){define_argument, "arguments", 0, tables->n_arguments,
                            limits->max_arguments};
}

static int define_all(const struct define *define, const struct definer *definer,
                      const struct dvg_definitions *message)
{
    struct dvg_bytes items = message->items;
    for (uint32_t i = 0; i < message->count; i++) {
        int more = definer->take(define, &items);
        if (more < 0)
            return more;
        if (!more)
            return refuse(define->error, DIVERGE_EPROTO, "%u %s announced, %u are there",
                          message->count, definer->name, i);
    }
    return items.size ? refuse(define->error, DIVERGE_EPROTO, "bytes behind the last of %u %s",
                               message->count, definer->name)
                      : 0;
}

int tables_define(struct tables *tables, struct store *store, enum dvg_message type,
                  const struct dvg_definitions *message, struct store_error *error)
{
    struct definer definer = definer_of(tables, type);
    if (message->first != definer.next)
        return refuse(error, DIVERGE_EPROTO, "%s begin at %u where %u comes next", definer.name,
                      message->first, definer.next);
    if (message->count > definer.max - definer.used)
        return refuse(
            error, DIVERGE_ELIMIT,
            "more than %u %s on one connection; are names made of step numbers or addresses?",
            definer.max, definer.name);
    const struct tables before = *tables;
    struct define define = {.tables = tables, .store = store, .error = error};
    int rc = define_all(&define, &definer, message);
    if (rc) {
        tables->strings.count = before.strings.count;
        tables->sites.count = before.sites.count;
        tables->types.count = before.types.count;
        tables->n_arguments = before.n_arguments;
    }
    return rc;
}

/* ---- parts ---- */

/* Whether the sites [first, first + count) are known and all of the part's lane and tier. */
static int check_run(const struct tables *tables, const struct dvg_part *part, uint32_t first,
                     uint32_t count, struct store_error *error)
{
    const struct tables_sites *sites = &tables->sites;
    uint32_t last = first + count - 1;
    if (last >= sites->count)
        return refuse(error, DIVERGE_EPROTO, "site %u was not defined; send SITES first", last);
    if (sites->begins[last] > first || sites->lanes[first] != part->lane ||
        sites->tiers[first] != part->tier)
        return refuse(error, DIVERGE_EPROTO,
                      "sites %u to %u are not all of the part's lane and tier", first, last);
    return 0;
}

static int scratch_reserve(struct tables_scratch *scratch, uint32_t need)
{
    if (need <= scratch->capacity)
        return 0;
    uint32_t capacity = next_capacity(scratch->capacity, need);
    if (!resize(&scratch->sites, sizeof(uint32_t), capacity) ||
        !resize(&scratch->sources, sizeof(uint32_t), capacity))
        return DIVERGE_ENOMEM;
    scratch->capacity = capacity;
    return 0;
}

static void copy_run(const struct tables_sites *sites, struct tables_scratch *scratch, uint32_t at,
                     uint32_t first, uint32_t count)
{
    memcpy(scratch->sites + at, sites->rows + first, count * sizeof(uint32_t));
    memcpy(scratch->sources + at, sites->sources + first, count * sizeof(uint32_t));
}

int tables_resolve(const struct tables *tables, const struct dvg_part *part,
                   struct tables_scratch *scratch, struct store_part *ret,
                   struct store_error *error)
{
    const struct tables_sites *sites = &tables->sites;
    struct store_part resolved = {
        .wire = part,
        .types = tables->types.rows,
        .n_types = tables->types.count,
    };
    if (!string_row(tables, part->lane, &resolved.lane))
        return refuse(error, DIVERGE_EPROTO, "lane %u was not defined; send STRINGS first",
                      part->lane);

    struct dvg_bytes runs = part->site_runs;
    bool one_slice = runs.size == sizeof(struct dvg_site_run);
    if (!one_slice && scratch_reserve(scratch, part->count))
        return refuse(error, DIVERGE_ENOMEM, "out of memory for the sites of %u records",
                      part->count);
    uint32_t at = 0;
    for (size_t i = 0; i < runs.size; i += sizeof(struct dvg_site_run)) {
        uint32_t first = dvg_load_u32(runs.data + i);
        uint32_t count = dvg_load_u32(runs.data + i + 4);
        int rc = check_run(tables, part, first, count, error);
        if (rc)
            return rc;
        resolved.sites = sites->rows + first;
        resolved.sources = sites->sources + first;
        if (!one_slice)
            copy_run(sites, scratch, at, first, count);
        at += count;
    }
    if (!one_slice) {
        resolved.sites = scratch->sites;
        resolved.sources = scratch->sources;
    }
    *ret = resolved;
    return 0;
}
