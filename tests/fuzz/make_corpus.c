/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what is generated from the golden conversation: seeds of the fuzz corpora and the golden
 * text.
 *
 *     make_corpus CORPUS_FOLDER            frame/, recording/, ingest/ in it
 *     make_corpus --text > tests/data/wire/conversation.hex
 *
 * Run by hand after the protocol grew; the results are checked in.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/wire/frame.h"
#include "tests/unit/client/wire/golden.h"

static void write_file(const char *root, const char *folder, const char *name,
                       const struct dvg_buffer *bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", root, folder);
    if (mkdir(path, 0777) && errno != EEXIST) {
        perror(path);
        exit(1);
    }
    snprintf(path, sizeof(path), "%s/%s/%s", root, folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes->data, 1, bytes->size, f) != bytes->size || fclose(f)) {
        perror(path);
        exit(1);
    }
}

/* One file a message, named by it. */
static void write_frames(const char *root)
{
    struct dvg_buffer frame;
    dvg_buffer_init(&frame, DVG_FRAME_MAX);
    const char *title;
    for (unsigned i = 0; golden_frame(i, &frame, &title); i++) {
        write_file(root, "frame", dvg_message_name(dvg_load_u16(frame.data + 4)), &frame);
        dvg_buffer_clear(&frame);
    }
    dvg_buffer_fini(&frame);
}

static void write_recordings(const char *root)
{
    struct dvg_buffer file;
    dvg_buffer_init(&file, DVG_FRAME_MAX);
    golden_recording(&file);
    write_file(root, "recording", "whole", &file);
    file.size -= 40;
    write_file(root, "recording", "torn", &file);
    file.data[200] ^= 1;
    write_file(root, "recording", "damaged", &file);
    dvg_buffer_fini(&file);
}

/*
 * A byte that says how to commit (fuzz_ingest.c), then frames without CRC: damage must get past the
 * frame.
 */
static void write_ingest(const char *root, const char *name, uint8_t how, int times)
{
    struct dvg_buffer input;
    dvg_buffer_init(&input, DVG_FRAME_MAX);
    dvg_buffer_append(&input, &how, 1);
    struct dvg_buffer frame;
    dvg_buffer_init(&frame, DVG_FRAME_MAX);
    const char *title;
    for (int round = 0; round < times; round++) {
        for (unsigned i = 0; golden_frame(i, &frame, &title); i++) {
            if (!strncmp(title, "producer", strlen("producer")))
                dvg_buffer_append(&input, frame.data, frame.size);
            dvg_buffer_clear(&frame);
        }
    }
    write_file(root, "ingest", name, &input);
    dvg_buffer_fini(&frame);
    dvg_buffer_fini(&input);
}

static void write_text(void)
{
    struct dvg_buffer text;
    dvg_buffer_init(&text, DVG_FRAME_MAX);
    golden_text(&text);
    fwrite(text.data, 1, text.size, stdout);
    dvg_buffer_fini(&text);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER | --text\n", argv[0]);
        return 2;
    }
    if (!strcmp(argv[1], "--text")) {
        write_text();
        return 0;
    }
    write_frames(argv[1]);
    write_recordings(argv[1]);
    write_ingest(argv[1], "uncommitted", 0, 1);
    write_ingest(argv[1], "committed", 1, 1);
    write_ingest(argv[1], "each", 2, 1);
    write_ingest(argv[1], "twice", 5, 2);
    return 0;
}
