/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "tests/unit/client/lib/receiver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/recording.h"

void receiver_init(struct receiver *receiver)
{
    memset(receiver, 0, sizeof(*receiver));
}

/* Memory that lives as long as the receiver. */
static void *keep(struct receiver *receiver, void *block)
{
    assert_non_null(block);
    receiver->garbage =
        realloc(receiver->garbage, (receiver->n_garbage + 1) * sizeof(*receiver->garbage));
    assert_non_null(receiver->garbage);
    receiver->garbage[receiver->n_garbage++] = block;
    return block;
}

static uint8_t *copy(struct receiver *receiver, const void *bytes, size_t size)
{
    uint8_t *block = keep(receiver, malloc(size + 1));
    if (size)
        memcpy(block, bytes, size);
    block[size] = '\0';
    return block;
}

void receiver_fini(struct receiver *receiver)
{
    for (size_t i = 0; i < receiver->n_garbage; i++)
        free(receiver->garbage[i]);
    free(receiver->garbage);
    free(receiver->records);
    free(receiver->ends);
    free(receiver->strings);
    free(receiver->sites);
    free(receiver->types);
    memset(receiver, 0, sizeof(*receiver));
}

static void *grow(void *array, size_t n, size_t item)
{
    /* Powers of two only. */
    if (n & (n - 1))
        return array;
    array = realloc(array, (n ? 2 * n : 1) * item);
    assert_non_null(array);
    return array;
}

/* ---- definitions ----------------------------------------------------------------------------- */

static const char *text_of(const struct receiver *receiver, uint32_t number)
{
    assert_true(number <= receiver->n_strings);
    return number ? receiver->strings[number - 1] : "";
}

static void take_strings(struct receiver *receiver, struct dvg_definitions *message)
{
    struct dvg_bytes text;
    assert_int_equal(message->first, receiver->n_strings + 1);
    for (uint32_t i = 0; i < message->count; i++) {
        assert_int_equal(dvg_string_next(&message->items, &text), 1);
        receiver->strings = grow(receiver->strings, receiver->n_strings, sizeof(char *));
        receiver->strings[receiver->n_strings++] = (char *)copy(receiver, text.data, text.size);
    }
}

static void take_sites(struct receiver *receiver, struct dvg_definitions *message)
{
    struct dvg_site site;
    assert_int_equal(message->first, receiver->n_sites + 1);
    for (uint32_t i = 0; i < message->count; i++) {
        assert_int_equal(dvg_site_next(&message->items, &site), 1);
        const uint32_t texts[] = {site.lane, site.region, site.scope,
                                  site.op,   site.name,   site.source};
        for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
            text_of(receiver, texts[k]);
        receiver->sites = grow(receiver->sites, receiver->n_sites, sizeof(site));
        receiver->sites[receiver->n_sites++] = site;
        receiver->n_sites_defined++;
    }
}

static void take_types(struct receiver *receiver, struct dvg_definitions *message)
{
    struct dvg_type type;
    assert_int_equal(message->first, receiver->n_types + 1);
    for (uint32_t i = 0; i < message->count; i++) {
        assert_int_equal(dvg_type_next(&message->items, &type), 1);
        text_of(receiver, type.group);
        type.sizes = copy(receiver, type.sizes, 8u * type.ndim);
        if (type.has_strides)
            type.strides = copy(receiver, type.strides, 8u * type.ndim);
        type.global_sizes = copy(receiver, type.global_sizes, 8u * type.global_ndim);
        type.extents = copy(receiver, type.extents, 16 * (size_t)type.n_extents);
        receiver->types = grow(receiver->types, receiver->n_types, sizeof(type));
        receiver->types[receiver->n_types++] = type;
    }
}

static void take_arguments(struct receiver *receiver, struct dvg_definitions *message)
{
    struct dvg_argument argument;
    assert_int_equal(message->first, 0);
    for (uint32_t i = 0; i < message->count; i++) {
        assert_int_equal(dvg_argument_next(&message->items, &argument), 1);
        assert_true(receiver->n_arguments < 256);
        receiver->arguments[receiver->n_arguments++] = (struct received_argument){
            .digest = argument.digest,
            .text = (char *)copy(receiver, argument.text.data, argument.text.size),
        };
    }
}

/* ---- data ------------------------------------------------------------------------------------ */

static uint64_t column(const struct dvg_part *part, enum dvg_column which, uint32_t index)
{
    struct dvg_bytes bytes = part->columns[which];
    size_t width = dvg_column_width(which);
    uint64_t value = 0;
    if (bytes.size)
        memcpy(&value, bytes.data + (bytes.size == width ? 0 : index * width), width);
    return value;
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof(value));
    return value;
}

static void take_record(struct receiver *receiver, const struct dvg_part *part, uint32_t index,
                        uint32_t site_number)
{
    assert_true(site_number >= 1 && site_number <= receiver->n_sites);
    uint64_t type = column(part, DVG_COLUMN_TYPE, index);
    assert_true(type >= 1 && type <= receiver->n_types);
    const struct dvg_site *site = &receiver->sites[site_number - 1];
    assert_int_equal(site->tier, part->tier);
    assert_int_equal(site->lane, part->lane);
    receiver->records = grow(receiver->records, receiver->n_records, sizeof(*receiver->records));
    receiver->records[receiver->n_records++] = (struct received_record){
        .segment = part->segment,
        .tier = part->tier,
        .site = *site,
        .lane = text_of(receiver, site->lane),
        .region = text_of(receiver, site->region),
        .scope = text_of(receiver, site->scope),
        .op = text_of(receiver, site->op),
        .name = text_of(receiver, site->name),
        .source = text_of(receiver, site->source),
        .type = receiver->types[type - 1],
        .value = column(part, DVG_COLUMN_VALUE, index),
        .argument = column(part, DVG_COLUMN_ARGUMENT, index),
        .state = (uint8_t)column(part, DVG_COLUMN_STATE, index),
        .order = (uint32_t)column(part, DVG_COLUMN_ORDER, index),
        .producer = (uint32_t)column(part, DVG_COLUMN_PRODUCER, index),
        .sum = float_of(column(part, DVG_COLUMN_SUM, index)),
        .l2 = float_of(column(part, DVG_COLUMN_L2, index)),
        .min = column(part, DVG_COLUMN_MIN, index),
        .max = column(part, DVG_COLUMN_MAX, index),
        .zero = column(part, DVG_COLUMN_ZERO, index),
    };
}

static void take_sparse(struct receiver *receiver, const struct dvg_part *part, size_t base)
{
    for (size_t at = 0; at < part->nonfinite.size; at += 32) {
        const uint8_t *entry = part->nonfinite.data + at;
        memcpy(receiver->records[base + dvg_load_u32(entry)].nonfinite, entry + 8, 24);
    }
    size_t size = 4 * (size_t)part->sketch_size;
    for (size_t at = 0; at < part->sketches.size; at += 8 + size) {
        const uint8_t *entry = part->sketches.data + at;
        memcpy(receiver->records[base + dvg_load_u32(entry)].sketch, entry + 8, size);
    }
}

/* How many records of that segment, tier and lane have come. */
static uint64_t count_of(const struct receiver *receiver, uint64_t segment, uint8_t tier,
                         const char *lane)
{
    uint64_t count = 0;
    for (size_t i = 0; i < receiver->n_records; i++) {
        const struct received_record *record = &receiver->records[i];
        count += record->segment == segment && record->tier == tier &&
                 (!lane || strcmp(record->lane, lane) == 0);
    }
    return count;
}

static void take_part(struct receiver *receiver, struct dvg_bytes payload)
{
    struct dvg_part part;
    assert_int_equal(dvg_part_decode(payload, &part), 0);
    assert_int_equal(part.first,
                     count_of(receiver, part.segment, part.tier, text_of(receiver, part.lane)));
    for (size_t i = 0; i < receiver->n_ends; i++)
        assert_int_not_equal(receiver->ends[i].segment, part.segment);
    size_t base = receiver->n_records;
    uint32_t index = 0;
    for (size_t at = 0; at < part.site_runs.size; at += 8) {
        uint32_t first = dvg_load_u32(part.site_runs.data + at);
        uint32_t count = dvg_load_u32(part.site_runs.data + at + 4);
        for (uint32_t k = 0; k < count; k++)
            take_record(receiver, &part, index++, first + k);
        receiver->n_site_runs++;
    }
    take_sparse(receiver, &part, base);
    receiver->n_parts++;
}

static void take_end(struct receiver *receiver, struct dvg_bytes payload)
{
    struct dvg_end end;
    assert_int_equal(dvg_end_decode(payload, &end), 0);
    for (int tier = 0; tier < DIVERGE_TIER_COUNT; tier++)
        assert_int_equal(end.records[tier], count_of(receiver, end.segment, (uint8_t)tier, NULL));
    if (receiver->n_ends)
        assert_true(end.segment > receiver->ends[receiver->n_ends - 1].segment);
    receiver->ends = grow(receiver->ends, receiver->n_ends, sizeof(end));
    receiver->ends[receiver->n_ends++] = end;
}

static void take_sequenced(struct receiver *receiver, const struct dvg_frame *frame)
{
    struct dvg_metadata metadata;
    assert_false(receiver->has_bye);
    switch (frame->type) {
    case DVG_MESSAGE_PART:
        take_part(receiver, frame->payload);
        break;
    case DVG_MESSAGE_END:
        take_end(receiver, frame->payload);
        break;
    case DVG_MESSAGE_METADATA:
        assert_int_equal(dvg_metadata_decode(frame->payload, &metadata), 0);
        assert_true(receiver->n_metadata < 64);
        receiver->metadata[receiver->n_metadata++] =
            (char *)copy(receiver, metadata.json.data, metadata.json.size);
        break;
    case DVG_MESSAGE_BYE:
        assert_int_equal(dvg_bye_decode(frame->payload, &receiver->bye), 0);
        receiver->has_bye = true;
        break;
    default:
        fail_msg("sequenced message of type %u", frame->type);
    }
}

static void take_hello(struct receiver *receiver, struct dvg_bytes payload)
{
    assert_int_equal(dvg_hello_decode(payload, &receiver->hello), 0);
    receiver->n_hellos++;
    receiver->n_strings = 0;
    receiver->n_sites = 0;
    receiver->n_types = 0;
}

static void take_definitions(struct receiver *receiver, const struct dvg_frame *frame)
{
    struct dvg_definitions message;
    assert_int_equal(dvg_definitions_decode(frame->payload, &message), 0);
    switch (frame->type) {
    case DVG_MESSAGE_STRINGS:
        take_strings(receiver, &message);
        break;
    case DVG_MESSAGE_SITES:
        take_sites(receiver, &message);
        break;
    case DVG_MESSAGE_TYPES:
        take_types(receiver, &message);
        break;
    case DVG_MESSAGE_ARGUMENTS:
        take_arguments(receiver, &message);
        break;
    default:
        fail_msg("message of type %u", frame->type);
    }
    assert_int_equal(message.items.size, 0);
}

void receiver_take(struct receiver *receiver, const struct dvg_frame *frame)
{
    if (frame->type == DVG_MESSAGE_HELLO) {
        take_hello(receiver, frame->payload);
    } else if (!frame->seq) {
        take_definitions(receiver, frame);
    } else if (frame->seq <= receiver->last_seq) {
        receiver->duplicates++;
    } else {
        assert_int_equal(frame->seq, receiver->last_seq + 1);
        receiver->last_seq = frame->seq;
        take_sequenced(receiver, frame);
    }
}

void receiver_take_file(struct receiver *receiver, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    struct dvg_recording recording;
    struct dvg_bytes all = {.data = bytes, .size = (size_t)size};
    assert_int_equal(dvg_recording_init(&recording, all), 0);
    struct dvg_frame frame;
    int rc;
    while ((rc = dvg_recording_next(&recording, &frame)) == 1)
        receiver_take(receiver, &frame);
    assert_int_equal(rc, 0);
    assert_false(recording.torn);
    free(bytes);
}

/* ---- questions ------------------------------------------------------------------------------- */

const struct received_record *receiver_record(const struct receiver *receiver, uint64_t segment,
                                              size_t index)
{
    for (size_t i = 0; i < receiver->n_records; i++) {
        if (receiver->records[i].segment == segment && index-- == 0)
            return &receiver->records[i];
    }
    fail_msg("no such record");
    return NULL;
}

const struct received_record *receiver_ordered(const struct receiver *receiver, uint64_t segment,
                                               uint32_t order)
{
    for (size_t i = 0; i < receiver->n_records; i++) {
        if (receiver->records[i].segment == segment && receiver->records[i].order == order)
            return &receiver->records[i];
    }
    fail_msg("no such record");
    return NULL;
}

const struct received_record *receiver_named(const struct receiver *receiver, uint64_t segment,
                                             const char *name)
{
    const struct received_record *found = NULL;
    for (size_t i = 0; i < receiver->n_records; i++) {
        const struct received_record *record = &receiver->records[i];
        if (record->segment == segment && strcmp(record->name, name) == 0) {
            assert_null(found);
            found = record;
        }
    }
    assert_non_null(found);
    return found;
}

size_t receiver_count(const struct receiver *receiver, uint64_t segment)
{
    size_t count = 0;
    for (size_t i = 0; i < receiver->n_records; i++)
        count += receiver->records[i].segment == segment;
    return count;
}

const struct dvg_end *receiver_end(const struct receiver *receiver, uint64_t segment)
{
    for (size_t i = 0; i < receiver->n_ends; i++) {
        if (receiver->ends[i].segment == segment)
            return &receiver->ends[i];
    }
    return NULL;
}

const char *receiver_argument(const struct receiver *receiver, uint64_t digest)
{
    for (size_t i = 0; i < receiver->n_arguments; i++) {
        if (receiver->arguments[i].digest == digest)
            return receiver->arguments[i].text;
    }
    return NULL;
}
