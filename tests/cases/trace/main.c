/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case_trace FILE NAME: records the two runs that FILE tells (script.h), as NAME-a and NAME-b,
 * every rank in a process of its own, through the public library as a trainer would.
 *
 * Of a run, before anything else:
 *     world 2 | ranks 1 (recorded ones, if fewer) | level step | steps 0:3 | sketch 64 | spec TEXT
 *     metadata KEY VALUE
 * Segments, and what the records that follow are part of:
 *     init | step K | boundary K
 *     lane NAME | phase NAME | micro K | region NAME | scope NAME (- for none)
 * Records; TENSOR is as in value.h, NUMBER is 0.5, nan, or i5 for an integer. A field is one of the
 * batch, without its rows; NAME absent and NAME TYPE:unread stand for what is not there and what
 * could not be read:
 *     param|buffer|grad|optstate|collective|field|scalar|attr|loss NAME TENSOR or NUMBER
 *     batch NAME TENSOR                                            with the digests of its rows
 *     ids 3,1,2
 *     rng NAME SLOT STATE | counter NAME N | evidence NAME NUMBER
 *     op NAME [scope=NAME] [args=TEXT] [flags=random,inplace] [src=TEXT] [in=TENSOR] [out=TENSOR]
 *        [attr=NAME:NUMBER]                                        in any order and number
 * Names of tensors within a segment:
 *     out=TENSOR>x    is called x from here on
 *     in=<x           x, measured, with its producer; in=<x/noise1e-6: and changed since
 *     in=~x           x, taken from its producer without measuring
 * The end of the process, otherwise complete:
 *     fail | kill
 * Lines that start with expect, says, never, options and status are for the test.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <diverge/macros.h>

#include "tests/cases/trace/script.h"
#include "tests/cases/trace/value.h"

enum { MAX_NAMED = 64, MAX_METADATA = 16, MAX_TEXT = 256 };

struct named { /* a tensor that later inputs refer to */
    char name[32];
    char text[MAX_TEXT];
    diverge_ref_t ref;
    uint64_t storage;
};

struct recorder {
    struct diverge_options options;
    struct diverge_metadata metadata[MAX_METADATA];
    char texts[2 * MAX_METADATA][MAX_TEXT];
    char spec[MAX_TEXT], steps[MAX_TEXT];
    struct diverge_session *session; /* opened by the first segment */
    struct diverge_lane *lane;
    struct named named[MAX_NAMED];
    size_t n_named;
    uint64_t storages;
    enum diverge_outcome outcome;
};

/* ---- words ---------------------------------------------------------------------------------- */

struct word {
    const char *name;
    int value;
};

static const struct word ROLES[] = {
#define X(number, NAME, name) {name, number},
    DIVERGE_ROLES(X)
#undef X
        {NULL, 0}};
static const struct word PHASES[] = {
#define X(number, NAME, name) {name, number},
    DIVERGE_PHASES(X)
#undef X
        {NULL, 0}};
static const struct word TIERS[] = {
#define X(number, NAME, name) {name, number},
    DIVERGE_TIERS(X)
#undef X
        {NULL, 0}};
static const struct word FLAGS[] = {
#define X(number, NAME, name) {name, number},
    DIVERGE_FLAGS(X)
#undef X
        {NULL, 0}};

static int word_value(const struct word *words, const char *name, int number)
{
    for (; words->name; words++)
        if (strcmp(words->name, name) == 0)
            return words->value;
    script_fail(number, "no such word", name);
}

static const char *word_at(const struct script_line *line, size_t index)
{
    if (index >= line->count)
        script_fail(line->number, "too few words", line->words[0]);
    return line->words[index];
}

static uint64_t number_at(const struct script_line *line, size_t index)
{
    return strtoull(word_at(line, index), NULL, 10);
}

/* ---- options -------------------------------------------------------------------------------- */

static void keep_text(char to[MAX_TEXT], const char *from)
{
    snprintf(to, MAX_TEXT, "%s", from);
}

static bool take_option(struct recorder *recorder, const struct script_line *line)
{
    const char *name = line->words[0];
    struct diverge_options *options = &recorder->options;
    if (strcmp(name, "level") == 0) {
        options->level = word_value(TIERS, word_at(line, 1), line->number);
    } else if (strcmp(name, "sketch") == 0) {
        options->sketch = (int32_t)number_at(line, 1);
        options->flags |= DIVERGE_OPEN_SKETCH_OPS;
    } else if (strcmp(name, "spec") == 0) {
        keep_text(recorder->spec, word_at(line, 1));
        options->spec = recorder->spec;
    } else if (strcmp(name, "steps") == 0) {
        keep_text(recorder->steps, word_at(line, 1));
        options->steps = recorder->steps;
    } else if (strcmp(name, "metadata") == 0) {
        size_t n = options->n_metadata++;
        keep_text(recorder->texts[2 * n], word_at(line, 1));
        keep_text(recorder->texts[2 * n + 1], word_at(line, 2));
        recorder->metadata[n] =
            (struct diverge_metadata){recorder->texts[2 * n], recorder->texts[2 * n + 1]};
    } else {
        return strcmp(name, "world") == 0 || strcmp(name, "ranks") == 0; /* read before */
    }
    return true;
}

/* ---- segments and context ------------------------------------------------------------------- */

static void open_session(struct recorder *recorder)
{
    recorder->options.metadata = recorder->metadata;
    if (diverge_session_open(&recorder->options, &recorder->session) != 0)
        script_fail(0, "cannot open the session", recorder->options.name);
    recorder->lane = diverge_lane_open(recorder->session, "main");
}

static bool take_segment(struct recorder *recorder, const struct script_line *line)
{
    const char *name = line->words[0];
    bool init = strcmp(name, "init") == 0, step = strcmp(name, "step") == 0;
    if (!init && !step && strcmp(name, "boundary") != 0)
        return false;
    if (!recorder->session)
        open_session(recorder);
    recorder->n_named = 0;
    if (step)
        diverge_step(recorder->session, number_at(line, 1));
    else if (!init)
        diverge_boundary(recorder->session, number_at(line, 1));
    return true;
}

static bool take_context(struct recorder *recorder, const struct script_line *line)
{
    const char *name = line->words[0];
    struct diverge_lane *lane = recorder->lane;
    if (strcmp(name, "lane") == 0)
        recorder->lane = diverge_lane_open(recorder->session, word_at(line, 1));
    else if (strcmp(name, "phase") == 0)
        diverge_phase(lane, (enum diverge_phase)word_value(PHASES, word_at(line, 1), line->number));
    else if (strcmp(name, "micro") == 0)
        diverge_micro_step(lane, (uint32_t)number_at(line, 1));
    else if (strcmp(name, "region") == 0 || strcmp(name, "scope") == 0) {
        const char *text = word_at(line, 1);
        diverge_name_t id = strcmp(text, "-") ? diverge_lane_name(lane, text) : 0;
        name[0] == 'r' ? diverge_region(lane, id) : diverge_scope(lane, id);
    } else {
        return false;
    }
    return true;
}

/* ---- records -------------------------------------------------------------------------------- */

/* Records what `text` says: a number, a tensor, absent or unread. */
static diverge_ref_t record(struct recorder *recorder, const struct diverge_observation *what,
                            const char *text, uint64_t storage, int number)
{
    struct value value;
    diverge_ref_t ref = 0;
    if (strcmp(text, "absent") == 0) {
        diverge_record_absent(recorder->lane, what);
        return 0;
    }
    if (!strchr(text, '[')) {
        if (text[0] == 'i' && text[1] != 'n')
            diverge_record_integer(recorder->lane, what, strtoll(text + 1, NULL, 10));
        else
            diverge_record_float(recorder->lane, what, strtod(text, NULL));
        return 0;
    }
    bool unread = strstr(text, ":unread") != NULL;
    char copy[MAX_TEXT];
    keep_text(copy, text);
    if (unread)
        snprintf(strstr(copy, ":unread"), 8, ":0");
    if (!value_make(&value, copy))
        script_fail(number, "not a tensor", text);
    struct diverge_tensor tensor = diverge_dense(value.dtype, value.bytes, value.ndim, value.sizes);
    tensor.storage = storage;
    tensor.version = storage ? 1 : 0;
    uint64_t token;
    if (!unread)
        diverge_record(recorder->lane, what, &tensor, &ref);
    else if (diverge_reserve(recorder->lane, what, &tensor, &token) == 0)
        diverge_complete(recorder->session, token, NULL);
    value_free(&value);
    return ref;
}

static const struct named *find_named(const struct recorder *recorder, const char *text, int number)
{
    size_t length = strcspn(text, "/");
    for (size_t i = recorder->n_named; i-- > 0;)
        if (strlen(recorder->named[i].name) == length &&
            strncmp(recorder->named[i].name, text, length) == 0)
            return &recorder->named[i];
    script_fail(number, "no tensor of this name", text);
}

static void record_input(struct recorder *recorder, uint16_t slot, const char *text, int number)
{
    struct diverge_observation what = diverge_what(recorder->lane, DIVERGE_ROLE_INPUT, slot, NULL);
    char full[2 * MAX_TEXT];
    uint64_t storage = 0;
    snprintf(full, sizeof(full), "%s", text);
    if (text[0] == '<' || text[0] == '~') {
        const struct named *named = find_named(recorder, text + 1, number);
        what.producer = named->ref;
        what.inherit = text[0] == '~';
        storage = named->storage;
        snprintf(full, sizeof(full), "%s%s", named->text, text + 1 + strcspn(text + 1, "/"));
    }
    record(recorder, &what, full, storage, number);
}

static void record_output(struct recorder *recorder, uint16_t slot, const char *text, int number)
{
    struct diverge_observation what = diverge_what(recorder->lane, DIVERGE_ROLE_OUTPUT, slot, NULL);
    char full[MAX_TEXT];
    keep_text(full, text);
    char *name = strchr(full, '>');
    if (name)
        *name++ = '\0';
    uint64_t storage = name ? ++recorder->storages : 0;
    diverge_ref_t ref = record(recorder, &what, full, storage, number);
    if (!name)
        return;
    if (recorder->n_named == MAX_NAMED)
        script_fail(number, "too many names", name);
    struct named *named = &recorder->named[recorder->n_named++];
    snprintf(named->name, sizeof(named->name), "%s", name);
    keep_text(named->text, full);
    named->ref = ref;
    named->storage = storage;
}

static uint32_t parse_flags(char *text, int number)
{
    uint32_t flags = 0;
    char *rest;
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        flags |= (uint32_t)word_value(FLAGS, word, number);
    return flags;
}

static void record_attribute(struct recorder *recorder, char *text, int number)
{
    char *colon = strchr(text, ':');
    if (!colon)
        script_fail(number, "not NAME:NUMBER", text);
    *colon = '\0';
    struct diverge_observation what = diverge_what(recorder->lane, DIVERGE_ROLE_ATTR, 0, text);
    record(recorder, &what, colon + 1, 0, number);
}

static void take_op(struct recorder *recorder, const struct script_line *line)
{
    struct diverge_lane *lane = recorder->lane;
    const char *arguments = NULL, *source = NULL, *scope = NULL;
    uint32_t flags = 0;
    for (size_t i = 2; i < line->count; i++) {
        char *word = line->words[i];
        if (strncmp(word, "args=", 5) == 0)
            arguments = word + 5;
        else if (strncmp(word, "src=", 4) == 0)
            source = word + 4;
        else if (strncmp(word, "flags=", 6) == 0)
            flags = parse_flags(word + 6, line->number);
        else if (strncmp(word, "scope=", 6) == 0)
            scope = word + 6;
        else if (strncmp(word, "in=", 3) && strncmp(word, "out=", 4) && strncmp(word, "attr=", 5))
            script_fail(line->number, "not of an op", word);
    }
    if (scope)
        diverge_scope(lane, diverge_lane_name(lane, scope));
    uint16_t inputs = 0, outputs = 0;
    diverge_op_begin(lane, diverge_lane_name(lane, word_at(line, 1)), flags, arguments,
                     diverge_lane_name(lane, source));
    for (size_t i = 2; i < line->count; i++) {
        char *word = line->words[i];
        if (strncmp(word, "in=", 3) == 0)
            record_input(recorder, inputs++, word + 3, line->number);
        else if (strncmp(word, "out=", 4) == 0)
            record_output(recorder, outputs++, word + 4, line->number);
        else if (strncmp(word, "attr=", 5) == 0)
            record_attribute(recorder, word + 5, line->number);
    }
    diverge_op_end(lane);
    if (scope)
        diverge_scope(lane, 0);
}

static void take_batch(struct recorder *recorder, const struct script_line *line)
{
    struct value value;
    if (!value_make(&value, word_at(line, 2)))
        script_fail(line->number, "not a tensor", line->words[2]);
    struct diverge_view view = {
        .data = value.bytes, .dtype = value.dtype, .ndim = value.ndim, .sizes = value.sizes};
    diverge_batch(recorder->lane, word_at(line, 1), &view);
    value_free(&value);
}

static void take_ids(struct recorder *recorder, const struct script_line *line)
{
    int64_t ids[64];
    size_t count = 0;
    for (const char *at = word_at(line, 1); *at && count < 64; at += *at == ',')
        ids[count++] = strtoll(at, (char **)&at, 10);
    diverge_batch_ids(recorder->lane, ids, count);
}

static void take_record(struct recorder *recorder, const struct script_line *line)
{
    const char *kind = line->words[0];
    bool field = strcmp(kind, "field") == 0, evidence = strcmp(kind, "evidence") == 0;
    struct diverge_observation what =
        diverge_what(recorder->lane,
                     field      ? DIVERGE_ROLE_BATCH
                     : evidence ? DIVERGE_ROLE_ATTR
                                : (enum diverge_role)word_value(ROLES, kind, line->number),
                     0, word_at(line, 1));
    what.flags = evidence                               ? DIVERGE_FLAG_EVIDENCE
                 : what.role == DIVERGE_ROLE_COLLECTIVE ? DIVERGE_FLAG_COLLECTIVE
                                                        : 0;
    record(recorder, &what, word_at(line, 2), 0, line->number);
}

static void take_line(void *ctx, const struct script_line *line)
{
    static const char *const ours[] = {"expect", "says", "never", "options", "status", NULL};
    struct recorder *recorder = ctx;
    const char *name = line->words[0];
    for (size_t i = 0; ours[i]; i++)
        if (strcmp(ours[i], name) == 0)
            return;
    if (take_option(recorder, line) || take_segment(recorder, line))
        return;
    if (!recorder->session)
        script_fail(line->number, "before the first segment", name);
    if (take_context(recorder, line))
        return;
    if (strcmp(name, "kill") == 0) {
        diverge_flush(recorder->session, 10000);
        raise(SIGKILL);
    }
    if (strcmp(name, "fail") == 0)
        recorder->outcome = DIVERGE_OUTCOME_FAILED;
    else if (strcmp(name, "op") == 0)
        take_op(recorder, line);
    else if (strcmp(name, "batch") == 0)
        take_batch(recorder, line);
    else if (strcmp(name, "ids") == 0)
        take_ids(recorder, line);
    else if (strcmp(name, "counter") == 0)
        diverge_counter(recorder->session, word_at(line, 1), (int64_t)number_at(line, 2));
    else if (strcmp(name, "rng") == 0)
        diverge_rng(recorder->lane, word_at(line, 1), (uint16_t)number_at(line, 2),
                    word_at(line, 3), strlen(word_at(line, 3)));
    else
        take_record(recorder, line);
}

/* ---- processes ------------------------------------------------------------------------------ */

struct world {
    int declared, recorded;
};

static void find_world(void *ctx, const struct script_line *line)
{
    struct world *world = ctx;
    if (strcmp(line->words[0], "world") == 0)
        world->declared = world->recorded = (int)number_at(line, 1);
    else if (strcmp(line->words[0], "ranks") == 0)
        world->recorded = (int)number_at(line, 1);
}

static int record_rank(const struct script *script, char run, const char *name, int rank, int world)
{
    char run_name[128], run_id[40];
    struct recorder recorder = {.options = DIVERGE_OPTIONS_INIT};
    snprintf(run_name, sizeof(run_name), "%s-%c", name, run + ('a' - 'A'));
    /* All ranks of a run share its id; other runs have other parents or letters. */
    snprintf(run_id, sizeof(run_id), "%02x%022llx%08x", run, 0ULL, (unsigned)getppid());
    recorder.options.name = run_name;
    recorder.options.run_id = run_id;
    recorder.options.rank = rank;
    recorder.options.world = world;
    recorder.options.flags = DIVERGE_OPEN_REQUIRE;
    script_run(script, run, rank, take_line, &recorder);
    if (!recorder.session)
        open_session(&recorder);
    return diverge_session_close(recorder.session, recorder.outcome) == 0 ? 0 : 1;
}

static int wait_for(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return 1;
    if (WIFSIGNALED(status)) /* as the script wanted */
        return WTERMSIG(status) == SIGKILL ? 0 : 1;
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    struct script script;
    int status = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: %s FILE NAME\n", argv[0]);
        return 64;
    }
    script_read(&script, argv[1]);
    for (char run = 'A'; run <= 'B'; run++) {
        struct world world = {1, 1};
        script_run(&script, run, 0, find_world, &world);
        for (int rank = 0; rank < world.recorded && status == 0; rank++) {
            pid_t child = fork();
            if (child == 0)
                exit(record_rank(&script, run, argv[2], rank, world.declared));
            status = wait_for(child);
        }
    }
    script_free(&script);
    return status;
}
