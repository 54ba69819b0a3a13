/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <diverge/error.h>

#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/emit.h"
#include "client/ctl/encode.h"
#include "client/ctl/mem.h"
#include "client/ctl/progress.h"
#include "client/ctl/text.h"

static struct {
    const char *output;
} options;

static void report(const struct source_run *run, const struct encode_result *result, bool to_stdout)
{
    struct emit emit;

    if (result->pruned)
        ctl_note("%s thinned by retention: the file has a gap there",
                 text_things(result->pruned, "record"));
    if (to_stdout)
        return;
    if (ctl.json) {
        emit_begin(&emit, "export");
        emit_string(&emit, "run", text_id(run->info.run_id));
        emit_string(&emit, "name", run->info.name);
        emit_string(&emit, "file", options.output);
        emit_u64(&emit, "streams", result->streams);
        emit_u64(&emit, "segments", result->segments);
        emit_u64(&emit, "records", result->records);
        emit_u64(&emit, "pruned", result->pruned);
        emit_u64(&emit, "bytes", result->bytes);
        emit_print(&emit);
        return;
    }
    printf("%s: %s, %s\n", text_escape(options.output), text_things(result->records, "record"),
           text_bytes(result->bytes));
}

static int write_error(const char *path, int number)
{
    return ctl_fail(number == EACCES || number == EPERM ? EX_NOPERM : EX_CANTCREAT, "%s: %s",
                    text_escape(path), strerror(number));
}

static int encode_to(const struct source_run *run, FILE *file, struct encode_result *result)
{
    progress_begin("exporting");
    int error = encode_run(run, file, result);

    progress_end();
    if (!error && fflush(file) != 0)
        error = DIVERGE_EIO;
    if (error == DIVERGE_EIO && ferror(file))
        return write_error(options.output, errno);
    return error ? ctl_fail_error(error, run->as, NULL) : EX_OK;
}

static const char *unfinished; /* a file that is not to stay when the command ends early */

static void remove_unfinished(void)
{
    if (unfinished)
        unlink(unfinished);
    unfinished = NULL;
}

/* Written beside its place and renamed when it is whole. */
static int export_file(const struct source_run *run, struct encode_result *result)
{
    char *partial = mem_printf("%s.XXXXXX", options.output);

    if (atexit(remove_unfinished) != 0)
        return ctl_fail(EX_SOFTWARE, "out of memory");
    int fd = mkstemp(partial);
    mode_t mask = umask(0);

    umask(mask);
    if (fd < 0)
        return write_error(options.output, errno);
    unfinished = partial;
    fchmod(fd, 0666 & ~mask); /* as open would; mkstemp makes it 0600 */
    FILE *file = fdopen(fd, "w");

    if (!file) {
        close(fd);
        remove_unfinished();
        return ctl_fail(EX_SOFTWARE, "out of memory");
    }
    int status = encode_to(run, file, result);

    if (fclose(file) != 0 && !status)
        status = write_error(options.output, errno);
    if (!status && rename(partial, options.output) != 0)
        status = write_error(options.output, errno);
    if (status)
        remove_unfinished();
    unfinished = NULL;
    return status;
}

static int run(int argc, const char *const *argv)
{
    struct source_run found;
    struct encode_result result;
    bool to_stdout = options.output && !strcmp(options.output, "-");

    (void)argc;
    if (!options.output)
        return ctl_fail(EX_USAGE, "where to? name a file with -o FILE, or - for stdout");
    if (to_stdout && isatty(STDOUT_FILENO))
        return ctl_fail(EX_USAGE, "a recording is no text for a terminal: use -o FILE");
    int status = source_find(argv[0], &found);

    if (!status)
        status = to_stdout ? encode_to(&found, stdout, &result) : export_file(&found, &result);
    if (!status)
        report(&found, &result, to_stdout);
    return status;
}

static const struct cmd_option rows[] = {
    {.name = "output",
     .letter = 'o',
     .type = CMD_STRING,
     .value = &options.output,
     .argument = "FILE",
     .words = CMD_WORDS_FILE,
     .help = "the file to write; - is stdout"},
};

static const char *const description[] = {
    "Writes a run as a recording: a file in the wire's own format, which import takes and "
    "first-diff reads. It holds fingerprints, names and metadata, no tensors.",
    NULL,
};

static const struct cmd_example examples[] = {
    {"divergectl export base -o base.dvg", "to send it to somebody else"},
    {NULL, NULL},
};

const struct cmd cmd_export = {
    .name = "export",
    .group = CMD_GROUP_KEEP,
    .summary = "Write a run to a file",
    .synopsis = "RUN",
    .description = description,
    .options = rows,
    .n_options = CMD_COUNT(rows),
    .words = CMD_WORDS_RUN,
    .min_arguments = 1,
    .max_arguments = 1,
    .json = true,
    .examples = examples,
    .run = run,
};
