/* Inside a transaction: the records of segments and the meta record, in and out of
 * LMDB. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/lmdb.h"

#include <string.h>

static int name_error(struct catalog_txn *t, int code, const void *name,
                      size_t name_bytes, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    return diag_fail(diag, code, t->catalog->path,
                     code == TAMIS_ERR_EXISTS ? "segment '%s' exists already"
                                              : "no segment '%s'",
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
    MDB_val key = catalog_val(name, name_bytes), data;
    if (t->copy)
        return catalog_copy_get(t->copy, false, name, name_bytes, value, value_bytes)
                   ? 0
                   : name_error(t, TAMIS_ERR_NO_SEGMENT, name, name_bytes, diag);
    int rc = mdb_get(t->txn, t->catalog->segments_db, &key, &data);
    if (rc == MDB_NOTFOUND)
        return name_error(t, TAMIS_ERR_NO_SEGMENT, name, name_bytes, diag);
    if (rc)
        return catalog_txn_fail(t, rc, "reading a record", diag);
    *value = data.mv_data;
    *value_bytes = value_length(&data);
    return 0;
}

static int put(struct catalog_txn *t, const void *name, size_t name_bytes,
               const uint8_t *value, size_t value_bytes, unsigned flags,
               struct tamis_diag *diag)
{
    MDB_val key = catalog_val(name, name_bytes), data = catalog_val(value, value_bytes);
    int rc = mdb_put(t->txn, t->catalog->segments_db, &key, &data, flags);
    t->wrote |= rc == 0;
    if (rc == MDB_KEYEXIST)
        return name_error(t, TAMIS_ERR_EXISTS, name, name_bytes, diag);
    return rc ? catalog_txn_fail(t, rc, "writing a record", diag) : 0;
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
    MDB_val key = catalog_val(name, name_bytes);
    int rc = mdb_del(t->txn, t->catalog->segments_db, &key, NULL);
    t->wrote |= rc == 0;
    if (rc == MDB_NOTFOUND)
        return name_error(t, TAMIS_ERR_NO_SEGMENT, name, name_bytes, diag);
    return rc ? catalog_txn_fail(t, rc, "deleting a record", diag) : 0;
}

/* The result of a function that ended the listing. */
static int each_stopped(struct catalog_txn *t, int stopped, struct tamis_diag *diag)
{
    if (stopped < 0 || (diag && diag->code == stopped))
        return stopped; /* fn has said more */
    return diag_errno(diag, stopped, t->catalog->path, "listing the segments");
}

static int each_copied(struct catalog_txn *t, catalog_each_fn *fn, void *ctx,
                       struct tamis_diag *diag)
{
    int stopped = 0;
    for (size_t i = 0; !stopped && i < catalog_copy_n(t->copy, false); i++) {
        const void *name;
        const uint8_t *value;
        size_t name_bytes, value_bytes;
        catalog_copy_at(t->copy, false, i, &name, &name_bytes, &value, &value_bytes);
        stopped = fn(ctx, name, name_bytes, value, value_bytes);
    }
    return stopped ? each_stopped(t, stopped, diag) : 0;
}

int catalog_each(struct catalog_txn *t, catalog_each_fn *fn, void *ctx,
                 struct tamis_diag *diag)
{
    if (t->copy)
        return each_copied(t, fn, ctx, diag);
    MDB_cursor *cursor;
    MDB_val key, data;
    MDB_stat stat;
    int rc = mdb_stat(t->txn, t->catalog->segments_db, &stat);
    if (!rc)
        rc = mdb_cursor_open(t->txn, t->catalog->segments_db, &cursor);
    if (rc)
        return catalog_txn_fail(t, rc, "listing the segments", diag);
    int stopped = 0;
    size_t n_met = 0;
    while (!stopped && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
        stopped = fn(ctx, key.mv_data, key.mv_size, data.mv_data, value_length(&data));
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
                           "%zu segments are listed, but the catalog counts %zu", n_met,
                           (size_t)stat.ms_entries);
}

int catalog_size(struct catalog_txn *t, size_t *n_records, size_t *n_bytes,
                 struct tamis_diag *diag)
{
    MDB_stat stat;
    *n_records = t->copy ? catalog_copy_n(t->copy, false) : 0;
    *n_bytes = 0; /* of a copy: its reader makes room as it goes */
    if (t->copy)
        return 0;
    int rc = mdb_stat(t->txn, t->catalog->segments_db, &stat);
    if (rc)
        return catalog_txn_fail(t, rc, "counting the segments", diag);
    *n_records = stat.ms_entries;
    *n_bytes = (stat.ms_leaf_pages + stat.ms_overflow_pages) * stat.ms_psize;
    return 0;
}

int catalog_meta_value(struct catalog_txn *t, const uint8_t **value,
                       size_t *value_bytes, struct tamis_diag *diag)
{
    MDB_val key = catalog_val(CATALOG_META_KEY, sizeof CATALOG_META_KEY - 1), data;
    if (t->copy &&
        catalog_copy_get(t->copy, true, key.mv_data, key.mv_size, value, value_bytes))
        return 0;
    int rc = t->copy ? MDB_NOTFOUND : mdb_get(t->txn, t->catalog->meta_db, &key, &data);
    if (rc == MDB_NOTFOUND)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, t->catalog->path,
                         "a catalog without its first record: creating the store was "
                         "cut short");
    if (rc)
        return catalog_txn_fail(t, rc, "reading the catalog's first record", diag);
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
    if (v.code == VERDICT_DRAFT)
        return diag_fail(diag, TAMIS_ERR_VERSION, t->catalog->path,
                         "a store of the first draft of the format: make it anew with "
                         "'tamis init' and 'tamis build'; nothing in it is needed");
    return v.code == VERDICT_OK ? 0 : diag_verdict(diag, v, t->catalog->path, 0);
}

int catalog_set_meta_value(struct catalog_txn *t, const uint8_t *value,
                           size_t value_bytes, struct tamis_diag *diag)
{
    MDB_val key = catalog_val(CATALOG_META_KEY, sizeof CATALOG_META_KEY - 1);
    MDB_val data = catalog_val(value, value_bytes);
    int rc = mdb_put(t->txn, t->catalog->meta_db, &key, &data, 0);
    t->wrote |= rc == 0;
    return rc ? catalog_txn_fail(t, rc, "writing the catalog's first record", diag) : 0;
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
    m.compat = 0;
    return catalog_set_meta(t, &m, diag);
}

uint64_t catalog_txn_number(const struct catalog_txn *t)
{
    return t->copy ? catalog_copy_txn(t->copy) : mdb_txn_id(t->txn);
}
