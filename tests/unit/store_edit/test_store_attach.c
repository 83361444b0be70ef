/* Attaching files, sweeping orphans, and a catalog that grows. */
#include "tests/support/store_support.h"

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

/* In one edit: attach under a new name what is lost under the old one, drop the old. */
static void attach_then_drop_keeps_the_file(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    build_file(path_of("f"), &d, NULL, NULL, NULL);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_attach(e, "old", 3, path_of("f"), NULL, &diag));
    OK(tamis_edit_commit(e, NULL));
    char command[1200];
    snprintf(command, sizeof command, "rm %s/filters/*.tamis", path_of("s"));
    assert_int_equal(system(command), 0);
    e = edit_new(s);
    OK(tamis_edit_attach(e, "new", 3, path_of("f"), NULL, &diag));
    OK(tamis_edit_drop(e, "old", 3, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 1);
    assert_int_equal(reason_of(s, "new", 999999), ABSENT_HERE);
    tamis_store_close(s);
}

/* A file that was lost a moment ago is found again by the next snapshot. */
static void a_file_attached_again_is_not_lost(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    build_file(path_of("f"), &d, NULL, NULL, NULL);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_attach(e, "x", 1, path_of("f"), NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    char command[1200];
    snprintf(command, sizeof command, "rm %s/filters/*.tamis", path_of("s"));
    assert_int_equal(system(command), 0);
    assert_int_equal(reason_of(s, "x", 999999), TAMIS_FILE_LOST);
    e = edit_new(s);
    OK(tamis_edit_drop(e, "x", 1, NULL));
    OK(tamis_edit_attach(e, "x", 1, path_of("f"), NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(reason_of(s, "x", 999999), ABSENT_HERE);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attach_copies_a_sealed_file),
        TEST(attach_refuses_what_does_not_belong),
        TEST(attach_refuses_growing_and_damaged),
        TEST(attach_restores_a_lost_file),
        TEST(first_edit_sweeps_orphans),
        TEST(no_sweep_while_a_record_is_unreadable),
        TEST(map_grows_when_full),
        TEST(truncated_catalogs_are_refused),
        TEST(opens_after_every_kind_of_commit),
        TEST(attach_then_drop_keeps_the_file),
        TEST(a_file_attached_again_is_not_lost),
    };
    return cmocka_run_group_tests_name("store_attach", tests, NULL, NULL);
}
