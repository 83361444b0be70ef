/* The catalog's transactions: a function runs inside one, again if the map had to grow
 * for it. LMDB's own rules for them are kept here (one mapping that may move, readers
 * that died, commits that nobody knows the end of), so that nobody above needs to know
 * them. registry.c sees to it that there is one environment per process and file. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

/* A failed commit is undone, unless it failed while the meta page was written: then
 * LMDB lets no further transaction begin, and nobody knows what the disk holds. */
static bool commit_unsure(struct catalog *c)
{
    MDB_txn *txn;
    int rc = catalog_begin_read(c, &txn);
    if (rc == 0)
        mdb_txn_abort(txn);
    return rc != 0 && rc != MDB_MAP_RESIZED;
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
    if (!m.ro_compat)
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, c->path,
                     "the store has a feature that this tamis must not write");
}

/* A commit writes changed pages over free pages: first see that these are free. */
static int look_first(struct catalog_txn *t, struct tamis_diag *diag)
{
    int rc = catalog_txn_walk(t->catalog, t->txn, true, diag);
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
    if (!rc && t->wrote)
        origin_note(c->origin, number);
    if (rc && unsure)
        *unsure = true;
    return rc;
}

/* Without a slot that would keep writers off its pages: see copy.c. */
static int read_copy(struct catalog_txn *t, catalog_fn *fn, void *ctx,
                     struct tamis_diag *diag)
{
    struct catalog *c = t->catalog;
    struct catalog_copy *copy;
    int rc = origin_check(c->origin, origin_seen(c->origin), UINT64_MAX, diag);
    if (!rc)
        rc = catalog_copy_read(c->fd, c->path, &copy, diag);
    if (rc)
        return rc;
    t->copy = copy;
    rc = fn(t, ctx, diag);
    if (!rc)
        origin_note(c->origin, catalog_copy_txn(copy));
    catalog_copy_free(copy);
    return rc;
}

/* No list is older than one that this process has seen. */
static int read_in_txn(struct catalog_txn *t, catalog_fn *fn, void *ctx,
                       struct tamis_diag *diag)
{
    struct catalog *c = t->catalog;
    int rc = c->env ? catalog_begin_read(c, &t->txn) : TAMIS_ERR_BUSY;
    if (rc == TAMIS_ERR_BUSY)
        return read_copy(t, fn, ctx, diag);
    t->failure = rc;
    if (rc)
        return catalog_fail(diag, c->path, rc, "beginning a transaction");
    rc = fn(t, ctx, diag);
    bool kept = catalog_was_kept(c, t->txn);
    if (!rc && kept)
        origin_note(c->origin, mdb_txn_id(t->txn));
    mdb_txn_abort(t->txn);
    if (kept)
        return rc;
    *t = (struct catalog_txn){.catalog = c};
    diag_clear(diag);
    return read_copy(t, fn, ctx, diag);
}

/* fn runs once, and again if the map had to become larger. */
struct run {
    struct catalog *catalog;
    catalog_fn *fn;
    void *ctx;
    struct io_wait *wait; /* NULL: it only reads */
    bool *unsure;
    uint64_t blind; /* a transaction of this number uses no page; 0: all do */
};

static int write_in_txn(struct catalog_txn *t, const struct run *r,
                        struct tamis_diag *diag)
{
    struct catalog *c = t->catalog;
    int rc = t->failure = catalog_begin_write(c, &t->txn, diag);
    if (rc)
        return catalog_fail(diag, c->path, rc, "beginning a transaction");
    if (mdb_txn_id(t->txn) != r->blind)
        rc = look_first(t, diag);
    if (!rc)
        rc = r->fn(t, r->ctx, diag);
    if (!rc)
        rc = catalog_still_next(c, t->txn, diag);
    if (!rc)
        return commit(t, r->unsure, diag);
    mdb_txn_abort(t->txn);
    return rc;
}

/* With map_lock held for writing. LMDB drops its mapping before it makes the new one,
 * and if that fails it has none and does not know: the next transaction would crash. */
static int set_map(struct catalog *c, size_t n_bytes)
{
    int rc = mdb_env_set_mapsize(c->env, n_bytes);
    c->n_moves++;
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
static int grow_map(struct catalog *c, unsigned n_moves)
{
    int rc = 0;
    pthread_rwlock_wrlock(&c->map_lock);
    if (!c->unmapped && c->n_moves == n_moves) {
        MDB_envinfo now;
        mdb_env_info(c->env, &now);
        catalog_clear_slots(c);
        rc = now.me_mapsize > SIZE_MAX / 4 ? ENOMEM : try_map(c, now.me_mapsize * 2);
        if (!rc)
            rc = set_map(c, now.me_mapsize * 2);
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

static int run_until_mapped(const struct run *r, struct tamis_diag *diag)
{
    struct catalog *c = r->catalog;
    for (;;) {
        struct catalog_txn t = {.catalog = c};
        /* Before the map's lock: a process that stops while it has a slot's lock must
         * not keep this one's readers from a larger map. */
        int rc = r->wait ? gate_enter(c, LOCK_SLOT, r->wait, diag) : 0;
        if (rc)
            return rc;
        pthread_rwlock_rdlock(&c->map_lock);
        unsigned n_moves = c->n_moves;
        if (c->unmapped && r->wait)
            gate_leave(c, LOCK_SLOT);
        rc = c->unmapped
                 ? diag_fail(
                       diag, TAMIS_ERR_CATALOG, c->path,
                       "the catalog could not be mapped anew: open the store again")
             : r->wait ? write_in_txn(&t, r, diag)
                       : read_in_txn(&t, r->fn, r->ctx, diag);
        pthread_rwlock_unlock(&c->map_lock);

        if (t.failure != MDB_MAP_FULL && t.failure != MDB_MAP_RESIZED)
            return rc;
        rc = t.failure == MDB_MAP_FULL ? grow_map(c, n_moves) : adopt_map(c);
        if (rc)
            return catalog_fail(diag, c->path, rc, "growing the catalog's map");
        diag_clear(diag);
    }
}

/* LMDB could not be had when the store was opened. The map's lock, which readers wait
 * for, is held for moments only. */
static int need_env(struct catalog *c, struct io_wait *wait, struct tamis_diag *diag)
{
    for (;;) {
        struct io_wait briefly = {.timeout_ms = 10};
        struct tamis_diag whom = {0};
        pthread_rwlock_rdlock(&c->map_lock);
        bool has = c->env || !c->origin;
        pthread_rwlock_unlock(&c->map_lock);
        if (has)
            return 0;
        pthread_rwlock_wrlock(&c->map_lock);
        int rc =
            c->env ? 0 : catalog_env_open(c, c->origin->catalog.path, &briefly, &whom);
        bool busy = rc == TAMIS_ERR_BUSY && !c->lock_refused;
        pthread_rwlock_unlock(&c->map_lock);
        if (!rc || (busy && io_wait_more(wait, &whom)))
            continue;
        if (diag)
            *diag = whom;
        return rc;
    }
}

static int run_write(const struct run *r, struct tamis_diag *diag)
{
    /* LMDB would touch pages of a file that was cut off. */
    int rc = origin_check(r->catalog->origin, 0, UINT64_MAX, diag);
    if (!rc)
        rc = need_env(r->catalog, r->wait, diag);
    if (!rc)
        rc = gate_enter(r->catalog, LOCK_COMMIT, r->wait, diag);
    if (rc)
        return rc;
    rc = run_until_mapped(r, diag);
    gate_leave(r->catalog, LOCK_COMMIT);
    return rc;
}

/* A thread that was cancelled in a transaction would keep its locks, those of all
 * processes, and the map's. */
static int run(const struct run *r, struct tamis_diag *diag)
{
    int before = io_hold_cancel();
    int rc = r->wait ? run_write(r, diag) : run_until_mapped(r, diag);
    io_let_cancel(before);
    return rc;
}

int catalog_read(struct catalog *c, catalog_fn *fn, void *ctx, struct tamis_diag *diag)
{
    struct run r = {.catalog = c, .fn = fn, .ctx = ctx};
    if (origin_now(c->origin) == TAMIS_MISMATCH)
        return origin_fail(c->origin, diag);
    return run(&r, diag);
}

int catalog_write(struct catalog *c, const struct io_wait *limit, uint64_t last,
                  catalog_fn *fn, void *ctx, bool *unsure, struct tamis_diag *diag)
{
    struct io_wait wait = limit ? *limit : (struct io_wait){.timeout_ms = 0};
    struct run r = {
        .catalog = c, .fn = fn, .ctx = ctx, .wait = &wait, .unsure = unsure};
    r.blind = last ? last + 1 : 0;
    if (unsure)
        *unsure = false;
    return run(&r, diag);
}
