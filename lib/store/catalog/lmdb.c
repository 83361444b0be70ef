/* Shared by the files around LMDB: how its transactions begin and end, the last one. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

#include <sys/statvfs.h>

/* ---- beginning ---- */

/* EINVAL: a mutex was destroyed, or is damaged. */
static int begin_txn(struct catalog *c, unsigned flags, MDB_txn **txn)
{
    int rc = mdb_txn_begin(c->env, NULL, flags, txn);
    c->lock_refused |= rc == EINVAL;
    return rc == EINVAL ? MDB_INVALID : rc;
}

/* Is this the newest transaction? A commit first writes the meta page, then the lock
 * file, from which LMDB's readers take the number. Between the two its writer has
 * LOCK_COMMIT, unless it was killed there, or what the lock file says is wrong. */
static bool is_newest(struct catalog *c, uint64_t number)
{
    struct lmdb_lock l;
    uint64_t written = 0;
    if (!c->env) /* by reading: the file may have been cut */
        return catalog_file_newest(c->fd, 0, &written) == 0 && written == number;
    written = catalog_file_shows(&c->metas);
    return written == number || (written == number + 1 && gate_look(c, &l) == 0 &&
                                 l.txn == number && gate_commits(c));
}

static int begin_at_newest(struct catalog *c, MDB_txn **txn)
{
    uint64_t seen = origin_seen(c->origin);
    int n_dead, rc = begin_txn(c, MDB_RDONLY, txn);
    if (rc == MDB_READERS_FULL) {
        /* Readers that died keep their slots until someone looks. */
        mdb_reader_check(c->env, &n_dead);
        rc = begin_txn(c, MDB_RDONLY, txn);
    }
    if (rc || (mdb_txn_id(*txn) >= seen && is_newest(c, mdb_txn_id(*txn))))
        return rc;
    mdb_txn_abort(*txn);
    return TAMIS_ERR_BUSY;
}

/* A slot is taken in microseconds. If a process stops meanwhile, a reader does without.
 * EAGAIN, EACCES: LMDB could not lock its byte of this process, as one of the same
 * number in another container has it. MDB_INVALID: a mutex is damaged. */
int catalog_begin_read(struct catalog *c, MDB_txn **txn)
{
    struct io_wait briefly = {.timeout_ms = 10};
    int rc = gate_enter(c, LOCK_SLOT, &briefly, NULL);
    if (rc)
        return rc;
    rc = begin_at_newest(c, txn);
    if (rc == TAMIS_ERR_BUSY) /* a commit has ended meanwhile; now none can begin */
        rc = begin_at_newest(c, txn);
    gate_leave(c, LOCK_SLOT);
    return rc == EAGAIN || rc == EACCES || rc == MDB_READERS_FULL || rc == MDB_INVALID
               ? TAMIS_ERR_BUSY
               : rc;
}

/* Its slot may have been lost. But a page that T has is let go by T + 1 at the
 * earliest, and taken by T + 3, which begins after T + 2 has written its meta page. */
bool catalog_was_kept(struct catalog *c, MDB_txn *txn)
{
    uint64_t number = mdb_txn_id(txn);
    return catalog_file_shows(&c->metas) <= number + 1 || gate_has_slot(c, number);
}

int catalog_still_next(struct catalog *c, MDB_txn *txn, struct tamis_diag *diag)
{
    uint64_t last = mdb_txn_id(txn) - 1;
    return origin_check(c->origin, last, last, diag);
}

/* If the last writer died, LMDB clears its readers, too. */
int catalog_begin_write(struct catalog *c, MDB_txn **txn, struct tamis_diag *diag)
{
    int begun = begin_txn(c, 0, txn);
    int rc = begun ? begun : catalog_still_next(c, *txn, diag);
    if (rc && !begun)
        mdb_txn_abort(*txn);
    gate_leave(c, LOCK_SLOT);
    return rc;
}

void catalog_clear_slots(struct catalog *c)
{
    struct io_wait briefly = {.timeout_ms = 10};
    int n_dead;
    if (gate_enter(c, LOCK_SLOT, &briefly, NULL) != 0)
        return;
    mdb_reader_check(c->env, &n_dead);
    gate_leave(c, LOCK_SLOT);
}

/* A write that was cut short says nothing of why; what is left of the disk does. */
int catalog_commit(MDB_env *env, MDB_txn *txn)
{
    enum { FULL_BYTES = 65536 };
    struct statvfs fs;
    int fd, rc = mdb_txn_commit(txn);
    if (rc == EIO && mdb_env_get_fd(env, &fd) == 0 && fstatvfs(fd, &fs) == 0 &&
        (uint64_t)fs.f_bavail * fs.f_frsize < FULL_BYTES)
        return ENOSPC;
    return rc;
}

int catalog_txn_walk(struct catalog *c, MDB_txn *txn, bool writing,
                     struct tamis_diag *diag)
{
    int fd, rc = mdb_env_get_fd(c->env, &fd);
    if (rc)
        return catalog_fail(diag, c->path, rc, "walking the catalog");
    return catalog_file_walk(fd, c->path, mdb_txn_id(txn) - writing, diag);
}

bool catalog_is_at(struct catalog *c, uint64_t number)
{
    int before = io_hold_cancel();
    pthread_rwlock_rdlock(&c->map_lock);
    bool same = !c->unmapped && is_newest(c, number);
    pthread_rwlock_unlock(&c->map_lock);
    io_let_cancel(before);
    return same;
}

/* The lock file has the number of the last transaction. A commit writes the file first,
 * and then the lock file. So the file is never behind a number that was read from the
 * lock file before it, and at most one commit ahead of a number that is read after it.
 * It is never behind the numbers that this process has seen. */
int catalog_agrees_mapped(struct catalog *c, struct tamis_diag *diag)
{
    uint64_t low = origin_seen(c->origin);
    struct lmdb_lock l;
    bool mapped = c->env && !c->unmapped && gate_look(c, &l) == 0;
    if (mapped && l.txn > low)
        low = l.txn;
    int rc = origin_check(c->origin, low, UINT64_MAX, diag);
    if (rc || !mapped)
        return rc;
    uint64_t written = catalog_file_shows(&c->metas);
    if (gate_look(c, &l) == 0 && written > l.txn && written - l.txn > 1)
        rc = origin_fail_newest(c->origin, written, l.txn, diag);
    return rc;
}

int catalog_agrees(struct catalog *c, struct tamis_diag *diag)
{
    if (!c->origin)
        return 0;
    pthread_rwlock_rdlock(&c->map_lock);
    int rc = catalog_agrees_mapped(c, diag);
    pthread_rwlock_unlock(&c->map_lock);
    return rc;
}
