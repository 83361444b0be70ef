/* The catalog's LMDB environment: opening it, transactions, records in and out. The
 * only file that includes <lmdb.h>; LMDB's own rules are kept here, so that nobody
 * above needs to know them. registry.c sees to it that there is one environment per
 * process and file. */
#include "lib/store/store.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const size_t FIRST_MAP_BYTES = (size_t)64 << 20;
enum { MAX_READERS = 1024, MAX_DATABASES = 8 };
static const char META_KEY[] = "store";

static MDB_val val_of(const void *bytes, size_t n_bytes)
{
    /* LMDB's values are not const, but it does not write to them. */
    union {
        const void *in;
        void *out;
    } p = {.in = bytes};
    return (MDB_val){.mv_size = n_bytes, .mv_data = p.out};
}

/* LMDB's code as ours, with its words. */
static int fail(struct tamis_diag *diag, const char *store_path, int rc,
                const char *doing)
{
    char file[STORE_PATH_BYTES];
    if (snprintf(file, sizeof file, "%s/catalog.lmdb", store_path) >= (int)sizeof file)
        memcpy(file, "...", 3);
    if (rc > 0)
        return diag_errno(diag, rc, file, doing);
    int code = TAMIS_ERR_CATALOG;
    if (rc == MDB_INVALID)
        code = TAMIS_ERR_NOT_TAMIS;
    if (rc == MDB_VERSION_MISMATCH)
        code = TAMIS_ERR_VERSION;
    return diag_fail(diag, code, file, "%s: %s", doing, mdb_strerror(rc));
}

/* ---- transactions ---- */

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
    return fail(diag, c->path, MDB_BAD_TXN, "reading a catalog that keeps changing");
}

static int run_once(struct catalog *c, unsigned flags, catalog_fn *fn, void *ctx,
                    struct catalog_txn *t, bool *unsure, struct tamis_diag *diag)
{
    int rc = begin(c, flags, &t->txn);
    t->failure = rc;
    if (rc)
        return fail(diag, c->path, rc, "beginning a transaction");
    rc = fn(t, ctx, diag);
    if (flags & MDB_RDONLY)
        return finish_read(t, rc, diag);
    if (rc) {
        mdb_txn_abort(t->txn);
        return rc;
    }
    rc = mdb_txn_commit(t->txn);
    t->failure = rc;
    if (!rc)
        return 0;
    if (unsure)
        *unsure = commit_unsure(c);
    return fail(diag, c->path, rc, "committing");
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

static int run(struct catalog *c, unsigned flags, catalog_fn *fn, void *ctx,
               bool *unsure, struct tamis_diag *diag)
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
            return fail(diag, c->path, again, "growing the catalog's map");
        diag_clear(diag);
    }
}

int catalog_read(struct catalog *c, catalog_fn *fn, void *ctx, struct tamis_diag *diag)
{
    return run(c, MDB_RDONLY, fn, ctx, NULL, diag);
}

int catalog_write(struct catalog *c, catalog_fn *fn, void *ctx, bool *unsure,
                  struct tamis_diag *diag)
{
    if (unsure)
        *unsure = false;
    return run(c, 0, fn, ctx, unsure, diag);
}

/* A commit first writes the meta page, then tells readers of it. Between the two
 * me_last_txnid is ahead of what a transaction sees: for moments, or, when the writer
 * was killed there, until somebody else writes. */
static uint64_t written_last(struct catalog *c)
{
    MDB_envinfo info;
    mdb_env_info(c->env, &info);
    return info.me_last_txnid;
}

/* What a transaction would see; 0 if none can begin as things are. */
static uint64_t visible_last(struct catalog *c)
{
    MDB_txn *txn;
    if (mdb_txn_begin(c->env, NULL, MDB_RDONLY, &txn) != 0)
        return 0;
    uint64_t number = mdb_txn_id(txn);
    mdb_txn_abort(txn);
    return number;
}

bool catalog_is_at(struct catalog *c, uint64_t number)
{
    pthread_rwlock_rdlock(&c->map_lock);
    bool same =
        !c->unmapped && (written_last(c) == number || visible_last(c) == number);
    pthread_rwlock_unlock(&c->map_lock);
    return same;
}

/* Who opens a store after a crash must not see the list change under its feet when it
 * writes for the first time: a commit that its dead writer got as far as the meta page
 * is made visible, and durable, now. */
static int settle(struct catalog *c)
{
    MDB_txn *txn;
    if (written_last(c) == visible_last(c))
        return 0;
    int rc = mdb_txn_begin(c->env, NULL, 0, &txn); /* repairs, if its owner died */
    if (rc)
        return rc == MDB_MAP_RESIZED ? 0 : rc;
    mdb_txn_abort(txn);
    return mdb_env_sync(c->env, 1);
}

/* ---- inside a transaction ---- */

static int failed(struct catalog_txn *t, int rc, const char *doing,
                  struct tamis_diag *diag)
{
    if (!t->failure)
        t->failure = rc;
    return fail(diag, t->catalog->path, rc, doing);
}

static int name_error(struct catalog_txn *t, int code, const void *name,
                      size_t name_bytes, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    return diag_fail(diag, code, t->catalog->path,
                     code == TAMIS_ERR_EXISTS ? "segment %s exists already"
                                              : "no segment %s",
                     name_text(text, name, name_bytes));
}

/* No record is that long: the length is damaged, and may lead beyond the file. */
static size_t value_length(const MDB_val *data)
{
    return data->mv_size <= RECORD_MAX_BYTES ? data->mv_size : 0;
}

int catalog_get(struct catalog_txn *t, const void *name, size_t name_bytes,
                const uint8_t **value, size_t *value_bytes, struct tamis_diag *diag)
{
    MDB_val key = val_of(name, name_bytes), data;
    int rc = mdb_get(t->txn, t->catalog->segments_db, &key, &data);
    if (rc == MDB_NOTFOUND)
        return name_error(t, TAMIS_ERR_NO_SEGMENT, name, name_bytes, diag);
    if (rc)
        return failed(t, rc, "reading a record", diag);
    *value = data.mv_data;
    *value_bytes = value_length(&data);
    return 0;
}

static int put(struct catalog_txn *t, const void *name, size_t name_bytes,
               const uint8_t *value, size_t value_bytes, unsigned flags,
               struct tamis_diag *diag)
{
    MDB_val key = val_of(name, name_bytes), data = val_of(value, value_bytes);
    int rc = mdb_put(t->txn, t->catalog->segments_db, &key, &data, flags);
    if (rc == MDB_KEYEXIST)
        return name_error(t, TAMIS_ERR_EXISTS, name, name_bytes, diag);
    return rc ? failed(t, rc, "writing a record", diag) : 0;
}

int catalog_add(struct catalog_txn *t, const void *name, size_t name_bytes,
                const uint8_t *value, size_t value_bytes, struct tamis_diag *diag)
{
    return put(t, name, name_bytes, value, value_bytes, MDB_NOOVERWRITE, diag);
}

int catalog_replace(struct catalog_txn *t, const void *name, size_t name_bytes,
                    const uint8_t *value, size_t value_bytes, struct tamis_diag *diag)
{
    return put(t, name, name_bytes, value, value_bytes, 0, diag);
}

int catalog_delete(struct catalog_txn *t, const void *name, size_t name_bytes,
                   struct tamis_diag *diag)
{
    MDB_val key = val_of(name, name_bytes);
    int rc = mdb_del(t->txn, t->catalog->segments_db, &key, NULL);
    if (rc == MDB_NOTFOUND)
        return name_error(t, TAMIS_ERR_NO_SEGMENT, name, name_bytes, diag);
    return rc ? failed(t, rc, "deleting a record", diag) : 0;
}

int catalog_each(struct catalog_txn *t, catalog_each_fn *fn, void *ctx,
                 struct tamis_diag *diag)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    int rc = mdb_cursor_open(t->txn, t->catalog->segments_db, &cursor);
    if (rc)
        return failed(t, rc, "listing the segments", diag);
    int stopped = 0;
    while (!stopped && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0)
        stopped = fn(ctx, key.mv_data, key.mv_size, data.mv_data, value_length(&data));
    mdb_cursor_close(cursor);
    if (stopped > 0 && diag && diag->code == stopped)
        return stopped; /* fn has said more */
    if (stopped > 0)
        return diag_errno(diag, stopped, t->catalog->path, "listing the segments");
    if (stopped || rc == MDB_NOTFOUND)
        return stopped;
    return failed(t, rc, "listing the segments", diag);
}

int catalog_meta_value(struct catalog_txn *t, const uint8_t **value,
                       size_t *value_bytes, struct tamis_diag *diag)
{
    MDB_val key = val_of(META_KEY, sizeof META_KEY - 1), data;
    int rc = mdb_get(t->txn, t->catalog->meta_db, &key, &data);
    if (rc == MDB_NOTFOUND)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, t->catalog->path,
                         "a catalog without its first record: creating the store was "
                         "cut short");
    if (rc)
        return failed(t, rc, "reading the catalog's first record", diag);
    *value = data.mv_data;
    *value_bytes = data.mv_size;
    return 0;
}

int catalog_meta(struct catalog_txn *t, struct meta *m, struct tamis_diag *diag)
{
    const uint8_t *value;
    size_t n;
    memset(m, 0, sizeof *m);
    int rc = catalog_meta_value(t, &value, &n, diag);
    if (rc)
        return rc;
    struct verdict v = meta_decode(value, n, m);
    return v.code == VERDICT_OK ? 0 : diag_verdict(diag, v, t->catalog->path, 0);
}

int catalog_set_meta_value(struct catalog_txn *t, const uint8_t *value,
                           size_t value_bytes, struct tamis_diag *diag)
{
    MDB_val key = val_of(META_KEY, sizeof META_KEY - 1);
    MDB_val data = val_of(value, value_bytes);
    int rc = mdb_put(t->txn, t->catalog->meta_db, &key, &data, 0);
    return rc ? failed(t, rc, "writing the catalog's first record", diag) : 0;
}

int catalog_set_meta(struct catalog_txn *t, const struct meta *m,
                     struct tamis_diag *diag)
{
    uint8_t bytes[META_BYTES];
    meta_encode(m, bytes);
    return catalog_set_meta_value(t, bytes, sizeof bytes, diag);
}

int catalog_set_complete(struct catalog_txn *t, bool complete, struct tamis_diag *diag)
{
    struct meta m;
    int rc = catalog_meta(t, &m, diag);
    if (rc || m.complete == complete)
        return rc;
    m.complete = complete;
    /* Bytes that we don't know are not kept, so nor are their bits. */
    m.compat &= META_COMPAT_KNOWN;
    return catalog_set_meta(t, &m, diag);
}

uint64_t catalog_txn_number(const struct catalog_txn *t)
{
    return mdb_txn_id(t->txn);
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
        return failed(t, rc, "counting the segments", diag);
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

/* ---- environments ---- */

static int open_env(const char *file, unsigned flags, MDB_env **out)
{
    MDB_env *env = NULL;
    int rc = mdb_env_create(&env);
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
        MDB_val key = val_of(META_KEY, sizeof META_KEY - 1);
        MDB_val data = val_of(bytes, sizeof bytes);
        rc = mdb_put(txn, c->meta_db, &key, &data, 0);
    }
    if (!rc)
        return mdb_txn_commit(txn);
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

int catalog_env_open(struct catalog *c, const char *file, struct tamis_diag *diag)
{
    int n_dead, rc = open_env(file, c->read_only ? MDB_RDONLY : 0, &c->env);
    if (rc == EACCES || rc == EROFS || rc == EPERM) {
        c->read_only = true;
        c->unlocked = rc == EROFS;
        rc = open_env(file, MDB_RDONLY, &c->env);
    }
    if (rc == EACCES)
        return fail(diag, c->path, rc,
                    "opening the catalog (readers too must be able to write "
                    "catalog.lmdb-lock)");
    if (rc)
        return fail(diag, c->path, rc, "opening the catalog");
    rc = same_file(c);
    if (!rc && !c->unlocked)
        rc = mdb_reader_check(c->env, &n_dead);
    if (!rc && !c->read_only)
        rc = settle(c);
    if (!rc)
        rc = open_databases(c, 0, NULL);
    if (!rc)
        return 0;
    mdb_env_close(c->env);
    c->env = NULL;
    if (rc == MDB_NOTFOUND)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, file,
                         "an LMDB file, but no catalog of tamis (or one whose creation "
                         "was cut short)");
    return fail(diag, c->path, rc, "opening the catalog");
}

int catalog_env_create(struct catalog *c, const char *file, const struct meta *m,
                       catalog_fn *fill, void *ctx, struct tamis_diag *diag)
{
    int rc = open_env(file, 0, &c->env);
    if (!rc)
        rc = open_databases(c, MDB_CREATE, m);
    rc = rc ? fail(diag, c->path, rc, "creating the catalog") : 0;
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
