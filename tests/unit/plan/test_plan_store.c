/* Memory divided over the filters of a store: the closed form against every other way
 * to divide the bits, what real filters make of it against the best of all real filters
 * (by dynamic programming over pages), and sizes at the ends of their ranges. */
#include "tests/support/support.h"
#include "lib/plan/inside.h"

enum { MOST = 8, MOST_PAGES = 160 };

static struct tamis_plan_share shares[MOST];
static struct tamis_plan_summary summary;

static int plan_bytes(const struct tamis_plan_segment *s, size_t n, uint64_t bytes,
                      struct tamis_plan_share *to, struct tamis_plan_summary *sum)
{
    return tamis_plan_store(s, n, bytes, 0, TAMIS_BLOOM, to, sum);
}

static int plan_reads(const struct tamis_plan_segment *s, size_t n, double reads,
                      struct tamis_plan_share *to, struct tamis_plan_summary *sum)
{
    return tamis_plan_store(s, n, 0, reads, TAMIS_BLOOM, to, sum);
}

static void assert_near(double a, double b, double most)
{
    assert_true(fabs(a - b) <= most);
}

static double sum_of_errors(const double *runs, const double *bits, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp(-bits[i] * LN2_SQUARED / runs[i]);
    return sum;
}

/* An LSM tree: with ribbons where they are smaller the same memory wastes fewer reads,
 * and the same reads take less memory. Each share is the plan of its kind. */
TEST(both_kinds)
{
    enum { N = 6, BYTES = 12 << 20 };
    struct tamis_plan_segment s[N];
    struct tamis_plan_share bloom[N], both[N], ribbon[N];
    struct tamis_plan_summary of_bloom, of_both, of_ribbon;
    uint64_t n_keys = 100, total = 0;
    for (size_t i = 0; i < N; i++, n_keys *= 10)
        s[i] = (struct tamis_plan_segment){n_keys, i};
    OK(tamis_plan_store(s, N, BYTES, 0, TAMIS_BLOOM, bloom, &of_bloom));
    OK(tamis_plan_store(s, N, BYTES, 0, 0, both, &of_both));
    OK(tamis_plan_store(s, N, BYTES, 0, TAMIS_RIBBON, ribbon, &of_ribbon));
    assert_true(of_both.best.reads < 0.6 * of_bloom.best.reads);
    assert_true(of_both.best.reads <= of_ribbon.best.reads);
    assert_true(of_both.best.ideal_reads < of_bloom.best.ideal_reads);
    for (size_t i = 0; i < N; i++) {
        struct tamis_plan p, q;
        OK(tamis_plan_filter(s[i].n_keys, both[i].error, NULL, &p));
        OK(plan_of_ribbon(s[i].n_keys, both[i].error, &q));
        bool is_ribbon = q.file_bytes < p.file_bytes;
        assert_memory_equal(&both[i].plan, is_ribbon ? &q : &p, sizeof p);
        IS(both[i].plan.lanes == 0, is_ribbon);
        IS(ribbon[i].plan.lanes, 0);
        total += both[i].plan.file_bytes;
    }
    assert_true(both[0].plan.lanes > 0 && both[N - 1].plan.lanes == 0);
    IS(total, of_both.best.file_bytes);
    assert_true(total <= BYTES);
    double reads = of_bloom.best.reads;
    OK(tamis_plan_store(s, N, 0, reads, 0, both, &of_both));
    assert_true(of_both.best.reads <= reads);
    assert_true((double)of_both.best.file_bytes <
                0.75 * (double)of_bloom.best.file_bytes);
    IS(tamis_plan_store(s, N, BYTES, 0, TAMIS_PACK, both, NULL), TAMIS_ERR_RANGE);
}

TEST(the_closed_form_is_the_least_of_all)
{
    enum { STEPS = 300 };
    for (unsigned trials = by_form(15, 30), trial = 0; trial < trials; trial++) {
        double runs[3], least = 3, scale, part[3];
        for (size_t i = 0; i < 3; i++)
            runs[i] = (double)(1 + random_below(trial % 3 ? 20 : 20000));
        double bits = (double)random_below(400);
        for (int i = 0; i <= STEPS; i++)
            for (int k = 0; i + k <= STEPS; k++) {
                part[0] = bits * i / STEPS;
                part[1] = bits * k / STEPS;
                part[2] = bits - part[0] - part[1];
                least = fmin(least, sum_of_errors(runs, part, 3));
            }
        double sum = plan_ideal(runs, 3, bits, &scale);
        assert_true(sum <= least + 1e-9);
        assert_true(sum >= least * 0.98 - 0.002);
    }
}

/* The closed form gives the bits that its errors take, and the errors. */
TEST(the_closed_form_takes_its_bits)
{
    for (int trial = 0; trial < 100; trial++) {
        double runs[5], scale, bits = 0, sum = 0, given = (double)random_below(100000);
        for (size_t i = 0; i < 5; i++)
            runs[i] = (double)(1 + random_below(10000));
        double said = plan_ideal(runs, 5, given, &scale);
        for (size_t i = 0; i < 5; i++) {
            double error = fmin(1, scale * runs[i]);
            sum += error;
            bits += -log(error) / LN2_SQUARED * runs[i];
        }
        assert_near(sum, said, 1e-9);
        assert_near(bits, given, given * 1e-9 + 1e-6);
    }
}

/* The least reads of real filters, by number of pages. */
static void least_reads(const struct tamis_plan_segment *s, const double *weights,
                        size_t n, double best[MOST_PAGES + 1])
{
    for (size_t pages = 0; pages <= MOST_PAGES; pages++)
        best[pages] = 0;
    for (size_t i = 0; i < n; i++) {
        double with[MOST_PAGES + 1], sum[MOST_PAGES + 1];
        for (size_t pages = 0; pages <= MOST_PAGES; pages++)
            with[pages] = 1;
        struct tamis_plan plan;
        /* Nearly all filters there are: other errors have other lanes and words. */
        for (double error = 0.5; error >= 1e-8;
             error = fmax(plan.error * (1 - 1e-9), error * 0.97)) {
            OK(tamis_plan_filter(s[i].n_keys, error, NULL, &plan));
            for (size_t pages = (size_t)(plan.file_bytes / PAGE_BYTES);
                 pages <= MOST_PAGES && plan.error < with[pages]; pages++)
                with[pages] = plan.error;
        }
        for (size_t pages = 0; pages <= MOST_PAGES; pages++) {
            sum[pages] = INFINITY;
            for (size_t k = 0; k <= pages; k++)
                sum[pages] = fmin(sum[pages], best[pages - k] + weights[i] * with[k]);
        }
        memcpy(best, sum, sizeof sum);
    }
}

static void check_shares(const struct tamis_plan_segment *s, const double *weights,
                         size_t n)
{
    uint64_t bytes = 0, n_filters = 0;
    double reads = 0;
    for (size_t i = 0; i < n; i++) {
        struct tamis_plan plan = {0};
        if (shares[i].error < 1) {
            OK(tamis_plan_filter(s[i].n_keys, shares[i].error, NULL, &plan));
            assert_true(plan.error <= shares[i].error);
            n_filters++;
        }
        assert_memory_equal(&plan, &shares[i].plan, sizeof plan);
        bytes += plan.file_bytes;
        reads += weights[i] * (plan.file_bytes ? plan.error : 1);
    }
    IS(bytes, summary.best.file_bytes);
    IS(n_filters, summary.best.n_filters);
    assert_near(reads, summary.best.reads, 1e-9);
}

/* Random small stores; a third of them have two levels of several segments. */
static size_t random_store(struct tamis_plan_segment *s, double *weights, bool levels)
{
    size_t n = 1 + random_below(5);
    double keys[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        s[i].n_keys = 1 + random_below(random_below(2) ? 40000 : 2000);
        s[i].run = levels ? i % 2 : i;
        keys[i % 2] += (double)s[i].n_keys;
    }
    for (size_t i = 0; i < n; i++)
        weights[i] = levels ? (double)s[i].n_keys / keys[i % 2] : 1;
    return n;
}

TEST(real_filters_come_close_to_the_best_of_all)
{
    double sum = 0, sum_best = 0, worst = 1;
    for (unsigned trials = by_form(30, 60), trial = 0; trial < trials; trial++) {
        struct tamis_plan_segment s[MOST];
        double weights[MOST], best[MOST_PAGES + 1];
        size_t n = random_store(s, weights, trial % 3 == 0);
        least_reads(s, weights, n, best);
        for (size_t pages = 0; pages <= MOST_PAGES; pages += 1 + random_below(16)) {
            IS(plan_bytes(s, n, pages * PAGE_BYTES, shares, &summary), 0);
            check_shares(s, weights, n);
            assert_true(summary.best.file_bytes <= pages * PAGE_BYTES);
            assert_true(summary.best.reads >= best[pages] * 0.97 - 1e-9);
            assert_true(summary.best.reads <= summary.uniform.reads + 1e-9);
            assert_true(summary.uniform.file_bytes <= pages * PAGE_BYTES);
            sum += summary.best.reads;
            sum_best += best[pages];
            if (best[pages] > 1e-3)
                worst = fmax(worst, summary.best.reads / best[pages]);
        }
    }
    print_message("over the best of all: %.2f%%, at most %.2f times\n",
                  100 * (sum / sum_best - 1), worst);
    assert_true(sum <= sum_best * 1.005);
    assert_true(worst < 1.5);
}

TEST(the_least_memory_for_some_reads)
{
    double sum = 0, sum_best = 0;
    for (unsigned trials = by_form(12, 60), trial = 0; trial < trials; trial++) {
        struct tamis_plan_segment s[MOST];
        double weights[MOST], best[MOST_PAGES + 1];
        size_t n = random_store(s, weights, trial % 3 == 0), pages = 0;
        least_reads(s, weights, n, best);
        double reads = best[random_below(MOST_PAGES / 2)] * 1.0001 + 1e-6;
        while (best[pages] > reads)
            pages++;
        IS(plan_reads(s, n, reads, shares, &summary), 0);
        check_shares(s, weights, n);
        assert_true(summary.best.reads <= reads);
        assert_true(summary.best.file_bytes >= pages * PAGE_BYTES);
        sum += (double)summary.best.file_bytes / PAGE_BYTES;
        sum_best += (double)pages;
    }
    print_message("over the least memory: %.2f%%\n", 100 * (sum / sum_best - 1));
    assert_true(sum <= sum_best * 1.1);
}

/* Large runs, whose pages do not matter: Monkey's proportion and its sum. */
TEST(large_runs_are_as_the_closed_form)
{
    struct tamis_plan_segment s[5];
    uint64_t keys = 1000000;
    for (size_t i = 0; i < 5; i++, keys *= 4)
        s[i] = (struct tamis_plan_segment){keys, i};
    IS(plan_bytes(s, 5, 400000000, shares, &summary), 0);
    for (size_t i = 1; i < 5; i++) {
        double ratio = shares[i].error / shares[i - 1].error;
        assert_true(ratio > 3.6 && ratio < 4.4);
        assert_near(shares[i].ideal_error, 4 * shares[i - 1].ideal_error,
                    shares[i].ideal_error * 1e-9);
    }
    assert_true(summary.best.file_bytes > 399000000);
    /* Our filters take up to 5% more than ideal ones. */
    assert_true(summary.best.reads > summary.best.ideal_reads);
    assert_true(summary.best.reads < summary.best.ideal_reads * 1.25);
    assert_true(summary.uniform.reads > summary.best.reads * 1.5);
    assert_true(summary.uniform.reads < summary.uniform.ideal_reads * 1.25);
}

TEST(segments_of_a_level_have_one_error)
{
    struct tamis_plan_segment s[6] = {{400000, 3}, {1000000, 3}, {3000000, 3},
                                      {50000, 1},  {50000, 1},   {2000000, 0}};
    IS(plan_bytes(s, 6, 6000000, shares, &summary), 0);
    IS(summary.n_runs, 3);
    for (size_t i = 1; i < 3; i++)
        assert_true(fabs(log(shares[i].error / shares[0].error)) < 0.05);
    /* The run of 4.4 million keys, against the run of 2. */
    assert_true(fabs(log(shares[0].error / shares[5].error / 2.2)) < 0.05);
    assert_near(shares[0].ideal_error / shares[4].ideal_error, 44, 1e-6);
}

TEST(without_memory_no_filters)
{
    struct tamis_plan_segment s[3] = {{10, 0}, {1000000, 1}, {0, 2}};
    IS(plan_bytes(s, 3, 0, shares, &summary), 0);
    IS(summary.best.n_filters, 0);
    IS(summary.best.file_bytes, 0);
    assert_true(summary.best.reads == 3 && summary.uniform.reads == 3);
    assert_true(shares[0].error == 1 && shares[0].plan.file_bytes == 0);
    IS(plan_bytes(s, 3, 8191, shares, &summary), 0);
    IS(summary.best.n_filters, 0);
    IS(plan_bytes(s, 3, 8192, shares, NULL), 0);
    IS(plan_bytes(s, 3, 16384, shares, &summary), 0);
    IS(summary.best.n_filters, 2);
    assert_true(shares[1].error == 1);
    IS(plan_reads(s, 3, 3, shares, &summary), 0);
    IS(summary.best.n_filters, 0);
    IS(plan_bytes(NULL, 0, 5, NULL, &summary), 0);
    assert_true(summary.best.reads == 0 && summary.n_runs == 0);
}

TEST(memory_beyond_need_is_left_over)
{
    struct tamis_plan_segment s[3] = {{10, 0}, {1000000, 1}, {0, 2}};
    struct tamis_plan plan;
    OK(tamis_plan_filter(1000000, 1e-8, NULL, &plan));
    IS(plan_bytes(s, 3, UINT64_MAX, shares, &summary), 0);
    assert_true(shares[1].error == 1e-8);
    IS(summary.best.file_bytes, plan.file_bytes + 2 * 8192);
    assert_true(summary.best.reads < 3e-8);
    IS(plan_reads(s, 3, summary.best.reads, shares, NULL), 0);
}

TEST(sizes_that_no_filter_can_have)
{
    struct tamis_plan_segment huge = {UINT64_C(1) << 48, 0}, s[2] = {{5, 0}, {5, 2}};
    /* 2^48 keys have no filter of 2^32 blocks a lane: it is read every time. */
    IS(plan_bytes(&huge, 1, UINT64_MAX, shares, &summary), 0);
    assert_true(summary.best.reads == 1 && shares[0].error == 1);
    IS(plan_reads(&huge, 1, 0.5, shares, &summary), TAMIS_ERR_RANGE);
    huge.n_keys++;
    IS(plan_bytes(&huge, 1, 5, shares, &summary), TAMIS_ERR_RANGE);
    IS(plan_bytes(s, 2, 5, shares, &summary), TAMIS_ERR_RANGE);
    assert_true(summary.n_runs == 0 && shares[1].error == 0);
    s[1].run = 1;
    IS(plan_reads(s, 2, NAN, shares, NULL), TAMIS_ERR_RANGE);
    IS(plan_reads(s, 2, -1, shares, NULL), TAMIS_ERR_RANGE);
    summary.n_runs = 7;
    IS(plan_bytes(s, SIZE_MAX, 5, shares, &summary), TAMIS_ERR_RANGE);
    IS(summary.n_runs, 0);
}

/* Sizes that repeat are planned once, and no other size's plan is taken for theirs: nor
 * that of another error, which the size of the run sets. */
TEST(many_sizes_are_each_their_own)
{
    enum { N = 8000, SIZE = 200000 };
    static struct tamis_plan_segment s[N];
    static struct tamis_plan_share many[N];
    for (int pairs = 0; pairs < 2; pairs++) {
        uint64_t n_unlike = 0, bytes = 0, most = pairs ? 900000000 : 1200000000;
        double first = 0; /* error over that of ideal filters, in logarithms */
        for (size_t i = 0; i < N; i++) {
            s[i].n_keys = pairs && i % 2 ? SIZE : 1 + random_below(300000);
            s[i].run = pairs ? i / 2 : i;
        }
        IS(plan_bytes(s, N, most, many, &summary), 0);
        for (size_t i = 0; i < N; i++) {
            struct tamis_plan plan = {0};
            if (many[i].error < 1)
                OK(tamis_plan_filter(s[i].n_keys, many[i].error, NULL, &plan));
            assert_memory_equal(&plan, &many[i].plan, sizeof plan);
            bytes += plan.file_bytes;
            if (pairs && i % 2 && many[i].error < 1) {
                double ratio = log(many[i].error / many[i].ideal_error);
                first = first == 0 ? ratio : first;
                n_unlike += fabs(ratio - first) > 0.5;
            }
        }
        IS(n_unlike, 0);
        IS(bytes, summary.best.file_bytes);
        assert_in_range(bytes, most - most / 200, most);
    }
}

TEST(a_hundred_thousand_segments)
{
    enum { N = 100000 };
    static struct tamis_plan_segment s[N];
    static struct tamis_plan_share many[N];
    const uint64_t bytes = UINT64_C(20000000000);
    for (size_t i = 0; i < N; i++)
        s[i] = (struct tamis_plan_segment){1000 + i * 7919 % 100 * 2500, i};
    IS(plan_bytes(s, N, bytes, many, &summary), 0);
    assert_true(summary.best.file_bytes <= bytes);
    assert_true((double)summary.best.file_bytes > (double)bytes * 0.99);
    assert_true(summary.best.reads < summary.uniform.reads);
    double wanted = summary.best.reads;
    IS(plan_reads(s, N, wanted, many, &summary), 0);
    assert_true(summary.best.reads <= wanted);
    assert_true((double)summary.best.file_bytes < (double)bytes * 1.02);
    /* All alike: some have the one size of filter that there is, the others none. */
    for (size_t i = 0; i < N; i++)
        s[i].n_keys = 100;
    IS(plan_bytes(s, N, 8192 * 1000 + 8191, many, &summary), 0);
    IS(summary.best.n_filters, 1000);
    IS(plan_reads(s, N, N - 1000 + 0.5, many, &summary), 0);
    IS(summary.best.n_filters, 1000);
}

RUN_TESTS(NULL, NULL)
