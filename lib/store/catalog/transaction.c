/* The catalog's transactions: a function runs inside one, again if the map had to grow
 * for it. LMDB's own rules for them are kept here (one mapping that may move, readers
 * that died, commits that nobody knows the end of), so that nobody above needs to know
 * them. registry.c sees to it that there is one environment per process and file. */
#include "lib/store/catalog/lmdb.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static size_t map_bytes(const struct catalog *c)
{
    MDB_envinfo info;
    mdb_env_info(c->env, &info);
    return info.me_mapsize;
}

static int begin(struct catalog *c, unsigned flags, MDB_txn **txn)
{
    int rc = mdb_txn_begin(c->env, NULL, flags, txn);
    if (rc == MDB_READERS_FULL) {
        /* Readers that died keep their slots until someone looks. */
        int n_dead;
        mdb_reader_check(c->env, &n_dead);
        rc = mdb_txn_begin(c->env, NULL, flags, txn);
    }
    return rc;
}

/* A failed commit is undone, unless it failed while the meta page was written: then
 * LMDB lets no further transaction begin, and nobody knows what the disk holds. */
static bool commit_unsure(struct catalog *c)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(c->env, NULL, MDB_RDONLY, &txn);
    if (rc == 0)
        mdb_txn_abort(txn);
    return rc == MDB_PANIC;
}

static int finish_read(struct catalog_txn *t, int rc, struct tamis_diag *diag)
{
    struct catalog *c = t->catalog;
    MDB_envinfo info;
    size_t number = mdb_txn_id(t->txn);
    mdb_txn_abort(t->txn);
    if (!c->unlocked)
        return rc;
    /* Without a reader table a writer elsewhere may have reused the pages that were
     * just read: if anything was committed meanwhile, read again. */
    mdb_env_info(c->env, &info);
    if (info.me_last_txnid == number)
        return rc;
    t->failure = MDB_BAD_TXN;
    return catalog_fail(diag, c->path, MDB_BAD_TXN,
                        "reading a catalog that keeps changing");
}

/* The store may have become another one since it was opened, or a newer version may
 * have marked it: as one that this one must not write, or not even read. */
static int may_write(struct catalog_txn *t, struct tamis_diag *diag)
{
    struct meta m;
    const struct catalog *c = t->catalog;
    int rc = catalog_meta(t, &m, diag);
    if (rc)
        return rc;
    if (c->origin && memcmp(m.store_uuid, c->meta.store_uuid, UUID_BYTES) != 0)
        return diag_fail(
            diag, TAMIS_ERR_REPLACED, c->path,
            "the catalog of another store was copied over this one's while "
            "it is open");
    if (!(m.ro_compat & ~META_RO_COMPAT_KNOWN))
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, c->path,
                     "the store has a feature that this tamis must not write");
}

/* Nobody else writes now, so the transaction before this one is the newest of the file.
 */
static int still_the_store(struct catalog_txn *t, struct tamis_diag *diag)
{
    uint64_t last = mdb_txn_id(t->txn) - 1;
    return origin_check(t->catalog->origin, last, last, diag);
}

/* A commit writes what it changed over free pages: first see that they are free. */
static int look_first(struct catalog_txn *t, struct tamis_diag *diag)
{
    int rc = still_the_store(t, diag);
    if (rc)
        return rc;
    rc = catalog_txn_walk(t->catalog, t->txn, true, diag);
    if (rc == EAGAIN) /* nobody else writes: it is not the file that was opened */
        rc = diag_fail(diag, TAMIS_ERR_DAMAGED, t->catalog->path,
                       "the catalog's last transaction is not in its file");
    return rc ? rc : may_write(t, diag);
}

/* LMDB's commit says 0 of a file that has lost its name meanwhile, too. */
static int commit(struct catalog_txn *t, bool *unsure, struct tamis_diag *diag)
{
    struct catalog *c = t->catalog;
    uint64_t number = mdb_txn_id(t->txn);
    t->failure = catalog_commit(c->env, t->txn);
    if (t->failure) {
        if (unsure)
            *unsure = commit_unsure(c);
        return catalog_fail(diag, c->path, t->failure, "committing");
    }
    int rc = t->wrote ? origin_check(c->origin, number, UINT64_MAX, diag)
                      : origin_check_files(c->origin, diag);
    if (rc && unsure)
        *unsure = true;
    return rc;
}

static int run_once(struct catalog *c, unsigned flags, catalog_fn *fn, void *ctx,
                    struct catalog_txn *t, bool *unsure, struct tamis_diag *diag)
{
    int rc = begin(c, flags, &t->txn);
    t->failure = rc;
    if (rc)
        return catalog_fail(diag, c->path, rc, "beginning a transaction");
    if (!(flags & MDB_RDONLY))
        rc = look_first(t, diag);
    if (!rc)
        rc = fn(t, ctx, diag);
    if (flags & MDB_RDONLY)
        return finish_read(t, rc, diag);
    if (!rc)
        rc = still_the_store(t, diag);
    if (!rc)
        return commit(t, unsure, diag);
    mdb_txn_abort(t->txn);
    return rc;
}

/* With map_lock held for writing. LMDB drops its mapping before it makes the new one,
 * and if that fails it has none and does not know: the next transaction would crash. */
static int set_map(struct catalog *c, size_t n_bytes)
{
    int rc = mdb_env_set_mapsize(c->env, n_bytes);
    if (rc)
        c->unmapped = true;
    return rc;
}

/* Would there be address space for it? */
static int try_map(struct catalog *c, size_t n_bytes)
{
    struct mapping m;
    int fd, rc = mdb_env_get_fd(c->env, &fd);
    if (!rc)
        rc = map_file(fd, 0, n_bytes, false, NULL, &m);
    if (!rc)
        map_drop(&m);
    return rc;
}

/* Makes room: nothing of this process may be inside a transaction meanwhile, for the
 * mapping moves. Another thread may have been first. */
static int grow_map(struct catalog *c, size_t seen)
{
    int rc = 0, n_dead;
    pthread_rwlock_wrlock(&c->map_lock);
    if (!c->unmapped && map_bytes(c) == seen) {
        mdb_reader_check(c->env, &n_dead);
        rc = seen > SIZE_MAX / 4 ? ENOMEM : try_map(c, seen * 2);
        if (!rc)
            rc = set_map(c, seen * 2);
    }
    pthread_rwlock_unlock(&c->map_lock);
    return rc;
}

/* Another process has made the map larger than ours: take its size. */
static int adopt_map(struct catalog *c)
{
    pthread_rwlock_wrlock(&c->map_lock);
    int rc = c->unmapped ? 0 : set_map(c, 0);
    pthread_rwlock_unlock(&c->map_lock);
    return rc;
}

static int fail_unmapped(const struct catalog *c, struct tamis_diag *diag)
{
    return diag_fail(diag, TAMIS_ERR_CATALOG, c->path,
                     "the catalog could not be mapped anew: open the store again");
}

static int run_until_mapped(struct catalog *c, unsigned flags, catalog_fn *fn,
                            void *ctx, bool *unsure, struct tamis_diag *diag)
{
    for (int tries = 0;; tries++) {
        struct catalog_txn t = {.catalog = c};
        pthread_rwlock_rdlock(&c->map_lock);
        size_t seen = c->unmapped ? 0 : map_bytes(c);
        int rc = c->unmapped ? fail_unmapped(c, diag)
                             : run_once(c, flags, fn, ctx, &t, unsure, diag);
        pthread_rwlock_unlock(&c->map_lock);

        int again = MDB_PANIC;
        if (t.failure == MDB_MAP_FULL)
            again = grow_map(c, seen);
        else if (t.failure == MDB_MAP_RESIZED)
            again = adopt_map(c);
        else if (t.failure == MDB_BAD_TXN && c->unlocked && tries < 8)
            again = 0;
        else
            return rc;
        if (again)
            return catalog_fail(diag, c->path, again, "growing the catalog's map");
        diag_clear(diag);
    }
}

/* A thread that was cancelled in a transaction would keep LMDB's lock, which is that of
 * all processes, and the map's. */
static int run(struct catalog *c, unsigned flags, catalog_fn *fn, void *ctx,
               bool *unsure, struct tamis_diag *diag)
{
    int before = io_hold_cancel();
    int rc = run_until_mapped(c, flags, fn, ctx, unsure, diag);
    io_let_cancel(before);
    return rc;
}

int catalog_read(struct catalog *c, catalog_fn *fn, void *ctx, struct tamis_diag *diag)
{
    if (origin_now(c->origin) == TAMIS_MISMATCH)
        return origin_fail(c->origin, diag);
    return run(c, MDB_RDONLY, fn, ctx, NULL, diag);
}

int catalog_write(struct catalog *c, catalog_fn *fn, void *ctx, bool *unsure,
                  struct tamis_diag *diag)
{
    if (unsure)
        *unsure = false;
    /* LMDB would touch pages of a file that was cut off. */
    int rc = origin_check(c->origin, 0, UINT64_MAX, diag);
    return rc ? rc : run(c, 0, fn, ctx, unsure, diag);
}

/* ---- which transaction is the last ---- */

/* Where the lock file's number is the same, the file may be ahead by the commit that is
 * under way, and by no more. */
bool catalog_is_at(struct catalog *c, uint64_t number)
{
    pthread_rwlock_rdlock(&c->map_lock);
    uint64_t written = c->unmapped ? 0 : catalog_written_last(c);
    bool same =
        !c->unmapped && (written == number ||
                         (written <= number + 1 && catalog_visible_last(c) == number));
    pthread_rwlock_unlock(&c->map_lock);
    return same;
}

/* The lock file says which transaction is the last, and a commit tells it after the
 * file. So the file is never behind what the lock file has said before, and never
 * further ahead of what it says afterwards than by one commit. */
int catalog_agrees(struct catalog *c, struct tamis_diag *diag)
{
    if (!c->origin)
        return 0;
    pthread_rwlock_rdlock(&c->map_lock);
    uint64_t before = c->unmapped ? 0 : catalog_visible_last(c);
    int rc = origin_check(c->origin, before, UINT64_MAX, diag);
    uint64_t written = rc || c->unmapped ? 0 : catalog_written_last(c);
    uint64_t after = written ? catalog_visible_last(c) : 0;
    pthread_rwlock_unlock(&c->map_lock);
    if (after && written > after + 1 && !c->unlocked)
        rc = origin_fail_newest(c->origin, written, after, diag);
    return rc;
}
