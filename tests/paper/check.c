/* The checkable statements of the paper, and those of our README.md, one line each. */
#include "tests/paper/kinds.h"
#include "tests/paper/series.h"

#include <stdarg.h>

static unsigned passed, failed;

__attribute__((format(printf, 2, 3))) static void ok(bool good, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf(good ? "ok   " : "FAILED: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    passed += good;
    failed += !good;
}

/* As printed, with two decimals. */
static bool rounds_to(double x, double printed)
{
    return fabs(x - printed) <= 0.005;
}

/* Section 4: 255 slices of 128 bits, half full, and what s = 1 takes for as many. */
static void check_figure1(void)
{
    struct tamis_growth g = {PAPER_ERROR, 2, 0.5, 89};
    struct series s2, s1;
    double keys = 255 * PAPER_FIRST_M * log(2), taken;
    series_grow(LAYOUT_SLICES, &g, keys, &s2);
    g.factor = 1;
    series_grow(LAYOUT_SLICES, &g, keys, &s1);
    ok(s2.n == 8 && floor(s2.total_keys) == 22624,
       "figure 1: %u stages, s = 2, hold %.0f keys", s2.n, floor(s2.total_keys));
    ok(s2.total_bits == 882304, "figure 1: they take %.0f bits", s2.total_bits);
    taken = s2.total_bits / (keys * static_bits_per_key(LAYOUT_SLICES, 0, PAPER_ERROR));
    ok(rounds_to(taken, 1.36), "figure 1: %.4f times a static filter", taken);
    ok(s1.n == 255 && s1.total_bits == 128 * (255 * 21 + 254 * 255 / 2),
       "figure 1: s = 1 takes %u stages of %.0f bits", s1.n, s1.total_bits);
}

static double full_space(enum layout layout, double factor, double r, uint32_t *stages)
{
    struct tamis_growth g = {PAPER_ERROR, factor, r, LANES_FIRST};
    struct series s;
    series_grow(layout, &g, LANES_FIRST * 1e6, &s);
    *stages = s.n;
    return s.total_bits / s.total_keys /
           static_bits_per_key(LAYOUT_IDEAL, 0, PAPER_ERROR);
}

static void check_figures2_3(void)
{
    static const struct {
        double factor, space;
        uint32_t stages;
    } cases[] = {{2, 1.96, 20}, {4, 1.54, 11}};
    for (size_t i = 0; i < 2; i++) {
        uint32_t n, lanes_n;
        double factor = cases[i].factor,
               space = full_space(LAYOUT_SLICES, factor, 0.5, &n),
               lanes = full_space(LAYOUT_LANES, factor, 0.5, &lanes_n),
               usual = full_space(LAYOUT_LANES, factor, 0.85, &lanes_n);
        ok(rounds_to(space, cases[i].space),
           "figure 2: relative space at growth 10^6, s = %g: %.4f", factor, space);
        ok(n == cases[i].stages && lanes_n == n,
           "figure 3: stages at growth 10^6, s = %g: %u", factor, n);
        ok(lanes < 1.12 * space && usual < space,
           "figure 2: lanes %.4f, with r = 0.85 %.4f", lanes, usual);
    }
}

/* "Choosing r around 0.8 - 0.9 will result in better average space usage for wide
 * ranges of growth." */
static void check_figures4_to_6(void)
{
    static const enum layout layouts[] = {LAYOUT_IDEAL, LAYOUT_SLICES, LAYOUT_LANES};
    static const char *const names[] = {"ideal k", "whole slices", "lanes"};
    static const struct tightening_range range = {0.5, 0.95, 0.01},
                                         half = {0.5, 0.5, 1};
    for (size_t i = 0; i < 3; i++) {
        for (int factor = 2; factor <= 4; factor += 2) {
            struct tamis_growth g = {PAPER_ERROR, factor, 0, LANES_FIRST};
            struct optimum best[] = {{.growth = 1e2}, {.growth = 1e6}},
                           at_half[] = {{.growth = 1e6}};
            best_tightenings(layouts[i], g, &range, best, 2);
            best_tightenings(layouts[i], g, &half, at_half, 1);
            ok(best[1].r >= 0.795 && best[1].r <= 0.915,
               "figure 6: best r up to growth 10^6, s = %d, %s: %.2f", factor, names[i],
               best[1].r);
            ok(best[0].r < best[1].r && at_half[0].space > 1.05 * best[1].space,
               "figures 4 and 5: there %.3f, with r = 0.5 %.3f; up to 10^2 r = %.2f",
               best[1].space, at_half[0].space, best[0].r);
        }
    }
}

/* P <= P0 / (1 - r), and each sum of stages below its own bound. The intervals are of
 * 99%, and there are twenty, of nested filters: a few may miss what was planned. */
static void check_measured(void)
{
    for (size_t k = 0; k < 2; k++) {
        const struct tamis_growth *g = &measured_growths[k];
        struct measured m[MEASURED_STAGES];
        int as_planned = 0;
        measure_growth(g, m);
        for (int i = 0; i < MEASURED_STAGES; i++) {
            ok(m[i].error + m[i].half_width <= g->error && m[i].error <= m[i].bound,
               "measured, P %g, r %g: %d stages, %.0f keys: %.4g%% +- %.2g, bound "
               "%.4g%%",
               g->error, g->tightening, i + 1, m[i].keys, 100 * m[i].error,
               100 * m[i].half_width, 100 * m[i].bound);
            as_planned += fabs(m[i].error - m[i].planned) <= m[i].half_width;
        }
        ok(as_planned >= 8, "measured: %d of 10 are as planned", as_planned);
        ok(m[9].error > 0.8 * m[9].bound && m[9].half_width < 0.05 * m[9].error,
           "measured: the bound is near, and the interval narrow");
    }
}

/* The defaults against those before, and against the r of the paper's figures. */
static void check_defaults(void)
{
    static const double errors[] = {1e-2, 1e-3, 1e-4};
    for (size_t i = 0; i < 3; i++) {
        struct growth_mean now, before, paper, narrow, narrow_before;
        mean_growth(GROWTH_DEFAULT, errors[i], 1e4, 1e9, &now);
        mean_growth(GROWTH_BEFORE, errors[i], 1e4, 1e9, &before);
        mean_growth(GROWTH_PAPER, errors[i], 1e4, 1e9, &paper);
        mean_growth(GROWTH_DEFAULT, errors[i], 1e5, 1e8, &narrow);
        mean_growth(GROWTH_BEFORE, errors[i], 1e5, 1e8, &narrow_before);
        ok(now.bits_per_key <= 0.95 * before.bits_per_key &&
               now.bits_per_key < 0.87 * paper.bits_per_key,
           "defaults, error %g, 10^4 to 10^9 keys: %.2f bits a key, before %.2f, with "
           "the paper's r %.2f",
           errors[i], now.bits_per_key, before.bits_per_key, paper.bits_per_key);
        ok(now.stages <= 1.12 * before.stages, "defaults: %.2f stages, before %.2f",
           now.stages, before.stages);
        ok(narrow.bits_per_key <= 0.98 * narrow_before.bits_per_key &&
               narrow.stages <= 1.12 * narrow_before.stages,
           "defaults, 10^5 to 10^8 keys: %.2f bits a key, before %.2f",
           narrow.bits_per_key, narrow_before.bits_per_key);
    }
}

/* README.md's statements about kinds: bits against log2(1/error), errors, and no lost
 * key. Times depend on the machine, so README.md has none. */
static void check_kind(enum kind_name kind, double error, double most, double least)
{
    enum { N = 200000 };
    struct kind_point p;
    measure_kind(kind, error, N, &p);
    double sigma = sqrt(error / (4 * N)), ratio = p.bits_per_key / -log2(error);
    ok(p.lost == 0 && p.error <= error + 4 * sigma && ratio <= most && ratio >= least,
       "kinds, %s at %g%%: measured %.4f%%, %.2f bits, %.3f times the least",
       kind_names[kind], 100 * error, 100 * p.error, p.bits_per_key, ratio);
}

static void check_kinds(void)
{
    check_kind(KIND_CLASSIC, 0.01, 1.45, 1.44);
    check_kind(KIND_BLOCKED, 0.01, 1.60, 1.44);
    check_kind(KIND_LANES, 0.01, 1.56, 1.44);
    check_kind(KIND_LANES, 0.001, 1.56, 1.44);
    check_kind(KIND_RIBBONS, 0.01, 1.10, 1.0);
    check_kind(KIND_RIBBONS, 0.001, 1.08, 1.0);
    check_kind(KIND_LISTS, 0.001, 1.35, 1.0);
}

int paper_check(void)
{
    check_figure1();
    check_figures2_3();
    check_figures4_to_6();
    check_defaults();
    check_measured();
    check_kinds();
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
