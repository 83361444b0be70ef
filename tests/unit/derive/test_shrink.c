/* Filters that are folded as far as their error allows. */
#include "tests/support/algebra_support.h"

static int shrink(struct tamis_filter *f, double error, const char *out,
                  struct tamis_derive_report *report)
{
    struct tamis_derivation what = {.operation = TAMIS_SHRINK, .error = error};
    return tamis_filter_derive(&f, 1, &what, out, NULL, report, NULL);
}

static void test_shrink(void **state)
{
    struct tamis_filter *f = built("a", keys[0], N, 0.001);
    struct tamis_derive_report report;
    uint64_t last = UINT64_MAX;
    (void)state;
    assert_int_equal(shrink(f, 1e-6, path_of("small"), NULL), TAMIS_ERR_UNFIT);
    assert_false(exists(path_of("small")));
    for (double error = 0.0015; error < 1; error *= 3) {
        const char *out = path_of("small");
        assert_int_equal(shrink(f, error, out, &report), 0);
        assert_true(report.error <= error);
        assert_true(target_of(out) == error);
        assert_true(report.file_bytes <= last);
        last = report.file_bytes;
        check_present(out, keys[0], N);
        assert_true(measured_error(out) < error * 1.1 + 0.0005);
        remove(out);
    }
    assert_true(last < commit_of(path_of("a")).committed_bytes / 2);
    tamis_filter_close(f);
}

/* A lane of any number of pages is folded by what divides them, and by nothing else. */
static void test_shrink_of_odd_sizes(void **state)
{
    unsigned n_odd = 0, n_folded = 0;
    (void)state;
    for (size_t n = N / 4; n <= N; n += N / 16) {
        struct tamis_filter *f = built("a", keys[0], n, 1e-5);
        uint64_t blocks = commit_of(path_of("a")).stages[0].geometry.n_blocks;
        const char *out = path_of("small");
        assert_int_equal(shrink(f, 0.3, out, NULL), 0);
        uint64_t left = commit_of(out).stages[0].geometry.n_blocks;
        assert_int_equal(left % 64, 0);
        assert_int_equal(blocks % left, 0);
        check_whole(out);
        check_present(out, keys[0], n);
        n_odd += blocks / 64 % 2;
        n_folded += left < blocks;
        tamis_filter_close(f);
        remove(path_of("a")), remove(out);
    }
    assert_true(n_odd > 2 && n_folded > 2);
}

/* In a filter that grew, only the last stage has room. */
static void test_shrink_grown(void **state)
{
    struct tamis_filter *f = grown("a", keys[0], N);
    struct commit before = commit_of(path_of("a")), after;
    const char *out = path_of("small");
    uint32_t last = before.n_stages - 1;
    (void)state;
    assert_int_equal(shrink(f, 0.01, out, NULL), 0);
    after = commit_of(out);
    assert_int_equal(after.n_stages, before.n_stages);
    assert_true(after.stages[last].length < before.stages[last].length);
    check_whole(out);
    check_present(out, keys[0], N);
    assert_true(measured_error(out) < 0.0105);
    tamis_filter_close(f);
}

/* With more error allowed all stages have some, and each takes what the others leave.
 */
static void test_shrink_all_stages(void **state)
{
    struct tamis_filter *f = grown("a", keys[0], N);
    uint64_t first = commit_of(path_of("a")).committed_bytes, last = first;
    struct tamis_derive_report report;
    const char *out = path_of("small");
    (void)state;
    for (double error = 0.011; error < 0.5; error *= 1.25) {
        assert_int_equal(shrink(f, error, out, &report), 0);
        assert_true(report.error <= error);
        assert_true(report.file_bytes <= last);
        last = report.file_bytes;
        check_whole(out);
        check_present(out, keys[0], N);
        if (error > 0.04 && error < 0.05)
            assert_true(last < first * 2 / 3);
        remove(out);
    }
    assert_true(last < first / 3);
    tamis_filter_close(f);
}

/* Blocks come in runs of four equal ones. Factor 3 unites two runs in places, which
 * adds error; factor 4 unites equal blocks, which adds none. */
static void test_shrink_of_repeats(void **state)
{
    enum { BLOCKS = 12 * 64, RUN = 4 };
    static uint64_t hashes[N];
    const char *out = path_of("small");
    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t block = i / RUN % (BLOCKS / RUN) * RUN + i % RUN;
        uint64_t first = UINT64_MAX / BLOCKS * block + (UINT64_MAX / BLOCKS >> 1);
        hashes[i] = first >> 32 << 32 | (uint32_t)keys[0][i / RUN];
    }
    struct tamis_filter *f = built("a", hashes, N, 0.001);
    assert_int_equal(commit_of(path_of("a")).stages[0].geometry.n_blocks, BLOCKS);
    assert_int_equal(shrink(f, 0.0015, out, NULL), 0);
    assert_int_equal(commit_of(out).stages[0].geometry.n_blocks, BLOCKS / RUN);
    check_bits(out, 0, (const uint64_t *const[]){hashes}, 1);
    tamis_filter_close(f);
}

/* At the least error of a fold a shrink saves space; below it, it saves nothing. */
static void test_least_fold(void **state)
{
    struct tamis_filter *f[] = {grown("a", keys[0], N), built("b", keys[1], N, 0.001)};
    const char *out = path_of("small");
    (void)state;
    assert_int_equal(tamis_filter_least_fold(f[0], NULL, NULL), TAMIS_ERR_RANGE);
    for (size_t i = 0; i < 2; i++) {
        struct tamis_derive_report below, at;
        double least;
        assert_int_equal(tamis_filter_least_fold(f[i], &least, NULL), 0);
        assert_true(least > 0.001 && least < 0.1);
        assert_int_equal(shrink(f[i], least * 0.999999, out, &below), 0);
        remove(out);
        assert_int_equal(shrink(f[i], least, out, &at), 0);
        remove(out);
        assert_true(at.file_bytes < below.file_bytes);
        tamis_filter_close(f[i]);
    }
}

/* It looks at no page. A damaged one counts as ones, so the shrink fails. */
static void test_least_fold_of_damage(void **state)
{
    struct tamis_filter *f = built("a", keys[0], N, 0.001);
    struct tamis_derive_report report;
    const char *out = path_of("small");
    double least, same;
    (void)state;
    assert_int_equal(tamis_filter_least_fold(f, &least, NULL), 0);
    tamis_filter_close(f);
    flip_pages(path_of("a"), 4);
    f = open_filter(path_of("a"));
    assert_int_equal(tamis_filter_least_fold(f, &same, NULL), 0);
    assert_true(same == least);
    assert_int_equal(shrink(f, least, out, &report), TAMIS_ERR_UNFIT);
    assert_true(report.n_damaged > 0);
    assert_false(exists(out));
    tamis_filter_close(f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shrink),
        TEST(test_shrink_of_odd_sizes),
        TEST(test_shrink_grown),
        TEST(test_shrink_all_stages),
        TEST(test_shrink_of_repeats),
        TEST(test_least_fold),
        TEST(test_least_fold_of_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
