/* Where a backup goes: file systems that cannot do all, and names that are taken while
 * it is made. */
#include "tests/support/repair_support.h"

static int backup_code(struct tamis_store *s)
{
    struct tamis_diag diag = {0};
    int rc = tamis_store_backup(s, path_of("b"), NULL, NULL, NULL, &diag);
    if (rc)
        print_message("%s: %s\n", diag.file, diag.what);
    return rc;
}

/* Called just before the backup gets its name. */
static void (*at_naming)(void);

static void in_the_way(void)
{
    file_write(path_of("b"), "mine", 4);
}

static void directory_in_the_way(void)
{
    OK(mkdir(path_of("b"), 0700));
    file_write(path_of("b/file"), "mine", 4);
}

static int poor_rename(int from_dir, const char *from, int to_dir, const char *to,
                       unsigned flags)
{
    if (at_naming && strcmp(to, "b") == 0) {
        at_naming();
        at_naming = NULL;
    }
    if (flags)
        return errno = EINVAL, -1;
    return calls_before.renameat2(from_dir, from, to_dir, to, flags);
}

static int no_link(int from_dir, const char *from, int to_dir, const char *to,
                   int flags)
{
    (void)from_dir, (void)from, (void)to_dir, (void)to, (void)flags;
    return errno = EPERM, -1;
}

static int poor_file_system(void **state)
{
    (void)state;
    calls_before = io_calls;
    io_calls.renameat2 = poor_rename;
    io_calls.linkat = no_link;
    return 0;
}

static struct tamis_store *make(void)
{
    struct io_calls poor = io_calls;
    io_calls = calls_before;
    struct tamis_store *s = store_new("s");
    put_bound(s, "a", 0, 10, "A", 1);
    put_growing(s, "g");
    grow_keys(s, "g", 10, 10, 1);
    io_calls = poor;
    return s;
}

static void no_hard_links_and_no_careful_rename(void **state)
{
    (void)state;
    struct tamis_store *s = make();
    OK(backup_code(s));
    assert_int_equal(count_files(test_dir), 2);
    assert_int_equal(count_files(path_of("b")), 2);
    struct tamis_store *b = store_open("b");
    check_keys(b, "a", 0, 10);
    check_keys(b, "g", 10, 10);
    tamis_store_close(b);
    remove_both(s);
}

static void what_appears_meanwhile_stays(void **state)
{
    static void (*const ways[])(void) = {in_the_way, directory_in_the_way};
    (void)state;
    struct tamis_store *s = make();
    for (size_t i = 0; i < 2; i++) {
        at_naming = ways[i];
        assert_int_equal(backup_code(s), TAMIS_ERR_EXISTS);
        assert_null(at_naming);
        assert_int_equal(count_files(test_dir), 2); /* s, and that */
        file_has(path_of(i ? "b/file" : "b"), "mine", 4);
        remove_tree("b");
    }
    tamis_store_close(s);
    remove_tree("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_hard_links_and_no_careful_rename,
                                        poor_file_system, faults_off),
        cmocka_unit_test_setup_teardown(what_appears_meanwhile_stays, poor_file_system,
                                        faults_off),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
