/* For tests of the store: stores, segments of numbered keys, and questions
 * with the reason for the answer. */
#ifndef TAMIS_TESTS_STORE_SUPPORT_H
#define TAMIS_TESTS_STORE_SUPPORT_H

#include <lmdb.h>

#include "support.h"
#include "store_internals.h"
#include "unit/stores.h"

#define ABSENT_HERE TAMIS_NO_REASON /* the "reason" of an absent key */

static UNUSED struct piece piece_of(const char *text)
{
    return (struct piece){(const uint8_t *)text, strlen(text)};
}

static UNUSED struct tamis_store *store_open(const char *name)
{
    struct tamis_store *s;
    struct tamis_diag diag = {0};
    if (tamis_store_open(path_of(name), NULL, &s, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    return s;
}

static UNUSED int create_store(const char *path, struct tamis_open_options *opt,
                               struct tamis_diag *diag)
{
    struct tamis_open_options defaults = {.size = sizeof defaults};
    STORE s;
    opt = opt ? opt : &defaults;
    opt->create = TAMIS_CREATE_NEW;
    return tamis_store_open(path, opt, &s, diag);
}

static UNUSED struct tamis_store *store_new(const char *name)
{
    struct tamis_domain domain;
    struct tamis_open_options opt = {.size = sizeof opt, .domain = &domain};
    opt.growth.first_capacity = 100;
    opt.growth.error = 1e-4;
    OK(tamis_domain_init(&domain, 1, 42));
    OK(create_store(path_of(name), &opt, NULL));
    return store_open(name);
}

static UNUSED size_t n_filter_files(const char *store)
{
    char path[600];
    snprintf(path, sizeof path, "%s/filters", path_of(store));
    return count_files(path);
}

static UNUSED const char *key_text(uint64_t i)
{
    static char text[32];
    snprintf(text, sizeof text, "key%08llu", (unsigned long long)i);
    return text;
}

static UNUSED struct tamis_key key_in(const struct tamis_store *s, uint64_t i)
{
    static char text[16][32];
    static unsigned next;
    char *t = text[next++ % 16];
    struct tamis_domain d = tamis_store_domain(s);
    snprintf(t, sizeof text[0], "%s", key_text(i));
    return tamis_key_of(&d, t, strlen(t));
}

/* A builder with keys first .. first + n - 1, put into an edit. */
static UNUSED int put_keys(struct tamis_edit *e, const char *name, uint64_t first,
                           uint64_t n, const struct tamis_segment_options *opt)
{
    BUILDER b;
    int rc = tamis_edit_builder(e, name, strlen(name), 0, opt, &b, NULL);
    if (rc)
        return rc;
    for (uint64_t i = first; i < first + n; i++)
        OK(tamis_builder_add_key(b, key_text(i), strlen(key_text(i))));
    return tamis_edit_put(e, b, NULL, NULL);
}

static UNUSED struct tamis_edit *edit_new(struct tamis_store *s)
{
    struct tamis_edit *e;
    OK(tamis_edit_begin(s, NULL, &e, NULL));
    return e;
}

/* One call on `edit`, in an edit of its own. */
#define EDIT(store, call)                                                              \
    do {                                                                               \
        struct tamis_edit *edit = edit_new(store);                                     \
        OK(call);                                                                      \
        OK(tamis_edit_commit(edit, NULL));                                             \
    } while (0)

/* One segment in an edit of its own. */
static UNUSED void put_segment(struct tamis_store *s, const char *name, uint64_t first,
                               uint64_t n)
{
    EDIT(s, put_keys(edit, name, first, n, NULL));
}

static UNUSED void put_growing(struct tamis_store *s, const char *name)
{
    EDIT(s, tamis_edit_put_growing(edit, name, strlen(name), NULL, NULL, NULL));
}

/* A new store "s" with a segment "g" that grows. */
static UNUSED struct tamis_store *store_of_g(void)
{
    struct tamis_store *s = store_new("s");
    put_growing(s, "g");
    return s;
}

static UNUSED void add_keys(struct tamis_writer *w, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++)
        OK(tamis_writer_add_key(w, key_text(i), strlen(key_text(i))));
}

static UNUSED void drop_segment(struct tamis_store *s, const char *name)
{
    EDIT(s, tamis_edit_drop(edit, name, strlen(name), NULL, NULL));
}

static UNUSED struct tamis_snapshot *snapshot_of(struct tamis_store *s)
{
    struct tamis_snapshot *snap;
    struct tamis_diag diag = {0};
    if (tamis_snapshot_current(s, &snap, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    return snap;
}

static UNUSED enum tamis_reason reason_of_key(struct tamis_store *s, const char *name,
                                              struct tamis_key key)
{
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t;
    enum tamis_reason why;
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    bool absent = tamis_snapshot_probe(snap, &t, &key, &why) == TAMIS_ABSENT;
    IS(absent, why == ABSENT_HERE);
    return why;
}

/* The reason for key i in this segment of the current snapshot. */
static UNUSED enum tamis_reason reason_of(struct tamis_store *s, const char *name,
                                          uint64_t i)
{
    return reason_of_key(s, name, key_in(s, i));
}

/* The same without the bytes, so that no key range helps. */
static UNUSED enum tamis_reason reason_of_hash(struct tamis_store *s, const char *name,
                                               uint64_t i)
{
    struct tamis_key key = key_in(s, i);
    key.bytes = NULL;
    return reason_of_key(s, name, key);
}

/* The filter file of a segment. */
static UNUSED const char *file_of(struct tamis_store *s, const char *store,
                                  const char *name)
{
    static char path[4][900];
    static unsigned next;
    char *p = path[next++ % 4];
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t;
    struct tamis_segment_info info;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    OK(tamis_snapshot_segment(snap, t.ordinal - 1, &info));
    snprintf(p, sizeof path[0], "%s/%s", path_of(store), info.file);
    return p;
}

/* The record of a segment, or the one that its column would have. */
static UNUSED struct record record_in(struct tamis_store *s, const char *name)
{
    struct wanted w = {.name = piece_of(name)};
    OK(catalog_read(s->catalog, store_find_record, &w, NULL));
    return w.record;
}

/* Changes a value of a catalog that no store has open. */
static UNUSED void poke_catalog(const char *store, const char *db, const char *key,
                                const void *value, size_t n)
{
    char path[600];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val k = {strlen(key), (void *)(uintptr_t)key};
    MDB_val v = {n, (void *)(uintptr_t)value};
    snprintf(path, sizeof path, "%s/catalog.lmdb", path_of(store));
    OK(mdb_env_create(&env));
    OK(mdb_env_set_maxdbs(env, 8));
    OK(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOTLS, 0666));
    OK(mdb_txn_begin(env, NULL, 0, &txn));
    OK(mdb_dbi_open(txn, db, MDB_CREATE, &dbi));
    if (value)
        OK(mdb_put(txn, dbi, &k, &v, 0));
    else
        OK(mdb_del(txn, dbi, &k, NULL));
    OK(mdb_txn_commit(txn));
    mdb_env_close(env);
}

static UNUSED struct meta meta_in(const char *store)
{
    STORE s = store_open(store);
    struct meta m = s->catalog->meta;
    return m;
}

static UNUSED void put_meta(const char *store, const struct meta *m)
{
    uint8_t bytes[META_BYTES];
    meta_encode(m, bytes);
    poke_catalog(store, "meta", "store", bytes, sizeof bytes);
}

/* A filter file of keys 0..99 outside of any store. */
static UNUSED void build_file(const char *path, const struct tamis_domain *d,
                              const char *name, const char *binding,
                              const uint8_t *store_uuid)
{
    BUILDER b;
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .domain = d,
                                        .identity.name = name,
                                        .identity.name_bytes = name ? strlen(name) : 0,
                                        .identity.binding = binding,
                                        .identity.binding_bytes =
                                            binding ? strlen(binding) : 0,
                                        .identity.store_uuid = store_uuid,
                                        .watermark = 7};
    OK(tamis_builder_create(&opt, &b, NULL));
    for (uint64_t i = 0; i < 100; i++)
        OK(tamis_builder_add_key(b, key_text(i), strlen(key_text(i))));
    OK(tamis_builder_finish(b, path, NULL, NULL, NULL));
}

static UNUSED int attach_code(struct tamis_store *s, const char *name, const char *path,
                              const char *binding, const char *want)
{
    struct tamis_diag diag = {0};
    struct tamis_segment_options opt = {.size = sizeof opt,
                                        .binding = binding,
                                        .binding_bytes = binding ? strlen(binding) : 0};
    struct tamis_edit *e = edit_new(s);
    int rc = tamis_edit_attach(e, name, strlen(name), path, &opt, &diag);
    if (!rc)
        rc = tamis_edit_commit(e, &diag);
    else
        tamis_edit_abort(e);
    if (want && !strstr(diag.what, want))
        fail_msg("'%s' does not say '%s'", diag.what, want);
    return rc;
}

/* ---- trees: a number for all names and bytes, but those of LMDB's lock file ---- */

static UNUSED uint64_t tree_sum;

static UNUSED int sum_one(const char *path, const struct stat *st, int flag,
                          struct FTW *ftw)
{
    size_t n = strlen(path);
    if (n > 5 && strcmp(path + n - 5, "-lock") == 0)
        return 0;
    uint64_t h = XXH3_64bits(path, n) + (uint64_t)flag;
    if (S_ISREG(st->st_mode)) {
        FREED uint8_t *bytes = file_read(path, &n);
        h = XXH3_64bits_withSeed(bytes, n, h);
    }
    tree_sum += h; /* in any order */
    return 0;
}

static UNUSED uint64_t tree_of(const char *name)
{
    tree_sum = 0;
    OK(nftw(path_of(name), sum_one, 16, FTW_PHYS));
    return tree_sum;
}

static UNUSED void copy_tree(const char *from, const char *to)
{
    char command[2500];
    remove_tree(to);
    snprintf(command, sizeof command, "cp -a '%s' '%s'", path_of(from), path_of(to));
    OK(system(command));
}

#endif
