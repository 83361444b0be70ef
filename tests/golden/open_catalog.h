/* A catalog, by LMDB alone: records that have what the library does not write. */
#ifndef TAMIS_TESTS_GOLDEN_OPEN_CATALOG_H
#define TAMIS_TESTS_GOLDEN_OPEN_CATALOG_H

#include <lmdb.h>

#include "format/checksum.h"
#include "tests/support/store_internals.h"
#include "tests/golden/make.h"

static void put32(uint8_t *to, uint32_t v)
{
    struct le32 d = le32_of(v);
    memcpy(to, &d, sizeof d);
}

static void put64(uint8_t *to, uint64_t v)
{
    struct le64 d = le64_of(v);
    memcpy(to, &d, sizeof d);
}

struct open_catalog {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta, segments;
};

static void must(int rc)
{
    if (rc) {
        fprintf(stderr, "make_extensions: LMDB: %s\n", mdb_strerror(rc));
        exit(1);
    }
}

static void catalog_begin(struct open_catalog *c, const char *store)
{
    char path[4500];
    snprintf(path, sizeof path, "%s/catalog.lmdb", at(store));
    must(mdb_env_create(&c->env));
    must(mdb_env_set_maxdbs(c->env, 8));
    must(mdb_env_open(c->env, path, MDB_NOSUBDIR, 0666));
    must(mdb_txn_begin(c->env, NULL, 0, &c->txn));
    must(mdb_dbi_open(c->txn, "meta", 0, &c->meta));
    must(mdb_dbi_open(c->txn, "segments", 0, &c->segments));
}

static void catalog_end(struct open_catalog *c)
{
    must(mdb_txn_commit(c->txn));
    mdb_env_close(c->env);
}

static MDB_val val(const void *bytes, size_t n)
{
    return (MDB_val){n, (void *)(uintptr_t)bytes};
}

static void set_meta_bits(struct open_catalog *c, uint64_t ro_compat)
{
    MDB_val k = val("store", 5), v;
    uint8_t meta[META_BYTES];
    must(mdb_get(c->txn, c->meta, &k, &v));
    memcpy(meta, v.mv_data, sizeof meta);
    put64(meta + offsetof(struct meta_disk, ro_compat), ro_compat);
    checksum_set(meta, sizeof meta, 0);
    v = val(meta, sizeof meta);
    must(mdb_put(c->txn, c->meta, &k, &v, 0));
}

struct value {
    uint8_t bytes[RECORD_MAX_BYTES];
    size_t n;
};

static const uint8_t *get_record(struct open_catalog *c, const char *name,
                                 struct value *to)
{
    MDB_val k = val(name, strlen(name)), v;
    must(mdb_get(c->txn, c->segments, &k, &v));
    memcpy(to->bytes, v.mv_data, v.mv_size);
    to->n = v.mv_size;
    return to->bytes + offsetof(struct record_disk, uuid);
}

static void set_record(struct open_catalog *c, const char *name, struct value *r,
                       uint64_t ro_compat)
{
    MDB_val k = val(name, strlen(name));
    put64(r->bytes + offsetof(struct record_disk, ro_compat), ro_compat);
    checksum_set(r->bytes, r->n, XXH3_64bits(name, strlen(name)));
    MDB_val v = val(r->bytes, r->n);
    must(mdb_put(c->txn, c->segments, &k, &v, 0));
}

#endif
