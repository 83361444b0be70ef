/* The catalog for other rooms: one per process and file, its transactions, its records.
 * Nothing here knows LMDB; lmdb.h does. */
#ifndef TAMIS_STORE_CATALOG_CATALOG_H
#define TAMIS_STORE_CATALOG_CATALOG_H

#include "lib/store/base/counters.h"

/* ==== origin.c: is the store that the path names still the one that is open? ==== */

struct origin_file {
    _Atomic int fd; /* set last, perhaps while others compare; keeps the inode from
                       being reused; -1: no such file */
    uint64_t device, inode;
    char *path; /* from origin.at */
};
/* One per open catalog. Snapshots hold it, too, and may outlive the store. */
struct origin {
    atomic_size_t refs;
    struct looks looks;
    _Atomic uint64_t newest; /* a transaction that the file has had */
    int at;                  /* where the paths begin; AT_FDCWD: they are absolute */
    struct origin_file catalog, lock, filters; /* filters' fd is the caller's */
    struct io_guarded_fd
        users;      /* the catalog once more, for the lock that says which */
    bool has_users; /* lock file is used: no forked child keeps it */
};
/* All but origin_new() take NULL, for a catalog without a name yet. */
int origin_new(const char *store_path, int catalog_fd, struct origin **out);
void origin_release(struct origin *o);
/* Before LMDB opens its lock file: ERR_REPLACED if a process uses the catalog with
 * another one. Shows others our lock file until origin_leave(). */
int origin_take_lock_file(struct origin *o, struct tamis_diag *diag);
/* The directory of filters, which stays open as long as the origin. */
int origin_take_filters(struct origin *o, int fd);
void origin_leave(struct origin *o);
/* 0; ERR_REPLACED; an errno if unknown. Takes no lock. */
int origin_check_files(struct origin *o, struct tamis_diag *diag);
/* The same; the file's newest transaction must be in low .. high. */
int origin_check(struct origin *o, uint64_t low, uint64_t high,
                 struct tamis_diag *diag);
int origin_fail(const struct origin *o, struct tamis_diag *diag); /* ERR_REPLACED */
/* ERR_REPLACED: the newest transaction is `newest`, not `known`. */
int origin_fail_newest(struct origin *o, uint64_t newest, uint64_t known,
                       struct tamis_diag *diag);
/* The file has had this transaction, and must not fall below it. */
void origin_note(struct origin *o, uint64_t number);
static inline uint64_t origin_seen(struct origin *o)
{
    return o ? atomic_load(&o->newest) : 0;
}
void origin_look(struct origin *o, uint64_t now);

/* As of the last look: looks_known(). */
static inline enum tamis_reason origin_known(const struct origin *o)
{
    return o ? looks_known(&o->looks) : TAMIS_NO_REASON;
}

/* Looks if due: what is known is at most a second old then. Waits for no thread.
 * Returns the clock, for filters looked at next; 0 without a store. */
static inline uint64_t origin_clock(struct origin *o)
{
    uint64_t now = o ? look_clock() : 0;
    if (o && look_is_due(&o->looks, now))
        origin_look(o, now);
    return now;
}

static inline enum tamis_reason origin_now(struct origin *o)
{
    origin_clock(o);
    return origin_known(o);
}

/* ==== transaction.c: the catalog, one per process and file, and transactions ==== */

/* Its databases, in LMDB's order. A newer version may have others. */
enum catalog_db { CATALOG_META, CATALOG_PACKS, CATALOG_SEGMENTS, CATALOG_DBS };

struct catalog {
    struct catalog *next; /* in the registry */
    uint64_t device, inode;
    uint64_t dir_device, dir_inode; /* of STORE */
    size_t refs;                    /* guarded by the registry's lock */
    unsigned fork_epoch;
    struct origin *origin; /* NULL: in no registry */
    /* Under map_lock. NULL: reads go without LMDB, and the first write tries again. */
    struct MDB_env *env;
    unsigned dbs[CATALOG_DBS];
    atomic_bool read_only;
    int fd;                         /* the catalog's file */
    struct mapping metas;           /* its meta pages */
    struct io_guarded_fd lock_file; /* for gates, while env is open */
    bool has_lock_file;
    atomic_bool lock_refused; /* it is not LMDB's: then it is no use to wait */
    pthread_mutex_t gates[2]; /* one thread at a time has a gate's lock */
    atomic_bool committing;   /* a thread has LOCK_COMMIT */
    /* Held for reading by every transaction, for writing while the map moves. */
    pthread_rwlock_t map_lock;
    unsigned n_moves; /* of the map, under map_lock */
    bool unmapped;    /* the same: it could not be moved, all fails now */
    struct meta meta;
    struct tamis_domain domain;
    struct filters_dir *filters;
    struct ledger *ledger;
    pthread_mutex_t opened_lock;
    struct open_pack *opened; /* listing.h, under opened_lock */
    pthread_mutex_t cache_lock;
    struct tamis_snapshot *cached; /* the newest snapshot, under cache_lock */
    void (*release_cached)(struct tamis_snapshot *s); /* set with it */
    atomic_bool swept;
    /* STORE, with a shared flock while the store is open. Replacing its catalog takes
     * an exclusive one. */
    struct io_guarded_fd turn;
    bool has_turn;
    char path[]; /* of the store, for messages */
};

/* A transaction, as its function sees it. */
struct catalog_txn {
    struct catalog *catalog;
    struct tamis_diag *diag; /* what fails is told here; may be NULL */
    struct MDB_txn *txn;
    const struct catalog_copy *copy; /* or this, of a reader without a slot */
    int failure;                     /* LMDB's code of the first call that failed */
    bool wrote;                      /* committing it makes a transaction */
};
/* Runs inside a transaction, and again from the start if the map had to grow. Non-zero
 * rolls a write back. */
typedef int catalog_fn(struct catalog_txn *t, void *ctx);
typedef int catalog_each_fn(void *ctx, struct piece name, struct piece value);

int catalog_read(struct catalog *c, catalog_fn *fn, void *ctx, struct tamis_diag *diag);
/* ERR_BUSY: the wait is over, which `limit` (NULL: none) limits. ERR_VERSION if the
 * store has a feature that this version must not write. *unsure (may be NULL): the
 * commit failed, and the outcome is unknown. last: 0; or this process committed the
 * transaction `last`, and fn uses no page: if it is still the newest, no page is
 * checked. */
int catalog_write(struct catalog *c, const struct io_wait *limit, uint64_t last,
                  catalog_fn *fn, void *ctx, bool *unsure, struct tamis_diag *diag);
/* Is this the last transaction committed by any process? */
bool catalog_is_at(struct catalog *c, uint64_t number);
/* Do the path, the catalog file and LMDB's lock file belong together? ERR_REPLACED. */
int catalog_agrees(struct catalog *c, struct tamis_diag *diag);

/* ---- records and the meta record ---- */

/* Inside a transaction. Values are LMDB's, valid until the next write. A value longer
 * than any of its database comes with no bytes. ERR_NO_SEGMENT: no such key. */
int catalog_get_in(struct catalog_txn *t, enum catalog_db db, struct piece key,
                   struct piece *value);
int catalog_put_in(struct catalog_txn *t, enum catalog_db db, struct piece key,
                   struct piece value);
int catalog_delete_in(struct catalog_txn *t, enum catalog_db db, struct piece key);
/* In the order of keys, until a result is not 0. */
int catalog_each_in(struct catalog_txn *t, enum catalog_db db, catalog_each_fn *fn,
                    void *ctx);

/* The same of segment records. */
static inline int catalog_get(struct catalog_txn *t, struct piece name,
                              struct piece *value)
{
    return catalog_get_in(t, CATALOG_SEGMENTS, name, value);
}
static inline int catalog_replace(struct catalog_txn *t, struct piece name,
                                  struct piece value)
{
    return catalog_put_in(t, CATALOG_SEGMENTS, name, value);
}
static inline int catalog_delete(struct catalog_txn *t, struct piece name)
{
    return catalog_delete_in(t, CATALOG_SEGMENTS, name);
}
static inline int catalog_each(struct catalog_txn *t, catalog_each_fn *fn, void *ctx)
{
    return catalog_each_in(t, CATALOG_SEGMENTS, fn, ctx);
}
/* How many segment records there are; and how many segments, as all records say. */
int catalog_count_records(struct catalog_txn *t, uint64_t *n);
int catalog_count(struct catalog_txn *t, uint64_t *n);
catalog_fn catalog_meta; /* ctx: struct meta, which it reads */
/* Sets the flag "every segment of the engine is listed"; does nothing if it has this
 * value. */
int catalog_set_complete(struct catalog_txn *t, bool complete);
/* The bytes, with those that this version does not know. */
int catalog_meta_value(struct catalog_txn *t, struct piece *value);
uint64_t catalog_txn_number(const struct catalog_txn *t);

/* ==== env.c: made, opened, closed ==== */

/* c has its path, device and inode; `file` is LMDB's. Opens read-only if it must, or if
 * c->read_only. ERR_BUSY, ENOSPC, EROFS and their like say that LMDB cannot be had now;
 * a reader does without. */
int catalog_env_open(struct catalog *c, const char *file, struct io_wait *wait,
                     struct tamis_diag *diag);
/* Makes one with a meta record. */
int catalog_env_create(struct catalog *c, const char *file, const struct meta *m,
                       struct tamis_diag *diag);
void catalog_env_close(struct catalog *c);

/* ==== registry.c: one catalog per process and file ==== */

int store_dir_open(const char *path, int *dir, struct tamis_diag *diag);
/* STORE/catalog.lmdb, for reading; ERR_NO_STORE where there is none. */
int registry_open_file(int dir, const char *path, int *fd, struct tamis_diag *diag);
/* ERR_NOT_TAMIS if LMDB's lock file exists and is not regular: LMDB would write to it,
 * or through a link. */
int registry_check_lock_file(int dir, const char *path, struct tamis_diag *diag);
struct stat;
void catalog_free(struct catalog *c);
/* For repair, with STORE locked exclusively: the catalog, in no registry, to be read
 * without LMDB: each transaction checks all pages. */
int registry_open_alone(const char *store_path, int dir, struct catalog **out,
                        struct tamis_diag *diag);

/* ---- a new catalog file ---- */

/* Creates STORE/catalog.lmdb, whole or not at all. `dir` is STORE. `fill` (may be NULL)
 * adds the records. replace: over an old one if any, durable once `dir` is synced; the
 * caller has STORE locked exclusively, or alone knows its name. */
int registry_create(const char *store_path, int dir, const struct meta *m,
                    catalog_fn *fill, void *ctx, bool replace, struct tamis_diag *diag);
/* Its name until it is whole: this, eight hex digits and ".tmp". */
#define CATALOG_TEMP "catalog.lmdb."
enum { CATALOG_TEMP_BYTES = 40 };

int registry_open(const char *store_path, struct io_wait *wait, struct catalog **out,
                  struct tamis_diag *diag);
struct catalog *registry_hold(struct catalog *c);
void registry_release(struct catalog *c);

/* ---- a store as the other rooms have it ---- */

struct tamis_store {
    struct catalog *catalog;
    tamis_waiting_fn *waiting;
    void *ctx;
    bool is_new;
    bool locked; /* repair's, which has filters/ exclusively: its edits need no lock */
};
/* A wait of a call on this handle. */
static inline struct io_wait store_wait(const struct tamis_store *s, int64_t timeout_ms)
{
    return (struct io_wait){timeout_ms, s->waiting, s->ctx, 0};
}
/* ERR_RANGE for NULL, ERR_FORKED in a forked child, ERR_READ_ONLY if `writing`. */
int store_usable(const struct tamis_store *s, bool writing, struct tamis_diag *diag);

/* listing.c: a catalog_fn that reads the record of a name. */
struct wanted {
    struct piece name;
    struct io_wait wait; /* of who wants it */
    struct record record;
};
catalog_fn store_find_record;

/* "catalog.lmdb.<8 hex digits>.tmp", or LMDB's lock file beside it? */
bool store_catalog_temporary(const char *name);

#endif
