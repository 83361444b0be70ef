/* The error that a filter made from filters states: never below what its bits are. */
#include "tests/support/algebra_support.h"

#include <math.h>

/* Pages of every stage, `step` apart, in a copy that is opened anew. */
static struct tamis_filter *damaged(const char *name, uint64_t step)
{
    struct tamis_filter *f = built(name, keys[0], N, 0.001);
    tamis_filter_close(f);
    flip_pages(path_of(name), step);
    return open_filter(path_of(name));
}

static double error_now(const char *path)
{
    struct tamis_estimate e;
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(tamis_filter_estimate(f, &e, NULL), 0);
    tamis_filter_close(f);
    return e.error;
}

/* The error in the report and in the file is that of the blocks. */
static void check_error(const char *path, const struct tamis_derive_report *r)
{
    double error = error_now(path), stated = 0;
    struct commit c = commit_of(path);
    for (uint32_t i = 0; i < c.n_stages; i++)
        stated += c.stages[i].target_error - stated * c.stages[i].target_error;
    assert_true(fabs(r->error - error) < 1e-9);
    assert_true(fabs(stated - error) < 1e-9);
    struct tamis_filter *f = open_filter(path);
    struct tamis_filter_info info;
    tamis_filter_info(f, &info);
    assert_true(info.expected_error > error * 0.99);
    tamis_filter_close(f);
}

static void test_damaged(void **state)
{
    struct tamis_derive_report r;
    struct tamis_filter *f[] = {damaged("a", 5), built("b", keys[1], N, 0.001)};
    struct tamis_filter *back[] = {f[1], f[0]};
    (void)state;
    assert_int_equal(
        tamis_filter_derive(
            &f[0], 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 1},
            path_of("fold"), NULL, &r, NULL),
        0);
    assert_true(r.n_damaged > 1);
    assert_in_range(r.keys, N, N);
    check_error(path_of("fold"), &r);
    assert_int_equal(
        tamis_filter_derive(f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("union"), NULL, &r, NULL),
        0);
    check_error(path_of("union"), &r);
    assert_in_range(r.keys, 2 * N * 97 / 100, 2 * N * 103 / 100);
    double error = measured_error(path_of("union"));
    assert_true(error > r.error * 0.9 && error < r.error * 1.1);
    assert_int_equal(
        tamis_filter_derive(back, 2,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            path_of("common"), NULL, &r, NULL),
        0);
    check_error(path_of("common"), &r);
    close_all(f, 2);
    /* A page copied as ones is no damage any more, and still has bits of no key. */
    f[0] = open_filter(path_of("fold"));
    assert_int_equal(
        tamis_filter_derive(
            &f[0], 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 1},
            path_of("again"), NULL, &r, NULL),
        0);
    assert_int_equal(r.n_damaged, 0);
    check_error(path_of("again"), &r);
    tamis_filter_close(f[0]);
}

/* A filter with damage, and one that such a filter was copied to. */
static void test_shrink_of_damaged(void **state)
{
    struct tamis_derive_report r;
    struct tamis_diag diag;
    struct tamis_filter *f = damaged("a", 5);
    (void)state;
    assert_int_equal(
        tamis_filter_derive(
            &f, 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 1},
            path_of("x"), NULL, &r, NULL),
        0);
    double error = r.error;
    assert_true(error > 0.002);
    assert_int_equal(
        tamis_filter_derive(&f, 1,
                            &(struct tamis_derivation){.operation = TAMIS_SHRINK,
                                                       .error = error * 0.99},
                            path_of("y"), NULL, &r, &diag),
        TAMIS_ERR_UNFIT);
    assert_true(r.n_damaged > 0 && r.error > error * 0.99);
    assert_string_equal(diag.file, path_of("a"));
    assert_false(exists(path_of("y")));
    tamis_filter_close(f);
    f = open_filter(path_of("x"));
    assert_int_equal(
        tamis_filter_derive(&f, 1,
                            &(struct tamis_derivation){.operation = TAMIS_SHRINK,
                                                       .error = error * 0.99},
                            path_of("y"), NULL, &r, NULL),
        TAMIS_ERR_UNFIT);
    assert_int_equal(r.n_damaged, 0);
    assert_false(exists(path_of("y")));
    assert_int_equal(
        tamis_filter_derive(
            &f, 1,
            &(struct tamis_derivation){.operation = TAMIS_SHRINK,
                                       .error = error * 20 < 0.5 ? error * 20 : 0.5},
            path_of("y"), NULL, &r, NULL),
        0);
    assert_true(r.error <= error * 20);
    tamis_filter_close(f);
}

/* Every page of a source is damaged: its keys, and the other's, are still some. */
static void test_full(void **state)
{
    struct tamis_derive_report r;
    struct tamis_filter *f[] = {damaged("a", 1), built("b", keys[1], N, 0.001)};
    (void)state;
    assert_int_equal(
        tamis_filter_derive(f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("union"), NULL, &r, NULL),
        0);
    assert_in_range(r.keys, 2 * N, 2 * N);
    assert_true(r.error >= 1);
    assert_int_equal(commit_of(path_of("union")).stages[0].keys, 2 * N);
    assert_int_equal(commit_of(path_of("union")).stages[0].capacity, 2 * N);
    assert_int_equal(
        tamis_filter_derive(f, 1,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            path_of("one"), NULL, &r, NULL),
        0);
    assert_in_range(r.keys, N, N);
    close_all(f, 2);
    /* No more are in both than in the one that has fewer. */
    build("fewer", keys[1], N - 100, 0.001);
    flip_pages(path_of("fewer"), 1);
    f[0] = open_filter(path_of("a")), f[1] = open_filter(path_of("fewer"));
    struct tamis_filter *back[] = {f[1], f[0]};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tamis_filter_derive(i ? back : f, 2,
                                             &(struct tamis_derivation){
                                                 .operation = TAMIS_INTERSECTION},
                                             path_of("two"), NULL, &r, NULL),
                         0);
        assert_int_equal(r.keys, N - 100);
        remove(path_of("two"));
    }
    close_all(f, 2);
}

/* A filter without keys has no error; a record must state one all the same. */
static void test_empty(void **state)
{
    struct tamis_derive_report r;
    struct tamis_filter *f = built("a", keys[0], 0, 0.01);
    (void)state;
    assert_int_equal(
        tamis_filter_derive(&f, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("u"), NULL, &r, NULL),
        0);
    assert_int_equal(r.keys, 0);
    assert_true(r.error > 0 && r.error < 1e-12);
    assert_true(commit_of(path_of("u")).stages[0].target_error == 0x1p-40);
    check_whole(path_of("u"));
    assert_true(measured_error(path_of("u")) == 0);
    tamis_filter_close(f);
}

/* A filter of all ones stays so, whatever it is folded to. Its count of keys is never
 * below what may be in it, even if a record says 0, or more than there can be. */
static void test_fold_of_full(void **state)
{
    struct tamis_derive_report r;
    struct tamis_filter *a = damaged("a", 1);
    uint64_t pages = commit_of(path_of("a")).stages[0].geometry.n_blocks / 64;
    (void)state;
    assert_int_equal(
        tamis_filter_derive(
            &a, 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 1},
            path_of("full"), NULL, &r, NULL),
        0);
    struct tamis_filter *full = open_filter(path_of("full"));
    assert_int_equal(tamis_filter_derive(&full, 1,
                                         &(struct tamis_derivation){
                                             .operation = TAMIS_FOLD, .factor = pages},
                                         path_of("x"), NULL, &r, NULL),
                     0);
    assert_true(r.error >= 1 && r.keys == N);
    assert_true(target_of(path_of("x")) == 0.5);
    assert_int_equal(tamis_filter_derive(&full, 1,
                                         &(struct tamis_derivation){
                                             .operation = TAMIS_SHRINK, .error = 0.5},
                                         path_of("y"), NULL, NULL, NULL),
                     TAMIS_ERR_UNFIT);
    tamis_filter_close(a), tamis_filter_close(full);
}

static void test_keys_of_full(void **state)
{
    enum { MANY = 30, SOME = 3000, MOST = 40000 }; /* of a page, MOST and some more */
    static const uint64_t said[] = {0, UINT64_MAX, SOME};
    struct tamis_derive_report r;
    struct tamis_filter *f[MANY];
    uint8_t ones[64];
    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (size_t i = 0; i < 3; i++) {
        build("a", keys[0], SOME, 0.01);
        struct commit c = commit_of(path_of("a"));
        assert_int_equal(c.stages[0].length, PAGE_BYTES);
        c.keys = c.stages[0].keys = said[i];
        put_commit(path_of("a"), &c);
        file_poke(path_of("a"), c.stages[0].offset, ones, sizeof ones);
        /* The sum of the one that says most and of another does not fit. */
        size_t n = said[i] == UINT64_MAX ? 2 : MANY;
        for (size_t k = 0; k < n; k++)
            f[k] = k + 1 == n && n == 2 ? built("b", keys[1], SOME, 0.01)
                                        : open_filter(path_of("a"));
        assert_int_equal(tamis_filter_derive(
                             f, n, &(struct tamis_derivation){.operation = TAMIS_UNION},
                             path_of("u"), NULL, &r, NULL),
                         0);
        assert_true(r.error >= 1);
        assert_in_range(r.keys, MOST, 2 * MOST);
        assert_int_equal(commit_of(path_of("u")).stages[0].keys, r.keys);
        close_all(f, n);
        remove(path_of("a")), remove(path_of("b")), remove(path_of("u"));
    }
}

/* Bits that lie as no keys would have set them, though no block is full: those of one
 * filter where the other one was damaged, elsewhere what they have in common. */
static void test_uneven(void **state)
{
    struct tamis_derive_report r;
    struct tamis_filter *f[] = {damaged("a", 2), built("b", keys[1], N, 0.001)};
    (void)state;
    assert_int_equal(
        tamis_filter_derive(f, 2,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            path_of("common"), NULL, &r, NULL),
        0);
    close_all(f, 2);
    f[0] = open_filter(path_of("common"));
    assert_int_equal(
        tamis_filter_derive(f, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("union"), NULL, &r, NULL),
        0);
    assert_int_equal(r.n_damaged, 0);
    check_error(path_of("union"), &r);
    struct stage_desc s = commit_of(path_of("union")).stages[0];
    assert_true(r.error > 1.2 * plan_geometry_error(&s.geometry, r.keys));
    tamis_filter_close(f[0]);
}

/* An intersection has bits that no key set, here and there. */
static void test_common(void **state)
{
    struct tamis_derive_report r;
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N, 0.01)};
    (void)state;
    assert_int_equal(
        tamis_filter_derive(f, 2,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            path_of("out"), NULL, &r, NULL),
        0);
    check_error(path_of("out"), &r);
    close_all(f, 2);
}

/* Not every block of a large stage is measured, but each block of all ones counts. */
static void test_large(void **state)
{
    enum { LARGE = 8000000 };
    struct tamis_derive_report r;
    uint64_t *hashes = malloc(LARGE * sizeof *hashes);
    (void)state;
    assert_non_null(hashes);
    for (size_t i = 0; i < LARGE; i++)
        hashes[i] = random_u64();
    tamis_filter_close(built("a", hashes, LARGE, 1e-4));
    flip_pages(path_of("a"), 1001);
    struct tamis_filter *f = open_filter(path_of("a"));
    assert_int_equal(
        tamis_filter_derive(
            &f, 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 1},
            path_of("out"), NULL, &r, NULL),
        0);
    assert_true(commit_of(path_of("out")).stages[0].length > 4096 * PAGE_BYTES);
    assert_int_equal(commit_of(path_of("out")).stages[0].offset, PAGE_BYTES);
    assert_in_range(r.n_damaged, 2, 9);
    double error = error_now(path_of("out"));
    assert_true(r.error > error * 0.99 && r.error < error * 1.01);
    tamis_filter_close(f);
    free(hashes);
}

/* Where nothing is damaged the keys tell it, as they do of a filter that is built. */
static void test_whole(void **state)
{
    struct tamis_derive_report r;
    (void)state;
    for (double error = 0.1; error > 1e-7; error /= 10) {
        struct tamis_filter *f[] = {built("a", keys[0], N, error),
                                    built("b", keys[1], N, error)};
        assert_int_equal(tamis_filter_derive(
                             f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                             path_of("out"), NULL, &r, NULL),
                         0);
        struct stage_desc s = commit_of(path_of("out")).stages[0];
        assert_true(s.target_error == plan_geometry_error(&s.geometry, r.keys));
        remove(path_of("out"));
        assert_int_equal(tamis_filter_derive(&f[0], 1,
                                             &(struct tamis_derivation){
                                                 .operation = TAMIS_FOLD, .factor = 1},
                                             path_of("out"), NULL, &r, NULL),
                         0);
        assert_true(r.error < error * 1.02);
        /* After a fold fewer bits tell the keys. */
        struct stage_desc before = commit_of(path_of("a")).stages[0];
        uint64_t told = plan_keys_of_bits(&before.geometry, before.bits_set);
        remove(path_of("out"));
        uint64_t pages = before.geometry.n_blocks / 64, least = 2;
        while (pages % least)
            least++;
        assert_int_equal(
            tamis_filter_derive(
                &f[0], 1,
                &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = least},
                path_of("out"), NULL, &r, NULL),
            0);
        s = commit_of(path_of("out")).stages[0];
        assert_true(s.target_error == plan_geometry_error(&s.geometry, told));
        close_all(f, 2);
        remove(path_of("a")), remove(path_of("b")), remove(path_of("out"));
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_damaged),      TEST(test_shrink_of_damaged),
        TEST(test_full),         TEST(test_empty),
        TEST(test_fold_of_full), TEST(test_keys_of_full),
        TEST(test_uneven),       TEST(test_common),
        TEST(test_large),        TEST(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
