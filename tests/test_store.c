/* The store in one process: creating and opening it, edits, snapshots, reasons, and
 * what happens when files or records are not what they should be. */
#include "store_support.h"

#include <lmdb.h>
#include <pthread.h>
#include <sys/mman.h>

/* ---- create and open ---- */

static void create_refuses_what_is_there(void **state)
{
    struct tamis_diag diag;
    (void)state;
    OK(tamis_store_create(path_of("s"), NULL, &diag));
    assert_int_equal(tamis_store_create(path_of("s"), NULL, &diag), TAMIS_ERR_EXISTS);
    assert_non_null(strstr(diag.what, "a store is here"));
    file_write(path_of("file"), "x", 1);
    assert_int_equal(tamis_store_create(path_of("file"), NULL, NULL), TAMIS_ERR_EXISTS);
    mkdir(path_of("full"), 0777);
    file_write(path_of("full/x"), "x", 1);
    assert_int_equal(tamis_store_create(path_of("full"), NULL, NULL), TAMIS_ERR_EXISTS);
    assert_int_equal(count_files(path_of("full")), 1);
    assert_int_equal(tamis_store_create(path_of("no/where"), NULL, NULL), ENOENT);
    mkdir(path_of("empty"), 0777);
    OK(tamis_store_create(path_of("empty/"), NULL, NULL));
    tamis_store_close(store_open("empty/"));
}

static void create_checks_its_options(void **state)
{
    static const struct tamis_growth bad[] = {
        {.error = 0.6},      {.error = 1e-9},
        {.factor = 1.1},     {.factor = 17},
        {.tightening = 0.4}, {.tightening = 0.96},
        {.error = -1},       {.first_capacity = (UINT64_C(1) << 32) + 1},
    };
    struct tamis_store_options opt = {.size = sizeof opt};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        opt.growth = bad[i];
        assert_int_equal(tamis_store_create(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
        assert_false(exists(path_of("s")));
    }
    struct tamis_domain forged = {.hash_id = 1, .seed = 5, .tag = 6};
    opt = (struct tamis_store_options){.size = sizeof opt, .domain = &forged};
    assert_int_equal(tamis_store_create(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
    opt.size = 3;
    assert_int_equal(tamis_store_create(path_of("s"), &opt, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_store_create("", NULL, NULL), TAMIS_ERR_RANGE);
}

static int fail_fsync(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}

static void create_removes_what_it_made_on_failure(void **state)
{
    (void)state;
    struct io_calls saved = io_calls;
    io_calls.fsync = fail_fsync;
    assert_int_equal(tamis_store_create(path_of("s"), NULL, NULL), EIO);
    assert_false(exists(path_of("s")));
    mkdir(path_of("empty"), 0777);
    assert_int_equal(tamis_store_create(path_of("empty"), NULL, NULL), EIO);
    assert_int_equal(count_files(path_of("empty")), 0);
    io_calls = saved;
}

static void info_says_what_create_was_told(void **state)
{
    struct tamis_store *s = store_new("s");
    struct tamis_store_info info;
    (void)state;
    OK(tamis_store_info(s, &info, NULL));
    assert_int_equal(info.domain.seed, 42);
    assert_int_equal(info.growth.first_capacity, 100);
    assert_true(info.growth.factor == 2 && info.growth.error == 1e-4);
    assert_int_equal(info.n_segments, 0);
    assert_true(info.complete && !info.read_only && info.created > 0);
    assert_true(info.catalog_bytes >= 8192);
    assert_false(all_zero(info.uuid, sizeof info.uuid));
    tamis_store_close(s);
    tamis_store_close(NULL);
}

static int open_code(const char *name, const char *want)
{
    struct tamis_store *s = (void *)1;
    struct tamis_diag diag = {0};
    int rc = tamis_store_open(path_of(name), &s, &diag);
    assert_null(s);
    assert_int_equal(rc, diag.code);
    if (!strstr(diag.what, want))
        fail_msg("'%s' does not say '%s'", diag.what, want);
    return rc;
}

static void open_says_what_is_wrong(void **state)
{
    (void)state;
    assert_int_equal(open_code("none", "no such directory"), TAMIS_ERR_NO_STORE);
    file_write(path_of("file"), "x", 1);
    assert_int_equal(open_code("file", "not a directory"), TAMIS_ERR_NOT_TAMIS);
    mkdir(path_of("dir"), 0777);
    assert_int_equal(open_code("dir", "no store in this"), TAMIS_ERR_NO_STORE);
    mkdir(path_of("dir/filters"), 0777);
    assert_int_equal(open_code("dir", "catalog.lmdb is missing"), TAMIS_ERR_NO_STORE);
    assert_int_equal(count_files(path_of("dir")), 1); /* open creates nothing */
    mkdir(path_of("dir/catalog.lmdb"), 0777);
    assert_int_equal(open_code("dir", "not a regular file"), TAMIS_ERR_NOT_TAMIS);
    tamis_store_close(store_new("s"));
    rmdir(path_of("s/filters"));
    assert_int_equal(open_code("s", "filters/ is missing"), TAMIS_ERR_DAMAGED);
}

static void open_refuses_damaged_catalog_files(void **state)
{
    size_t n;
    (void)state;
    tamis_store_close(store_new("s"));
    const char *path = path_of("s/catalog.lmdb");
    uint8_t *good = file_read(path, &n), *zeros = calloc(1, n);
    file_write(path, "", 0);
    assert_int_equal(open_code("s", "empty"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, 100);
    assert_int_equal(open_code("s", "too short"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, 4096);
    assert_int_equal(open_code("s", "too short"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, 8192);
    assert_int_equal(open_code("s", "cut short"), TAMIS_ERR_DAMAGED);
    file_write(path, zeros, n);
    assert_int_equal(open_code("s", "zeros"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, n);
    file_poke(path, 4096, zeros, 4096);
    assert_int_equal(open_code("s", "zeros"), TAMIS_ERR_NOT_TAMIS);
    file_write(path,
               "#!/bin/sh\n# surely no catalog, but long enough to be looked at "
               "................................................................"
               "................................................................",
               180);
    assert_int_equal(open_code("s", "wrong magic"), TAMIS_ERR_NOT_TAMIS);
    file_write(path, good, n);
    tamis_store_close(store_open("s"));
    free(good);
    free(zeros);
}

/* Changes a value of a catalog that no store has open. */
static void poke_catalog(const char *store, const char *db, const char *key,
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

static struct meta meta_in(const char *store)
{
    struct tamis_store *s = store_open(store);
    struct meta m = s->catalog->meta;
    tamis_store_close(s);
    return m;
}

static void open_checks_the_first_record(void **state)
{
    uint8_t bytes[META_BYTES];
    (void)state;
    tamis_store_close(store_new("s"));
    struct meta m = meta_in("s");
    m.major = FORMAT_MAJOR + 1;
    meta_encode(&m, bytes);
    poke_catalog("s", "meta", "store", bytes, sizeof bytes);
    assert_int_equal(open_code("s", "newer"), TAMIS_ERR_VERSION);
    m.major = FORMAT_MAJOR;
    m.incompat = 1;
    meta_encode(&m, bytes);
    poke_catalog("s", "meta", "store", bytes, sizeof bytes);
    assert_int_equal(open_code("s", "feature"), TAMIS_ERR_VERSION);
    bytes[100] ^= 1;
    poke_catalog("s", "meta", "store", bytes, sizeof bytes);
    assert_int_equal(open_code("s", "checksum"), TAMIS_ERR_DAMAGED);
    poke_catalog("s", "meta", "store", NULL, 0);
    assert_int_equal(open_code("s", "cut short"), TAMIS_ERR_NOT_TAMIS);
    mkdir(path_of("other"), 0777);
    mkdir(path_of("other/filters"), 0777);
    poke_catalog("other", "accounts", "a", "1", 1);
    assert_int_equal(open_code("other", "no catalog of tamis"), TAMIS_ERR_NOT_TAMIS);
}

static void unknown_ro_feature_opens_read_only(void **state)
{
    uint8_t bytes[META_BYTES];
    struct tamis_edit *e;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    struct meta m = meta_in("s");
    m.ro_compat = 1;
    meta_encode(&m, bytes);
    poke_catalog("s", "meta", "store", bytes, sizeof bytes);
    s = store_open("s");
    assert_int_equal(tamis_edit_begin(s, &e, NULL), TAMIS_ERR_READ_ONLY);
    assert_null(e);
    assert_int_equal(reason_of(s, "a", 3), TAMIS_HIT);
    assert_int_equal(reason_of(s, "a", 77), ABSENT_HERE);
    tamis_store_close(s);
}

static void one_environment_per_process(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    assert_int_equal(symlink(path_of("s"), path_of("link")), 0);
    struct tamis_store *b = store_open("link"), *c = store_open("s//");
    assert_ptr_equal(a->catalog, b->catalog);
    assert_ptr_equal(a->catalog, c->catalog);
    tamis_store_close(a);
    put_segment(b, "x", 0, 5);
    assert_int_equal(reason_of(c, "x", 2), TAMIS_HIT);
    tamis_store_close(b);
    tamis_store_close(c);
    a = store_open("s");
    assert_int_equal(reason_of(a, "x", 2), TAMIS_HIT);
    tamis_store_close(a);
}

/* ---- edits ---- */

static void edit_puts_and_drops(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 100, NULL));
    OK(put_keys(e, "b", 100, 100, NULL));
    OK(put_keys(e, "empty", 0, 0, NULL));
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 3);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(reason_of(s, "a", i), TAMIS_HIT);
        assert_int_equal(reason_of(s, "b", 100 + i), TAMIS_HIT);
        assert_int_equal(reason_of(s, "empty", i), ABSENT_HERE);
    }
    assert_int_equal(reason_of(s, "a", 100), ABSENT_HERE);
    drop_segment(s, "a");
    assert_int_equal(n_filter_files("s"), 2);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void edit_sees_its_own_changes_in_order(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(put_keys(e, "a", 50, 10, NULL), TAMIS_ERR_EXISTS);
    OK(tamis_edit_drop(e, "a", 1, NULL));
    assert_int_equal(tamis_edit_drop(e, "a", 1, NULL), TAMIS_ERR_NO_SEGMENT);
    OK(put_keys(e, "a", 50, 10, NULL));
    assert_int_equal(put_keys(e, "a", 60, 10, NULL), TAMIS_ERR_EXISTS);
    OK(put_keys(e, "gone", 0, 10, NULL));
    OK(tamis_edit_drop(e, "gone", 4, NULL));
    assert_int_equal(tamis_edit_drop(e, "none", 4, NULL), TAMIS_ERR_NO_SEGMENT);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 1);
    assert_int_equal(reason_of(s, "a", 5), ABSENT_HERE);
    assert_int_equal(reason_of(s, "a", 55), TAMIS_HIT);
    assert_int_equal(reason_of(s, "gone", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void edit_refuses_bad_arguments(void **state)
{
    char name[300];
    struct tamis_builder *b = (void *)1;
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = name, .binding_bytes = 65};
    (void)state;
    memset(name, 'n', sizeof name);
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(tamis_edit_put_bare(e, "", 0, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put_bare(e, name, 256, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put_bare(e, "a\0b", 3, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put_bare(e, "a", 1, &opt, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_builder(e, "a", 1, 0.7, NULL, &b, NULL),
                     TAMIS_ERR_RANGE);
    assert_null(b);
    assert_int_equal(tamis_edit_drop(e, NULL, 0, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put(e, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put(NULL, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_commit(NULL, NULL), TAMIS_ERR_RANGE);
    struct tamis_growth bad = {.factor = 100};
    assert_int_equal(tamis_edit_put_growing(e, "a", 1, &bad, NULL, NULL),
                     TAMIS_ERR_RANGE);
    OK(tamis_edit_put_bare(e, name, 255, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_edit_abort(NULL);
    tamis_store_close(s);
}

static void edit_refuses_a_foreign_builder(void **state)
{
    uint8_t other[16] = {1};
    struct tamis_builder *b;
    struct tamis_builder_options opt = {
        .size = sizeof opt, .name = "a", .name_bytes = 1};
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_builder_create(&opt, &b, NULL));
    assert_int_equal(tamis_edit_put(e, b, NULL), TAMIS_ERR_MISMATCH);
    tamis_builder_free(b);
    struct tamis_domain d = tamis_store_domain(s);
    opt.domain = &d;
    opt.store_uuid = other;
    OK(tamis_builder_create(&opt, &b, NULL));
    assert_int_equal(tamis_edit_put(e, b, NULL), TAMIS_ERR_MISMATCH);
    tamis_builder_free(b);
    opt.store_uuid = NULL;
    OK(tamis_builder_create(&opt, &b, NULL));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    assert_int_equal(n_filter_files("s"), 1);
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
}

static void abort_leaves_no_files(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, NULL));
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    assert_int_equal(n_filter_files("s"), 2);
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 0);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void failed_commit_changes_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "old", 0, 10);
    struct tamis_edit *one = edit_new(s), *two = edit_new(s), *three = edit_new(s);
    OK(put_keys(one, "a", 0, 10, NULL));
    OK(tamis_edit_drop(two, "old", 3, NULL));
    OK(put_keys(two, "b", 0, 10, NULL));
    OK(put_keys(two, "a", 50, 10, NULL)); /* nobody has it yet */
    OK(tamis_edit_drop(three, "old", 3, NULL));
    OK(put_keys(three, "c", 0, 10, NULL));
    OK(tamis_edit_commit(one, NULL));
    struct tamis_diag diag;
    assert_int_equal(tamis_edit_commit(two, &diag), TAMIS_ERR_EXISTS);
    assert_non_null(strstr(diag.what, "segment a exists"));
    assert_int_equal(n_filter_files("s"), 3);
    assert_int_equal(reason_of(s, "old", 5), TAMIS_HIT);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_HIT);
    assert_int_equal(reason_of(s, "b", 5), TAMIS_UNKNOWN_SEGMENT);
    drop_segment(s, "old");
    assert_int_equal(tamis_edit_commit(three, NULL), TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
}

static void failed_sync_fails_the_commit(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, NULL));
    struct io_calls saved = io_calls;
    io_calls.fsync = fail_fsync;
    assert_int_equal(tamis_edit_commit(e, NULL), EIO);
    e = edit_new(s);
    assert_int_equal(put_keys(e, "a", 0, 10, NULL), EIO);
    io_calls = saved;
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 0);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void retain_keeps_the_named_and_its_own(void **state)
{
    static const struct tamis_name live[] = {
        {"b", 1}, {"unknown", 7}, {"", 0}, {NULL, 0}, {"later", 5}};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    put_segment(s, "c", 20, 10);
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "own", 30, 10, NULL));
    OK(tamis_edit_retain(e, live, 5, NULL));
    assert_int_equal(tamis_edit_drop(e, "a", 1, NULL), TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(put_keys(e, "b", 0, 1, NULL), TAMIS_ERR_EXISTS);
    OK(put_keys(e, "c", 90, 5, NULL)); /* free again */
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    assert_int_equal(reason_of(s, "b", 15), TAMIS_HIT);
    assert_int_equal(reason_of(s, "c", 25), ABSENT_HERE);
    assert_int_equal(reason_of(s, "c", 91), TAMIS_HIT);
    assert_int_equal(reason_of(s, "own", 35), TAMIS_HIT);
    assert_int_equal(n_filter_files("s"), 3);
    e = edit_new(s);
    OK(tamis_edit_retain(e, NULL, 0, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 0);
    tamis_store_close(s);
}

struct putter {
    struct tamis_edit *edit;
    int number, n_exists;
};

static void *put_many(void *arg)
{
    struct putter *p = arg;
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "own-%d-%d", p->number, i);
        struct tamis_builder *b;
        OK(tamis_edit_builder(p->edit, name, strlen(name), 0, NULL, &b, NULL));
        uint64_t hash = (uint64_t)(p->number * 1000 + i);
        OK(tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, &hash, 1));
        OK(tamis_edit_put(p->edit, b, NULL));
        tamis_builder_free(b);
        snprintf(name, sizeof name, "shared-%d", i);
        int rc = tamis_edit_put_bare(p->edit, name, strlen(name), NULL, NULL);
        assert_true(rc == 0 || rc == TAMIS_ERR_EXISTS);
        p->n_exists += rc != 0;
    }
    return NULL;
}

static void threads_put_into_one_edit(void **state)
{
    pthread_t thread[4];
    struct putter p[4];
    int n_exists = 0;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 4; i++) {
        p[i] = (struct putter){e, i, 0};
        OK(pthread_create(&thread[i], NULL, put_many, &p[i]));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        n_exists += p[i].n_exists;
    }
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_exists, 60);
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(tamis_snapshot_n_segments(snap), 100);
    tamis_snapshot_release(snap);
    assert_int_equal(n_filter_files("s"), 80);
    tamis_store_close(s);
}

/* ---- attach ---- */

/* A filter file of keys 0..99 outside of any store. */
static void build_file(const char *path, const struct tamis_domain *d, const char *name,
                       const char *binding, const uint8_t *store_uuid)
{
    struct tamis_builder *b;
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .domain = d,
                                        .name = name,
                                        .name_bytes = name ? strlen(name) : 0,
                                        .binding = binding,
                                        .binding_bytes = binding ? strlen(binding) : 0,
                                        .store_uuid = store_uuid,
                                        .watermark = 7};
    OK(tamis_builder_create(&opt, &b, NULL));
    for (uint64_t i = 0; i < 100; i++)
        OK(tamis_builder_add_key(b, key_text(i), strlen(key_text(i))));
    OK(tamis_builder_finish_file(b, path, NULL));
    tamis_builder_free(b);
}

static int attach_code(struct tamis_store *s, const char *name, const char *path,
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

static void attach_copies_a_sealed_file(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    const char *path = path_of("f.tamis");
    build_file(path, &d, NULL, NULL, NULL);
    OK(attach_code(s, "a", path, NULL, NULL));
    assert_int_equal(attach_code(s, "b", path, NULL, "this very filter"),
                     TAMIS_ERR_EXISTS);
    assert_int_equal(unlink(path), 0);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(reason_of(s, "a", i), TAMIS_HIT);
    assert_int_equal(reason_of(s, "a", 200), ABSENT_HERE);
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
}

static void attach_refuses_what_does_not_belong(void **state)
{
    struct tamis_domain other;
    uint8_t uuid[16] = {9};
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    OK(tamis_domain_random(&other));
    build_file(path_of("seed"), &other, NULL, NULL, NULL);
    build_file(path_of("named"), &d, "x", "bind", NULL);
    build_file(path_of("store"), &d, NULL, NULL, uuid);
    assert_int_equal(attach_code(s, "a", path_of("seed"), NULL, "another seed"),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(attach_code(s, "a", path_of("named"), NULL, "another segment"),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(attach_code(s, "x", path_of("named"), "bond", "binding differs"),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(attach_code(s, "a", path_of("store"), NULL, "another store"),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(attach_code(s, "a", path_of("none"), NULL, ""), ENOENT);
    assert_int_equal(attach_code(s, "a", test_dir, NULL, ""), EISDIR);
    assert_int_equal(n_filter_files("s"), 0);
    OK(attach_code(s, "x", path_of("named"), NULL, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, "x", 1, "bind", 4, 7, &t));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void attach_refuses_growing_and_damaged(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    struct tamis_writer_options opt = {.size = sizeof opt, .domain = &d};
    OK(tamis_writer_create(path_of("g"), &opt, &w, NULL));
    OK(tamis_writer_add_key(w, "a", 1));
    OK(tamis_writer_commit(w, 1, NULL));
    assert_int_equal(attach_code(s, "a", path_of("g"), NULL, "seal it"),
                     TAMIS_ERR_RANGE);
    OK(tamis_writer_seal(w, 2, NULL, NULL));
    OK(tamis_writer_close(w));
    build_file(path_of("f"), &d, NULL, NULL, NULL);
    file_poke(path_of("f"), 4096 + 77, "\xff\xff\xff", 3);
    assert_int_equal(attach_code(s, "f", path_of("f"), NULL, ""), TAMIS_ERR_DAMAGED);
    assert_int_equal(truncate(path_of("f"), 4096), 0);
    assert_int_equal(attach_code(s, "f", path_of("f"), NULL, ""), TAMIS_ERR_DAMAGED);
    file_write(path_of("f"), "hello", 5);
    assert_int_not_equal(attach_code(s, "f", path_of("f"), NULL, ""), 0);
    assert_int_equal(n_filter_files("s"), 0);
    OK(attach_code(s, "g", path_of("g"), NULL, NULL));
    struct tamis_key key = tamis_key_of(&d, "a", 1);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* A copy put back for a lost file, in one edit with the drop of its record. */
static void attach_restores_a_lost_file(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    build_file(path_of("f"), &d, NULL, NULL, NULL);
    OK(attach_code(s, "a", path_of("f"), NULL, NULL));
    assert_int_equal(unlink(file_of(s, "s", "a")), 0);
    assert_int_equal(attach_code(s, "b", path_of("f"), NULL, "another segment"),
                     TAMIS_ERR_EXISTS); /* a still has this UUID */
    assert_int_equal(n_filter_files("s"), 0);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "a", 1, NULL));
    OK(tamis_edit_attach(e, "a", 1, path_of("f"), NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 50), TAMIS_HIT);
    assert_int_equal(reason_of(s, "a", 500), ABSENT_HERE);
    tamis_store_close(s);
}

/* ---- orphans, and a catalog that grows ---- */

static void first_edit_sweeps_orphans(void **state)
{
    char path[128];
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    static const char *const orphans[] = {
        "0123456789abcdef0123456789abcdef.tamis",
        "0123456789abcdef0123456789abcdef.tamis.89abcdef.tmp"};
    static const char *const strangers[] = {
        "README", "0123456789ABCDEF0123456789abcdef.tamis",
        "0123456789abcdef0123456789abcdef.tamis.old", "x.89abcdef.tmp"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "s/filters/%s", orphans[i]);
        file_write(path_of(path), "x", 1);
    }
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "s/filters/%s", strangers[i]);
        file_write(path_of(path), "x", 1);
    }
    s = store_open("s");
    assert_int_equal(n_filter_files("s"), 7);
    tamis_edit_abort(edit_new(s));
    assert_int_equal(n_filter_files("s"), 5);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_HIT);
    tamis_store_close(s);
}

static void no_sweep_while_a_record_is_unreadable(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    poke_catalog("s", "segments", "a", "rubbish", 7);
    s = store_open("s");
    tamis_edit_abort(edit_new(s));
    assert_int_equal(n_filter_files("s"), 1); /* it may be a's */
    drop_segment(s, "a");
    tamis_store_close(s);
    s = store_open("s");
    tamis_edit_abort(edit_new(s));
    assert_int_equal(n_filter_files("s"), 0);
    tamis_store_close(s);
}

static void map_grows_when_full(void **state)
{
    char name[32];
    struct tamis_store_info info;
    (void)state;
    struct tamis_store *s = store_new("s");
    OK(mdb_env_set_mapsize(s->catalog->env, 1 << 17));
    struct tamis_snapshot *before = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "segment-%d", i);
        OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
    }
    OK(tamis_edit_drop(e, "segment-7", 9, NULL));
    OK(tamis_edit_commit(e, NULL));
    OK(tamis_store_info(s, &info, NULL));
    assert_int_equal(info.n_segments, 4999);
    assert_true(info.catalog_bytes > 1 << 17);
    assert_int_equal(tamis_snapshot_n_segments(before), 0);
    tamis_snapshot_release(before);
    assert_int_equal(reason_of(s, "segment-6", 1), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(s, "segment-7", 1), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

/* Cut anywhere, the catalog is refused or good, and never SIGBUS. Here its last page
 * is in use; a file longer than its last page is the usual case. */
static void truncated_catalogs_are_refused(void **state)
{
    char name[200];
    size_t n, n_good = 0;
    (void)state;
    struct tamis_store *s = store_new("s");
    for (int round = 0; round < 3; round++) {
        struct tamis_edit *e = edit_new(s);
        for (int i = 0; i < 300; i++) {
            memset(name, 'n', sizeof name);
            int rc = snprintf(name, sizeof name, "%d", (int)random_below(1000));
            name[rc] = 'n';
            tamis_edit_put_bare(e, name, sizeof name, NULL, NULL);
        }
        OK(tamis_edit_commit(e, NULL));
    }
    tamis_store_close(s);
    free(file_read(path_of("s/catalog.lmdb"), &n));
    for (size_t cut = n; cut + 1 > 4096; cut -= 4096) {
        struct tamis_diag diag;
        OK(truncate(path_of("s/catalog.lmdb"), (off_t)cut));
        int rc = tamis_store_open(path_of("s"), &s, &diag);
        if (rc == 0) {
            tamis_snapshot_release(snapshot_of(s));
            tamis_store_close(s);
        }
        n_good += rc == 0;
        assert_true(rc == 0 || rc == TAMIS_ERR_DAMAGED || rc == TAMIS_ERR_NOT_TAMIS);
    }
    assert_true(n_good >= 1 && n_good < 10);
}

/* The size of a good file must never be taken for damage. */
static void opens_after_every_kind_of_commit(void **state)
{
    char name[8];
    (void)state;
    struct tamis_store *s = store_new("s");
    for (int round = 0; round < 150; round++) {
        struct tamis_edit *e = edit_new(s);
        for (int i = 0; i < 60; i++) {
            snprintf(name, sizeof name, "%d", (int)random_below(120));
            if (random_below(2))
                tamis_edit_put_bare(e, name, strlen(name), NULL, NULL);
            else
                tamis_edit_drop(e, name, strlen(name), NULL);
        }
        OK(tamis_edit_commit(e, NULL));
        tamis_store_close(s);
        s = store_open("s");
    }
    tamis_store_close(s);
}

/* ---- snapshots ---- */

static void segments_are_ordered_by_rank_then_name(void **state)
{
    static const struct {
        const char *name;
        uint32_t rank;
    } in[] = {{"b", 1}, {"zz", 0}, {"a", 1}, {"ab", 1}, {"z", 0}};
    static const char *const want[] = {"z", "zz", "a", "ab", "b"};
    struct tamis_segment_info info;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < 5; i++) {
        struct tamis_segment_options opt = {
            .size = sizeof opt, .rank = in[i].rank, .binding = "B", .binding_bytes = 1};
        OK(put_keys(e, in[i].name, i * 10, 10, &opt));
    }
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < 5; i++) {
        OK(tamis_snapshot_segment(snap, i, &info));
        assert_int_equal(info.name_bytes, strlen(want[i]));
        assert_memory_equal(info.name, want[i], info.name_bytes);
        assert_int_equal(info.state, TAMIS_SEGMENT_SEALED);
        assert_int_equal(info.keys, 10);
        assert_true(info.binding_bytes == 1 && info.error == 1e-4);
        assert_true(info.file_bytes == 8192 && info.created > 0);
    }
    assert_memory_equal(info.first_key, "key00000000", 11);
    assert_memory_equal(info.last_key, "key00000009", 11);
    assert_int_equal(tamis_snapshot_segment(snap, 5, &info), TAMIS_ERR_RANGE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void unchanged_snapshots_are_one(void **state)
{
    struct tamis_filter *f, *g;
    (void)state;
    struct tamis_store *s = store_new("s"), *other = store_open("s");
    put_segment(s, "a", 0, 10);
    struct tamis_snapshot *one = snapshot_of(s), *two = snapshot_of(other);
    assert_ptr_equal(one, two);
    OK(tamis_snapshot_filter(one, 0, &f, NULL));
    put_segment(other, "b", 0, 10);
    struct tamis_snapshot *three = snapshot_of(s);
    assert_ptr_not_equal(one, three);
    OK(tamis_snapshot_filter(three, 0, &g, NULL));
    assert_ptr_equal(f, g); /* opened filters are shared */
    assert_int_equal(tamis_snapshot_n_segments(one), 1);
    assert_int_equal(tamis_snapshot_n_segments(three), 2);
    drop_segment(s, "a");
    struct tamis_target t = tamis_snapshot_target(one, 0);
    struct tamis_key key = key_in(s, 3);
    enum tamis_reason why;
    tamis_snapshot_probe(one, &t, &key, &why);
    assert_int_equal(why, TAMIS_HIT); /* the file is gone, the mapping is not */
    tamis_store_close(s);
    tamis_store_close(other);
    t = tamis_snapshot_target(three, 1);
    tamis_snapshot_probe(three, &t, &key, &why);
    assert_int_equal(why, TAMIS_HIT); /* opened after the store was closed */
    tamis_snapshot_release(one);
    tamis_snapshot_release(two);
    tamis_snapshot_release(three);
}

static void find_compares_bindings(void **state)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "id-1", .binding_bytes = 4};
    struct tamis_target t;
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, &opt));
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key in = key_in(s, 3), out = key_in(s, 5000);
    OK(tamis_snapshot_find(snap, "a", 1, "id-1", 4, 0, &t));
    assert_int_equal(tamis_snapshot_probe(snap, &t, &in, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, &why), TAMIS_ABSENT);
    static const char *const wrong[] = {"id-2", "id-", "id-10", ""};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(
            tamis_snapshot_find(snap, "a", 1, wrong[i], strlen(wrong[i]), 0, &t),
            TAMIS_ERR_MISMATCH);
        assert_int_equal(tamis_snapshot_probe(snap, &t, &out, &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_MISMATCH);
    }
    assert_int_equal(tamis_snapshot_find(snap, "A", 1, NULL, 0, 0, &t),
                     TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(t.slot, 0);
    OK(tamis_snapshot_find(snap, "bare", 4, "", 0, 0, &t));
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_NO_FILTER);
    assert_int_equal(
        tamis_snapshot_filter(snap, t.slot - 1, &(struct tamis_filter *){0}, NULL),
        TAMIS_ERR_NO_SEGMENT);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static enum tamis_reason probe_bytes(struct tamis_snapshot *snap, const char *name,
                                     const void *key, size_t n)
{
    struct tamis_domain d = tamis_snapshot_domain(snap);
    struct tamis_key k = tamis_key_of(&d, key, n);
    struct tamis_target t;
    enum tamis_reason why;
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    tamis_snapshot_probe(snap, &t, &k, &why);
    return why;
}

/* The file is gone, so only a range can still say ABSENT. */
static void ranges_answer_without_the_file(void **state)
{
    struct tamis_builder *b;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, "m\xff", 2));
    OK(tamis_builder_add_key(b, "c", 1));
    OK(tamis_builder_add_key(b, "dddd", 4));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(unlink(file_of(s, "s", "a")), 0);
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(probe_bytes(snap, "a", "", 0), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "b\xff\xff", 3), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "c", 1), TAMIS_FILE_LOST);
    assert_int_equal(probe_bytes(snap, "a", "c\0", 2), TAMIS_FILE_LOST);
    assert_int_equal(probe_bytes(snap, "a", "m", 1), TAMIS_FILE_LOST);
    assert_int_equal(probe_bytes(snap, "a", "m\xff", 2), TAMIS_FILE_LOST);
    assert_int_equal(probe_bytes(snap, "a", "m\xff\0", 3), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "n", 1), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "\xff", 1), ABSENT_HERE);
    struct tamis_key by_hash = tamis_key_of_hash(tamis_snapshot_domain(snap).tag, 1);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &by_hash, NULL), TAMIS_MAYBE);
    struct tamis_key foreign = tamis_key_of_hash(1, 1);
    foreign.bytes = "zzz", foreign.n_bytes = 3;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &foreign, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void adds_by_hash_have_no_range(void **state)
{
    struct tamis_builder *b;
    struct tamis_segment_info info;
    uint64_t hash = 12345;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, "m", 1));
    OK(tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, &hash, 1));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < 2; i++) {
        OK(tamis_snapshot_segment(snap, i, &info));
        assert_null(info.first_key);
        assert_null(info.last_key);
    }
    tamis_snapshot_release(snap);
    assert_int_equal(unlink(file_of(s, "s", "a")), 0);
    snap = snapshot_of(s);
    assert_int_equal(probe_bytes(snap, "a", "z", 1), TAMIS_FILE_LOST);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* A last key too long to keep must not be cut; a first one may be. */
static void long_keys_and_ranges(void **state)
{
    static uint8_t key[2000];
    struct tamis_builder *b;
    (void)state;
    memset(key, 'k', sizeof key);
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 2; i++) {
        OK(tamis_edit_builder(e, i ? "first" : "last", i ? 5 : 4, 0, NULL, &b, NULL));
        OK(tamis_builder_add_key(b, key, sizeof key));
        OK(tamis_builder_add_key(b, i ? "z" : "a", 1));
        OK(tamis_edit_put(e, b, NULL));
        tamis_builder_free(b);
    }
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(probe_bytes(snap, "first", key, sizeof key), TAMIS_HIT);
    assert_int_equal(probe_bytes(snap, "last", key, sizeof key), TAMIS_HIT);
    assert_int_equal(probe_bytes(snap, "first", "a", 1), ABSENT_HERE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void required_watermarks(void **state)
{
    struct tamis_target t;
    struct tamis_writer *w;
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    build_file(path_of("f"), &d, NULL, NULL, NULL); /* watermark 7 */
    OK(attach_code(s, "sealed", path_of("f"), NULL, NULL));
    put_growing(s, "growing");
    OK(tamis_store_writer(s, "growing", 7, &w, NULL));
    OK(tamis_writer_commit(w, 7, NULL));
    static const char *const name[] = {"sealed", "growing"};
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = key_in(s, 5000);
    for (size_t i = 0; i < 2; i++) {
        OK(tamis_snapshot_find(snap, name[i], strlen(name[i]), NULL, 0, 7, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_ABSENT);
        OK(tamis_snapshot_find(snap, name[i], strlen(name[i]), NULL, 0, 8, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_BEHIND);
        uint64_t absent = 99;
        assert_int_equal(
            tamis_snapshot_probe_batch(snap, &t, d.tag, &key.hash, 1, &absent, &why),
            0);
        assert_true(absent == 0 && why == TAMIS_BEHIND);
    }
    OK(tamis_writer_commit(w, 8, NULL)); /* the same target catches up */
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_ABSENT);
    OK(tamis_writer_close(w));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* Nor may a key range answer for a segment that is behind. */
static void ranges_and_watermarks(void **state)
{
    struct tamis_builder *b;
    struct tamis_target t;
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &d, .name = "a", .name_bytes = 1, .watermark = 7};
    OK(tamis_builder_create(&opt, &b, NULL));
    OK(tamis_builder_add_key(b, "m", 1));
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = tamis_key_of(&d, "z", 1);
    OK(tamis_snapshot_find(snap, "a", 1, NULL, 0, 7, &t));
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_ABSENT);
    t.min_watermark = 8;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_BEHIND);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void lists_and_batches(void **state)
{
    uint64_t absent[2], hashes[70];
    uint8_t reasons[5];
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t[4] = {{0}};
    tamis_snapshot_find(snap, "a", 1, NULL, 0, 0, &t[0]);
    tamis_snapshot_find(snap, "b", 1, NULL, 0, 0, &t[1]);
    tamis_snapshot_find(snap, "c", 1, NULL, 0, 0, &t[2]);
    struct tamis_key in = key_in(s, 13), out = key_in(s, 99);
    memset(absent, 0xff, sizeof absent);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 4, &in, absent, reasons),
                     TAMIS_MAYBE);
    assert_int_equal(absent[0], 1);
    assert_true(reasons[0] == ABSENT_HERE && reasons[1] == TAMIS_HIT);
    assert_true(reasons[2] == TAMIS_UNKNOWN_SEGMENT && reasons[3] == reasons[2]);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 2, &out, NULL, NULL),
                     TAMIS_ABSENT);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 3, &out, absent, NULL),
                     TAMIS_MAYBE);
    assert_int_equal(absent[0], 3);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 0, &out, NULL, NULL),
                     TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_all(snap, &out, absent, reasons),
                     TAMIS_ABSENT);
    assert_int_equal(tamis_snapshot_probe_all(snap, &in, absent, reasons), TAMIS_MAYBE);
    for (uint64_t i = 0; i < 70; i++)
        hashes[i] = key_in(s, i).hash;
    memset(absent, 0xff, sizeof absent);
    assert_int_equal(
        tamis_snapshot_probe_batch(snap, &t[1], in.tag, hashes, 70, absent, &why), 60);
    assert_true(absent[0] == ~(UINT64_C(0x3ff) << 10) && absent[1] == 0x3f);
    assert_int_equal(
        tamis_snapshot_probe_batch(snap, &t[1], in.tag + 1, hashes, 70, absent, &why),
        0);
    assert_true(absent[0] == 0 && absent[1] == 0 && why == TAMIS_MISMATCH);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void nothing_is_maybe(void **state)
{
    struct tamis_target t = {0};
    struct tamis_key key = {0};
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key good = key_in(s, 1);
    assert_int_equal(tamis_snapshot_probe_all(snap, &good, NULL, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    put_segment(s, "a", 0, 0);
    snap = snapshot_of(s);
    assert_int_equal(tamis_snapshot_probe(NULL, &t, &good, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe(snap, NULL, &good, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe(snap, &t, NULL, &why), TAMIS_MAYBE);
    t = tamis_snapshot_target(snap, 0);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_MISMATCH);
    t.slot = 2;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &good, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_UNKNOWN_SEGMENT);
    t = (struct tamis_target){.slot = 1, .refusal = 12345};
    assert_int_equal(tamis_snapshot_probe(snap, &t, &good, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_all(NULL, &good, NULL, NULL), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_list(snap, NULL, 3, &good, NULL, NULL),
                     TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    tamis_snapshot_release(NULL);
    tamis_store_close(s);
}

static void incomplete_catalog_proves_nothing_of_all(void **state)
{
    uint8_t bytes[META_BYTES];
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    struct meta m = meta_in("s");
    m.complete = 0;
    meta_encode(&m, bytes);
    poke_catalog("s", "meta", "store", bytes, sizeof bytes);
    s = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = key_in(s, 99);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    uint64_t absent;
    assert_int_equal(tamis_snapshot_probe_all(snap, &key, &absent, NULL), TAMIS_MAYBE);
    assert_int_equal(absent, 1);
    assert_int_equal(tamis_snapshot_probe_list(snap, &t, 1, &key, NULL, NULL),
                     TAMIS_ABSENT);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void snapshots_of_filters(void **state)
{
    struct tamis_filter *f[3];
    struct tamis_snapshot *snap;
    struct tamis_segment_info info;
    struct tamis_target t;
    struct tamis_domain d;
    (void)state;
    OK(tamis_domain_init(&d, 1, 42));
    build_file(path_of("0"), &d, "x", "one", NULL);
    build_file(path_of("1"), &d, "x", "two", NULL);
    build_file(path_of("2"), &d, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++)
        OK(tamis_filter_open(path_of((char[]){(char)('0' + i), 0}), NULL, &f[i], NULL));
    OK(tamis_snapshot_from_filters(f, 3, &snap));
    struct tamis_key in = tamis_key_of(&d, "key00000005", 11);
    struct tamis_key out = tamis_key_of(&d, "no", 2);
    assert_int_equal(tamis_snapshot_probe_all(snap, &in, NULL, NULL), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_all(snap, &out, NULL, NULL), TAMIS_ABSENT);
    assert_int_equal(tamis_snapshot_find(snap, "x", 1, NULL, 0, 0, &t),
                     TAMIS_ERR_MISMATCH); /* which x? */
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    OK(tamis_snapshot_find(snap, "x", 1, "two", 3, 7, &t));
    assert_int_equal(t.slot, 2);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_ABSENT);
    t.min_watermark = 8;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    OK(tamis_snapshot_segment(snap, 2, &info));
    assert_true(info.name_bytes == 0 && info.rank == 2 && info.file[0] == 0);
    assert_int_equal(info.keys, 100);
    tamis_snapshot_release(snap);
    f[1] = (tamis_filter_close(f[1]), NULL);
    assert_int_equal(tamis_snapshot_from_filters(f, 3, &snap), TAMIS_ERR_RANGE);
    tamis_filter_close(f[0]);
    tamis_filter_close(f[2]);
    OK(tamis_snapshot_from_filters(NULL, 0, &snap));
    assert_int_equal(tamis_snapshot_probe_all(snap, &out, NULL, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
}

struct asker {
    struct tamis_store *store;
    atomic_bool *stop;
    atomic_size_t n_asked;
};

/* "keep" stays, "swap" is replaced all the time, always with keys 0 .. 9. */
static void *ask_on(void *arg)
{
    struct asker *a = arg;
    struct tamis_domain d = tamis_store_domain(a->store);
    struct tamis_key in = tamis_key_of(&d, "key00000005", 11);
    struct tamis_key out = tamis_key_of(&d, "nothing", 7);
    while (!*a->stop) {
        struct tamis_snapshot *snap;
        struct tamis_target t;
        OK(tamis_snapshot_current(a->store, &snap, NULL));
        OK(tamis_snapshot_find(snap, "swap", 4, NULL, 0, 0, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &in, NULL), TAMIS_MAYBE);
        OK(tamis_snapshot_find(snap, "keep", 4, NULL, 0, 0, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_ABSENT);
        tamis_snapshot_release(snap);
        atomic_fetch_add(&a->n_asked, 1);
    }
    return NULL;
}

static void threads_ask_while_others_edit(void **state)
{
    pthread_t thread[3];
    atomic_bool stop = false;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct asker a = {.store = s, .stop = &stop};
    put_segment(s, "keep", 0, 10);
    put_segment(s, "swap", 0, 10);
    OK(mdb_env_set_mapsize(s->catalog->env, 1 << 16)); /* it will have to grow */
    for (int i = 0; i < 3; i++)
        OK(pthread_create(&thread[i], NULL, ask_on, &a));
    for (int i = 0; i < 100 || a.n_asked < 1000; i++) {
        char name[32];
        struct tamis_edit *e = edit_new(s);
        OK(tamis_edit_drop(e, "swap", 4, NULL));
        OK(put_keys(e, "swap", 0, 10, NULL));
        for (int k = 0; k < 10; k++) {
            snprintf(name, sizeof name, "bare-%d-%d", i, k);
            OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
        }
        OK(tamis_edit_commit(e, NULL));
    }
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(n_filter_files("s"), 2);
    tamis_store_close(s);
}

/* ---- what is not as it should be ---- */

static void wrong_files_are_maybe(void **state)
{
    size_t n;
    (void)state;
    struct tamis_store *s = store_new("s");
    for (uint64_t i = 0; i < 5; i++)
        put_segment(s, (char[]){(char)('a' + i), 0}, i * 10, 10);
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    rename(a, path_of("tmp")); /* exchange a and b */
    rename(b, a);
    rename(path_of("tmp"), b);
    assert_int_equal(unlink(file_of(s, "s", "c")), 0);
    uint8_t *bytes = file_read(file_of(s, "s", "d"), &n);
    file_poke(file_of(s, "s", "d"), 100, "\xff\xff", 2);
    assert_int_equal(truncate(file_of(s, "s", "e"), 4096), 0);
    assert_int_equal(reason_of_hash(s, "a", 500), TAMIS_MISMATCH);
    assert_int_equal(reason_of_hash(s, "b", 500), TAMIS_MISMATCH);
    assert_int_equal(reason_of_hash(s, "c", 500), TAMIS_FILE_LOST);
    assert_int_equal(reason_of_hash(s, "d", 500), TAMIS_UNREADABLE);
    assert_true(reason_of_hash(s, "e", 500) == TAMIS_FILE_LOST ||
                reason_of_hash(s, "e", 500) == TAMIS_UNREADABLE);
    file_write(file_of(s, "s", "d"), bytes, n); /* remembered, for this snapshot */
    assert_int_equal(reason_of_hash(s, "d", 500), TAMIS_UNREADABLE);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_diag diag;
    struct tamis_filter *f;
    assert_int_equal(tamis_snapshot_filter(snap, 2, &f, &diag), ENOENT);
    assert_non_null(strstr(diag.file, ".tamis"));
    OK(tamis_snapshot_filter(snap, 3, &f, &diag)); /* asking by name looks again */
    tamis_snapshot_release(snap);
    assert_int_equal(reason_of_hash(s, "d", 500), ABSENT_HERE);
    free(bytes);
    tamis_store_close(s);
}

/* Two empty growing filters differ in nothing but their UUIDs and names. */
static void exchanged_growing_files_are_maybe(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_growing(s, "a");
    put_growing(s, "b");
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    OK(rename(a, path_of("tmp")));
    OK(rename(b, a));
    OK(rename(path_of("tmp"), b));
    assert_int_equal(reason_of(s, "a", 5), TAMIS_MISMATCH);
    assert_int_equal(reason_of(s, "b", 5), TAMIS_MISMATCH);
    assert_int_equal(tamis_store_writer(s, "a", 1, &w, NULL), TAMIS_ERR_MISMATCH);
    assert_null(w);
    tamis_store_close(s);
}

static void other_files_under_the_name_are_maybe(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    put_segment(s, "c", 20, 10);
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    assert_int_equal(unlink(a), 0);
    assert_int_equal(mkdir(a, 0777), 0);
    assert_int_equal(rename(b, path_of("b")), 0);
    assert_int_equal(symlink(path_of("b"), b), 0);
    const char *c = file_of(s, "s", "c");
    assert_int_equal(unlink(c), 0);
    assert_int_equal(mkfifo(c, 0666), 0);
    assert_int_equal(reason_of_hash(s, "a", 5), TAMIS_UNREADABLE);
    assert_int_equal(reason_of_hash(s, "b", 15), TAMIS_UNREADABLE);
    assert_int_equal(reason_of_hash(s, "c", 25), TAMIS_UNREADABLE);
    tamis_store_close(s);
}

static void unreadable_records_stay_listed(void **state)
{
    struct tamis_segment_info info;
    struct tamis_target t;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    tamis_store_close(s);
    poke_catalog("s", "segments", "a", "rubbish", 7);
    s = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = key_in(s, 999);
    enum tamis_reason why;
    assert_int_equal(tamis_snapshot_n_segments(snap), 2);
    assert_int_equal(tamis_snapshot_find(snap, "a", 1, "b", 1, 0, &t),
                     TAMIS_ERR_DAMAGED);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_UNREADABLE);
    uint64_t absent;
    assert_int_equal(tamis_snapshot_probe_all(snap, &key, &absent, NULL), TAMIS_MAYBE);
    assert_int_equal(absent, 1);
    OK(tamis_snapshot_segment(snap, 1, &info));
    assert_true(info.name[0] == 'a' && info.state == 0 && info.binding == NULL);
    tamis_snapshot_release(snap);
    struct tamis_writer *w;
    assert_int_equal(tamis_store_writer(s, "a", 1, &w, NULL), TAMIS_ERR_DAMAGED);
    tamis_store_close(s);
}

/* A record moved under another name must not lend its filter to it. */
static void a_record_belongs_to_its_name(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    struct tamis_snapshot *snap = snapshot_of(s);
    const struct entry *e = snap->entries[0];
    uint8_t value[RECORD_MAX_BYTES];
    size_t n = e->value_bytes;
    memcpy(value, e->bytes + e->name_bytes, n);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    poke_catalog("s", "segments", "b", value, n);
    s = store_open("s");
    assert_int_equal(reason_of_hash(s, "b", 999), TAMIS_UNREADABLE);
    assert_int_equal(reason_of_hash(s, "a", 999), ABSENT_HERE);
    tamis_store_close(s);
}

static int mmap_errno;

static void *fail_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)n, (void)prot, (void)flags, (void)fd, (void)offset;
    errno = mmap_errno;
    return MAP_FAILED;
}

static void transient_failures_are_not_remembered(void **state)
{
    static const int code[] = {ENOMEM, EAGAIN, EMFILE, ENFILE};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    assert_int_equal(reason_of_hash(s, "b", 999), ABSENT_HERE);
    struct io_calls saved = io_calls;
    io_calls.mmap = fail_mmap;
    for (size_t i = 0; i < 4; i++) {
        mmap_errno = code[i];
        assert_int_equal(reason_of_hash(s, "a", 999), TAMIS_UNREADABLE);
        assert_int_equal(reason_of_hash(s, "b", 999), ABSENT_HERE); /* mapped */
    }
    io_calls = saved;
    assert_int_equal(reason_of_hash(s, "a", 999), ABSENT_HERE);
    assert_int_equal(reason_of_hash(s, "a", 5), TAMIS_HIT);
    tamis_store_close(s);
}

/* ---- writers ---- */

static void add_keys(struct tamis_writer *w, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++)
        OK(tamis_writer_add_key(w, key_text(i), strlen(key_text(i))));
}

static struct tamis_segment_info info_of(struct tamis_store *s, const char *name)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_segment_info info;
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    OK(tamis_snapshot_segment(snap, t.slot - 1, &info));
    tamis_snapshot_release(snap);
    return info;
}

static void the_catalog_follows_growth_and_seal(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_growing(s, "g");
    assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_GROWING);
    uint64_t before = info_of(s, "g").generation;
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_keys(w, 0, 1000); /* n0 is 100: several stages */
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(reason_of(s, "g", i), TAMIS_HIT);
    OK(tamis_writer_commit(w, 5, NULL));
    assert_true(info_of(s, "g").generation > before);
    OK(tamis_writer_seal(w, 6, NULL, NULL));
    OK(tamis_writer_close(w));
    struct tamis_segment_info info = info_of(s, "g");
    assert_int_equal(info.state, TAMIS_SEGMENT_SEALED);
    assert_true(info.keys >= 990 && info.keys <= 1000);
    assert_int_equal(info.watermark, 6);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(reason_of(s, "g", i), TAMIS_HIT);
    assert_int_equal(reason_of(s, "g", 5000), ABSENT_HERE);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, NULL), TAMIS_ERR_SEALED);
    assert_null(w);
    tamis_store_close(s);
}

static void writer_says_what_is_wrong(void **state)
{
    struct tamis_writer *w, *x;
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(put_keys(e, "sealed", 0, 10, NULL));
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(tamis_store_writer(s, "no", 2, &w, NULL), TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(tamis_store_writer(s, "", 0, &w, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_store_writer(s, "bare", 4, &w, &diag), TAMIS_ERR_NO_SEGMENT);
    assert_non_null(strstr(diag.what, "without a filter"));
    assert_int_equal(tamis_store_writer(s, "sealed", 6, &w, NULL), TAMIS_ERR_SEALED);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    assert_int_equal(tamis_store_writer(s, "g", 1, &x, &diag), TAMIS_ERR_BUSY);
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    assert_non_null(strstr(diag.what, pid));
    OK(tamis_writer_close(w));
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    OK(tamis_writer_close(w));
    assert_int_equal(unlink(file_of(s, "s", "g")), 0);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, &diag), ENOENT);
    tamis_store_close(s);
}

static void an_older_copy_put_back_is_maybe(void **state)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_growing(s, "g");
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_keys(w, 0, 50);
    OK(tamis_writer_close(w));
    const char *path = file_of(s, "s", "g");
    file_copy(path, path_of("old"));
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_keys(w, 50, 300);
    OK(tamis_writer_close(w));
    file_copy(path, path_of("new"));
    assert_int_equal(rename(path_of("old"), path), 0);
    tamis_store_close(s);
    s = store_open("s");
    assert_int_equal(reason_of(s, "g", 5000), TAMIS_MISMATCH);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "older copy"));
    assert_int_equal(rename(path_of("new"), path), 0);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    OK(tamis_writer_seal(w, 0, NULL, NULL));
    OK(tamis_writer_close(w));
    assert_int_equal(reason_of(s, "g", 5000), ABSENT_HERE);
    assert_int_equal(reason_of(s, "g", 333), TAMIS_HIT);
    tamis_store_close(s);
}

struct rewrite {
    const char *name;
    const struct record *record;
};

static int rewrite_record(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct rewrite *r = ctx;
    uint8_t value[RECORD_MAX_BYTES];
    size_t n = record_encode(r->record, r->name, strlen(r->name), value);
    return catalog_replace(t, r->name, strlen(r->name), value, n, diag);
}

static struct record record_in(struct tamis_store *s)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    const struct entry *e = snap->entries[0];
    struct record r;
    struct verdict v = record_decode(e->bytes + e->name_bytes, e->value_bytes, e->bytes,
                                     e->name_bytes, &r);
    assert_int_equal(v.code, VERDICT_OK);
    tamis_snapshot_release(snap);
    return r;
}

/* A writer that died after a growth, or a seal, but before the catalog had it. */
static void the_catalog_catches_up_with_a_dead_writer(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_growing(s, "g");
    struct record old = record_in(s);
    struct rewrite r = {"g", &old};
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_keys(w, 0, 350);
    OK(tamis_writer_close(w));
    OK(catalog_write(s->catalog, rewrite_record, &r, NULL, NULL));
    assert_int_equal(reason_of(s, "g", 5), TAMIS_HIT);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    assert_true(record_in(s).min_stages > old.min_stages);
    OK(tamis_writer_seal(w, 3, NULL, NULL));
    OK(tamis_writer_close(w));
    OK(catalog_write(s->catalog, rewrite_record, &r, NULL, NULL));
    assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_GROWING);
    assert_int_equal(reason_of(s, "g", 5), TAMIS_HIT);
    assert_int_equal(reason_of(s, "g", 5000), ABSENT_HERE);
    assert_int_equal(tamis_store_writer(s, "g", 1, &w, NULL), TAMIS_ERR_SEALED);
    assert_int_equal(info_of(s, "g").state, TAMIS_SEGMENT_SEALED);
    tamis_store_close(s);
}

static void dropping_does_not_disturb_a_writer(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_growing(s, "g");
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_keys(w, 0, 50);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "g", 1, NULL));
    OK(put_keys(e, "g", 1000, 10, NULL));
    OK(tamis_edit_commit(e, NULL));
    add_keys(w, 50, 400); /* grows: its record is another one's now */
    OK(tamis_writer_seal(w, 9, NULL, NULL));
    tamis_store_close(s); /* too early, and harmless */
    OK(tamis_writer_close(w));
    s = store_open("s");
    assert_int_equal(info_of(s, "g").keys, 10);
    assert_int_equal(reason_of(s, "g", 1005), TAMIS_HIT);
    assert_int_equal(reason_of(s, "g", 5), ABSENT_HERE);
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(create_refuses_what_is_there),
        TEST(create_checks_its_options),
        TEST(create_removes_what_it_made_on_failure),
        TEST(info_says_what_create_was_told),
        TEST(open_says_what_is_wrong),
        TEST(open_refuses_damaged_catalog_files),
        TEST(open_checks_the_first_record),
        TEST(unknown_ro_feature_opens_read_only),
        TEST(one_environment_per_process),
        TEST(edit_puts_and_drops),
        TEST(edit_sees_its_own_changes_in_order),
        TEST(edit_refuses_bad_arguments),
        TEST(edit_refuses_a_foreign_builder),
        TEST(abort_leaves_no_files),
        TEST(failed_commit_changes_nothing),
        TEST(failed_sync_fails_the_commit),
        TEST(retain_keeps_the_named_and_its_own),
        TEST(threads_put_into_one_edit),
        TEST(attach_copies_a_sealed_file),
        TEST(attach_refuses_what_does_not_belong),
        TEST(attach_refuses_growing_and_damaged),
        TEST(attach_restores_a_lost_file),
        TEST(first_edit_sweeps_orphans),
        TEST(no_sweep_while_a_record_is_unreadable),
        TEST(map_grows_when_full),
        TEST(truncated_catalogs_are_refused),
        TEST(opens_after_every_kind_of_commit),
        TEST(segments_are_ordered_by_rank_then_name),
        TEST(unchanged_snapshots_are_one),
        TEST(find_compares_bindings),
        TEST(ranges_answer_without_the_file),
        TEST(adds_by_hash_have_no_range),
        TEST(long_keys_and_ranges),
        TEST(required_watermarks),
        TEST(ranges_and_watermarks),
        TEST(lists_and_batches),
        TEST(nothing_is_maybe),
        TEST(incomplete_catalog_proves_nothing_of_all),
        TEST(snapshots_of_filters),
        TEST(threads_ask_while_others_edit),
        TEST(wrong_files_are_maybe),
        TEST(exchanged_growing_files_are_maybe),
        TEST(other_files_under_the_name_are_maybe),
        TEST(unreadable_records_stay_listed),
        TEST(a_record_belongs_to_its_name),
        TEST(transient_failures_are_not_remembered),
        TEST(the_catalog_follows_growth_and_seal),
        TEST(writer_says_what_is_wrong),
        TEST(an_older_copy_put_back_is_maybe),
        TEST(the_catalog_catches_up_with_a_dead_writer),
        TEST(dropping_does_not_disturb_a_writer),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
