/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/proto/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <diverge/error.h>

__attribute__((format(printf, 3, 4))) static int refuse(struct paths_error *error, int status,
                                                        const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
    }
    return status;
}

/* Writes the formatted path only when it fits. */
__attribute__((format(printf, 3, 4))) static int compose(char ret[PATHS_MAX],
                                                         struct paths_error *error,
                                                         const char *format, ...)
{
    char text[PATHS_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(text))
        return refuse(error, DIVERGE_ELIMIT, "path longer than %d bytes: %.80s…", PATHS_MAX - 1,
                      text);
    memcpy(ret, text, (size_t)len + 1);
    return 0;
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The XDG specification has relative values ignored. */
static const char *environment_folder(const char *name)
{
    const char *value = environment(name);
    return value && *value == '/' ? value : NULL;
}

int paths_socket(const char *given, char ret[PATHS_MAX], struct paths_error *error)
{
    char path[PATHS_MAX];
    const char *named = given ? given : environment("DIVERGE_SOCKET");
    const char *runtime = environment_folder("XDG_RUNTIME_DIR");
    int rc = 0;
    if (named)
        rc = compose(path, error, "%s", named);
    else if (runtime)
        rc = compose(path, error, "%s/diverge/diverged.sock", runtime);
    else
        rc = compose(path, error, "/tmp/diverge-%lu/diverged.sock", (unsigned long)getuid());
    if (rc)
        return rc;
    if (strlen(path) > PATHS_SOCKET_MAX)
        return refuse(error, DIVERGE_ELIMIT,
                      "the socket's path has %zu bytes, a Unix socket takes %d; set DIVERGE_SOCKET "
                      "(or --socket) to a shorter one: %s",
                      strlen(path), PATHS_SOCKET_MAX, path);
    memcpy(ret, path, strlen(path) + 1);
    return 0;
}

/* Where this user's state goes; false: nowhere (no home). */
static bool state_folder(char ret[PATHS_MAX])
{
    const char *state = environment_folder("XDG_STATE_HOME");
    if (state)
        return compose(ret, NULL, "%s", state) == 0;
    const char *home = environment_folder("HOME");
    if (!home) {
        const struct passwd *user = getpwuid(getuid());
        home = user ? user->pw_dir : NULL;
    }
    return home && *home == '/' && compose(ret, NULL, "%s/.local/state", home) == 0;
}

int paths_store(const char *given, char ret[PATHS_MAX], bool *ret_moved, struct paths_error *error)
{
    const char *named = given ? given : environment("DIVERGE_STORE");
    bool moved = false;
    char state[PATHS_MAX];
    int rc = 0;
    if (named) {
        rc = compose(ret, error, "%s", named);
    } else if (state_folder(state) && !paths_on_network(state, NULL)) {
        rc = compose(ret, error, "%s/diverge/diverge.db", state);
    } else {
        moved = true;
        rc = compose(ret, error, "/var/tmp/diverge-%lu/diverge.db", (unsigned long)getuid());
    }
    if (!rc && ret_moved)
        *ret_moved = moved;
    return rc;
}

int paths_parent(const char *path, char ret[PATHS_MAX])
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (!len)
        return compose(ret, NULL, ".");
    return compose(ret, NULL, "%.*s", (int)(len < PATHS_MAX ? len : PATHS_MAX), path);
}

int paths_spool(const char *given, const char *socket, char ret[PATHS_MAX],
                struct paths_error *error)
{
    const char *named = given ? given : environment("DIVERGE_SPOOL");
    if (named)
        return compose(ret, error, "%s", named);
    if (paths_parent(socket, ret))
        return refuse(error, DIVERGE_ELIMIT, "path too long: %.80s…", socket);
    return 0;
}

int paths_lock(const char *store, char ret[PATHS_MAX], struct paths_error *error)
{
    return compose(ret, error, "%s.lock", store);
}

static int holder_parse(char *text, struct paths_holder *ret)
{
    struct paths_holder holder = {0};
    char *end = NULL;
    if (strncmp(text, "pid=", 4) != 0)
        return DIVERGE_EAGAIN;
    holder.pid = strtol(text + 4, &end, 10);
    if (holder.pid <= 0 || strncmp(end, "\nsocket=", 8) != 0)
        return DIVERGE_EAGAIN;
    char *socket = end + 8;
    char *newline = strchr(socket, '\n');
    if (!newline)
        return DIVERGE_EAGAIN;
    *newline = '\0';
    if (compose(holder.socket, NULL, "%s", socket))
        return DIVERGE_EAGAIN;
    *ret = holder;
    return 0;
}

int paths_lock_holder(const char *lock, struct paths_holder *ret)
{
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? DIVERGE_ENOTFOUND : errno == EACCES ? DIVERGE_EPERM : DIVERGE_EIO;
    /* Only asks: taking even a shared lock for a moment could turn away a daemon that starts. */
    struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_GETLK, &asked) != 0 || asked.l_type == F_UNLCK) {
        close(fd);
        return DIVERGE_ENOTFOUND;
    }
    char text[PATHS_MAX + 64];
    ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
    close(fd);
    if (len < 0)
        return DIVERGE_EIO;
    text[len] = '\0';
    return holder_parse(text, ret);
}

/* mkdir -p; folders that it makes are 0700. */
static int make_folders(const char *dir)
{
    if (mkdir(dir, 0700) == 0)
        return 0;
    if (errno != ENOENT)
        return errno == EEXIST ? 0 : -1;
    char parent[PATHS_MAX];
    if (paths_parent(dir, parent) || strcmp(parent, dir) == 0 || make_folders(parent) != 0)
        return -1;
    return mkdir(dir, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

int paths_folder_make(const char *dir, struct paths_error *error)
{
    if (make_folders(dir) == 0)
        return 0;
    int status = errno == EACCES || errno == EPERM || errno == EROFS ? DIVERGE_EPERM
                 : errno == ENOSPC || errno == EDQUOT                ? DIVERGE_EFULL
                                                                     : DIVERGE_EIO;
    return refuse(error, status, "cannot make the folder %s: %s", dir, strerror(errno));
}

int paths_folder_private(const char *dir, struct paths_error *error)
{
    int rc = paths_folder_make(dir, error);
    if (rc)
        return rc;
    struct stat st;
    if (lstat(dir, &st) != 0)
        return refuse(error, DIVERGE_EIO, "%s: %s", dir, strerror(errno));
    if (S_ISLNK(st.st_mode))
        return refuse(error, DIVERGE_EPERM,
                      "%s is a symbolic link; name the folder that it points to", dir);
    if (!S_ISDIR(st.st_mode))
        return refuse(error, DIVERGE_EPERM, "%s is not a folder", dir);
    if (st.st_uid != geteuid())
        return refuse(error, DIVERGE_EPERM, "the folder %s belongs to user %lu, not to you (%lu)",
                      dir, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if (st.st_mode & 077)
        return refuse(error, DIVERGE_EPERM,
                      "others can enter the folder %s (mode %03o): name another, which is made "
                      "private, or chmod 700 %s",
                      dir, (unsigned)st.st_mode & 0777, dir);
    return 0;
}

/* Magic numbers: linux/magic.h, and the file systems' own sources where that has none. */
static const struct network_type {
    unsigned long magic;
    const char *name;
} network_types[] = {
    {0x6969, "nfs"},          {0x517b, "smb"},       {0xff534d42, "cifs"},   {0xfe534d42, "smb3"},
    {0x5346414f, "afs"},      {0x73757245, "coda"},  {0x564c, "ncp"},        {0x0bd00bd0, "lustre"},
    {0x47504653, "gpfs"},     {0x00c36400, "ceph"},  {0x19830326, "beegfs"}, {0xaad7aaea, "panfs"},
    {0x20030528, "orangefs"}, {0x7461636f, "ocfs2"}, {0x01161970, "gfs2"},   {0x013111a8, "ibrix"},
};

bool paths_on_network(const char *path, const char **ret_name)
{
    char at[PATHS_MAX];
    if (compose(at, NULL, "%s", path))
        return false;
    struct statfs fs;
    while (statfs(at, &fs) != 0) {
        char parent[PATHS_MAX];
        if ((errno != ENOENT && errno != ENOTDIR) || paths_parent(at, parent) ||
            strcmp(parent, at) == 0)
            return false;
        memcpy(at, parent, sizeof(at));
    }
    unsigned long magic = (unsigned long)fs.f_type & 0xffffffffUL;
    for (size_t i = 0; i < sizeof(network_types) / sizeof(network_types[0]); i++) {
        if (network_types[i].magic != magic)
            continue;
        if (ret_name)
            *ret_name = network_types[i].name;
        return true;
    }
    return false;
}
