/* Repair must not harm files that the lock file leads to, filters that the
 * catalog has forgotten, and what cannot be read just now. */
#include "tests/support/repair_support.h"

#include <sys/wait.h>

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
            tamis_store_close(store_abcg());
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

/* ---- a catalog that cannot be read just now ---- */

static unsigned n_pages_read, fail_page;

static ssize_t failing_page(int fd, void *buf, size_t n, off_t at)
{
    struct stat opened, catalog;
    OK(fstat(fd, &opened));
    OK(stat(path_of("s/catalog.lmdb"), &catalog));
    if (opened.st_ino == catalog.st_ino && n == 4096 && ++n_pages_read == fail_page)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

/* A page that cannot be read does not mean that the catalog is lost. */
static void a_walk_that_fails_is_no_lost_catalog(void **state)
{
    (void)state;
    tamis_store_close(store_abcg());
    uint64_t before = tree_of("s");
    calls_before = io_calls;
    io_calls.pread = failing_page;
    for (fail_page = 1;; fail_page++) {
        struct tamis_diag diag;
        n_pages_read = 0;
        int rc = repair_code("s", 0, NULL, NULL, &diag);
        if (n_pages_read < fail_page) {
            OK(rc);
            break;
        }
        assert_int_equal(rc, EIO);
        assert_non_null(strstr(diag.what, "reading the catalog"));
        assert_int_equal(seen.n, 0);
        assert_true(tree_of("s") == before);
    }
    io_calls = calls_before;
    assert_true(fail_page > 3); /* the free pages, the databases, the segments */
    assert_true(tree_of("s") == before);
    remove_tree("s");
}

/* Takes all reader slots of LMDB, until its parent is done. */
static void take_slots(int tell, int wait)
{
    MDB_env *env;
    MDB_txn *txn;
    char byte = 0;
    int rc = mdb_env_create(&env);
    if (!rc)
        rc = mdb_env_open(env, path_of("s/catalog.lmdb"),
                          MDB_NOSUBDIR | MDB_NOTLS | MDB_RDONLY, 0666);
    while (!rc)
        rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (rc != MDB_READERS_FULL || write(tell, &byte, 1) != 1)
        _exit(1);
    _exit(read(wait, &byte, 1) != 0); /* 0: the parent has closed its end */
}

static void a_catalog_without_a_free_slot_is_busy_not_lost(void **state)
{
    struct tamis_diag diag;
    struct tamis_store *s = NULL;
    int told[2], done[2], status;
    char byte;
    (void)state;
    tamis_store_close(store_abcg());
    OK(pipe(told) || pipe(done));
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        take_slots(told[1], done[0]);
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), TAMIS_ERR_BUSY);
    assert_string_equal(diag.what, "opening the catalog: all reader slots of LMDB are "
                                   "taken: a process must close the store first");
    assert_true(seen.n == 0 && tree_of("s") == before);
    assert_int_equal(tamis_store_open(path_of("s"), &s, NULL), TAMIS_ERR_BUSY);
    close(done[1]);
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    close(told[0]), close(told[1]), close(done[0]);
    repair("s");
    remove_tree("s");
}

/* A byte of its key has rotted: the record fails under its new name, and the old one is
 * not listed any more. */
static void a_name_that_rotted_makes_the_list_incomplete(void **state)
{
    uint8_t value[RECORD_MAX_BYTES];
    (void)state;
    for (int file_too = 0; file_too < 2; file_too++) {
        struct tamis_repair_report dry;
        struct tamis_store *s = store_abcg();
        struct record c = record_in(s, "c");
        const char *file = file_of(s, "s", "c");
        tamis_store_close(s);
        poke_catalog("s", "segments", "c", NULL, 0);
        size_t n = record_encode(&c, "c", 1, value);
        poke_catalog("s", "segments", "d", value, n);
        if (file_too)
            OK(unlink(file));
        OK(repair_code("s", 1, NULL, &dry, NULL));
        struct tamis_repair_report r = repair("s");
        assert_memory_equal(&dry, &r, sizeof r);
        assert_int_equal(r.complete, 0);
        assert_int_equal(r.n_rebuilt, 1);
        assert_true(file_too || exists(aside_of("s", file)));
        /* An engine that knows of a, b, c, and g. */
        s = store_open("s");
        struct tamis_name names[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"g", 1}};
        struct tamis_edit *e = edit_new(s);
        OK(tamis_edit_retain(e, names, 4, NULL));
        OK(tamis_edit_commit(e, NULL));
        assert_int_equal(everywhere(s, 250), TAMIS_MAYBE);
        tamis_store_close(s);
        check_settled("s");
        remove_tree("s");
    }
}

/* The name is right, and the file says so: nothing is missing. */
static void a_record_that_its_file_bears_out_leaves_the_list_complete(void **state)
{
    (void)state;
    tamis_store_close(store_abcg());
    poke_record("s", "c", offsetof(struct record_disk, keys));
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.complete, 1);
    assert_int_equal(r.n_rebuilt, 1);
    check_settled("s");
    remove_tree("s");
}

/* Nothing tells that the catalog is an older one: but its filters are not removed. */
static void filters_that_an_older_catalog_does_not_name_are_kept(void **state)
{
    (void)state;
    struct tamis_store *s = store_abcg();
    tamis_store_close(s);
    file_copy(path_of("s/catalog.lmdb"), path_of("old"));
    s = store_open("s");
    put_segment(s, "new", 1000, 100);
    const char *file = file_of(s, "s", "new");
    put_growing(s, "h");
    grow_keys(s, "h", 1100, 100, 1);
    const char *growing = file_of(s, "s", "h");
    tamis_store_close(s);
    file_copy(path_of("old"), path_of("s/catalog.lmdb"));
    struct tamis_repair_report r = repair("s");
    SAW("or of a newer catalog");
    assert_int_equal(r.n_quarantined, 2);
    assert_int_equal(r.n_swept, 0);
    assert_false(exists(file) || exists(growing));
    assert_true(exists(aside_of("s", file)) && exists(aside_of("s", growing)));
    check_settled("s");
    remove_tree("s");
}

/* ---- what cannot be read just now ---- */

static ino_t failing;
static bool reading_fails;

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t at)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    if (reading_fails && st.st_ino == failing && at >= PAGE_BYTES)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

/* A mapping with nothing behind it: SIGBUS. */
static void *failing_mmap(void *at, size_t n, int prot, int flags, int fd, off_t from)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_ino != failing)
        return calls_before.mmap(at, n, prot, flags, fd, from);
    int empty = open(path_of("empty"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(empty >= 0);
    void *p = calls_before.mmap(at, n, prot, flags, empty, from);
    close(empty);
    return p;
}

/* With the guard a page that can't be had through a mapping is ones: no damage. */
static void a_page_that_fails_for_now_is_no_damage(void **state)
{
    struct stat st;
    (void)state;
    struct tamis_store *s = store_abcg();
    const char *a = file_of(s, "s", "a");
    tamis_store_close(s);
    assert_int_equal(stat(a, &st), 0);
    failing = st.st_ino;
    calls_before = io_calls;
    io_calls.pread = failing_pread;
    io_calls.mmap = failing_mmap;
    OK(tamis_guard_install(NULL));
    for (int fails = 0; fails < 2; fails++) {
        reading_fails = fails;
        struct tamis_repair_report r = repair("s");
        assert_int_equal(n_done(&r), 0);
        assert_int_equal(r.n_unread, (uint64_t)fails);
        assert_true(exists(a));
    }
    tamis_guard_remove();
    io_calls = calls_before;
    SAW("noted a filters/");
    check_settled("s");
    remove_tree("s");
}

/* ---- what is told, and when ---- */

static int failing_linkat(int from_dir, const char *from, int to_dir, const char *to,
                          int flags)
{
    (void)from_dir, (void)from, (void)to_dir, (void)to, (void)flags;
    return errno = EIO, -1;
}

static int failing_unlinkat(int dir, const char *name, int flags)
{
    if (strstr(name, ".tamis"))
        return errno = EIO, -1;
    return calls_before.unlinkat(dir, name, flags);
}

static void nothing_is_told_that_was_not_done(void **state)
{
    struct tamis_repair_report r;
    (void)state;
    struct tamis_store *s = store_abcg();
    const char *a = file_of(s, "s", "a");
    tamis_store_close(s);
    flip(a, PAGE_BYTES + 9);
    file_write(path_of("s/filters/00112233445566778899aabbccddeeff.tamis"), "x", 1);
    file_write(path_of("s/catalog.lmdb.01234567.tmp"), "x", 1);
    calls_before = io_calls;
    io_calls.linkat = failing_linkat;
    assert_int_equal(repair_code("s", 0, NULL, &r, NULL), EIO);
    assert_int_equal(r.n_quarantined, 0);
    assert_int_equal(r.n_swept, 1);
    assert_int_equal(seen.n, 1);
    SAW("swept  catalog.lmdb.01234567.tmp");
    io_calls.linkat = calls_before.linkat;
    io_calls.unlinkat = failing_unlinkat;
    assert_int_equal(repair_code("s", 0, NULL, &r, NULL), EIO);
    io_calls = calls_before;
    assert_int_equal(r.n_quarantined, 1);
    assert_int_equal(r.n_swept, 0);
    assert_int_equal(seen.n, 1);
    assert_true(exists(aside_of("s", a)));
    OK(unlink(path_of("s/catalog.lmdb")));
    io_calls.linkat = failing_linkat; /* of the filter that is still in its place */
    assert_int_equal(repair_code("s", 0, NULL, &r, NULL), EIO);
    io_calls = calls_before;
    assert_int_equal(r.n_rebuilt, 0);
    assert_int_equal(r.rebuilt, 0);
    remove_tree("s");
}

static struct tamis_store *in_use;
static unsigned n_begun;

static void begin_an_edit(void *ctx, const struct tamis_repair_finding *f)
{
    (void)ctx, (void)f;
    struct tamis_edit *e = edit_new(in_use);
    tamis_edit_abort(e);
    n_begun++;
}

/* To build anew what it hears of, say. */
static void who_is_told_may_begin_an_edit(void **state)
{
    uint64_t n;
    (void)state;
    in_use = store_abcg();
    flip(file_of(in_use, "s", "a"), PAGE_BYTES + 9);
    file_write(path_of("s/filters/00112233445566778899aabbccddeeff.tamis"), "x", 1);
    n_begun = 0;
    alarm(60);
    OK(tamis_store_orphans(in_use, begin_an_edit, NULL, &n, NULL));
    assert_int_equal(n, 1);
    assert_int_equal(n_begun, 1);
    struct tamis_repair_options opt = {.size = sizeof opt, .found = begin_an_edit};
    OK(tamis_store_repair(path_of("s"), &opt, NULL, NULL));
    assert_true(n_begun >= 2);
    alarm(0);
    tamis_store_close(in_use);
    check_settled("s");
    remove_tree("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_lock_file_that_is_a_link_is_refused, no_store),
        cmocka_unit_test_setup(a_walk_that_fails_is_no_lost_catalog, no_store),
        cmocka_unit_test_setup(a_catalog_without_a_free_slot_is_busy_not_lost,
                               no_store),
        cmocka_unit_test_setup(a_name_that_rotted_makes_the_list_incomplete, no_store),
        cmocka_unit_test_setup(
            a_record_that_its_file_bears_out_leaves_the_list_complete, no_store),
        cmocka_unit_test_setup(filters_that_an_older_catalog_does_not_name_are_kept,
                               no_store),
        cmocka_unit_test_setup(a_page_that_fails_for_now_is_no_damage, no_store),
        cmocka_unit_test_setup(nothing_is_told_that_was_not_done, no_store),
        cmocka_unit_test_setup(who_is_told_may_begin_an_edit, no_store),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
