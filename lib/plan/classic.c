/* The layout of the literature, which no file of ours has: k slices of m bits, of which
 * a key sets one each (Almeida et al., *Scalable Bloom Filters*, 2007, sections 2 and
 * 4). A slice that is half full holds most for its bits: n = m ln 2 keys, and the
 * filter errs with 2^-k, so k = log2(1/P), which must be rounded up. */
#include "lib/internal.h"

#include <float.h>
#include <math.h>

/* A slice is hit with chance 1 - (1 - 1/m)^n; all k are with that to the k. */
static uint64_t exact_keys(const struct tamis_classic *c, double error)
{
    double slice = pow(error, 1.0 / c->k);
    return (uint64_t)(log1p(-slice) / log1p(-1 / (double)c->m));
}

int tamis_plan_classic(uint64_t n_bytes, double error, struct tamis_classic *out)
{
    memset(out, 0, sizeof *out);
    if (!(error > 0 && error < 1) || n_bytes == 0 || n_bytes > UINT64_MAX / 8)
        return TAMIS_ERR_RANGE;
    double bits = (double)n_bytes * 8;
    out->k = (uint32_t)ceil(-log2(error));
    out->m = n_bytes * 8 / out->k;
    if (out->m < 2)
        return TAMIS_ERR_RANGE;
    out->n = (uint64_t)(bits * M_LN2 * M_LN2 / -log(error));
    out->n_exact = exact_keys(out, error);
    return 0;
}

int tamis_plan_classic_stage(const struct tamis_growth *growth, uint64_t first_m,
                             uint32_t stage, struct tamis_classic *out)
{
    memset(out, 0, sizeof *out);
    double p = growth->error, s = growth->factor, r = growth->tightening;
    if (!(p > 0 && p < 1) || !(s >= 1) || !(r > 0 && r < 1) || first_m < 2)
        return TAMIS_ERR_RANGE;
    double m = ceil((double)first_m * pow(s, stage));
    double error = p * (1 - r) * pow(r, stage);
    if (!(m < 0x1p53) || error < DBL_MIN)
        return TAMIS_ERR_TOO_LARGE;
    out->k = (uint32_t)ceil(-log2(error));
    out->m = (uint64_t)m;
    out->n = (uint64_t)(m * M_LN2);
    out->n_exact = exact_keys(out, error);
    return 0;
}
