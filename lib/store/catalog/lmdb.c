/* Shared by the files around LMDB: how its transactions begin and end, the last one. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

#include <errno.h>
#include <sys/statvfs.h>

/* ---- beginning ---- */

/* A slot is taken in microseconds. If a process stops meanwhile, a reader does without.
 * EAGAIN, EACCES: of the byte that LMDB locks for a process. One of the same number, in
 * another container, has it. */
int catalog_begin_read(struct catalog *c, MDB_txn **txn)
{
    struct io_wait briefly = {.timeout_ms = 10};
    int n_dead, rc = gate_enter(c, LOCK_SLOT, &briefly, NULL);
    if (rc)
        return rc;
    rc = mdb_txn_begin(c->env, NULL, MDB_RDONLY, txn);
    if (rc == MDB_READERS_FULL) {
        /* Readers that died keep their slots until someone looks. */
        mdb_reader_check(c->env, &n_dead);
        rc = mdb_txn_begin(c->env, NULL, MDB_RDONLY, txn);
    }
    gate_leave(c, LOCK_SLOT);
    return rc == EAGAIN || rc == EACCES || rc == MDB_READERS_FULL ? TAMIS_ERR_BUSY : rc;
}

/* If the last writer died, LMDB clears its readers, too. */
int catalog_begin_write(struct catalog *c, MDB_txn **txn)
{
    int rc = mdb_txn_begin(c->env, NULL, 0, txn);
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

/* A commit first writes the meta page, then tells readers of it. Between the two
 * me_last_txnid is ahead of what a transaction sees: for moments, or, when the writer
 * was killed there, until somebody else writes. */
uint64_t catalog_written_last(struct catalog *c)
{
    MDB_envinfo info;
    mdb_env_info(c->env, &info);
    return info.me_last_txnid;
}

/* The transaction that a reader would see; 0 if none can begin as things are. */
uint64_t catalog_visible_last(struct catalog *c)
{
    MDB_txn *txn;
    if (catalog_begin_read(c, &txn) != 0)
        return 0;
    uint64_t number = mdb_txn_id(txn);
    mdb_txn_abort(txn);
    return number;
}

/* Where the lock file's number is the same, the file may be ahead by the commit that is
 * under way, and by no more. */
bool catalog_is_at(struct catalog *c, uint64_t number)
{
    uint64_t written = 0;
    int before = io_hold_cancel();
    pthread_rwlock_rdlock(&c->map_lock);
    bool same = !c->unmapped;
    if (same && c->env) {
        written = catalog_written_last(c);
        same = written == number ||
               (written <= number + 1 && catalog_visible_last(c) == number);
    } else if (same) {
        same = catalog_file_newest(c->fd, 0, &written) == 0 && written == number;
    }
    pthread_rwlock_unlock(&c->map_lock);
    io_let_cancel(before);
    return same;
}

/* The lock file says which transaction is the last, and a commit tells it after the
 * file. So the file is never behind what the lock file has said before, and never
 * further ahead of what it says afterwards than by one commit. */
int catalog_agrees_mapped(struct catalog *c, struct tamis_diag *diag)
{
    bool mapped = c->env && !c->unmapped;
    uint64_t before = mapped ? catalog_visible_last(c) : 0;
    int rc = origin_check(c->origin, before, UINT64_MAX, diag);
    uint64_t written = rc || !mapped ? 0 : catalog_written_last(c);
    uint64_t after = written ? catalog_visible_last(c) : 0;
    if (after && written > after + 1)
        rc = origin_fail_newest(c->origin, written, after, diag);
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
