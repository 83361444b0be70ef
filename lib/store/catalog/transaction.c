/* The catalog's transactions: a function runs inside one, again if the map had to grow
 * for it. LMDB's own rules for them are kept here (one mapping that may move, readers
 * that died, commits that nobody knows the end of), so that nobody above needs to know
 * them. registry.c sees to it that there is one environment per process and file. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

static const struct piece meta_key = {(const uint8_t *)CATALOG_META_KEY,
                                      sizeof CATALOG_META_KEY - 1};

/* catalog_fail() inside a transaction, which remembers the first failure. */
static int catalog_txn_fail(struct catalog_txn *t, int rc, const char *doing)
{
    if (!t->failure)
        t->failure = rc;
    return catalog_fail(t->diag, t->catalog->path, rc, doing);
}

/* No value is that long: the length is damaged, and may lead beyond the file. */
static struct piece value_of(enum catalog_db db, const MDB_val *data)
{
    size_t n = data->mv_size <= catalog_value_max(db) ? data->mv_size : 0;
    return (struct piece){data->mv_data, n};
}

static int no_such(struct catalog_txn *t, struct piece key)
{
    char text[NAME_TEXT_BYTES];
    return diag_fail(t->diag, TAMIS_ERR_NO_SEGMENT, t->catalog->path, "no segment '%s'",
                     name_text(text, key.at, key.n));
}

int catalog_get_in(struct catalog_txn *t, enum catalog_db db, struct piece key,
                   struct piece *value)
{
    MDB_val k = catalog_val(key.at, key.n), data;
    if (t->copy)
        return catalog_copy_get(t->copy, db, key, value) ? 0 : no_such(t, key);
    int rc = mdb_get(t->txn, t->catalog->dbs[db], &k, &data);
    if (rc == MDB_NOTFOUND)
        return no_such(t, key);
    if (rc)
        return catalog_txn_fail(t, rc, "reading a record");
    *value = value_of(db, &data);
    return 0;
}

int catalog_put_in(struct catalog_txn *t, enum catalog_db db, struct piece key,
                   struct piece value)
{
    MDB_val k = catalog_val(key.at, key.n), data = catalog_val(value.at, value.n);
    int rc = mdb_put(t->txn, t->catalog->dbs[db], &k, &data, 0);
    t->wrote |= rc == 0;
    return rc ? catalog_txn_fail(t, rc, "writing a record") : 0;
}

int catalog_delete_in(struct catalog_txn *t, enum catalog_db db, struct piece key)
{
    MDB_val k = catalog_val(key.at, key.n);
    int rc = mdb_del(t->txn, t->catalog->dbs[db], &k, NULL);
    t->wrote |= rc == 0;
    if (rc == MDB_NOTFOUND)
        return no_such(t, key);
    return rc ? catalog_txn_fail(t, rc, "deleting a record") : 0;
}

/* The result of a function that ended the listing. */
static int each_stopped(struct catalog_txn *t, int stopped)
{
    if (stopped < 0 || (t->diag && t->diag->code == stopped))
        return stopped; /* fn has said more */
    return diag_errno(t->diag, stopped, t->catalog->path, "listing the segments");
}

int catalog_each_in(struct catalog_txn *t, enum catalog_db db, catalog_each_fn *fn,
                    void *ctx)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    MDB_stat stat;
    int stopped = 0;
    size_t n_met = 0;
    if (t->copy) {
        for (; !stopped && n_met < t->copy->n[db]; n_met++) {
            struct piece name, value;
            catalog_copy_at(t->copy, db, n_met, &name, &value);
            stopped = fn(ctx, name, value);
        }
        return stopped ? each_stopped(t, stopped) : 0;
    }
    int rc = mdb_stat(t->txn, t->catalog->dbs[db], &stat);
    if (!rc)
        rc = mdb_cursor_open(t->txn, t->catalog->dbs[db], &cursor);
    if (rc)
        return catalog_txn_fail(t, rc, "listing the segments");
    while (!stopped && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
        struct piece name = {key.mv_data, key.mv_size};
        stopped = fn(ctx, name, value_of(db, &data));
        n_met++;
    }
    mdb_cursor_close(cursor);
    if (stopped)
        return each_stopped(t, stopped);
    if (rc != MDB_NOTFOUND)
        return catalog_txn_fail(t, rc, "listing the segments");
    /* One that is not met would be ABSENT. */
    return n_met == stat.ms_entries
               ? 0
               : diag_fail(t->diag, TAMIS_ERR_DAMAGED, t->catalog->path,
                           "%zu entries are listed, but the catalog counts %zu", n_met,
                           (size_t)stat.ms_entries);
}

static int add_listed(void *ctx, struct piece key, struct piece value)
{
    uint64_t *n = ctx;
    struct listing l;
    if (key.n == UUID_BYTES &&
        listing_decode(value.at, value.n, key.at, &l).code == VERDICT_OK)
        *n += l.n_listed;
    return 0;
}

int catalog_count_records(struct catalog_txn *t, uint64_t *n)
{
    MDB_stat stat;
    *n = 0;
    int rc = t->copy ? 0 : mdb_stat(t->txn, t->catalog->dbs[CATALOG_SEGMENTS], &stat);
    if (rc)
        return catalog_txn_fail(t, rc, "counting the segments");
    *n = t->copy ? t->copy->n[CATALOG_SEGMENTS] : stat.ms_entries;
    return 0;
}

int catalog_count(struct catalog_txn *t, uint64_t *n)
{
    int rc = catalog_count_records(t, n);
    return rc ? rc : catalog_each_in(t, CATALOG_PACKS, add_listed, n);
}

int catalog_meta_value(struct catalog_txn *t, struct piece *value)
{
    int rc = catalog_get_in(t, CATALOG_META, meta_key, value);
    return rc != TAMIS_ERR_NO_SEGMENT
               ? rc
               : diag_fail(t->diag, TAMIS_ERR_NOT_TAMIS, t->catalog->path,
                           "a catalog without its first record: creating the store was "
                           "cut short");
}

int catalog_meta(struct catalog_txn *t, void *ctx)
{
    struct meta *m = ctx;
    struct piece value;
    memset(m, 0, sizeof *m);
    int rc = catalog_meta_value(t, &value);
    if (rc)
        return rc;
    struct verdict v = meta_decode(value.at, value.n, m);
    if (v.code == VERDICT_DRAFT)
        return diag_fail(t->diag, TAMIS_ERR_VERSION, t->catalog->path,
                         "a store of the first draft of the format: make it anew with "
                         "'tamis init' and 'tamis build'; nothing in it is needed");
    return v.code == VERDICT_OK ? 0 : diag_verdict(t->diag, v, t->catalog->path, 0);
}

int catalog_set_complete(struct catalog_txn *t, bool complete)
{
    struct meta m;
    uint8_t bytes[META_BYTES];
    int rc = catalog_meta(t, &m);
    if (rc || m.complete == complete)
        return rc;
    m.complete = complete;
    /* Bytes that we don't know are not kept, so nor are their bits. */
    m.compat = 0;
    meta_encode(&m, bytes);
    struct piece value = {bytes, sizeof bytes};
    return catalog_put_in(t, CATALOG_META, meta_key, value);
}

uint64_t catalog_txn_number(const struct catalog_txn *t)
{
    return t->copy ? t->copy->txn : mdb_txn_id(t->txn);
}

/* A commit writes changed pages over free pages: first see that these are free. And the
 * store may have become another one since it was opened, or a newer version may have
 * marked it: as one that this one must not write, or not even read. */
static int look_first(struct catalog_txn *t)
{
    struct meta m;
    const struct catalog *c = t->catalog;
    int rc = catalog_txn_walk(t->catalog, t->txn, true, t->diag);
    if (rc == EAGAIN) /* nobody else writes: it is not the file that was opened */
        rc = diag_fail(t->diag, TAMIS_ERR_DAMAGED, c->path,
                       "the catalog's last transaction is not in its file");
    if (!rc)
        rc = catalog_meta(t, &m);
    if (!rc && c->origin && memcmp(m.store_uuid, c->meta.store_uuid, UUID_BYTES) != 0)
        rc = diag_fail(t->diag, TAMIS_ERR_REPLACED, c->path,
                       "the catalog of another store was copied over this one's while "
                       "it is open");
    if (!rc && m.ro_compat)
        rc = diag_fail(t->diag, TAMIS_ERR_VERSION, c->path,
                       "the store has a feature that this tamis must not write");
    return rc;
}

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

/* LMDB's commit says 0 of a file that has lost its name meanwhile, too. */
static int commit(struct catalog_txn *t, bool *unsure)
{
    struct catalog *c = t->catalog;
    uint64_t number = mdb_txn_id(t->txn);
    t->failure = catalog_commit(c->env, t->txn);
    if (t->failure) {
        if (unsure)
            *unsure = commit_unsure(c);
        return catalog_fail(t->diag, c->path, t->failure, "committing");
    }
    int rc = t->wrote ? origin_check(c->origin, number, UINT64_MAX, t->diag)
                      : origin_check_files(c->origin, t->diag);
    if (!rc && t->wrote)
        origin_note(c->origin, number);
    if (rc && unsure)
        *unsure = true;
    return rc;
}

/* Without a slot that would keep writers off its pages: see copy.c. */
static int read_copy(struct catalog_txn *t, catalog_fn *fn, void *ctx)
{
    struct catalog *c = t->catalog;
    struct catalog_copy *copy;
    int rc = origin_check(c->origin, origin_seen(c->origin), UINT64_MAX, t->diag);
    if (!rc)
        rc = catalog_copy_read(c->fd, c->path, &copy, t->diag);
    if (rc)
        return rc;
    t->copy = copy;
    rc = fn(t, ctx);
    if (!rc)
        origin_note(c->origin, copy->txn);
    catalog_copy_free(copy);
    return rc;
}

/* No list is older than one that this process has seen. */
static int read_in_txn(struct catalog_txn *t, catalog_fn *fn, void *ctx)
{
    struct catalog *c = t->catalog;
    int rc = c->env ? catalog_begin_read(c, &t->txn) : TAMIS_ERR_BUSY;
    if (rc == TAMIS_ERR_BUSY)
        return read_copy(t, fn, ctx);
    t->failure = rc;
    if (rc)
        return catalog_fail(t->diag, c->path, rc, "beginning a transaction");
    rc = fn(t, ctx);
    bool kept = catalog_was_kept(c, t->txn);
    if (!rc && kept)
        origin_note(c->origin, mdb_txn_id(t->txn));
    mdb_txn_abort(t->txn);
    if (kept)
        return rc;
    *t = (struct catalog_txn){.catalog = c, .diag = t->diag};
    diag_clear(t->diag);
    return read_copy(t, fn, ctx);
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

static int write_in_txn(struct catalog_txn *t, const struct run *r)
{
    struct catalog *c = t->catalog;
    int rc = t->failure = catalog_begin_write(c, &t->txn, t->diag);
    if (rc)
        return catalog_fail(t->diag, c->path, rc, "beginning a transaction");
    if (mdb_txn_id(t->txn) != r->blind)
        rc = look_first(t);
    if (!rc)
        rc = r->fn(t, r->ctx);
    if (!rc)
        rc = catalog_still_next(c, t->txn, t->diag);
    if (!rc)
        return commit(t, r->unsure);
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

/* Makes room if the map is `full`. Another thread may have been first. Else another
 * process has made the map larger than ours: takes its size. Nothing of this process
 * may be inside a transaction meanwhile, for the mapping moves. */
static int grow_map(struct catalog *c, bool full, unsigned n_moves)
{
    int rc = 0;
    pthread_rwlock_wrlock(&c->map_lock);
    if (!c->unmapped && full && c->n_moves == n_moves) {
        MDB_envinfo now;
        mdb_env_info(c->env, &now);
        catalog_clear_slots(c);
        rc = now.me_mapsize > SIZE_MAX / 4 ? ENOMEM : try_map(c, now.me_mapsize * 2);
        if (!rc)
            rc = set_map(c, now.me_mapsize * 2);
    } else if (!c->unmapped && !full) {
        rc = set_map(c, 0);
    }
    pthread_rwlock_unlock(&c->map_lock);
    return rc;
}

static int run_until_mapped(const struct run *r, struct tamis_diag *diag)
{
    struct catalog *c = r->catalog;
    for (;;) {
        struct catalog_txn t = {.catalog = c, .diag = diag};
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
             : r->wait ? write_in_txn(&t, r)
                       : read_in_txn(&t, r->fn, r->ctx);
        pthread_rwlock_unlock(&c->map_lock);

        if (t.failure != MDB_MAP_FULL && t.failure != MDB_MAP_RESIZED)
            return rc;
        rc = grow_map(c, t.failure == MDB_MAP_FULL, n_moves);
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
        bool has = c->env != NULL;
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
