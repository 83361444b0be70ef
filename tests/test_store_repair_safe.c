/* What repair must not harm: files that the lock file leads to, filters that the
 * catalog has forgotten, and what cannot be read just now. */
#include "repair_support.h"

/* A store with sealed segments a, b, c of 100 keys each, from 0 on, and g, growing. */
static struct tamis_store *make(void)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    put_segment(s, "c", 200, 100);
    put_growing(s, "g");
    grow_keys(s, "g", 300, 100, 1);
    return s;
}

static void damage_meta(void)
{
    uint8_t noise[META_BYTES] = {1, 2, 3};
    poke_catalog("s", "meta", "store", noise, sizeof noise);
}

/* ---- LMDB's lock file ---- */

/* LMDB writes to its lock file, wherever that leads. */
static void a_lock_file_that_is_a_link_is_refused(void **state)
{
    enum { GOOD, NO_META, NO_CATALOG, N };
    (void)state;
    for (int how = GOOD; how < N; how++) {
        for (int dry = 0; dry < 2; dry++) {
            struct tamis_diag diag;
            size_t n;
            tamis_store_close(make());
            if (how == NO_META)
                damage_meta();
            if (how == NO_CATALOG)
                OK(unlink(path_of("s/catalog.lmdb")));
            unlink(path_of("s/catalog.lmdb-lock"));
            file_write(path_of("victim"), "precious", 8);
            OK(symlink(path_of("victim"), path_of("s/catalog.lmdb-lock")));
            uint64_t before = tree_of("s");
            assert_int_equal(repair_code("s", dry, NULL, NULL, &diag),
                             TAMIS_ERR_NOT_TAMIS);
            assert_non_null(strstr(diag.what, "catalog.lmdb-lock is not a regular"));
            assert_int_equal(seen.n, 0);
            assert_true(tree_of("s") == before);
            uint8_t *bytes = file_read(path_of("victim"), &n);
            assert_true(n == 8 && memcmp(bytes, "precious", 8) == 0);
            free(bytes);
            remove_tree("s");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_file_that_is_a_link_is_refused),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
