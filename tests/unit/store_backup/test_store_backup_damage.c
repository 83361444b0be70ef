/* Backup of damaged filters: what was damaged is damaged in the copy, and what is
 * damaged on the way is told. */
#include "tests/unit/store_backup/backup_support.h"

#include <sys/mman.h>

static size_t n_damaged_pages(const char *path)
{
    struct tamis_verify v;
    struct tamis_filter *f = open_filter(path);
    tamis_filter_verify(f, &v, NULL);
    tamis_filter_close(f);
    return v.n_damaged;
}

/* A page that is bad is as bad in the copy; digests and floors are not made anew. */
static void damage_is_not_laundered(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw_bare("s");
    const char *a = file_of(s, "s", "a"), *g = file_of(s, "s", "g"),
               *w = file_of(s, "s", "w");
    struct commit c = commit_of(w);
    flip(a, PAGE_BYTES + 700);
    lose_page(g);
    uint8_t zeros[PAGE_BYTES] = {0};
    file_poke(w, c.stages[0].offset, zeros, sizeof zeros);
    size_t n_a = n_damaged_pages(a), n_g = n_damaged_pages(g), n_w = n_damaged_pages(w);
    assert_true(n_a && n_g && n_w);
    backup(s, "b");
    assert_int_equal(backed_up.n_damaged, 3);
    assert_int_equal(backed_up.n_left, 0);
    SAW("noted a filters/");
    SAW("noted g filters/");
    SAW("noted w filters/");
    assert_int_equal(n_damaged_pages(file_in("b", a)), n_a);
    assert_int_equal(n_damaged_pages(file_in("b", g)), n_g);
    assert_int_equal(n_damaged_pages(file_in("b", w)), n_w);
    struct tamis_store *b = store_open("b");
    check_agw_bare(b);
    tamis_store_close(b);
    remove_both(s);
}

static bool is_file(int fd)
{
    struct stat st;
    OK(fstat(fd, &st));
    return S_ISREG(st.st_mode);
}

static int losing_fsync(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (is_file(fd))
        lose_page(path);
    return 0;
}

/* Between being written and being checked each copy loses a page. */
static void damage_on_the_way_is_told(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw_bare("s");
    calls_before = io_calls;
    io_calls.fsync = losing_fsync;
    backup(s, "b");
    io_calls = calls_before;
    assert_int_equal(backed_up.n_damaged, 3);
    struct tamis_store *b = store_open("b");
    check_agw_bare(b);
    tamis_store_close(b);
    remove_both(s);
}

static unsigned fail_read_of_copy, n_reads_of_copy;
static bool written;

static int marking_fsync(int fd)
{
    written |= is_file(fd);
    return 0;
}

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t at)
{
    if (written && ++n_reads_of_copy == fail_read_of_copy)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

static void *no_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)n, (void)prot, (void)flags, (void)fd, (void)offset;
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Nothing is mapped for it, where a disk that fails would be a signal (R15). */
static void copies_are_checked_by_reading(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_agw_bare("s");
    calls_before = io_calls;
    io_calls.fsync = marking_fsync;
    io_calls.pread = failing_pread;
    io_calls.mmap = no_mmap;
    for (fail_read_of_copy = 1; fail_read_of_copy <= 2; fail_read_of_copy++) {
        written = false;
        n_reads_of_copy = 0;
        assert_int_equal(backup_code(s, "b", &diag), EIO); /* header, first page */
    }
    backup(s, "b");
    io_calls = calls_before;
    assert_int_equal(backed_up.n_files, 3);
    remove_both(s);
}

/* Floors that fail their own check fail in the copy, and condemned pages stay so. */
static void bad_floors_stay_bad(void **state)
{
    (void)state;
    struct tamis_store *s = store_agw_bare("s");
    const char *g = file_of(s, "s", "g");
    struct commit c = commit_of(g);
    flip(g, c.stages[c.n_stages - 1].floors_offset + 100);
    lose_page(g); /* of another stage */
    size_t n = n_damaged_pages(g);
    assert_true(c.n_stages > 1 && n > 1);
    backup(s, "b");
    assert_int_equal(n_damaged_pages(file_in("b", g)), n);
    struct tamis_store *b = store_open("b");
    check_agw_bare(b);
    grow_keys(b, "g", 6000, 100, 8); /* its writer condemns them for good */
    size_t condemned = n_damaged_pages(file_in("b", g));
    assert_true(condemned > 0);
    backup(b, "b2");
    assert_int_equal(n_damaged_pages(file_in("b2", g)), condemned);
    tamis_store_close(b);
    b = store_open("b2");
    check_agw_bare(b);
    check_keys(b, "g", 6000, 100);
    tamis_store_close(b);
    remove_both(s);
    remove_tree("b2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage_is_not_laundered),
        cmocka_unit_test(damage_on_the_way_is_told),
        cmocka_unit_test(copies_are_checked_by_reading),
        cmocka_unit_test(bad_floors_stay_bad),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
