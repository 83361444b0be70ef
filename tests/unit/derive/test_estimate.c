/* Estimates against the truth: intervals of 95% hold it about that often, over many
 * sets of keys, all from fixed seeds. */
#include "tests/support/algebra_support.h"

static unsigned n_trials;

struct setting {
    struct geometry g;
    uint64_t a, b, common; /* keys of both alone, and of both */
};

static uint64_t bits_of(const uint8_t *bits, size_t n_bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += (uint64_t)__builtin_popcount(bits[i]);
    return n;
}

static void add_random(const struct geometry *g, uint64_t n, uint8_t *one,
                       uint8_t *other)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t h = random_u64();
        if (one)
            geometry_add(one, g, h);
        if (other)
            geometry_add(other, g, h);
    }
}

static bool holds(const struct tamis_interval *i, double truth)
{
    assert_true(i->low <= i->high);
    return i->low <= truth && truth <= i->high;
}

struct score {
    unsigned a, all, common, jaccard, wide;
    double mean_error; /* of the estimate of the first, in keys */
};

static void try_once(const struct setting *s, size_t n_bytes, uint8_t *one,
                     uint8_t *other, struct score *score)
{
    struct tamis_comparison c = {0};
    uint64_t set[3], n_bits = n_bytes * 8;
    double all = (double)(s->a + s->b + s->common), common = (double)s->common;
    memset(one, 0, n_bytes), memset(other, 0, n_bytes);
    add_random(&s->g, s->a, one, NULL);
    add_random(&s->g, s->b, other, NULL);
    add_random(&s->g, s->common, one, other);
    set[0] = bits_of(one, n_bytes), set[1] = bits_of(other, n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        one[i] |= other[i];
    set[2] = bits_of(one, n_bytes);
    plan_overlap(&s->g, n_bits, set, &c);
    score->a += holds(&c.keys[0], (double)(s->a + s->common));
    score->all += holds(&c.all, all);
    score->common += holds(&c.common, common);
    score->jaccard += holds(&c.jaccard, common / all);
    score->wide += c.keys[0].high - c.keys[0].low > 0.2 * c.keys[0].value + 8;
    score->mean_error += (c.keys[0].value - (double)(s->a + s->common)) / n_trials;
}

/* 1000 tries of 95% deviate by 0.7% as the mean goes; bounds are 2.5% either way, and
 * as many deviations of fewer tries. Half a key of rounding makes small sets surer than
 * that. */
static void check_share(const char *what, unsigned n, bool rounded)
{
    double share = (double)n / n_trials, most = 0.025 * sqrt(1000.0 / n_trials);
    if (share < 0.95 - most || (!rounded && share > 0.95 + most))
        fail_msg("%s: %u of %u intervals hold the truth", what, n, n_trials);
}

static struct score score_of(const struct setting *s)
{
    struct score score = {0};
    uint64_t n_bytes = 0;
    assert_true(geometry_bytes(&s->g, &n_bytes));
    uint8_t *one = malloc(n_bytes), *other = malloc(n_bytes);
    for (unsigned t = 0; t < n_trials; t++)
        try_once(s, n_bytes, one, other, &score);
    free(one), free(other);
    return score;
}

/* Also of a handful of keys, whose bits seldom meet, and of filters of which a handful
 * of bits are clear: neither is distributed normally. */
TEST(test_coverage)
{
    enum { USUAL = 6 };
    static const struct setting settings[] = {
        {{64, 1, 6}, 2000, 1500, 700}, {{64, 1, 8}, 3000, 3000, 3000},
        {{64, 1, 1}, 9000, 100, 9000}, {{64, 2, 3}, 2500, 1500, 900},
        {{64, 3, 6}, 1500, 1000, 500}, {{128, 1, 5}, 6000, 6000, 100},
        {{256, 2, 4}, 20, 20, 0},      {{256, 2, 4}, 20, 20, 20},
        {{64, 4, 8}, 5, 5, 5},         {{64, 1, 8}, 5, 5, 5},
        {{64, 1, 6}, 20, 20, 20},      {{64, 1, 6}, 44000, 1000, 0},
        {{64, 1, 8}, 33000, 100, 0},   {{64, 1, 6}, 33000, 16000, 0},
    };
    for (size_t i = 0; i < N_OF(settings); i++) {
        const struct setting *s = &settings[i];
        struct score score = score_of(s);
        check_share("keys", score.a, true);
        check_share("union", score.all, true);
        check_share("common", score.common, i >= USUAL);
        check_share("Jaccard", score.jaccard, i >= USUAL);
        if (i >= USUAL)
            continue;
        IS(score.wide, 0);
        assert_true(fabs(score.mean_error) < 0.01 * (double)(s->a + s->common));
    }
    /* One clear bit is left where some 0.2 to 5 were expected; this many keys change
     * that e-fold. */
    const double e_fold = 256 * 512 / 4;
    struct tamis_interval i;
    plan_keys_interval(&settings[USUAL].g, 2 * 256 * 512, 2 * 256 * 512 - 1, &i);
    assert_true(i.high > i.value + e_fold && i.high < i.value + 2 * e_fold);
    assert_true(i.low < i.value - e_fold && i.low > i.value - 2 * e_fold);
}

/* Sets that have nothing in common, and equal ones: at the ends of what can be. */
TEST(test_ends)
{
    static const struct setting apart = {{64, 1, 6}, 2000, 2000, 0},
                                same = {{64, 1, 6}, 0, 0, 3000};
    uint64_t n_bytes = 0;
    struct score a = {0}, b = {0};
    assert_true(geometry_bytes(&apart.g, &n_bytes));
    uint8_t *one = malloc(n_bytes), *other = malloc(n_bytes);
    for (unsigned t = 0; t < n_trials; t++) {
        try_once(&apart, n_bytes, one, other, &a);
        try_once(&same, n_bytes, one, other, &b);
    }
    free(one), free(other);
    check_share("nothing in common", a.common, true);
    check_share("nothing in common, Jaccard", a.jaccard, true);
    check_share("the same", b.common, true);
    IS(b.jaccard, n_trials);
    struct tamis_interval i;
    plan_keys_interval(&apart.g, 64 * 512, 0, &i);
    assert_true(i.value == 0 && i.low == 0 && i.high == 0);
    plan_keys_interval(&apart.g, 64 * 512, 6, &i);
    assert_true(i.low <= 1 && i.high >= 1 && i.high <= 2);
    plan_keys_interval(&apart.g, 64 * 512, 64 * 512, &i);
    assert_true(isinf(i.value) && isinf(i.high) && i.low > 10000);
    plan_keys_interval(&apart.g, 0, 0, &i);
    assert_true(i.low == 0 && isinf(i.high));
}

/* The error now is what is measured, at whichever fill. */
static void check_error(struct tamis_filter *f)
{
    struct tamis_estimate e;
    OK(tamis_filter_estimate(f, 400000, 7, &e, NULL));
    struct tamis_interval measured = e.measured;
    /* Four deviations. */
    double half = measured.high - measured.low;
    assert_true(measured.low <= measured.value && measured.value <= measured.high);
    assert_true(fabs(e.error - measured.value) < half + 1e-5);
    IS(e.n_damaged, 0);
}

TEST_WITH_KEYS(test_files)
{
    struct tamis_estimate e;
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    struct tamis_filter *b = built("b", keys[1], N, 0.0005);
    check_error(a), check_error(b);
    OK(tamis_filter_estimate(a, 0, 0, &e, NULL));
    assert_true(e.keys.low <= N && e.keys.high >= N && e.keys.high < N * 1.05);
    struct tamis_filter *both[] = {a, built("c", keys[1], N, 0.01)};
    OK(unite(both, 2, "u"));
    struct tamis_filter *u = opened_file("u");
    check_error(u);
}

/* A filter that grew: stages add up. */
TEST_WITH_KEYS(test_grown)
{
    struct tamis_estimate e;
    WRITER w =
        WRITER_AS(path_of("g"), .growth = {.first_capacity = 1000}, .domain = &domain);
    add_hashes(w, keys[0], N);
    OK(tamis_writer_commit(w, 1, NULL));
    struct tamis_filter *f = opened_file("g");
    OK(tamis_filter_estimate(f, 0, 0, &e, NULL));
    assert_true(e.keys.value > N * 0.98 && e.keys.value < N * 1.02);
    check_error(f);
    assert_true(filter_info(f).n_stages > 2);
}

/* Half of them shared; of other sizes too; and with a page lost in each. */
TEST_WITH_KEYS(test_compare)
{
    struct tamis_comparison c;
    uint64_t mixed[N];
    memcpy(mixed, keys[0], sizeof mixed / 2);
    memcpy(mixed + N / 2, keys[1], sizeof mixed / 2);
    struct tamis_filter *f[] = {built("a", keys[0], N, 0.01),
                                built("b", mixed, N, 0.01)};
    OK(fold(f[1], 2, "h"));
    IS(tamis_filter_compare(f[0], f[1], &c, NULL), 0);
    assert_true(c.common.low <= N * 0.5 && c.common.high >= N * 0.5);
    assert_true(c.jaccard.low <= 1.0 / 3 && c.jaccard.high >= 1.0 / 3);
    assert_true(c.jaccard.high - c.jaccard.low < 0.05);
    struct tamis_filter *half = opened_file("h");
    IS(tamis_filter_compare(f[0], half, &c, NULL), 0);
    assert_true(c.common.low <= N * 0.5 && c.common.high >= N * 0.5);
    IS(tamis_filter_compare(f[0], NULL, &c, NULL), TAMIS_ERR_RANGE);
    uint8_t zeros[PAGE_BYTES] = {0};
    file_poke(path_of("a"), first_of("a").offset, zeros, PAGE_BYTES);
    file_poke(path_of("b"), first_of("b").offset + PAGE_BYTES, zeros, PAGE_BYTES);
    struct tamis_filter *g[] = {opened_file("a"), opened_file("b")};
    IS(tamis_filter_compare(g[0], g[1], &c, NULL), 0);
    IS(c.n_damaged, 2);
    assert_true(c.common.low <= N * 0.5 && c.common.high >= N * 0.5);
    OK(fold(g[0], 1, "copy"));
    OK(fold(g[0], 2, "half"));
    const char *const names[] = {"a", "copy", "half"};
    for (int i = 0; i < 3; i++) {
        struct tamis_estimate e;
        OK(tamis_filter_estimate(opened_file(names[i]), 0, 0, &e, NULL));
        IS(e.n_damaged, 1);
        assert_true(e.keys.low <= N && e.keys.high >= N);
        assert_true(e.error > 0.1); /* an eighth is all ones */
    }
}

/* Every page is damaged, or of nothing but ones, or empty: the interval is all that may
 * be, or nothing. */
TEST_WITH_KEYS(test_nothing_to_tell_from)
{
    struct tamis_estimate e;
    struct tamis_comparison c;
    build("a", keys[0], N, 0.01);
    flip_pages("a", 1);
    struct tamis_filter *damaged = opened_file("a");
    OK(fold(damaged, 1, "b"));
    struct tamis_filter *full = opened_file("b"), *empty = built("c", keys[0], 0, 0.01);
    OK(tamis_filter_estimate(damaged, 0, 0, &e, NULL));
    assert_true(e.keys.low == 0 && isinf(e.keys.high) && e.error >= 1);
    OK(tamis_filter_estimate(full, 0, 0, &e, NULL));
    assert_true(isinf(e.keys.value) && isinf(e.keys.high) && e.error >= 1);
    OK(tamis_filter_estimate(empty, 0, 0, &e, NULL));
    assert_true(e.keys.high == 0 && e.error == 0);
    IS(tamis_filter_compare(damaged, full, &c, NULL), 0);
    assert_true(c.common.low == 0 && isinf(c.common.high));
    assert_true(c.jaccard.low == 0 && c.jaccard.high == 1);
    IS(tamis_filter_compare(full, full, &c, NULL), 0);
    assert_true(c.n_damaged > 0 && c.all.low == 0 && isinf(c.all.high));
    assert_true(c.common.low == 0 && isinf(c.common.high));
    assert_true(c.jaccard.low == 0 && c.jaccard.high == 1);
    IS(tamis_filter_compare(empty, empty, &c, NULL), 0);
    assert_true(c.all.high == 0 && c.common.high == 0 && c.jaccard.high == 1);
}

TEST_WITH_KEYS(test_nothing_given)
{
    struct tamis_estimate e;
    struct tamis_comparison c;
    struct tamis_filter *a = built("a", keys[0], 100, 0.01),
                        *b = grown("b", keys[0], N);
    memset(&e, 0xff, sizeof e);
    IS(tamis_filter_estimate(NULL, 0, 0, &e, NULL), TAMIS_ERR_RANGE);
    assert_true(e.error == 0);
    IS(tamis_filter_estimate(a, 0, 0, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_filter_compare(a, a, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_filter_compare(a, b, &c, NULL), TAMIS_ERR_UNFIT);
    assert_true(isfinite(c.common.high) && c.common.high == 0);
}

int main(void)
{
    n_trials = by_form(300, 1000);
    return run_listed_tests(NULL, NULL);
}
