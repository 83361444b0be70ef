/* A commit cannot remove a file, or set a tombstone: the next edit does it, with the
 * store open all the while. */
#include "tests/support/store_packs.h"

static const char *failing; /* calls on names that have this in them fail */

static int failing_rename(int old_dir, const char *old_name, int new_dir,
                          const char *new_name, unsigned flags)
{
    if (failing && strstr(new_name, failing)) {
        errno = ENOSPC;
        return -1;
    }
    return renameat2(old_dir, old_name, new_dir, new_name, flags);
}

static int failing_unlink(int dir, const char *name, int flags)
{
    if (failing && strstr(name, failing)) {
        errno = EIO;
        return -1;
    }
    return unlinkat(dir, name, flags);
}

static int calls_back(void **state)
{
    (void)state;
    failing = NULL;
    io_calls.renameat2 = renameat2;
    io_calls.unlinkat = unlinkat;
    return 0;
}

/* A segment that was packed is replaced, and its tombstone cannot be written. Later the
 * catalog from before comes back: it must not find the old column for the new keys. */
static void tombstones_of_a_full_disk(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_of("s", 12, 60);
    pack_all(s, false);
    save_catalog("old");
    io_calls.renameat2 = failing_rename;
    failing = ".dead";
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "s2", 2, NULL));
    OK(put_keys(e, "s2", 2000, 90, NULL));
    OK(tamis_edit_commit(e, &diag));
    assert_string_equal(diag.what,
                        "the tombstones of dropped columns cannot be written");
    put_segment(s, "other", 1, 3); /* as full as before */
    failing = NULL;
    put_segment(s, "another", 1, 3);
    tamis_store_close(s);
    put_back_catalog("old");
    s = store_open("s");
    for (uint64_t k = 2000; k < 2090; k++)
        assert_int_equal(reason_of(s, "s2", k), TAMIS_FILE_LOST);
    tamis_store_close(s);
    remove_store("s");
}

static void files_that_would_not_go(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 1, 10);
    put_segment(s, "b", 1, 10);
    io_calls.unlinkat = failing_unlink;
    failing = ".tamis";
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "a", 1, NULL));
    OK(tamis_edit_commit(e, &diag));
    assert_int_equal(n_filter_files("s"), 2);
    assert_true(diag.code == 0 && diag.os_errno == EIO);
    assert_string_equal(diag.what, "removing a dropped file: Input/output error");
    assert_non_null(strstr(diag.file, "s/filters/"));
    put_segment(s, "c", 1, 10);
    failing = NULL;
    assert_int_equal(n_filter_files("s"), 3);
    e = edit_new(s);
    OK(tamis_edit_drop(e, "c", 1, NULL));
    OK(tamis_edit_commit(e, &diag));
    assert_string_equal(diag.what, "");
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(tombstones_of_a_full_disk, calls_back),
        cmocka_unit_test_teardown(files_that_would_not_go, calls_back),
    };
    return cmocka_run_group_tests_name("swept again", tests, test_dir_create,
                                       test_dir_remove);
}
