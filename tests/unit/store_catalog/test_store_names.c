/* One store under several names: links, mounts and directories that change. A write
 * through one name is seen through the others, or refused. */
#include "tests/support/replaced_support.h"

/* With a lock file of its own, so only one of the two names is used at a time. */
TEST_WITH_OTHER(a_hard_link_of_the_catalog_is_no_second_store)
{
    struct tamis_store *a = store_new("s"), *t;
    struct tamis_diag diag = {0};
    OK(mkdir(path_of("t"), 0777));
    OK(mkdir(path_of("t/filters"), 0777));
    OK(link(path_of(CATALOG), path_of("t/catalog.lmdb")));
    OK(try_put(a, 'a', 1, NULL));
    must_say(tamis_store_open(path_of("t"), NULL, &t, &diag), &diag, "every handle");
    IS(tell('o', 0, path_of("t")), TAMIS_ERR_REPLACED);
    OK(try_put(a, 'a', 2, NULL));
    tamis_store_close(a);
    OK(tell('o', 0, path_of("t")));
    IS(tamis_store_open(path_of("s"), NULL, &a, NULL), TAMIS_ERR_REPLACED);
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
        IS(count_segments(b), 2 * i + 2);
        IS(tell('n', 0, NULL), 2 * i + 2);
    }
    tamis_store_close(a);
    OK(try_put(b, 'a', 3, NULL));
    tamis_store_close(b);
}

TEST_WITH_OTHER(a_symbolic_link_is_the_same_store)
{
    tamis_store_close(store_new("s"));
    OK(symlink("s", path_of("link")));
    both_names_work("link", "s//");
    OK(unlink(path_of("link")));
}

/* The link leads elsewhere later on: who has opened its store keeps it. */
TEST_WITH_OTHER(so_is_one_that_leads_elsewhere_later)
{
    tamis_store_close(store_new("s"));
    tamis_store_close(store_new("t"));
    OK(symlink("s", path_of("link")));
    struct tamis_store *a = store_open("link");
    OK(unlink(path_of("link")));
    OK(symlink("t", path_of("link")));
    OK(try_put(a, 'a', 1, NULL));
    struct tamis_store *t = store_open("link");
    IS(count_segments(t), 0);
    tamis_store_close(t);
    tamis_store_close(a);
    OK(unlink(path_of("link")));
}

static int in_namespace(void *ctx)
{
    if (!own_mounts())
        fail_msg("no mount namespace (%s): run as root, or allow user namespaces",
                 strerror(errno));
    OK(start_other(NULL)); /* in the same namespace */
    OK(mount(path_of("s"), path_of("t"), NULL, MS_BIND, NULL));
    both_names_work("t", "s");
    STORE a = store_open("s");
    OK(mount(path_of("u"), path_of("s"), NULL, MS_BIND, NULL));
    must_refuse_edits(a); /* its name is another's now */
    return 0;
}

TEST_WITH_OTHER(a_bind_mount_is_the_same_store)
{
    tamis_store_close(store_new("s"));
    tamis_store_close(store_new("u"));
    OK(mkdir(path_of("t"), 0777));
    in_child(in_namespace, NULL);
    remove_tree("u");
}

TEST_WITH_OTHER(the_working_directory_may_change)
{
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    tamis_store_close(store_new("s"));
    OK(chdir(test_dir));
    struct tamis_store *a;
    OK(tamis_store_open("s", NULL, &a, NULL));
    OK(chdir("/"));
    OK(try_put(a, 'a', 1, NULL));
    must_be_listed(a, 'a', 1);
    tamis_store_close(a);
    OK(chdir(before));
}

RUN_TESTS(test_dir_create, test_dir_remove)
