/* One store under several names: links, mounts and directories that change. A write
 * through one name is seen through the others, or refused. */
#include "tests/support/replaced_support.h"

#include <sched.h>
#include <sys/mount.h>

/* With a lock file of its own, so only one of the two names is used at a time. */
static void a_hard_link_of_the_catalog_is_no_second_store(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s"), *t;
    struct tamis_diag diag = {0};
    OK(mkdir(path_of("t"), 0777));
    OK(mkdir(path_of("t/filters"), 0777));
    OK(link(path_of(CATALOG), path_of("t/catalog.lmdb")));
    OK(try_put(a, 'a', 1, NULL));
    must_say(tamis_store_open(path_of("t"), &t, &diag), &diag, "every handle");
    assert_int_equal(tell('o', 0, path_of("t")), TAMIS_ERR_REPLACED);
    OK(try_put(a, 'a', 2, NULL));
    tamis_store_close(a);
    OK(tell('o', 0, path_of("t")));
    assert_int_equal(tamis_store_open(path_of("s"), &a, NULL), TAMIS_ERR_REPLACED);
}

/* Two names, one catalog: in one process one environment, and B sees what A writes. */
static void both_names_work(const char *one, const char *two)
{
    struct tamis_store *a = store_open(one), *b = store_open(two);
    assert_ptr_equal(a->catalog, b->catalog);
    OK(tell('o', 0, path_of(two)));
    for (int i = 0; i < 3; i++) {
        OK(try_put(a, 'a', i, NULL));
        OK(tell('p', i, NULL));
        assert_int_equal(count_segments(b), 2 * i + 2);
        assert_int_equal(tell('n', 0, NULL), 2 * i + 2);
    }
    tamis_store_close(a);
    OK(try_put(b, 'a', 3, NULL));
    tamis_store_close(b);
}

static void a_symbolic_link_is_the_same_store(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    OK(symlink("s", path_of("link")));
    both_names_work("link", "s");
    OK(unlink(path_of("link")));
}

/* The link leads elsewhere later on: who has opened its store keeps it. */
static void so_is_one_that_leads_elsewhere_later(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    tamis_store_close(store_new("t"));
    OK(symlink("s", path_of("link")));
    struct tamis_store *a = store_open("link");
    OK(unlink(path_of("link")));
    OK(symlink("t", path_of("link")));
    OK(try_put(a, 'a', 1, NULL));
    struct tamis_store *t = store_open("link");
    assert_int_equal(count_segments(t), 0);
    tamis_store_close(t);
    tamis_store_close(a);
    OK(unlink(path_of("link")));
}

static void enter_mount_namespace(void)
{
    int flags = CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0);
    if (unshare(flags) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        fail_msg("no mount namespace (%s): run as root, or allow user namespaces",
                 strerror(errno));
}

static int in_namespace(void *ctx)
{
    (void)ctx;
    enter_mount_namespace();
    OK(start_other(NULL)); /* in the same namespace */
    OK(mount(path_of("s"), path_of("t"), NULL, MS_BIND, NULL));
    both_names_work("t", "s");
    struct tamis_store *a = store_open("s");
    OK(mount(path_of("u"), path_of("s"), NULL, MS_BIND, NULL));
    must_refuse_edits(a); /* its name is another's now */
    tamis_store_close(a);
    return 0;
}

static void a_bind_mount_is_the_same_store(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    tamis_store_close(store_new("u"));
    OK(mkdir(path_of("t"), 0777));
    in_child(in_namespace, NULL);
    nftw(path_of("u"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void the_working_directory_may_change(void **state)
{
    (void)state;
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    tamis_store_close(store_new("s"));
    OK(chdir(test_dir));
    struct tamis_store *a;
    OK(tamis_store_open("s", &a, NULL));
    OK(chdir("/"));
    OK(try_put(a, 'a', 1, NULL));
    must_be_listed(a, 'a', 1);
    tamis_store_close(a);
    OK(chdir(before));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_hard_link_of_the_catalog_is_no_second_store),
        EACH(a_symbolic_link_is_the_same_store),
        EACH(so_is_one_that_leads_elsewhere_later),
        EACH(a_bind_mount_is_the_same_store),
        EACH(the_working_directory_may_change),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
