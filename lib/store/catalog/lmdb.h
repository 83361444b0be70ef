/* Shared by env.c and transaction.c, which alone include <lmdb.h>. */
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

/* LMDB's lock file as LMDB 0.9 lays it out, in native order: a head, and a slot for
 * each reader. */
struct lmdb_slot {
    _Alignas(64) uint64_t txn;
    int32_t pid; /* 0: free */
};
struct lmdb_lock {
    _Alignas(64) uint32_t magic;
    uint32_t format;
    pthread_mutex_t readers;
    uint64_t txn;     /* the last one committed */
    uint32_t n_slots; /* that were ever used */
    _Alignas(64) pthread_mutex_t writer;
    struct lmdb_slot slots[];
};
enum {
    MAX_READERS = 1024,
    LOCK_FILE_BYTES = sizeof(struct lmdb_lock) + MAX_READERS * sizeof(struct lmdb_slot)
};

/* ---- env.c ---- */

/* LMDB's code as ours, with its words. */
int catalog_fail(struct tamis_diag *diag, const char *store_path, int rc,
                 const char *doing);

/* LOCK_COMMIT before a write transaction, LOCK_SLOT before a slot of readers is taken
 * or cleared; both: in this order. ERR_BUSY: the wait is over. */
int gate_enter(struct catalog *c, enum lock_name which, struct io_wait *wait,
               struct tamis_diag *diag);
void gate_leave(struct catalog *c, enum lock_name which);

/* A transaction that reads. ERR_BUSY: no slot is to be had, or LMDB would begin with
 * another transaction than the newest, or with one older than this process has seen. */
int catalog_begin_read(struct catalog *c, MDB_txn **txn);
/* Did writers leave its pages alone until now? Else nothing that it read counts. */
bool catalog_was_kept(struct catalog *c, MDB_txn *txn);
/* Begins a transaction that writes. The caller has LOCK_COMMIT and LOCK_SLOT; the
 * second is let go. *diag says why it is ERR_REPLACED. */
int catalog_begin_write(struct catalog *c, MDB_txn **txn, struct tamis_diag *diag);
/* Is the transaction before this one, which writes, the newest of the file? */
int catalog_still_next(struct catalog *c, MDB_txn *txn, struct tamis_diag *diag);
/* Clears the slots of readers that died. */
void catalog_clear_slots(struct catalog *c);
/* mdb_txn_commit(). If the disk is full: ENOSPC, for which LMDB says EIO. */
int catalog_commit(MDB_env *env, MDB_txn *txn);
/* Are its trees sound as of this transaction, so that LMDB may read them? EAGAIN: ask
 * again with a new one. */
int catalog_txn_walk(struct catalog *c, MDB_txn *txn, bool writing,
                     struct tamis_diag *diag);

#endif
