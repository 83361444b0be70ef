/* Estimates the number of keys from the number of set bits, with its error bounds.
 *
 * A key sets a given bit of a lane with chance p = words / (512 n_blocks). So n keys
 * leave a share q(n) = (1 - p)^n of the bits clear, and of a share z that is clear
 *
 *     n = ln z / ln (1 - p)
 *
 * is the estimate (S. J. Swamidass, P. Baldi: Mathematical correction for fingerprint
 * similarity measures to improve chemical retrieval, J. Chem. Inf. Model. 47 (2007),
 * 952-964; O. Papapetrou, W. Siberski, W. Nejdl: Cardinality estimation and dynamic
 * length adaptation for Bloom filters, Distrib. Parallel Databases 28 (2010), 119-156).
 *
 * How far it may be off they say for classic filters; bits of a block are not as
 * independent as theirs. Let X and Y be two sets of keys with k keys in common, Z_X and
 * Z_Y how many of a lane's N bits they leave clear. Bit i is clear in X and bit j in Y
 * if the common keys set neither, chance 1 - 2p + p_ij each, those of X alone not i and
 * those of Y alone not j, chance 1 - p each. p_ij, the chance that one key sets both,
 * is p for i = j; 0 for bits of one word, or of two blocks; else c(d) / (8 * 64 * 64 *
 * n_blocks), where c(d) of the eight windows have both of two words at distance d.
 * Hence
 *
 *     cov(Z_X, Z_Y) = q_X q_Y V(k)
 *     V(k) = sum over i, j of ((1 - 2p + p_ij) / (1 - p)^2)^k - 1
 *
 * which is exact for ideal hashes: no Poisson loads are assumed, for V holds the slight
 * negative correlation that a fixed n brings (its terms of two blocks). To first order
 * n_X moves by dZ_X / (N q_X ln (1 - p)); lanes are independent. So of n_X and n_Y
 *
 *     cov(n_X, n_Y) = v(k) = V(k) / (lanes N^2 ln^2 (1 - p))
 *
 * and only the number of common keys matters. For A, B and their union U, of which A
 * and B are parts, the common ones of the pairs are n_A, n_B, n_A, n_B, n_U, and n_I,
 * of A and B: the variance of n_I = n_A + n_B - n_U is v(n_U) - v(n_A) - v(n_B) + 2
 * v(n_I).
 */
#include "lib/plan/plan.h"

#include <math.h>

static const double Z = 1.959963984540054; /* 95% of a normal distribution */

/* How many of the eight windows have both of two words at distance d. */
static uint32_t windows_with_both(uint32_t words, uint32_t d)
{
    uint32_t n = 0;
    for (uint32_t start = 0; start < WORDS_PER_BLOCK; start++)
        n += (WORDS_PER_BLOCK - start) % WORDS_PER_BLOCK < words &&
             (WORDS_PER_BLOCK + d - start) % WORDS_PER_BLOCK < words;
    return n;
}

struct spread {
    double p, log_clear;          /* ln (1 - p) */
    double lanes, bits;           /* of each lane, as far as they were counted */
    double both[WORDS_PER_BLOCK]; /* p_ij of two words, by distance */
};

static struct spread spread_of(const struct geometry *g, uint64_t n_bits)
{
    struct spread s = {.lanes = g->lanes};
    double n_blocks = (double)g->n_blocks;
    s.p = g->words / (BLOCK_BITS * n_blocks);
    s.log_clear = log1p(-s.p);
    s.bits = (double)n_bits / s.lanes;
    for (uint32_t d = 1; d < WORDS_PER_BLOCK; d++)
        s.both[d] = windows_with_both(g->words, d) / (8 * 64 * 64 * n_blocks);
    return s;
}

/* ((1 - 2p + both) / (1 - p)^2)^k - 1 */
static double term(const struct spread *s, double both, double k)
{
    double clear = 1 - s->p;
    return expm1(k * log1p((both - s->p * s->p) / (clear * clear)));
}

/* v(k). */
static double common_variance(const struct spread *s, double k)
{
    double apart = term(s, 0, k), sum = term(s, s->p, k) + 63 * apart;
    for (uint32_t d = 1; d < WORDS_PER_BLOCK; d++)
        sum += 64 * term(s, s->both[d], k);
    sum += (s->bits - BLOCK_BITS) * apart;
    double v = sum / (s->lanes * s->bits * s->log_clear * s->log_clear);
    return v > 0 ? v : 0;
}

/* The number of keys whose expected share of clear bits, plus `sign` times Z
 * deviations, is `clear`. If few bits are clear, counting them is far better than
 * taking their logarithm, as the number of keys does. */
static double bound(const struct spread *s, double clear, double seen, double sign)
{
    enum { STEPS = 100 };
    double low = 0, high = 2 * seen + 64;
    for (int i = 0; i < STEPS; i++) {
        double n = (low + high) / 2;
        double spread = Z * -s->log_clear * sqrt(common_variance(s, n));
        if (exp(n * s->log_clear) * (1 + sign * spread) > clear)
            low = n;
        else
            high = n;
    }
    return (low + high) / 2;
}

void plan_keys_interval(const struct geometry *g, uint64_t n_bits, uint64_t n_set,
                        struct tamis_interval *out)
{
    *out = (struct tamis_interval){0, 0, INFINITY};
    if (n_bits == 0)
        return;
    if (n_set == 0) {
        out->high = 0; /* a key sets bits */
        return;
    }
    struct spread s = spread_of(g, n_bits);
    bool full = n_set >= n_bits;
    double set = (double)(full ? n_bits - 1 : n_set);
    double seen = log1p(-set / (s.bits * s.lanes)) / s.log_clear;
    out->value = full ? INFINITY : seen;
    double clear = full ? 0 : 1 - (double)n_set / (double)n_bits;
    out->low = floor(bound(&s, clear, seen, -1));
    if (!full)
        out->high = ceil(bound(&s, clear, seen, 1));
}

void plan_sum_interval(const struct tamis_interval *parts, uint32_t n,
                       struct tamis_interval *out)
{
    double below = 0, above = 0;
    *out = (struct tamis_interval){0, 0, 0};
    for (uint32_t i = 0; i < n; i++) {
        double down = parts[i].value - parts[i].low,
               up = parts[i].high - parts[i].value;
        out->value += parts[i].value;
        below += down * down;
        above += up * up;
    }
    out->low = isfinite(out->value) ? fmax(out->value - sqrt(below), 0) : 0;
    out->high = isfinite(out->value) ? out->value + sqrt(above) : INFINITY;
}

/* Two filters, with a and b keys. `jaccard`: their Jaccard index is sought; else the
 * number of keys in both. */
struct overlap {
    struct spread spread;
    double a, b, va, vb;
    bool jaccard;
};

/* The quantity sought, if `common` keys are in both, and half the width of its
 * interval. For few keys half a key is added: they share a handful of bits by chance,
 * or none, which is not a normal distribution. */
static double overlap_of(const struct overlap *o, double common, double *half)
{
    double all = fmax(o->a + o->b - common, fmax(o->a, o->b));
    double v = common_variance(&o->spread, all),
           twice = 2 * common_variance(&o->spread, common);
    if (!o->jaccard) {
        *half = Z * sqrt(fmax(v - o->va - o->vb + twice, 0)) + 0.5;
        return common;
    }
    /* J = (a + b) / all - 1, to first order. */
    double sum = (o->a + o->b) / all;
    v = o->va + o->vb + twice + sum * sum * v - 2 * sum * (o->va + o->vb);
    *half = (Z * sqrt(fmax(v, 0)) + 0.5) / all;
    return fmin(common / all, 1);
}

/* The least (sign 1) or the most (-1) that is not too far from the estimate: as far as
 * it would be if that were true. A value far off at the estimate may not be so at a
 * bound, where filters are less full, or fuller. */
static double overlap_bound(const struct overlap *o, double estimate, double sign,
                            double most)
{
    enum { STEPS = 60 };
    double end = sign > 0 ? 0 : most, start = most - end, half;
    double value = overlap_of(o, end, &half);
    if (sign * (value - estimate) + half >= 0)
        return value;
    for (int i = 0; i < STEPS; i++) {
        double middle = (start + end) / 2;
        value = overlap_of(o, middle, &half);
        if (sign * (value - estimate) + half >= 0)
            start = middle;
        else
            end = middle;
    }
    return overlap_of(o, start, &half);
}

/* And as far as at the estimate: the wider of the two. */
static struct tamis_interval overlap_interval(const struct overlap *o, double estimate,
                                              double common, double most)
{
    double half, unused, greatest = overlap_of(o, most, &unused);
    overlap_of(o, fmin(fmax(common, 0), most), &half);
    double low = fmin(overlap_bound(o, estimate, 1, most), estimate - half),
           high = fmax(overlap_bound(o, estimate, -1, most), estimate + half);
    return (struct tamis_interval){fmin(fmax(estimate, 0), greatest), fmax(low, 0),
                                   fmin(high, greatest)};
}

void plan_overlap(const struct geometry *g, uint64_t n_bits, const uint64_t set[3],
                  struct tamis_comparison *out)
{
    plan_keys_interval(g, n_bits, set[0], &out->keys[0]);
    plan_keys_interval(g, n_bits, set[1], &out->keys[1]);
    plan_keys_interval(g, n_bits, set[2], &out->all);
    double a = out->keys[0].value, b = out->keys[1].value, all = out->all.value;
    double common = a + b - all, most = fmin(out->keys[0].high, out->keys[1].high);
    out->common = (struct tamis_interval){0, 0, most};
    out->jaccard = (struct tamis_interval){0, 0, 1};
    if (n_bits == 0 || !isfinite(all) || all <= 0)
        return;
    struct overlap o = {.spread = spread_of(g, n_bits), .a = a, .b = b};
    o.va = common_variance(&o.spread, a);
    o.vb = common_variance(&o.spread, b);
    out->common = overlap_interval(&o, common, common, most);
    o.jaccard = true;
    out->jaccard = overlap_interval(&o, common / all, common, most);
}

/* E. B. Wilson, Probable inference, the law of succession, and statistical inference,
 * Journal of the American Statistical Association 22 (1927), 209-212: the shares p for
 * which k of n lies within Z standard deviations of p * n. */
void error_interval(uint64_t k, uint64_t n, double *low, double *high)
{
    *low = 0;
    *high = 1;
    if (n == 0)
        return;
    double p = (double)k / (double)n, zz = Z * Z / (double)n;
    double middle = (p + zz / 2) / (1 + zz);
    double half = Z / (1 + zz) * sqrt(p * (1 - p) / (double)n + zz / (double)n / 4);
    /* The ends are exact: rounding must not move them. */
    *low = k == 0 ? 0 : fmax(middle - half, 0);
    *high = k == n ? 1 : middle + half;
}
