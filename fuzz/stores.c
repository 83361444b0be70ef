/* Stores as bytes: all files of one, kept in memory and written out again; and values
 * put into a catalog that no store has open. */
#include "fuzz/fuzz.h"

#include <lmdb.h>
#include <unistd.h>

/* ---- files ---- */

void save_store(struct saved_tree *s, const char *store)
{
    char lock[400];
    snprintf(lock, sizeof lock, "%s/catalog.lmdb-lock", store);
    unlink(lock);
    tree_save(s, store);
}

const struct saved_file *saved_named(const struct saved_tree *s, const char *part)
{
    for (size_t i = 0; i < s->n; i++)
        if (strstr(s->files[i].name, part))
            return &s->files[i];
    return NULL;
}

/* ---- the catalog ---- */

static MDB_env *open_catalog(const char *store, MDB_txn **txn, MDB_dbi *dbi)
{
    char path[400];
    MDB_env *env;
    snprintf(path, sizeof path, "%s/catalog.lmdb", store);
    MUST(mdb_env_create(&env) == 0);
    MUST(mdb_env_set_maxdbs(env, 8) == 0);
    MUST(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC, 0666) == 0);
    MUST(mdb_txn_begin(env, NULL, 0, txn) == 0);
    MUST(mdb_dbi_open(*txn, "segments", 0, dbi) == 0);
    return env;
}

void write_records(const char *store, const struct item *items, size_t n)
{
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_env *env = open_catalog(store, &txn, &dbi);
    for (size_t i = 0; i < n; i++) {
        MDB_val k = {items[i].name_bytes, (void *)(uintptr_t)items[i].name};
        MDB_val v = {items[i].value_bytes, (void *)(uintptr_t)items[i].value};
        MUST(mdb_put(txn, dbi, &k, &v, 0) == 0);
    }
    MUST(mdb_txn_commit(txn) == 0);
    mdb_env_close(env);
}

void read_record(const char *store, const char *name, struct record *out)
{
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_env *env = open_catalog(store, &txn, &dbi);
    MDB_val k = {strlen(name), (void *)(uintptr_t)name}, v;
    MUST(mdb_get(txn, dbi, &k, &v) == 0);
    MUST(record_decode(v.mv_data, v.mv_size, name, strlen(name), out).code ==
         VERDICT_OK);
    mdb_txn_abort(txn);
    mdb_env_close(env);
}
