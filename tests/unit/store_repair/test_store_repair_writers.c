/* Repair beside writers: it looks whether they are there, and takes nothing from them;
 * and what it cannot finish stops nothing else. */
#include "tests/support/repair_support.h"

#include "format/checksum.h"

#include <stdarg.h>
#include <sys/syscall.h>

/* ---- the system's locks, watched ---- */

static unsigned n_taken;                /* locks taken by descriptor */
static int look_fails;                  /* an errno for whoever looks at a lock */
static struct tamis_writer *closes_now; /* closed while somebody looks */

/* Locks of a filter or of LMDB; not those by which a process says that it has the store
 * open. */
static int is_watched(int fd)
{
    char link[64], path[1024];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    const char *base = strrchr(path, '/');
    return fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) &&
           !(base && strcmp(base, "/catalog.lmdb") == 0);
}

int fcntl(int fd, int how, ...)
{
    va_list args;
    va_start(args, how);
    void *argument = va_arg(args, void *);
    va_end(args);
    if ((how == F_OFD_SETLK || how == F_OFD_GETLK) && !is_watched(fd))
        return (int)syscall(SYS_fcntl, fd, how, argument);
    if (how == F_OFD_SETLK && ((struct flock *)argument)->l_type != F_UNLCK)
        n_taken++;
    if (how == F_OFD_GETLK && look_fails)
        return errno = look_fails, -1;
    if (how == F_OFD_GETLK && closes_now) {
        struct tamis_writer *w = closes_now;
        closes_now = NULL;
        OK(tamis_writer_close(w));
    }
    return (int)syscall(SYS_fcntl, fd, how, argument);
}

static const char *g_file;

static struct tamis_store *make(void)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_growing(s, "g");
    grow_keys(s, "g", 100, 100, 1);
    g_file = file_of(s, "s", "g");
    return s;
}

/* ---- looking ---- */

static void a_dry_run_takes_no_writers_lock(void **state)
{
    struct tamis_repair_report r;
    (void)state;
    tamis_store_close(make());
    kill_writer("s", 200);
    n_taken = 0;
    OK(repair_code("s", 1, NULL, &r, NULL));
    assert_int_equal(r.n_finished, 1);
    flip(g_file, 5); /* the header */
    OK(repair_code("s", 1, NULL, &r, NULL));
    assert_int_equal(r.n_quarantined, 1);
    assert_int_equal(n_taken, 0);
    remove_tree("s");
}

/* Not knowing whether there is a writer is not knowing that there is none. */
static void a_lock_that_cannot_be_looked_at_leaves_the_file_alone(void **state)
{
    (void)state;
    tamis_store_close(make());
    kill_writer("s", 200);
    for (int torn = 0; torn < 2; torn++) {
        if (torn)
            flip(g_file, 5);
        uint64_t before = tree_of("s");
        look_fails = ENOLCK;
        struct tamis_repair_report r = repair("s");
        look_fails = 0;
        SAW("noted g filters/");
        SAW(strerror(ENOLCK));
        assert_int_equal(n_done(&r), 0);
        assert_true(tree_of("s") == before);
    }
    remove_tree("s");
}

static void nor_is_a_store_rebuilt_whose_lock_file_cannot_be_looked_at(void **state)
{
    struct tamis_diag diag;
    (void)state;
    tamis_store_close(make());
    OK(unlink(path_of("s/catalog.lmdb")));
    uint64_t before = tree_of("s");
    look_fails = ENOLCK;
    assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), ENOLCK);
    look_fails = 0;
    assert_non_null(strstr(diag.what, "catalog.lmdb-lock"));
    assert_true(tree_of("s") == before);
    remove_tree("s");
}

/* The header, read before the lock was looked at, says that its writer died. */
static void a_writer_that_closes_meanwhile_has_not_died(void **state)
{
    (void)state;
    for (int dry = 0; dry < 2; dry++) {
        struct tamis_repair_report r;
        struct tamis_store *s = make();
        OK(tamis_store_writer(s, "g", 1, &closes_now, NULL));
        OK(repair_code("s", dry, NULL, &r, NULL));
        assert_null(closes_now);
        assert_int_equal(n_done(&r) + r.n_damaged, 0);
        assert_int_equal(seen.n, 0);
        tamis_store_close(s);
        remove_tree("s");
    }
}

/* ---- what cannot be finished ---- */

/* A feature that forbids this tamis to write. */
static void forbid_writing(const char *path)
{
    size_t n;
    uint8_t *bytes = file_read(path, &n);
    bytes[offsetof(struct identity_disk, ro_compat)] = 1;
    checksum_set(bytes, IDENTITY_BYTES, 0);
    file_poke(path, 0, bytes, IDENTITY_BYTES);
    free(bytes);
}

static bool writing_fails;

static ssize_t failing_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    if (writing_fails)
        return errno = ENOSPC, -1;
    return calls_before.pwrite(fd, buf, n, at);
}

/* Everything else is repaired. */
static void what_cannot_be_finished_stops_nothing_else(void **state)
{
    enum { NEWER, FULL, N };
    (void)state;
    for (int how = NEWER; how < N; how++) {
        struct tamis_repair_report dry, r;
        struct tamis_store *s = make();
        const char *a = file_of(s, "s", "a");
        tamis_store_close(s);
        kill_writer("s", 200);
        flip(a, PAGE_BYTES + 9);
        if (how == NEWER)
            forbid_writing(g_file);
        OK(repair_code("s", 1, NULL, &dry, NULL));
        calls_before = io_calls;
        io_calls.pwrite = failing_pwrite;
        writing_fails = how == FULL;
        r = repair("s");
        io_calls = calls_before;
        SAW("quarantined a filters/");
        SAW("noted g filters/");
        SAW("left unfinished");
        assert_int_equal(r.n_finished, 0);
        assert_int_equal(r.n_unread, 1);
        assert_int_equal(dry.n_finished, how == FULL);
        assert_int_equal(commit_of(g_file).clean, 0);
        assert_false(exists(a));
        s = store_open("s");
        check_keys(s, "g", 100, 200);
        tamis_store_close(s);
        if (how == FULL)
            assert_int_equal(repair("s").n_finished, 1);
        check_settled("s");
        remove_tree("s");
    }
}

/* A new catalog would promise what may not be durable; a newer tamis' file is set
 * aside, lest it stop every rebuild. */
static void a_rebuild_lists_nothing_unfinished(void **state)
{
    struct tamis_diag diag;
    (void)state;
    tamis_store_close(make());
    kill_writer("s", 200);
    OK(unlink(path_of("s/catalog.lmdb")));
    calls_before = io_calls;
    io_calls.pwrite = failing_pwrite;
    writing_fails = true;
    assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), ENOSPC);
    io_calls = calls_before;
    assert_false(exists(path_of("s/catalog.lmdb")));
    forbid_writing(g_file);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_quarantined, 1);
    struct tamis_store *s = store_open("s");
    assert_int_equal(reason_of(s, "g", 99999), TAMIS_NO_FILTER);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_dry_run_takes_no_writers_lock, no_store),
        cmocka_unit_test_setup(a_lock_that_cannot_be_looked_at_leaves_the_file_alone,
                               no_store),
        cmocka_unit_test_setup(
            nor_is_a_store_rebuilt_whose_lock_file_cannot_be_looked_at, no_store),
        cmocka_unit_test_setup(what_cannot_be_finished_stops_nothing_else, no_store),
        cmocka_unit_test_setup(a_rebuild_lists_nothing_unfinished, no_store),
        cmocka_unit_test_setup(a_writer_that_closes_meanwhile_has_not_died, no_store),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
