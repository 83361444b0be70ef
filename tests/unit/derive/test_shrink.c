/* Filters that are folded as far as their error allows. */
#include "tests/support/algebra_support.h"

TEST_WITH_KEYS(test_shrink)
{
    struct tamis_filter *f = built("a", keys[0], N, 0.001);
    uint64_t last = UINT64_MAX;
    IS(shrink(f, 1e-6, "small"), TAMIS_ERR_UNFIT);
    assert_false(exists(path_of("small")));
    for (double error = 0.0015; error < 1; error *= 3) {
        const char *out = "small";
        IS(shrink(f, error, out), 0);
        assert_true(derived.error <= error);
        assert_true(target_of(out) == error);
        assert_true(derived.file_bytes <= last);
        last = derived.file_bytes;
        check_present(out, keys[0], N);
        assert_true(measured_error(out) < error * 1.1 + 0.0005);
    }
    assert_true(last < commit_of(path_of("a")).committed_bytes / 2);
}

/* A lane of any number of blocks is folded by their divisors, and by nothing else. */
TEST_WITH_KEYS(test_shrink_of_odd_sizes)
{
    unsigned n_odd = 0, n_folded = 0;
    for (size_t n = N / 4; n <= N; n += N / 16) {
        struct tamis_filter *f = built("a", keys[0], n, 1e-5);
        uint64_t blocks = first_of("a").geometry.n_blocks;
        const char *out = "small";
        IS(shrink(f, 0.3, out), 0);
        uint64_t left = first_of(out).geometry.n_blocks;
        IS(blocks % left, 0);
        check_whole(out);
        check_present(out, keys[0], n);
        n_odd += (blocks & (blocks - 1)) != 0;
        n_folded += left < blocks;
        forget();
    }
    assert_true(n_odd > 2 && n_folded > 2);
}

/* In a filter that grew, only the last stage has room. */
TEST_WITH_KEYS(test_shrink_grown)
{
    struct tamis_filter *f = grown("a", keys[0], N);
    struct commit before = commit_of(path_of("a")), after;
    const char *out = "small";
    uint32_t last = before.n_stages - 1;
    IS(shrink(f, 0.01, out), 0);
    after = commit_of(place(out));
    IS(after.n_stages, before.n_stages);
    assert_true(after.stages[last].length < before.stages[last].length);
    check_whole(out);
    check_present(out, keys[0], N);
    assert_true(measured_error(out) < 0.0105);
}

/* If more error is allowed, all stages take a part of it. */
TEST_WITH_KEYS(test_shrink_all_stages)
{
    struct tamis_filter *f = grown("a", keys[0], N);
    uint64_t first = commit_of(path_of("a")).committed_bytes, last = first;
    const char *out = "small";
    for (double error = 0.011; error < 0.5; error *= 1.25) {
        IS(shrink(f, error, out), 0);
        assert_true(derived.error <= error);
        assert_true(derived.file_bytes <= last);
        last = derived.file_bytes;
        check_whole(out);
        check_present(out, keys[0], N);
        if (error > 0.04 && error < 0.05)
            assert_true(last < first * 2 / 3);
    }
    assert_true(last < first / 3);
}

/* At the least error of a fold a shrink saves space; below it, it saves nothing. */
TEST_WITH_KEYS(test_least_fold)
{
    struct tamis_filter *f[] = {grown("a", keys[0], N), built("b", keys[1], N, 0.001)};
    const char *out = "small";
    IS(tamis_filter_least_fold(f[0], NULL, NULL), TAMIS_ERR_RANGE);
    for (size_t i = 0; i < 2; i++) {
        uint64_t below;
        double least;
        OK(tamis_filter_least_fold(f[i], &least, NULL));
        assert_true(least > 0.001 && least < 0.1);
        IS(shrink(f[i], least * 0.999999, out), 0);
        below = derived.file_bytes;
        IS(shrink(f[i], least, out), 0);
        assert_true(derived.file_bytes < below);
    }
}

/* It looks at no page. A damaged one counts as ones, so the shrink fails. */
TEST_WITH_KEYS(test_least_fold_of_damage)
{
    struct tamis_filter *f = built("a", keys[0], N, 0.001);
    const char *out = "small";
    double least, same;
    OK(tamis_filter_least_fold(f, &least, NULL));
    flip_pages("a", 4);
    f = opened_file("a");
    OK(tamis_filter_least_fold(f, &same, NULL));
    assert_true(same == least);
    IS(shrink(f, least, out), TAMIS_ERR_UNFIT);
    assert_true(derived.n_damaged > 0);
    assert_false(exists(place(out)));
}

RUN_TESTS(NULL, NULL)
