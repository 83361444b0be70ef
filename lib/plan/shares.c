/* One filter of a store at a given error: the memory that it takes and the reads that
 * it saves. Real files have whole pages; ideal filters have any size.
 *
 * The latter is the closed form of Monkey (Dayan, Athanassoulis, Idreos, SIGMOD 2017,
 * section 4): what ideal filters of a given sum of bits can do for the reads of absent
 * keys. n keys at the error e take -n ln e / ln^2 2 bits. Over runs of N_j keys the sum
 * of errors is least where each is scale * N_j: then a bit more saves the same
 * anywhere. Where that would be 1 and more the run has no filter, and its bits go to
 * the others; those are the largest runs. */
#include "lib/plan/inside.h"

/* ---- one share ---- */

const struct tamis_plan_share no_filter = {.error = 1};

double scale_of(const struct store_plan *p, size_t i)
{
    return p->uniform ? 1 : p->runs[p->segments[i].run];
}

/* A filter of this kind, or of the kind that takes fewer bytes; zero: none. */
static void plan_of_kind(uint32_t kind, uint64_t n_keys, double error,
                         struct tamis_plan *plan)
{
    struct tamis_plan ribbon;
    if (kind == TAMIS_RIBBON || plan_of_bloom(n_keys, error, true, plan) != 0)
        memset(plan, 0, sizeof *plan);
    if (kind == TAMIS_BLOOM || plan_of_ribbon(n_keys, error, &ribbon) != 0)
        return;
    if (plan->file_bytes == 0 || ribbon.file_bytes < plan->file_bytes)
        *plan = ribbon;
}

/* A filter at this error, or none if there is no such. */
struct tamis_plan_share share_at(const struct store_plan *p, size_t i, double error)
{
    /* Down to four digits, which are printed and given back without loss. */
    error = fmin(error, ERROR_MAX);
    double unit = pow(10, floor(log10(error)) - 3);
    struct tamis_plan_share s = {.error = fmax(floor(error / unit) * unit, ERROR_MIN)};
    uint64_t n_keys = p->segments[i].n_keys;
    if (p->rough && n_keys >= 1024) { /* up, by at most 0.2% */
        uint64_t step = UINT64_C(1) << (54 - __builtin_clzll(n_keys));
        n_keys = (n_keys + step - 1) / step * step;
    }
    uint64_t hash = (n_keys + (uint64_t)llround(s.error * 1e12)) * 0x9e3779b97f4a7c15;
    struct memo *m = &p->memos[hash >> 32 & (N_MEMOS - 1)];
    if (m->share.error == s.error && m->n_keys == n_keys)
        return m->share.plan.file_bytes ? m->share : no_filter;
    plan_of_kind(p->kind, n_keys, s.error, &s.plan);
    *m = (struct memo){n_keys, s};
    return s.plan.file_bytes ? s : no_filter;
}

double worth_of_bits(const struct store_plan *p)
{
    return p->kind == TAMIS_BLOOM ? 1 : 1 / M_LN2;
}

double reads_of(const struct tamis_plan_share *s)
{
    return s->plan.file_bytes ? s->plan.error : 1;
}

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

/* ---- ideal filters ---- */

static int smaller_first(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The scale at which the smallest runs, as many as have a filter, take these bits;
 * infinite if none has one. */
static double ideal_scale(double *runs, size_t n, double bits)
{
    double keys = 0, weighted = 0; /* sums of N and of N ln N */
    double scale = INFINITY;
    qsort(runs, n, sizeof *runs, smaller_first);
    for (size_t i = 0; i < n; i++) {
        if (runs[i] <= 0)
            continue;
        keys += runs[i];
        weighted += runs[i] * log(runs[i]);
        double log_scale = -(bits * LN2_SQUARED + weighted) / keys;
        if (log_scale + log(runs[i]) <= 0)
            scale = exp(log_scale);
    }
    return scale;
}

double plan_ideal(double *runs, size_t n, double bits, double *scale)
{
    double sum = 0;
    *scale = ideal_scale(runs, n, bits);
    for (size_t i = 0; i < n; i++)
        sum += isinf(*scale) ? 1 : fmin(1, *scale * runs[i]);
    return sum;
}

double plan_ideal_uniform(const double *runs, size_t n, double bits)
{
    double keys = 0;
    for (size_t i = 0; i < n; i++)
        keys += runs[i];
    return keys > 0 ? (double)n * exp(-bits * LN2_SQUARED / keys) : (double)n;
}
