/* Table 1 and figures 1 to 6 of the paper, as CSV. tests/paper/README.md says what each
 * curve is, and what differs from print. */
#include "tests/paper/series.h"

/* Table 1: what 32 KiB of slices hold. */
static void table1(const char *dir)
{
    static const double errors[] = {1e-3, 1e-4, 1e-5, 1e-6};
    FILE *f = csv_create(dir, "table1", "error,k,m,n,n_exact");
    for (size_t i = 0; i < 4; i++) {
        uint32_t k = n_slices(errors[i]);
        double m = floor(32768 * 8.0 / k), slice = pow(errors[i], 1.0 / k);
        fprintf(f, "%g,%u,%.0f,%.0f,%.0f\n", errors[i], k, m,
                floor(32768 * 8 / formula_bits_per_key(errors[i])),
                floor(log1p(-slice) / log1p(-1 / m)));
    }
    csv_close(f);
}

/* r = 0.5, m0 = 128: a size's bits, each time just before a stage is added and just
 * after, so that the curve has its steps. */
static void space_curve(FILE *f, const char *name, enum layout layout, double factor)
{
    struct tamis_growth g = {PAPER_ERROR, factor, 0.5, 89}; /* 128 ln 2 keys */
    struct series s;
    double max = 25000, from = 0;
    series_grow(layout, &g, max, &s);
    for (uint32_t i = 0; i < s.n; i++) {
        double to = s.keys[i] < max ? s.keys[i] : max;
        fprintf(f, "%s,%.6g,%.0f\n%s,%.6g,%.0f\n", name, from, s.bits[i], name, to,
                s.bits[i]);
        from = to;
    }
}

static void figure1(const char *dir)
{
    FILE *f = csv_create(dir, "figure1", "curve,keys,bits");
    double bits_per_key = static_bits_per_key(LAYOUT_SLICES, 0, PAPER_ERROR);
    space_curve(f, "s1", LAYOUT_SLICES, 1);
    space_curve(f, "s2", LAYOUT_SLICES, 2);
    space_curve(f, "lanes", LAYOUT_LANES, 2);
    fprintf(f, "static,0,0\nstatic,25000,%.0f\n", 25000 * bits_per_key);
    csv_close(f);
}

/* Relative space of full stages. */
static void full_stages(FILE *f, const char *name, enum layout layout,
                        const struct tamis_growth *g, double max_growth)
{
    struct series s;
    double bits_per_key = static_bits_per_key(LAYOUT_IDEAL, 0, g->error);
    series_grow(layout, g, (double)g->first_capacity * max_growth, &s);
    for (uint32_t i = 0; i < s.n; i++)
        fprintf(f, "%s,%.6g,%.5f\n", name, s.keys[i] / s.keys[0],
                s.bits[i] / s.keys[i] / bits_per_key);
}

static void figure2(const char *dir)
{
    FILE *f = csv_create(dir, "figure2", "curve,growth,space");
    for (int factor = 2; factor <= 4; factor += 2) {
        struct tamis_growth g = {PAPER_ERROR, factor, 0.5, LANES_FIRST};
        full_stages(f, factor == 2 ? "s2" : "s4", LAYOUT_SLICES, &g, 1.5e6);
        full_stages(f, factor == 2 ? "lanes_s2" : "lanes_s4", LAYOUT_LANES, &g, 1.5e6);
        g.tightening = 0.85;
        full_stages(f, factor == 2 ? "lanes_s2_r85" : "lanes_s4_r85", LAYOUT_LANES, &g,
                    1.5e6);
    }
    csv_close(f);
}

static void figure3(const char *dir)
{
    FILE *f = csv_create(dir, "figure3", "s,growth_1e2,growth_1e4,growth_1e6");
    for (double factor = 1.25; factor < 16.005; factor += 0.01) {
        struct tamis_growth g = {PAPER_ERROR, factor, 0.5, LANES_FIRST};
        struct series s;
        series_grow(LAYOUT_IDEAL, &g, LANES_FIRST * 1e6, &s);
        fprintf(f, "%.2f,%u,%u,%u\n", factor, series_stages(&s, LANES_FIRST * 1e2),
                series_stages(&s, LANES_FIRST * 1e4),
                series_stages(&s, LANES_FIRST * 1e6));
    }
    csv_close(f);
}

/* The values of r that the library allows, and those that the formulas do. */
static const struct tightening_range lanes_range = {0.5, 0.95, 0.05},
                                     lanes_fine = {0.5, 0.95, 0.01},
                                     ideal_range = {0.02, 0.99, 0.01};

static void mean_space(FILE *f, const char *layout_name, enum layout layout,
                       const double *factors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tamis_growth g = {PAPER_ERROR, factors[i], 0, LANES_FIRST};
        struct optimum o[] = {{.growth = 1e2}, {.growth = 1e4}, {.growth = 1e6}};
        best_tightenings(layout, g,
                         layout == LAYOUT_LANES ? &lanes_range : &ideal_range, o, 3);
        for (size_t k = 0; k < 3; k++)
            if (isfinite(o[k].space))
                fprintf(f, "%s_1e%zu,%.3f,%.5f,%.2f\n", layout_name, 2 * k + 2,
                        factors[i], o[k].space, o[k].r);
    }
}

static void figure4(const char *dir)
{
    static const double few[] = {1.25, 1.5, 2, 3, 4, 5, 6, 8};
    FILE *f = csv_create(dir, "figure4", "curve,s,space,r");
    double many[68];
    for (size_t i = 0; i < 68; i++)
        many[i] = 1.25 + 0.1 * (double)i;
    mean_space(f, "ideal", LAYOUT_IDEAL, many, 68);
    mean_space(f, "slices", LAYOUT_SLICES, many, 68);
    mean_space(f, "lanes", LAYOUT_LANES, few, sizeof few / sizeof few[0]);
    csv_close(f);
}

static void figure5(const char *dir)
{
    static const double ratios[] = {0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95};
    FILE *f = csv_create(dir, "figure5", "curve,growth,space");
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        struct tamis_growth g = {PAPER_ERROR, 2, ratios[i], LANES_FIRST};
        char name[32];
        snprintf(name, sizeof name, "r%g", ratios[i]);
        full_stages(f, name, LAYOUT_IDEAL, &g, 1.5e6);
        snprintf(name, sizeof name, "lanes_r%g", ratios[i]);
        full_stages(f, name, LAYOUT_LANES, &g, 1.5e6);
    }
    csv_close(f);
}

static void optimal_r(FILE *f, const char *name, enum layout layout, double factor)
{
    enum { N = 21 }; /* four a decade, 10 to 10^6 */
    struct tamis_growth g = {PAPER_ERROR, factor, 0, LANES_FIRST};
    struct optimum o[N];
    for (size_t i = 0; i < N; i++)
        o[i].growth = pow(10, 1 + (double)i / 4);
    best_tightenings(layout, g, layout == LAYOUT_LANES ? &lanes_fine : &ideal_range, o,
                     N);
    for (size_t i = 0; i < N; i++)
        fprintf(f, "%s,%.6g,%.2f,%.5f\n", name, o[i].growth, o[i].r, o[i].space);
}

static void figure6(const char *dir)
{
    FILE *f = csv_create(dir, "figure6", "curve,growth,r,space");
    optimal_r(f, "s2", LAYOUT_IDEAL, 2);
    optimal_r(f, "s4", LAYOUT_IDEAL, 4);
    optimal_r(f, "slices_s2", LAYOUT_SLICES, 2);
    optimal_r(f, "slices_s4", LAYOUT_SLICES, 4);
    optimal_r(f, "lanes_s2", LAYOUT_LANES, 2);
    optimal_r(f, "lanes_s4", LAYOUT_LANES, 4);
    csv_close(f);
}

int paper_figures(const char *dir)
{
    table1(dir);
    figure1(dir);
    figure2(dir);
    figure3(dir);
    figure4(dir);
    figure5(dir);
    figure6(dir);
    return 0;
}
