/* The error that a filter made from filters states: never below what its bits are. */
#include "tests/support/algebra_support.h"

/* Pages of every stage, `step` apart, in a copy that is opened anew. */
static struct tamis_filter *damaged(const char *name, uint64_t step)
{
    build(name, keys[0], N, 0.001);
    flip_pages(name, step);
    return opened_file(name);
}

static double error_now(const char *path)
{
    struct tamis_estimate e;
    OK(tamis_filter_estimate(opened_file(path), &e, NULL));
    return e.error;
}

/* The error in the report and in the file is that of the blocks. */
static void check_error(const char *path)
{
    double error = error_now(path), stated = 0;
    struct commit c = commit_of(place(path));
    for (uint32_t i = 0; i < c.n_stages; i++)
        stated += c.stages[i].target_error - stated * c.stages[i].target_error;
    assert_true(fabs(derived.error - error) < 1e-9);
    assert_true(fabs(stated - error) < 1e-9);
    assert_true(filter_info(opened_file(path)).expected_error > error * 0.99);
}

TEST_WITH_KEYS(test_damaged)
{
    struct tamis_filter *f[] = {damaged("a", 5), built("b", keys[1], N, 0.001)};
    struct tamis_filter *back[] = {f[1], f[0]};
    OK(fold(f[0], 1, "fold"));
    assert_true(derived.n_damaged > 1);
    assert_in_range(derived.keys, N, N);
    check_error("fold");
    OK(unite(f, 2, "union"));
    check_error("union");
    assert_in_range(derived.keys, 2 * N * 97 / 100, 2 * N * 103 / 100);
    double error = measured_error("union");
    assert_true(error > derived.error * 0.9 && error < derived.error * 1.1);
    OK(intersect(back, 2, "common"));
    check_error("common");
    /* A page copied as ones is no damage any more, and still has bits of no key. */
    f[0] = opened_file("fold");
    OK(fold(f[0], 1, "again"));
    IS(derived.n_damaged, 0);
    check_error("again");
}

/* A filter with damage, and one that such a filter was copied to. */
TEST_WITH_KEYS(test_shrink_of_damaged)
{
    struct tamis_filter *f = damaged("a", 5);
    OK(fold(f, 1, "x"));
    double error = derived.error;
    assert_true(error > 0.002);
    IS(shrink(f, error * 0.99, "y"), TAMIS_ERR_UNFIT);
    assert_true(derived.n_damaged > 0 && derived.error > error * 0.99);
    assert_string_equal(derive_diag.file, path_of("a"));
    assert_false(exists(path_of("y")));
    f = opened_file("x");
    IS(shrink(f, error * 0.99, "y"), TAMIS_ERR_UNFIT);
    IS(derived.n_damaged, 0);
    assert_false(exists(path_of("y")));
    OK(shrink(f, error * 20 < 0.5 ? error * 20 : 0.5, "y"));
    assert_true(derived.error <= error * 20);
}

/* Every page of a source is damaged: its keys, and the other's, are still some. */
TEST_WITH_KEYS(test_full)
{
    struct tamis_filter *f[] = {damaged("a", 1), built("b", keys[1], N, 0.001)};
    OK(unite(f, 2, "union"));
    assert_in_range(derived.keys, 2 * N, 2 * N);
    assert_true(derived.error >= 1);
    IS(first_of("union").keys, 2 * N);
    IS(first_of("union").capacity, 2 * N);
    OK(intersect(f, 1, "one"));
    assert_in_range(derived.keys, N, N);
    /* No more are in both than in the one that has fewer. */
    build("fewer", keys[1], N - 100, 0.001);
    flip_pages("fewer", 1);
    f[0] = opened_file("a"), f[1] = opened_file("fewer");
    struct tamis_filter *back[] = {f[1], f[0]};
    for (int i = 0; i < 2; i++) {
        OK(intersect(i ? back : f, 2, "two"));
        IS(derived.keys, N - 100);
        remove(path_of("two"));
    }
}

/* A filter without keys has no error; a record must state one all the same. */
TEST_WITH_KEYS(test_empty)
{
    struct tamis_filter *f = built("a", keys[0], 0, 0.01);
    OK(unite(&f, 1, "u"));
    IS(derived.keys, 0);
    assert_true(derived.error > 0 && derived.error < 1e-12);
    assert_true(first_of("u").target_error == 0x1p-40);
    check_whole("u");
    assert_true(measured_error("u") == 0);
}

/* A filter of all ones stays so, whatever it is folded to. Its count of keys is never
 * below what may be in it, even if a record says 0, or more than there can be. */
TEST_WITH_KEYS(test_fold_of_full)
{
    struct tamis_filter *a = damaged("a", 1);
    uint64_t pages = first_of("a").geometry.n_blocks / 64;
    OK(fold(a, 1, "full"));
    struct tamis_filter *full = opened_file("full");
    OK(fold(full, pages, "x"));
    assert_true(derived.error >= 1 && derived.keys == N);
    assert_true(target_of("x") == 0.5);
    IS(shrink(full, 0.5, "y"), TAMIS_ERR_UNFIT);
}

TEST_WITH_KEYS(test_keys_of_full)
{
    enum { MANY = 30, SOME = 3000, MOST = 40000 }; /* of a page, MOST and some more */
    static const uint64_t said[] = {0, UINT64_MAX, SOME};
    struct tamis_filter *f[MANY];
    uint8_t ones[64];
    memset(ones, 0xff, sizeof ones);
    for (size_t i = 0; i < 3; i++) {
        build("a", keys[0], SOME, 0.01);
        struct commit c = commit_of(path_of("a"));
        IS(c.stages[0].length, PAGE_BYTES);
        c.keys = c.stages[0].keys = said[i];
        put_commit("a", &c);
        file_poke(path_of("a"), c.stages[0].offset, ones, sizeof ones);
        /* The sum of the one that says most and of another does not fit. */
        size_t n = said[i] == UINT64_MAX ? 2 : MANY;
        for (size_t k = 0; k < n; k++)
            f[k] = k + 1 == n && n == 2 ? built("b", keys[1], SOME, 0.01)
                                        : opened_file("a");
        OK(unite(f, n, "u"));
        assert_true(derived.error >= 1);
        assert_in_range(derived.keys, MOST, 2 * MOST);
        IS(first_of("u").keys, derived.keys);
        forget();
    }
}

/* Bits that lie as no keys would have set them, though no block is full: those of one
 * filter where the other one was damaged, elsewhere what they have in common. */
TEST_WITH_KEYS(test_uneven)
{
    struct tamis_filter *f[] = {damaged("a", 2), built("b", keys[1], N, 0.001)};
    OK(intersect(f, 2, "common"));
    f[0] = opened_file("common");
    OK(unite(f, 1, "union"));
    IS(derived.n_damaged, 0);
    check_error("union");
    struct stage_desc s = first_of("union");
    assert_true(derived.error > 1.2 * plan_geometry_error(&s.geometry, derived.keys));
}

/* An intersection has bits that no key set, here and there. */
TEST_WITH_KEYS(test_common)
{
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N, 0.01)};
    OK(intersect(f, 2, "out"));
    check_error("out");
}

/* Not every block of a large stage is measured, but each block of all ones counts. */
TEST_WITH_KEYS(test_large)
{
    enum { LARGE = 8000000 };
    FREED uint64_t *hashes = malloc(LARGE * sizeof *hashes);
    assert_non_null(hashes);
    random_hashes(hashes, LARGE);
    build("a", hashes, LARGE, 1e-4);
    flip_pages("a", 1001);
    OK(fold(opened_file("a"), 1, "out"));
    assert_true(first_of("out").length > 4096 * PAGE_BYTES);
    IS(first_of("out").offset, PAGE_BYTES);
    assert_in_range(derived.n_damaged, 2, 9);
    double error = error_now("out");
    assert_true(derived.error > error * 0.99 && derived.error < error * 1.01);
}

/* Where nothing is damaged the keys tell it, as they do of a filter that is built. */
TEST_WITH_KEYS(test_whole)
{
    for (double error = 0.1; error > 1e-7; error /= 10) {
        struct tamis_filter *f[] = {built("a", keys[0], N, error),
                                    built("b", keys[1], N, error)};
        OK(unite(f, 2, "out"));
        struct stage_desc s = first_of("out");
        assert_true(s.target_error == plan_geometry_error(&s.geometry, derived.keys));
        remove(path_of("out"));
        OK(fold(f[0], 1, "out"));
        assert_true(derived.error < error * 1.02);
        /* After a fold fewer bits tell the keys. */
        struct stage_desc before = first_of("a");
        uint64_t told = plan_keys_of_bits(&before.geometry, before.bits_set);
        remove(path_of("out"));
        uint64_t pages = before.geometry.n_blocks / 64, least = 2;
        while (pages % least)
            least++;
        OK(fold(f[0], least, "out"));
        s = first_of("out");
        assert_true(s.target_error == plan_geometry_error(&s.geometry, told));
        forget();
    }
}

RUN_TESTS(NULL, NULL)
