/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/text.h"
#include "client/wire/message.h"

#define SPOOL_BYTES_DEFAULT (UINT64_C(1) << 30)
enum { WAIT_MS_DEFAULT = 100, WAIT_MS_MAX = 3600 * 1000 };

__attribute__((format(printf, 3, 4))) static int refuse(struct dvg_error *error, int status,
                                                        const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

/* A variable that holds nonsense must not cost the recording: it is as if it were not set. */
static void pass_over(struct dvg_error *error, const char *variable, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void pass_over(struct dvg_error *error, const char *variable, const char *format, ...)
{
    size_t used = strlen(error->passed_over);
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(error->passed_over + used, sizeof(error->passed_over) - used,
             "%s%s is passed over: %s", used ? "; " : "", variable, text);
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* An unsigned decimal number and nothing else. */
static bool parse_number(const char *text, uint64_t max, uint64_t *ret)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value > max)
        return false;
    *ret = value;
    return true;
}

/* Bytes: a number, with K, M, G or T (also KiB, …) behind it in powers of 1024. */
static bool parse_size(const char *text, uint64_t *ret)
{
    static const char suffixes[] = "KMGT";
    size_t digits = strspn(text, "0123456789");
    char number[32];
    if (digits >= sizeof(number))
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    const char *unit = text + digits;
    unsigned shift = 0;
    if (*unit) {
        const char *suffix = strchr(suffixes, *unit & ~0x20);
        if (!suffix || !*suffix || (unit[1] && strcmp(unit + 1, "iB") != 0))
            return false;
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    }
    uint64_t value;
    if (!parse_number(number, UINT64_MAX >> shift, &value))
        return false;
    *ret = value << shift;
    return true;
}

/* What identifies and scopes a run is for whoever launches the job: the variable wins over the
 * program's option. */
static const char *launched(const char *variable, const char *given)
{
    const char *value = environment(variable);
    return value ? value : given;
}

/* The number that a variable holds, `fallback` when it is not set. */
static int number_from(const char *variable, uint64_t max, uint64_t fallback, uint64_t *ret,
                       struct dvg_error *error)
{
    const char *text = environment(variable);
    if (!text) {
        *ret = fallback;
        return 0;
    }
    if (!parse_number(text, max, ret))
        return refuse(error, DIVERGE_EINVAL, "%s=%.64s: expected a number up to %llu", variable,
                      text, (unsigned long long)max);
    return 0;
}

/* The same of a variable of ours: `fallback` too when it holds no number. */
static uint64_t number_or(const char *variable, uint64_t max, uint64_t fallback,
                          struct dvg_error *error)
{
    const char *text = environment(variable);
    uint64_t value = fallback;
    if (text && !parse_number(text, max, &value))
        pass_over(error, variable, "'%.64s': expected a number up to %llu", text,
                  (unsigned long long)max);
    return value;
}

/* ---- the run --------------------------------------------------------------------------------- */

int dvg_random(void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return DIVERGE_EIO;
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int set_run_id(struct dvg_config *config, const char *given, struct dvg_error *error)
{
    const char *text = launched("DIVERGE_RUN_ID", given);
    if (!text)
        return dvg_random(config->run_id, sizeof(config->run_id))
                   ? refuse(error, DIVERGE_EIO, "no random bytes for the run's id")
                   : 0;
    if (strlen(text) != 32)
        return refuse(error, DIVERGE_EINVAL, "run id '%.64s': expected 32 hex digits", text);
    for (int i = 0; i < 16; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return refuse(error, DIVERGE_EINVAL, "run id '%.64s': expected 32 hex digits", text);
        config->run_id[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

static bool is_name_byte(char c, bool first)
{
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
        return true;
    return !first && (c == '.' || c == '_' || c == '-');
}

/* A program's name is bent into a run's; a name that somebody chose must be one. */
static int take_name(struct dvg_config *config, const char *text, struct dvg_error *error)
{
    bool chosen = text != NULL;
    if (!text)
        text = program_invocation_short_name;
    size_t size = 0;
    for (const char *at = text; *at; at++) {
        bool fits = size < DVG_NAME_MAX;
        bool valid = is_name_byte(*at, size == 0);
        if (chosen && !(fits && valid))
            return refuse(
                error, DIVERGE_EINVAL,
                "run name '%.128s': expected at most %d of A-Z a-z 0-9 . _ -, the first a "
                "letter or digit",
                text, DVG_NAME_MAX);
        if (fits && (valid || size))
            config->name[size++] = valid ? *at : '-';
    }
    memcpy(size ? config->name + size : config->name, size ? "" : "run", size ? 1 : 4);
    return 0;
}

static int set_name(struct dvg_config *config, const char *given, struct dvg_error *error)
{
    const char *text = environment("DIVERGE_RUN_NAME");
    if (text && take_name(config, text, error) == 0)
        return 0;
    if (text)
        pass_over(error, "DIVERGE_RUN_NAME", "%s", error->text);
    return take_name(config, given, error);
}

static int set_ranks(struct dvg_config *config, const struct diverge_options *options,
                     struct dvg_error *error)
{
    uint64_t rank = (uint64_t)options->rank;
    uint64_t world = (uint64_t)options->world;
    int rc = 0;
    if (options->rank < 0)
        rc = number_from("RANK", DVG_RANKS_MAX - 1, 0, &rank, error);
    if (!rc && options->world <= 0)
        rc = number_from("WORLD_SIZE", DVG_RANKS_MAX, 1, &world, error);
    if (rc)
        return rc;
    if (rank >= DVG_RANKS_MAX || !world || world > DVG_RANKS_MAX || rank >= world)
        return refuse(error, DIVERGE_EINVAL,
                      "rank %llu of %llu ranks: rank must be below the "
                      "number of ranks, at most %d",
                      (unsigned long long)rank, (unsigned long long)world, DVG_RANKS_MAX);
    config->rank = (uint32_t)rank;
    config->world = (uint32_t)world;
    return 0;
}

/* ---- what is recorded ------------------------------------------------------------------------ */

static int set_level(struct dvg_config *config, int32_t given, struct dvg_error *error)
{
    static const char *const names[] = {
#define X(number, NAME, name) [number] = (name),
        DIVERGE_TIERS(X)
#undef X
    };
    if (given > DIVERGE_TIER_OP)
        return refuse(error, DIVERGE_EINVAL, "level %d: expected 0 to %d", given, DIVERGE_TIER_OP);
    config->level = given < 0 ? DIVERGE_TIER_OP : (enum diverge_tier)given;
    const char *text = environment("DIVERGE_LEVEL");
    if (!text)
        return 0;
    for (int level = 0; level <= DIVERGE_TIER_OP; level++) {
        if (strcmp(text, names[level]) == 0) {
            config->level = (enum diverge_tier)level;
            return 0;
        }
    }
    pass_over(error, "DIVERGE_LEVEL", "'%.64s': expected pulse, step, layer or op", text);
    return 0;
}

/* One number of a range, or `fallback` when it is left out; moves *at behind it. */
static bool take_bound(const char **at, uint64_t fallback, uint64_t *ret)
{
    if (**at < '0' || **at > '9') {
        *ret = fallback;
        return true;
    }
    char *end;
    errno = 0;
    *ret = strtoull(*at, &end, 10);
    *at = end;
    return !errno;
}

/* "7", "3:9", ":9", "3:", "::16": first, last (both included), stride. */
static bool take_range(const char **at, struct dvg_step_range *ret)
{
    const char *start = *at;
    *ret = (struct dvg_step_range){.stride = 1};
    if (!take_bound(at, 0, &ret->first))
        return false;
    ret->last = ret->first;
    if (**at == ':') {
        ++*at;
        if (!take_bound(at, UINT64_MAX, &ret->last))
            return false;
        if (**at == ':') {
            ++*at;
            if (!take_bound(at, 1, &ret->stride))
                return false;
        }
    }
    return *at != start && ret->first <= ret->last && ret->stride;
}

static int take_steps(struct dvg_config *config, const char *text, struct dvg_error *error)
{
    config->n_steps = 0;
    if (!text || !*text)
        return 0;
    for (const char *at = text;; at++) {
        if (config->n_steps == DVG_STEP_RANGES_MAX)
            return refuse(error, DIVERGE_EINVAL, "steps '%.64s…': more than %d ranges", text,
                          DVG_STEP_RANGES_MAX);
        if (!take_range(&at, &config->steps[config->n_steps++]) || (*at && *at != ','))
            return refuse(error, DIVERGE_EINVAL,
                          "steps '%.128s': expected ranges like 100:103,200 or ::16", text);
        if (!*at)
            return 0;
    }
}

static int set_steps(struct dvg_config *config, const char *given, struct dvg_error *error)
{
    const char *text = environment("DIVERGE_STEPS");
    if (text && take_steps(config, text, error) == 0)
        return 0;
    if (text)
        pass_over(error, "DIVERGE_STEPS", "%s", error->text);
    return take_steps(config, given, error);
}

static bool has_step(const struct dvg_config *config, uint64_t step)
{
    for (uint32_t i = 0; i < config->n_steps; i++) {
        const struct dvg_step_range *range = &config->steps[i];
        if (step >= range->first && step <= range->last &&
            (step - range->first) % range->stride == 0)
            return true;
    }
    return config->n_steps == 0;
}

/* A step's own boundaries go with it: the state before it and after it. Init goes with boundary 0.
 */
static bool has_segment(const struct dvg_config *config, uint64_t segment)
{
    if (segment == 0)
        return has_step(config, 0);
    uint64_t k = (segment - 1) / 2;
    if (segment == diverge_segment_of_step(k))
        return has_step(config, k);
    return has_step(config, k) || (k > 0 && has_step(config, k - 1));
}

uint8_t dvg_config_wanted(const struct dvg_config *config, uint64_t segment)
{
    unsigned level = has_segment(config, segment) ? (unsigned)config->level : DIVERGE_TIER_PULSE;
    unsigned tiers = (2u << level) - 1;
    return (uint8_t)(tiers | 1u << DIVERGE_TIER_EVIDENCE);
}

static bool is_sketch(uint64_t size)
{
    return size == 0 || size == 32 || size == 64;
}

static int set_sketch(struct dvg_config *config, int32_t given, struct dvg_error *error)
{
    uint64_t size = (uint64_t)given;
    if (given && !is_sketch(size))
        return refuse(error, DIVERGE_EINVAL, "sketch of %d sums: expected 0, 32 or 64", given);
    if (!given)
        size = number_or("DIVERGE_SKETCH", DIVERGE_SKETCH_MAX, 0, error);
    if (!is_sketch(size)) {
        pass_over(error, "DIVERGE_SKETCH", "a sketch of %llu sums: expected 0, 32 or 64",
                  (unsigned long long)size);
        size = 0;
    }
    config->sketch = (uint32_t)size;
    return 0;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static uint64_t spool_bytes(struct dvg_error *error)
{
    const char *text = environment("DIVERGE_SPOOL_BYTES");
    uint64_t bytes = SPOOL_BYTES_DEFAULT;
    if (text && !parse_size(text, &bytes))
        pass_over(error, "DIVERGE_SPOOL_BYTES", "'%.64s': expected bytes, such as 4096, 64M or 1G",
                  text);
    return bytes;
}

static int set_limits(struct dvg_config *config, const struct diverge_options *options,
                      struct dvg_error *error)
{
    uint64_t wait_ms = (uint64_t)options->wait_ms;
    if (options->wait_ms == DIVERGE_NO_WAIT)
        wait_ms = 0;
    else if (options->wait_ms <= 0)
        wait_ms = number_or("DIVERGE_WAIT_MS", WAIT_MS_MAX, WAIT_MS_DEFAULT, error);
    if (options->ring_bytes > SIZE_MAX / 8)
        return refuse(error, DIVERGE_EINVAL, "ring of %zu bytes", options->ring_bytes);
    config->wait_ns = (int64_t)(wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX) * 1000000;
    config->spool_bytes = options->spool_bytes ? options->spool_bytes : spool_bytes(error);
    config->ring_bytes = options->ring_bytes;
    return 0;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static int set_socket(struct dvg_config *config, const char *given, struct dvg_error *error)
{
    char path[PATH_MAX];
    const char *text = given ? given : environment("DIVERGE_SOCKET");
    if (!given && text && strlen(text) > DVG_SOCKET_PATH_MAX) {
        pass_over(error, "DIVERGE_SOCKET", "its path has %zu bytes, a Unix socket takes %d",
                  strlen(text), DVG_SOCKET_PATH_MAX);
        text = NULL;
    }
    const char *runtime = environment("XDG_RUNTIME_DIR");
    int size;
    if (text)
        size = snprintf(path, sizeof(path), "%s", text);
    else if (runtime && *runtime == '/') /* the XDG specification has relative ones ignored */
        size = snprintf(path, sizeof(path), "%s/diverge/diverged.sock", runtime);
    else
        size =
            snprintf(path, sizeof(path), "/tmp/diverge-%lu/diverged.sock", (unsigned long)getuid());
    if (size < 0 || size > DVG_SOCKET_PATH_MAX)
        return refuse(
            error, DIVERGE_EINVAL,
            "the socket's path has %d bytes, a Unix socket takes %d; set DIVERGE_SOCKET to "
            "a shorter one: %.200s",
            size, DVG_SOCKET_PATH_MAX, path);
    memcpy(config->socket_path, path, (size_t)size + 1);
    return 0;
}

static int set_path(char ret[PATH_MAX], const char *text, struct dvg_error *error)
{
    int size = snprintf(ret, PATH_MAX, "%s", text);
    return size < 0 || size >= PATH_MAX
               ? refuse(error, DIVERGE_EINVAL, "path too long: %.80s…", text)
               : 0;
}

static int set_spool_dir(struct dvg_config *config, const char *given, struct dvg_error *error)
{
    const char *text = given ? given : environment("DIVERGE_SPOOL");
    if (!given && text && strlen(text) >= PATH_MAX) {
        pass_over(error, "DIVERGE_SPOOL", "path too long: %.80s…", text);
        text = NULL;
    }
    if (text)
        return set_path(config->spool_dir, text, error);
    const char *slash = strrchr(config->socket_path, '/');
    size_t size = slash ? (size_t)(slash - config->socket_path) : 0;
    if (!slash)
        return set_path(config->spool_dir, ".", error);
    memcpy(config->spool_dir, config->socket_path, size);
    config->spool_dir[size] = '\0';
    return size ? 0 : set_path(config->spool_dir, "/", error);
}

static int set_spec(struct dvg_config *config, const char *given, struct dvg_error *error)
{
    const char *text = given ? given : "";
    char clean[DVG_TEXT_MAX];
    size_t size = strlen(text);
    if (size > DVG_SPEC_MAX || dvg_utf8_clean(text, size, clean) != size ||
        memcmp(clean, text, size) != 0)
        return refuse(error, DIVERGE_EINVAL, "spec: expected at most %d bytes of UTF-8",
                      DVG_SPEC_MAX);
    memcpy(config->spec, text, size + 1);
    return 0;
}

int dvg_folder_check(const char *dir, bool make, struct dvg_error *error)
{
    struct stat st;
    if (make && mkdir(dir, 0700) != 0 && errno != EEXIST)
        return refuse(error, errno == ENOENT ? DIVERGE_ENOTFOUND : DIVERGE_EPERM,
                      "cannot make the folder %s: %s", dir, strerror(errno));
    if (lstat(dir, &st) != 0)
        return refuse(error, errno == ENOENT ? DIVERGE_ENOTFOUND : DIVERGE_EPERM, "folder %s: %s",
                      dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return refuse(error, DIVERGE_EPERM, "%s is %s", dir,
                      S_ISLNK(st.st_mode) ? "a symbolic link; name the folder that it points to"
                                          : "no folder");
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return refuse(error, DIVERGE_EPERM, "the folder %s belongs to user %lu, not to you (%lu)",
                      dir, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if (st.st_mode & S_IWOTH)
        return refuse(error, DIVERGE_EPERM,
                      "everybody can write to the folder %s (mode %04o); use a private one", dir,
                      (unsigned)st.st_mode & 07777);
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Callers of another version may have a shorter or longer struct: what both know is taken. */
static void take_options(struct diverge_options *ret, const struct diverge_options *given)
{
    *ret = (struct diverge_options)DIVERGE_OPTIONS_INIT;
    if (!given)
        return;
    size_t size = given->size < sizeof(*ret) ? given->size : sizeof(*ret);
    memcpy(ret, given, size);
    ret->size = sizeof(*ret);
}

int dvg_config_init(struct dvg_config *config, const struct diverge_options *given,
                    struct dvg_error *error)
{
    *error->text = *error->passed_over = '\0';
    const char *disable = environment("DIVERGE_DISABLE");
    if (disable && strcmp(disable, "0") != 0)
        return DIVERGE_ECLOSED;
    if (given && given->size < offsetof(struct diverge_options, recording))
        return refuse(error, DIVERGE_EINVAL,
                      "options without a size: begin with DIVERGE_OPTIONS_INIT");
    struct diverge_options options;
    take_options(&options, given);
    memset(config, 0, sizeof(*config));
    config->flags = options.flags;
    const char *recording =
        options.recording ? options.recording : environment("DIVERGE_RECORDING");
    int rc = set_name(config, options.name, error);
    rc = rc ? rc : set_run_id(config, options.run_id, error);
    rc = rc ? rc : set_ranks(config, &options, error);
    rc = rc ? rc : set_level(config, options.level, error);
    rc = rc ? rc : set_steps(config, options.steps, error);
    rc = rc ? rc : set_sketch(config, options.sketch, error);
    rc = rc ? rc : set_limits(config, &options, error);
    rc = rc ? rc : set_spec(config, options.spec, error);
    rc = rc ? rc : set_path(config->recording, recording ? recording : "", error);
    if (rc || *config->recording)
        return rc;
    rc = set_socket(config, options.socket_path, error);
    return rc ? rc : set_spool_dir(config, options.spool_dir, error);
}
