/* SPDX-License-Identifier: Apache-2.0 */
/* What producers' frames do to a real store, without a socket. */

#include "daemon/proto/ingest.h"

#include <errno.h>
#include <string.h>

#include "tests/support/fault.h"
#include "tests/unit/client/wire/golden.h"
#include "tests/unit/daemon/proto/lab.h"

static int set_up(void **state)
{
    *state = lab_new(NULL);
    return 0;
}

static int tear_down(void **state)
{
    lab_free(*state);
    return 0;
}

static const struct lab_hello first_hello = {.stream = 1, .run = 1, .epoch = 1, .next_seq = 1};

/* Connection 1 with `sites` sites defined. */
static void greet(struct lab *lab, uint32_t sites)
{
    assert_int_equal(lab_hello(lab, 1, &first_hello, NULL), 0);
    lab_define(lab, 1, sites);
}

/* ---- the ordinary course ---- */

static void golden_conversation_is_stored(void **state)
{
    struct lab *lab = *state;
    const char *title;
    struct dvg_buffer frame;
    dvg_buffer_init(&frame, DVG_FRAME_MAX);
    for (unsigned i = 0; golden_frame(i, &frame, &title); i++) {
        if (!strncmp(title, "producer", 8))
            assert_int_equal(dvg_buffer_append(&lab->out, frame.data, frame.size), 0);
        dvg_buffer_clear(&frame);
    }
    dvg_buffer_fini(&frame);
    assert_int_equal(lab_send(lab, 5), 0);
    lab_assert_acked(lab, 5, 4);
    lab_assert_text(lab, "SELECT name || ' ' || status FROM runs", "digits complete");
    lab_assert_text(lab, "SELECT value FROM run_metadata WHERE key = 'torch.version'", "2.5.1");
    lab_assert_text(lab,
                    "SELECT tier || ' ' || segment || ' ' || records || ' ' || (flags & 3)"
                    " FROM segments WHERE records > 0",
                    "3 2 2 1");
    lab_assert_text(lab, "SELECT text FROM arguments", "bias=true");
    assert_int_equal(lab_number(lab, "SELECT committed_seq FROM streams"), 4);
    assert_int_equal(lab_number(lab, "SELECT peer_pid FROM streams"), 77);
}

static void nothing_is_acknowledged_before_it_is_committed(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    assert_int_equal(lab->replies.size, 0);
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), 0);
    lab_assert_acked(lab, 1, 1);
    /* And one ACK covers a group. */
    assert_int_equal(lab_part(lab, 1, 2, &(struct lab_part){.segment = 2, .first = 4, .count = 4}),
                     0);
    assert_int_equal(lab_end(lab, 1, 3, 2, 8), 0);
    lab_assert_acked(lab, 1, 3);
    assert_int_equal(lab_number(lab, "SELECT records FROM segments WHERE tier = 3"), 8);
}

static void what_was_acknowledged_survives_a_restart(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    lab_assert_acked(lab, 1, 1);
    assert_int_equal(lab_part(lab, 1, 2, &(struct lab_part){.segment = 2, .first = 4, .count = 4}),
                     0);
    lab_restart(lab);
    struct dvg_welcome welcome;
    struct lab_hello again = first_hello;
    again.epoch = 2;
    assert_int_equal(lab_hello(lab, 2, &again, &welcome), 0);
    assert_int_equal(welcome.committed_seq, 1);
    lab_define(lab, 2, 4);
    assert_int_equal(lab_part(lab, 2, 2, &(struct lab_part){.segment = 2, .first = 4, .count = 4}),
                     0);
    assert_int_equal(lab_end(lab, 2, 3, 2, 8), 0);
    assert_int_equal(lab_bye(lab, 2, 4), 0);
    lab_assert_acked(lab, 2, 4);
    lab_assert_text(lab, "SELECT records || ' ' || (flags & 3) FROM segments WHERE tier = 3",
                    "8 1");
    lab_assert_text(lab, "SELECT status FROM runs", "complete");
}

static void names_are_settled_and_runs_are_joined(void **state)
{
    struct lab *lab = *state;
    struct dvg_welcome welcome;
    struct lab_hello hello = {.stream = 1, .run = 1, .epoch = 1, .name = "mlp", .world = 2};
    assert_int_equal(lab_hello(lab, 1, &hello, &welcome), 0);
    assert_memory_equal(welcome.run_name.data, "mlp", 3);
    hello = (struct lab_hello){
        .stream = 2, .run = 1, .epoch = 1, .rank = 1, .name = "other", .world = 2};
    assert_int_equal(lab_hello(lab, 2, &hello, &welcome), 0);
    assert_int_equal(welcome.run_name.size, 3); /* the run has its name */
    hello = (struct lab_hello){.stream = 3, .run = 2, .epoch = 1, .name = "mlp"};
    assert_int_equal(lab_hello(lab, 3, &hello, &welcome), 0);
    assert_int_equal(welcome.run_name.size, 5);
    assert_memory_equal(welcome.run_name.data, "mlp.2", 5);
    assert_int_equal(welcome.run_id[15], 2);
    assert_int_equal(ingest_commit(lab->ingest), 0);
    assert_int_equal(lab_number(lab, "SELECT count(*) FROM runs"), 2);
    assert_int_equal(
        lab_number(
            lab,
            "SELECT count(*) FROM streams WHERE run = (SELECT id FROM runs WHERE name = 'mlp')"),
        2);
}

static void runs_of_sites_give_the_order_of_records(void **state)
{
    struct lab *lab = *state;
    greet(lab, 6);
    static const uint32_t single[] = {1, 6};
    static const uint32_t split[] = {1, 2, 3, 1, 4, 3};
    static const uint32_t turned[] = {4, 3, 1, 3};
    struct lab_part part = {.segment = 2, .count = 6, .runs = single, .n_runs = 1};
    assert_int_equal(lab_part(lab, 1, 1, &part), 0);
    assert_int_equal(lab_end(lab, 1, 2, 2, 6), 0);
    part = (struct lab_part){.segment = 4, .count = 6, .runs = split, .n_runs = 3};
    assert_int_equal(lab_part(lab, 1, 3, &part), 0);
    assert_int_equal(lab_end(lab, 1, 4, 4, 6), 0);
    lab_assert_acked(lab, 1, 4);
    assert_int_equal(lab_number(lab, "SELECT count(DISTINCT layout) FROM segments WHERE tier = 3"),
                     1);
    part = (struct lab_part){.segment = 6, .count = 6, .runs = turned, .n_runs = 2};
    assert_int_equal(lab_part(lab, 1, 5, &part), 0);
    assert_int_equal(lab_end(lab, 1, 6, 6, 6), 0);
    lab_assert_acked(lab, 1, 6);
    assert_int_equal(lab_number(lab, "SELECT count(DISTINCT layout) FROM segments WHERE tier = 3"),
                     2);
}

/* A golden frame by its title. */
static struct dvg_buffer golden(const char *wanted)
{
    struct dvg_buffer frame;
    dvg_buffer_init(&frame, DVG_FRAME_MAX);
    const char *title;
    for (unsigned i = 0; golden_frame(i, &frame, &title); i++) {
        if (!strcmp(title, wanted))
            return frame;
        dvg_buffer_clear(&frame);
    }
    fail_msg("no golden frame is called %s", wanted);
    return frame;
}

static void assert_golden(const uint8_t *data, size_t size, const char *title)
{
    struct dvg_buffer frame = golden(title);
    assert_int_equal(size, frame.size);
    assert_memory_equal(data, frame.data, size);
    dvg_buffer_fini(&frame);
}

static int send_golden(struct lab *lab, const char *title)
{
    struct dvg_buffer frame = golden(title);
    assert_int_equal(dvg_buffer_append(&lab->out, frame.data, frame.size), 0);
    dvg_buffer_fini(&frame);
    return lab_send(lab, 5);
}

/*
 * The transcript of PROTOCOL.md is a real one: these are the bytes that this daemon answers with.
 */
static void the_golden_answers_are_what_the_daemon_says(void **state)
{
    struct lab *lab = *state;
    struct lab_hello other = {.stream = 1, .run = 1, .epoch = 1, .name = "digits"};
    assert_int_equal(lab_hello(lab, 4, &other, NULL), 0);
    ingest_closed(lab->ingest, 4);

    assert_int_equal(send_golden(lab, "producer: HELLO"), 0);
    assert_golden(lab->replies.data, lab->replies.size, "daemon: WELCOME");
    static const char *const rest[] = {
        "producer: METADATA, sequence number 1",
        "producer: STRINGS 1 to 4",
        "producer: SITES 1 and 2",
        "producer: TYPES 1 and 2",
        "producer: ARGUMENTS",
        "producer: PART, sequence number 2",
        "producer: END, sequence number 3",
        "producer: BYE, sequence number 4",
    };
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        assert_int_equal(send_golden(lab, rest[i]), 0);
        assert_int_equal(lab->replies.size, 0);
    }
    dvg_fault_arm(DVG_FAULT_WRITE, 0, ENOSPC, true);
    assert_int_equal(ingest_commit(lab->ingest), DIVERGE_EFULL);
    dvg_fault_disarm();
    struct ingest_notice notice;
    assert_true(ingest_next_notice(lab->ingest, &notice));
    assert_golden(notice.frame.data, notice.frame.size, "daemon, when its disk is full: STATE");
    assert_int_equal(ingest_commit(lab->ingest), 0);
    assert_true(ingest_next_notice(lab->ingest, &notice)); /* STATE with 0 */
    assert_true(ingest_next_notice(lab->ingest, &notice));
    assert_golden(notice.frame.data, notice.frame.size, "daemon: ACK through 4");
    assert_int_equal(lab_bye(lab, 5, 9), DIVERGE_EGAP);
    assert_golden(lab->replies.data, lab->replies.size, "daemon, instead: ERROR");
}

/* ---- sequence numbers ---- */

static void repeated_messages_are_ignored_and_acknowledged(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    struct lab_part part = {.segment = 2, .count = 4};
    assert_int_equal(lab_part(lab, 1, 1, &part), 0);
    assert_int_equal(lab_part(lab, 1, 1, &part), 0); /* not yet committed */
    lab_assert_acked(lab, 1, 1);
    assert_int_equal(lab_part(lab, 1, 1, &part), 0); /* committed */
    lab_assert_acked(lab, 1, 1);
    assert_int_equal(lab_end(lab, 1, 2, 2, 4), 0);
    lab_assert_acked(lab, 1, 2);
    lab_assert_text(lab, "SELECT records || ' ' || (flags & 3) FROM segments WHERE tier = 3",
                    "4 1");
    struct ingest_stats stats;
    ingest_stats(lab->ingest, &stats);
    assert_int_equal(stats.repeated, 2);
    assert_int_equal(stats.records, 4);
}

static void a_missing_sequence_number_is_refused(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    struct lab_part part = {.segment = 2, .count = 4};
    assert_int_equal(lab_part(lab, 1, 1, &part), 0);
    assert_int_equal(lab_part(lab, 1, 3, &part), DIVERGE_EGAP);
    lab_assert_refused(lab, DIVERGE_EGAP, "3 where 2 comes next");
    assert_false(ingest_is_producer(lab->ingest, 1));
    assert_int_equal(ingest_commit(lab->ingest), 0);
    struct dvg_welcome welcome;
    struct lab_hello again = first_hello;
    again.epoch = 2;
    assert_int_equal(lab_hello(lab, 2, &again, &welcome), 0);
    assert_int_equal(welcome.committed_seq, 1); /* what came before the gap is kept */
}

static void sequence_numbers_are_where_they_belong(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_bye(lab, 1, 0), DIVERGE_EPROTO);
    lab_assert_refused(lab, DIVERGE_EPROTO, "without a sequence number");
    struct lab_hello hello = {.stream = 2, .run = 1, .rank = 1, .epoch = 1};
    assert_int_equal(lab_hello(lab, 2, &hello, NULL), 0);
    assert_int_equal(lab_bye(lab, 2, UINT64_MAX), DIVERGE_EPROTO);
    hello = (struct lab_hello){.stream = 3, .run = 1, .rank = 2, .epoch = 1};
    assert_int_equal(lab_hello(lab, 3, &hello, NULL), 0);
    struct dvg_buffer items;
    dvg_buffer_init(&items, 100);
    assert_int_equal(dvg_string_pack(&items, (struct dvg_bytes){0}), 0);
    struct dvg_definitions strings = {.first = 1, .count = 1, .items = {items.data, items.size}};
    assert_int_equal(dvg_definitions_encode(&lab->out, DVG_MESSAGE_STRINGS, &strings), 0);
    dvg_buffer_fini(&items);
    dvg_frame_set_seq(lab->out.data, 1);
    assert_int_equal(lab_send(lab, 3), DIVERGE_EPROTO);
    lab_assert_refused(lab, DIVERGE_EPROTO, "must not have a sequence number");
}

static void a_gap_that_hello_declares_is_no_error(void **state)
{
    struct lab *lab = *state;
    struct dvg_welcome welcome;
    struct lab_hello hello = first_hello;
    hello.next_seq = 5;
    assert_int_equal(lab_hello(lab, 1, &hello, &welcome), 0);
    assert_int_equal(welcome.committed_seq, 0);
    lab_define(lab, 1, 4);
    /* The segment's first part is among what was lost. */
    assert_int_equal(lab_part(lab, 1, 5, &(struct lab_part){.segment = 2, .first = 4, .count = 4}),
                     0);
    assert_int_equal(lab_end(lab, 1, 6, 2, 8), 0);
    assert_int_equal(lab_part(lab, 1, 7, &(struct lab_part){.segment = 4, .count = 4}), 0);
    assert_int_equal(lab_end(lab, 1, 8, 4, 4), 0);
    lab_assert_acked(lab, 1, 8);
    assert_int_equal(
        lab_number(lab, "SELECT flags & 2 FROM segments WHERE tier = 3 AND segment = 2"), 2);
    assert_int_equal(
        lab_number(lab, "SELECT flags & 2 FROM segments WHERE tier = 3 AND segment = 4"), 0);
}

static void a_missing_index_within_a_segment_is_refused(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .first = 4, .count = 4}),
                     DIVERGE_EGAP);
    lab_assert_refused(lab, DIVERGE_EGAP, "PART");
}

/* ---- connections ---- */

static void a_higher_epoch_takes_over(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    struct lab_hello again = first_hello;
    assert_int_equal(lab_hello(lab, 2, &again, NULL), DIVERGE_EBUSY);
    lab_assert_refused(lab, DIVERGE_EBUSY, "higher");
    assert_true(ingest_is_producer(lab->ingest, 1));

    again.epoch = 2;
    struct dvg_welcome welcome;
    assert_int_equal(lab_hello(lab, 3, &again, &welcome), 0);
    assert_int_equal(welcome.committed_seq, 1);
    uint64_t connection = 0;
    bool closes = false;
    assert_int_equal(lab_notice(lab, &connection, NULL, &closes), DVG_MESSAGE_ERROR);
    assert_int_equal(connection, 1);
    assert_true(closes);
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), 0);
    ingest_closed(lab->ingest, 1);

    lab_define(lab, 3, 4);
    assert_int_equal(lab_part(lab, 3, 2, &(struct lab_part){.segment = 2, .first = 4, .count = 4}),
                     0);
    assert_int_equal(lab_end(lab, 3, 3, 2, 8), 0);
    assert_int_equal(lab_bye(lab, 3, 4), 0);
    lab_assert_acked(lab, 3, 4);
    lab_assert_text(lab, "SELECT status FROM runs", "complete");
    lab_assert_text(lab, "SELECT records || ' ' || (flags & 3) FROM segments WHERE tier = 3",
                    "8 1");
}

static void a_connection_that_was_taken_over_is_not_heard(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    struct lab_hello again = first_hello;
    again.epoch = 9;
    assert_int_equal(lab_hello(lab, 2, &again, NULL), 0);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}),
                     DIVERGE_EBUSY);
    lab_assert_refused(lab, DIVERGE_EBUSY, "took over");
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), 0); /* it was told */
    assert_true(ingest_is_producer(lab->ingest, 2));
}

static void a_stream_belongs_to_one_run_and_rank(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    struct lab_hello other = first_hello;
    other.epoch = 2;
    other.run = 2;
    assert_int_equal(lab_hello(lab, 2, &other, NULL), DIVERGE_EEXIST);
    lab_assert_refused(lab, DIVERGE_EEXIST, "random");
    other = first_hello;
    other.epoch = 2;
    other.rank = 1;
    other.world = 4;
    assert_int_equal(lab_hello(lab, 3, &other, NULL), DIVERGE_EEXIST);
    /* The one that has it is unharmed, and its run too; none was made. */
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    lab_assert_acked(lab, 1, 1);
    assert_int_equal(lab_bye(lab, 1, 2), 0);
    lab_assert_acked(lab, 1, 2);
    assert_int_equal(lab_number(lab, "SELECT count(*) FROM runs"), 1);
    assert_int_equal(lab_number(lab, "SELECT world FROM runs"), 1);
    /* Nor when the stream is only in the file. */
    lab_restart(lab);
    assert_int_equal(lab_hello(lab, 4, &other, NULL), DIVERGE_EEXIST);
    assert_int_equal(ingest_commit(lab->ingest), 0);
    assert_int_equal(lab_number(lab, "SELECT world FROM runs"), 1);
    lab_assert_text(lab, "SELECT status FROM runs", "complete");
}

static void a_connection_lost_without_bye_makes_the_run_lost(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    ingest_closed(lab->ingest, 1);
    ingest_closed(lab->ingest, 1); /* known to be gone */
    ingest_closed(lab->ingest, 99);
    assert_int_equal(ingest_commit(lab->ingest), 0);
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), 0);
    lab_assert_text(lab, "SELECT status FROM runs", "lost");
    assert_int_equal(lab_number(lab, "SELECT sum(records) FROM segments WHERE flags & 1 = 0"), 4);
}

static void definitions_end_with_their_connection(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    ingest_closed(lab->ingest, 1);
    struct lab_hello again = first_hello;
    again.epoch = 2;
    assert_int_equal(lab_hello(lab, 1, &again, NULL), 0);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}),
                     DIVERGE_EPROTO);
    lab_assert_refused(lab, DIVERGE_EPROTO, "STRINGS");
}

/* ---- order of messages ---- */

static void messages_out_of_place_are_refused(void **state)
{
    struct lab *lab = *state;
    assert_int_equal(lab_bye(lab, 1, 1), DIVERGE_ESTATE);
    lab_assert_refused(lab, DIVERGE_ESTATE, "BYE before HELLO");
    greet(lab, 1);
    assert_int_equal(lab_hello(lab, 1, &first_hello, NULL), DIVERGE_ESTATE);
    lab_assert_refused(lab, DIVERGE_ESTATE, "twice");
    struct lab_hello again = first_hello;
    again.epoch = 2;
    assert_int_equal(lab_hello(lab, 2, &again, NULL), 0);
    assert_int_equal(lab_bye(lab, 2, 1), 0);
    assert_int_equal(lab_end(lab, 2, 2, 2, 0), DIVERGE_ESTATE);
    lab_assert_refused(lab, DIVERGE_ESTATE, "after BYE");
}

static void messages_of_the_daemon_and_unknown_ones_are_refused(void **state)
{
    struct lab *lab = *state;
    assert_int_equal(dvg_ack_encode(&lab->out, &(struct dvg_ack){.committed_seq = 1}), 0);
    assert_int_equal(lab_send(lab, 1), DIVERGE_EPROTO);
    lab_assert_refused(lab, DIVERGE_EPROTO, "not a producer's");
    assert_int_equal(dvg_ack_encode(&lab->out, &(struct dvg_ack){.committed_seq = 1}), 0);
    lab->out.data[4] = 99;
    assert_int_equal(lab_send(lab, 1), DIVERGE_EUNSUPPORTED);
    lab_assert_refused(lab, DIVERGE_EUNSUPPORTED, "99");
}

static void a_sealed_segment_takes_no_more(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    assert_int_equal(lab_end(lab, 1, 2, 2, 4), 0);
    assert_int_equal(lab_part(lab, 1, 3, &(struct lab_part){.segment = 2, .first = 4, .count = 4}),
                     DIVERGE_ESTATE);
    lab_assert_refused(lab, DIVERGE_ESTATE, "PART");
}

/* ---- HELLO ---- */

static void another_version_is_told_what_this_one_speaks(void **state)
{
    struct lab *lab = *state;
    struct dvg_hello hello = {
        .major = 2, .world = 1, .fingerprint_id = {(const uint8_t *)"l61.1", 5}};
    assert_int_equal(dvg_hello_encode(&lab->out, &hello), 0);
    assert_int_equal(lab_send(lab, 1), DIVERGE_EVERSION);
    lab_assert_refused(lab, DIVERGE_EVERSION, "1.0");
}

static void names_that_are_too_long_are_refused(void **state)
{
    struct lab *lab = *state;
    char name[129];
    memset(name, 'n', sizeof(name));
    name[128] = '\0';
    struct lab_hello hello = first_hello;
    hello.name = name;
    assert_int_equal(lab_hello(lab, 1, &hello, NULL), DIVERGE_ELIMIT);
    lab_assert_refused(lab, DIVERGE_ELIMIT, "128 bytes");
    name[127] = '\0';
    assert_int_equal(lab_hello(lab, 1, &hello, NULL), 0);
}

/* ---- definitions ---- */

static void numbers_of_definitions_have_no_holes(void **state)
{
    struct lab *lab = *state;
    static const char *const texts[] = {"a", "b"};
    assert_int_equal(lab_hello(lab, 1, &first_hello, NULL), 0);
    assert_int_equal(lab_strings(lab, 1, 1, 2, texts), 0);
    assert_int_equal(lab_strings(lab, 1, 4, 2, texts), DIVERGE_EPROTO);
    lab_assert_refused(lab, DIVERGE_EPROTO, "3 comes next");
}

static void what_a_definition_names_must_be_defined(void **state)
{
    struct lab *lab = *state;
    static const char *const texts[] = {"main"};
    for (uint64_t connection = 1; connection <= 6; connection++) {
        struct lab_hello hello = {
            .stream = (uint8_t)connection, .run = 1, .rank = (uint32_t)connection, .epoch = 1};
        assert_int_equal(lab_hello(lab, connection, &hello, NULL), 0);
        assert_int_equal(lab_strings(lab, connection, 1, 1, texts), 0);
        struct dvg_site site = {.lane = 1};
        uint32_t *const members[] = {&site.lane, &site.region, &site.scope,
                                     &site.op,   &site.name,   &site.source};
        *members[connection - 1] = 2;
        assert_int_equal(lab_site(lab, connection, 1, &site), DIVERGE_EPROTO);
        lab_assert_refused(lab, DIVERGE_EPROTO, "was not defined");
    }
}

static void parts_with_unknown_numbers_are_refused(void **state)
{
    struct lab *lab = *state;
    static const uint32_t beyond[] = {3, 3};
    static const struct {
        struct lab_part part;
        const char *words;
    } cases[] = {
        {{.segment = 2, .count = 5}, "site 5"},
        {{.segment = 2, .count = 3, .runs = beyond, .n_runs = 1}, "site 5"},
        {{.segment = 2, .count = 4, .type = 2}, "PART"},
        {{.segment = 2, .count = 4, .type = UINT32_MAX}, "PART"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lab_hello hello = first_hello;
        hello.epoch = 1 + i;
        assert_int_equal(lab_hello(lab, 1, &hello, NULL), 0);
        lab_define(lab, 1, 4);
        assert_int_equal(lab_part(lab, 1, 1, &cases[i].part), DIVERGE_EPROTO);
        lab_assert_refused(lab, DIVERGE_EPROTO, cases[i].words);
    }
}

static void sites_of_another_lane_or_tier_do_not_fit_a_part(void **state)
{
    struct lab *lab = *state;
    static const char *const side[] = {"side"};
    for (uint64_t epoch = 1; epoch <= 2; epoch++) {
        struct lab_hello hello = first_hello;
        hello.epoch = epoch;
        assert_int_equal(lab_hello(lab, 1, &hello, NULL), 0);
        lab_define(lab, 1, 4);
        assert_int_equal(lab_strings(lab, 1, 4, 1, side), 0);
        struct dvg_site site = {.tier = DIVERGE_TIER_OP, .lane = 1};
        if (epoch == 1)
            site.lane = 4;
        else
            site.tier = DIVERGE_TIER_LAYER;
        assert_int_equal(lab_site(lab, 1, 5, &site), 0);
        assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 5}),
                         DIVERGE_EPROTO);
        lab_assert_refused(lab, DIVERGE_EPROTO, "lane and tier");
    }
}

/* ---- limits ---- */

static void tables_of_a_connection_are_capped(void **state)
{
    (void)state;
    static const struct ingest_limits limits = {.max_strings = 4, .max_sites = 4};
    struct lab *lab = lab_new(&limits);
    static const char *const texts[] = {"x", "y"};
    greet(lab, 4);
    assert_int_equal(lab_strings(lab, 1, 4, 2, texts), DIVERGE_ELIMIT);
    lab_assert_refused(lab, DIVERGE_ELIMIT, "more than 4 strings");
    struct lab_hello again = first_hello;
    again.epoch = 2;
    assert_int_equal(lab_hello(lab, 1, &again, NULL), 0);
    lab_define(lab, 1, 4);
    assert_int_equal(lab_site(lab, 1, 5, &(struct dvg_site){.lane = 1}), DIVERGE_ELIMIT);
    lab_assert_refused(lab, DIVERGE_ELIMIT, "more than 4 sites");
    lab_free(lab);
}

static void connections_are_capped(void **state)
{
    (void)state;
    static const struct ingest_limits limits = {.max_connections = 2};
    struct lab *lab = lab_new(&limits);
    struct lab_hello hello = first_hello;
    for (uint8_t i = 1; i <= 3; i++) {
        hello.stream = i;
        hello.rank = i;
        assert_int_equal(lab_hello(lab, i, &hello, NULL), i < 3 ? 0 : DIVERGE_ELIMIT);
    }
    lab_assert_refused(lab, DIVERGE_ELIMIT, "more than 2 producers");
    ingest_closed(lab->ingest, 1);
    assert_int_equal(lab_hello(lab, 3, &hello, NULL), 0);
    lab_free(lab);
}

static void frames_are_capped(void **state)
{
    (void)state;
    static const struct ingest_limits limits = {.max_frame = 1000};
    struct lab *lab = lab_new(&limits);
    struct dvg_welcome welcome;
    assert_int_equal(lab_hello(lab, 1, &first_hello, &welcome), 0);
    assert_int_equal(welcome.max_frame, 1000);
    char json[1200];
    memset(json, ' ', sizeof(json));
    json[0] = '{';
    json[sizeof(json) - 2] = '}';
    json[sizeof(json) - 1] = '\0';
    assert_int_equal(lab_metadata(lab, 1, 1, json), DIVERGE_ELIMIT);
    lab_free(lab);
}

static void a_segment_is_capped_by_the_store(void **state)
{
    struct lab *lab = *state;
    greet(lab, 65535);
    uint64_t seq = 1;
    int rc = 0;
    for (uint64_t first = 0; !rc && first <= UINT64_C(17) << 20; first += 65535)
        rc = lab_part(lab, 1, seq++,
                      &(struct lab_part){.segment = 2, .first = first, .count = 65535});
    assert_int_equal(rc, DIVERGE_ELIMIT);
    lab_assert_refused(lab, DIVERGE_ELIMIT, "records");
}

/* ---- metadata ---- */

static void metadata_is_kept_by_key(void **state)
{
    struct lab *lab = *state;
    assert_int_equal(lab_hello(lab, 1, &first_hello, NULL), 0);
    assert_int_equal(
        lab_metadata(lab, 1, 1,
                     "{\"seed\":\"1\",\"threads\":9007199254740991,\"flags\":{\"tf32\":false}}"),
        0);
    assert_int_equal(lab_metadata(lab, 1, 2, "{\"seed\":\"2\"}"), 0);
    lab_assert_acked(lab, 1, 2);
    lab_assert_text(lab, "SELECT value FROM run_metadata WHERE key = 'seed'", "2");
    lab_assert_text(lab, "SELECT value FROM run_metadata WHERE key = 'threads'",
                    "9007199254740991");
    lab_assert_text(lab, "SELECT value FROM run_metadata WHERE key = 'flags'", "{\"tf32\":false}");
}

static void bad_metadata_is_refused(void **state)
{
    struct lab *lab = *state;
    static const struct {
        const char *json;
        int rc;
    } cases[] = {
        {"[1]", DIVERGE_EPROTO},
        {"{\"a\":1,\"a\":2}", DIVERGE_EPROTO},
        {"{\"a\":1} x", DIVERGE_EPROTO},
        {"{\"\":1}", DIVERGE_ELIMIT},
        {"{\"a\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}", DIVERGE_ELIMIT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lab_hello hello = first_hello;
        hello.epoch = 1 + i;
        assert_int_equal(lab_hello(lab, 1, &hello, NULL), 0);
        assert_int_equal(lab_metadata(lab, 1, 1, cases[i].json), cases[i].rc);
        lab_assert_refused(lab, cases[i].rc, "");
    }
}

static void metadata_entries_are_capped(void **state)
{
    (void)state;
    static const struct ingest_limits limits = {.max_metadata = 3};
    struct lab *lab = lab_new(&limits);
    assert_int_equal(lab_hello(lab, 1, &first_hello, NULL), 0);
    assert_int_equal(lab_metadata(lab, 1, 1, "{\"a\":1,\"b\":2,\"c\":3}"), 0);
    assert_int_equal(lab_metadata(lab, 1, 2, "{\"d\":1}"), DIVERGE_ELIMIT);
    lab_assert_refused(lab, DIVERGE_ELIMIT, "3 metadata");
    lab_free(lab);
}

/* ---- a full disk ---- */

static void a_full_disk_holds_everything_and_tells_producers(void **state)
{
    struct lab *lab = *state;
    greet(lab, 4);
    assert_int_equal(lab_part(lab, 1, 1, &(struct lab_part){.segment = 2, .count = 4}), 0);
    lab_assert_acked(lab, 1, 1);
    assert_int_equal(lab_end(lab, 1, 2, 2, 4), 0);

    dvg_fault_arm(DVG_FAULT_WRITE, 0, ENOSPC, true);
    assert_int_equal(ingest_commit(lab->ingest), DIVERGE_EFULL);
    assert_true(ingest_is_read_only(lab->ingest));
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), DVG_MESSAGE_STATE);
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), 0); /* no ACK */
    assert_int_equal(lab_bye(lab, 1, 3), DIVERGE_EAGAIN);
    struct lab_hello other = {.stream = 2, .run = 2, .epoch = 1};
    assert_int_equal(lab_hello(lab, 2, &other, NULL), DIVERGE_EFULL);
    lab_assert_refused(lab, DIVERGE_EFULL, "keep the data");
    assert_int_equal(ingest_commit(lab->ingest), DIVERGE_EFULL);
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), 0); /* said once */

    dvg_fault_disarm();
    assert_int_equal(ingest_commit(lab->ingest), 0);
    assert_int_equal(lab_notice(lab, NULL, NULL, NULL), DVG_MESSAGE_STATE);
    uint64_t through = 0;
    assert_int_equal(lab_notice(lab, NULL, &through, NULL), DVG_MESSAGE_ACK);
    assert_int_equal(through, 2);
    assert_int_equal(lab_bye(lab, 1, 3), 0); /* offered again */
    lab_assert_acked(lab, 1, 3);
    lab_assert_text(lab, "SELECT status FROM runs", "complete");
    lab_assert_text(lab, "PRAGMA integrity_check", "ok");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(golden_conversation_is_stored),
        CASE(the_golden_answers_are_what_the_daemon_says),
        CASE(nothing_is_acknowledged_before_it_is_committed),
        CASE(what_was_acknowledged_survives_a_restart),
        CASE(names_are_settled_and_runs_are_joined),
        CASE(runs_of_sites_give_the_order_of_records),
        CASE(repeated_messages_are_ignored_and_acknowledged),
        CASE(a_missing_sequence_number_is_refused),
        CASE(sequence_numbers_are_where_they_belong),
        CASE(a_gap_that_hello_declares_is_no_error),
        CASE(a_missing_index_within_a_segment_is_refused),
        CASE(a_higher_epoch_takes_over),
        CASE(a_connection_that_was_taken_over_is_not_heard),
        CASE(a_stream_belongs_to_one_run_and_rank),
        CASE(a_connection_lost_without_bye_makes_the_run_lost),
        CASE(definitions_end_with_their_connection),
        CASE(messages_out_of_place_are_refused),
        CASE(messages_of_the_daemon_and_unknown_ones_are_refused),
        CASE(a_sealed_segment_takes_no_more),
        CASE(another_version_is_told_what_this_one_speaks),
        CASE(names_that_are_too_long_are_refused),
        CASE(numbers_of_definitions_have_no_holes),
        CASE(what_a_definition_names_must_be_defined),
        CASE(parts_with_unknown_numbers_are_refused),
        CASE(sites_of_another_lane_or_tier_do_not_fit_a_part),
        cmocka_unit_test(tables_of_a_connection_are_capped),
        cmocka_unit_test(connections_are_capped),
        cmocka_unit_test(frames_are_capped),
        CASE(a_segment_is_capped_by_the_store),
        CASE(metadata_is_kept_by_key),
        CASE(bad_metadata_is_refused),
        cmocka_unit_test(metadata_entries_are_capped),
        CASE(a_full_disk_holds_everything_and_tells_producers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
