/* Inside a transaction: values of the databases, in and out of LMDB. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

static const struct piece meta_key = {(const uint8_t *)CATALOG_META_KEY,
                                      sizeof CATALOG_META_KEY - 1};

/* No value is that long: the length is damaged, and may lead beyond the file. */
static struct piece value_of(enum catalog_db db, const MDB_val *data)
{
    size_t n = data->mv_size <= catalog_value_max(db) ? data->mv_size : 0;
    return (struct piece){data->mv_data, n};
}

static int no_such(struct catalog_txn *t, struct piece key, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    return diag_fail(diag, TAMIS_ERR_NO_SEGMENT, t->catalog->path, "no segment '%s'",
                     name_text(text, key.at, key.n));
}

int catalog_get_in(struct catalog_txn *t, enum catalog_db db, struct piece key,
                   struct piece *value, struct tamis_diag *diag)
{
    MDB_val k = catalog_val(key.at, key.n), data;
    if (t->copy)
        return catalog_copy_get(t->copy, db, key, value) ? 0 : no_such(t, key, diag);
    int rc = mdb_get(t->txn, t->catalog->dbs[db], &k, &data);
    if (rc == MDB_NOTFOUND)
        return no_such(t, key, diag);
    if (rc)
        return catalog_txn_fail(t, rc, "reading a record", diag);
    *value = value_of(db, &data);
    return 0;
}

int catalog_put_in(struct catalog_txn *t, enum catalog_db db, struct piece key,
                   struct piece value, struct tamis_diag *diag)
{
    MDB_val k = catalog_val(key.at, key.n), data = catalog_val(value.at, value.n);
    int rc = mdb_put(t->txn, t->catalog->dbs[db], &k, &data, 0);
    t->wrote |= rc == 0;
    return rc ? catalog_txn_fail(t, rc, "writing a record", diag) : 0;
}

int catalog_delete_in(struct catalog_txn *t, enum catalog_db db, struct piece key,
                      struct tamis_diag *diag)
{
    MDB_val k = catalog_val(key.at, key.n);
    int rc = mdb_del(t->txn, t->catalog->dbs[db], &k, NULL);
    t->wrote |= rc == 0;
    if (rc == MDB_NOTFOUND)
        return no_such(t, key, diag);
    return rc ? catalog_txn_fail(t, rc, "deleting a record", diag) : 0;
}

/* The result of a function that ended the listing. */
static int each_stopped(struct catalog_txn *t, int stopped, struct tamis_diag *diag)
{
    if (stopped < 0 || (diag && diag->code == stopped))
        return stopped; /* fn has said more */
    return diag_errno(diag, stopped, t->catalog->path, "listing the segments");
}

static int each_copied(struct catalog_txn *t, enum catalog_db db, catalog_each_fn *fn,
                       void *ctx, struct tamis_diag *diag)
{
    int stopped = 0;
    for (size_t i = 0; !stopped && i < catalog_copy_n(t->copy, db); i++) {
        struct piece name, value;
        catalog_copy_at(t->copy, db, i, &name, &value);
        stopped = fn(ctx, name, value);
    }
    return stopped ? each_stopped(t, stopped, diag) : 0;
}

int catalog_each_in(struct catalog_txn *t, enum catalog_db db, catalog_each_fn *fn,
                    void *ctx, struct tamis_diag *diag)
{
    if (t->copy)
        return each_copied(t, db, fn, ctx, diag);
    MDB_cursor *cursor;
    MDB_val key, data;
    MDB_stat stat;
    int rc = mdb_stat(t->txn, t->catalog->dbs[db], &stat);
    if (!rc)
        rc = mdb_cursor_open(t->txn, t->catalog->dbs[db], &cursor);
    if (rc)
        return catalog_txn_fail(t, rc, "listing the segments", diag);
    int stopped = 0;
    size_t n_met = 0;
    while (!stopped && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
        struct piece name = {key.mv_data, key.mv_size};
        stopped = fn(ctx, name, value_of(db, &data));
        n_met++;
    }
    mdb_cursor_close(cursor);
    if (stopped)
        return each_stopped(t, stopped, diag);
    if (rc != MDB_NOTFOUND)
        return catalog_txn_fail(t, rc, "listing the segments", diag);
    /* One that is not met would be ABSENT. */
    return n_met == stat.ms_entries
               ? 0
               : diag_fail(diag, TAMIS_ERR_DAMAGED, t->catalog->path,
                           "%zu entries are listed, but the catalog counts %zu", n_met,
                           (size_t)stat.ms_entries);
}

static int count_listed(void *ctx, struct piece key, struct piece value)
{
    uint64_t *n = ctx;
    struct listing l;
    if (key.n == UUID_BYTES &&
        listing_decode(value.at, value.n, key.at, &l).code == VERDICT_OK)
        *n += l.n_listed;
    return 0;
}

int catalog_count(struct catalog_txn *t, uint64_t *n, struct tamis_diag *diag)
{
    MDB_stat stat;
    *n = 0;
    int rc = t->copy ? 0 : mdb_stat(t->txn, t->catalog->dbs[CATALOG_SEGMENTS], &stat);
    if (rc)
        return catalog_txn_fail(t, rc, "counting the segments", diag);
    *n = t->copy ? catalog_copy_n(t->copy, CATALOG_SEGMENTS) : stat.ms_entries;
    return catalog_each_in(t, CATALOG_PACKS, count_listed, n, diag);
}

int catalog_meta_value(struct catalog_txn *t, struct piece *value,
                       struct tamis_diag *diag)
{
    int rc = catalog_get_in(t, CATALOG_META, meta_key, value, diag);
    return rc != TAMIS_ERR_NO_SEGMENT
               ? rc
               : diag_fail(diag, TAMIS_ERR_NOT_TAMIS, t->catalog->path,
                           "a catalog without its first record: creating the store was "
                           "cut short");
}

int catalog_meta(struct catalog_txn *t, struct meta *m, struct tamis_diag *diag)
{
    struct piece value;
    memset(m, 0, sizeof *m);
    int rc = catalog_meta_value(t, &value, diag);
    if (rc)
        return rc;
    struct verdict v = meta_decode(value.at, value.n, m);
    if (v.code == VERDICT_DRAFT)
        return diag_fail(diag, TAMIS_ERR_VERSION, t->catalog->path,
                         "a store of the first draft of the format: make it anew with "
                         "'tamis init' and 'tamis build'; nothing in it is needed");
    return v.code == VERDICT_OK ? 0 : diag_verdict(diag, v, t->catalog->path, 0);
}

int catalog_set_complete(struct catalog_txn *t, bool complete, struct tamis_diag *diag)
{
    struct meta m;
    uint8_t bytes[META_BYTES];
    int rc = catalog_meta(t, &m, diag);
    if (rc || m.complete == complete)
        return rc;
    m.complete = complete;
    /* Bytes that we don't know are not kept, so nor are their bits. */
    m.compat = 0;
    meta_encode(&m, bytes);
    struct piece value = {bytes, sizeof bytes};
    return catalog_put_in(t, CATALOG_META, meta_key, value, diag);
}

uint64_t catalog_txn_number(const struct catalog_txn *t)
{
    return t->copy ? catalog_copy_txn(t->copy) : mdb_txn_id(t->txn);
}
