/* Filters compared, containment and equality: what is said of them is true, whatever
 * has become of their pages. */
#include "tests/support/algebra_support.h"

/* ---- containment and equality ---- */

static enum tamis_answer contains(struct tamis_filter *whole, struct tamis_filter *part)
{
    enum tamis_answer answer = TAMIS_ABSENT;
    assert_int_equal(tamis_filter_contains(whole, part, &answer, NULL), 0);
    return answer;
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

static void test_contains(void **state)
{
    struct tamis_filter *whole = built("whole", keys[0], N, 0.01);
    struct tamis_filter *part = of_size("part", keys[0], N / 10);
    struct tamis_filter *other = of_size("other", keys[1], N / 10);
    (void)state;
    assert_int_equal(contains(whole, part), TAMIS_MAYBE);
    assert_int_equal(contains(whole, whole), TAMIS_MAYBE);
    assert_int_equal(contains(whole, other), TAMIS_ABSENT);
    assert_int_equal(contains(part, whole), TAMIS_ABSENT);
    /* Folded, the one or the other. */
    assert_int_equal(
        tamis_filter_derive(
            &whole, 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 2},
            path_of("half"), NULL, NULL, NULL),
        0);
    struct tamis_filter *half = open_filter(path_of("half"));
    assert_int_equal(contains(half, part), TAMIS_MAYBE);
    assert_int_equal(contains(whole, half), TAMIS_MAYBE);
    assert_int_equal(contains(half, other), TAMIS_ABSENT);
    assert_int_equal(contains(other, half), TAMIS_ABSENT);
    struct tamis_filter *all[] = {whole, part, other, half};
    close_all(all, 4);
}

/* Folded by this factor; *name is a file that is not there. */
static struct tamis_filter *folded(struct tamis_filter *f, uint64_t factor,
                                   const char *name)
{
    struct tamis_derivation fold = {.operation = TAMIS_FOLD, .factor = factor};
    assert_int_equal(tamis_filter_derive(&f, 1, &fold, path_of(name), NULL, NULL, NULL),
                     0);
    return open_filter(path_of(name));
}

static uint64_t blocks_of(struct tamis_filter *f)
{
    struct tamis_stage_info stage;
    assert_int_equal(tamis_filter_stage(f, 0, &stage), 0);
    return stage.n_blocks;
}

/* Halves and thirds of one size: neither divides the other, and both fold to sixths. */
static void sizes_fold_to_what_divides_both(void **state)
{
    (void)state;
    size_t n = N;
    struct tamis_filter *a = built("a", keys[0], n, 0.01);
    while (blocks_of(a) % (6 * BLOCKS_PER_PAGE)) {
        tamis_filter_close(a);
        unlink(path_of("a"));
        n -= 100;
        a = built("a", keys[0], n, 0.01);
    }
    struct tamis_filter *b = built("b", keys[1], n, 0.01);
    struct tamis_filter *half = folded(a, 2, "half"), *third = folded(a, 3, "third"),
                        *other = folded(b, 3, "other");
    struct tamis_comparison c;
    assert_int_equal(contains(half, third), TAMIS_MAYBE);
    assert_int_equal(contains(third, half), TAMIS_MAYBE);
    assert_int_equal(contains(half, other), TAMIS_ABSENT);
    assert_int_equal(tamis_filter_compare(half, third, &c, NULL), 0);
    assert_true(c.common.low <= (double)n && c.common.high >= (double)n);
    assert_int_equal(tamis_filter_compare(half, other, &c, NULL), 0);
    assert_true(c.all.low <= 2.0 * (double)n && c.all.high >= 2.0 * (double)n);
    struct tamis_filter *both[] = {half, third};
    assert_int_equal(
        tamis_filter_derive(both, 2,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            path_of("common"), NULL, NULL, NULL),
        0);
    struct tamis_filter *common = open_filter(path_of("common"));
    assert_int_equal(blocks_of(common), blocks_of(a) / 6);
    check_present(path_of("common"), keys[0], n);
    struct tamis_filter *all[] = {a, b, half, third, other, common};
    close_all(all, 6);
}

/* A filter of one key is the question for that key. */
static void test_contains_one_key(void **state)
{
    struct tamis_filter *whole = built("whole", keys[0], 200, 0.01);
    size_t n_absent = 0;
    (void)state;
    for (size_t i = 0; i < 200; i++) {
        struct tamis_filter *in = built("in", &keys[0][i], 1, 0.01);
        struct tamis_filter *out = built("out", &keys[1][i], 1, 0.01);
        assert_int_equal(contains(whole, in), TAMIS_MAYBE);
        n_absent += contains(whole, out) == TAMIS_ABSENT;
        tamis_filter_close(in), tamis_filter_close(out);
        remove(path_of("in")), remove(path_of("out"));
    }
    assert_true(n_absent > 180);
    tamis_filter_close(whole);
}

static void test_contains_of_damaged(void **state)
{
    build("whole", keys[0], N, 0.01), build("part", keys[0], N, 0.01);
    (void)state;
    /* Lost bits of the whole are no proof; nor are the ones of damaged parts. */
    flip_pages(path_of("whole"), 1);
    struct tamis_filter *f[] = {open_filter(path_of("whole")),
                                open_filter(path_of("part"))};
    assert_int_equal(contains(f[0], f[1]), TAMIS_MAYBE);
    close_all(f, 2);
    build("sound", keys[0], N, 0.01);
    uint8_t ones[64];
    memset(ones, 0xff, sizeof ones);
    file_poke(path_of("part"), commit_of(path_of("part")).stages[0].offset, ones, 64);
    struct tamis_filter *g[] = {open_filter(path_of("sound")),
                                open_filter(path_of("part"))};
    assert_int_equal(contains(g[0], g[1]), TAMIS_MAYBE);
    close_all(g, 2);
}

/* A page that was damaged before, and was copied as ones with a good digest, proves
 * nothing either. */
static void test_contains_of_mended(void **state)
{
    struct tamis_derive_report report;
    build("whole", keys[0], N, 0.01), build("part", keys[0], N, 0.01);
    (void)state;
    flip_pages(path_of("part"), 3);
    struct tamis_filter *broken = open_filter(path_of("part"));
    assert_int_equal(tamis_filter_derive(&broken, 1,
                                         &(struct tamis_derivation){
                                             .operation = TAMIS_FOLD, .factor = 1},
                                         path_of("mended"), NULL, &report, NULL),
                     0);
    assert_true(report.n_damaged > 0);
    check_whole(path_of("mended"));
    struct tamis_filter *f[] = {open_filter(path_of("whole")),
                                open_filter(path_of("mended")), broken};
    assert_int_equal(contains(f[0], f[1]), TAMIS_MAYBE);
    close_all(f, 3);
}

/* One of them is damaged. */
static void check_unknown(struct tamis_filter *one, struct tamis_filter *other)
{
    int equal = 7;
    assert_int_equal(tamis_filter_equal(one, other, &equal, NULL), TAMIS_ERR_DAMAGED);
    assert_int_equal(equal, 0);
}

static void test_equal(void **state)
{
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", keys[0], N, 0.01),
                                built("c", keys[1], N, 0.01),
                                built("d", keys[0], N, 0.001), grown("e", keys[0], N)};
    int equal = 0;
    (void)state;
    assert_int_equal(tamis_filter_equal(f[0], f[1], &equal, NULL), 0);
    assert_int_equal(equal, 1);
    for (size_t i = 2; i < 5; i++) {
        assert_int_equal(tamis_filter_equal(f[0], f[i], &equal, NULL), 0);
        assert_int_equal(equal, 0);
    }
    close_all(f, 5);
    flip_pages(path_of("b"), 1);
    flip_pages(path_of("e"), 1);
    struct tamis_filter *g[] = {open_filter(path_of("a")), open_filter(path_of("b")),
                                open_filter(path_of("e"))};
    check_unknown(g[0], g[1]), check_unknown(g[1], g[0]);
    check_unknown(g[2], g[2]); /* of several stages */
    close_all(g, 3);
}

static int equal_now(struct tamis_filter *one, struct tamis_filter *other)
{
    int equal = 7, back = 7;
    assert_int_equal(tamis_filter_equal(one, other, &equal, NULL), 0);
    assert_int_equal(tamis_filter_equal(other, one, &back, NULL), 0);
    assert_int_equal(equal, back);
    return equal;
}

/* They differ in the last page alone; in a stage that the other one lacks; in nothing
 * but their shape, for no bit of them is set. */
static void test_nearly_equal(void **state)
{
    static uint64_t one[N], other[N];
    (void)state;
    memcpy(one, keys[0], sizeof one), memcpy(other, keys[0], sizeof other);
    one[0] = UINT64_MAX, other[0] = UINT64_MAX - 12345; /* of the last block */
    struct tamis_filter *f[] = {built("a", one, N, 0.01),
                                built("b", other, N, 0.01),
                                built("c", keys[1], N / 4, 0.01),
                                built("none", NULL, 0, 0.01),
                                built("low", (uint64_t[]){1}, 1, 0.01),
                                built("high", (uint64_t[]){UINT64_MAX}, 1, 0.01)};
    assert_int_equal(
        tamis_filter_derive((struct tamis_filter *[]){f[0], f[2]}, 2,
                            &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("more"), NULL, NULL, NULL),
        0);
    assert_int_equal(
        tamis_filter_derive(f + 4, 2,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            path_of("empty"), NULL, NULL, NULL),
        0);
    struct stage_desc empty = commit_of(path_of("empty")).stages[0],
                      none = commit_of(path_of("none")).stages[0];
    assert_true(empty.bits_set == 0 && none.bits_set == 0);
    assert_true(empty.length == none.length &&
                empty.geometry.words != none.geometry.words);
    struct tamis_filter *more = open_filter(path_of("more")),
                        *shape = open_filter(path_of("empty"));
    assert_int_equal(equal_now(f[0], f[0]), 1);
    assert_int_equal(equal_now(f[0], f[1]), 0);
    assert_int_equal(equal_now(f[0], more), 0);
    assert_int_equal(equal_now(f[3], shape), 0);
    tamis_filter_close(more), tamis_filter_close(shape);
    close_all(f, 6);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_contains),
        TEST(sizes_fold_to_what_divides_both),
        TEST(test_contains_one_key),
        TEST(test_contains_of_damaged),
        TEST(test_contains_of_mended),
        TEST(test_equal),
        TEST(test_nearly_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
