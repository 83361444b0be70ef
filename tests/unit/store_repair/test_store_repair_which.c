/* Repair without a catalog: of which store, and of which version, are the files? */
#include "tests/support/repair_support.h"

static void filters_of_another_store_must_be_told_apart(void **state)
{
    struct tamis_store_info info;
    struct tamis_diag diag;
    struct tamis_repair_report r;
    char to[1200];
    (void)state;
    struct tamis_store *s = store_agw("s"), *t = store_new("t");
    OK(tamis_store_info(s, &info, NULL));
    put_segment(t, "a", 8000, 10); /* a name that s has, too */
    const char *foreign = file_of(t, "t", "a");
    snprintf(to, sizeof to, "%s%s", path_of("s/filters"), strrchr(foreign, '/'));
    file_copy(foreign, to);
    tamis_store_close(s);
    tamis_store_close(t);
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, NULL, &r, &diag), TAMIS_ERR_MISMATCH);
    assert_true(tree_of("s") == before);
    OK(repair_code("s", 0, info.uuid, &r, &diag));
    SAW("the filter of another store");
    assert_int_equal(r.n_quarantined, 1);
    assert_int_equal(r.n_segments, 3);
    assert_true(exists(aside_of("s", to)));
    s = store_open("s");
    check_agw(s);
    OK(tamis_store_confirm_complete(s, NULL));
    assert_int_equal(reason_of(s, "a", 50), TAMIS_HIT);
    assert_int_equal(reason_of(s, "a", 99999), ABSENT_HERE);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
    remove_tree("t");
}

/* With the bytes of the old catalog, however torn, nobody need be asked. */
static void what_is_left_of_the_catalog_says_which_store(void **state)
{
    struct tamis_repair_report r;
    char to[1200];
    (void)state;
    struct tamis_store *s = store_agw("s"), *t = store_new("t");
    put_segment(t, "x", 8000, 10);
    const char *foreign = file_of(t, "t", "x");
    snprintf(to, sizeof to, "%s%s", path_of("s/filters"), strrchr(foreign, '/'));
    file_copy(foreign, to);
    tamis_store_close(s);
    tamis_store_close(t);
    uint8_t zeros[2 * 4096] = {0};
    file_poke(path_of("s/catalog.lmdb"), 0, zeros, sizeof zeros);
    r = repair("s");
    assert_int_equal(r.n_quarantined, 1);
    assert_int_equal(r.n_segments, 3);
    remove_tree("s");
    remove_tree("t");
}

/* Copies the filter of segment "a" of another store to "s". */
static void put_foreign(const char *store)
{
    char to[1200];
    struct tamis_store *t = store_new(store);
    put_segment(t, "a", 8000, 10);
    const char *foreign = file_of(t, store, "a");
    snprintf(to, sizeof to, "%s%s", path_of("s/filters"), strrchr(foreign, '/'));
    file_copy(foreign, to);
    tamis_store_close(t);
}

/* The caller names a store, and the files are another one's. */
static void a_store_that_the_caller_does_not_mean(void **state)
{
    static const uint8_t other[16] = {0xab, 0xcd}, zeros[2 * 4096];
    struct tamis_diag diag;
    (void)state;
    tamis_store_close(store_agw("s"));
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, other, NULL, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "and not of abcd0000"));
    file_poke(path_of("s/catalog.lmdb"), 0, zeros, sizeof zeros);
    assert_true(tree_of("s") != before);
    before = tree_of("s");
    for (int several = 0; several < 2; several++) {
        assert_int_equal(repair_code("s", 0, other, NULL, &diag), TAMIS_ERR_MISMATCH);
        assert_non_null(strstr(diag.what, "no filter is of store abcd0000"));
        assert_int_equal(strstr(diag.what, "and others") != NULL, several);
        assert_true(tree_of("s") == before);
        if (!several)
            put_foreign("t");
        before = tree_of("s");
    }
    remove_tree("s");
    remove_tree("t");
}

/* A damaged catalog of another store makes no strangers of the filters. */
static void a_damaged_catalog_of_another_store(void **state)
{
    static const uint8_t zeros[2 * 4096];
    struct tamis_diag diag;
    struct tamis_repair_report r;
    struct tamis_store_info info;
    (void)state;
    struct tamis_store *s = store_agw("s");
    OK(tamis_store_info(s, &info, NULL));
    tamis_store_close(s);
    tamis_store_close(store_agw("t"));
    file_copy(path_of("t/catalog.lmdb"), path_of("s/catalog.lmdb"));
    file_poke(path_of("s/catalog.lmdb"), 0, zeros, sizeof zeros);
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "of another store than the filters"));
    assert_true(tree_of("s") == before);
    OK(repair_code("s", 0, info.uuid, &r, &diag));
    assert_int_equal(r.n_segments, 3);
    s = store_open("s");
    check_agw(s);
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("t");
}

static void nothing_to_rebuild_from(void **state)
{
    struct tamis_diag diag;
    (void)state;
    tamis_store_close(store_new("s"));
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), TAMIS_ERR_NO_STORE);
    assert_non_null(strstr(diag.what, "no filter says which store"));
    assert_true(tree_of("s") == before);
    assert_int_equal(repair_code("none", 0, NULL, NULL, &diag), TAMIS_ERR_NO_STORE);
    assert_int_equal(mkdir(path_of("dir"), 0777), 0);
    assert_int_equal(repair_code("dir", 0, NULL, NULL, &diag), TAMIS_ERR_NO_STORE);
    assert_int_equal(count_files(path_of("dir")), 0);
    remove_tree("dir");
    remove_tree("s");
}

static void a_newer_store_is_left_alone(void **state)
{
    struct tamis_diag diag;
    (void)state;
    tamis_store_close(store_agw("s"));
    struct meta m = meta_in("s");
    m.major = 9;
    put_meta("s", &m);
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), TAMIS_ERR_VERSION);
    assert_int_equal(repair_code("s", 0, NULL, NULL, NULL), TAMIS_ERR_VERSION);
    assert_true(tree_of("s") == before);
    remove_tree("s");
}

/* Nor if its trees are damaged: the bits are in the record that is left. */
static void a_newer_store_is_not_made_anew(void **state)
{
    (void)state;
    for (int readable = 0; readable < 2; readable++) {
        struct tamis_diag diag;
        tamis_store_close(store_agw("s"));
        struct meta m = meta_in("s");
        if (readable)
            m.ro_compat = UINT64_C(1) << 40;
        else
            m.incompat = UINT64_C(1) << 40;
        put_meta("s", &m);
        uint64_t bad_root = 1; /* of both meta pages: a number that no tree has */
        file_poke(path_of("s/catalog.lmdb"), 40 + 48 + 40, &bad_root, 8);
        file_poke(path_of("s/catalog.lmdb"), 4096 + 40 + 48 + 40, &bad_root, 8);
        uint64_t before = tree_of("s");
        assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), TAMIS_ERR_VERSION);
        assert_true(tree_of("s") == before);
        remove_tree("s");
    }
}

/* The first record is there, but no page points to it. */
static void lose_pages_of_meta(const char *store)
{
    static const uint8_t zeros[16];
    char path[600];
    size_t n;
    snprintf(path, sizeof path, "%s/catalog.lmdb", path_of(store));
    uint8_t *bytes = file_read(path, &n);
    for (size_t at = 0; at + PAGE_BYTES <= n; at += PAGE_BYTES)
        if (memmem(bytes + at, PAGE_BYTES, "store\x89TST", 9))
            file_poke(path, at, zeros, sizeof zeros);
    free(bytes);
}

/* A name, a binding, bounds of a range: what a user gave is no record of ours. */
static void users_bytes_make_no_store_newer(void **state)
{
    static const char looks[] = "\x89TST\r\n\x1a\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    uint8_t first[META_BYTES];
    struct tamis_builder *b;
    (void)state;
    struct tamis_store *s = store_agw("s");
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = looks, .binding_bytes = sizeof looks - 1};
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, looks, 200, 10, &opt));
    OK(tamis_edit_builder(e, "r", 1, 0, NULL, &b, NULL));
    struct meta m = s->catalog->meta;
    m.ro_compat = UINT64_C(1) << 40;
    meta_encode(&m, first); /* whole, and with a good checksum */
    OK(tamis_builder_add_key(b, first, sizeof first));
    OK(tamis_builder_add_key(b, looks, sizeof looks - 1));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    uint64_t bad_root = 1;
    file_poke(path_of("s/catalog.lmdb"), 40 + 48 + 40, &bad_root, 8);
    file_poke(path_of("s/catalog.lmdb"), 4096 + 40 + 48 + 40, &bad_root, 8);
    copy_tree("s", "without");
    lose_pages_of_meta("without");
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "without" : "s";
        struct tamis_repair_report r = repair(name);
        assert_int_equal(r.n_segments, 5);
        s = store_open(name);
        check_agw(s);
        check_keys(s, looks, 200, 10);
        tamis_store_close(s);
        remove_tree(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_of_another_store_must_be_told_apart),
        cmocka_unit_test(what_is_left_of_the_catalog_says_which_store),
        cmocka_unit_test(a_store_that_the_caller_does_not_mean),
        cmocka_unit_test(a_damaged_catalog_of_another_store),
        cmocka_unit_test(nothing_to_rebuild_from),
        cmocka_unit_test(a_newer_store_is_left_alone),
        cmocka_unit_test(a_newer_store_is_not_made_anew),
        cmocka_unit_test(users_bytes_make_no_store_newer),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
