/* Shared by the files around LMDB: lmdb.c, values.c, transaction.c, env.c. They alone
 * include <lmdb.h>. */
#ifndef TAMIS_STORE_CATALOG_H
#define TAMIS_STORE_CATALOG_H

#include <lmdb.h>

#include "lib/store/catalog/catalog.h"

static inline MDB_val catalog_val(const void *bytes, size_t n_bytes)
{
    /* LMDB's values are not const, but it does not write to them. */
    union {
        const void *in;
        void *out;
    } p = {.in = bytes};
    return (MDB_val){.mv_size = n_bytes, .mv_data = p.out};
}

/* LMDB's code as ours, with its words. */
int catalog_fail(struct tamis_diag *diag, const char *store_path, int rc,
                 const char *doing);
/* The same inside a transaction, which remembers the first failure. */
int catalog_txn_fail(struct catalog_txn *t, int rc, const char *doing,
                     struct tamis_diag *diag);
/* mdb_txn_commit(). If the disk is full: ENOSPC, for which LMDB says EIO. */
int catalog_commit(MDB_env *env, MDB_txn *txn);
/* Are its trees sound as of this transaction, so that LMDB may read them? EAGAIN: ask
 * again with a new one. */
int catalog_txn_walk(struct catalog *c, MDB_txn *txn, bool writing,
                     struct tamis_diag *diag);
/* The last transaction that the file names, and the one that a transaction would see; 0
 * if none can begin as things are. */
uint64_t catalog_written_last(struct catalog *c);
uint64_t catalog_visible_last(struct catalog *c);

#endif
