/* How much memory each filter of a store should have.
 *
 * A lookup of an absent key reads a run for each false positive of its filter, so
 * errors add up over runs, and memory belongs where it saves most: ideal.c has the
 * closed form, in which the error is in proportion to the keys of the run. A lookup
 * meets one segment of a run, the larger ones more often; by the share of their keys
 * that gives all of them the same error.
 *
 * Filters have whole pages and lanes, a header and digests. So the factor of proportion
 * is fitted to what they really take; who would waste less than the same memory saves
 * elsewhere has none; and what is left over goes, a step at a time, where it saves
 * most. */
#include "lib/plan/store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const uint64_t MOST_KEYS = UINT64_C(1) << 48;
enum { N_MEMOS = 1 << 15 };

/* What was planned already: sizes repeat, and a plan takes some 20 microseconds. */
struct memo {
    uint64_t n_keys;
    struct tamis_plan_share share; /* with the error as the other half of the key */
};

/* ---- runs and weights ---- */

static int store_plan_begin(struct store_plan *p,
                            const struct tamis_plan_segment *segments, size_t n)
{
    *p = (struct store_plan){.segments = segments, .n = n};
    for (size_t i = 0; i < n; i++)
        if (segments[i].n_keys > MOST_KEYS || segments[i].run >= n)
            return TAMIS_ERR_RANGE;
    p->weights = calloc(n + 1, sizeof *p->weights);
    p->runs = calloc(n + 1, sizeof *p->runs);
    p->memos = calloc(N_MEMOS, sizeof *p->memos);
    if (!p->weights || !p->runs || !p->memos)
        return ENOMEM;
    /* An empty segment counts as one of a key: a lookup may meet it all the same. */
    for (size_t i = 0; i < n; i++)
        p->runs[segments[i].run] += fmax((double)segments[i].n_keys, 1);
    for (size_t i = 0; i < n; i++)
        p->weights[i] = fmax((double)segments[i].n_keys, 1) / p->runs[segments[i].run];
    for (size_t i = 0; i < n; i++)
        p->n_runs += p->runs[i] > 0;
    return 0;
}

static void store_plan_end(struct store_plan *p)
{
    free(p->weights);
    free(p->runs);
    free(p->memos);
}

double scale_of(const struct store_plan *p, size_t i)
{
    return p->uniform ? 1 : p->runs[p->segments[i].run];
}

/* ---- one share ---- */

/* Four digits, which are printed and given back without loss; none that are more. */
static double rounded_down(double error)
{
    double unit = pow(10, floor(log10(error)) - 3);
    return fmax(floor(error / unit) * unit, ERROR_MIN);
}

const struct tamis_plan_share no_filter = {.error = 1};

/* Up, by at most 0.2%. */
static uint64_t rounded_keys(uint64_t n_keys)
{
    int shift = n_keys < 1024 ? 0 : 54 - __builtin_clzll(n_keys);
    uint64_t unit = UINT64_C(1) << shift;
    return (n_keys + unit - 1) / unit * unit;
}

/* A filter at this error, or none if there is no such. */
struct tamis_plan_share share_at(const struct store_plan *p, size_t i, double error)
{
    struct tamis_plan_share s = {.error = rounded_down(fmin(error, ERROR_MAX))};
    uint64_t n_keys = p->segments[i].n_keys;
    if (p->rough)
        n_keys = rounded_keys(n_keys);
    uint64_t hash = (n_keys + (uint64_t)llround(s.error * 1e12)) * 0x9e3779b97f4a7c15;
    struct memo *m = &p->memos[hash >> 32 & (N_MEMOS - 1)];
    if (m->share.error == s.error && m->n_keys == n_keys)
        return m->share.plan.file_bytes ? m->share : no_filter;
    if (tamis_plan_filter(n_keys, s.error, &s.plan) != 0)
        memset(&s.plan, 0, sizeof s.plan);
    *m = (struct memo){n_keys, s};
    return s.plan.file_bytes ? s : no_filter;
}

double reads_of(const struct tamis_plan_share *s)
{
    return s->plan.file_bytes ? s->plan.error : 1;
}

/* ---- divisions ---- */

void division_total(const struct store_plan *p, struct division *d)
{
    double ideal_reads = d->total.ideal_reads;
    d->total = (struct tamis_plan_total){.ideal_reads = ideal_reads};
    for (size_t i = 0; i < p->n; i++) {
        d->total.n_filters += d->shares[i].plan.file_bytes != 0;
        d->total.file_bytes += d->shares[i].plan.file_bytes;
        d->total.reads += p->weights[i] * reads_of(&d->shares[i]);
    }
}

static int division_begin(const struct store_plan *p, struct division *d)
{
    *d = (struct division){.shares = malloc((p->n + 1) * sizeof *d->shares)};
    if (!d->shares)
        return ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        d->shares[i] = no_filter;
    division_total(p, d);
    return 0;
}

/* Sets the ideal's reads, and its errors in the shares; *scale is where to begin. */
static int ideal(const struct store_plan *p, uint64_t bytes, struct division *d,
                 double *scale)
{
    double *runs = malloc((p->n + 1) * sizeof *runs);
    size_t n = 0;
    if (!runs)
        return ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        if (p->runs[i] > 0)
            runs[n++] = p->runs[i];
    if (p->uniform) {
        d->total.ideal_reads = plan_ideal_uniform(runs, n, (double)bytes * 8);
        *scale = d->total.ideal_reads / fmax((double)n, 1);
    } else {
        d->total.ideal_reads = plan_ideal(runs, n, (double)bytes * 8, scale);
    }
    free(runs);
    return 0;
}

/* What is best within `limit`, then better by what is left over. */
static int best_division(struct store_plan *p, const struct limit *limit,
                         struct division *d)
{
    struct division trial = {0};
    double guess = 1;
    int err = division_begin(p, d);
    if (!err)
        err = division_begin(p, &trial);
    if (!err && !limit->by_reads)
        err = ideal(p, limit->bytes, d, &guess);
    double ideal_reads = d->total.ideal_reads;
    if (!err && !(limit->by_reads && division_fits(d, limit)))
        division_fit(p, limit, guess, d, &trial);
    d->total.ideal_reads = ideal_reads;
    if (!err && !limit->by_reads && !p->uniform &&
        (p->n <= FEW || !division_is_close(d, limit)))
        err = division_fill(p, limit->bytes, d);
    if (!err && limit->by_reads)
        err = division_fits(d, limit) ? division_thin(p, limit->reads, d)
                                      : TAMIS_ERR_RANGE;
    free(trial.shares);
    return err;
}

static int uniform_division(struct store_plan *p, uint64_t bytes, struct division *d)
{
    struct limit limit = {.bytes = bytes};
    p->uniform = true;
    int err = best_division(p, &limit, d);
    p->uniform = false;
    return err;
}

/* One error for all is as good only by luck, with few pages to divide: then that. */
static int use_uniform(const struct store_plan *p, const struct limit *limit,
                       struct division *d, struct division *uniform)
{
    double ideal_reads = d->total.ideal_reads;
    memcpy(d->shares, uniform->shares, p->n * sizeof *d->shares);
    d->scale = uniform->scale / p->runs[p->segments[0].run];
    division_total(p, d);
    d->total.ideal_reads = ideal_reads;
    return limit->by_reads ? 0 : division_fill(p, limit->bytes, d);
}

static int both_divisions(struct store_plan *p, const struct limit *limit,
                          struct division *best, struct division *uniform)
{
    double scale;
    int err = best_division(p, limit, best);
    uint64_t bytes = limit->by_reads ? best->total.file_bytes : limit->bytes;
    if (!err)
        err = uniform_division(p, bytes, uniform);
    if (!err && uniform->total.reads < best->total.reads)
        err = use_uniform(p, limit, best, uniform);
    if (!err)
        err = ideal(p, bytes, best, &scale);
    for (size_t i = 0; i < p->n && !err; i++)
        best->shares[i].ideal_error = fmin(1, scale * scale_of(p, i));
    return err;
}

static int plan_within(const struct tamis_plan_segment *segments, size_t n,
                       const struct limit *limit, struct tamis_plan_share *shares,
                       struct tamis_plan_summary *summary)
{
    struct store_plan p;
    struct division d = {0}, uniform = {0};
    int err = store_plan_begin(&p, segments, n);
    if (!err)
        err = both_divisions(&p, limit, &d, &uniform);
    if (!err && n)
        memcpy(shares, d.shares, n * sizeof *shares);
    if (!err && summary)
        *summary = (struct tamis_plan_summary){
            .n_runs = p.n_runs,
            .best = d.total,
            .uniform = uniform.total,
            .uniform_error = uniform.total.n_filters ? uniform.shares[0].error : 1,
        };
    free(d.shares);
    free(uniform.shares);
    store_plan_end(&p);
    return err;
}

static int plan_or_nothing(const struct tamis_plan_segment *segments, size_t n,
                           const struct limit *limit, struct tamis_plan_share *shares,
                           struct tamis_plan_summary *summary)
{
    bool too_many = n > SIZE_MAX / sizeof *shares / 2; /* no array has so many shares */
    int err = too_many || isnan(limit->reads)
                  ? TAMIS_ERR_RANGE
                  : plan_within(segments, n, limit, shares, summary);
    if (err && summary)
        memset(summary, 0, sizeof *summary);
    for (size_t i = 0; i < n && err && !too_many; i++)
        shares[i] = (struct tamis_plan_share){0};
    return err;
}

/* ---- the public calls ---- */

int tamis_plan_store(const struct tamis_plan_segment *segments, size_t n,
                     uint64_t bytes, struct tamis_plan_share *shares,
                     struct tamis_plan_summary *summary)
{
    struct limit limit = {.bytes = bytes};
    return plan_or_nothing(segments, n, &limit, shares, summary);
}

int tamis_plan_store_reads(const struct tamis_plan_segment *segments, size_t n,
                           double reads, struct tamis_plan_share *shares,
                           struct tamis_plan_summary *summary)
{
    struct limit limit = {.by_reads = true, .reads = reads};
    return plan_or_nothing(segments, n, &limit, shares, summary);
}
