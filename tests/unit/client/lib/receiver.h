/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon would understand from a stream of frames: every record with its site's texts, every
 * END. Checks what the protocol asks for and fails the running test otherwise. Feed it from a file
 * or a socket.
 */
#ifndef DVG_TESTS_RECEIVER_H
#define DVG_TESTS_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/frame.h"

struct received_record {
    uint64_t segment;
    uint8_t tier;
    struct dvg_site site; /* lane … source are numbers; the texts are below */
    const char *lane;
    const char *region;
    const char *scope;
    const char *op;
    const char *name;
    const char *source;
    struct dvg_type type; /* arrays belong to the receiver */
    uint64_t value;
    uint64_t argument;
    uint8_t state;
    uint32_t order;
    uint32_t producer;
    float sum;
    float l2;
    uint64_t min;
    uint64_t max;
    uint64_t zero;
    uint64_t nonfinite[3];
    float sketch[64];
};

struct received_argument {
    uint64_t digest;
    char *text;
};

struct receiver {
    struct received_record *records;
    size_t n_records;
    struct dvg_end *ends;
    size_t n_ends;
    char *metadata[64]; /* JSON texts in order */
    size_t n_metadata;
    struct received_argument arguments[256];
    size_t n_arguments;
    size_t n_parts;
    size_t n_site_runs;
    size_t n_sites_defined; /* on all connections */
    bool has_bye;
    struct dvg_bye bye;
    struct dvg_hello hello; /* numbers of the last one; its texts are gone */
    size_t n_hellos;
    uint64_t last_seq;
    size_t duplicates;
    /* of the connection */
    char **strings;
    size_t n_strings;
    struct dvg_site *sites;
    size_t n_sites;
    struct dvg_type *types;
    size_t n_types;
    void **garbage; /* everything that was allocated */
    size_t n_garbage;
};

void receiver_init(struct receiver *receiver);
void receiver_fini(struct receiver *receiver);
/* One frame. A sequence number that leaves one out fails the test. */
void receiver_take(struct receiver *receiver, const struct dvg_frame *frame);
/* A whole recording or spool file. */
void receiver_take_file(struct receiver *receiver, const char *path);

/* The record of a segment by its place among all of that segment's records, in order of arrival. */
const struct received_record *receiver_record(const struct receiver *receiver, uint64_t segment,
                                              size_t index);
/* The record of a segment with that order; for runs of one lane. */
const struct received_record *receiver_ordered(const struct receiver *receiver, uint64_t segment,
                                               uint32_t order);
/* The one record with that name; fails the test when there is none or more than one. */
const struct received_record *receiver_named(const struct receiver *receiver, uint64_t segment,
                                             const char *name);
size_t receiver_count(const struct receiver *receiver, uint64_t segment);
const struct dvg_end *receiver_end(const struct receiver *receiver, uint64_t segment);
/* NULL: no text came for it. */
const char *receiver_argument(const struct receiver *receiver, uint64_t digest);

#endif
