/* Lists merged, and filters made from lists: the same as from the hashes in memory. */
#include "tests/unit/builder/builder_support.h"
#include "lib/filter/filter.h"
#include "lib/list/list.h"
#include "lib/sort/sort.h"

/* ---- lists ---- */

static struct tamis_builder *lister(const struct tamis_domain *d, uint64_t bits)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = d, .spool_dir = test_dir, .list_bits = bits};
    struct tamis_builder *b;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    return b;
}

static void make_list_of(const char *name, const struct tamis_domain *d, uint64_t bits,
                         const uint64_t *hashes, size_t n)
{
    struct tamis_diag diag;
    struct tamis_builder *b = lister(d, bits);
    assert_int_equal(tamis_builder_add_hashes(b, d->tag, hashes, n), 0);
    if (tamis_builder_finish_list(b, path_of(name), &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    tamis_builder_free(b);
}

static void make_list(const char *name, const uint64_t *hashes, size_t n)
{
    make_list_of(name, &domain, 64, hashes, n);
}

static uint64_t n_hashes(const char *name)
{
    struct tamis_filter *f = open_filter(path_of(name));
    uint64_t n = filter_list(f)->n_hashes;
    tamis_filter_close(f);
    return n;
}

/* ---- merges ---- */

enum { MOST_LISTS = 9 };

/* A list of each part; the merge is the list of all hashes, byte by byte. */
static void expect_merge(size_t n_lists, const size_t *ends)
{
    struct tamis_filter *lists[MOST_LISTS];
    struct tamis_merge_report r;
    struct tamis_diag diag;
    char name[32];
    size_t from = 0, n_read = 0;
    for (size_t i = 0; i < n_lists; i++) {
        snprintf(name, sizeof name, "l%zu", i);
        make_list(name, keys + from, ends[i] - from);
        n_read += n_hashes(name);
        lists[i] = open_filter(path_of(name));
        from = ends[i];
    }
    if (tamis_list_merge(lists, n_lists, path_of("merged"), NULL, &r, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    make_list("whole", keys, from);
    uint64_t n = n_hashes("whole");
    assert_int_equal(n_hashes("merged"), n);
    assert_int_equal(r.n_hashes, n);
    assert_int_equal(r.n_read, n_read);
    assert_int_equal(r.n_repeats, n_read - n);
    size_t merged_bytes, whole_bytes;
    uint8_t *merged = file_read(path_of("merged"), &merged_bytes),
            *whole = file_read(path_of("whole"), &whole_bytes);
    assert_int_equal(merged_bytes, whole_bytes);
    assert_int_equal(r.file_bytes, whole_bytes);
    assert_memory_equal(merged + PAGE_BYTES, whole + PAGE_BYTES,
                        whole_bytes - PAGE_BYTES);
    free(merged);
    free(whole);
    for (size_t i = 0; i < n_lists; i++) {
        snprintf(name, sizeof name, "l%zu", i);
        tamis_filter_close(lists[i]);
        unlink(path_of(name));
    }
    unlink(path_of("merged"));
    unlink(path_of("whole"));
}

static void test_merges(void **state)
{
    static const size_t ends[][MOST_LISTS] = {
        {5000},
        {5000, 10000},
        {1, 2, 3},
        {0, 700, 700, 900},
        {30000, 30001, 90000, 200000, 200000, 200500, 300000, 300001, 300003},
    };
    static const size_t n[] = {1, 2, 3, 4, 9};
    (void)state;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        expect_merge(n[i], ends[i]);
}

static void test_nothing(void **state)
{
    static const size_t ends[] = {0, 0};
    (void)state;
    expect_merge(1, ends);
    expect_merge(2, ends);
}

/* A compaction's inputs: keys of the older ones are in the newer ones again. */
static void test_counts_repeats(void **state)
{
    static const size_t ends[] = {20000, 30000, 40000, 60000};
    uint64_t *before = malloc(60000 * sizeof *before);
    (void)state;
    memcpy(before, keys, 60000 * sizeof *before);
    memcpy(keys + 20000, before, 10000 * sizeof *keys);
    memcpy(keys + 30000, before + 5000, 10000 * sizeof *keys);
    expect_merge(4, ends);
    memcpy(keys, before, 60000 * sizeof *before);
    free(before);
}

/* ---- a thread that is cancelled ---- */

static ssize_t cancelling_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    pthread_cancel(pthread_self());
    return pwrite(fd, buf, n, offset);
}

static void *merge_cancelled(void *ctx)
{
    /* static: AddressSanitizer does not clear the frames of a cancelled thread. */
    static struct tamis_merge_report r;
    struct tamis_filter **lists = ctx;
    tamis_list_merge(lists, 2, path_of("cancelled"), NULL, &r, NULL);
    pthread_testcancel();
    return NULL;
}

/* It finishes first, and leaves no temporary file. */
static void test_cancelled(void **state)
{
    pthread_t thread;
    void *result;
    (void)state;
    make_list("a", keys, 5000);
    make_list("b", keys + 5000, 5000);
    size_t n_files = count_files(test_dir);
    struct tamis_filter *lists[] = {open_filter(path_of("a")),
                                    open_filter(path_of("b"))};
    io_calls.pwrite = cancelling_pwrite;
    assert_int_equal(pthread_create(&thread, NULL, merge_cancelled, lists), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    io_calls.pwrite = pwrite;
    assert_true(result == PTHREAD_CANCELED);
    assert_int_equal(count_files(test_dir), n_files + 1);
    assert_int_equal(n_hashes("cancelled"), 10000);
    for (int i = 0; i < 2; i++)
        tamis_filter_close(lists[i]);
    unlink(path_of("a"));
    unlink(path_of("b"));
    unlink(path_of("cancelled"));
}

/* ---- what cannot be merged ---- */

static void expect_refused(const char *a, const char *b, int code, const char *words)
{
    struct tamis_filter *lists[] = {open_filter(path_of(a)), open_filter(path_of(b))};
    struct tamis_merge_report r;
    struct tamis_diag diag;
    assert_int_equal(tamis_list_merge(lists, 2, path_of("m"), NULL, &r, &diag), code);
    if (!strstr(diag.what, words))
        fail_msg("'%s' does not say '%s'", diag.what, words);
    assert_string_equal(diag.file, path_of(b));
    assert_int_equal(r.n_hashes, 0);
    assert_int_not_equal(access(path_of("m"), F_OK), 0);
    tamis_filter_close(lists[0]);
    tamis_filter_close(lists[1]);
}

static void test_unfit(void **state)
{
    struct tamis_domain other;
    (void)state;
    tamis_domain_init(&other, 1, 0xbad);
    make_list("a", keys, 1000);
    make_list_of("narrow", &domain, 40, keys, 1000);
    make_list_of("foreign", &other, 64, keys, 1000);
    finish(builder_of(0.01, 1000), path_of("filter"));
    expect_refused("a", "narrow", TAMIS_ERR_UNFIT, "merge lists of one width");
    expect_refused("a", "foreign", TAMIS_ERR_MISMATCH, "merge lists of one store");
    expect_refused("a", "filter", TAMIS_ERR_UNFIT, "not a list");
    struct tamis_filter *none = NULL;
    assert_int_equal(tamis_list_merge(&none, 1, path_of("m"), NULL, NULL, NULL),
                     TAMIS_ERR_UNFIT);
    assert_int_equal(tamis_list_merge(NULL, 0, path_of("m"), NULL, NULL, NULL),
                     TAMIS_ERR_RANGE);
    struct tamis_filter *a = open_filter(path_of("a"));
    assert_int_equal(tamis_list_merge(&a, 1, path_of("a"), NULL, NULL, NULL),
                     TAMIS_ERR_EXISTS);
    tamis_filter_close(a);
}

/* Cut lists have hashes in common that whole ones had not. */
static void test_narrow(void **state)
{
    (void)state;
    make_list_of("n1", &domain, 16, keys, 40000);
    make_list_of("n2", &domain, 16, keys + 40000, 40000);
    make_list_of("both", &domain, 16, keys, 80000);
    struct tamis_filter *lists[] = {open_filter(path_of("n1")),
                                    open_filter(path_of("n2"))};
    struct tamis_merge_report r;
    assert_int_equal(tamis_list_merge(lists, 2, path_of("n"), NULL, &r, NULL), 0);
    assert_int_equal(r.n_hashes, n_hashes("both"));
    assert_true(r.n_repeats > 10000 && r.n_hashes < 65536);
    tamis_filter_close(lists[0]);
    tamis_filter_close(lists[1]);
}

/* A page that fails ends it, wherever it is, and nothing stays. */
static void test_bad_page(void **state)
{
    size_t n_files;
    (void)state;
    make_list("good", keys, 20000);
    for (unsigned page = 1; page < 20; page += 6) {
        uint8_t byte;
        make_list("bad", keys + 20000, 20000);
        int fd = open(path_of("bad"), O_RDWR | O_CLOEXEC);
        assert_int_equal(pread(fd, &byte, 1, page * PAGE_BYTES + 77), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, page * PAGE_BYTES + 77), 1);
        close(fd);
        n_files = count_files(test_dir);
        expect_refused("good", "bad", TAMIS_ERR_DAMAGED, "fails its check");
        assert_int_equal(count_files(test_dir), n_files);
        unlink(path_of("bad"));
    }
}

static void test_full_disk(void **state)
{
    (void)state;
    make_list("f1", keys, 600000);
    make_list("f2", keys + 300000, 600000);
    struct tamis_filter *lists[] = {open_filter(path_of("f1")),
                                    open_filter(path_of("f2"))};
    size_t n_files = count_files(test_dir);
    unsigned long nth = 1;
    for (int err = ENOSPC; err; nth++) {
        fail_once(CALL_PWRITE, nth, ENOSPC);
        err = tamis_list_merge(lists, 2, path_of("m"), NULL, NULL, NULL);
        fail_never();
        assert_true(err == 0 || err == ENOSPC);
        assert_int_equal(count_files(test_dir), n_files + (err == 0));
    }
    assert_true(nth > 3);
    unlink(path_of("m"));
    tamis_filter_close(lists[0]);
    tamis_filter_close(lists[1]);
}

static int stop_at_second(void *ctx, uint64_t done, uint64_t total)
{
    unsigned *n = ctx;
    assert_true(done <= total);
    return ++*n == 2;
}

static void test_stopped(void **state)
{
    unsigned n = 0;
    struct tamis_merge_options opt = {
        .size = sizeof opt, .progress = stop_at_second, .progress_ctx = &n};
    (void)state;
    make_list("s1", keys, 900000);
    make_list("s2", keys + 100000, 900000);
    struct tamis_filter *lists[] = {open_filter(path_of("s1")),
                                    open_filter(path_of("s2"))};
    size_t n_files = count_files(test_dir);
    assert_int_equal(tamis_list_merge(lists, 2, path_of("m"), &opt, NULL, NULL),
                     ECANCELED);
    assert_int_equal(n, 2);
    assert_int_equal(count_files(test_dir), n_files);
    tamis_filter_close(lists[0]);
    tamis_filter_close(lists[1]);
}

/* ---- filters from lists ---- */

static void test_same_filter(void **state)
{
    static const double errors[] = {0.01, 0.001, 1e-6};
    (void)state;
    make_list("whole", keys, 300000);
    struct tamis_filter *list = open_filter(path_of("whole"));
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct tamis_builder *b = new_builder(errors[i], i ? 1 << 20 : 0);
        assert_int_equal(tamis_builder_add_list(b, list, NULL), 0);
        assert_int_equal(tamis_builder_n_keys(b), 300000);
        finish(b, path_of("listed"));
        finish(builder_of(errors[i], 300000), path_of("hashed"));
        assert_same_file(path_of("listed"), path_of("hashed"));
        unlink(path_of("listed"));
        unlink(path_of("hashed"));
    }
    tamis_filter_close(list);
    unlink(path_of("whole"));
}

static void test_not_from_these(void **state)
{
    struct tamis_domain other;
    struct tamis_diag diag;
    (void)state;
    tamis_domain_init(&other, 1, 0xbad);
    make_list_of("63", &domain, 63, keys, 1000);
    make_list_of("other", &other, 64, keys, 1000);
    struct tamis_builder *b = new_builder(0.01, 0);
    struct tamis_filter *f = open_filter(path_of("63"));
    assert_int_equal(tamis_builder_add_list(b, f, &diag), TAMIS_ERR_UNFIT);
    assert_non_null(strstr(diag.what, "63 bits"));
    tamis_filter_close(f);
    f = open_filter(path_of("other"));
    assert_int_equal(tamis_builder_add_list(b, f, &diag), TAMIS_ERR_MISMATCH);
    tamis_filter_close(f);
    assert_int_equal(tamis_builder_n_keys(b), 0);
    finish(b, path_of("none")); /* as if nothing had been asked */
}

/* With a page lost a filter of the rest would deny keys. */
static void test_not_from_a_bad_list(void **state)
{
    (void)state;
    make_list("rotten", keys, 50000);
    flip(path_of("rotten"), 40 * PAGE_BYTES + 9);
    struct tamis_builder *b = new_builder(0.01, 0);
    struct tamis_filter *f = open_filter(path_of("rotten"));
    assert_int_equal(tamis_builder_add_list(b, f, NULL), TAMIS_ERR_DAMAGED);
    assert_int_equal(tamis_builder_finish_file(b, path_of("r"), NULL), EIO);
    assert_int_not_equal(access(path_of("r"), F_OK), 0);
    tamis_builder_free(b);
    tamis_filter_close(f);
}

/* As long as nothing of it is in, the builder is as before. */
static void test_not_from_a_bad_first_page(void **state)
{
    (void)state;
    unlink(path_of("rotten"));
    make_list("rotten", keys, 50000);
    make_list("sound", keys, 50000);
    flip(path_of("rotten"), PAGE_BYTES + 77);
    struct tamis_builder *b = new_builder(0.01, 0);
    struct tamis_filter *f = open_filter(path_of("rotten"));
    assert_int_equal(tamis_builder_add_list(b, f, NULL), TAMIS_ERR_DAMAGED);
    tamis_filter_close(f);
    f = open_filter(path_of("sound"));
    assert_int_equal(tamis_builder_add_list(b, f, NULL), 0);
    tamis_filter_close(f);
    finish(b, path_of("r"));
    f = open_filter(path_of("r"));
    assert_int_equal(count_absent(f, keys, 50000), 0);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_merges, repeatable, faults_off),
        cmocka_unit_test_setup_teardown(test_nothing, repeatable, faults_off),
        cmocka_unit_test_setup_teardown(test_counts_repeats, repeatable, faults_off),
        cmocka_unit_test_setup_teardown(test_cancelled, repeatable, faults_off),
        cmocka_unit_test_setup_teardown(test_unfit, faults_on, faults_off),
        cmocka_unit_test_setup_teardown(test_narrow, faults_on, faults_off),
        cmocka_unit_test_setup_teardown(test_bad_page, faults_on, faults_off),
        cmocka_unit_test_setup_teardown(test_full_disk, faults_on, faults_off),
        cmocka_unit_test_setup_teardown(test_stopped, faults_on, faults_off),
        cmocka_unit_test_setup_teardown(test_same_filter, repeatable, faults_off),
        cmocka_unit_test_setup_teardown(test_not_from_these, faults_on, faults_off),
        cmocka_unit_test_setup_teardown(test_not_from_a_bad_list, faults_on,
                                        faults_off),
        cmocka_unit_test_setup_teardown(test_not_from_a_bad_first_page, faults_on,
                                        faults_off),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
