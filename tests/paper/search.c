/* Is there a growth rule that takes less space than the geometric series, at the same
 * error of the whole and no more stages? Judged by the mean space of sizes from 10^2 to
 * 10^6 times the first stage, against a static filter of the same layout, and by the
 * stages, each of which a negative must miss. README.md tells what came of it. */
#include "tests/paper/rules.h"

#include <math.h>

/* ---- the last stage folded at seal ---- */

/* The formulas: a slice of `keys`, made for `capacity` at half full, is folded until
 * the error is `budget`. Folding keeps the number of slices. */
static double folded_ideal(double bits, double keys, double capacity, double error,
                           double budget)
{
    double fill = pow(budget, -1 / log2(error));
    double factor = -log2(1 - fill) * capacity / keys;
    return factor > 1 ? bits / factor : bits;
}

uint64_t fold_factor(const struct geometry *g, double keys, double budget)
{
    uint64_t pages = g->n_blocks / BLOCKS_PER_PAGE, best = 1;
    for (uint64_t i = 1; i * i <= pages; i++) {
        if (pages % i != 0)
            continue;
        const uint64_t factors[] = {i, pages / i};
        for (int k = 0; k < 2; k++) {
            struct geometry folded = {g->n_blocks / factors[k], g->lanes, g->words};
            if (factors[k] > best &&
                plan_geometry_error(&folded, (uint64_t)keys) <= budget)
                best = factors[k];
        }
    }
    return best;
}

static double folded_lanes(const struct geometry *g, double keys, double budget)
{
    uint64_t n_blocks = g->n_blocks / fold_factor(g, keys, budget);
    return (double)(n_blocks * g->lanes * BLOCK_BITS);
}

/* Mean bits a key over sizes from..to of a filter that is sealed, its last stage folded
 * as far as the error lets it: what the stages it never got would have had is free. */
static double folded_bits(const struct stages *s, const struct series *open,
                          enum layout layout, double error, double from, double to)
{
    enum { N = 200 };
    struct geometry g[MAX_STAGES];
    double sum = 0, expected;
    for (uint32_t i = 0; i < open->n; i++)
        plan_stage_geometry((uint64_t)s->keys[i], s->errors[i], &g[i], &expected);
    for (int p = 0; p < N; p++) {
        double size = from * pow(to / from, (p + 0.5) / N), budget = error;
        uint32_t last = series_stages(open, size) - 1;
        double before = last ? open->bits[last - 1] : 0;
        double keys = size - (last ? open->keys[last - 1] : 0);
        for (uint32_t i = 0; i < last; i++)
            budget -= s->errors[i];
        sum += (before + (layout == LAYOUT_LANES
                              ? folded_lanes(&g[last], keys, budget)
                              : folded_ideal(open->bits[last] - before, keys,
                                             s->keys[last], s->errors[last], budget))) /
               size;
    }
    return sum / N;
}

/* ---- rules judged ---- */

static bool judge(const struct rule *r, enum layout layout, double error,
                  struct finding *out)
{
    struct stages s;
    struct series open = {0};
    double first = LANES_FIRST, from = first * RANGE_FROM, to = first * RANGE_TO;
    double bits_per_key = static_bits_per_key(layout, from, error);
    rule_stages(r, error, &s);
    while (open.n < s.n && open.total_keys < to)
        if (!series_add(&open, layout, s.keys[open.n], s.errors[open.n]))
            return false;
    if (open.total_keys < to)
        return false;
    out->stages = series_mean_stages(&open, from, to);
    out->most_stages = series_stages(&open, to);
    if (r->fold) {
        out->space = folded_bits(&s, &open, layout, error, from, to) / bits_per_key;
        out->small_space =
            folded_bits(&s, &open, layout, error, first, from) / bits_per_key;
    } else {
        out->space = series_mean_space(&open, from, to, bits_per_key);
        out->small_space = series_mean_space(&open, first, from, bits_per_key);
    }
    return true;
}

bool search_rule(const char *name, enum layout layout, double error,
                 struct finding *out)
{
    const struct rule *r = rule_named(name);
    return r && judge(r, layout, error, out);
}

static void judge_all(FILE *f, enum layout layout, double error)
{
    struct finding usual, found;
    judge(rule_at(0), layout, error, &usual);
    printf("\n%s, error %g: mean over growth 10^2 to 10^6, and 1 to 10^2\n",
           layout == LAYOUT_LANES ? "lanes" : "formulas", error);
    printf("%-30s %7s %7s %7s %7s %7s %5s\n", "rule", "space", "saved", "small",
           "saved", "stages", "most");
    const struct rule *r;
    for (size_t i = 0; (r = rule_at(i)); i++) {
        if (!judge(r, layout, error, &found))
            continue;
        double saved = 100 * (1 - found.space / usual.space),
               small_saved = 100 * (1 - found.small_space / usual.small_space);
        printf("%-30s %7.3f %6.1f%% %7.3f %6.1f%% %7.2f %5u\n", r->name, found.space,
               saved, found.small_space, small_saved, found.stages, found.most_stages);
        fprintf(f, "\"%s\",%s,%g,%.4f,%.2f,%.4f,%.2f,%.3f,%u\n", r->name,
                layout == LAYOUT_LANES ? "lanes" : "formulas", error, found.space,
                saved, found.small_space, small_saved, found.stages, found.most_stages);
    }
}

int paper_search(const char *dir)
{
    static const double errors[] = {1e-2, 1e-4, 1e-6};
    FILE *f = csv_create(dir, "search",
                         "rule,layout,error,space,saved_percent,space_below_1e2,"
                         "saved_percent_below_1e2,stages,stages_at_1e6");
    for (size_t i = 0; i < 3; i++)
        judge_all(f, LAYOUT_LANES, errors[i]);
    for (size_t i = 0; i < 3; i++)
        judge_all(f, LAYOUT_IDEAL, errors[i]);
    csv_close(f);
    return 0;
}
