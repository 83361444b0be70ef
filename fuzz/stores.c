/* Stores as bytes: all files of one, kept in memory and written out again; and values
 * put into a catalog that no store has open. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

static void save_file(struct saved_store *s, const char *store, const char *name)
{
    char path[700];
    MUST(s->n < MAX_SAVED);
    struct saved_file *f = &s->files[s->n++];
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(path, sizeof path, "%s/%s", store, name);
    f->bytes = file_bytes(path, &f->n);
}

void save_store(struct saved_store *s, const char *store)
{
    char path[400], name[300];
    forget_store(s);
    save_file(s, store, "catalog.lmdb");
    snprintf(path, sizeof path, "%s/filters", store);
    DIR *d = opendir(path);
    MUST(d);
    for (const struct dirent *e; (e = readdir(d));) {
        snprintf(name, sizeof name, "filters/%s", e->d_name);
        if (e->d_name[0] != '.')
            save_file(s, store, name);
    }
    closedir(d);
}

void forget_store(struct saved_store *s)
{
    while (s->n)
        free(s->files[--s->n].bytes);
}

void put_back_file(const struct saved_file *f, const char *store)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", store, f->name);
    file_put(path, f->bytes, f->n);
}

void put_back_store(const struct saved_store *s, const char *store)
{
    char path[700];
    snprintf(path, sizeof path, "%s/filters", store);
    MUST(mkdir(store, 0777) == 0 || errno == EEXIST);
    MUST(mkdir(path, 0777) == 0 || errno == EEXIST);
    for (size_t i = 0; i < s->n; i++)
        put_back_file(&s->files[i], store);
}

struct saved_file *saved_named(struct saved_store *s, const char *part)
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
