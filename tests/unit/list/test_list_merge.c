/* Lists merged, and filters made from lists: the same as from the hashes in memory. */
#include "tests/unit/builder/builder_support.h"
#include "lib/list/list.h"

static struct tamis_builder *lister(const struct tamis_domain *d, uint64_t bits)
{
    return BUILDER_AS(.domain = d, .spool_dir = test_dir, .list_bits = bits);
}

static void make_list_of(const char *name, const struct tamis_domain *d, uint64_t bits,
                         const uint64_t *hashes, size_t n)
{
    struct tamis_diag diag;
    BUILDER b = lister(d, bits);
    unlink(path_of(name));
    OK(tamis_builder_add_hashes(b, d->tag, hashes, n));
    if (tamis_builder_finish(b, path_of(name), INTO(.list = 1), NULL, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
}

static void make_list(const char *name, const uint64_t *hashes, size_t n)
{
    make_list_of(name, &domain, 64, hashes, n);
}

/* Two lists that are closed where the block ends. */
static void close_two(struct tamis_filter *(*lists)[2])
{
    tamis_filter_close((*lists)[0]);
    tamis_filter_close((*lists)[1]);
}

#define TWO_LISTS(a, b)                                                                \
    __attribute__((cleanup(close_two))) struct tamis_filter *lists[2] = {              \
        open_filter(path_of(a)), open_filter(path_of(b))}

static uint64_t n_hashes(const char *name)
{
    FILTER f = open_filter(path_of(name));
    return filter_list(f)->n_hashes;
}

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
    IS(n_hashes("merged"), n);
    IS(r.n_hashes, n);
    IS(r.n_read, n_read);
    IS(r.n_repeats, n_read - n);
    size_t merged_bytes, whole_bytes;
    FREED uint8_t *merged = file_read(path_of("merged"), &merged_bytes),
                  *whole = file_read(path_of("whole"), &whole_bytes);
    IS(merged_bytes, whole_bytes);
    IS(r.file_bytes, whole_bytes);
    assert_memory_equal(merged + PAGE_BYTES, whole + PAGE_BYTES,
                        whole_bytes - PAGE_BYTES);
    for (size_t i = 0; i < n_lists; i++) {
        snprintf(name, sizeof name, "l%zu", i);
        tamis_filter_close(lists[i]);
    }
    unlink(path_of("merged"));
}

TEST_WITH(repeatable, faults_off, test_merges)
{
    static const size_t ends[][MOST_LISTS] = {
        {5000},
        {5000, 10000},
        {1, 2, 3},
        {0, 700, 700, 900},
        {0},
        {0, 0},
        {30000, 30001, 90000, 200000, 200000, 200500, 300000, 300001, 300003},
    };
    static const size_t n[] = {1, 2, 3, 4, 1, 2, 9};
    for (size_t i = 0; i < N_OF(n); i++)
        expect_merge(n[i], ends[i]);
}

/* A compaction's inputs: keys of the older ones are in the newer ones again. */
TEST_WITH(repeatable, faults_off, test_counts_repeats)
{
    static const size_t ends[] = {20000, 30000, 40000, 60000};
    FREED uint64_t *before = malloc(60000 * sizeof *before);
    memcpy(before, keys, 60000 * sizeof *before);
    memcpy(keys + 20000, before, 10000 * sizeof *keys);
    memcpy(keys + 30000, before + 5000, 10000 * sizeof *keys);
    expect_merge(4, ends);
    memcpy(keys, before, 60000 * sizeof *before);
}

static void expect_refused(const char *a, const char *b, int code, const char *words)
{
    TWO_LISTS(a, b);
    struct tamis_merge_report r;
    struct tamis_diag diag;
    IS(tamis_list_merge(lists, 2, path_of("m"), NULL, &r, &diag), code);
    if (!strstr(diag.what, words))
        fail_msg("'%s' does not say '%s'", diag.what, words);
    assert_string_equal(diag.file, path_of(b));
    IS(r.n_hashes, 0);
    assert_int_not_equal(access(path_of("m"), F_OK), 0);
}

TEST_WITH_FAULTS(test_unfit)
{
    struct tamis_domain other = domain_of(0xbad);
    make_list("a", keys, 1000);
    make_list_of("narrow", &domain, 40, keys, 1000);
    make_list_of("foreign", &other, 64, keys, 1000);
    finish(builder_of(0.01, 1000), path_of("filter"));
    expect_refused("a", "narrow", TAMIS_ERR_UNFIT, "merge lists of one width");
    expect_refused("a", "foreign", TAMIS_ERR_MISMATCH, "merge lists of one store");
    expect_refused("a", "filter", TAMIS_ERR_UNFIT, "not a list");
    struct tamis_filter *none = NULL;
    IS(tamis_list_merge(&none, 1, path_of("m"), NULL, NULL, NULL), TAMIS_ERR_UNFIT);
    IS(tamis_list_merge(NULL, 0, path_of("m"), NULL, NULL, NULL), TAMIS_ERR_RANGE);
    FILTER a = open_filter(path_of("a"));
    IS(tamis_list_merge(&a, 1, path_of("a"), NULL, NULL, NULL), TAMIS_ERR_EXISTS);
}

/* Cut lists have hashes in common that whole ones had not. */
TEST_WITH_FAULTS(test_narrow)
{
    make_list_of("n1", &domain, 16, keys, 40000);
    make_list_of("n2", &domain, 16, keys + 40000, 40000);
    make_list_of("both", &domain, 16, keys, 80000);
    TWO_LISTS("n1", "n2");
    struct tamis_merge_report r;
    OK(tamis_list_merge(lists, 2, path_of("n"), NULL, &r, NULL));
    IS(r.n_hashes, n_hashes("both"));
    assert_true(r.n_repeats > 10000 && r.n_hashes < 65536);
}

static int stop_at_second(void *ctx, uint64_t done, uint64_t total)
{
    unsigned *n = ctx;
    assert_true(done <= total);
    return ++*n == 2;
}

TEST_WITH_FAULTS(test_stopped)
{
    unsigned n = 0;
    struct tamis_merge_options opt = {
        .size = sizeof opt, .progress = stop_at_second, .progress_ctx = &n};
    make_list("s1", keys, 900000);
    make_list("s2", keys + 100000, 900000);
    TWO_LISTS("s1", "s2");
    size_t n_files = count_files(test_dir);
    IS(tamis_list_merge(lists, 2, path_of("m"), &opt, NULL, NULL), ECANCELED);
    IS(n, 2);
    IS(count_files(test_dir), n_files);
}

TEST_WITH(repeatable, faults_off, test_same_filter)
{
    static const double errors[] = {0.01, 0.001, 1e-6};
    make_list("whole", keys, 300000);
    FILTER list = open_filter(path_of("whole"));
    for (size_t i = 0; i < N_OF(errors); i++) {
        struct tamis_builder *b = new_builder(errors[i], i ? 1 << 20 : 0);
        OK(builder_add_list(b, list, NULL));
        IS(builder_facts(b).n_keys, 300000);
        finish(b, path_of("listed"));
        finish(builder_of(errors[i], 300000), path_of("hashed"));
        assert_same_file(path_of("listed"), path_of("hashed"));
    }
}

TEST_WITH_FAULTS(test_not_from_these)
{
    struct tamis_diag diag;
    struct tamis_domain other = domain_of(0xbad);
    make_list_of("63", &domain, 63, keys, 1000);
    make_list_of("other", &other, 64, keys, 1000);
    struct tamis_builder *b = new_builder(0.01, 0);
    TWO_LISTS("63", "other");
    IS(builder_add_list(b, lists[0], &diag), TAMIS_ERR_UNFIT);
    assert_non_null(strstr(diag.what, "63 bits"));
    IS(builder_add_list(b, lists[1], &diag), TAMIS_ERR_MISMATCH);
    IS(builder_facts(b).n_keys, 0);
    finish(b, path_of("none")); /* as if nothing had been asked */
}

/* With a page lost a filter of the rest would deny keys. */
TEST_WITH_FAULTS(test_not_from_a_bad_list)
{
    make_list("rotten", keys, 50000);
    flip(path_of("rotten"), 40 * PAGE_BYTES + 9);
    BUILDER b = new_builder(0.01, 0);
    FILTER f = open_filter(path_of("rotten"));
    IS(builder_add_list(b, f, NULL), TAMIS_ERR_DAMAGED);
    IS(tamis_builder_finish(b, path_of("r"), NULL, NULL, NULL), EIO);
    assert_int_not_equal(access(path_of("r"), F_OK), 0);
}

/* As long as nothing of it is in, the builder is as before. */
TEST_WITH_FAULTS(test_not_from_a_bad_first_page)
{
    make_list("rotten", keys, 50000);
    make_list("sound", keys, 50000);
    flip(path_of("rotten"), PAGE_BYTES + 77);
    struct tamis_builder *b = new_builder(0.01, 0);
    TWO_LISTS("rotten", "sound");
    IS(builder_add_list(b, lists[0], NULL), TAMIS_ERR_DAMAGED);
    OK(builder_add_list(b, lists[1], NULL));
    finish(b, path_of("r"));
    all_there(path_of("r"), keys, 50000);
}

RUN_TESTS(set_up, test_dir_remove)
