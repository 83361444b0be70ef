/* Errors as planned: stages against tamis_plan_error(), growing filters against their
 * target at every moment of growth, and the figures of the literature. All from fixed
 * seeds: the same keys and probes at every run. And the series of a growing filter as
 * planned: its stages, and the error of the whole at every size and target. */
#include "tests/support/filters.h"

struct setting {
    uint32_t lanes, words;
    double bits_per_key;
    uint64_t n_keys;
};

/* False positives among n random hashes; those of keys are as good as never hit. */
static uint64_t count_hits(const struct geometry *g, const uint8_t *bits, uint64_t n)
{
    const struct kernel *k = kernel_get();
    uint64_t hits = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t h = random_u64();
        uint32_t lane = 0;
        while (lane < g->lanes &&
               k->block_probe(bits + geometry_block_offset(g, lane, h), g->words, h)) {
            h = geometry_next_lane(h);
            lane++;
        }
        hits += lane == g->lanes;
    }
    return hits;
}

/* Measured / predicted, averaged over as many stages as it takes: the bits of one
 * stage differ from their mean too. */
static double measure(const struct setting *s, uint64_t enough, uint64_t *hits,
                      double *predicted)
{
    const struct kernel *k = kernel_get();
    struct geometry g = {0, s->lanes, s->words};
    double bits = s->bits_per_key * (double)s->n_keys;
    uint64_t n_bytes = 0, n_probes = 0;
    g.n_blocks = (uint64_t)(bits / BLOCK_BITS / s->lanes);
    assert_true(geometry_valid(&g) && geometry_bytes(&g, &n_bytes));
    *predicted = tamis_plan_error(g.lanes, g.words, g.n_blocks, s->n_keys);
    uint64_t n_stages = 4 + 400000 / s->n_keys;
    uint64_t probes = (uint64_t)((double)enough / *predicted / (double)n_stages) + 1;
    FREED uint8_t *array = aligned_alloc(BLOCK_BYTES, n_bytes);
    assert_non_null(array);
    for (*hits = 0; *hits < enough; n_probes += probes) {
        memset(array, 0, n_bytes);
        for (uint64_t i = 0; i < s->n_keys; i++) {
            uint64_t h = random_u64();
            for (uint32_t lane = 0; lane < g.lanes; lane++) {
                k->block_add(array + geometry_block_offset(&g, lane, h), g.words, h);
                h = geometry_next_lane(h);
            }
        }
        *hits += count_hits(&g, array, probes);
    }
    return (double)*hits / (double)n_probes / *predicted;
}

TEST(test_full_stages)
{
    static const struct setting settings[] = {
        {1, 3, 4.85, 200000}, {1, 1, 2, 100000},    {1, 2, 3, 1000},
        {1, 4, 6, 50000},     {1, 6, 9.95, 200000}, {1, 6, 9.95, 1000},
        {1, 8, 15.7, 100000}, {2, 3, 9.68, 200000}, {2, 5, 14.7, 100000},
        {2, 6, 12, 50000},    {2, 6, 19.9, 50000},  {3, 2, 8, 50000},
        {3, 4, 12, 20000},    {3, 5, 18, 100000},   {4, 3, 12, 50000},
        {4, 1, 5, 4000},
    };
    random_state = 2014;
    for (size_t i = 0; i < N_OF(settings); i++) {
        const struct setting *s = &settings[i];
        uint64_t enough = by_form(2000, 40000), hits;
        double predicted, ratio = measure(s, enough, &hits, &predicted);
        double tolerance = by_form(0, 1) ? 0.02 : 5 / sqrt((double)hits);
        printf("%u lanes of %u words, %6llu keys: %.3g predicted, measured %.4f of it "
               "(%llu false positives)\n",
               s->lanes, s->words, (unsigned long long)s->n_keys, predicted, ratio,
               (unsigned long long)hits);
        assert_true(hits >= enough);
        assert_true(fabs(ratio - 1) <= tolerance);
    }
}

/* log of the chance that a binomial(n, p) is at least k, for k above its mean; an
 * upper bound (Chernoff: exp(-n KL(k/n, p))), so a rejection at it is one for sure. */
static double log_tail(uint64_t k, uint64_t n, double p)
{
    double q = (double)k / (double)n;
    if (q <= p)
        return 0;
    double rest = q < 1 ? (1 - q) * log((1 - q) / (1 - p)) : 0;
    return -(double)n * (q * log(q / p) + rest);
}

struct growth_case {
    struct tamis_growth growth;
    uint64_t n_keys;
};

/* Probes at some 40 moments of growth, more of them where stages are just full. */
static void grow_and_probe(const struct growth_case *c, double *worst)
{
    enum { MOST_PROBES = 65536 };
    static uint64_t probes[MOST_PROBES];
    const unsigned n_probes = by_form(4096, MOST_PROBES);
    const char *path = path_of("growing");
    struct tamis_writer *w = WRITER_AS(path, .growth = c->growth);
    struct tamis_filter *f = open_filter(path);
    uint64_t step = c->n_keys / 40 + 1;
    *worst = 0;
    for (uint64_t n = 0; n < c->n_keys; n += step) {
        for (uint64_t i = 0; i < step; i++) {
            uint64_t h = random_u64();
            add_hashes(w, &h, 1);
        }
        struct tamis_filter_info info = writer_info(w);
        if (info.over_target)
            continue;
        random_hashes(probes, n_probes);
        uint64_t hits = n_probes - count_absent(f, probes, n_probes);
        double rate = (double)hits / n_probes,
               sigma = sqrt(info.expected_error / n_probes);
        *worst = rate > *worst ? rate : *worst;
        assert_true(fabs(rate - info.expected_error) <
                    5 * sigma + 0.03 * info.expected_error + 3.0 / n_probes);
        if (log_tail(hits, n_probes, c->growth.error) < log(1e-6))
            fail_msg("P %g s %g r %g n0 %llu: %llu of %u at %llu keys", c->growth.error,
                     c->growth.factor, c->growth.tightening,
                     (unsigned long long)c->growth.first_capacity,
                     (unsigned long long)hits, n_probes,
                     (unsigned long long)(n + step));
        assert_true(info.expected_error <= c->growth.error * 1.001);
    }
    tamis_filter_close(f);
    OK(tamis_writer_close(w, NULL));
    unlink(path);
}

TEST_WITH_FAULTS(test_growing_filters_keep_their_target)
{
    /* With r = 0.5 a few stages come close to P; tiny stages stay far below it, as no
     * stage is smaller than a page. */
    static const struct growth_case cases[] = {
        {{0.3, 2, 0.5, 20000}, 300000},    {{0.1, 2, 0.5, 10000}, 300000},
        {{0.1, 4, 0.85, 1000}, 80000},     {{0.01, 2, 0.85, 10000}, 300000},
        {{0.01, 2, 0.9, 1}, 30000},        {{0.01, 8, 0.8, 500}, 120000},
        {{0.01, 1.25, 0.95, 2000}, 60000}, {{0.001, 2, 0.5, 20000}, 300000},
        {{0.001, 1.5, 0.7, 300}, 40000},   {{0.5, 16, 0.6, 5000}, 100000},
    };
    random_state = 4;
    for (size_t i = 0; i < N_OF(cases); i++) {
        double worst;
        grow_and_probe(&cases[i], &worst);
        printf("P %g, s %g, r %g, n0 %llu: at worst %.2f P\n", cases[i].growth.error,
               cases[i].growth.factor, cases[i].growth.tightening,
               (unsigned long long)cases[i].growth.first_capacity,
               worst / cases[i].growth.error);
        assert_true(worst > 0); /* it measured something */
    }
}

static struct tamis_filter *ribbon_of(size_t n_keys, double error)
{
    FREED uint64_t *hashes = malloc(n_keys * sizeof *hashes);
    random_hashes(hashes, n_keys);
    BUILD(path_of("ribbon"), hashes, n_keys, .error = error, .kind = TAMIS_RIBBON);
    return open_filter(path_of("ribbon"));
}

/* It has the error that it tells, which is no more than is asked for, and about what
 * was planned. From a twentieth to a third of the keys are bumped. */
TEST(test_ribbons)
{
    static const struct {
        double error;
        size_t n_keys;
        unsigned brief, full; /* probes */
    } cases[] = {{0.5, 40000, 2000000, 25000000},
                 {0.5, 78000, 2000000, 25000000},
                 {0.1, 15000, 2000000, 25000000},
                 {0.01, 7100, 20000000, 100000000},
                 {0.01, 1000000, 2000000, 100000000}};
    random_state = 12;
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct tamis_interval met;
        struct tamis_plan plan;
        unsigned n = by_form(cases[i].brief, cases[i].full);
        struct tamis_filter *f = ribbon_of(cases[i].n_keys, cases[i].error);
        struct tamis_filter_info info = filter_info(f);
        filter_measure(f, n, 2013, &met);
        OK(plan_of_ribbon(cases[i].n_keys, cases[i].error, &plan));
        tamis_filter_close(f);
        double told = info.expected_error, sigma = sqrt(told * (1 - told) / n);
        printf("ribbon of %zu keys at %g: told %g, met %g (%.1f sigma), planned %g\n",
               cases[i].n_keys, cases[i].error, told, met.value,
               (met.value - told) / sigma, plan.error);
        assert_true(fabs(met.value - told) < 4 * sigma);
        assert_true(told < 1.0001 * cases[i].error);
        assert_true(fabs(plan.error / told - 1) < 0.03);
    }
}

TEST(test_plans_meet_their_error)
{
    for (double error = 0.5; error >= 1e-8; error *= 0.4) {
        for (uint64_t n = 0; n <= 10000000; n = n * 7 + 1) {
            struct tamis_plan p;
            OK(tamis_plan_filter(n, error, NULL, &p));
            assert_true(p.error <= error * (1 + 1e-9));
            IS(p.bits_bytes, p.n_blocks * p.lanes * BLOCK_BYTES);
            assert_true(p.error == tamis_plan_error(p.lanes, p.words, p.n_blocks, n));
        }
    }
    struct tamis_plan p;
    IS(tamis_plan_filter(100, 0.51, NULL, &p), TAMIS_ERR_RANGE);
    IS(tamis_plan_filter(100, 9e-9, NULL, &p), TAMIS_ERR_RANGE);
    IS(tamis_plan_filter(100, NAN, NULL, &p), TAMIS_ERR_RANGE);
    IS(p.lanes, 0);
    IS(tamis_plan_filter(UINT64_C(1) << 50, 0.01, NULL, &p), TAMIS_ERR_TOO_LARGE);
}

/* The table of section 4 of the design, and how far from the ideal it may be. */
TEST(test_planned_space)
{
    static const struct {
        double error, most;
        uint32_t lanes;
    } cases[] = {{0.1, 4.9, 1},
                 {0.01, 10.0, 1},
                 {0.001, 14.75, 2},
                 {1e-4, 20.05, 2},
                 {1e-6, 30.1, 3}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct tamis_plan p;
        OK(tamis_plan_filter(10000000, cases[i].error, NULL, &p));
        assert_true(p.bits_per_key <= cases[i].most);
        IS(p.lanes, cases[i].lanes);
    }
}

TEST(test_plans_within_a_size)
{
    struct tamis_plan p, q;
    OK(plan_in_bytes(1 << 20, 500000, 0, &p));
    assert_true(p.bits_bytes <= 1 << 20 && p.n_keys == 500000);
    assert_true(p.error > 0.0001 && p.error < 0.001); /* 16.8 bits a key */
    OK(plan_in_bytes(1 << 20, 0, 0.01, &q));
    assert_true(q.error <= 0.01 && q.bits_bytes <= 1 << 20);
    assert_true(q.n_keys > 830000 && q.n_keys < 880000);
    IS(plan_in_bytes(4095, 10, 0.01, &p), TAMIS_ERR_RANGE);
    IS(plan_in_bytes(1 << 20, 0, 0.6, &p), TAMIS_ERR_RANGE);
    assert_true(tamis_plan_error(0, 1, 1, 1) == 1); /* no such geometry */
    assert_true(tamis_plan_error(1, 9, 1, 1) == 1);
}

/* P_i = P (1 - r) r^i, n_i = n0 s^i (paper, section 4): the sum stays below P. */
TEST(test_growth_series)
{
    const struct tamis_growth g = {0.01, 2, 0.85, 1000};
    double sum = 0;
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t capacity;
        double error;
        struct tamis_plan p;
        growth_stage(&g, i, &capacity, &error);
        assert_true(fabs(error / (0.01 * 0.15 * pow(0.85, i)) - 1) < 1e-12);
        IS(capacity, UINT64_C(1000) << i);
        OK(tamis_plan_stage(&g, i, &p));
        IS(p.n_keys, capacity);
        assert_true(p.error <= error * (1 + 1e-9));
        sum += error;
    }
    assert_true(sum < 0.01 && sum > 0.0095);
    struct tamis_plan p;
    IS(tamis_plan_stage(&g, 30, &p), TAMIS_ERR_RANGE);
    /* Steep and long series end at the bounds of the format, not beyond them. */
    const struct tamis_growth steep = {1e-8, 16, 0.5, UINT64_C(1) << 32};
    for (uint32_t i = 0; i < 30; i++) {
        uint64_t capacity;
        double error;
        growth_stage(&steep, i, &capacity, &error);
        assert_true(error >= 0x1p-40 && capacity <= UINT64_C(1) << 37);
        int err = tamis_plan_stage(&steep, i, &p);
        assert_true(err == 0 || err == TAMIS_ERR_TOO_LARGE);
    }
}

/* Asks at each quarter of a stage, until the last of 30 is full. Returns the keys. */
static uint64_t check_target(const struct tamis_growth *growth)
{
    uint64_t keys = 0;
    double missed = 1; /* the chance to hit no full stage */
    for (uint32_t i = 0; i < MAX_STAGES; i++) {
        struct tamis_plan p;
        int err = tamis_plan_stage(growth, i, &p);
        if (err == TAMIS_ERR_TOO_LARGE)
            break;
        IS(err, 0);
        for (uint64_t part = 1; part <= 4; part++) {
            double last =
                tamis_plan_error(p.lanes, p.words, p.n_blocks, p.n_keys * part / 4);
            assert_true(1 - missed * (1 - last) <= growth->error);
        }
        missed *= 1 - p.error;
        keys += p.n_keys;
    }
    return keys;
}

TEST(test_target_at_every_size)
{
    static const double targets[] = {0.5, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-8};
    static const struct tamis_growth growths[] = {
        {0},
        {.factor = 2, .first_capacity = 65536}, /* the defaults of older stores */
        {.factor = 2, .tightening = 0.5, .first_capacity = 20000000},
        {.factor = 1.25, .tightening = 0.95, .first_capacity = 1},
        {.factor = 1.25, .tightening = 0.5, .first_capacity = 1000},
        {.factor = 16, .tightening = 0.5, .first_capacity = 1},
        {.factor = 16, .tightening = 0.95, .first_capacity = UINT64_C(1) << 32},
    };
    for (size_t k = 0; k < N_OF(growths); k++) {
        for (size_t i = 0; i < N_OF(targets); i++) {
            struct tamis_growth g = growths[k];
            g.error = targets[i];
            uint64_t keys = check_target(&g);
            /* By default more keys than anybody has. */
            assert_true(k != 0 || keys > UINT64_C(100000000000));
        }
    }
}

/* Zero fields are completed, others are kept. */
TEST(test_default_growth)
{
    struct tamis_growth g = {0}, given = {0.001, 2, 0.9, 65536};
    IS(growth_complete(&g), 0);
    assert_true(g.error == 0.01 && g.factor == 1.9 && g.tightening == 0.85);
    IS(g.first_capacity, 50000);
    IS(growth_complete(&given), 0);
    assert_true(given.error == 0.001 && given.factor == 2 && given.tightening == 0.9);
    IS(given.first_capacity, 65536);
}

RUN_TESTS(test_dir_create, test_dir_remove)
