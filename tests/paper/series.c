/* Series of stages in each layout: see series.h. Our own are asked of the library; the
 * paper's, and sums and means, are made here. */
#include "tests/paper/series.h"

static void die(const char *what, const char *name)
{
    fprintf(stderr, "paper: %s %s\n", what, name);
    exit(3);
}

/* k slices of m bits, of which a key sets one each (section 2). A slice that is half
 * full holds most for its bits: m ln 2 keys, and the filter errs with 2^-k, so k =
 * log2(1/P), which must be rounded up. */
uint32_t n_slices(double error)
{
    return (uint32_t)ceil(-log2(error));
}

/* The paper's n = M (ln 2)^2 / ln(1/P). */
double formula_bits_per_key(double error)
{
    return -log(error) / (M_LN2 * M_LN2);
}

static double lanes_bits(double keys, double error)
{
    struct geometry g;
    double expected;
    if (plan_stage_geometry((uint64_t)ceil(keys), error, &g, &expected) != 0)
        die("no filter of", "so many keys");
    return (double)(g.n_blocks * g.lanes * BLOCK_BITS);
}

double static_bits_per_key(enum layout layout, double keys, double error)
{
    return layout == LAYOUT_LANES ? lanes_bits(keys, error) / keys
                                  : formula_bits_per_key(error);
}

static bool append(struct series *s, double keys, double bits)
{
    if (s->n == SERIES_MAX)
        return false;
    s->total_keys += keys;
    s->total_bits += bits;
    s->keys[s->n] = s->total_keys;
    s->bits[s->n++] = s->total_bits;
    return true;
}

/* One more stage of a series that begins as zeros. */
static bool series_add(struct series *s, enum layout layout, double keys, double error)
{
    double bits = layout == LAYOUT_LANES ? lanes_bits(keys, error)
                                         : keys * formula_bits_per_key(error);
    return (layout != LAYOUT_LANES || s->n < MAX_STAGES) && append(s, keys, bits);
}

static bool add_slices(struct series *s, const struct tamis_growth *growth)
{
    double first_m = round((double)growth->first_capacity / M_LN2);
    double m = ceil(first_m * pow(growth->factor, s->n));
    double error =
        growth->error * (1 - growth->tightening) * pow(growth->tightening, s->n);
    return m < 0x1p53 && append(s, m * M_LN2, n_slices(error) * m);
}

static bool add_lanes(struct series *s, const struct tamis_growth *growth)
{
    struct tamis_plan p;
    if (tamis_plan_stage(growth, s->n, &p) != 0)
        return false;
    return append(s, (double)p.n_keys, 8 * (double)p.bits_bytes);
}

bool series_grow(enum layout layout, const struct tamis_growth *growth, double size,
                 struct series *out)
{
    bool more = true;
    memset(out, 0, sizeof *out);
    while (more && out->total_keys < size) {
        double i = out->n;
        if (layout == LAYOUT_SLICES)
            more = add_slices(out, growth);
        else if (layout == LAYOUT_LANES)
            more = add_lanes(out, growth);
        else
            more = series_add(
                out, layout, (double)growth->first_capacity * pow(growth->factor, i),
                growth->error * (1 - growth->tightening) * pow(growth->tightening, i));
    }
    return more;
}

/* A size that is just full, but for the rounding of a sum, needs no further stage. */
uint32_t series_stages(const struct series *s, double size)
{
    uint32_t n = 1;
    while (n < s->n && s->keys[n - 1] * (1 + 1e-12) < size)
        n++;
    return n;
}

double series_bits(const struct series *s, double size)
{
    return s->bits[series_stages(s, size) - 1];
}

/* The parts of [from, to] on which the number of stages is the same: in each, bits over
 * size integrates to B (1/low - 1/high), the number of stages to l ln(high/low). */
static double integrate(const struct series *s, double from, double to, bool stages)
{
    double low = from, sum = 0;
    for (uint32_t i = 0; i < s->n && low < to; i++) {
        double high = s->keys[i] < to ? s->keys[i] : to;
        if (high <= low)
            continue;
        sum += stages ? (i + 1) * log(high / low) : s->bits[i] * (1 / low - 1 / high);
        low = high;
    }
    return sum / log(to / from);
}

double series_mean_space(const struct series *s, double from, double to,
                         double bits_per_key)
{
    return integrate(s, from, to, false) / bits_per_key;
}

double series_mean_stages(const struct series *s, double from, double to)
{
    return integrate(s, from, to, true);
}

void best_tightenings(enum layout layout, struct tamis_growth growth,
                      const struct tightening_range *range, struct optimum *out,
                      size_t n)
{
    double bits_per_key = static_bits_per_key(LAYOUT_IDEAL, 0, growth.error);
    for (size_t i = 0; i < n; i++)
        out[i].space = INFINITY;
    for (double r = range->low; r < range->high + range->step / 2; r += range->step) {
        struct series s;
        growth.tightening = r;
        double first = (double)growth.first_capacity, size = first * out[n - 1].growth;
        series_grow(layout, &growth, size, &s);
        for (size_t i = 0; i < n && first * out[i].growth <= s.total_keys; i++) {
            double space =
                series_mean_space(&s, first, first * out[i].growth, bits_per_key);
            if (space < out[i].space) {
                out[i].space = space;
                out[i].r = r;
            }
        }
    }
}

void must(int err, const char *what)
{
    if (err != 0)
        die(what, tamis_strerror(err));
}

FILE *csv_create(const char *dir, const char *name, const char *heading)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.csv", dir, name);
    FILE *f = fopen(path, "w");
    if (!f)
        die("cannot write", path);
    fprintf(f, "%s\n", heading);
    return f;
}

void csv_close(FILE *f)
{
    if (fclose(f) != 0)
        die("cannot write", "a table");
}
