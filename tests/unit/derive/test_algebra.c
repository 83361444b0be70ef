/* Filters made from filters, union, fold and intersection: the bits are those that the
 * keys would have made. */
#include "tests/support/algebra_support.h"

#include <math.h>

/* ---- union ---- */

static void test_union_of_one_geometry(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N, 0.01),
                                built("c", keys[2], N, 0.01)};
    const uint64_t *sets[] = {keys[0], keys[1], keys[2]};
    const char *out = path_of("union");
    (void)state;
    assert_int_equal(
        tamis_filter_derive(f, 3, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            out, NULL, &report, NULL),
        0);
    assert_int_equal(report.n_stages, 1);
    assert_int_equal(report.n_damaged, 0);
    assert_in_range(report.keys, 3 * N * 99 / 100, 3 * N * 101 / 100);
    check_bits(out, 0, sets, 3);
    check_whole(out);
    double error = measured_error(out);
    assert_true(error > report.error * 0.9 && error < report.error * 1.1);
    close_all(f, 3);
}

static void test_union_of_sizes(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N / 4, 0.001)};
    struct tamis_derive_options opt = {.size = sizeof opt, .identity.name = "both"};
    const char *out = path_of("union");
    (void)state;
    opt.identity.name_bytes = 4;
    opt.identity.binding = "xy", opt.identity.binding_bytes = 2;
    opt.watermark = 7;
    opt.identity.store_uuid = (const uint8_t *)"0123456789abcdef";
    assert_int_equal(
        tamis_filter_derive(f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            out, &opt, &report, NULL),
        0);
    assert_int_equal(report.n_stages, 2);
    assert_in_range(report.keys, N * 5 / 4 * 99 / 100, N * 5 / 4 * 101 / 100);
    check_whole(out);
    check_present(out, keys[0], N);
    check_present(out, keys[1], N / 4);
    double error = measured_error(out);
    assert_true(error > report.error * 0.85 && error < report.error * 1.15);
    struct tamis_filter *u = open_filter(out);
    struct tamis_filter_info info;
    assert_int_equal(tamis_filter_info(u, &info), 0);
    assert_string_equal(info.name, "both");
    assert_memory_equal(info.binding, "xy", 2);
    assert_int_equal(info.watermark, 7);
    assert_memory_equal(info.store_uuid, opt.identity.store_uuid, UUID_BYTES);
    assert_int_equal(info.keys, report.keys);
    assert_int_equal(info.domain.tag, domain.tag);
    assert_true(info.growth.error ==
                0.01); /* the largest of theirs, if it is met or not */
    tamis_filter_close(u);
    close_all(f, 2);
}

/* The same shape, the larger one first: two stages all the same. */
static void test_union_of_a_smaller_one(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N / 4, 0.01)};
    const char *out = path_of("union");
    (void)state;
    assert_int_equal(
        tamis_filter_derive(f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            out, NULL, &report, NULL),
        0);
    assert_int_equal(report.n_stages, 2);
    check_whole(out);
    check_present(out, keys[0], N);
    check_present(out, keys[1], N / 4);
    close_all(f, 2);
}

/* As many blocks and words, but in one lane or two: no key's bits are the same. */
static void test_union_of_lanes(void **state)
{
    struct tamis_filter *f[] = {built("a", keys[0], N / 2, 0.01),
                                built("b", keys[1], N / 2, 0.0001)};
    struct tamis_filter *back[] = {f[1], f[0]};
    struct geometry a = commit_of(path_of("a")).stages[0].geometry,
                    b = commit_of(path_of("b")).stages[0].geometry;
    (void)state;
    assert_true(a.n_blocks == b.n_blocks && a.words == b.words && a.lanes < b.lanes);
    for (int i = 0; i < 2; i++) {
        const char *out = path_of("union");
        assert_int_equal(
            tamis_filter_derive(i ? back : f, 2,
                                &(struct tamis_derivation){.operation = TAMIS_UNION},
                                out, NULL, NULL, NULL),
            0);
        assert_int_equal(commit_of(out).n_stages, 2);
        assert_true(target_of(out) == 0.01); /* the largest, whichever comes first */
        check_whole(out);
        check_present(out, keys[0], N / 2);
        check_present(out, keys[1], N / 2);
        remove(out);
        assert_int_equal(tamis_filter_derive(i ? back : f, 2,
                                             &(struct tamis_derivation){
                                                 .operation = TAMIS_INTERSECTION},
                                             out, NULL, NULL, NULL),
                         TAMIS_ERR_UNFIT);
    }
    close_all(f, 2);
}

/* Stages of one growth meet; what comes of a union may be a source again. */
static void test_union_of_grown(void **state)
{
    struct tamis_derive_report report;
    struct tamis_filter *f[] = {grown("a", keys[0], N), grown("b", keys[1], N),
                                built("c", keys[2], N, 0.01)};
    const char *out = path_of("union"), *again = path_of("again");
    (void)state;
    assert_int_equal(
        tamis_filter_derive(f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            out, NULL, &report, NULL),
        0);
    assert_in_range(report.n_stages, 3, commit_of(path_of("a")).n_stages);
    struct tamis_filter *two[] = {open_filter(out), f[2]};
    assert_int_equal(tamis_filter_derive(
                         two, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                         again, NULL, &report, NULL),
                     0);
    check_whole(again);
    for (size_t i = 0; i < 3; i++)
        check_present(again, keys[i], N);
    tamis_filter_close(two[0]);
    close_all(f, 3);
}

/* More than 14 stages want a header of three pages (SPEC.md 6), more than 30 none. */
static void test_union_of_many(void **state)
{
    enum { MANY = 64 };
    static const double errors[] = {0.1, 0.01, 0.001, 0.0001};
    struct tamis_filter *f[MANY];
    struct tamis_diag diag;
    char name[16];
    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "f%zu", i);
        f[i] = built(name, keys[i % 3], (i / 4 + 1) * 1500, errors[i % 4]);
    }
    const char *out = path_of("union");
    assert_int_equal(tamis_filter_derive(
                         f, MANY, &(struct tamis_derivation){.operation = TAMIS_UNION},
                         out, NULL, NULL, &diag),
                     TAMIS_ERR_UNFIT);
    assert_non_null(strstr(diag.what, "30"));
    assert_false(exists(out));
    size_t n = MANY; /* some have the size of another */
    while (tamis_filter_derive(f, n,
                               &(struct tamis_derivation){.operation = TAMIS_UNION},
                               out, NULL, NULL, &diag) == TAMIS_ERR_UNFIT)
        n--;
    assert_int_equal(commit_of(out).n_stages, MAX_STAGES);
    check_whole(out);
    for (size_t i = 0; i < n; i++)
        check_present(out, keys[i % 3], (i / 4 + 1) * 1500);
    /* The first of several stages is the one too many. */
    struct tamis_filter *left_out = f[n], *others[] = {built("x", keys[0], N, 1e-7),
                                                       built("y", keys[1], N, 1e-8)};
    assert_int_equal(
        tamis_filter_derive(others, 2,
                            &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("xy"), NULL, NULL, NULL),
        0);
    close_all(others, 2);
    f[n] = open_filter(path_of("xy"));
    assert_int_equal(tamis_filter_derive(
                         f, n + 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                         path_of("more"), NULL, NULL, &diag),
                     TAMIS_ERR_UNFIT);
    assert_false(exists(path_of("more")));
    tamis_filter_close(f[n]);
    f[n] = left_out;
    close_all(f, MANY);
}

/* ---- fold ---- */

static void test_fold(void **state)
{
    const uint64_t *sets[] = {keys[0]};
    struct tamis_filter *f = built("a", keys[0], N, 0.01);
    struct tamis_derive_report report;
    struct tamis_diag diag;
    uint64_t pages = commit_of(path_of("a")).stages[0].geometry.n_blocks / 64;
    size_t n_folds = 0;
    (void)state;
    for (uint64_t factor = 1; factor <= pages; factor++) {
        const char *out = path_of("fold");
        int rc = tamis_filter_derive(
            &f, 1,
            &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = factor}, out,
            NULL, &report, &diag);
        assert_int_equal(rc, pages % factor ? TAMIS_ERR_UNFIT : 0);
        assert_int_equal(exists(out), rc == 0);
        if (rc)
            continue;
        n_folds++;
        assert_int_equal(commit_of(out).stages[0].geometry.n_blocks,
                         pages / factor * 64);
        assert_int_equal(report.keys, N);
        assert_int_equal(commit_of(out).stages[0].capacity, N);
        double wanted = factor == 1 ? 0.01 : report.error < 0.5 ? report.error : 0.5;
        assert_true(fabs(target_of(out) / wanted - 1) < 0.05);
        check_bits(out, 0, sets, 1);
        check_whole(out);
        remove(out);
    }
    assert_int_equal(n_folds, 4);
    assert_int_equal(
        tamis_filter_derive(
            &f, 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 0},
            path_of("fold"), NULL, NULL, NULL),
        TAMIS_ERR_UNFIT);
    tamis_filter_close(f);
}

/* ---- intersection ---- */

static void test_intersection(void **state)
{
    static uint64_t one[N + N / 2], other[N + N / 2];
    struct tamis_derive_report report;
    (void)state;
    memcpy(one, keys[0], sizeof keys[0]);
    memcpy(other, keys[0], sizeof keys[0]);
    memcpy(one + N, keys[1], sizeof keys[1] / 2);
    memcpy(other + N, keys[2], sizeof keys[2] / 2);
    struct tamis_filter *f[] = {built("a", one, N + N / 2, 0.01),
                                built("b", other, N + N / 2, 0.01)};
    const char *out = path_of("common");
    assert_int_equal(
        tamis_filter_derive(f, 2,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            out, NULL, &report, NULL),
        0);
    check_whole(out);
    check_present(out, keys[0], N);
    assert_true(measured_error(out) < 0.01);
    assert_true(target_of(out) == 0.01);
    struct tamis_filter *common = open_filter(out);
    assert_true(count_absent(common, keys[1], N / 2) > N / 2 * 9 / 10);
    tamis_filter_close(common);
    close_all(f, 2);
}

static void test_intersection_of_sizes(void **state)
{
    const char *out = path_of("common");
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    uint64_t pages = commit_of(path_of("a")).stages[0].geometry.n_blocks / 64;
    (void)state;
    assert_int_equal(pages, 8);
    assert_int_equal(
        tamis_filter_derive(
            &a, 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 2},
            path_of("half"), NULL, NULL, NULL),
        0);
    struct tamis_filter *f[] = {open_filter(path_of("half")), a};
    assert_int_equal(
        tamis_filter_derive(f, 2,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            out, NULL, NULL, NULL),
        0);
    check_bits(out, 0, (const uint64_t *const[]){keys[0]}, 1);
    close_all(f, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_union_of_one_geometry),
        TEST(test_union_of_sizes),
        TEST(test_union_of_a_smaller_one),
        TEST(test_union_of_lanes),
        TEST(test_union_of_grown),
        TEST(test_union_of_many),
        TEST(test_fold),
        TEST(test_intersection),
        TEST(test_intersection_of_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
