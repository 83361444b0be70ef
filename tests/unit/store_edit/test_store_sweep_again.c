/* A commit cannot remove a file, or set a tombstone: the next edit does it, with the
 * store open all the while. */
#include "tests/support/shop/shop.h"

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
    failing = NULL;
    io_calls.renameat2 = renameat2;
    io_calls.unlinkat = unlinkat;
    return test_dir_remove(state);
}

/* A segment that was packed is replaced, and its tombstone cannot be written. Later the
 * catalog from before comes back: it must not find the old column for the new keys. */
TEST_WITH(test_dir_create, calls_back, tombstones_of_a_full_disk)
{
    scene("tombstones");
    steps("many 12 60; pack; live copy catalog =old");
    io_calls.renameat2 = failing_rename;
    failing = ".dead";
    steps(
        "replace s2 2000 90; told the tombstones of dropped segments cannot be written;"
        "put other 1 3"); /* as full as before */
    failing = NULL;
    steps("put another 1 3; close; copy =old catalog; hits s2 2000 90 FILE_LOST");
    scene_ends();
}

TEST_WITH(test_dir_create, calls_back, files_that_would_not_go)
{
    scene("files");
    steps("put a 1 10; put b 1 10");
    io_calls.unlinkat = failing_unlink;
    failing = ".tamis";
    steps("drop a; files 2; told removing a dropped file: Input/output error;"
          "told_file s/filters/");
    assert_true(shop.diag.code == 0 && shop.diag.os_errno == EIO);
    steps("put c 1 10");
    failing = NULL;
    steps("files 3; begin; told of no segment removed: 1; files 2; drop c; commit;"
          "files 1");
    IS(shop.diag.what[0], 0);
    scene_ends();
}

/* ---- between a commit and the transaction that removes the rest ---- */

static int (*between)(void *); /* in a process of its own */
static int n_commits;
static struct meta newer;

int fcntl(int fd, int how, ...)
{
    const off_t commit = ((off_t)1 << 62) + ((off_t)LOCK_COMMIT << 56);
    va_list args;
    va_start(args, how);
    void *argument = va_arg(args, void *);
    va_end(args);
    const struct flock *l = how == F_OFD_SETLK ? argument : NULL;
    if (l && l->l_type == F_WRLCK && l->l_start == commit && ++n_commits == 2 &&
        between)
        in_child(between, NULL);
    return (int)syscall(SYS_fcntl, fd, how, argument);
}

static int newer_version(void *ctx)
{
    put_meta("s", &newer);
    return 0;
}

/* Each copy of the store's own record; again, and it is good. */
static int a_page_rots(void *ctx)
{
    size_t n;
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    for (size_t at = 0; at + UUID_BYTES < n; at++)
        if (memcmp(bytes + at, newer.store_uuid, UUID_BYTES) == 0)
            flip(path_at("catalog"), at + UUID_BYTES);
    return 0;
}

static void commit_while(int (*what)(void *))
{
    n_commits = 0;
    between = what;
    steps("commit; told tombstones of dropped segments cannot be written");
    between = NULL;
}

/* It looks at the catalog anew, if others have changed it, or if it reads it. */
TEST_OF_SCENES(the_rest_stays_if_the_catalog_is_another)
{
    scene("a newer version has committed");
    steps("many 12 60; pack; live copy dead =d");
    newer = meta_in("s");
    newer.ro_compat = UINT64_C(1) << 60;
    steps("begin; drop s2");
    commit_while(newer_version);
    steps("same dead =d");
    scene("a page has rotted");
    steps("put a 1 10 packed=1");
    newer = meta_in("s");
    steps("begin; drop a");
    commit_while(a_page_rots);
    a_page_rots(NULL);
    steps("files 2; begin; abort; files 0");
}

RUN_TESTS(NULL, NULL)
