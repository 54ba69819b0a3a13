/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
    DEFAULT_BUSY_MS = 5000,
    CACHE_KIB = 65536,
    FUSE_TYPE = 0x65735546,
    WATCH_STEPS = 100000, /* virtual machine steps between looks at the WAL */
    WATCH_AFTER_MS = 2000,
    WATCH_PAUSE_MS = 1000,
};
static const uint64_t watch_wal_bytes = UINT64_C(1) << 30;

/* ---- errors ---------------------------------------------------------------------------------- */

int database_error(struct database *database, int rc, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(database->error.text, sizeof database->error.text, format, arguments);
    va_end(arguments);
    database->failure = rc;
    return rc;
}

static int status_of(int sqlite_rc, int system_errno)
{
    switch (sqlite_rc & 0xff) {
    case SQLITE_FULL:
    case SQLITE_READONLY:
        return DIVERGE_EFULL;
    case SQLITE_IOERR:
        if ((sqlite_rc >> 8) == (SQLITE_IOERR_NOMEM >> 8))
            return DIVERGE_ENOMEM;
        return system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG
                   ? DIVERGE_EFULL
                   : DIVERGE_EIO;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
        return DIVERGE_ECORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return DIVERGE_EBUSY;
    case SQLITE_NOMEM:
        return DIVERGE_ENOMEM;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
        return DIVERGE_EPERM;
    case SQLITE_INTERRUPT:
        return DIVERGE_EAGAIN;
    case SQLITE_TOOBIG:
        return DIVERGE_ELIMIT;
    default:
        return DIVERGE_EINTERNAL;
    }
}

/* Of a COMMIT that fails SQLite keeps no errno; the file that it wrote, the log, does. */
static int write_errno(const struct database *database, int sqlite_rc)
{
    if (!database->handle)
        return 0;
    int error = sqlite3_system_errno(database->handle);
    sqlite3_file *log = NULL;
    if (error || sqlite_rc != SQLITE_IOERR_WRITE ||
        sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) !=
            SQLITE_OK)
        return error;
    if (log && log->pMethods)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
    return error;
}

static const char *advice(int status, int sqlite_rc)
{
    if ((sqlite_rc & 0xff) == SQLITE_READONLY)
        return "; make it writable, and the files -wal and -shm beside it";
    switch (status) {
    case DIVERGE_EFULL:
        return "; free space (divergectl gc, or rm), nothing stored is lost";
    case DIVERGE_ECORRUPT:
        return "; the file is damaged or no store: keep a copy, save what can be read with"
               " \"sqlite3 FILE .recover\", and move it away to start a new one";
    case DIVERGE_EBUSY:
        return "; another program holds the store";
    default:
        return "";
    }
}

static int fail_as(struct database *database, int sqlite_rc, int status)
{
    const char *text = database->handle && sqlite3_errcode(database->handle) == (sqlite_rc & 0xff)
                           ? sqlite3_errmsg(database->handle)
                           : sqlite3_errstr(sqlite_rc);
    return database_error(database, status, "%s: %s%s", database->path ? database->path : "store",
                          text, advice(status, sqlite_rc));
}

int database_fail(struct database *database, int sqlite_rc)
{
    int status = status_of(sqlite_rc, write_errno(database, sqlite_rc));
    /* What is read has always the same text: where that is wrong, the file is. */
    if ((sqlite_rc & 0xff) == SQLITE_ERROR && database->read_only)
        status = DIVERGE_ECORRUPT;
    return fail_as(database, sqlite_rc, status);
}

/* ---- statements ------------------------------------------------------------------------------ */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

sqlite3_stmt *database_statement(struct database *database, enum statement which)
{
    static const char *const texts[] = {
#define X(NAME, sql) sql,
        STORE_STATEMENTS(X)
#undef X
    };
    sqlite3_stmt **statement = &database->statements[which];
    if (*statement) {
        sqlite3_reset(*statement);
        sqlite3_clear_bindings(*statement);
        return *statement;
    }
    int rc = sqlite3_prepare_v3(database->handle, texts[which], -1, SQLITE_PREPARE_PERSISTENT,
                                statement, NULL);
    if (rc != SQLITE_OK) {
        /* Our texts fit our schema: where they do not, it is another's. */
        if ((rc & 0xff) == SQLITE_ERROR)
            fail_as(database, rc, DIVERGE_ECORRUPT);
        else
            database_fail(database, rc);
        return NULL;
    }
    return *statement;
}

int database_step(struct database *database, sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        return 1;
    int status =
        rc == SQLITE_DONE ? 0 : database_fail(database, sqlite3_extended_errcode(database->handle));
    sqlite3_reset(statement);
    return status;
}

int database_run(struct database *database, sqlite3_stmt *statement)
{
    int rc = database_step(database, statement);
    if (rc == 1) {
        sqlite3_reset(statement);
        rc = 0;
    }
    return rc;
}

int database_execute(struct database *database, const char *sql)
{
    int rc = sqlite3_exec(database->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0
                           : database_fail(database, sqlite3_extended_errcode(database->handle));
}

int database_pragma(struct database *database, const char *name, int64_t *ret)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA %s", name);
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(database->handle, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        *ret = sqlite3_column_int64(statement, 0);
        sqlite3_finalize(statement);
        return 0;
    }
    rc = sqlite3_extended_errcode(database->handle);
    sqlite3_finalize(statement);
    return database_fail(database, rc == SQLITE_OK ? SQLITE_ERROR : rc);
}

uint64_t database_wal_bytes(const struct database *database)
{
    char path[4096];
    struct stat info;
    int size = snprintf(path, sizeof path, "%s-wal", database->path);
    if (size < 0 || (size_t)size >= sizeof path || stat(path, &info) != 0)
        return 0;
    return (uint64_t)info.st_size;
}

/* ---- where a store may lie ------------------------------------------------------------------- */

static int filesystem(const char *folder, long *ret_type)
{
    struct statfs info;
    if (statfs(folder, &info) != 0)
        return -errno;
    *ret_type = (long)info.f_type;
    return 0;
}
int (*database_filesystem)(const char *folder, long *ret_type) = filesystem;

/* Local ones among FUSE's mounts; all others may have a network behind them. */
static bool local_fuse(const char *folder)
{
    struct stat info;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (!mounts)
        return false;
    bool local = false;
    char line[4096];
    bool known = stat(folder, &info) == 0;
    while (known && fgets(line, sizeof line, mounts)) {
        unsigned major_number;
        unsigned minor_number;
        if (sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) != 2 ||
            makedev(major_number, minor_number) != info.st_dev)
            continue;
        const char *type = strstr(line, " - ");
        local = type && (strncmp(type + 3, "fuseblk ", 8) == 0 ||
                         strncmp(type + 3, "fuse.fuse-overlayfs ", 20) == 0);
    }
    fclose(mounts);
    return local;
}

const char *database_network_filesystem(const char *folder, long type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } networks[] = {
        {0x6969, "NFS"},      {0x517b, "SMB"},      {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},
        {0x5346414f, "AFS"},  {0x73757245, "Coda"}, {0x00c36400, "Ceph"},   {0x0bd00bd0, "Lustre"},
        {0x47504653, "GPFS"}, {0x01021997, "9P"},   {0x19830326, "BeeGFS"}, {0x7461636f, "OCFS2"},
        {0x01161970, "GFS2"}, {0x564c, "NCP"},      {0x6b414653, "AFS"},
    };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if (networks[i].type == (uint32_t)type)
            return networks[i].name;
    return (uint32_t)type == FUSE_TYPE && !local_fuse(folder) ? "FUSE" : NULL;
}

static int check_filesystem(struct database *database, const char *folder)
{
    long type = 0;
    int rc = database_filesystem(folder, &type);
    if (rc)
        return database_error(database, DIVERGE_EIO, "%s: %s", folder, strerror(-rc));
    const char *network = database_network_filesystem(folder, type);
    if (network)
        return database_error(database, DIVERGE_EUNSUPPORTED,
                              "%s is on a network file system (%s), where SQLite's write-ahead log"
                              " does not work: set DIVERGE_STORE to a file on a local disk",
                              folder, network);
    return 0;
}

/* mkdir -p with mode 0700 for what is made. */
static int make_folder(struct database *database, char *folder)
{
    for (char *p = folder + 1;; p++) {
        if (*p != '/' && *p)
            continue;
        char saved = *p;
        *p = '\0';
        bool failed = mkdir(folder, 0700) != 0 && errno != EEXIST;
        int error = errno;
        *p = saved;
        if (failed && !saved)
            return database_error(database, error == ENOSPC ? DIVERGE_EFULL : DIVERGE_EPERM,
                                  "%s: cannot be made: %s", folder, strerror(error));
        if (!saved)
            return 0;
    }
}

static int prepare_place(struct database *database, const char *path)
{
    char *folder = strdup(path);
    if (!folder)
        return DIVERGE_ENOMEM;
    char *slash = strrchr(folder, '/');
    if (slash == folder)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    else
        snprintf(folder, strlen(path) + 1, ".");
    int rc = make_folder(database, folder);
    if (!rc)
        rc = check_filesystem(database, folder);
    if (!rc && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        rc = database_error(database, DIVERGE_EPERM,
                            "%s: the folder is read-only: SQLite needs to write beside the store;"
                            " set DIVERGE_STORE to a writable place",
                            folder);
    free(folder);
    if (rc)
        return rc;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return database_error(database,
                              errno == ENOSPC || errno == EDQUOT || errno == EROFS ? DIVERGE_EFULL
                                                                                   : DIVERGE_EPERM,
                              "%s: %s", path, strerror(errno));
    close(fd);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int newest_version(void)
{
    int newest = 0;
    for (const struct migration *m = database_migrations; m->version; m++)
        newest = m->version;
    return newest;
}

static int migrate_one(struct database *database, const struct migration *migration)
{
    int rc = database_execute(database, "BEGIN EXCLUSIVE");
    if (rc)
        return rc;
    char sql[128];
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             DATABASE_APPLICATION_ID, migration->version);
    int64_t version = 0;
    rc = database_pragma(database, "user_version", &version);
    bool mine = version == migration->version - 1; /* else another program was faster */
    if (!rc && mine)
        rc = database_execute(database, migration->sql);
    if (!rc && mine)
        rc = database_execute(database, sql);
    if (!rc && mine) {
        sqlite3_stmt *check = NULL;
        int step = sqlite3_prepare_v2(database->handle, "PRAGMA foreign_key_check", -1, &check,
                                      NULL) == SQLITE_OK
                       ? sqlite3_step(check)
                       : SQLITE_ERROR;
        sqlite3_finalize(check);
        if (step != SQLITE_DONE)
            rc = database_error(database, DIVERGE_ECORRUPT,
                                "%s: migration %s would leave rows that refer to nothing",
                                database->path, migration->name);
    }
    if (!rc)
        rc = database_execute(database, "COMMIT");
    if (rc) {
        struct store_error why = database->error;
        sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
        database->error = why;
    }
    return rc;
}

/* Is it a store, and one that this program knows? */
static int check_identity(struct database *database, int64_t *ret_version)
{
    int64_t application = 0;
    int64_t version = 0;
    int64_t pages = 0;
    int rc = database_pragma(database, "application_id", &application);
    if (!rc)
        rc = database_pragma(database, "user_version", &version);
    if (!rc)
        rc = database_pragma(database, "page_count", &pages);
    if (rc)
        return rc;
    if (application != DATABASE_APPLICATION_ID && (pages > 1 || application || version))
        return database_error(
            database, DIVERGE_ECORRUPT,
            "%s is an SQLite file, but not a store of diverged: give another path", database->path);
    if (version > newest_version())
        return database_error(database, DIVERGE_EVERSION,
                              "%s was written by a newer diverged (store version %lld, this one"
                              " knows up to %d): upgrade, or use another store",
                              database->path, (long long)version, newest_version());
    *ret_version = version;
    return 0;
}

static int migrate(struct database *database)
{
    int64_t version = 0;
    int rc = check_identity(database, &version);
    for (const struct migration *m = database_migrations; m->version && !rc; m++)
        if (m->version > version)
            rc = migrate_one(database, m);
    return rc;
}

static int configure_writer(struct database *database, const struct database_options *options)
{
    sqlite3_busy_timeout(database->handle,
                         options->busy_timeout_ms ? options->busy_timeout_ms : DEFAULT_BUSY_MS);
    char sql[512];
    /* Page size and auto_vacuum take effect while the file is empty, before it is in WAL mode. */
    snprintf(sql, sizeof sql,
             "PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
             "PRAGMA synchronous = %s; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0;"
             "PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY;"
             "PRAGMA journal_size_limit = 268435456",
             DATABASE_PAGE_BYTES, options->synchronous_full ? "FULL" : "NORMAL", CACHE_KIB);
    return database_execute(database, sql);
}

/* What a file says is never run: its views, triggers and functions are not ours. */
static void harden(struct database *database)
{
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
}

static int keep_path(struct database *database, const char *path)
{
    if (!path || !*path)
        return database_error(database, DIVERGE_EINVAL, "the store's path is empty");
    database->path = strdup(path);
    return database->path ? 0 : DIVERGE_ENOMEM;
}

/* Before a producer is let in: does every statement fit the tables that are there? */
static int check_schema(struct database *database)
{
    for (int i = 0; i < STATEMENT_COUNT; i++)
        if (!database_statement(database, (enum statement)i))
            return database->failure;
    return 0;
}

int database_open_writer(struct database *database, const char *path,
                         const struct database_options *options)
{
    int rc = keep_path(database, path);
    if (!rc)
        rc = prepare_place(database, path);
    if (rc)
        return rc;
    int sqlite_rc =
        sqlite3_open_v2(path, &database->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (sqlite_rc != SQLITE_OK)
        return database_fail(database, sqlite_rc);
    harden(database);
    int64_t version = 0;
    rc = check_identity(database, &version);
    if (!rc)
        rc = configure_writer(database, options);
    if (!rc)
        rc = migrate(database);
    return rc ? rc : check_schema(database);
}

/* A read that lasts keeps the writer from reusing its log; past 1 GiB of it the read has to end. */
static int watch_wal(void *ctx)
{
    struct database *database = ctx;
    int64_t now = now_ms();
    /* Calls come every few milliseconds while a statement runs: a pause means another statement. */
    if (now - database->watch_last_ms > WATCH_PAUSE_MS)
        database->watch_since_ms = now;
    database->watch_last_ms = now;
    if (now - database->watch_since_ms < WATCH_AFTER_MS)
        return 0;
    return database_wal_bytes(database) > watch_wal_bytes;
}

/* file:PATH?immutable=1, with the characters that a URI reserves escaped. */
static char *immutable_uri(const char *path)
{
    size_t size = strlen(path) * 3 + 32;
    char *uri = malloc(size);
    if (!uri)
        return NULL;
    size_t at = (size_t)snprintf(uri, size, "file:");
    for (const char *p = path; *p; p++) {
        bool plain = *p != '%' && *p != '?' && *p != '#' && (unsigned char)*p > 0x20;
        at += (size_t)snprintf(uri + at, size - at, plain ? "%c" : "%%%02x",
                               (unsigned)(unsigned char)*p);
    }
    snprintf(uri + at, size - at, "?immutable=1");
    return uri;
}

static int open_read_only(struct database *database, const char *name, int flags)
{
    sqlite3_close(database->handle);
    database->handle = NULL;
    int rc = sqlite3_open_v2(
        name, &database->handle,
        SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | flags, NULL);
    if (rc != SQLITE_OK)
        return database_fail(database, rc);
    harden(database);
    sqlite3_busy_timeout(database->handle, DEFAULT_BUSY_MS);
    sqlite3_progress_handler(database->handle, WATCH_STEPS, watch_wal, database);
    /* SQLite's own 2 MB would be 62 pages; a binary search over segments wants its inner ones. */
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA cache_size = -%d", CACHE_KIB);
    rc = database_execute(database, sql);
    int64_t version = 0;
    /* The first read is what fails when the log's index cannot be made. */
    return rc ? rc : database_pragma(database, "schema_version", &version);
}

int database_open_reader(struct database *database, const char *path)
{
    int rc = keep_path(database, path);
    if (rc)
        return rc;
    database->read_only = true;
    struct stat info;
    if (stat(path, &info) != 0)
        return database_error(database, errno == EACCES ? DIVERGE_EPERM : DIVERGE_ENOTFOUND,
                              "%s: %s", path, strerror(errno));
    rc = open_read_only(database, path, 0);
    if (rc && rc != DIVERGE_ECORRUPT && database_wal_bytes(database) == 0) {
        char *uri = immutable_uri(path);
        rc = uri ? open_read_only(database, uri, SQLITE_OPEN_URI) : DIVERGE_ENOMEM;
        free(uri);
    }
    int64_t version = 0;
    if (!rc)
        rc = check_identity(database, &version);
    if (!rc && version == 0)
        rc = database_error(database, DIVERGE_ECORRUPT, "%s is empty: not a store yet", path);
    if (!rc && version < newest_version())
        rc = database_error(database, DIVERGE_EVERSION,
                            "%s was written by an older diverged (store version %lld): open it with"
                            " the daemon once, which migrates it",
                            path, (long long)version);
    return rc;
}

void database_fini(struct database *database)
{
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(database->statements[i]);
    sqlite3_close(database->handle);
    free(database->path);
    *database = (struct database){0};
}
