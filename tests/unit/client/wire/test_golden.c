/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the protocol are frozen: today's encoders must still write the golden ones. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/frame.h"
#include "client/wire/recording.h"
#include "tests/unit/client/wire/cmocka_all.h"
#include "tests/unit/client/wire/golden.h"

static char *read_text(const char *folder_variable, const char *name)
{
    const char *folder = getenv(folder_variable);
    assert_non_null(folder);
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static char *golden_string(void)
{
    struct dvg_buffer out;
    dvg_buffer_init(&out, 1 << 20);
    golden_text(&out);
    assert_int_equal(dvg_buffer_append(&out, "", 1), 0);
    return (char *)out.data; /* the caller frees it */
}

static void encoders_write_the_golden_bytes(void **state)
{
    (void)state;
    char *now = golden_string();
    char *frozen = read_text("DVG_TEST_DATA", "wire/conversation.hex");
    assert_string_equal(now, frozen);
    free(frozen);
    free(now);
}

static void the_document_shows_the_golden_bytes(void **state)
{
    (void)state;
    char *document = read_text("DVG_SOURCE_DIR", "schema/PROTOCOL.md");
    char *frozen = read_text("DVG_TEST_DATA", "wire/conversation.hex");
    char *transcript = strstr(document, "```text\n# producer: HELLO\n");
    assert_non_null(transcript);
    transcript += strlen("```text\n");
    char *end = strstr(transcript, "```");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(transcript, frozen);
    free(frozen);
    free(document);
}

static void every_message_has_a_golden_frame(void **state)
{
    (void)state;
    unsigned seen = 0;
    struct dvg_buffer out;
    dvg_buffer_init(&out, 1 << 20);
    const char *title;
    for (unsigned i = 0; golden_frame(i, &out, &title); i++) {
        struct dvg_frame frame;
        size_t size;
        struct dvg_bytes bytes = {.data = out.data, .size = out.size};
        assert_int_equal(dvg_frame_decode(bytes, DVG_FRAME_MAX, &frame, &size), 1);
        assert_int_equal(size, out.size);
        seen |= 1U << frame.type;
        dvg_buffer_clear(&out);
    }
    dvg_buffer_fini(&out);
#define X(number, NAME, name, direction, sequenced) assert_true(seen &(1U << (number)));
    DVG_MESSAGES(X)
#undef X
}

static void the_golden_recording_reads_to_its_end(void **state)
{
    (void)state;
    struct dvg_buffer out;
    dvg_buffer_init(&out, 1 << 20);
    golden_recording(&out);
    struct dvg_recording recording;
    struct dvg_bytes bytes = {.data = out.data, .size = out.size};
    assert_int_equal(dvg_recording_init(&recording, bytes), 0);
    struct dvg_frame frame = {0};
    int frames = 0;
    while (dvg_recording_next(&recording, &frame) == 1)
        frames++;
    assert_int_equal(frames, 9);
    assert_int_equal(frame.type, DVG_MESSAGE_BYE);
    assert_false(recording.torn);
    assert_int_equal(recording.offset, out.size);
    dvg_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoders_write_the_golden_bytes),
        cmocka_unit_test(the_document_shows_the_golden_bytes),
        cmocka_unit_test(every_message_has_a_golden_frame),
        cmocka_unit_test(the_golden_recording_reads_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
