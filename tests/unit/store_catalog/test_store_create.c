/* A store that was created is durable (R13), and so is the name of its directory, even
 * if another process made it. */
#include "tests/support/store_support.h"

/* How often the test's directory, in which stores are made, was synced. */
static struct stat parent;
static unsigned n_syncs;

static int sync_parent_counted(int fd)
{
    struct stat st;
    OK(fstat(fd, &st));
    n_syncs += st.st_dev == parent.st_dev && st.st_ino == parent.st_ino;
    return 0;
}

static int sync_parent_fails(int fd)
{
    unsigned before = n_syncs;
    sync_parent_counted(fd);
    return n_syncs == before ? 0 : (errno = EIO, -1);
}

static int set_up(void **state)
{
    return test_dir_create(state) || stat(test_dir, &parent) != 0;
}

static int create(const char *name, int (*fsync_is)(int), struct tamis_diag *diag)
{
    struct io_calls saved = io_calls;
    io_calls.fsync = fsync_is;
    n_syncs = 0;
    int rc = create_store(path_of(name), NULL, diag);
    io_calls = saved;
    return rc;
}

TEST(the_parent_is_synced)
{
    OK(create("new", sync_parent_counted, NULL));
    IS(n_syncs, 1);
    mkdir(path_of("empty"), 0777);
    OK(create("empty", sync_parent_counted, NULL));
    IS(n_syncs, 1);
    mkdir(path_of("linked"), 0777);
    OK(symlink("linked", path_of("link")));
    OK(create("link", sync_parent_counted, NULL));
    IS(n_syncs, 1);
}

TEST(a_parent_that_cannot_be_synced)
{
    struct tamis_diag diag;
    IS(create("bad", sync_parent_fails, &diag), EIO);
    assert_non_null(strstr(diag.what, "parent"));
    assert_false(exists(path_of("bad")));
    mkdir(path_of("was-there"), 0777);
    IS(create("was-there", sync_parent_fails, &diag), EIO);
    IS(count_files(path_of("was-there")), 0);
    OK(create("was-there", sync_parent_counted, &diag));
    /* The store that is there is no affair of the parent. */
    IS(create("was-there", sync_parent_fails, &diag), TAMIS_ERR_EXISTS);
}

/* As somebody who may search the parent, but not read it; or not write it. */
static int create_unseen(void *ctx)
{
    struct tamis_open_options opt = {.size = sizeof opt,
                                     .create = TAMIS_CREATE_IF_MISSING};
    struct tamis_store *s;
    if (geteuid() == 0 && setuid(65534) != 0)
        return 1;
    if (access(path_of("parent"), *(int *)ctx) == 0 || errno != EACCES)
        return 2;
    if (tamis_store_open(path_of("parent/there"), &opt, &s, NULL) != 0)
        return 3;
    return tamis_store_open(path_of("parent/new"), &opt, &s, NULL) == EACCES ? 0 : 4;
}

TEST(a_parent_that_cannot_be_read_or_written)
{
    OK(chmod(test_dir, 0755));
    for (int right = W_OK; right <= R_OK; right += R_OK - W_OK) {
        OK(mkdir(path_of("parent"), 0777));
        OK(mkdir(path_of("parent/there"), 0777));
        OK(chmod(path_of("parent/there"), 0777));
        OK(chmod(path_of("parent"), right == R_OK ? 0333 : 0555));
        in_child(create_unseen, &right);
        OK(chmod(path_of("parent"), 0777));
        assert_false(exists(path_of("parent/new")));
        tamis_store_close(store_open("parent/there"));
        remove_tree("parent");
    }
}

RUN_TESTS(set_up, test_dir_remove)
