/* A catalog made by LMDB itself, whose records tell their transaction, and copies of it
 * made without LMDB. */
#ifndef TAMIS_TESTS_COPIED_CATALOG_H
#define TAMIS_TESTS_COPIED_CATALOG_H

#include "lib/store/catalog/lmdb.h"
#include "tests/support/store_support.h"

enum { N_NAMES = 90 };

static MDB_env *env;
static int fd = -1;

static const char *path(void)
{
    return path_of("catalog.lmdb");
}

/* ---- LMDB ---- */

static MDB_env *open_env(const char *file, unsigned flags)
{
    MDB_env *e;
    OK(mdb_env_create(&e));
    OK(mdb_env_set_mapsize(e, (size_t)1 << 30));
    OK(mdb_env_set_maxdbs(e, 4));
    if (mdb_env_open(e, file, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC | flags, 0666) == 0)
        return e;
    mdb_env_close(e);
    return NULL;
}

static MDB_txn *begin(MDB_env *e, unsigned flags, MDB_dbi dbi[CATALOG_DBS])
{
    static const char *const names[] = {"meta", "packs", "segments"};
    MDB_txn *t;
    unsigned create = flags & MDB_RDONLY ? 0 : MDB_CREATE;
    OK(mdb_txn_begin(e, NULL, flags, &t));
    for (size_t i = 0; i < CATALOG_DBS; i++)
        OK(mdb_dbi_open(t, names[i], create, &dbi[i]));
    return t;
}

static void put(MDB_txn *t, MDB_dbi dbi, const char *name, const void *value, size_t n)
{
    MDB_val key = catalog_val(name, strlen(name)), data = catalog_val(value, n);
    OK(mdb_put(t, dbi, &key, &data, 0));
}

static bool is_listed(uint64_t txn, unsigned i)
{
    return (i + txn) % 3 != 0;
}

/* A transaction whose records tell its number. */
static uint64_t write_list(void)
{
    char name[8];
    uint64_t value[30];
    MDB_dbi dbi[CATALOG_DBS];
    MDB_txn *t = begin(env, 0, dbi);
    for (size_t i = 0; i < 30; i++)
        value[i] = mdb_txn_id(t);
    put(t, dbi[CATALOG_META], "store", value, sizeof value);
    for (unsigned i = 0; i < N_NAMES; i++) {
        snprintf(name, sizeof name, "n%03u", i);
        MDB_val key = catalog_val(name, 4);
        if (is_listed(value[0], i))
            put(t, dbi[CATALOG_SEGMENTS], name, value, sizeof value);
        else
            mdb_del(t, dbi[CATALOG_SEGMENTS], &key, NULL);
    }
    OK(mdb_txn_commit(t));
    return value[0];
}

static int new_catalog(void **state)
{
    unlink(path());
    unlink(path_of("catalog.lmdb-lock"));
    env = open_env(path(), 0);
    fd = open(path(), O_RDONLY | O_CLOEXEC);
    assert_true(env && fd >= 0);
    for (int i = 0; i < 5; i++)
        write_list();
    return 0;
}

static int close_catalog(void **state)
{
    close(fd);
    mdb_env_close(env);
    return 0;
}

/* ---- what was copied ---- */

static struct catalog_copy *copy(void)
{
    struct catalog_copy *c;
    struct tamis_diag diag = {0};
    int rc = catalog_copy_read(fd, path(), &c, &diag);
    if (rc)
        fail_msg("%d: %s", rc, diag.what);
    return c;
}

/* The list of one transaction, the newest if `newest` is not 0. */
static void check_list(struct catalog_copy *c, uint64_t newest)
{
    struct piece name, value;
    char wanted[8];
    size_t at = 0;
    uint64_t txn = c->txn, number;
    if (newest)
        IS(txn, newest);
    for (unsigned i = 0; i < N_NAMES; i++) {
        snprintf(wanted, sizeof wanted, "n%03u", i);
        bool listed = is_listed(txn, i);
        assert_true(catalog_copy_get(c, CATALOG_SEGMENTS, piece_of(wanted), &value) ==
                    listed);
        if (!listed)
            continue;
        catalog_copy_at(c, CATALOG_SEGMENTS, at++, &name, &value);
        assert_true(name_compare(name, piece_of(wanted)) == 0 && value.n == 240);
        memcpy(&number, value.at + value.n - 8, 8);
        IS(number, txn);
    }
    IS(c->n[CATALOG_SEGMENTS], at);
    assert_true(catalog_copy_get(c, CATALOG_META, piece_of("store"), &value));
    memcpy(&number, value.at, 8);
    IS(number, txn);
    catalog_copy_free(c);
}

/* Is it what LMDB reads? And no tree of its is called damaged. */
static void check_same(struct catalog_copy *c, MDB_env *e)
{
    MDB_dbi dbi[CATALOG_DBS];
    MDB_txn *t = begin(e, MDB_RDONLY, dbi);
    IS(c->txn, mdb_txn_id(t));
    OK(catalog_file_scrub(fd, path(), NULL));
    for (enum catalog_db db = 0; db < CATALOG_DBS; db++) {
        MDB_cursor *cursor;
        MDB_val key, data;
        struct piece name, value;
        size_t i = 0;
        OK(mdb_cursor_open(t, dbi[db], &cursor));
        for (; mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == 0; i++) {
            size_t want = data.mv_size <= catalog_value_max(db) ? data.mv_size : 0;
            assert_true(i < c->n[db]);
            catalog_copy_at(c, db, i, &name, &value);
            assert_true(name.n == key.mv_size &&
                        memcmp(name.at, key.mv_data, name.n) == 0);
            assert_true(value.n == want && memcmp(value.at, data.mv_data, want) == 0);
            assert_true(catalog_copy_get(c, db, name, &value));
            assert_true(value.n == want && memcmp(value.at, data.mv_data, want) == 0);
        }
        IS(c->n[db], i);
        assert_false(catalog_copy_get(c, db, piece_of("~none"), &value));
        assert_false(catalog_copy_get(c, db, piece_of(""), &value));
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(t);
    catalog_copy_free(c);
}

#endif
