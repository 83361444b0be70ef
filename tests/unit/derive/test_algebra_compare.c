/* Filters compared, containment and equality: what is said of them is true, whatever
 * has become of their pages. */
#include "tests/support/algebra_support.h"

/* ---- containment and equality ---- */

static enum tamis_answer contains(struct tamis_filter *whole, struct tamis_filter *part)
{
    enum tamis_answer answer = TAMIS_ABSENT;
    OK(tamis_filter_contains(whole, part, &answer, NULL));
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

/* Folded by this factor; *name is a file that is not there. */
static struct tamis_filter *folded(struct tamis_filter *f, uint64_t factor,
                                   const char *name)
{
    OK(fold(f, factor, name));
    return opened_file(name);
}

static uint64_t blocks_of(struct tamis_filter *f)
{
    return stage_at(f, 0).n_blocks;
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
        unlink(path_of("a"));
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

static int equal_now(struct tamis_filter *one, struct tamis_filter *other)
{
    int equal = 7, back = 7;
    OK(tamis_filter_equal(one, other, &equal, NULL));
    OK(tamis_filter_equal(other, one, &back, NULL));
    IS(equal, back);
    return equal;
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
                                built("none", NULL, 0, 0.01),
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
