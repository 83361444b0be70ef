/* Filters made from filters, union, fold and intersection: the bits are those that the
 * keys would have made. */
#include "tests/support/algebra_support.h"

/* ---- union ---- */

TEST_WITH_KEYS(test_union_of_one_geometry)
{
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N, 0.01),
                                built("c", keys[2], N, 0.01)};
    const uint64_t *sets[] = {keys[0], keys[1], keys[2]};
    const char *out = "union";
    OK(unite(f, 3, out));
    IS(derived.n_stages, 1);
    IS(derived.n_damaged, 0);
    assert_in_range(derived.keys, 3 * N * 99 / 100, 3 * N * 101 / 100);
    check_bits(out, 0, sets, 3);
    check_whole(out);
    double error = measured_error(out);
    assert_true(error > derived.error * 0.9 && error < derived.error * 1.1);
}

TEST_WITH_KEYS(test_union_of_sizes)
{
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N / 4, 0.001)};
    struct tamis_derive_options opt = {.size = sizeof opt, .identity.name = "both"};
    const char *out = "union";
    opt.identity.name_bytes = 4;
    opt.identity.binding = "xy", opt.identity.binding_bytes = 2;
    opt.watermark = 7;
    opt.identity.store_uuid = (const uint8_t *)"0123456789abcdef";
    OK(tamis_filter_derive(f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                           place(out), &opt, &derived, NULL));
    IS(derived.n_stages, 2);
    assert_in_range(derived.keys, N * 5 / 4 * 99 / 100, N * 5 / 4 * 101 / 100);
    check_whole(out);
    check_present(out, keys[0], N);
    check_present(out, keys[1], N / 4);
    double error = measured_error(out);
    assert_true(error > derived.error * 0.85 && error < derived.error * 1.15);
    struct tamis_filter *u = opened_file(out);
    struct tamis_filter_info info = filter_info(u);
    assert_string_equal((const char *)info.name, "both");
    assert_memory_equal(info.binding, "xy", 2);
    IS(info.watermark, 7);
    assert_memory_equal(info.store_uuid, opt.identity.store_uuid, UUID_BYTES);
    IS(info.keys, derived.keys);
    IS(info.domain.tag, domain.tag);
    assert_true(info.growth.error ==
                0.01); /* the largest of theirs, if it is met or not */
}

/* The same shape, the larger one first: two stages all the same. */
TEST_WITH_KEYS(test_union_of_a_smaller_one)
{
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[1], N / 4, 0.01)};
    const char *out = "union";
    OK(unite(f, 2, out));
    IS(derived.n_stages, 2);
    check_whole(out);
    check_present(out, keys[0], N);
    check_present(out, keys[1], N / 4);
}

/* As many blocks and words, but in one lane or two: no key's bits are the same. */
TEST_WITH_KEYS(test_union_of_lanes)
{
    struct tamis_filter *f[] = {built("a", keys[0], N / 2, 0.01),
                                built("b", keys[1], N / 2, 0.0001)};
    struct tamis_filter *back[] = {f[1], f[0]};
    struct geometry a = first_of("a").geometry, b = first_of("b").geometry;
    assert_true(a.n_blocks == b.n_blocks && a.words == b.words && a.lanes < b.lanes);
    for (int i = 0; i < 2; i++) {
        const char *out = "union";
        OK(unite(i ? back : f, 2, out));
        IS(commit_of(place(out)).n_stages, 2);
        assert_true(target_of(out) == 0.01); /* the largest, whichever comes first */
        check_whole(out);
        check_present(out, keys[0], N / 2);
        check_present(out, keys[1], N / 2);
        remove(place(out));
        IS(intersect(i ? back : f, 2, out), TAMIS_ERR_UNFIT);
    }
}

/* Stages of one growth meet; what comes of a union may be a source again. */
TEST_WITH_KEYS(test_union_of_grown)
{
    struct tamis_filter *f[] = {grown("a", keys[0], N), grown("b", keys[1], N),
                                built("c", keys[2], N, 0.01)};
    const char *out = path_of("union"), *again = path_of("again");
    OK(unite(f, 2, out));
    assert_in_range(derived.n_stages, 3, commit_of(path_of("a")).n_stages);
    struct tamis_filter *two[] = {opened_file(out), f[2]};
    OK(unite(two, 2, again));
    check_whole(again);
    for (size_t i = 0; i < 3; i++)
        check_present(again, keys[i], N);
}

/* More than 14 stages want a header of three pages (SPEC.md 6), more than 30 none. */
TEST_WITH_KEYS(test_union_of_many)
{
    enum { MANY = 64 };
    static const double errors[] = {0.1, 0.01, 0.001, 0.0001};
    struct tamis_filter *f[MANY];
    char name[16];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "f%zu", i);
        f[i] = built(name, keys[i % 3], (i / 4 + 1) * 1500, errors[i % 4]);
    }
    const char *out = "union";
    IS(unite(f, MANY, out), TAMIS_ERR_UNFIT);
    assert_non_null(strstr(derive_diag.what, "30"));
    assert_false(exists(place(out)));
    size_t n = MANY; /* some have the size of another */
    while (unite(f, n, out) == TAMIS_ERR_UNFIT)
        n--;
    IS(commit_of(place(out)).n_stages, MAX_STAGES);
    check_whole(out);
    for (size_t i = 0; i < n; i++)
        check_present(out, keys[i % 3], (i / 4 + 1) * 1500);
    /* The first of several stages is the one too many. */
    struct tamis_filter *left_out = f[n], *others[] = {built("x", keys[0], N, 1e-7),
                                                       built("y", keys[1], N, 1e-8)};
    OK(unite(others, 2, "xy"));
    f[n] = opened_file("xy");
    IS(unite(f, n + 1, "more"), TAMIS_ERR_UNFIT);
    assert_false(exists(path_of("more")));
    f[n] = left_out;
}

/* ---- fold ---- */

TEST_WITH_KEYS(test_fold)
{
    const uint64_t *sets[] = {keys[0]};
    struct tamis_filter *f = built("a", keys[0], N, 0.01);
    uint64_t pages = first_of("a").geometry.n_blocks / 64;
    size_t n_folds = 0;
    for (uint64_t factor = 1; factor <= pages; factor++) {
        const char *out = "fold";
        int rc = fold(f, factor, out);
        IS(rc, pages % factor ? TAMIS_ERR_UNFIT : 0);
        IS(exists(place(out)), rc == 0);
        if (rc)
            continue;
        n_folds++;
        IS(first_of(out).geometry.n_blocks, pages / factor * 64);
        IS(derived.keys, N);
        IS(first_of(out).capacity, N);
        double wanted = factor == 1 ? 0.01 : derived.error < 0.5 ? derived.error : 0.5;
        assert_true(fabs(target_of(out) / wanted - 1) < 0.05);
        check_bits(out, 0, sets, 1);
        check_whole(out);
        remove(place(out));
    }
    IS(n_folds, 4);
    IS(fold(f, 0, "fold"), TAMIS_ERR_UNFIT);
}

/* ---- intersection ---- */

TEST_WITH_KEYS(test_intersection)
{
    static uint64_t one[N + N / 2], other[N + N / 2];
    memcpy(one, keys[0], sizeof keys[0]);
    memcpy(other, keys[0], sizeof keys[0]);
    memcpy(one + N, keys[1], sizeof keys[1] / 2);
    memcpy(other + N, keys[2], sizeof keys[2] / 2);
    struct tamis_filter *f[] = {built("a", one, N + N / 2, 0.01),
                                built("b", other, N + N / 2, 0.01)};
    const char *out = "common";
    OK(intersect(f, 2, out));
    check_whole(out);
    check_present(out, keys[0], N);
    assert_true(measured_error(out) < 0.01);
    assert_true(target_of(out) == 0.01);
    struct tamis_filter *common = opened_file(out);
    assert_true(count_absent(common, keys[1], N / 2) > N / 2 * 9 / 10);
}

TEST_WITH_KEYS(test_intersection_of_sizes)
{
    const char *out = "common";
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    uint64_t pages = first_of("a").geometry.n_blocks / 64;
    IS(pages, 8);
    OK(fold(a, 2, "half"));
    struct tamis_filter *f[] = {opened_file("half"), a};
    OK(intersect(f, 2, out));
    check_bits(out, 0, (const uint64_t *const[]){keys[0]}, 1);
}

RUN_TESTS(NULL, NULL)
