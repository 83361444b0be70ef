/* Shared by the files around LMDB: its errors in our words, and its last transaction.
 */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

int catalog_fail(struct tamis_diag *diag, const char *store_path, int rc,
                 const char *doing)
{
    char file[STORE_PATH_BYTES];
    if (snprintf(file, sizeof file, "%s/catalog.lmdb", store_path) >= (int)sizeof file)
        memcpy(file, "...", 3);
    if (rc > 0)
        return diag_errno(diag, rc, file, doing);
    if (rc == MDB_READERS_FULL) /* nothing is wrong with the catalog */
        return diag_fail(diag, TAMIS_ERR_BUSY, file,
                         "%s: all reader slots of LMDB are taken: a process must "
                         "close the store first",
                         doing);
    int code = TAMIS_ERR_CATALOG;
    if (rc == MDB_INVALID)
        code = TAMIS_ERR_NOT_TAMIS;
    if (rc == MDB_VERSION_MISMATCH)
        code = TAMIS_ERR_VERSION;
    return diag_fail(diag, code, file, "%s: %s", doing, mdb_strerror(rc));
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
    if (mdb_txn_begin(c->env, NULL, MDB_RDONLY, &txn) != 0)
        return 0;
    uint64_t number = mdb_txn_id(txn);
    mdb_txn_abort(txn);
    return number;
}

int catalog_txn_fail(struct catalog_txn *t, int rc, const char *doing,
                     struct tamis_diag *diag)
{
    if (!t->failure)
        t->failure = rc;
    return catalog_fail(diag, t->catalog->path, rc, doing);
}
