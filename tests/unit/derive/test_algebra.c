/* Filters made from filters, union, fold and intersection: the bits are those that the
 * keys would have made, and the stated error is never below theirs. Comparisons of
 * filters are true, also with damaged pages. */
#include "tests/support/algebra_support.h"

static int equal_now(struct tamis_filter *one, struct tamis_filter *other)
{
    int equal = 7, back = 7;
    OK(tamis_filter_equal(one, other, &equal, NULL));
    OK(tamis_filter_equal(other, one, &back, NULL));
    IS(equal, back);
    return equal;
}

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

TEST_WITH_KEYS(test_fold)
{
    const uint64_t *sets[] = {keys[0]};
    struct tamis_filter *f = built("a", keys[0], N, 0.01);
    uint64_t n_blocks = first_of("a").geometry.n_blocks;
    size_t n_folds = 0;
    for (uint64_t factor = 1; factor <= 8; factor++) {
        const char *out = "fold";
        int rc = fold(f, factor, out);
        IS(rc, n_blocks % factor ? TAMIS_ERR_UNFIT : 0);
        IS(exists(place(out)), rc == 0);
        if (rc)
            continue;
        n_folds++;
        IS(first_of(out).geometry.n_blocks, n_blocks / factor);
        IS(derived.keys, N);
        IS(first_of(out).capacity, N);
        double wanted = factor == 1 ? 0.01 : derived.error < 0.5 ? derived.error : 0.5;
        assert_true(fabs(target_of(out) / wanted - 1) < 0.05);
        check_bits(out, 0, sets, 1);
        check_whole(out);
    }
    IS(n_folds, 4);
    IS(fold(f, 0, "fold"), TAMIS_ERR_UNFIT);
}

/* Lanes that do not begin at a page: what is behind the last one is no key's. */
TEST_WITH_KEYS(test_lanes_share_pages)
{
    enum { FEW = 1500 };
    const char *out = "out";
    struct tamis_filter *f[] = {built("a", keys[0], FEW, 1e-6),
                                built("b", keys[1], FEW, 1e-6)};
    struct geometry g = first_of("a").geometry;
    assert_true(g.lanes > 1 && g.n_blocks % 2 == 0 &&
                g.lanes * g.n_blocks % BLOCKS_PER_PAGE != 0);
    OK(fold(f[0], 2, out));
    check_whole(out);
    check_present(out, keys[0], FEW);
    assert_true(measured_error(out) < 2 * derived.error);
    OK(unite(f, 2, out));
    check_present(out, keys[0], FEW);
    check_present(out, keys[1], FEW);
    assert_in_range(derived.keys, 2 * FEW * 98 / 100, 2 * FEW * 102 / 100);
    OK(intersect((struct tamis_filter *[]){f[1], opened_file(out)}, 2, "common"));
    IS(equal_now(f[1], opened_file("common")), 1);
    /* A page that fails is ones, up to the last block. */
    flip_pages("a", 1);
    f[0] = opened_file("a");
    OK(unite(f, 2, out));
    assert_true(derived.error >= 1 && derived.n_damaged > 0);
    IS(first_of(out).bits_set, g.lanes * g.n_blocks * BLOCK_BITS);
}

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
    OK(fold(a, 2, "half"));
    struct tamis_filter *f[] = {opened_file("half"), a};
    OK(intersect(f, 2, out));
    check_bits(out, 0, (const uint64_t *const[]){keys[0]}, 1);
}

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
    OK(tamis_filter_estimate(opened_file(path), 0, 0, &e, NULL));
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
        OK(fold(f[0], 1, "out"));
        assert_true(derived.error < error * 1.02);
        /* After a fold fewer bits tell the keys. */
        struct stage_desc before = first_of("a");
        uint64_t told = plan_keys_of_bits(&before.geometry, before.bits_set);
        uint64_t n_blocks = before.geometry.n_blocks, least = 2;
        while (n_blocks % least)
            least++;
        OK(fold(f[0], least, "out"));
        s = first_of("out");
        assert_true(s.target_error == plan_geometry_error(&s.geometry, told));
        forget();
    }
}

/* ---- containment and equality ---- */

static enum tamis_answer contains(struct tamis_filter *whole, struct tamis_filter *part)
{
    struct tamis_comparison c;
    OK(tamis_filter_compare(part, whole, &c, NULL));
    return c.in[0];
}

/* A filter of these keys and the geometry of one of N keys. */
static struct tamis_filter *of_size(const char *name, const uint64_t *hashes, size_t n)
{
    static uint64_t padded[N];
    for (size_t i = 0; i < N; i++)
        padded[i] = hashes[i % n];
    /* Equal neighbours alone count as one key: these are sized for N. */
    return built(name, padded, n == 1 ? 1 : N, 0.01);
}

/* Folded by this factor; *name is a file that is not there. */
static struct tamis_filter *folded(struct tamis_filter *f, uint64_t factor,
                                   const char *name)
{
    OK(fold(f, factor, name));
    return opened_file(name);
}

static uint64_t blocks_of(struct tamis_filter *f)
{
    return filter_info(f).stages[0].n_blocks;
}

TEST_WITH_KEYS(test_contains)
{
    struct tamis_filter *whole = built("whole", keys[0], N, 0.01);
    struct tamis_filter *part = of_size("part", keys[0], N / 10);
    struct tamis_filter *other = of_size("other", keys[1], N / 10);
    IS(contains(whole, part), TAMIS_MAYBE);
    IS(contains(whole, whole), TAMIS_MAYBE);
    IS(contains(whole, other), TAMIS_ABSENT);
    IS(contains(part, whole), TAMIS_ABSENT);
    /* Folded, the one or the other. */
    struct tamis_filter *half = folded(whole, 2, "half");
    IS(contains(half, part), TAMIS_MAYBE);
    IS(contains(whole, half), TAMIS_MAYBE);
    IS(contains(half, other), TAMIS_ABSENT);
    IS(contains(other, half), TAMIS_ABSENT);
}

/* Halves and thirds of one size: neither divides the other, and both fold to sixths. */
TEST_WITH_KEYS(sizes_fold_to_what_divides_both)
{
    size_t n = N;
    struct tamis_filter *a = built("a", keys[0], n, 0.01);
    while (blocks_of(a) % (6 * BLOCKS_PER_PAGE)) {
        n -= 100;
        a = built("a", keys[0], n, 0.01);
    }
    struct tamis_filter *b = built("b", keys[1], n, 0.01);
    struct tamis_filter *half = folded(a, 2, "half"), *third = folded(a, 3, "third"),
                        *other = folded(b, 3, "other");
    struct tamis_comparison c;
    IS(contains(half, third), TAMIS_MAYBE);
    IS(contains(third, half), TAMIS_MAYBE);
    IS(contains(half, other), TAMIS_ABSENT);
    OK(tamis_filter_compare(half, third, &c, NULL));
    assert_true(c.common.low <= (double)n && c.common.high >= (double)n);
    IS(tamis_filter_compare(half, other, &c, NULL), 0);
    assert_true(c.all.low <= 2.0 * (double)n && c.all.high >= 2.0 * (double)n);
    struct tamis_filter *both[] = {half, third};
    OK(intersect(both, 2, "common"));
    struct tamis_filter *common = opened_file("common");
    IS(blocks_of(common), blocks_of(a) / 6);
    check_present("common", keys[0], n);
}

/* A filter of one key is the question for that key. */
TEST_WITH_KEYS(test_contains_one_key)
{
    size_t n_absent = 0;
    for (size_t i = 0; i < 200; i++) {
        struct tamis_filter *whole = built("whole", keys[0], 200, 0.01);
        struct tamis_filter *in = built("in", &keys[0][i], 1, 0.01);
        struct tamis_filter *out = built("out", &keys[1][i], 1, 0.01);
        IS(contains(whole, in), TAMIS_MAYBE);
        n_absent += contains(whole, out) == TAMIS_ABSENT;
        forget();
    }
    assert_true(n_absent > 180);
}

TEST_WITH_KEYS(test_contains_of_damaged)
{
    build("whole", keys[0], N, 0.01), build("part", keys[0], N, 0.01);
    /* Lost bits of the whole are no proof; nor are the ones of damaged parts. */
    flip_pages("whole", 1);
    IS(contains(opened_file("whole"), opened_file("part")), TAMIS_MAYBE);
    build("sound", keys[0], N, 0.01);
    uint8_t ones[64];
    memset(ones, 0xff, sizeof ones);
    file_poke(path_of("part"), first_of("part").offset, ones, 64);
    IS(contains(opened_file("sound"), opened_file("part")), TAMIS_MAYBE);
}

/* A page that was damaged before, and was copied as ones with a good digest, proves
 * nothing either. */
TEST_WITH_KEYS(test_contains_of_mended)
{
    build("whole", keys[0], N, 0.01), build("part", keys[0], N, 0.01);
    flip_pages("part", 3);
    OK(fold(opened_file("part"), 1, "mended"));
    assert_true(derived.n_damaged > 0);
    check_whole("mended");
    IS(contains(opened_file("whole"), opened_file("mended")), TAMIS_MAYBE);
}

/* One of them is damaged. */
static void check_unknown(struct tamis_filter *one, struct tamis_filter *other)
{
    int equal = 7;
    IS(tamis_filter_equal(one, other, &equal, NULL), TAMIS_ERR_DAMAGED);
    IS(equal, 0);
}

TEST_WITH_KEYS(test_equal)
{
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[0], N, 0.01),
                                built("c", keys[1], N, 0.01),
                                built("d", keys[0], N, 0.001), grown("e", keys[0], N)};
    int equal = 0;
    OK(tamis_filter_equal(f[0], f[1], &equal, NULL));
    IS(equal, 1);
    for (size_t i = 2; i < 5; i++) {
        OK(tamis_filter_equal(f[0], f[i], &equal, NULL));
        IS(equal, 0);
    }
    flip_pages("b", 1);
    flip_pages("e", 1);
    struct tamis_filter *g[] = {opened_file("a"), opened_file("b"), opened_file("e")};
    check_unknown(g[0], g[1]), check_unknown(g[1], g[0]);
    check_unknown(g[2], g[2]); /* of several stages */
}

/* They differ in the last page alone; in a stage that the other one lacks; in nothing
 * but their shape, for no bit of them is set. */
TEST_WITH_KEYS(test_nearly_equal)
{
    static uint64_t one[N], other[N];
    memcpy(one, keys[0], sizeof one), memcpy(other, keys[0], sizeof other);
    one[0] = UINT64_MAX, other[0] = UINT64_MAX - 12345; /* of the last block */
    struct tamis_filter *f[] = {built("a", one, N, 0.01),
                                built("b", other, N, 0.01),
                                built("c", keys[1], N / 4, 0.01),
                                built("none", NULL, 0, 0.001),
                                built("low", (uint64_t[]){1}, 1, 0.01),
                                built("high", (uint64_t[]){UINT64_MAX}, 1, 0.01)};
    OK(unite((struct tamis_filter *[]){f[0], f[2]}, 2, "more"));
    OK(intersect(f + 4, 2, "empty"));
    struct stage_desc empty = first_of("empty"), none = first_of("none");
    assert_true(empty.bits_set == 0 && none.bits_set == 0);
    assert_true(empty.length == none.length &&
                empty.geometry.words != none.geometry.words);
    struct tamis_filter *more = opened_file("more"), *shape = opened_file("empty");
    IS(equal_now(f[0], f[0]), 1);
    IS(equal_now(f[0], f[1]), 0);
    IS(equal_now(f[0], more), 0);
    IS(equal_now(f[3], shape), 0);
}

RUN_TESTS(NULL, NULL)
