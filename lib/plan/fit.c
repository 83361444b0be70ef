/* The scale of errors at which a store's filters just fit into the memory that there is
 * (or waste just the reads that they may), and what becomes of the rest.
 *
 * More scale is more error and less memory, in steps: a filter has whole pages. The
 * search begins where ideal filters would fit, and goes on as they would: their reads
 * are in proportion to the scale, their bits to its logarithm. */
#include "lib/plan/inside.h"

enum { MOST_PASSES = 40, MOST_STEPS = 20000 };
/* Good enough: at most this share of the limit is left over. */
static const double SLACK = 1e-3;

/* ---- all shares at one scale ---- */

/* The cost of the segment at this scale: its reads, and its bytes. The price of a byte
 * is how many reads it saves at this scale, in filters of any size. */
static double cost(const struct store_plan *p, size_t i, double scale,
                   const struct tamis_plan_share *s)
{
    double price = scale * LN2_SQUARED * worth_of_bits(p) * 8;
    return p->weights[i] * reads_of(s) + price * (double)s->plan.file_bytes;
}

/* Filters of a few pages are far from any size: the best of those about the one that
 * is due, if there are not too many segments to try so much. Their errors are the same
 * at every scale, so that most were planned before. */
static void try_neighbours(const struct store_plan *p, size_t i, double scale,
                           struct tamis_plan_share *s)
{
    enum { FEW_PAGES = 16, TRIED = 512 };
    const double due = scale * scale_of(p, i);
    if (p->n > TRIED || s->plan.file_bytes > FEW_PAGES * PAGE_BYTES)
        return;
    for (double error = ERROR_MAX; error > ERROR_MIN; error /= 2) {
        if (error < due / 64 || error > due * 64)
            continue;
        struct tamis_plan_share other = share_at(p, i, error);
        if (cost(p, i, scale, &other) < cost(p, i, scale, s))
            *s = other;
    }
}

static void divide(const struct store_plan *p, double scale, struct division *d)
{
    d->scale = scale;
    for (size_t i = 0; i < p->n; i++) {
        double error = scale * scale_of(p, i);
        struct tamis_plan_share *s = &d->shares[i];
        *s = p->uniform && error > ERROR_MAX ? no_filter : share_at(p, i, error);
        if (p->uniform)
            continue;
        try_neighbours(p, i, scale, s);
        if (cost(p, i, scale, &no_filter) < cost(p, i, scale, s))
            *s = no_filter;
    }
    division_total(p, d);
}

/* ---- the scale that fits ---- */

bool division_fits(const struct division *d, const struct limit *limit)
{
    return limit->by_reads ? d->total.reads <= limit->reads
                           : d->total.file_bytes <= limit->bytes;
}

/* Where ideal filters would fit better: reads are in proportion to the scale, bits to
 * its logarithm. */
static double better_scale(const struct store_plan *p, const struct division *d,
                           const struct limit *limit)
{
    double keys = 0;
    if (limit->by_reads)
        return d->scale * limit->reads * (1 - SLACK / 2) / d->total.reads;
    for (size_t i = 0; i < p->n; i++)
        keys += d->shares[i].plan.file_bytes ? (double)p->segments[i].n_keys : 0;
    double over = (double)d->total.file_bytes - (double)limit->bytes * (1 - SLACK / 2);
    return d->scale * exp(over * 8 * LN2_SQUARED / fmax(keys, 1));
}

bool division_is_close(const struct division *d, const struct limit *limit)
{
    return limit->by_reads
               ? d->total.reads >= limit->reads * (1 - SLACK)
               : (double)d->total.file_bytes >= (double)limit->bytes * (1 - SLACK);
}

static void swap(struct division *a, struct division *b)
{
    struct division c = *a;
    *a = *b;
    *b = c;
}

static void fit(const struct store_plan *p, const struct limit *limit, double guess,
                struct division *best, struct division *trial)
{
    double smallest = INFINITY, largest = 0;
    for (size_t i = 0; i < p->n; i++) {
        smallest = fmin(smallest, scale_of(p, i));
        largest = fmax(largest, scale_of(p, i));
    }
    /* From an error of 1e-8 for the largest run to no filter for the smallest. */
    double low = ERROR_MIN / largest, high = 1 / smallest, scale = low;
    for (int i = 0; i < MOST_PASSES && low <= high; i++) {
        divide(p, scale, trial);
        bool good = division_fits(trial, limit), first = i == 0;
        if (limit->by_reads ? good : !good)
            low = trial->scale;
        else
            high = trial->scale;
        double next = first ? guess : better_scale(p, trial, limit);
        if (good)
            swap(best, trial);
        /* The largest filters fit; or even they are not enough. */
        if (first && good != limit->by_reads)
            return;
        if (good && division_is_close(best, limit))
            return;
        if (!(next > low && next < high) || i % 8 == 7)
            next = sqrt(low * high);
        scale = next;
    }
}

/* For many segments the first division is rough, and is refined. */
void division_fit(struct store_plan *p, const struct limit *limit, double guess,
                  struct division *best, struct division *trial)
{
    const double little = limit->by_reads ? 1 / 1.002 : 1.002;
    p->rough = p->n > FEW;
    fit(p, limit, guess, best, trial);
    if (p->rough && best->total.n_filters) {
        p->rough = false;
        divide(p, best->scale, best);
        for (int i = 0; i < 1000 && !division_fits(best, limit); i++)
            divide(p, best->scale * little, best);
    }
    p->rough = false;
}

/* ---- what is left over ---- */

struct step {
    size_t segment;
    struct tamis_plan_share to;
    double gain; /* reads saved a byte */
};

static int most_gain_first(const void *left, const void *right)
{
    const struct step *a = left, *b = right;
    return (a->gain < b->gain) - (a->gain > b->gain);
}

static void step_try(const struct store_plan *p, const struct division *d, size_t i,
                     double error, uint64_t spare, struct step *best)
{
    const struct tamis_plan_share *now = &d->shares[i];
    if (error < ERROR_MIN)
        return;
    struct tamis_plan_share to = share_at(p, i, error);
    double saved = p->weights[i] * (reads_of(now) - reads_of(&to));
    uint64_t more = to.plan.file_bytes > now->plan.file_bytes
                        ? to.plan.file_bytes - now->plan.file_bytes
                        : 0;
    if (saved <= 0 || more > spare)
        return;
    double gain = saved / fmax((double)more, 1);
    if (gain > best->gain)
        *best = (struct step){i, to, gain};
}

/* The next larger filter; of one that has none yet, the best of several. */
static struct step step_of(const struct store_plan *p, const struct division *d,
                           size_t i, uint64_t spare)
{
    struct step best = {.segment = i};
    const struct tamis_plan_share *now = &d->shares[i];
    const bool many = p->n > FEW;
    if (now->plan.file_bytes)
        step_try(p, d, i, now->plan.error * 0.999, spare, &best);
    if (now->plan.file_bytes && !many)
        step_try(p, d, i, now->plan.error * 0.5, spare, &best);
    if (!now->plan.file_bytes && many)
        step_try(p, d, i, d->scale * scale_of(p, i), spare, &best);
    for (double e = ERROR_MAX; e > ERROR_MIN && !now->plan.file_bytes && !many; e /= 4)
        step_try(p, d, i, e, spare, &best);
    return best;
}

/* Rounds of a step for each segment that can have one, most gain first. */
int division_fill(const struct store_plan *p, uint64_t bytes, struct division *d)
{
    struct step *steps = malloc((p->n + 1) * sizeof *steps);
    size_t rounds = MOST_STEPS / (p->n + 1) + 1, n;
    if (!steps)
        return ENOMEM;
    do {
        uint64_t spare = bytes - d->total.file_bytes;
        n = 0;
        for (size_t i = 0; i < p->n; i++) {
            steps[n] = step_of(p, d, i, spare);
            n += steps[n].gain > 0;
        }
        qsort(steps, n, sizeof *steps, most_gain_first);
        for (size_t i = 0; i < n; i++) {
            struct tamis_plan_share *s = &d->shares[steps[i].segment];
            uint64_t free_bytes = spare + s->plan.file_bytes;
            if (steps[i].to.plan.file_bytes > free_bytes)
                continue;
            spare = free_bytes - steps[i].to.plan.file_bytes;
            *s = steps[i].to;
        }
        division_total(p, d);
    } while (n > 0 && --rounds > 0);
    free(steps);
    return 0;
}

/* The reverse, for a limit of reads: filters that save least for their size go. */
int division_thin(const struct store_plan *p, double reads, struct division *d)
{
    struct step *steps = malloc((p->n + 1) * sizeof *steps);
    size_t n = 0;
    if (!steps)
        return ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        if (d->shares[i].plan.file_bytes)
            steps[n++] = (struct step){
                .segment = i,
                .gain = p->weights[i] * (1 - reads_of(&d->shares[i])) /
                        (double)d->shares[i].plan.file_bytes,
            };
    qsort(steps, n, sizeof *steps, most_gain_first);
    while (n-- > 0) {
        struct tamis_plan_share *s = &d->shares[steps[n].segment];
        double more = p->weights[steps[n].segment] * (1 - reads_of(s));
        if (d->total.reads + more > reads * (1 - 1e-12))
            continue;
        d->total.reads += more;
        *s = no_filter;
    }
    division_total(p, d);
    free(steps);
    return 0;
}
