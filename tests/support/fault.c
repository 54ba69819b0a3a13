/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions here come before libc's in symbol order, whether this is linked into a program or
 * preloaded, and pass on to the next definition (libc's, or a sanitizer's interceptor).
 *
 * Nothing here may allocate, and all state is atomic: these run on any thread, in a signal
 * handler's worth of context. The counters are relaxed; which of two racing calls is the Nth does
 * not matter.
 */
#include "fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct fault {
    atomic_long countdown; /* below zero: not armed, or past */
    atomic_int error;      /* 0: not armed */
    atomic_bool on;        /* stays broken */
    const char *flag_path; /* set before any thread starts: broken while this exists */
};

/* In place of an errno: the call does not fail, the process ends there. */
enum { FAULT_KILL = -1 };

static struct fault faults[DVG_FAULT_KIND_COUNT];
static atomic_bool fired;
static const char *report_path; /* set before any thread starts */

/* ---- the decision ---- */

static void fault_report(void)
{
    if (atomic_exchange(&fired, true) || !report_path)
        return;
    long fd = syscall(SYS_openat, AT_FDCWD, report_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        syscall(SYS_close, fd);
}

static bool fault_due(struct fault *f)
{
    if (f->flag_path)
        return syscall(SYS_faccessat, AT_FDCWD, f->flag_path, F_OK) == 0;
    long left = atomic_load_explicit(&f->countdown, memory_order_relaxed);
    if (left > 0)
        left = atomic_fetch_sub_explicit(&f->countdown, 1, memory_order_relaxed);
    if (left > 0)
        return false;
    if (atomic_load(&f->on))
        return true;
    /* Exactly one call sees zero. */
    return left == 0 && atomic_fetch_sub(&f->countdown, 1) == 0;
}

/* True when this call is to fail; errno is then set. Otherwise errno is as before. */
static bool fault_hits(enum dvg_fault_kind kind)
{
    struct fault *f = &faults[kind];
    int error = atomic_load_explicit(&f->error, memory_order_relaxed);
    if (!error)
        return false;
    int saved = errno;
    bool due = fault_due(f);
    if (due)
        fault_report();
    if (due && error == FAULT_KILL)
        syscall(SYS_kill, getpid(), SIGKILL);
    errno = due ? error : saved;
    return due;
}

static bool fault_armed(enum dvg_fault_kind kind)
{
    return atomic_load_explicit(&faults[kind].error, memory_order_relaxed) != 0;
}

static bool fd_is(int fd, mode_t type)
{
    struct stat st;
    int saved = errno;
    bool is = fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type;
    errno = saved;
    return is;
}

static bool fault_hits_fd(enum dvg_fault_kind kind, int fd, mode_t type)
{
    return fault_armed(kind) && fd_is(fd, type) && fault_hits(kind);
}

static bool fault_hits_write(int fd)
{
    return fault_hits_fd(DVG_FAULT_WRITE, fd, S_IFREG) ||
           fault_hits_fd(DVG_FAULT_SEND, fd, S_IFSOCK);
}

/* ---- arming ---- */

EXPORT void dvg_fault_arm(enum dvg_fault_kind kind, long countdown, int error, bool on)
{
    dvg_fault_disarm();
    atomic_store(&fired, false);
    struct fault *f = &faults[kind];
    atomic_store(&f->countdown, countdown);
    atomic_store(&f->on, on);
    atomic_store(&f->error, error);
}

EXPORT void dvg_fault_disarm(void)
{
    for (int i = 0; i < DVG_FAULT_KIND_COUNT; i++)
        atomic_store(&faults[i].error, 0);
}

EXPORT bool dvg_fault_fired(void)
{
    return atomic_load(&fired);
}

EXPORT bool dvg_fault_sweep_next(struct dvg_fault_sweep *sweep)
{
    dvg_fault_disarm();
    if (sweep->rounds > 0) {
        if (!dvg_fault_fired())
            return false;
        sweep->at++;
    }
    sweep->rounds++;
    dvg_fault_arm(sweep->kind, sweep->at, sweep->error, sweep->on);
    return true;
}

static int parse_error(const char *name, size_t len)
{
    static const struct {
        const char *name;
        int number;
    } errors[] = {{"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"EIO", EIO},        {"EDQUOT", EDQUOT},
                  {"EROFS", EROFS},   {"EMFILE", EMFILE}, {"EPIPE", EPIPE},    {"EACCES", EACCES},
                  {"EAGAIN", EAGAIN}, {"EINTR", EINTR},   {"KILL", FAULT_KILL}};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (strlen(errors[i].name) == len && strncmp(errors[i].name, name, len) == 0)
            return errors[i].number;
    }
    return 0;
}

static void spec_is_bad(void)
{
    static const char text[] =
        "DVG_FAULT: expected kind:N[:ERRNO[:on]] or kind:@PATH[:ERRNO], comma separated\n";
    if (syscall(SYS_write, STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(71);
    _exit(70);
}

/* One entry of DVG_FAULT, cut at its colons in place. */
static void parse_entry(char *entry)
{
    static const char *const names[] = {
#define X(NAME, name, counts) name,
        DVG_FAULT_KINDS(X)
#undef X
    };
    char *rest = entry;
    const char *kind = strsep(&rest, ":");
    const char *where = strsep(&rest, ":");
    const char *error = strsep(&rest, ":");
    const char *on = strsep(&rest, ":");
    int index = 0;
    while (index < DVG_FAULT_KIND_COUNT && strcmp(names[index], kind) != 0)
        index++;
    if (index == DVG_FAULT_KIND_COUNT || !where || !*where || (on && strcmp(on, "on") != 0))
        spec_is_bad();
    struct fault *f = &faults[index];
    int number =
        error ? parse_error(error, strlen(error)) : (index == DVG_FAULT_ALLOC ? ENOMEM : EIO);
    char *end = NULL;
    if (*where == '@')
        f->flag_path = where + 1;
    else
        atomic_store(&f->countdown, strtol(where, &end, 10));
    if (!number || (end && *end))
        spec_is_bad();
    atomic_store(&f->on, on != NULL);
    atomic_store(&f->error, number);
}

__attribute__((constructor)) static void fault_from_environment(void)
{
    static char spec[4096];
    const char *value = getenv("DVG_FAULT");
    if (!value || !*value)
        return;
    if (strlen(value) >= sizeof(spec))
        spec_is_bad();
    strcpy(spec, value);
    report_path = getenv("DVG_FAULT_REPORT");
    char *rest = spec;
    for (char *entry = strsep(&rest, ","); entry; entry = strsep(&rest, ","))
        parse_entry(entry);
}

/* ---- passing on ---- */

static void *next_symbol(_Atomic(void *) *cache, const char *name)
{
    void *symbol = atomic_load_explicit(cache, memory_order_acquire);
    if (symbol)
        return symbol;
    symbol = dlsym(RTLD_NEXT, name);
    if (!symbol)
        abort();
    atomic_store_explicit(cache, symbol, memory_order_release);
    return symbol;
}

/* Calls the next definition of `name`; the type is this file's own declaration of it. */
#define NEXT(name)                                                                                 \
    __extension__({                                                                                \
        static _Atomic(void *) cache_;                                                             \
        (__typeof__(&name))next_symbol(&cache_, #name);                                            \
    })

EXPORT void *malloc(size_t size)
{
    return fault_hits(DVG_FAULT_ALLOC) ? NULL : NEXT(malloc)(size);
}

/* dlsym may itself call calloc once, for its error text: that call gets static memory, which is
 * never freed because glibc keeps it for the life of the process. */
EXPORT void *calloc(size_t count, size_t size)
{
    static _Thread_local bool inside;
    static char reserve[1024];
    if (inside)
        return count * size <= sizeof(reserve) ? reserve : NULL;
    if (fault_hits(DVG_FAULT_ALLOC))
        return NULL;
    inside = true;
    void *(*next)(size_t, size_t) = NEXT(calloc);
    inside = false;
    return next(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
    return fault_hits(DVG_FAULT_ALLOC) ? NULL : NEXT(realloc)(old, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return fault_hits(DVG_FAULT_ALLOC) ? NULL : NEXT(aligned_alloc)(alignment, size);
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
    int saved = errno;
    if (fault_hits(DVG_FAULT_ALLOC)) {
        errno = saved;
        return ENOMEM;
    }
    return NEXT(posix_memalign)(ret, alignment, size);
}

/* Sanitizers have a strdup of their own that bypasses malloc; this one counts everywhere. */
EXPORT char *strndup(const char *text, size_t limit)
{
    size_t len = strnlen(text, limit);
    char *copy = malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

EXPORT char *strdup(const char *text)
{
    return strndup(text, SIZE_MAX);
}

EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    return fault_hits_write(fd) ? -1 : NEXT(write)(fd, data, size);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return fault_hits_write(fd) ? -1 : NEXT(writev)(fd, parts, count);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return fault_hits_write(fd) ? -1 : NEXT(pwrite)(fd, data, size, offset);
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    return fault_hits_write(fd) ? -1 : NEXT(pwrite64)(fd, data, size, offset);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return fault_hits_write(fd) ? -1 : NEXT(pwritev)(fd, parts, count, offset);
}

EXPORT ssize_t read(int fd, void *data, size_t size)
{
    return fault_hits_fd(DVG_FAULT_READ, fd, S_IFREG) ? -1 : NEXT(read)(fd, data, size);
}

EXPORT ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    return fault_hits_fd(DVG_FAULT_READ, fd, S_IFREG) ? -1 : NEXT(pread)(fd, data, size, offset);
}

EXPORT ssize_t pread64(int fd, void *data, size_t size, off64_t offset)
{
    return fault_hits_fd(DVG_FAULT_READ, fd, S_IFREG) ? -1 : NEXT(pread64)(fd, data, size, offset);
}

EXPORT int fsync(int fd)
{
    return fault_hits(DVG_FAULT_SYNC) ? -1 : NEXT(fsync)(fd);
}

EXPORT int fdatasync(int fd)
{
    return fault_hits(DVG_FAULT_SYNC) ? -1 : NEXT(fdatasync)(fd);
}

EXPORT int ftruncate(int fd, off_t size)
{
    return fault_hits(DVG_FAULT_RESIZE) ? -1 : NEXT(ftruncate)(fd, size);
}

EXPORT int ftruncate64(int fd, off64_t size)
{
    return fault_hits(DVG_FAULT_RESIZE) ? -1 : NEXT(ftruncate64)(fd, size);
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t size)
{
    return fault_hits(DVG_FAULT_RESIZE) ? -1 : NEXT(fallocate)(fd, mode, offset, size);
}

/* These two return the error instead of setting errno. */
EXPORT int posix_fallocate(int fd, off_t offset, off_t size)
{
    return fault_hits(DVG_FAULT_RESIZE) ? errno : NEXT(posix_fallocate)(fd, offset, size);
}

EXPORT int posix_fallocate64(int fd, off64_t offset, off64_t size)
{
    return fault_hits(DVG_FAULT_RESIZE) ? errno : NEXT(posix_fallocate64)(fd, offset, size);
}

static mode_t mode_argument(int flags, va_list *args)
{
    bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    return creates ? (mode_t)va_arg(*args, unsigned) : 0;
}

#define OPEN_BODY(name)                                                                            \
    va_list args;                                                                                  \
    va_start(args, flags);                                                                         \
    mode_t mode = mode_argument(flags, &args);                                                     \
    va_end(args);                                                                                  \
    return fault_hits(DVG_FAULT_OPEN) ? -1 : NEXT(name)(path, flags, mode)

EXPORT int open(const char *path, int flags, ...)
{
    OPEN_BODY(open);
}

EXPORT int open64(const char *path, int flags, ...)
{
    OPEN_BODY(open64);
}

EXPORT int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_argument(flags, &args);
    va_end(args);
    return fault_hits(DVG_FAULT_OPEN) ? -1 : NEXT(openat)(folder, path, flags, mode);
}

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && fault_hits(DVG_FAULT_MMAP))
        return MAP_FAILED;
    return NEXT(mmap)(address, size, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset)
{
    if (fd >= 0 && fault_hits(DVG_FAULT_MMAP))
        return MAP_FAILED;
    return NEXT(mmap64)(address, size, protection, flags, fd, offset);
}

EXPORT ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return fault_hits(DVG_FAULT_SEND) ? -1 : NEXT(send)(fd, data, size, flags);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return fault_hits(DVG_FAULT_SEND) ? -1 : NEXT(sendmsg)(fd, message, flags);
}

EXPORT int pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return fault_hits(DVG_FAULT_THREAD) ? EAGAIN
                                        : NEXT(pthread_create)(ret, attributes, run, argument);
}
