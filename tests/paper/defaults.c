/* The default growth beside others: allocated bits a key and stages, as means over
 * sizes whose logarithms are uniform. All stages that were begun count, the last one
 * whole. A negative must miss in each of them. README.md tells why these are the
 * defaults. */
#include "tests/paper/series.h"

/* In the order of enum growth_choice: the default, the one before, the r of the paper's
 * figures. Then others. */
static const struct tamis_growth growths[] = {
    {0},
    {0, 2, 0.85, LANES_FIRST},
    {0, 2, 0.5, LANES_FIRST},
    {0, 2, 0.8, LANES_FIRST},
    {0, 2, 0.9, LANES_FIRST},
    {0, 1.75, 0.85, LANES_FIRST},
    {0, 1.5, 0.85, LANES_FIRST},
    {0, 2, 0.85, 50000},
    {0, 1.75, 0.85, 50000},
    {0, 2.3, 0.82, 32768},
    {0, 2, 0.85, 32768},
    {0, 1.65, 0.87, 27554},
};

/* Curves of the first three. */
static const char *const names[] = {"default", "before", "paper"};

static struct series series_of(struct tamis_growth growth, double error)
{
    struct series s;
    growth.error = error;
    series_grow(LAYOUT_LANES, &growth, 1e9, &s);
    return s;
}

void mean_growth(size_t which, double error, double from, double to,
                 struct growth_mean *out)
{
    struct series s = series_of(growths[which], error);
    out->bits_per_key = series_mean_space(&s, from, to, 1);
    out->stages = series_mean_stages(&s, from, to);
}

static void means(const char *dir)
{
    static const double errors[] = {1e-2, 1e-3, 1e-4};
    FILE *f = csv_create(dir, "defaults",
                         "n0,s,r,error,bits_1e4_1e9,stages_1e4_1e9,bits_1e5_1e8,"
                         "stages_1e5_1e8");
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < sizeof growths / sizeof growths[0]; i++) {
            struct tamis_growth g = growths[i];
            struct growth_mean wide, narrow;
            mean_growth(i, errors[k], 1e4, 1e9, &wide);
            mean_growth(i, errors[k], 1e5, 1e8, &narrow);
            growth_complete(&g);
            fprintf(f, "%llu,%g,%g,%g,%.2f,%.2f,%.2f,%.2f\n",
                    (unsigned long long)g.first_capacity, g.factor, g.tightening,
                    errors[k], wide.bits_per_key, wide.stages, narrow.bits_per_key,
                    narrow.stages);
        }
    }
    csv_close(f);
}

/* Bits a key at each size, and those of a filter built for it. */
static void sizes(const char *dir)
{
    enum { A_DECADE = 60 };
    FILE *f = csv_create(dir, "sizes", "curve,keys,bits_per_key");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct series s = series_of(growths[i], 0.01);
        for (int p = 0; p <= 5 * A_DECADE; p++) {
            double keys = 1e4 * pow(10, (double)p / A_DECADE);
            fprintf(f, "%s,%.6g,%.4f\n", names[i], keys, series_bits(&s, keys) / keys);
        }
    }
    for (double keys = 1e4; keys < 2e9; keys *= 10)
        fprintf(f, "static,%.6g,%.4f\n", keys,
                static_bits_per_key(LAYOUT_LANES, keys, 0.01));
    csv_close(f);
}

int paper_defaults(const char *dir)
{
    means(dir);
    sizes(dir);
    return 0;
}
