/* The catalog's LMDB environment: made, opened, closed. Three things are settled here
 * before the first transaction: may the catalog be written, is it the file that was
 * checked, and did a dead writer leave something? */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

static const size_t FIRST_MAP_BYTES = (size_t)64 << 20;
enum { MAX_DATABASES = 8 };

/* The list must not change at the first write after a crash. If the dead writer's
 * commit has reached the meta page, it is made visible and durable now. */
static int settle(struct catalog *c, struct tamis_diag *diag)
{
    struct io_wait not_at_all = {.timeout_ms = -1};
    struct lmdb_lock l;
    MDB_txn *txn;
    if (gate_look(c, &l) != 0 || catalog_file_shows(&c->metas) == l.txn ||
        gate_enter(c, LOCK_COMMIT, &not_at_all, NULL) != 0)
        return 0; /* or a living one is in the middle of its commit */
    /* LMDB mends what its owner left, if that died. */
    int rc = gate_enter(c, LOCK_SLOT, &not_at_all, NULL);
    if (!rc)
        rc = catalog_begin_write(c, &txn, diag);
    if (!rc) {
        mdb_txn_abort(txn);
        rc = mdb_env_sync(c->env, 1);
    }
    gate_leave(c, LOCK_COMMIT);
    return rc == MDB_MAP_RESIZED || rc == TAMIS_ERR_BUSY ? 0 : rc;
}

static int open_env(const char *file, unsigned flags, MDB_env **out)
{
    MDB_env *env = NULL;
    int rc = mdb_env_create(&env);
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

/* Begins a transaction to look for the databases in. Without a slot it is one that
 * writes: no other writer overwrites the pages that it reads. */
static int begin(struct catalog *c, bool *writing, struct io_wait *wait, MDB_txn **txn,
                 struct tamis_diag *diag)
{
    int rc = *writing ? TAMIS_ERR_BUSY : catalog_begin_read(c, txn);
    if (rc == TAMIS_ERR_BUSY && c->read_only)
        diag_fail(diag, rc, c->path, "no slot for a reader is free");
    if (rc != TAMIS_ERR_BUSY || c->read_only)
        return rc;
    rc = gate_enter(c, LOCK_COMMIT, wait, diag);
    if (rc)
        return rc;
    *writing = true;
    rc = gate_enter(c, LOCK_SLOT, wait, diag);
    if (!rc)
        rc = catalog_begin_write(c, txn, diag);
    if (rc)
        gate_leave(c, LOCK_COMMIT);
    return rc;
}

static int find_databases(struct catalog *c, MDB_txn *txn, const struct meta *m)
{
    unsigned flags = m ? MDB_CREATE : 0;
    int rc = 0;
    for (size_t i = 0; i < CATALOG_DBS && !rc; i++)
        rc = mdb_dbi_open(txn, catalog_names[i], flags, &c->dbs[i]);
    if (!rc && m) {
        uint8_t bytes[META_BYTES];
        meta_encode(m, bytes);
        MDB_val key = catalog_val(CATALOG_META_KEY, sizeof CATALOG_META_KEY - 1);
        MDB_val data = catalog_val(bytes, sizeof bytes);
        rc = mdb_put(txn, c->dbs[CATALOG_META], &key, &data, 0);
    }
    return rc;
}

/* m: of a new catalog. Else all pages are looked at before LMDB looks for anything. *rc
 * is LMDB's code, if that failed; the result, if something else did. */
static int open_databases(struct catalog *c, const struct meta *m, struct io_wait *wait,
                          int *rc, struct tamis_diag *diag)
{
    enum { TRIES = 100 };
    int failed = EAGAIN;
    for (int i = 0; i < TRIES && failed == EAGAIN; i++) {
        MDB_txn *txn;
        bool writing = m != NULL;
        *rc = begin(c, &writing, wait, &txn, diag);
        /* Another process has made it larger since it was opened. */
        if (*rc == MDB_MAP_RESIZED && (*rc = mdb_env_set_mapsize(c->env, 0)) == 0)
            *rc = begin(c, &writing, wait, &txn, diag);
        if (*rc)
            return 0;
        diag_clear(diag);
        failed = m ? 0 : catalog_txn_walk(c, txn, writing, diag);
        *rc = failed ? 0 : find_databases(c, txn, m);
        if (failed || *rc)
            mdb_txn_abort(txn);
        else
            *rc = catalog_commit(c->env, txn);
        if (writing)
            gate_leave(c, LOCK_COMMIT);
    }
    return failed == EAGAIN ? catalog_fail(diag, c->path, failed, "walking the catalog")
                            : failed;
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

/* Is the lock file that LMDB has the one that others see? */
static int check_origin(struct catalog *c, struct tamis_diag *diag)
{
    struct stat st;
    if (!c->origin)
        return 0;
    if (fstat(c->lock_file.fd, &st) != 0)
        return diag_errno(diag, errno, c->origin->lock.path, "looking at it");
    if (c->origin->lock.fd < 0 || st.st_dev != c->origin->lock.device ||
        st.st_ino != c->origin->lock.inode)
        return diag_fail(diag, TAMIS_ERR_REPLACED, c->origin->lock.path,
                         "removed while the store was being opened: open it again");
    return catalog_agrees_mapped(c, diag);
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
    catalog_clear_slots(c);
    rc = c->read_only ? 0 : settle(c, diag);
    return rc ? catalog_fail(diag, c->path, rc, "opening the catalog") : 0;
}

/* While LMDB opens its lock file it may wait for a process that makes it. */
static int open_file(struct catalog *c, const char *file, struct io_wait *wait,
                     struct tamis_diag *diag)
{
    int rc = gate_open(c, file);
    c->lock_refused = false;
    if (rc) {
        c->read_only |= rc == EACCES || rc == EPERM || rc == EROFS;
        return catalog_fail(diag, c->path, rc, "opening the catalog's lock file");
    }
    rc = c->origin ? origin_take_lock_file(c->origin, diag) : 0;
    if (!rc)
        rc = gate_enter(c, LOCK_SLOT, wait, diag);
    if (rc)
        return rc;
    gate_clear_mine(c);
    rc = open_env(file, c->read_only ? MDB_RDONLY : 0, &c->env);
    if (rc == EACCES || rc == EROFS || rc == EPERM) {
        c->read_only = true;
        rc = open_env(file, MDB_RDONLY, &c->env);
    }
    gate_leave(c, LOCK_SLOT);
    c->lock_refused = rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH;
    return rc ? catalog_fail(diag, c->path, rc, "opening the catalog") : 0;
}

static int env_open(struct catalog *c, const char *file, struct io_wait *wait,
                    struct tamis_diag *diag)
{
    int rc = open_file(c, file, wait, diag), code = 0;
    if (!rc)
        rc = check_env(c, diag);
    if (!rc)
        rc = open_databases(c, NULL, wait, &code, diag);
    if (rc || !code)
        return rc;
    if (code == TAMIS_ERR_BUSY)
        return code; /* the diag has whom it waited for */
    if (code == MDB_NOTFOUND)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, file,
                         "an LMDB file, but no catalog of tamis (or one whose creation "
                         "was cut short)");
    return catalog_fail(diag, c->path, code, "opening the catalog");
}

/* The last process that closes the environment destroys its mutexes, perhaps while this
 * one opens it. Then it is opened again, which makes them anew. */
int catalog_env_open(struct catalog *c, const char *file, struct io_wait *wait,
                     struct tamis_diag *diag)
{
    enum { TRIES = 3 };
    for (int i = 1;; i++) {
        int rc = env_open(c, file, wait, diag);
        if (rc)
            catalog_env_close(c);
        if (!rc || !c->lock_refused || i == TRIES)
            return rc;
    }
}

int catalog_env_create(struct catalog *c, const char *file, const struct meta *m,
                       struct tamis_diag *diag)
{
    int fd, code = 0, rc = gate_open(c, file);
    if (!rc)
        rc = open_env(file, 0, &c->env);
    if (!rc)
        rc = mdb_env_get_fd(c->env, &fd);
    if (!rc)
        io_adopt(AT_FDCWD, c->path, fd);
    rc = rc ? catalog_fail(diag, c->path, rc, "creating the catalog")
            : open_databases(c, m, NULL, &code, diag);
    return rc || !code ? rc : catalog_fail(diag, c->path, code, "creating the catalog");
}

void catalog_env_close(struct catalog *c)
{
    struct io_wait briefly = {.timeout_ms = 100};
    /* LMDB's last user destroys the mutexes, which no process may open meanwhile. */
    bool entered = c->env && gate_enter(c, LOCK_SLOT, &briefly, NULL) == 0;
    if (c->env)
        gate_reserve(c->lock_file.fd);
    mdb_env_close(c->env);
    c->env = NULL;
    if (entered)
        gate_leave(c, LOCK_SLOT);
    origin_leave(c->origin);
    gate_close(c);
}
