/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/environment.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <diverge/fingerprint.h>

#include "client/lib/text.h"

/* Variables that change what a training computes. Everything else stays in the process. */
static const char *const variables[] = {
    "OMP_NUM_THREADS",
    "OMP_SCHEDULE",
    "OMP_DYNAMIC",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "MKL_NUM_THREADS",
    "MKL_DYNAMIC",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "GLIBC_TUNABLES",
    "PYTHONHASHSEED",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDNN_DETERMINISTIC",
    "NVIDIA_TF32_OVERRIDE",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_NTHREADS",
    "HIP_VISIBLE_DEVICES",
    "TF_DETERMINISTIC_OPS",
    "TF_CUDNN_DETERMINISTIC",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
    "XLA_USE_BF16",
    "XLA_DOWNCAST_BF16",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "PYTORCH_CUDA_ALLOC_CONF",
    "JAX_ENABLE_X64",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
};

/* ---- secrets --------------------------------------------------------------------------------- */

static const char *const secret_words[] = {"token",  "password",   "passwd", "secret", "key",
                                           "bearer", "credential", "auth",   "pwd"};

static bool contains_word(const char *text, size_t size, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++) {
        if (strncasecmp(text + i, word, length) == 0)
            return true;
    }
    return false;
}

static bool names_a_secret(const char *text, size_t size)
{
    for (size_t i = 0; i < sizeof(secret_words) / sizeof(secret_words[0]); i++) {
        if (contains_word(text, size, secret_words[i]))
            return true;
    }
    return false;
}

/* Appends `text`, shell-quoted where it must be. */
static int quote(struct dvg_buffer *out, const char *text, size_t size)
{
    bool plain = size > 0;
    for (size_t i = 0; i < size; i++)
        plain = plain && (isalnum((unsigned char)text[i]) || strchr("%+,-./:=@_*", text[i]));
    if (plain)
        return dvg_buffer_append(out, text, size);
    int rc = dvg_buffer_append(out, "'", 1);
    for (size_t i = 0; !rc && i < size; i++) {
        bool is_quote = text[i] == '\'';
        rc = dvg_buffer_append(out, is_quote ? "'\\''" : text + i, is_quote ? 4 : 1);
    }
    return rc ? rc : dvg_buffer_append(out, "'", 1);
}

/* Copies `text` to `ret` with what stands between "://" and "@" replaced; returns its size. */
static size_t hide_credentials(const char *text, char *ret, size_t capacity)
{
    size_t size = 0;
    while (*text && size + 4 < capacity) {
        const char *authority = strncmp(text, "://", 3) == 0 ? text + 3 : NULL;
        size_t length = authority ? strcspn(authority, "/?# ") : 0;
        const char *at = authority ? memrchr(authority, '@', length) : NULL;
        if (!at) {
            ret[size++] = *text++;
            continue;
        }
        memcpy(ret + size, "://***", capacity - size < 6 ? capacity - size : 6);
        size = size + 6 < capacity ? size + 6 : capacity;
        text = at;
    }
    return size;
}

int dvg_argument_redact(struct dvg_buffer *out, const char *argument, int *in_secret)
{
    bool is_option = *argument == '-';
    bool hide = *in_secret && !is_option;
    *in_secret = 0;
    if (hide)
        return dvg_buffer_append(out, "***", 3);
    const char *equals = strchr(argument, '=');
    size_t name = equals ? (size_t)(equals - argument) : strlen(argument);
    if ((is_option || equals) && names_a_secret(argument, name)) {
        *in_secret = is_option && !equals;
        int rc = quote(out, argument, equals ? name + 1 : name);
        return rc || !equals ? rc : dvg_buffer_append(out, "***", 3);
    }
    char text[DVG_TEXT_MAX];
    size_t size = hide_credentials(argument, text, sizeof(text));
    return quote(out, text, size);
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* The first bytes of a file, NUL-terminated; their number, 0 when it cannot be read. */
static size_t read_file(const char *path, char *ret, size_t capacity)
{
    ret[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t size = 0;
    while (size < capacity - 1) {
        ssize_t n = read(fd, ret + size, capacity - 1 - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        size += (size_t)n;
    }
    close(fd);
    ret[size] = '\0';
    return size;
}

/* The program's name and its arguments, without the path it was started by. */
static int add_command_line(struct dvg_metadata_set *set)
{
    enum { CAPACITY = 32 * 1024 };
    char *arguments = malloc(CAPACITY);
    if (!arguments)
        return DIVERGE_ENOMEM;
    size_t size = read_file("/proc/self/cmdline", arguments, CAPACITY);
    struct dvg_buffer line;
    dvg_buffer_init(&line, DVG_TEXT_MAX);
    int in_secret = 0;
    int full = 0;
    for (size_t at = strlen(arguments) + 1; at < size && !full; at += strlen(arguments + at) + 1) {
        full = line.size ? dvg_buffer_append(&line, " ", 1) : 0;
        full = full ? full : dvg_argument_redact(&line, arguments + at, &in_secret);
    }
    /* A line that does not fit is cut; its end gives way to the NUL. */
    int rc = dvg_buffer_append(&line, "", 1);
    if (rc && line.size) {
        line.data[line.size - 1] = '\0';
        rc = 0;
    }
    rc = rc ? rc : dvg_metadata_put(set, "argv", (const char *)line.data);
    rc = rc ? rc : dvg_metadata_put(set, "program", program_invocation_short_name);
    dvg_buffer_fini(&line);
    free(arguments);
    return rc;
}

static int add_executable(struct dvg_metadata_set *set)
{
    char path[DVG_TEXT_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (size <= 0)
        return 0;
    path[size] = '\0';
    return dvg_metadata_put(set, "exe", path);
}

static int add_cpu(struct dvg_metadata_set *set)
{
    char text[8192];
    int rc = 0;
    if (read_file("/proc/cpuinfo", text, sizeof(text))) {
        char *model = strstr(text, "model name");
        char *colon = model ? strchr(model, ':') : NULL;
        if (colon) {
            colon += strspn(colon, ": \t");
            colon[strcspn(colon, "\n")] = '\0';
            rc = dvg_metadata_put(set, "cpu.model", colon);
        }
    }
    cpu_set_t allowed;
    if (!rc && sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        char count[16];
        snprintf(count, sizeof(count), "%d", CPU_COUNT(&allowed));
        rc = dvg_metadata_put(set, "cpu.count", count);
    }
    return rc;
}

static int add_system(struct dvg_metadata_set *set)
{
    struct utsname name;
    int rc = 0;
    if (uname(&name) == 0) {
        rc = dvg_metadata_put(set, "host", name.nodename);
        rc = rc ? rc : dvg_metadata_put(set, "kernel", name.release);
        rc = rc ? rc : dvg_metadata_put(set, "machine", name.machine);
    }
    char libc[64];
    snprintf(libc, sizeof(libc), "glibc %s", gnu_get_libc_version());
    return rc ? rc : dvg_metadata_put(set, "libc", libc);
}

static int add_process(struct dvg_metadata_set *set)
{
    char text[64];
    snprintf(text, sizeof(text), "%ld", (long)getpid());
    int rc = dvg_metadata_put(set, "pid", text);
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    rc = rc ? rc : dvg_metadata_put(set, "started", text);
    char directory[DVG_TEXT_MAX];
    if (!rc && getcwd(directory, sizeof(directory)))
        rc = dvg_metadata_put(set, "cwd", directory);
    return rc;
}

static int add_library(struct dvg_metadata_set *set)
{
    int rc = dvg_metadata_put(set, "library.libdiverge", DIVERGE_VERSION);
    return rc ? rc : dvg_metadata_put(set, "fingerprint.kernel", diverge_kernel_name());
}

static int add_variables(struct dvg_metadata_set *set)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);
        if (!value)
            continue;
        char key[80];
        snprintf(key, sizeof(key), "env.%s", variables[i]);
        rc = dvg_metadata_put(set, key, value);
    }
    return rc;
}

int dvg_environment_collect(struct dvg_metadata_set *set)
{
    int rc = add_command_line(set);
    rc = rc ? rc : add_executable(set);
    rc = rc ? rc : add_cpu(set);
    rc = rc ? rc : add_system(set);
    rc = rc ? rc : add_process(set);
    rc = rc ? rc : add_library(set);
    return rc ? rc : add_variables(set);
}
