/* How much memory each filter of a store should have.
 *
 * A lookup of an absent key reads a run for each false positive of its filter, so
 * errors add up over runs, and memory belongs where it saves most: shares.c has the
 * closed form, in which the error is in proportion to the keys of the run. A lookup
 * meets one segment of a run, the larger ones more often; by the share of their keys
 * that gives all of them the same error.
 *
 * Filters have whole pages and lanes, a header and digests. So the factor of proportion
 * is fitted to what they really take; who would waste less than the same memory saves
 * elsewhere has none; and what is left over goes, a step at a time, where it saves
 * most. */
#include "lib/plan/inside.h"
#include "lib/error.h"

static const uint64_t MOST_KEYS = UINT64_C(1) << 48;

/* ---- runs and weights ---- */

static int store_plan_begin(struct store_plan *p, uint32_t kind,
                            const struct tamis_plan_segment *segments, size_t n)
{
    *p = (struct store_plan){.segments = segments, .n = n, .kind = kind};
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

/* ---- divisions ---- */

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
    double bits = (double)bytes * 8 * worth_of_bits(p);
    size_t n = 0;
    if (!runs)
        return ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        if (p->runs[i] > 0)
            runs[n++] = p->runs[i];
    if (p->uniform) {
        d->total.ideal_reads = plan_ideal_uniform(runs, n, bits);
        *scale = d->total.ideal_reads / fmax((double)n, 1);
    } else {
        d->total.ideal_reads = plan_ideal(runs, n, bits, scale);
    }
    free(runs);
    return 0;
}

/* Finds the best division within `limit`, then spends the rest of the limit. */
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
                       uint32_t kind, const struct limit *limit,
                       struct tamis_plan_share *shares,
                       struct tamis_plan_summary *summary)
{
    struct store_plan p;
    struct division d = {0}, uniform = {0};
    int err = store_plan_begin(&p, kind, segments, n);
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
    free(p.weights);
    free(p.runs);
    free(p.memos);
    return err;
}

/* ---- the public call ---- */

int tamis_plan_store(const struct tamis_plan_segment *segments, size_t n,
                     uint64_t bytes, double reads, uint32_t kind,
                     struct tamis_plan_share *shares,
                     struct tamis_plan_summary *summary)
{
    struct limit limit = {.by_reads = reads != 0, .bytes = bytes, .reads = reads};
    bool too_many = n > SIZE_MAX / sizeof *shares / 2; /* no array has so many shares */
    int err = too_many || isnan(reads) || kind > TAMIS_RIBBON || kind == TAMIS_PACK
                  ? TAMIS_ERR_RANGE
                  : plan_within(segments, n, kind, &limit, shares, summary);
    if (err && summary)
        memset(summary, 0, sizeof *summary);
    for (size_t i = 0; i < n && err && !too_many; i++)
        shares[i] = (struct tamis_plan_share){0};
    return err;
}

/* ---- one filter ---- */

int tamis_plan_filter(uint64_t n_keys, double error,
                      const struct tamis_plan_options *opt, struct tamis_plan *plan)
{
    struct tamis_plan_options o;
    memset(plan, 0, sizeof *plan);
    if (options_copy(&o, sizeof o, opt) || o.kind == TAMIS_PACK ||
        o.kind > TAMIS_RIBBON ||
        (o.kind == TAMIS_RIBBON) + (o.most_bytes != 0) + (o.blocks != 0) > 1)
        return TAMIS_ERR_RANGE;
    return o.most_bytes             ? plan_in_bytes(o.most_bytes, n_keys, error, plan)
           : o.kind == TAMIS_RIBBON ? plan_of_ribbon(n_keys, error, plan)
                                    : plan_of_bloom(n_keys, error, !o.blocks, plan);
}
