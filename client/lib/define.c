/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/define.h"

#include <stdlib.h>
#include <string.h>

#include <diverge/error.h>

#include "client/lib/text.h"

enum {
    MARK_BYTES = 192 * 1024, /* payload of a definitions frame, about */
    STRINGS_FIRST = 1024,
    TYPE_BUCKETS_FIRST = 256,
    ARGUMENTS_FIRST = 256,
};

/* ---- logs ------------------------------------------------------------------------------------ */

/* Call after an item was packed: counts it and keeps a border about every MARK_BYTES. */
static int log_count(struct dvg_define_log *log)
{
    size_t marked = log->n_marks ? log->marks[log->n_marks - 1].bytes : 0;
    if (log->items.size - marked >= MARK_BYTES) {
        if (log->n_marks == log->marks_capacity) {
            uint32_t capacity = log->marks_capacity ? log->marks_capacity * 2 : 16;
            struct dvg_cursor_at *marks = realloc(log->marks, capacity * sizeof(*marks));
            if (!marks)
                return DIVERGE_ENOMEM;
            log->marks = marks;
            log->marks_capacity = capacity;
        }
        log->marks[log->n_marks++] =
            (struct dvg_cursor_at){.count = log->count + 1, .bytes = log->items.size};
    }
    log->count++;
    return 0;
}

/* Counts the item packed at `start`, or takes it back. */
static int log_settle(struct dvg_define_log *log, size_t start, int rc)
{
    if (!rc)
        rc = log_count(log);
    if (rc)
        log->items.size = start;
    return rc;
}

/* The border up to which the next frame goes: the first mark behind `from`, at most `limit`. */
static struct dvg_cursor_at log_border(const struct dvg_define_log *log, struct dvg_cursor_at from,
                                       struct dvg_cursor_at limit)
{
    uint32_t low = 0;
    uint32_t high = log->n_marks;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (log->marks[middle].count > from.count)
            high = middle;
        else
            low = middle + 1;
    }
    if (low < log->n_marks && log->marks[low].count < limit.count)
        return log->marks[low];
    return limit;
}

static int log_encode(struct dvg_define_log *log, enum dvg_definition kind,
                      struct dvg_cursor *cursor, struct dvg_buffer *out)
{
    static const enum dvg_message types[DVG_DEFINE_COUNT] = {
        [DVG_DEFINE_STRING] = DVG_MESSAGE_STRINGS,
        [DVG_DEFINE_SITE] = DVG_MESSAGE_SITES,
        [DVG_DEFINE_TYPE] = DVG_MESSAGE_TYPES,
        [DVG_DEFINE_ARGUMENT] = DVG_MESSAGE_ARGUMENTS,
    };
    struct dvg_cursor_at from = cursor->at[kind];
    struct dvg_cursor_at to = log_border(log, from, cursor->limit[kind]);
    struct dvg_definitions message = {
        .first = kind == DVG_DEFINE_ARGUMENT ? 0 : from.count + 1,
        .count = to.count - from.count,
        .items = {.data = log->items.data + from.bytes, .size = to.bytes - from.bytes},
    };
    int rc = dvg_definitions_encode(out, types[kind], &message);
    if (!rc)
        cursor->at[kind] = to;
    return rc;
}

static bool cursor_done(const struct dvg_cursor *cursor)
{
    for (int kind = 0; kind < DVG_DEFINE_COUNT; kind++) {
        if (cursor->at[kind].count < cursor->limit[kind].count)
            return false;
    }
    return true;
}

int dvg_define_next(struct dvg_define *define, struct dvg_cursor *cursor, struct dvg_buffer *out)
{
    int rc = 0;
    dvg_lock_take(&define->lock);
    /* One look at all kinds: a site seen then has its strings within the same limits. */
    if (cursor_done(cursor)) {
        for (int kind = 0; kind < DVG_DEFINE_COUNT; kind++) {
            const struct dvg_define_log *log = &define->logs[kind];
            cursor->limit[kind] =
                (struct dvg_cursor_at){.count = log->count, .bytes = log->items.size};
        }
    }
    for (int kind = 0; kind < DVG_DEFINE_COUNT; kind++) {
        if (cursor->at[kind].count < cursor->limit[kind].count) {
            rc = log_encode(&define->logs[kind], (enum dvg_definition)kind, cursor, out);
            rc = rc ? rc : 1;
            break;
        }
    }
    dvg_lock_release(&define->lock);
    return rc;
}

/* ---- strings --------------------------------------------------------------------------------- */

struct known {
    uint64_t hash;
    uint32_t number;
    uint32_t size;
    char text[];
};

/*
 * Readers walk a table without a lock: slots are filled once, from NULL, and a table that has grown
 * too small is replaced, not freed, until the session ends.
 */
struct dvg_strings {
    struct dvg_strings *older;
    uint32_t capacity; /* a power of two */
    uint32_t used;     /* under define->lock */
    _Atomic(struct known *) slots[];
};

static struct dvg_strings *strings_new(uint32_t capacity)
{
    struct dvg_strings *table = calloc(1, sizeof(*table) + capacity * sizeof(table->slots[0]));
    if (table)
        table->capacity = capacity;
    return table;
}

static const struct known *strings_find(const struct dvg_strings *table, uint64_t hash,
                                        const char *text, size_t size)
{
    for (uint32_t i = (uint32_t)hash;; i++) {
        const struct known *known =
            atomic_load_explicit(&table->slots[i & (table->capacity - 1)], memory_order_acquire);
        if (!known)
            return NULL;
        if (known->hash == hash && known->size == size && memcmp(known->text, text, size) == 0)
            return known;
    }
}

static void strings_put(struct dvg_strings *table, struct known *known)
{
    uint32_t i = (uint32_t)known->hash;
    while (atomic_load_explicit(&table->slots[i & (table->capacity - 1)], memory_order_relaxed))
        i++;
    atomic_store_explicit(&table->slots[i & (table->capacity - 1)], known, memory_order_release);
    table->used++;
}

/* A table with room for one more; under define->lock. NULL: out of memory. */
static struct dvg_strings *strings_with_room(struct dvg_define *define)
{
    struct dvg_strings *table = atomic_load_explicit(&define->strings, memory_order_relaxed);
    if (table->used < table->capacity / 2)
        return table;
    struct dvg_strings *larger = strings_new(table->capacity * 2);
    if (!larger)
        return NULL;
    for (uint32_t i = 0; i < table->capacity; i++) {
        struct known *known = atomic_load_explicit(&table->slots[i], memory_order_relaxed);
        if (known)
            strings_put(larger, known);
    }
    larger->older = table;
    atomic_store_explicit(&define->strings, larger, memory_order_release);
    return larger;
}

static struct known *known_new(uint64_t hash, const char *text, size_t size)
{
    struct known *known = malloc(sizeof(*known) + size);
    if (known) {
        *known = (struct known){.hash = hash, .size = (uint32_t)size};
        memcpy(known->text, text, size);
    }
    return known;
}

/* Gives `known` its number: that of `clean` when this was its other spelling. Under define->lock.
 */
static int known_number(struct dvg_define *define, struct known *known, const char *clean,
                        size_t size)
{
    struct dvg_define_log *log = &define->logs[DVG_DEFINE_STRING];
    const struct dvg_strings *table = atomic_load_explicit(&define->strings, memory_order_relaxed);
    bool is_clean = size == known->size && memcmp(clean, known->text, size) == 0;
    const struct known *same =
        is_clean ? NULL : strings_find(table, dvg_hash_bytes(clean, size, 0), clean, size);
    if (same) {
        known->number = same->number;
        return 0;
    }
    size_t start = log->items.size;
    struct dvg_bytes bytes = {.data = (const uint8_t *)clean, .size = size};
    int rc = log_settle(log, start, dvg_string_pack(&log->items, bytes));
    if (!rc)
        known->number = log->count;
    return rc;
}

/* Adds what is not yet there; under define->lock. */
static uint32_t string_add(struct dvg_define *define, uint64_t hash, const char *text, size_t size)
{
    char clean[DVG_TEXT_MAX];
    size_t clean_size = dvg_utf8_clean(text, size, clean);
    if (!strings_with_room(define))
        return 0;
    /* A spelling that is not UTF-8 becomes an alias of its clean form, which is added first. */
    if (clean_size != size || memcmp(clean, text, size) != 0) {
        uint64_t clean_hash = dvg_hash_bytes(clean, clean_size, 0);
        const struct dvg_strings *table =
            atomic_load_explicit(&define->strings, memory_order_relaxed);
        if (!strings_find(table, clean_hash, clean, clean_size) &&
            !string_add(define, clean_hash, clean, clean_size))
            return 0;
    }
    struct dvg_strings *table = strings_with_room(define);
    struct known *known = table ? known_new(hash, text, size) : NULL;
    if (!known)
        return 0;
    if (known_number(define, known, clean, clean_size)) {
        free(known);
        return 0;
    }
    strings_put(table, known);
    return known->number;
}

uint32_t dvg_define_string(struct dvg_define *define, const char *text, size_t size)
{
    size = size > DVG_TEXT_MAX ? DVG_TEXT_MAX : size;
    if (!size)
        return 0;
    uint64_t hash = dvg_hash_bytes(text, size, 0);
    const struct known *known = strings_find(
        atomic_load_explicit(&define->strings, memory_order_acquire), hash, text, size);
    if (known)
        return known->number;
    dvg_lock_take(&define->lock);
    known = strings_find(atomic_load_explicit(&define->strings, memory_order_relaxed), hash, text,
                         size);
    uint32_t number = known ? known->number : string_add(define, hash, text, size);
    dvg_lock_release(&define->lock);
    return number ? number : DVG_STRING_LOST;
}

/* Every known text is in the newest table. */
static void strings_free(struct dvg_strings *table)
{
    for (uint32_t i = 0; table && i < table->capacity; i++)
        free(atomic_load_explicit(&table->slots[i], memory_order_relaxed));
    while (table) {
        struct dvg_strings *older = table->older;
        free(table);
        table = older;
    }
}

/* ---- sites ----------------------------------------------------------------------------------- */

int dvg_define_site(struct dvg_define *define, const struct dvg_site *site, uint32_t *ret_number)
{
    struct dvg_define_log *log = &define->logs[DVG_DEFINE_SITE];
    if (site->region == DVG_STRING_LOST || site->scope == DVG_STRING_LOST ||
        site->op == DVG_STRING_LOST || site->name == DVG_STRING_LOST)
        return DIVERGE_ENOMEM;
    int rc = DIVERGE_ELIMIT;
    dvg_lock_take(&define->lock);
    if (log->count < DVG_DEFINE_SITES_MAX)
        rc = log_settle(log, log->items.size, dvg_site_pack(&log->items, site));
    if (!rc)
        *ret_number = log->count;
    dvg_lock_release(&define->lock);
    return rc;
}

/* ---- types ----------------------------------------------------------------------------------- */

static uint64_t type_hash(const struct dvg_type *type)
{
    uint8_t head[16] = {type->kind,      type->dtype,       type->ndim,
                        type->placement, type->has_strides, type->global_ndim};
    dvg_store_u32(head + 8, type->group);
    dvg_store_u32(head + 12, type->n_extents);
    uint64_t hash = dvg_hash_bytes(head, sizeof(head), 0);
    hash = dvg_hash_bytes(type->sizes, 8u * type->ndim, hash);
    if (type->has_strides)
        hash = dvg_hash_bytes(type->strides, 8u * type->ndim, hash);
    hash = dvg_hash_bytes(type->global_sizes, 8u * type->global_ndim, hash);
    return dvg_hash_bytes(type->extents, 16 * (size_t)type->n_extents, hash);
}

static bool same_bytes(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

static bool type_equal(const struct dvg_type *a, const struct dvg_type *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->ndim == b->ndim &&
           a->placement == b->placement && a->has_strides == b->has_strides &&
           a->global_ndim == b->global_ndim && a->group == b->group &&
           a->n_extents == b->n_extents && same_bytes(a->sizes, b->sizes, 8u * a->ndim) &&
           same_bytes(a->strides, b->strides, a->has_strides ? 8u * a->ndim : 0) &&
           same_bytes(a->global_sizes, b->global_sizes, 8u * a->global_ndim) &&
           same_bytes(a->extents, b->extents, 16 * (size_t)a->n_extents);
}

static void c_strides(const struct dvg_type *type, int64_t *ret)
{
    uint64_t stride = 1;
    for (int i = type->ndim - 1; i >= 0; i--) {
        ret[i] = (int64_t)stride;
        stride *= dvg_load_u64(type->sizes + 8 * i);
    }
}

static const uint8_t *copy_array(int64_t **at, const uint8_t *from, size_t count)
{
    const uint8_t *copy = (const uint8_t *)*at;
    if (count)
        memcpy(*at, from, 8 * count);
    *at += count;
    return copy;
}

/* A copy with its arrays behind it. Strides are filled in when they are C order. */
static struct dvg_type_entry *type_copy(const struct dvg_type *type, uint64_t hash)
{
    size_t words = 2 * (size_t)type->ndim + type->global_ndim + 2 * (size_t)type->n_extents;
    struct dvg_type_entry *entry = malloc(sizeof(*entry) + 8 * words);
    if (!entry)
        return NULL;
    *entry = (struct dvg_type_entry){.type = *type, .hash = hash};
    int64_t *at = entry->data;
    entry->type.sizes = copy_array(&at, type->sizes, type->ndim);
    if (type->has_strides) {
        entry->type.strides = copy_array(&at, type->strides, type->ndim);
    } else {
        c_strides(type, at);
        entry->type.strides = (const uint8_t *)at;
        at += type->ndim;
    }
    entry->type.global_sizes = copy_array(&at, type->global_sizes, type->global_ndim);
    entry->type.extents = copy_array(&at, type->extents, 2 * (size_t)type->n_extents);
    return entry;
}

/* Doubles the buckets when they fill; staying small only costs time. */
static void types_grow(struct dvg_define *define)
{
    uint32_t count = define->logs[DVG_DEFINE_TYPE].count;
    if (count < define->n_type_buckets)
        return;
    uint32_t capacity = define->n_type_buckets * 2;
    struct dvg_type_entry **buckets = calloc(capacity, sizeof(struct dvg_type_entry *));
    if (!buckets)
        return;
    for (struct dvg_type_entry *e = define->newest_type; e; e = e->older) {
        e->next = buckets[e->hash & (capacity - 1)];
        buckets[e->hash & (capacity - 1)] = e;
    }
    free(define->types);
    define->types = buckets;
    define->n_type_buckets = capacity;
}

/* Packs the type and has the wire's own decoder say whether it is one. */
static int type_pack(struct dvg_define_log *log, const struct dvg_type *type)
{
    if (log->count >= DVG_DEFINE_TYPES_MAX)
        return DIVERGE_ELIMIT;
    size_t start = log->items.size;
    int rc = dvg_type_pack(&log->items, type);
    if (!rc) {
        struct dvg_bytes packed = {.data = log->items.data + start,
                                   .size = log->items.size - start};
        struct dvg_type decoded;
        rc = dvg_type_next(&packed, &decoded) == 1 ? 0 : DIVERGE_EINVAL;
    }
    return log_settle(log, start, rc);
}

static int type_add(struct dvg_define *define, const struct dvg_type *type, uint64_t hash,
                    const struct dvg_type_entry **ret)
{
    struct dvg_define_log *log = &define->logs[DVG_DEFINE_TYPE];
    int rc = type_pack(log, type);
    if (rc)
        return rc;
    struct dvg_type_entry *entry = type_copy(type, hash);
    if (!entry) {
        /* The number stays taken, with nobody to use it: numbers have no holes. */
        return DIVERGE_ENOMEM;
    }
    entry->number = log->count;
    entry->older = define->newest_type;
    define->newest_type = entry;
    entry->next = define->types[hash & (define->n_type_buckets - 1)];
    define->types[hash & (define->n_type_buckets - 1)] = entry;
    types_grow(define);
    *ret = entry;
    return 0;
}

int dvg_define_type(struct dvg_define *define, const struct dvg_type *type,
                    const struct dvg_type_entry **ret)
{
    if (type->ndim > DIVERGE_MAX_NDIM || type->global_ndim > DIVERGE_MAX_NDIM ||
        type->n_extents > DVG_DEFINE_EXTENTS_MAX)
        return DIVERGE_EINVAL;
    uint64_t hash = type_hash(type);
    int rc = 0;
    dvg_lock_take(&define->lock);
    const struct dvg_type_entry *entry = define->types[hash & (define->n_type_buckets - 1)];
    while (entry && !(entry->hash == hash && type_equal(&entry->type, type)))
        entry = entry->next;
    if (entry)
        *ret = entry;
    else
        rc = type_add(define, type, hash, ret);
    dvg_lock_release(&define->lock);
    return rc;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* The slot of `digest`, or the free one where it would go. */
static uint64_t *argument_slot(uint64_t *table, uint32_t capacity, uint64_t digest)
{
    uint32_t i = (uint32_t)digest;
    while (table[i & (capacity - 1)] && table[i & (capacity - 1)] != digest)
        i++;
    return &table[i & (capacity - 1)];
}

static bool arguments_have_room(struct dvg_define *define)
{
    if (define->n_arguments < define->arguments_capacity / 2)
        return true;
    uint32_t capacity = define->arguments_capacity * 2;
    uint64_t *table = calloc(capacity, sizeof(uint64_t));
    if (!table)
        return false;
    for (uint32_t i = 0; i < define->arguments_capacity; i++) {
        uint64_t digest = define->arguments[i];
        if (digest)
            *argument_slot(table, capacity, digest) = digest;
    }
    free(define->arguments);
    define->arguments = table;
    define->arguments_capacity = capacity;
    return true;
}

void dvg_define_argument(struct dvg_define *define, uint64_t digest, const char *text, size_t size)
{
    struct dvg_define_log *log = &define->logs[DVG_DEFINE_ARGUMENT];
    dvg_lock_take(&define->lock);
    if (*argument_slot(define->arguments, define->arguments_capacity, digest) != digest &&
        arguments_have_room(define)) {
        char clean[DVG_TEXT_MAX];
        struct dvg_argument argument = {
            .digest = digest,
            .text = {.data = (const uint8_t *)clean, .size = dvg_utf8_clean(text, size, clean)},
        };
        size_t start = log->items.size;
        if (log_settle(log, start, dvg_argument_pack(&log->items, &argument)) == 0) {
            *argument_slot(define->arguments, define->arguments_capacity, digest) = digest;
            define->n_arguments++;
        }
    }
    dvg_lock_release(&define->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

int dvg_define_init(struct dvg_define *define)
{
    static const size_t caps[DVG_DEFINE_COUNT] = {
        [DVG_DEFINE_STRING] = DVG_DEFINE_STRING_BYTES_MAX,
        [DVG_DEFINE_SITE] = (size_t)DVG_DEFINE_SITES_MAX * 48,
        [DVG_DEFINE_TYPE] = DVG_DEFINE_TYPE_BYTES_MAX,
        [DVG_DEFINE_ARGUMENT] = DVG_DEFINE_ARGUMENT_BYTES_MAX,
    };
    *define = (struct dvg_define){
        .n_type_buckets = TYPE_BUCKETS_FIRST,
        .arguments_capacity = ARGUMENTS_FIRST,
    };
    for (int kind = 0; kind < DVG_DEFINE_COUNT; kind++)
        dvg_buffer_init(&define->logs[kind].items, caps[kind]);
    atomic_init(&define->strings, strings_new(STRINGS_FIRST));
    define->types = calloc(define->n_type_buckets, sizeof(struct dvg_type_entry *));
    define->arguments = calloc(define->arguments_capacity, sizeof(uint64_t));
    if (atomic_load(&define->strings) && define->types && define->arguments)
        return 0;
    dvg_define_fini(define);
    return DIVERGE_ENOMEM;
}

void dvg_define_fini(struct dvg_define *define)
{
    strings_free(atomic_load(&define->strings));
    atomic_store(&define->strings, NULL);
    while (define->newest_type) {
        struct dvg_type_entry *older = define->newest_type->older;
        free(define->newest_type);
        define->newest_type = older;
    }
    free(define->types);
    free(define->arguments);
    define->types = NULL;
    define->arguments = NULL;
    for (int kind = 0; kind < DVG_DEFINE_COUNT; kind++) {
        dvg_buffer_fini(&define->logs[kind].items);
        free(define->logs[kind].marks);
        define->logs[kind].marks = NULL;
    }
}
