/* Shared by the files around LMDB: fail.c, gate.c, lmdb.c, values.c, transaction.c,
 * env.c. They alone include <lmdb.h>. */
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

/* Two lines of LMDB's own, and one for each reader. */
enum { MAX_READERS = 1024, LOCK_FILE_BYTES = (MAX_READERS + 2) * 64 };

/* ---- fail.c ---- */

/* LMDB's code as ours, with its words. */
int catalog_fail(struct tamis_diag *diag, const char *store_path, int rc,
                 const char *doing);
/* The same inside a transaction, which remembers the first failure. */
int catalog_txn_fail(struct catalog_txn *t, int rc, const char *doing,
                     struct tamis_diag *diag);

/* ---- gate.c ---- */

/* Opens LMDB's lock file, or makes it; an errno. */
int gate_open(struct catalog *c, const char *file);
void gate_close(struct catalog *c);
/* LOCK_COMMIT before a write transaction, LOCK_SLOT before a slot of readers is taken
 * or cleared; both: in this order. ERR_BUSY: the wait is over. */
int gate_enter(struct catalog *c, enum lock_name which, struct io_wait *wait,
               struct tamis_diag *diag);
void gate_leave(struct catalog *c, enum lock_name which);

/* ---- lmdb.c ---- */

/* A transaction that reads. ERR_BUSY: no slot is to be had. */
int catalog_begin_read(struct catalog *c, MDB_txn **txn);
/* One that writes, for whoever has LOCK_COMMIT and LOCK_SLOT. The second is let go. */
int catalog_begin_write(struct catalog *c, MDB_txn **txn);
/* Clears the slots of readers that died. */
void catalog_clear_slots(struct catalog *c);
/* mdb_txn_commit(). If the disk is full: ENOSPC, for which LMDB says EIO. */
int catalog_commit(MDB_env *env, MDB_txn *txn);
/* Are its trees sound as of this transaction, so that LMDB may read them? EAGAIN: ask
 * again with a new one. */
int catalog_txn_walk(struct catalog *c, MDB_txn *txn, bool writing,
                     struct tamis_diag *diag);
/* catalog_agrees() with the map's lock held, or alone. */
int catalog_agrees_mapped(struct catalog *c, struct tamis_diag *diag);
/* The last transaction that the file names; the one that a reader would see, or 0. */
uint64_t catalog_written_last(struct catalog *c);
uint64_t catalog_visible_last(struct catalog *c);

#endif
