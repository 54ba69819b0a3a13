/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session has given numbers to: strings, sites, types, and the argument texts that it has
 * seen. Numbers count from 1 in order of first appearance and never change. The packed definitions
 * are kept for the session's life, because every connection and every spool file starts with none.
 *
 * Any thread; adding takes define->lock, looking up a known string takes none. Every table has a
 * cap: past it new definitions are refused with ELIMIT (and their records dropped), known ones go
 * on.
 */
#ifndef CLIENT_LIB_DEFINE_H
#define CLIENT_LIB_DEFINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/lib/lock.h"
#include "client/wire/buffer.h"
#include "client/wire/message.h"

enum dvg_definition {
    DVG_DEFINE_STRING,
    DVG_DEFINE_SITE,
    DVG_DEFINE_TYPE,
    DVG_DEFINE_ARGUMENT,
    DVG_DEFINE_COUNT,
};

enum {
    DVG_DEFINE_SITES_MAX = 4 << 20,
    DVG_DEFINE_TYPES_MAX = 1 << 20,
    DVG_DEFINE_EXTENTS_MAX = 1 << 14, /* of one type */
    DVG_DEFINE_STRING_BYTES_MAX = 128 << 20,
    DVG_DEFINE_TYPE_BYTES_MAX = 256 << 20,
    DVG_DEFINE_ARGUMENT_BYTES_MAX = 64 << 20, /* past it digests go without their texts */
};

/* A type and its number; lives as long as the session, never changes. */
struct dvg_type_entry {
    struct dvg_type type; /* its arrays point into `data`; strides is always there for tensors */
    uint32_t number;
    uint64_t hash;
    struct dvg_type_entry *next;  /* in its bucket, under define->lock */
    struct dvg_type_entry *older; /* for fini */
    int64_t data[];
};

/* How much of each kind a reader of the definitions has, and may take before it looks again. */
struct dvg_cursor {
    struct dvg_cursor_at {
        uint32_t count;
        size_t bytes;
    } at[DVG_DEFINE_COUNT], limit[DVG_DEFINE_COUNT];
};

struct dvg_define_log {
    struct dvg_buffer items; /* packed */
    uint32_t count;
    struct dvg_cursor_at *marks; /* item borders, about every DVG_MARK_BYTES */
    uint32_t n_marks;
    uint32_t marks_capacity;
};

struct dvg_strings; /* table of known texts */

struct dvg_define {
    struct dvg_lock lock;
    struct dvg_define_log logs[DVG_DEFINE_COUNT];
    _Atomic(struct dvg_strings *) strings;
    struct dvg_type_entry **types; /* buckets */
    uint32_t n_type_buckets;
    struct dvg_type_entry *newest_type;
    uint64_t *arguments; /* digests, open addressing, 0: free */
    uint32_t n_arguments;
    uint32_t arguments_capacity;
};

int dvg_define_init(struct dvg_define *define);
void dvg_define_fini(struct dvg_define *define);

/* The number of a text that cannot be kept (out of memory). No site or type has it: what would is
 * dropped and counted, since under another name it would look like other work. */
#define DVG_STRING_LOST UINT32_MAX

/* The number of a text: 0 for "", or DVG_STRING_LOST. ~20 ns when known. */
uint32_t dvg_define_string(struct dvg_define *define, const char *text, size_t size);
int dvg_define_site(struct dvg_define *define, const struct dvg_site *site, uint32_t *ret_number);
/* EINVAL: it is no type (see dvg_type_next). Copies what `type` borrows. */
int dvg_define_type(struct dvg_define *define, const struct dvg_type *type,
                    const struct dvg_type_entry **ret);
/* Remembers the text of an argument digest. */
void dvg_define_argument(struct dvg_define *define, uint64_t digest, const char *text, size_t size);

/*
 * Sender: appends the next frame of definitions behind `cursor` to `out` and moves the cursor: 1, 0
 * when there is none, or negative. Repeated until 0, everything defined before the first call is
 * out, in an order in which nothing is used before it is defined.
 */
int dvg_define_next(struct dvg_define *define, struct dvg_cursor *cursor, struct dvg_buffer *out);

#endif
