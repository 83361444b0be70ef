/* The catalog's LMDB environment: made, opened, closed. What has to be settled before
 * the first transaction is settled here: whether it may be written, whether it is the
 * file that was checked, and what a writer that died left. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t FIRST_MAP_BYTES = (size_t)64 << 20;
/* Two lines of LMDB's own, and one for each reader. */
enum { MAX_READERS = 1024, MAX_DATABASES = 8, LOCK_BYTES = (MAX_READERS + 2) * 64 };

/* The list must not change at the first write after a crash. If the dead writer's
 * commit has reached the meta page, it is made visible and durable now. */
static int settle(struct catalog *c)
{
    MDB_txn *txn;
    if (catalog_written_last(c) == catalog_visible_last(c))
        return 0;
    int rc = mdb_txn_begin(c->env, NULL, 0, &txn); /* repairs, if its owner died */
    if (rc)
        return rc == MDB_MAP_RESIZED ? 0 : rc;
    mdb_txn_abort(txn);
    return mdb_env_sync(c->env, 1);
}

/* LMDB maps its lock file, and makes it with a hole for what it has not touched: on a
 * full disk a signal, not an error. So its space is asked for before. Where it can't be
 * (a file of somebody else's, a file system without such a call) LMDB is left to it. No
 * environment of this process has the file, or closing it here would let its locks go.
 */
static int reserve_lock_file(const char *file)
{
    size_t n = strlen(file) + sizeof "-lock";
    char *path = malloc(n);
    int rc = 0;
    if (!path)
        return ENOMEM;
    snprintf(path, n, "%s-lock", file);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    free(path);
    if (fd < 0)
        return 0;
    if (io_calls.fallocate(fd, 0, 0, LOCK_BYTES) != 0)
        rc = errno;
    close(fd);
    return rc == ENOSPC || rc == EDQUOT || rc == EIO ? rc : 0;
}

static int open_env(const char *file, unsigned flags, MDB_env **out)
{
    MDB_env *env = NULL;
    int rc = 0;
    *out = NULL;
    if (!rc)
        rc = mdb_env_create(&env);
    if (rc)
        return rc;
    if (!rc)
        rc = mdb_env_set_mapsize(env, FIRST_MAP_BYTES);
    if (!rc)
        rc = mdb_env_set_maxreaders(env, MAX_READERS);
    if (!rc)
        rc = mdb_env_set_maxdbs(env, MAX_DATABASES);
    if (!rc)
        rc = mdb_env_open(env, file, MDB_NOSUBDIR | MDB_NOTLS | flags, 0666);
    if (rc) {
        mdb_env_close(env);
        env = NULL;
    }
    *out = env;
    return rc;
}

/* Before LMDB looks for the databases. A reader's slot holds the transaction that it
 * reads, which writers respect. Without slots they are in the way at most some times.
 */
static int walk_env(struct catalog *c, struct tamis_diag *diag)
{
    enum { TRIES = 100 };
    int rc = EAGAIN;
    for (int i = 0; i < TRIES && rc == EAGAIN; i++) {
        MDB_txn *txn;
        rc = mdb_txn_begin(c->env, NULL, MDB_RDONLY, &txn);
        if (rc == MDB_MAP_RESIZED && (rc = mdb_env_set_mapsize(c->env, 0)) == 0)
            rc = mdb_txn_begin(c->env, NULL, MDB_RDONLY, &txn);
        if (rc == EAGAIN ||
            rc == EACCES) /* of the byte that LMDB locks for a process */
            return diag_fail(diag, TAMIS_ERR_BUSY, c->path,
                             "a process of the same number, in another container, has "
                             "the store open: LMDB takes the two for one");
        if (rc)
            return catalog_fail(diag, c->path, rc, "opening the catalog");
        diag_clear(diag);
        rc = catalog_txn_walk(c, txn, false, diag);
        mdb_txn_abort(txn);
    }
    return rc == EAGAIN ? catalog_fail(diag, c->path, rc, "walking the catalog") : rc;
}

static int open_databases(struct catalog *c, unsigned flags, const struct meta *m)
{
    MDB_txn *txn;
    unsigned how = flags & MDB_CREATE ? 0 : MDB_RDONLY;
    int rc = mdb_txn_begin(c->env, NULL, how, &txn);
    /* Another process has made it larger since it was opened. */
    if (rc == MDB_MAP_RESIZED && (rc = mdb_env_set_mapsize(c->env, 0)) == 0)
        rc = mdb_txn_begin(c->env, NULL, how, &txn);
    if (rc)
        return rc;
    rc = mdb_dbi_open(txn, "meta", flags, &c->meta_db);
    if (!rc)
        rc = mdb_dbi_open(txn, "segments", flags, &c->segments_db);
    if (!rc && m) {
        uint8_t bytes[META_BYTES];
        meta_encode(m, bytes);
        MDB_val key = catalog_val(CATALOG_META_KEY, sizeof CATALOG_META_KEY - 1);
        MDB_val data = catalog_val(bytes, sizeof bytes);
        rc = mdb_put(txn, c->meta_db, &key, &data, 0);
    }
    if (!rc)
        return catalog_commit(c->env, txn);
    mdb_txn_abort(txn);
    return rc;
}

/* Is what LMDB opened the file that was checked? */
static int same_file(const struct catalog *c)
{
    int fd;
    struct stat st;
    int rc = mdb_env_get_fd(c->env, &fd);
    if (rc)
        return rc;
    if (fstat(fd, &st) != 0)
        return errno;
    return st.st_dev == c->device && st.st_ino == c->inode ? 0 : ESTALE;
}

/* LMDB may have made the lock file where we could not. */
static int check_origin(struct catalog *c, struct tamis_diag *diag)
{
    int rc = 0;
    if (c->origin && c->origin->lock.fd < 0 && !c->unlocked)
        rc = origin_take_lock_file(c->origin, diag);
    if (rc)
        return rc;
    if (c->origin && c->origin->lock.fd < 0 && !c->read_only)
        return diag_fail(diag, TAMIS_ERR_REPLACED, c->origin->lock.path,
                         "removed while the store was being opened: open it again");
    return catalog_agrees(c, diag);
}

static int settle_env(struct catalog *c)
{
    int n_dead, rc = c->unlocked ? 0 : mdb_reader_check(c->env, &n_dead);
    return rc || c->read_only ? rc : settle(c);
}

/* Before anything is read of it, or written. */
static int check_env(struct catalog *c, struct tamis_diag *diag)
{
    int rc = same_file(c);
    if (rc)
        return catalog_fail(diag, c->path, rc, "opening the catalog");
    rc = check_origin(c, diag);
    if (rc)
        return rc;
    rc = settle_env(c);
    return rc ? catalog_fail(diag, c->path, rc, "opening the catalog")
              : walk_env(c, diag);
}

static int open_file(struct catalog *c, const char *file, struct tamis_diag *diag)
{
    int rc = reserve_lock_file(file);
    if (rc)
        return catalog_fail(diag, c->path, rc, "opening the catalog");
    rc = c->origin ? origin_take_lock_file(c->origin, diag) : 0;
    if (rc)
        return rc;
    rc = open_env(file, c->read_only ? MDB_RDONLY : 0, &c->env);
    if (rc == EACCES || rc == EROFS || rc == EPERM) {
        c->read_only = true;
        c->unlocked = rc == EROFS;
        rc = open_env(file, MDB_RDONLY, &c->env);
    }
    if (rc == EACCES)
        return catalog_fail(diag, c->path, rc,
                            "opening the catalog (readers too must be able to write "
                            "catalog.lmdb-lock)");
    return rc ? catalog_fail(diag, c->path, rc, "opening the catalog") : 0;
}

int catalog_env_open(struct catalog *c, const char *file, struct tamis_diag *diag)
{
    int rc = open_file(c, file, diag);
    if (!rc)
        rc = check_env(c, diag);
    if (rc) {
        catalog_env_close(c);
        return rc;
    }
    rc = open_databases(c, 0, NULL);
    if (!rc)
        return 0;
    catalog_env_close(c);
    if (rc == MDB_NOTFOUND)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, file,
                         "an LMDB file, but no catalog of tamis (or one whose creation "
                         "was cut short)");
    return catalog_fail(diag, c->path, rc, "opening the catalog");
}

int catalog_env_create(struct catalog *c, const char *file, const struct meta *m,
                       catalog_fn *fill, void *ctx, struct tamis_diag *diag)
{
    int rc = reserve_lock_file(file);
    if (!rc)
        rc = open_env(file, 0, &c->env);
    if (!rc)
        rc = open_databases(c, MDB_CREATE, m);
    rc = rc ? catalog_fail(diag, c->path, rc, "creating the catalog") : 0;
    if (!rc && fill)
        rc = catalog_write(c, fill, ctx, NULL, diag);
    catalog_env_close(c);
    return rc;
}

void catalog_env_close(struct catalog *c)
{
    if (c->env)
        mdb_env_close(c->env);
    c->env = NULL;
}

struct usage {
    uint64_t n_segments, n_bytes;
};

static int read_usage(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct usage *u = ctx;
    MDB_stat stat;
    MDB_envinfo info;
    int rc = mdb_stat(t->txn, t->catalog->segments_db, &stat);
    if (rc)
        return catalog_txn_fail(t, rc, "counting the segments", diag);
    mdb_env_info(t->catalog->env, &info);
    u->n_segments = stat.ms_entries;
    u->n_bytes = ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
    return 0;
}

int catalog_usage(struct catalog *c, uint64_t *n_segments, uint64_t *n_bytes,
                  struct tamis_diag *diag)
{
    struct usage u = {0};
    int rc = catalog_read(c, read_usage, &u, diag);
    *n_segments = u.n_segments;
    *n_bytes = u.n_bytes;
    return rc;
}
