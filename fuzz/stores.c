/* Stores as bytes: all files of one, kept in memory and written out again; and values
 * put into a catalog that no store has open. */
#include "fuzz/fuzz.h"
#include "lib/filter/pack.h"
#include "lib/store/catalog/listing.h"

#include <lmdb.h>

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

void write_records(const char *store, const char *database, const struct item *items,
                   size_t n)
{
    char path[400];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    snprintf(path, sizeof path, "%s/catalog.lmdb", store);
    MUST(mdb_env_create(&env) == 0);
    MUST(mdb_env_set_maxdbs(env, 8) == 0);
    MUST(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC, 0666) == 0);
    MUST(mdb_txn_begin(env, NULL, 0, &txn) == 0);
    MUST(mdb_dbi_open(txn, database, 0, &dbi) == 0);
    for (size_t i = 0; i < n; i++) {
        MDB_val k = {items[i].name_bytes, (void *)(uintptr_t)items[i].name};
        MDB_val v = {items[i].value_bytes, (void *)(uintptr_t)items[i].value};
        MUST(mdb_put(txn, dbi, &k, &v, 0) == 0);
    }
    MUST(mdb_txn_commit(txn) == 0);
    mdb_env_close(env);
}

bool items_have(const struct item *items, size_t n, const void *name, size_t name_bytes)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].name_bytes == name_bytes &&
            memcmp(items[i].name, name, name_bytes) == 0)
            return true;
    return false;
}

/* ---- the only pack of a store ---- */

void record_of_packed(struct tamis_store *store, const char *name, struct record *out,
                      struct pack_list *l)
{
    struct tamis_snapshot *s;
    struct tamis_pack_info info;
    struct tamis_filter_info pack;
    struct tamis_target t;
    struct facts col;
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_snapshot_pack_info(s, 0, &info) == 0);
    MUST(tamis_filter_info(info.pack, &pack, NULL) == 0);
    MUST(tamis_snapshot_find(s, name, strlen(name), NULL, 0, 0, &t) == 0);
    uint32_t column = t.ordinal - 1 - (uint32_t)info.first;
    MUST(pack_describe(info.pack, column, false, &col) == 0);
    record_of_column(&col, info.uuid, pack.table_digest, out);
    memcpy(l->uuid, info.uuid, UUID_BYTES);
    l->now = (struct listing){.table_digest = pack.table_digest,
                              .n_columns = (uint32_t)info.n_columns};
    l->bits[column / 8] |= (uint8_t)(1U << column % 8);
    tamis_snapshot_release(s);
}

static void list_name(struct pack_list *l, const struct item *i)
{
    unsigned n = 0;
    const struct part_disk *parts =
        record_parts(i->value, i->value_bytes, i->name, i->name_bytes, &n);
    l->n_refused += parts == NULL;
    for (unsigned k = 0; k < n; k++) {
        struct pack_place at = part_place(&parts[k]);
        if (parts[k].kind != PART_COLUMN)
            continue;
        if (memcmp(at.uuid, l->uuid, UUID_BYTES) != 0 ||
            at.digest != l->now.table_digest || at.column >= l->now.n_columns) {
            l->stray = true;
            continue;
        }
        l->twice |= l->named[at.column];
        l->named[at.column] = true;
        l->bits[at.column / 8] &= (uint8_t) ~(1U << at.column % 8);
        l->now.n_overridden++;
        l->now.names_sum += name_sum(i->name, i->name_bytes, at.column);
    }
}

void list_make(struct pack_list *l, const struct item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!items_have(items + i + 1, n - i - 1, items[i].name, items[i].name_bytes))
            list_name(l, &items[i]);
    for (uint32_t i = 0; i < l->now.n_columns; i++)
        l->now.n_listed += list_has(l, i);
    l->n_bits = chunk_bytes(l->now.n_columns, 0);
    l->now.chunks_sum = chunk_seal(l->uuid, l->now.n_columns, 0, l->bits);
    l->n_record = LISTING_BYTES;
    listing_encode(&l->now, l->uuid, l->record);
}

void list_write(const char *store, const struct pack_list *l)
{
    uint8_t key[CHUNK_KEY_BYTES];
    chunk_key(l->uuid, 0, key);
    struct item items[2] = {{key, l->bits, sizeof key, l->n_bits},
                            {l->uuid, l->record, UUID_BYTES, l->n_record}};
    write_records(store, "packs", items, 2);
}
