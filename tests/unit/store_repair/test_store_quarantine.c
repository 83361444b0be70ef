/* Filters in quarantine/ are of segments that the engine has: a catalog that is made
 * anew lists them, and a list that lacks one of them is not confirmed. */
#include "tests/support/repair_support.h"

#include <dlfcn.h>

static bool unlisted; /* directories cannot be read */

struct dirent *readdir(DIR *d)
{
    struct dirent *(*real)(DIR *);
    void *at = dlsym(RTLD_NEXT, "readdir");
    memcpy(&real, &at, sizeof real);
    return unlisted ? errno = EIO, NULL : real(d);
}

static int confirm_code(struct tamis_store *s, int force)
{
    struct tamis_confirm_options opt = {
        .size = sizeof opt, .force = force, .found = see};
    seen.n = 0;
    return tamis_store_confirm(s, &opt, NULL);
}

static bool is_complete(struct tamis_store *s)
{
    struct tamis_store_info info;
    OK(tamis_store_info(s, &info, NULL));
    return info.complete != 0;
}

static void lose_catalog(void)
{
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
}

/* Store s: segments a and b, of keys 0 .. 99 and 100 .. 199; a's filter in quarantine.
 */
static const char *set_aside(void)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    const char *a = file_of(s, "s", "a");
    tamis_store_close(s);
    flip(a, PAGE_BYTES + 3);
    assert_int_equal(repair("s").n_quarantined, 1);
    return a;
}

/* The same; then the catalog is lost, and with it the record of a. */
static void names_in_quarantine_are_listed_again(void **state)
{
    (void)state;
    set_aside();
    for (int i = 0; i < 2; i++) { /* and once more */
        lose_catalog();
        assert_int_equal(repair("s").n_segments, 2);
        SAW("rebuilt a quarantine/");
        struct tamis_store *s = store_open("s");
        OK(tamis_store_confirm_complete(s, NULL));
        assert_int_equal(reason_of(s, "a", 50), TAMIS_NO_FILTER);
        assert_int_equal(everywhere(s, 50), TAMIS_MAYBE);
        assert_int_equal(reason_of(s, "b", 50), ABSENT_HERE);
        check_keys(s, "b", 100, 100);
        tamis_store_close(s);
        check_settled("s");
    }
    remove_tree("s");
}

/* The segment was built anew: its filter says more than the one that was set aside. */
static void a_good_file_is_the_segments_own(void **state)
{
    (void)state;
    set_aside();
    struct tamis_store *s = store_open("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_drop(e, "a", 1, NULL));
    OK(put_keys(e, "a", 0, 100, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    lose_catalog();
    assert_int_equal(repair("s").n_segments, 2);
    s = store_open("s");
    OK(confirm_code(s, 0));
    assert_int_equal(seen.n, 0);
    assert_int_equal(reason_of(s, "a", 99999), ABSENT_HERE);
    check_keys(s, "a", 0, 100);
    tamis_store_close(s);
    remove_tree("s");
}

/* Segment a's name is lost with its header: no list is known to be whole. */
static void a_list_is_not_confirmed_over_a_file_of_no_name(void **state)
{
    struct tamis_diag diag = {0};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    const char *a = file_of(s, "s", "a");
    tamis_store_close(s);
    flip(a, 130);
    lose_catalog();
    assert_int_equal(repair("s").n_segments, 1);
    s = store_open("s");
    assert_int_equal(tamis_store_confirm_complete(s, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "quarantine/"));
    assert_int_equal(everywhere(s, 50), TAMIS_MAYBE);
    assert_false(is_complete(s));
    assert_int_equal(confirm_code(s, 0), TAMIS_ERR_MISMATCH);
    assert_int_equal(seen.n, 1);
    SAW("noted  quarantine/");
    SAW("nobody can tell which segment");
    OK(confirm_code(s, 1));
    assert_int_equal(seen.n, 1);
    assert_true(is_complete(s));
    OK(confirm_code(s, 0)); /* it is confirmed, and what lies there is told */
    assert_int_equal(seen.n, 1);
    assert_true(is_complete(s));
    tamis_store_close(s);
    /* The other way: the segment is put anew, and the file goes. */
    lose_catalog();
    repair("s");
    SAW("nobody can tell which segment");
    s = store_open("s");
    put_segment(s, "a", 0, 100);
    assert_int_equal(confirm_code(s, 0), TAMIS_ERR_MISMATCH);
    assert_int_equal(unlink(aside_of("s", a)), 0);
    OK(confirm_code(s, 0));
    assert_int_equal(everywhere(s, 50), TAMIS_MAYBE);
    assert_int_equal(everywhere(s, 99999), TAMIS_ABSENT);
    tamis_store_close(s);
    remove_tree("s");
}

/* As of a store that was made anew by a version that did not look into quarantine/. */
static void nor_over_a_name_that_is_not_listed(void **state)
{
    (void)state;
    const char *a = set_aside();
    lose_catalog();
    repair("s");
    struct tamis_store *s = store_open("s");
    drop_segment(s, "a");
    assert_int_equal(confirm_code(s, 0), TAMIS_ERR_MISMATCH);
    SAW("noted a quarantine/");
    SAW("its segment is not listed");
    assert_int_equal(everywhere(s, 50), TAMIS_MAYBE);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "a", 1, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    OK(confirm_code(s, 0));
    assert_int_equal(everywhere(s, 50), TAMIS_MAYBE);
    tamis_store_close(s);
    /* The segment is gone for good: its file is what brought it back. */
    assert_int_equal(unlink(aside_of("s", a)), 0);
    lose_catalog();
    assert_int_equal(repair("s").n_segments, 1);
    s = store_open("s");
    OK(confirm_code(s, 0));
    assert_int_equal(everywhere(s, 50), TAMIS_ABSENT);
    tamis_store_close(s);
    remove_tree("s");
}

static void attached_again_is_listed(void **state)
{
    struct tamis_builder_options opt = {.size = sizeof opt};
    struct tamis_domain domain;
    struct tamis_builder *b;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "b", 100, 100);
    domain = tamis_store_domain(s);
    opt.domain = &domain;
    OK(tamis_builder_create(&opt, &b, NULL)); /* of no name */
    for (uint64_t i = 0; i < 100; i++)
        OK(tamis_builder_add_key(b, key_text(i), strlen(key_text(i))));
    OK(tamis_builder_finish_file(b, path_of("a.tamis"), NULL));
    tamis_builder_free(b);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_attach(e, "a", 1, path_of("a.tamis"), NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    const char *a = file_of(s, "s", "a");
    tamis_store_close(s);
    lose_catalog();
    repair("s");
    SAW("of no segment: attach it");
    s = store_open("s");
    assert_int_equal(confirm_code(s, 0), TAMIS_ERR_MISMATCH);
    SAW("nobody can tell which segment");
    e = edit_new(s);
    OK(tamis_edit_attach(e, "a", 1, aside_of("s", a), NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    OK(confirm_code(s, 0));
    check_keys(s, "a", 0, 100);
    tamis_store_close(s);
    assert_int_equal(unlink(path_of("a.tamis")), 0);
    remove_tree("s");
}

/* Whatever else is there, is of no segment of this store. */
static void other_files_are_passed_over(void **state)
{
    char to[1200];
    (void)state;
    const char *a = set_aside();
    struct tamis_store *t = store_new("t");
    put_segment(t, "x", 0, 10);
    const char *foreign = file_of(t, "t", "x");
    snprintf(to, sizeof to, "%s%s", path_of("s/quarantine"), strrchr(foreign, '/'));
    file_copy(foreign, to);
    tamis_store_close(t);
    assert_int_equal(
        mkdir(path_of("s/quarantine/00112233445566778899aabbccddeeff.tamis"), 0777), 0);
    assert_int_equal(
        symlink(a, path_of("s/quarantine/00112233445566778899aabbccddeefe.tamis")), 0);
    file_write(path_of("s/quarantine/notes"), "mine\n", 5);
    file_write(path_of("s/quarantine/00112233445566778899aabbccddeefd.tamis.bak"), "x",
               1);
    /* As repair names a second one. */
    snprintf(to, sizeof to, "%s.1", aside_of("s", a));
    assert_int_equal(rename(aside_of("s", a), to), 0);
    lose_catalog();
    assert_int_equal(repair("s").n_segments, 2);
    struct tamis_store *s = store_open("s");
    OK(confirm_code(s, 0));
    assert_int_equal(seen.n, 0);
    assert_int_equal(reason_of(s, "a", 50), TAMIS_NO_FILTER);
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("t");
}

static void an_error_decides_nothing(void **state)
{
    struct tamis_repair_report r;
    struct tamis_diag diag;
    struct stat st;
    (void)state;
    const char *a = set_aside();
    assert_int_equal(stat(aside_of("s", a), &st), 0);
    lose_catalog();
    uint64_t before = tree_of("s");
    unreadable = st.st_ino;
    calls_before = io_calls;
    io_calls.pread = unreadable_pread;
    assert_int_equal(repair_code("s", 0, NULL, &r, &diag), EIO);
    assert_non_null(strstr(diag.what, "quarantine/"));
    assert_true(tree_of("s") == before);
    unreadable = 0;
    repair("s");
    struct tamis_store *s = store_open("s");
    size_t n_descriptors = count_files("/proc/self/fd");
    unreadable = st.st_ino;
    assert_int_equal(confirm_code(s, 0), EIO);
    assert_int_equal(tamis_store_confirm_complete(s, &diag), EIO);
    assert_non_null(strstr(diag.what, "a filter in quarantine/"));
    unlisted = true;
    assert_int_equal(tamis_store_confirm_complete(s, &diag), EIO);
    assert_non_null(strstr(diag.what, "looking into quarantine/"));
    unlisted = false;
    assert_false(is_complete(s));
    assert_int_equal(count_files("/proc/self/fd"), n_descriptors);
    OK(confirm_code(s, 1));
    assert_true(is_complete(s));
    io_calls = calls_before;
    tamis_store_close(s);
    remove_tree("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_quarantine_are_listed_again),
        cmocka_unit_test(a_good_file_is_the_segments_own),
        cmocka_unit_test(a_list_is_not_confirmed_over_a_file_of_no_name),
        cmocka_unit_test(nor_over_a_name_that_is_not_listed),
        cmocka_unit_test(attached_again_is_listed),
        cmocka_unit_test(other_files_are_passed_over),
        cmocka_unit_test(an_error_decides_nothing),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
