/* Repair must not harm files that the lock file leads to, filters that the
 * catalog has forgotten, and what cannot be read just now. */
#include "tests/support/shop/shop.h"

#define ABCG "put a 0 100; put b 100 100; put c 200 100; growing g; grow g 300 100 1;"

TEST_OF_SCENES(what_repair_must_not_harm)
{
    static const char *const harm[] = {"close", "noise_meta", "lose catalog"};
    /* LMDB writes to its lock file, wherever it leads. */
    for (int how = 0; how < 3; how++)
        for (int dry = 0; dry < 2; dry++)
            play("a lock file that is a link is refused",
                 ABCG "%s; text lock x; lose lock; text =victim precious;"
                      "text =want precious; link lock =victim; mark; fails NOT_TAMIS "
                      "repair %s;"
                      "told catalog.lmdb-lock is not a regular; is seen=0; stays;"
                      "same =want =victim",
                 harm[how], dry ? "dry" : "");
    static const struct scene_row rows[] = {
        /* The name is right, and the file says so: nothing is missing. */
        {"a record that its file bears out leaves the list complete", ABCG,
         "rot_record c keys", "repair; is whole=1 rebuilt=1; settled"},
        /* Nothing tells that the catalog is an older one. */
        {"filters that an older catalog does not name are kept", ABCG,
         "copy catalog =old; put new 1000 100; growing h; grow h 1100 100 1;"
         "copy =old catalog",
         "repair; says or of a newer catalog; is quarantined=2 swept=0; gone new h;"
         "there aside:new aside:h; settled"},
    };
    PLAY_ROWS(rows);
    /* A byte of its key has rotted: the record fails under its new name, and the old
     * one is not listed any more. The engine knows of a, b, c, and g. */
    for (int file_too = 0; file_too < 2; file_too++)
        play("a name that rotted makes the list incomplete",
             ABCG
             "move_record c d; %s; repair dry; is whole=0 rebuilt=1 quarantined=%d;"
             "repair; is whole=0 rebuilt=1 quarantined=%d; %s; only a b c g;"
             "all 250 MAYBE; settled",
             file_too ? "lose c" : "close", !file_too, !file_too,
             file_too ? "close" : "there aside:c");
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
TEST_OF_SCENES(a_walk_that_fails_is_no_lost_catalog)
{
    scene("a walk that fails");
    steps(ABCG "close");
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
        IS(rc, EIO);
        assert_non_null(strstr(diag.what, "reading the catalog"));
        IS(seen.n, 0);
        assert_true(tree_of("s") == before);
    }
    io_calls = calls_before;
    assert_true(fail_page > 3); /* the free pages, the databases, the segments */
    assert_true(tree_of("s") == before);
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

TEST_OF_SCENES(a_catalog_without_a_free_slot_is_not_lost)
{
    struct tamis_diag diag;
    struct tamis_store *s = NULL;
    int told[2], done[2], status;
    char byte;
    scene("no free slot");
    steps(ABCG "close");
    OK(pipe(told) || pipe(done));
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        take_slots(told[1], done[0]);
    }
    IS(read(told[0], &byte, 1), 1);
    OK(repair_code("s", 0, NULL, NULL, &diag));
    assert_true(seen.n == 0);
    OK(tamis_store_open(path_of("s"), NULL, &s, NULL));
    put_segment(s, "new", 900, 910);
    IS(reason_of(s, "new", 905), TAMIS_HIT);
    tamis_store_close(s);
    close(done[1]);
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    close(told[0]), close(told[1]), close(done[0]);
    repair("s");
}

/* ---- what cannot be read just now ---- */

static ino_t failing;
static bool reading_fails;

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t at)
{
    struct stat st;
    OK(fstat(fd, &st));
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
    FD empty = open(path_of("empty"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(empty >= 0);
    void *p = calls_before.mmap(at, n, prot, flags, empty, from);
    return p;
}

/* With the guard a page that can't be had through a mapping is ones: no damage. */
TEST_OF_SCENES(a_page_that_fails_for_now_is_no_damage)
{
    scene("a page that fails for now");
    steps(ABCG);
    const char *a = file_of(shop.store, "s", "a");
    closed();
    struct stat st = stat_of(a);
    failing = st.st_ino;
    calls_before = io_calls;
    io_calls.pread = failing_pread;
    io_calls.mmap = failing_mmap;
    OK(tamis_guard_install(NULL));
    for (int fails = 0; fails < 2; fails++) {
        reading_fails = fails;
        struct tamis_repair_report r = repair("s");
        IS(n_done(&r), 0);
        IS(r.n_unread, (uint64_t)fails);
        assert_true(exists(a));
    }
    tamis_guard_remove();
    io_calls = calls_before;
    SAW("noted a filters/");
    check_settled("s");
}

/* ---- what is told, and when ---- */

static int failing_linkat(int from_dir, const char *from, int to_dir, const char *to,
                          int flags)
{
    return errno = EIO, -1;
}

static const char *stays;

static int failing_unlinkat(int dir, const char *name, int flags)
{
    if (strcmp(name, stays) == 0)
        return errno = EIO, -1;
    return calls_before.unlinkat(dir, name, flags);
}

static int failing_rename(int from_dir, const char *from, int to_dir, const char *to,
                          unsigned flags)
{
    return errno = EIO, -1;
}

TEST_OF_SCENES(nothing_is_told_that_was_not_done)
{
    struct tamis_repair_report r;
    scene("calls that fail");
    steps(ABCG);
    const char *a = file_of(shop.store, "s", "a");
    closed();
    flip(a, PAGE_BYTES + 9);
    file_write(path_of("s/filters/00112233445566778899aabbccddeeff.tamis"), "x", 1);
    file_write(path_of("s/catalog.lmdb.01234567.tmp"), "x", 1);
    calls_before = io_calls;
    io_calls.linkat = failing_linkat;
    IS(repair_code("s", 0, NULL, &r, NULL), EIO);
    IS(r.n_quarantined, 0);
    IS(r.n_swept, 1);
    IS(seen.n, 1);
    SAW("swept  catalog.lmdb.01234567.tmp");
    io_calls.linkat = calls_before.linkat;
    io_calls.unlinkat = failing_unlinkat;
    stays = strrchr(a, '/') + 1;
    IS(repair_code("s", 0, NULL, &r, NULL), EIO);
    io_calls = calls_before;
    IS(r.n_quarantined, 0);
    IS(r.n_swept, 1);
    IS(seen.n, 1);
    SAW("swept  filters/00112233");
    assert_true(exists(aside_of("s", a)));
    OK(unlink(path_of("s/catalog.lmdb")));
    io_calls.linkat = failing_linkat; /* of the filter that is still in its place */
    IS(repair_code("s", 0, NULL, &r, NULL), EIO);
    IS(seen.n, 0);
    io_calls.linkat = calls_before.linkat;
    io_calls.renameat2 = failing_rename;
    IS(repair_code("s", 0, NULL, &r, NULL), EIO);
    io_calls = calls_before;
    IS(seen.n, 1);
    SAW("noted  quarantine has second names");
    IS(r.n_rebuilt, 0);
    IS(r.rebuilt, 0);
}

static struct tamis_store *in_use;
static unsigned n_begun;

static void begin_an_edit(void *ctx, const struct tamis_repair_finding *f)
{
    struct tamis_edit *e = edit_new(in_use);
    tamis_edit_abort(e);
    n_begun++;
}

/* Perhaps to build anew the segment that it hears of. */
TEST_OF_SCENES(who_is_told_may_begin_an_edit)
{
    uint64_t n;
    scene("an edit");
    steps(ABCG);
    in_use = shop.store;
    flip(file_of(in_use, "s", "a"), PAGE_BYTES + 9);
    file_write(path_of("s/filters/00112233445566778899aabbccddeeff.tamis"), "x", 1);
    n_begun = 0;
    alarm(60);
    OK(tamis_store_orphans(in_use, begin_an_edit, NULL, &n, NULL));
    IS(n, 1);
    IS(n_begun, 1);
    struct tamis_repair_options opt = {.size = sizeof opt, .found = begin_an_edit};
    OK(tamis_store_repair(path_of("s"), &opt, NULL, NULL));
    assert_true(n_begun >= 2);
    alarm(0);
    steps("settled");
}

RUN_TESTS(NULL, NULL)
